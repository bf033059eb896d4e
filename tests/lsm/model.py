"""Key types with their values, Arrow form and order in plain Python; rows, runs, and what merging them must give."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from tests.profile import examples as amount

from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.types.model import BIGINT, BYTES, INT, STRING, TINYINT, DataField, DataType, Root

examples = settings(deadline=None, max_examples=amount(20))
WIDE = Context(prec=40)


@dataclass(frozen=True)
class Kind:
    """A key type: how to draw values, make an Arrow column of them, and order them as Paimon does."""

    type: DataType
    values: st.SearchStrategy[Any]
    array: Callable[[Sequence[Any]], pa.Array]
    order: Callable[[Any], Any] = lambda value: value


def _whole(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return st.one_of(st.integers(-3, 3), st.sampled_from([low, low + 1, high - 1, high]), st.integers(low, high))


def _of(arrow: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    return lambda values: pa.array(values, arrow)


def _viewed(storage: pa.DataType, arrow: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    return lambda values: pa.array(values, storage).view(arrow)


def _double_order(value: float) -> tuple[int, int]:
    if math.isnan(value):
        return (2, 0)
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
    return (1, bits) if bits >= 0 else (0, -(bits & 0x7FFFFFFFFFFFFFFF))


def _decimal(precision: int, scale: int) -> Kind:
    top = 10**precision - 1
    whole = st.one_of(st.integers(-3, 3), st.sampled_from([-top, top]), st.integers(-top, top))
    values = whole.map(lambda number: Decimal(number).scaleb(-scale, WIDE))
    kind = DataType(Root.DECIMAL, precision=precision, scale=scale)
    return Kind(kind, values, _of(pa.decimal128(precision, scale)))


SPECIAL = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1.0, -1.0])
TEXT = st.one_of(
    st.text("ab\0", max_size=3),
    st.text("xyz", min_size=7, max_size=17),
    st.text(max_size=12),
    st.integers(0, 40).map(lambda n: f"customer-{n:06d}"),
)
OCTETS = st.one_of(
    st.binary(max_size=3), st.binary(min_size=7, max_size=18), st.sampled_from([b"", b"\0", b"\0" * 8, b"\xff" * 9])
)

KINDS = {
    "boolean": Kind(DataType(Root.BOOLEAN), st.booleans(), _of(pa.bool_())),
    "tinyint": Kind(TINYINT, _whole(8), _of(pa.int8())),
    "smallint": Kind(DataType(Root.SMALLINT), _whole(16), _of(pa.int16())),
    "int": Kind(INT, _whole(32), _of(pa.int32())),
    "bigint": Kind(BIGINT, _whole(64), _of(pa.int64())),
    "float": Kind(
        DataType(Root.FLOAT), st.one_of(SPECIAL.map(lambda v: 0.0 if abs(v) == 5e-324 else v), st.floats(width=32)),
        _of(pa.float32()), _double_order,
    ),
    "double": Kind(DataType(Root.DOUBLE), st.one_of(SPECIAL, st.floats()), _of(pa.float64()), _double_order),
    "decimal9": _decimal(9, 2),
    "decimal18": _decimal(18, 4),
    "decimal38": _decimal(38, 10),
    "string": Kind(STRING, TEXT, _of(pa.string()), lambda value: value.encode()),
    "bytes": Kind(BYTES, OCTETS, _of(pa.binary())),
    "date": Kind(DataType(Root.DATE), _whole(32), _viewed(pa.int32(), pa.date32())),
    "time": Kind(DataType(Root.TIME, precision=3), st.integers(0, 86_399_999), _viewed(pa.int32(), pa.time32("ms"))),
    "timestamp3": Kind(DataType(Root.TIMESTAMP, precision=3), _whole(64), _viewed(pa.int64(), pa.timestamp("ms"))),
    "timestamp9": Kind(DataType(Root.TIMESTAMP, precision=9), _whole(64), _viewed(pa.int64(), pa.timestamp("ns"))),
    "ltz": Kind(
        DataType(Root.TIMESTAMP_LTZ, precision=6), _whole(64), _viewed(pa.int64(), pa.timestamp("us", tz="UTC"))
    ),
}  # fmt: skip


def fields_of(kinds: Sequence[Kind]) -> list[DataField]:
    return [DataField(i, f"_KEY_k{i}", kind.type.with_nullable(False)) for i, kind in enumerate(kinds)]


@dataclass(frozen=True)
class Row:
    """One row: values of its key columns, its sequence number and kind, and a number that tells it from all others."""

    key: tuple[Any, ...]
    sequence: int
    kind: int
    id: int


def ordered(kinds: Sequence[Kind], key: Sequence[Any]) -> tuple[Any, ...]:
    """What a key compares by."""
    return tuple(kind.order(value) for kind, value in zip(kinds, key, strict=True))


def batch_of(kinds: Sequence[Kind], rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as the merge sees them, with their number and a text as value columns."""
    columns = {f"_KEY_k{i}": kind.array([row.key[i] for row in rows]) for i, kind in enumerate(kinds)}
    columns[SEQUENCE_FIELD.name] = pa.array([row.sequence for row in rows], pa.int64())
    columns[KIND_FIELD.name] = pa.array([row.kind for row in rows], pa.int8())
    columns["id"] = pa.array([row.id for row in rows], pa.int64())
    columns["text"] = pa.array([None if row.id % 5 == 0 else f"row {row.id}" for row in rows], pa.string())
    return pa.RecordBatch.from_pydict(columns)


def sliced(batch: pa.RecordBatch, cuts: Sequence[int]) -> list[pa.RecordBatch]:
    """A batch cut at the given rows; equal cuts make empty batches."""
    ends = [0, *sorted(min(cut, batch.num_rows) for cut in cuts), batch.num_rows]
    return [batch.slice(start, stop - start) for start, stop in itertools.pairwise(ends)]


def merged(
    kinds: Sequence[Kind], runs: Sequence[Sequence[Row]], ignore_delete: bool = False, drop_deletes: bool = False
) -> list[int]:
    """Numbers of the rows that stay, in key order: a dict filled from the oldest row to the newest."""
    arrivals = [(row.sequence, run, place, row) for run, rows in enumerate(runs) for place, row in enumerate(rows)]
    newest: dict[tuple[Any, ...], Row] = {}
    for _, _, _, row in sorted(arrivals, key=lambda arrival: arrival[:3]):
        if not (ignore_delete and row.kind in (1, 3)):
            newest[ordered(kinds, row.key)] = row
    return [row.id for _, row in sorted(newest.items()) if not (drop_deletes and row.kind in (1, 3))]


@st.composite
def runs_of(draw: st.DrawFn, kinds: Sequence[Kind], most: int = 40) -> list[list[Row]]:
    """Up to five runs sorted by (key, sequence), drawn from few keys so that they meet; ties of sequences happen."""
    pool = draw(st.lists(st.tuples(*(kind.values for kind in kinds)), min_size=1, max_size=12))
    count = draw(st.integers(0, 5))
    runs: list[list[Row]] = []
    number = 0
    for _ in range(count):
        picks = draw(
            st.lists(
                st.tuples(st.integers(0, len(pool) - 1), st.integers(0, 9), st.sampled_from([0, 0, 0, 1, 2, 3])),
                max_size=most,
            )
        )
        rows = []
        for pick, sequence, kind in picks:
            number += 1
            rows.append(Row(pool[pick], sequence, kind, number))
        rows.sort(key=lambda row: (ordered(kinds, row.key), row.sequence))
        runs.append(rows)
    return runs
