"""Rows of files that have one of some values in some columns, with their positions; other columns are read late.

    among = Among(values)                                       distinct rows of columns of a table, without nulls
    among.rows(store, split, file, left_out, fields)            (positions, rows) of one file of a raw split

Of each part of a file (a row group) whose bounds some value lies within, the columns compared are read; the others only
where a row is found. So a few rows of a large table cost little more than the columns they are known by.

Spec: docs/spec/row_changes.md#rows-of-known-keys
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.format.data.chunks import ChunkedFile, open_chunks
from bucketlake.format.data.datafile import BROKEN
from bucketlake.format.guard import decoding
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.row.binary_row import encode_rows
from bucketlake.lazy import pc
from bucketlake.ops.rows.deletions import Mask
from bucketlake.ops.rows.one_file import FileLayout, file_layout
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.partitions import partition_columns
from bucketlake.ops.table.store import Store
from bucketlake.types.arrow import whole
from bucketlake.types.encoded import fitting, plain
from bucketlake.types.model import MAX_LENGTH, DataField, DataType, Root, arrow_schema, canonical_batch
from bucketlake.values import dataclass

Positions = npt.NDArray[np.int64]
MOST_APART = 1 << 24  # the greatest value from the least, for a byte each of what lies between
SPARSE = 1 << 7  # such bytes for a row at most where they are made for each batch anew


# Types of which every value has one form: not floating point (-0.0 equals 0.0), nor what is padded, cut or rounded.
ONE_FORM = {
    *(Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DATE, Root.DECIMAL),
    *(Root.VARCHAR, Root.VARBINARY),
}


def has_one_form(kind: DataType) -> bool:
    """Whether equal values are the same to Spark, to Arrow and in files."""
    if kind.root in (Root.VARCHAR, Root.VARBINARY):
        return kind.length == MAX_LENGTH
    return kind.root in ONE_FORM


@dataclass(frozen=True)
class Among:
    """`fields`: the columns compared, of types whose equal values have one form; `values`: distinct rows of them in the
    table's layout, without nulls. Travels to tasks."""

    fields: tuple[DataField, ...]
    values: pa.RecordBatch

    @classmethod
    def of(cls, fields: Sequence[DataField], rows: pa.Table) -> Among:
        """The values of these columns in rows; those with nulls equal nothing. Columns in the fields' order and types,
        under whatever names."""
        fields = tuple(replace(item, type=item.type.with_nullable(True)) for item in fields)
        known = rows.rename_columns([item.name for item in fields]).drop_null()
        known = known.group_by(known.column_names, use_threads=False).aggregate([]) if known.num_rows else known
        batch = pa.RecordBatch.from_arrays([whole(column) for column in known.columns], names=known.column_names)
        return cls(fields, canonical_batch(batch, fields, trusted=True))

    def only(self, names: Sequence[str]) -> pa.RecordBatch:
        """The values of some of the columns, in this order, once each."""
        fields = {item.name: item for item in self.fields}
        return Among.of(
            [fields[name] for name in names], pa.Table.from_batches([self.values.select(list(names))])
        ).values

    @cached_property
    def _sorted(self) -> list[pa.Array]:
        """The values of each column, once each, ascending."""
        found = [column.unique() for column in self.values.columns]
        return [column.take(pc.array_sort_indices(column)) for column in found]

    @cached_property
    def _known(self) -> list[Callable[[pa.Array], Mask]]:
        return [_is_one_of(values) for values in self._sorted]

    @cached_property
    def _encoded(self) -> pa.Array:
        return encoded(self.values.columns, self.fields)

    def rows(
        self, store: Store, split: Split, file: DataFile, left_out: Mask, fields: Sequence[DataField]
    ) -> Iterator[tuple[Positions, pa.RecordBatch]]:
        """The rows of one file that have one of the values, less those of the mask, as these columns of the table, with
        their positions in the file, ascending.

        Errors: NotFoundError, CorruptError, StorageError naming the file.
        """
        own = {item.name for item in self.fields}
        others = [item for item in fields if item.name not in own]
        schema = arrow_schema(fields)
        with ExitStack() as stack:
            keys = stack.enter_context(_opened(store, split, file, self.fields))
            rest: _Columns | None = None
            for part in np.flatnonzero(self._met(keys)).tolist():
                found = [hits for hits in self._hits(keys, part, left_out) if len(hits[0])]
                if found and others:
                    rest = rest or stack.enter_context(_opened(store, split, file, others, encoded=True))
                    found = list(_beside(found, rest, part))
                for positions, rows in found:
                    arrays = [rows.column(name) for name in schema.names]
                    yield positions, pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _met(self, keys: _Columns) -> Mask:
        """Which parts may hold one of the values: one of each column lies within what the part says of it."""
        met = np.ones(keys.parts, np.bool_)
        for item, values in zip(self.fields, self._sorted, strict=True):
            ordered = _ordered(values)
            for part, (least, most) in enumerate(keys.bounds(item)):
                if met[part] and least is not None and most is not None:
                    met[part] = _lies_within(ordered, least, most)
        return met

    def _hits(self, keys: _Columns, part: int, left_out: Mask) -> Iterator[tuple[Positions, pa.RecordBatch]]:
        """The rows of a part that have one of the values, as the columns compared, and where in the file they lie."""
        order = sorted(range(len(self._sorted)), key=lambda place: -len(self._sorted[place]))  # leaves few rows soon
        for first, batch in keys.batches(part):
            own = np.flatnonzero(~left_out[first : first + batch.num_rows])
            rows = batch if len(own) == batch.num_rows else batch.take(pa.array(own))
            for place in order:
                own, rows = _where(self._known[place](rows.column(place)), own, rows)
            if len(self.fields) > 1 and len(own):
                same = pc.is_in(encoded(rows.columns, self.fields), value_set=self._encoded)
                own, rows = _where(np.asarray(same), own, rows)
            yield first + own, rows


