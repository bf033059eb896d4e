"""What every aggregate works on: a column's values in fold order, cut into groups, and what each row does.

    AggregateOptions.of(table_options, field_name)   the `fields.<name>.*` keys that aggregates read
    About                                            one column's aggregate: function, field, options
    Rows                                             values, what each row does, where groups start
    first_of, last_of, take, scatter                 positions by group, and arrays from them

A fold keeps one value a group, null at first. A row adds its value to it, takes its value back (`retract`), adds it as
if it had come before everything else (`late`), or becomes the fold's value itself (`seed`).

Spec: docs/spec/aggregates.md
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.options.options import TableOptions
from bucketlake.types.model import DataField, type_text
from bucketlake.values import dataclass

__all__ = [
    "About",
    "AggregateOptions",
    "Indices",
    "Mask",
    "Rows",
    "first_of",
    "last_of",
    "scatter",
    "take",
    "valid",
    "without",
]

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NO_LIMIT = 2147483647
_STRATEGIES = ("merge", "ignore", "error")


@dataclass(frozen=True, slots=True)
class AggregateOptions:
    """The options of one column's aggregate, typed.

    `nested_key_null_strategy`: "merge", "ignore" or "error"; None where it is not set ("merge" then).
    `nested_key`, `nested_sequence_field`: members of the ROW, in order. `ts_field`: None means the last member.
    """

    ignore_retract: bool = False
    distinct: bool = False
    delimiter: str = ","
    nested_key: tuple[str, ...] = ()
    nested_key_null_strategy: str | None = None
    nested_sequence_field: tuple[str, ...] = ()
    count_limit: int = _NO_LIMIT
    ts_field: str | None = None

    @staticmethod
    def of(table_options: TableOptions, field_name: str) -> AggregateOptions:
        """The options of a column, from the table's.

        Raises: InvalidError naming the key for a value of another form.
        """
        prefix = f"fields.{field_name}."
        strategy = table_options.text(prefix + "nested-key-null-strategy")
        if strategy is not None:
            strategy = strategy.strip().lower()
            if strategy not in _STRATEGIES:
                raise _malformed(prefix + "nested-key-null-strategy", strategy, " | ".join(_STRATEGIES))
        delimiter = table_options.text(prefix + "list-agg-delimiter")
        return AggregateOptions(
            ignore_retract=_flag(table_options, prefix + "ignore-retract"),
            distinct=_flag(table_options, prefix + "distinct"),
            delimiter="," if delimiter is None else delimiter,
            nested_key=tuple(table_options.names(prefix + "nested-key")),
            nested_key_null_strategy=strategy,
            nested_sequence_field=tuple(table_options.names(prefix + "nested-sequence-field")),
            count_limit=_count(table_options, prefix + "count-limit"),
            ts_field=table_options.text(prefix + "ts-field"),
        )


def _flag(options: TableOptions, key: str) -> bool:
    text = (options.text(key) or "false").strip().lower()
    if text not in ("true", "false"):
        raise _malformed(key, text, "true | false")
    return text == "true"


def _count(options: TableOptions, key: str) -> int:
    text = options.text(key)
    if text is None:
        return _NO_LIMIT
    try:
        return int(text)
    except ValueError as error:
        raise _malformed(key, text, "a whole number") from error


def _malformed(key: str, value: str, choice: str) -> InvalidError:
    return InvalidError("option has an invalid value", option=key, value=value, remedy=f"use {choice}")


@dataclass(frozen=True, slots=True)
class About:
    """One column's aggregate: its function by name, the column, its options."""

    name: str
    field: DataField
    options: AggregateOptions

    def error(self, what: str, remedy: str | None = None, **details: Any) -> InvalidError:
        """An error that names field and function."""
        return InvalidError(what, field=self.field.name, function=self.name, **details, remedy=remedy)

    def overflow(self) -> InvalidError:
        """The error of a result that the column's type cannot hold."""
        return self.error(
            "aggregate overflows its column", type=type_text(self.field.type), remedy="widen the column's type"
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one column in fold order, cut into groups; every group has at least one row.

    `starts`: first row of each group, int64. `retract`, `late`, `seed`: what rows do, None where no row does it; no row
    does two of these. A seed is the first row of its group, except for functions that ask for more (`first_value`).
    """

    values: pa.Array
    starts: Indices
    retract: Mask | None = None
    late: Mask | None = None
    seed: Mask | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def groups(self) -> int:
        """How many groups."""
        return len(self.starts)

    def lengths(self) -> Indices:
        """How many rows each group has."""
        return np.diff(self.starts, append=len(self.values))

    def ids(self) -> Indices:
        """The group of each row."""
        return np.repeat(np.arange(self.groups), self.lengths())

    def adds(self) -> Mask:
        """The rows that do not retract."""
        return np.ones(len(self), np.bool_) if self.retract is None else ~self.retract

    def begun(self) -> Mask:
        """The rows from their group's first on that adds a value: what retracts earlier is lost."""
        present = valid(self.values)
        adds = self.adds() if present is None else self.adds() & present
        seen = np.cumsum(adds)
        return seen > np.repeat(seen[self.starts] - adds[self.starts], self.lengths())

    def front_order(self) -> Indices | None:
        """Rows by group, its late rows in front, the latest first; None: as they lie."""
        if self.late is None:
            return None
        at = np.arange(len(self))
        return np.lexsort((np.where(self.late, -1 - at, at), self.ids()))

    def select(self, keep: Mask) -> tuple[Rows, Mask]:
        """These rows only; and which groups have any left: the others are no groups of the answer."""
        counts = np.add.reduceat(keep, self.starts, dtype=np.int64)
        left = counts > 0
        starts = np.cumsum(counts[left]) - counts[left]
        parts = (None if mask is None else _some(mask[keep]) for mask in (self.retract, self.late, self.seed))
        return Rows(self.values.filter(pa.array(keep)), starts, *parts), left


def _some(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def valid(array: pa.Array) -> Mask | None:
    """Which values are not null; None: all."""
    if not array.null_count:
        return None
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    first = array.offset & 7
    bits = bits[array.offset >> 3 : array.offset + len(array) + 7 >> 3]
    flags: Mask = np.unpackbits(bits, count=first + len(array), bitorder="little")[first:].view(np.bool_)
    return flags


def without(mask: Mask, starts: Indices) -> Mask:
    """The groups that have no True."""
    counts = np.cumsum(mask, dtype=np.int64)[np.append(starts[1:], len(mask)) - 1]  # reduceat costs several times this
    found: Mask = np.diff(counts, prepend=0) == 0
    return found


def last_of(mask: Mask, starts: Indices) -> Indices:
    """The position of each group's last True, -1 where it has none."""
    found: Indices = np.maximum.reduceat(np.where(mask, np.arange(len(mask)), -1), starts)
    return found


def first_of(mask: Mask, starts: Indices) -> Indices:
    """The position of each group's first True, -1 where it has none."""
    found: Indices = np.minimum.reduceat(np.where(mask, np.arange(len(mask)), len(mask)), starts)
    found[found == len(mask)] = -1
    return found


def take(values: pa.Array, positions: Indices) -> pa.Array:
    """The values at positions; null at -1."""
    missing = positions < 0
    return values.take(pa.array(positions, mask=missing) if missing.any() else pa.array(positions))


def scatter(results: pa.Array, groups: Mask) -> pa.Array:
    """Results of the groups that are True, in order; null for the others."""
    if groups.all():
        return results
    return take(results, np.where(groups, np.cumsum(groups) - 1, -1))
