"""Arrow arrays of any layout -> the one layout that the engine works on.

A target is the Arrow type that `types.arrow_type` names. Layout (views, large offsets, dictionaries, run ends,
extension types) never matters; values must fit. Fractions of a time unit finer than the column's precision are cut
off, as Paimon's writers do.

Spec: docs/spec/types.md#arrow
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.lazy import np, npt, pa, pc

_MILLIS_OF_DAY = 86_400_000
_OF_VARIANT = {b"variant": b"true"}  # as Spark marks them, so that they are VARIANT there too


@cache
def variant_type() -> pa.StructType:
    """That of VARIANT: its two binary parts, the second with the mark that tells it from a ROW of two columns."""
    return pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata=_OF_VARIANT),
        ]
    )


def is_variant(kind: pa.DataType) -> bool:
    """Whether the type is that of VARIANT: two binary members, marked."""
    if not pa.types.is_struct(kind) or sorted(f.name for f in kind.fields) != ["metadata", "value"]:
        return False
    return (kind.field("metadata").metadata or {}).get(b"variant") == b"true"


def canonical_array(array: pa.Array, target: pa.Field, column: str, *, trusted: bool = False) -> pa.Array:
    """The same values in the target's type, checked against its nullability.

    `column` is the dotted name for errors. `trusted` is for data of our own or Paimon's files: timestamps without a
    zone are taken as UTC where the target is local-zoned, and the other way round.
    Raises: InvalidError naming the column: nulls in NOT NULL, overflow, a type that does not convert.
    """
    converted = _convert(_plain(array), target.type, column, trusted)
    if not target.nullable and converted.null_count:
        raise InvalidError(
            null_in(column),
            column=column,
            nulls=converted.null_count,
            remedy="fill or filter the nulls",
        )
    return converted


def null_in(column: str) -> str:
    """What is said of nulls in a column that is NOT NULL."""
    told = f"Cannot write null to non-null column({column}): null value appeared in non-nullable field"
    return f"[NOT_NULL_ASSERT_VIOLATION] {told}"


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array; one of a single chunk is not copied."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _plain(array: pa.Array) -> pa.Array:
    """Without extension, dictionary, run-end, view or large-offset layout at the top level."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    kind = array.type
    kinds = pa.types
    if kinds.is_run_end_encoded(kind):
        own = array.values
        values = _plain(own)
        return pc.run_end_decode(array) if values is own else values.take(_runs(array))
    if kinds.is_dictionary(kind):
        return _plain(array.dictionary).take(array.indices)  # dictionaries of views do not decode
    if kinds.is_string_view(kind) or kinds.is_large_string(kind):
        return array.cast(pa.string())
    if kinds.is_binary_view(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    return array


def _runs(array: pa.Array) -> pa.Array:
    """The run of each entry of a run-end encoded array, whose values may be of a layout that does not decode."""
    places = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int32()), len(array.run_ends)), start=-1)
    runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, places)
    return pc.run_end_decode(runs.slice(array.offset, len(array)))


def _convert(array: pa.Array, target: pa.DataType, column: str, trusted: bool) -> pa.Array:
    kinds = pa.types
    if kinds.is_null(array.type):
        return pa.nulls(len(array), target)
    if kinds.is_struct(target):
        return _struct(array, target, column, trusted)
    if kinds.is_map(target):
        return _map(array, target, column, trusted)
    if kinds.is_list(target):
        return _list(array, target, column, trusted)
    if array.type.equals(target):
        return array
    try:
        converted = _scalar(array, target, trusted)
    except pa.ArrowException as error:
        raise _misfit(array, target, column, str(error)) from error
    if converted is None:
        raise _misfit(array, target, column, None)
    return converted


def _misfit(array: pa.Array, target: pa.DataType, column: str, reason: str | None) -> InvalidError:
    details = {"column": column, "expected": str(target), "found": str(array.type)}
    if reason is not None:
        return InvalidError("value does not fit the column", **details, reason=reason.splitlines()[0])
    remedy = "cast the column before writing"
    if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(target):
        remedy = "attach a time zone to the values, or take it away, to say which instant is meant"
    return InvalidError("column has the wrong type", **details, remedy=remedy)


