"""The product aggregate.

Integers and decimals are multiplied exactly, step by step as rows come: an intermediate result outside of the column's
range is an overflow, and decimals are rounded half up after each step. A row that retracts divides: integers truncate,
decimals need a quotient that terminates.

Without retraction, integers are multiplied at once where the result is surely in range. Everything else takes
as many steps as the longest group has rows that change anything, each step over all groups.

Spec: docs/spec/aggregates.md#product
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.lsm.aggregates.numbers import decimals, fixed, floats_of
from bucketlake.lsm.aggregates.rows import About, Indices, Mask, Rows, valid
from bucketlake.lsm.words import decimal_pairs, integers_of

__all__ = ["product"]

Numbers = npt.NDArray[Any]  # floats, or Python integers of any size

_TERMINATING = 10**130  # divisible by every product of twos and fives below 10**38


def product(rows: Rows, about: About) -> pa.Array:
    """The product of the values, divided by those of rows that retract; null where none was added before."""
    kind, present = rows.values.type, valid(rows.values)
    counts = rows.begun() if present is None else rows.begun() & present
    if not counts.any():
        return pa.nulls(rows.groups, kind)
    if not counts.all():
        part, groups = rows.select(counts)
        return _spread(_products(part, about), groups)
    return _products(rows, about)


def _spread(results: pa.Array, groups: Mask) -> pa.Array:
    positions = np.cumsum(groups) - 1
    return results.take(pa.array(positions, mask=~groups))


def _products(rows: Rows, about: About) -> pa.Array:
    """Products of groups that hold no nulls and start with a row that adds."""
    kind = rows.values.type
    if pa.types.is_floating(kind):
        return fixed(_float_products(rows), kind, None)
    if pa.types.is_decimal(kind):
        low, high = _halves(_steps(_unscaled(rows.values), rows, about))
        return decimals(low, high, kind, None)
    numbers = integers_of(rows.values).astype(np.int64)
    width = f"i{kind.bit_width // 8}"
    if rows.retract is None:
        size = np.where(numbers == 0, 1.0, np.abs(numbers.astype(np.float64)))
        with np.errstate(over="ignore"):
            sizes = np.multiply.reduceat(size, rows.starts)
        if (sizes < float(1 << kind.bit_width - 1) * 0.999).all():
            return fixed(np.multiply.reduceat(numbers, rows.starts).astype(width), kind, None)
    return fixed(_steps(numbers.astype(object), rows, about).astype(width), kind, None)


def _float_products(rows: Rows) -> Numbers:
    numbers = floats_of(rows.values)
    with np.errstate(all="ignore"):
        if rows.retract is None:
            products = np.ones(rows.groups, numbers.dtype)
            np.multiply.at(products, rows.ids(), numbers)
            return products
        products = numbers[rows.starts].copy()
        for groups, at in _rounds(rows.starts, rows.lengths()):
            back = rows.retract[at]
            held, given = products[groups], numbers[at]
            products[groups] = np.where(back, held / given, held * given)
        return products


def _rounds(starts: Indices, lengths: Indices) -> Iterator[tuple[Indices, Indices]]:
    """(groups, rows) for the second row of all groups that have one, the third, and so on."""
    order = np.argsort(-lengths, kind="stable")
    many = np.searchsorted(-lengths[order], -np.arange(1, int(lengths.max())), side="left")
    return ((order[:count], starts[order[:count]] + step + 1) for step, count in enumerate(many))


def _steps(numbers: Numbers, rows: Rows, about: About) -> Numbers:
    """The products of unscaled integers, row by row in each group."""
    kind = rows.values.type
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    least, greatest = _range(kind)
    matters = numbers != 10**scale  # one changes nothing
    matters[rows.starts] = True
    starts = np.cumsum(matters)[rows.starts] - 1
    numbers = numbers[matters]
    retract = None if rows.retract is None else rows.retract[matters]
    held: Numbers = numbers[starts].copy()
    for groups, at in _rounds(starts, np.diff(starts, append=len(numbers))):
        given = numbers[at]
        back = np.zeros(len(at), np.bool_) if retract is None else retract[at]
        result = np.empty(len(at), object)
        result[~back] = _rounded(held[groups][~back] * given[~back], 10**scale)
        if back.any():
            result[back] = _quotients(held[groups][back], given[back], scale, about)
        if ((result < least) | (result > greatest)).any():
            raise about.overflow()
        held[groups] = result
    return held


def _range(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(kind):
        return -(10**kind.precision) + 1, 10**kind.precision - 1
    return -(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1


def _quotients(held: Numbers, given: Numbers, scale: int, about: About) -> Numbers:
    if (given == 0).any():
        raise about.error("retraction divides by zero", remedy="do not retract zeros from a product")
    if about.field.type.scale is None:
        truncated: Numbers = np.sign(held) * np.sign(given) * (np.abs(held) // np.abs(given))
        return truncated
    rest = np.abs(given) // np.gcd(held, given)
    if (_TERMINATING % rest != 0).any():
        raise about.error(
            "non-terminating decimal expansion in a retraction", remedy="retract only values that were added before"
        )
    quotients: Numbers = np.sign(given) * _rounded(held * 10**scale, np.abs(given))
    return quotients


def _rounded(numbers: Numbers, divisor: Any) -> Numbers:
    """Quotients rounded half away from zero; `divisor` is positive."""
    rounded: Numbers = np.sign(numbers) * ((np.abs(numbers) * 2 + divisor) // (divisor * 2))
    return rounded


def _unscaled(array: pa.Array) -> Numbers:
    pairs = decimal_pairs(array)
    low, high = pairs[:, 0].astype(np.uint64).astype(object), pairs[:, 1].astype(object)
    whole: Numbers = high * (1 << 64) + low
    return whole


def _halves(numbers: Numbers) -> tuple[Indices, Indices]:
    low = (numbers % (1 << 64)).astype(np.uint64).view(np.int64)
    return low, (numbers // (1 << 64)).astype(np.int64)
