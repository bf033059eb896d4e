"""The order of values, from their BinaryRow bytes: one order for every value of a type, whatever Python makes of it.

Fields become ints and bytes that compare as the values do: numbers, decimals, dates, times and timestamps by value;
BOOLEAN false first; FLOAT and DOUBLE in IEEE total order with one NaN, the greatest, and -0.0 < 0.0; text and bytes
byte by byte, unsigned. Null is `NULL`, below everything. Spec: docs/spec/binary_row.md#order
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from bucketlake.errors import CorruptError
from bucketlake.format.row.layout import (
    HEADER_BITS,
    Shape,
    check_range,
    fixed_bytes,
    null_bytes,
    number_format,
    shape_of,
)
from bucketlake.types.model import DataType, Root

__all__ = ["NULL", "Rank", "ranked_row"]

Rank = Any  # int, bytes or NULL; all of one column compare with each other

_NUMBERS = {"<u1": "<B", "<i1": "<b", "<i2": "<h", "<i4": "<i", "<i8": "<q"}
_IMAGES = {
    Root.FLOAT: ("<i", 0x7FFFFFFF, 0x7F800000, 0x7FC00000),
    Root.DOUBLE: ("<q", (1 << 63) - 1, 0x7FF << 52, 0xFFF << 51),
}
_NANOS_IN_MILLI = 1_000_000


class _Null:
    """Below every value, equal to itself."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return other is not self

    def __le__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return False

    def __ge__(self, other: object) -> bool:
        return other is self

    def __reduce__(self) -> str:
        return "NULL"


NULL = _Null()


def ranked_row(row: bytes, types: Sequence[DataType]) -> tuple[Rank, ...]:
    """The fields of a row without arity header as values that compare in their order.

    Raises: CorruptError if the row is too short for its types.
    """
    arity = len(types)
    first = null_bytes(arity)
    if len(row) < fixed_bytes(arity):
        raise CorruptError("row is shorter than its fields", length=len(row), fields=arity)
    ranks: list[Rank] = []
    for index, kind in enumerate(types):
        bit = HEADER_BITS + index
        null = row[bit // 8] >> bit % 8 & 1
        ranks.append(NULL if null else _rank(row, first + 8 * index, kind))
    return tuple(ranks)


def _rank(row: bytes, slot: int, kind: DataType) -> Rank:
    shape, root = shape_of(kind), kind.root
    if shape is Shape.FIXED:
        if root in _IMAGES:
            return _float_rank(row, slot, root)
        number = struct.unpack_from(_NUMBERS[number_format(kind)], row, slot)[0]
        return int(number != 0) if root is Root.BOOLEAN else number
    low, offset = struct.unpack_from("<II", row, slot)
    if shape is Shape.TIMESTAMP:
        check_range(row, offset, 8)
        return struct.unpack_from("<q", row, offset)[0] * _NANOS_IN_MILLI + low
    if shape is not Shape.DECIMAL and row[slot + 7] & 0x80:
        return row[slot : slot + min(row[slot + 7] & 0x7F, 7)]
    check_range(row, offset, low)
    data = row[offset : offset + low]
    return int.from_bytes(data, "big", signed=True) if shape is Shape.DECIMAL else data


def _float_rank(row: bytes, slot: int, root: Root) -> int:
    form, magnitude, infinity, nan = _IMAGES[root]
    bits: int = struct.unpack_from(form, row, slot)[0]
    if bits & magnitude > infinity:
        return nan
    return bits if bits >= 0 else bits ^ magnitude
