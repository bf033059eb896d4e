"""Aggregates of MAP columns: merge_map, merge_map_with_keytime.

Maps are taken apart into entries, each (group, key) is settled on its own, and the entries that stay are put together
again, keys in the order of their first entry.

Spec: docs/spec/aggregates.md#maps
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bucketlake.lsm.aggregates.codes import Entries, codes, entries_of, grouped, ranks, rebuilt
from bucketlake.lsm.aggregates.lists import nothing_added
from bucketlake.lsm.aggregates.pick import settled
from bucketlake.lsm.aggregates.rows import About, Indices, Mask, Rows, first_of, last_of, valid

__all__ = ["merge_map", "merge_map_with_keytime"]


def merge_map(rows: Rows, about: About) -> pa.Array:
    """All keys with their newest values; a retracting row removes the keys that it holds, whatever their values."""
    found, empty = entries_of(rows), nothing_added(rows)
    if not len(found.rows):
        return rebuilt(rows.values.type, found.values, found.groups, empty)
    order, starts = grouped(found.groups, codes(found.values.field(0)))
    owners = found.rows[order]
    retract = None if rows.retract is None else rows.retract[owners]
    late = None if rows.late is None else rows.late[owners]
    at = settled(np.ones(len(order), np.bool_), retract, late, starts)
    return _chosen(rows, found, (order, starts), at)


def merge_map_with_keytime(rows: Rows, about: About) -> pa.Array:
    """All keys with the value of the greatest time, of equal times the one that is there already.

    A null value removes its key; an entry without time is skipped. Neither applies to a group's first map, which is
    taken as it is.
    """
    found, empty = entries_of(rows), nothing_added(rows)
    if not len(found.rows):
        return rebuilt(rows.values.type, found.values, found.groups, empty)
    places = found.places()
    order, starts = grouped(found.groups, codes(found.values.field(0)))
    items = found.values.field(1)
    name = about.options.ts_field
    time = items.flatten()[items.type.num_fields - 1 if name is None else items.type.get_field_index(name)]
    opening = _opening(rows)[found.rows][order]
    late = None if rows.late is None else rows.late[found.rows][order]
    gone = ~_present(items)[order] & ~opening
    if late is not None:
        gone &= ~late
    after = np.arange(len(order)) > np.repeat(last_of(gone, starts), np.diff(starts, append=len(order)))
    timed = after & _present(time)[order]
    at = _greatest(np.where(timed, ranks(time)[order], -1), places[order], timed, starts)
    plain = after & (opening if late is None else opening | late)
    at = np.where(at < 0, first_of(plain, starts), at)
    return _chosen(rows, found, (order, starts), at)


def _present(array: pa.Array) -> Mask:
    mask = valid(array)
    return np.ones(len(array), np.bool_) if mask is None else mask


def _opening(rows: Rows) -> Mask:
    """The first map of each group."""
    first = first_of(_present(rows.values), rows.starts)
    opening = np.zeros(len(rows), np.bool_)
    opening[first[first >= 0]] = True
    return opening


def _greatest(times: Indices, places: Indices, timed: Mask, starts: Indices) -> Indices:
    """The entry of each key's greatest time, of equal times the one in the foremost row; -1 where none is timed."""
    lengths = np.diff(starts, append=len(times))
    best = timed & (times == np.repeat(np.maximum.reduceat(times, starts), lengths))
    far = len(times) + int(places.max(initial=0)) + 1
    foremost = np.repeat(np.minimum.reduceat(np.where(best, places, far), starts), lengths)
    return first_of(best & (places == foremost), starts)


def _chosen(rows: Rows, found: Entries, keys: tuple[Indices, Indices], at: Indices) -> pa.Array:
    """Maps of the entries at positions `at` of the grouped order, none where -1."""
    order, starts = keys
    held = at >= 0
    winners, firsts = order[at[held]], order[starts[held]]
    chosen = found.select(winners[np.argsort(firsts, kind="stable")])
    return rebuilt(rows.values.type, chosen.values, chosen.groups, nothing_added(rows))
