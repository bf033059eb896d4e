"""Files of this machine, or of a mounted share: publishing by exclusive links, syncing, and no way out of a folder."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, BinaryIO, TypeVar

from bucketlake.env.sizes import whole
from bucketlake.env.storage import FileInfo, deleted_one_by_one, outside
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CorruptError,
    NotFoundError,
    NotWrittenError,
    StorageError,
)
from bucketlake.file_names import lies_in, too_long
from bucketlake.lazy import futures, shutil, uuid
from bucketlake.values import dataclass

T = TypeVar("T")

SYNCS = 16  # at once: the disk puts them together
NO_SYNC = (errno.EINVAL, errno.EROFS, errno.ENOTSUP, errno.EBADF, errno.ENOENT)  # where nothing is to be synced
_MADE_ANEW = 5  # times that a folder is made which others remove meanwhile
_REMOVED_ANEW = 10  # times that one is removed in which others write or remove meanwhile
NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # a link that leads to itself leads nowhere
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Files of this machine or of a mounted share. Publishing is an exclusive hard link of a synced temporary.

    `roots`: the only folders that calls may reach; empty: any. Below a root no symbolic link is followed, so that
    neither a name nor a link leads out of a table's folder; CorruptError names what would.
    """

    roots: tuple[str, ...] = field(default=(), kw_only=True)

    def within(self, roots: Sequence[str]) -> LocalStorage:
        """The same files, of these folders only."""
        return replace(self, roots=tuple(roots))

    def _checked(self, path: str, last: bool = True) -> str:
        """The path; CorruptError if it leads out of the roots. `last`: it may not be a link itself either, as what is
        read or listed; what is removed or replaced may."""
        if not self.roots:
            return path
        for root in self.roots:
            if path == root or lies_in(path, root):
                break
        else:
            raise outside(path, self.roots)
        if "/../" in path or path.endswith("/.."):
            raise outside(path, self.roots)
        at = len(root.rstrip("/"))
        while (at := path.find("/", at + 1)) >= 0:
            if _without_link(path[:at]) is None:
                return path
        if last and path != root:
            _without_link(path)
        return path

    def sync(self, paths: Sequence[str], named: Sequence[str], root: str) -> None:
        """See Buffered."""
        folders = {root}
        for path in (*paths, *named):
            folder = os.path.dirname(path)
            while folder.startswith(root) and folder not in folders:
                folders.add(folder)
                folder = os.path.dirname(folder)
        with futures.ThreadPoolExecutor(min(SYNCS, max(len(paths), len(folders)))) as pool:
            list(pool.map(_sync, paths))
            list(pool.map(_sync, folders))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        self._checked(path)
        try:
            with open(path, "rb") as file:
                if offset:
                    file.seek(offset)
                size = os.fstat(file.fileno()).st_size  # a length may be anything: what is read is reserved first
                return file.read(whole(path, size) if length is None else max(0, min(length, size - offset)))
        except OSError as error:
            raise _storage_error("cannot read", path, error) from error

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See Storage."""
        self._checked(path)
        try:
            with open(path, "rb", buffering=0) as file:
                return [_pread(file.fileno(), offset, length) for offset, length in ranges]
        except OSError as error:
            raise _storage_error("cannot read", path, error) from error

    def open_input(self, path: str) -> BinaryIO:
        """See Storage."""
        self._checked(path)
        try:
            return open(path, "rb")
        except OSError as error:
            raise _storage_error("cannot open", path, error) from error

    def open_output(self, path: str) -> BinaryIO:
        """See Storage."""
        self._checked(path, last=False)
        try:
            return _in_folder(os.path.dirname(path), lambda: _Output(path))
        except OSError as error:
            raise _storage_error("cannot create", path, error) from error

    def write(self, path: str, data: bytes) -> None:
        """See Storage."""
        temporary = self._synced_temporary(path, data)
        try:
            os.replace(temporary, path)
        except OSError as error:
            with suppress(StorageError):
                self.delete(temporary)
            raise _storage_error("cannot replace", path, error) from error

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See Storage."""
        try:
            temporary = self._synced_temporary(path, data)
        except StorageError as error:
            raise NotWrittenError(error.what, remedy=error.remedy, **error.details) from error
        try:
            os.link(temporary, path)
        except OSError as error:
            if _has_two_names(temporary):
                return True  # a share that lost its own answer asks again, and finds the name taken, or gives up
            if isinstance(error, FileExistsError):
                return False
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
        self._checked(path, last=False)
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
        try:
            with _in_folder(folder, lambda: open(temporary, "xb")) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:  # an interrupt comes most likely here: a disk takes its time
            with suppress(StorageError):  # a read-only place says so of what is not there, too
                self.delete(temporary)
            if isinstance(error, OSError):
                raise _storage_error("cannot write", path, error) from error
            raise
        return temporary

    def info(self, path: str) -> FileInfo | None:
        """See Storage."""
        self._checked(path)
        try:
            status = os.stat(path)
        except OSError as error:
            if error.errno in NOTHING_THERE:
                return None
            raise _storage_error("cannot stat", path, error) from error
        return _local_info(path, status)

    def list(self, path: str) -> list[FileInfo]:
        """See Storage. Links are what they lead to, but with `roots`, where they are shown as links alone."""
        self._checked(path)
        try:
            with os.scandir(path) as entries:
                return [info for entry in entries if (info := _listed(entry, not self.roots)) is not None]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _storage_error("cannot list", path, error) from error

    def walk(self, path: str) -> Iterator[FileInfo]:
        """See Storage."""
        self._checked(path)
        for folder, _, names in os.walk(path):
            for name in names:
                found = _unfollowed(os.path.join(folder, name))
                if found is not None and not found.is_link:
                    yield found

    def make_dir(self, path: str) -> None:
        """See Storage."""
        self._checked(path)
        try:
            _make_folder(path)
        except OSError as error:
            raise _storage_error("cannot create folder", path, error) from error

    def delete(self, path: str) -> None:
        """See Storage. Of a link the link goes."""
        self._checked(path, last=False)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _storage_error("cannot delete", path, error) from error

    def delete_all(self, paths: Sequence[str]) -> int:
        """See Storage. Each folder is looked at once."""
        by_folder: dict[str, list[str]] = {}
        for path in paths:
            by_folder.setdefault(path.rpartition("/")[0], []).append(path)
        return sum(self._delete_in(folder, found) for folder, found in by_folder.items())

    def _delete_in(self, folder: str, paths: Sequence[str]) -> int:
        for path in paths[:1] if self.roots else ():
            self._checked(path, last=False)
        strange = [path for path in paths if path.endswith(("/..", "/."))]
        if strange:
            raise outside(strange[0], self.roots or (folder,))
        return deleted_one_by_one(replace(self, roots=()).delete, paths)

    def delete_tree(self, path: str) -> None:
        """See Storage. Links in the folder go, what they lead to stays."""
        self._checked(path)
        try:
            _remove_tree(path)
        except OSError as error:
            raise _storage_error("cannot delete", path, error) from error

    def delete_empty(self, path: str) -> bool:
        """See Storage."""
        self._checked(path)
        try:
            os.rmdir(path)
        except OSError:
            return False
        return True

    def rename(self, source: str, target: str) -> None:
        """See Storage."""
        self._checked(source)
        self._checked(target)
        if os.path.lexists(target):
            raise AlreadyExistsError("target of a rename exists", path=target)
        try:
            _in_folder(os.path.dirname(target), lambda: os.rename(source, target))
        except OSError as error:
            raise _storage_error("cannot rename", source, error) from error

    def link(self, source: str, target: str) -> None:
        """See Storage. A copy where the two lie on different disks."""
        self._checked(source)
        self._checked(target, last=False)
        try:
            _in_folder(os.path.dirname(target), lambda: _linked(source, target))
            os.utime(target)  # what looks old and belongs to no snapshot yet would be taken for an orphan
        except FileExistsError as error:
            raise AlreadyExistsError("target of a link exists", path=target) from error
        except OSError as error:
            raise _storage_error("cannot link", source, error) from error


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EMLINK, *NO_LINKS):
            raise
    else:
        return
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
    try:
        shutil.copyfile(source, temporary)
        _sync(temporary)
        os.link(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


class _Output(io.BufferedWriter):
    """A new file; a disk that fills up while it is written is told of with its path."""

    def __init__(self, path: str) -> None:
        super().__init__(io.FileIO(path, "x"))
        self._path = path

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise _storage_error("cannot write", self._path, error) from error

    def close(self) -> None:
        try:
            super().close()
        except OSError as error:
            raise _storage_error("cannot write", self._path, error) from error


def scratch_output(path: str) -> BinaryIO:
    """A new file in a scratch folder. Unlike `open_output` it makes no folder: one that is gone was given up by whoever
    made it, and would lie there for ever. StorageError then."""
    try:
        return _Output(path)
    except OSError as error:
        raise StorageError("cannot create", path=path, reason=error.strerror or str(error)) from error


def _has_two_names(path: str) -> bool:
    with suppress(OSError):
        return os.stat(path).st_nlink > 1
    return False


def _sync(path: str) -> None:
    """Ask the system to put a file, or the names in a folder, on the disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise _storage_error("cannot sync", path, error) from error


def _pread(handle: int, offset: int, length: int) -> bytes:
    """A range of an open file as far as it goes, which the system may give in several parts."""
    length = max(0, min(length, os.fstat(handle).st_size - offset))  # what is read is reserved first
    found = os.pread(handle, length, offset)
    parts = [found]
    while found and sum(map(len, parts)) < length:
        done = sum(map(len, parts))
        found = os.pread(handle, length - done, offset + done)
        parts.append(found)
    return b"".join(parts)


def _in_folder(folder: str, action: Callable[[], T]) -> T:
    """Make the folder and do it; once more where another process has removed the empty folder in between."""
    _make_folder(folder)
    try:
        return action()
    except FileNotFoundError:
        _make_folder(folder)
        return action()


def _remove_tree(path: str) -> None:
    """Remove a folder, begun anew where another process removes a file of it, or puts one there, meanwhile."""
    for left in reversed(range(_REMOVED_ANEW)):
        try:
            shutil.rmtree(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY) or (not left and os.path.lexists(path)):
                raise
        if not os.path.lexists(path):
            return


def _make_folder(folder: str) -> None:
    try:
        for left in reversed(range(_MADE_ANEW)):
            try:
                return os.makedirs(folder, exist_ok=True)
            except (FileExistsError, FileNotFoundError):  # also where another process removes it, or one above, now
                if not left or (os.path.lexists(folder) and not os.path.isdir(folder)):
                    raise
    except RecursionError:  # of a thousand folders in one another: `makedirs` calls itself for each
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), folder) from None


def _without_link(path: str) -> os.stat_result | None:
    """CorruptError if the path is a symbolic link, a pipe or a device; what is there."""
    try:
        found = os.lstat(path)
    except OSError:
        return None  # the call itself will say
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFLNK:
        raise CorruptError(
            "a symbolic link in a table's folder is not followed", path=path, remedy="move what it leads to here"
        )
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise CorruptError("neither a file nor a folder", path=path, remedy="remove it")
    return found


def checked_sizes(storage: object, paths: Sequence[str]) -> list[int | None]:
    """What `LocalStorage` checks on every call, for files that another reader opens by their paths; their sizes. None:
    nothing is there, or another storage's."""
    if not isinstance(storage, LocalStorage):
        return [None] * len(paths)
    if storage.roots:
        for folder in {path.rsplit("/", 1)[0] for path in paths}:
            storage._checked(folder)
        return [None if found is None else found.st_size for found in map(_without_link, paths)]
    return [None if found is None else found.size for found in map(storage.info, paths)]


def _listed(entry: os.DirEntry[str], follow: bool) -> FileInfo | None:
    """What a folder's listing says of one entry, None if it has gone meanwhile."""
    try:
        if entry.is_symlink() and not follow:
            return FileInfo(entry.path, is_link=True)
        return FileInfo(entry.path, is_dir=True) if entry.is_dir() else _local_info(entry.path, entry.stat())
    except OSError as error:
        if error.errno in NOTHING_THERE:
            return None
        raise


def _unfollowed(path: str) -> FileInfo | None:
    """Size and time of a file that is no link, None if it has gone meanwhile."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return FileInfo(path, is_link=True) if stat.S_ISLNK(status.st_mode) else _local_info(path, status)


def _local_info(path: str, status: os.stat_result) -> FileInfo:
    if stat.S_ISDIR(status.st_mode):
        return FileInfo(path, is_dir=True)
    return FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _storage_error(what: str, path: str, error: OSError) -> BucketlakeError:
    if isinstance(error, FileNotFoundError):
        return NotFoundError("no such file", path=path)
    if isinstance(error, IsADirectoryError) and what in ("cannot read", "cannot open"):
        return CorruptError("a folder where a file should be", path=path)
    if isinstance(error, NotADirectoryError) and what == "cannot list":
        return CorruptError("a file where a folder should be", path=path)
    other = StorageError(what, path=path, reason=error.strerror or str(error))
    return too_long(path) if error.errno == errno.ENAMETOOLONG else other
