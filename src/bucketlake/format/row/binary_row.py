"""BinaryRow: the bytes of a row, as partitions, keys, statistics and bucket hashes are made of. Single rows here,
columns of many rows in `binary_rows`.

    serialized   := arity:int32be row                       (what manifests store)
    row          := kind:u8 nulls slot{arity} variable      (all little-endian, length a multiple of 8)
    nulls        := bit 8 + i is set where field i is null; kind and nulls fill whole 8-byte words
    slot         := 8 bytes: BOOLEAN, integers, FLOAT, DOUBLE, DATE (epoch day), TIME (milliseconds), compact DECIMAL
                    (precision <= 18, unscaled), compact timestamps (precision <= 3, epoch milliseconds), zero-padded
                  | text or bytes, at most 7, zero-padded, then 0x80 + length
                  | length:u32 offset:u32                   longer text or bytes, nested values; from the row's start
                  | length:u32 offset:u32                   DECIMAL of precision > 18
                  | nanosOfMillisecond:u32 offset:u32       timestamps of precision > 3
    variable     := in field order, each padded with zeros to whole words: text or bytes
                  | 16 bytes: unscaled, big-endian two's complement in the fewest bytes, then zeros
                  | epoch milliseconds:int64
    Null fields have a zero slot and no variable part, but for the last two kinds, which keep theirs: zeros, length or
    nanoseconds 0.

Python values: bool, int, float, Decimal, str, bytes, date, time; naive datetime for TIMESTAMP, aware (UTC) for the
local-zoned one; precision 7 to 9: int, epoch nanoseconds. What Python's date or datetime cannot hold (years before 1
or after 9999) is an int in the unit of its Arrow type. Ints in that unit are taken for every date, time and timestamp.

Spec: docs/spec/binary_row.md
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from bucketlake.errors import CorruptError, InvalidError, UnsupportedError
from bucketlake.format.row.binary_rows import BinaryRows, decode_columns, encode_rows
from bucketlake.format.row.layout import (
    ARITY_BYTES,
    COMPACT_TIMESTAMP,
    DECIMAL_BYTES,
    HEADER_BITS,
    INLINE_BYTES,
    STAMPS,
    TEXT,
    Shape,
    check_range,
    fixed_bytes,
    null_bytes,
    number_format,
    precision_of,
    reserved_bytes,
    shape_of,
)
from bucketlake.types.model import DataType, Root, type_text

__all__ = [
    "EMPTY_ROW",
    "BinaryRows",
    "decode_columns",
    "decode_row",
    "encode_row",
    "encode_rows",
    "from_serialized",
    "serialized",
    "typed_value",
    "with_arity_header",
    "without_arity_header",
]

EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
_STRUCTS = {"<u1": "<B", "<i1": "<b", "<i2": "<h", "<i4": "<i", "<i8": "<q", "<f4": "<f", "<f8": "<d"}


def with_arity_header(row: bytes, arity: int) -> bytes:
    """The serialized form, as manifests store rows."""
    return arity.to_bytes(ARITY_BYTES, "big") + row


def without_arity_header(data: bytes) -> bytes:
    """The row of a serialized form. CorruptError if it is too short for one."""
    if len(data) < ARITY_BYTES + 8:
        raise CorruptError("serialized row is too short", length=len(data))
    return data[ARITY_BYTES:]


EMPTY_ROW = with_arity_header(bytes(8), 0)


def serialized(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """The serialized form of a row of Python values."""
    return with_arity_header(encode_row(values, types), len(types))


def from_serialized(data: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """The Python values of a serialized row; CorruptError if it has a different number of fields."""
    arity = int.from_bytes(data[:ARITY_BYTES], "big")
    if arity != len(types):
        raise CorruptError("row has a different number of fields", fields=arity, expected=len(types))
    return decode_row(without_arity_header(data), types)


# ---------------------------------------------------------------------------------------------- encoding


def encode_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """The bytes of one row of kind insert, without the arity. None is null.

    Raises: InvalidError for values that do not fit their type; UnsupportedError for nested values other than null.
    """
    arity = len(types)
    head = bytearray(null_bytes(arity))
    slots, variable = bytearray(), bytearray()
    start = fixed_bytes(arity)
    for index, (value, kind) in enumerate(zip(values, types, strict=True)):
        cursor = start + len(variable)
        if value is None:
            bit = HEADER_BITS + index
            head[bit // 8] |= 1 << bit % 8
            kept = reserved_bytes(shape_of(kind))
            slots += struct.pack("<II", 0, cursor if kept else 0)
            variable += bytes(kept)
            continue
        try:
            slot, tail = _encode_value(value, kind, cursor)
        except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
            raise InvalidError("value does not fit its type", value=repr(value), type=type_text(kind)) from error
        slots += slot
        variable += tail
    return bytes(head + slots + variable)


def _encode_value(value: Any, kind: DataType, cursor: int) -> tuple[bytes, bytes]:
    """The slot of a value, and what it adds to the variable part, which is `cursor` bytes from the row's start."""
    shape = shape_of(kind)
    if shape is Shape.FIXED:
        number = _number(value, kind)
        return struct.pack(_STRUCTS[number_format(kind)], number).ljust(8, b"\0"), b""
    if shape is Shape.BYTES:
        data = value.encode() if kind.root in TEXT else bytes(value)
        if len(data) <= INLINE_BYTES:
            return data.ljust(INLINE_BYTES, b"\0") + bytes([0x80 | len(data)]), b""
        return struct.pack("<II", len(data), cursor), data + bytes(-len(data) % 8)
    if shape is Shape.DECIMAL:
        whole = unscaled(value, kind)
        data = whole.to_bytes((whole if whole >= 0 else ~whole).bit_length() // 8 + 1, "big", signed=True)
        return struct.pack("<II", len(data), cursor), data.ljust(DECIMAL_BYTES, b"\0")
    if shape is Shape.TIMESTAMP:
        millis, nanos = divmod(epoch_units(value, kind) * (1000 if precision_of(kind) <= 6 else 1), 1_000_000)
        return struct.pack("<II", nanos, cursor), struct.pack("<q", millis)
    raise UnsupportedError("nested values cannot be keys or partition values", type=type_text(kind))


def _number(value: Any, kind: DataType) -> Any:
    root = kind.root
    if root is Root.DECIMAL:
        return unscaled(value, kind)
    if root is Root.DATE:
        return value if isinstance(value, int) else value.toordinal() - EPOCH_DAY
    if root is Root.TIME:
        return value if isinstance(value, int) else time_millis(value)
    if root in STAMPS:
        return epoch_units(value, kind)
    return value


def unscaled(value: Any, kind: DataType) -> int:
    """The integer that stands for a Decimal (or int) in a DECIMAL type; ValueError if digits would be lost."""
    sign, digits, exponent = Decimal(value).as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("not a number")
    whole: int = int("".join(map(str, digits)))
    shift = exponent + (kind.scale or 0)
    if shift >= 0:
        whole *= 10**shift
    else:
        whole, lost = divmod(whole, 10**-shift)
        if lost:
            raise ValueError("more digits after the point than the type has")
    if whole >= 10 ** (kind.precision or 0):
        raise ValueError("more digits than the type has")
    return int(-whole if sign else whole)


def time_millis(value: dt.time) -> int:
    """Milliseconds since midnight."""
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def epoch_units(value: Any, kind: DataType) -> int:
    """A timestamp as int in the unit of its Arrow type: milliseconds, microseconds or nanoseconds by precision."""
    if isinstance(value, int):
        return int(value)
    if value.tzinfo is not None:
        value = value.astimezone(dt.timezone.utc).replace(tzinfo=None)
    micros: int = (value - EPOCH) // MICROSECOND
    precision = precision_of(kind)
    if precision <= COMPACT_TIMESTAMP:
        return micros // 1000
    return micros if precision <= 6 else micros * 1000


# ---------------------------------------------------------------------------------------------- decoding


def decode_row(row: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """The Python values of a row without arity header; nested values as their raw bytes.

    Raises: CorruptError if the row is too short for its types.
    """
    arity = len(types)
    first = null_bytes(arity)
    if len(row) < fixed_bytes(arity):
        raise CorruptError("row is shorter than its fields", length=len(row), fields=arity)
    values: list[Any] = []
    for index, kind in enumerate(types):
        bit = HEADER_BITS + index
        if row[bit // 8] >> bit % 8 & 1:
            values.append(None)
        else:
            values.append(_decode_value(row, first + 8 * index, kind))
    return tuple(values)


def _decode_value(row: bytes, slot: int, kind: DataType) -> Any:
    shape = shape_of(kind)
    if shape is Shape.FIXED:
        return typed_value(struct.unpack_from(_STRUCTS[number_format(kind)], row, slot)[0], kind)
    mark = row[slot + 7]
    low, offset = struct.unpack_from("<II", row, slot)
    if shape is Shape.TIMESTAMP:
        check_range(row, offset, 8)
        nanos = struct.unpack_from("<q", row, offset)[0] * 1_000_000 + low
        return typed_value(nanos if precision_of(kind) > 6 else nanos // 1000, kind)
    if mark & 0x80 and shape in (Shape.BYTES, Shape.NESTED):
        data = row[slot : slot + (mark & 0x7F)]
    else:
        check_range(row, offset, low)
        data = row[offset : offset + low]
    if shape is Shape.DECIMAL:
        return decimal_of(int.from_bytes(data, "big", signed=True), kind)
    if shape is Shape.BYTES and kind.root in TEXT:
        return data.decode(errors="replace")
    return data


def typed_value(number: Any, kind: DataType) -> Any:
    """The Python value of a stored number: dates, times, timestamps and decimals come as integers."""
    root = kind.root
    if root is Root.BOOLEAN:
        return number != 0
    if root is Root.DECIMAL:
        return decimal_of(number, kind)
    if root is Root.DATE:
        day = number + EPOCH_DAY
        return dt.date.fromordinal(day) if 1 <= day <= dt.date.max.toordinal() else number
    if root is Root.TIME:
        return (EPOCH + dt.timedelta(milliseconds=number)).time() if 0 <= number < 86_400_000 else number
    if root in STAMPS and precision_of(kind) <= 6:
        return _stamp(number, kind)
    return number


def _stamp(number: int, kind: DataType) -> dt.datetime | int:
    micros = number * 1000 if precision_of(kind) <= COMPACT_TIMESTAMP else number
    try:
        value = EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return number
    return value.replace(tzinfo=dt.timezone.utc) if kind.root is Root.TIMESTAMP_LTZ else value


def decimal_of(whole: int, kind: DataType) -> Decimal:
    """The Decimal of an unscaled integer, exact whatever the context's precision."""
    return Decimal(f"{whole}E-{kind.scale or 0}")
