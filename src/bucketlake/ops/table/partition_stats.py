"""Partition statistics of manifests: made of the partitions in one, and asked whether it may hold some.

Spec: docs/spec/commit.md#manifests
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bucketlake.errors import CorruptError
from bucketlake.format.metadata.manifest import ManifestFile, SimpleStats
from bucketlake.format.row.binary_row import decode_row, serialized, without_arity_header
from bucketlake.format.row.order import NULL, Rank, ranked_row
from bucketlake.types.model import DataType, Root

_FLOATS = {Root.FLOAT, Root.DOUBLE}


def partition_stats(partitions: Iterable[bytes], types: Sequence[DataType]) -> SimpleStats:
    """Minimum, maximum and null count of each partition column over the entries' partitions."""
    counts: dict[bytes, int] = {}
    for partition in partitions:
        counts[partition] = counts.get(partition, 0) + 1
    rows = [without_arity_header(partition) for partition in counts]
    ranks = [ranked_row(row, types) for row in rows]
    mins: list[Any] = []
    maxs: list[Any] = []
    nulls: list[int] = []
    for index in range(len(types)):
        known = [(rank[index], at) for at, rank in enumerate(ranks) if rank[index] is not NULL]
        mins.append(decode_row(rows[min(known)[1]], types)[index] if known else None)
        maxs.append(decode_row(rows[max(known)[1]], types)[index] if known else None)
        nulls.append(sum(n for rank, n in zip(ranks, counts.values(), strict=True) if rank[index] is NULL))
    return SimpleStats(serialized(mins, types), serialized(maxs, types), tuple(nulls))


def may_hold(manifest: ManifestFile, partitions: Iterable[bytes], types: Sequence[DataType]) -> bool:
    """Whether a manifest may have entries of one of these partitions, by its partition statistics."""
    stats = manifest.partition_stats
    if not types:
        return any(True for _ in partitions)
    low, high = partition_bounds(manifest, types)
    nulls = stats.null_counts or (None,) * len(types)
    entries = manifest.num_added_files + manifest.num_deleted_files
    for partition in partitions:
        values = ranked_row(without_arity_header(partition), types)
        fields = zip(values, low, high, nulls, types, strict=True)
        if all(_covers(value, (lo, hi), count, entries, kind) for value, lo, hi, count, kind in fields):
            return True
    return False


def partition_bounds(manifest: ManifestFile, types: Sequence[DataType]) -> tuple[tuple[Rank, ...], tuple[Rank, ...]]:
    """Smallest and largest value of each partition column, as ranks. CorruptError naming the manifest where they are no
    rows of these types."""
    stats = manifest.partition_stats
    try:
        low = ranked_row(without_arity_header(stats.min_values), types)
        return low, ranked_row(without_arity_header(stats.max_values), types)
    except CorruptError as error:
        what = "partition statistics of a manifest are no partitions of the table"
        raise CorruptError(what, file=manifest.file_name, reason=str(error)) from error


def _covers(value: Rank, bounds: tuple[Rank, Rank], nulls: int | None, entries: int, kind: DataType) -> bool:
    """Whether a partition column of `entries` files can have this value. A missing bound says nothing, nor do bounds of
    floating point: engines differ on where NaN and -0.0 stand."""
    if value is NULL:
        return nulls is None or nulls > 0
    if nulls is not None and nulls >= entries:
        return False
    if kind.root in _FLOATS:
        return True
    low, high = bounds
    return bool(low <= value and (high is NULL or value <= high))
