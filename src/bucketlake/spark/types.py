"""Paimon's types as Spark's, both ways.

TIME travels as INT, milliseconds of the day, and CHAR and VARCHAR as STRING: Spark's DataFrames hold neither.
Spec: docs/spec/types.md
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import types as T

from bucketlake.errors import UnsupportedError
from bucketlake.types.model import LISTS, MAX_LENGTH, DataField, DataType, Root, quote_identifier, type_text
from bucketlake.types.parse import parse_type_text

quoted = quote_identifier  # a column's name as SQL text and `functions.col` take it, whatever it holds
MICROSECONDS = 6  # digits that Spark's timestamps have
_TO_SPARK: dict[Root, T.DataType] = {
    Root.BOOLEAN: T.BooleanType(),
    Root.TINYINT: T.ByteType(),
    Root.SMALLINT: T.ShortType(),
    Root.INT: T.IntegerType(),
    Root.BIGINT: T.LongType(),
    Root.FLOAT: T.FloatType(),
    Root.DOUBLE: T.DoubleType(),
    Root.CHAR: T.StringType(),
    Root.VARCHAR: T.StringType(),
    Root.BINARY: T.BinaryType(),
    Root.VARBINARY: T.BinaryType(),
    Root.BLOB: T.BinaryType(),
    Root.DATE: T.DateType(),
    Root.TIME: T.IntegerType(),
    Root.TIMESTAMP: T.TimestampNTZType(),
    Root.TIMESTAMP_LTZ: T.TimestampType(),
    Root.VARIANT: T.VariantType(),
}
_FROM_SPARK: dict[type[T.DataType], DataType] = {
    T.BooleanType: DataType(Root.BOOLEAN),
    T.ByteType: DataType(Root.TINYINT),
    T.ShortType: DataType(Root.SMALLINT),
    T.IntegerType: DataType(Root.INT),
    T.LongType: DataType(Root.BIGINT),
    T.FloatType: DataType(Root.FLOAT),
    T.DoubleType: DataType(Root.DOUBLE),
    T.StringType: DataType(Root.VARCHAR, length=MAX_LENGTH),
    T.BinaryType: DataType(Root.VARBINARY, length=MAX_LENGTH),
    T.DateType: DataType(Root.DATE),
    T.TimestampNTZType: DataType(Root.TIMESTAMP, precision=6),
    T.TimestampType: DataType(Root.TIMESTAMP_LTZ, precision=6),
    T.VariantType: DataType(Root.VARIANT),
}
COMMENT = "comment"  # where Spark keeps a column's
CHAR_METADATA = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark remembers what a string column was declared as
_BYTES: tuple[tuple[tuple[type[T.DataType], ...], int], ...] = (
    ((T.BooleanType, T.ByteType), 1),
    ((T.ShortType,), 2),
    ((T.IntegerType, T.FloatType, T.DateType), 4),
    ((T.StringType, T.CharType, T.VarcharType), 20),
    ((T.BinaryType,), 100),
    ((T.VariantType,), 2048),
)


def spark_type(t: DataType) -> T.DataType:
    """The type of a column in DataFrames; UnsupportedError for types that Spark cannot hold."""
    if t.root is Root.DECIMAL:
        return T.DecimalType(t.precision or 10, t.scale or 0)
    if t.root in LISTS and t.element:
        return T.ArrayType(spark_type(t.element), t.element.nullable)
    if t.root is Root.MAP and t.key and t.element:
        return T.MapType(spark_type(t.key), spark_type(t.element), t.element.nullable)
    if t.root is Root.ROW:
        return T.StructType([T.StructField(f.name, spark_type(f.type), f.type.nullable) for f in t.fields])
    if t.root not in _TO_SPARK:
        raise UnsupportedError("type has no counterpart in Spark", type=type_text(t))
    return _TO_SPARK[t.root]


def spark_schema(fields: Sequence[DataField]) -> T.StructType:
    """The schema of a DataFrame over these columns. All are nullable, as with every file source of Spark."""
    return T.StructType([T.StructField(f.name, spark_type(f.type), True, declared(f)) for f in fields])


def declared(column: DataField) -> dict[str, str] | None:
    """What Spark notes beside a column: its comment, and of a string that it is a VARCHAR(n). Who makes a table of a
    query's columns makes them such."""
    notes = {} if column.description is None else {COMMENT: column.description}
    if column.type.root is Root.VARCHAR and column.type.length not in (None, MAX_LENGTH):
        notes[CHAR_METADATA] = f"varchar({column.type.length})"
    return notes or None


