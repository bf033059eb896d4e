"""Statistics rows of many files as Arrow columns, without decoding whole rows."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.format.binary_row import decode_row, without_arity_header
from bucketlake.types import DataType, Root, arrow_type

HEADER = 4  # big-endian arity before the row, as manifests store it
_FIXED = {
    Root.TINYINT: "<i1",
    Root.SMALLINT: "<i2",
    Root.INT: "<i4",
    Root.BIGINT: "<i8",
    Root.FLOAT: "<f4",
    Root.DOUBLE: "<f8",
    Root.DATE: "<i4",
    Root.TIME: "<i4",
    Root.TIMESTAMP: "<i8",
    Root.TIMESTAMP_LTZ: "<i8",
    Root.BOOLEAN: "<u1",
    Root.DECIMAL: "<i8",
}
_BYTES = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)
_POINTER = struct.Struct("<ii")
COMPACT_DECIMAL = 18
COMPACT_TIMESTAMP = 3


def column(rows: Sequence[bytes], types: Sequence[DataType], index: int) -> pa.Array:
    """Field `index` of serialized BinaryRows (with arity header, all of these types), in canonical layout."""
    kind = types[index]
    if _slot_holds(kind):
        return _slots(rows, len(types), index, kind)
    if kind.root in _BYTES:
        plain = pa.array(_byte_values(rows, len(types), index), pa.binary())
        return plain if kind.root in (Root.BINARY, Root.VARBINARY) else plain.cast(pa.string())
    values = [decode_row(without_arity_header(row), types)[index] for row in rows]
    return pa.array(values, arrow_type(kind))


def _byte_values(rows: Sequence[bytes], arity: int, index: int) -> list[bytes | None]:
    """Up to 7 bytes lie in the slot, whose last byte says how many; longer values where the slot points to."""
    null_at, null_bit = HEADER + (index + 8) // 8, 1 << (index + 8) % 8
    slot = HEADER + (arity + 8 + 63) // 64 * 8 + 8 * index
    found: list[bytes | None] = []
    for row in rows:
        short = row[slot + 7]
        if row[null_at] & null_bit:
            found.append(None)
        elif short & 0x80:
            found.append(row[slot : slot + (short & 0x7F)])
        else:
            size, offset = _POINTER.unpack_from(row, slot)
            found.append(row[HEADER + offset : HEADER + offset + size])
    return found


def _slot_holds(kind: DataType) -> bool:
    """Whether the 8-byte slot of a field holds the value itself."""
    if kind.root is Root.DECIMAL:
        return (kind.precision or 10) <= COMPACT_DECIMAL
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return (6 if kind.precision is None else kind.precision) <= COMPACT_TIMESTAMP
    return kind.root in _FIXED


def _slots(rows: Sequence[bytes], arity: int, index: int, kind: DataType) -> pa.Array:
    starts = np.cumsum([HEADER] + [len(row) for row in rows[:-1]], dtype=np.int64)
    data = np.frombuffer(b"".join(rows), np.uint8)
    nulls = (data[starts + (index + 8) // 8] >> ((index + 8) % 8)) & 1
    slot = (arity + 8 + 63) // 64 * 8 + 8 * index
    words = data[(starts + slot)[:, None] + np.arange(8)].view("<i8").reshape(-1)
    return _typed(words, nulls.astype(bool), kind)


def _typed(words: npt.NDArray[np.int64], nulls: npt.NDArray[np.bool_], kind: DataType) -> pa.Array:
    target = arrow_type(kind)
    if kind.root is Root.DECIMAL:
        wide = np.stack([words, words >> 63], axis=1).tobytes()
        valid = pa.array(~nulls).buffers()[1]
        return pa.Array.from_buffers(target, len(words), [valid, pa.py_buffer(wide)])
    size = np.dtype(_FIXED[kind.root]).itemsize
    values = np.ascontiguousarray(words.view(np.uint8).reshape(-1, 8)[:, :size]).view(_FIXED[kind.root]).reshape(-1)
    if kind.root is Root.BOOLEAN:
        return pa.array(values != 0, mask=nulls)
    plain = pa.array(values, mask=nulls)
    return plain if plain.type == target else plain.view(target)
