"""The files of a snapshot: `$files`, `$file_key_ranges`, `$file_indexes`.

Conditions on partition, bucket and level leave out manifests and files before any text is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.format.data.file_format import format_of
from bucketlake.format.file_index.container import FileIndex
from bucketlake.format.metadata.manifest import FileSource, ManifestEntry
from bucketlake.format.row.binary_row import decode_columns
from bucketlake.format.row.layout import ARITY_BYTES
from bucketlake.lazy import pc
from bucketlake.ops.scan.fallback import is_alone, shown_branches
from bucketlake.ops.scan.scan import EntryFilter, live_entries
from bucketlake.ops.system.model import (
    BATCH,
    FLAG,
    INT,
    LONG,
    MOMENT,
    TEXT,
    Ask,
    Column,
    SystemTable,
    as_of,
    columns_table,
    each,
    listed,
    longs,
    shown_selection,
    texts,
)
from bucketlake.ops.system.partition_texts import braced, braced_condition
from bucketlake.ops.system.texts import internal_texts, list_texts, map_texts
from bucketlake.ops.table.store import Store
from bucketlake.paths import FILE_INDEX_SUFFIX
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.evolution import cast_array
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.types.model import DataField, DataType, Root, arrow_type, refuse_type
from bucketlake.values import dataclass

Entries = Sequence[ManifestEntry]
CHEAP = ("bucket", "level", "schema_id", "record_count", "file_size_in_bytes")

_KEY_RANGE = (
    ("partition", TEXT, True),
    ("bucket", INT, False),
    ("file_path", TEXT, False),
    ("file_format", TEXT, False),
    ("schema_id", LONG, False),
    ("level", INT, False),
    ("record_count", LONG, False),
    ("file_size_in_bytes", LONG, False),
    ("min_key", TEXT, True),
    ("max_key", TEXT, True),
)
FILE_FIELDS = columns_table(
    *_KEY_RANGE,
    ("null_value_counts", TEXT, False),
    ("min_value_stats", TEXT, False),
    ("max_value_stats", TEXT, False),
    ("min_sequence_number", LONG, True),
    ("max_sequence_number", LONG, True),
    ("creation_time", MOMENT, True),
    ("deleteRowCount", LONG, True),
    ("file_source", TEXT, True),
    ("first_row_id", LONG, True),
    ("write_cols", DataType(Root.ARRAY, element=TEXT), True),
)
KEY_RANGE_FIELDS = columns_table(*_KEY_RANGE, ("first_row_id", LONG, True))
FILE_INDEX_FIELDS = columns_table(
    ("partition", TEXT, True),
    ("bucket", INT, False),
    ("file_path", TEXT, False),
    ("file_size_in_bytes", LONG, False),
    ("record_count", LONG, False),
    ("schema_id", LONG, False),
    ("column_name", TEXT, False),
    ("index_type", TEXT, False),
    ("storage_type", TEXT, False),
    ("index_file_path", TEXT, True),
    ("index_size_in_bytes", LONG, False),
    ("index_container_size_in_bytes", LONG, False),
    ("is_empty", FLAG, False),
)


def entries_of(
    store: Store, ask: Ask, partition: Predicate | None, *, pending: bool = False, beside: bool = False
) -> tuple[list[ManifestEntry], bool]:
    """The live files of the snapshot shown, as far as conditions on partition, bucket and level let them; whether there
    is a snapshot. `pending`: those too that wait in the postpone bucket; `beside`: of the partitions too that are read
    from another branch."""
    selection = shown_selection(store)
    if beside and not is_alone(store):
        shown = shown_branches(store, selection)
        only = [(place, one, EntryFilter(partition=partition, partitions=some)) for place, one, some in shown]
        return [entry for place, one, wanted in only for entry in live_entries(place, one, wanted)], bool(shown)
    snapshot = selection.snapshot
    if snapshot is None:
        return [], False
    buckets, levels = ask.pinned("bucket"), ask.pinned("level")
    wanted = EntryFilter(
        partition=partition,
        buckets=None if buckets is None else frozenset(buckets),
        min_bucket=0 if store.schema.bucket_mode is BucketMode.POSTPONE and not pending else None,
        level=levels[0] if levels is not None and len(levels) == 1 else None,
    )
    return live_entries(store, snapshot, wanted), True


# ---------------------------------------------------------------------------------------------- columns


def place_columns(store: Store) -> dict[str, Column[ManifestEntry]]:
    """Where files lie and how large they are: the columns that several tables have."""
    folders: dict[tuple[bytes, int], str] = {}

    def path(entry: ManifestEntry) -> str:
        if entry.file.external_path is not None:
            return entry.file.external_path
        place = (entry.partition, entry.bucket)
        if place not in folders:
            folders[place] = store.paths.bucket_dir(*place)
        return f"{folders[place]}/{entry.file.file_name}"

    return {
        "partition": lambda entries: braced(store, [entry.partition for entry in entries]),
        "bucket": each(pa.int32(), lambda entry: entry.bucket),
        "file_path": texts(path),
        "schema_id": longs(lambda entry: entry.file.schema_id),
        "record_count": longs(lambda entry: entry.file.row_count),
        "file_size_in_bytes": longs(lambda entry: entry.file.file_size),
    }


def _format(entry: ManifestEntry) -> str:
    try:
        return format_of(entry.file.file_name)
    except CorruptError:
        return entry.file.file_name.rsplit(".", 1)[-1]


def _columns(store: Store) -> dict[str, Column[ManifestEntry]]:
    return {
        **place_columns(store),
        "file_format": texts(_format),
        "level": each(pa.int32(), lambda entry: entry.file.level),
        "min_key": lambda entries: _keys(store, entries, lambda entry: entry.file.min_key),
        "max_key": lambda entries: _keys(store, entries, lambda entry: entry.file.max_key),
        "null_value_counts": lambda entries: _null_counts(store, entries),
        "min_value_stats": lambda entries: _bounds(store, entries, lambda entry: entry.file.value_stats.min_values),
        "max_value_stats": lambda entries: _bounds(store, entries, lambda entry: entry.file.value_stats.max_values),
        "min_sequence_number": longs(lambda entry: entry.file.min_sequence_number),
        "max_sequence_number": longs(lambda entry: entry.file.max_sequence_number),
        "creation_time": each(pa.timestamp("ms"), lambda entry: entry.file.creation_time),
        "deleteRowCount": longs(lambda entry: entry.file.delete_row_count),
        "file_source": texts(lambda entry: _source(entry.file.file_source)),
        "first_row_id": longs(lambda entry: entry.file.first_row_id),
        "write_cols": each(pa.list_(pa.string()), lambda entry: entry.file.write_cols),
    }


def _source(source: FileSource | None) -> str | None:
    return None if source is None else source.name


# ---------------------------------------------------------------------------------------------- keys and statistics


@dataclass(frozen=True, slots=True)
class _Group:
    """Files whose statistics have one layout, by their places. `stored`: the fields of that layout; `held`: the ids of
    the columns that the files have."""

    schema: TableSchema
    stored: tuple[DataField, ...]
    held: frozenset[int]
    places: list[int]


def _groups(store: Store, entries: Entries) -> list[_Group]:
    found: dict[tuple[int, Any, Any], list[int]] = {}
    for place, entry in enumerate(entries):
        file = entry.file
        found.setdefault((file.schema_id, file.stats_columns, file.write_cols), []).append(place)
    groups = []
    for (schema_id, known, written), places in found.items():
        schema = store.schema_of(schema_id)
        held = frozenset(item.id for item in schema.fields if written is None or item.name in written)
        groups.append(_Group(schema, schema.stats_fields(known), held, places))
    return groups


def _in_place(parts: Sequence[tuple[list[int], pa.Array]], rows: int) -> pa.Array:
    """Arrays of groups as one, each value at its place."""
    if len(parts) == 1:
        return parts[0][1]
    order = [0] * rows
    start = 0
    for places, _ in parts:
        for number, place in enumerate(places, start):
            order[place] = number
        start += len(places)
    return pa.concat_arrays([texts for _, texts in parts]).take(pa.array(order, pa.int64()))


def _keys(store: Store, entries: Entries, row: Callable[[ManifestEntry], bytes]) -> pa.Array:
    """`[1, a]`; null for files without a key."""
    parts = []
    for group in _by_bounds(store, entries):
        rows = [row(entries[place]) for place in group.places]
        keys = group.stored or group.schema.fields
        columns = decode_columns(rows, [item.type for item in keys], range(len(keys)))
        texts = [internal_texts(column, item.type) for column, item in zip(columns, keys, strict=True)]
        known = pa.array([int.from_bytes(row[:ARITY_BYTES], "big") > 0 for row in rows])
        shown = list_texts(texts, len(rows))
        parts.append((group.places, pc.if_else(known, shown, pa.scalar(None, pa.string()))))
    return _in_place(parts, len(entries))


def _by_bounds(store: Store, entries: Entries) -> list[_Group]:
    """The files by what their first and last keys are made of."""
    found: dict[tuple[int, bool], list[int]] = {}
    for place, entry in enumerate(entries):
        found.setdefault((entry.file.schema_id, entry.file.level > 0), []).append(place)
    groups = []
    for (number, above), places in found.items():
        schema = store.schema_of(number)
        groups.append(_Group(schema, schema.bound_fields(int(above)), frozenset(), places))
    return groups


def _null_counts(store: Store, entries: Entries) -> pa.Array:
    """`{a=0, b=1}`, by the names of the table's columns: all rows, for columns that the files lack."""
    parts = []
    for group in _groups(store, entries):
        files = [entries[place].file for place in group.places]
        places = {item.id: place for place, item in enumerate(group.stored)}
        columns = {}
        for item in store.schema.fields:
            if item.id in places:
                at = places[item.id]
                counts = [_at(file.value_stats.null_counts, at) for file in files]
            else:
                counts = [None if item.id in group.held else file.row_count for file in files]
            columns[item.name] = pa.array(counts, pa.int64()).cast(pa.string())
        parts.append((group.places, map_texts(columns, len(files))))
    return _in_place(parts, len(entries))


