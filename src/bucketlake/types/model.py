"""Paimon's data types as plain values, as schema JSON and SQL text write them, and as Arrow has them.

A type is one frozen `DataType`; which attributes count is decided by `root`. Arrow data inside the engine is
always in the canonical layout of `arrow_type` (what arrives in another layout passes `canonical_batch` once).

Spec: docs/spec/types.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.lazy import pa, pc
from bucketlake.types.arrow import canonical_array, is_variant, pairs_of, variant_type
from bucketlake.values import dataclass


class Root(str, Enum):
    """The name that a type's text starts with."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"  # STRING is VARCHAR(2147483647)
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"  # BYTES is VARBINARY(2147483647)
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP WITH LOCAL TIME ZONE"
    ARRAY = "ARRAY"
    MAP = "MAP"
    ROW = "ROW"
    MULTISET = "MULTISET"
    VARIANT = "VARIANT"
    BLOB = "BLOB"
    VECTOR = "VECTOR"


MAX_LENGTH = 2147483647


@dataclass(frozen=True, slots=True)
class DataType:
    """One Paimon type. `length` for CHAR/VARCHAR/BINARY/VARBINARY, and how many elements a VECTOR has; `precision` for
    DECIMAL, TIME and timestamps; `scale` for DECIMAL; `key` for MAP; `element` for ARRAY, VECTOR, MULTISET and the
    value of MAP; `fields` for ROW."""

    root: Root
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    key: DataType | None = None
    element: DataType | None = None
    fields: tuple[DataField, ...] = ()

    def with_nullable(self, nullable: bool) -> DataType:
        """The same type, nullable or not."""
        return self if nullable == self.nullable else replace(self, nullable=nullable)

    @property
    def parts(self) -> list[DataType]:
        """The types that an ARRAY, VECTOR, MULTISET, MAP or ROW is made of."""
        return [part for part in (self.key, self.element) if part is not None] + [item.type for item in self.fields]

    def holds(self, *roots: Root) -> bool:
        """Whether it, or a part at any depth, is of one of these roots."""
        return self.root in roots or any(part.holds(*roots) for part in self.parts)

    def is_deeper(self, most: int) -> bool:
        """Whether types lie within types more than `most` times."""
        return most < 0 or any(part.is_deeper(most - 1) for part in self.parts)


@dataclass(frozen=True, slots=True)
class DataField:
    """One column or ROW member; `id` is unique in its table, nested fields included, and survives renames."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None


STRING = DataType(Root.VARCHAR, length=MAX_LENGTH)
BYTES = DataType(Root.VARBINARY, length=MAX_LENGTH)
TINYINT = DataType(Root.TINYINT)
INT = DataType(Root.INT)
BIGINT = DataType(Root.BIGINT)


SIZED = {Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY}
_TIMED = {Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ}
LISTS = (Root.ARRAY, Root.VECTOR)
"""Types whose values are lists of their `element`: those of a VECTOR have its `length`, and no nulls among them."""
VECTOR_ELEMENTS = (
    *(Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT),
    *(Root.FLOAT, Root.DOUBLE),
)


def decimal_type(precision: int, scale: int, *, nullable: bool = True) -> DataType:
    """DECIMAL(precision, scale), checked: precision 1 to 38, scale 0 to precision."""
    return checked(DataType(Root.DECIMAL, nullable, precision=precision, scale=scale))


# ---------------------------------------------------------------------------------------------- schema JSON


def format_type(t: DataType) -> str | dict[str, Any]:
    """The schema JSON value of a type, as Paimon 2.0.0 writes it (object keys in its order).

    Spec: docs/spec/types.md#schema-json
    """
    head = t.root.value + ("" if t.nullable else " NOT NULL")
    if t.root is Root.ROW:
        return {"type": head, "fields": [format_field(f) for f in t.fields]}
    if t.root is Root.MAP:
        return {"type": head, "key": format_type(_part(t.key)), "value": format_type(_part(t.element))}
    if t.root in (Root.ARRAY, Root.MULTISET):
        return {"type": head, "element": format_type(_part(t.element))}
    if t.root is Root.VECTOR:
        return {"type": head, "element": format_type(_part(t.element)), "length": t.length}
    return type_text(t)


def all_nullable(t: DataType) -> DataType:
    """The type with nulls allowed at every level."""
    return replace(
        t,
        nullable=True,
        element=None if t.element is None else all_nullable(t.element),
        fields=tuple(replace(item, type=all_nullable(item.type)) for item in t.fields),
    )


def format_field(field: DataField) -> dict[str, Any]:
    """One element of "fields" in a schema file."""
    json: dict[str, Any] = {"id": field.id, "name": field.name, "type": format_type(field.type)}
    if field.description is not None:
        json["description"] = field.description
    if field.default is not None:
        json["defaultValue"] = field.default
    return json


def _part(t: DataType | None) -> DataType:
    if t is None:
        raise InvalidError("constructed type without its part", remedy="give it its element types")
    return t


# ---------------------------------------------------------------------------------------------- SQL text


def type_text(t: DataType) -> str:
    """The SQL text of a type in Paimon's spelling, e.g. "DECIMAL(10, 2) NOT NULL"."""
    suffix, root, name = "" if t.nullable else " NOT NULL", t.root, t.root.value
    if root is Root.VARCHAR and t.length == MAX_LENGTH:
        text = "STRING"
    elif root is Root.VARBINARY and t.length == MAX_LENGTH:
        text = "BYTES"
    elif root in SIZED:
        text = f"{name}({t.length})"
    elif root is Root.DECIMAL:
        text = f"DECIMAL({t.precision}, {t.scale})"
    elif root is Root.TIMESTAMP_LTZ:
        text = f"TIMESTAMP({t.precision}) WITH LOCAL TIME ZONE"
    elif root in _TIMED:
        text = f"{name}({t.precision})"
    elif root in (Root.ARRAY, Root.MULTISET):
        text = f"{name}<{type_text(_part(t.element))}>"
    elif root is Root.MAP:
        text = f"MAP<{type_text(_part(t.key))}, {type_text(_part(t.element))}>"
    elif root is Root.VECTOR:
        text = f"VECTOR<{type_text(_part(t.element))}, {t.length}>"
    elif root is Root.ROW:
        text = f"ROW<{', '.join(_member_text(f) for f in t.fields)}>"
    else:
        text = name
    return text + suffix


