"""Packing live files into splits: what must be merged stays together, what needs no merge is read raw.

Primary-key buckets fall into sections, the finest groups of files whose key ranges meet. A section of one file without
deletes is raw; all others are merged. Append buckets are raw, in the order of their sequence numbers.

Spec: docs/spec/commit.md#splits
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bucketlake.format.index_manifest import IndexEntry
from bucketlake.format.manifest import DataFile, ManifestEntry
from bucketlake.format.snapshot import Snapshot
from bucketlake.ops.conflicts import DELETION_VECTORS, key_values
from bucketlake.ops.entries import BucketKey, bucket_key
from bucketlake.ops.messages import DeletionFile, Split
from bucketlake.ops.pruning import Pruner
from bucketlake.ops.store import Store
from bucketlake.types import DataType

Section = list[ManifestEntry]


def make_splits(
    store: Store, snapshot: Snapshot, entries: Sequence[ManifestEntry], pruner: Pruner
) -> tuple[list[Split], list[ManifestEntry]]:
    """The splits and the entries in them, after leaving out sections that cannot hold matching rows."""
    buckets: dict[BucketKey, list[ManifestEntry]] = {}
    if not store.schema.primary_keys:
        entries = pruner.by_value(entries)
    for entry in entries:
        buckets.setdefault(bucket_key(entry), []).append(entry)
    vectors = deletion_files(store, store.index_manifest(snapshot))
    groups = (
        _merge_groups(store, buckets, pruner) if store.schema.primary_keys else _append_groups(store, buckets.values())
    )
    splits: list[Split] = []
    kept: list[ManifestEntry] = []
    for group, raw in groups:
        first = group[0]
        found = vectors.get(first.partition, {})
        splits.append(
            Split(
                snapshot_id=snapshot.id,
                partition=first.partition,
                bucket=first.bucket,
                total_buckets=first.total_buckets,
                bucket_path=store.paths.bucket_dir(first.partition, first.bucket),
                files=tuple(entry.file for entry in group),
                raw=raw,
                deletions={e.file.file_name: found[e.file.file_name] for e in group if e.file.file_name in found},
            )
        )
        kept.extend(group)
    return splits, kept


def deletion_files(store: Store, indexes: Iterable[IndexEntry]) -> dict[bytes, dict[str, DeletionFile]]:
    """Where each data file's deletion vector lies, by partition and file name."""
    found: dict[bytes, dict[str, DeletionFile]] = {}
    for index in indexes:
        if index.file.index_type == DELETION_VECTORS:
            path = index.file.external_path or store.paths.index(index.file.file_name)
            for part in index.file.dv_ranges or ():
                found.setdefault(index.partition, {})[part.data_file_name] = DeletionFile(path, part)
    return found


def _append_groups(store: Store, buckets: Iterable[Section]) -> list[tuple[Section, bool]]:
    groups = []
    for entries in buckets:
        ordered = sorted(entries, key=lambda e: e.file.min_sequence_number)
        groups += [(_flat(group), True) for group in pack(store, [[e] for e in ordered])]
    return groups


def _merge_groups(store: Store, buckets: dict[BucketKey, Section], pruner: Pruner) -> list[tuple[Section, bool]]:
    types = [store.schema.field(name).type for name in store.schema.trimmed_primary_keys]
    options = store.options
    final = bool(options.get("deletion-vectors.enabled")) or options.get("merge-engine") == "first-row"
    parts = [_sections(entries, types, final) for entries in buckets.values()]
    kept = pruner.sections([section for sections in parts for section in sections])
    groups: list[tuple[Section, bool]] = []
    for sections in parts:
        raw = [s for s in sections if len(s) == 1 and without_deletes(s[0].file) and id(s) in kept]
        merged = [s for s in sections if not (len(s) == 1 and without_deletes(s[0].file)) and id(s) in kept]
        groups += [(_flat(group), True) for group in pack(store, raw)]
        groups += [(_flat(group), False) for group in pack(store, merged)]
    return groups


def _sections(entries: Section, types: Sequence[DataType], final: bool) -> list[Section]:
    levels = {entry.file.level for entry in entries}
    if len(entries) == 1 or (0 not in levels and (len(levels) == 1 or final)):
        return [[entry] for entry in entries]
    return sections(entries, types)


def sections(entries: Sequence[ManifestEntry], types: Sequence[DataType]) -> list[Section]:
    """The finest split of one bucket's files into groups whose key ranges do not meet, in key order."""
    ranges = sorted(
        ((key_values(e.file.min_key, types), key_values(e.file.max_key, types), i, e) for i, e in enumerate(entries)),
        key=lambda item: item[:3],
    )
    found: list[Section] = []
    reach: tuple[object, ...] = ()
    for low, high, _, entry in ranges:
        if found and low <= reach:
            found[-1].append(entry)
            reach = max(reach, high)
        else:
            found.append([entry])
            reach = high
    return found


def _flat(group: Iterable[Section]) -> Section:
    return [entry for section in group for entry in section]


def without_deletes(file: DataFile) -> bool:
    """Whether a file is known to hold no delete rows."""
    return file.delete_row_count == 0


def pack(store: Store, groups: Sequence[Section]) -> list[list[Section]]:
    """Consecutive groups together up to `source.split.target-size`, each counted as `source.split.open-file-cost` at
    least."""
    target = store.options.get("source.split.target-size")
    cost = store.options.get("source.split.open-file-cost")
    packed: list[list[Section]] = []
    filled = 0
    for group in groups:
        weight = max(sum(entry.file.file_size for entry in group), cost)
        if not packed or filled + weight > target:
            packed.append([])
            filled = 0
        packed[-1].append(group)
        filled += weight
    return packed
