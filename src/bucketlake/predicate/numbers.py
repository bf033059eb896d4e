"""A number beside a column: the comparison as Spark means it, said in values that the column can hold.

A column of whole numbers or decimals holds the multiples n of a unit, low <= n <= high. Whatever the two sides are
brought to, a larger n never becomes smaller. So a comparison is told by two thresholds: `least`, the first n that is
not below the literal, and `beyond`, the first that is above it.

Spec: docs/spec/types.md#numbers
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from bucketlake.predicate.tree import And, Compare, Constant, In, IsNotNull, Not, Operator, Or, Predicate
from bucketlake.types.model import DataField, DataType, Root
from bucketlake.values import dataclass

__all__ = [
    "WHOLE",
    "Beyond",
    "Fixed",
    "Single",
    "cast_number",
    "compare_number",
    "float_of",
    "number_in",
    "number_of",
    "parse_number",
]

WHOLE = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_WHOLE_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 20}
MAX_DIGITS = 38  # of Spark's decimals
_LONGEST = 1000  # digits of a literal, and its exponent
_CAST_BITS = {"TINYINT": (8, 3), "SMALLINT": (16, 5), "INT": (32, 10), "BIGINT": (64, 20)}
_FLOAT_TEXT = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_DECIMAL_TEXT = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_NUMBER = re.compile(r"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?", re.ASCII)


class Beyond(Exception):
    """The condition has a meaning that the tree cannot hold."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A decimal, unscaled / 10**scale. `whole`: digits before the point that its type has; `plain`: a literal, not the
    result of a cast or a sign before parentheses."""

    unscaled: int
    scale: int
    whole: int
    plain: bool = True

    def __neg__(self) -> Fixed:
        return Fixed(-self.unscaled, self.scale, self.whole, self.plain)

    def __float__(self) -> float:
        return float(self.unscaled / 10**self.scale)


class Single(float):
    """A number of type FLOAT."""

    __slots__ = ()

    def __new__(cls, value: float) -> Single:
        """The nearest FLOAT."""
        try:
            return super().__new__(cls, struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError:
            return super().__new__(cls, math.copysign(math.inf, value))

    def __neg__(self) -> Single:
        return Single(-float(self))


Number = int | float | Fixed


def parse_number(text: str) -> Number:
    """A numeric literal as Spark types it: digits are INT or BIGINT, a point makes a DECIMAL, an exponent a DOUBLE,
    the suffixes L, S, Y, F, D and BD say it. Beyond for anything else."""
    found = re.fullmatch(r"(.*?)(L|S|Y|F|D|BD)?", text.strip().upper(), re.ASCII)
    body, suffix = (found[1], found[2]) if found else ("", None)
    digits = _NUMBER.fullmatch(body)
    if digits is None or not (digits[2] or digits[3]) or len(body) > _LONGEST or abs(int(digits[4] or 0)) > _LONGEST:
        raise Beyond
    if suffix in ("D", "F") or (suffix is None and digits[4] is not None):
        return Single(float(body)) if suffix == "F" else float(body)
    if suffix in ("L", "S", "Y") or (suffix is None and "." not in body):
        bits = {"L": 64, "S": 16, "Y": 8}.get(suffix or "", 4 * _LONGEST)
        if not body.lstrip("+-").isdigit() or not -(1 << (bits - 1)) <= int(body) <= 1 << (bits - 1):
            raise Beyond
        return int(body)
    return _fixed(digits)


def _fixed(digits: re.Match[str]) -> Fixed:
    scale = len(digits[3]) - int(digits[4] or 0)
    unscaled = int(digits[1] + digits[2] + digits[3])
    if scale < 0:
        unscaled, scale = unscaled * 10**-scale, 0
    return Fixed(unscaled, scale, _digits_before(unscaled, scale))


def _digits_before(unscaled: int, scale: int) -> int:
    return max(len(str(abs(unscaled))) - scale, 0)


def number_of(value: Any) -> Number:
    """A number of Python's as a literal. Beyond for anything else."""
    if isinstance(value, Decimal) and value.is_finite():
        return parse_number(f"{value}BD")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Beyond
    return value


