"""Paimon's types as Spark's, both ways, and how a DataFrame's columns become a table's.

TIME travels as INT, milliseconds of the day, and CHAR and VARCHAR as STRING: Spark's DataFrames hold neither.
Spec: docs/spec/types.md
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.data.layout import map_leaves
from bucketlake.lazy import pc
from bucketlake.schema.default import default_scalar
from bucketlake.spark.actions import to_arrow
from bucketlake.spark.assignment import Rules, check_assignment, matched, members, widens
from bucketlake.types.arrow import filled_table, variant_type
from bucketlake.types.instants import as_instants
from bucketlake.types.model import LISTS, MAX_LENGTH, DataField, DataType, Root, arrow_type, quote_identifier, type_text
from bucketlake.types.parse import parse_type_text
from bucketlake.types.spaced import has_lengths

quoted = quote_identifier  # a column's name as SQL text and `functions.col` take it, whatever it holds
MICROSECONDS = 6  # digits that Spark's timestamps have
_NESTED = (T.StructType, T.ArrayType, T.MapType)
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
_CHAR_METADATA = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark remembers what a string column was declared as

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
    return T.StructType([T.StructField(f.name, spark_type(f.type), True, declared(f.type)) for f in fields])


def declared(t: DataType) -> dict[str, str] | None:
    """What Spark notes beside a string column that is a VARCHAR(n): who makes a table of it makes it one."""
    if t.root is not Root.VARCHAR or t.length in (None, MAX_LENGTH):
        return None
    return {_CHAR_METADATA: f"varchar({t.length})"}


def noted(column: Column, name: str, t: DataType) -> Column:
    """The column by its name, with what is `declared` of it."""
    note = declared(t)
    return column.alias(name) if note is None else column.alias(name, metadata=note)


def field_types(schema: T.StructType, as_declared: bool = False) -> list[DataField]:
    """Table columns for a DataFrame's, numbered by place; UnsupportedError names a column that no table can hold.

    `as_declared`: text read from CHAR(n) and VARCHAR(n) is that again, and comments stay, as in tables that Spark
    makes of a query.
    """
    return [
        DataField(place, f.name, _from_spark(f, f.name, as_declared), _comment(f) if as_declared else None)
        for place, f in enumerate(schema.fields)
    ]


def _comment(field: T.StructField) -> str | None:
    return (field.metadata or {}).get("comment")


def _from_spark(field: T.StructField, column: str, as_declared: bool = False) -> DataType:
    text = (field.metadata or {}).get(_CHAR_METADATA) if as_declared else None
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


def conform(
    frame: DataFrame, fields: Sequence[DataField], extra: Sequence[str] = (), rules: Rules | None = None
) -> DataFrame:
    """The frame's columns in the order, names and Spark types of `fields`, matched by name at every level.

    Case counts as the session has it. Values are cast; a number, date or time that does not fit fails the query
    whatever the ANSI mode, text that is no value where the mode is on. Missing columns are null or their default, as
    nulls are of columns that have one. CHAR is padded, and spaces beyond a length are cut. `extra`: columns of the
    frame passed on as they are. `rules`: the session's by default.
    Raises InvalidError for unknown and ambiguous columns, missing ones that are NOT NULL, and types without a cast.
    """
    rules = rules or Rules.of(frame.sparkSession)
    schema = [f for f in frame.schema.fields if f.name not in extra]
    places = matched([f.name for f in schema], [f.name for f in fields], rules)
    require_columns(places, fields)
    columns: list[Column | str] = []
    spaced = any(has_lengths(item.type) for item in fields) and not chars_are_text(frame.sparkSession)
    for item in fields:
        if item.name in places:
            source = schema[places[item.name]]
            if _stays(source, item) and not (spaced and has_lengths(item.type)):
                columns.append(quoted(item.name))
                continue
            found = stored(F.col(quoted(source.name)), source.dataType, item, rules)
            if spaced and has_lengths(item.type):
                found = _spaced(found, item.type).cast(as_nullable(spark_type(item.type)))
        else:
            found = F.lit(None).cast(as_nullable(spark_type(item.type)))
        columns.append(_defaulted(found, item).alias(item.name))
    columns += [quoted(name) for name in extra]
    named = [column for column in columns if isinstance(column, str)]
    stays = len(named) == len(columns) and named == [quoted(name) for name in frame.columns]
    return frame if stays else frame.select(*columns)


def _stays(source: T.StructField, item: DataField) -> bool:
    """Whether a table takes a column as it is: each that is made anew costs twenty calls of Java."""
    kind = source.dataType
    same = source.name == item.name and item.default is None
    return same and _same(kind, spark_type(item.type)) and kind == as_nullable(kind)


def _spaced(column: Column, kind: DataType) -> Column:
    """Text, at any depth, as Spark stores it in CHAR(n) and VARCHAR(n): padded, without spaces beyond the length."""

    def text(column: Column, kind: DataType) -> Column:
        cut = F.when(F.char_length(F.rtrim(column)) <= kind.length, F.rpad(F.rtrim(column), kind.length, " "))
        if kind.root is Root.VARCHAR:
            return F.when(F.char_length(column) > kind.length, cut.otherwise(column)).otherwise(column)
        return cut.otherwise(column)

    return _in_texts(column, kind, has_lengths, text)


def _in_texts(
    column: Column, kind: DataType, has: Callable[[DataType], bool], text: Callable[[Column, DataType], Column]
) -> Column:
    """The column with other texts, at any depth, in types that `has` is for."""
    if not has(kind):
        return column
    if kind.root is Root.ROW:
        parts = [_in_texts(column.getField(item.name), item.type, has, text).alias(item.name) for item in kind.fields]
        return F.when(column.isNotNull(), F.struct(*parts))
    if kind.root is Root.MAP:
        key, value = kind.parts
        keys = F.transform_keys(column, lambda one, _: _in_texts(one, key, has, text)) if has(key) else column
        return F.transform_values(keys, lambda _, one: _in_texts(one, value, has, text)) if has(value) else keys
    if kind.parts:
        return F.transform(column, lambda one: _in_texts(one, kind.parts[0], has, text))
    return text(column, kind)


def char_columns(frame: DataFrame, fields: Sequence[DataField]) -> DataFrame:
    """The frame with CHAR(n), at any depth, as Spark has it: padded, and columns of it marked, so that what is compared
    with them is padded too; as they are stored where the session says so (`spark.sql.readSideCharPadding`)."""
    kinds = {item.name: item.type for item in fields if item.type.holds(Root.CHAR)}
    if not kinds.keys() & set(frame.columns) or chars_are_text(frame.sparkSession):
        return frame
    pads = _is_set(frame.sparkSession, "spark.sql.readSideCharPadding", "true")
    columns = []
    for name in frame.columns:
        column = F.col(quoted(name))
        if name in kinds:
            kind = kinds[name]
            found = _in_texts(column, kind, _holds_char, _padded) if pads else column
            marked = {_CHAR_METADATA: f"char({kind.length})"} if kind.root is Root.CHAR else None
            column = found.alias(name, metadata=marked) if marked else found.alias(name)
        columns.append(column)
    return frame.select(*columns)


def char_mark(field: T.StructField) -> dict[str, str] | None:
    """What says that a column of a frame is CHAR: Spark pads what is compared with it. None for others."""
    text = (field.metadata or {}).get(_CHAR_METADATA, "")
    return {_CHAR_METADATA: text} if text.startswith("char(") else None


def _holds_char(kind: DataType) -> bool:
    return kind.holds(Root.CHAR)


def _padded(column: Column, kind: DataType) -> Column:
    short = F.char_length(column) < kind.length
    return F.when(short, F.rpad(column, kind.length, " ")).otherwise(column)


def chars_are_text(spark: SparkSession) -> bool:
    """Whether the session takes CHAR and VARCHAR for STRING."""
    return _is_set(spark, "spark.sql.legacy.charVarcharAsString", "false")


def _is_set(spark: SparkSession, key: str, default: str) -> bool:
    return str(spark.conf.get(key, default)).lower() == "true"


def require_columns(given: Collection[str], fields: Sequence[DataField]) -> None:
    """InvalidError unless every column that is NOT NULL and has no default is among those given."""
    missing = [f.name for f in fields if f.name not in given and not f.type.nullable and f.default is None]
    if missing:
        raise InvalidError(
            f"[NOT_NULL_ASSERT_VIOLATION] Cannot write null to non-null column({missing[0]})",
            missing=missing,
            remedy="give values for the columns that are NOT NULL",
        )


def _defaulted(column: Column, item: DataField) -> Column:
    """The column with its default for nulls: rows are placed by what they will hold. Other types get theirs later."""
    if item.default is None or item.type.root in (*LISTS, Root.MAP, Root.ROW, Root.TIME):
        return column
    try:
        value = default_scalar(item).as_py()
    except (InvalidError, UnsupportedError):
        return column  # refused where a row needs it
    if value is None:
        return column
    return F.coalesce(column, literal(value, spark_type(item.type)))


def literal(value: Any, kind: T.DataType) -> Column:
    """A Python value as a column of a type: days, and moments without a zone or with their own, by their texts. Py4J
    writes years before 1000 with less than four digits, and takes moments without a zone for the process's."""
    naive = isinstance(value, dt.datetime) and value.tzinfo is None
    if isinstance(value, dt.date) and not (naive and isinstance(kind, T.TimestampType)):
        value = value.isoformat()
    return F.lit(value).cast(kind)


