"""Range bitmap index: distinct values in order, numbered, and the numbers of all rows by bit.

    range-bitmap := header length: i32, 1: u8, rows: i32, values: i32, [least key, greatest key],
                    dictionary length: i32, dictionary, bits
    dictionary   := header length: i32, 1: u8, chunks: i32, offsets length: i32, chunks length: i32,
                    offset: i32*, chunk*, keys*                            offset: of each chunk among the chunks
    chunk        := 1: u8, first key, its number: i32, offset of its keys: i32, further keys: i32,
                    keys length: i32, key length: i32                      keys of one length
                  | …, offsets length: i32, keys length: i32               texts; keys := offset: i32*, key*
    bits         := header length: i32, 1: u8, slices: u8, existence length: i32, directory length: i32,
                    (offset: i32, length: i32)*, existence, slice*         bitmaps; slice i: rows with bit i

Big-endian. A chunk takes further keys up to `chunk-size` bytes; with 0 every key has its own.

Spec: docs/spec/file_index.md#range-bitmap
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pyroaring import BitMap

from bucketlake.format.file_index.keys import Keys, distinct, key_width, places, read_key, records
from bucketlake.format.roaring import read_bitmap, serialize_bitmap
from bucketlake.lazy import np, npt, pa
from bucketlake.types.model import DataType, Root

Ints = npt.NDArray["np.int64"]
DEFAULT_CHUNK = 16 << 10
_UNCHUNKED = (Root.BOOLEAN, Root.TINYINT, Root.SMALLINT)
_VERSION = b"\x01"
_NO_VALUE_SLICES = 64


def encode_range_bitmap(chunks: Sequence[pa.Array], kind: DataType, chunk_size: int | None) -> bytes:
    """The index of a column given as canonical arrays. `chunk_size`: None takes the default of the type."""
    found = distinct(chunks, kind)
    keys = found.keys
    limit = chunk_size if chunk_size is not None else 0 if kind.root in _UNCHUNKED else DEFAULT_CHUNK
    dictionary = _dictionary(keys, key_width(kind), limit)
    ends = keys.one(0) + keys.one(len(keys) - 1) if len(keys) else b""
    header = _VERSION + struct.pack(">ii", len(found.codes), len(keys)) + ends + struct.pack(">i", len(dictionary))
    slices = max((len(keys) - 1).bit_length(), 1) if len(keys) else _NO_VALUE_SLICES
    return struct.pack(">i", len(header)) + header + dictionary + _bits(found.codes, slices)


def _bits(codes: npt.NDArray[Any], slices: int) -> bytes:
    rows = np.flatnonzero(codes >= 0)
    numbers = codes[rows]
    existence = serialize_bitmap(rows)
    bodies = [serialize_bitmap(rows[(numbers >> bit) & 1 == 1]) for bit in range(slices)]
    lengths = np.array([len(body) for body in bodies], np.int64)
    directory = np.stack([np.append(0, np.cumsum(lengths)[:-1]), lengths], axis=1).astype(">i4").tobytes()
    header = _VERSION + struct.pack(">bii", slices, len(existence), len(directory)) + directory
    return struct.pack(">i", len(header)) + header + existence + b"".join(bodies)


def _dictionary(keys: Keys, width: int | None, limit: int) -> bytes:
    firsts = _chunk_starts(keys, width, limit)
    ends = np.append(firsts, len(keys))[1:]
    further = ends - firsts - 1
    sizes = keys.offsets[ends] - keys.offsets[firsts + 1] if len(firsts) else ends
    index_sizes = 4 * further if width is None else np.zeros(len(firsts), np.int64)
    at = np.append(0, np.cumsum(sizes + index_sizes))[:-1]
    last = (index_sizes, sizes) if width is None else (sizes, np.full(len(firsts), width))
    rows = records((), keys.take(firsts), (firsts, at, further, *last))
    marked = Keys(np.insert(rows.data, rows.offsets[:-1], 1), rows.offsets + np.arange(len(rows.offsets)))
    header = _VERSION + struct.pack(">iii", len(firsts), 4 * len(firsts), len(marked.data))
    offsets = marked.offsets[:-1].astype(">i4").tobytes()
    return struct.pack(">i", len(header)) + header + offsets + marked.data.tobytes() + _bodies(keys, firsts, width)


def _chunk_starts(keys: Keys, width: int | None, limit: int) -> Ints:
    if width is not None:
        return np.arange(0, len(keys), 1 + limit // width, dtype=np.int64)
    starts = [0] if len(keys) else []
    while starts:
        first = starts[-1] + 1
        reach = keys.offsets[min(first, len(keys))] + limit
        following = max(int(np.searchsorted(keys.offsets, reach, side="right")) - 1, first)
        if following >= len(keys):
            break
        starts.append(following)
    return np.array(starts, np.int64)


def _bodies(keys: Keys, firsts: Ints, width: int | None) -> bytes:
    """All keys but the chunks' first ones; texts with their offsets in front, chunk by chunk."""
    if width is not None:
        rest = np.ones(len(keys), np.bool_)
        rest[firsts] = False
        return keys.data.reshape(-1, width)[rest].tobytes()
    parts = []
    for first, end in pairwise([*firsts.tolist(), len(keys)]):
        part = keys.slice(first + 1, end)
        parts.append(part.offsets[:-1].astype(">i4").tobytes() + part.data.tobytes())
    return b"".join(parts)


