"""Predicates over Arrow: which rows match, and which files can hold a match.

Comparison is SQL's as Spark does it: NaN equals NaN and is greater than every number, 0.0 equals -0.0, text compares
by its UTF-8 bytes.

Spec: docs/spec/types.md#predicates
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_left
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.predicate.numbers import Beyond, compare_number, number_in, number_of
from bucketlake.predicate.tree import (
    And,
    Compare,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    negate,
)
from bucketlake.types.model import DataField, from_arrow_type
from bucketlake.values import dataclass

_FIRST_NANOS = dt.datetime(1677, 9, 21, 0, 12, 43, 145225)
_LAST_NANOS = dt.datetime(2262, 4, 11, 23, 47, 16, 854775)
_COMPARE: dict[str, str] = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def _applied(op: str, left: Any, right: Any) -> Any:
    return getattr(pc, _COMPARE[op])(left, right)


def mask(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Per row true, false or null (SQL's unknown); `batch` holds the columns in canonical layout.

    Raises: UnsupportedError for an Opaque part: only Spark can evaluate it.
    """
    if isinstance(predicate, (And, Or)):
        combine = pc.and_kleene if isinstance(predicate, And) else pc.or_kleene
        result = _constant(isinstance(predicate, And), batch.num_rows)
        for child in predicate.children:
            result = combine(result, mask(child, batch))
        return result
    if isinstance(predicate, Not):
        return pc.invert(mask(predicate.child, batch))
    if isinstance(predicate, Constant):
        return _constant(predicate.value, batch.num_rows)
    if isinstance(predicate, Opaque):
        raise UnsupportedError("condition can only be evaluated by Spark", condition=predicate.sql)
    return _leaf_mask(predicate, batch)


def _constant(value: bool | None, rows: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value, pa.bool_()), rows)


