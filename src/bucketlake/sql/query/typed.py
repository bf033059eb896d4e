"""Comparisons of a column with literals as predicates, where every setting of Spark gives them the same meaning.

A literal beside a column of its own family only: numbers that either type holds exactly, text beside text, moments
written in full. What would be cast, rounded or read by a rule of the session has no answer here.

Spec: docs/spec/pushdown.md#typed
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from bucketlake.predicate.tree import Compare, Constant, Contains, EndsWith, In, Not, Operator, Predicate, StartsWith
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

WHOLE = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_LONGEST_DECIMAL = 38
_LONG_DIGITS = 20  # of a BIGINT as a decimal
_GREATEST = (1 << 63) - 1
_EXACT_INTS = {Root.FLOAT: 1 << 24, Root.DOUBLE: 1 << 53}  # the whole numbers up to here are numbers of the type
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_STAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?")
_SIMPLE = (*WHOLE, Root.BOOLEAN, Root.DECIMAL, Root.FLOAT, Root.DOUBLE, Root.VARCHAR, Root.DATE)
PLAIN_TYPES = (*_SIMPLE, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


@dataclass(frozen=True, slots=True)
class Moment:
    """A literal DATE '…' or TIMESTAMP '…': `kind` is date, local (no zone) or zoned; `text` as written."""

    kind: str
    text: str


Value = int | Decimal | float | str | bool | Moment | None


def compare(field: DataField, op: Operator, value: Value) -> Predicate | None:
    """`column op literal` with SQL's truth; None where it is not certain."""
    root = field.type.root
    if value is None or isinstance(value, bool) != (root is Root.BOOLEAN):
        return None
    if isinstance(value, bool):
        return Compare(field.name, op, value)
    if root in WHOLE or root is Root.DECIMAL:
        return _on_grid(field, op, value) if isinstance(value, (int, Decimal)) else None
    if root in (Root.FLOAT, Root.DOUBLE):
        found = _real(root, value)
        return None if found is None else Compare(field.name, op, found)
    if root is Root.VARCHAR:
        return Compare(field.name, op, value) if isinstance(value, str) and _encodes(value) else None
    literal = _moment(field, value)
    return None if literal is None else Compare(field.name, op, literal)


def is_in(field: DataField, values: Sequence[Value]) -> Predicate | None:
    """`column IN (literals)`; None where it is not certain."""
    if not _held(field, [value for value in values if isinstance(value, (int, Decimal))]):
        return None  # Spark would compare rounded
    found: list[Any] = []
    for value in values:
        if value is None:
            found.append(None)
            continue
        if isinstance(value, str) and field.type.root is not Root.VARCHAR:
            return None  # a list is brought to one type, which may be text
        one = compare(field, "=", value)
        if isinstance(one, Compare):
            found.append(one.literal)
        elif not (isinstance(one, In) and not one.values):
            return None
    return In(field.name, tuple(dict.fromkeys(found)))


def like(field: DataField, pattern: Value) -> Predicate | None:
    """`column LIKE pattern` where the pattern has wildcards for any text at its ends alone."""
    if field.type.root is not Root.VARCHAR or not isinstance(pattern, str) or not _encodes(pattern):
        return None
    inner = pattern.strip("%")
    if not inner or any(mark in inner for mark in "%_\\"):
        return None
    first, last = pattern.startswith("%"), pattern.endswith("%")
    if first:
        return Contains(field.name, inner) if last else EndsWith(field.name, inner)
    return StartsWith(field.name, inner) if last else Compare(field.name, "=", inner)


def call(field: DataField, kind: type[StartsWith] | type[EndsWith] | type[Contains], text: Value) -> Predicate | None:
    """`startswith(column, text)` and its like; None where it is not certain."""
    if field.type.root is not Root.VARCHAR or not isinstance(text, str) or not text or not _encodes(text):
        return None
    return kind(field.name, text)


