"""Packing live files into splits: what must be merged stays together, what needs no merge is read raw.

Primary-key buckets fall into sections, the finest groups of files whose key ranges meet. A section of one file without
deletes is raw; all others are merged. Append buckets are raw, in the order of their sequence numbers.

Spec: docs/spec/commit.md#splits
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bucketlake.format.index.index_manifest import DELETION_VECTORS, IndexEntry
from bucketlake.format.metadata.manifest import DataFile, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.levels import KeyRange, file_ranges, sections
from bucketlake.ops.buckets.postpone import ordered_by_partition
from bucketlake.ops.rows.column_files import grouped, rows_files
from bucketlake.ops.rows.residues import fitting, may_meet, residue_of
from bucketlake.ops.scan.pruning import Pruner
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.messages import BucketVectors, DeletionFile, Split
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET

Section = list[ManifestEntry]


def make_splits(
    store: Store, snapshot: Snapshot, entries: Sequence[ManifestEntry], pruner: Pruner
) -> tuple[list[Split], list[ManifestEntry]]:
    """The splits and the entries in them, after leaving out sections that cannot hold matching rows."""
    buckets: dict[BucketKey, list[ManifestEntry]] = {}
    if store.schema.data_evolution:
        return _column_splits(store, snapshot, entries, pruner)
    if not store.schema.primary_keys:
        entries = pruner.by_value(entries)
    elif store.options.get("deletion-vectors.enabled") and not any(entry.file.level == 0 for entry in entries):
        entries = pruner.by_keyed_index(snapshot, entries)
    for entry in entries:
        buckets.setdefault(bucket_key(entry), []).append(entry)
    vectors = deletion_files(store, store.index_manifest(snapshot))
    groups = (
        _merge_groups(store, buckets, pruner) if store.schema.primary_keys else append_groups(store, buckets.values())
    )
    splits: list[Split] = []
    kept: list[ManifestEntry] = []
    for group, raw in groups:
        splits.append(split_of(store, snapshot.id, group, raw, vectors))
        kept.extend(group)
    return splits, kept


def _column_splits(
    store: Store, snapshot: Snapshot, entries: Sequence[ManifestEntry], pruner: Pruner
) -> tuple[list[Split], list[ManifestEntry]]:
    """Rows whose columns lie in one file are read raw, others from all files of their group: where several files hold
    all its rows, what one says of a column may be out of date, so none is left out.

    Spec: docs/spec/row_tracking.md#columns-in-several-files
    """
    buckets: dict[BucketKey, list[ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault(bucket_key(entry), []).append(entry)
    vectors = deletion_files(store, store.index_manifest(snapshot))
    splits: list[Split] = []
    kept: list[ManifestEntry] = []
    by_bucket = [grouped(found, lambda entry: entry.file) for found in buckets.values()]
    every = [group for groups in by_bucket for group in groups]
    one_file = [group for group in every if len(rows_files(entry.file for entry in group)) == 1]
    matching = {id(entry) for entry in pruner.by_value([group[0] for group in one_file])}
    left_out = {id(group[0]) for group in one_file} - matching
    left = [group for group in every if id(group[0]) not in left_out]
    wanted = {id(group[0]) for group in pruner.by_global_index(snapshot, left)}
    for found in by_bucket:
        groups = [group for group in found if id(group[0]) in wanted]
        alone = [group for group in groups if len(group) == 1]
        several = [group for group in groups if len(group) > 1]
        for packed, raw in ((pack(store, alone), True), (pack(store, several), False)):
            for part in packed:
                splits.append(split_of(store, snapshot.id, _flat(part), raw, vectors))
                kept.extend(_flat(part))
    return splits, kept


def pending_splits(
    store: Store, snapshot: Snapshot, pending: Sequence[ManifestEntry], entries: Sequence[ManifestEntry]
) -> tuple[list[Split], list[ManifestEntry]]:
    """Splits that read pending rows over the real buckets of their partitions, and the entries of other partitions.

    A partition is split by bucket into shares of about `source.split.target-size`; each reads all pending files that
    may hold its rows.
    Spec: docs/spec/postpone.md#reading
    """
    if not pending:
        return [], list(entries)
    files = ordered_by_partition(store, snapshot, pending)
    buckets: dict[bytes, dict[int, list[ManifestEntry]]] = {partition: {} for partition in files}
    for entry in entries:
        if entry.partition in buckets:
            buckets[entry.partition].setdefault(entry.bucket, []).append(entry)
    vectors = deletion_files(store, store.index_manifest(snapshot))
    splits: list[Split] = []
    for partition, ordered in files.items():
        parts = [split_of(store, snapshot.id, group, False, vectors) for group in buckets[partition].values()]
        splits += _shares(store, snapshot, partition, ordered, parts)
    return splits, [entry for entry in entries if entry.partition not in buckets]


def _shares(
    store: Store, snapshot: Snapshot, partition: bytes, files: Sequence[DataFile], parts: Sequence[Split]
) -> list[Split]:
    pending, real = sum(file.file_size for file in files), sum(part.size for part in parts)
    wanted = max(1, (pending + real) // store.options.get("source.split.target-size"))
    total = parts[0].total_buckets if parts else 1 << (wanted - 1).bit_length()
    found = [residue_of(store, file) for file in files]
    fit = fitting(total, wanted, found)
    shares = fit * max(1, min(total, wanted) // fit)
    whole = Split(
        snapshot_id=snapshot.id,
        partition=partition,
        bucket=POSTPONE_BUCKET,
        total_buckets=total,
        bucket_path=store.paths.bucket_dir(partition, POSTPONE_BUCKET),
        files=tuple(files),
        raw=False,
    )
    cut = (
        replace(
            whole,
            parts=tuple(part for part in parts if part.bucket % shares == own),
            files=tuple(file for file, one in zip(files, found, strict=True) if may_meet(one, total, (own, shares))),
            share=(own, shares),
        )
        for own in range(shares)
    )
    return [split for split in cut if split.files or split.parts]


def split_of(store: Store, snapshot_id: int, group: Section, raw: bool, vectors: BucketVectors | None = None) -> Split:
    """The split of files of one bucket; `vectors`: deletion vectors of this bucket and maybe of others."""
    first = group[0]
    found = (vectors or {}).get(bucket_key(first), {})
    return Split(
        snapshot_id=snapshot_id,
        partition=first.partition,
        bucket=first.bucket,
        total_buckets=first.total_buckets,
        bucket_path=store.paths.bucket_dir(first.partition, first.bucket),
        files=tuple(entry.file for entry in group),
        raw=raw,
        deletions={e.file.file_name: found[e.file.file_name] for e in group if e.file.file_name in found},
    )


def deletion_files(store: Store, indexes: Iterable[IndexEntry]) -> BucketVectors:
    """Where each data file's deletion vector lies."""
    found: BucketVectors = {}
    for index in indexes:
        if index.file.index_type == DELETION_VECTORS:
            path = store.paths.index_path(index.partition, index.bucket, index.file)
            for part in index.file.dv_ranges or ():
                place = (index.partition, index.bucket)
                found.setdefault(place, {})[part.data_file_name] = DeletionFile(path, part)
    return found