def _at(counts: tuple[int | None, ...] | None, place: int) -> int | None:
    return counts[place] if counts is not None and place < len(counts) else None


def _bounds(store: Store, entries: Entries, row: Callable[[ManifestEntry], bytes]) -> pa.Array:
    """`{a=1, b=x}`, by the names of the table's columns."""
    parts = []
    for group in _groups(store, entries):
        rows = [row(entries[place]) for place in group.places]
        places = {item.id: place for place, item in enumerate(group.stored)}
        wanted = [item for item in store.schema.fields if item.id in places and _bounded(group.stored[places[item.id]])]
        stored = [item.type for item in group.stored]
        found = decode_columns(rows, stored, [places[item.id] for item in wanted])
        columns = {item.name: pa.nulls(len(rows), pa.string()) for item in store.schema.fields}
        for item, values in zip(wanted, found, strict=True):
            columns[item.name] = internal_texts(_evolved(values, stored[places[item.id]], item.type), item.type)
        parts.append((group.places, map_texts(columns, len(rows))))
    return _in_place(parts, len(entries))


def _bounded(item: DataField) -> bool:
    return item.type.root not in (Root.ARRAY, Root.MAP, Root.ROW, Root.MULTISET, Root.VARIANT, Root.BLOB, Root.VECTOR)


