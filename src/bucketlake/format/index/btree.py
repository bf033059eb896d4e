"""B-tree index files of global indexes: the keys of one column in order, each with the ids of its rows.

    file     := block* [nulls, crc32: u32] block footer        the last block says where the others lie
    block    := entry* body codec: u8 crc32: u32               the check sum is of all before it
    body     := size of each entry: u32, 0: u8                 where all are of one size
              | start of entry: u32*, entries: u32, 1: u8
    entry    := length: varint, key, length: varint, value
    value    := rows: varint, id: varint*                      of a key: ids less the first of the range, ascending
              | offset: varint, size: varint                   of a block: where that of keys up to this one lies
    nulls    := 64-bit roaring bitmap                          the ids of rows without a key
    footer   := bloom filter (u64, u32, u64), blocks (u64, u32), nulls (u64, u32), 1: u32, 0x50425449: u32
    recorded := length: u32, first key, length: u32, last key, has nulls: u8, 1: u8, flags: u8, [snapshot: u64]

What is recorded lies in the index manifest; the snapshot, whose rows were indexed, is written here alone, and is passed
over by others.

Little-endian; varints have seven bits a byte, the lowest first. Keys: BOOLEAN, TINYINT 1 byte; SMALLINT 2; INT, DATE,
TIME, FLOAT 4; BIGINT, DOUBLE, DECIMAL up to 18 digits and timestamps 8 (milliseconds; beyond precision 3 a varint of
nanoseconds follows); text as it is.

Spec: docs/spec/global_index.md
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyroaring import BitMap64

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.file_index.keys import FLOATS, STAMPS, TEXTS, float_bits, whole_numbers
from bucketlake.format.roaring import read_bitmap
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.types.model import DataType, Root, type_text
from bucketlake.values import dataclass

Ints = npt.NDArray["np.int64"]
Read = Callable[[int, int], bytes]
"""Bytes of a file from an offset on: (offset, length)."""

BTREE = "btree"
MAGIC, VERSION = 0x50425449, 1
FOOTER = struct.Struct("<QIQQIQIII")
LARGEST_BLOCK = (
    256 << 20
)  # bytes of a block that are read at once: they are as large as an option says, 64 KB by default
_TRAILER = struct.Struct("<BI")
_ALIGNED, _LISTED, _PLAIN = b"\x00", b"\x01", b"\x00"
_SNAPSHOT = struct.Struct("<Q")
_END_IS_NULL = (1, 2)  # flags of the first key and the last
_WIDTHS = {
    Root.BOOLEAN: 1,
    Root.TINYINT: 1,
    Root.SMALLINT: 2,
    Root.INT: 4,
    Root.DATE: 4,
    Root.TIME: 4,
    Root.FLOAT: 4,
    Root.BIGINT: 8,
    Root.DOUBLE: 8,
    Root.DECIMAL: 8,
    Root.TIMESTAMP: 8,
    Root.TIMESTAMP_LTZ: 8,
}


def check_indexed(kind: DataType) -> None:
    """UnsupportedError for a type that has no keys here."""
    if kind.root not in (*_WIDTHS, *TEXTS) or (kind.root is Root.DECIMAL and (kind.precision or 0) > 18):
        raise UnsupportedError(
            f"DataType: {type_text(kind)} is not supported by global index now.",
            remedy="index a column of numbers (decimals of up to 18 digits), text, dates or times",
        )


# ---------------------------------------------------------------------------------------------- keys


def encoded_keys(array: pa.Array, kind: DataType) -> pa.Array:
    """The keys of values in the canonical Arrow layout, none null: large binaries."""
    if kind.root in TEXTS:
        return array.cast(pa.large_binary())
    if kind.root in FLOATS:
        return _fixed(float_bits(array), _WIDTHS[kind.root])
    if kind.root in STAMPS and (kind.precision or 0) > 3:
        nanos = array.cast(pa.int64()).to_numpy()
        if array.type.unit != "ns":
            nanos, rest = nanos // 1000, nanos % 1000 * 1000
        else:
            nanos, rest = nanos // 1_000_000, nanos % 1_000_000
        return _joined(_fixed(nanos, 8), varints(rest))
    return _fixed(whole_numbers(array, kind), _WIDTHS[kind.root])


def place_of(key: bytes | memoryview, kind: DataType) -> Any:
    """What orders keys as their values are: a number, or bytes. ValueError for what is no key of the type."""
    if kind.root in TEXTS:
        return bytes(key)
    width = _WIDTHS[kind.root]
    number = int.from_bytes(key[:width], "little", signed=True)
    if kind.root in STAMPS and (kind.precision or 0) > 3:
        rest, end = _varint(key, width)
        if end != len(key):
            raise ValueError("a key of another length")
        return number * 1_000_000 + rest
    if len(key) != width:
        raise ValueError("a key of another length")
    if kind.root in FLOATS and number < 0:
        number ^= (1 << (8 * width - 1)) - 1
    return number


def _fixed(values: npt.NDArray[Any], width: int) -> pa.Array:
    data = np.ascontiguousarray(values.astype(f"<i{width}"))
    offsets = np.arange(len(values) + 1, dtype=np.int64) * width
    return pa.Array.from_buffers(pa.large_binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def varints(values: Ints) -> pa.Array:
    """Numbers from 0 on as large binaries of seven bits a byte, the lowest first."""
    sizes = np.ones(len(values), np.int64)
    for more in range(7, 63, 7):
        above = values >> more
        if not above.any():
            break
        sizes += above > 0
    offsets = np.append(0, np.cumsum(sizes))
    data = np.zeros(int(offsets[-1]), np.uint8)
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        bits = (values[rows] >> (7 * place)) & 0x7F
        data[offsets[rows] + place] = np.where(sizes[rows] > place + 1, bits | 0x80, bits)
    return pa.Array.from_buffers(pa.large_binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _joined(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


# ---------------------------------------------------------------------------------------------- writing


def encode_btree(
    keys: pa.Array, starts: Ints, ids: Ints, nulls: Ints, snapshot: int, block_size: int = 64 << 10
) -> tuple[bytes, bytes]:
    """A file, and what the index manifest records of it.

    `keys`: distinct ones, ascending, as `encoded_keys` gives them; key i is that of the rows `ids[starts[i] :
    starts[i + 1]]`, of the last key's to the end; `nulls`: ids of rows without a key. Ids are less the first of the
    range and ascend within a key. `snapshot`: the one whose rows these are; `block_size`: bytes.
    """
    parts: list[bytes] = []
    blocks: list[tuple[bytes, int, int]] = []
    end = 0
    entries = _entries(keys, starts, ids)
    offsets = _offsets(entries)
    spent = offsets + 4 * np.arange(len(offsets))  # where each entry begins is counted as well
    first = 0
    while first < len(entries):
        last = min(int(np.searchsorted(spent, spent[first] + block_size)), len(entries))
        last = max(last, first + 1)
        data = _block(_content(entries, first, last), np.diff(offsets[first : last + 1]))
        blocks.append((keys[last - 1].as_py(), end, len(data) - _TRAILER.size))
        parts.append(data)
        end += len(data)
        first = last
    empty = (0, 0)
    if len(nulls):
        bitmap = BitMap64(nulls.astype(np.uint64)).serialize()
        parts += [bitmap, struct.pack("<I", zlib.crc32(bitmap))]
        empty = (end, len(bitmap))
        end += len(bitmap) + 4
    places = pa.array([place for _, place, _ in blocks], pa.int64()).to_numpy()
    lengths = pa.array([size for _, _, size in blocks], pa.int64()).to_numpy()
    where = _joined(varints(places), varints(lengths))
    lasts = pa.array([key for key, _, _ in blocks], pa.large_binary())
    index = _entry(lasts, where)
    tail = _block(_content(index, 0, len(index)), np.diff(_offsets(index)))
    footer = FOOTER.pack(0, 0, 0, end, len(tail) - _TRAILER.size, *empty, VERSION, MAGIC)
    ends = [keys[place].as_py() if len(keys) else None for place in (0, -1)]
    recorded = _recorded(ends, len(nulls) > 0) + _SNAPSHOT.pack(snapshot)
    return b"".join([*parts, tail, footer]), recorded


def _entries(keys: pa.Array, starts: Ints, ids: Ints) -> pa.Array:
    encoded = varints(ids)
    bounds = np.append(starts, len(ids))
    own = np.ascontiguousarray(_offsets(encoded)[bounds])
    rows = pa.Array.from_buffers(pa.large_binary(), len(starts), [None, pa.py_buffer(own), encoded.buffers()[2]])
    return _entry(keys, _joined(varints(np.diff(bounds)), rows))


def _entry(keys: pa.Array, values: pa.Array) -> pa.Array:
    sizes = [varints(pc.binary_length(part).cast(pa.int64()).to_numpy()) for part in (keys, values)]
    return _joined(sizes[0], keys, sizes[1], values)


def _block(data: bytes, sizes: Ints) -> bytes:
    if len(sizes) and (sizes == sizes[0]).all():
        body = data + struct.pack("<I", int(sizes[0])) + _ALIGNED
    else:
        starts = np.append(0, np.cumsum(sizes))[:-1].astype("<u4")
        body = data + starts.tobytes() + struct.pack("<I", len(sizes)) + _LISTED
    return body + _TRAILER.pack(0, zlib.crc32(_PLAIN, zlib.crc32(body)))


def _offsets(array: pa.Array) -> Ints:
    return np.frombuffer(array.buffers()[1] or bytes(8), np.int64)[array.offset : array.offset + len(array) + 1]


def _content(array: pa.Array, first: int, last: int) -> bytes:
    bounds, data = _offsets(array), array.buffers()[2]
    if data is None or first == last:
        return b""
    return bytes(data.slice(int(bounds[first]), int(bounds[last] - bounds[first])).to_pybytes())


def _recorded(ends: Sequence[bytes | None], nulls: bool) -> bytes:
    flags = sum(bit for bit, end in zip(_END_IS_NULL, ends, strict=True) if end is None)
    keys = b"".join(struct.pack("<I", len(key or b"")) + (key or b"") for key in ends)
    return keys + bytes([nulls, 1, flags])


# ---------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class Recorded:
    """What an index manifest says of a file: its first and last key, None where it has none, whether rows have no key,
    and the snapshot whose rows were indexed, None where only the file's writer knows it."""

    first: bytes | None
    last: bytes | None
    has_nulls: bool
    snapshot: int | None = None

    @classmethod
    def of(cls, data: bytes) -> Recorded:
        """Raises: ValueError, struct.error or IndexError for what is none."""
        ends: list[bytes | None] = []
        at = 0
        for _ in range(2):
            (length,) = struct.unpack_from("<I", data, at)
            if at + 4 + length > len(data):
                raise ValueError("a key beyond the end")
            ends.append(data[at + 4 : at + 4 + length])
            at += 4 + length
        nulls, snapshot = data[at] == 1, None
        if len(data) == at + 3 + _SNAPSHOT.size:
            (snapshot,) = _SNAPSHOT.unpack_from(data, at + 3)
        if len(data) >= at + 3 and data[at + 1] == 1:
            flags = data[at + 2]
            ends = [None if flags & bit else end for bit, end in zip(_END_IS_NULL, ends, strict=True)]
        elif nulls and not ends[0] and not ends[1]:
            ends = [None, None]  # older files say so of a file without keys
        return cls(ends[0], ends[1], nulls, snapshot)

    def may_hold(self, place: Any, kind: DataType) -> bool:
        """Whether a key may be among the file's."""
        if self.first is None or self.last is None:
            return False
        return bool(place_of(self.first, kind) <= place <= place_of(self.last, kind))