def append_groups(store: Store, buckets: Iterable[Section]) -> list[tuple[Section, bool]]:
    """The files of append tables, bucket by bucket in the order of their sequence numbers, packed; all raw."""
    groups = []
    for entries in buckets:
        ordered = sorted(entries, key=lambda e: e.file.min_sequence_number)
        groups += [(_flat(group), True) for group in pack(store, [[e] for e in ordered])]
    return groups


def _merge_groups(store: Store, buckets: dict[BucketKey, Section], pruner: Pruner) -> list[tuple[Section, bool]]:
    key_range = file_ranges(store.schema)
    parts = [_sections(store, entries, key_range) for entries in buckets.values()]
    kept = pruner.sections([section for found in parts for section in found])
    groups: list[tuple[Section, bool]] = []
    for found in parts:
        raw = [s for s in found if len(s) == 1 and without_deletes(s[0].file) and id(s) in kept]
        merged = [s for s in found if not (len(s) == 1 and without_deletes(s[0].file)) and id(s) in kept]
        packed = [(group, True) for group in pack(store, raw)] + [(group, False) for group in pack(store, merged)]
        place = {id(section): at for at, section in enumerate(found)}
        packed.sort(key=lambda each: place[id(each[0][0])])  # by key where sections are: rows come as upstream's do
        groups += [(_flat(group), is_raw) for group, is_raw in packed]
    return groups


def _sections(store: Store, entries: Section, key_range: KeyRange | None) -> list[Section]:
    if are_settled(store, [entry.file for entry in entries]):
        return [[entry] for entry in entries]
    return overlapping(entries, key_range)


def are_settled(store: Store, files: Sequence[DataFile]) -> bool:
    """Whether no row of a bucket's files is superseded by another's, but for what deletion vectors say, as far as their
    levels tell: one file, one level above 0, or such levels of tables that settle rows as they rise there."""
    levels = {file.level for file in files}
    if len(files) == 1 or 0 in levels:
        return len(files) == 1
    options = store.options
    return (
        len(levels) == 1 or bool(options.get("deletion-vectors.enabled")) or options.get("merge-engine") == "first-row"
    )


def overlapping(entries: Section, key_range: KeyRange | None) -> list[Section]:
    """The finest groups of a bucket's files whose key ranges meet, by ascending key; all where they are not known."""
    if key_range is None:
        return [list(entries)]
    by_file = {id(entry.file): entry for entry in entries}
    found = sections([entry.file for entry in entries], key_range)
    return [[by_file[id(file)] for run in runs for file in run.files] for runs in found]


def as_told(entries: Iterable[ManifestEntry]) -> Section:
    """The files by which a snapshot tells the changes of a bucket, oldest first. `entries`: as manifests have them.

    A file that is full in the midst of a key's changes is followed by one with the rest of them: whatever numbers its
    other rows have, it comes right behind.
    Spec: docs/spec/incremental.md#delta-and-changelog
    """
    chains: list[Section] = []
    for entry in entries:
        if chains and _goes_on(chains[-1][-1].file, entry.file):
            chains[-1].append(entry)
        else:
            chains.append([entry])
    return _flat(sorted(chains, key=lambda chain: min(age(entry.file) for entry in chain)))


def _goes_on(before: DataFile, file: DataFile) -> bool:
    return before.max_key == file.min_key and before.min_sequence_number <= file.max_sequence_number


def age(file: DataFile) -> tuple[int, int, str]:
    """What files of a bucket are ordered by: those of append tables without buckets have one sequence number only."""
    return (file.min_sequence_number, file.creation_time or 0, file.file_name)


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
