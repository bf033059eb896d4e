"""What one snapshot changes: entries of manifests, made of the messages of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from bucketlake.format.index.index_manifest import DELETION_VECTORS, IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry, ManifestFile
from bucketlake.ops.table.entries import beside
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.values import dataclass

ROWS_STAY_PROPERTY = "bucketlake.rows-stay"  # of an OVERWRITE that only moves rows: its commit user
MAX_SEQUENCE_PROPERTY = "sequence.generation.max-sequence-number"


@dataclass(frozen=True, slots=True)
class Changes:
    """What one snapshot changes. `retold`: gives, for a manifest of the base, those that tell its files anew;
    `taken_row_ids`: row ids below are not free any more."""

    table: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    indexes: tuple[IndexEntry, ...] = ()
    retold: Callable[[ManifestFile], Sequence[ManifestFile]] | None = None
    taken_row_ids: int = 0

    @property
    def partitions(self) -> frozenset[bytes]:
        """Every partition with a changed file or index."""
        return frozenset([entry.partition for entry in self.table] + [entry.partition for entry in self.indexes])


def added(messages: Iterable[CommitMessage]) -> Changes:
    """What an overwrite brings."""
    new = changes_of(append_changes(message) for message in messages)
    return replace(new, table=tuple(e for e in new.table if e.kind == FileKind.ADD), changelog=())


def append_changes(message: CommitMessage) -> Changes | None:
    """What a message writes; None if nothing."""
    table = _entries(message, message.new_files, message.deleted_files)
    changelog = _entries(message, message.changelog_files, ())
    indexes = _index_entries(message, message.new_index_files, message.deleted_index_files)
    return Changes(table, changelog, indexes) if table or changelog or indexes else None


def compact_changes(message: CommitMessage) -> Changes | None:
    """What a message compacts; None if nothing."""
    table = _entries(message, message.compact_after, message.compact_before, deletes_first=True)
    changelog = _entries(message, message.compact_changelog, ())
    indexes = _index_entries(message, message.compact_new_index_files, message.compact_deleted_index_files)
    return Changes(table, changelog, indexes) if table or changelog or indexes else None


def compacts(message: CommitMessage) -> bool:
    """Whether a message holds a compaction."""
    return compact_changes(message) is not None


def saw(message: CommitMessage, entries: Iterable[ManifestEntry]) -> bool:
    """Whether a compaction saw just the files above level 0 that its bucket has (`entries`)."""
    seen = message.compact_beside
    return seen is None or seen == beside((entry.file for entry in entries), message.compact_before)


def overwrites(message: CommitMessage) -> bool:
    """Whether a message takes rows away: files, or rows of files by deletion vectors."""
    vectors = (f.index_type == DELETION_VECTORS for f in (*message.new_index_files, *message.deleted_index_files))
    return bool(message.deleted_files) or any(vectors)


def _entries(
    message: CommitMessage, added: Sequence[DataFile], deleted: Sequence[DataFile], deletes_first: bool = False
) -> tuple[ManifestEntry, ...]:
    place = (message.partition, message.bucket, message.total_buckets)
    adds = tuple(ManifestEntry(FileKind.ADD, *place, file) for file in added)
    deletes = tuple(ManifestEntry(FileKind.DELETE, *place, file) for file in deleted)
    return deletes + adds if deletes_first else adds + deletes


def _index_entries(
    message: CommitMessage, added: Sequence[IndexFile], deleted: Sequence[IndexFile]
) -> tuple[IndexEntry, ...]:
    place = (message.partition, message.bucket)
    return tuple(IndexEntry(FileKind.DELETE, *place, file) for file in deleted) + tuple(
        IndexEntry(FileKind.ADD, *place, file) for file in added
    )


def changes_of(parts: Iterable[Changes | None]) -> Changes:
    """Several as one, in order."""
    known = [part for part in parts if part is not None]
    return Changes(
        tuple(entry for part in known for entry in part.table),
        tuple(entry for part in known for entry in part.changelog),
        tuple(entry for part in known for entry in part.indexes),
    )
