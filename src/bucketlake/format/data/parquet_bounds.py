"""What footers of parquet files say of columns: bounds of row groups, statistics of whole files.

Spec: docs/spec/datafile.md#parquet
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.format.data.parquet_encoding import NESTED
from bucketlake.format.data.parquet_footer import MAGIC, is_timestamp
from bucketlake.format.data.thrift import STRUCT, Walk
from bucketlake.format.metadata.stats import ColumnStats
from bucketlake.format.row.binary_row import typed_value
from bucketlake.lazy import pc, pq
from bucketlake.predicate.evaluate import Bounds
from bucketlake.types.model import DataField, DataType, Root, arrow_type

_WIDE = Context(prec=76)
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_GROUPS, _COLUMNS, _META, _STATISTICS = 4, 1, 3, 12  # in FileMetaData, RowGroup, ColumnChunk, ColumnMetaData
_PAIRS = (1, 2), (5, 6)  # in Statistics: bounds in no order, and in the column's


def check_bounds(metadata: pq.FileMetaData, leaves: Iterable[int]) -> None:
    """CorruptError where a bound of one of these columns is shorter than a value of its type: asked for it, the C++
    library ends the process. The footer is looked at as that library has read it, as far as these columns go."""
    columns = {leaf: metadata.schema.column(leaf) for leaf in leaves}
    widths = {
        leaf: one.length if one.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS[one.physical_type]
        for leaf, one in columns.items()
        if one.physical_type in (*_WIDTHS, "FIXED_LEN_BYTE_ARRAY")
    }
    if not widths:
        return
    written = io.BytesIO()
    metadata.write_metadata_file(written)
    for leaf, sizes in _sizes(Walk(written.getvalue()[len(MAGIC) :]), widths, metadata.num_row_groups):
        found = min(
            (sizes[name] for pair in _PAIRS if all(one in sizes for one in pair) for name in pair), default=None
        )
        if found is not None and found < widths[leaf]:
            path = columns[leaf].path
            raise CorruptError("a bound of a column is too short for its type", column=path, bytes=found)


def _sizes(walk: Walk, leaves: Collection[int], groups: int) -> Iterator[tuple[int, dict[int, int]]]:
    """By column of each row group the bytes of what its statistics say, by their ids."""
    last = max(leaves)
    for _ in walk.fields((_GROUPS,)):
        for group in walk.values():
            for _ in walk.fields((_COLUMNS,)):
                for leaf in walk.values():
                    if leaf in leaves:
                        for _ in walk.fields((_META,)):
                            for _ in walk.fields((_STATISTICS,)):
                                yield leaf, {name: walk.size() for name, _ in walk.fields((1, 2, 5, 6))}
                    else:
                        walk.skip(STRUCT)
                    if leaf == last and group == groups - 1:
                        return  # what is left says nothing of them


def column_bounds(metadata: pq.FileMetaData, fields: Sequence[DataField]) -> dict[str, Bounds]:
    """What the footer says of atomic columns, one entry a row group; null where it says nothing."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if not groups:
        return {}
    places = {path: number for number, path in enumerate(leaf_paths(metadata))}
    timed = any(is_timestamp(item.type) for item in fields)
    units = {one.name: one.type for one in metadata.schema.to_arrow_schema()} if timed else {}
    found = {}
    for item in fields:
        place = places.get(item.name)
        if place is None or item.type.root in NESTED:
            continue
        statistics = [group.column(place).statistics for group in groups]
        bounded = [_is_bounded(s, item.type) for s in statistics]
        pairs = list(zip(statistics, bounded, strict=True))
        stored = metadata.schema.column(place).physical_type, units.get(item.name)
        mins = _bound_array([s.min_raw if known else None for s, known in pairs], item.type, *stored)
        maxs = _bound_array([s.max_raw if known else None for s, known in pairs], item.type, *stored)
        nulls = [s.null_count if s is not None and s.has_null_count else None for s in statistics]
        if mins is not None and maxs is not None:
            found[item.name] = Bounds(mins, maxs, pa.array(nulls, pa.int64()))
    return found


def _is_bounded(statistics: Any, t: DataType) -> bool:
    """Whether a row group tells both bounds of a column as values of its type; of text, others may store or cut bounds
    that are not UTF-8."""
    if statistics is None or not statistics.has_min_max or statistics.physical_type == "INT96":
        return False
    if t.root not in (Root.CHAR, Root.VARCHAR) or statistics.physical_type != "BYTE_ARRAY":
        return True
    try:
        statistics.min_raw.decode(), statistics.max_raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def leaf_paths(metadata: pq.FileMetaData) -> list[str]:
    """The path of each leaf column, in the order of the file."""
    return [metadata.schema.column(number).path for number in range(metadata.num_columns)]


def footer_stats(metadata: pq.FileMetaData, fields: Sequence[DataField]) -> list[ColumnStats]:
    """The statistics of each column over the whole file, exact as far as the footer is; None where it is silent.

    Bounds are left out where one row group with values has none.
    """
    bounds = column_bounds(metadata, fields)
    rows = pa.array([metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)], pa.int64())
    return [_merged(bounds[item.name], item.type, rows) if item.name in bounds else ColumnStats() for item in fields]


def _merged(bounds: Bounds, t: DataType, rows: pa.Array) -> ColumnStats:
    nulls = pc.sum(bounds.null_counts).as_py() if bounds.null_counts.null_count == 0 else None
    if len(rows) == 1:
        low, high = bounds.mins[0], bounds.maxs[0]
    else:
        silent = pc.and_(bounds.mins.is_null(), pc.fill_null(pc.less(bounds.null_counts, rows), True))
        low, high = (None, None) if pc.any(silent).as_py() else (pc.min(bounds.mins), pc.max(bounds.maxs))
    if low is None or not low.is_valid:
        return ColumnStats(None, None, nulls)
    if t.root in (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return ColumnStats(typed_value(low.value, t), typed_value(high.value, t), nulls)
    return ColumnStats(low.as_py(), high.as_py(), nulls)


def _bound_array(raw: list[Any], t: DataType, physical: str, unit: pa.DataType | None) -> pa.Array | None:
    """Physical values as the column's type, None if the file's physical type is not the one of the column. `unit`: what
    Arrow makes of a file's timestamps."""
    target = arrow_type(t)
    whole = physical in ("INT32", "INT64")
    if t.root is Root.DECIMAL:
        if not whole:
            raw = [None if value is None else int.from_bytes(value, "big", signed=True) for value in raw]
        scale = t.scale or 0
        values = [None if value is None else Decimal(value).scaleb(-scale, _WIDE) for value in raw]
        return pa.array(values, target)
    if is_timestamp(t):
        timed = whole and unit is not None and pa.types.is_timestamp(unit)
        return pa.array(raw, pa.int64()).cast(unit).cast(target) if timed else None
    if t.root in (Root.DATE, Root.TIME):
        return pa.array(raw, pa.int32()).view(target) if physical == "INT32" else None
    if t.root in (Root.CHAR, Root.VARCHAR):
        return pa.array(raw, pa.binary()).cast(target) if physical == "BYTE_ARRAY" else None
    if t.root in (Root.BINARY, Root.VARBINARY):
        return pa.array(raw, target) if physical == "BYTE_ARRAY" else None
    expected = {"BOOLEAN": Root.BOOLEAN, "FLOAT": Root.FLOAT, "DOUBLE": Root.DOUBLE}.get(physical)
    if whole or expected is t.root:
        return pa.array(raw, target)
    return None
