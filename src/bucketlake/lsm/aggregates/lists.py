"""Aggregates of ARRAY columns: collect, nested_update, nested_partial_update.

Lists are taken apart into elements, elements are matched by group and equality code, and what stays is put together
again. Elements stand in the order of the rows that brought them, late rows in front (collect: where they came).

Spec: docs/spec/aggregates.md#lists
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from bucketlake.lsm.aggregates.codes import Entries, codes, entries_of, grouped, pair_codes, ranks, rebuilt
from bucketlake.lsm.aggregates.rows import About, Indices, Mask, Rows, first_of, last_of, take, valid, without

__all__ = ["collect", "nested_partial_update", "nested_update", "nothing_added"]


def nothing_added(rows: Rows) -> Mask:
    """The groups in which no row that adds has a value."""
    present = valid(rows.values)
    adds = rows.adds() if present is None else rows.adds() & present
    return without(adds, rows.starts)


def collect(rows: Rows, about: About) -> pa.Array:
    """All elements of the lists; with `distinct` each once.

    A retracting row takes away one element for each of its own, the oldest that is equal; what is not there is ignored.
    """
    if not about.options.ignore_retract:
        rows = replace(rows, late=None)
    found, empty = entries_of(rows), nothing_added(rows)
    distinct = about.options.distinct
    if distinct or rows.retract is not None:
        order, starts = grouped(found.groups, codes(found.values))
        back = np.zeros(len(order), np.bool_) if rows.retract is None else rows.retract[found.rows][order]
        if not len(order):
            stays = back
        elif distinct:
            stays = _present_once(back, starts)
        else:
            stays = _left_over(back, starts)
        found = found.select(np.sort(order[stays]))
    if rows.late is not None:
        found = found.select(np.lexsort((found.places(), found.groups)))
    return rebuilt(rows.values.type, found.values, found.groups, empty)


def _present_once(back: Mask, starts: Indices) -> Mask:
    """Of each stretch of equal elements, the first after the last that is taken back."""
    stays = np.zeros(len(back), np.bool_)
    at = first_of(_after_last(back, starts), starts)
    stays[at[at >= 0]] = True
    return stays


def _after_last(back: Mask, starts: Indices) -> Mask:
    """The elements of each stretch after its last one that takes back."""
    last = np.repeat(last_of(back, starts), np.diff(starts, append=len(back)))
    after: Mask = np.arange(len(back)) > last
    return after


def _left_over(back: Mask, starts: Indices) -> Mask:
    """Of each stretch of equal elements the newest, as many as are left when each that takes back removes one."""
    lengths = np.diff(starts, append=len(back))
    balance = np.cumsum(np.where(back, -1, 1))
    balance -= np.repeat(balance[starts] - np.where(back, -1, 1)[starts], lengths)
    lost = np.minimum(np.minimum.reduceat(balance, starts), 0)  # taken back before it was there
    left = balance[starts + lengths - 1] - lost
    newer = np.cumsum(~back)
    newer = np.repeat(newer[starts + lengths - 1], lengths) - newer  # adding elements after this one
    stays: Mask = ~back & (newer < np.repeat(left, lengths))
    return stays


def nested_update(rows: Rows, about: About) -> pa.Array:
    """The rows of a nested table: appended, or upserted by `nested-key`, up to `count-limit`.

    A retracting row removes the nested rows with the keys (without keys: equal to those) that it holds.
    """
    bound = _may_reach_limit(rows, about)
    if bound is None or not bound.any():
        return _nested(rows, about)
    keep = np.repeat(bound, rows.lengths())
    staged, groups = rows.select(keep)
    slow = _staged(staged, about)
    if groups.all():
        return slow
    fast = _nested(rows.select(~keep)[0], about)
    place = np.where(groups, np.cumsum(groups) - 1, np.cumsum(~groups) - 1 + len(slow))
    return take(pa.concat_arrays([slow, fast]), place)


def _may_reach_limit(rows: Rows, about: About) -> Mask | None:
    """The groups where the limit may refuse an element at one time that would be welcome at another."""
    if rows.retract is None and rows.late is None:
        return None
    sizes = np.bincount(entries_of(rows).groups, minlength=rows.groups)
    mixed = np.zeros(len(rows), np.bool_)
    for mask in (rows.retract, rows.late):
        if mask is not None:
            mixed |= mask
    bound: Mask = (sizes > about.options.count_limit) & np.logical_or.reduceat(mixed, rows.starts)
    return bound


def _staged(rows: Rows, about: About) -> pa.Array:
    """The fold of all groups, one stretch of rows of one kind after the other."""
    late = np.zeros(len(rows), np.bool_) if rows.late is None else rows.late
    back = np.zeros(len(rows), np.bool_) if rows.retract is None else rows.retract
    turns = np.ones(len(rows), np.bool_)
    turns[1:] = late[1:] | late[:-1] | (back[1:] != back[:-1])
    turns[rows.starts] = True
    passed: Indices = np.cumsum(turns)
    stage = passed - np.repeat(passed[rows.starts], rows.lengths())
    state = pa.nulls(rows.groups, rows.values.type)
    for step in range(int(stage.max()) + 1):
        part, groups = rows.select(stage == step)
        held = np.flatnonzero(groups)
        results = _nested(_with_state(part, take(state, held)), about)
        place = np.arange(rows.groups)
        place[held] = rows.groups + np.arange(len(held))
        state = take(pa.concat_arrays([state, results]), place)
    return state


def _with_state(part: Rows, state: pa.Array) -> Rows:
    """Each group's rows with what it held before as their first."""
    starts = part.starts + np.arange(part.groups)
    place = np.arange(len(part)) + part.ids() + 1
    order = np.empty(len(part) + part.groups, np.int64)
    order[starts], order[place] = np.arange(part.groups), part.groups + np.arange(len(part))

    def widened(mask: Mask | None) -> Mask | None:
        if mask is None:
            return None
        wide = np.zeros(len(order), np.bool_)
        wide[place] = mask
        return wide

    values = take(pa.concat_arrays([state, part.values]), order)
    return Rows(values, starts, widened(part.retract), widened(part.late))


