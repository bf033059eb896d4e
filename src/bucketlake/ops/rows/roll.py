"""Rows of one bucket → data files of about the target size, and what the manifests say of each.

A file is closed when it reaches `target-file-size` or `target-file-row-num`. Size is known exactly up to the last group
that was encoded; the rows gathered since count by the ratio of file bytes to Arrow bytes of the group before.

Spec: docs/spec/datafile.md#rolling
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import pyarrow as pa

from bucketlake.errors import UnsupportedError
from bucketlake.file_names import own_uuid
from bucketlake.format.data.datafile import DataFileWriter, WrittenFile, file_format
from bucketlake.format.data.map_writing import Widths
from bucketlake.format.file_index.container import FileIndexBuilder
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.format.metadata.stats import EMPTY_STATS, ColumnStats, StatsMode, encode_dense, encode_stats
from bucketlake.format.row.binary_row import EMPTY_ROW, encode_rows, with_arity_header
from bucketlake.lazy import pc
from bucketlake.ops.progress import refuse_stopped
from bucketlake.ops.rows.blob_files import BlobFiles
from bucketlake.ops.rows.managed_blobs import PackReferences
from bucketlake.ops.rows.places import Place, Places
from bucketlake.ops.rows.row_ids import is_tracked, of_tracked
from bucketlake.ops.table.made import all_or_nothing
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_from_epoch
from bucketlake.options.options import TableOptions
from bucketlake.schema.file_indexes import index_specs
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD, TRACKING, TableSchema
from bucketlake.types.model import DataField, DataType
from bucketlake.values import dataclass

TARGET_KEYED = 128 << 20
TARGET_APPEND = 256 << 20
NO_LIMIT = (1 << 63) - 1
SYSTEM_MODE = StatsMode("truncate", 128)


@cache
def _retracts() -> pa.Array:
    return pa.array([1, 3], pa.int8())  # -U, -D


@dataclass(frozen=True, slots=True)
class Rolling:
    """What files a roller makes: their level, who makes them, whether they are changelog, and whether they are pending:
    rows of a postpone table as they came, in no order, without statistics and indexes."""

    level: int = 0
    source: FileSource = FileSource.APPEND
    changelog: bool = False
    pending: bool = False


NEW_FILES = Rolling()
PENDING = Rolling(pending=True)


@dataclass(slots=True)
class _Open:
    """The file being written, with what its writer does not know."""

    writer: DataFileWriter
    index: FileIndexBuilder | None = None
    packs: PackReferences | None = None
    external: str | None = None
    min_key: bytes = EMPTY_ROW
    last: pa.RecordBatch | None = None
    min_sequence: int = NO_LIMIT
    max_sequence: int = -NO_LIMIT - 1
    deletes: int = 0
    changed: bool = False


class Roller:
    """Writes one bucket's rows in the order given. `partition`: stored BinaryRow bytes. Primary-key tables take rows in
    the layout of `key_value_fields`, sorted by the level's `bound_fields`; append tables number their rows from 0 in
    every file, those of a `tracked` store carry their ids.

    `close` gives the files; `abort` removes all of them, those already closed too. A failed write must be followed by
    `abort`: see `all_or_nothing`, and `rolled` for rows that go to one roller.
    """

    def __init__(self, store: Store, partition: bytes, bucket: int, rolling: Rolling = NEW_FILES) -> None:
        options = store.options
        self._blobs = BlobFiles(store, self._place, self._beside) if store.schema.blob_fields else None
        if self._blobs is not None:
            store = store.with_schema(store.schema.without_blobs)
        schema = store.schema
        self._store, self._schema, self._rolling = store, schema, rolling
        self._places = Places(store, partition, bucket)
        self._keyed = bool(schema.primary_keys)
        self._tracked = is_tracked(store)
        if self._tracked and schema.data_evolution:
            raise UnsupportedError(
                "rewriting rows of tables with data-evolution.enabled", remedy="CALL sys.compact merges their files"
            )
        self._form = file_format(options, rolling.level, changelog=rolling.changelog)
        self._widths = Widths(self._form.maps)
        self._fields = schema.file_fields
        self._modes = stats_modes(schema, options, rolling)
        self._target = options.get("target-file-size") or (TARGET_KEYED if self._keyed else TARGET_APPEND)
        if self._form.name == "orc":  # sizes are known stripe by stripe
            self._form = replace(self._form, group_bytes=max(1, min(self._form.group_bytes, self._target // 16)))
        limited = rolling.source is FileSource.APPEND and not rolling.changelog
        self._row_limit = options.get("target-file-row-num") if limited else NO_LIMIT
        self._points = bool(schema.managed_fields)
        self._specs = () if rolling.changelog or rolling.pending else index_specs(options.raw)
        self._unique = own_uuid(store.env.clock.new_uuid())
        self._count = 0
        self._ratio: float | None = None
        self._open: _Open | None = None
        self._files: list[DataFile] = []
        self._paths: list[str] = []

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files closed so far."""
        return tuple(self._files)

    @property
    def pending(self) -> int:
        """Arrow bytes of rows that were given and are not encoded yet."""
        return 0 if self._open is None else self._open.writer.pending_bytes

    def flush(self) -> None:
        """Encode what is pending, as a row group of its own."""
        if self._open is not None:
            self._open.writer.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, closing and opening files as they fill."""
        refuse_stopped()
        start = 0
        own = batch if self._blobs is None else batch.select(self._schema.field_names)
        while start < batch.num_rows:
            current = self._current()
            rest = own.slice(start)
            rows = min(current.writer.room(rest, self._target), self._row_limit - current.writer.rows)
            if rows > 0:
                self._append(current, rest.slice(0, rows))
                if self._blobs is not None:
                    self._blobs.write(batch.slice(start, rows))
                start += rows
            else:
                self._finish()

    def close(self) -> list[DataFile]:
        """Finish the open file; all files in the order of their rows, each before the blob files of its rows."""
        self._finish()
        return list(self._files)

    def abort(self) -> None:
        """Remove every file that this roller made, best effort."""
        if self._open is not None:
            self._open.writer.abort()
            self._open = None
        if self._blobs is not None:
            self._blobs.abort()
        self._store.env.storage.delete_all(self._paths)
        self._files, self._paths = [], []

    # ---- one file

    def _current(self) -> _Open:
        if self._open is None:
            place = self._place(self._form.name, self._form.compression)
            form = replace(self._form, maps=self._widths.layouts()) if self._form.maps else self._form
            writer = DataFileWriter(self._store.env.storage, place.path, self._fields, form, self._modes, self._ratio)
            index = FileIndexBuilder(self._specs, self._schema.fields) if self._specs else None
            self._open = _Open(writer, index, PackReferences(self._store) if self._points else None, place.external)
        return self._open

    def _place(self, form: str, compression: str = "none") -> Place:
        """Where the next file goes."""
        name = self._store.paths.data_file_name(self._unique, self._count, form, compression, self._rolling.changelog)
        self._count += 1
        return self._places.next(name)

    def _beside(self, store: Store, name: str, size: int, rows: int) -> DataFile:
        """What a manifest says of a blob file of the same rows."""
        return described(store, name, WrittenFile(name, size, rows, (ColumnStats(),)), self._rolling)

    def _append(self, current: _Open, rows: pa.RecordBatch) -> None:
        if self._keyed:
            if current.last is None:
                current.min_key = self._key(rows.slice(0, 1))
            current.last = rows.slice(rows.num_rows - 1)
            bounds = pc.min_max(rows.column(SEQUENCE_FIELD.name))
            current.min_sequence = min(current.min_sequence, bounds["min"].as_py())
            current.max_sequence = max(current.max_sequence, bounds["max"].as_py())
            current.deletes += pc.sum(pc.is_in(rows.column(KIND_FIELD.name), _retracts())).as_py() or 0
        elif self._tracked:
            numbers = rows.column(SEQUENCE_FIELD.name)
            current.changed = current.changed or numbers.null_count > 0
            if numbers.null_count < len(numbers):
                bounds = pc.min_max(numbers)
                current.min_sequence = min(current.min_sequence, bounds["min"].as_py())
                current.max_sequence = max(current.max_sequence, bounds["max"].as_py())
        if current.packs is not None:
            current.packs.add(rows)
        if current.index is not None:
            current.index.update(rows)
        if self._keyed and self._schema.thin_mode:
            rows = rows.select([item.name for item in self._fields])
        current.writer.write(rows)

    def _finish(self) -> None:
        if self._open is None:
            return
        current = self._open
        written = current.writer.close()
        self._open = None
        self._paths.append(written.path)
        self._ratio = current.writer.ratio
        self._widths.met(current.writer.widths)
        file = replace(self._described(current, written), external_path=current.external)
        if self._blobs is not None:
            file = replace(file, write_cols=self._schema.field_names)
        if current.index is not None:
            file = self._with_index(file, written.path, current.index)
        if current.packs is not None:
            data = current.packs.encoded()
            file = self._with_extra(file, self._store.paths.blob_references(written.path), data)
        self._files.append(file)
        if self._blobs is not None:
            self._files += self._blobs.taken()

    def _with_index(self, file: DataFile, path: str, index: FileIndexBuilder) -> DataFile:
        """The file with its index: in the manifest if it is small, else beside the file."""
        data = index.finish()
        if len(data) <= self._store.options.get("file-index.in-manifest-threshold"):
            return replace(file, embedded_index=data)
        return self._with_extra(file, self._store.paths.file_index(path), data)

    def _with_extra(self, file: DataFile, place: str, data: bytes) -> DataFile:
        self._paths.append(place)
        self._store.env.storage.write(place, data)
        return replace(file, extra_files=(*file.extra_files, place.rsplit("/", 1)[-1]))

    def _key(self, row: pa.RecordBatch) -> bytes:
        return stored_key(row, self._schema.bound_fields(self._rolling.level))

    def _described(self, current: _Open, written: WrittenFile) -> DataFile:
        if current.last is not None:
            keys = current.min_key, self._key(current.last)
            bounds = KeyRange(*keys, current.min_sequence, current.max_sequence, current.deletes)
            return described_keyed(self._store, written, bounds, self._rolling)
        own = len(written.stats) - len(self._schema.fields)
        values = written.stats[own:]
        name = written.path.rsplit("/", 1)[-1]
        if self._tracked:
            values = values[: -len(TRACKING)]
        file = described(self._store, name, replace(written, stats=values), self._rolling)
        if self._tracked:
            known = current.max_sequence >= current.min_sequence
            numbers = (current.min_sequence, current.max_sequence) if known else None
            return of_tracked(file, self._schema, numbers, current.changed)
        return file


def stored_key(row: pa.RecordBatch, fields: Sequence[DataField]) -> bytes:
    """The key of a batch's only row as manifests have it."""
    encoded = encode_rows([row.column(item.name) for item in fields], [item.type for item in fields])
    return with_arity_header(encoded.row(0), len(fields))


