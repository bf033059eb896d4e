"""What a snapshot changes in each partition, as a catalog that lists partitions is told: additions, perhaps negative.

Spec: docs/catalogs.md#rest
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bucketlake.format.metadata.manifest import FileKind
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_to_epoch

_SUMS = ("recordCount", "fileSizeInBytes", "fileCount")


def partition_changes(store: Store, changes: Changes) -> list[Mapping[str, Any]]:
    """One item a partition whose data files change, `PartitionStatistics` of the REST catalog's document."""
    found: dict[bytes, dict[str, Any]] = {}
    for entry in changes.table:
        sums = found.setdefault(entry.partition, {**dict.fromkeys(_SUMS, 0), "lastFileCreationTime": 0})
        sign, file = 1 if entry.kind == FileKind.ADD else -1, entry.file
        sums["recordCount"] += sign * file.row_count
        sums["fileSizeInBytes"] += sign * file.file_size
        sums["fileCount"] += sign
        if file.creation_time is not None:
            made = local_to_epoch(file.creation_time)
            sums["lastFileCreationTime"] = max(sums["lastFileCreationTime"], made)
        sums["totalBuckets"] = entry.total_buckets
    return [{"spec": store.paths.partition_texts(partition), **sums} for partition, sums in found.items()]
