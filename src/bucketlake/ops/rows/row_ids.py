"""Rows with ids: tables with `row-tracking.enabled`, each of whose rows has `_ROW_ID` and `_SEQUENCE_NUMBER`.

    tracked(store)            the table with both as columns: rows read so bring them, rows written so keep them
    RowIds.filled(batches)    what a file does not hold of them
    id_bounds(files, names)   what manifests say of them, to leave out files
    of_tracked(file, …)       what a manifest says of a file that holds them

A new row's id is its file's first row id plus its place, its number the snapshot that it came with. A row that moves to
another file takes its id along, and its number unless it was changed: then it is null there, and the commit's.
Spec: docs/spec/row_tracking.md
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from bucketlake.errors import CorruptError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lazy import np, pa, pc
from bucketlake.ops.table.store import Store
from bucketlake.predicate.evaluate import Bounds
from bucketlake.schema.schema import ROW_ID_FIELD, SEQUENCE_FIELD, TRACKING, TRACKING_FIELDS, TableSchema
from bucketlake.values import dataclass

COLUMNS = tuple(replace(item, type=item.type.with_nullable(True)) for item in TRACKING_FIELDS)
"""Ids and numbers as files have them: the number of a row that its commit changed is null."""


def is_tracked(store: Store) -> bool:
    """Whether this store's rows have their ids as columns."""
    return store.schema.tracks_rows and store.schema.fields[-1].id == SEQUENCE_FIELD.id


def tracked(store: Store) -> Store:
    """The table with ids and numbers as two nullable columns behind its own; the store itself if its rows have none."""
    if not store.schema.tracks_rows or is_tracked(store):
        return store
    return store.with_schema(replace(store.schema, fields=(*store.schema.fields, *COLUMNS)))


def plain_schema(schema: TableSchema) -> TableSchema:
    """The columns of the table alone."""
    return replace(schema, fields=tuple(item for item in schema.fields if item.name not in TRACKING))


def holds_ids(file: DataFile) -> bool:
    """Whether a file of a table with row tracking has its rows' ids as columns."""
    if file.write_cols is None:
        return file.first_row_id is None
    return ROW_ID_FIELD.name in file.write_cols


def id_bounds(files: Sequence[DataFile], names: Collection[str]) -> dict[str, Bounds]:
    """What manifests say of the ids and numbers in files, of those named; none are null."""
    nulls = pa.array(np.zeros(len(files), np.int64))
    found = {}
    if ROW_ID_FIELD.name in names:
        firsts = [file.first_row_id for file in files]
        lasts = [None if f.first_row_id is None else f.first_row_id + f.row_count - 1 for f in files]
        found[ROW_ID_FIELD.name] = Bounds(pa.array(firsts, pa.int64()), pa.array(lasts, pa.int64()), nulls)
    if SEQUENCE_FIELD.name in names:
        lows, highs = ([getattr(f, f"{end}_sequence_number") for f in files] for end in ("min", "max"))
        found[SEQUENCE_FIELD.name] = Bounds(pa.array(lows, pa.int64()), pa.array(highs, pa.int64()), nulls)
    return found


@dataclass(frozen=True, slots=True)
class RowIds:
    """What the rows of one file have where it does not hold it: ids from `first` on, all the same `number`. `names`:
    which of the two columns are wanted."""

    names: tuple[str, ...]
    first: int | None
    number: int
    file: str

    @classmethod
    def of(cls, file: DataFile, names: tuple[str, ...]) -> RowIds:
        """As the file's manifest says."""
        return cls(names, file.first_row_id, file.max_sequence_number, file.file_name)

    def filled(self, numbered: Iterator[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches with the positions of their first rows, with the columns wanted and without nulls in them.

        Raises CorruptError where neither the file nor its manifest knows the rows' ids.
        """
        for first, batch in numbered:
            rows = batch
            for name in self.names:
                rows = self._with(rows, name, first)
            yield first, rows

    def _with(self, batch: pa.RecordBatch, name: str, first: int) -> pa.RecordBatch:
        place = batch.schema.get_field_index(name)
        held = batch.column(place) if place >= 0 else None
        if held is not None and not held.null_count:
            return batch
        given = self._given(name, first, batch.num_rows)
        field = pa.field(name, pa.int64())
        if held is None:
            return batch.append_column(field, given)
        return batch.set_column(place, field, pc.coalesce(held, given))

    def _given(self, name: str, first: int, rows: int) -> pa.Array:
        if name == SEQUENCE_FIELD.name:
            return pa.repeat(pa.scalar(self.number, pa.int64()), rows)
        if self.first is None:
            raise CorruptError(
                "rows without ids: neither the file nor its manifest has them", file=self.file, column=name
            )
        return pa.array(np.arange(self.first + first, self.first + first + rows, dtype=np.int64))


def of_tracked(file: DataFile, schema: TableSchema, numbers: tuple[int, int] | None, changed: bool) -> DataFile:
    """What a manifest says of a file that holds its rows' ids. `numbers`: the least and greatest number in it, None
    where all are null; `changed`: whether some are. The commit puts its snapshot in place of a bound that is 0."""
    low, high = numbers or (0, 0)
    return replace(
        file,
        min_sequence_number=low,
        max_sequence_number=0 if changed else high,
        write_cols=schema.field_names,
        value_stats_cols=plain_schema(schema).field_names if file.value_stats_cols is None else file.value_stats_cols,
    )
