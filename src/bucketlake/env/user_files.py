"""Files of the user on this machine, not of a warehouse: settings that nobody else may read, rows that come or go.

A file is replaced whole: who reads it at the same time sees the old or the new one. Bytes of pipes and devices come
once, and they are written to, never replaced.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, cast

from bucketlake.errors import StorageError
from bucketlake.lazy import tempfile

__all__ = ["is_stream", "read", "replacing", "stream", "write_private"]


def read(path: str) -> str | None:
    """The file's text, None where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError("cannot read", path=path, reason=error.strerror) from error


def is_stream(path: str) -> bool:
    """Whether a path is a pipe, a device or a terminal: neither a file that can be read again or replaced, nor a
    folder."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def stream(path: str, mode: str) -> BinaryIO:
    """A pipe or a device, opened to read ("rb") or to write ("wb"). StorageError."""
    try:
        return cast("BinaryIO", open(path, mode))
    except OSError as error:
        raise StorageError("cannot open", path=path, reason=error.strerror) from error


def write_private(path: str, text: str) -> None:
    """Write a file that its owner alone can read (0600, its folder 0700 where it is made here)."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=folder, prefix=".config-")  # 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(made, os.path.realpath(path))  # a link stays one
        except BaseException:
            with suppress(OSError):
                os.unlink(made)
            raise
    except OSError as error:
        raise StorageError("cannot write", path=path, reason=error.strerror) from error


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends, and leaves no trace where it fails.
    StorageError names the path, not the file that was to take its place."""
    path = os.path.realpath(path)  # a link stays one
    try:
        handle, made = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)[:40]}-")
    except OSError as error:
        raise StorageError("cannot write", path=path, reason=error.strerror) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(made, _mode(path))
        os.replace(made, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(made)
        if isinstance(error, OSError) and error.filename in (None, made):
            raise StorageError("cannot write", path=path, reason=error.strerror or str(error)) from error
        raise


def _mode(path: str) -> int:
    """The permissions of a file that is replaced, or those that this process gives new ones."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
