"""What a storage is, and what it says of a path: the effects on files, which `local.py` and `object_store.py` have.

Spec: docs/spec/paths.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, Protocol, runtime_checkable

from bucketlake.errors import CorruptError, NotFoundError, StorageError
from bucketlake.values import dataclass

WAITING = 16  # requests that one waits for at once

__all__ = ["Buffered", "FileInfo", "Storage", "deleted_one_by_one", "is_there", "outside", "waits"]


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One listed path. `size` in bytes, `modified_millis` epoch milliseconds; both 0 for folders. `is_link`: a symbolic
    link, which nothing that walks a table's folder follows."""

    path: str
    size: int = 0
    modified_millis: int = 0
    is_dir: bool = False
    is_link: bool = False

    @property
    def name(self) -> str:
        """The last segment of the path."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]


class Storage(Protocol):
    """A file or object store. Missing paths raise NotFoundError, other failures StorageError.

    `put_if_absent` is the publish step of every commit: it must be atomic and exclusive among all processes.
    """

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or a range of them."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several ranges (offset, length) of one file, ascending, in as few trips as pay; what lies behind the file's
        end is left out."""

    def open_input(self, path: str) -> BinaryIO:
        """A seekable reader; what parquet and orc readers take."""

    def open_output(self, path: str) -> BinaryIO:
        """A streaming writer of a new file, parent folders made; what is written is whole only after `close`.
        A writer that fails drops it and calls `delete(path)`."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file whole, replacing atomically (readers see the old or the new bytes)."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file whole, or return False if the name is taken. NotWrittenError where certainly nothing was."""

    def info(self, path: str) -> FileInfo | None:
        """Size and time of a file or folder, None if absent."""

    def list(self, path: str) -> list[FileInfo]:
        """Direct children, files and folders, unordered; empty if the folder is absent."""

    def walk(self, path: str) -> Iterator[FileInfo]:
        """All files below a folder; symbolic links are passed over, and not followed."""

    def make_dir(self, path: str) -> None:
        """Create a folder and its parents, where the store has folders."""

    def delete(self, path: str) -> None:
        """Remove a file; absent is fine."""

    def delete_all(self, paths: Sequence[str]) -> int:
        """Remove files with as few requests as the store allows; absent is fine. What cannot be removed stays: how many
        did not."""

    def delete_tree(self, path: str) -> None:
        """Remove a folder with all that it holds; absent is fine."""

    def delete_empty(self, path: str) -> bool:
        """Remove a folder if nothing is in it; whether it was removed. False where the store has no folders."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder to a name that must be free (AlreadyExistsError), copying where the store cannot."""

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, which must be free (AlreadyExistsError), in the same store; a copy where it has no
        links. The target is there whole or not at all, and is as new as the call."""


@runtime_checkable
class Buffered(Protocol):
    """A storage whose files may be lost by a machine that fails after they were written, until they are synced. Others
    keep what they have acknowledged."""

    def sync(self, paths: Sequence[str], named: Sequence[str], root: str) -> None:
        """Make files durable that were written as streams, and the names of these and of `named`, which were written
        whole, in all folders from `root` down. Absent files are passed over."""


def waits(path: str) -> bool:
    """Whether a path lies in a store that answers over a network."""
    return "://" in path and not path.startswith(("memory://", "file://"))


def threads_for(path: str) -> int:
    """How many threads at once ask for many small files below a path: those that wait take no processor."""
    return WAITING if waits(path) else 1


def is_there(storage: Storage, path: str) -> bool:
    """Whether a file is there, in one request: `info` looks for a folder, too, which stores without any list for."""
    try:
        storage.read(path, 0, 1)
    except NotFoundError:
        return False
    return True


def outside(path: str, roots: Sequence[str]) -> CorruptError:
    """A path that leads out of the folders that a table may use."""
    return CorruptError(
        "a path leads out of the table's folder",
        path=path,
        folder=roots[0],
        remedy="a file of the table names it: do not trust the table",
    )


def deleted_one_by_one(delete: Callable[[str], None], paths: Sequence[str]) -> int:
    """Call `delete` for each path; for how many it raised no StorageError."""
    done = 0
    for path in paths:
        with suppress(StorageError):
            delete(path)
            done += 1
    return done
