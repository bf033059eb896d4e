"""What a snapshot's manifests add up to: `$partitions`, `$buckets`, `$manifests`, `$table_indexes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from bucketlake.format.index.index_manifest import DELETION_VECTORS, IndexEntry
from bucketlake.format.metadata.manifest import ManifestEntry, ManifestFile
from bucketlake.format.row.binary_row import decode_columns
from bucketlake.ops.system.files import entries_of
from bucketlake.ops.system.model import (
    FLAG,
    INT,
    LONG,
    MOMENT,
    TEXT,
    Ask,
    SystemTable,
    as_of,
    columns_table,
    each,
    listed,
    longs,
    shown_selection,
    texts,
)
from bucketlake.ops.system.partition_texts import braced, braced_condition, named, named_condition
from bucketlake.ops.system.texts import cast_texts, row_texts
from bucketlake.ops.table.store import Store
from bucketlake.types.model import DataField, DataType, Root, arrow_type
from bucketlake.values import dataclass

PARTITION_FIELDS = columns_table(
    ("partition", TEXT, True),
    ("record_count", LONG, False),
    ("file_size_in_bytes", LONG, False),
    ("file_count", LONG, False),
    ("last_update_time", MOMENT, True),
    ("created_at", MOMENT, True),
    ("created_by", TEXT, True),
    ("updated_by", TEXT, True),
    ("options", TEXT, True),
    ("total_buckets", INT, False),
    ("done", FLAG, False),
    ("deleted_record_count", LONG, True),
)
BUCKET_FIELDS = columns_table(
    ("partition", TEXT, True),
    ("bucket", INT, False),
    ("record_count", LONG, False),
    ("file_size_in_bytes", LONG, False),
    ("file_count", LONG, False),
    ("last_update_time", MOMENT, True),
)
MANIFEST_FIELDS = columns_table(
    ("file_name", TEXT, False),
    ("file_size", LONG, False),
    ("num_added_files", LONG, False),
    ("num_deleted_files", LONG, False),
    ("schema_id", LONG, False),
    ("min_partition_stats", TEXT, True),
    ("max_partition_stats", TEXT, True),
    ("min_row_id", LONG, True),
    ("max_row_id", LONG, True),
)
_VECTOR = DataType(
    Root.ROW,
    fields=(
        DataField(0, "f0", TEXT.with_nullable(False)),
        DataField(1, "f1", INT.with_nullable(False)),
        DataField(2, "f2", INT.with_nullable(False)),
        DataField(3, "_CARDINALITY", LONG),
    ),
)
INDEX_FIELDS = columns_table(
    ("partition", TEXT, True),
    ("bucket", INT, False),
    ("index_type", TEXT, False),
    ("file_name", TEXT, False),
    ("file_size", LONG, False),
    ("row_count", LONG, False),
    ("dv_ranges", DataType(Root.ARRAY, element=_VECTOR), True),
    ("row_range_start", LONG, True),
    ("row_range_end", LONG, True),
    ("index_field_id", INT, True),
    ("index_field_name", TEXT, True),
)


@dataclass(slots=True)
class Sums:
    """What the files of a partition, or of a bucket (None: a whole partition), add up to. `updated`: local epoch
    milliseconds."""

    partition: bytes
    bucket: int | None = None
    rows: int = 0
    size: int = 0
    files: int = 0
    updated: int | None = None
    total_buckets: int = 0

    def add(self, entry: ManifestEntry) -> None:
        """Count a file."""
        file = entry.file
        self.rows += file.row_count
        self.size += file.file_size
        self.files += 1
        self.total_buckets = entry.total_buckets
        if file.creation_time is not None and (self.updated is None or file.creation_time > self.updated):
            self.updated = file.creation_time


def partition_sums(entries: Sequence[ManifestEntry]) -> list[Sums]:
    """The sums of each partition."""
    found: dict[bytes, Sums] = {}
    for entry in entries:
        sums = found.get(entry.partition)
        if sums is None:
            sums = found[entry.partition] = Sums(entry.partition)
        sums.add(entry)
    return list(found.values())


def _bucket_sums(entries: Sequence[ManifestEntry]) -> list[Sums]:
    found: dict[tuple[bytes, int], Sums] = {}
    for entry in entries:
        place = (entry.partition, entry.bucket)
        sums = found.get(place)
        if sums is None:
            sums = found[place] = Sums(*place)
        sums.add(entry)
    return list(found.values())


_SUMS: dict[str, Any] = {
    "record_count": longs(lambda sums: sums.rows),
    "file_size_in_bytes": longs(lambda sums: sums.size),
    "file_count": longs(lambda sums: sums.files),
    "last_update_time": each(pa.timestamp("ms"), lambda sums: sums.updated),
}


def _partitions(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    store = as_of(store)
    entries, _ = entries_of(store, ask, named_condition(store, ask), beside=True)
    sums = partition_sums(entries)
    shown = named(store, [found.partition for found in sums]).to_pylist()
    sums = [found for _, found in sorted(zip(shown, sums, strict=True), key=lambda pair: pair[0])]
    deleted = _deleted(store) if ask.wants("deleted_record_count") else {}
    columns = {
        **_SUMS,
        "partition": lambda found: named(store, [one.partition for one in found]),
        "created_at": lambda found: pa.nulls(len(found), pa.timestamp("ms")),
        "created_by": lambda found: pa.nulls(len(found), pa.string()),
        "updated_by": lambda found: pa.nulls(len(found), pa.string()),
        "options": lambda found: pa.nulls(len(found), pa.string()),
        "total_buckets": each(pa.int32(), lambda one: one.total_buckets),
        "done": each(pa.bool_(), lambda one: False),
        "deleted_record_count": longs(lambda one: deleted.get(one.partition, 0)),
    }
    yield from listed(PARTITION_FIELDS, ask, sums, columns)


def _deleted(store: Store) -> dict[bytes, int | None]:
    """Rows that deletion vectors delete, by partition; None where some vector does not say how many."""
    if not store.options.get("deletion-vectors.enabled"):
        return {}
    found: dict[bytes, int | None] = {}
    for entry in store.index_manifest(shown_selection(store).snapshot):
        if entry.file.index_type == DELETION_VECTORS:
            counts = [place.cardinality for place in entry.file.dv_ranges or ()]
            before = found.get(entry.partition, 0)
            known = before is not None and None not in counts
            found[entry.partition] = (before or 0) + sum(count or 0 for count in counts) if known else None
    return found


def _buckets(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    store = as_of(store)
    entries, _ = entries_of(store, ask, braced_condition(store, ask), pending=True)
    sums = _bucket_sums(entries)
    shown = braced(store, [found.partition for found in sums]).to_pylist()
    ordered = sorted(zip(shown, sums, strict=True), key=lambda pair: (pair[0], pair[1].bucket))
    columns = {
        **_SUMS,
        "partition": lambda found: braced(store, [one.partition for one in found]),
        "bucket": each(pa.int32(), lambda one: one.bucket),
    }
    yield from listed(BUCKET_FIELDS, ask, [found for _, found in ordered], columns)


def _manifests(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    store = as_of(store)
    snapshot = shown_selection(store).snapshot
    if snapshot is None:
        return
    found = [*store.data_manifests(snapshot), *store.changelog_manifests(snapshot)]

    def bound(files: Sequence[ManifestFile], least: bool) -> pa.Array:
        types = [item.type for item in store.schema.partition_fields]
        stats = [file.partition_stats for file in files]
        rows = [one.min_values if least else one.max_values for one in stats]
        columns = decode_columns(rows, types, range(len(types)))
        return row_texts([cast_texts(c, kind) for c, kind in zip(columns, types, strict=True)], len(files))

    columns = {
        "file_name": texts(lambda file: file.file_name),
        "file_size": longs(lambda file: file.file_size),
        "num_added_files": longs(lambda file: file.num_added_files),
        "num_deleted_files": longs(lambda file: file.num_deleted_files),
        "schema_id": longs(lambda file: file.schema_id),
        "min_partition_stats": lambda files: bound(files, True),
        "max_partition_stats": lambda files: bound(files, False),
        "min_row_id": longs(lambda file: file.min_row_id),
        "max_row_id": longs(lambda file: file.max_row_id),
    }
    yield from listed(MANIFEST_FIELDS, ask, found, columns, ("schema_id", "file_name"))


def _table_indexes(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    store = as_of(store)
    found = store.index_manifest(shown_selection(store).snapshot)

    def of_global(key: str) -> Any:
        return lambda entry: (entry.file.global_index or {}).get(key)

    columns = {
        "partition": lambda entries: braced(store, [entry.partition for entry in entries]),
        "bucket": each(pa.int32(), lambda entry: entry.bucket),
        "index_type": texts(lambda entry: entry.file.index_type),
        "file_name": texts(lambda entry: entry.file.file_name),
        "file_size": longs(lambda entry: entry.file.file_size),
        "row_count": longs(lambda entry: entry.file.row_count),
        "dv_ranges": each(arrow_type(INDEX_FIELDS[6].type), _vectors),
        "row_range_start": longs(of_global("_ROW_RANGE_START")),
        "row_range_end": longs(of_global("_ROW_RANGE_END")),
        "index_field_id": each(pa.int32(), of_global("_INDEX_FIELD_ID")),
        "index_field_name": texts(lambda entry: _indexed_names(store, entry)),
    }
    yield from listed(INDEX_FIELDS, ask, found, columns)


def _vectors(entry: IndexEntry) -> list[dict[str, Any]] | None:
    if entry.file.dv_ranges is None:
        return None
    return [
        {"f0": place.data_file_name, "f1": place.offset, "f2": place.length, "_CARDINALITY": place.cardinality}
        for place in entry.file.dv_ranges
    ]


def _indexed_names(store: Store, entry: IndexEntry) -> str | None:
    """The columns of a global index, null where the table has one of them no more."""
    found = entry.file.global_index
    if found is None:
        return None
    names = {item.id: item.name for item in store.schema.fields}
    ids = [found.get("_INDEX_FIELD_ID"), *(found.get("_EXTRA_FIELD_IDS") or ())]
    return ",".join(names[number] for number in ids) if all(number in names for number in ids) else None


PARTITIONS = SystemTable(
    "partitions",
    PARTITION_FIELDS,
    _partitions,
    ("partition",),
    travels=True,
    about={
        "partition": "the partition, `dt=2024-01-01/hour=5`; a condition on it leaves out other partitions' manifests",
        "record_count": "records in its files, deleted ones too",
        "file_size_in_bytes": "bytes of its files",
        "file_count": "number of its files",
        "last_update_time": "when its newest file was made",
        "created_at": "null: a filesystem catalog does not record it",
        "created_by": "null",
        "updated_by": "null",
        "options": "null",
        "total_buckets": "number of buckets, -1 where it is not fixed",
        "done": "false",
        "deleted_record_count": "records that deletion vectors delete; null where some vector does not say how many",
    },
)
BUCKETS = SystemTable(
    "buckets",
    BUCKET_FIELDS,
    _buckets,
    ("partition", "bucket"),
    travels=True,
    about={
        "partition": "the partition, `{2024-01-01, 5}`; a condition on it leaves out other partitions' manifests",
        "bucket": "the bucket, -2 for pending rows of a postpone table; a condition on it leaves out other files",
        "record_count": "records in its files, deleted ones too",
        "file_size_in_bytes": "bytes of its files",
        "file_count": "number of its files",
        "last_update_time": "when its newest file was made",
    },
)
MANIFESTS = SystemTable(
    "manifests",
    MANIFEST_FIELDS,
    _manifests,
    ("file_name",),
    travels=True,
    about={
        "file_name": "name of the manifest",
        "file_size": "its bytes",
        "num_added_files": "files that it adds",
        "num_deleted_files": "files that it removes",
        "schema_id": "schema in force when it was written",
        "min_partition_stats": "smallest values of the partition columns, `{2024-01-01, 5}`",
        "max_partition_stats": "greatest values of the partition columns",
        "min_row_id": "first row id, of tables with row tracking",
        "max_row_id": "last row id, of tables with row tracking",
    },
)
TABLE_INDEXES = SystemTable(
    "table_indexes",
    INDEX_FIELDS,
    _table_indexes,
    ("file_name",),
    travels=True,
    about={
        "partition": "partition of the index file, `{2024-01-01, 5}`",
        "bucket": "its bucket",
        "index_type": "HASH (dynamic buckets), DELETION_VECTORS, or the kind of a global index",
        "file_name": "its name",
        "file_size": "its bytes",
        "row_count": "entries in it",
        "dv_ranges": "deletion vectors: data file, offset, length, rows that it deletes",
        "row_range_start": "first row id of a global index",
        "row_range_end": "last row id of a global index",
        "index_field_id": "column of a global index, by its id",
        "index_field_name": "columns of a global index, by name",
    },
)
