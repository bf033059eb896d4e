"""Files copied from one storage to another and checked by their size; what is there whole already stays.

Spec: docs/spec/clone.md#files
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from bucketlake.env.env import Clock
from bucketlake.env.storage import Storage
from bucketlake.errors import AlreadyExistsError, CorruptError
from bucketlake.ops.clean.orphans import Run
from bucketlake.ops.table.parallel import parallel
from bucketlake.values import dataclass

CHUNK = 4 << 20
_GROUP_BYTES = 256 << 20  # of one unit of work
_GROUP_FILES = 500


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file to copy. `size`: what its manifest says, None where it does not."""

    source: str
    target: str
    size: int | None


@dataclass(frozen=True, slots=True)
class CopyFiles:
    """Copies a group of files, some at a time; how many bytes there were. Travels to tasks."""

    source: Storage
    target: Storage
    clock: Clock
    threads: int | None = None

    def __call__(self, group: Sequence[FileCopy]) -> int:
        """Bytes of the files, copied or there already. NotFoundError, CorruptError, StorageError name the file."""
        return sum(parallel(self._one, group, self.threads))

    def _one(self, file: FileCopy) -> int:
        told = self.source.info(file.source)
        size = file.size if file.size is not None and file.size > 0 else (told.size if told is not None else 0)
        found = self.target.info(file.target)
        if found is not None and found.size == size and told is not None and told.size == size:
            return size
        path = self._aside(file.target)
        try:
            self._stream(file.source, path)
            written = self.target.info(path)
            if written is None or written.size != size:
                raise CorruptError(
                    "a file is not as long as its manifest says",
                    path=file.source,
                    size=None if written is None else written.size,
                    recorded=size,
                    remedy="CALL sys.fsck on the source; nothing was published",
                )
            if path != file.target:
                self.target.delete(file.target)
                with suppress(AlreadyExistsError):  # another attempt of this task has just made it
                    self.target.rename(path, file.target)
        finally:
            if path != file.target:
                self.target.delete(path)
        return size

    def _aside(self, path: str) -> str:
        """Where a file is written until it is whole: object stores show no other, folders do."""
        if "://" in path:
            return path
        folder, _, name = path.rpartition("/")
        return f"{folder}/.{name}.{self.clock.new_uuid().replace('-', '')}.tmp"

    def _stream(self, source: str, path: str) -> None:
        """What fails leaves nothing on an object store, where a file appears when it is closed: one that is there by
        then is another attempt's, and whole."""
        with self.source.open_input(source) as opened:
            out = self.target.open_output(path)
            while chunk := opened.read(CHUNK):
                out.write(chunk)
            out.close()


def groups_of(files: Sequence[FileCopy]) -> list[list[FileCopy]]:
    """Files in groups of about the same bytes, as units of work."""
    groups: list[list[FileCopy]] = []
    room = 0
    for file in sorted(files, key=lambda one: -(one.size or 0)):
        if not groups or room < (file.size or 0) or len(groups[-1]) >= _GROUP_FILES:
            groups.append([])
            room = _GROUP_BYTES
        groups[-1].append(file)
        room -= file.size or 0
    return groups


def copy_here(action: Any, units: Sequence[Any]) -> list[Any]:
    """Group after group in this process."""
    return [action(unit) for unit in units]


def copy_all(action: CopyFiles, files: Sequence[FileCopy], run: Run = copy_here) -> int:
    """Copy files; their bytes."""
    return sum(run(action, groups_of(files)))