def _evolved(values: pa.Array, stored: DataType, wanted: DataType) -> pa.Array:
    """A bound as the table's type has it; null where it has no value there."""
    if stored.with_nullable(True) == wanted.with_nullable(True):
        return values
    refuse_type(wanted)
    try:
        return cast_array(values, stored, wanted)
    except pa.ArrowException:
        return pa.nulls(len(values), arrow_type(wanted))


# ---------------------------------------------------------------------------------------------- the tables


def _files(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    store = as_of(store)
    entries, _ = entries_of(store, ask, braced_condition(store, ask))
    yield from listed(FILE_FIELDS, ask, entries, _columns(store), CHEAP)


def _key_ranges(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    store = as_of(store)
    entries, _ = entries_of(store, ask, braced_condition(store, ask))
    yield from listed(KEY_RANGE_FIELDS, ask, entries, _columns(store), CHEAP)


@dataclass(frozen=True, slots=True)
class _Index:
    """One index in or beside a data file. `path`: where it lies beside; `container`: bytes of all of them."""

    entry: ManifestEntry
    column: str
    kind: str
    path: str | None
    start: int
    length: int
    container: int


def _file_indexes(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    store = as_of(store)
    entries, _ = entries_of(store, ask, braced_condition(store, ask))
    places = place_columns(store)
    columns: dict[str, Column[_Index]] = {
        **{name: _of_entry(column) for name, column in places.items()},
        "column_name": texts(lambda index: index.column),
        "index_type": texts(lambda index: index.kind),
        "storage_type": texts(lambda index: "EMBEDDED" if index.path is None else "FILE"),
        "index_file_path": texts(lambda index: index.path),
        "index_size_in_bytes": longs(lambda index: max(index.length, 0)),
        "index_container_size_in_bytes": longs(lambda index: index.container),
        "is_empty": each(pa.bool_(), lambda index: index.start < 0),
    }
    for start in range(0, len(entries), BATCH):
        found = [index for entry in entries[start : start + BATCH] for index in _indexes(store, entry)]
        yield from listed(FILE_INDEX_FIELDS, ask, found, columns, CHEAP)


def _of_entry(column: Column[ManifestEntry]) -> Column[_Index]:
    return lambda indexes: column([index.entry for index in indexes])


def _indexes(store: Store, entry: ManifestEntry) -> Iterator[_Index]:
    """The indexes of one data file, by their heads alone."""
    data = entry.file.embedded_index
    beside = [name for name in entry.file.extra_files or () if name.endswith(FILE_INDEX_SUFFIX)]
    if data is None and not beside:
        return
    if data is None and len(beside) > 1:
        raise CorruptError("a data file has more than one index", file=entry.file.file_name, indexes=beside)
    path = None
    storage = store.env.storage
    if data is None:
        path = store.paths.extra_path(store.paths.bucket_dir(entry.partition, entry.bucket), entry.file, beside[0])
        info = storage.info(path)
        size = info.size if info is not None else 0
    else:
        size = len(data)

    def read(start: int, length: int) -> bytes:
        return storage.read(path, start, length) if data is None and path else (data or b"")[start : start + length]

    fields = store.schema_of(entry.file.schema_id).fields
    found = FileIndex(read, fields, entry.file.row_count, path or "embedded index")
    for column, kinds in found.places.items():
        for kind, (start, length) in kinds.items():
            yield _Index(entry, column, kind, path, start, length, size)


_ABOUT: Mapping[str, str] = {
    "partition": "partition of the file, `{2024-01-01, 5}`; a condition on it leaves out other partitions' manifests",
    "bucket": "its bucket; a condition on it leaves out other buckets' files",
    "file_path": "where it lies",
    "file_format": "parquet, orc or avro",
    "schema_id": "schema that it was written with",
    "level": "its level; 0 for append tables",
    "record_count": "records in it, deleted ones too",
    "file_size_in_bytes": "its size",
    "min_key": "smallest key, `[1, a]`; null without a primary key",
    "max_key": "greatest key",
    "null_value_counts": "nulls by column, `{a=0, b=2}`",
    "min_value_stats": "smallest values by column; dates are days since 1970, bytes hexadecimal",
    "max_value_stats": "greatest values by column",
    "min_sequence_number": "smallest sequence number",
    "max_sequence_number": "greatest sequence number",
    "creation_time": "when it was made",
    "deleteRowCount": "records in it that delete",
    "file_source": "APPEND or COMPACT",
    "first_row_id": "first row id, of tables with row tracking",
    "write_cols": "columns that it holds, of tables with data evolution",
    "column_name": "column that is indexed, `m[key]` for a key of a map",
    "index_type": "bitmap, bloom-filter, bsi, range-bitmap",
    "storage_type": "EMBEDDED in the manifest, or a FILE beside the data file",
    "index_file_path": "where the index lies, null if it is embedded",
    "index_size_in_bytes": "bytes of this index",
    "index_container_size_in_bytes": "bytes of all indexes of the file",
    "is_empty": "whether the column holds nulls only",
}
FILES = SystemTable("files", FILE_FIELDS, _files, ("file_path",), travels=True, about=_ABOUT)
KEY_RANGES = SystemTable("file_key_ranges", KEY_RANGE_FIELDS, _key_ranges, ("file_path",), travels=True, about=_ABOUT)
FILE_INDEXES = SystemTable(
    "file_indexes",
    FILE_INDEX_FIELDS,
    _file_indexes,
    ("file_path", "column_name", "index_type"),
    travels=True,
    about=_ABOUT,
)