def _member_text(field: DataField) -> str:
    text = f"{quote_identifier(field.name)} {type_text(field.type)}"
    if field.description:
        text += " COMMENT '" + field.description.replace("'", "''") + "'"
    return text if field.default is None else f"{text} DEFAULT {field.default}"


def quote_identifier(name: str) -> str:
    """A name in backticks, as Spark and Paimon quote."""
    return "`" + name.replace("`", "``") + "`"


def quote_text(value: str) -> str:
    """A text as a literal of SQL. `${` is taken apart, since Spark puts a variable's value in the place of `${name}`
    before it reads what is a literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "$\\{") + "'"


def checked(t: DataType) -> DataType:
    """The type, with a precision, a scale, a length that it may have. InvalidError."""
    if t.root is Root.DECIMAL:
        precision, scale = t.precision or 0, t.scale or 0
        if not 1 <= precision <= 38:
            raise InvalidError("Decimal precision must be between 1 and 38 (both inclusive).", precision=precision)
        if not 0 <= scale <= precision:
            raise InvalidError(f"Decimal scale must be between 0 and the precision {precision} (both inclusive).")
    elif t.root in _TIMED and not 0 <= (t.precision or 0) <= 9:
        raise InvalidError(f"{t.root.value} precision must be between 0 and 9 (both inclusive).", precision=t.precision)
    elif t.root in SIZED and not 1 <= (t.length or 0) <= MAX_LENGTH:
        raise InvalidError(
            f"{t.root.value} length must be between 1 and {MAX_LENGTH} (both inclusive).", length=t.length
        )
    elif t.root is Root.VECTOR:
        if _part(t.element).root not in VECTOR_ELEMENTS:
            raise InvalidError(f"Invalid element type for vector: {type_text(_part(t.element))}")
        if not 1 <= (t.length or 0) <= MAX_LENGTH:
            raise InvalidError(f"Vector length must be between 1 and {MAX_LENGTH} (both inclusive).", length=t.length)
    return t


def in_blob_file(t: DataType) -> bool:
    """Whether a column of the type lies in blob files: BLOB, ARRAY<BLOB>, MAP<K, BLOB>."""
    nested = t.element if t.root in (Root.ARRAY, Root.MAP) else None
    return t.root is Root.BLOB or (nested is not None and nested.root is Root.BLOB)


def refuse_type(t: DataType) -> None:
    """UnsupportedError for what has no values: MULTISET, VECTOR in another type, BLOB deeper than in an ARRAY or the
    values of MAP."""
    inside = any(part.holds(Root.VECTOR) for part in t.parts)
    if t.root is Root.MULTISET or inside or (t.holds(Root.BLOB) and not in_blob_file(t)):
        raise UnsupportedError(f"{type_text(t)} columns are not supported", type=type_text(t))
    for part in t.parts:
        refuse_type(part)


@cache
def _arrow_types() -> dict[Root, pa.DataType]:
    return {
        Root.BOOLEAN: pa.bool_(),
        Root.TINYINT: pa.int8(),
        Root.SMALLINT: pa.int16(),
        Root.INT: pa.int32(),
        Root.BIGINT: pa.int64(),
        Root.FLOAT: pa.float32(),
        Root.DOUBLE: pa.float64(),
        **dict.fromkeys((Root.CHAR, Root.VARCHAR), pa.string()),
        **dict.fromkeys((Root.BINARY, Root.VARBINARY, Root.BLOB), pa.binary()),
        Root.DATE: pa.date32(),
        Root.TIME: pa.time32("ms"),
        Root.VARIANT: variant_type(),
    }


def arrow_type(t: DataType) -> pa.DataType:
    """The canonical Arrow type; nullability belongs to the field that holds it (`arrow_field`).

    Raises: UnsupportedError for types that have no values here (`refuse_type`).
    Spec: docs/spec/types.md#arrow
    """
    plain = _arrow_types().get(t.root)
    if plain is not None:
        return plain
    refuse_type(t)
    if t.root is Root.DECIMAL:
        return pa.decimal128(t.precision, t.scale)
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        precision = 6 if t.precision is None else t.precision
        unit = "ms" if precision <= 3 else "us" if precision <= 6 else "ns"
        return pa.timestamp(unit, tz="UTC" if t.root is Root.TIMESTAMP_LTZ else None)
    if t.root in LISTS:
        return pa.list_(arrow_field("element", _part(t.element)))
    if t.root is Root.MAP:
        key = arrow_field("key", _part(t.key).with_nullable(False))
        return pa.map_(key, arrow_field("value", _part(t.element)))
    return pa.struct([arrow_field(f.name, f.type) for f in t.fields])


def arrow_field(name: str, t: DataType) -> pa.Field:
    """The canonical Arrow field: nullable as the type is."""
    return pa.field(name, arrow_type(t), nullable=t.nullable)


def arrow_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The canonical Arrow schema of columns, in their order."""
    return pa.schema([arrow_field(f.name, f.type) for f in fields])