def stored(column: Column, source: T.DataType, item: DataField, rules: Rules) -> Column:
    """A value of type `source` as one of a table's column; InvalidError where the rules do not let it be one."""
    target = spark_type(item.type)
    if _same(source, target):
        return column if source == as_nullable(source) else column.cast(as_nullable(source))
    if item.type.root is Root.TIME and source.typeName().startswith("time("):
        return column
    if rules.instants and item.type.holds(Root.TIMESTAMP):
        return stored(column, source, replace(item, type=as_instants(item.type)), rules).cast(as_nullable(target))
    check_assignment(source, target, item.name, rules)
    found = _assigned(column, source, target, rules, f"column={item.name}, type={type_text(item.type)}")
    return found.cast(as_nullable(target)) if isinstance(target, _NESTED) else found


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


def _assigned(column: Column, source: T.DataType, target: T.DataType, rules: Rules, what: str) -> Column:
    """The value as one of the type, members by name; `what` names the column in the error of a value that does not
    fit. Nested values are taken apart, as no cast fails for what is inside them alone."""
    if _same(source, target):
        return column
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        own = members(source, target, rules, what)
        parts = [
            F.lit(None).cast(b.dataType).alias(b.name)
            if a is None
            else _assigned(column.getField(a.name), a.dataType, b.dataType, rules, what).alias(b.name)
            for a, b in zip(own, target.fields, strict=True)
        ]
        return F.when(column.isNotNull(), F.struct(*parts))
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        element = (source.elementType, target.elementType)
        return F.transform(column, lambda value: _assigned(value, *element, rules, what))
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        keys, values = (source.keyType, target.keyType), (source.valueType, target.valueType)
        return F.map_from_arrays(
            F.transform(F.map_keys(column), lambda key: _assigned(key, *keys, rules, what)),
            F.transform(F.map_values(column), lambda value: _assigned(value, *values, rules, what)),
        )
    if isinstance(source, T.VariantType) and isinstance(target, _NESTED):  # a cast that is tried has nulls within
        return F.variant_get(column, "$", _ddl(target))
    lenient = not rules.ansi and isinstance(source, T.StringType)
    if rules.policy == "LEGACY" or widens(source, target) or lenient:
        return column.cast(target)
    found = column.try_cast(target)
    condition = "CAST_INVALID_INPUT" if isinstance(source, T.StringType) else "CAST_OVERFLOW_IN_TABLE_INSERT"
    message = f"[{condition}] value does not fit its column [{what}]"
    refused = F.raise_error(F.concat(F.lit(message + ": "), column.cast("string"))).cast(target)
    lost = column.isNotNull() & found.isNull()
    if isinstance(source, (T.FloatType, T.DoubleType)) and isinstance(target, T.DecimalType):
        lost &= F.abs(column) < float("inf")  # NaN is larger; both are NULL to Spark, whatever its mode
    if isinstance(source, T.VariantType):
        lost &= ~F.is_variant_null(column)  # JSON's null is NULL of every type
    return F.when(lost, refused).otherwise(found)


