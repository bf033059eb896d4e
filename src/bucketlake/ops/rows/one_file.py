"""The rows of one data file, written under any schema of its table, as columns of the present one.

    layout = file_layout(store, file, fields)          what to read of it, and what becomes of that
    read_file(store, path, layout, condition)          what it holds; `layout.rows(batch)`: as the columns wanted
    read_key_values(store, folder, file)               both at once, for a file of a table with a primary key
    keeps_columns(store, file)                         whether a new file can take over its columns as they are

Spec: docs/spec/reading.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

import pyarrow as pa

from bucketlake.errors import CorruptError, InvalidError, NotFoundError
from bucketlake.format.data.datafile import Recorded, file_format, read_recorded
from bucketlake.format.data.file_format import format_of
from bucketlake.format.data.pieces import piece_of
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.lazy import pc
from bucketlake.lsm.changelog import DELETE, INSERT
from bucketlake.ops.rows.column_files import held
from bucketlake.ops.rows.deletions import Mask, without_deleted
from bucketlake.ops.rows.key_bounds import within_bounds
from bucketlake.ops.rows.row_ids import COLUMNS, RowIds, holds_ids
from bucketlake.ops.table.known import is_newer
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.evolution import ReadColumn, evolve_batch, read_mapping
from bucketlake.schema.file_indexes import index_specs
from bucketlake.schema.schema import KEY_FIELD_ID_START, KIND_FIELD, SEQUENCE_FIELD, TRACKING, TableSchema
from bucketlake.types.encoded import fitting
from bucketlake.types.model import DataField, Root, arrow_schema
from bucketlake.values import dataclass

WIDTHS = {Root.BOOLEAN: 1, Root.TINYINT: 1, Root.SMALLINT: 2, Root.INT: 4, Root.DATE: 4, Root.BIGINT: 8}


READ_AGAIN = (
    "its snapshot may have expired: read again, and keep what long reads and streams need by a tag or a 'consumer-id'; "
    "if it stays so, restore the file, or see `bucketlake fsck`"
)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How the files of one schema give the columns wanted: what to read, and what becomes of it.

    `renamed`: columns whose conditions can be put to the file, by their names there. `sequence`: the sequence number
    of every row, where it is not the stored one. `size`, `row_count`: those of the file, as its manifest says. `ids`:
    what rows have as ids where the file does not hold them, if these are wanted. `encoded`: columns, by their names in
    the file, that may be given encoded. `start`: where a piece begins in its file."""

    stored: tuple[DataField, ...]
    names: tuple[str, ...]
    columns: tuple[ReadColumn, ...]
    renamed: dict[str, str]
    sequence: int | None = None
    size: int | None = None
    row_count: int | None = None
    ids: RowIds | None = None
    encoded: frozenset[str] = frozenset()
    start: int | None = None

    def encoding(self, names: Set[str]) -> FileLayout:
        """The same, where these of the columns wanted may be given encoded (`types/encoded.py`)."""
        kept = (column for column in self.columns if column.field.name in names and not column.cast)
        return replace(self, encoded=frozenset(column.source.name for column in kept if column.source is not None))

    @property
    def stored_columns(self) -> list[DataField]:
        """The columns to read."""
        by_name = {item.name: item for item in self.stored}
        return [by_name[name] for name in self.names]

    def recorded(self, path: str) -> Recorded:
        """The file at a path with what its manifest says of it."""
        return Recorded(path, format_of(path), self.size, self.row_count, self.encoded, self.start)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What was read as the columns wanted; all files give the same Arrow schema."""
        if not self.columns:
            return batch.select([])
        target = arrow_schema([column.field for column in self.columns])
        arrays = evolve_batch(batch, self.columns).columns
        place = target.get_field_index(SEQUENCE_FIELD.name)
        if self.sequence is not None and place >= 0:
            arrays[place] = pa.repeat(pa.scalar(self.sequence, pa.int64()), batch.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=fitting(target, arrays) if self.encoded else target)


def file_layout(store: Store, file: DataFile, fields: Sequence[DataField]) -> FileLayout:
    """What to read of a file written under any schema of the table to get these columns of the present one.

    Keys come from the value columns: thin files have no others, nor have those of paimon-rust, whatever the option.
    """
    written = store.schema_of(file.schema_id)
    if written.tracks_rows:
        return _tracked_layout(store, written, file, fields)
    stored = tuple(item for item in written.file_fields if item not in written.key_fields)
    keys = {item.id for item in store.schema.key_fields}
    fields = [replace(f, id=f.id - KEY_FIELD_ID_START) if f.id in keys else f for f in fields]
    columns = read_mapping(stored, fields, newer=is_newer(store, file.schema_id))
    sources = [column.source for column in columns if column.source is not None]
    names = tuple(dict.fromkeys(source.name for source in sources)) or (_narrowest(written, written.fields),)
    renamed = {
        column.field.name.removeprefix("_KEY_"): column.source.name
        for column in columns
        if column.source is not None and not column.cast
    }
    sequence = _snapshot_sequence(store, file)
    layout = FileLayout(stored, names, columns, renamed, sequence, file.file_size, file.row_count)
    piece = piece_of(file.file_name)
    return layout if piece is None else replace(layout, start=piece.start, size=piece.length)


def _tracked_layout(store: Store, written: TableSchema, file: DataFile, fields: Sequence[DataField]) -> FileLayout:
    """As `file_layout` of a table whose rows have ids: these are the file's where it holds them. No condition on them
    can be put to the file: what it lacks is told by its manifest."""
    values = held(written, file)
    stored = (*values, *COLUMNS) if holds_ids(file) and not written.data_evolution else values
    columns = read_mapping((*values, *COLUMNS), fields, newer=is_newer(store, file.schema_id))
    sources = [column.source for column in columns if column.source is not None]
    there = dict.fromkeys(source.name for source in sources if source in stored)
    names = tuple(there) or (_narrowest(written, values),)
    renamed = {
        column.field.name: column.source.name
        for column in columns
        if column.source is not None and not column.cast and column.source.name not in TRACKING
    }
    wanted = tuple(name for name in TRACKING if any(source.name == name for source in sources))
    ids = RowIds.of(file, wanted) if wanted else None
    return FileLayout(stored, names, columns, renamed, None, file.file_size, file.row_count, ids)


def _snapshot_sequence(store: Store, file: DataFile) -> int | None:
    """With `sequence.snapshot-ordering`: the snapshot that a file came with, unless its rows carry theirs.

    Spec: docs/spec/merge.md#snapshot-ordering
    """
    if not store.options.get("sequence.snapshot-ordering"):
        return None
    if file.file_source is None:
        raise InvalidError(
            "sequence.snapshot-ordering requires data files with fileSource metadata. This option is only safe for "
            "newly-created tables or empty tables. Legacy files without fileSource cannot be ordered by commit "
            "snapshot id.",
            file=file.file_name,
        )
    return file.min_sequence_number if file.file_source is FileSource.APPEND else None


def read_key_values(
    store: Store, folder: str, file: DataFile, deleted: Mask | None = None, encoded: Set[str] = frozenset()
) -> Iterator[pa.RecordBatch]:
    """All rows of one primary-key file, delete rows included, in the table's key-value layout. `deleted`: the rows of
    the file that its deletion vector leaves out; `encoded`: columns that may be given encoded.
    Raises CorruptError also for keys that are not those recorded: what is written from them would look whole."""
    layout = file_layout(store, file, store.schema.key_value_fields).encoding(encoded)
    rows = read_file(store, store.paths.file_path(folder, file), layout, None, deleted)
    return within_bounds(store, folder, file, map(layout.rows, rows))


def keeps_columns(store: Store, file: DataFile) -> bool:
    """Whether columns of a file may be copied as they are into a new one, by what its manifest says: parquet of the
    present schema, without indexes over its columns."""
    if format_of(file.file_name) != "parquet" or file_format(store.options).name != "parquet":
        return False
    if file.embedded_index or file.extra_files or index_specs(store.options.raw) or file_format(store.options).maps:
        return False
    written = store.schema_of(file.schema_id)
    return [(f.id, f.name, f.type) for f in written.fields] == [(f.id, f.name, f.type) for f in store.schema.fields]


def read_file(
    store: Store, path: str, layout: FileLayout, condition: Predicate | None, deleted: Mask | None = None
) -> Iterator[pa.RecordBatch]:
    """The stored columns of one file, less the rows `deleted`; rows outside of `condition` may be missing."""
    numbered = read_numbered_file(store, path, layout, condition, deleted)
    if deleted is None:
        return (batch for _, batch in numbered)
    return (without_deleted(batch, first, deleted) for first, batch in numbered)


def read_numbered_file(
    store: Store, path: str, layout: FileLayout, condition: Predicate | None, left_out: Mask | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The stored columns of one file, batch by batch, each with the position of its first row; rows outside of
    `condition`, and rows `left_out`, may be missing."""
    recorded = layout.recorded(path)
    try:
        found = read_recorded(store.env.storage, recorded, layout.stored, layout.names, condition, left_out)
        if KIND_FIELD.name in layout.names:
            found = _of_known_kinds(found, path)
        yield from found if layout.ids is None else layout.ids.filled(found)
    except NotFoundError as error:
        raise gone(store, error, path=path) from error


