"""Files that a message's writer made, and their removal where nothing refers to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from bucketlake.errors import BucketlakeError
from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store


class Writer(Protocol):
    """Makes files."""

    def abort(self) -> None:
        """Remove them."""


@contextmanager
def all_or_nothing(writers: Iterable[Writer]) -> Iterator[None]:
    """Where the block fails, nothing stays of what `writers` made, those that came to it within the block included.
    Removal is best effort, and the error is the block's."""
    try:
        yield
    except BaseException:
        for writer in writers:
            with suppress(BucketlakeError):
                writer.abort()
        raise


class MadeFiles:
    """Data files that parts of a whole have made, for `all_or_nothing`; parts may be made by several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files: list[tuple[bytes, int, Sequence[DataFile]]] = []

    def add(self, partition: bytes, bucket: int, files: Sequence[DataFile]) -> None:
        """Take what a part has made."""
        self._files.append((partition, bucket, files))

    def abort(self) -> None:
        """Remove them."""
        for partition, bucket, files in self._files:
            remove_files(self._store, partition, bucket, files)


def made(message: CommitMessage) -> list[DataFile | IndexFile]:
    """The files that a message's writer wrote."""
    data = (*message.new_files, *message.changelog_files, *message.compact_after, *message.compact_changelog)
    kept = {file.file_name for file in (*message.deleted_files, *message.compact_before)}
    kept -= {file.file_name for file in message.new_files}
    made = [file for file in data if file.file_name not in kept]
    return [*made, *message.new_index_files, *message.compact_new_index_files]


def discard(store: Store, messages: Iterable[CommitMessage]) -> None:
    """Remove the files that the writers of messages made, best effort. Only for messages that were not committed."""
    for message in messages:
        for file in made(message):
            remove_made(store, message, file)


def remove_made(store: Store, message: CommitMessage, file: DataFile | IndexFile) -> None:
    """Delete one of them, best effort."""
    if isinstance(file, IndexFile):
        with suppress(BucketlakeError):
            store.env.storage.delete(store.paths.index_path(message.partition, message.bucket, file))
    else:
        remove_files(store, message.partition, message.bucket, [file])


def remove_files(store: Store, partition: bytes, bucket: int, files: Iterable[DataFile]) -> None:
    """Delete data files, and what lies beside them, that nothing refers to, best effort: what stays is an orphan."""
    folder = store.paths.bucket_dir(partition, bucket)
    for file in files:
        with suppress(BucketlakeError):
            store.env.storage.delete(store.paths.file_path(folder, file))
            for name in file.extra_files:
                store.env.storage.delete(store.paths.extra_path(folder, file, name))
