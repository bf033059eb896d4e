"""Which values a column takes, and how: store assignment, names matched at every level.

A session's writes take every value that Spark casts to the column's type, as Paimon's connector does; with
`spark.sql.storeAssignmentPolicy` STRICT only those that cannot be lost. Rows that come without a session
(`Rules()`) follow Spark's ANSI policy.

Source: Spark's `Cast.canAnsiCast`, `Cast.canANSIStoreAssign`, `Cast.canUpCast` (STRICT);
Paimon's `PaimonOutputResolver`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from bucketlake.errors import InvalidError, did_you_mean
from bucketlake.spark.settings import is_case_sensitive, is_set, setting_of
from bucketlake.types.model import DataField, Root
from bucketlake.types.spaced import has_length
from bucketlake.values import dataclass

_DATETIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType)  # each wider than the last
_DIGITS: dict[type[T.DataType], int] = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10, T.LongType: 19}
_UNFIT = "INCOMPATIBLE_DATA_FOR_TABLE"  # Spark's condition for queries whose columns are not the table's
_NESTED = (T.ArrayType, T.MapType, T.StructType)
_INTERVALS = (T.DayTimeIntervalType, T.YearMonthIntervalType)
# Types whose values a write takes as they are: text without a length, no members.
_FINAL = {
    *(Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DECIMAL),
    *(Root.VARCHAR, Root.VARBINARY, Root.DATE, Root.TIMESTAMP, Root.TIMESTAMP_LTZ),
}


@dataclass(frozen=True, slots=True)
class Rules:
    """`policy`: CAST (what Spark casts), ANSI, STRICT or LEGACY; `sensitive`: `spark.sql.caseSensitive`; `ansi`: text
    that is no value fails rather than becomes null (`spark.sql.ansi.enabled`); `fill`: members of rows that are missing
    are null; `instants`: TIMESTAMP columns take values as Spark's TIMESTAMP does, and keep their local times."""

    policy: str = "ANSI"
    sensitive: bool = False
    ansi: bool = True
    fill: bool = False
    instants: bool = False

    @classmethod
    def of(cls, spark: SparkSession) -> Rules:
        """The session's."""
        policy = (setting_of(spark, "spark.sql.storeAssignmentPolicy") or "ANSI").upper()
        return cls(
            "CAST" if policy == "ANSI" else policy,
            is_case_sensitive(spark),
            is_set(spark, "spark.sql.ansi.enabled", "true"),
        )


def matched(given: Sequence[str], wanted: Sequence[str], rules: Rules, column: str = "") -> dict[str, int]:
    """The place among the names `given` of each wanted name that is there, by the session's case.

    Raises: InvalidError for a name that occurs twice or is not wanted. `column`: whose members these are, for errors.
    Names that differ in case alone can only be told apart as they are written.
    """
    exact = rules.sensitive or len({name.lower() for name in wanted}) < len(wanted)

    def key(name: str) -> str:
        return name if exact else name.lower()

    places = {key(name): place for place, name in enumerate(given)}
    prefix = f"{column}." if column else ""
    if len(places) < len(given):
        twice = {key(name) for name in given if sum(key(name) == key(other) for other in given) > 1}
        names = [prefix + name for name in wanted if key(name) in twice] or sorted(twice)
        raise InvalidError(
            f"[{_UNFIT}.AMBIGUOUS_COLUMN_NAME] Cannot write, due to ambiguous column name `{names[0]}`: "
            "it is there twice",
            columns=names,
            remedy="give every column its own name",
        )
    known = {key(name) for name in wanted}
    unknown = [name for name in given if key(name) not in known]
    if unknown:
        kind, what = ("STRUCT_FIELDS", f"extra struct fields at `{column}`") if column else ("COLUMNS", "extra columns")
        remedy = "leave these columns out, or set write.merge-schema"
        near = did_you_mean(unknown[0], [name for name in wanted if key(name) not in places])
        remedy = f"{near} Else {remedy}" if near else remedy
        if rules.fill:  # that is set: what names its columns, in a MERGE, adds no members
            remedy = "leave them out, or let a star or a column of the same name (i = source.i) add them"
        if unknown == ["rowkind"] and not column:
            remedy = '.withColumnRenamed("rowkind", "_VALUE_KIND") writes changes by their kinds'
        raise InvalidError(
            f"[{_UNFIT}.EXTRA_{kind}] Cannot write, {what}: {', '.join(f'`{name}`' for name in unknown)}",
            columns=list(wanted),
            remedy=remedy,
        )
    return {name: places[key(name)] for name in wanted if key(name) in places}