def _of_known_kinds(numbered: Iterator[tuple[int, pa.RecordBatch]], path: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of a file as they come. CorruptError for a row kind that there is not: it is no insert and no delete,
    and each reader would take it for another."""
    for first, batch in numbered:
        low, high = pc.min_max(batch.column(KIND_FIELD.name)).as_py().values()
        if low is not None and not INSERT <= low <= high <= DELETE:
            raise CorruptError(
                "a file has row kinds that there are not",
                path=path,
                kind=low if low < INSERT else high,
                remedy="restore the file; `bucketlake fsck` tells what else is damaged",
            )
        yield first, batch


def gone(store: Store, error: Exception, **details: object) -> NotFoundError:
    """What is said of a data file that a plan names and the storage does not have."""
    return NotFoundError(
        "a data file is gone",
        table=store.paths.root,
        **details,
        reason=str(error).split("\n")[0],
        remedy=READ_AGAIN,
    )


def _narrowest(written: TableSchema, stored: Sequence[DataField]) -> str:
    """The stored column that costs least to read where only rows count."""
    kind = [KIND_FIELD] if written.primary_keys else []
    fields = [*kind, *(f for f in stored if f.name not in written.partition_keys)] or stored
    return min(fields, key=lambda item: WIDTHS.get(item.type.root, 100)).name
