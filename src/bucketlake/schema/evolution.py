"""Reading a file written under one schema as the rows of another: columns are matched by id, and cast.

A cast is allowed where Paimon allows it and its result depends on the value alone (not on Java's text of floating-point
numbers), but for local-zoned times as text, which are in the time zone of the process that reads, as in Paimon.

Spec: docs/spec/schema.md#reading-older-files
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from bucketlake.errors import ConflictError, InvalidError, UnsupportedError
from bucketlake.lazy import pa, pc
from bucketlake.schema.decimals import decimal_of, double_of, long_of, text_of
from bucketlake.schema.moments import cut_to_digits, dates_of, dates_of_stamps, timestamps_of
from bucketlake.types.arrow import canonical_array, list_offsets, pairs_of
from bucketlake.types.model import (
    LISTS,
    MAX_LENGTH,
    STRING,
    DataField,
    DataType,
    Root,
    all_nullable,
    arrow_field,
    arrow_type,
    type_text,
)
from bucketlake.types.wall_clock import wall_clock
from bucketlake.values import dataclass

_TEXT = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
_TIMES = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_WHOLE = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_FLOAT = (Root.FLOAT, Root.DOUBLE)
_NUMBER = (*_WHOLE, *_FLOAT, Root.DECIMAL)


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """One column to read: `field` as the reader wants it, `source` as the file has it (None: absent, all null).

    `cast`: the stored type differs (nullability aside), so values pass `cast_array`.
    """

    field: DataField
    source: DataField | None
    cast: bool


def read_mapping(
    file_fields: Sequence[DataField], read_fields: Sequence[DataField], *, newer: bool = False
) -> tuple[ReadColumn, ...]:
    """Per column to read, where it is in a file with these columns: matched by id, so renames and moves do not matter.
    `newer`: the file was written after the columns to read were asked for, under a schema that came since.

    Raises: UnsupportedError naming the column if the types have no cast; ConflictError naming a column of a newer file
    whose values may be none of the type to read.
    Spec: docs/spec/schema.md#reading-older-files
    """
    stored = {item.id: item for item in file_fields}
    columns = []
    for wanted in read_fields:
        source = stored.get(wanted.id)
        cast = source is not None and not _same(source.type, wanted.type)
        if source is not None and cast and not _castable(source.type, wanted.type):
            raise _no_cast(wanted.name, source.type, wanted.type)
        if source is not None and cast and newer and not _keeps(source.type, wanted.type):
            raise ConflictError(
                "a column has another type since the table was opened",
                column=wanted.name,
                stored=type_text(source.type),
                known=type_text(wanted.type),
                remedy="open the table again; a stream's query, start it again from a new read_stream",
            )
        columns.append(ReadColumn(wanted, source, cast))
    return tuple(columns)


def evolve_batch(batch: pa.RecordBatch, columns: Sequence[ReadColumn]) -> pa.RecordBatch:
    """The batch of a file (columns by the file's names, canonical layout) as the columns to read."""
    arrays, fields = [], []
    for column in columns:
        target = arrow_field(column.field.name, column.field.type)
        if column.source is None:
            array = pa.nulls(batch.num_rows, target.type)
        else:
            array = batch.column(column.source.name)
            if isinstance(array, pa.DictionaryArray):
                target = target.with_type(array.type)
            array = _cast_column(array, column) if column.cast else array
        nullable = target.nullable or array.null_count > 0
        arrays.append(array)
        fields.append(target.with_nullable(nullable))
    if not arrays:
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _cast_column(array: pa.Array, column: ReadColumn) -> pa.Array:
    assert column.source is not None
    try:
        return cast_array(array, column.source.type, column.field.type)
    except InvalidError as error:
        raise InvalidError(
            error.what,
            column=column.field.name,
            **error.details,
            remedy=f"ALTER the column back to {type_text(column.source.type)}, and give texts a column of their own",
        ) from error


def _no_cast(column: str, source: DataType, target: DataType) -> UnsupportedError:
    return UnsupportedError(
        "no cast between the stored and the present type of a column",
        column=column,
        stored=type_text(source),
        present=type_text(target),
    )


def _same(a: DataType, b: DataType) -> bool:
    """Equal but for nullability at any depth, comments and defaults; ROW members by id, name and order."""
    if (a.root, a.length, a.precision, a.scale, len(a.fields)) != (
        b.root,
        b.length,
        b.precision,
        b.scale,
        len(b.fields),
    ):
        return False
    if (a.element and b.element and not _same(a.element, b.element)) or (a.key and b.key and not _same(a.key, b.key)):
        return False
    pairs = zip(a.fields, b.fields, strict=True)
    return all(x.id == y.id and x.name == y.name and _same(x.type, y.type) for x, y in pairs)


# ---------------------------------------------------------------------------------------------- which casts there are


def cast_allowed(source: DataType, target: DataType, explicit: bool = True) -> bool:
    """Whether a column of one type may be altered to another, so that Paimon reads it, too.

    `explicit` False leaves only the casts that cannot lose anything (option 'disable-explicit-type-casting').
    """
    if _same(source, target):
        return True
    nested = (Root.ROW, *LISTS, Root.MAP)
    if source.root in nested or target.root in nested:
        return False
    # Paimon casts days and timestamps to nullable STRING alone, and no TIME to another.
    if source.root in (Root.DATE, *_TIMES) and target.root in _TEXT and target != STRING:
        return False
    if source.root is target.root is Root.TIME:
        return False
    return (explicit or _implicit(source.root, target.root)) and _castable(source, target)


def _implicit(source: Root, target: Root) -> bool:
    order = _WHOLE
    if (
        source is target
        or (target is Root.VARCHAR and source in _TEXT)
        or (target is Root.VARBINARY and source in _BYTES)
    ):
        return True
    if target in order:
        return source in order and order.index(source) <= order.index(target)
    if target in (Root.DECIMAL, Root.DOUBLE):
        return source in _NUMBER
    if target is Root.FLOAT:
        return source in _NUMBER and source is not Root.DOUBLE
    return target in (Root.DATE, Root.TIME) and source is Root.TIMESTAMP


def _keeps(source: DataType, target: DataType) -> bool:
    """Whether every value of a type is one of the other, and stays what it is."""
    a, b = source.root, target.root
    if _same(source, target):
        return True
    if a is b is Root.ROW:
        stored = {item.id: item.type for item in source.fields}
        return all(item.id not in stored or _keeps(stored[item.id], item.type) for item in target.fields)
    if a is b and a in (Root.ARRAY, Root.MAP) and source.element is not None and target.element is not None:
        keys = source.key is None or target.key is None or _same(source.key, target.key)
        return keys and _keeps(source.element, target.element)
    if a is b is Root.DECIMAL:
        scales, precisions = (source.scale or 0, target.scale or 0), (source.precision or 0, target.precision or 0)
        return scales[0] <= scales[1] and precisions[0] - scales[0] <= precisions[1] - scales[1]
    if a is b and a in (Root.VARCHAR, Root.VARBINARY):
        return (source.length or 0) <= (target.length or 0)
    return any(a in order and b in order and order.index(a) <= order.index(b) for order in (_WHOLE, _FLOAT))


def _castable(source: DataType, target: DataType) -> bool:
    a, b = source.root, target.root
    if _same(source, target):
        return True
    if a is Root.ROW and b is Root.ROW:
        stored = {item.id: item for item in source.fields}
        return all(item.id not in stored or _castable(stored[item.id].type, item.type) for item in target.fields)
    if a is b and a in (Root.ARRAY, Root.MAP) and source.element is not None and target.element is not None:
        keys = source.key is None or target.key is None or _same(source.key, target.key)
        return keys and _castable(source.element, target.element)
    if b in _TEXT:
        return a in (*_TEXT, *_BYTES, *_WHOLE, Root.DECIMAL, Root.BOOLEAN, Root.DATE, *_TIMES)
    if b in _BYTES:
        return a in (*_TEXT, *_BYTES, Root.BLOB)  # descriptors of blobs, as they are stored
    if b is Root.BOOLEAN:
        return a in (*_TEXT, *_WHOLE)
    if b in _NUMBER:
        return a in (*_NUMBER, *_TEXT, Root.BOOLEAN)
    if b in (Root.DATE, Root.TIMESTAMP):
        return a in (*_TEXT, Root.DATE, Root.TIMESTAMP)
    if b is Root.TIME:
        return a in (Root.TIME, Root.TIMESTAMP)
    return a is b is Root.TIMESTAMP_LTZ


# ---------------------------------------------------------------------------------------------- the casts


def cast_array(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Values of one type as values of another, in canonical layout; what a decimal cannot hold becomes null.

    Raises: UnsupportedError where `read_mapping` would; InvalidError for text that is no such value.
    """
    if _same(source, target):
        return array
    if source.root is target.root and target.root in (Root.ROW, Root.ARRAY, Root.MAP):
        return _cast_nested(array, source, target)
    if not _castable(source, target):
        raise _no_cast("", source, target)
    try:
        return _cast_flat(array, source, target)
    except pa.ArrowInvalid as error:
        raise InvalidError(
            "a stored value cannot be cast to the column's present type",
            stored=type_text(source),
            present=type_text(target),
            reason=str(error).splitlines()[0],
        ) from error


def value_of(text: str, target: DataType, exact: bool = False) -> pa.Scalar:
    """What a text means as a value of a type; null for a decimal that it cannot hold. Unlike of stored texts, nothing
    is cut off whole numbers and days: InvalidError for 1.5 as INT, for a time of day in a DATE. `exact`: nor are digits
    of times cut off, or decimals rounded."""
    plain = text.strip()
    more = ""
    if target.root in _WHOLE:
        more = plain.partition(".")[1]
    elif target.root is Root.DATE:
        more = plain.partition(" ")[2]
    elif target.root in _TIMES and exact:
        more = plain.partition(".")[2].rstrip("0")[target.precision or 0 :]
    found = cast_array(pa.array([text]), STRING, target)[0]
    rounded = exact and target.root is Root.DECIMAL and found.is_valid and Decimal(plain) != found.as_py()
    if more or rounded:
        raise InvalidError("text is not a value of the type", text=text[:200], type=type_text(target))
    return found


def _cast_nested(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    # older files may lack what is NOT NULL now: nested nullability is not enforced on reading
    kind = arrow_type(all_nullable(target))
    nulls = array.is_null() if array.null_count else None
    if target.root is Root.ROW:
        mapping = read_mapping(source.fields, target.fields)
        index = {item.name: i for i, item in enumerate(source.fields)}
        children = []
        for i, column in enumerate(mapping):
            if column.source is None:
                children.append(pa.nulls(len(array), kind.field(i).type))
                continue
            child = array.field(index[column.source.name])
            child = cast_array(child, column.source.type, column.field.type) if column.cast else child
            children.append(canonical_array(child, kind.field(i), column.field.name, trusted=True))
        return pa.StructArray.from_arrays(children, fields=[kind.field(i) for i in range(kind.num_fields)], mask=nulls)
    if source.element is None or target.element is None:
        raise _no_cast("", source, target)
    if target.root is Root.ARRAY:
        values = cast_array(array.flatten(), source.element, target.element)
        values = canonical_array(values, kind.value_field, "element", trusted=True)
        return pa.ListArray.from_arrays(list_offsets(array), values, type=kind, mask=nulls)
    entries = pairs_of(array)
    flat = entries.flatten()
    items = canonical_array(
        cast_array(flat.field(1), source.element, target.element), kind.item_field, "value", trusted=True
    )
    return pa.MapArray.from_arrays(list_offsets(entries), flat.field(0), items, type=kind, mask=nulls)


def _cast_flat(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    kind = arrow_type(target)
    if target.root in _TEXT:
        return _to_text(array, source, target)
    if target.root in _BYTES:
        return _to_bytes(array.cast(pa.binary()), target)
    if target.root is Root.BOOLEAN:
        return _to_boolean(array, source)
    if source.root in _TEXT:
        array = pc.utf8_trim_whitespace(array)
        if target.root in _WHOLE:
            plain = pc.replace_substring_regex(array, r"^(?:\+|(-))?(\d+)(?:\.\d*)?$", r"\1\2")  # cut, as Paimon does
            return plain.cast(kind)
        if target.root is Root.DECIMAL:
            return decimal_of(array, target.precision or 10, target.scale or 0)
        if target.root in _FLOAT:
            return array.cast(kind)
        moments = dates_of(array) if target.root is Root.DATE else timestamps_of(array, target.precision or 0)
        return canonical_array(moments, pa.field("", kind), "")
    if target.root is Root.DECIMAL:
        numbers = array.cast(pa.int8()) if source.root is Root.BOOLEAN else array
        return decimal_of(numbers, target.precision or 10, target.scale or 0)
    if target.root in _NUMBER:
        return _to_number(array, source, kind)
    if target.root in _TIMES and source.root is not Root.DATE:
        return canonical_array(cut_to_digits(array, target.precision or 0), pa.field("", kind), "", trusted=True)
    if target.root is Root.DATE and source.root is Root.TIMESTAMP:
        return dates_of_stamps(array)
    return array.cast(kind, safe=False)


def _to_bytes(values: pa.Array, target: DataType) -> pa.Array:
    length = target.length or MAX_LENGTH
    if length == MAX_LENGTH:
        return values
    if target.root is Root.BINARY and values.null_count < len(values):
        missing = length - pc.min(pc.binary_length(values)).as_py()
        if missing > 0:
            values = pc.binary_join_element_wise(values, pa.scalar(bytes(missing)), pa.scalar(b""))
    return pc.binary_slice(values, 0, length)


def _to_number(array: pa.Array, source: DataType, kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind) and source.root in _FLOAT:
        wide, low, high = (pa.int64(), -(2.0**63), 2.0**63) if kind == pa.int64() else (pa.int32(), -(2.0**31), 2.0**31)
        values = array.cast(pa.float64())
        inside = pc.and_(pc.greater_equal(values, low), pc.less(values, high))
        whole = pc.if_else(inside, values, 0.0).cast(wide, safe=False)
        top, bottom = pa.scalar(int(high) - 1, wide), pa.scalar(int(low), wide)
        whole = pc.if_else(pc.greater_equal(values, high), top, whole)
        return pc.if_else(pc.less(values, low), bottom, whole).cast(kind, safe=False)
    if source.root is Root.DECIMAL:
        return (long_of if pa.types.is_integer(kind) else double_of)(array).cast(kind, safe=False)
    if source.root is Root.BOOLEAN:
        return array.cast(pa.int8()).cast(kind)
    return array.cast(kind, safe=False)


def _to_text(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    if source.root is Root.DECIMAL:
        text = text_of(array)
    else:
        text = (wall_clock(array) if source.root is Root.TIMESTAMP_LTZ else array).cast(pa.string())
    if source.root in _TIMES:
        keep = source.precision or 0
        text = pc.replace_substring_regex(text, rf"(\.\d{{{keep}}}\d*?)0+$", r"\1")
        text = pc.replace_substring_regex(text, r"\.$", "")
    if target.length != MAX_LENGTH:
        text = pc.utf8_slice_codeunits(text, 0, target.length)
        if target.root is Root.CHAR:
            text = pc.utf8_rpad(text, target.length)
    return text


def _to_boolean(array: pa.Array, source: DataType) -> pa.Array:
    if source.root in _WHOLE:
        return pc.not_equal(array, 0)
    text = pc.utf8_lower(pc.utf8_trim_whitespace(array))
    yes = pc.is_in(text, pa.array(["t", "true", "y", "yes", "1"]))
    no = pc.is_in(text, pa.array(["f", "false", "n", "no", "0"]))
    if pc.any(pc.and_(text.is_valid(), pc.invert(pc.or_(yes, no)))).as_py():
        raise pa.ArrowInvalid("text is no boolean")
    return pc.if_else(text.is_valid(), yes, pa.scalar(None, pa.bool_()))
