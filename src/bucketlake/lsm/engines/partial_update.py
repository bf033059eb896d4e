"""The partial-update engine: every column's newest value that is not null or, in sequence groups, the newest row's.

    SequenceGroup(fields, columns, removes=False)
    PartialUpdate(plain, groups=(), aggregates={}, deletes=Deletes.REFUSED)

What happens to a key is a fold over its rows in order, from a first row on: the key's oldest row, or the last row that
removed the record. Columns outside of groups take the newest value that is not null. In a group, a row whose sequence
fields are not all null counts as new if they are no less than any before; it then gives all columns of the group, nulls
too. A group's columns with an aggregate fold every row that has a sequence, older ones as if they had come first.

Spec: docs/spec/merge.md#partial-update
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.lsm.aggregates.functions import Aggregate
from bucketlake.lsm.aggregates.rows import scatter
from bucketlake.lsm.engines.engines import Groups, Merged
from bucketlake.lsm.engines.fold import Fold, Indices, Mask, gather
from bucketlake.lsm.keys import ranks
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.values import dataclass

__all__ = ["PARTIAL_UPDATE_RETRACTS", "Deletes", "PartialUpdate", "SequenceGroup"]

DELETE = 3
PARTIAL_UPDATE_RETRACTS = "\n".join(
    (
        "By default, Partial update can not accept delete records, you can choose one of the following solutions:",
        "1. Configure 'ignore-delete' to ignore delete records.",
        "2. Configure 'partial-update.remove-record-on-delete' to remove the whole row when receiving delete records.",
        "3. Configure 'sequence-group's to retract partial columns. Also configure "
        "'partial-update.remove-record-on-sequence-group' to remove the whole row when receiving deleted records of "
        "`specified sequence group`.",
    )
)


class Deletes(Enum):
    """What rows of kind -U and -D do in a table without sequence groups; with groups they retract, unless ignored."""

    REFUSED = "refused"
    IGNORED = "ignored"  # ignore-delete
    REMOVE = "remove"  # partial-update.remove-record-on-delete: -D takes the row away, -U does nothing


@dataclass(frozen=True)
class SequenceGroup:
    """`fields`: compared in order, nulls least; `columns`: the others of the group, which follow them.

    `removes`: a -D that is new in this group takes the whole row away."""

    fields: tuple[str, ...]
    columns: tuple[str, ...]
    removes: bool = False


@dataclass(frozen=True)
class PartialUpdate:
    """One row a key: +I, or -D where its newest row removed it or all its rows retract.

    `plain`: columns outside of groups, without the primary key. `aggregates`: by column, of columns in groups.
    Spec: docs/spec/merge.md#partial-update
    """

    plain: tuple[str, ...]
    groups: tuple[SequenceGroup, ...] = ()
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    deletes: Deletes = Deletes.REFUSED
    computes: ClassVar[bool] = True

    def requires(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The sequence fields of groups that have any of the columns, and of those that remove rows."""
        wanted = set(columns)
        needed = [g.fields for g in self.groups if g.removes or wanted.intersection((*g.fields, *g.columns))]
        return tuple(dict.fromkeys(name for fields in needed for name in fields if name not in wanted))

    def merge(self, groups: Groups) -> Merged:
        """The updated row of every group; a row alone in its group stays as it is, unless `groups.alone`.

        Raises InvalidError for a delete that no option allows, and as the aggregates do.
        """
        fold = Fold.of(groups)
        if fold is None:
            return Merged(groups.order)
        groups = replace(groups, column=cache(groups.column))
        if fold.retract is not None and self.deletes is Deletes.IGNORED:
            fold = replace(fold, kept=_or(fold.last_true(~fold.retract), fold.lasts))
        states = [_State.of(group, groups, fold, self.deletes) for group in self.groups if _is_read(group, groups)]
        begin, removed = self._begin(fold, states)
        columns: dict[str, pa.Array] = {}
        for name in self.plain:
            column = groups.find(name)
            if column is not None:
                _set(columns, name, fold.picked(column, _newest(fold, column, begin)))
        for state in states:
            state.update(groups, (begin, removed), self.aggregates, columns)
        adds = None if fold.retract is None else np.logical_or.reduceat(~fold.retract, fold.starts)
        deleted = removed & (begin == fold.lasts)
        _set(columns, KIND_FIELD.name, fold.result_kinds(deleted if adds is None else deleted | ~adds))
        return Merged(fold.rows, columns)

    def _begin(self, fold: Fold, states: Sequence[_State]) -> tuple[Indices, Mask]:
        """Where the fold of each group begins, and whether that is a row that removed the record."""
        never = np.zeros(len(fold.starts), np.bool_)
        if fold.retract is None or self.deletes is Deletes.IGNORED:
            return fold.starts, never
        if self.groups:
            return _removed(fold, [state for state in states if state.group.removes])
        if self.deletes is Deletes.REFUSED:
            if fold.retract[fold.by_row(fold.sizes > 1)].any():
                raise InvalidError(PARTIAL_UPDATE_RETRACTS)
            return fold.starts, never
        found = fold.last_true(fold.kinds == DELETE)
        return _or(found, fold.starts), found >= 0


