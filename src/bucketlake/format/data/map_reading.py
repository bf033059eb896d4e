"""Shredded MAP columns of a file, put together again: maps as any other file has them.

A row's keys come in the order of its value columns, then those that lie in none.

Spec: docs/spec/map_shredding.md#reading
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.format.data.map_metadata import FileMap, maps_of, shredded_field
from bucketlake.format.data.map_placement import Ints, ranks
from bucketlake.lazy import pc
from bucketlake.types.arrow import list_offsets, pairs_of
from bucketlake.types.model import DataField, arrow_field

CELLS = 1 << 22
"""Values, most of them null, that the value columns of one batch have at most."""


class ShreddedColumns:
    """Which of the columns wanted a file holds shredded. `physical`: all of them, as the file has them."""

    def __init__(self, notes: Mapping[bytes, bytes] | None, schema: pa.Schema, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)
        self._maps = maps_of(notes, schema, fields)
        self.physical = tuple(
            shredded_field(item, self._maps[item.name].columns) if item.name in self._maps else item for item in fields
        )

    def of(self, fields: Sequence[DataField]) -> tuple[DataField, ...]:
        """Some of the columns, as the file has them."""
        if not self._maps:
            return tuple(fields)
        known = {item.name: item for item in self.physical}
        return tuple(known[item.name] for item in fields)

    def most(self, rows: int) -> int:
        """How many of so many rows one batch may have: nulls of value columns take no room in the file."""
        columns = sum(found.columns for found in self._maps.values())
        return max(1, min(rows, CELLS // columns)) if columns else rows

    def logical(self, batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
        """A batch of the file's columns, canonical or encoded, as that of the columns wanted. Raises: CorruptError."""
        for at, item in enumerate(fields) if self._maps else ():
            if item.name in self._maps:
                target = arrow_field(item.name, item.type)
                batch = batch.set_column(at, target, rebuilt(batch.column(at), self._maps[item.name], target))
        return batch


def rebuilt(array: pa.StructArray, told: FileMap, target: pa.Field) -> pa.MapArray:
    """The maps of a shredded column, canonical as `shredded_field` has it. Raises: CorruptError for rows that do not
    say where their keys are, or have keys without a name."""
    mapping, *columns, overflow = array.flatten()
    valid = np.asarray(array.is_valid())
    if not target.nullable and not valid.all():
        raise CorruptError("a shredded map is null in a column that is NOT NULL", column=target.name)
    rows, slots, numbers = _placed(mapping, valid, told.columns, target.name)
    overflow = pairs_of(overflow)
    left = list_offsets(overflow).to_numpy()
    counts = np.bincount(rows, minlength=len(array)) + np.diff(left)
    ends = np.cumsum(counts)
    if len(ends) and ends[-1] > np.iinfo(np.int32).max:
        raise CorruptError("the maps of one batch have too many keys", column=target.name)
    starts = ends - counts
    places = np.empty(len(rows) + int(left[-1]), np.int64)
    own = starts[rows] + ranks(rows, len(array))
    order = np.argsort(slots, kind="stable")  # as the parts below: column by column
    places[own[order]] = np.arange(len(rows))
    extra = np.repeat(np.arange(len(array)), np.diff(left))
    places[ends[extra] - left[extra + 1] + np.arange(len(extra))] = np.arange(len(rows), len(places))
    entries = overflow.flatten()
    by_column = np.split(rows[order], np.cumsum(np.bincount(slots, minlength=told.columns))[:-1])
    parts = [column.take(pa.array(part)) for column, part in zip(columns, by_column, strict=True) if len(part)]
    values = pa.concat_arrays([*parts, entries.field(1)]).take(pa.array(places))
    keyed = np.concatenate([numbers[order], entries.field(0).to_numpy(zero_copy_only=False)])[places]
    if not target.type.item_field.nullable and values.null_count:
        raise CorruptError("a shredded map has a null value, which its type does not allow", column=target.name)
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    names = _named(told, keyed, target.name)
    return pa.MapArray.from_arrays(offsets, names, values, type=target.type, mask=pa.array(~valid))


def _placed(mapping: pa.ListArray, valid: npt.NDArray[np.bool_], columns: int, name: str) -> tuple[Ints, Ints, Ints]:
    """Row, value column and number of each key that lies in a value column, row by row."""
    lengths = pc.fill_null(pc.list_value_length(mapping), 0).to_numpy()
    told = mapping.flatten()
    if told.null_count or (lengths[valid] != columns).any() or lengths[~valid].any():
        raise CorruptError("rows of a shredded map do not say where their keys are", column=name, columns=columns)
    numbers = told.to_numpy(zero_copy_only=False)
    found = np.flatnonzero(numbers >= 0)
    return np.flatnonzero(valid)[found // columns], found % columns, numbers[found].astype(np.int64)


def _named(told: FileMap, numbers: npt.NDArray[np.int64], name: str) -> pa.Array:
    """The keys of these numbers."""
    places = np.searchsorted(told.numbers, numbers)
    known = places < len(told.numbers)
    if not known.all() or (told.numbers[places] != numbers).any():
        raise CorruptError("a shredded map has a key without a name", column=name)
    return told.names.take(pa.array(places))
