"""Arrow columns as the Python values that tests.peers.flink gives, so that rows of all engines compare."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from tests import corpus

from bucketlake.types.model import DataField, DataType, Root

EXACT = Context(prec=80)
UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
EPOCH = dt.datetime(1970, 1, 1)
ORDINAL = dt.date(1970, 1, 1).toordinal()


def arrow_rows(table: pa.Table, fields: Sequence[DataField]) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table as tuples in the order of `fields`, values as tests.peers.flink.Result documents."""
    columns = [column_values(table.column(field.name), field.type) for field in fields]
    return list(zip(*columns, strict=True)) if columns else []


def column_values(column: pa.ChunkedArray | pa.Array, kind: DataType) -> list[Any]:
    """One column's values in that form."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [value for chunk in chunks for value in _array_values(chunk, kind)]


def _array_values(array: pa.Array, kind: DataType) -> list[Any]:
    array = _plain(array)
    if kind.root in NESTED:
        return NESTED[kind.root](array, kind)
    if pa.types.is_timestamp(array.type):
        unit = UNITS[array.type.unit]
        integers = array.cast(pa.timestamp(array.type.unit)).cast(pa.int64()).to_pylist()
        return [None if value is None else timestamp_value(value * unit, kind) for value in integers]
    if pa.types.is_date(array.type):
        return [None if value is None else date_value(value) for value in array.cast(pa.int32()).to_pylist()]
    if kind.root is Root.TIME:
        return [_time_value(value) for value in array.to_pylist()]
    if kind.root is Root.FLOAT:
        return [None if value is None else float(str(np.float32(value))) for value in array.to_pylist()]
    return [_scalar(value) for value in array.to_pylist()]


def _plain(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        return array.storage
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    return array


def _scalar(value: Any) -> Any:
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def _time_value(value: Any) -> Any:
    if isinstance(value, int):
        return (EPOCH + dt.timedelta(milliseconds=value)).time()
    return value


def _list_values(array: pa.Array, kind: DataType) -> list[Any]:
    element = kind.element
    return [None if not item.is_valid else _array_values(item.values, element) for item in array]


def _map_values(array: pa.Array, kind: DataType) -> list[Any]:
    found: list[Any] = []
    for item in array:
        if not item.is_valid:
            found.append(None)
            continue
        entries = item.values
        keys, values = _array_values(entries.field(0), kind.key), _array_values(entries.field(1), kind.element)
        found.append(dict(zip(keys, values, strict=True)))
    return found


def _row_values(array: pa.Array, kind: DataType) -> list[Any]:
    members = [_array_values(array.field(field.name), field.type) for field in kind.fields]
    rows = list(zip(*members, strict=True))
    return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]


NESTED: dict[Root, Callable[[pa.Array, DataType], list[Any]]] = {
    Root.ARRAY: _list_values,
    Root.MAP: _map_values,
    Root.ROW: _row_values,
}


def timestamp_value(nanos: int, kind: DataType) -> Any:
    """A TIMESTAMP or TIMESTAMP_LTZ of `nanos` since the epoch: a datetime, or text where the precision is above 6."""
    local = kind.root is Root.TIMESTAMP_LTZ
    if (6 if kind.precision is None else kind.precision) > 6:
        seconds, rest = divmod(nanos, 1_000_000_000)
        return f"{(EPOCH + dt.timedelta(seconds=seconds)).isoformat()}.{rest:09d}" + ("Z" if local else "")
    try:
        value = EPOCH + dt.timedelta(microseconds=nanos // 1000)
    except OverflowError:  # years that Python's calendar lacks
        return str(np.datetime64(nanos // 1000, "us")) + ("Z" if local else "")
    return value.replace(tzinfo=dt.timezone.utc) if local else value


def date_value(days: int) -> dt.date:
    """A DATE of days since the epoch."""
    return dt.date.fromordinal(days + ORDINAL)


def shortest(rows: Iterable[tuple[Any, ...]], types: Sequence[str]) -> list[tuple[Any, ...]]:
    """Flink's rows with each FLOAT as the shortest decimal that rounds to it: older Java writes 1e-45 as 1.4E-45."""
    floats = [kind.startswith("FLOAT") for kind in types]
    return [
        tuple(
            float(str(np.float32(value))) if is_float and value is not None else value
            for value, is_float in zip(row, floats, strict=True)
        )
        for row in rows
    ]


def canonical(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Rows as texts in one order, to compare: NaN equals NaN, trailing zeros of decimals mean nothing."""
    return sorted(json.dumps(corpus.encode(settled(row)), ensure_ascii=False) for row in rows)


def settled(value: Any) -> Any:
    """A value without the differences that mean nothing."""
    if isinstance(value, Decimal):
        return value.normalize(EXACT) if value else Decimal(0)
    if isinstance(value, dict):
        return {settled(key): settled(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(map(settled, value))
    return value