@dataclass(frozen=True, slots=True)
class _State:
    """One sequence group over a slice, by position. `effective`: the row has a sequence and is not ignored; `rank`: by
    (key, sequence), equal where these are."""

    group: SequenceGroup
    fold: Fold
    effective: Mask
    rank: Indices

    @classmethod
    def of(cls, group: SequenceGroup, groups: Groups, fold: Fold, deletes: Deletes) -> _State:
        sequence = [groups.column(name) for name in group.fields]
        effective = np.zeros(len(fold.order), np.bool_)
        for column in sequence:
            valid = fold.validity(column)
            effective |= True if valid is None else valid
        if fold.retract is not None and deletes is Deletes.IGNORED:
            effective &= ~fold.retract
        return cls(group, fold, effective, ranks(fold.order, fold.starts, sequence))

    def accepted(self, at: Indices, begin: Indices) -> Mask:
        """Which rows at these positions, all of their keys, are no older than any before them. `begin`: for each, where
        the fold of its key begins; what stands there is the sequence that the key begins with."""
        effective, rank, within = self.effective[at], self.rank[at], at >= begin
        newest = np.maximum.accumulate(np.where((effective & within) | (at == begin), rank, -1))
        found: Mask = effective & within & (rank == newest)
        return found

    def update(
        self,
        groups: Groups,
        start: tuple[Indices, Mask],
        aggregates: Mapping[str, Aggregate],
        columns: dict[str, pa.Array],
    ) -> None:
        """Put the group's columns into `columns`, as far as they are read and not those of the rows kept. `start`:
        where each key's fold begins, and whether that row removed the record."""
        fold, (begin, removed) = self.fold, start
        accepted = self.accepted(np.arange(len(fold.order)), fold.by_row(begin))
        newest = np.maximum(fold.last_true(accepted), begin)
        gone = ~self.effective[newest]
        if fold.retract is not None:
            retract = fold.retract[newest]
            gone = np.where(retract, ~gone & ~(removed & (newest == begin)), gone)
        gone &= fold.many
        for name in self.group.fields:
            column = groups.find(name)
            if column is not None:
                _set(columns, name, fold.picked(column, newest))
        folded: _Folded | None = None
        for name in self.group.columns:
            column = groups.find(name)
            if column is None:
                continue
            if name in aggregates:
                folded = folded or _Folded.of(self, start, accepted)
                columns[name] = folded.column(column, aggregates[name])
            else:
                _set(columns, name, fold.picked(column, newest, gone))