def _nested(rows: Rows, about: About) -> pa.Array:
    """The nested tables where the limit refuses elements only at the end."""
    found, empty = entries_of(rows), nothing_added(rows)
    present = valid(found.values)
    if present is not None:
        found = found.select(present)
    limit = about.options.count_limit
    if about.options.nested_key:
        if rows.retract is not None:
            found = found.select(rows.begun()[found.rows])
        found, keys = _keyed(found, about)
        found = _upserted(found, keys, rows, about)
    else:
        if rows.retract is not None:
            found = found.select(_not_taken_back(found, codes(found.values), rows))
        if rows.late is not None:
            found = found.select(np.lexsort((found.places(), found.groups)))
    firsts = np.searchsorted(found.groups, found.groups)
    within = np.arange(len(firsts)) - firsts < limit
    if not within.all():
        found = found.select(within)
    return rebuilt(rows.values.type, found.values, found.groups, empty)


def _not_taken_back(found: Entries, keys: Indices, rows: Rows) -> Mask:
    """The adding elements that no later retracting element of their group and key takes back."""
    stays = np.zeros(len(keys), np.bool_)
    if len(keys) and rows.retract is not None:
        order, starts = grouped(found.groups, keys)
        stays[order] = _after_last(rows.retract[found.rows][order], starts)
    return stays


def _keyed(found: Entries, about: About) -> tuple[Entries, Indices]:
    """Elements and the codes of their nested keys, with nulls in keys treated as `nested-key-null-strategy` says."""
    columns = [found.values.field(name) for name in about.options.nested_key]
    strategy = about.options.nested_key_null_strategy or "merge"
    if strategy != "merge" and any(column.null_count for column in columns):
        if strategy == "error":
            raise about.error(
                "Nested key contains null values. Primary key fields must not be null.",
                remedy="fill the nulls, or set nested-key-null-strategy to ignore or merge",
            )
        whole = np.logical_and.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in columns])
        found = found.select(whole)
        columns = [found.values.field(name) for name in about.options.nested_key]
    return found, pair_codes([codes(column) for column in columns])


def _upserted(found: Entries, keys: Indices, rows: Rows, about: About) -> Entries:
    """One element a key: the last, or the last of the greatest sequence; keys in the order of their first element."""
    if not len(keys):
        return found
    if rows.retract is not None:
        stays = _not_taken_back(found, keys, rows)
        found, keys = found.select(stays), keys[stays]
        if not len(keys):
            return found
    places = found.places()
    order, starts = grouped(found.groups, keys, places)
    firsts = order[starts]
    sequence = [ranks(found.values.field(name)) for name in about.options.nested_sequence_field]
    if sequence:
        newest, _ = grouped(found.groups, keys, *sequence, places)
    else:
        newest = order
    lasts = newest[starts + np.diff(starts, append=len(order)) - 1]
    return found.select(lasts[np.lexsort((firsts, places[firsts], found.groups[firsts]))])


def nested_partial_update(rows: Rows, about: About) -> pa.Array:
    """The rows of a nested table by `nested-key`, each member the last that is not null."""
    found, empty = entries_of(rows), nothing_added(rows)
    present = valid(found.values)
    if present is not None:
        found = found.select(present)
    found, keys = _keyed(found, about)
    if not len(keys):
        return rebuilt(rows.values.type, found.values, found.groups, empty)
    places = found.places()
    order, starts = grouped(found.groups, keys, places)
    firsts = order[starts]
    arranged = np.lexsort((firsts, places[firsts], found.groups[firsts]))
    kind = found.values.type
    members = [
        take(member, _last_present(member, order, starts)[arranged])
        for member in (found.values.field(i) for i in range(kind.num_fields))
    ]
    values = pa.StructArray.from_arrays(members, fields=[kind.field(i) for i in range(kind.num_fields)])
    return rebuilt(rows.values.type, values, found.groups[firsts][arranged], empty)


def _last_present(member: pa.Array, order: Indices, starts: Indices) -> Indices:
    present = valid(member)
    if present is None:
        return order[starts + np.diff(starts, append=len(order)) - 1]
    last = last_of(present[order], starts)
    return np.where(last >= 0, order[last], -1)
