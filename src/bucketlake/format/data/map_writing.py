"""MAP columns shredded: what a file has in their place, and what its footer says of them.

    columns = ShreddingColumns(fields, form.maps)
    columns.pieces(table)   ->  tables of the columns `columns.physical`, of bounded size, in order
    columns.maps()          ->  what is known of each column when all rows were given

Spec: docs/spec/map_shredding.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.format.data.map_metadata import NOTHING, FileMap, is_shreddable, shredded_field
from bucketlake.format.data.map_placement import OVERFLOWS, Ints, Placer, distinct
from bucketlake.lazy import pc
from bucketlake.options.map_layout import MapLayout
from bucketlake.types.arrow import list_offsets, pairs_of
from bucketlake.types.model import DataField, arrow_field, arrow_type

CELLS = 1 << 24
"""Values, most of them null, that the value columns of one piece have at most."""
MOST_TOLD = 16 << 20
"""Bytes of metadata from which a file takes no further rows: readers take footers up to a limit."""


_WINDOW = 20  # files that the next one learns from
_USUAL = 0.9  # of them, that it is made for
_SLACK, _SHARE = 4, 1.25  # how much wider the widest may be to be meant too


class Widths:
    """How many value columns the next file has: the most that the options allow, and as many as the rows of files
    before it had keys.

    Spec: docs/spec/map_shredding.md#how-many-columns
    """

    def __init__(self, layouts: Mapping[str, MapLayout]) -> None:
        self._layouts = dict(layouts)
        self._met: dict[str, list[int]] = {}

    def met(self, widths: Mapping[str, int]) -> None:
        """A file is finished: the most keys that a row had, by column."""
        for name, width in widths.items():
            self._met[name] = [*self._met.get(name, []), width][-_WINDOW:]

    def layouts(self) -> dict[str, MapLayout]:
        """Those of the next file, by column."""
        return {
            name: replace(layout, columns=max(1, min(_width(self._met[name]), layout.columns)))
            if name in self._met
            else layout
            for name, layout in self._layouts.items()
        }


def _width(met: Sequence[int]) -> int:
    ordered = sorted(met)
    widest, usual = ordered[-1], ordered[math.ceil(_USUAL * len(ordered)) - 1]
    near = widest - usual <= _SLACK or widest <= math.ceil(usual * _SHARE)
    return widest if near else usual


class ShreddingColumns:
    """The MAP columns of one file that are shredded. `physical`: the columns of the file."""

    def __init__(self, fields: Sequence[DataField], layouts: Mapping[str, MapLayout]) -> None:
        self._columns = {
            item.name: _Column(item, layouts[item.name])
            for item in fields
            if item.name in layouts and is_shreddable(item.type)
        }
        self.physical = tuple(
            self._columns[item.name].stored if item.name in self._columns else item for item in fields
        )

    def __bool__(self) -> bool:
        return bool(self._columns)

    @property
    def is_full(self) -> bool:
        """Whether the file's metadata is as large as it may become."""
        return any(column.told > MOST_TOLD for column in self._columns.values())

    @property
    def widths(self) -> dict[str, int]:
        """The most keys that a row has, by column."""
        return {name: column.width for name, column in self._columns.items()}

    def pieces(self, table: pa.Table) -> Iterator[pa.Table]:
        """The rows as the file has them. Raises: InvalidError for a map with a key twice."""
        if not self._columns:
            yield table
            return
        rows = max(1, CELLS // sum(column.layout.columns for column in self._columns.values()))
        for start in range(0, table.num_rows, rows):
            piece = table.slice(start, rows)
            for name, column in self._columns.items():
                at = piece.schema.get_field_index(name)
                array = column.shredded(piece.column(at).combine_chunks())
                piece = piece.set_column(at, arrow_field(name, column.stored.type), array)
            yield piece

    def maps(self) -> dict[str, FileMap]:
        """What the file's footer says of each column."""
        return {name: column.told_of() for name, column in self._columns.items()}


class _Column:
    """One MAP column of a file: the keys met so far, and where they lie."""

    def __init__(self, item: DataField, layout: MapLayout) -> None:
        self.layout = layout
        self.stored = shredded_field(item, layout.columns)
        self.width = 0
        self._name = item.name
        self._names = pa.array([], pa.string())
        self._placer = Placer(layout)
        self._places = np.zeros(0, np.int64)  # number of a key times columns, and the column
        self._overflowing = np.zeros(0, np.int64)

    @property
    def told(self) -> int:
        """About how many bytes the footer will say of it."""
        return int(self._names.nbytes) + 8 * len(self._names) + 4 * len(self._places)

    def told_of(self) -> FileMap:
        """What the footer says."""
        numbers = np.arange(len(self._names))
        places = np.stack(np.divmod(self._places, self.layout.columns), axis=1)
        return FileMap(numbers, self._names, self.layout.columns, places, self._overflowing, self.width)

    def shredded(self, array: pa.MapArray) -> pa.StructArray:
        """The column's rows as the file has them."""
        count, missing = len(array), array.is_null()
        lists = pairs_of(array)
        entries = lists.flatten()
        lengths = np.diff(list_offsets(lists).to_numpy())
        rows = np.repeat(np.arange(count), lengths)
        numbers = self._numbered(entries.field(0))
        self.width = max(self.width, int(lengths.max(initial=0)))
        order = self._ordered(rows, numbers)
        numbers = numbers[order]
        slots = self._placer.placed(rows, numbers, count)
        inside, outside = np.flatnonzero(slots != OVERFLOWS), np.flatnonzero(slots == OVERFLOWS)
        self._tell(numbers[inside] * self.layout.columns + slots[inside], numbers[outside])
        values = entries.field(1)
        parts = [
            self._mapping(np.asarray(array.is_valid()), rows[inside], slots[inside], numbers[inside]),
            *self._values(values, rows[inside], slots[inside], order[inside], count),
            self._overflow(numbers[outside], values.take(pa.array(order[outside])), rows[outside], count),
        ]
        fields = list(arrow_type(self.stored.type).fields)
        return pa.StructArray.from_arrays(parts, fields=fields, mask=missing)

    def _numbered(self, keys: pa.StringArray) -> Ints:
        """The numbers of keys: in the order in which they first come, over all of the file."""
        met = keys.dictionary_encode()
        known = pc.index_in(met.dictionary, value_set=self._names)
        fresh = np.asarray(known.is_null())
        numbers = known.fill_null(0).to_numpy().astype(np.int64)
        numbers[fresh] = len(self._names) + np.arange(int(fresh.sum()))
        self._names = pa.concat_arrays([self._names, met.dictionary.filter(pa.array(fresh))])
        placed: Ints = numbers[met.indices.to_numpy()]
        return placed

    def _ordered(self, rows: Ints, numbers: Ints) -> Ints:
        """The order in which entries are placed. Raises: InvalidError for a row with a key twice."""
        pairs = rows * len(self._names) + numbers
        order = np.argsort(pairs, kind="stable")
        pairs = pairs[order]
        if (pairs[1:] == pairs[:-1]).any():
            raise InvalidError(
                "a map has a key twice, and a shredded map holds each once",
                column=self._name,
                remedy=f"leave one, or set 'fields.{self._name}.map.storage-layout' to default",
            )
        return order if self._placer.by_number else np.arange(len(rows))

    def _tell(self, places: Ints, overflowing: Ints) -> None:
        """Keep what the footer will say of some entries."""
        known, columns = len(self._names), self.layout.columns
        fresh = distinct(places, known * columns)
        self._places = distinct(np.concatenate([self._places, fresh]), known * columns)
        self._overflowing = distinct(np.concatenate([self._overflowing, distinct(overflowing, known)]), known)

    def _mapping(self, valid: np.ndarray, rows: Ints, slots: Ints, numbers: Ints) -> pa.ListArray:
        width = self.layout.columns
        place = np.cumsum(valid) - 1
        cells = np.full(int(valid.sum()) * width, NOTHING, np.int32)
        cells[place[rows] * width + slots] = numbers
        offsets = np.concatenate([[0], np.cumsum(valid * width)]).astype(np.int32)
        kind = arrow_type(self.stored.type).field(0).type
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(cells), type=kind, mask=pa.array(~valid))

    def _values(self, values: pa.Array, rows: Ints, slots: Ints, places: Ints, count: int) -> Iterator[pa.Array]:
        """The value columns; those that nothing lies in are one array."""
        order = np.argsort(slots, kind="stable")
        ends = np.searchsorted(slots[order], np.arange(self.layout.columns), side="right")
        nothing, start = pa.nulls(count, values.type), 0
        for end in ends.tolist():
            if start == end:
                yield nothing
                continue
            own = order[start:end]
            taken = np.full(count, -1, np.int64)
            taken[rows[own]] = places[own]
            yield values.take(pa.array(taken, mask=taken < 0))
            start = end

    def _overflow(self, numbers: Ints, values: pa.Array, rows: Ints, count: int) -> pa.MapArray:
        lengths = np.bincount(rows, minlength=count)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        kind = arrow_type(self.stored.type).field(self.layout.columns + 1).type
        keys = pa.array(numbers.astype(np.int32))
        return pa.MapArray.from_arrays(offsets, keys, values, type=kind, mask=pa.array(lengths == 0))
