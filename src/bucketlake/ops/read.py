"""The read path of one split: raw files or merged sections → drop deletes → filter → project.

Spec: docs/spec/reading.md
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc

from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.format.binary_row import decode_row, without_arity_header
from bucketlake.format.datafile import format_of, read_data_file
from bucketlake.format.manifest import DataFile
from bucketlake.lsm.engines import Deduplicate
from bucketlake.lsm.keys import Bound, KeyOrder
from bucketlake.lsm.levels import KeyRange, sections
from bucketlake.lsm.merge import merge_runs
from bucketlake.ops.messages import Split
from bucketlake.ops.partitions import partition_values
from bucketlake.ops.store import Store
from bucketlake.options import TableOptions
from bucketlake.predicate import And, Predicate, columns_of, conjunction, is_exact, mask, rename, restrict
from bucketlake.schema import KEY_FIELD_ID_START, KIND_FIELD, SEQUENCE_FIELD, ReadColumn, TableSchema, read_mapping
from bucketlake.schema_evolution import evolve_batch
from bucketlake.types import DataField, Root, arrow_schema

KEPT_KINDS = pa.array([0, 2], pa.int8())  # +I, +U
WIDTHS = {Root.BOOLEAN: 1, Root.TINYINT: 1, Root.SMALLINT: 2, Root.INT: 4, Root.DATE: 4, Root.BIGINT: 8}


def read_split(
    store: Store, split: Split, columns: Sequence[str] | None = None, predicate: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """The live rows of a split that satisfy the predicate, in the layout of `store.schema`, `columns` in their order.

    Empty batches are left out; memory stays within a few blocks whatever the split's size. Opaque parts of the
    predicate are left to the caller.
    Raises InvalidError for unknown columns, NotFoundError or CorruptError for files that are gone or damaged.
    Spec: docs/spec/reading.md
    """
    if split.deletions:
        raise UnsupportedError("deletion vectors are not read yet", bucket=split.bucket, path=split.bucket_path)
    wanted = column_names(store.schema, columns)
    predicate = None if predicate is None else exact_part(predicate)
    needed = list(dict.fromkeys([*wanted, *(columns_of(predicate) if predicate is not None else ())]))
    reader = _Reader(store, split, [store.schema.field(name) for name in needed])
    for batch in reader.raw(predicate) if split.raw else reader.merged(predicate):
        rows = batch if predicate is None else batch.filter(mask(predicate, batch))
        if rows.num_rows:
            yield rows.select(wanted)


def column_names(schema: TableSchema, columns: Sequence[str] | None) -> list[str]:
    """The columns asked for, all by default; InvalidError for one that the table does not have."""
    known = [item.name for item in schema.fields]
    if columns is None:
        return known
    for name in columns:
        if name not in known:
            near = get_close_matches(name, known, 1)
            remedy = f"did you mean '{near[0]}'?" if near else f"choose from {known}"
            raise InvalidError("no such column", column=name, remedy=remedy)
    return list(columns)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How the files of one schema give the columns wanted: what to read, and what becomes of it.

    `renamed`: columns whose conditions can be put to the file, by their names there."""

    stored: tuple[DataField, ...]
    names: tuple[str, ...]
    columns: tuple[ReadColumn, ...]
    renamed: dict[str, str]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What was read as the columns wanted; all files give the same Arrow schema."""
        if not self.columns:
            return batch.select([])
        target = arrow_schema([column.field for column in self.columns])
        return pa.RecordBatch.from_arrays(evolve_batch(batch, self.columns).columns, schema=target)


class _Reader:
    """Reads the files of one split as the columns `fields` of the table's schema."""

    def __init__(self, store: Store, split: Split, fields: Sequence[DataField]) -> None:
        self._store, self._split, self._fields = store, split, tuple(fields)
        self._schema = store.schema
        self._target = arrow_schema(fields)
        values = partition_values(store, split.partition)
        self._partition = dict(zip(store.schema.partition_keys, values, strict=True))

    def raw(self, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """File by file; row groups that cannot match are skipped."""
        values = [item for item in self._fields if item.name not in self._partition]
        ignored = _ignored(self._store.options)
        for file in self._split.files:
            deletes = bool(self._schema.primary_keys) and file.delete_row_count != 0
            try:
                for batch in self._file(file, [*values, KIND_FIELD] if deletes else values, predicate):
                    yield self._rows(_without_deletes(batch) if deletes else batch)
            except ignored as error:
                warnings.warn(f"left out: {error}", stacklevel=2)

    def merged(self, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Sorted runs merged by key, section by section; only conditions on the key go below the merge."""
        keys = self._schema.trimmed_primary_keys
        below = None if predicate is None else restrict(predicate, keys)
        values = [item for item in self._fields if item.name not in keys and item.name not in self._partition]
        layout = [*self._schema.key_fields, SEQUENCE_FIELD, KIND_FIELD, *values]
        order = KeyOrder(self._schema.key_fields)
        for section in sections(self._split.files, key_range(order)):
            runs = [self._run(run.files, layout, below) for run in section]
            for batch in merge_runs(runs, order, Deduplicate(), drop_deletes=True, ordered=False):
                yield self._rows(batch)

    def _run(
        self, files: Iterable[DataFile], fields: Sequence[DataField], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        names = {key.name.removeprefix("_KEY_"): key.name for key in self._schema.key_fields}
        condition = None if predicate is None else rename(predicate, names)
        for file in files:
            for batch in self._file(file, fields, predicate):
                yield batch if condition is None else batch.filter(mask(condition, batch))

    def _file(
        self, file: DataFile, fields: Sequence[DataField], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """One file's rows as `fields`: value columns, or key, sequence and kind columns of the file."""
        layout = file_layout(self._store, file, fields)
        pushed = None if predicate is None else restrict(predicate, layout.renamed)
        path = self._store.paths.file_path(self._split.bucket_path, file)
        condition = None if pushed is None else rename(pushed, layout.renamed)
        yield from (layout.rows(batch) for batch in read_file(self._store, path, layout, condition))

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns wanted: from the file, from its key columns, or the partition's constants."""
        if not self._fields:
            return batch.select([])
        arrays = []
        for item, target in zip(self._fields, self._target, strict=True):
            if item.name in self._partition:
                arrays.append(pa.repeat(pa.scalar(self._partition[item.name], target.type), batch.num_rows))
            elif item.name in batch.schema.names:
                arrays.append(batch.column(item.name))
            else:
                arrays.append(batch.column(f"_KEY_{item.name}"))
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)


def key_range(order: KeyOrder) -> KeyRange:
    """The smallest and the greatest key of a file as bounds of the order."""
    types = [item.type for item in order.fields]

    def of(file: DataFile) -> tuple[Bound, Bound]:
        low, high = (decode_row(without_arity_header(key), types) for key in (file.min_key, file.max_key))
        return order.bound(low), order.bound(high)

    return of


def file_layout(store: Store, file: DataFile, fields: Sequence[DataField]) -> FileLayout:
    """What to read of a file written under any schema of the table to get these columns of the present one.

    Keys come from the value columns: thin files have no others, nor have those of paimon-rust, whatever the option.
    """
    written = store.schema_of(file.schema_id)
    stored = tuple(item for item in written.file_fields if item not in written.key_fields)
    keys = {item.id for item in store.schema.key_fields}
    fields = [replace(f, id=f.id - KEY_FIELD_ID_START) if f.id in keys else f for f in fields]
    columns = read_mapping(stored, fields)
    sources = [column.source for column in columns if column.source is not None]
    names = tuple(dict.fromkeys(source.name for source in sources)) or (_narrowest(written),)
    renamed = {
        column.field.name.removeprefix("_KEY_"): column.source.name
        for column in columns
        if column.source is not None and not column.cast
    }
    return FileLayout(stored, names, columns, renamed)


def read_key_values(store: Store, folder: str, file: DataFile) -> Iterator[pa.RecordBatch]:
    """All rows of one primary-key file, deletes included, in the table's key-value layout."""
    layout = file_layout(store, file, store.schema.key_value_fields)
    for batch in read_file(store, store.paths.file_path(folder, file), layout, None):
        yield layout.rows(batch)


def read_file(store: Store, path: str, layout: FileLayout, condition: Predicate | None) -> Iterator[pa.RecordBatch]:
    """The stored columns of one file; rows outside of `condition` may be missing."""
    return read_data_file(store.env.storage, path, format_of(path), layout.stored, layout.names, row_filter=condition)


def exact_part(predicate: Predicate) -> Predicate | None:
    """The strongest part that can be evaluated here: what only Spark can stays with the caller."""
    if is_exact(predicate):
        return predicate
    parts = predicate.children if isinstance(predicate, And) else ()
    return conjunction(part for part in parts if is_exact(part))


def _ignored(options: TableOptions) -> tuple[type[BucketlakeError], ...]:
    """What of a raw file's failures the options say to pass over."""
    lost = (NotFoundError,) if options.get("scan.ignore-lost-files") else ()
    return (*lost, CorruptError) if options.get("scan.ignore-corrupt-files") else lost


def _without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.is_in(batch.column(KIND_FIELD.name), KEPT_KINDS))


def _narrowest(written: TableSchema) -> str:
    """The stored column that costs least to read where only rows count."""
    kind = [KIND_FIELD] if written.primary_keys else []
    fields = [*kind, *(f for f in written.fields if f.name not in written.partition_keys)] or written.fields
    return min(fields, key=lambda item: WIDTHS.get(item.type.root, 100)).name
