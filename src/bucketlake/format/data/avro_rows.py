"""Rows in Avro's binary encoding, column by column: each becomes one array of byte strings or several that stand side
by side, and Arrow joins those of a row.

    value    := of a NOT NULL type as below; else 0x00 for null, 0x02 and the value for all others
    int      := zigzag, seven bits a byte, the lowest first; a set top bit says that more follow
    text     := int (bytes) byte…        float, double := little-endian        boolean := 0x00 | 0x01
    record   := value…                   in the order of its fields
    list     := [int (count) value…] 0x00
    map      := [int (count) {text | value, value}…] 0x00

Spec: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.varints import encoded, zigzag
from bucketlake.lazy import pc
from bucketlake.types.arrow import binary_bounds, binary_content, list_offsets, pairs_of
from bucketlake.types.model import LISTS, DataField, DataType, Root, type_text

_NULL, _SOME, _END = b"\x00", b"\x02", b"\x00"
_TEXTS = (Root.CHAR, Root.VARCHAR)
_BYTES = (*_TEXTS, Root.BINARY, Root.VARBINARY, Root.BLOB, Root.DECIMAL)
_WHOLE = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)

_Part: TypeAlias = pa.Array | pa.Scalar


def encoded_rows(batch: pa.RecordBatch, fields: Sequence[DataField]) -> bytes:
    """The rows, one behind the other. `batch`: whole numbers as ints, decimals as their bytes.

    Raises: InvalidError for null where a type is NOT NULL, UnsupportedError for types that have no encoding here.
    """
    parts = [part for i, item in enumerate(fields) for part in _value(batch.column(i), item.type)]
    return bytes(binary_content(_joined(parts, batch.num_rows)))


def _value(array: pa.Array, t: DataType, inside: pa.Array | None = None) -> list[_Part]:
    """What stands side by side for a value; null where nothing does. `inside`: which of the rows that it is a member
    of are there, None: all."""
    if not t.nullable:
        there = array if inside is None or not array.null_count else array.filter(inside)
        if there.null_count:
            raise InvalidError(
                "null value appeared in non-nullable field", type=type_text(t), remedy="fill or filter the nulls"
            )
        return _known(array, t)
    if not array.null_count:
        return [_mark(_SOME), *_known(array, t)]
    return [pc.if_else(array.is_valid(), _mark(_SOME), _mark(_NULL)), *_known(array, t)]


def _known(array: pa.Array, t: DataType) -> list[_Part]:
    """The parts of the values that are not null."""
    if t.root in _BYTES:
        return _text(array)
    if t.root in _WHOLE:
        return [_ints(array.cast(pa.int64()))]
    if t.root is Root.BOOLEAN:
        return [_fixed(array.cast(pa.uint8()), np.dtype(np.uint8))]
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return [_fixed(array, np.dtype("<f4" if t.root is Root.FLOAT else "<f8"))]
    if t.root is Root.ROW:
        return _record(array, t)
    if t.root in LISTS and t.element is not None:
        items = array.flatten()
        return _list(array, _joined(_value(items, t.element), len(items)))
    if t.root is Root.MAP and t.key is not None and t.element is not None:
        listed = pairs_of(array)
        entries = listed.flatten()
        keys = entries.field(0)
        key = _text(keys) if t.key.root in _TEXTS else _value(keys, t.key)
        return _list(listed, _joined([*key, *_value(entries.field(1), t.element)], len(entries)))
    raise UnsupportedError("type is not supported in avro files", type=type_text(t), remedy="use parquet")


def _record(rows: pa.Array, t: DataType) -> list[_Part]:
    inside = rows.is_valid() if rows.null_count else None
    members = zip(rows.flatten(), t.fields, strict=True)  # null where their row is
    parts = [part for member, item in members for part in _value(member, item.type, inside)]
    return parts if inside is None else [_where(inside, _joined(parts, len(rows)))]


def _list(lists: pa.Array, items: pa.Array) -> list[_Part]:
    """Lists, whose `items` are encoded: a block if there are any, and the end."""
    offsets = list_offsets(lists)
    counts = np.diff(offsets.to_numpy())
    ends = binary_bounds(items)[offsets.to_numpy()]
    content = pa.Array.from_buffers(pa.large_binary(), len(lists), [None, pa.py_buffer(ends), items.buffers()[2]])
    some = pa.array(counts > 0)
    return [
        _where(some, _ints(pa.array(counts.astype(np.int64)))),
        content,
        _mark(_END) if not lists.null_count else _where(lists.is_valid(), _mark(_END)),
    ]


def _text(array: pa.Array) -> list[_Part]:
    return [_ints(pc.binary_length(array).cast(pa.int64())), array.cast(pa.large_binary())]


def _where(mask: pa.BooleanArray, part: _Part) -> pa.Array:
    return pc.if_else(mask, part, pa.scalar(None, pa.large_binary()))


@cache  # made when it is used: the first value that pyarrow converts loads pandas
def _mark(data: bytes) -> pa.Scalar:
    return pa.scalar(data, pa.large_binary())


def _joined(parts: Sequence[_Part], rows: int) -> pa.Array:
    if all(isinstance(part, pa.Scalar) for part in parts):
        return pa.repeat(_mark(b"".join(part.as_py() for part in parts)), rows)
    return pc.binary_join_element_wise(*parts, _mark(b""), null_handling="replace", null_replacement=b"")


def _fixed(array: pa.Array, kind: np.dtype[np.generic]) -> pa.Array:
    """Values of one width."""
    values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(kind, copy=False)
    return _strings(np.arange(len(array) + 1, dtype=np.int64) * kind.itemsize, np.ascontiguousarray(values), array)


def _ints(array: pa.Array) -> pa.Array:
    data, offsets = encoded(zigzag(array.fill_null(0).to_numpy(zero_copy_only=False)))
    return _strings(offsets, data, array)


def _strings(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.generic], like: pa.Array) -> pa.Array:
    """Byte strings, null where `like` is."""
    valid = like.is_valid().buffers()[1] if like.null_count else None
    return pa.Array.from_buffers(pa.large_binary(), len(like), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])
