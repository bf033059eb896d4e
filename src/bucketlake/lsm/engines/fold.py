"""What the engines that compute values share: rows of a slice in order, columns put together from picks and results.

    Fold.of(groups)          groups with their sizes and what each row does
    fold.picked(column, at)  a column of the result that takes one row's value a group
    fold.combined(column, results)   one that takes results where a key has several rows
    gather(column, rows)     a column's values at row numbers

A key with a single row is not merged: its row stays as it is, kind and values, whatever the engine; unless
`Groups.alone` says that it is.

Spec: docs/spec/merge.md#engines
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.lazy import pc
from bucketlake.lsm.engines.engines import Groups, is_retract
from bucketlake.values import dataclass

__all__ = ["Fold", "Indices", "Mask", "gather"]

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fold:
    """A slice with at least one key that is merged. Positions count rows in (key, sequence) order.

    `order`: row number at each position; `starts`, `lasts`: positions of each group's first and last row; `sizes`: rows
    of each group; `many`: which groups are merged, those of more than one row and others. `kinds`, `retract`: by
    position; None for `retract` where no row is -U or -D. `kept`: position of the row that gives key, sequence number
    and what is not computed.
    """

    order: Indices
    starts: Indices
    lasts: Indices
    sizes: Indices
    many: Mask
    kinds: npt.NDArray[np.int8]
    retract: Mask | None
    kept: Indices

    @classmethod
    def of(cls, groups: Groups) -> Fold | None:
        """The groups of a slice; None where each has one row, which stays as it is."""
        starts = groups.starts
        if starts is None:
            if groups.alone is None or not groups.alone.any():
                return None
            starts = np.arange(groups.rows)
        order = groups.places()
        sizes = np.diff(starts, append=groups.rows)
        stored = groups.kinds()
        retract = is_retract(stored)
        lasts = starts + sizes - 1
        back = retract[order] if retract.any() else None
        many = sizes > 1 if groups.alone is None else (sizes > 1) | groups.alone
        return cls(order, starts, lasts, sizes, many, stored[order], back, lasts)

    @property
    def rows(self) -> Indices:
        """The row of each group that the result takes what is not computed from."""
        return self.order[self.kept]

    def by_row(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A value a group as a value a position."""
        return np.repeat(values, self.sizes)

    def last_true(self, mask: Mask) -> Indices:
        """Position of each group's last True, -1 where it has none."""
        numbered = np.arange(1, len(mask) + 1, dtype=np.int32) * mask  # no branches: masks are as good as random
        found = np.maximum.accumulate(numbered)[self.lasts].astype(np.int64)
        last: Indices = found * (found > self.starts) - 1
        return last

    def validity(self, column: pa.Array) -> Mask | None:
        """By position, whether the column's value is there; None: all are."""
        if not column.null_count:
            return None
        return _is_valid(column)[self.order]

    def picked(self, column: pa.Array, at: Indices, null: Mask | None = None) -> pa.Array | None:
        """The column's values at one position a group, null where `null`; None if that is the row kept anyway."""
        if null is None or not null.any():
            if np.array_equal(at, self.kept):
                return None
            return gather(column, self.order[at])
        return pc.take(column, pa.array(self.order[at], mask=null), boundscheck=False)

    def combined(self, column: pa.Array, results: pa.Array) -> pa.Array:
        """The column with `results`, one for each group of several rows, and for the others the row's own value."""
        if self.many.all():
            return results
        rows = self.order[self.lasts]
        primitive = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if primitive and not column.null_count and not results.null_count:
            values = column.to_numpy()[rows]
            values[self.many] = results.to_numpy()
            return pa.array(values)
        singles = pc.take(column, pa.array(rows[~self.many]), boundscheck=False)
        both = pa.concat_arrays([singles, results])
        index = np.empty(len(rows), np.int64)
        index[~self.many] = np.arange(len(singles))
        index[self.many] = np.arange(len(singles), len(both))
        return pc.take(both, pa.array(index), boundscheck=False)

    def result_kinds(self, deleted: Mask) -> pa.Array | None:
        """The row kinds of the result: -D or +I by `deleted` where keys have several rows; None if as the rows kept."""
        own = self.kinds[self.kept]
        kinds = np.where(self.many, np.where(deleted, np.int8(3), np.int8(0)), own)
        return None if np.array_equal(kinds, own) else pa.array(kinds)


def gather(column: pa.Array, rows: Indices) -> pa.Array:
    """The column's values at these row numbers. Numbers with nulls go without `take`, which branches at each value."""
    kind = column.type
    if not column.null_count or not pa.types.is_primitive(kind) or kind.bit_width < 8:
        return pc.take(column, pa.array(rows), boundscheck=False)
    width = kind.bit_width // 8
    values = np.frombuffer(column.buffers()[1], f"i{width}", len(column), column.offset * width)[rows]
    valid = np.packbits(_is_valid(column)[rows], bitorder="little")
    return pa.Array.from_buffers(kind, len(rows), [pa.py_buffer(valid), pa.py_buffer(values)])


def _is_valid(column: pa.Array) -> Mask:
    bits = column.buffers()[0]
    if bits is None:
        nothing: Mask = column.is_valid().to_numpy(zero_copy_only=False)
        return nothing
    first, skip = column.offset >> 3, column.offset & 7
    octets = np.frombuffer(bits, np.uint8, (skip + len(column) + 7) >> 3, first)
    valid: Mask = np.unpackbits(octets, count=skip + len(column), bitorder="little")[skip:].view(np.bool_)
    return valid
