"""The deep look at one bucket: footers, keys, all rows. What a task does.

    units_of(store, layout) -> [CheckUnit]           small, picklable, from metadata alone
    check_unit(store, level, unit) -> UnitResult     findings, and how much was read; memory: a block of rows

Spec: docs/maintenance.md#levels
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from bucketlake.errors import BucketlakeError, NotFoundError
from bucketlake.format.data.avro import AvroSource
from bucketlake.format.data.blob import BLOB, read_lengths
from bucketlake.format.data.datafile import BROKEN, DEFAULT_BATCH, stats_from_parquet_footer
from bucketlake.format.data.file_format import format_of
from bucketlake.format.data.orc import OrcSource
from bucketlake.format.data.parquet import ParquetSource
from bucketlake.format.data.pieces import open_piece, piece_of
from bucketlake.format.file_index.container import FileIndex
from bucketlake.format.guard import decoding
from bucketlake.format.index.index_manifest import DELETION_VECTORS, IndexEntry
from bucketlake.format.metadata.manifest import DataFile, FileKind, SimpleStats
from bucketlake.format.metadata.stats import ColumnStats, StatsMode, stats_of
from bucketlake.ops.buckets.dynamic import hash_files, read_hashes
from bucketlake.ops.check.faults import LEVELS
from bucketlake.ops.check.findings import Finding, Findings, Place, shown
from bucketlake.ops.check.layout import Layout
from bucketlake.ops.check.reach import partition_text
from bucketlake.ops.check.roots import attempted
from bucketlake.ops.check.rows import check_rows, code_of, compare, text_of
from bucketlake.ops.check.runs import check_keys, check_ties, check_unmarked
from bucketlake.ops.check.unit import CheckUnit
from bucketlake.ops.rows.column_files import held
from bucketlake.ops.rows.deletions import deleted_mask, load_vectors
from bucketlake.ops.table.partitions import partition_values
from bucketlake.ops.table.store import Store
from bucketlake.paths import FILE_INDEX_SUFFIX, POSTPONE_BUCKET
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

FULL = StatsMode("full")


@dataclass(frozen=True, slots=True)
class UnitResult:
    """What was found in a unit."""

    findings: tuple[Finding, ...]
    files: int
    rows: int
    bytes: int


_NO_COLUMNS = 12  # bytes of statistics of none
UNIT_FILES = 200  # of a partition without buckets that go together


def units_of(store: Store, layout: Layout, told: frozenset[str]) -> list[CheckUnit]:
    """What there is to look at, largest first."""
    unaware = store.schema.bucket_mode is BucketMode.UNAWARE
    vectors: dict[tuple[bytes, int], list[IndexEntry]] = {}
    for entry in layout.indexes:
        if entry.file.index_type == DELETION_VECTORS:
            vectors.setdefault((entry.partition, entry.bucket), []).append(entry)
    hashes = hash_files(layout.indexes) if store.schema.bucket_mode is BucketMode.DYNAMIC else {}
    found = []
    for (partition, bucket), entries in layout.buckets().items():
        step = UNIT_FILES if unaware else len(entries)
        for start in range(0, len(entries), step):
            part = entries[start : start + step]
            own = hashes.get(partition, {}).get(bucket)
            found.append(
                CheckUnit(
                    partition,
                    bucket,
                    max(entry.total_buckets for entry in part),
                    tuple(entry.file for entry in part),
                    tuple(vectors.get((partition, 0 if unaware else bucket), ())),
                    None if own is None else IndexEntry(FileKind.ADD, partition, bucket, own),
                    told,
                )
            )
    return sorted(found, key=lambda unit: unit.size, reverse=True)


def check_unit(store: Store, level: str, unit: CheckUnit) -> UnitResult:
    """Look at a unit as deep as a level says. Raises StorageError alone."""
    look = _Look(store, unit, LEVELS.index(level))
    look.run()
    return UnitResult(look.findings.listed(), len(unit.files), unit.row_count, unit.size)


@dataclass(slots=True)
class _Look:
    store: Store
    unit: CheckUnit
    depth: int
    findings: Findings = field(default_factory=Findings)

    def run(self) -> None:
        """All of it."""
        readable = [file for file in self.unit.files if self._file(file)]
        known = self._hashes()
        self._vectors()
        keyed = bool(self.store.schema.primary_keys)
        if self.depth >= LEVELS.index("keys") and self.unit.bucket != POSTPONE_BUCKET:
            for file in readable:
                check_keys(self.store, self.unit, file, known, self._adder(file))
            if keyed:
                check_ties(self.store, self.unit, readable, self._adder(None))
                check_unmarked(self.store, self.unit, readable, self._adder)
        if self.depth >= LEVELS.index("rows"):
            for file in readable:
                check_rows(self.store, self.unit, file, self._recorded(file), self._adder(file))

    def _recorded(self, file: DataFile) -> dict[str, ColumnStats]:
        """What a manifest says of a file's columns; nothing where it cannot be read."""
        found = attempted(lambda: recorded_stats(file, self.store.schema_of(file.schema_id)))
        return {} if isinstance(found, BucketlakeError) else found

    def _place(self, path: str | None, level: int | None = None) -> Place:
        text = partition_text(self.store, self.unit.partition)
        return Place(path, self.unit.partition, text, self.unit.bucket, level)

    def _adder(self, file: DataFile | None) -> Callable[[str, str, int], None]:
        path = None if file is None else self._path(file)
        place = self._place(path if isinstance(path, str) else None, None if file is None else file.level)
        return lambda code, cause, count: self.findings.add(code, cause, place, count)

    def _path(self, file: DataFile) -> str | BucketlakeError:
        folder = self.store.paths.bucket_dir(self.unit.partition, self.unit.bucket)
        return attempted(lambda: self.store.paths.file_path(folder, file))

    # ---- one file

    def _file(self, file: DataFile) -> bool:
        """Look at a file's footer; whether its rows can be read."""
        path = self._path(file)
        if isinstance(path, BucketlakeError) or path in self.unit.told:
            return False
        add = self._adder(file)
        written = attempted(lambda: self.store.schema_of(file.schema_id))
        if isinstance(written, BucketlakeError):
            return False
        rows = attempted(lambda: self._rows_of(path, file, written, add))
        if isinstance(rows, BucketlakeError):
            if not isinstance(rows, NotFoundError):  # gone since the folder was listed: expired, or told
                add(code_of(rows), shown(rows), 1)
            return False
        if rows is not None and rows != file.row_count:
            add("row-count", f"{rows} rows, {file.row_count} are recorded", 1)
        recorded = attempted(lambda: recorded_stats(file, written))
        if isinstance(recorded, BucketlakeError):
            add("stats-broken", shown(recorded), 1)
        else:
            self._placed(recorded, written, add)
        self._beside(file, path, written)
        return True

    def _rows_of(
        self, path: str, file: DataFile, written: TableSchema, add: Callable[[str, str, int], None]
    ) -> int | None:
        """How many rows a file has by its footer; None where only reading them tells."""
        kind = format_of(path)
        if kind == BLOB:
            return len(read_lengths(self.store.env.storage, path, None, None))
        fields = stored_fields(written, file)
        first = [item for item in fields if item.name not in written.partition_keys][:1] or fields[:1]
        piece = piece_of(file.file_name)
        with decoding(BROKEN, path), self.store.env.storage.open_input(path) as whole:
            opened = whole if piece is None else open_piece(whole, path, piece.start, piece.length)
            if kind == "parquet":
                source = ParquetSource(opened, ())
                names = set(source.metadata.schema.to_arrow_schema().names)
                self._columns(names, [item for item in fields if item.name not in written.partition_keys], add)
                there = [item for item in fields if item.name in names]
                if piece is None:
                    self._footer_stats(path, file, there, add)
                return int(source.metadata.num_rows)
            if kind == "orc":
                return int(OrcSource(opened, first).rows)
            avro = AvroSource(opened, first)
            for _ in avro.batches(DEFAULT_BATCH):
                pass
            return avro.rows

    def _placed(
        self,
        recorded: dict[str, ColumnStats],
        written: TableSchema,
        add: Callable[[str, str, int], None],
    ) -> None:
        """Compare the partition that a file is recorded in with what is recorded of its partition columns."""
        values = attempted(lambda: partition_values(self.store, self.unit.partition))
        if isinstance(values, BucketlakeError):
            return
        for name, value in zip(self.store.schema.partition_keys, values, strict=True):
            known = recorded.get(name)
            if known is not None and written.has_column([name]):
                own = ColumnStats(value, value, None)
                fault = compare(known, own, written.field(name))
                if fault is not None or (value is None and known.min is not None):
                    add("partition-wrong", f"column {name}: {text_of(known.min)}, not {text_of(value)}", 1)

    def _columns(self, names: set[str], fields: Sequence[DataField], add: Callable[[str, str, int], None]) -> None:
        """Partition columns are the partition's, whatever the files hold: they are not asked for."""
        missing = [item.name for item in fields if item.name not in names]
        if missing:
            add("column-missing", f"no {', '.join(missing[:5])}", len(missing))

    def _footer_stats(
        self,
        path: str,
        file: DataFile,
        fields: Sequence[DataField],
        add: Callable[[str, str, int], None],
    ) -> None:
        """Compare what is recorded with what the footer says."""
        recorded = self._recorded(file)
        named = [item for item in fields if item.name in recorded]
        if not named:
            return
        found = stats_from_parquet_footer(self.store.env.storage, path, named, [FULL] * len(named))
        for item, actual in zip(named, found.stats, strict=True):
            fault = compare(recorded[item.name], replace(actual, null_count=None), item)
            if fault is not None:
                add(fault[0], f"column {item.name}: {fault[1]}", 1)

    def _beside(self, file: DataFile, path: str, written: TableSchema) -> None:
        """Open the indexes of a file, beside it and in its manifest."""
        storage = self.store.env.storage
        names = [name for name in file.extra_files if name.endswith(FILE_INDEX_SUFFIX)]
        places: list[tuple[str, bytes | None]] = [(f"{path.rsplit('/', 1)[0]}/{name}", None) for name in names]
        places += [(f"{path} (embedded)", file.embedded_index)] if file.embedded_index is not None else []
        for name, data in places:
            if name in self.unit.told:
                continue

            def opened(name: str = name, data: bytes | None = data) -> None:
                whole = storage.read(name) if data is None else data
                index = FileIndex(lambda start, n: whole[start : start + n], written.fields, file.row_count, name)
                _ = index.columns

            error = attempted(opened)
            if isinstance(error, BucketlakeError) and not isinstance(error, NotFoundError):
                self.findings.add("file-index-broken", shown(error), self._place(name, file.level))

    # ---- the bucket's indexes

    def _hashes(self) -> object:
        """The bucket's hash index, ascending; None where there is none, or none that can be read."""
        entry = self.unit.hashes
        if entry is None:
            return None
        path = attempted(lambda: self.store.paths.index_path(entry.partition, entry.bucket, entry.file))
        if isinstance(path, BucketlakeError) or path in self.unit.told:
            return None
        found = attempted(lambda: read_hashes(self.store, entry.partition, entry.bucket, entry.file))
        if isinstance(found, BucketlakeError):
            if not isinstance(found, NotFoundError):
                self.findings.add("hash-index-broken", shown(found), self._place(path))
            return None
        return found

    def _vectors(self) -> None:
        files = {file.file_name: file for file in self.unit.files}
        for entry in self.unit.vectors:
            path = attempted(lambda e=entry: self.store.paths.index_path(e.partition, e.bucket, e.file))  # type: ignore[misc]
            if isinstance(path, BucketlakeError) or path in self.unit.told:
                continue
            own = tuple(part for part in entry.file.dv_ranges or () if part.data_file_name in files)
            for part in own:
                alone = replace(entry, file=replace(entry.file, dv_ranges=(part,)))
                found = attempted(lambda e=alone: load_vectors(self.store, [e]))  # type: ignore[misc]
                name = part.data_file_name
                if not isinstance(found, BucketlakeError):
                    vector, file = found[name], files[name]
                    fits = attempted(lambda v=vector, f=file, p=path: deleted_mask(v, f, p))  # type: ignore[misc]
                    found = fits if isinstance(fits, BucketlakeError) else found
                if isinstance(found, BucketlakeError) and not isinstance(found, NotFoundError):
                    self.findings.add("vector-broken", f"of {name}: {shown(found)}", self._place(path))


