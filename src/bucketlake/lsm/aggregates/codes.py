"""Values of any type, nested ones too, as integers that are equal where the values are; lists and maps taken apart.

    codes(array) -> int64      equal values have equal codes, nulls too; codes have no order
    ranks(array) -> int64      ordered as the values are; nulls -1
    Entries, entries_of(rows)  the elements of a list or map column with their groups
    rebuilt(...)               a list or map column from elements

Floats are equal where their bits are, NaNs all alike. Maps are equal whatever the order of their entries.

Spec: docs/spec/aggregates.md#equality
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.lazy import pc
from bucketlake.lsm.aggregates.rows import Indices, Mask, Rows, valid
from bucketlake.lsm.words import integers_of, words_of
from bucketlake.types.arrow import pairs_of
from bucketlake.values import dataclass

__all__ = ["Entries", "codes", "entries_of", "grouped", "pair_codes", "ranks", "rebuilt"]


def codes(array: pa.Array) -> Indices:
    """One integer a value, from 0; equal for equal values, null being a value."""
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [codes(part) for part in array.flatten()]
        found = pair_codes(parts) if parts else np.zeros(len(array), np.int64)
    elif pa.types.is_map(kind):
        found = _map_codes(array)
    elif pa.types.is_list(kind):
        lengths = _lengths(array)
        found = _slice_codes(codes(array.flatten()), np.cumsum(lengths), lengths)
    else:
        if pa.types.is_floating(kind):
            numbers = integers_of(array)
            array = pa.array(numbers, mask=None if not array.null_count else array.is_null().to_numpy(False))
        return _dictionary(array)
    present = valid(array)
    return found if present is None else np.where(present, found + 1, 0)


def pair_codes(parts: Sequence[Indices]) -> Indices:
    """Codes of tuples, from the codes of their members."""
    if len(parts) == 1:
        return parts[0]
    packed = np.ascontiguousarray(np.column_stack(parts))
    return _dictionary(pa.Array.from_buffers(pa.binary(8 * len(parts)), len(packed), [None, pa.py_buffer(packed)]))


def ranks(array: pa.Array) -> Indices:
    """Integers in the order of flat values; null is -1, before everything."""
    encoded = array.dictionary_encode()
    values = encoded.dictionary
    order = np.lexsort([word.values(None) for word in reversed(words_of(values))]) if len(values) else np.zeros(0, int)
    rank = np.empty(len(values) + 1, np.int64)
    rank[order] = np.arange(len(values))
    rank[-1] = -1
    found: Indices = rank[encoded.indices.fill_null(-1).to_numpy().astype(np.int64)]
    return found


def _dictionary(array: pa.Array) -> Indices:
    encoded = array.dictionary_encode(null_encoding="encode")
    found: Indices = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _slice_codes(numbers: npt.NDArray[Any], ends: Indices, lengths: Indices) -> Indices:
    """Codes of consecutive stretches of integers (of rows of integers), by their content."""
    width = 8 if numbers.ndim == 1 else 8 * numbers.shape[1]
    bounds = np.concatenate(([0], ends)) * width
    buffers = [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(np.ascontiguousarray(numbers))]
    return _dictionary(pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers))


def _map_codes(array: pa.Array) -> Indices:
    lengths = _lengths(array)
    content = _map_content(array)
    keys, items = codes(content.field(0)), codes(content.field(1))
    order = np.lexsort((items, keys, np.repeat(np.arange(len(array)), lengths)))
    return _slice_codes(np.column_stack((keys[order], items[order])), np.cumsum(lengths), lengths)


def _map_content(array: pa.Array) -> pa.StructArray:
    return pairs_of(array).flatten()


def _lengths(array: pa.Array) -> Indices:
    if pa.types.is_map(array.type):
        array = pairs_of(array)
    lengths: Indices = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
    return lengths


@dataclass(frozen=True, slots=True)
class Entries:
    """The elements of the lists (entries of the maps) of rows, in fold order.

    `values`: elements; of maps a struct (key, value). `rows`: the row of each. `groups`: its group.
    `front`: rows' places when late rows are put in front of their group, by row number; None: as they lie.
    """

    values: pa.Array
    rows: Indices
    groups: Indices
    front: Indices | None

    def select(self, keep: Mask | Indices) -> Entries:
        """These elements, by mask or position."""
        at = np.flatnonzero(keep) if keep.dtype == np.bool_ else keep
        return Entries(self.values.take(pa.array(at)), self.rows[at], self.groups[at], self.front)

    def places(self) -> Indices:
        """Each element's place in its group, late rows in front; elements of a row share it."""
        return self.rows if self.front is None else self.front[self.rows]


def entries_of(rows: Rows) -> Entries:
    """The elements of a column of lists or maps."""
    array = rows.values
    content = _map_content(array) if pa.types.is_map(array.type) else array.flatten()
    owners = np.repeat(np.arange(len(array)), _lengths(array))
    order = rows.front_order()
    front = None
    if order is not None:
        front = np.empty(len(order), np.int64)
        front[order] = np.arange(len(order))
    return Entries(content, owners, rows.ids()[owners], front)


def grouped(groups: Indices, keys: Indices, *then: Indices) -> tuple[Indices, Indices]:
    """(order, starts): positions sorted by group, key, `then`, position; and where each (group, key) starts."""
    order = np.lexsort((*reversed(then), keys, groups))
    g, k = groups[order], keys[order]
    starts = np.flatnonzero(np.concatenate(([True], (g[1:] != g[:-1]) | (k[1:] != k[:-1])))[: len(order)])
    return order, starts


def rebuilt(kind: pa.DataType, values: pa.Array, groups: Indices, empty: Mask) -> pa.Array:
    """A column of lists or maps: the elements of ascending `groups`; null for groups that are `empty`."""
    counts = np.bincount(groups, minlength=len(empty))
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
    mask = pa.array(empty) if empty.any() else None
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, values.field(0), values.field(1), type=kind, mask=mask)
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=mask)
