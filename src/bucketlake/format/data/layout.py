"""The Arrow schema that goes into a file: canonical types with Paimon's field ids as metadata.

Ids of nested parts that have none of their own are computed from the column's, as Paimon does.

Spec: docs/spec/datafile.md#field-ids
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.types.arrow import list_offsets, pairs_of
from bucketlake.types.model import LISTS, DataField, DataType, Root, arrow_type

_BASE = 536_870_911  # a quarter of the largest int
_DEPTHS = 1024

PARQUET_ID = "PARQUET:field_id"
ORC_ID = "paimon.id"


def stored_schema(fields: Sequence[DataField], id_key: str, *, all_nullable: bool = False) -> pa.Schema:
    """The canonical schema of columns, each part carrying its field id under `id_key`."""
    return pa.schema([_member(item, id_key, all_nullable) for item in fields])


def _member(item: DataField, key: str, loose: bool) -> pa.Field:
    return _field(item.name, item.type, item.id, (item.id, 0), (key, loose))


def _field(name: str, t: DataType, number: int, origin: tuple[int, int], how: tuple[str, bool]) -> pa.Field:
    """`number` is the part's own id; `origin` the id and depth that ids below it are made of."""
    key, loose = how
    nullable = t.nullable or loose
    return pa.field(name, _stored(t, origin, how), nullable=nullable, metadata={key: str(number)})


def _stored(t: DataType, origin: tuple[int, int], how: tuple[str, bool]) -> pa.DataType:
    top, depth = origin[0], origin[1] + 1
    below = (top, depth)
    if t.root in LISTS:
        return pa.list_(_field("element", _part(t.element), _wrapped(_BASE + top * _DEPTHS + depth), below, how))
    if t.root is Root.MAP:
        key, value = _part(t.key).with_nullable(False), _part(t.element)
        return pa.map_(
            _field("key", key, _wrapped(_BASE - top * _DEPTHS - depth), below, (how[0], False)),
            _field("value", value, _wrapped(_BASE + top * _DEPTHS + depth), below, how),
        )
    if t.root is Root.ROW:
        return pa.struct([_member(item, *how) for item in t.fields])
    if t.root is Root.VARIANT:
        if how[0] != PARQUET_ID:
            raise UnsupportedError("VARIANT is not supported in orc files", remedy="use parquet")
        parts = enumerate(("value", "metadata"))
        return pa.struct([pa.field(name, pa.binary(), nullable=False, metadata={how[0]: str(i)}) for i, name in parts])
    return arrow_type(t)


def _wrapped(number: int) -> int:
    """Ids are 32-bit and overflow for key columns, whose ids are large."""
    return (number + 2**31) % 2**32 - 2**31


def _part(t: DataType | None) -> DataType:
    if t is None:
        raise InvalidError("constructed type without its part")
    return t


def map_leaves(array: pa.Array, t: DataType, change: Callable[[pa.Array, DataType], pa.Array]) -> pa.Array:
    """The array with every atomic part replaced; lists and maps may come in any layout, entries as structs too."""
    missing = array.is_null() if array.null_count else None
    if t.root is Root.ROW:
        known = {item.name: item.type for item in t.fields}
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        members = array.flatten()  # nulls of the row are nulls of its members
        parts = [map_leaves(members[i], known[name], change) for i, name in enumerate(names) if name in known]
        return pa.StructArray.from_arrays(parts, [name for name in names if name in known], mask=missing)
    if t.root in LISTS:
        values = map_leaves(array.flatten(), _part(t.element), change)
        return pa.ListArray.from_arrays(list_offsets(array), values, mask=missing)
    if t.root is Root.MAP:
        if pa.types.is_map(array.type):
            array = pairs_of(array)
        entries = array.flatten()
        keys, values = (map_leaves(entries.field(i), _part(part), change) for i, part in enumerate((t.key, t.element)))
        return pa.MapArray.from_arrays(list_offsets(array), keys, values, mask=missing)
    return change(array, t)
