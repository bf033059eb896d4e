"""Hashes that a write gathers by group until its index files are written: on local disk beyond a few megabytes.

What arrives is kept as it came; full, it is ordered by group and hash, made distinct and put aside as one part. A group
is read back as the union of its parts.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field

import numpy as np

from bucketlake.env.env import new_scratch_folder
from bucketlake.env.local import LocalStorage
from bucketlake.format.index.hash_index import ascending
from bucketlake.format.row.hashing import Hashes
from bucketlake.values import dataclass

MEMORY_BYTES = 16 << 20


@dataclass(slots=True)
class HashSpill:
    """Hashes by group. `limit`: bytes held in memory before they are put aside."""

    limit: int = MEMORY_BYTES
    _parts: dict[Hashable, list[Hashes]] = field(default_factory=dict)
    _bytes: int = 0
    _folder: str | None = None
    _files: list[tuple[str, dict[Hashable, tuple[int, int]]]] = field(default_factory=list)

    def add(self, group: Hashable, hashes: Hashes) -> None:
        """Take hashes of a group, in any order, repeated or not."""
        self._parts.setdefault(group, []).append(hashes)
        self._bytes += hashes.nbytes
        if self._bytes >= self.limit:
            self._put_aside()

    def of(self, group: Hashable) -> Hashes:
        """The distinct hashes of a group, ascending."""
        parts = list(self._parts.get(group, ()))
        for path, index in self._files:
            if group in index:
                data = LocalStorage().read(path, *index[group])
                parts.append(np.frombuffer(data, np.int32))
        if not parts:
            return np.zeros(0, np.int32)
        return parts[0] if len(parts) == 1 and group not in self._parts else _union(parts)

    def clear(self) -> None:
        """Forget everything and remove what lies on disk."""
        if self._folder is not None:
            LocalStorage().delete_tree(self._folder)
        self._folder, self._bytes = None, 0
        self._files.clear()
        self._parts.clear()

    def _put_aside(self) -> None:
        if self._folder is None:
            self._folder = new_scratch_folder()
        path = f"{self._folder}/hashes-{len(self._files)}"
        index: dict[Hashable, tuple[int, int]] = {}
        at = 0
        with LocalStorage().open_output(path) as sink:
            for group, parts in self._parts.items():
                data = _union(parts).tobytes()
                sink.write(data)
                index[group] = (at, len(data))
                at += len(data)
        self._files.append((path, index))
        self._parts.clear()
        self._bytes = 0


def _union(parts: list[Hashes]) -> Hashes:
    return ascending(np.sort(np.concatenate(parts)))
