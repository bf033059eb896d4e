"""Writing manifests, manifest lists and index manifests; merging small manifests; combining index files.

Everything written here gets a fresh name, so a writer that loses or dies leaves orphans and harms nothing.

Spec: docs/spec/commit.md#manifests
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from bucketlake.env.storage import threads_for
from bucketlake.errors import ConflictError
from bucketlake.format.index.index_manifest import DELETION_VECTORS, HASH, IndexEntry, encode_index_manifest
from bucketlake.format.metadata.manifest import (
    FileKind,
    ManifestEntry,
    ManifestFile,
    encode_manifest,
    encode_manifest_list,
)
from bucketlake.ops.commit.manifest_order import in_order, overlapping, sort_column
from bucketlake.ops.table.decoded import remember
from bucketlake.ops.table.entries import EntryKey, entry_key, fold_between
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.partition_stats import may_hold, partition_stats
from bucketlake.ops.table.store import Store
from bucketlake.types.model import DataType
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class WrittenList:
    """A manifest list on storage and the manifests that it names."""

    name: str
    size: int
    manifests: tuple[ManifestFile, ...]


def write_manifests(store: Store, entries: Sequence[ManifestEntry]) -> tuple[ManifestFile, ...]:
    """Write entries as manifests of about `manifest.target-file-size`, in order; nothing for no entries."""
    parts = _encoded(store, entries)
    write_files(store, [(manifest.file_name, data) for manifest, data in parts])
    return tuple(manifest for manifest, _ in parts)


def listed(store: Store, entries: Sequence[ManifestEntry]) -> tuple[WrittenList, list[tuple[str, bytes]]]:
    """Entries as manifests, and the list of these, for `write_files`."""
    parts = _encoded(store, entries)
    written, data = encoded_list(store, [manifest for manifest, _ in parts])
    return written, [*((manifest.file_name, part) for manifest, part in parts), (written.name, data)]


def write_files(store: Store, files: Sequence[tuple[str, bytes]]) -> None:
    """Write manifests and their like, by name; all at once where each is a request that waits."""
    parallel(lambda file: _write(store, *file), files, threads_for(store.paths.root))


def _encoded(store: Store, entries: Sequence[ManifestEntry]) -> list[tuple[ManifestFile, bytes]]:
    if not entries:
        return []
    compression = store.options.get("manifest.compression")
    data = encode_manifest(entries, compression)
    target = max(1, store.options.get("manifest.target-file-size"))  # others may have set 0: an entry a manifest
    parts = min(len(entries), math.ceil(len(data) / target))
    if parts <= 1:
        return [(_described(store, entries, data), data)]
    step = math.ceil(len(entries) / parts)
    cut = [entries[start : start + step] for start in range(0, len(entries), step)]
    return [(_described(store, part, own), own) for part in cut for own in (encode_manifest(part, compression),)]


def _described(store: Store, entries: Sequence[ManifestEntry], data: bytes) -> ManifestFile:
    return describe(store, store.paths.new_manifest(store.env), len(data), entries)


def describe(store: Store, name: str, size: int, entries: Sequence[ManifestEntry]) -> ManifestFile:
    """What a manifest list says about a manifest of these entries (at least one)."""
    added = sum(1 for entry in entries if entry.kind == FileKind.ADD)
    buckets = [entry.bucket for entry in entries]
    levels = [entry.file.level for entry in entries]
    rows = [(e.file.first_row_id, e.file.row_count) for e in entries if e.file.first_row_id is not None]
    with_rows = rows if len(rows) == len(entries) else []
    return ManifestFile(
        file_name=name,
        file_size=size,
        num_added_files=added,
        num_deleted_files=len(entries) - added,
        partition_stats=partition_stats((entry.partition for entry in entries), _partition_types(store)),
        schema_id=max(entry.file.schema_id for entry in entries),
        min_bucket=min(buckets),
        max_bucket=max(buckets),
        min_level=min(levels),
        max_level=max(levels),
        min_row_id=min((first for first, _ in with_rows), default=None),
        max_row_id=max((first + count - 1 for first, count in with_rows), default=None),
    )


def _partition_types(store: Store) -> list[DataType]:
    return [field.type for field in store.schema.partition_fields]


def encoded_list(store: Store, manifests: Sequence[ManifestFile]) -> tuple[WrittenList, bytes]:
    """A manifest list, empty ones too, and its bytes, for `write_files`."""
    data = encode_manifest_list(manifests, store.options.get("manifest.compression"))
    return WrittenList(store.paths.new_manifest_list(store.env), len(data), tuple(manifests)), data


# ---- merging


def merge_manifests(store: Store, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
    """Fewer, larger manifests with the same meaning; the input itself where nothing is due.

    A full rewrite when small or deleting manifests reach `manifest.full-compaction-threshold-size`, else runs of small
    ones as they fill `manifest.target-file-size`, and the rest from `manifest.merge-min-count` on. With
    `manifest-sort.enabled` what is written is in order, and so that it becomes so.
    Spec: docs/spec/commit.md#merging-manifests
    """
    full = _merge_fully(store, manifests)
    return _merge_small(store, manifests) if full is None else full


def _merge_small(store: Store, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
    target = store.options.get("manifest.target-file-size")
    result: list[ManifestFile] = []
    candidates: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        size += manifest.file_size
        candidates.append(manifest)
        if size >= target:
            result.extend(_merge_run(store, candidates))
            candidates, size = [], 0
    if len(candidates) >= store.options.get("manifest.merge-min-count") or _sorts(store, size):
        result.extend(_merge_run(store, candidates))
    else:
        result.extend(candidates)
    return tuple(result)


def _sorts(store: Store, size: int) -> bool:
    """Whether so few bytes are put in order whatever their number."""
    return sort_column(store) is not None and size <= store.options.get("manifest-sort.max-rewrite-size")


def _merge_run(store: Store, manifests: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
    if len(manifests) == 1:
        return manifests
    entries = [entry for part in store.manifests(manifests) for entry in part]
    return write_manifests(store, in_order(store, fold_between(entries)))


def _merge_fully(store: Store, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...] | None:
    target = store.options.get("manifest.target-file-size")
    must_change = [m.num_deleted_files > 0 or m.file_size < target for m in manifests]
    due = sum(m.file_size for m, must in zip(manifests, must_change, strict=True) if must)
    if due < store.options.get("manifest.full-compaction-threshold-size"):
        return None
    unsorted = overlapping(store, manifests)
    must_change = [must or m.file_name in unsorted for m, must in zip(manifests, must_change, strict=True)]
    deleting = [m for m in manifests if m.num_deleted_files > 0]
    deleted = {
        entry_key(entry) for part in store.manifests(deleting) for entry in part if entry.kind == FileKind.DELETE
    }
    partitions = {key[0] for key in deleted}
    kept: list[ManifestFile] = []
    merging: list[tuple[ManifestFile, bool]] = []
    types = _partition_types(store)
    for manifest, must in zip(manifests, must_change, strict=True):
        if must or may_hold(manifest, partitions, types):
            merging.append((manifest, must))
        else:
            kept.append(manifest)
    if len(merging) <= 1:
        return None
    rewritten: list[ManifestEntry] = []
    back: dict[EntryKey, ManifestEntry] = {}  # files that were deleted, and brought back by a rollback
    for (manifest, must), part in zip(merging, store.manifests([m for m, _ in merging]), strict=True):
        told = [(entry_key(entry), entry) for entry in part]
        back.update({key: entry for key, entry in told if key in deleted})
        live = [entry for key, entry in told if key not in deleted]
        if must or len(live) != len(part):
            rewritten.extend(live)
        else:
            kept.append(manifest)
    rewritten += [entry for entry in back.values() if entry.kind == FileKind.ADD]
    return (*kept, *write_manifests(store, in_order(store, rewritten)))


def came_back(
    store: Store, manifests: Sequence[ManifestFile], changes: Sequence[ManifestEntry]
) -> Callable[[ManifestFile], Sequence[ManifestFile]] | None:
    """What tells manifests of a base anew, without what they say of files that the changes move to a level at which
    they have been before, as after a rollback; None where there are none.

    Paimon, where it merges all manifests, forgets a file that one of them deletes, also where a later one adds it.
    """
    left = {entry.file.file_name for entry in changes if entry.kind == FileKind.DELETE}
    moved = [entry for entry in changes if entry.kind == FileKind.ADD and entry.file.file_name in left]
    if not moved:
        return None
    keys, names = {entry_key(entry) for entry in moved}, {entry.file.file_name for entry in moved}
    partitions, types = {entry.partition for entry in moved}, _partition_types(store)
    deleting = [one for one in manifests if one.num_deleted_files > 0 and may_hold(one, partitions, types)]

    def is_told(entry: ManifestEntry) -> bool:
        return entry.file.file_name in names and entry_key(entry) in keys

    if not any(is_told(e) for part in store.manifests(deleting) for e in part if e.kind == FileKind.DELETE):
        return None

    def retold(manifest: ManifestFile) -> Sequence[ManifestFile]:
        entries = store.manifest(manifest)
        kept = [entry for entry in entries if not is_told(entry)]
        return (manifest,) if len(kept) == len(entries) else write_manifests(store, kept)

    return retold


# ---- index files


def combine_indexes(
    previous: Sequence[IndexEntry], changes: Sequence[IndexEntry], *, unaware: bool
) -> tuple[IndexEntry, ...]:
    """The index entries of the next snapshot: HASH and bucketed deletion vectors one per bucket, a new one replaces;
    deletion vectors of unaware tables and unknown types by file name. Order is kept, additions go last.

    Raises ConflictError where a deleted index file is not there, or an added one is already.
    Spec: docs/spec/commit.md#index-files
    """
    entries = {_index_key(entry, unaware): entry for entry in previous}
    known = {entry.file.file_name for entry in previous} if len(entries) < len(previous) else set()
    for entry in changes:
        if entry.kind == FileKind.DELETE:
            key = _index_key(entry, unaware)
            found = entries.get(key)
            if found is not None and found.file.file_name != entry.file.file_name and entry.file.file_name in known:
                continue  # a damaged base names two of one bucket: the first goes anyway
            if found is None or found.file.file_name != entry.file.file_name:
                raise ConflictError(
                    "Trying to delete index file which is not there", file=entry.file.file_name, bucket=entry.bucket
                )
            del entries[key]
    for entry in changes:
        if entry.kind == FileKind.ADD:
            key = _index_key(entry, unaware)
            if key in entries and entries[key].file.file_name == entry.file.file_name:
                raise ConflictError("Trying to add index file which is already there", file=entry.file.file_name)
            entries[key] = entry
    return tuple(entries.values())


def _index_key(entry: IndexEntry, unaware: bool) -> tuple[Any, ...]:
    kind = entry.file.index_type
    if kind == HASH or (kind == DELETION_VECTORS and not unaware):
        return (kind, entry.partition, entry.bucket)
    return (kind, entry.file.file_name)


def encoded_indexes(store: Store, entries: Sequence[IndexEntry]) -> tuple[str, bytes]:
    """The name of a new index manifest of these entries, and its bytes, for `write_files`."""
    data = encode_index_manifest(entries, store.options.get("manifest.compression"))
    return store.paths.new_index_manifest(store.env), data


def _write(store: Store, name: str, data: bytes) -> None:
    path = store.paths.manifest(name)
    store.env.storage.write(path, data)
    if store.waits:
        remember(store.env.storage, path, data)


def replace_run(
    current: tuple[ManifestFile, ...], before: tuple[ManifestFile, ...], after: tuple[ManifestFile, ...]
) -> tuple[ManifestFile, ...] | None:
    """`current` with the run `before` replaced by `after`, None if it is not there any more."""
    length = len(before)
    for start in range(len(current) - length + 1):
        if current[start : start + length] == before:
            return current[:start] + after + current[start + length :]
    return None
