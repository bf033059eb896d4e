"""Merging sorted runs while keeping track of what was there before: rows, and the changes that make them.

    merge_tracked(runs: Sequence[TrackedRun], order, engine, tracking, lookup=None, block=BlockSize())
        -> Iterator[Changed(rows, changelog)]
    TrackedRun(batches, age)    age 0: new rows; n > 0: a previous state, the newest of a key having the least n
    Lookup = Callable[[RecordBatch of keys], Found]          previous states that lie outside of the runs
    merge_settled(runs: Sequence[TrackedRun], order, engine, …)       rows alone, older previous states left out

Row kinds in changelogs: +I for a key that appears, -D for one that goes, -U and +U, in this order, for one that stays.

Spec: docs/spec/changelog.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.lazy import pc
from bucketlake.lsm.compaction import looks_up
from bucketlake.lsm.engines.engines import Groups, Merged, MergeEngine, is_retract
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.merge import DEFAULT_BLOCK, BlockSize, slices
from bucketlake.options.options import TableOptions
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.values import dataclass

__all__ = [
    "Changed",
    "Found",
    "Lookup",
    "TrackedRun",
    "Tracking",
    "merge_settled",
    "merge_tracked",
    "same_values",
    "settles",
]

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
NONE = -1
OLDEST = 127


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A sorted run and where it comes from. `age` 0: new rows. `age` n, 1 to 126: rows that were there before."""

    batches: Iterable[pa.RecordBatch]
    age: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup knows of the keys it was asked for. `places`: the keys that had a row, ascending. `rows`: these
    rows, in the runs' schema; None where only their existence matters."""

    places: Indices
    rows: pa.RecordBatch | None = None