@dataclass(frozen=True, slots=True)
class _Folded:
    """The rows that the aggregates of a group fold, of keys with several rows: row numbers, cut at `starts`, and what
    they do. `groups`: which of these keys have any."""

    fold: Fold
    groups: Mask
    rows: Indices
    starts: Indices
    retract: Mask
    late: Mask
    seed: Mask

    @classmethod
    def of(cls, state: _State, start: tuple[Indices, Mask], accepted: Mask) -> _Folded:
        """Rows with a sequence, and those that a fold begins with as they are: a row that removed the record counts as
        that alone, the oldest row of a key, if it retracts, retracts from itself."""
        fold, (begin, removed) = state.fold, start
        retract = np.zeros(len(fold.order), np.bool_) if fold.retract is None else fold.retract
        times = state.effective.astype(np.int64)
        seeds = begin[removed | retract[begin]]
        times[seeds] += 1
        times[begin[removed]] = 1
        times[~fold.by_row(fold.many)] = 0
        at = np.repeat(np.arange(len(times)), times)
        sizes = np.add.reduceat(times, fold.starts)
        first = np.cumsum(times) - times
        seed = np.zeros(len(at), np.bool_)
        seed[first[seeds[times[seeds] > 0]]] = True
        groups = sizes[fold.many] > 0
        starts = (np.cumsum(sizes) - sizes)[sizes > 0]
        late = ~accepted[at] & ~retract[at] & ~seed
        return cls(fold, groups, fold.order[at], starts, retract[at] & ~seed, late, seed)

    def column(self, column: pa.Array, aggregate: Aggregate) -> pa.Array:
        """The column of the result: null for keys of which no row has a sequence."""
        values = gather(column, self.rows)
        if len(self.starts):
            late = self.late if self.late.any() else None
            seed = self.seed if self.seed.any() else None
            results = aggregate.apply(values, self.retract, self.starts, late, seed)
        else:
            results = values
        return self.fold.combined(column, scatter(results, self.groups))


def _removed(fold: Fold, states: Sequence[_State]) -> tuple[Indices, Mask]:
    """The last row of each key that removed the record, else the first; and which keys have one. `states`: of the
    groups whose deletes remove.

    One removal resets what all groups compare with, so with several such groups they are found one after the other.
    """
    begin, removed = fold.starts.copy(), np.zeros(len(fold.starts), np.bool_)
    deletes = fold.kinds == DELETE
    if len(states) == 1:
        accepted = states[0].accepted(np.arange(len(fold.order)), fold.by_row(begin))
        found = fold.last_true(accepted & deletes)
        return _or(found, begin), found >= 0
    active = np.flatnonzero(fold.many & np.logical_or.reduceat(deletes, fold.starts)) if states else begin[:0]
    while len(active):
        chosen = np.zeros(len(begin), np.bool_)
        chosen[active] = True
        at = np.flatnonzero(fold.by_row(chosen))
        sizes = fold.sizes[active]
        since = np.repeat(begin[active], sizes)
        hits = np.logical_or.reduce([state.accepted(at, since) for state in states])
        hits &= deletes[at] & ((at > since) | ~np.repeat(removed[active], sizes))
        first = np.minimum.reduceat(np.where(hits, at, len(fold.order)), np.cumsum(sizes) - sizes)
        active, first = active[first < len(fold.order)], first[first < len(fold.order)]
        begin[active], removed[active] = first, True
    return begin, removed


def _newest(fold: Fold, column: pa.Array, begin: Indices) -> Indices:
    """Position of each key's newest value that is not null and not a retraction's; where its fold begins if none is."""
    valid = fold.validity(column)
    if fold.retract is not None:
        valid = ~fold.retract if valid is None else valid & ~fold.retract
    return fold.lasts if valid is None else np.maximum(fold.last_true(valid), begin)


def _is_read(group: SequenceGroup, groups: Groups) -> bool:
    return group.removes or any(groups.find(name) is not None for name in (*group.fields, *group.columns))


def _or(found: Indices, other: Indices) -> Indices:
    return np.where(found < 0, other, found)


def _set(columns: dict[str, pa.Array], name: str, column: pa.Array | None) -> None:
    if column is not None:
        columns[name] = column