_FROM_ARROW = {
    "bool": Root.BOOLEAN,
    "int8": Root.TINYINT,
    "int16": Root.SMALLINT,
    "uint8": Root.SMALLINT,
    "int32": Root.INT,
    "uint16": Root.INT,
    "int64": Root.BIGINT,
    "uint32": Root.BIGINT,
    "halffloat": Root.FLOAT,
    "float": Root.FLOAT,
    "double": Root.DOUBLE,
    "date32[day]": Root.DATE,
    "date64[ms]": Root.DATE,
}
_PRECISION = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def from_arrow_type(arrow: pa.DataType, nullable: bool = True) -> DataType:
    """The narrowest Paimon type that holds every value of an Arrow type; ROW members get ids in order.

    Raises: UnsupportedError for Arrow types without a counterpart (null, union, interval, duration, …).
    """
    return _from_arrow(arrow, nullable, iter(range(1 << 31)))


def _from_arrow(arrow: pa.DataType, nullable: bool, ids: Iterator[int]) -> DataType:
    kinds = pa.types
    root = Root.VARIANT if is_variant(arrow) else _FROM_ARROW.get(str(arrow))
    if root is not None:
        return DataType(root, nullable)
    if kinds.is_string(arrow) or kinds.is_large_string(arrow) or kinds.is_string_view(arrow):
        return STRING.with_nullable(nullable)
    if kinds.is_binary(arrow) or kinds.is_large_binary(arrow) or kinds.is_binary_view(arrow):
        return BYTES.with_nullable(nullable)
    if kinds.is_fixed_size_binary(arrow):
        return DataType(Root.BINARY, nullable, length=arrow.byte_width)
    if kinds.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return DataType(Root.DECIMAL, nullable, precision=arrow.precision, scale=arrow.scale)
    if kinds.is_uint64(arrow):
        return DataType(Root.DECIMAL, nullable, precision=20, scale=0)
    if kinds.is_timestamp(arrow):
        root = Root.TIMESTAMP if arrow.tz is None else Root.TIMESTAMP_LTZ
        return DataType(root, nullable, precision=_PRECISION[arrow.unit])
    if kinds.is_time(arrow):
        return DataType(Root.TIME, nullable, precision=_PRECISION[arrow.unit])
    if kinds.is_dictionary(arrow) or kinds.is_run_end_encoded(arrow):
        return _from_arrow(arrow.value_type, nullable, ids)
    if kinds.is_map(arrow):
        key = _from_arrow(arrow.key_type, False, ids)
        return DataType(
            Root.MAP, nullable, key=key, element=_from_arrow(arrow.item_type, arrow.item_field.nullable, ids)
        )
    if kinds.is_struct(arrow):
        members = [
            DataField(next(ids), arrow.field(i).name, _from_arrow(arrow.field(i).type, arrow.field(i).nullable, ids))
            for i in range(arrow.num_fields)
        ]
        return DataType(Root.ROW, nullable, fields=tuple(members))
    if hasattr(arrow, "value_field"):
        return DataType(Root.ARRAY, nullable, element=_from_arrow(arrow.value_type, arrow.value_field.nullable, ids))
    raise UnsupportedError("no column type for Arrow type", arrow=str(arrow))


