"""Every effect: files, clock, identifiers, randomness, sleep. Nothing else in the package touches them.

An `Env` is picklable and travels to Spark's tasks. Paths are strings: absolute local paths, or URIs
(`s3://…`, `gs://…`, `az://…`, `memory://…`) that one `Storage` serves. Tests swap the storage or the clock.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol, TypeVar, runtime_checkable

from bucketlake.errors import AlreadyExistsError, NotFoundError, StorageError

T = TypeVar("T")

SYNCS = 16  # at once: the disk puts them together
NO_SYNC = (errno.EINVAL, errno.EROFS, errno.ENOTSUP, errno.EBADF)  # a file system that has nothing to sync
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One listed path. `size` in bytes, `modified_millis` epoch milliseconds; both 0 for folders."""

    path: str
    size: int = 0
    modified_millis: int = 0
    is_dir: bool = False

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
        """Create the file whole, or return False if the name is taken."""

    def info(self, path: str) -> FileInfo | None:
        """Size and time of a file or folder, None if absent."""

    def list(self, path: str) -> list[FileInfo]:
        """Direct children, files and folders, unordered; empty if the folder is absent."""

    def walk(self, path: str) -> Iterator[FileInfo]:
        """All files below a folder."""

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


@runtime_checkable
class Buffered(Protocol):
    """A storage whose files may be lost by a machine that fails after they were written, until they are synced. Others
    keep what they have acknowledged."""

    def sync(self, paths: Sequence[str], named: Sequence[str], root: str) -> None:
        """Make files durable that were written as streams, and the names of these and of `named`, which were written
        whole, in all folders from `root` down. Absent files are passed over."""


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Files of this machine or of a mounted share. Publishing is an exclusive hard link of a synced temporary."""

    def sync(self, paths: Sequence[str], named: Sequence[str], root: str) -> None:
        """See Buffered."""
        folders = {root}
        for path in (*paths, *named):
            folder = os.path.dirname(path)
            while folder.startswith(root) and folder not in folders:
                folders.add(folder)
                folder = os.path.dirname(folder)
        with ThreadPoolExecutor(min(SYNCS, max(len(paths), len(folders)))) as pool:
            list(pool.map(_sync, paths))
            list(pool.map(_sync, folders))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        try:
            with open(path, "rb") as file:
                if offset:
                    file.seek(offset)
                return file.read() if length is None else file.read(length)
        except OSError as error:
            raise _storage_error("cannot read", path, error) from error

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See Storage."""
        try:
            with open(path, "rb", buffering=0) as file:
                return [_pread(file.fileno(), offset, length) for offset, length in ranges]
        except OSError as error:
            raise _storage_error("cannot read", path, error) from error

    def open_input(self, path: str) -> BinaryIO:
        """See Storage."""
        try:
            return open(path, "rb")
        except OSError as error:
            raise _storage_error("cannot open", path, error) from error

    def open_output(self, path: str) -> BinaryIO:
        """See Storage."""
        try:
            return _in_folder(os.path.dirname(path), lambda: open(path, "xb"))
        except OSError as error:
            raise _storage_error("cannot create", path, error) from error

    def write(self, path: str, data: bytes) -> None:
        """See Storage."""
        temporary = self._synced_temporary(path, data)
        try:
            os.replace(temporary, path)
        except OSError as error:
            self.delete(temporary)
            raise _storage_error("cannot replace", path, error) from error

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See Storage."""
        temporary = self._synced_temporary(path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in NO_LINKS:
                raise StorageError(
                    "cannot publish: this file system has no hard links, so a name cannot be taken exclusively",
                    path=path,
                    remedy="put the warehouse on a file system with hard links, or on an object store",
                ) from error
            raise _storage_error("cannot publish", path, error) from error
        finally:
            self.delete(temporary)
        _sync(os.path.dirname(path))
        return True

    def _synced_temporary(self, path: str, data: bytes) -> str:
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
        try:
            with _in_folder(folder, lambda: open(temporary, "xb")) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self.delete(temporary)
            raise _storage_error("cannot write", path, error) from error
        return temporary

    def info(self, path: str) -> FileInfo | None:
        """See Storage."""
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            return None
        except OSError as error:
            raise _storage_error("cannot stat", path, error) from error
        return _local_info(path, status)

    def list(self, path: str) -> list[FileInfo]:
        """See Storage."""
        try:
            with os.scandir(path) as entries:
                return [info for entry in entries if (info := _listed(entry)) is not None]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _storage_error("cannot list", path, error) from error

    def walk(self, path: str) -> Iterator[FileInfo]:
        """See Storage."""
        for folder, _, names in os.walk(path):
            for name in names:
                found = self.info(os.path.join(folder, name))
                if found is not None:
                    yield found

    def make_dir(self, path: str) -> None:
        """See Storage."""
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise _storage_error("cannot create folder", path, error) from error

    def delete(self, path: str) -> None:
        """See Storage."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _storage_error("cannot delete", path, error) from error

    def delete_all(self, paths: Sequence[str]) -> int:
        """See Storage."""
        return deleted_one_by_one(self.delete, paths)

    def delete_tree(self, path: str) -> None:
        """See Storage."""
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _storage_error("cannot delete", path, error) from error

    def delete_empty(self, path: str) -> bool:
        """See Storage."""
        try:
            os.rmdir(path)
        except OSError:
            return False
        return True

    def rename(self, source: str, target: str) -> None:
        """See Storage."""
        if os.path.lexists(target):
            raise AlreadyExistsError("target of a rename exists", path=target)
        try:
            _in_folder(os.path.dirname(target), lambda: os.rename(source, target))
        except OSError as error:
            raise _storage_error("cannot rename", source, error) from error


