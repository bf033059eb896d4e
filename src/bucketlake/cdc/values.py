"""Texts of events as values of a table's columns, as Spark expressions: null where a text is no such value.

Spec: docs/cdc.md#values
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from bucketlake.cdc.shapes import Coding, Reading
from bucketlake.spark.types import spark_type
from bucketlake.types.model import LISTS, MAX_LENGTH, DataType, Root

MARK = "\ufdd0"  # stands before numbers that were put in quotes: no character of any text
_TEXTS = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
_TRUE = ("true", "t", "yes", "y", "1")
_FALSE = ("false", "f", "no", "n", "0")
_FIRST_MICRO, _LAST_MICRO = -62_135_596_800_000_000, 253_402_300_799_999_999  # of the years 1 and 9999
_DAY_MILLIS = 86_400_000
_ZONED = r"[0-9](Z|[+-][0-9]{2}(:?[0-9]{2})?)\s*$"
_DATED = r"^\s*[0-9]{4,6}-"
_CLOCK = r"^\s*([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?\s*$"


# ---------------------------------------------------------------------------------------------- exact numbers


def exact_numbers(text: Column) -> Column:
    """JSON text whose numbers with a fraction stand in quotes behind `MARK`: Spark's parser would round them to double
    precision. All numbers, where decimals come as texts too: which is which must be seen."""
    # \G: matches follow each other from the start, so that none begins inside a string.
    head = r'\G((?:[^"0-9-]|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+)'
    number = r"(-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)"
    fraction = r"(-?[0-9]++(?:(?:\.[0-9]++)(?:[eE][+-]?[0-9]++)?+|[eE][+-]?[0-9]++))"
    whole = r"\G((?:[^\"0-9-]|\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|-?[0-9]++(?![.eE0-9]))*+)"
    marked = f'$1"{MARK}$2"'
    decimals = F.regexp_replace(text, head + number, marked)
    fractions = F.regexp_replace(text, whole + fraction, marked)
    return (
        F.when(text.contains(MARK), text)
        .when(text.contains("connect.data.Decimal"), decimals)
        .when(text.rlike(r"[:,\[]\s*-?[0-9]+[.eE]"), fractions)
        .otherwise(text)
    )


def unmarked(text: Column) -> Column:
    """A value's text with its numbers as they were."""
    inner = F.regexp_replace(text, f'"{MARK}([^"]*)"', "$1")
    bare = F.when(text.startswith(MARK), F.substring(text, 2, MAX_LENGTH))  # nothing but a number begins so
    return bare.when(text.contains(MARK), inner).otherwise(text)


# ---------------------------------------------------------------------------------------------- values


def value(text: Column, reading: Reading, target: DataType) -> Column:
    """A value of the Spark type of `target`; null where the text is null or no such value. `text`: unmarked, but for
    decimals (`UNSCALED`)."""
    coded = _CODED.get(reading.coding)
    return _cast(text, target) if coded is None else coded(text, reading, target)


def _cast(text: Column, target: DataType) -> Column:
    """Text as it is written in SQL and JSON."""
    root, kind = target.root, spark_type(target)
    if root in _TEXTS:
        return _fitting(text, target, F.char_length)
    if root is Root.BOOLEAN:
        word = F.lower(F.trim(text))
        return F.when(word.isin(*_TRUE), F.lit(True)).when(word.isin(*_FALSE), F.lit(False))
    if root is Root.BINARY:
        return _fitting(F.try_to_binary(text, F.lit("base64")), target, F.octet_length)
    if root is Root.VARBINARY:
        return _fitting(F.encode(text, "UTF-8"), target, F.octet_length)
    if root is Root.TIME:
        return _clock(text)
    if root is Root.DATE:
        return F.when(text.rlike(_DATED), text.try_cast("date"))
    if root is Root.TIMESTAMP:
        zoned = _at_utc(text.try_cast("timestamp"))
        return F.when(text.rlike(_DATED), F.when(text.rlike(_ZONED), zoned).otherwise(text.try_cast("timestamp_ntz")))
    if root is Root.TIMESTAMP_LTZ:
        return F.when(text.rlike(_DATED), text.try_cast("timestamp"))
    if root is Root.ARRAY and target.element is not None and target.element.root in _TEXTS:
        listed = F.split(F.regexp_replace(text, r"^\[|\]$", ""), ",")
        return F.when(text.rlike(r"^\s*\["), F.coalesce(F.from_json(text, kind), listed)).otherwise(listed)
    if root in (*LISTS, Root.MAP, Root.ROW):
        return F.from_json(text, kind)
    return text.try_cast(kind)


def _fitting(found: Column, target: DataType, size: Callable[[Column], Column]) -> Column:
    if target.length in (None, MAX_LENGTH):
        return found
    return F.when(size(found) <= target.length, found)


def _clock(text: Column) -> Column:
    """Milliseconds of the day, of "17:32:10.904"."""
    hour, minute, second = (F.regexp_extract(text, _CLOCK, group) for group in (1, 2, 3))
    millis = F.rpad(F.substring(F.regexp_extract(text, _CLOCK, 4), 1, 3), 3, "0")
    second = F.when(second == "", F.lit("0")).otherwise(second)
    total = ((hour.try_cast("int") * 60 + minute.try_cast("int")) * 60 + second.try_cast("int")) * 1000
    total = total + millis.try_cast("int")
    return F.when(text.rlike(_CLOCK) & (total < _DAY_MILLIS), total.cast("int"))


def _clock_text(millis: Column) -> Column:
    return F.date_format(_from_micros(millis.cast("long") * 1000), "HH:mm:ss.SSS")


def _from_micros(micros: Column) -> Column:
    """A zoneless time, of microseconds since 1970-01-01."""
    inside = micros.between(_FIRST_MICRO, _LAST_MICRO)
    seconds = (micros.cast("decimal(20,0)") / F.lit(1_000_000).cast("decimal(7,0)")).cast("decimal(18,6)")
    return F.when(inside, F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'") + F.make_dt_interval(secs=seconds))


def _at_utc(instant: Column) -> Column:
    return _from_micros(F.unix_micros(instant))


# ---------------------------------------------------------------------------------------------- codings


def _base64(text: Column, _: Reading, target: DataType) -> Column:
    return _bytes(F.try_to_binary(text, F.lit("base64")), target)


def _bytes(found: Column, target: DataType) -> Column:
    if target.root in _BYTES:
        return _fitting(found, target, F.octet_length)
    return _cast(found.cast("string"), target)


def _bits(text: Column, _: Reading, target: DataType) -> Column:
    digits = F.hex(F.try_to_binary(text, F.lit("base64")))
    turned = F.array_join(F.reverse(F.regexp_extract_all(digits, F.lit("(..)"), F.lit(1))), "")
    if target.root in _BYTES:
        return _fitting(F.unhex(turned), target, F.octet_length)
    if target.root in _TEXTS:
        return F.lpad(F.conv(turned, 16, 2), F.length(turned) * 4, F.lit("0"))
    return F.conv(turned, 16, 10).try_cast(spark_type(target))


def _unscaled(text: Column, reading: Reading, target: DataType) -> Column:
    digits = F.hex(F.try_to_binary(text, F.lit("base64")))
    negative = F.conv(F.substring(digits, 1, 1), 16, 10).cast("int") >= 8
    padded = F.lpad(digits, 32, F.when(negative, F.lit("F")).otherwise(F.lit("0")))
    high = F.conv(F.substring(padded, 1, 16), 16, -10).cast("decimal(20,0)")
    low = F.conv(F.substring(padded, 17, 16), 16, 10).cast("decimal(20,0)")
    whole = F.try_add(F.try_multiply(high, F.lit(str(1 << 64)).cast("decimal(20,0)")), low).try_cast("decimal(38,0)")
    unscaled = F.when(F.length(digits).between(2, 32), whole)
    if reading.scale:
        text_of = F.concat(unscaled.cast("string"), F.lit(f"E-{reading.scale}"))
        unscaled = text_of.try_cast(f"decimal(38,{min(reading.scale, 38)})")
    number = F.regexp_replace(text, f"^{MARK}", "")
    found = F.when(text.startswith(MARK), number).otherwise(unscaled.cast("string"))
    return _cast(found, target)


def _days(text: Column, _: Reading, target: DataType) -> Column:
    days = text.try_cast("int")
    found = F.when(days.between(-719_162, 2_932_896), F.date_from_unix_date(days))
    return _timely(text, found, F.date_format(found, "yyyy-MM-dd"), target, (Root.DATE, Root.TIMESTAMP))


def _since_1970(units: int, digits: int) -> Callable[[Column, Reading, DataType], Column]:
    def read(text: Column, _: Reading, target: DataType) -> Column:
        number = text.try_cast("bigint")
        micros = _scaled(number, units)
        found = _from_micros(micros)
        shown = F.date_format(found, "yyyy-MM-dd HH:mm:ss." + "S" * digits)
        if target.root is Root.TIMESTAMP_LTZ:
            inside = micros.between(_FIRST_MICRO, _LAST_MICRO)
            return F.when(inside, F.timestamp_micros(micros))
        return _timely(text, found, shown, target, (Root.TIMESTAMP, Root.DATE))

    return read


def _scaled(number: Column, units: int) -> Column:
    """Microseconds, of a number of which `units` are a second."""
    if units < 1_000_000:
        return F.try_multiply(number, F.lit(1_000_000 // units))
    return number if units == 1_000_000 else F.floor(number / F.lit(units // 1_000_000)).cast("bigint")


def _of_day(units: int) -> Callable[[Column, Reading, DataType], Column]:
    def read(text: Column, _: Reading, target: DataType) -> Column:
        number = text.try_cast("bigint")
        millis = number if units == 1_000 else F.floor(number / F.lit(units // 1_000))
        found = F.when((millis >= 0) & (millis < _DAY_MILLIS), millis.cast("int"))
        return _timely(text, found, _clock_text(found), target, (Root.TIME,))

    return read


def _timely(text: Column, found: Column, shown: Column, target: DataType, roots: tuple[Root, ...]) -> Column:
    """A time for columns of these types, its text for text, for others the number that it is."""
    if target.root in roots:
        return found.cast(spark_type(target))
    return _fitting(shown, target, F.char_length) if target.root in _TEXTS else _cast(text, target)


def _instant(text: Column, _: Reading, target: DataType) -> Column:
    if target.root in _TEXTS:
        return _fitting(
            F.date_format(_at_utc(text.try_cast("timestamp")), "yyyy-MM-dd HH:mm:ss.SSSSSS"), target, F.length
        )
    return _cast(text, target)


def _latin1(text: Column, _: Reading, target: DataType) -> Column:
    if target.root not in _BYTES:
        return _cast(text, target)
    narrow = text.rlike("^[\\x{0}-\\x{ff}]*$")
    found = F.when(narrow, F.encode(F.when(narrow, text), "ISO-8859-1")).otherwise(F.encode(text, "UTF-8"))
    return _fitting(found, target, F.octet_length)


def _member(text: Column, reading: Reading, target: DataType) -> Column:
    known = F.array(*[F.lit(item) for item in reading.members])
    number = F.when(text.rlike("^[0-9]{1,5}$"), text.try_cast("int"))
    numbered = F.when(number.between(1, len(reading.members)), F.try_element_at(known, number))
    named = F.when(text.isin(*reading.members) | number.isNull(), text)
    return _cast(F.coalesce(named, numbered, text), target)


def _members(text: Column, reading: Reading, target: DataType) -> Column:
    bits = F.when(text.rlike("^[0-9]{1,18}$") & ~text.isin(*reading.members), text.try_cast("bigint"))
    members = list(enumerate(reading.members))
    each = [F.when(bits.bitwiseAND(F.lit(1 << place)) != 0, F.lit(item)) for place, item in members]
    chosen = F.array_compact(F.array(*each)) if each else F.array().cast("array<string>")
    plain = F.regexp_replace(text, r"^\[|\]$", "")
    listed = F.when(plain == "", F.array().cast("array<string>")).otherwise(F.split(plain, ","))
    found = F.when(bits.isNotNull(), chosen).otherwise(listed)
    if target.root is Root.ARRAY:
        return F.when(text.isNotNull(), found)
    return _cast(F.array_join(found, ","), target)


def _number(text: Column, _: Reading, target: DataType) -> Column:
    if target.root not in _BYTES:
        return _cast(text, target)
    digits = F.hex(text.try_cast("bigint"))
    size = 2 * (target.length or 8)
    return F.when(F.length(digits) <= size, F.unhex(F.lpad(digits, size, "0")))


_CODED: dict[Coding, Callable[[Column, Reading, DataType], Column]] = {
    Coding.BASE64: _base64,
    Coding.BITS: _bits,
    Coding.UNSCALED: _unscaled,
    Coding.DAYS: _days,
    Coding.MILLIS: _since_1970(1_000, 3),
    Coding.MICROS: _since_1970(1_000_000, 6),
    Coding.NANOS: _since_1970(1_000_000_000, 6),
    Coding.DAY_MILLIS: _of_day(1_000),
    Coding.DAY_MICROS: _of_day(1_000_000),
    Coding.DAY_NANOS: _of_day(1_000_000_000),
    Coding.INSTANT: _instant,
    Coding.LATIN1: _latin1,
    Coding.MEMBER: _member,
    Coding.MEMBERS: _members,
    Coding.NUMBER: _number,
}
