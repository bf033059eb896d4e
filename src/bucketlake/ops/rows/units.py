"""Files of one bucket that are written anew together, whatever for: their rows, what is committed, vectors that stay.

split_of(store, unit, files, deletions)    their rows, to be read
compacted(unit, after, indexes)            the message to commit
vectors_of_others(store, unit)             what the unit's index files say of other files, written anew
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileKind
from bucketlake.ops.rows.deletions import load_vectors, write_vectors
from bucketlake.ops.table.messages import CommitMessage, DeletionFile, Split
from bucketlake.ops.table.store import Store


class Place(Protocol):
    """Where files lie."""

    @property
    def partition(self) -> bytes:
        """The partition's row."""

    @property
    def bucket(self) -> int:
        """Its number, -1 in tables without buckets."""

    @property
    def total_buckets(self) -> int:
        """As the files' entries have it."""


class Planned(Place, Protocol):
    """Files as of a snapshot."""

    @property
    def snapshot_id(self) -> int:
        """The snapshot."""


class Unit(Place, Protocol):
    """Files that go, with the index files that hold their deletion vectors."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files that go."""

    @property
    def indexes(self) -> tuple[IndexFile, ...]:
        """They go, too; each may speak of other files as well."""


def split_of(
    store: Store,
    unit: Planned,
    files: Sequence[DataFile],
    deletions: Mapping[str, DeletionFile],
    *,
    raw: bool = True,
) -> Split:
    """Rows of some of its files, but for those that vectors name. `deletions`: where these lie, by file name; `raw`:
    no file's rows are to be merged or joined with another's."""
    return Split(
        snapshot_id=unit.snapshot_id,
        partition=unit.partition,
        bucket=unit.bucket,
        total_buckets=unit.total_buckets,
        bucket_path=store.paths.bucket_dir(unit.partition, unit.bucket),
        files=tuple(files),
        raw=raw,
        deletions={file.file_name: deletions[file.file_name] for file in files if file.file_name in deletions},
        replaced=True,
    )


def compacted(unit: Unit, after: Sequence[DataFile], indexes: Sequence[IndexFile]) -> CommitMessage:
    """These files and index files in place of the unit's."""
    return CommitMessage(
        unit.partition,
        unit.bucket,
        unit.total_buckets,
        compact_before=unit.files,
        compact_after=tuple(after),
        compact_new_index_files=tuple(indexes),
        compact_deleted_index_files=unit.indexes,
    )


def vector_entries_of(unit: Unit) -> list[IndexEntry]:
    """The unit's index files, with their place."""
    return [IndexEntry(FileKind.ADD, unit.partition, unit.bucket, file) for file in unit.indexes]


def vectors_of_others(store: Store, unit: Unit) -> list[IndexFile]:
    """The vectors of the unit's index files that speak of files that stay, written anew."""
    if not unit.indexes:
        return []
    gone = {file.file_name for file in unit.files}
    kept = {name: vector for name, vector in load_vectors(store, vector_entries_of(unit)).items() if name not in gone}
    return write_vectors(store, unit.partition, unit.bucket, kept)
