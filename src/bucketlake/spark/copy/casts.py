"""Values of files in a table's types: members of rows by name, and what is lost on the way, at any depth."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.spark.assignment import Rules, members
from bucketlake.spark.types import as_nullable


def cast_value(column: Column, source: T.DataType, target: T.DataType, rules: Rules) -> tuple[Column, Column]:
    """The value in the type, null where it cannot be cast, within nested values too; whether anything was lost so.

    Spark itself says of types without a cast. InvalidError: a row with other members.
    """
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        return _of_members(column, source, target, rules)
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        element = (source.elementType, target.elementType, rules)
        lost = F.exists(column, lambda one: cast_value(one, *element)[1])
        return F.transform(column, lambda one: cast_value(one, *element)[0]), _certain(lost)
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        value = (source.valueType, target.valueType, rules)
        lost = F.exists(F.map_values(column), lambda one: cast_value(one, *value)[1])
        values = F.transform_values(column, lambda _, one: cast_value(one, *value)[0])
        # The keys go with the whole: Spark has no cast of such as may be lost.
        found, gone = _tried(values, T.MapType(target.keyType, target.valueType), rules)
        return found, _certain(lost) | gone
    return _tried(column, target, rules)


def _of_members(column: Column, source: T.StructType, target: T.StructType, rules: Rules) -> tuple[Column, Column]:
    parts, lost = [], F.lit(False)
    for own, other in zip(members(source, target, rules, "row"), target.fields, strict=True):
        assert own is not None  # `members` fills none
        value, gone = cast_value(column.getField(own.name), own.dataType, other.dataType, rules)
        parts.append(value.alias(other.name))
        lost |= gone
    return F.when(column.isNotNull(), F.struct(*parts)), lost


def _tried(column: Column, target: T.DataType, rules: Rules) -> tuple[Column, Column]:
    kind = as_nullable(target)
    found = column.try_cast(kind) if rules.ansi else column.cast(kind)
    return found, column.isNotNull() & found.isNull()


def _certain(lost: Column) -> Column:
    return F.coalesce(lost, F.lit(False))