def _sync(path: str) -> None:
    """Ask the system to put a file, or the names in a folder, on the disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise _storage_error("cannot sync", path, error) from error


def deleted_one_by_one(delete: Callable[[str], None], paths: Sequence[str]) -> int:
    """Call `delete` for each path; for how many it raised no StorageError."""
    done = 0
    for path in paths:
        with suppress(StorageError):
            delete(path)
            done += 1
    return done


def _pread(handle: int, offset: int, length: int) -> bytes:
    """A range of an open file, which the system may give in several parts."""
    found = os.pread(handle, length, offset)
    if len(found) == length:
        return found
    parts = [found]
    while found and sum(map(len, parts)) < length:
        done = sum(map(len, parts))
        found = os.pread(handle, length - done, offset + done)
        parts.append(found)
    return b"".join(parts)


def _in_folder(folder: str, action: Callable[[], T]) -> T:
    """Make the folder and do it; once more where another process has removed the empty folder in between."""
    os.makedirs(folder, exist_ok=True)
    try:
        return action()
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        return action()


def _listed(entry: os.DirEntry[str]) -> FileInfo | None:
    """What a folder's listing says of one entry, None if it has gone meanwhile."""
    try:
        return FileInfo(entry.path, is_dir=True) if entry.is_dir() else _local_info(entry.path, entry.stat())
    except FileNotFoundError:
        return None


def _local_info(path: str, status: os.stat_result) -> FileInfo:
    if os.path.isdir(path):
        return FileInfo(path, is_dir=True)
    return FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _storage_error(what: str, path: str, error: OSError) -> NotFoundError | StorageError:
    if isinstance(error, FileNotFoundError):
        return NotFoundError("no such file", path=path)
    return StorageError(what, path=path, reason=error.strerror or str(error))


def new_scratch_folder() -> str:
    """A fresh folder on this machine's disk for what does not outlive the task; remove it by `delete_tree`.

    It lies in the first of Spark's local folders where the process is an executor's, else in the system's own.
    """
    local = os.environ.get("SPARK_LOCAL_DIRS") or os.environ.get("LOCAL_DIRS") or ""
    folder = local.split(",")[0].strip()
    return tempfile.mkdtemp(prefix="bucketlake-", dir=folder if folder and os.path.isdir(folder) else None)


class Clock(Protocol):
    """Time and chance."""

    def now_millis(self) -> int:
        """Epoch milliseconds."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def new_uuid(self) -> str:
        """A fresh random identifier in the usual 36-character form."""

    def jitter(self) -> float:
        """A random number in [0, 1)."""


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's own time and randomness."""

    def now_millis(self) -> int:
        """See Clock."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """See Clock."""
        time.sleep(seconds)

    def new_uuid(self) -> str:
        """See Clock."""
        return str(uuid.uuid4())

    def jitter(self) -> float:
        """See Clock."""
        return random.random()


@dataclass(frozen=True, slots=True)
class Env:
    """The storage of one warehouse or table, and the clock. Picklable."""

    storage: Storage = field(default_factory=LocalStorage)
    clock: Clock = field(default_factory=SystemClock)
