"""Deletion vectors: which rows of data files are deleted, as bitmaps, the vectors of several files in one index file.

    index file := version 1 (1 byte), vector …
    vector     := length (int32) of magic and bitmap, magic, bitmap, CRC-32 (int32) of magic and bitmap
    of 32 bits :  magic 1581511376, big-endian; a portable roaring bitmap
    of 64 bits :  magic 1681511377, little-endian; int64 n, then n of (int32 key, portable roaring bitmap of the
                  positions whose upper 32 bits are the key), little-endian, keys from 0 without gaps

Lengths and checksums are big-endian. In the index manifest a vector's offset is that of its length field; its length
is, of 32 bits, that of magic and bitmap, and of 64 bits that of the whole vector.

Spec: docs/spec/deletion_vector.md
"""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from bucketlake.errors import CorruptError, InvalidError
from bucketlake.format.index.index_manifest import DeletionVectorRange
from bucketlake.format.numbers import distinct, without
from bucketlake.format.roaring import read_bitmap

__all__ = [
    "Positions",
    "Vector",
    "apart",
    "decode_vector",
    "either",
    "encode_vectors",
    "positions_of",
    "stored_range",
    "vector_of",
]

VERSION = 1
MAGIC_32 = 1581511376
MAGIC_64 = 1681511377
MAX_POSITION_32 = (1 << 31) - 1
MAX_LENGTH = (1 << 31) - 1
_LENGTH = struct.Struct(">i")
_CHECKSUM = struct.Struct(">I")
_MAGIC_32 = struct.pack(">i", MAGIC_32)
_MAGIC_64 = struct.pack("<i", MAGIC_64)
_COUNT = struct.Struct("<q")
_KEY = struct.Struct("<i")
_FRAME = _LENGTH.size + _CHECKSUM.size

Vector = BitMap | BitMap64
"""The deleted positions of one data file: the type says which of the two layouts is written."""
Positions = npt.NDArray[np.int64]


def vector_of(positions: npt.NDArray[Any], *, bits64: bool) -> Vector:
    """The vector of these row positions, in any order. InvalidError for one that the layout does not hold."""
    if len(positions) and (positions.min() < 0 or (not bits64 and positions.max() > MAX_POSITION_32)):
        raise InvalidError(
            "row position outside of what a deletion vector holds",
            largest=int(positions.max()),
            remedy="set 'deletion-vectors.bitmap64' = 'true' for files of more than 2147483647 rows",
        )
    if not bits64:
        return BitMap(array.array("I", positions.astype(np.uint32).tobytes()))
    return BitMap64(array.array("Q", positions.astype(np.uint64).tobytes()))


def positions_of(vector: Vector) -> Positions:
    """The deleted positions, ascending."""
    found: npt.NDArray[Any] = np.frombuffer(vector.to_array(), np.uint64 if isinstance(vector, BitMap64) else np.uint32)
    return found.astype(np.int64)


def either(left: Vector, right: Vector) -> Vector:
    """The positions in one of two vectors, or in both."""
    if isinstance(left, BitMap) and isinstance(right, BitMap):
        return left | right
    return vector_of(distinct([positions_of(left), positions_of(right)]), bits64=True)


def apart(left: Vector, right: Vector) -> Vector:
    """The positions in the first of two vectors and not in the other."""
    if isinstance(left, BitMap) and isinstance(right, BitMap):
        return left - right
    return vector_of(without(positions_of(left), positions_of(right)), bits64=True)


def encode_vectors(vectors: Mapping[str, Vector]) -> tuple[bytes, tuple[DeletionVectorRange, ...]]:
    """One index file with the vectors by data file name, in this order, and where each lies in it.

    Raises InvalidError for a vector beyond 2 GiB.
    """
    parts = [bytes([VERSION])]
    ranges = []
    offset = 1
    for name, vector in vectors.items():
        body = _encode_64(vector) if isinstance(vector, BitMap64) else _encode_32(vector)
        if len(body) + _FRAME > MAX_LENGTH:
            raise InvalidError("a deletion vector exceeds 2 GiB", data_file=name, size=len(body))
        length = len(body) + (_FRAME if isinstance(vector, BitMap64) else 0)
        ranges.append(DeletionVectorRange(name, offset, length, len(vector)))
        parts += [_LENGTH.pack(len(body)), body, _CHECKSUM.pack(zlib.crc32(body))]
        offset += len(body) + _FRAME
    return b"".join(parts), tuple(ranges)


