"""Tables without data: stores over a storage, files that exist in metadata only, and what must always hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bucketlake.env.env import Env
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry, SimpleStats
from bucketlake.format.metadata.stats import EMPTY_STATS
from bucketlake.format.row.binary_row import EMPTY_ROW, encode_row, with_arity_header
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.options.options import TableOptions
from bucketlake.paths import TablePaths
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import create_schema
from bucketlake.types.model import BIGINT, INT, STRING, DataField

NOTHING = SimpleStats(b"\0\0\0\0" + bytes(8), b"\0\0\0\0" + bytes(8), ())
ROOT = "memory://wh/db.db/t"
FIELDS = (
    DataField(0, "pt", INT.with_nullable(False)),
    DataField(1, "k", BIGINT.with_nullable(False)),
    DataField(2, "v", STRING),
)


def table_schema(
    *, keyed: bool = True, partitioned: bool = True, bucket: int = 2, options: dict[str, str] | None = None
) -> TableSchema:
    texts = {"bucket": str(bucket), "scan.manifest.parallelism": "1", **(options or {})}
    if not keyed and bucket > 0:
        texts["bucket-key"] = "k"
    parts = ("pt",) if partitioned else ()
    return create_schema(FIELDS, parts, (*parts, "k") if keyed else (), texts)


def make_store(storage: Any, clock: Any, schema: TableSchema | None = None, root: str = ROOT) -> Store:
    schema = schema or table_schema()
    options = TableOptions(schema.options)
    paths = TablePaths(root, schema.partition_fields, schema.options)
    return Store(Env(storage, clock), paths, schema, options)


def create_table(storage: Any, clock: Any, schema: TableSchema | None = None, root: str = ROOT) -> Store:
    store = make_store(storage, clock, schema, root)
    storage.write(store.paths.schema(0), store.schema.encode())
    return store


def partition(value: int | None = 1) -> bytes:
    return with_arity_header(encode_row((value,), [INT]), 1)


NO_PARTITION = with_arity_header(encode_row((), []), 0)


def key(value: int) -> bytes:
    return with_arity_header(encode_row((value,), [BIGINT]), 1)


def data_file(name: str, keys: tuple[int, int] = (0, 9), sequences: tuple[int, int] = (0, 9), **more: Any) -> DataFile:
    fields: dict[str, Any] = {
        "file_name": name,
        "file_size": 1000,
        "row_count": sequences[1] - sequences[0] + 1,
        "min_key": key(keys[0]),
        "max_key": key(keys[1]),
        "key_stats": SimpleStats(key(keys[0]), key(keys[1]), (0,)),
        "value_stats": NOTHING,
        "min_sequence_number": sequences[0],
        "max_sequence_number": sequences[1],
        "schema_id": 0,
        "level": 0,
        "value_stats_cols": (),
        "creation_time": 1_700_000_000_000,
    }
    return DataFile(**{**fields, **more})


def appended(name: str, **more: Any) -> DataFile:
    """A file of an append table."""
    keyless: dict[str, Any] = {"min_key": EMPTY_ROW, "max_key": EMPTY_ROW, "key_stats": EMPTY_STATS}
    return data_file(name, **{**keyless, **more})


def message(*files: DataFile, part: bytes | None = None, bucket: int = 0, total: int = 2, **more: Any) -> CommitMessage:
    return CommitMessage(partition() if part is None else part, bucket, total, new_files=files, **more)


def entry(
    name: str, part: int | None = 1, bucket: int = 0, kind: FileKind = FileKind.ADD, **file: Any
) -> ManifestEntry:
    return ManifestEntry(kind, partition(part), bucket, 2, data_file(name, **file))


def renumber(moved: CommitMessage, first: int) -> CommitMessage:
    """What ops.rebase.numbers does to data files, done to metadata: new names, shifted numbers."""
    delta = first - min(file.min_sequence_number for file in moved.new_files)
    files = tuple(
        replace(
            file,
            file_name=file.file_name + "'",
            min_sequence_number=file.min_sequence_number + delta,
            max_sequence_number=file.max_sequence_number + delta,
        )
        for file in moved.new_files
    )
    return replace(moved, new_files=files)


class Moved:
    """How rows move, done to metadata alone."""

    settles = False

    def __init__(self, relocate: Callable[[Any, Any], Any] = lambda messages, view: tuple(messages)) -> None:
        self.relocate = relocate
        self.renumber = renumber

    def settle(self, messages: Any, view: Any, replaced: Any) -> Any:
        return tuple(messages)


def commit_of(store: Store, user: str = "me") -> Commit:
    return Commit(store, user, moves=Moved())


def live_names(store: Store, snapshot_id: int | None = None) -> set[str]:
    snapshot = store.latest_snapshot() if snapshot_id is None else store.snapshot(snapshot_id)
    return set() if snapshot is None else {e.file.file_name for e in live_entries(store, snapshot)}


def check_table(store: Store) -> None:
    """What holds of every table at every moment: see docs/spec/commit.md#invariants."""
    previous = None
    for snapshot in store.snapshots():
        assert previous is None or snapshot.id == previous.id + 1
        entries = live_entries(store, snapshot)
        assert snapshot.total_record_count == sum(e.file.row_count for e in entries), snapshot
        before = 0 if previous is None else previous.total_record_count
        assert snapshot.total_record_count == before + snapshot.delta_record_count
        check_buckets(store, entries)
        previous = snapshot


def check_buckets(store: Store, entries: list[ManifestEntry]) -> None:
    totals: dict[bytes, set[int]] = {}
    ranges: dict[tuple[bytes, int], list[tuple[int, int]]] = {}
    for entry in entries:
        assert entry.kind == FileKind.ADD
        totals.setdefault(entry.partition, set()).add(entry.total_buckets)
        sequence = (entry.file.min_sequence_number, entry.file.max_sequence_number)
        if entry.file.level == 0:
            ranges.setdefault((entry.partition, entry.bucket), []).append(sequence)
    assert all(len(counts) == 1 for counts in totals.values()), "two bucket numbers in one partition"
    if store.schema.primary_keys:
        for spans in ranges.values():
            spans.sort()
            assert all(a[1] < b[0] for a, b in itertools.pairwise(spans)), f"sequence ranges overlap: {spans}"


def referenced(store: Store) -> set[str]:
    """Paths of all metadata files that snapshots refer to."""
    names: set[str] = set()
    for snapshot in store.snapshots():
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list]
        for name in filter(None, lists):
            names |= {name, *(m.file_name for m in store.manifest_list(name))}
        if snapshot.index_manifest:
            names.add(snapshot.index_manifest)
    return {store.paths.manifest(name) for name in names}


def orphans(store: Store, files: dict[str, bytes]) -> set[str]:
    """Metadata files that no snapshot refers to."""
    folder = f"{store.paths.root}/manifest/"
    return {path for path in files if path.startswith(folder)} - referenced(store)
