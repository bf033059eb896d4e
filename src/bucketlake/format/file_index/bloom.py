"""Bloom filter over one column of one file.

    bloom-filter := hash functions: i32 big-endian, bits (the first is the lowest of the first byte)

A value's 64-bit hash is cut into two halves h1 (low) and h2; function i = 1 … n sets bit g % bits of g = h1 + i * h2 in
32 bits, or of its complement where it is negative. Numbers are hashed by Thomas Wang's 64-bit mix, texts and bytes by
XXH64 with seed 0. Nulls are not in the filter.

Spec: docs/spec/file_index.md#bloom-filter
"""

from __future__ import annotations

import math
import struct
from typing import Any

from bucketlake.format.file_index.keys import FLOATS, TEXTS, float_bits, literal_array, text_buffers, whole_numbers
from bucketlake.lazy import np, npt, pa
from bucketlake.types.model import DataType, Root

Hashes = npt.NDArray["np.int64"]
_BYTES = (*TEXTS, Root.BINARY, Root.VARBINARY)
_ALL = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE = 32
MOST_FUNCTIONS = 1 << 12
CHUNK = 1 << 16  # hashes that are spread over the bits at once


def bits_of(items: int, share: float) -> int:
    """The bits of a filter for so many distinct values with this false positive rate: a multiple of 8."""
    bits = min(int(-items * math.log(share) / (math.log(2) * math.log(2))), (1 << 31) - 9)
    return bits + 8 - bits % 8


class BloomWriter:
    """Gathers one file's column, batch by batch."""

    def __init__(self, kind: DataType, items: int, share: float) -> None:
        """`items`: distinct values expected; `share`: false positive rate at that number."""
        self._kind = kind
        self._bits = bits_of(items, share)
        self._functions = max(1, math.floor(self._bits / items * math.log(2) + 0.5))
        self._set = np.zeros(self._bits, np.bool_)

    def update(self, array: pa.Array) -> None:
        """Add the values of a canonical array."""
        hashes = hash_values(array, self._kind)
        for start in range(0, len(hashes), CHUNK):
            for function in range(1, self._functions + 1):
                self._set[_spread(hashes[start : start + CHUNK], function, self._bits)] = True

    def finish(self) -> bytes:
        """The filter's bytes."""
        return struct.pack(">i", self._functions) + np.packbits(self._set, bitorder="little").tobytes()


class BloomFilter:
    """A filter that was read. ValueError if it is none."""

    def __init__(self, data: bytes, kind: DataType) -> None:
        if len(data) < 5:
            raise ValueError("bloom filter is too short")
        (self._functions,) = struct.unpack_from(">i", data)
        if not 0 < self._functions <= MOST_FUNCTIONS:
            raise ValueError(f"bloom filter has {self._functions} hash functions")
        self._set = np.frombuffer(data, np.uint8, offset=4)
        self._kind = kind

    def may_hold(self, literal: Any) -> bool:
        """Whether some row may equal the literal."""
        array = literal_array(literal, self._kind)
        if array is None:
            return True
        if self._kind.root in FLOATS and literal == 0:
            array = pa.array([0.0, -0.0], array.type)
        hashes = hash_values(array, self._kind)
        hits = np.ones(len(hashes), np.bool_)
        for function in range(1, self._functions + 1):
            at = _spread(hashes, function, 8 * len(self._set))
            hits &= (self._set[at >> 3] >> (at & 7).astype(np.uint8)) & 1 != 0
        return bool(hits.any())


def _spread(hashes: Hashes, function: int, bits: int) -> npt.NDArray[np.int32]:
    low, high = hashes.astype(np.int32), (hashes >> 32).astype(np.int32)
    with np.errstate(over="ignore"):
        mixed = low + np.int32(function) * high
    return np.where(mixed < 0, ~mixed, mixed) % np.int32(bits)


def hash_values(array: pa.Array, kind: DataType) -> Hashes:
    """The 64-bit hashes of the values that are not null."""
    array = array.drop_null() if array.null_count else array
    if kind.root in _BYTES:
        bounds, data = text_buffers(array)
        return xxhash64(data, bounds).view(np.int64)
    if kind.root in FLOATS:
        return _wang(float_bits(array).astype(np.int64))
    return _wang(whole_numbers(array, kind))


def _wang(key: Hashes) -> Hashes:
    with np.errstate(over="ignore"):
        key = ~key + (key << 21)
        key = key ^ (key >> 24)
        key = key + (key << 3) + (key << 8)
        key = key ^ (key >> 14)
        key = key + (key << 2) + (key << 4)
        key = key ^ (key >> 28)
        return key + (key << 31)


# ---------------------------------------------------------------------------------------------- XXH64


def xxhash64(data: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """XXH64 with seed 0 of every `data[bounds[i] : bounds[i + 1]]`: a loop over the longest one's stripes."""
    starts, lengths = bounds[:-1], np.diff(bounds)
    padded = np.append(data, np.zeros(8, np.uint8))
    eights: npt.NDArray[np.uint64] = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    with np.errstate(over="ignore"):
        result = _stripes(eights, starts, lengths) + lengths.astype(np.uint64)
        at, end = starts + lengths // _STRIPE * _STRIPE, starts + lengths
        for _ in range(3):
            rows = np.flatnonzero(end - at >= 8)
            mixed = result[rows] ^ _round(np.zeros(len(rows), np.uint64), eights[at[rows]])
            result[rows] = _rotated(mixed, 27) * _P1 + _P4
            at[rows] += 8
        rows = np.flatnonzero(end - at >= 4)
        word = eights[at[rows]] & 0xFFFFFFFF
        result[rows] = _rotated(result[rows] ^ (word * _P1), 23) * _P2 + _P3
        at[rows] += 4
        for _ in range(3):
            rows = np.flatnonzero(end > at)
            result[rows] = _rotated(result[rows] ^ (padded[at[rows]].astype(np.uint64) * _P5), 11) * _P1
            at[rows] += 1
        result ^= result >> 33
        result *= _P2
        result ^= result >> 29
        result *= _P3
        result ^= result >> 32
    return result


def _stripes(eights: Any, starts: Any, lengths: Any) -> npt.NDArray[np.uint64]:
    """What the 32-byte stripes of the long ones come to; P5 for the short ones."""
    result = np.full(len(lengths), _P5, np.uint64)
    long = np.flatnonzero(lengths >= _STRIPE)
    if not len(long):
        return result
    long = long[np.argsort(-lengths[long], kind="stable")]
    stripes = lengths[long] // _STRIPE
    lanes = [np.full(len(long), first, np.uint64) for first in ((_P1 + _P2) & _ALL, _P2, 0, -_P1 & _ALL)]
    active = len(long)
    for stripe in range(int(stripes[0])):
        active = int(np.searchsorted(-stripes[:active], -stripe, side="left"))
        at = starts[long[:active]] + stripe * _STRIPE
        for number, lane in enumerate(lanes):
            lane[:active] = _round(lane[:active], eights[at + 8 * number])
    total = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
    for lane in lanes:
        total = (total ^ _round(np.zeros(len(long), np.uint64), lane)) * _P1 + _P4
    result[long] = total
    return result


def _round(lane: npt.NDArray[np.uint64], word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    return _rotated(lane + word * _P2, 31) * _P1


def _rotated(values: npt.NDArray[np.uint64], by: int) -> npt.NDArray[np.uint64]:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))
