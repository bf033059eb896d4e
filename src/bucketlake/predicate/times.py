"""Dates, times and timestamps beside columns: texts that are read as Spark reads them, and comparisons on coarser or
finer columns.

Spec: docs/spec/types.md#predicates
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bucketlake.predicate.numbers import Beyond
from bucketlake.predicate.tree import And, Compare, Constant, In, IsNotNull, Not, Operator, Or, Predicate
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

__all__ = ["Stamp", "as_date", "as_time", "compare_stamp", "date_of", "stamp_of", "zone_of"]

_DATE = re.compile(r"[ \t\r\n]*(\d{4})-(\d{1,2})-(\d{1,2})[ \t\r\n]*", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,3})?)?", re.ASCII)
_STAMP = re.compile(
    r"[ \t\r\n]*(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})0*)?)?[ ]?(Z|[+-]\d{2}:\d{2}|UTC)?)?[ \t\r\n]*",
    re.ASCII,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?", re.ASCII)
_UTC = dt.timezone.utc
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Stamp:
    """A literal of a timestamp type: `zoneless` is TIMESTAMP_NTZ; else a naive value is in the session's zone."""

    value: dt.datetime
    zoneless: bool


def zone_of(name: str) -> dt.tzinfo | None:
    """A time zone by its name or offset, as a session of Spark's has it; None for one that is not known here."""
    if name == "Z":
        return _UTC
    found = _OFFSET.fullmatch(name)
    try:
        if found is None:
            return ZoneInfo(name)
        hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return dt.timezone(-offset if found[1] == "-" else offset)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def date_of(text: str) -> dt.date:
    """The date that a text stands for."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise Beyond
    try:
        return dt.date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError as error:
        raise Beyond from error


def as_date(value: Any) -> dt.date:
    """A literal beside a DATE column."""
    if isinstance(value, str):
        return date_of(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    raise Beyond


def as_time(value: Any) -> dt.time:
    """A literal beside a TIME column: milliseconds of the day, as DataFrames have them, or 'hh:mm:ss[.fff]'."""
    if isinstance(value, int) and 0 <= value < 86_400_000:
        return (_EPOCH + dt.timedelta(milliseconds=value)).time()
    if isinstance(value, str) and _TIME.fullmatch(value):
        try:
            return dt.time.fromisoformat(value if "." not in value else value.ljust(12, "0"))
        except ValueError as error:
            raise Beyond from error
    raise Beyond


def stamp_of(text: str) -> dt.datetime:
    """The timestamp that a text stands for, aware if it has an offset."""
    found = _STAMP.fullmatch(text)
    if found is None:
        raise Beyond
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        value = dt.datetime(year, month, day, hour, minute, second, int((found[7] or "").ljust(6, "0")))
        zone = found[8]
        if zone is None:
            return value
        if zone in ("Z", "UTC"):
            return value.replace(tzinfo=_UTC)
        offset = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
        return value.replace(tzinfo=dt.timezone(-offset if zone[0] == "-" else offset))
    except ValueError as error:
        raise Beyond from error


def compare_stamp(field: DataField, op: Operator, value: dt.datetime) -> Predicate:
    """`column op value` over a timestamp column of any precision; aware beside local-zoned ones.

    Columns finer than a microsecond are compared by the microseconds that Spark sees; before 1970 it is not certain
    which these are.
    """
    precision = 6 if field.type.precision is None else field.type.precision
    if precision <= 3:
        rest = value.microsecond % 1000
        floor = value - dt.timedelta(microseconds=rest)
        if rest == 0:
            return Compare(field.name, op, value)
        if op in ("<=>", "=", "<>"):
            never = In(field.name, ())
            return Constant(False) if op == "<=>" else never if op == "=" else Not(never)
        if op in ("<", "<="):
            return Compare(field.name, "<=", floor)
        try:
            return Compare(field.name, ">=", floor + dt.timedelta(milliseconds=1))
        except OverflowError as error:
            raise Beyond from error
    if precision <= 6:
        return Compare(field.name, op, value)
    return _finer(field.name, op, value)


def _finer(name: str, op: Operator, value: dt.datetime) -> Predicate:
    if value.replace(tzinfo=None) <= _EPOCH:
        raise Beyond
    try:
        after = value + _MICROSECOND
    except OverflowError as error:
        raise Beyond from error
    least, below = Compare(name, ">=", value), Compare(name, "<", after)
    if op == "=":
        return And((least, below))
    if op == "<=>":
        return And((IsNotNull(name), least, below))
    if op == "<>":
        return Or((Compare(name, "<", value), Compare(name, ">=", after)))
    return {">=": least, "<=": below, "<": Compare(name, "<", value), ">": Compare(name, ">=", after)}[op]