Lookup = Callable[[pa.RecordBatch], Found]
"""Finds previous rows of keys (the key columns, ascending, all different)."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """How previous states count. Spec: docs/spec/changelog.md#rules

    `drop_deletes`: results of kind -U and -D are not written. `changelog`: changes are told. `settles`: a previous
    state holds all that was before it, older ones are left out of the merge. `alone`: a new row that is alone is
    merged, too, with nothing. `first_wins`: keys that have a previous state do not change. `compared`: value columns; a
    change of none of them is not told (None: all are told).
    """

    drop_deletes: bool = False
    changelog: bool = True
    settles: bool = True
    alone: bool = False
    first_wins: bool = False
    compared: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """One slice: the rows to write, in key order, and the changes, both possibly without rows; None: not told."""

    rows: pa.RecordBatch
    changelog: pa.RecordBatch | None = None


def settles(options: TableOptions) -> bool:
    """Whether rows above level 0 hold all that was before them: compaction looks it up when it makes them.

    Spec: docs/spec/changelog.md#settled-rows
    """
    return looks_up(options) and options.get("changelog-producer") != "full-compaction"


def merge_tracked(
    runs: Sequence[TrackedRun],
    order: KeyOrder,
    engine: MergeEngine,
    tracking: Tracking,
    lookup: Lookup | None = None,
    block: BlockSize = DEFAULT_BLOCK,
) -> Iterator[Changed]:
    """The merged rows of sorted runs (oldest first), slice by slice, with what changes for keys that have new rows.

    A key's state before is its newest previous row in the runs, else what `lookup` finds; the state after is what the
    engine makes of its rows, found ones included. Rows that only a lookup found are not written.
    Requires: runs of an age above 0 hold every key once. Memory: a few blocks a run.
    Raises InvalidError naming a key column that holds nulls.
    Spec: docs/spec/changelog.md
    """
    ages = [run.age for run in runs]
    for parts in slices([run.batches for run in runs], order, block):
        state = _gather(parts, ages, order)
        if tracking.settles and engine.computes:
            state = _settled(state)
        yield _changed(state, order, engine, tracking, lookup)


def merge_settled(
    runs: Sequence[TrackedRun],
    order: KeyOrder,
    engine: MergeEngine,
    *,
    drop_deletes: bool = False,
    block: BlockSize = DEFAULT_BLOCK,
) -> Iterator[pa.RecordBatch]:
    """As `merge_runs`, for tables whose compaction looks up: of a key's previous states only the newest counts.

    Spec: docs/spec/changelog.md#settled-rows
    """
    tracking = Tracking(drop_deletes=drop_deletes, changelog=False)
    for changed in merge_tracked(runs, order, engine, tracking, None, block):
        if changed.rows.num_rows:
            yield changed.rows


@dataclass(slots=True)
class _State:
    """Rows of one slice. `order`, `starts`: as in Groups, never None; `ages`: by row number; `before`: each group's
    previous row, its row number or NONE; `fresh`: groups with new rows; `kept_out`: groups whose result is not
    written."""

    rows: pa.RecordBatch
    ages: npt.NDArray[np.int8]
    order: Indices
    starts: Indices
    before: Indices
    fresh: Mask
    kept_out: Mask

    @property
    def groups(self) -> int:
        return len(self.starts)

    def group_of_rows(self) -> Indices:
        """The group of every row number."""
        found = np.empty(self.rows.num_rows, np.int64)
        found[self.order] = np.repeat(np.arange(self.groups), np.diff(self.starts, append=len(self.order)))
        return found


def _gather(parts: list[list[pa.RecordBatch]], ages: list[int], order: KeyOrder) -> _State:
    batches = [batch for part in parts for batch in part]
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    counts = [sum(batch.num_rows for batch in part) for part in parts]
    return _state(rows, np.repeat(np.array(ages, np.int8), counts), order)


def _state(rows: pa.RecordBatch, ages: npt.NDArray[np.int8], order: KeyOrder) -> _State:
    ordered, starts = order.sort(rows)
    ordered = np.arange(rows.num_rows) if ordered is None else ordered
    starts = np.arange(rows.num_rows) if starts is None else starts
    by_order = ages[ordered]
    fresh = np.logical_or.reduceat(by_order == 0, starts)
    before = np.full(len(starts), NONE, np.int64)
    old = by_order > 0
    if old.any():
        dated = np.where(old, by_order, np.int8(OLDEST))
        newest = np.minimum.reduceat(dated, starts)
        is_newest = old & (by_order == np.repeat(newest, np.diff(starts, append=len(ordered))))
        place = np.maximum.reduceat(np.where(is_newest, np.arange(len(ordered)), NONE), starts)
        before = np.where(place == NONE, NONE, ordered[place])
    return _State(rows, ages, ordered, starts, before, fresh, np.zeros(len(starts), np.bool_))


def _settled(state: _State) -> _State:
    """Without previous rows that a newer previous row of the same key stands for."""
    stays = state.ages == 0
    stays[state.before[state.before != NONE]] = True
    if stays.all():
        return state
    by_order = stays[state.order]
    sizes = np.add.reduceat(by_order.astype(np.int64), state.starts)
    rows = pc.take(state.rows, pa.array(state.order[by_order]), boundscheck=False)
    number = np.full(len(stays), NONE, np.int64)
    number[state.order[by_order]] = np.arange(rows.num_rows)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    before = np.where(state.before == NONE, NONE, number[state.before])
    ages = state.ages[state.order[by_order]]
    return _State(rows, ages, np.arange(rows.num_rows), starts, before, state.fresh, state.kept_out)


def _changed(state: _State, order: KeyOrder, engine: MergeEngine, tracking: Tracking, lookup: Lookup | None) -> Changed:
    settled = state.before != NONE
    if lookup is not None:
        _look_up(state, order, lookup, tracking)
    alone = state.fresh if tracking.alone else None
    merged = engine.merge(Groups(state.order, state.starts, len(state.order), state.rows.column, alone))
    picks = np.arange(state.rows.num_rows) if merged.rows is None else merged.rows
    computed = merged.columns.get(KIND_FIELD.name)
    kinds = state.rows.column(KIND_FIELD.name).to_numpy()
    retract = is_retract(kinds[picks] if computed is None else computed.to_numpy())
    group = state.group_of_rows()[picks]
    written = ~state.kept_out[group]
    if tracking.drop_deletes:
        written &= ~retract
    rows = _written(state.rows, picks, merged, written)
    if not tracking.changelog:
        return Changed(rows)
    result = np.full(state.groups, NONE, np.int64)
    result[group] = np.arange(len(picks))
    added = np.zeros(state.groups, np.bool_)
    added[group] = ~retract
    if tracking.first_wins:
        told = np.flatnonzero(state.fresh & added & ~settled & ~state.kept_out)
        return Changed(rows, _written(state.rows, picks, merged, result[told]))
    return Changed(rows, _changes(state, picks, merged, (result, added, ~is_retract(kinds)), tracking))


def _look_up(state: _State, order: KeyOrder, lookup: Lookup, tracking: Tracking) -> None:
    """Take in the previous rows of keys that are new here, each before the others of its key."""
    asked = np.flatnonzero(state.fresh & (state.before == NONE))
    if not len(asked):
        return
    names = [item.name for item in order.fields]
    keys = pc.take(state.rows.select(names), pa.array(state.order[state.starts[asked]]), boundscheck=False)
    found = lookup(keys)
    groups = asked[found.places]
    if tracking.first_wins:
        state.kept_out[groups] = True
    if found.rows is None or not len(groups):
        return
    numbers = state.rows.num_rows + np.arange(len(groups))
    state.rows = pa.concat_batches([state.rows, found.rows])
    state.ages = np.concatenate((state.ages, np.full(len(groups), OLDEST, np.int8)))
    state.before[groups] = numbers
    if order.sequence:
        ordered, starts = order.sort(state.rows)
        state.order = np.arange(state.rows.num_rows) if ordered is None else ordered
        state.starts = state.starts if starts is None else starts
        return
    state.order = np.insert(state.order, state.starts[groups], numbers)
    state.starts = state.starts + np.searchsorted(groups, np.arange(state.groups))


def _written(rows: pa.RecordBatch, picks: Indices, merged: Merged, chosen: Mask | Indices) -> pa.RecordBatch:
    """Some of the results: a mask over them, or their numbers."""
    if chosen.dtype == np.bool_ and chosen.all():
        if merged.rows is None and not merged.columns:
            return rows
        chosen = np.arange(len(picks))
    elif chosen.dtype == np.bool_:
        chosen = np.flatnonzero(chosen)
    numbers = pa.array(picks[chosen])
    if not merged.columns:
        return pc.take(rows, numbers, boundscheck=False)
    within = pa.array(chosen)
    columns = [
        pc.take(merged.columns[name], within) if name in merged.columns else pc.take(rows.column(name), numbers)
        for name in rows.schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _changes(
    state: _State, picks: Indices, merged: Merged, results: tuple[Indices, Mask, Mask], tracking: Tracking
) -> pa.RecordBatch:
    """The changelog of a slice. `results`: each group's result number, whether it is a row, and by row number whether
    that is one."""
    result, added, is_row = results
    existed = state.before != NONE
    existed[existed] = is_row[state.before[existed]]
    update = state.fresh & existed & added
    if tracking.compared is not None and update.any():
        update[np.flatnonzero(update)[_unchanged(state, picks, merged, result, update, tracking.compared)]] = False
    delete, insert = state.fresh & existed & ~added, state.fresh & ~existed & added
    left, right = np.flatnonzero(delete | update), np.flatnonzero(insert | update)
    sequence = np.argsort(np.concatenate((left * 2, right * 2 + 1)), kind="stable")
    kinds = np.concatenate(
        (np.where(delete[left], DELETE, UPDATE_BEFORE), np.where(insert[right], INSERT, UPDATE_AFTER))
    ).astype(np.int8)[sequence]
    old, new = state.before[left], result[right]
    plain = pa.array(np.concatenate((old, picks[new]))[sequence])
    mixed = pa.array(np.concatenate((old, state.rows.num_rows + new))[sequence])
    columns = []
    for name in state.rows.schema.names:
        column = state.rows.column(name)
        if name == KIND_FIELD.name:
            columns.append(pa.array(kinds))
        elif name in merged.columns:
            columns.append(pc.take(pa.concat_arrays([column, merged.columns[name]]), mixed))
        else:
            columns.append(pc.take(column, plain))
    return pa.RecordBatch.from_arrays(columns, schema=state.rows.schema)


def _unchanged(
    state: _State, picks: Indices, merged: Merged, result: Indices, update: Mask, compared: Sequence[str]
) -> Mask:
    """Which of the updated groups have the same values before and after."""
    numbers = result[update]
    old, new, within = pa.array(state.before[update]), pa.array(picks[numbers]), pa.array(numbers)
    same = np.ones(len(numbers), np.bool_)
    for name in compared:
        column, computed = state.rows.column(name), merged.columns.get(name)
        after = pc.take(column, new) if computed is None else pc.take(computed, within)
        same &= same_values(pc.take(column, old), after)
    return same


def same_values(left: pa.Array, right: pa.Array) -> Mask:
    """Row by row whether two arrays of one type hold equal values; null equals null, NaN equals nothing."""
    one, two = _valid(left), _valid(right)
    both, kind = one & two, left.type
    if pa.types.is_struct(kind):
        equal = np.ones(len(left), np.bool_)
        for number in range(kind.num_fields):
            equal &= same_values(left.field(number), right.field(number))
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        equal = _same_lists(left, right, both)
    else:
        equal = pc.fill_null(pc.equal(left, right), False).to_numpy(zero_copy_only=False)
    same: Mask = np.where(both, equal, one == two)
    return same


def _same_lists(left: pa.Array, right: pa.Array, both: Mask) -> Mask:
    """For rows where `both` are there: same length, same elements in the same order."""
    one, two = _lengths(left), _lengths(right)
    equal: Mask = both & (one == two)
    rows = np.flatnonzero(equal & (one > 0))
    if len(rows):
        picked = pa.array(rows)
        items = [_items(pc.take(side, picked)) for side in (left, right)]
        starts = np.concatenate(([0], np.cumsum(one[rows])[:-1]))
        equal[rows] = np.logical_and.reduceat(same_values(*items), starts)
    return equal


def _items(array: pa.Array) -> pa.Array:
    """All elements of lists without nulls; of maps their entries as structs."""
    if not pa.types.is_map(array.type):
        return array.flatten()
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    keys, values = array.keys.slice(first, last - first), array.items.slice(first, last - first)
    return pa.StructArray.from_arrays([keys, values], ["key", "value"])


def _lengths(array: pa.Array) -> Indices:
    lengths: Indices = np.diff(array.offsets.to_numpy()).astype(np.int64)
    lengths[~_valid(array)] = 0
    return lengths


def _valid(array: pa.Array) -> Mask:
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid
