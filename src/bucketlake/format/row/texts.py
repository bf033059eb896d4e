"""Values of columns as texts, and back: as folders of partitions are named by them, and as CAST prints them.

Spec: docs/spec/paths.md
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from decimal import Decimal
from typing import Any

from bucketlake.errors import InvalidError
from bucketlake.format.row.binary_row import EPOCH_DAY, time_millis, unscaled
from bucketlake.schema.validation import nameless_folder
from bucketlake.types.model import DataType, Root, type_text


def internal_text(value: Any, kind: DataType) -> str:
    """Java's toString of the internal value: dates are epoch days, times milliseconds, timestamps ISO with T."""
    if kind.root is Root.DATE:
        return str(value if isinstance(value, int) else value.toordinal() - EPOCH_DAY)
    if kind.root is Root.TIME:
        return str(value if isinstance(value, int) else time_millis(value))
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return _iso(*_seconds(value, kind))
    return _plain_text(value, kind)


def cast_text(value: Any, kind: DataType) -> str:
    """The value cast to a string as SQL does it; local-zoned timestamps in the zone of this process."""
    if kind.root is Root.DATE:
        return str(_in_range(value).isoformat())
    if kind.root is Root.TIME:
        millis = time_millis(_in_range(value))
        fraction = f"{millis % 1000:03d}"[: kind.precision or 0].rstrip("0") or "0"
        clock = f"{millis // 3_600_000:02d}:{millis // 60_000 % 60:02d}:{millis // 1000 % 60:02d}"
        return f"{clock}.{fraction}" if kind.precision else clock
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        seconds, nanos = _seconds(value, kind)
        if kind.root is Root.TIMESTAMP_LTZ:
            seconds = seconds.replace(tzinfo=dt.timezone.utc).astimezone().replace(tzinfo=None)
        precision = 6 if kind.precision is None else kind.precision
        fraction = f".{nanos:09d}"[: precision + 1] if precision else ""
        return seconds.isoformat(" ") + fraction
    if isinstance(value, bytes):
        return _decoded(value)
    return _plain_text(value, kind)


def _decoded(value: bytes) -> str:
    """Bytes that are text: others would share a name, from which they could not be read again."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidError("bytes that are not UTF-8 have no name", value=value[:40].hex()) from error


def _in_range(value: Any) -> Any:
    if isinstance(value, int):
        raise InvalidError("date, time or timestamp outside of what can be written as text", value=value)
    return value


def _plain_text(value: Any, kind: DataType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return _java_float(value, kind)
    if isinstance(value, bytes):
        raise nameless_folder()
    return str(value)


def _java_float(value: float, kind: DataType) -> str:
    """Java's Double.toString / Float.toString: shortest digits, scientific outside [1e-3, 1e7)."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    shortest = repr(value) if kind.root is Root.DOUBLE else _shortest_float(value)
    sign, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(str(digit) for digit in digits)
    stripped = text.rstrip("0") or "0"
    point = len(text) + int(exponent)
    minus = "-" if sign else ""
    if value == 0:
        return minus + "0.0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{stripped}"
        whole = stripped[:point].ljust(point, "0")
        return f"{minus}{whole}.{stripped[point:] or '0'}"
    return f"{minus}{stripped[0]}.{stripped[1:] or '0'}E{point - 1}"


def _shortest_float(value: float) -> str:
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if _as_float32(float(text)) == _as_float32(value):
            return text
    return repr(value)


def _as_float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:  # few digits of the greatest values round to more than the type holds
        return b""


def _seconds(value: Any, kind: DataType) -> tuple[dt.datetime, int]:
    """A timestamp's whole seconds, without zone, and its nanoseconds of the second."""
    if (kind.precision or 0) > 6:
        seconds, nanos = divmod(value, 1_000_000_000)
        return _in_range(_after_epoch(seconds)), nanos
    value = _in_range(value)
    return value.replace(microsecond=0, tzinfo=None), value.microsecond * 1000


def _after_epoch(seconds: int) -> dt.datetime | int:
    try:
        return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
    except OverflowError:
        return seconds


def _iso(seconds: dt.datetime, nanos: int) -> str:
    """Java's LocalDateTime.toString: seconds and fraction only where they are not zero, in groups of three digits."""
    text = seconds.isoformat("T", "minutes")
    if seconds.second or nanos:
        text += f":{seconds.second:02d}"
    if nanos:
        fraction = f"{nanos:09d}"
        while fraction.endswith("000"):
            fraction = fraction[:-3]
        text += f".{fraction}"
    return text


# ---------------------------------------------------------------------------------------------- texts to values


def parse_value(text: str, kind: DataType) -> Any:
    """The value of a partition column that a text stands for: both spellings of dates and times are taken.

    Raises: InvalidError for a text that is no value of the type.
    """
    try:
        return _parsed(text, kind)
    except (ValueError, OverflowError, ArithmeticError) as error:
        raise InvalidError("not a value of its column", text=text, type=type_text(kind)) from error


def _parsed(text: str, kind: DataType) -> Any:
    root = kind.root
    if root in (Root.CHAR, Root.VARCHAR):
        return text
    if root in (Root.BINARY, Root.VARBINARY):
        return text.encode()
    if root is Root.BOOLEAN:
        return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _refuse(text)
    if root in (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT):
        return _whole(text, kind)
    if root in (Root.FLOAT, Root.DOUBLE):
        return float(text)
    if root is Root.DECIMAL:
        value = Decimal(text)
        unscaled(value, kind)
        return value
    if root is Root.DATE:
        return dt.date.fromordinal(EPOCH_DAY + int(text)) if _WHOLE.fullmatch(text) else dt.date.fromisoformat(text)
    if root is Root.TIME:
        if _WHOLE.fullmatch(text):
            return (dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=int(text))).time()
        return dt.time.fromisoformat(_six_digits(text))
    if root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return _parsed_stamp(text, kind)
    return _refuse(text)


_WHOLE = re.compile(r"[+-]?\d+")
_STAMP = re.compile(r"(\d{4,}-\d{1,2}-\d{1,2})(?:[ T](\d{1,2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?)?")
_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}


def _whole(text: str, kind: DataType) -> int:
    value = int(text)
    limit = 1 << (_BITS[kind.root] - 1)
    return value if -limit <= value < limit else _refuse(text)


def _six_digits(text: str) -> str:
    """ISO text whose fraction has the digits that Python's parsers take."""
    head, point, fraction = text.partition(".")
    return head + point + fraction[:6].ljust(6, "0") if point else text


def _parsed_stamp(text: str, kind: DataType) -> Any:
    found = _STAMP.fullmatch(text)
    if found is None:
        return _refuse(text)
    date = "-".join(part.zfill(2) for part in found[1].split("-"))
    value = dt.datetime.fromisoformat(f"{date}T{(found[2] or '00:00').zfill(5)}")
    nanos = int((found[3] or "").ljust(9, "0"))
    if kind.root is Root.TIMESTAMP_LTZ:
        value = value.astimezone(dt.timezone.utc)
    if (kind.precision or 0) > 6:
        plain = value.replace(tzinfo=None)
        return (plain - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=1) * 1_000_000_000 + nanos
    return value.replace(microsecond=nanos // 1000)


def _refuse(text: str) -> Any:
    raise ValueError(text)
