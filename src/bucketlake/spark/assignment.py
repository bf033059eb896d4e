"""Which value types a column takes: Spark's ANSI store assignment, for rows that reach a table by name or position."""

from __future__ import annotations

from pyspark.sql import types as T

from bucketlake.errors import InvalidError

_DATETIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)


def check_assignment(source: T.DataType, target: T.DataType, column: str) -> None:
    """Raise InvalidError unless Spark's ANSI rule lets `source` be stored in a column of type `target`.

    Source: Spark's `Cast.canANSIStoreAssign`.
    """
    if not _assignable(source, target):
        raise InvalidError(
            "cannot safely cast",
            column=column,
            source=source.simpleString(),
            target=target.simpleString(),
            remedy="cast the value explicitly",
        )


def _assignable(source: T.DataType, target: T.DataType) -> bool:
    if isinstance(source, T.NullType) or source == target:
        return True
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        return _assignable(source.elementType, target.elementType)
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        return _assignable(source.keyType, target.keyType) and _assignable(source.valueType, target.valueType)
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        return len(source) == len(target) and all(
            _assignable(a.dataType, b.dataType) for a, b in zip(source.fields, target.fields, strict=True)
        )
    if isinstance(source, (T.ArrayType, T.MapType, T.StructType)) or isinstance(
        target, (T.ArrayType, T.MapType, T.StructType)
    ):
        return False
    if isinstance(source, T.NumericType) and isinstance(target, T.NumericType):
        return True
    if isinstance(target, _strings()):
        return not isinstance(source, T.BinaryType)
    if isinstance(source, _DATETIMES) and isinstance(target, _DATETIMES):
        return True
    return type(source) is type(target)


def _strings() -> tuple[type[T.DataType], ...]:
    return (T.StringType, T.CharType, T.VarcharType)