def _encode_32(vector: BitMap) -> bytes:
    packed = BitMap(vector)
    packed.run_optimize()
    return _MAGIC_32 + bytes(packed.serialize())


def _encode_64(vector: BitMap64) -> bytes:
    positions = positions_of(vector)
    keys = positions >> 32
    parts = [_MAGIC_64]
    count = int(keys[-1]) + 1 if len(keys) else 0
    parts.append(_COUNT.pack(count))
    bounds = np.searchsorted(keys, np.arange(count + 1))
    for key in range(count):
        low = positions[bounds[key] : bounds[key + 1]].astype(np.uint32)
        packed = BitMap(array.array("I", low.tobytes()))
        packed.run_optimize()
        parts += [_KEY.pack(key), bytes(packed.serialize())]
    return b"".join(parts)


def stored_range(part: DeletionVectorRange) -> tuple[int, int]:
    """First byte and an upper bound of the end of a vector, frame included, in its index file."""
    return part.offset, part.offset + part.length + _FRAME


def decode_vector(data: bytes, part: DeletionVectorRange, source: str) -> Vector:
    """The vector that lies at `part` of the index file whose bytes are `data`.

    Raises CorruptError naming the index file (`source`) and the data file: the bytes end early, magic, length, checksum
    or number of positions are not what they should be.
    """

    def corrupt(what: str, **more: Any) -> CorruptError:
        remedy = "restore the index file; its deleted rows are not known otherwise"
        return CorruptError(what, path=source, data_file=part.data_file_name, **more, remedy=remedy)

    at = part.offset
    if part.offset < 1 or part.length < len(_MAGIC_32) or len(data) < at + _FRAME:
        raise corrupt("the deletion vector lies outside of its index file", offset=part.offset, length=part.length)
    (length,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    magic = data[at : at + len(_MAGIC_32)]
    if magic not in (_MAGIC_32, _MAGIC_64):
        raise corrupt("not a deletion vector: unknown magic number", magic=magic.hex())
    stored = part.length - (_FRAME if magic == _MAGIC_64 else 0)
    if length != stored:
        raise corrupt("the deletion vector has another length than its index says", found=length, expected=stored)
    body = data[at : at + length]
    if len(body) < length or len(data) < at + length + _CHECKSUM.size:
        raise corrupt("the deletion vector's index file is cut off", missing=at + length + _CHECKSUM.size - len(data))
    if zlib.crc32(body) != _CHECKSUM.unpack_from(data, at + length)[0]:
        raise corrupt("the deletion vector's checksum is wrong")
    try:
        vector, end = (_decode_64 if magic == _MAGIC_64 else read_bitmap)(body, len(magic))
        if end != length:
            raise ValueError(f"{length - end} bytes follow it")
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise corrupt("the deletion vector's bitmap cannot be read", reason=str(error)) from error
    if part.cardinality is not None and part.cardinality != len(vector):
        what = "the deletion vector has a different number of rows than its index says"
        raise corrupt(what, found=len(vector), expected=part.cardinality)
    return vector


def _decode_64(body: bytes, at: int) -> tuple[BitMap64, int]:
    """The bitmap of 64 bits that begins at a byte, and where it ends. Raises: ValueError."""
    (count,) = _COUNT.unpack_from(body, at)
    start, last = at, -1
    at += _COUNT.size
    if not 0 <= count <= len(body):
        raise ValueError(f"it has {count} parts")
    for _ in range(count):
        (key,) = _KEY.unpack_from(body, at)
        if key <= last:
            raise ValueError("its parts are out of order")
        last = key
        _, at = read_bitmap(body, at + _KEY.size)
    return BitMap64.deserialize(body[start:at]), at
