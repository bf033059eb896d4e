"""Columns as 64-bit words whose unsigned or signed integer order is Paimon's order of the values.

A column is one word or several, most significant first. Words are computed for all rows, or for some rows only, when
they are asked for: of long keys only what distinguishes rows is ever looked at. Values longer than a kilobyte are
ranked where rows tie so far: a word for every eight bytes of them would be more words than rows.

Spec: docs/spec/merge.md#words
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from bucketlake.lazy import np, npt, pa, pc
from bucketlake.values import dataclass

Indices = npt.NDArray["np.int64"]
Values = npt.NDArray[Any]  # int64 or uint64

_EIGHT = ">u8"
_WORDED = 1024  # bytes of a value that are looked at by words; what ties there is ranked by whole values


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a column. `values(rows)`: int64 or uint64, for the rows given or (None) for all."""

    values: Callable[[Indices | None], Values]


def words_of(array: pa.Array) -> list[Word]:
    """The words of a column in the canonical Arrow layout; null rows have arbitrary words."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _byte_words(array)
    if pa.types.is_decimal(kind) and kind.precision > 18:
        pairs = decimal_pairs(array)
        return [_word(pairs[:, 1]), _word(pairs[:, 0].view(np.uint64))]
    return [_word(integers_of(array))]


def sequence_words(array: pa.Array, descending: bool) -> list[Word]:
    """The words of a sequence column; nulls come first in either direction, as the oldest."""
    words = words_of(array)
    if descending:
        words = [_inverted(word) for word in words]
    if not array.null_count:
        return words
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return [_word(valid.astype(np.int64)), *(_zeroed(word, valid) for word in words)]


def integers_of(array: pa.Array) -> npt.NDArray[Any]:
    """A fixed-width column of up to 64 bits as signed integers in the order of its values; copies only if it must."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return _fixed(array.cast(pa.int8()), 8)
    if pa.types.is_decimal(kind):
        return decimal_pairs(array)[:, 0]
    if pa.types.is_floating(kind):
        return _float_image(_fixed(array, kind.bit_width))
    return _fixed(array, kind.bit_width)


def byte_ranges(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The data bytes of a string or binary column and the n + 1 offsets of its values in them."""
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(0, np.uint8), np.zeros(len(array) + 1, np.int32)
    bounds = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return content, bounds


def decimal_pairs(array: pa.Array) -> npt.NDArray[np.int64]:
    """(n, 2) words of the unscaled 128-bit integers of a decimal column: low, high."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros((len(array), 2), np.int64)
    return np.frombuffer(data, np.int64, 2 * len(array), array.offset * 16).reshape(-1, 2)


def _word(values: Values) -> Word:
    wide = values if values.dtype.itemsize == 8 else None

    def get(rows: Indices | None) -> Values:
        if rows is not None:
            return values[rows] if wide is not None else values[rows].astype(np.int64)
        return wide if wide is not None else values.astype(np.int64)

    return Word(get)


def _inverted(word: Word) -> Word:
    return Word(lambda rows: ~word.values(rows))


def _zeroed(word: Word, valid: npt.NDArray[np.bool_]) -> Word:
    def get(rows: Indices | None) -> Values:
        return np.where(valid if rows is None else valid[rows], word.values(rows), 0)

    return Word(get)


def _fixed(array: pa.Array, width: int) -> npt.NDArray[Any]:
    data = array.buffers()[1]
    dtype = np.dtype(f"i{width // 8}")
    if data is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def _float_image(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """IEEE bits as integers in total order: negative numbers are reversed, every NaN is the positive quiet one."""
    width = bits.dtype.itemsize * 8
    top = np.array(-1, bits.dtype) ^ np.array(np.iinfo(bits.dtype).min, bits.dtype)
    image: npt.NDArray[Any] = bits ^ ((bits >> np.array(width - 1, bits.dtype)) & top)
    floats = bits.view(np.float64 if width == 64 else np.float32)
    nan = np.isnan(floats)
    if nan.any():
        image[nan] = np.array([np.nan], floats.dtype).view(bits.dtype)[0] & top
    return image


def _byte_words(array: pa.Array) -> list[Word]:
    content, bounds = byte_ranges(array)
    first, total = int(bounds[0]), int(bounds[-1] - bounds[0])
    starts = (bounds[:-1] - first).astype(np.int64)
    lengths = np.diff(bounds).astype(np.int64)
    padded = np.zeros(total + 8, np.uint8)  # every position can be read as eight bytes
    padded[:total] = content[first : first + total]
    loads = np.ndarray((total + 1,), _EIGHT, padded.data, strides=(1,))
    shortest, longest = int(lengths.min(initial=1 << 31)), int(lengths.max(initial=0))
    words = []
    for at in range(0, max(min(longest, _WORDED), 1), 8):
        width = max(1, min(8, longest - at))
        words.append(_byte_word(loads, starts, None if shortest >= at + width else lengths, at, width))
    if longest > _WORDED:
        words.append(_ranked(array))
    elif shortest < longest and (padded[:total] == 0).any():
        words.append(_word(lengths))  # zero padding alone cannot tell b"a" from b"a\0"
    return words


def _ranked(array: pa.Array) -> Word:
    """Places of whole values in their order, looked for once where one is asked for."""
    places = cache(lambda: pc.rank(array, tiebreaker="dense").to_numpy().astype(np.int64))
    return Word(lambda rows: places() if rows is None else places()[rows])


def _byte_word(loads: Values, starts: Indices, lengths: Indices | None, at: int, width: int) -> Word:
    """Bytes at..at+width of every value as a big-endian integer, zeros after a value's end. `lengths`: None where all
    values reach so far."""
    spare = np.uint64(8 * (8 - width))

    def get(rows: Indices | None) -> Values:
        begin = (starts if rows is None else starts[rows]) + at
        if lengths is None:
            return loads[begin].astype(np.uint64) >> spare
        left = (lengths if rows is None else lengths[rows]) - at
        word = loads[np.minimum(begin, len(loads) - 1)].astype(np.uint64)
        word[left <= 0] = 0
        cut = ((8 - np.clip(left, 1, width)) * 8).astype(np.uint64)
        return (word >> cut) << (cut - spare)

    return Word(get)