def _ddl(kind: T.DataType) -> str:
    """A type as text that Spark reads, whatever members are called."""
    if isinstance(kind, T.StructType):
        return f"struct<{', '.join(f'{quoted(item.name)}: {_ddl(item.dataType)}' for item in kind.fields)}>"
    if isinstance(kind, T.MapType):
        return f"map<{_ddl(kind.keyType)}, {_ddl(kind.valueType)}>"
    return f"array<{_ddl(kind.elementType)}>" if isinstance(kind, T.ArrayType) else kind.simpleString()


def _same(source: T.DataType, target: T.DataType) -> bool:
    """Equal but for nullability, which the writer checks by itself."""
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        pairs = list(zip(source.fields, target.fields, strict=False))
        return len(source) == len(target) and all(a.name == b.name and _same(a.dataType, b.dataType) for a, b in pairs)
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        return _same(source.elementType, target.elementType)
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        return _same(source.keyType, target.keyType) and _same(source.valueType, target.valueType)
    return bool(source == target)


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


def as_key(column: Column, kind: T.DataType) -> Column:
    """Equal for two values if and only if they are one key: -0.0 and 0.0 are two, which Spark takes for one."""
    return column.cast("string") if isinstance(kind, (T.FloatType, T.DoubleType)) else column


def same_key(t: DataType, left: Column, right: Column) -> Column:
    """Whether two values of a type are one key, or both null."""
    return as_key(left, spark_type(t)).eqNullSafe(as_key(right, spark_type(t)))


