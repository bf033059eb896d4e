"""Aggregates that compute numbers: sum.

Integers and decimals are summed exactly; a sum that leaves the column's range on its way is an overflow, also where
later rows would bring it back, as it would be if the rows came one by one. Floats are added in the order of the rows.

Spec: docs/spec/aggregates.md#sum
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.lsm.aggregates.rows import About, Indices, Mask, Rows, valid, without
from bucketlake.lsm.words import decimal_pairs, integers_of

__all__ = ["decimals", "floats_of", "fixed", "sum_"]

_LOW = np.int64(0xFFFFFFFF)


def sum_(rows: Rows, about: About) -> pa.Array:
    """The sum of the values, less those of rows that retract; null where all are null."""
    kind, present = rows.values.type, valid(rows.values)
    empty = None if present is None else without(present, rows.starts)
    if pa.types.is_floating(kind):
        return fixed(_float_sums(rows, present), kind, empty)
    if pa.types.is_decimal(kind) and kind.precision > 18:
        return decimals(*_wide_sums(rows, present, about), kind, empty)
    sums = _integer_sums(rows, present, about)
    if pa.types.is_decimal(kind):
        return decimals(sums.view(np.uint64), sums >> 63, kind, empty)
    return fixed(sums.astype(f"i{kind.bit_width // 8}"), kind, empty)


def floats_of(array: pa.Array) -> npt.NDArray[Any]:
    """The numbers of a float column; null slots hold anything."""
    dtype = np.dtype(f"f{array.type.bit_width // 8}")
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def fixed(numbers: npt.NDArray[Any], kind: pa.DataType, empty: Mask | None) -> pa.Array:
    """An array of a fixed-width type from its bytes, null where `empty`."""
    mask = None if empty is None or not empty.any() else pa.array(~empty).buffers()[1]
    return pa.Array.from_buffers(kind, len(numbers), [mask, pa.py_buffer(np.ascontiguousarray(numbers))])


def decimals(low: npt.NDArray[Any], high: npt.NDArray[Any], kind: pa.DataType, empty: Mask | None) -> pa.Array:
    """A decimal array from the halves of its unscaled 128-bit integers."""
    pairs = np.empty((len(low), 2), np.int64)
    pairs[:, 0], pairs[:, 1] = low.view(np.int64), high
    return fixed(pairs, kind, empty)


def _float_sums(rows: Rows, present: Mask | None) -> npt.NDArray[Any]:
    numbers = floats_of(rows.values)
    if rows.retract is not None:
        numbers = np.where(rows.retract, -numbers, numbers)
    ids = rows.ids()
    if present is not None:
        numbers, ids = numbers[present], ids[present]
    sums = np.full(rows.groups, -0.0, numbers.dtype)  # -0.0 + x is x for every x
    with np.errstate(all="ignore"):
        np.add.at(sums, ids, numbers)  # one after the other, unlike reduceat
    return sums


def _integer_sums(rows: Rows, present: Mask | None, about: About) -> Indices:
    """Sums of integers, or of decimals of up to 18 digits, within the column's range."""
    kind = rows.values.type
    numbers = integers_of(rows.values).astype(np.int64, copy=False)
    if present is not None:
        numbers = numbers * present
    if pa.types.is_decimal(kind):
        least, greatest = -(10**kind.precision) + 1, 10**kind.precision - 1
    else:
        least, greatest = -(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1
    signed = numbers if rows.retract is None else np.where(rows.retract, -numbers, numbers)
    largest = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
    if largest * int(rows.lengths().max()) <= greatest:
        return _totals(signed, rows)
    before, after = _running(signed, rows)
    if kind.bit_width == 64:  # wrapped around: the result's sign is that of neither operand
        subtract = False if rows.retract is None else rows.retract
        over = np.where(subtract, (before ^ numbers) & (before ^ after), (before ^ after) & (numbers ^ after)) < 0
    else:
        over = (after < least) | (after > greatest)
    if over.any():
        raise about.overflow()
    sums: Indices = after[rows.starts + rows.lengths() - 1]
    return sums


def _totals(numbers: Indices, rows: Rows) -> Indices:
    totals: Indices = np.add.reduceat(numbers, rows.starts)
    return totals


def _running(numbers: Indices, rows: Rows) -> tuple[Indices, Indices]:
    """Each group's sum before and after each of its rows, modulo 2^64."""
    total = np.cumsum(numbers)
    before = total - numbers
    base = np.repeat(before[rows.starts], rows.lengths())
    return before - base, total - base


def _wide_sums(rows: Rows, present: Mask | None, about: About) -> tuple[Indices, Indices]:
    """Sums of decimals of more than 18 digits: low and high words."""
    pairs = decimal_pairs(rows.values)
    low, high = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    limbs = [low & _LOW, (low >> 32) & _LOW, high & _LOW, high >> 32]
    sign = None if rows.retract is None else np.where(rows.retract, -1, 1)
    for i, limb in enumerate(limbs):
        if sign is not None:
            limb *= sign
        limbs[i] = limb if present is None else np.where(present, limb, 0)
    most = 10**rows.values.type.precision - 1
    shown = high if present is None else np.where(present, high, 0)
    largest = max(int(shown.max(initial=0)), -int(shown.min(initial=0))) + 1
    if (largest << 64) * int(rows.lengths().max()) <= most:
        return _carried([_totals(limb, rows) for limb in limbs])
    low, high = _carried([_running(limb, rows)[1] for limb in limbs])
    if _beyond(low, high, most).any():
        raise about.overflow()
    ends = rows.starts + rows.lengths() - 1
    return low[ends], high[ends]


def _carried(limbs: Sequence[Indices]) -> tuple[Indices, Indices]:
    """Low and high words of sums of 32-bit limbs; a high limb beyond 32 bits shows as a value beyond every limit."""
    first = limbs[0]
    second = limbs[1] + (first >> 32)
    third = limbs[2] + (second >> 32)
    fourth = np.clip(limbs[3] + (third >> 32), -(1 << 31), (1 << 31) - 1)
    return (first & _LOW) | (second << 32), (third & _LOW) | (fourth << 32)


def _beyond(low: Indices, high: Indices, most: int) -> Mask:
    """Which 128-bit integers are not within -most..most."""
    top, rest = np.int64(most >> 64), np.uint64(most & (1 << 64) - 1)
    bottom, least = np.int64(-most >> 64), np.uint64(-most & (1 << 64) - 1)
    unsigned = low.view(np.uint64)
    above: Mask = (high > top) | ((high == top) & (unsigned > rest))
    below: Mask = (high < bottom) | ((high == bottom) & (unsigned < least))
    return above | below
