"""The aggregation engine: every column that is no key is the fold of its rows by that column's aggregate function.

    Aggregation(aggregates: Mapping[str, Aggregate], remove_on_delete=False)

Spec: docs/spec/merge.md#aggregation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from bucketlake.lsm.aggregates.functions import Aggregate
from bucketlake.lsm.engines.engines import Groups, Merged
from bucketlake.lsm.engines.fold import Fold, Indices, Mask, gather
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.values import dataclass

__all__ = ["Aggregation"]

DELETE = 3


@dataclass(frozen=True)
class Aggregation:
    """One row a key, of kind +I. `aggregates`: by column, all but the primary key. `remove_on_delete`: a -D takes the
    row away, and what it held of the row is where later rows go on from; otherwise -U and -D retract their values.

    Spec: docs/spec/merge.md#aggregation
    """

    aggregates: Mapping[str, Aggregate]
    remove_on_delete: bool = False
    computes: ClassVar[bool] = True

    def requires(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Nothing: every column is folded by itself."""
        return ()

    def merge(self, groups: Groups) -> Merged:
        """The folded row of every group; a row alone in its group stays as it is, unless `groups.alone`.

        Raises InvalidError naming column and function for a retraction that the function does not know, and for
        results that do not fit the column.
        """
        fold = Fold.of(groups)
        if fold is None:
            return Merged(groups.order)
        removed = fold.kinds == DELETE if self.remove_on_delete and fold.retract is not None else None
        selected: dict[bool, _Rows] = {}
        columns: dict[str, pa.Array] = {}
        for name, aggregate in self.aggregates.items():
            column = groups.find(name)
            if column is None:
                continue
            whole = fold.retract is None and aggregate.name in _KEEPS_ONE
            if whole not in selected:
                selected[whole] = _Rows.of(fold, removed, whole)
            folded = selected[whole].folded(column, aggregate)
            if folded is not None:
                columns[name] = folded
        deleted = np.zeros(len(fold.starts), np.bool_) if removed is None else removed[fold.lasts]
        kinds = fold.result_kinds(deleted)
        if kinds is not None:
            columns[KIND_FIELD.name] = kinds
        return Merged(fold.rows, columns)


# Functions that make of one row that adds the value that it has.
_KEEPS_ONE = frozenset(
    (
        "bool_and",
        "bool_or",
        "first_non_null_value",
        "first_not_null_value",
        "first_value",
        "last_non_null_value",
        "last_value",
        "max",
        "min",
        "product",
        "sum",
    )
)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is folded: `rows` (row numbers), cut at `starts`, and what they do. `whole`: all rows of the slice, else
    those of keys that have several."""

    fold: Fold
    rows: Indices
    starts: Indices
    retract: Mask
    seed: Mask | None
    whole: bool

    @classmethod
    def of(cls, fold: Fold, removed: Mask | None, whole: bool) -> _Rows:
        """`removed`: by position, the rows that take the key's row away."""
        if whole or fold.many.all():
            retract = np.zeros(len(fold.order), np.bool_) if fold.retract is None else fold.retract
            return cls(fold, fold.order, fold.starts, _without(retract, removed), removed, True)
        sizes, within = fold.sizes[fold.many], fold.by_row(fold.many)
        retract = np.zeros(int(sizes.sum()), np.bool_) if fold.retract is None else fold.retract[within]
        seed = None if removed is None else removed[within]
        starts = np.cumsum(sizes) - sizes
        return cls(fold, fold.order[within], starts, _without(retract, seed), seed, False)

    def folded(self, column: pa.Array, aggregate: Aggregate) -> pa.Array | None:
        """The column of the result; None where it is that of the groups' last rows."""
        fold = self.fold
        if fold.retract is None and aggregate.name in ("last_value", "last_non_null_value"):
            valid = fold.validity(column) if aggregate.name == "last_non_null_value" else None
            if valid is None:
                return None
            found = fold.last_true(valid)
            return fold.picked(column, np.maximum(found, fold.starts))
        values = gather(column, self.rows)
        results = aggregate.apply(values, self.retract, self.starts, None, self.seed)
        return results if self.whole else fold.combined(column, results)


def _without(retract: Mask, seed: Mask | None) -> Mask:
    return retract if seed is None else retract & ~seed