def _leaf_mask(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    array = batch.column(predicate.column)  # type: ignore[attr-defined]
    fitted = _fitted(predicate, array.type)
    if fitted is not predicate:
        return mask(fitted, batch)
    if isinstance(predicate, IsNull):
        return array.is_null()
    if isinstance(predicate, IsNotNull):
        return array.is_valid()
    if isinstance(predicate, Compare):
        if predicate.op == "<=>":
            return pc.fill_null(_compare(array, "=", predicate.literal), False)
        return _compare(array, predicate.op, predicate.literal)
    if isinstance(predicate, In):
        return _is_in(array, predicate.values)
    if isinstance(predicate, StartsWith):
        return pc.starts_with(array, predicate.text)
    if isinstance(predicate, EndsWith):
        return pc.ends_with(array, predicate.text)
    if isinstance(predicate, Contains):
        return pc.match_substring(array, predicate.text)
    if isinstance(predicate, Like):
        return pc.match_like(array, predicate.pattern)
    raise TypeError(f"not a predicate: {predicate!r}")


def fitted(predicate: Predicate, kinds: Mapping[str, pa.DataType]) -> Predicate:
    """The same predicate, literals beside columns of these Arrow types values of them: 300 is none of int8."""
    if isinstance(predicate, (And, Or)):
        return type(predicate)(tuple(fitted(child, kinds) for child in predicate.children))
    kind = kinds.get(getattr(predicate, "column", ""))
    return predicate if kind is None else _fitted(predicate, kind)


def _fitted(predicate: Predicate, kind: pa.DataType) -> Predicate:
    """The predicate itself if its literals are values of the column's Arrow type, else one that says the same."""
    if not isinstance(predicate, (Compare, In)):
        return predicate
    literals = (predicate.literal,) if isinstance(predicate, Compare) else predicate.values
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        if all(value is None or _holds(kind, value) for value in literals):
            return predicate
        field = DataField(0, predicate.column, from_arrow_type(kind))
        try:
            if isinstance(predicate, Compare):
                return compare_number(field, predicate.op, number_of(predicate.literal))
            numbers = [None if value is None else number_of(value) for value in predicate.values]
            return number_in(field, numbers, apart=True)
        except Beyond as error:
            raise InvalidError("literal does not fit its column", column=field.name, literals=literals[:10]) from error
    if not pa.types.is_timestamp(kind):
        return predicate
    sides = [0 if value is None else _side(value, kind) for value in literals]
    if not any(sides):
        return predicate
    if isinstance(predicate, In):
        return In(predicate.column, tuple(v for v, side in zip(literals, sides, strict=True) if not side))
    if predicate.op == "<=>":
        return Constant(False)
    never = In(predicate.column, ())
    return Not(never) if _beside(predicate.op, sides[0]) else never


def _holds(kind: pa.DataType, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if pa.types.is_integer(kind):
        edge = 1 << (int(kind.bit_width) - 1)
        return isinstance(value, int) and -edge <= value < edge
    if not isinstance(value, Decimal):
        return False
    _, digits, exponent = value.as_tuple()
    return bool(exponent == -kind.scale and len(digits) <= kind.precision)


def _side(value: Any, kind: pa.DataType) -> int:
    """-1 or 1 for a timestamp before or after all that the Arrow type holds, else 0."""
    if kind.unit != "ns" or not isinstance(value, dt.datetime):
        return 0
    return -1 if value.replace(tzinfo=None) < _FIRST_NANOS else 1 if value.replace(tzinfo=None) > _LAST_NANOS else 0


def _beside(op: str, side: int) -> bool:
    """Whether a comparison with a literal on that side of all values holds."""
    holding = ("<", "<=", "<>") if side > 0 else (">", ">=", "<>")
    return op in holding


def _compare(array: pa.Array, op: str, literal: Any) -> pa.BooleanArray:
    if not pa.types.is_floating(array.type):
        return _applied(op, array, pa.scalar(literal, array.type))
    values = array.cast(pa.float64())
    missing = pc.is_nan(values)
    if isinstance(literal, float) and math.isnan(literal):
        outcome = {"=": missing, ">=": missing, "<>": pc.invert(missing), "<": pc.invert(missing)}
        if op in outcome:
            return outcome[op]
        always = pc.or_(missing, pc.invert(missing))
        return always if op == "<=" else pc.invert(always)
    plain = _applied(op, values, float(literal))
    return pc.or_(plain, missing) if op in (">", ">=") else plain


def _is_in(array: pa.Array, values: tuple[Any, ...]) -> pa.BooleanArray:
    known = [value for value in values if value is not None]
    if pa.types.is_floating(array.type):
        found = pc.and_(array.is_null(), False)
        for value in known:
            found = pc.or_(found, _compare(array, "=", value))
        found = pc.if_else(array.is_valid(), found, pa.scalar(None, pa.bool_()))
    else:
        hit = pc.is_in(array, pa.array(known, array.type))
        found = pc.if_else(array.is_valid(), hit, pa.scalar(None, pa.bool_()))
    if len(known) < len(values):
        found = pc.if_else(found, True, pa.scalar(None, pa.bool_()))
    return found


# ---------------------------------------------------------------------------------------------- pruning


@dataclass(frozen=True, slots=True)
class Bounds:
    """Statistics of one column over many files, one entry a file; null says unknown.

    `mins` and `maxs` bound every value that is not null (they need not occur: truncated text is fine); both are null
    too where all values are null. `null_counts`: int64. `typed`: the arrays have the column's own type.
    """

    mins: pa.Array
    maxs: pa.Array
    null_counts: pa.Array
    typed: bool = True


def may_match_all(
    predicate: Predicate, columns: Mapping[str, Bounds], row_counts: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Whether files with these statistics can hold a row for which the predicate is true: one boolean a file, never
    false for one that holds a match. Columns that are not in the mapping are unknown.

    Values are those of literals (see `predicate/tree.py`).
    """
    files = len(row_counts)
    if isinstance(predicate, And):
        kept = np.ones(files, np.bool_)
        for child in predicate.children:
            kept &= may_match_all(child, columns, row_counts)
        return kept
    if isinstance(predicate, Or):
        kept = np.zeros(files, np.bool_)
        for child in predicate.children:
            kept |= may_match_all(child, columns, row_counts)
        return kept
    if isinstance(predicate, Constant):
        return np.full(files, predicate.value is True)
    leaf = predicate.child if isinstance(predicate, Not) else predicate
    bounds = columns.get(getattr(leaf, "column", ""))
    if isinstance(predicate, Opaque) or bounds is None:
        return np.ones(files, np.bool_)
    return _leaf_may_match(predicate, bounds, pa.array(row_counts, pa.int64()))


def _numpy(found: pa.Array) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = pc.fill_null(found, True).to_numpy(zero_copy_only=False)
    return result


def _leaf_may_match(predicate: Predicate, bounds: Bounds, rows: pa.Array) -> npt.NDArray[np.bool_]:
    inner = predicate.child if isinstance(predicate, Not) else predicate
    plain = not bounds.typed or pa.types.is_timestamp(bounds.mins.type)
    fitted = inner if plain else _fitted(inner, bounds.mins.type)
    if fitted is not inner and isinstance(inner, (Compare, In)):
        fitted = negate(fitted) if inner is not predicate else fitted
        return may_match_all(fitted, {inner.column: bounds}, rows.to_numpy())
    if isinstance(predicate, IsNull):
        return _numpy(pc.greater(bounds.null_counts, 0))
    # More nulls than rows, and nulls of no rows, tell nothing.
    some_value = _numpy(pc.invert(pc.and_(pc.equal(bounds.null_counts, rows), pc.greater(rows, 0))))
    if isinstance(predicate, Not):
        if isinstance(predicate.child, Compare):  # NOT (column <=> literal) is true for nulls
            return np.ones(len(rows), np.bool_)
        if isinstance(predicate.child, In) and None in predicate.child.values:
            return np.zeros(len(rows), np.bool_)
        return some_value
    if isinstance(predicate, Compare):
        return some_value & _in_bounds(predicate.op, predicate.literal, bounds)
    if isinstance(predicate, In):
        kept = np.zeros(len(rows), np.bool_)
        for value in _spread(predicate.values):
            kept |= _in_bounds("=", value, bounds)
        return some_value & (kept | _between(predicate.values, bounds))
    if isinstance(predicate, StartsWith):
        return some_value & _prefix_in_bounds(predicate.text, bounds)
    if isinstance(predicate, Like):
        return some_value & _prefix_in_bounds(fixed_prefix(predicate.pattern), bounds)
    return some_value


_EXACT_IN = 64


def _spread(values: tuple[Any, ...]) -> tuple[Any, ...]:
    known = tuple(value for value in values if value is not None)
    return known if len(known) <= _EXACT_IN else ()


def _between(values: tuple[Any, ...], bounds: Bounds) -> npt.NDArray[np.bool_]:
    """For long lists: whether a file's range has one of the values in it; of types whose values Python does not order
    as Spark does, whether it meets the list's range."""
    known = [value for value in values if value is not None]
    if len(known) <= _EXACT_IN:
        return np.zeros(len(bounds.mins), np.bool_)
    if any(isinstance(value, float) and math.isnan(value) for value in known):
        return np.ones(len(bounds.mins), np.bool_)
    kept = _in_bounds(">=", min(known), bounds) & _in_bounds("<=", max(known), bounds)
    kind = bounds.mins.type
    plain = int if pa.types.is_integer(kind) else str if pa.types.is_string(kind) else dt.date
    if plain is dt.date and not pa.types.is_date32(kind):
        return kept
    if bounds.maxs.type != kind or any(type(value) is not plain for value in known):
        return kept
    some = np.flatnonzero(kept)
    listed = sorted(known if plain is int else _ordered(pa.array(known, kind)))
    lows, highs = (_ordered(side.take(pa.array(some))) for side in (bounds.mins, bounds.maxs))
    for at, low, high in zip(some.tolist(), lows, highs, strict=True):
        if low is not None and high is not None:
            place = bisect_left(listed, low)
            kept[at] = place < len(listed) and listed[place] <= high
    return kept


def _ordered(array: pa.Array) -> list[Any]:
    """Whole numbers, days or texts as values of which any can be made, in Spark's order: texts as their bytes."""
    kind = array.type
    plain = pa.int32() if pa.types.is_date32(kind) else pa.binary() if pa.types.is_string(kind) else kind
    values: list[Any] = array.cast(plain).to_pylist()
    return values


def _in_bounds(op: str, literal: Any, bounds: Bounds) -> npt.NDArray[np.bool_]:
    """Whether some value between min and max can satisfy the comparison."""
    if pa.types.is_floating(bounds.mins.type) or pa.types.is_floating(bounds.maxs.type):
        # NaN may be outside the bounds, and is greater than every number.
        if op in (">", ">=", "<>") or math.isnan(literal):
            return np.ones(len(bounds.mins), np.bool_)
        bounds = Bounds(_without_nan(bounds.mins), _without_nan(bounds.maxs), bounds.null_counts)
    above = _order("<=", bounds.mins, literal)  # min <= literal
    below = _order(">=", bounds.maxs, literal)  # max >= literal
    if op in ("=", "<=>"):
        return above & below
    if op == "<":
        return _order("<", bounds.mins, literal)
    if op == "<=":
        return above
    if op == ">":
        return _order(">", bounds.maxs, literal)
    if op == ">=":
        return below
    return _order("<>", bounds.mins, literal) | _order("<>", bounds.maxs, literal)


def _order(op: str, bound: pa.Array, literal: Any) -> npt.NDArray[np.bool_]:
    if pa.types.is_null(bound.type):
        return np.ones(len(bound), np.bool_)
    side = _side(literal, bound.type) if pa.types.is_timestamp(bound.type) else 0
    if side:
        known = bound.is_valid().to_numpy(zero_copy_only=False)
        return np.full(len(bound), True) if _beside(op, side) else ~known
    scalar = pa.scalar(float(literal)) if pa.types.is_floating(bound.type) else _scalar(literal, bound.type)
    return _numpy(_applied(op, bound, scalar))


def _scalar(literal: Any, kind: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(literal, kind)
    except (pa.ArrowInvalid, OverflowError):
        return pa.scalar(literal)  # the bounds are of an inferred, narrower type


def _without_nan(bound: pa.Array) -> pa.Array:
    if not pa.types.is_floating(bound.type):
        return bound
    values = bound.cast(pa.float64())
    return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)


def _prefix_in_bounds(prefix: str, bounds: Bounds) -> npt.NDArray[np.bool_]:
    if not prefix or not pa.types.is_string(bounds.mins.type) or not pa.types.is_string(bounds.maxs.type):
        return np.ones(len(bounds.mins), np.bool_)
    heads = pc.utf8_slice_codeunits(bounds.mins, 0, len(prefix))
    return _order("<=", heads, prefix) & _order(">=", bounds.maxs, prefix)


def fixed_prefix(pattern: str) -> str:
    """What every text that is LIKE a pattern begins with."""
    ends = [at for at in (pattern.find(mark) for mark in "%_\\") if at >= 0]
    return pattern[: min(ends)] if ends else pattern