def canonical_batch(batch: pa.RecordBatch, fields: Sequence[DataField], *, trusted: bool = False) -> pa.RecordBatch:
    """The named columns, in order and in canonical layout, with exactly `arrow_schema(fields)`.

    Columns that `fields` does not name are left out. `trusted` is for data read from table files: lengths are not
    checked and timestamps without a zone count as UTC.
    Raises: InvalidError naming the column: missing, nulls in NOT NULL, overflow, too long, wrong type.
    Spec: docs/spec/types.md#arrow
    """
    schema = arrow_schema(fields)
    columns = []
    for field, target in zip(fields, schema, strict=True):
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            raise InvalidError("column is missing", column=field.name, columns=batch.schema.names)
        array = canonical_array(batch.column(index), target, field.name, trusted=trusted)
        if not trusted:
            _check_values(array, field)
        columns.append(array)
    return pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch.select([])


def _check_values(array: pa.Array, field: DataField) -> None:
    t = field.type
    if t.holds(Root.CHAR, Root.VARCHAR):
        _check_text(array, field)
    if t.root is Root.VECTOR:
        check_vectors(array, field)
    _check_lengths(array, t, field.name)


def _check_lengths(array: pa.Array, t: DataType, column: str) -> None:
    """InvalidError for text and bytes, at any depth, longer than their type."""
    if t.root in SIZED and t.length != MAX_LENGTH:
        texts = t.root in (Root.CHAR, Root.VARCHAR)
        longest = pc.max(pc.utf8_length(array) if texts else pc.binary_length(array)).as_py()
        if longest is not None and longest > (t.length or 0):
            what = "value is longer than its column"
            if texts:
                what = f"[EXCEED_LIMIT_LENGTH] {what}: exceeds char/varchar type length limitation"
            raise InvalidError(what, column=column, type=type_text(t), length=longest)
    elif t.parts and t.holds(*SIZED):
        if t.root is Root.ROW:
            for member, part in zip(t.fields, array.flatten(), strict=True):
                _check_lengths(part, member.type, f"{column}.{member.name}")
        elif t.root is Root.MAP:
            entries = pairs_of(array).flatten()
            _check_lengths(entries.field(0), t.parts[0], f"{column}.key")
            _check_lengths(entries.field(1), t.parts[1], f"{column}.value")
        else:
            _check_lengths(array.flatten(), t.parts[0], f"{column}.element")


def _check_text(array: pa.Array, field: DataField) -> None:
    """InvalidError for text that is not UTF-8, as Spark's casts of binaries make it: none of the libraries that sort
    and merge rows looks again."""
    try:
        if pa.types.is_string(array.type):
            array.view(pa.binary()).cast(array.type)  # a third of what `validate` takes
        else:
            array.validate(full=True)
    except pa.ArrowInvalid as error:
        remedy = "keep bytes in a BINARY column, or decode them by their encoding"
        raise InvalidError("text that is not UTF-8", column=field.name, remedy=remedy) from error


def check_vectors(array: pa.ListArray, field: DataField) -> None:
    """InvalidError for values of a VECTOR column with another number of elements, or nulls among them."""
    lengths = pc.list_value_length(array).drop_null().unique()
    other = lengths.filter(pc.not_equal(lengths, field.type.length))
    if len(other):
        raise InvalidError(
            f"Vector length mismatch. Expected {field.type.length} but was {other[0].as_py()}.", column=field.name
        )
    nulls = array.flatten().null_count
    if nulls:
        raise InvalidError("an element of a vector is null", column=field.name, nulls=nulls, remedy="fill the nulls")
