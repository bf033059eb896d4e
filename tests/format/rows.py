"""What tests of rows, hashes and statistics share: types, and values of them as hypothesis strategies."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from bucketlake.types.model import BIGINT, BYTES, INT, STRING, TINYINT, DataType, Root

SMALLINT = DataType(Root.SMALLINT)
BOOLEAN = DataType(Root.BOOLEAN)
FLOAT, DOUBLE = DataType(Root.FLOAT), DataType(Root.DOUBLE)
DATE = DataType(Root.DATE)
TIME = DataType(Root.TIME, precision=3)


def decimal(precision: int, scale: int) -> DataType:
    return DataType(Root.DECIMAL, precision=precision, scale=scale)


def stamp(precision: int) -> DataType:
    return DataType(Root.TIMESTAMP, precision=precision)


def zoned(precision: int) -> DataType:
    return DataType(Root.TIMESTAMP_LTZ, precision=precision)


KINDS = (
    BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DATE, TIME, STRING, BYTES, DataType(Root.CHAR, length=5),
    decimal(1, 0), decimal(18, 4), decimal(19, 4), decimal(38, 10), decimal(38, 38),
    stamp(0), stamp(3), stamp(6), stamp(9), zoned(3), zoned(6), zoned(9),
)  # fmt: skip


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def _datetimes(kind: DataType) -> st.SearchStrategy[Any]:
    precision = 6 if kind.precision is None else kind.precision
    if precision > 6:
        return _integers(64)
    zone = dt.timezone.utc if kind.root is Root.TIMESTAMP_LTZ else None
    found = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
    cut = found if precision > 3 else found.map(lambda v: v.replace(microsecond=v.microsecond // 1000 * 1000))
    return cut.map(lambda v: v.replace(tzinfo=zone))


def values_of(kind: DataType) -> st.SearchStrategy[Any]:
    """Values that the type holds exactly, never None."""
    root = kind.root
    if root is Root.DECIMAL:
        top = 10 ** (kind.precision or 0) - 1
        return st.integers(-top, top).map(lambda n: Decimal(f"{n}E-{kind.scale or 0}"))
    if root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return _datetimes(kind)
    plain: dict[Root, st.SearchStrategy[Any]] = {
        Root.BOOLEAN: st.booleans(),
        Root.TINYINT: _integers(8),
        Root.SMALLINT: _integers(16),
        Root.INT: _integers(32),
        Root.BIGINT: _integers(64),
        Root.FLOAT: st.floats(width=32, allow_nan=False),
        Root.DOUBLE: st.floats(allow_nan=False),
        Root.DATE: st.dates(),
        Root.TIME: st.integers(0, 86_399_999).map(lambda n: (dt.datetime.min + dt.timedelta(milliseconds=n)).time()),
        Root.VARBINARY: st.binary(max_size=30),
    }
    return plain[root] if root in plain else st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
