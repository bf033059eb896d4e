"""Curves through several columns: bytes whose order keeps rows together that are near in every column.

    zorder(columns, var_length=8) -> binary array        the columns' bits in turn, most significant first
    hilbert(columns) -> binary array                     the place on a Hilbert curve through eight bytes of each column

A column counts as bytes whose unsigned order is that of its values: numbers by value, floats in IEEE total order with
one NaN, the greatest; times in milliseconds; strings and binaries by their first bytes. Null is first in a z-order and
last on a Hilbert curve, as Apache Paimon has it.

Spec: docs/spec/clustering.md#curves
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.lazy import pc
from bucketlake.lsm.words import byte_ranges, decimal_pairs, integers_of

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

_SIGN = np.uint64(1 << 63)
_LOW = np.uint64((1 << 63) - 1)
_TRUE = np.uint64(0x81 << 56)
_EIGHT = 8
_PER_MILLI = {"ms": 1, "us": 1000, "ns": 1_000_000}


def zorder(columns: Sequence[pa.Array], var_length: int = _EIGHT) -> pa.Array:
    """The z-order of rows. `var_length`: bytes that a string or binary counts with; all else counts with eight."""
    parts = []
    for column in columns:
        if _is_bytes(column.type):
            part = _prefix(column, var_length)
        else:
            part = _as_bytes(_word(column))
        part[_nulls(column)] = 0
        parts.append(part)
    return _binary(_interleaved(parts))


def hilbert(columns: Sequence[pa.Array]) -> pa.Array:
    """The places of rows on a Hilbert curve."""
    words = []
    for column in columns:
        word = _as_words(_prefix(column, _EIGHT)) if _is_bytes(column.type) else _word(column)
        word[_nulls(column)] = np.uint64(0xFFFFFFFFFFFFFFFF)
        words.append(word)
    return _binary(_interleaved([_as_bytes(word) for word in _on_curve(words)]))


def curves_take(kind: pa.DataType) -> bool:
    """Whether a column of this type has a place on a curve, and an order."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_dictionary(kind))


# ---------------------------------------------------------------------------------------------- columns as bytes


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)


def _word(column: pa.Array) -> Words:
    """A column of fixed width as words in unsigned order; rows that are null have any."""
    kind = column.type
    if pa.types.is_boolean(kind):
        true: Words = integers_of(column).astype(np.uint64) * _TRUE
        return true
    if pa.types.is_float32(kind):
        column = column.cast(pa.float64())
    if pa.types.is_decimal(kind) and kind.precision > 18:
        pairs = decimal_pairs(column)
        column = pa.array(pairs[:, 1].astype(np.float64) * 2.0**64 + pairs[:, 0].view(np.uint64).astype(np.float64))
    values: npt.NDArray[np.int64] = integers_of(column).astype(np.int64)
    if pa.types.is_timestamp(kind):
        values = values * 1000 if kind.unit == "s" else np.floor_divide(values, _PER_MILLI[kind.unit])
    word: Words = values.view(np.uint64) ^ _SIGN
    return word


def _prefix(column: pa.Array, length: int) -> Bytes:
    """(rows, length): the first bytes of every value, zeros behind its end."""
    content, bounds = byte_ranges(column)
    starts = bounds[:-1].astype(np.int64)
    sizes = np.minimum(np.diff(bounds), length)
    padded = np.concatenate([content, np.zeros(length, np.uint8)])
    found = np.lib.stride_tricks.sliding_window_view(padded, length)[starts] if length else np.zeros((len(column), 0))
    reach: Any = np.arange(length)[None, :] < sizes[:, None]
    return np.where(reach, found, 0).astype(np.uint8)


def _as_bytes(words: Words) -> Bytes:
    return words.astype(">u8").view(np.uint8).reshape(-1, _EIGHT)


def _as_words(content: Bytes) -> Words:
    return np.ascontiguousarray(content).view(">u8").reshape(-1).astype(np.uint64)


def _binary(content: Bytes) -> pa.Array:
    rows, width = content.shape
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), rows, [None, pa.py_buffer(np.ascontiguousarray(content))]
    )
    return pc.cast(fixed, pa.binary())


# ---------------------------------------------------------------------------------------------- bits in turn


@cache
def _spread(count: int) -> Words:
    """For each byte, its bits with `count` - 1 zeros between them; `count` up to eight."""
    values = np.arange(256, dtype=np.uint64)
    spread = np.zeros(256, np.uint64)
    for bit in range(8):
        spread |= ((values >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * count)
    return spread


def _interleaved(parts: Sequence[Bytes]) -> Bytes:
    """The bits of all columns in turn; a column that has no more is passed over."""
    rows = len(parts[0])
    chunks = [np.zeros((rows, 0), np.uint8)]
    for place in range(max(part.shape[1] for part in parts)):
        chunks.append(_turn([part[:, place] for part in parts if part.shape[1] > place]))
    return np.concatenate(chunks, axis=1)


def _turn(columns: Sequence[Bytes]) -> Bytes:
    """One byte of each column: as many bytes, their bits in turn."""
    count = len(columns)
    if count > _EIGHT:
        bits = np.stack([np.unpackbits(column[:, None], axis=1) for column in columns], axis=2)
        return np.packbits(bits.reshape(len(columns[0]), -1), axis=1)
    word = np.zeros(len(columns[0]), np.uint64)
    for number, column in enumerate(columns):
        word |= _spread(count)[column] << np.uint64(count - 1 - number)
    return _as_bytes(word)[:, _EIGHT - count :]


# ---------------------------------------------------------------------------------------------- the Hilbert curve


def _on_curve(axes: Sequence[Words]) -> list[Words]:
    """Coordinates as the transposed place on a Hilbert curve (Skilling's transformation), by their lower 63 bits. The
    topmost bits stay: numbers below zero, and texts beyond ASCII, lie on curves of their own, and all others where they
    lie on a curve through numbers from zero on."""
    tops, x = [axis & _SIGN for axis in axes], [axis & _LOW for axis in axes]
    highest = max((int(axis.max(initial=0)) for axis in x), default=0).bit_length()
    for bit in range(62, 0, -1):
        low = np.uint64((1 << bit) - 1)
        if bit >= highest:  # no coordinate has this bit: each is swapped with the first
            for other in range(1, len(x)):
                x[0], x[other] = x[other], x[0]
            continue
        for place in range(len(x)):
            has = (x[place] >> np.uint64(bit)) & np.uint64(1)
            mask = low * has  # invert where the bit is set, else exchange
            swap = (x[0] ^ x[place]) & (low ^ mask)
            x[0] = x[0] ^ swap ^ mask
            if place:
                x[place] = x[place] ^ swap
    for place in range(1, len(x)):
        x[place] = x[place] ^ x[place - 1]
    turned = np.zeros_like(x[0])
    for bit in range(min(62, highest), 0, -1):
        turned ^= np.uint64((1 << bit) - 1) * ((x[-1] >> np.uint64(bit)) & np.uint64(1))
    return [top | (axis ^ turned) for top, axis in zip(tops, x, strict=True)]