class RangeBitmap:
    """An index that was read. ValueError or struct.error if it is none."""

    def __init__(self, data: bytes, kind: DataType) -> None:
        self._data, self._kind = data, kind
        header, version, self.rows, self._count = struct.unpack_from(">ibii", data)
        if version != 1:
            raise ValueError(f"range bitmap has version {version}")
        (length,) = struct.unpack_from(">i", data, header)  # the last of the header
        self._dictionary = 4 + header
        self._bits = self._dictionary + length
        size, _, self._chunks, offsets, chunks = struct.unpack_from(">ibiii", data, self._dictionary)
        self._offsets = self._dictionary + 4 + size
        self._heads = self._offsets + offsets
        self._keys = self._heads + chunks
        size, _, self._slices, self._existence, directory = struct.unpack_from(">ibbii", data, self._bits)
        self._directory = self._bits + 14
        self._body = self._directory + directory
        self._loaded: dict[int, BitMap] = {}
        ends = [self._dictionary, self._offsets, self._heads, self._keys, self._bits, self._directory, self._body]
        if ends != sorted(ends) or ends[0] < 0 or ends[-1] > len(data):
            raise ValueError("its parts lie outside of it")
        if self._count < 0 or self._chunks > max(self._count, 0) or (self._count - 1) >> max(self._slices, 0) > 0:
            raise ValueError("it has more values than its slices tell apart")

    def known(self) -> BitMap:
        """Rows that are not null."""
        return read_bitmap(self._data, self._body)[0]

    def equal(self, literal: Any) -> BitMap | None:
        """Rows that equal the literal, None where it cannot be told."""
        at = places(literal, self._kind)
        return None if at is None else self._below(self._after(at[1])) - self._below(self._before(at[0]))

    def compare(self, op: str, literal: Any) -> BitMap | None:
        """Rows for which `value op literal` is true, `op` one of < <= > >=; None where it cannot be told."""
        at = places(literal, self._kind)
        if at is None:
            return None
        if op in ("<", "<="):
            return self._below(self._before(at[0]) if op == "<" else self._after(at[1]))
        return self.known() - self._below(self._after(at[1]) if op == ">" else self._before(at[0]))

    def _below(self, number: int) -> BitMap:
        """Rows whose number is smaller."""
        if number <= 0 or self._count == 0:
            return BitMap()
        same, less = self.known(), BitMap()
        if number >= self._count:
            return same
        for bit in range(self._slices - 1, -1, -1):
            rows = self._slice(bit)
            if number >> bit & 1:
                less |= same - rows
                same &= rows
            else:
                same -= rows
        return less

    def _slice(self, bit: int) -> BitMap:
        found = self._loaded.get(bit)
        if found is None:
            offset, length = struct.unpack_from(">ii", self._data, self._directory + 8 * bit)
            start = self._body + self._existence + offset
            found, end = read_bitmap(self._data, start)
            if end > start + length:
                raise ValueError(f"slice {bit} is longer than the directory says")
            self._loaded[bit] = found
        return found

    # ---- the dictionary

    def _before(self, place: Any) -> int:
        """How many keys come before a place."""
        return self._find(lambda key: bool(key < place))

    def _after(self, place: Any) -> int:
        """How many keys come before a place or are at it."""
        return self._find(lambda key: bool(key <= place))

    def _find(self, lower: Any) -> int:
        """How many keys satisfy `lower`, which holds up to some key."""
        low, high = 0, self._chunks
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if lower(self._chunk(middle)[0]) else (low, middle)
        if low == 0:
            return 0
        _, number, at, further, index_size, width = self._chunk(low - 1)
        first, end = 0, further
        while first < end:
            middle = (first + end) // 2
            first, end = (middle + 1, end) if lower(self._key(at, middle, index_size, width)) else (first, middle)
        return int(number + 1 + first)

    def _chunk(self, index: int) -> tuple[Any, int, int, int, int, int]:
        """First key, its number, where its keys lie, how many, bytes of their offsets, bytes of one (texts: 0)."""
        (offset,) = struct.unpack_from(">i", self._data, self._offsets + 4 * index)
        key, at = read_key(self._data, self._heads + offset + 1, self._kind)
        number, keys, further, first, second = struct.unpack_from(">iiiii", self._data, at)
        text = key_width(self._kind) is None
        return key, number, self._keys + keys, further, first if text else 0, 0 if text else second

    def _key(self, at: int, index: int, index_size: int, width: int) -> Any:
        if width:
            return read_key(self._data, at + index * width, self._kind)[0]
        (offset,) = struct.unpack_from(">i", self._data, at + 4 * index)
        return read_key(self._data, at + index_size + offset, self._kind)[0]
