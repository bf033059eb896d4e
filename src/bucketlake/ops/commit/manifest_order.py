"""With `manifest-sort.enabled`: entries in the order of a partition column, so that a manifest tells of few partitions.

Spec: docs/spec/commit.md#sorting-manifests
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.format.metadata.manifest import ManifestEntry, ManifestFile
from bucketlake.format.row.binary_row import without_arity_header
from bucketlake.format.row.order import NULL, Rank, ranked_row
from bucketlake.ops.table.partition_stats import partition_bounds
from bucketlake.ops.table.store import Store
from bucketlake.types.model import Root

_FLOATS = (Root.FLOAT, Root.DOUBLE)  # engines differ on where NaN stands


def sort_column(store: Store) -> int | None:
    """The place among the partition columns of the one that manifests are sorted by; None where they are not."""
    keys = store.schema.partition_keys
    if not keys or not store.options.get("manifest-sort.enabled"):
        return None
    name = store.options.get("manifest-sort.partition-field")
    return keys.index(name) if name in keys else 0


def in_order(store: Store, entries: Sequence[ManifestEntry]) -> Sequence[ManifestEntry]:
    """Entries by that column, then by the others, buckets and levels; as they are where manifests are not sorted. Each
    of them must speak of another file."""
    column = sort_column(store)
    if column is None:
        return entries
    types = [item.type for item in store.schema.partition_fields]
    ranks = {}
    for partition in {entry.partition for entry in entries}:
        row = [_ordered(rank) for rank in ranked_row(without_arity_header(partition), types)]
        ranks[partition] = (row[column], row)
    return sorted(entries, key=lambda entry: (ranks[entry.partition], entry.bucket, entry.file.level))


def _ordered(rank: Rank) -> tuple[bool, Rank]:
    """Nulls first, whatever the others are."""
    return (False, 0) if rank is NULL else (True, rank)


def overlapping(store: Store, manifests: Sequence[ManifestFile]) -> frozenset[str]:
    """Names of manifests whose values of that column lie in between those of others, as many as
    `manifest-sort.max-rewrite-size` lets be written anew at a time, those at the start of the order first."""
    column = sort_column(store)
    if column is None or store.schema.partition_fields[column].type.root in _FLOATS:
        return frozenset()
    types = [item.type for item in store.schema.partition_fields]
    ranges = []
    for manifest in manifests:
        low, high = (bounds[column] for bounds in partition_bounds(manifest, types))
        if low is not NULL and high is not NULL:
            ranges.append((low, high, manifest))
    ranges.sort(key=lambda one: (one[0], one[1]))
    found: list[ManifestFile] = []
    for group in _groups(ranges):
        if len(group) > 1:
            found += group
    left, names = int(store.options.get("manifest-sort.max-rewrite-size")), []
    for manifest in found:
        left -= manifest.file_size
        if left < 0:
            break
        names.append(manifest.file_name)
    return frozenset(names) if len(names) > 1 else frozenset()


def _groups(ranges: Sequence[tuple[Rank, Rank, ManifestFile]]) -> list[list[ManifestFile]]:
    """Manifests that overlap, directly or by way of others; to share an end is no overlap."""
    groups: list[list[ManifestFile]] = []
    reach: Rank = None
    for low, high, manifest in ranges:
        if not groups or not low < reach:
            groups.append([])
            reach = high
        groups[-1].append(manifest)
        reach = max(reach, high)
    return groups
