"""Bitmap index files of global indexes: the ids of the rows of each key as a bitmap, and a dictionary of the keys.

    file       := (bitmap | dictionary)* index [sums] footer   bitmaps: 64-bit, as in `blocks`
    dictionary := (block) entries: varint, (length: varint, key, offset: varint, size: varint)*      of a key's bitmap
    index      := (block) blocks: varint, (length: varint, first key, offset: varint, size: varint)* of a dictionary
    sums       := crc32: u32*, crc32: u32                      of each 4 KB of the file before the index; of the footer
    footer     := nulls (u64, u32), others (u64, u32), index (u64, u32), keys: u32, 1: u32, 0x42474958: u32

The footer is big-endian, all else little-endian; sizes of blocks are those of their bodies. Bitmaps have no check sums
of their own: files written here have `sums`, which others pass over. Keys: `sorted_keys`; in the order of their values,
but pypaimon orders them by their bytes.

Spec: docs/spec/global_index.md
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.file_index.keys import TEXTS
from bucketlake.format.index.blocks import TRAILER, Handle, Parts, Unselective, block_of, body_of, ids_of_bitmap
from bucketlake.format.index.btree import Blocks
from bucketlake.format.index.sorted_keys import (
    binaries,
    cuts,
    joined,
    place_of,
    read_varint,
    recorded_of,
    varints,
    with_size,
)
from bucketlake.format.index.spans import EVERY, Place, Span, Within
from bucketlake.format.roaring import serialize_bitmap, serialize_bitmaps
from bucketlake.lazy import np, npt, pa
from bucketlake.types.arrow import binary_bounds, binary_content
from bucketlake.types.model import DataType
from bucketlake.values import dataclass

Ints = npt.NDArray["np.int64"]

BITMAP = "bitmap"
MAGIC, VERSION = 0x42474958, 1
FOOTER = struct.Struct(">QIQIQIIII")
SUMMED = 4 << 10  # bytes of one check sum
MOST_LISTED = 4 << 20  # bytes of dictionaries that are read, a key after the other
MOST_KEYS = 10_000  # whose bitmaps are read one by one
ALONE = 1024  # keys that have a dictionary each, which all readers find whatever their order
_ONE_PART = struct.pack("<QI", 1, 0)  # ids below 2^32
_NO_PART = struct.pack("<Q", 0)


# ---------------------------------------------------------------------------------------------- writing


def encode_bitmap(
    keys: pa.Array, starts: Ints, ids: Ints, nulls: Ints, snapshot: int, blocks: Blocks
) -> tuple[bytes, bytes]:
    """A file, and what the index manifest records of it; arguments as of `encode_btree`. Ids are below 2^32."""
    if len(ids) and int(ids.max()) >= 1 << 32:
        raise UnsupportedError("a bitmap index of rows whose ids are more than 2^32 apart")
    of_nulls, others = _bitmap(nulls), _bitmap(np.sort(ids))
    data, bounds = serialize_bitmaps(ids, np.append(starts, len(ids)).astype(np.int64))
    bitmaps = joined(pa.scalar(_ONE_PART, pa.large_binary()), binaries(data, bounds)) if len(keys) else pa.array([])
    sizes = np.diff(bounds) + len(_ONE_PART)
    begin = len(of_nulls) + len(others)
    ends = begin + np.cumsum(sizes)
    parts = [of_nulls, others, bytes(binary_content(bitmaps)) if len(keys) else b""]
    entries = _listed(keys, ends - sizes, sizes)
    end = begin + int(sizes.sum())
    firsts, handles = [], []
    for first, last in _cuts(entries, blocks):
        body = varints(np.array([last - first], np.int64))[0].as_py() + bytes(binary_content(entries[first:last]))
        stored = block_of(body, blocks.codec, blocks.level)
        firsts.append(keys[first].as_py())
        handles.append((end, len(stored) - TRAILER.size))
        parts.append(stored)
        end += len(stored)
    where = np.array(handles, np.int64).reshape(-1, 2)
    listed = _listed(pa.array(firsts, pa.large_binary()), where[:, 0], where[:, 1])
    body = varints(np.array([len(firsts)], np.int64))[0].as_py() + bytes(binary_content(listed))
    index = block_of(body, blocks.codec, blocks.level)
    before = b"".join(parts)
    at = len(of_nulls)
    footer = FOOTER.pack(0, at, at, len(others), end, len(index) - TRAILER.size, len(keys), VERSION, MAGIC)
    sums = np.array([*_sums(before), zlib.crc32(footer)], "<u4").tobytes()
    return b"".join([before, index, sums, footer]), recorded_of(keys, len(nulls) > 0, snapshot)


def _bitmap(ids: Ints) -> bytes:
    return _ONE_PART + serialize_bitmap(ids) if len(ids) else _NO_PART


def _listed(keys: pa.Array, offsets: Ints, sizes: Ints) -> pa.Array:
    return joined(with_size(keys), varints(np.ascontiguousarray(offsets)), varints(np.ascontiguousarray(sizes)))


def _cuts(entries: pa.Array, blocks: Blocks) -> Iterator[tuple[int, int]]:
    """The keys of each dictionary."""
    if len(entries) <= ALONE:
        return iter([(place, place + 1) for place in range(len(entries))])
    return iter(cuts(np.diff(binary_bounds(entries)), blocks.size))


def _sums(data: bytes) -> list[int]:
    view = memoryview(data)
    return [zlib.crc32(view[at : at + SUMMED]) for at in range(0, len(view), SUMMED)]


# ---------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class BitmapFile:
    """An index file that is read where it is asked. `count`: how many ids there may be; `summed`: whether it was
    written here, with check sums of everything."""

    parts: Parts
    count: int
    kind: DataType
    summed: bool

    def find(self, spans: Sequence[Span], nulls: bool, most: int = 1 << 62) -> Iterator[Ints]:
        """As `BTreeFile.find`."""
        footer = self.parts.bytes(self.parts.size - FOOTER.size, FOOTER.size)
        *handles, _, version, magic = FOOTER.unpack(footer)
        if magic != MAGIC:
            raise CorruptError("not a bitmap index file")
        if version != VERSION:
            raise UnsupportedError("a bitmap index of another version", version=version)
        of_nulls, others, index = (handles[0:2], handles[2:4], handles[4:6])
        if self.parts.size - index[0] > most:
            raise Unselective
        parts, root = self._opened(index[0], index[1], zlib.crc32(footer))
        wanted: list[Handle] = []
        if nulls:
            wanted.append((of_nulls[0], of_nulls[1]))
        if tuple(spans) == EVERY:
            wanted.append((others[0], others[1]))
        elif spans:
            wanted += self._keys(parts, _listed_in(root), spans, most)
        if sum(length for _, length in wanted) > most:
            raise Unselective
        for data in parts.each(sorted(wanted)):
            yield from ids_of_bitmap(data, self.count)

    def _opened(self, at: int, length: int, of_footer: int) -> tuple[Parts, memoryview]:
        """What lies before the index, and the index. `of_footer`: the footer's check sum."""
        behind = self.parts.bytes(at, self.parts.size - FOOTER.size - at)
        root = body_of(behind[: length + TRAILER.size])
        parts = Parts(self.parts.read, at)
        if not self.summed:
            return parts, root
        sums = np.frombuffer(behind, "<u4", offset=length + TRAILER.size)
        if len(sums) != -(-at // SUMMED) + 1 or int(sums[-1]) != of_footer:
            raise CorruptError("the check sum of a bitmap index is wrong")
        return Parts(_Summed(parts, sums).read, at), root

    def _keys(
        self, parts: Parts, dictionaries: Sequence[_Listed], spans: Sequence[Span], most: int
    ) -> Iterator[Handle]:
        """Where the bitmaps of keys in the spans lie."""
        ordered = self._is_ordered(dictionaries)
        within = Within(spans)
        chosen = self._chosen(dictionaries, within) if ordered else dictionaries
        handles = [(one.offset, one.length + TRAILER.size) for one in chosen]
        if sum(length for _, length in handles) > min(most, MOST_LISTED):
            raise Unselective
        found = 0
        for data in parts.each(handles):
            listed = _listed_in(body_of(data))
            places = self._places(listed, ordered)
            for one, place in zip(listed, places, strict=True):
                if within.holds(place):
                    found += 1
                    if found > MOST_KEYS:
                        raise Unselective
                    yield one.offset, one.length

    def _is_ordered(self, dictionaries: Sequence[_Listed]) -> bool:
        """Whether keys are in the order of their values for certain; else they may be in that of their bytes."""
        if self.summed or self.kind.root in TEXTS:
            return True
        keys = [one.key for one in dictionaries]
        if all(left < right for left, right in pairwise(keys)):
            return False
        places = [place_of(key, self.kind) for key in keys]
        return all(left < right for left, right in pairwise(places))

    def _chosen(self, dictionaries: Sequence[_Listed], within: Within) -> list[_Listed]:
        """Dictionaries that may have keys in the spans."""
        places = self._places(dictionaries, True)
        ends = [*places[1:], None][: len(places)]
        return [one for one, *own in zip(dictionaries, places, ends, strict=True) if within.meets(*own)]

    def _places(self, listed: Sequence[_Listed], ordered: bool) -> list[Place]:
        """What orders the keys. UnsupportedError where they have to be in order, and are not."""
        places = [place_of(one.key, self.kind) for one in listed]
        if ordered and any(left >= right for left, right in pairwise(places)):
            raise UnsupportedError("a bitmap index whose keys are in no order")
        return places


@dataclass(frozen=True, slots=True)
class _Listed:
    """A key, and where what belongs to it lies."""

    key: bytes
    offset: int
    length: int


def _listed_in(body: memoryview) -> list[_Listed]:
    """What a dictionary, or the index of them, lists."""
    count, at = read_varint(body, 0)
    found: list[_Listed] = []
    while at < len(body):
        length, at = read_varint(body, at)
        key, at = bytes(body[at : at + length]), at + length
        offset, at = read_varint(body, at)
        size, at = read_varint(body, at)
        found.append(_Listed(key, offset, size))
    if len(found) != count:
        raise ValueError("not as many keys as a dictionary says")
    return found


@dataclass(frozen=True, slots=True)
class _Summed:
    """The bytes of a file with check sums, each looked at before it is given."""

    parts: Parts
    sums: npt.NDArray[Any]

    def read(self, at: int, length: int) -> bytes:
        """See Read. Raises: CorruptError."""
        first = at // SUMMED
        end = min(-(-(at + length) // SUMMED) * SUMMED, self.parts.size)
        data = memoryview(self.parts.bytes(first * SUMMED, end - first * SUMMED))
        for place in range(0, len(data), SUMMED):
            if zlib.crc32(data[place : place + SUMMED]) != int(self.sums[first + place // SUMMED]):
                raise CorruptError("the check sum of a bitmap index is wrong", offset=first * SUMMED + place)
        return bytes(data[at - first * SUMMED : at - first * SUMMED + length])
