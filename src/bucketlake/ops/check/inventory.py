"""What lies in a table's folder, as hashes and sizes: some bytes a file, whatever the table's size.

    Inventory.of(store) -> Inventory          one walk over the folder, and the folders outside that the table uses
        .sizes(paths) -> int64 array          bytes of each path, -1 where nothing lies there

Two paths of one 64-bit hash are taken for one file.

Spec: docs/maintenance.md#metadata
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice

import numpy as np
import numpy.typing as npt

from bucketlake.env.storage import FileInfo
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

Hashes = npt.NDArray[np.int64]
Sizes = npt.NDArray[np.int64]
MISSING = -1
BATCH = 20_000


def path_hashes(paths: Iterable[str]) -> Hashes:
    """8 bytes that stand for each path."""
    joined = b"".join([blake2b(path.encode(), digest_size=8).digest() for path in paths])
    return np.frombuffer(joined, "<i8").astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The files below a table's folder, ascending by hash; links are followed by nobody, and are none. `loose`:
    those that lie in no bucket."""

    hashes: Hashes
    bytes: Sizes
    loose: tuple[FileInfo, ...] = ()

    @classmethod
    def of(cls, store: Store) -> Inventory:
        """Walk the folder. Raises StorageError."""
        loose: list[FileInfo] = []
        hashes, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        files = all_files(store)
        while batch := list(islice(files, BATCH)):
            loose += [info for info in batch if not in_bucket(info.path)]
            hashes.append(path_hashes(info.path for info in batch))
            sizes.append(np.fromiter((info.size for info in batch), np.int64, len(batch)))
        joined, found = np.concatenate(hashes), np.concatenate(sizes)
        order = np.argsort(joined, kind="stable")
        return cls(joined[order], found[order], tuple(loose))

    def sizes(self, hashes: Hashes) -> Sizes:
        """The bytes of the files of these paths' hashes, MISSING where there is none."""
        if not len(self.hashes):
            return np.full(len(hashes), MISSING, np.int64)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[places] == hashes, self.bytes[places], MISSING)

    def size(self, path: str) -> int:
        """The bytes of one file, MISSING if it is not there."""
        return int(self.sizes(path_hashes([path]))[0])


def in_bucket(path: str) -> bool:
    """Whether a file lies directly in a bucket's folder."""
    return path.rpartition("/")[0].rpartition("/")[2].startswith("bucket-")


def all_files(store: Store) -> Iterator[FileInfo]:
    """Every file below the table's folder, and below folders outside that its files may lie in."""
    for place in places(store):
        yield from store.env.storage.walk(place)


def places(store: Store) -> list[str]:
    """The table's folder and those outside."""
    outside = [root for root in store.paths.external_roots if not f"{root}/".startswith(f"{store.paths.root}/")]
    return [store.paths.root, *outside]
