"""B-tree index files of global indexes: the keys of one column in order, each with the ids of its rows.

    file     := block* [nulls, crc32: u32] block footer        the last block says where the others lie
    block    := entry* sizes, as `blocks` stores it
    sizes    := size of each entry: u32, 0: u8                 where all are of one size
              | start of entry: u32*, entries: u32, 1: u8
    entry    := length: varint, key, length: varint, value
    value    := rows: varint, id: varint*                      of a key: ids less the first of the range, ascending
              | offset: varint, size: varint                   of a block: where that of keys up to this one lies
    nulls    := 64-bit roaring bitmap                          the ids of rows without a key
    footer   := bloom filter (u64, u32, u64), blocks (u64, u32), nulls (u64, u32), 1: u32, 0x50425449: u32

Little-endian; keys: `sorted_keys`.

Spec: docs/spec/global_index.md
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from pyroaring import BitMap64

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.index.blocks import TRAILER, Parts, Unselective, block_of, body_of, ids_of_bitmap
from bucketlake.format.index.sorted_keys import (
    cuts,
    joined,
    place_of,
    read_varint,
    recorded_of,
    varints,
    with_size,
)
from bucketlake.format.index.spans import Place, Span
from bucketlake.format.numbers import distinct
from bucketlake.format.varints import decoded, found_at
from bucketlake.lazy import np, npt, pa
from bucketlake.types.arrow import binaries, binary_bounds, binary_content
from bucketlake.types.model import DataType
from bucketlake.values import dataclass

Ints = npt.NDArray["np.int64"]

BTREE = "btree"
MAGIC, VERSION = 0x50425449, 1
FOOTER = struct.Struct("<QIQQIQIII")
_ALIGNED, _LISTED = b"\x00", b"\x01"


# ---------------------------------------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True)
class Blocks:
    """How blocks are written. `size`: bytes; `codec`: none, zstd or lz4."""

    size: int = 64 << 10
    codec: str = "none"
    level: int = 1


def encode_btree(
    keys: pa.Array, starts: Ints, ids: Ints, nulls: Ints, snapshot: int, blocks: Blocks
) -> tuple[bytes, bytes]:
    """A file, and what the index manifest records of it.

    `keys`: distinct ones, ascending, as `encoded_keys` gives them; key i is that of the rows `ids[starts[i] :
    starts[i + 1]]`, of the last key's to the end; `nulls`: ids of rows without a key. Ids are less the first of the
    range and ascend within a key. `snapshot`: the one whose rows these are.
    """
    parts: list[bytes] = []
    lasts, places, lengths = [], [], []
    end = 0
    entries = _entries(keys, starts, ids)
    sizes = np.diff(binary_bounds(entries))
    for first, last in cuts(sizes + 4, blocks.size):  # where each entry begins is counted as well
        data = _block(bytes(binary_content(entries[first:last])), sizes[first:last], blocks)
        lasts.append(keys[last - 1].as_py())
        places.append(end)
        lengths.append(len(data) - TRAILER.size)
        parts.append(data)
        end += len(data)
    empty = (0, 0)
    if len(nulls):
        bitmap = BitMap64(nulls.astype(np.uint64)).serialize()
        parts += [bitmap, struct.pack("<I", zlib.crc32(bitmap))]
        empty = (end, len(bitmap))
        end += len(bitmap) + 4
    where = joined(varints(np.array(places, np.int64)), varints(np.array(lengths, np.int64)))
    index = _entry(pa.array(lasts, pa.large_binary()), where)
    tail = _block(bytes(binary_content(index)), np.diff(binary_bounds(index)), blocks)
    footer = FOOTER.pack(0, 0, 0, end, len(tail) - TRAILER.size, *empty, VERSION, MAGIC)
    return b"".join([*parts, tail, footer]), recorded_of(keys, len(nulls) > 0, snapshot)


def _entries(keys: pa.Array, starts: Ints, ids: Ints) -> pa.Array:
    encoded = varints(ids)
    bounds = np.append(starts, len(ids))
    data = np.frombuffer(encoded.buffers()[2] or b"", np.uint8)
    rows = binaries(data, binary_bounds(encoded)[bounds])
    return _entry(keys, joined(varints(np.diff(bounds)), rows))


def _entry(keys: pa.Array, values: pa.Array) -> pa.Array:
    return joined(with_size(keys), with_size(values))


def _block(data: bytes, sizes: Ints, blocks: Blocks) -> bytes:
    if len(sizes) and (sizes == sizes[0]).all():
        body = data + struct.pack("<I", int(sizes[0])) + _ALIGNED
    else:
        starts = np.append(0, np.cumsum(sizes))[:-1].astype("<u4")
        body = data + starts.tobytes() + struct.pack("<I", len(sizes)) + _LISTED
    return block_of(body, blocks.codec, blocks.level)


# ---------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class BTreeFile:
    """An index file that is read where it is asked. `count`: how many ids there may be."""

    parts: Parts
    count: int
    kind: DataType

    def find(self, spans: Sequence[Span], nulls: bool, most: int = 1 << 62) -> Iterator[Ints]:
        """The ids, less the range's first, of rows whose key is in one of these spans (in order, apart), and of those
        without a key, in any order, not many at once.

        Raises: Unselective, at the first, where more than so many bytes of blocks would be read; CorruptError,
        UnsupportedError, and what `guard.decoding` knows.
        """
        *_, at, length, nulls_at, nulls_length, version, magic = FOOTER.unpack(
            self.parts.bytes(self.parts.size - FOOTER.size, FOOTER.size)
        )
        if magic != MAGIC:
            raise CorruptError("not a btree index file")
        if version != VERSION:
            raise UnsupportedError("a btree index of another version", version=version)
        if length > most:
            raise Unselective
        if spans:
            yield from self._of_spans(_Entries.of(self.parts.block(at, length)), spans, most)
        if nulls:
            data = self.parts.bytes(nulls_at, nulls_length + 4)
            if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0] or not nulls_length:
                raise CorruptError("the check sum of a btree index's nulls is wrong")
            yield from ids_of_bitmap(data[:-4], self.count)

    def _of_spans(self, root: _Entries, spans: Sequence[Span], most: int) -> Iterator[Ints]:
        """`root`: of each block its last key, and where it lies."""
        edges = self._edges(root, spans)
        if not edges:
            return
        numbers = distinct([np.arange(first, last + 1) for _, first, last in edges])
        offsets, sizes = root.handles(numbers)
        if int(sizes.sum()) > most:
            raise Unselective
        handles = list(zip(offsets.tolist(), (sizes + TRAILER.size).tolist(), strict=True))
        begun = 0
        for number, data in zip(numbers.tolist(), self.parts.each(handles), strict=True):
            block = _Entries.of(body_of(data))
            while edges[begun][2] < number:
                begun += 1
            for span, first, last in edges[begun:]:
                if first > number:
                    break
                low = block.first(span.low, self.kind) if first == number and span.low is not None else 0
                high = len(block)
                if last == number and span.high is not None:
                    high = block.first(span.high, self.kind, after=span.closed, start=low)
                yield block.ids(low, high, self.count)

    def _edges(self, root: _Entries, spans: Sequence[Span]) -> list[tuple[Span, int, int]]:
        """The spans that keys may lie in, each with the first and the last block that may hold them."""
        found = []
        start = 0
        for span in spans:
            if span.low is not None:
                start = root.first(span.low, self.kind, start=start)
            if start == len(root):
                break
            last = len(root) if span.high is None else root.first(span.high, self.kind, start=start)
            found.append((span, start, min(last, len(root) - 1)))
        return found


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of a block, one after the other."""

    data: memoryview
    starts: Ints

    @classmethod
    def of(cls, block: memoryview) -> _Entries:
        (number,) = struct.unpack_from("<I", block, len(block) - 5)
        end = len(block) - 5
        if block[-1:] == _ALIGNED:
            if not number or end % number:
                raise ValueError("entries of another size")
            return cls(block[:end], np.arange(0, end, number, dtype=np.int64))
        end -= 4 * number
        if end < 0:
            raise ValueError("more entries than a block holds")
        starts = np.frombuffer(block, "<u4", number, end).astype(np.int64)
        if (starts >= max(end, 1)).any() or (starts[1:] <= starts[:-1]).any():
            raise ValueError("an entry beyond its block")
        return cls(block[:end], starts)

    def __len__(self) -> int:
        return len(self.starts)

    def key(self, number: int) -> memoryview:
        """The key of an entry."""
        length, at = read_varint(self.data, int(self.starts[number]))
        key = self.data[at : at + length]
        if len(key) != length:
            raise ValueError("an entry beyond its block")
        return key

    def first(self, place: Place, kind: DataType, after: bool = False, start: int = 0) -> int:
        """The first entry from `start` on whose key is not below a place, or behind it; how many there are where none
        is."""
        low, high = start, len(self)
        while low < high:
            middle = (low + high) // 2
            found = place_of(self.key(middle), kind)
            if found < place or (after and found == place):
                low = middle + 1
            else:
                high = middle
        return low

    def _values(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Where the values of entries begin and end."""
        data = np.frombuffer(self.data, np.uint8)
        lengths, at = found_at(data, self.starts[numbers])
        sizes, starts = found_at(data, _moved(at, lengths))
        ends = _moved(starts, sizes)
        if (ends != np.append(self.starts, len(data))[numbers + 1]).any():
            raise ValueError("an entry that is not as long as it says")
        return starts, ends

    def handles(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Offsets and sizes that entries have as their values."""
        starts, ends = self._values(numbers)
        data = np.frombuffer(self.data, np.uint8)
        offsets, at = found_at(data, starts)
        sizes, stops = found_at(data, at)
        if (stops != ends).any():
            raise ValueError("where a block lies is not what it says")
        return offsets, sizes

    def ids(self, first: int, last: int, count: int) -> Ints:
        """The ids that entries from one to behind another have as their values. ValueError for one from `count` on."""
        if first >= last:
            return np.zeros(0, np.int64)
        starts, ends = self._values(np.arange(first, last))
        data = np.frombuffer(self.data, np.uint8)
        rows, starts = found_at(data, starts)
        if (starts > ends).any() or (data[ends - 1] >= 0x80).any():
            raise ValueError("ids that are not as many as a key says")
        edges = np.zeros(len(data) + 1, np.int8)
        edges[starts] += 1
        edges[ends] -= 1
        found = decoded(data[np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)]).view(np.int64)
        if len(found) != int(rows.sum()):
            raise ValueError("ids that are not as many as a key says")
        if len(found) and (found.min() < 0 or found.max() >= count):
            raise ValueError("an id beyond the index's range")
        return found


def _moved(places: Ints, by: Ints) -> Ints:
    """Places behind parts of these lengths, which cannot be longer than the largest block."""
    if len(by) and int(by.max()) > 1 << 40:
        raise ValueError("an entry beyond its block")
    return places + by