def float_of(text: str) -> float:
    """A text as Spark casts it to DOUBLE."""
    word = text.lower().lstrip("+-") if text[:1] in ("+", "-") else text.lower()
    if word in ("inf", "infinity") or (word == "nan" and text[:1] not in ("+", "-")):
        return float(text)
    if _FLOAT_TEXT.fullmatch(text) is None or len(text) > _LONGEST:
        raise Beyond
    return float(text)


def cast_number(value: Any, target: str, sizes: Sequence[int]) -> Number:
    """CAST of a literal to a numeric type, by its SQL name; Beyond unless the value stays what it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Fixed, str)):
        raise Beyond
    if target in ("DOUBLE", "FLOAT") and not sizes:
        found = float_of(value.strip(" \t\r\n")) if isinstance(value, str) else _double(value)
        return found if target == "DOUBLE" else Single(found)
    if isinstance(value, str):
        body = _NUMBER.fullmatch(value) if _DECIMAL_TEXT.fullmatch(value) and len(value) < _LONGEST else None
        if body is None or target != "DECIMAL":
            raise Beyond
        value = _fixed(body)
    if isinstance(value, float):
        raise Beyond
    if target in _CAST_BITS and isinstance(value, int) and not sizes:
        bits, digits = _CAST_BITS[target]
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise Beyond
        return Fixed(value, 0, digits, plain=False)
    precision, scale = (*sizes, 0)[:2] if sizes else (10, 0)
    if target != "DECIMAL" or not 0 <= scale <= precision <= MAX_DIGITS:
        raise Beyond
    side = _fixed_of(value)
    unscaled, lost = divmod(side.unscaled * 10**scale, 10**side.scale)
    if lost or abs(unscaled) >= 10**precision:
        raise Beyond
    return Fixed(unscaled, scale, precision - scale, plain=False)


# ---------------------------------------------------------------------------------------------- comparisons


def compare_number(field: DataField, op: Operator, value: Number) -> Predicate:
    """`column op value` over a column of a numeric type. Beyond where Spark's modes or versions differ on it."""
    t = field.type
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return Compare(field.name, op, _as_float(value, t))
    least, beyond = _thresholds(t, op, value)
    return _emitted(field, op, least, beyond)


def number_in(field: DataField, values: Sequence[Number | None], *, apart: bool = False) -> Predicate:
    """`column IN (values)`: Spark brings the column and all values to one type; `apart`: each is compared by itself."""
    known = [value for value in values if value is not None]
    t = field.type
    if not apart and t.root not in (Root.FLOAT, Root.DOUBLE):
        if any(isinstance(value, float) for value in known):
            known = [value if isinstance(value, float) else _double(value) for value in known]
        elif len(known) > 1:
            sides = [_fixed_of(value) for value in known]
            whole, scale = _column_digits(t)
            if max(whole, *(s.whole for s in sides)) + max(scale, *(s.scale for s in sides)) > MAX_DIGITS:
                raise Beyond
    parts = [compare_number(field, "=", value) for value in known]
    found = [part.literal for part in parts if isinstance(part, Compare)]
    ranges = [part for part in parts if isinstance(part, And)]
    nulls = (None,) if len(known) < len(values) else ()
    pinned = In(field.name, tuple(dict.fromkeys((*found, *nulls))))
    return Or((*ranges, pinned)) if ranges else pinned


def _thresholds(t: DataType, op: Operator, value: Number) -> tuple[int, int]:
    """`least` and `beyond` in units of the column."""
    if isinstance(value, float):
        return _float_thresholds(t, value)
    side = _fixed_of(value)
    unit = _unit(t)
    whole, scale = _column_digits(t)
    digits = max(whole, side.whole)
    # Beside whole numbers Spark rounds a literal down or up; else both sides, where 38 digits do not hold them.
    floors = t.root in WHOLE and side.plain and op in ("<", "<=", ">", ">=")
    if floors or digits + max(scale, side.scale) <= MAX_DIGITS or side.whole + side.scale > MAX_DIGITS:
        floor, rest = divmod(side.unscaled * unit, 10**side.scale)
        return floor + bool(rest), floor + 1
    kept = MAX_DIGITS - digits  # digits after the point to which Spark rounds both sides, halves away from zero
    rounded = _rounded(side, kept)
    if kept >= scale:
        floor, rest = divmod(rounded * unit, 10**kept)
        return floor + bool(rest), floor + 1
    step = int(10 ** (scale - kept))
    half, middle = step // 2, rounded * step
    return middle - half + (rounded <= 0), middle + half + (rounded < 0)


