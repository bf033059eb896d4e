"""Column values as file indexes store and order them.

    BOOLEAN, TINYINT 1 byte; SMALLINT 2; INT, DATE, TIME, FLOAT 4; BIGINT, DOUBLE, DECIMAL, timestamps 8; big-endian
    CHAR, VARCHAR    length: i32, UTF-8 bytes

DATE is epoch days, TIME milliseconds, DECIMAL the unscaled number, a timestamp epoch milliseconds up to precision 3 and
microseconds above. Text is ordered by its bytes; floating point with -0.0 before 0.0 and NaN last.

Spec: docs/spec/file_index.md#keys
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from bucketlake.errors import InvalidError
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.types.model import DataType, Root, arrow_type
from bucketlake.values import dataclass

Bytes = npt.NDArray["np.uint8"]
Ints = npt.NDArray["np.int64"]

TEXTS = (Root.CHAR, Root.VARCHAR)
FLOATS = (Root.FLOAT, Root.DOUBLE)
STAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_FORMS = {
    Root.BOOLEAN: "b",
    Root.TINYINT: "b",
    Root.SMALLINT: "h",
    Root.INT: "i",
    Root.DATE: "i",
    Root.TIME: "i",
    Root.BIGINT: "q",
    Root.DECIMAL: "q",
    Root.TIMESTAMP: "q",
    Root.TIMESTAMP_LTZ: "q",
    Root.FLOAT: "i",  # its bits
    Root.DOUBLE: "q",
}


def whole_numbers(array: pa.Array, kind: DataType) -> Ints:
    """The stored number of every value, 0 for null. Raises: InvalidError for a decimal beyond 64 bits."""
    root = kind.root
    if root is Root.DECIMAL:
        return _unscaled(array)
    if root in STAMPS:
        numbers = _plain(array.cast(pa.int64()))
        return numbers // 1000 if pa.types.is_timestamp(array.type) and array.type.unit == "ns" else numbers
    if root in (Root.DATE, Root.TIME):
        array = array.cast(pa.int32())
    elif root is Root.BOOLEAN:
        array = array.cast(pa.int8())
    return _plain(array).astype(np.int64)


def _plain(array: pa.Array) -> npt.NDArray[Any]:
    filled = array.fill_null(0) if array.null_count else array
    found: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return found


def _unscaled(array: pa.Array) -> Ints:
    if array.null_count:
        array = array.fill_null(pa.scalar(Decimal(0), array.type))
    words = np.frombuffer(array.buffers()[1], "<i8")[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    if bool((high != low >> 63).any()):
        raise InvalidError("decimal does not fit the index, which holds 64 bits", remedy="choose another index")
    return low


def float_bits(array: pa.Array) -> npt.NDArray[Any]:
    """The bits of every floating point number as an integer of its width: one NaN, zeros distinct; 0 for null."""
    values = _plain(array).copy()
    values[np.isnan(values)] = np.nan
    return values.view(np.int32 if values.dtype == np.float32 else np.int64)


def _ordered(bits: npt.NDArray[Any]) -> Ints:
    """Bits of floats to integers of their order, and back."""
    wide = bits.astype(np.int64)
    top = np.int64(0x7FFFFFFF if bits.dtype == np.int32 else 0x7FFFFFFFFFFFFFFF)
    return wide ^ ((wide >> np.int64(63)) & top)


@dataclass(frozen=True, slots=True)
class Keys:
    """Values in their stored form, one after the other: value i is `data[offsets[i] : offsets[i + 1]]`."""

    data: Bytes
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Ints:
        """Bytes of each value."""
        return np.diff(self.offsets)

    def one(self, index: int) -> bytes:
        """The bytes of one value."""
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def slice(self, start: int, stop: int) -> Keys:
        """Some of them."""
        offsets = self.offsets[start : stop + 1]
        return Keys(self.data[offsets[0] : offsets[-1]], offsets - offsets[0])

    def take(self, indexes: Ints) -> Keys:
        """Those at these places."""
        sizes = self.sizes[indexes]
        offsets = np.append(0, np.cumsum(sizes))
        shift = np.repeat(self.offsets[indexes] - offsets[:-1], sizes)
        return Keys(self.data[np.arange(offsets[-1]) + shift], offsets)


@dataclass(frozen=True, slots=True)
class Distinct:
    """A column's distinct values, ascending, and the number of its value for every row, -1 for null."""

    keys: Keys
    codes: npt.NDArray[Any]


def distinct(chunks: Sequence[pa.Array], kind: DataType) -> Distinct:
    """The distinct values of a column; text may come dictionary-encoded."""
    if kind.root in TEXTS:
        return _distinct_text(chunks)
    floating = kind.root in FLOATS
    stored = arrow_type(kind)
    parts = [_ordered(float_bits(c)) if floating else whole_numbers(c, kind) for c in chunks]
    values = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    known = np.concatenate([np.asarray(c.is_valid()) for c in chunks]) if chunks else np.zeros(0, np.bool_)
    unique, inverse = np.unique(values[known], return_inverse=True)
    codes = np.full(len(values), -1, np.int64)
    codes[known] = inverse
    if floating:
        unique = _ordered(unique.astype(np.int32) if pa.types.is_float32(stored) else unique)
    width = struct.calcsize(_FORMS[kind.root])
    data = unique.astype(f">i{width}").view(np.uint8)
    return Distinct(Keys(data, np.arange(len(unique) + 1, dtype=np.int64) * width), codes)


