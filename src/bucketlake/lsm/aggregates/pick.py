"""Aggregates that pick one row's value: first and last, null or not null, and primary-key.

Spec: docs/spec/aggregates.md#picking
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bucketlake.lsm.aggregates.rows import About, Indices, Mask, Rows, first_of, last_of, take, valid

__all__ = ["first_non_null_value", "first_value", "last_non_null_value", "last_value", "primary_key", "settled"]


def last_value(rows: Rows, about: About) -> pa.Array:
    """The newest row's value, null if that row retracts."""
    last = _last_in_time(rows)
    if rows.retract is not None:
        last = np.where((last >= 0) & rows.retract[last], -1, last)
    return take(rows.values, last)


def primary_key(rows: Rows, about: About) -> pa.Array:
    """The newest row's value, whatever its kind."""
    return take(rows.values, _last_in_time(rows))


def _last_in_time(rows: Rows) -> Indices:
    if rows.late is None:
        return rows.starts + rows.lengths() - 1
    return last_of(~rows.late, rows.starts)


def last_non_null_value(rows: Rows, about: About) -> pa.Array:
    """The newest value that is not null, and nothing before a retracting row that is not null."""
    present = valid(rows.values)
    if rows.retract is None and rows.late is None:
        if present is None:
            return take(rows.values, rows.starts + rows.lengths() - 1)
        return take(rows.values, last_of(present, rows.starts))
    present = np.ones(len(rows), np.bool_) if present is None else present
    return take(rows.values, settled(present, rows.retract, rows.late, rows.starts))


def settled(present: Mask, retract: Mask | None, late: Mask | None, starts: Indices) -> Indices:
    """The row that holds each group's value, -1 for none: the last that adds, unless one that retracts follows; where
    nothing holds, the first late row. Only rows that are `present` count."""
    no = np.zeros(len(present), np.bool_)
    retract = no if retract is None else retract
    late = no if late is None else late
    decisive = last_of(present & ~late, starts)
    holder = np.where((decisive >= 0) & retract[decisive], -1, decisive)
    if not late.any():
        return holder
    after = np.repeat(decisive, np.diff(starts, append=len(present)))
    filler = first_of(present & late & (np.arange(len(present)) > after), starts)
    return np.where(holder < 0, filler, holder)


def first_value(rows: Rows, about: About) -> pa.Array:
    """The first row's value, null or not."""
    if rows.late is None and rows.seed is None:
        return take(rows.values, rows.starts)
    seed = _mask(rows.seed, rows)
    return take(rows.values, _first(rows, ~seed))


def first_non_null_value(rows: Rows, about: About) -> pa.Array:
    """The first value that is not null."""
    present = valid(rows.values)
    present = np.ones(len(rows), np.bool_) if present is None else present
    if rows.late is None and rows.seed is None:
        return take(rows.values, first_of(present, rows.starts))
    late, replaces = _mask(rows.late, rows), _mask(rows.late, rows) | _mask(rows.seed, rows)
    return take(rows.values, _first(rows, (present & ~replaces) | (late & _held_before(replaces, present, rows))))


def _mask(mask: Mask | None, rows: Rows) -> Mask:
    return np.zeros(len(rows), np.bool_) if mask is None else mask


def _first(rows: Rows, taking: Mask) -> Indices:
    """The row whose value a group ends with.

    The first row that is `taking` settles the value: its own, or, if it is late, what is held at that time. Seeds and
    other late rows replace what is held, before and after that.
    """
    late, seed = _mask(rows.late, rows), _mask(rows.seed, rows)
    at = first_of(taking, rows.starts)
    settling = np.zeros(len(rows), np.bool_)
    settling[at[at >= 0]] = True
    return last_of(seed | (settling & ~late) | (late & ~settling), rows.starts)


def _held_before(replaces: Mask, present: Mask, rows: Rows) -> Mask:
    """Whether the nearest replacing row before each row, in its group, has a value."""
    at = np.where(replaces, np.arange(len(rows)), -1)
    before = np.concatenate(([-1], np.maximum.accumulate(at)[:-1]))
    inside = before >= np.repeat(rows.starts, rows.lengths())
    held: Mask = inside & present[before]
    return held