def _scalar(array: pa.Array, target: pa.DataType, trusted: bool) -> pa.Array | None:
    """The cast of a flat array, None where the types have nothing in common."""
    kinds, source = pa.types, array.type
    number = kinds.is_integer(source) or kinds.is_decimal(source)
    if kinds.is_timestamp(target):
        return _timestamp(array, target, trusted) if kinds.is_timestamp(source) else None
    if kinds.is_time32(target):
        return _time(array)
    if kinds.is_integer(target):
        return array.cast(target) if kinds.is_integer(source) else None
    if kinds.is_floating(target):
        return _floating(array, target) if number or kinds.is_floating(source) else None
    if kinds.is_decimal(target):
        return _decimal(array, target) if number else None
    if kinds.is_date32(target):
        return array.cast(target) if kinds.is_date64(source) else None
    if kinds.is_binary(target):
        return array.cast(target) if kinds.is_string(source) and trusted else None
    if kinds.is_string(target):
        return array.cast(target) if kinds.is_binary(source) and trusted else None
    return None


def _decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(array.type):
        return array.cast(target)
    wide = pa.decimal128(38, target.scale) if target.scale <= 18 else pa.decimal256(76, target.scale)
    return array.cast(wide).cast(target)


def _floating(array: pa.Array, target: pa.DataType) -> pa.Array:
    if not pa.types.is_floating(array.type):
        return array.cast(pa.float64(), safe=False).cast(target, safe=False)
    converted = array.cast(target, safe=False)
    lost = pc.and_(pc.is_finite(array), pc.invert(pc.is_finite(converted)))
    if pc.any(lost).as_py():
        raise pa.ArrowInvalid("floating-point value out of range")
    return converted


_UNITS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
_FINENESS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


def _timestamp(array: pa.Array, target: pa.DataType, trusted: bool) -> pa.Array | None:
    if (array.type.tz is None) != (target.tz is None) and not trusted:
        return None
    instants = array.cast(pa.timestamp(array.type.unit, tz="UTC")).cast(pa.timestamp(array.type.unit))
    if _FINENESS[array.type.unit] > _FINENESS[target.unit]:
        instants = pc.floor_temporal(instants, unit=_UNITS[target.unit])
    return instants.cast(pa.timestamp(target.unit)).cast(target)


def _time(array: pa.Array) -> pa.Array | None:
    kinds, source = pa.types, array.type
    target = pa.time32("ms")
    if kinds.is_time32(source):
        return array.cast(target)
    if kinds.is_time64(source):
        return array.cast(target, safe=False)
    if not kinds.is_int32(source):
        return None
    outside = pc.or_(pc.less(array, 0), pc.greater_equal(array, _MILLIS_OF_DAY))
    if pc.any(outside).as_py():
        raise pa.ArrowInvalid("milliseconds of the day must be within [0, 86400000)")
    return array.view(target)


def list_offsets(array: pa.Array) -> pa.Array:
    """Offsets that start at 0 and give null entries no length, matching `flatten`."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    ends = pc.cumulative_sum_checked(
        lengths
    )  # has no validity buffer, which a cast of it may have: older Arrow refuses
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def binary_bounds(array: pa.Array) -> npt.NDArray[np.int64]:
    """Where each of some large binaries begins in their buffer, and where the last one ends: one entry more than there
    are values."""
    return np.frombuffer(array.buffers()[1] or bytes(8), np.int64)[array.offset : array.offset + len(array) + 1]


def binary_content(array: pa.Array) -> memoryview:
    """The bytes of some large binaries, from the first to the last, over the same memory."""
    bounds = binary_bounds(array)
    return memoryview(array.buffers()[2] or b"")[int(bounds[0]) : int(bounds[-1])]


def binaries(data: npt.NDArray[Any] | memoryview, bounds: npt.NDArray[np.int64]) -> pa.Array:
    """Large binaries over bytes that lie one after the other: number `i` begins at `bounds[i]`, one more entry says
    where the last one ends. The bytes are not copied."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds, np.int64)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def pairs_of(array: pa.MapArray) -> pa.ListArray:
    """The maps as lists of pairs (key, value), over the same memory. A cast would refuse values that are null rows with
    NOT NULL members, whose members hold nulls that nobody sees."""
    kind = array.type
    pairs = pa.StructArray.from_arrays([array.keys, array.items], fields=[kind.key_field, kind.item_field])
    return pa.ListArray.from_buffers(
        pa.list_(pairs.type), len(array), array.buffers()[:2], -1, array.offset, children=[pairs]
    )


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


_LISTS = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")


def _list(array: pa.Array, target: pa.DataType, column: str, trusted: bool) -> pa.Array:
    if not any(getattr(pa.types, test)(array.type) for test in _LISTS):
        raise _misfit(array, target, column, None)
    values = canonical_array(array.flatten(), target.value_field, f"{column}.element", trusted=trusted)
    return pa.ListArray.from_arrays(list_offsets(array), values, type=target, mask=_nulls(array))


