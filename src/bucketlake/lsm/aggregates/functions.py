"""Aggregate functions: one vectorised function a name, used by the aggregation and the partial-update engine.

    aggregate(name, field, options) -> Aggregate
    Aggregate.apply(values, retract, starts, late=None, seed=None) -> pa.Array
    AggregateOptions.of(table_options, field_name)

`FUNCTIONS` has them all, each from the module of its family; `checks.py`: what each takes; `rows.py`: the rows that
they fold. `schema/validation.py: AGGREGATE_FUNCTIONS` names those that a table may have.

Spec: docs/spec/aggregates.md
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bucketlake.lsm.aggregates import checks
from bucketlake.lsm.aggregates.lists import collect, nested_partial_update, nested_update
from bucketlake.lsm.aggregates.maps import merge_map, merge_map_with_keytime
from bucketlake.lsm.aggregates.numbers import sum_
from bucketlake.lsm.aggregates.order import bool_and, bool_or, max_, min_
from bucketlake.lsm.aggregates.pick import (
    first_non_null_value,
    first_value,
    last_non_null_value,
    last_value,
    primary_key,
)
from bucketlake.lsm.aggregates.product import product
from bucketlake.lsm.aggregates.rows import About, AggregateOptions, Indices, Mask, Rows, last_of, scatter, take
from bucketlake.lsm.aggregates.sketches import hll_sketch, rbm32, rbm64, theta_sketch
from bucketlake.lsm.aggregates.text import listagg
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

__all__ = ["FUNCTIONS", "Aggregate", "AggregateOptions", "aggregate"]


@dataclass(frozen=True, slots=True)
class _Function:
    """`fold`: one result a group. `check`: raises for a column or options that it does not take. `retracts`: rows can
    be taken back. `remembers`: what came before a seed still matters to it."""

    fold: Callable[[Rows, About], pa.Array]
    check: Callable[[About], None]
    retracts: bool = False
    remembers: bool = False


FUNCTIONS = {
    "sum": _Function(sum_, checks.numeric, retracts=True),
    "product": _Function(product, checks.numeric, retracts=True),
    "max": _Function(max_, checks.comparable),
    "min": _Function(min_, checks.comparable),
    "first_value": _Function(first_value, checks.anything, remembers=True),
    "first_non_null_value": _Function(first_non_null_value, checks.anything, remembers=True),
    "first_not_null_value": _Function(first_non_null_value, checks.anything, remembers=True),
    "last_value": _Function(last_value, checks.anything, retracts=True),
    "last_non_null_value": _Function(last_non_null_value, checks.anything, retracts=True),
    "listagg": _Function(listagg, checks.text),
    "bool_and": _Function(bool_and, checks.boolean("bool and")),
    "bool_or": _Function(bool_or, checks.boolean("bool or")),
    "collect": _Function(collect, checks.array, retracts=True),
    "merge_map": _Function(merge_map, checks.map_, retracts=True),
    "merge_map_with_keytime": _Function(merge_map_with_keytime, checks.map_with_time),
    "nested_update": _Function(nested_update, checks.nested_update, retracts=True),
    "nested_partial_update": _Function(nested_partial_update, checks.nested_partial_update),
    "rbm32": _Function(rbm32, checks.image("roaring bitmap")),
    "rbm64": _Function(rbm64, checks.image("roaring bitmap")),
    "hll_sketch": _Function(hll_sketch, checks.image("hll sketch")),
    "theta_sketch": _Function(theta_sketch, checks.image("theta sketch")),
    "primary-key": _Function(primary_key, checks.anything, retracts=True),
}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column's aggregate; picklable, no state between calls. Made by `aggregate`, which checks it."""

    name: str
    field: DataField
    options: AggregateOptions

    def apply(
        self, values: pa.Array, retract: Mask, starts: Indices, late: Mask | None = None, seed: Mask | None = None
    ) -> pa.Array:
        """One result a group: the fold of its rows, in the given order.

        `values`: the column in its canonical Arrow type, in (key, sequence) order. `retract`: which rows are -U or -D.
        `starts`: position of each group's first row, ascending from 0, no group empty.
        `late`: rows that a sequence group finds older than what the group already holds: they are folded in front of
        the value, at their place in the given order (partial-update; do not reorder rows). Of no effect on rows that
        retract.
        `seed`: rows whose value becomes the fold's value as it is, replacing it, whatever `retract` says (the -D of a
        removed record; the first row of a partial-update key if that retracts: give it twice, as seed and as itself).
        Raises: InvalidError naming field and function: a row retracts and the function cannot; overflow.
        """
        if not len(starts):
            return values.slice(0, 0)
        about, function = About(self.name, self.field, self.options), FUNCTIONS[self.name]
        if seed is not None and seed.any():
            retract = retract & ~seed
            late = None if late is None else late & ~seed
        else:
            seed = None
        keep = np.ones(len(values), np.bool_)
        if retract.any():
            if self.options.ignore_retract:
                keep &= ~retract
            elif not function.retracts:
                raise _cannot_retract(about)
        if seed is not None and not function.remembers:
            lengths = np.diff(starts, append=len(values))
            keep &= np.arange(len(values)) >= np.repeat(last_of(seed, starts), lengths)
        rows = Rows(values, starts, _some(retract), None if late is None else _some(late & ~retract), seed)
        if keep.all():
            return _folded(rows, function, about)
        if not keep.any():
            return pa.nulls(rows.groups, values.type)
        part, groups = rows.select(keep)
        return scatter(_folded(part, function, about), groups)


def aggregate(name: str, field: DataField, options: AggregateOptions) -> Aggregate:
    """The aggregate of a name for a column, checked against the column's type and options.

    Raises: InvalidError: no such function, a type that it does not take, options that contradict each other;
    UnsupportedError naming the package that a sketch needs and that is not there; `distinct` with an empty delimiter.
    """
    about = About(name, field, options)
    if name not in FUNCTIONS:
        raise about.error(
            f"Use unsupported aggregation: {name} or spell aggregate function incorrectly!",
            remedy="use one of " + ", ".join(sorted(set(FUNCTIONS) - {"primary-key"})),
        )
    FUNCTIONS[name].check(about)
    return Aggregate(name, field, options)


def _folded(rows: Rows, function: _Function, about: About) -> pa.Array:
    results = function.fold(rows, about)
    if rows.seed is None or function.remembers:
        return results
    alone = rows.seed[rows.starts] & (rows.lengths() == 1)  # nothing was folded: the value as it is
    if not alone.any():
        return results
    place = np.where(alone, len(results) + np.cumsum(alone) - 1, np.arange(len(results)))
    return take(pa.concat_arrays([results, take(rows.values, rows.starts[alone])]), place)


def _some(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def _cannot_retract(about: About) -> Exception:
    return about.error(
        f"Aggregate function '{about.name}' does not support retraction",
        remedy=f"to ignore rows that retract, set 'fields.{about.field.name}.ignore-retract' to 'true'",
    )