def noted(value: Column, column: DataField) -> Column:
    """The value under the column's name, with what is `declared` of it."""
    note = declared(column)
    return value.alias(column.name) if note is None else value.alias(column.name, metadata=note)


def field_types(schema: T.StructType, as_declared: bool = False) -> list[DataField]:
    """Table columns for a DataFrame's, numbered by place, with their comments; UnsupportedError names a column that no
    table can hold.

    `as_declared`: text read from CHAR(n) and VARCHAR(n) is that again, as in tables that Spark makes of a query.
    """
    return [
        DataField(place, f.name, _from_spark(f, f.name, as_declared), _comment(f))
        for place, f in enumerate(schema.fields)
    ]


def _comment(field: T.StructField) -> str | None:
    return (field.metadata or {}).get(COMMENT)


def _from_spark(field: T.StructField, column: str, as_declared: bool = False) -> DataType:
    text = (field.metadata or {}).get(CHAR_METADATA) if as_declared else None
    if text and isinstance(field.dataType, T.StringType):
        return parse_type_text(text, "spark").with_nullable(field.nullable)
    return table_type(field.dataType, column).with_nullable(field.nullable)


def table_type(kind: T.DataType, column: str) -> DataType:
    """The nullable table type for a Spark type; `column` is for the error. Nested ids count from 0, by place."""
    if isinstance(kind, T.DecimalType):
        return DataType(Root.DECIMAL, precision=kind.precision, scale=kind.scale)
    if isinstance(kind, (T.CharType, T.VarcharType)):
        return DataType(Root.CHAR if isinstance(kind, T.CharType) else Root.VARCHAR, length=kind.length)
    if isinstance(kind, T.ArrayType):
        element = table_type(kind.elementType, column).with_nullable(kind.containsNull)
        return DataType(Root.ARRAY, element=element)
    if isinstance(kind, T.MapType):
        value = table_type(kind.valueType, column).with_nullable(kind.valueContainsNull)
        return DataType(Root.MAP, key=table_type(kind.keyType, column).with_nullable(False), element=value)
    if isinstance(kind, T.StructType):
        members = [DataField(i, f.name, _from_spark(f, column)) for i, f in enumerate(kind.fields)]
        return DataType(Root.ROW, fields=tuple(members))
    found = _FROM_SPARK.get(type(kind))
    if found is None:
        remedy = "no value says its type: cast the column" if isinstance(kind, T.NullType) else "cast the column"
        raise UnsupportedError(f"Not a supported type: {kind.simpleString()}", column=column, remedy=remedy)
    return found


def as_nullable(kind: T.DataType) -> T.DataType:
    """The type with nothing inside it NOT NULL, as columns of tables that are made of queries are, whatever their first
    rows hold. Arrow takes no null of a type whose members may not be null, as Spark has them: whether a column's own
    members may be is asked of the values."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, as_nullable(f.dataType), True, f.metadata) for f in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(as_nullable(kind.elementType), True)
    if isinstance(kind, T.MapType):
        return T.MapType(as_nullable(kind.keyType), as_nullable(kind.valueType), True)
    return kind


def row_bytes(kind: T.DataType) -> int:
    """What Spark takes a value, or a row, for where it knows no better: of a text 20 bytes, of an array one element."""
    if isinstance(kind, T.StructType):
        return sum(row_bytes(item.dataType) for item in kind.fields)
    if isinstance(kind, T.MapType):
        return row_bytes(kind.keyType) + row_bytes(kind.valueType)
    if isinstance(kind, T.ArrayType):
        return row_bytes(kind.elementType)
    if isinstance(kind, T.DecimalType):
        return 8 if kind.precision <= 18 else 16
    return next((size for kinds, size in _BYTES if isinstance(kind, kinds)), 8)


def sql_type(kind: T.DataType) -> str:
    """A Spark type as SQL declares it, names in backticks."""
    if isinstance(kind, T.StructType):
        return f"STRUCT<{', '.join(f'{quoted(item.name)}: {sql_type(item.dataType)}' for item in kind)}>"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{sql_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return str(kind.simpleString())