def _is_one_of(values: pa.Array) -> Callable[[pa.Array], Mask]:
    """Which of some values are among these ascending ones. Whole numbers near each other are looked up by their
    distance from the least, a tenth of the time that a hash takes."""
    whole = pa.types.is_integer(values.type) or pa.types.is_date32(values.type)
    numbers = _wide(values) if whole and len(values) and not values.null_count else None
    if numbers is None:
        return lambda column: np.asarray(pc.is_in(column, value_set=values))
    if int(numbers[-1]) - int(numbers[0]) > MOST_APART:
        return lambda column: _among_near(column, values, numbers)
    return _lookup(numbers)


def _among_near(column: pa.Array, values: pa.Array, numbers: Positions) -> Mask:
    """Which of a column's whole numbers are among far apart ones: among those between its own least and greatest."""
    ends = pc.min_max(_ordered(column)).as_py()
    if ends["min"] is None:
        return np.zeros(len(column), np.bool_)
    low, high = np.searchsorted(numbers, ends["min"]), np.searchsorted(numbers, ends["max"], side="right")
    if low == high:
        return np.zeros(len(column), np.bool_)
    if int(numbers[high - 1]) - int(numbers[low]) > min(MOST_APART, len(column) * SPARSE):
        return np.asarray(pc.is_in(column, value_set=values.slice(low, high - low)))
    return _lookup(numbers[low:high])(column)


def _lookup(numbers: Positions) -> Callable[[pa.Array], Mask]:
    """Which of some values are among these ascending whole numbers: a byte for each from the least to the greatest."""
    apart = (numbers - numbers[0]).astype(np.uint64)
    known = np.zeros(int(apart[-1]) + 2, np.bool_)  # the last one is of all that are not between them
    known[apart] = True
    least, beyond = numbers[:1].view(np.uint64), np.uint64(len(known) - 1)

    def found(column: pa.Array) -> Mask:
        apart = _wide(column.fill_null(0)).view(np.uint64) - least  # those below the least come out beyond, too
        mask: Mask = known[np.minimum(apart, beyond)]
        return mask & np.asarray(column.is_valid()) if column.null_count else mask

    return found


