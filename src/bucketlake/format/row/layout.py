"""Where the parts of a BinaryRow lie: what encoders and decoders of single rows and of columns share.

Spec: docs/spec/binary_row.md
"""

from __future__ import annotations

from enum import Enum

from bucketlake.errors import CorruptError
from bucketlake.types.model import DataType, Root

ARITY_BYTES = 4  # the serialized form starts with the number of fields, big-endian
HEADER_BITS = 8  # row kind, before the null bits
INLINE_BYTES = 7  # texts and bytes up to here lie in the slot
COMPACT_DECIMAL = 18  # digits that an unscaled int64 holds
COMPACT_TIMESTAMP = 3  # fractional digits that epoch milliseconds hold
DECIMAL_BYTES = 16


class Shape(Enum):
    """How a field is stored."""

    FIXED = "value in the slot"
    BYTES = "inline up to 7 bytes, else in the variable part"
    DECIMAL = "16 bytes in the variable part, big-endian"
    TIMESTAMP = "milliseconds in the variable part, nanoseconds of the millisecond in the slot"
    NESTED = "a section of the variable part, not looked into"


_FIXED = {
    Root.BOOLEAN: "<u1",
    Root.TINYINT: "<i1",
    Root.SMALLINT: "<i2",
    Root.INT: "<i4",
    Root.BIGINT: "<i8",
    Root.FLOAT: "<f4",
    Root.DOUBLE: "<f8",
    Root.DATE: "<i4",
    Root.TIME: "<i4",
}
_BYTES = {Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY}
TEXT = {Root.CHAR, Root.VARCHAR}
STAMPS = {Root.TIMESTAMP, Root.TIMESTAMP_LTZ}
DEFAULT_TIMESTAMP_PRECISION = 6


def shape_of(kind: DataType) -> Shape:
    """How values of a type are stored."""
    if kind.root in _BYTES:
        return Shape.BYTES
    if kind.root is Root.DECIMAL:
        return Shape.FIXED if (kind.precision or 0) <= COMPACT_DECIMAL else Shape.DECIMAL
    if kind.root in STAMPS:
        return Shape.FIXED if precision_of(kind) <= COMPACT_TIMESTAMP else Shape.TIMESTAMP
    return Shape.FIXED if kind.root in _FIXED else Shape.NESTED


def number_format(kind: DataType) -> str:
    """The NumPy format of a type whose shape is FIXED; decimals as unscaled int64, timestamps as milliseconds."""
    return _FIXED.get(kind.root, "<i8")


def precision_of(kind: DataType) -> int:
    """Fractional digits of a timestamp type."""
    return DEFAULT_TIMESTAMP_PRECISION if kind.precision is None else kind.precision


def null_bytes(arity: int) -> int:
    """Bytes of the row kind and the null bits together: whole words."""
    return (arity + HEADER_BITS + 63) // 64 * 8


def fixed_bytes(arity: int) -> int:
    """Bytes before the variable part."""
    return null_bytes(arity) + 8 * arity


def reserved_bytes(shape: Shape) -> int:
    """Variable bytes that a field takes whatever its value, null too."""
    return {Shape.DECIMAL: DECIMAL_BYTES, Shape.TIMESTAMP: 8}.get(shape, 0)


def check_range(row: bytes, offset: int, length: int) -> None:
    """CorruptError unless a field's bytes lie inside its row."""
    if offset + length > len(row):
        raise CorruptError("field lies outside its row", offset=offset, length=length, row=len(row))
