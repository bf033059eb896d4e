"""A storage that a rehearsal plays on: what an operation would write is kept in memory, what it would remove is hidden,
and nothing of it happens.

    rehearsed(env) -> (env, Rehearsal)       the operation itself runs, so it does exactly what it would do

Only for operations that write metadata and remove files: what is written is held in memory.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any, BinaryIO

from bucketlake.env.env import Env
from bucketlake.env.storage import FileInfo, Storage
from bucketlake.errors import AlreadyExistsError, NotFoundError
from bucketlake.values import dataclass

__all__ = ["Rehearsal", "rehearsed"]


@dataclass(slots=True)
class Rehearsal:
    """What would have happened: files removed, with their sizes, and files written."""

    removed: dict[str, int] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)
    millis: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of what would be removed."""
        return sum(self.removed.values())


def rehearsed(env: Env) -> tuple[Env, Rehearsal]:
    """An env whose changes are kept apart, and what they are. No catalog is told of them."""
    notes = Rehearsal(millis=env.clock.now_millis())
    return replace(env, storage=RehearsedStorage(env.storage, notes), keeper=None), notes


class _Kept(io.BytesIO):
    """A file that is written to memory."""

    def __init__(self, path: str, notes: Rehearsal) -> None:
        super().__init__()
        self._path, self._notes = path, notes

    def close(self) -> None:
        """What was written is there from now on."""
        if not self.closed:
            self._notes.written[self._path] = self.getvalue()
        super().close()


@dataclass(frozen=True, slots=True, eq=False)
class RehearsedStorage:
    """A storage over another one that only reads it. See Storage for what each call does. Equal to itself alone: what
    others remember of a file must not be what a rehearsal wrote."""

    inner: Any
    notes: Rehearsal

    def within(self, roots: Sequence[str]) -> Storage:
        """The same, reaching these folders alone."""
        narrowed = getattr(type(self.inner), "within", None)
        return self if narrowed is None else replace(self, inner=narrowed(self.inner, roots))

    def _held(self, path: str) -> bytes | None:
        """What was written to a file; NotFoundError for one that was removed."""
        if path in self.notes.written:
            return self.notes.written[path]
        if path in self.notes.removed:
            raise NotFoundError("no such file", path=path)
        return None

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        held = self._held(path)
        if held is None:
            found: bytes = self.inner.read(path, offset, length)
            return found
        return held[offset:] if length is None else held[offset : offset + length]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See Storage."""
        held = self._held(path)
        if held is None:
            found: list[bytes] = self.inner.read_ranges(path, ranges)
            return found
        return [held[offset : offset + length] for offset, length in ranges]

    def open_input(self, path: str) -> BinaryIO:
        """See Storage."""
        held = self._held(path)
        if held is None:
            found: BinaryIO = self.inner.open_input(path)
            return found
        return io.BytesIO(held)

    def open_output(self, path: str) -> BinaryIO:
        """See Storage."""
        return _Kept(path, self.notes)

    def write(self, path: str, data: bytes) -> None:
        """See Storage."""
        self.notes.written[path] = bytes(data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See Storage."""
        if self.info(path) is not None:
            return False
        self.write(path, data)
        return True

    def info(self, path: str) -> FileInfo | None:
        """See Storage."""
        if path in self.notes.written:
            return FileInfo(path, len(self.notes.written[path]), self.notes.millis)
        if path in self.notes.removed:
            return None
        found: FileInfo | None = self.inner.info(path)
        if found is None and any(one.startswith(f"{path}/") for one in self.notes.written):
            return FileInfo(path, is_dir=True)
        return found

    def list(self, path: str) -> list[FileInfo]:
        """See Storage."""
        top = path.rstrip("/")
        found = {info.path: info for info in self.inner.list(path) if info.path not in self.notes.removed}
        for one, data in self.notes.written.items():
            if one.startswith(f"{top}/"):
                child, _, rest = one[len(top) + 1 :].partition("/")
                own = f"{top}/{child}"
                found[own] = FileInfo(own, is_dir=True) if rest else FileInfo(own, len(data), self.notes.millis)
        return list(found.values())

    def walk(self, path: str) -> Iterator[FileInfo]:
        """See Storage."""
        for info in self.inner.walk(path):
            if info.path not in self.notes.removed and info.path not in self.notes.written:
                yield info
        for one, data in dict(self.notes.written).items():
            if one.startswith(f"{path.rstrip('/')}/"):
                yield FileInfo(one, len(data), self.notes.millis)

    def make_dir(self, path: str) -> None:
        """See Storage: nothing to do."""

    def delete(self, path: str) -> None:
        """See Storage."""
        if self.notes.written.pop(path, None) is not None and self.inner.info(path) is None:
            return
        info = None if path in self.notes.removed else self.inner.info(path)
        if info is not None:
            self.notes.removed[path] = info.size

    def delete_all(self, paths: Sequence[str]) -> int:
        """See Storage."""
        for path in paths:
            self.delete(path)
        return len(paths)

    def delete_tree(self, path: str) -> None:
        """See Storage."""
        for info in list(self.walk(path)):
            self.delete(info.path)

    def delete_empty(self, path: str) -> bool:
        """See Storage: folders stay."""
        return False

    def rename(self, source: str, target: str) -> None:
        """See Storage: of files."""
        if self.info(target) is not None:
            raise AlreadyExistsError("target of a rename exists", path=target)
        self.write(target, self.read(source))
        self.delete(source)

    def link(self, source: str, target: str) -> None:
        """See Storage."""
        if self.info(target) is not None:
            raise AlreadyExistsError("target of a link exists", path=target)
        self.write(target, self.read(source))
