"""Keys of sorted global indexes (btree, bitmap): values as bytes, their order, and what is recorded of a file.

    key      := number, little-endian                          BOOLEAN, TINYINT 1 byte; SMALLINT 2; INT, DATE, TIME,
                                                               FLOAT 4; BIGINT, DOUBLE, DECIMAL up to 18 digits 8
              | number, big-endian                             DECIMAL of more digits, in as few bytes as hold it
              | milliseconds: i64, [nanoseconds: varint]       timestamps; the second part beyond precision 3
              | text
    recorded := length: u32, first key, length: u32, last key, has nulls: u8, 1: u8, flags: u8, [snapshot: u64]

Varints have seven bits a byte, the lowest first. What is recorded lies in the index manifest; the snapshot, whose rows
were indexed, is written here alone, and is passed over by others.

Spec: docs/spec/global_index.md
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from bucketlake.errors import UnsupportedError
from bucketlake.format.file_index.keys import FLOATS, STAMPS, TEXTS, float_bits, whole_numbers
from bucketlake.format.index.spans import Span
from bucketlake.format.varints import encoded
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.types.model import DataType, Root, type_text
from bucketlake.values import dataclass

Ints = npt.NDArray["np.int64"]

LARGEST_COMPACT = 18  # digits of a decimal that is stored as a number of 64 bits
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
    """UnsupportedError for a type that has no keys."""
    if kind.root not in (*_WIDTHS, *TEXTS):
        raise UnsupportedError(
            f"DataType: {type_text(kind)} is not supported by global index now.",
            remedy="index a column of numbers, text, dates or times",
        )


def _is_long(kind: DataType) -> bool:
    """Whether it is a decimal of more digits than a number of 64 bits has."""
    return kind.root is Root.DECIMAL and (kind.precision or 0) > LARGEST_COMPACT


def encoded_keys(array: pa.Array, kind: DataType) -> pa.Array:
    """The keys of values in the canonical Arrow layout, none null: large binaries."""
    if kind.root in TEXTS:
        return array.cast(pa.large_binary())
    if _is_long(kind):
        return _long_decimals(array)
    if kind.root in FLOATS:
        return _fixed(float_bits(array), _WIDTHS[kind.root])
    if kind.root in STAMPS and (kind.precision or 0) > 3:
        nanos = array.cast(pa.int64()).to_numpy()
        if array.type.unit != "ns":
            nanos, rest = nanos // 1000, nanos % 1000 * 1000
        else:
            nanos, rest = nanos // 1_000_000, nanos % 1_000_000
        return joined(_fixed(nanos, 8), varints(rest))
    return _fixed(whole_numbers(array, kind), _WIDTHS[kind.root])


def place_of(key: bytes | memoryview, kind: DataType) -> Any:
    """What orders keys as their values are: a number, or bytes. ValueError for what is no key of the type."""
    if kind.root in TEXTS:
        return bytes(key)
    if _is_long(kind):
        if not 0 < len(key) <= 16:
            raise ValueError("a decimal of another length")
        return int.from_bytes(key, "big", signed=True)
    width = _WIDTHS[kind.root]
    number = int.from_bytes(key[:width], "little", signed=True)
    if kind.root in STAMPS and (kind.precision or 0) > 3:
        rest, end = read_varint(key, width)
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
    return binaries(data.view(np.uint8), np.arange(len(values) + 1, dtype=np.int64) * width)


def _long_decimals(array: pa.Array) -> pa.Array:
    """Unscaled numbers in as few bytes as hold them with their sign, the highest first."""
    words = np.frombuffer(array.buffers()[1], np.uint8)[16 * array.offset : 16 * (array.offset + len(array))]
    data = words.reshape(-1, 16)[:, ::-1]
    sign = np.where(data[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    spare = (data[:, :15] == sign) & ((data[:, 1:] ^ sign) < 0x80)
    left = np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    kept = np.arange(16) >= left[:, None]
    return binaries(data[kept], np.append(0, np.cumsum(16 - left)))


def binaries(data: npt.NDArray[Any], offsets: Ints) -> pa.Array:
    """Bytes one after the other, of which number `i` begins at `offsets[i]`, as large binaries."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def varints(values: Ints) -> pa.Array:
    """Numbers from 0 on as large binaries of seven bits a byte, the lowest first."""
    return binaries(*encoded(values.view(np.uint64)))


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """A number, and where what follows begins. IndexError or ValueError where there is none."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def joined(*parts: pa.Array) -> pa.Array:
    """Large binaries, each of the bytes that the parts have at its place."""
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def with_size(parts: pa.Array) -> pa.Array:
    """Large binaries behind their lengths."""
    return joined(varints(pc.binary_length(parts).cast(pa.int64()).to_numpy()), parts)


def cuts(sizes: Ints, most: int) -> Iterable[tuple[int, int]]:
    """Pieces of things of these sizes, from one place to behind another: each as large as is asked for, or a little
    larger by its last."""
    spent = np.append(0, np.cumsum(sizes))
    first = 0
    while first < len(sizes):
        last = max(min(int(np.searchsorted(spent, spent[first] + most)), len(sizes)), first + 1)
        yield first, last
        first = last


# ---------------------------------------------------------------------------------------------- what is recorded


def recorded_of(keys: pa.Array, nulls: bool, snapshot: int) -> bytes:
    """What the index manifest records of a file of these keys, all of them; `nulls`: whether rows have none."""
    ends: Sequence[bytes | None] = [keys[place].as_py() if len(keys) else None for place in (0, -1)]
    flags = sum(bit for bit, end in zip(_END_IS_NULL, ends, strict=True) if end is None)
    stored = b"".join(struct.pack("<I", len(key or b"")) + (key or b"") for key in ends)
    return stored + bytes([nulls, 1, flags]) + _SNAPSHOT.pack(snapshot)


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

    def met(self, spans: Iterable[Span], kind: DataType) -> list[Span]:
        """The spans that may hold one of the file's keys."""
        if self.first is None or self.last is None:
            return []
        first, last = place_of(self.first, kind), place_of(self.last, kind)
        return [span for span in spans if span.meets(first, last)]


def of_no_snapshot(recorded: bytes) -> bytes:
    """What is recorded of a file, with a snapshot before all: another table counts its snapshots anew."""
    known = Recorded.of(recorded).snapshot is not None
    return recorded[: -_SNAPSHOT.size] + _SNAPSHOT.pack(0) if known else recorded