def stored_fields(written: TableSchema, file: DataFile) -> tuple[DataField, ...]:
    """The columns that a file of a schema has: not the copies of keys, which thin files and others leave out."""
    if written.tracks_rows:
        return held(written, file)
    keys = {item.name for item in written.key_fields} if written.primary_keys else set()
    return tuple(item for item in written.file_fields if item.name not in keys)


def recorded_stats(file: DataFile, written: TableSchema) -> dict[str, ColumnStats]:
    """What a manifest says of a file's columns, of those of the key by both of its statistics together: reads leave
    files out by either. CorruptError where it cannot be read."""
    found, keys = _values_of(file, written), _keys_of(file, written)
    return {**found, **{name: _within(found.get(name), one) for name, one in keys.items()}}


def _values_of(file: DataFile, written: TableSchema) -> dict[str, ColumnStats]:
    names = file.stats_columns
    if names is not None and any(not written.has_column([name]) for name in names):
        return {}
    fields = written.fields if names is None else written.select(names)
    if not fields or not _are_told(file.value_stats):
        return {}
    return stats_of(file, fields)


def _keys_of(file: DataFile, written: TableSchema) -> dict[str, ColumnStats]:
    if not written.primary_keys or not _are_told(file.key_stats):
        return {}
    return stats_of(replace(file, value_stats=file.key_stats), written.select(written.trimmed_primary_keys))


def _are_told(stats: SimpleStats) -> bool:
    return bool(stats.null_counts) or len(stats.min_values) > _NO_COLUMNS


def _within(value: ColumnStats | None, key: ColumnStats) -> ColumnStats:
    """What a column's values lie within if both are true; nulls by the first alone: keys have none."""
    mins = [one.min for one in (value, key) if one is not None and one.min is not None]
    maxs = [one.max for one in (value, key) if one is not None and one.max is not None]
    nulls = None if value is None else value.null_count
    return ColumnStats(max(mins, default=None), min(maxs, default=None), nulls)