def goes_by_place(given: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a frame that is saved into a folder has as many columns as the table, each in its place or of a name that
    the table lacks: these go by place, as Paimon's connector takes all of them."""
    names, own = [name.lower() for name in given], [name.lower() for name in wanted]
    return len(own) == len(names) and all(a == b or a not in own for a, b in zip(names, own, strict=True))


def members(source: T.StructType, target: T.StructType, rules: Rules, column: str) -> list[T.StructField | None]:
    """The source's member for each of the target's; InvalidError for members that are missing, unknown, ambiguous.
    None for missing ones where these are filled."""
    places = matched(source.names, target.names, rules, column)
    missing = [f"{column}.{name}" for name in target.names if name not in places]
    if missing and not rules.fill:
        raise InvalidError(
            f"[{_UNFIT}.STRUCT_MISSING_FIELDS] Cannot write, nested struct field `{missing[0]}` is missing in source",
            missing=missing,
            remedy="give every member, or set write.merge-schema, which fills it with NULL",
        )
    return [source.fields[places[name]] if name in places else None for name in target.names]


def check_assignment(source: T.DataType, target: T.DataType, column: str, rules: Rules | None = None) -> None:
    """Raise InvalidError unless the rules let `source` be stored in a column of type `target`, by names within."""
    rules = rules or Rules()
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        for own, other in zip(members(source, target, rules, column), target.fields, strict=True):
            if own is None:
                continue
            check_assignment(own.dataType, other.dataType, f"{column}.{other.name}", rules)
    elif isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        check_assignment(source.elementType, target.elementType, f"{column}.element", rules)
    elif isinstance(source, T.MapType) and isinstance(target, T.MapType):
        check_assignment(source.keyType, target.keyType, f"{column}.key", rules)
        check_assignment(source.valueType, target.valueType, f"{column}.value", rules)
    elif not _assignable(source, target, rules.policy):
        raise InvalidError(
            f"[{_UNFIT}.CANNOT_SAFELY_CAST] cannot safely cast",
            column=column,
            source=source.simpleString(),
            target=target.simpleString(),
            policy=rules.policy,
            remedy="cast the value explicitly",
        )


def _assignable(source: T.DataType, target: T.DataType, policy: str) -> bool:
    if isinstance(source, T.NullType) or source == target:
        return True
    if isinstance(source, _NESTED) or isinstance(target, _NESTED):
        return policy in ("CAST", "LEGACY") and (isinstance(target, T.StringType) or _by_variant(source, target))
    if policy == "CAST":
        return _castable(source, target)
    if policy == "LEGACY":
        return True  # what Spark cannot cast at all it says itself
    return _upcast(source, target) if policy == "STRICT" else _ansi(source, target)


def _castable(source: T.DataType, target: T.DataType) -> bool:
    """Whether Spark's ANSI cast knows the pair."""
    if isinstance(target, strings()):
        return True
    if isinstance(target, T.BinaryType):
        return isinstance(source, (*strings(), T.VariantType))
    if isinstance(target, T.VariantType):
        return isinstance(source, T.AtomicType)
    if isinstance(source, T.VariantType):
        return isinstance(target, T.AtomicType)
    if isinstance(target, T.BooleanType):
        return isinstance(source, (*strings(), T.NumericType))
    if isinstance(source, _INTERVALS):  # as a number of its smallest unit
        return isinstance(target, (T.IntegralType, T.DecimalType))
    if isinstance(target, T.NumericType):
        return isinstance(source, (*strings(), T.NumericType, T.BooleanType, T.TimestampType))
    if isinstance(target, T.TimestampType) and isinstance(source, T.NumericType):
        return True
    if source.simpleString().startswith("time("):  # a class that PySpark has not had always; to numbers it is seconds,
        return isinstance(target, (T.TimestampType, T.TimestampNTZType))  # and columns TIME are milliseconds
    return isinstance(target, _DATETIMES) and isinstance(source, (*strings(), *_DATETIMES))


def _by_variant(source: T.DataType, target: T.DataType) -> bool:
    """Whether Spark's cast makes nested values of a VARIANT; or one of them, as it does of arrays alone."""
    if isinstance(source, T.ArrayType):
        return isinstance(target, T.VariantType) and _in_variant(source.elementType, target)
    if not isinstance(source, T.VariantType):
        return False
    if isinstance(target, T.MapType):
        return isinstance(target.keyType, T.StringType) and _in_variant(source, target.valueType)
    if isinstance(target, T.StructType):
        return all(_in_variant(source, item.dataType) for item in target.fields)
    return isinstance(target, T.ArrayType) and _in_variant(source, target.elementType)


def _in_variant(source: T.DataType, target: T.DataType) -> bool:
    other = target if isinstance(source, T.VariantType) else source
    return isinstance(other, T.AtomicType) or _by_variant(source, target)


def _ansi(source: T.DataType, target: T.DataType) -> bool:
    if isinstance(source, T.NumericType) and isinstance(target, T.NumericType):
        return True
    if isinstance(target, strings()):
        return not isinstance(source, T.BinaryType)
    if isinstance(source, _DATETIMES) and isinstance(target, _DATETIMES):
        return True
    return type(source) is type(target)


def _upcast(source: T.DataType, target: T.DataType) -> bool:
    """Whether no value can be lost, by what Spark takes for it: times are seconds to BIGINT, bytes are text."""
    if isinstance(target, strings()):
        return not isinstance(source, T.VariantType)
    if {type(source), type(target)} == {T.LongType, T.TimestampType}:
        return True
    if isinstance(source, _DATETIMES):
        return isinstance(target, (T.TimestampType, T.TimestampNTZType))
    if isinstance(source, T.NumericType) and isinstance(target, T.NumericType):
        return widens(source, target) or _precedes(source, target)
    return type(source) is type(target) and not isinstance(source, T.DecimalType)


def _precedes(source: T.DataType, target: T.DataType) -> bool:
    if isinstance(source, T.DecimalType):
        return bool(source.scale == 0 and source.precision < _DIGITS.get(type(target), 0))
    return type(target) in _NUMBERS and _NUMBERS.index(type(source)) <= _NUMBERS.index(type(target))


def widens(source: T.DataType, target: T.DataType) -> bool:
    """Whether every value of one type is a value of the other, so that a plain cast cannot fail."""
    digits = _DIGITS.get(type(source))
    if isinstance(source, T.NullType):
        return True
    if digits and type(target) in _DIGITS:
        return digits <= _DIGITS[type(target)]
    if isinstance(source, T.FloatType):
        return isinstance(target, T.DoubleType)
    if isinstance(target, T.DecimalType):
        scale = source.scale if isinstance(source, T.DecimalType) else 0
        whole = source.precision - scale if isinstance(source, T.DecimalType) else digits
        return whole is not None and whole <= target.precision - target.scale and scale <= target.scale
    return isinstance(target, T.StringType) and not isinstance(source, _NESTED)


def positional(source: T.DataType, target: T.DataType) -> T.DataType:
    """The source's type with the target's member names, place by place: the type to which a value is cast that is to be
    assigned by position. Members beyond the target's keep their names: they are refused, or become new ones."""
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        pairs = zip(source.fields, target.fields, strict=False)
        named = [T.StructField(b.name, positional(a.dataType, b.dataType), True) for a, b in pairs]
        return T.StructType([*named, *source.fields[len(named) :]])
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        return T.ArrayType(positional(source.elementType, target.elementType), True)
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        key, value = positional(source.keyType, target.keyType), positional(source.valueType, target.valueType)
        return T.MapType(key, value, True)
    return source


def typed(source: T.StructType, target: T.StructType, rules: Rules) -> T.StructType:
    """The source's columns, at any depth, those that no value gives a type (a bare NULL) with that of the target's of
    the same name."""
    fold: Callable[[str], str] = str if rules.sensitive else str.lower
    known = {fold(field.name): field.dataType for field in target.fields}
    fields = []
    for field in source.fields:
        wanted = known.get(fold(field.name), field.dataType)
        fields.append(T.StructField(field.name, _typed(field.dataType, wanted, rules), field.nullable, field.metadata))
    return T.StructType(fields)


def _typed(source: T.DataType, target: T.DataType, rules: Rules) -> T.DataType:
    if isinstance(source, T.NullType):
        return target
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        return typed(source, target, rules)
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        return T.ArrayType(_typed(source.elementType, target.elementType, rules), source.containsNull)
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        key = _typed(source.keyType, target.keyType, rules)
        return T.MapType(key, _typed(source.valueType, target.valueType, rules), source.valueContainsNull)
    return source


def strings() -> tuple[type[T.DataType], ...]:
    """The types that hold text."""
    return (T.StringType, T.CharType, T.VarcharType)


def is_final(fields: Sequence[DataField]) -> bool:
    """Whether rows of these columns need no Spark any more to be written: a write would cast, pad and cut none."""
    return all(item.type.root in _FINAL and not has_length(item.type) for item in fields)
