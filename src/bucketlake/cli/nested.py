"""Types and values of files as a table's, which nests and writes them in another way: objects that are maps, texts that
are bytes or times of day, as `export` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from bucketlake.lazy import pc, pl
from bucketlake.types.arrow import list_offsets

__all__ = ["DAY", "as_read", "cast_members", "holds", "is_uuid", "of_text", "together", "with_leaves"]

DAY = r"\d{4}-\d{2}-\d{2}"  # a date as text

Cast = Callable[[pa.Array, pa.DataType], pa.Array]


def is_uuid(kind: pa.DataType) -> bool:
    """Whether it is Arrow's type of UUIDs."""
    return isinstance(kind, pa.UuidType)


def with_leaves(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type whose innermost types, those of members and elements, are what `leaf` makes of them."""
    if pa.types.is_struct(kind) and kind.num_fields:
        return pa.struct([item.with_type(with_leaves(item.type, leaf)) for item in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_leaves(kind.value_type, leaf)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(with_leaves(kind.value_type, leaf)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(with_leaves(kind.item_type, leaf)))
    return leaf(kind)


def holds(kind: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Whether the type, or one within it, is such a one."""
    return test(kind) or any(holds(kind.field(place).type, test) for place in range(kind.num_fields))


def as_read(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """The type to read values of JSON as that become `wanted`: what stands there as text, and looks like a time, is
    read as the text that it is where text is wanted."""
    if pa.types.is_string(wanted) and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return wanted
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        names = {item.name: item.type for item in wanted.fields}
        return pa.struct([f.with_type(as_read(f.type, names.get(f.name, f.type))) for f in kind.fields])
    if pa.types.is_list(kind) and pa.types.is_list(wanted):
        return pa.list_(kind.value_field.with_type(as_read(kind.value_type, wanted.value_type)))
    return kind


def together(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of several schemas, with types that hold the values of all; what is a time here and a text there is
    text, what is a date here and a time there a time. ArrowInvalid or ArrowTypeError for types that no type holds."""
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kinds: dict[str, list[pa.Field]] = {}
        for one in schemas:
            for item in one:
                kinds.setdefault(item.name, []).append(item)
        return pa.schema([_common(items) for items in kinds.values()])


def _common(items: Sequence[pa.Field]) -> pa.Field:
    told = [item for item in items if not pa.types.is_null(item.type)]
    types = [item.type for item in told]
    if types and all(map(pa.types.is_struct, types)):
        return told[0].with_type(pa.struct(list(together([pa.schema(kind.fields) for kind in types]))))
    if types and all(map(pa.types.is_list, types)):
        element = _common([kind.value_field for kind in types])
        return told[0].with_type(pa.list_(element))
    if any(map(pa.types.is_string, types)):
        times = [pa.types.is_timestamp(kind) or pa.types.is_date(kind) for kind in types]
        told = [item.with_type(pa.string()) if one else item for one, item in zip(times, told, strict=True)]
    moments = [kind for kind in types if pa.types.is_timestamp(kind)]
    if moments:
        told = [item.with_type(moments[0]) if pa.types.is_date(item.type) else item for item in told]
    return pa.unify_schemas([pa.schema([item]) for item in told or items], promote_options="permissive").field(0)


def cast_members(values: pa.Array, kind: pa.DataType, texts: Cast | None = None) -> pa.Array:
    """Values as a type: UUIDs as text; where it is a map, objects as maps of their members (what is null or not there
    is no entry) and lists of objects of a `key` and a `value`, as `export` writes maps. `texts`: how texts at any depth
    become values, by `of_text` if not given; in files that have a type for bytes they are no hexadecimal.

    Raises: an error of Arrow's for a value that the type cannot hold.
    """
    texts = texts or of_text
    given, missing = values.type, values.is_null() if values.null_count else None
    if given == kind:
        return values
    if values.null_count == len(values):  # of whatever type: nothing is known of it
        return pa.nulls(len(values), kind)
    if pa.types.is_string(given):
        return texts(values, kind)
    if is_uuid(given) and pa.types.is_string(kind):
        return _uuid_texts(values, missing)
    if pa.types.is_struct(given) and pa.types.is_map(kind):
        return _as_map(values, kind, missing, texts)
    if pa.types.is_list(given) and pa.types.is_map(kind):
        return _of_pairs(values, kind, missing, texts)
    if pa.types.is_struct(given) and pa.types.is_struct(kind):
        members = [_member(values, item, texts) for item in kind.fields]
        return pa.StructArray.from_arrays(members, fields=list(kind.fields), mask=missing)
    if pa.types.is_list(given) and pa.types.is_list(kind):
        elements = cast_members(values.flatten(), kind.value_type, texts)
        return pa.ListArray.from_arrays(list_offsets(values), elements, type=kind, mask=missing)
    return values.cast(kind)


def of_text(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as values of a type that is not nested: bytes are hexadecimal. ArrowInvalid for what is no such value."""
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        try:
            return pl.Series(pl.from_arrow(texts)).str.decode("hex").to_arrow().cast(kind)
        except pl.exceptions.ComputeError as error:
            raise pa.ArrowInvalid("a text that is not bytes in hexadecimal") from error
    if pa.types.is_time(kind):
        times = pc.binary_join_element_wise(pa.scalar("1970-01-01T"), texts, pa.scalar(""))
        return times.cast(pa.timestamp(kind.unit)).cast(kind)
    return texts.cast(kind)


def _member(values: pa.StructArray, item: pa.Field, texts: Cast) -> pa.Array:
    place = values.type.get_field_index(item.name)
    return pa.nulls(len(values), item.type) if place < 0 else cast_members(values.field(place), item.type, texts)


def _as_map(values: pa.StructArray, kind: pa.MapType, missing: pa.Array | None, texts: Cast) -> pa.MapArray:
    members = [cast_members(member, kind.item_type, texts) for member in values.flatten()]
    there = np.empty((len(values), len(members)), bool)
    for place, member in enumerate(members):
        there[:, place] = member.is_valid().to_numpy(zero_copy_only=False)
    rows, places = np.nonzero(there)
    items = pa.concat_arrays([pa.nulls(0, kind.item_type), *members]).take(pa.array(places * len(values) + rows))
    keys = pa.array([item.name for item in values.type.fields], pa.string()).cast(kind.key_type).take(pa.array(places))
    ends = np.cumsum(there.sum(axis=1, dtype=np.int32), dtype=np.int32)
    offsets = pa.array(np.concatenate([np.zeros(1, np.int32), ends]))
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=missing)


def _of_pairs(values: pa.ListArray, kind: pa.MapType, missing: pa.Array | None, texts: Cast) -> pa.Array:
    pairs = values.flatten()
    if pairs.null_count == len(pairs):
        pairs = pa.nulls(len(pairs), pa.struct([kind.key_field.with_name("key"), kind.item_field.with_name("value")]))
    if not pa.types.is_struct(pairs.type) or [item.name for item in pairs.type.fields] != ["key", "value"]:
        return values.cast(kind)
    keys, items = pairs.flatten()
    keys, items = cast_members(keys, kind.key_type, texts), cast_members(items, kind.item_type, texts)
    return pa.MapArray.from_arrays(list_offsets(values), keys, items, type=kind, mask=missing)


def _uuid_texts(values: pa.Array, missing: pa.Array | None) -> pa.Array:
    """`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, in lower case."""
    stored = values.storage.fill_null(bytes(16)) if missing is not None else values.storage
    data = np.frombuffer(stored.buffers()[1], np.uint8)[stored.offset * 16 :][: len(stored) * 16].reshape(-1, 16)
    digits = np.stack([data >> 4, data & 15], axis=-1).reshape(-1, 32)
    texts = np.full((len(stored), 36), ord("-"), np.uint8)
    texts[:, [*range(8), *range(9, 13), *range(14, 18), *range(19, 23), *range(24, 36)]] = np.frombuffer(
        b"0123456789abcdef", np.uint8
    )[digits]
    made = pa.Array.from_buffers(pa.binary(36), len(stored), [None, pa.py_buffer(texts)]).cast(pa.binary())
    return pc.if_else(missing, None, made).cast(pa.string()) if missing is not None else made.cast(pa.string())
