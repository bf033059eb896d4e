"""Rows that Spark's own writer hands over as rows of the table: Spark's ANSI store assignment without a session.

What a value becomes by itself is assigned here, at any depth: numbers among each other, plain values as text, members
of rows by their names in any case. What the session's time zone decides, or Java's text of a number, is refused before
a row is read.

Source: Spark's `Cast` and `Decimal.changePrecision` (HALF_UP)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import types as T

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.lazy import pa, pc
from bucketlake.schema.decimals import decimal_of, double_of, text_of
from bucketlake.spark.assignment import Rules, members, strings, widens
from bucketlake.types.arrow import list_offsets, pairs_of
from bucketlake.types.model import LISTS, DataField, DataType, Root, arrow_type, type_text

_AS_TEXT = (T.BooleanType, T.IntegralType, T.DecimalType, T.DateType)  # whose text is one, whatever the session
_LOCAL = {T.DateType, T.TimestampNTZType}
_WHOLE = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}


def check_alone(source: T.DataType, target: T.DataType, column: str, rules: Rules) -> None:
    """UnsupportedError unless a value that may be assigned to the column becomes one without a session."""
    known = True
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        for own, other in zip(members(source, target, rules, column), target.fields, strict=True):
            if own is not None:
                check_alone(own.dataType, other.dataType, f"{column}.{other.name}", rules)
    elif isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        check_alone(source.elementType, target.elementType, f"{column}.element", rules)
    elif isinstance(source, T.MapType) and isinstance(target, T.MapType):
        check_alone(source.valueType, target.valueType, f"{column}.value", rules)
        source, target, column = source.keyType, target.keyType, f"{column}.key"
        check_alone(source, target, column, rules)
        known = source == target or not isinstance(source, T.AtomicType) or widens(source, target)  # stay different
    else:
        known = _known(source, target)
    if not known:
        raise UnsupportedError(
            "Spark's own writer knows no session, which says what such a value becomes",
            column=column,
            source=source.simpleString(),
            target=target.simpleString(),
            remedy="cast the column in the DataFrame, or write by lake.table('db.t').write(df)",
        )


def _known(source: T.DataType, target: T.DataType) -> bool:
    if isinstance(source, T.NullType) or type(source) is type(target):
        return True
    if isinstance(target, strings()):
        return isinstance(source, (*_AS_TEXT, *strings()))
    return isinstance(source, T.NumericType) or {type(source), type(target)} == _LOCAL


def assigned_batch(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """Rows whose columns were checked, with values of the types of these columns. Errors: InvalidError for numbers that
    the column does not hold."""
    for item in fields:
        place = batch.schema.get_field_index(item.name)
        if place >= 0:
            array = batch.column(place)
            found = _assigned(array, item.type, item)
            if found is not array:
                batch = batch.set_column(place, pa.field(item.name, found.type), found)
    return batch


def _assigned(array: pa.Array, kind: DataType, item: DataField) -> pa.Array:
    """The same array where nothing in it is another's."""
    given = array.type
    nulls = array.is_null() if array.null_count else None
    if kind.root is Root.ROW and pa.types.is_struct(given):
        places = {given.field(at).name.lower(): at for at in range(given.num_fields)}
        exact = {given.field(at).name: at for at in range(given.num_fields)}
        own = [array.field(exact[one.name] if one.name in exact else places[one.name.lower()]) for one in kind.fields]
        parts = [_assigned(part, one.type, item) for part, one in zip(own, kind.fields, strict=True)]
        names = [one.name for one in kind.fields]
        stays = names == list(exact) and all(a is b for a, b in zip(parts, own, strict=True))
        return array if stays or not names else pa.StructArray.from_arrays(parts, names, mask=nulls)
    if kind.root is Root.MAP and kind.key is not None and kind.element is not None and pa.types.is_map(given):
        entries = pairs_of(array)
        keys, values = (entries.flatten().field(at) for at in (0, 1))
        key, value = _assigned(keys, kind.key, item), _assigned(values, kind.element, item)
        stays = key is keys and value is values
        return array if stays else pa.MapArray.from_arrays(list_offsets(entries), key, value, mask=nulls)
    if kind.root in LISTS and kind.element is not None and pa.types.is_list(given):
        flat = array.flatten()
        value = _assigned(flat, kind.element, item)
        return array if value is flat else pa.ListArray.from_arrays(list_offsets(array), value, mask=nulls)
    cast = _cast(given, kind)
    if cast is None or pa.types.is_null(given):
        return array
    try:
        found = cast(array)
    except pa.ArrowInvalid as error:
        raise _unfit(item, str(error).splitlines()[0]) from error
    lost = pc.and_(array.is_valid(), found.is_null())
    if pa.types.is_floating(given) and kind.root is Root.DECIMAL:  # NaN and infinity are NULL to Spark
        lost = pc.and_(lost, pc.fill_null(pc.is_finite(array), False))
    if pc.any(lost).as_py():
        raise _unfit(item, str(array.filter(lost)[0].as_py()))
    return found


def _unfit(item: DataField, value: str) -> InvalidError:
    what = f"column={item.name}, type={type_text(item.type)}"
    return InvalidError(f"[CAST_OVERFLOW_IN_TABLE_INSERT] value does not fit its column [{what}]: {value}")


def _cast(given: pa.DataType, kind: DataType) -> Callable[[pa.Array], pa.Array] | None:
    """How flat values of one type become another's; None where they stay, or are the writer's to convert."""
    kinds, target = pa.types, arrow_type(kind)
    if given == target:
        return None
    fraction = kinds.is_floating(given) or kinds.is_decimal(given)
    if kind.root is Root.DECIMAL and (fraction or kinds.is_integer(given)):
        return lambda array: decimal_of(array, kind.precision or 10, kind.scale or 0)
    if kind.root in _WHOLE and fraction:
        return lambda array: _whole(array, _WHOLE[kind.root], target)
    if kind.root in (Root.FLOAT, Root.DOUBLE) and fraction:
        return lambda array: (double_of(array) if kinds.is_decimal(given) else array).cast(target, safe=False)
    if kind.root in (Root.CHAR, Root.VARCHAR) and not kinds.is_string(given) and not kinds.is_large_string(given):
        return text_of if kinds.is_decimal(given) else lambda array: array.cast(pa.string())
    if kind.root is Root.TIMESTAMP and kinds.is_date(given):
        return lambda array: array.cast(pa.timestamp("us"))
    if kind.root is Root.DATE and kinds.is_timestamp(given):
        return lambda array: pc.floor_temporal(array, unit="day").cast(target)
    return None


def _whole(array: pa.Array, bits: int, target: pa.DataType) -> pa.Array:
    """Numbers without their part, null beyond what so many bits hold."""
    if pa.types.is_decimal(array.type):
        if array.type.precision == array.type.scale:  # no digit before the point; Arrow has no room for another
            return pc.if_else(array.is_valid(), pa.scalar(0, target), None)
        return pc.trunc(array).cast(pa.decimal256(76, 0)).cast(target)
    doubles = pc.trunc(array.cast(pa.float64()))
    inside = pc.and_(pc.greater_equal(doubles, -(2.0 ** (bits - 1))), pc.less(doubles, 2.0 ** (bits - 1)))
    return pc.if_else(inside, doubles, None).cast(target)
