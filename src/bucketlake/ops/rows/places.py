"""Where a writer's next data file goes: into its bucket's folder, or into one of the table's folders outside.

Spec: docs/spec/paths.md#external-paths
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.errors import InvalidError
from bucketlake.ops.table.store import Store
from bucketlake.schema.external_folders import external_folders
from bucketlake.values import dataclass

_SIGNS = (4, 4, 4, 8)  # of a hash's last twenty bits, in the names of folders one below the other
HASHED = len(_SIGNS) + 1  # parts of a path: these folders and the file


@dataclass(frozen=True, slots=True)
class Place:
    """A new file's path as the storage takes it, and what its manifest entry names it by, None in its bucket."""

    path: str
    external: str | None = None


class Places:
    """The places of one writer's files, one after the other. Writers begin by chance: one that makes a single file
    would put all of them into one folder."""

    def __init__(self, store: Store, partition: bytes, bucket: int) -> None:
        self._store = store
        self._folder = store.paths.bucket_dir(partition, bucket)
        self._outside = external_folders(store.options)
        if self._outside is not None:
            self._turn = self._outside.first(store.env.clock.jitter())

    def next(self, name: str) -> Place:
        """The place of a file of this name. InvalidError where the session does not allow the folder."""
        outside = self._outside
        if outside is None:
            return Place(f"{self._folder}/{name}")
        chosen, paths = outside.folders[self._turn], self._store.paths
        if outside.weights:
            self._turn = outside.weighted(self._store.env.clock.jitter())
        else:
            self._turn = (self._turn + 1) % len(outside.folders)
        below = f"{hashed_folders(name)}/{name}" if outside.hashed else name
        external = f"{chosen}/{self._folder[len(paths.root) + 1 :]}/{below}"
        return Place(_reached(self._store, external), external)


def check_places(store: Store) -> None:
    """Errors of a table whose new files would go where they cannot: before anything is written."""
    found = external_folders(store.options)
    for folder in () if found is None else found.folders:
        _reached(store, f"{folder}/bucket-0/data")


def _reached(store: Store, external: str) -> str:
    """An external path as the table's storage takes it."""
    path = store.paths.outside(external)
    if path.startswith("/") != store.paths.root.startswith("/"):
        raise InvalidError("external path of another storage than the table's", path=path, table=store.paths.root)
    return path


def hashed_folders(name: str) -> str:
    """The folders that a file's name gives, so that one prefix of an object store does not get all of them."""
    bits = f"{murmur3(name.encode()) | 1 << 31:032b}"[-sum(_SIGNS) :]
    ends = [sum(_SIGNS[: at + 1]) for at in range(len(_SIGNS))]
    return "/".join(bits[end - size : end] for end, size in zip(ends, _SIGNS, strict=True))


def is_hashed(folders: Sequence[str]) -> bool:
    """Whether these are the names of such folders."""
    signs = tuple(len(name) if set(name) <= {"0", "1"} else 0 for name in folders)
    return signs == _SIGNS


def murmur3(data: bytes) -> int:
    """The 32-bit murmur3 of a few bytes with seed 0, as Guava has it."""
    state, whole = 0, len(data) // 4 * 4
    for start in range(0, whole, 4):
        state ^= _mixed(int.from_bytes(data[start : start + 4], "little"))
        state = (_turned(state, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    state ^= _mixed(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return state ^ state >> 16


def _mixed(word: int) -> int:
    return _turned(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF


def _turned(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & 0xFFFFFFFF