def _wide(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(_ordered(column)).astype(np.int64, copy=False)


def _where(mask: Mask, places: Positions, rows: pa.RecordBatch) -> tuple[Positions, pa.RecordBatch]:
    chosen = np.flatnonzero(mask)
    return (places, rows) if len(chosen) == len(places) else (places[chosen], rows.take(pa.array(chosen)))


def _beside(
    found: Sequence[tuple[Positions, pa.RecordBatch]], rest: _Columns, part: int
) -> Iterator[tuple[Positions, pa.RecordBatch]]:
    """Rows of a part with their other columns."""
    table = pa.Table.from_batches([rows for _, rows in found]).combine_chunks()
    at = 0
    for positions, rows in rest.at(part, np.concatenate([places for places, _ in found])):
        known = table.slice(at, rows.num_rows)
        at += rows.num_rows
        arrays = [*(whole(column) for column in known.columns), *rows.columns]
        yield positions, pa.RecordBatch.from_arrays(arrays, names=[*known.column_names, *rows.schema.names])


def _ordered(column: pa.Array) -> pa.Array:
    """Values in the same order that Python has all of: its dates end with the year 9999."""
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column


def _lies_within(values: pa.Array, least: Any, most: Any) -> bool:
    """Whether one of these ascending values is none of the smaller or greater ones."""
    at = bisect_left(range(len(values)), least, key=lambda place: values[place].as_py())
    return at < len(values) and bool(values[at].as_py() <= most)


def encoded(columns: Sequence[pa.Array], fields: Sequence[DataField]) -> pa.Array:
    """Rows as values that are equal where they are."""
    rows = encode_rows(list(columns), [item.type for item in fields])
    parts = [None, pa.py_buffer(np.ascontiguousarray(rows.offsets)), pa.py_buffer(rows.buffer)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(rows), parts)


@dataclass(frozen=True)
class _Columns:
    """Some columns of one open file: from the file, or its partition's constants."""

    file: ChunkedFile
    layout: FileLayout
    schema: pa.Schema
    constants: dict[str, pa.Scalar]

    @property
    def parts(self) -> int:
        return len(self.file.starts) - 1

    def bounds(self, item: DataField) -> list[tuple[Any, Any]]:
        """The least and greatest value of a column by part; None: not known."""
        source = next((c.source for c in self.layout.columns if c.field.name == item.name and not c.cast), None)
        with decoding(BROKEN, self.file.path):
            found = None if source is None else self.file.bounds(source)
            mins, maxs = ([], []) if found is None else (_ordered(column).to_pylist() for column in found)
            return list(zip(mins, maxs, strict=True))

    def batches(self, part: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of a part, each batch with the position of its first."""
        first, end = int(self.file.starts[part]), int(self.file.starts[part + 1])
        for batch in self.file.rows(part):
            rows = self.layout.rows(batch)
            arrays = [
                pa.repeat(self.constants[item.name].cast(item.type), batch.num_rows)
                if item.name in self.constants
                else rows.column(item.name)
                for item in self.schema
            ]
            if first + batch.num_rows <= end:
                yield first, pa.RecordBatch.from_arrays(arrays, schema=fitting(self.schema, arrays))
            first += batch.num_rows
        if first != end:
            raise CorruptError("a data file has a different number of rows than its manifest says", path=self.file.path)

    def at(self, part: int, positions: Positions) -> Iterator[tuple[Positions, pa.RecordBatch]]:
        """The rows at ascending positions of a part."""
        for first, batch in self.batches(part):
            low, high = np.searchsorted(positions, [first, first + batch.num_rows])
            if low < high:
                own = positions[low:high]
                yield own, plain(batch.take(pa.array(own - first)))


@contextmanager
def _opened(
    store: Store, split: Split, file: DataFile, fields: Sequence[DataField], encoded: bool = False
) -> Iterator[_Columns]:
    """`encoded`: batches may have encoded columns, of which few rows are taken for less."""
    known = partition_columns(store, [split.partition]) if store.schema.partition_keys else ()
    constants = {name: one[0] for name, one in zip(store.schema.partition_keys, known, strict=True)}
    layout = file_layout(store, file, [item for item in fields if item.name not in constants])
    layout = layout.encoding({item.name for item in fields}) if encoded else layout
    recorded = layout.recorded(store.paths.file_path(split.bucket_path, file))
    with open_chunks(store.env.storage, recorded, layout.stored_columns) as opened:
        yield _Columns(opened, layout, arrow_schema(fields), constants)