def _rounded(side: Fixed, scale: int) -> int:
    if side.scale <= scale:
        return int(side.unscaled * 10 ** (scale - side.scale))
    step = int(10 ** (side.scale - scale))
    size = (abs(side.unscaled) + step // 2) // step
    return size if side.unscaled >= 0 else -size


def _float_thresholds(t: DataType, value: float) -> tuple[int, int]:
    """Both sides are DOUBLE; a whole number beside a FLOAT literal may be FLOAT too, which small ones do not tell."""
    if isinstance(value, Single) and t.root in WHOLE and not abs(value) < 1 << 24:
        raise Beyond
    low, high = _limits(t)
    unit = _unit(t)
    if math.isnan(value):
        return high + 1, high + 1
    return (
        _first(low, high, lambda number: number / unit >= value),
        _first(low, high, lambda number: number / unit > value),
    )


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first of low … high from which on it holds, high + 1 if there is none."""
    high += 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _emitted(field: DataField, op: Operator, least: int, beyond: int) -> Predicate:
    name, t = field.name, field.type
    low, high = _limits(t)
    least, beyond = min(max(least, low), high + 1), min(max(beyond, low), high + 1)
    if op == "<=>" and least == beyond:
        return Constant(False)
    if op in ("=", "<=>") and beyond - least > 1:
        both = (Compare(name, ">=", _stored(least, t)), Compare(name, "<=", _stored(beyond - 1, t)))
        return And((IsNotNull(name), *both) if op == "<=>" else both)
    if op == "<>" and beyond - least > 1:
        return Or((_emitted(field, "<", least, beyond), _emitted(field, ">", least, beyond)))
    if beyond - least == 1:
        return Compare(name, op, _stored(least, t))
    never = In(name, ())
    if op in ("<", "<="):
        end = least if op == "<" else beyond
        return never if end == low else Not(never) if end > high else Compare(name, "<=", _stored(end - 1, t))
    if op in (">", ">="):
        start = beyond if op == ">" else least
        return never if start > high else Not(never) if start == low else Compare(name, ">=", _stored(start, t))
    return never if op == "=" else Not(never)


def _unit(t: DataType) -> int:
    return int(10 ** (t.scale or 0)) if t.root is Root.DECIMAL else 1


def _stored(number: int, t: DataType) -> Any:
    return number if t.root in WHOLE else Decimal(f"{number}E-{t.scale or 0}")


def _limits(t: DataType) -> tuple[int, int]:
    if t.root in WHOLE:
        edge = 1 << (WHOLE[t.root] - 1)
        return -edge, edge - 1
    top = int(10 ** (t.precision or 10)) - 1
    return -top, top


def _column_digits(t: DataType) -> tuple[int, int]:
    """Digits before and after the point."""
    if t.root in WHOLE:
        return _WHOLE_DIGITS[t.root], 0
    return (t.precision or 10) - (t.scale or 0), t.scale or 0


def _fixed_of(value: Number) -> Fixed:
    if isinstance(value, float):
        raise Beyond
    return value if isinstance(value, Fixed) else Fixed(value, 0, _digits_before(value, 0))


def _double(value: Number) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise Beyond from error


def _as_float(value: Number, t: DataType) -> float:
    """The value beside a FLOAT or DOUBLE column, both taken as DOUBLE. Whole numbers that a FLOAT cannot hold are
    rounded to one without ANSI mode."""
    found = float(value) if isinstance(value, float) else _double(value)
    whole = isinstance(value, int) or (isinstance(value, Fixed) and not value.plain and value.scale == 0)
    if whole and t.root is Root.FLOAT and Single(found) != found:
        raise Beyond
    return found
