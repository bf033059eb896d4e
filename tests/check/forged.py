"""Tables with faults that no writer makes: written by our own format writers, in the place of what was there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketlake
from bucketlake.format.index.index_manifest import HASH, IndexEntry
from bucketlake.format.metadata.manifest import DataFile, FileKind, FileSource, ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import Snapshot, encode_snapshot
from bucketlake.ops.buckets.dynamic import write_hashes
from bucketlake.ops.commit.manifests import (
    WrittenList,
    encoded_indexes,
    encoded_list,
    write_files,
    write_manifests,
)
from bucketlake.ops.rows.roll import Roller, Rolling
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.store import Store, clear_cache
from bucketlake.table import Table
from bucketlake.types.model import arrow_schema

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int64()), ("v", pa.string())])
QUIET = {"write-only": "true", "file.format": "parquet"}
Row = tuple[str, int, str | None]


def write_list(store: Store, manifests: Sequence[ManifestFile]) -> WrittenList:
    """Write a manifest list, empty ones too."""
    written, data = encoded_list(store, manifests)
    write_files(store, [(written.name, data)])
    return written


def write_index_manifest(store: Store, entries: Sequence[IndexEntry]) -> str:
    """Write an index manifest; its name."""
    name, data = encoded_indexes(store, entries)
    write_files(store, [(name, data)])
    return name


def table_of(folder: Path, keys: Sequence[str] = ("p", "k"), parts: Sequence[str] = ("p",), **options: str) -> Table:
    """An empty table."""
    given = {**QUIET, **{name.replace("_", "-"): value for name, value in options.items()}}
    return bucketlake.open(folder).create_table("t", SCHEMA, parts, keys, given)


def rows(*found: Row) -> pa.Table:
    """Rows of p, k and v."""
    columns = list(zip(*found, strict=True)) or [(), (), ()]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def some(low: int, high: int, mark: str = "a", part: str = "x") -> pa.Table:
    """Rows of one partition with the keys from `low` up to `high`."""
    return rows(*[(part, k, f"{mark}{k}") for k in range(low, high)])


def read(table: Table, **options: Any) -> list[Row]:
    """All rows, sorted."""
    clear_cache()
    return sorted(tuple(row.values()) for row in table.refresh().to_arrow(**options).to_pylist())  # type: ignore[misc]


def live(table: Table) -> list[ManifestEntry]:
    """The live files of the newest snapshot."""
    store = table.store
    newest = store.latest_snapshot()
    return [] if newest is None else live_entries(store, newest)


def indexes(table: Table) -> list[IndexEntry]:
    """The index files of the newest snapshot."""
    return list(table.store.index_manifest(table.store.latest_snapshot()))


def newest(table: Table) -> Snapshot:
    """The newest snapshot."""
    found = table.store.latest_snapshot()
    assert found is not None
    return found


def settle(
    table: Table,
    entries: Iterable[ManifestEntry] | None = None,
    index: Iterable[IndexEntry] | None = None,
    listed: Callable[[ManifestFile], ManifestFile] = lambda one: one,
    **snapshot: Any,
) -> None:
    """Let the table's history be one snapshot, the newest one's id, with these files and index files."""
    store, last = table.store, newest(table)
    files = live(table) if entries is None else list(entries)
    named = indexes(table) if index is None else list(index)
    base = write_list(store, [listed(one) for one in write_manifests(store, files)])
    delta = write_list(store, ())
    for number in store.snapshot_ids():
        Path(store.paths.snapshot(number)).unlink()
    count = sum(e.file.row_count if e.kind == FileKind.ADD else -e.file.row_count for e in files)
    made = replace(
        last,
        base_manifest_list=base.name,
        base_manifest_list_size=base.size,
        delta_manifest_list=delta.name,
        delta_manifest_list_size=delta.size,
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        index_manifest=write_index_manifest(store, named) if named else None,
        total_record_count=count,
        delta_record_count=0,
    )
    put(table, replace(made, **snapshot))


def put(table: Table, snapshot: Snapshot) -> None:
    """Write a snapshot's file, whatever was there, and the hints of a history of that one alone."""
    store = table.store
    Path(store.paths.snapshot(snapshot.id)).write_bytes(encode_snapshot(snapshot))
    if store.snapshot_ids() == [snapshot.id]:
        for hint in (store.paths.latest_hint, store.paths.earliest_hint):
            Path(hint).write_text(str(snapshot.id))
    clear_cache()


def with_file(entry: ManifestEntry, **more: Any) -> ManifestEntry:
    """The entry with other things recorded of its file."""
    return replace(entry, file=replace(entry.file, **more))


def path_of(table: Table, entry: ManifestEntry) -> Path:
    """Where an entry's file lies."""
    paths = table.store.paths
    return Path(paths.file_path(paths.bucket_dir(entry.partition, entry.bucket), entry.file))


def key_values(table: Table, given: Sequence[tuple[int, int, int, str]], part: str = "x") -> pa.RecordBatch:
    """Rows as primary-key files hold them, of (key, sequence number, kind, v), in the order given."""
    fields = table.schema.key_value_fields
    values: dict[str, list[Any]] = {
        "_KEY_k": [k for k, _, _, _ in given],
        "_KEY_p": [part for _ in given],
        "_SEQUENCE_NUMBER": [s for _, s, _, _ in given],
        "_VALUE_KIND": [kind for _, _, kind, _ in given],
        "p": [part for _ in given],
        "k": [k for k, _, _, _ in given],
        "v": [v for _, _, _, v in given],
    }
    schema = arrow_schema(fields)
    return pa.record_batch([pa.array(values[item.name], item.type) for item in schema], schema=schema)


def file_of(table: Table, entry: ManifestEntry, batch: pa.RecordBatch, level: int = 0) -> ManifestEntry:
    """A new file of these rows, as they are, in the bucket of an entry."""
    source = FileSource.COMPACT if level else FileSource.APPEND
    roller = Roller(table.store, entry.partition, entry.bucket, Rolling(level=level, source=source))
    roller.write(batch)
    (file,) = roller.close()
    return replace(entry, file=file)


def hash_index(table: Table, entry: ManifestEntry, hashes: Any) -> IndexEntry:
    """A hash index of these hashes for the bucket of an entry."""
    file = write_hashes(table.store, entry.partition, entry.bucket, hashes)
    assert file.index_type == HASH
    return IndexEntry(FileKind.ADD, entry.partition, entry.bucket, file)


def file_named(files: Iterable[DataFile], name: str) -> DataFile:
    """The file of a name."""
    return next(file for file in files if file.file_name == name)