def of_no_snapshot(recorded: bytes) -> bytes:
    """What is recorded of a file, with a snapshot before all: another table counts its snapshots anew."""
    known = Recorded.of(recorded).snapshot is not None
    return recorded[: -_SNAPSHOT.size] + _SNAPSHOT.pack(0) if known else recorded


@dataclass(frozen=True, slots=True)
class BTreeFile:
    """An index file that is read where it is asked. `size`: of the file; `count`: how many ids there may be."""

    read: Read
    size: int
    count: int
    kind: DataType

    def find(self, places: Sequence[Any], nulls: bool) -> Ints:
        """The ids, less the range's first, of rows whose key is one of these (`place_of`, ascending), and of those
        without a key; in any order. Raises: CorruptError, ValueError and what `guard.decoding` knows."""
        *_, at, length, nulls_at, nulls_length, version, magic = FOOTER.unpack(
            self._bytes(self.size - FOOTER.size, FOOTER.size)
        )
        if magic != MAGIC:
            raise CorruptError("not a btree index file")
        if version != VERSION:
            raise UnsupportedError("a btree index of another version", version=version)
        found = [np.zeros(0, np.int64)]
        if places:
            found += self._of_keys(self._block(at, length), places)
        if nulls and nulls_length:
            data = self._bytes(nulls_at, nulls_length + 4)
            if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
                raise CorruptError("the check sum of a btree index's nulls is wrong")
            found.append(_bitmap(data[:-4], self.count))
        return np.concatenate(found)

    def _of_keys(self, root: memoryview, places: Sequence[Any]) -> Iterator[Ints]:
        index, left = _Entries.of(root), list(places)
        number = 0
        while left and number < len(index):
            number = index.first_not_below(left[0], self.kind, number)
            if number == len(index):
                return
            key, value = index.at(number)
            last = place_of(key, self.kind)
            inside = [place for place in left if place <= last]
            left = left[len(inside) :]
            at, end = _varint(value, 0)
            size, end = _varint(value, end)
            block = _Entries.of(self._block(at, size))
            row = 0
            for place in inside:
                row = block.first_not_below(place, self.kind, row)
                if row == len(block):
                    break
                key, value = block.at(row)
                if place_of(key, self.kind) == place:
                    yield _ids(value, self.count)
            number += 1

    def _block(self, at: int, length: int) -> memoryview:
        data = self._bytes(at, length + _TRAILER.size)
        codec, told = _TRAILER.unpack_from(data, length)
        if zlib.crc32(data[: length + 1]) != told:
            raise CorruptError("the check sum of a btree index's block is wrong")
        if codec:
            raise UnsupportedError("a btree index with compressed blocks", codec=codec)
        return memoryview(data)[:length]

    def _bytes(self, at: int, length: int) -> bytes:
        if at < 0 or length > LARGEST_BLOCK or at + length > self.size:
            raise CorruptError("a part of a btree index lies beyond its end", offset=at, length=length)
        data = self.read(at, length)
        if len(data) != length:
            raise CorruptError("a btree index is cut off", offset=at, length=length)
        return data


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of a block."""

    data: memoryview
    starts: npt.NDArray[Any]

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
        starts = np.frombuffer(block, "<u4", number, end)
        if (starts >= max(end, 1)).any():
            raise ValueError("an entry beyond its block")
        return cls(block[:end], starts)

    def __len__(self) -> int:
        return len(self.starts)

    def at(self, number: int) -> tuple[memoryview, memoryview]:
        """Key and value of an entry."""
        length, at = _varint(self.data, int(self.starts[number]))
        key = self.data[at : at + length]
        size, start = _varint(self.data, at + length)
        value = self.data[start : start + size]
        if len(key) != length or len(value) != size:
            raise ValueError("an entry beyond its block")
        return key, value

    def first_not_below(self, place: Any, kind: DataType, start: int = 0) -> int:
        """The first entry from `start` on whose key is not below; how many there are where none is."""
        low, high = start, len(self)
        while low < high:
            middle = (low + high) // 2
            if place_of(self.at(middle)[0], kind) < place:
                low = middle + 1
            else:
                high = middle
        return low


def _ids(value: memoryview, count: int) -> Ints:
    """The ids of a key's rows."""
    rows, at = _varint(value, 0)
    data = np.frombuffer(value, np.uint8)[at:]
    ends = np.flatnonzero(data < 0x80)
    if rows != len(ends) or rows > count or (rows and ends[-1] != len(data) - 1):
        raise ValueError("not as many ids as a key says")
    sizes = np.diff(ends, prepend=-1)
    if rows and sizes.max() > 9:
        raise ValueError("an id of more than 63 bits")
    shifts = 7 * (np.arange(len(data)) - np.repeat(ends - sizes + 1, sizes))
    parts = (data & 0x7F).astype(np.int64) << shifts
    found = np.add.reduceat(parts, ends - sizes + 1) if rows else np.zeros(0, np.int64)
    return _within(found, count)


def _bitmap(data: bytes, count: int) -> Ints:
    """The ids of a bitmap in the portable form for 64 bits: bitmaps by the upper 32 bits."""
    from_bitmaps = [np.zeros(0, np.int64)]
    (parts,) = struct.unpack_from("<Q", data, 0)
    at = 8
    for _ in range(min(parts, len(data))):
        (high,) = struct.unpack_from("<I", data, at)
        low, at = read_bitmap(data, at + 4)
        if len(low) > count:
            raise ValueError("more ids than rows")
        from_bitmaps.append(np.array(low.to_array(), np.int64) + (high << 32))
    return _within(np.concatenate(from_bitmaps), count)


def _within(ids: Ints, count: int) -> Ints:
    if len(ids) and (ids.min() < 0 or ids.max() >= count):
        raise ValueError("an id beyond the index's range")
    return ids
