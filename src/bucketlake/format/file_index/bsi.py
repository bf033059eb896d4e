"""Bit-sliced index: the numbers of all rows by bit. Deprecated in favour of the range bitmap.

    bsi   := 1: u8, rows: i32, has positive: u8, [slices], has negative: u8, [slices]
    slices := 1: u8, least: i64, greatest: i64, existence: bitmap, slices: i32, bitmap*

Big-endian. Zero counts as positive; negative numbers are there by their magnitude. Slice i holds the rows with bit i of
the magnitude less `least`, which writers leave at 0. -2^63 cannot be stored.

Spec: docs/spec/file_index.md#bsi
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from pyroaring import BitMap

from bucketlake.errors import InvalidError
from bucketlake.format.file_index.keys import places, whole_numbers
from bucketlake.format.roaring import read_bitmap, serialize_bitmap
from bucketlake.lazy import np, npt, pa
from bucketlake.types.model import DataType

Ints = npt.NDArray["np.int64"]
_LEAST = -(1 << 63)


def encode_bsi(chunks: Sequence[pa.Array], kind: DataType) -> bytes:
    """The index of a column given as canonical arrays. Raises: InvalidError for -2^63."""
    values = np.concatenate([whole_numbers(c, kind) for c in chunks]) if chunks else np.zeros(0, np.int64)
    known = np.concatenate([np.asarray(c.is_valid()) for c in chunks]) if chunks else np.zeros(0, np.bool_)
    if bool((values[known] == _LEAST).any()):
        raise InvalidError("the bsi index cannot hold -2^63", remedy="use the range-bitmap index")
    parts = [b"\x01" + struct.pack(">i", len(values))]
    for rows in (np.flatnonzero(known & (values >= 0)), np.flatnonzero(known & (values < 0))):
        parts.append(b"\x01" + _slices(rows, np.abs(values[rows])) if len(rows) else b"\x00")
    return b"".join(parts)


def _slices(rows: Ints, magnitudes: Ints) -> bytes:
    most = int(magnitudes.max())
    count = most.bit_length()
    bodies = [serialize_bitmap(rows[(magnitudes >> bit) & 1 == 1]) for bit in range(count)]
    return struct.pack(">bqq", 1, 0, most) + serialize_bitmap(rows) + struct.pack(">i", count) + b"".join(bodies)


class _Slices:
    """The rows of one sign."""

    def __init__(self, data: bytes, at: int) -> None:
        version, self._least, self._most = struct.unpack_from(">bqq", data, at)
        if version != 1:
            raise ValueError(f"bit-sliced index has version {version}")
        self.rows, at = read_bitmap(data, at + 17)
        (count,) = struct.unpack_from(">i", data, at)
        at += 4
        if not 0 <= count <= 64:
            raise ValueError(f"bit-sliced index of {count} slices")
        self._slices: list[BitMap] = []
        for _ in range(count):
            found, at = read_bitmap(data, at)
            self._slices.append(found)
        self.end = at

    def below(self, magnitude: int) -> BitMap:
        """Rows whose magnitude is smaller."""
        if magnitude <= self._least:
            return BitMap()
        if magnitude > self._most:
            return self.rows.copy()
        number, same, less = magnitude - self._least, self.rows.copy(), BitMap()
        for bit in range(len(self._slices) - 1, -1, -1):
            if number >> bit & 1:
                less |= same - self._slices[bit]
                same &= self._slices[bit]
            else:
                same -= self._slices[bit]
        return less


class BitSliced:
    """An index that was read. ValueError or struct.error if it is none."""

    def __init__(self, data: bytes, kind: DataType) -> None:
        self._kind = kind
        version, self.rows, positive = struct.unpack_from(">bib", data)
        if version != 1:
            raise ValueError(f"bit-sliced index has version {version}")
        at = 6
        self._positive = self._negative = None
        if positive:
            self._positive = _Slices(data, at)
            at = self._positive.end
        if data[at]:
            self._negative = _Slices(data, at + 1)

    def known(self) -> BitMap:
        """Rows that are not null."""
        return BitMap.union(BitMap(), *(part.rows for part in (self._positive, self._negative) if part is not None))

    def _below(self, number: int) -> BitMap:
        """Rows with a smaller number."""
        if number > 0:
            negative = self._negative.rows if self._negative is not None else BitMap()
            return negative | (self._positive.below(number) if self._positive is not None else BitMap())
        if self._negative is None:
            return BitMap()
        return self._negative.rows - self._negative.below(1 - number)

    def equal(self, literal: Any) -> BitMap | None:
        """Rows that equal the literal, None where it cannot be told."""
        at = places(literal, self._kind)
        return None if at is None else self._below(at[0] + 1) - self._below(at[0])

    def compare(self, op: str, literal: Any) -> BitMap | None:
        """Rows for which `value op literal` is true, `op` one of < <= > >=; None where it cannot be told."""
        at = places(literal, self._kind)
        if at is None:
            return None
        below = self._below(at[0] + (op in ("<=", ">")))
        return below if op in ("<", "<=") else self.known() - below
