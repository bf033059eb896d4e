"""Statistics of a table as ANALYZE stores them, one JSON file that snapshots name.

    {snapshotId, schemaId, mergedRecordCount?, mergedRecordSize?,
     colStats: {<column>: {colId, distinctCount?, min?, max?, nullCount?, avgLen?, maxLen?}}}

`min` and `max` are texts: numbers and booleans as Java prints them, dates as days since 1970, timestamps
`yyyy-MM-dd HH:mm:ss.SSSSSS`; strings and binaries have none.

Spec: docs/spec/statistics.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from bucketlake.format.guard import decoding, integer, json_object
from bucketlake.schema.schema import pretty_json
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of one column's values. Lengths in characters or bytes; None: not known."""

    column_id: int
    distinct_count: int | None = None
    minimum: str | None = None
    maximum: str | None = None
    null_count: int | None = None
    average_length: int | None = None
    maximum_length: int | None = None


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Statistics of the rows of one snapshot. `merged_record_size`: bytes."""

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None = None
    merged_record_size: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


_COLUMN = {
    "colId": "column_id",
    "distinctCount": "distinct_count",
    "min": "minimum",
    "max": "maximum",
    "nullCount": "null_count",
    "avgLen": "average_length",
    "maxLen": "maximum_length",
}
ANEW = "compute them anew: ANALYZE TABLE … COMPUTE STATISTICS"
_UNKNOWN = -1  # Apache Paimon's size of rows that it did not measure
_NUMBERS = ("colId", "distinctCount", "nullCount", "avgLen", "maxLen")
_WHOLE = ("snapshotId", "schemaId", "mergedRecordCount", "mergedRecordSize")


def encode_statistics(statistics: TableStatistics) -> bytes:
    """The file's bytes, as Apache Paimon writes them."""
    found: dict[str, Any] = {"snapshotId": statistics.snapshot_id, "schemaId": statistics.schema_id}
    if statistics.merged_record_count is not None:
        found["mergedRecordCount"] = statistics.merged_record_count
    if statistics.merged_record_size is not None:
        found["mergedRecordSize"] = statistics.merged_record_size
    found["colStats"] = {
        name: {key: getattr(column, own) for key, own in _COLUMN.items() if getattr(column, own) is not None}
        for name, column in statistics.columns.items()
    }
    return pretty_json(found).encode()


def decode_statistics(data: bytes, path: str = "statistics") -> TableStatistics:
    """What a statistics file says; CorruptError names it. Keys that are not known are passed over."""
    with decoding("not statistics of a table", path, ANEW):
        found = json_object(data)
        columns = {name: _column(name, one) for name, one in (found.get("colStats") or {}).items()}
        snapshot, schema, count, size = (found.get(key) for key in _WHOLE)
        if snapshot is None or schema is None:
            raise ValueError("it names no snapshot and schema")
        _check_numbers(found, _WHOLE)
        return TableStatistics(snapshot, schema, count, size, columns)


def _column(name: str, found: Mapping[str, Any]) -> ColumnStatistics:
    if not isinstance(found, dict) or found.get("colId") is None:
        raise ValueError(f"column {name!r:.100} has no colId")
    _check_numbers(found, _NUMBERS)
    return ColumnStatistics(**{own: found[key] for key, own in _COLUMN.items() if found.get(key) is not None})


def _check_numbers(found: Mapping[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        if found.get(key) is not None and not integer(found[key], low=_UNKNOWN):
            raise ValueError(f"{key} is {found[key]!r:.100}")
