"""Parts of index files that are read where they are asked: blocks with check sums, and bitmaps of 64 bits.

    block    := body codec: u8 crc32: u32                      the check sum is of all before it
    body     := plain bytes
              | plain size: varint, zstd frame                 codec 1
              | plain size: varint, size: u32, plain size: u32, lz4 block         codec 2
    bitmap   := parts: u64, (upper 32 bits: u32, 32-bit roaring bitmap)*

Little-endian. Codec 3 (LZO) is left to others.

Spec: docs/spec/global_index.md#files
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence

from pyroaring import BitMap

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.index.sorted_keys import read_varint, varints
from bucketlake.format.roaring import read_bitmap
from bucketlake.lazy import np, npt, pa
from bucketlake.values import dataclass

Ints = npt.NDArray["np.int64"]
Read = Callable[[int, int], bytes]
"""Bytes of a file from an offset on: (offset, length)."""
Handle = tuple[int, int]
"""Where a part lies: its offset, and its length."""

LARGEST_BLOCK = 256 << 20  # bytes that are read at once: blocks are as large as an option says, 64 KB by default
LARGEST_PLAIN = 64 << 20  # bytes that a compressed block may hold
AT_ONCE = 1 << 20  # bytes of parts that lie side by side, which are read together
GAP = 16 << 10  # bytes between them that are read as well
WINDOW = 1 << 20  # ids of a bitmap that are given together
TRAILER = struct.Struct("<BI")
CODECS = {"none": 0, "zstd": 1, "lz4": 2}
_HEADER = struct.Struct("<II")  # of an lz4 block
_LEAST_SAVED = 8  # one part of so many


class Unselective(Exception):
    """More would have to be read than the caller allows."""


def block_of(body: bytes, codec: str = "none", level: int = 1) -> bytes:
    """A block: compressed where that saves an eighth of it."""
    number = CODECS[codec]
    stored = body
    if number:
        size = varints(np.array([len(body)], np.int64))[0].as_py()
        if codec == "zstd":
            packed = size + pa.Codec("zstd", compression_level=level).compress(body, asbytes=True)
        else:
            content = pa.Codec("lz4_raw").compress(body, asbytes=True)
            packed = size + _HEADER.pack(len(content), len(body)) + content
        small = len(packed) < len(body) - len(body) // _LEAST_SAVED
        stored, number = (packed, number) if small else (body, 0)
    return stored + TRAILER.pack(number, zlib.crc32(bytes([number]), zlib.crc32(stored)))


def body_of(data: bytes | memoryview) -> memoryview:
    """What a block holds. Raises: CorruptError, UnsupportedError for a codec that is left to others."""
    length = len(data) - TRAILER.size
    codec, told = TRAILER.unpack_from(data, length)
    if zlib.crc32(data[: length + 1]) != told:
        raise CorruptError("the check sum of a block of an index is wrong")
    body = memoryview(data)[:length]
    if codec == 0:
        return body
    if codec not in (1, 2):
        raise UnsupportedError("an index with blocks of this compression", codec=codec)
    size, at = read_varint(body, 0)
    if size > LARGEST_PLAIN:
        raise CorruptError("a block of an index is too large", size=size)
    if codec == 1:
        return memoryview(pa.Codec("zstd").decompress(body[at:].tobytes(), size, asbytes=True))
    stored, plain = _HEADER.unpack_from(body, at)
    content = body[at + _HEADER.size :]
    if stored != len(content) or plain != size:
        raise CorruptError("a block of an index is not of the size that it says")
    return memoryview(pa.Codec("lz4_raw").decompress(content.tobytes(), size, asbytes=True))


@dataclass(frozen=True, slots=True)
class Parts:
    """The bytes of a file of a known size."""

    read: Read
    size: int

    def bytes(self, at: int, length: int) -> bytes:
        """Some of them. Raises: CorruptError where they are not there."""
        if at < 0 or not 0 <= length <= LARGEST_BLOCK or at + length > self.size:
            raise CorruptError("a part of an index lies beyond its end", offset=at, length=length)
        data = self.read(at, length)
        if len(data) != length:
            raise CorruptError("an index is cut off", offset=at, length=length)
        return data

    def block(self, at: int, length: int) -> memoryview:
        """What the block of a body of that length holds."""
        return body_of(self.bytes(at, length + TRAILER.size))

    def each(self, handles: Sequence[Handle]) -> Iterator[memoryview]:
        """The bytes of several parts, in their order: those that follow one another closely are read together."""
        first = 0
        while first < len(handles):
            start = end = handles[first][0]
            last = first
            for at, length in handles[first:]:
                if not end <= at <= end + GAP or (last > first and at + length - start > AT_ONCE):
                    break
                end, last = at + length, last + 1
            data = memoryview(self.bytes(start, end - start))
            for at, length in handles[first:last]:
                yield data[at - start : at - start + length]
            first = last


def ids_of_bitmap(data: bytes | memoryview, count: int) -> Iterator[Ints]:
    """The ids that a bitmap of 64 bits holds, not many at once. Raises: ValueError for what is none, or holds ids from
    `count` on."""
    (parts,) = struct.unpack_from("<Q", data, 0)
    at = 8
    for _ in range(min(parts, len(data))):
        (high,) = struct.unpack_from("<I", data, at)
        low, at = read_bitmap(data, at + 4)
        if len(low) and (high << 32) + low.max() >= count:
            raise ValueError("an id beyond the index's range")
        yield from _windows(low, high << 32)
    if at != len(data):
        raise ValueError("a bitmap of another length")


def _windows(bitmap: BitMap, base: int) -> Iterator[Ints]:
    if len(bitmap) <= WINDOW:
        yield np.array(bitmap.to_array(), np.int64) + base
        return
    for start in range(bitmap.min() // WINDOW * WINDOW, bitmap.max() + 1, WINDOW):
        part = bitmap & BitMap(range(start, start + WINDOW))
        if len(part):
            yield np.array(part.to_array(), np.int64) + base