def _distinct_text(chunks: Sequence[pa.Array]) -> Distinct:
    encoded = [c if pa.types.is_dictionary(c.type) else c.dictionary_encode() for c in chunks]
    if not encoded:
        return Distinct(Keys(np.zeros(0, np.uint8), np.zeros(1, np.int64)), np.zeros(0, np.int64))
    whole = pa.chunked_array(encoded).unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    texts, places = whole.dictionary, whole.indices
    order = pc.sort_indices(texts)
    ranks = np.empty(len(texts), np.int64)
    ranks[np.asarray(order)] = np.arange(len(texts))
    at = _plain(places).astype(np.int64)
    codes = np.where(np.asarray(places.is_valid()), ranks[at] if len(texts) else -1, -1)
    return Distinct(_prefixed(texts.take(order)), codes)


def _prefixed(texts: pa.Array) -> Keys:
    bounds, data = text_buffers(texts)
    body = Keys(data[bounds[0] : bounds[-1]], bounds - bounds[0])
    return records((np.diff(bounds),), body)


def text_buffers(array: pa.Array) -> tuple[Ints, Bytes]:
    """Where each text or bytes begins, one entry more for the end, in the buffer that is the second."""
    _, bounds, data = array.buffers()
    count = len(array)
    if not count:
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(bounds, np.int32)[array.offset : array.offset + count + 1]
    found = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return offsets.astype(np.int64), found


def records(head: Sequence[Any], keys: Keys, tail: Sequence[Any] = ()) -> Keys:
    """Per key a record: the head's integers (i32, big-endian), the key, the tail's integers."""
    extra = 4 * (len(head) + len(tail))
    offsets = np.append(0, np.cumsum(keys.sizes + extra))
    out = np.zeros(int(offsets[-1]), np.uint8)
    shift = offsets[:-1] + 4 * len(head) - keys.offsets[:-1]
    out[np.arange(len(keys.data)) + np.repeat(shift, keys.sizes)] = keys.data
    for number, values in enumerate(head):
        _put(out, offsets[:-1] + 4 * number, values)
    for number, values in enumerate(tail):
        _put(out, offsets[1:] - 4 * (len(tail) - number), values)
    return Keys(out, offsets)


def _put(out: Bytes, at: Ints, values: Any) -> None:
    numbers = np.broadcast_to(np.asarray(values, np.int64), at.shape)
    for byte in range(4):
        out[at + byte] = (numbers >> (24 - 8 * byte)) & 0xFF


# ---------------------------------------------------------------------------------------------- looking up


def read_key(data: bytes | memoryview, at: int, kind: DataType) -> tuple[Any, int]:
    """The place of a stored value in the order of its type (int or bytes), and where what follows begins."""
    if at < 0:
        raise ValueError("a value before the first byte")
    if kind.root in TEXTS:
        (length,) = struct.unpack_from(">i", data, at)
        if length < 0 or at + 4 + length > len(data):
            raise ValueError("a text's length is beyond the index")
        return bytes(data[at + 4 : at + 4 + length]), at + 4 + length
    form = ">" + _FORMS[kind.root]
    (number,) = struct.unpack_from(form, data, at)
    if kind.root in FLOATS and number < 0:
        number ^= 0x7FFFFFFF if kind.root is Root.FLOAT else 0x7FFFFFFFFFFFFFFF
    return number, at + struct.calcsize(form)


def key_width(kind: DataType) -> int | None:
    """Bytes of a stored value, None where they vary."""
    return None if kind.root in TEXTS else struct.calcsize(_FORMS[kind.root])


def places(literal: Any, kind: DataType) -> tuple[Any, Any] | None:
    """The places in the order of the type that equal a literal: the first and the last of them; they differ for zeros.

    None where the literal is no value of the type, or may stand for several.
    """
    array = literal_array(literal, kind)
    if array is None:
        return None
    if kind.root in TEXTS:
        text = array[0].as_py().encode()
        return text, text
    if kind.root not in FLOATS:
        number = int(whole_numbers(array, kind)[0])
        return number, number
    number = int(_ordered(float_bits(array))[0])
    return (-1, 0) if number in (-1, 0) else (number, number)


def literal_array(literal: Any, kind: DataType, compact: bool = True) -> pa.Array | None:
    """A literal as a canonical array of one value, None if the type does not hold it exactly, or, where it has to be
    `compact`, 64 bits do not."""
    try:
        array = pa.array([literal], arrow_type(kind))
        stored = array[0].as_py()
        if array.null_count or (stored != literal and stored == stored):
            return None
        if kind.root is Root.DECIMAL and compact:
            _unscaled(array)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return array
