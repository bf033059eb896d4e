"""Statistics of a file's columns: collected from Arrow while writing, stored as BinaryRows, read as Arrow columns.

    SimpleStats := _MIN_VALUES: serialized BinaryRow, _MAX_VALUES: serialized BinaryRow, _NULL_COUNTS: [long?]?

One field a column, in the order of the table's (or key's) columns, or of `_VALUE_STATS_COLS` where that is not null.
A bound is null where it is unknown, or all values are null. Floating point: NaN is the greatest value.

Spec: docs/spec/stats.md
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Literal

from bucketlake.errors import InvalidError
from bucketlake.format.guard import decoding
from bucketlake.format.metadata.manifest import DataFile, SimpleStats
from bucketlake.format.row.binary_row import EMPTY_ROW, decode_columns, from_serialized, serialized, typed_value
from bucketlake.lazy import pa, pc
from bucketlake.types.model import DataField, DataType, Root
from bucketlake.values import dataclass

EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())

_TRUNCATE = re.compile(r"TRUNCATE\((\d+)\)")
_UNBOUNDED = {Root.ARRAY, Root.MAP, Root.ROW, Root.MULTISET, Root.VARIANT, Root.BLOB, Root.VECTOR}
_FLOATS = {Root.FLOAT, Root.DOUBLE}
_NUMBERED = {Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ}
_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = 0xD800


@dataclass(frozen=True, slots=True)
class StatsMode:
    """What is kept of a column. `length`: code points or bytes of a bound, for "truncate"."""

    kind: Literal["none", "counts", "truncate", "full"]
    length: int | None = None

    @staticmethod
    def parse(text: str) -> StatsMode:
        """The mode that an option's value names: none, counts, truncate(n), full. InvalidError for anything else."""
        upper = text.strip().upper()
        if upper == "NONE":
            return StatsMode("none")
        if upper == "COUNTS":
            return StatsMode("counts")
        if upper == "FULL":
            return StatsMode("full")
        found = _TRUNCATE.fullmatch(upper)
        if found is None or int(found[1]) == 0:
            raise InvalidError("unknown statistics mode", mode=text, remedy="use none, counts, truncate(16) or full")
        return StatsMode("truncate", int(found[1]))


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Bounds and number of nulls of one column of one file; None is unknown. Values as `binary_row` has them."""

    min: Any = None
    max: Any = None
    null_count: int | None = None

    @property
    def is_none(self) -> bool:
        """Whether nothing is known: dense storage leaves such columns out."""
        return self.min is None and self.max is None and self.null_count is None


class StatsCollector:
    """Takes the batches of one file as they are written. `modes`: one a field."""

    def __init__(self, fields: Sequence[DataField], modes: Sequence[StatsMode]) -> None:
        self._columns = [_Column(item, mode) for item, mode in zip(fields, modes, strict=True)]

    def update(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take rows in the canonical layout; columns are found by name. Of many columns few large calls are cheap."""
        for column in self._columns:
            column.update(rows)

    def result(self) -> list[ColumnStats]:
        """What was found, field by field, cut to its mode."""
        return [column.result() for column in self._columns]


class _Column:
    def __init__(self, item: DataField, mode: StatsMode) -> None:
        self.item, self.mode = item, mode
        self.bounded = mode.kind in ("truncate", "full") and item.type.root not in _UNBOUNDED
        self.low: Any = None
        self.high: Any = None
        self.nulls = 0

    def update(self, rows: pa.RecordBatch | pa.Table) -> None:
        if self.mode.kind == "none":
            return
        array = rows.column(self.item.name)
        self.nulls += array.null_count
        if not self.bounded or array.null_count == len(array):
            return
        low, high = _bounds(array, self.item.type)
        order = _nan_last if self.item.type.root in _FLOATS else _itself
        if self.low is None or order(low) < order(self.low):
            self.low = low
        if self.high is None or order(high) > order(self.high):
            self.high = high

    def result(self) -> ColumnStats:
        if self.mode.kind == "none":
            return ColumnStats()
        kind = self.item.type
        low, high = self.low, self.high
        if low is not None and kind.root in _NUMBERED:
            low, high = typed_value(low, kind), typed_value(high, kind)
        return limited(ColumnStats(low, high, self.nulls), self.mode)


def _itself(value: Any) -> Any:
    return value


