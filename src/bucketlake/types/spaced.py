"""Text as Spark stores it in CHAR(n) and VARCHAR(n): padded, and without spaces beyond the length.

Source: `org.apache.spark.sql.catalyst.util.CharVarcharCodegenUtils`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bucketlake.lazy import pa, pc
from bucketlake.types.arrow import canonical_array, list_offsets, pairs_of
from bucketlake.types.model import MAX_LENGTH, DataField, DataType, Root, arrow_type


def has_length(kind: DataType) -> bool:
    """Whether it is text that Spark pads or cuts."""
    return kind.root in (Root.CHAR, Root.VARCHAR) and kind.length not in (None, MAX_LENGTH)


def has_lengths(kind: DataType) -> bool:
    """Whether it is such text, or a part at any depth is."""
    return has_length(kind) or any(map(has_lengths, kind.parts))


def spaced_batch(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """Rows with such text in these of their columns as it is stored; too long text stays as it is. Errors: as
    `canonical_array`."""
    for item in fields:
        place = batch.schema.get_field_index(item.name)
        if place >= 0 and has_lengths(item.type):
            target = pa.field(item.name, arrow_type(item.type))
            array = _spaced(canonical_array(batch.column(place), target, item.name), item.type)
            batch = batch.set_column(place, target, array)
    return batch


def padded(value: Any, kind: DataType) -> Any:
    """A value for a CHAR(n) column as it is stored; any other as it is."""
    if kind.root is not Root.CHAR or not isinstance(value, str):
        return value
    return value.rstrip(" ").ljust(kind.length or 0)


def _spaced(array: pa.Array, kind: DataType) -> pa.Array:
    if not has_lengths(kind):
        return array
    nulls = array.is_null() if array.null_count else None
    if kind.root is Root.ROW:
        parts = [_spaced(array.field(place), item.type) for place, item in enumerate(kind.fields)]
        return pa.StructArray.from_arrays(parts, fields=list(array.type.fields), mask=nulls)
    if kind.root is Root.MAP:
        entries = pairs_of(array)
        keys, values = (_spaced(part, k) for part, k in zip(entries.flatten().flatten(), kind.parts, strict=True))
        return pa.MapArray.from_arrays(list_offsets(entries), keys, values, type=array.type, mask=nulls)
    if kind.parts:
        values = _spaced(array.flatten(), kind.parts[0])
        return pa.ListArray.from_arrays(list_offsets(array), values, type=array.type, mask=nulls)
    size, lengths = kind.length or 0, pc.min_max(pc.utf8_length(array)).as_py()
    if (lengths["max"] or 0) <= size and (kind.root is Root.VARCHAR or lengths["min"] in (None, size)):
        return array
    beyond = pc.utf8_rtrim(pc.utf8_slice_codeunits(array, size), " ")
    fits = pc.if_else(pc.equal(pc.utf8_length(beyond), 0), pc.utf8_slice_codeunits(array, 0, size), array)
    return pc.utf8_rpad(fits, size, " ") if kind.root is Root.CHAR else fits
