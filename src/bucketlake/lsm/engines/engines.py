"""Merge engines: what becomes of the rows of one key. One entry an engine, used by flush, read and compaction alike.

    MergeEngine.merge(groups: Groups) -> Merged
    Deduplicate(ignore_delete=False)         newest row of a key
    FirstRow(ignore_delete=False)            oldest row of a key

The engines that compute values have modules of their own: `aggregation`, `partial_update`. `rules` makes the engine of
a table from its options.

An engine sees one slice of key-ordered rows at once and answers with the rows that stay and, if it computes values, the
columns that take the place of theirs. Whether deletes are dropped from the result is not the engine's decision: flush
and partial compaction keep them, reads and the last level do not (`drop_deletes` of `merge_runs`).

Spec: docs/spec/merge.md#engines
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.values import dataclass

__all__ = [
    "FIRST_ROW_RETRACTS",
    "Deduplicate",
    "FirstRow",
    "Groups",
    "MergeEngine",
    "Merged",
    "is_retract",
    "without_retracts",
]

FIRST_ROW_RETRACTS = (
    "By default, First row merge engine can not accept DELETE/UPDATE_BEFORE records.\n"
    "You can config 'ignore-delete' to ignore the DELETE/UPDATE_BEFORE records."
)

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows of one slice in the order (key, sequence), cut into groups of equal keys.

    `order[i]`: row number, in the slice's columns, of the i-th row in order; None: the rows lie in order already.
    `starts`: position in `order` of each group's first row, int64; None: every row is a group of its own.
    `rows`: how many rows. `column(name)`: a column of the slice in storage order, not in key order. `alone`: the
    groups in which a row that is alone is merged, too, with nothing, where it otherwise stays as it is; None: in none.
    """

    order: Indices | None
    starts: Indices | None
    rows: int
    column: Callable[[str], pa.Array]
    alone: npt.NDArray[np.bool_] | None = None

    def kinds(self) -> npt.NDArray[np.int8]:
        """Row kinds in storage order: 0 +I, 1 -U, 2 +U, 3 -D."""
        kinds: npt.NDArray[np.int8] = self.column(KIND_FIELD.name).to_numpy()
        return kinds

    def find(self, name: str) -> pa.Array | None:
        """A column of the slice, None where it was not asked for."""
        try:
            return self.column(name)
        except KeyError:
            return None

    def places(self) -> Indices:
        """Row number of every row, in order."""
        return np.arange(self.rows) if self.order is None else self.order

    def lasts(self) -> Indices | None:
        """Row number of each group's newest row; None: all rows, as they lie."""
        if self.starts is None:
            return self.order
        ends = np.empty(len(self.starts), np.int64)
        ends[:-1] = self.starts[1:]
        ends[-1:] = self.rows
        ends -= 1
        return ends if self.order is None else self.order[ends]


@dataclass(frozen=True, slots=True)
class Merged:
    """An engine's answer: `rows`, the row numbers that stay, in key order (None: all, as they lie), and `columns`, by
    name, new values for some columns of these rows (same length and type; absent columns are taken from the rows)."""

    rows: Indices | None
    columns: Mapping[str, pa.Array] = field(default_factory=dict)


class MergeEngine(Protocol):
    """Decides what becomes of the rows of each key; pure, picklable, no state between calls."""

    @property
    def computes(self) -> bool:
        """Whether it may give new values; an engine that only picks rows can be decided from keys, by bitmaps."""
        ...

    def requires(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Value columns, beyond these, that it must see to give these columns of the result."""
        ...

    def merge(self, groups: Groups) -> Merged:
        """The result of every group, at most one row each, in key order."""
        ...


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """The newest row of each key, whatever its kind; with `ignore_delete` the newest that is no -U or -D.

    Spec: docs/spec/merge.md#deduplicate
    """

    ignore_delete: bool = False
    computes: ClassVar[bool] = False

    def requires(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Nothing: whole rows are picked."""
        return ()

    def merge(self, groups: Groups) -> Merged:
        """The last row of every group; with `ignore_delete`, groups of deletes only leave no row."""
        if not self.ignore_delete:
            return Merged(groups.lasts())
        retract = is_retract(groups.kinds())
        if not retract.any():
            return Merged(groups.lasts())
        order = np.arange(groups.rows) if groups.order is None else groups.order
        keep = ~retract[order]
        if groups.starts is None:
            return Merged(order[keep])
        position = np.where(keep, np.arange(groups.rows), -1)
        newest = np.maximum.reduceat(position, groups.starts)
        return Merged(order[newest[newest >= 0]])


@dataclass(frozen=True, slots=True)
class FirstRow:
    """The oldest row of each key that is no -U or -D.

    Spec: docs/spec/merge.md#first-row
    """

    ignore_delete: bool = False
    computes: ClassVar[bool] = False

    def requires(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Nothing: whole rows are picked."""
        return ()

    def merge(self, groups: Groups) -> Merged:
        """The first row of every group; with `ignore_delete`, groups of deletes only leave no row. A key with one row
        keeps it, whatever its kind; InvalidError where more rows meet and one of them is a delete."""
        retract = is_retract(groups.kinds())
        if groups.starts is None and not self.ignore_delete:
            return Merged(groups.order)
        order = groups.places()
        starts = np.arange(groups.rows) if groups.starts is None else groups.starts
        if not retract.any():
            return Merged(order[starts])
        keep = ~retract[order]
        sizes = np.diff(starts, append=groups.rows)
        if not self.ignore_delete:
            if (np.repeat(sizes > 1, sizes) & ~keep).any():
                raise InvalidError(FIRST_ROW_RETRACTS)
            return Merged(order[starts])
        position = np.where(keep, np.arange(groups.rows), groups.rows)
        oldest = np.minimum.reduceat(position, starts) if groups.rows else position
        return Merged(order[oldest[oldest < groups.rows]])


def is_retract(kinds: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which row kinds take a row back: -U (1) and -D (3)."""
    return (kinds & 1).astype(np.bool_)


def without_retracts(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Key-value rows, but for those that take a row back."""
    retract = is_retract(rows.column(KIND_FIELD.name).to_numpy())
    return rows.filter(pa.array(~retract)) if retract.any() else rows
