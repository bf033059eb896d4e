"""Hash index files: the hashes of all keys that one bucket of a dynamic table ever got.

    hash index := int32 (big-endian) *        distinct, any order; ascending where written here

Spec: docs/spec/hash_index.md
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bucketlake.errors import CorruptError
from bucketlake.format.row.hashing import Hashes

_STORED = np.dtype(">i4")


def encode_hashes(hashes: Hashes) -> bytes:
    """The bytes of an index file of these hashes, in the order given."""
    return hashes.astype(_STORED).tobytes()


def decode_hashes(data: bytes, source: str = "hash index", rows: int | None = None) -> Hashes:
    """The hashes of an index file in the order stored. `rows`: how many the index manifest says there are.

    Raises CorruptError with `source` for a file of another length.
    """
    if len(data) % _STORED.itemsize:
        raise CorruptError("a hash index holds whole 4-byte hashes", path=source, size=len(data))
    found = len(data) // _STORED.itemsize
    if rows is not None and found != rows:
        raise CorruptError("a hash index is not as long as its manifest says", path=source, rows=found, expected=rows)
    return np.frombuffer(data, _STORED).astype(np.int32)


def verify(known: Hashes, of_keys: Hashes) -> Hashes:
    """The hashes of a bucket's keys that its index lacks, ascending: none, unless the index is damaged. `known`:
    ascending.

    Hashes are only ever added, so an index holds those of all keys that lie in its bucket; one that lacks a hash would
    send the key to another bucket, where it is another row.
    """
    of_keys = np.sort(of_keys)  # looked up in order, which is several times as fast
    if not len(known):
        return of_keys
    places = np.minimum(np.searchsorted(known, of_keys), len(known) - 1)
    lacking: Hashes = of_keys[known[places] != of_keys]
    return lacking


def ascending(hashes: Hashes) -> Hashes:
    """The distinct hashes in ascending order; the array itself where it is that already."""
    if is_ascending(hashes):
        return hashes
    ordered = np.sort(hashes)
    first = np.empty(len(ordered), np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered if first.all() else ordered[first]


def is_ascending(hashes: npt.NDArray[np.int32]) -> bool:
    """Whether hashes are distinct and in ascending order."""
    return bool((hashes[1:] > hashes[:-1]).all())
