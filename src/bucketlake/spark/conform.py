"""A DataFrame's columns as a table's: by name, assigned as the session's rules say, texts of CHAR(n) padded; keys.

Spec: docs/spec/writing.md#rows
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.schema.default import default_scalar
from bucketlake.spark.assignment import Rules, check_assignment, matched, members, widens
from bucketlake.spark.settings import is_set
from bucketlake.spark.types import CHAR_METADATA, as_nullable, declared, quoted, spark_type
from bucketlake.types.instants import as_instants
from bucketlake.types.model import LISTS, DataField, DataType, Root, type_text
from bucketlake.types.spaced import has_lengths

_NESTED = (T.StructType, T.ArrayType, T.MapType)
_OF_ROWS = (  # of a window, by Spark 4.1 as well, and of an aggregate
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE",
    "_LEGACY_ERROR_TEMP_1034",
    "INVALID_WHERE_CONDITION",
)


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


def require_assignable(given: T.StructType, fields: Sequence[DataField], rules: Rules) -> None:
    """InvalidError for a column of these that cannot take what is given under its name: before rows are looked for,
    of which there may be none."""
    for item in fields:
        stored(F.col(quoted(item.name)), given[item.name].dataType, item, rules)


def require_one_row(frame: DataFrame, values: Sequence[Column]) -> None:
    """InvalidError where a value or condition of UPDATE or MERGE is made of several rows, or makes several."""
    if values:
        with as_values():
            _ = frame.where(F.struct(*values).isNotNull()).schema


@contextmanager
def as_values() -> Iterator[None]:
    """What Spark says of values that stand in a condition, where they look at several rows or make several of one:
    among a list of columns it would take these. All else is for whoever evaluates them."""
    try:
        yield
    except AnalysisException as error:
        condition = error.getCondition() or ""
        if condition.startswith("UNSUPPORTED_GENERATOR"):
            raise InvalidError(
                "[UNSUPPORTED_GENERATOR.OUTSIDE_SELECT] values and conditions of UPDATE and MERGE are of one row: no "
                "function may make several of it",
                remedy="let the source of a MERGE make them",
            ) from error
        if condition in _OF_ROWS:
            raise InvalidError(
                "[UNSUPPORTED_EXPR_FOR_OPERATOR] values and conditions of UPDATE and MERGE are of one row: no "
                "aggregates and no windows",
                remedy="take it from a subquery (UPDATE), or from the source (MERGE)",
            ) from error


def char_columns(frame: DataFrame, fields: Sequence[DataField]) -> DataFrame:
    """The frame with CHAR(n), at any depth, as Spark has it: padded, and columns of it marked, so that what is compared
    with them is padded too; as they are stored where the session says so (`spark.sql.readSideCharPadding`)."""
    kinds = {item.name: item for item in fields if item.type.holds(Root.CHAR)}
    if not kinds or not kinds.keys() & set(frame.columns) or chars_are_text(frame.sparkSession):
        return frame
    pads = is_set(frame.sparkSession, "spark.sql.readSideCharPadding", "true")
    columns = []
    for name in frame.columns:
        column = F.col(quoted(name))
        if name in kinds:
            kind = kinds[name].type
            found = _in_texts(column, kind, _holds_char, _padded) if pads else column
            marked = declared(kinds[name]) or {}
            if kind.root is Root.CHAR:
                marked[CHAR_METADATA] = f"char({kind.length})"
            column = found.alias(name, metadata=marked) if marked else found.alias(name)
        columns.append(column)
    return frame.select(*columns)


def char_mark(field: T.StructField) -> dict[str, str] | None:
    """What says that a column of a frame is CHAR: Spark pads what is compared with it. None for others."""
    text = (field.metadata or {}).get(CHAR_METADATA, "")
    return {CHAR_METADATA: text} if text.startswith("char(") else None


def _holds_char(kind: DataType) -> bool:
    return kind.holds(Root.CHAR)


def _padded(column: Column, kind: DataType) -> Column:
    short = F.char_length(column) < kind.length
    return F.when(short, F.rpad(column, kind.length, " ")).otherwise(column)


def chars_are_text(spark: SparkSession) -> bool:
    """Whether the session takes CHAR and VARCHAR for STRING."""
    return is_set(spark, "spark.sql.legacy.charVarcharAsString")


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


def as_key(column: Column, kind: T.DataType) -> Column:
    """Equal for two values if and only if they are one key: -0.0 and 0.0 are two, which Spark takes for one."""
    return column.cast("string") if isinstance(kind, (T.FloatType, T.DoubleType)) else column


def same_key(t: DataType, left: Column, right: Column) -> Column:
    """Whether two values of a type are one key, or both null."""
    return as_key(left, spark_type(t)).eqNullSafe(as_key(right, spark_type(t)))