def _map(array: pa.Array, target: pa.DataType, column: str, trusted: bool) -> pa.Array:
    if not pa.types.is_map(array.type) and not _is_entries(array.type):
        raise _misfit(array, target, column, None)
    if pa.types.is_map(array.type):
        array = pairs_of(array)
    entries = array.flatten()
    keys = canonical_array(entries.field(0), target.key_field, f"{column}.key", trusted=trusted)
    items = canonical_array(entries.field(1), target.item_field, f"{column}.value", trusted=trusted)
    return pa.MapArray.from_arrays(list_offsets(array), keys, items, type=target, mask=_nulls(array))


def _is_entries(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2)


def has_required(kind: pa.DataType) -> bool:
    """Whether structs inside the type have members that are NOT NULL."""
    if pa.types.is_struct(kind):
        return any(not f.nullable or has_required(f.type) for f in kind.fields)
    return any(has_required(kind.field(i).type) for i in range(kind.num_fields))


def filled(array: pa.Array) -> pa.Array:
    """The values, with something in place of NOT NULL members of structs that are null: files and Spark take no nulls
    there, although nobody sees them."""
    kind = array.type
    missing = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind) and has_required(kind):
        parts = [_some(filled(array.field(i)), kind.field(i)) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind.fields), mask=missing)
    if pa.types.is_list(kind) and has_required(kind):
        return pa.ListArray.from_arrays(list_offsets(array), filled(array.flatten()), type=kind, mask=missing)
    if pa.types.is_map(kind) and has_required(kind.item_type):
        entries = pairs_of(array)
        flat = entries.flatten()
        offsets = list_offsets(entries)
        return pa.MapArray.from_arrays(offsets, flat.field(0), filled(flat.field(1)), type=kind, mask=missing)
    return array


def filled_table(table: pa.Table) -> pa.Table:
    """The table with `filled` columns."""
    for place, item in enumerate(table.schema):
        if has_required(item.type):
            chunks = [filled(chunk) for chunk in table.column(place).chunks]
            table = table.set_column(place, item, pa.chunked_array(chunks, item.type))
    return table


def _some(member: pa.Array, item: pa.Field) -> pa.Array:
    kind = member.type
    if item.nullable or not member.null_count or pa.types.is_nested(kind):
        return member
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pc.fill_null(member, pa.scalar("" if pa.types.is_string(kind) else b"", kind))
    if pa.types.is_decimal(kind):
        return pc.fill_null(member, pa.scalar(Decimal(0), kind))
    zero = pa.scalar(0, pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    return pc.fill_null(member, zero.cast(kind))


def _no_member(given: pa.StructType, target: pa.StructType, column: str, name: str) -> InvalidError:
    """Why a row has no one member of this name."""
    names = [member.name for member in given]
    if name in names:
        remedy = "give every member its own name"
        return InvalidError("members that occur more than once", members=[f"{column}.{name}"], remedy=remedy)
    others = [other for other in names if target.get_field_index(other) < 0]
    remedy = f"members of the rows: {', '.join(names)}" if others else "give every member, null where there is none"
    return InvalidError("member of a ROW column is missing", column=f"{column}.{name}", remedy=remedy)


def _struct(array: pa.Array, target: pa.DataType, column: str, trusted: bool) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise _misfit(array, target, column, None)
    if is_variant(target) and array.type.get_field_index("typed_value") >= 0:
        raise UnsupportedError(
            "a shredded VARIANT is read by Spark alone",
            column=column,
            remedy="leave the column out, or read the table with Spark",
        )
    children = []
    for i in range(target.num_fields):
        member = target.field(i)
        index = array.type.get_field_index(member.name)
        if index < 0:
            raise _no_member(array.type, target, column, member.name)
        name = f"{column}.{member.name}"
        child = canonical_array(array.field(index), member.with_nullable(True), name, trusted=trusted)
        if not member.nullable and child.null_count:
            under = pc.and_(child.is_null(), array.is_valid())
            if pc.any(under).as_py():
                raise InvalidError(
                    null_in(name),
                    column=name,
                    remedy="fill or filter the nulls",
                )
        children.append(child)
    fields = [target.field(i) for i in range(target.num_fields)]
    known = {member.name for member in fields}
    unknown = [f"{column}.{member.name}" for member in array.type if member.name not in known]
    if unknown and not trusted:
        raise InvalidError("members that the ROW column does not have", members=unknown)
    if not fields:
        return array.cast(target)
    return pa.StructArray.from_arrays(children, fields=fields, mask=_nulls(array))
