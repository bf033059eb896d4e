"""Many BinaryRows at once, to and from Arrow columns, without a Python step per row. Grammar: `binary_row`.

Spec: docs/spec/binary_row.md
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.row.layout import (
    ARITY_BYTES,
    DECIMAL_BYTES,
    HEADER_BITS,
    INLINE_BYTES,
    STAMPS,
    Shape,
    fixed_bytes,
    null_bytes,
    number_format,
    precision_of,
    reserved_bytes,
    shape_of,
)
from bucketlake.lazy import np, npt, pa
from bucketlake.types.model import DataType, Root, arrow_type, type_text
from bucketlake.values import dataclass

Bytes = npt.NDArray["np.uint8"]
Words = npt.NDArray["np.uint64"]
Ints = npt.NDArray["np.int64"]
Mask = npt.NDArray["np.bool_"]

NANOS_IN_MILLI = 1_000_000
_FEW = 64  # rows that are checked one by one


@dataclass(frozen=True, slots=True)
class BinaryRows:
    """Rows one after the other, without arity headers: row i is `buffer[offsets[i]:offsets[i + 1]]`.

    `buffer`: uint8; `offsets`: int64, one more than rows, multiples of 8.
    """

    buffer: Bytes
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> bytes:
        """The bytes of one row."""
        return self.buffer[self.offsets[index] : self.offsets[index + 1]].tobytes()


# ---------------------------------------------------------------------------------------------- encoding


def encode_rows(columns: pa.RecordBatch | Sequence[pa.Array], types: Sequence[DataType]) -> BinaryRows:
    """The rows of canonical columns as BinaryRows of kind insert, equal to `encode_row` of each.

    Raises: UnsupportedError for nested types.
    """
    arrays = columns.columns if isinstance(columns, pa.RecordBatch) else list(columns)
    arrays = [array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array for array in arrays]
    count = len(arrays[0]) if arrays else columns.num_rows if isinstance(columns, pa.RecordBatch) else 0
    fields = [_Column(array, kind) for array, kind in zip(arrays, types, strict=True)]
    fixed = fixed_bytes(len(types))
    sizes = [size for size in (field.variable_bytes() for field in fields) if size is not None]
    cursor: Ints | int = fixed
    if any(isinstance(size, np.ndarray) for size in sizes):
        lengths = sum(sizes, np.full(count, fixed, np.int64))
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
    else:
        offsets = np.arange(count + 1, dtype=np.int64) * (fixed + sum(int(size) for size in sizes))
    target = _Target(offsets)
    nulls = null_bytes(len(types)) // 8
    for word, value in _null_words(fields).items():
        target.put(word, value)
    for index, field in enumerate(fields):
        size = field.variable_bytes()
        field.write(target, nulls + index, cursor)
        cursor = cursor if size is None else cursor + size
    return BinaryRows(target.words.view(np.uint8), offsets)


def _null_words(fields: Sequence[_Column]) -> dict[int, Words]:
    found: dict[int, Words] = {}
    for index, field in enumerate(fields):
        if field.nulls is not None:
            word, bit = divmod(HEADER_BITS + index, 64)
            bits = field.nulls.astype(np.uint64) << np.uint64(bit)
            found[word] = found[word] | bits if word in found else bits
    return found


class _Target:
    """The words of all rows; `put` sets one word of every row."""

    def __init__(self, offsets: Ints) -> None:
        self.words: Words = np.zeros(int(offsets[-1]) // 8, np.uint64)
        self.starts = offsets[:-1] // 8
        count = len(self.starts)
        width = len(self.words) // count if count else 0
        even = bool(count) and bool((np.diff(offsets) == width * 8).all())
        self._table = self.words.reshape(count, width) if even else None

    def put(self, word: int, values: npt.NDArray[Any]) -> None:
        """Word number `word` of each row."""
        if self._table is not None:
            self._table[:, word] = values.view(np.uint64)
        else:
            self.words[self.starts + word] = values.view(np.uint64)

    def put_at(self, cursor: Ints | int, values: npt.NDArray[Any]) -> None:
        """The word `cursor` bytes from the start of each row."""
        self.words[self.starts + cursor // 8] = values.view(np.uint64)


class _Column:
    """One column to be written: its values as arrays."""

    def __init__(self, array: pa.Array, kind: DataType) -> None:
        self.kind = kind
        self.shape = shape_of(kind)
        if self.shape is Shape.NESTED:
            raise UnsupportedError("nested values cannot be keys or partition values", type=type_text(kind))
        self.array = array
        self.nulls: Mask | None = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        self.lengths: Ints
        if self.shape is Shape.BYTES:
            self.data, self.begins, self.lengths = byte_ranges(array)
            if self.nulls is not None:
                self.lengths = np.where(self.nulls, 0, self.lengths)
            long = self.lengths > INLINE_BYTES
            self._long: Mask | None = long if long.any() else None

    def variable_bytes(self) -> Ints | int | None:
        """What each row gives to the variable part: an array, a constant, or None for nothing."""
        if self.shape is Shape.BYTES:
            return None if self._long is None else np.where(self._long, (self.lengths + 7) & -8, 0)
        return reserved_bytes(self.shape) or None

    def write(self, target: _Target, slot: int, cursor: Ints | int) -> None:
        """Fill the slots, and the variable parts which are `cursor` bytes from the row's start."""
        if self.shape is Shape.BYTES:
            self._write_bytes(target, slot, cursor)
        elif self.shape is Shape.DECIMAL:
            size, high, low = _big_endian(self._numbers("<i8", 2))
            size = self._kept(size)
            target.put(slot, size | _shifted(cursor))
            target.put_at(cursor, self._kept(high))
            target.put_at(cursor + 8, self._kept(low))
        elif self.shape is Shape.TIMESTAMP:
            per_milli = 1000 if precision_of(self.kind) <= 6 else NANOS_IN_MILLI
            millis, rest = np.divmod(self._kept(self._numbers("<i8")), per_milli)
            target.put(slot, rest * (NANOS_IN_MILLI // per_milli) | _shifted(cursor))
            target.put_at(cursor, millis)
        else:
            target.put(slot, self._kept(self._slots()))

    def _kept(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if self.nulls is None else np.where(self.nulls, 0, values)

    def _numbers(self, form: str, width: int = 1) -> npt.NDArray[Any]:
        array = self.array
        start = array.offset * width
        flat = np.frombuffer(array.buffers()[1], form)[start : start + len(array) * width]
        return flat if width == 1 else flat.reshape(-1, width)

    def _slots(self) -> npt.NDArray[Any]:
        kind = self.kind
        if kind.root is Root.BOOLEAN:
            flags: Mask = self.array.fill_null(False).to_numpy(zero_copy_only=False)
            return flags.astype(np.uint64)
        if kind.root is Root.DECIMAL:
            return np.ascontiguousarray(self._numbers("<i8", 2)[:, 0])
        form = number_format(kind)
        values = self._numbers(form)
        return values.view(form.replace("f", "u").replace("i", "u")).astype(np.uint64)

    def _write_bytes(self, target: _Target, slot: int, cursor: Ints | int) -> None:
        words = unaligned_words(self.data)
        short = words[self.begins] & _low_bytes(np.minimum(self.lengths, INLINE_BYTES))
        slots = short | ((self.lengths.astype(np.uint64) | np.uint64(0x80)) << np.uint64(56))
        if self.nulls is not None:
            slots = np.where(self.nulls, np.uint64(0), slots)
        if self._long is not None:
            outside = self.lengths | _shifted(cursor)
            slots = np.where(self._long, outside.view(np.uint64), slots)
        target.put(slot, slots)
        if self._long is not None:
            rows = np.flatnonzero(self._long)
            at = cursor[rows] if isinstance(cursor, np.ndarray) else cursor
            _copy_words(words, self.begins[rows], self.lengths[rows], target.words, target.starts[rows] + at // 8)


def _shifted(cursor: Ints | int) -> Ints | int:
    return cursor << 32


def byte_ranges(array: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """The bytes of a text or bytes column with 8 more at the end, where each value begins, and its length."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, places, data = array.buffers()
    if len(array) == 0 or places is None:
        return np.zeros(8, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    offsets = np.frombuffer(places, "<i8" if wide else "<i4")[array.offset : array.offset + len(array) + 1]
    offsets = offsets.astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    if last > first:
        padded[: last - first] = np.frombuffer(data, np.uint8)[first:last]
    return padded, offsets[:-1] - first, np.diff(offsets)


def unaligned_words(data: Bytes) -> Words:
    """A view: element i is the 8 bytes from byte i on, little-endian."""
    return np.ndarray((len(data) - 7,), "<u8", buffer=data.data, strides=(1,))


@cache
def _masks() -> Words:
    return np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)


def _low_bytes(lengths: Ints) -> Words:
    return _masks()[lengths]


def _copy_words(source: Words, begins: Ints, lengths: Ints, target: Words, places: Ints) -> None:
    """Copy byte ranges to word positions, the last word of each padded with zeros."""
    counts = (lengths + 7) >> 3
    ends = np.cumsum(counts)
    inner = np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - counts, counts)
    words = source[np.repeat(begins, counts) + 8 * inner]
    tails = ends - 1
    words[tails] &= _low_bytes(lengths - 8 * (counts - 1))
    target[np.repeat(places, counts) + inner] = words


def _big_endian(pairs: Ints) -> tuple[Ints, Words, Words]:
    """128-bit integers (low, high) as the fewest big-endian bytes: their number, and 16 bytes as two words."""
    low, high = pairs[:, 0], pairs[:, 1]
    sign = high >> 63
    low_bits, high_bits = (low ^ sign).view(np.uint64), (high ^ sign).view(np.uint64)
    size = np.ones(len(pairs), np.int64)
    for step in range(1, DECIMAL_BYTES):
        bit = 8 * step - 1
        if bit < 64:
            size += (high_bits != 0) | (low_bits >= np.uint64(1 << bit))
        else:
            size += high_bits >= np.uint64(1 << (bit - 64))
    whole = np.zeros((len(pairs), 2 * DECIMAL_BYTES), np.uint8)
    whole[:, :8] = np.ascontiguousarray(high).byteswap().view(np.uint8).reshape(-1, 8)
    whole[:, 8:16] = np.ascontiguousarray(low).byteswap().view(np.uint8).reshape(-1, 8)
    places = (DECIMAL_BYTES - size)[:, None] + np.arange(DECIMAL_BYTES)
    words = np.take_along_axis(whole, places, axis=1).view("<u8")
    return size, np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])


# ---------------------------------------------------------------------------------------------- decoding


def decode_columns(rows: Sequence[bytes], types: Sequence[DataType], wanted: Sequence[int]) -> list[pa.Array]:
    """Fields `wanted` of serialized rows (arity first) as canonical Arrow arrays, one a field.

    Null where the row has fewer fields than that, and where the Arrow type cannot hold the value. Nested types give
    nulls. Raises: CorruptError for rows shorter than their arity says.
    """
    source = _Source(rows)
    return [source.column(index, types[index]) for index in wanted]


def check_rows(rows: Sequence[bytes], types: Sequence[DataType]) -> None:
    """Refuse serialized rows that do not have just these fields, or whose fields lie outside of them; rows that pass
    can be decoded. Raises: CorruptError."""
    if len(rows) <= _FEW and _are_fixed(rows, types):
        return  # as in small tables without partitions: NumPy would take longer to load than to check them
    source = _Source(rows)
    if (source.arity != len(types)).any():
        found = int(source.arity[source.arity != len(types)][0])
        raise CorruptError("row has a different number of fields", fields=found, expected=len(types))
    for index, kind in enumerate(types):
        if shape_of(kind) is not Shape.FIXED:
            source.check(index, shape_of(kind))


def _are_fixed(rows: Sequence[bytes], types: Sequence[DataType]) -> bool:
    """Whether the rows have just these fields, and all of them lie in their slots."""
    if any(shape_of(kind) is not Shape.FIXED for kind in types):
        return False
    arity, least = len(types).to_bytes(ARITY_BYTES, "big"), ARITY_BYTES + fixed_bytes(len(types))
    return all(row.startswith(arity) and len(row) >= least for row in rows)


class _Source:
    """Serialized rows, joined."""

    def __init__(self, rows: Sequence[bytes]) -> None:
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        self.data: Bytes = np.frombuffer(b"".join(rows) + bytes(8), np.uint8)
        self.words = unaligned_words(self.data)
        ends = np.cumsum(lengths)
        if len(rows) and int(lengths.min()) < ARITY_BYTES + 8:
            raise CorruptError("serialized row is too short", length=int(lengths.min()))
        heads = ends - lengths
        self.rows = heads + ARITY_BYTES
        self.ends = ends
        self.arity = (self.words[heads] & np.uint64(0xFFFFFFFF)).astype("<u4").byteswap().astype(np.int64)
        nulls = (self.arity + HEADER_BITS + 63) // 64 * 8
        self.slots = self.rows + nulls
        short = self.rows + nulls + 8 * self.arity > ends
        if short.any():
            raise CorruptError("row is shorter than its fields", length=int(lengths[short][0]))

    def column(self, index: int, kind: DataType) -> pa.Array:
        """One field of every row."""
        target = arrow_type(kind)
        shape = shape_of(kind)
        absent = self.arity <= index
        if shape is Shape.NESTED:
            return pa.nulls(len(self.rows), target)
        places = np.where(absent, self.rows, self.slots + 8 * index)
        bit = HEADER_BITS + index
        flags = self.data[np.where(absent, self.rows, self.rows + bit // 8)]
        nulls = absent | ((flags >> (bit % 8) & 1) != 0)
        slots = np.where(nulls, np.uint64(0), self.words[places])
        if shape is Shape.FIXED:
            return _fixed(slots, nulls, kind, target)
        if shape is Shape.TIMESTAMP:
            return self._timestamps(slots, nulls, kind, target)
        if shape is Shape.DECIMAL:
            begins, lengths = self._ranges(slots, nulls)
            return _decimals(self.data, begins, lengths, nulls, target)
        return self._texts(slots, places, nulls, target)

    def check(self, index: int, shape: Shape) -> None:
        """Raise CorruptError where a field that every row has, of another shape than FIXED, lies outside of its row."""
        places = self.slots + 8 * index
        bit = HEADER_BITS + index
        nulls = (self.data[self.rows + bit // 8] >> (bit % 8) & 1) != 0
        slots = self.words[places]
        if shape is Shape.TIMESTAMP:
            slots = (slots >> np.uint64(32) << np.uint64(32)) | np.uint64(8)
        elif shape is not Shape.DECIMAL:
            inline = (slots >> np.uint64(63)) != 0
            lengths = (slots >> np.uint64(56)).astype(np.int64) & 0x7F
            if (inline & ~nulls & (lengths > INLINE_BYTES)).any():
                raise CorruptError("field lies outside its row", field=index)
            slots = np.where(inline, np.uint64(0), slots)
        _, lengths = self._ranges(slots, nulls)
        if shape is Shape.DECIMAL and (lengths > DECIMAL_BYTES).any():
            raise CorruptError("decimal of more than 16 bytes", field=index)

    def _ranges(self, slots: Words, nulls: Mask) -> tuple[Ints, Ints]:
        lengths = np.where(nulls, 0, (slots & np.uint64(0xFFFFFFFF)).astype(np.int64))
        begins = np.where(nulls, 0, self.rows + (slots >> np.uint64(32)).astype(np.int64))
        outside = ~nulls & (begins + lengths > self.ends)
        if outside.any():
            raise CorruptError("field lies outside its row", row=int(np.flatnonzero(outside)[0]))
        return begins, lengths

    def _timestamps(self, slots: Words, nulls: Mask, kind: DataType, target: pa.DataType) -> pa.Array:
        nanos = (slots & np.uint64(0xFFFFFFFF)).astype(np.int64)
        begins, _ = self._ranges((slots >> np.uint64(32) << np.uint64(32)) | np.uint64(8), nulls)
        millis = self.words[begins].view(np.int64)
        scale = 1000 if precision_of(kind) <= 6 else NANOS_IN_MILLI
        rest = nanos // (NANOS_IN_MILLI // scale)
        last, most = divmod(np.iinfo(np.int64).max, scale)
        outside = (millis > last) | (millis < -last - 1)
        outside |= ((millis == last) & (rest > most)) | ((millis == -last - 1) & (rest < scale - 1 - most))
        units = (
            np.where(nulls | outside, 0, millis) * scale + rest
        )  # at the lower edge the product wraps and comes back
        return pa.array(units, pa.int64(), mask=nulls | outside).view(target)

    def _texts(self, slots: Words, places: Ints, nulls: Mask, target: pa.DataType) -> pa.Array:
        inline = (slots >> np.uint64(63)) != 0
        begins, lengths = self._ranges(np.where(inline, np.uint64(0), slots), nulls)
        begins = np.where(inline, places, begins)
        lengths = np.where(inline, (slots >> np.uint64(56)).astype(np.int64) & 0x7F, lengths)
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        inner = np.arange(int(offsets[-1]), dtype=np.int64) - np.repeat(offsets[:-1].astype(np.int64), lengths)
        data = self.data[np.repeat(begins, lengths) + inner]
        valid = _validity(nulls)
        return pa.Array.from_buffers(target, len(lengths), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])


def _validity(nulls: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(~nulls, bitorder="little"))


def _fixed(slots: Words, nulls: Mask, kind: DataType, target: pa.DataType) -> pa.Array:
    if kind.root is Root.BOOLEAN:
        return pa.array((slots & np.uint64(0xFF)) != 0, mask=nulls)
    if kind.root is Root.DECIMAL:
        low = slots.view(np.int64)
        pairs = np.stack([low, low >> 63], axis=1)
        return pa.Array.from_buffers(target, len(slots), [_validity(nulls), pa.py_buffer(pairs)])
    form = number_format(kind)
    size = np.dtype(form).itemsize
    values = np.ascontiguousarray(slots.view(np.uint8).reshape(-1, 8)[:, :size]).reshape(-1).view(form)
    plain = pa.array(values, mask=nulls)
    return plain if plain.type == target and kind.root not in STAMPS else plain.view(target)


def _decimals(data: Bytes, begins: Ints, lengths: Ints, nulls: Mask, target: pa.DataType) -> pa.Array:
    """Big-endian two's complement of up to 16 bytes, to 16 little-endian ones."""
    places = np.arange(DECIMAL_BYTES)
    inside = places < lengths[:, None]
    negative = (data[begins] >= 0x80) & (lengths > 0)
    from_end = np.where(inside, begins[:, None] + lengths[:, None] - 1 - places, 0)
    filled = np.where(inside, data[from_end], np.where(negative, 0xFF, 0)[:, None]).astype(np.uint8)
    return pa.Array.from_buffers(target, len(lengths), [_validity(nulls), pa.py_buffer(np.ascontiguousarray(filled))])
