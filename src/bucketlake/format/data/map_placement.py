"""Which value column of a shredded map each key of a row goes to; keys that find none overflow.

A row's keys overflow only where it has more of them than there are columns, whatever the policy.

Spec: docs/spec/map_shredding.md#placement
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bucketlake.options.map_layout import MapLayout

Ints = npt.NDArray[np.int64]
OVERFLOWS = -1
_BLOCK = 1024
"""Rows over which `lru` keeps to one assignment, once a file has more keys than columns."""
_CELLS = 1 << 20


class Placer:
    """Places the keys of one column's rows, batch after batch of one file."""

    def __init__(self, layout: MapLayout) -> None:
        self._layout = layout
        self._column = np.zeros(0, np.int64)  # by number of a key: the column that it has, or OVERFLOWS
        self._resident = np.full(layout.columns, -1, np.int64)  # by column: the number of the key that has it
        self._seen = np.zeros(0, np.int64)  # by number of a key: the last row that has it
        self._rows = 0

    @property
    def by_number(self) -> bool:
        """Whether a row's entries are to come by the number of their key, not in the order of the map."""
        return self._layout.placement != "plain"

    def placed(self, rows: Ints, numbers: Ints, count: int) -> Ints:
        """The column of each entry. `rows`: of each entry, ascending, below `count`; `numbers`: of its key, of which a
        row has each once, ascending in a row if they are to come so."""
        if self._layout.placement != "lru":
            slots = ranks(rows, count)
            return np.where(slots < self._layout.columns, slots, OVERFLOWS)
        self._grow(int(numbers.max()) + 1 if len(numbers) else 0)
        slots = self._recent(rows, numbers, count)
        self._rows += count
        return slots

    def _grow(self, known: int) -> None:
        more = max(known - len(self._seen), 0)
        self._seen = np.concatenate([self._seen, np.zeros(more, np.int64)])
        self._column = np.concatenate([self._column, np.full(more, OVERFLOWS, np.int64)])

    def _recent(self, rows: Ints, numbers: Ints, count: int) -> Ints:
        """Each key in the column that it has; keys without one in a column that their row does not use."""
        if len(self._seen) <= self._layout.columns:  # keys are numbered as they come, and so are columns
            self._column = np.arange(len(self._seen))
            self._resident[: len(self._seen)] = self._column
            self._seen[numbers] = self._rows + rows
            return numbers
        slots = np.empty(len(rows), np.int64)
        block = max(1, min(_BLOCK, _CELLS // self._layout.columns))
        for first in range(0, count, block):
            start, end = np.searchsorted(rows, (first, first + block)).tolist()
            own = numbers[start:end]
            self._assign(distinct(own, len(self._seen)))
            slots[start:end] = _filled(rows[start:end] - first, self._column[own], block, self._layout.columns)
            self._seen[own] = self._rows + rows[start:end]
        return slots

    def _assign(self, present: Ints) -> None:
        """Give columns to keys without one: those of no key, then those of the keys not seen for longest, but of none
        that is present."""
        wanting = present[self._column[present] == OVERFLOWS]
        if not len(wanting):
            return
        empty = np.flatnonzero(self._resident < 0)
        held = np.flatnonzero((self._resident >= 0) & ~np.isin(self._resident, present))
        held = held[np.argsort(self._seen[self._resident[held]], kind="stable")]
        free = np.concatenate([empty, held])[: len(wanting)]
        gone = self._resident[free]
        self._column[gone[gone >= 0]] = OVERFLOWS
        self._resident[free] = wanting[: len(free)]
        self._column[wanting[: len(free)]] = free


def _filled(rows: Ints, slots: Ints, count: int, columns: int) -> Ints:
    """The columns of entries, those without one in the first that are free in their rows."""
    left = np.flatnonzero(slots == OVERFLOWS)
    if not len(left):
        return slots
    crowded = distinct(rows[left], count)
    place = np.full(count, -1, np.int64)
    place[crowded] = np.arange(len(crowded))
    used = np.zeros((len(crowded), columns), np.bool_)
    taken = np.flatnonzero((place[rows] >= 0) & (slots != OVERFLOWS))
    used[place[rows[taken]], slots[taken]] = True
    free = np.argsort(used, axis=1, kind="stable")
    room = columns - used.sum(axis=1)
    at = place[rows[left]]
    nth = ranks(at, len(crowded))
    fits = nth < room[at]
    slots[left[fits]] = free[at[fits], nth[fits]]
    return slots


def distinct(values: Ints, bound: int) -> Ints:
    """Each value once, ascending; all are from 0 up to `bound`. NumPy's own hashes them, which takes far longer."""
    if bound <= 4 * len(values):
        found = np.zeros(bound, np.bool_)
        found[values] = True
        return np.flatnonzero(found)
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def ranks(rows: Ints, count: int) -> Ints:
    """The place of each entry among those of its row; `rows` ascend."""
    counts = np.bincount(rows, minlength=count)
    return np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