def _nan_last(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _bounds(array: pa.Array | pa.ChunkedArray, kind: DataType) -> tuple[Any, Any]:
    """Smallest and greatest of an array with some value; dates, times and timestamps as integers."""
    found = pc.min_max(array)
    if kind.root in _NUMBERED:
        return found["min"].value, found["max"].value
    low, high = found["min"].as_py(), found["max"].as_py()
    if kind.root not in _FLOATS:
        return low, high
    nans = pc.is_nan(array)
    if pc.all(nans).as_py():
        return math.nan, math.nan
    return (-0.0 if low == 0 else low), (math.nan if pc.any(nans).as_py() else 0.0 if high == 0 else high)


# ---------------------------------------------------------------------------------------------- modes


def limited(stats: ColumnStats, mode: StatsMode) -> ColumnStats:
    """Exact statistics cut to a mode: truncated minima round down, maxima up, or both bounds go where none is above."""
    if mode.kind == "none":
        return ColumnStats()
    if mode.kind == "counts":
        return ColumnStats(None, None, stats.null_count)
    if mode.kind == "full" or mode.length is None:
        return stats
    high = truncated_max(stats.max, mode.length)
    if high is None:
        return ColumnStats(None, None, stats.null_count)
    low = stats.min[: mode.length] if isinstance(stats.min, (str, bytes)) else stats.min
    return ColumnStats(low, high, stats.null_count)


def truncated_max(value: Any, length: int) -> Any:
    """The value itself if it is short, or no text or bytes; else a bound above it of at most `length` code points or
    bytes, None if there is none."""
    if not isinstance(value, (str, bytes)) or len(value) <= length:
        return value
    if isinstance(value, bytes):
        kept = value[:length].rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    text = value[:length].rstrip(chr(_MAX_CODE_POINT))
    if not text:
        return None
    following = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if following == _SURROGATES else following)


# ---------------------------------------------------------------------------------------------- stored form


def encode_stats(stats: Sequence[ColumnStats], types: Sequence[DataType]) -> SimpleStats:
    """The stored form, one field a column."""
    lows = serialized([item.min for item in stats], types)
    highs = serialized([item.max for item in stats], types)
    return SimpleStats(lows, highs, tuple(item.null_count for item in stats))


def encode_dense(
    stats: Sequence[ColumnStats], fields: Sequence[DataField]
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """The stored form without the columns of which nothing is known, and the names of the columns that it has:
    None where it has all (`_VALUE_STATS_COLS`)."""
    kept = [(found, item) for found, item in zip(stats, fields, strict=True) if not found.is_none]
    stored = encode_stats([found for found, _ in kept], [item.type for _, item in kept])
    return stored, None if len(kept) == len(fields) else tuple(item.name for _, item in kept)


def decode_stats(stats: SimpleStats, types: Sequence[DataType]) -> list[ColumnStats]:
    """One file's statistics as Python values, one a type. CorruptError if it has a different number of columns."""
    lows, highs = from_serialized(stats.min_values, types), from_serialized(stats.max_values, types)
    counts = stats.null_counts or ()
    counts += (None,) * (len(types) - len(counts))
    return [ColumnStats(*found) for found in zip(lows, highs, counts, strict=False)]


def stats_of(file: DataFile, fields: Sequence[DataField]) -> dict[str, ColumnStats]:
    """What is recorded of a file's columns `fields`, in their order, by name. CorruptError that names the file."""
    with decoding("recorded statistics cannot be read", file.file_name):
        found = decode_stats(file.value_stats, [item.type for item in fields])
    return {item.name: one for item, one in zip(fields, found, strict=True)}


@dataclass(frozen=True, slots=True)
class StatsColumn:
    """One column's bounds in many files: canonical arrays and int64 null counts, null where unknown."""

    mins: pa.Array
    maxs: pa.Array
    null_counts: pa.Array


def decode_stats_columns(
    stats: Sequence[SimpleStats], types: Sequence[DataType], wanted: Sequence[int]
) -> list[StatsColumn]:
    """Columns `wanted` of the statistics of many files that share these column types.

    Unknown in files that have fewer columns. A NaN minimum counts as unknown: some writers give it to a column as soon
    as one value is NaN. So do two bounds of which the least value is above the greatest.
    """
    lows = decode_columns([item.min_values for item in stats], types, wanted)
    highs = decode_columns([item.max_values for item in stats], types, wanted)
    found = []
    for low, high, index in zip(lows, highs, wanted, strict=True):
        if types[index].root in _FLOATS:
            low = pc.if_else(pc.fill_null(pc.is_nan(low), False), pa.scalar(None, low.type), low)
        if types[index].root not in _UNBOUNDED:
            crossed = pc.fill_null(pc.greater(low, high), False)
            if pc.any(crossed).as_py():
                low, high = (pc.if_else(crossed, pa.scalar(None, one.type), one) for one in (low, high))
        counts = [_at(item.null_counts, index) for item in stats]
        found.append(StatsColumn(low, high, pa.array(counts, pa.int64())))
    return found


def _at(counts: tuple[int | None, ...] | None, index: int) -> int | None:
    count = counts[index] if counts is not None and index < len(counts) else None
    return count if count is not None and count >= 0 else None  # below 0 is no number of nulls
