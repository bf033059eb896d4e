"""Manifest entries as a set algebra: identity of a file, folding adds and deletes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from bucketlake.errors import CorruptError
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry
from bucketlake.ops.table.wall_clock import local_to_epoch
from bucketlake.paths import POSTPONE_BUCKET

EntryKey = tuple[Any, ...]
BucketKey = tuple[bytes, int]


def entry_key(entry: ManifestEntry) -> EntryKey:
    """What makes two entries speak of the same file: place, level and name. An upgrade to another level is another
    file to this key, so that it can be deleted and added in one commit."""
    file = entry.file
    return (
        entry.partition,
        entry.bucket,
        file.level,
        file.file_name,
        file.external_path,
        file.extra_files,
        file.embedded_index,
    )


def entry_name(entry: ManifestEntry) -> tuple[bytes, int, str]:
    """What tells a file from others, whatever its level."""
    return entry.partition, entry.bucket, entry.file.file_name


def bucket_key(entry: ManifestEntry) -> BucketKey:
    """The bucket that an entry belongs to."""
    return entry.partition, entry.bucket


def created_millis(entry: ManifestEntry) -> int:
    """When the entry's file was whole, in milliseconds since the epoch; 0 if it does not say."""
    return local_to_epoch(entry.file.creation_time or 0)


def by_bucket(entries: Iterable[ManifestEntry]) -> dict[BucketKey, list[ManifestEntry]]:
    """Entries bucket by bucket, in their order."""
    found: dict[BucketKey, list[ManifestEntry]] = {}
    for entry in entries:
        found.setdefault(bucket_key(entry), []).append(entry)
    return found


def beside(files: Iterable[DataFile], gone: Iterable[DataFile]) -> str:
    """A digest of the files of one bucket above level 0, less those that a compaction takes away."""
    taken = {(file.level, file.file_name) for file in gone}
    kept = sorted((file.level, file.file_name) for file in files if file.level > 0)
    return blake2b(repr([one for one in kept if one not in taken]).encode(), digest_size=16).hexdigest()


def fold(
    entries: Iterable[ManifestEntry], replaced: dict[EntryKey, ManifestEntry] | None = None
) -> dict[EntryKey, ManifestEntry]:
    """What remains after applying entries in order: adds not deleted, and deletes whose add is not among them.
    `replaced`: takes such deletes of files that were added again behind them.

    Raises CorruptError for a file added twice.
    Spec: docs/spec/commit.md#folding
    """
    live: dict[EntryKey, ManifestEntry] = {}
    for entry in entries:
        key = entry_key(entry)
        known = live.get(key)
        if entry.kind == FileKind.ADD:
            if known is not None and known.kind == FileKind.ADD:
                raise CorruptError(
                    f"Trying to add file {entry.file.file_name} which is already added.",
                    bucket=entry.bucket,
                    level=entry.file.level,
                )
            if known is not None and replaced is not None:
                replaced[key] = known
            live[key] = entry
        elif known is not None and known.kind == FileKind.ADD:
            del live[key]
            if replaced and key in replaced:
                live[key] = replaced.pop(key)
        else:
            live[key] = entry
    return live


def fold_between(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Fewer entries that mean the same between others: of a file that was there before, deleted and brought back by a
    rollback, both entries stay, in their order."""
    replaced: dict[EntryKey, ManifestEntry] = {}
    live = fold(entries, replaced)
    return [*replaced.values(), *live.values()]


def deletion(entry: ManifestEntry) -> ManifestEntry:
    """The entry that removes what `entry` added."""
    return replace(entry, kind=FileKind.DELETE)


def record_count(entries: Iterable[ManifestEntry]) -> int:
    """Rows added minus rows deleted."""
    return sum(e.file.row_count if e.kind == FileKind.ADD else -e.file.row_count for e in entries)


def max_sequences(entries: Iterable[ManifestEntry]) -> dict[BucketKey, int]:
    """The greatest sequence number of each bucket's live files; pending postpone files are left out."""
    highest: dict[BucketKey, int] = {}
    for entry in entries:
        if entry.bucket != POSTPONE_BUCKET:
            key = bucket_key(entry)
            highest[key] = max(highest.get(key, -1), entry.file.max_sequence_number)
    return highest
