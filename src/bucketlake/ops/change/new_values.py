"""New values of some columns in rows of append tables that stay where they are: their files once more, otherwise alike.

    in_place(schema, names)                       whether rows stay when these columns change
    NewValues(fields, batches)                    the values, by file and position
    rewrite_changed(store, part, values)          new files in the place of a part's

Where a file holds the columns as they would be written now, its other columns are copied as they are
(`format.data.column_rewrite`); else its rows are read and written again.

Spec: docs/spec/row_changes.md#new-values-in-place
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.file_names import own_uuid
from bucketlake.format.data.column_rewrite import Replacement, replace_columns, with_values
from bucketlake.format.data.datafile import Recorded, WrittenFile, file_format
from bucketlake.format.data.file_format import format_of
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.stats import ColumnStats, stats_of
from bucketlake.ops.change.touched import Touched, numbered, path_of
from bucketlake.ops.progress import refuse_stopped
from bucketlake.ops.rows.carried import carried, carried_columns
from bucketlake.ops.rows.one_file import keeps_columns
from bucketlake.ops.rows.places import Places
from bucketlake.ops.rows.roll import described, rolled, stats_modes
from bucketlake.ops.rows.row_ids import is_tracked, tracked
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import SEQUENCE_FIELD, TRACKING, BucketMode, TableSchema
from bucketlake.types.model import DataField, Root, arrow_schema, canonical_batch

_VALUES = {
    *(Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DECIMAL),
    *(Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY, Root.DATE, Root.TIMESTAMP, Root.TIMESTAMP_LTZ),
}


def in_place(schema: TableSchema, names: Collection[str]) -> bool:
    """Whether rows whose columns `names` change can stay where they are: these neither place rows nor are nested, and
    no row lies in several files or is marked as deleted."""
    if schema.primary_keys or schema.data_evolution or any(item.type.holds(Root.BLOB) for item in schema.fields):
        return False
    if schema.table_options.get("deletion-vectors.enabled"):
        return False
    placing = {*schema.partition_keys, *schema.bucket_keys}
    return all(name not in placing and schema.field(name).type.root in _VALUES for name in names)


class NewValues:
    """Values by file and position. `batches`: of the columns `fields`, in canonical layout or one that is cast to it,
    then the file's number and the row's position, int64; ascending by both. Memory: what one row group changes."""

    def __init__(self, fields: Sequence[DataField], batches: Iterable[pa.RecordBatch]) -> None:
        self.fields = tuple(fields)
        self._batches = (batch for batch in batches if batch.num_rows)
        self._head: pa.RecordBatch | None = None
        self.count = 0  # rows that were given

    def before(self, file: int, end: int) -> tuple[np.ndarray, pa.Table]:
        """Those that follow of a file up to a position, which is left out: positions, and as many rows."""
        places: list[np.ndarray] = []
        found: list[pa.RecordBatch] = []
        while (head := self._next()) is not None:
            files, positions = (head.column(at).to_numpy() for at in (-2, -1))
            if files[0] < file:
                raise CorruptError("new values of a row that its file does not have", position=int(positions[0]))
            same = int(np.searchsorted(files, file, side="right"))
            count = int(np.searchsorted(positions[:same], end))
            if count:
                places.append(positions[:count])
                found.append(canonical_batch(head.slice(0, count).select(self._names), self.fields))
            self._head = head.slice(count) if count < head.num_rows else None
            if self._head is not None:
                break
        none = np.empty(0, np.int64)
        self.count += sum(map(len, places))
        return np.concatenate([none, *places]), pa.Table.from_batches(found, arrow_schema(self.fields))

    @property
    def _names(self) -> list[str]:
        return [item.name for item in self.fields]

    def _next(self) -> pa.RecordBatch | None:
        if self._head is None:
            self._head = next(self._batches, None)
        return self._head


def rewrite_changed(store: Store, part: Sequence[tuple[int, Touched]], values: NewValues) -> list[DataFile]:
    """New files in the place of these of one bucket, numbered ascending, with `values` in the rows that change; their
    sequence numbers as in `append_rows.rewrite_part`. Rows with ids keep them; the numbers of those that change become
    null. On failure none stays.

    Raises InvalidError for values that do not fit."""
    first, store = part[0][1].file, tracked(store)
    if len(part) == 1 and not is_tracked(store) and keeps_columns(store, first):
        found = _replaced(store, *part[0], values)
        if found is not None:
            return _finished(store, [found], first)
    place = part[0][1].split
    rows = (batch for number, touched in part for batch in _rows(store, number, touched, values))
    return _finished(store, rolled(store, place.partition, place.bucket, rows), first)


def _finished(store: Store, files: list[DataFile], replaced: DataFile) -> list[DataFile]:
    return files if store.schema.bucket_mode is BucketMode.UNAWARE else numbered(files, replaced)


def _rows(store: Store, number: int, touched: Touched, values: NewValues) -> Iterator[pa.RecordBatch]:
    """The live rows of a file with their new values."""
    looked = {*TRACKING, *(item.name for item in values.fields)}
    live = np.flatnonzero(~touched.left_out)
    at, before = 0, values.count
    for batch in carried(store, touched.split, touched.left_out, carried_columns(store) - looked):
        positions = live[at : at + batch.num_rows]
        at += batch.num_rows
        places, new = values.before(number, int(positions[-1]) + 1)
        own = np.searchsorted(positions, places)
        if not (positions[own] == places).all():
            raise CorruptError("new values of rows that are deleted", file=touched.file.file_name)
        if is_tracked(store):
            new = new.append_column(SEQUENCE_FIELD.name, pa.nulls(len(own), pa.int64()))
        yield with_values(batch, own, new)
    _check_count(touched, values.count - before)


def _replaced(store: Store, number: int, touched: Touched, values: NewValues) -> DataFile | None:
    """The file with its other columns as they are; None where its rows have to be written anew."""
    refuse_stopped()
    if len(touched.dead):
        return None
    schema, file, form = store.schema, touched.file, file_format(store.options)
    name = store.paths.data_file_name(own_uuid(store.env.clock.new_uuid()), 0, form.name, form.compression, False)
    place = Places(store, touched.split.partition, touched.split.bucket).next(name)
    modes = dict(zip(schema.field_names, stats_modes(schema, store.options), strict=True))
    replacement = Replacement(values.fields, tuple(modes[item.name] for item in values.fields), form)
    recorded = Recorded(path_of(store, touched.split, file), format_of(file.file_name), file.file_size, file.row_count)

    before = values.count

    def change(first: int, end: int) -> tuple[np.ndarray, pa.Table]:
        refuse_stopped()
        found = values.before(number, end)
        if end == file.row_count:
            _check_count(touched, values.count - before)
        return found

    written = replace_columns(store.env.storage, recorded, place.path, replacement, change)
    if written is None:
        return None
    new = dict(zip((item.name for item in values.fields), written.stats, strict=True))
    kept = stats_of(file, store.schema_of(file.schema_id).stats_fields(file.stats_columns))
    stats = tuple({**kept, **new}.get(item.name, ColumnStats()) for item in schema.fields)
    found = described(store, name, WrittenFile(place.path, written.size, written.rows, stats))
    return replace(found, external_path=place.external)


def _check_count(touched: Touched, given: int) -> None:
    if given != len(touched.hits):
        expected, name = len(touched.hits), touched.file.file_name
        raise CorruptError("not every row that changes has its new values", rows=given, expected=expected, file=name)
