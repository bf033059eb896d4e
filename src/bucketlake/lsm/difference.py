"""What differs between two states of a bucket, both sorted by key, in bounded memory.

    difference(before, after, order, keep_deletes=False) -> Iterator[RecordBatch]

Spec: docs/spec/incremental.md#diff
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.lazy import pc
from bucketlake.lsm.changelog import same_values
from bucketlake.lsm.engines.engines import is_retract
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.merge import DEFAULT_BLOCK, BlockSize, slices
from bucketlake.schema.schema import KIND_FIELD

__all__ = ["difference"]

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DELETE = 3
NONE = -1
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def difference(
    before: Iterable[pa.RecordBatch],
    after: Iterable[pa.RecordBatch],
    order: KeyOrder,
    *,
    keep_deletes: bool = False,
    block: BlockSize = DEFAULT_BLOCK,
) -> Iterator[pa.RecordBatch]:
    """The rows of `after` whose key `before` lacks, or has with other values; in key order, never empty.

    `keep_deletes`: also rows of kind -U and -D, and the rows whose key only `before` has, as -D. Values are all columns
    but keys, `_SEQUENCE_NUMBER` and `_VALUE_KIND`; floating numbers are compared by their bits.
    Requires: both sorted by key, each with every key once, in the layout that merges use.
    Memory: a few blocks of either.
    """
    for old, new in slices([before, after], order, block):
        batches = [*old, *new]
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        found = _differing(rows, sum(batch.num_rows for batch in old), order, keep_deletes)
        if found.num_rows:
            yield found


def _differing(rows: pa.RecordBatch, older: int, order: KeyOrder, keep_deletes: bool) -> pa.RecordBatch:
    """One slice: the first `older` rows are those of before."""
    ordered, starts = order.sort(rows)
    ordered = np.arange(rows.num_rows) if ordered is None else ordered
    starts = np.arange(rows.num_rows) if starts is None else starts
    least, greatest = np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts)
    left, right = np.where(least < older, least, NONE), np.where(greatest >= older, greatest, NONE)
    kinds = rows.column(KIND_FIELD.name).to_numpy()
    is_row = ~is_retract(kinds)
    chosen = right != NONE
    both = np.flatnonzero((left != NONE) & (right != NONE))
    chosen[both] = ~_same(rows, order, left[both], right[both], is_row)
    picks, told = np.where(chosen, right, left), chosen
    if keep_deletes:
        gone = (right == NONE) & is_row[left]
        told = chosen | gone
        kinds = np.where(gone, DELETE, kinds[picks]).astype(np.int8)
    else:
        told = chosen & is_row[picks]
        kinds = kinds[picks]
    found = pc.take(rows, pa.array(picks[told]), boundscheck=False)
    place = found.schema.get_field_index(KIND_FIELD.name)
    return found.set_column(place, found.schema.field(place), pa.array(kinds[told], pa.int8()))


def _same(rows: pa.RecordBatch, order: KeyOrder, left: Indices, right: Indices, is_row: Mask) -> Mask:
    """Whether rows have equal values and both are rows, or both deletes."""
    same: Mask = is_row[left] == is_row[right]
    known = {*(item.name for item in order.fields), order.columns[-1], KIND_FIELD.name}
    one, two = pa.array(left), pa.array(right)
    for name in rows.schema.names:
        if name not in known:
            column = rows.column(name)
            column = column.view(_BITS[column.type]) if column.type in _BITS else column
            same &= same_values(pc.take(column, one), pc.take(column, two))
    return same
