"""Aggregates that compare: max, min, bool_and, bool_or.

Order is that of keys: numbers by value, -0.0 < 0.0, NaN the greatest; strings and binaries byte by byte, unsigned.

Spec: docs/spec/aggregates.md#comparing
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bucketlake.lsm.aggregates.numbers import decimals, fixed
from bucketlake.lsm.aggregates.rows import About, Indices, Rows, take, valid, without
from bucketlake.lsm.words import integers_of, words_of

__all__ = ["bool_and", "bool_or", "max_", "min_"]


def max_(rows: Rows, about: About) -> pa.Array:
    """The greatest value that is not null."""
    return _extreme(rows, greatest=True)


def min_(rows: Rows, about: About) -> pa.Array:
    """The least value that is not null."""
    return _extreme(rows, greatest=False)


def bool_and(rows: Rows, about: About) -> pa.Array:
    """Whether all values that are not null are true; null where all are null."""
    return _bool(rows, neutral=True)


def bool_or(rows: Rows, about: About) -> pa.Array:
    """Whether any value is true; null where all are null."""
    return _bool(rows, neutral=False)


def _bool(rows: Rows, neutral: bool) -> pa.Array:
    present = valid(rows.values)
    flags = rows.values.fill_null(neutral).to_numpy(zero_copy_only=False)
    ufunc = np.logical_and if neutral else np.logical_or
    result = ufunc.reduceat(flags, rows.starts)
    if present is None:
        return pa.array(result)
    return pa.array(result, mask=without(present, rows.starts))


def _extreme(rows: Rows, greatest: bool) -> pa.Array:
    kind, present = rows.values.type, valid(rows.values)
    ufunc = np.maximum if greatest else np.minimum
    wide = pa.types.is_decimal(kind) and kind.precision > 18
    if wide or pa.types.is_string(kind) or pa.types.is_binary(kind):
        return take(rows.values, _extreme_rows(rows, ufunc))
    numbers, empty = integers_of(rows.values), None
    if present is not None:
        info = np.iinfo(numbers.dtype)
        numbers = np.where(present, numbers, numbers.dtype.type(info.min if greatest else info.max))
        empty = without(present, rows.starts)
    best = ufunc.reduceat(numbers, rows.starts)
    if pa.types.is_decimal(kind):
        return decimals(best, best >> 63, kind, empty)
    if pa.types.is_floating(kind):  # the order image of a float's bits is its own inverse
        top = best.dtype.type(np.iinfo(best.dtype).max)
        best ^= (best >> best.dtype.type(kind.bit_width - 1)) & top
    return fixed(best, kind, empty)


def _extreme_rows(rows: Rows, ufunc: np.ufunc) -> Indices:
    """A row that holds each group's extreme, -1 where all are null: word by word, only rows that still tie."""
    present = valid(rows.values)
    alive = np.arange(len(rows)) if present is None else np.flatnonzero(present)
    ids = rows.ids()[alive]
    for word in words_of(rows.values):
        starts = np.flatnonzero(np.diff(ids, prepend=-1))
        if len(starts) == len(ids):
            break
        values = word.values(alive)
        best = np.repeat(ufunc.reduceat(values, starts), np.diff(starts, append=len(ids)))
        keep = values == best
        alive, ids = alive[keep], ids[keep]
    found = np.full(rows.groups, -1, np.int64)
    found[ids] = alive
    return found