def framed(spark: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """A frame of rows in the driver."""
    return spark.createDataFrame(filled_table(_uncut(_without_gaps(rows))) if rows.num_rows else [], schema)


def _without_gaps(rows: pa.Table) -> pa.Table:
    """The rows in batches that hold some: PySpark takes one without rows, behind others, for the end of all."""
    batches = rows.to_batches()
    if all(batch.num_rows for batch in batches):
        return rows
    return pa.Table.from_batches([batch for batch in batches if batch.num_rows], rows.schema)


def _uncut(rows: pa.Table) -> pa.Table:
    """The rows with nested columns of their own: PySpark takes no lists and maps that are a part of others, where some
    are null."""
    for place, item in enumerate(rows.schema):
        chunks = rows.column(place).chunks
        if pa.types.is_nested(item.type) and any(chunk.offset for chunk in chunks):
            own = [chunk.take(pa.array(np.arange(len(chunk)))) for chunk in chunks]
            rows = rows.set_column(place, item, pa.chunked_array(own, item.type))
    return rows


def mapped(
    frame: DataFrame, action: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: T.StructType | str
) -> DataFrame:
    """The frame through `mapInArrow`, its columns under their own names in every batch: PySpark reads names as paths,
    and Spark gives what `df.select("ID")` lists the name that it has below."""
    names = frame.columns

    def named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return action(batch.rename_columns(names) for batch in batches)

    if any("." in name or "`" in name for name in names):
        frame = frame.toDF(*[f"c{place}" for place in range(len(names))])
    return frame.mapInArrow(named, schema)


def collected(frame: DataFrame) -> pa.Table:
    """The frame's rows in the driver, with nothing inside a column NOT NULL. VARIANT comes as its parts: PySpark's own
    way fails for those that are null."""
    frame = _loosened(frame)
    parted = T.StructType([T.StructField(f.name, _parted(f.dataType), True) for f in frame.schema.fields])
    if parted == as_nullable(frame.schema):
        return to_arrow(frame)
    rows = to_arrow(mapped(frame, _unmarked, parted))
    kinds = [table_type(item.dataType, item.name) for item in frame.schema.fields]
    columns = [
        pa.chunked_array([map_leaves(chunk, kind, _marked) for chunk in column.chunks]) if column.num_chunks else column
        for column, kind in zip(rows.columns, kinds, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=rows.schema.names)


def _loosened(frame: DataFrame) -> DataFrame:
    """The frame with nothing inside its columns NOT NULL: PySpark takes no null of such a type."""
    fields = frame.schema.fields
    kinds = [as_nullable(item.dataType) for item in fields]
    if all(kind == item.dataType for kind, item in zip(kinds, fields, strict=True)):
        return frame
    places = [f"c{place}" for place in range(len(fields))]  # names may repeat
    columns = [F.col(place).cast(kind) for place, kind in zip(places, kinds, strict=True)]
    return frame.toDF(*places).select(*columns).toDF(*[item.name for item in fields])


def _marked(array: pa.Array, t: DataType) -> pa.Array:
    if t.root is not Root.VARIANT:
        return array
    parts = [pc.fill_null(array.field(item.name), b"") for item in variant_type().fields]
    return pa.StructArray.from_arrays(parts, fields=list(variant_type().fields), mask=array.is_null())


_PARTS = T.StructType([T.StructField("value", T.BinaryType(), True), T.StructField("metadata", T.BinaryType(), True)])


def _parted(kind: T.DataType) -> T.DataType:
    """The type with the binary parts of VARIANT in its place, and nothing inside NOT NULL."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _parted(f.dataType), True, f.metadata) for f in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_parted(kind.elementType), True)
    if isinstance(kind, T.MapType):
        return T.MapType(_parted(kind.keyType), _parted(kind.valueType), True)
    return _PARTS if isinstance(kind, T.VariantType) else kind


def _unmarked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        schema = pa.schema([pa.field(f.name, _relaxed(f.type)) for f in batch.schema])
        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def _relaxed(kind: pa.DataType) -> pa.DataType:
    """The Arrow type with nothing inside it NOT NULL and without marks."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _relaxed(f.type)) for f in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(_relaxed(kind.key_type), _relaxed(kind.item_type))
    return pa.list_(_relaxed(kind.value_type)) if pa.types.is_list(kind) else kind


def sql_type(kind: T.DataType) -> str:
    """A Spark type as SQL declares it, names in backticks."""
    if isinstance(kind, T.StructType):
        return f"STRUCT<{', '.join(f'{quoted(item.name)}: {sql_type(item.dataType)}' for item in kind)}>"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{sql_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return str(kind.simpleString())


def arrow_layout(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema in which rows go to Spark: microseconds, TIME as int milliseconds, all nullable."""
    return pa.schema([pa.field(item.name, _spark_arrow(item.type)) for item in fields])


def spark_batch(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """A batch of these columns from the canonical layout to that of `arrow_layout`."""
    schema = arrow_layout(fields)
    arrays = [
        column if column.type == target.type else pc.cast(_in_microseconds(column, item.type), target.type, safe=False)
        for column, target, item in zip(batch.columns, schema, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def spark_table(rows: pa.Table, fields: Sequence[DataField]) -> pa.Table:
    """A table of these columns from the canonical layout to that of `arrow_layout`."""
    return pa.Table.from_batches([spark_batch(batch, fields) for batch in rows.to_batches()], arrow_layout(fields))


def _in_microseconds(array: pa.Array, t: DataType) -> pa.Array:
    """Nanoseconds rounded down, as Paimon's connector hands them to Spark; a cast would round them towards 1970."""
    return map_leaves(array, t, _rounded_down) if is_finer(t) else array


def is_finer(t: DataType) -> bool:
    """Whether values are, or hold, times finer than a microsecond."""
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return (t.precision or 0) > MICROSECONDS
    return any(map(is_finer, t.parts))


def _rounded_down(array: pa.Array, t: DataType) -> pa.Array:
    if t.root not in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) or not is_finer(t):
        return array
    values = np.floor_divide(array.cast(pa.int64()).fill_null(0).to_numpy(), 1000)
    return pa.array(values, mask=np.asarray(array.is_null())).cast(pa.timestamp("us", array.type.tz))


def _spark_arrow(t: DataType) -> pa.DataType:
    if t.root is Root.TIME:
        return pa.int32()
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return pa.timestamp("us", tz="UTC" if t.root is Root.TIMESTAMP_LTZ else None)
    if t.root in LISTS and t.element:
        return pa.list_(pa.field("element", _spark_arrow(t.element), t.element.nullable))
    if t.root is Root.MAP and t.key and t.element:
        return pa.map_(_spark_arrow(t.key), pa.field("value", _spark_arrow(t.element), t.element.nullable))
    if t.root is Root.ROW:
        return pa.struct([pa.field(f.name, _spark_arrow(f.type), f.type.nullable) for f in t.fields])
    return arrow_type(t)