def _encodes(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _on_grid(field: DataField, op: Operator, value: int | Decimal) -> Predicate | None:
    """A comparison with a number that the column's type may not be able to hold, in whole steps of the type."""
    kind = field.type
    scale = kind.scale or 0 if kind.root is Root.DECIMAL else 0
    digits, places = _digits(value)
    precision = (kind.precision or 10) if kind.root is Root.DECIMAL else 19
    if not _held(field, [value]):
        return None  # Spark would compare rounded
    if kind.root in WHOLE and abs(digits) > _GREATEST * 10**places:
        return None  # Spark takes `i < 9223372036854775807.5` for true of nulls, too
    scaled, rest = divmod(digits * 10 ** max(scale - places, 0), 10 ** max(places - scale, 0))
    high = (1 << (WHOLE[kind.root] - 1)) - 1 if kind.root in WHOLE else 10**precision - 1
    low = -high - 1 if kind.root in WHOLE else -high
    if scaled > high or scaled < low or (rest and scaled == high):
        above = scaled > 0
        return _never(field.name, op, op in (("<", "<=", "<>") if above else (">", ">=", "<>")))
    if not rest:
        return Compare(field.name, op, _stored(scaled, scale, kind.root))
    if op in ("<", "<="):
        return Compare(field.name, "<=", _stored(scaled, scale, kind.root))
    if op in (">", ">="):
        return Compare(field.name, ">=", _stored(scaled + 1, scale, kind.root))
    return _never(field.name, op, op == "<>")


def _held(field: DataField, values: Sequence[int | Decimal]) -> bool:
    """Whether the one type to which Spark brings a column of whole numbers or decimals and numbers beside it, a whole
    list of them, holds all as they are."""
    kind = field.type
    numbers = [_digits(value) for value in values]
    if not numbers or (kind.root is not Root.DECIMAL and not (kind.root in WHOLE and any(p for _, p in numbers))):
        return True
    precision, scale = (kind.precision or 10, kind.scale or 0) if kind.root is Root.DECIMAL else (_LONG_DIGITS, 0)
    whole = max(precision - scale, _LONG_DIGITS, *(len(str(abs(digits))) - places for digits, places in numbers))
    return whole + max(scale, *(places for _, places in numbers)) <= _LONGEST_DECIMAL


def _never(column: str, op: Operator, holds: bool) -> Predicate:
    """A comparison that is the same for every value: NULL for null, but for `<=>`."""
    if op == "<=>":
        return Constant(False)
    return Not(In(column, ())) if holds else In(column, ())


def _digits(value: int | Decimal) -> tuple[int, int]:
    """A number as a whole number and its count of decimal places."""
    if isinstance(value, int):
        return value, 0
    sign, figures, exponent = value.as_tuple()
    whole = int("".join(map(str, figures)))
    return (-whole if sign else whole), -int(exponent)


def _stored(steps: int, scale: int, root: Root) -> int | Decimal:
    if root is not Root.DECIMAL:
        return steps
    return Decimal((steps < 0, tuple(int(figure) for figure in str(abs(steps))), -scale))


def _real(root: Root, value: Value) -> float | None:
    if isinstance(value, (float, Decimal)):
        found = float(value)
        return found if abs(found) < 1e300 else None
    if isinstance(value, int) and abs(value) <= _EXACT_INTS[root]:
        return float(value)
    return None


def _moment(field: DataField, value: Value) -> dt.date | dt.datetime | None:
    """A date beside DATE; beside TIMESTAMP and TIMESTAMP_LTZ a time of day as well, the latter's in UTC."""
    root = field.type.root
    kind, text = (value.kind, value.text) if isinstance(value, Moment) else ("text", value)
    if not isinstance(text, str):
        return None
    if root is Root.DATE:
        return _date(text) if kind in ("date", "text") else None
    precision = 6 if field.type.precision is None else field.type.precision
    wanted = "local" if root is Root.TIMESTAMP else "zoned"
    if root not in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) or kind not in (wanted, "text") or precision > 6:
        return None
    found = _stamp(text)
    if found is None or (precision <= 3 and found.microsecond % 1000):
        return None
    return found if root is Root.TIMESTAMP else found.replace(tzinfo=dt.timezone.utc)


def _date(text: str) -> dt.date | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def _stamp(text: str) -> dt.datetime | None:
    found = _STAMP.fullmatch(text)
    if found is None:
        return None
    try:
        return dt.datetime.fromisoformat(f"{found[1]} {found[2]}.{(found[3] or '').ljust(6, '0')}")
    except ValueError:
        return None