def rolled(
    store: Store, partition: bytes, bucket: int, batches: Iterable[pa.RecordBatch], rolling: Rolling = NEW_FILES
) -> list[DataFile]:
    """The files of one bucket's rows, which come as `Roller` takes them. On an error none stays."""
    roller = Roller(store, partition, bucket, rolling)
    with all_or_nothing([roller]):
        for batch in batches:
            roller.write(batch)
        return roller.close()


def described(store: Store, name: str, written: WrittenFile, rolling: Rolling = NEW_FILES) -> DataFile:
    """What a manifest says of a file without keys, rows numbered from 0. `written.stats`: of the table's columns."""
    schema, values = store.schema, written.stats
    fields = schema.fields[: len(values)]
    dense = store.options.get("metadata.stats-dense-store")
    stats, names = encode_dense(values, fields) if dense else (encode_stats(values, _types(fields)), None)
    return DataFile(
        file_name=name,
        file_size=written.size,
        row_count=written.rows,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=stats,
        min_sequence_number=0,
        max_sequence_number=written.rows - 1,
        schema_id=schema.id,
        level=rolling.level,
        creation_time=local_from_epoch(store.env.clock.now_millis()),
        delete_row_count=0,
        file_source=rolling.source,
        value_stats_cols=names,
    )


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The first and last key of a keyed file, its least and greatest sequence number, and how many rows retract."""

    min_key: bytes
    max_key: bytes
    min_sequence: int
    max_sequence: int
    deletes: int = 0


def described_keyed(store: Store, written: WrittenFile, bounds: KeyRange, rolling: Rolling = NEW_FILES) -> DataFile:
    """What a manifest says of a file with keys. `written.stats`: of `schema.file_fields`."""
    schema = store.schema
    own = len(written.stats) - len(schema.fields)
    system, values = written.stats[:own], written.stats[own:]
    file = described(store, written.path.rsplit("/", 1)[-1], replace(written, stats=values), rolling)
    keys = schema.key_fields
    found = list(system[: len(keys)])
    if schema.thin_mode:  # such files have them among the values
        by_name = dict(zip(schema.field_names, values, strict=True))
        found = [by_name[name] for name in schema.trimmed_primary_keys]
    return replace(
        file,
        min_key=bounds.min_key,
        max_key=bounds.max_key,
        key_stats=encode_stats(found, _types(keys)),
        min_sequence_number=bounds.min_sequence,
        max_sequence_number=bounds.max_sequence,
        delete_row_count=bounds.deletes,
    )


def stats_modes(schema: TableSchema, options: TableOptions, rolling: Rolling = NEW_FILES) -> tuple[StatsMode, ...]:
    """What is kept of each of `schema.file_fields` in files of this kind.

    A column's own option goes first; key and system columns are kept to 128 characters; the rest follow the table's
    mode, the first `metadata.stats-keep-first-n-columns` of them. Avro files treat all columns as the rest.
    Spec: docs/spec/datafile.md#statistics
    """
    if rolling.pending:
        return tuple(StatsMode("none") for _ in schema.file_fields)
    text = (options.get("metadata.stats-mode.per.level") or {}).get(str(rolling.level))
    text = text or options.get("metadata.stats-mode")
    if rolling.changelog:
        text = options.get("changelog-file.stats-mode") or text
    usual, first = StatsMode.parse(text), options.get("metadata.stats-keep-first-n-columns")
    avro = bool(schema.primary_keys) and file_format(options, rolling.level, changelog=rolling.changelog).name == "avro"
    keys = set(schema.trimmed_primary_keys) if schema.primary_keys and schema.thin_mode else set()
    system = len(schema.file_fields) - len(schema.fields)
    modes = []
    counted = 0
    for position, item in enumerate(schema.file_fields):
        own = options.text(f"fields.{item.name}.stats-mode")
        if own is None and not avro and (position < system or item.name in keys):
            modes.append(SYSTEM_MODE)
            continue
        within = first < 0 or counted < first
        modes.append(StatsMode.parse(own) if own is not None else usual if within else StatsMode("none"))
        counted += 1
    return tuple(modes)


def _types(fields: Sequence[DataField]) -> list[DataType]:
    return [item.type for item in fields]
