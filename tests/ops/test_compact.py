"""Compaction of buckets: what is due, what is moved, what is looked up, what a lost race and a failure leave behind."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bucketlake
from bucketlake import Catalog, Table
from bucketlake.env.env import Env, SystemClock
from bucketlake.errors import CommitError, ConflictError, InvalidError, NotFoundError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.format.row.binary_row import EMPTY_ROW
from bucketlake.ops.compact import maintain
from bucketlake.ops.compact.bucket import CompactUnit, compact_bucket, units_due
from bucketlake.ops.compact.maintain import Wanted, compact
from bucketlake.ops.compact.running import Done, Inline, Task
from bucketlake.ops.rows import keyed_files, lookup
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.scan.scan import changelog_entries, live_entries
from bucketlake.ops.stream.batches import BatchName
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.change import AddColumn
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.types.model import BIGINT

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64()), pa.field("s", pa.string())])
DV = {"deletion-vectors.enabled": "true"}
LOOKUP = {"changelog-producer": "lookup"}
KINDS = ["+I", "-U", "+U", "-D"]


def create(catalog: Catalog, options: dict[str, str], **more: Any) -> Table:
    arguments = {"primary_keys": ["k"], **more}
    return catalog.create_table("default.t", SCHEMA, options={"bucket": "1", **options}, **arguments)


def put(table: Table, rows: dict[int, int], **options: Any) -> None:
    columns = {"k": list(rows), "v": list(rows.values()), "s": [f"text {k}" for k in rows]}
    table.write_arrow(pa.table(columns, schema=SCHEMA), **options)


def content(table: Table) -> dict[int, int]:
    rows = table.to_arrow().to_pylist()
    found = {row["k"]: row["v"] for row in rows}
    assert len(found) == len(rows)
    return found


def files(table: Table) -> list[DataFile]:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    return [entry.file for entry in live_entries(table.store, snapshot)]


def levels(table: Table) -> list[tuple[int, int]]:
    return sorted((file.level, file.row_count) for file in files(table))


def told(table: Table) -> list[tuple[str, int, int]]:
    """What the newest snapshot's changelog says."""
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    found = []
    for entry in changelog_entries(table.store, snapshot):
        folder = table.store.paths.bucket_dir(entry.partition, entry.bucket)
        for batch in read_key_values(table.store, folder, entry.file):
            found += [(KINDS[row[KIND_FIELD.name]], row["k"], row["v"]) for row in batch.to_pylist()]
    return found


def on_disk(table: Table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("*") if path.is_file()}


def due(table: Table, **options: Any) -> list[CompactUnit]:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    return units_due(table.store, snapshot, **options)


# ---- what is due


def test_nothing_is_due_below_the_trigger_and_everything_in_full(catalog: Catalog) -> None:
    table = create(catalog, {"write-only": "true"})
    for number in range(4):
        put(table, {number: number})
    assert due(table) == []
    put(table, {4: 4})
    (unit,) = due(table)
    assert len(unit.pick.files) == 5
    assert unit.pick.drop_deletes
    table.compact(full=False)
    assert levels(table) == [(5, 5)]
    assert due(table, full=True) == []
    assert table.compact() is None


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation", "partial-update"])
def test_what_tasks_loaded_side_by_side_is_moved_below_the_upserts_that_are_merged(
    catalog: Catalog, engine: str
) -> None:
    table = create(catalog, {"merge-engine": engine, "fields.v.aggregate-function": "last_non_null_value"})
    template = replace(prepare_write(table.store, None), tasks=2)
    halves = range(10_000), range(10_000, 20_000)
    text = [f"{key * 2654435761 % 2**32:x}" for key in range(20_000)]
    shares = [pa.table({"k": keys, "v": keys, "s": text[keys.start : keys.stop]}, schema=SCHEMA) for keys in halves]
    messages = [
        message
        for number, rows in enumerate(shares)
        for message in write_batches(table.store, rows.to_batches(), replace(template, task=number))
    ]
    table.commit(messages, template.commit_user)
    loaded = {file.file_name for file in files(table)}
    for number in range(4):
        assert len(files(table)) == 2 + number, "one load, as if one task had written it"
        put(table, {number: -number, 15_000: number, 30_000 + number: 1})
    assert levels(table) == [(4, 9), (5, 10_000), (5, 10_000)], "0 to 3, 15000, 30000 to 30003"
    assert {file.file_name for file in files(table) if file.level == 5} == loaded
    expected = {key: key for key in range(20_000)} | {number: -number for number in range(4)} | {15_000: 3}
    assert content(table) == expected | {30_000 + number: 1 for number in range(4)}
    assert not table.fsck("rows").findings


def test_units_are_of_the_buckets_and_partitions_asked_for(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("p", pa.string()), *SCHEMA])
    options = {"bucket": "3", "write-only": "true"}
    table = catalog.create_table("default.t", schema, partition_keys=["p"], primary_keys=["p", "k"], options=options)
    for turn in range(2):
        for part in "abc":
            rows = {"p": [part] * 30, "k": list(range(30)), "v": [turn] * 30, "s": [None] * 30}
            table.write_arrow(pa.table(rows, schema=schema))
    everything = due(table, full=True)
    assert len(everything) == 9
    assert [unit.size for unit in everything] == sorted((unit.size for unit in everything), reverse=True)
    one = everything[0]
    assert [(unit.partition, unit.bucket) for unit in due(table, buckets=[(one.partition, one.bucket)], full=True)] == [
        (one.partition, one.bucket)
    ]
    table.compact(partitions=[{"p": "a"}])
    assert len(due(table, full=True)) == 6
    table.compact(where="p > 'b'")
    assert len(due(table, full=True)) == 3
    with pytest.raises(InvalidError, match="Only partition predicate is supported"):
        table.compact(where="k > 1")
    with pytest.raises(InvalidError, match=r"Partition keys \[k\] are invalid"):
        table.compact(partitions=[{"k": 1}])


# ---- moving and rewriting


def test_a_large_file_is_moved_not_rewritten(catalog: Catalog) -> None:
    table = create(catalog, {"write-only": "true", "compaction.small-file-ratio": "0"})
    put(table, {1: 1, 2: 2})
    (before,) = files(table)
    put(table, {7: 7})
    table.compact()
    moved = next(file for file in files(table) if file.file_name == before.file_name)
    assert moved == replace(before, level=5)


def test_vectors_mark_what_a_moved_file_supersedes(catalog: Catalog) -> None:
    table = create(catalog, DV | {"compaction.small-file-ratio": "0", "compaction.size-ratio": "0"})
    put(table, dict.fromkeys(range(1000), 0))
    (base,) = files(table)
    put(table, {5: 1, 6: 1, 2000: 1})
    assert levels(table) == [(4, 3), (5, 1000)]
    (index,) = table.store.index_manifest(table.latest_snapshot())
    (part,) = index.file.dv_ranges or ()
    assert (part.data_file_name, part.cardinality) == (base.file_name, 2)
    table.delete("k in (7, 2000)")
    (index,) = table.store.index_manifest(table.latest_snapshot())
    assert {part.data_file_name: part.cardinality for part in index.file.dv_ranges or ()}[base.file_name] == 3
    assert {k: v for k, v in content(table).items() if v or k in (7, 2000)} == {5: 1, 6: 1}
    table.compact()
    assert table.store.index_manifest(table.latest_snapshot()) == ()
    assert levels(table) == [(5, 999)]


def test_files_of_older_schemas_come_out_in_the_newest(catalog: Catalog) -> None:
    table = create(catalog, LOOKUP)
    put(table, {1: 1, 2: 2})
    table = table.alter(AddColumn("more", BIGINT))
    rows = pa.table({"k": [2, 3], "v": [20, 30], "s": ["x", "y"], "more": [200, 300]})
    table.write_arrow(rows)
    assert told(table) == [("-U", 2, 2), ("+U", 2, 20), ("+I", 3, 30)]
    table.compact()
    found = {row["k"]: row["more"] for row in table.to_arrow().to_pylist()}
    assert found == {1: None, 2: 200, 3: 300}
    assert {file.schema_id for file in files(table)} == {table.schema.id}


# ---- looking up


def at(*values: Any) -> list[Any]:
    return list(values)


KEY_TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), at("", "a", "a\0", "ab", "ü", "z" * 40, "z" * 41)),
    "bytes": (pa.binary(), at(b"", b"\0", b"\x01", b"\xff", b"\xff\xff")),
    "decimal": (pa.decimal128(30, 2), at(Decimal("-1.5"), Decimal("0"), Decimal("99999999999999999999.25"))),
    "double": (pa.float64(), at(-math.inf, -1.0, -0.0, 0.0, 5e-324, math.inf, math.nan)),
    "date": (pa.date32(), at(dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 1, 1))),
    "timestamp": (pa.timestamp("us"), at(dt.datetime(1960, 1, 1), dt.datetime(2024, 5, 5, 1, 2, 3, 4))),
    "boolean": (pa.bool_(), at(False, True)),
    "smallint": (pa.int16(), at(-32768, -1, 0, 7, 32767)),
}


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("kind", KEY_TYPES)
@pytest.mark.parametrize("composite", [False, True])
def test_previous_rows_are_found_for_keys_of_every_type(
    catalog: Catalog, kind: str, format: str, composite: bool
) -> None:
    lookup.clear_cache()
    arrow, values = KEY_TYPES[kind]
    schema = pa.schema([pa.field("a", arrow), pa.field("b", pa.int32()), pa.field("v", pa.int32())])
    keys = ["a", "b"] if composite else ["a"]
    options = {"bucket": "1", "file.format": format, "changelog-producer": "lookup", "compaction.size-ratio": "0"}
    table = catalog.create_table("default.t", schema, primary_keys=keys, options=options)
    many = [value for value in values for _ in range(3)] if composite else values
    numbers = [i % 3 for i in range(len(many))]
    table.write_arrow(
        pa.table(
            [pa.array(many, arrow), pa.array(numbers, pa.int32()), pa.array([0] * len(many), pa.int32())], schema=schema
        )
    )
    picked, second = many[1::2], numbers[1::2]
    table.write_arrow(
        pa.table(
            [pa.array(picked, arrow), pa.array(second, pa.int32()), pa.array([1] * len(picked), pa.int32())],
            schema=schema,
        )
    )
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    assert snapshot.changelog_record_count == 2 * len(picked), "every key of the second write is an update"
    assert sum(row["v"] for row in table.to_arrow().to_pylist()) == len(picked)


def _parts(table: Table, file: DataFile) -> range:
    path = table.store.paths.file_path(table.store.paths.bucket_dir(EMPTY_ROW, 0), file)
    return range(pq.ParquetFile(path).num_row_groups)


def test_only_row_groups_that_meet_the_keys_are_read(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup.clear_cache()
    table = create(catalog, DV | {"target-file-size": "64 kb", "compaction.size-ratio": "0"})
    put(table, dict.fromkeys(range(20_000), 0))
    parts = [part for file in files(table) for part in _parts(table, file)]
    assert len(parts) > 4
    read: list[tuple[str, int]] = []
    rows = keyed_files.KeyedFiles._open

    def counted(self: Any, file: Any, layout: Any, part: int) -> Any:
        read.append((file.file_name, part))
        return rows(self, file, layout, part)

    monkeypatch.setattr(keyed_files.KeyedFiles, "_open", counted)
    put(table, {7: 1, 19_999: 1, 30_000: 1})
    assert len(set(read)) == len(read) == 2
    put(table, {6: 1})
    assert len(read) == 2, "the keys of row groups stay in the cache"
    assert sum(content(table).values()) == 4


def test_changes_that_change_nothing_may_be_left_out(catalog: Catalog) -> None:
    options = {
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "s",
    }
    table = create(catalog, LOOKUP | options)
    put(table, {1: 1, 2: 2})
    table.write_arrow(pa.table({"k": [1, 2], "v": [1, 3], "s": ["other", "other"]}, schema=SCHEMA))
    assert told(table) == [("-U", 2, 2), ("+U", 2, 3)]


def test_overwrites_tell_nothing(catalog: Catalog) -> None:
    for producer in ("lookup", "input"):
        table = catalog.create_table(
            f"default.{producer}", SCHEMA, primary_keys=["k"], options={"bucket": "1", "changelog-producer": producer}
        )
        put(table, {1: 1})
        count = len([name for name in on_disk(table) if name.startswith("changelog-")])
        assert count == 1
        put(table, {2: 2}, mode="overwrite")
        assert content(table) == {2: 2}
        assert all(not snapshot.changelog_record_count for snapshot in table.snapshots()[-2:] if snapshot.id > 2)
        assert len([name for name in on_disk(table) if name.startswith("changelog-")]) == count


# ---- expired rows


@dataclass(frozen=True)
class FixedClock(SystemClock):
    """Time that stands still."""

    seconds: int = 1_700_000_000

    def now_millis(self) -> int:
        return self.seconds * 1000


@pytest.mark.parametrize(
    ("arrow", "value"),
    [
        (pa.int32(), lambda s: s),
        (pa.int64(), lambda s: s),
        (pa.int64(), lambda s: s * 1000 + 999),
        (pa.timestamp("us"), lambda s: dt.datetime(1970, 1, 1) + dt.timedelta(seconds=s)),
    ],
)
def test_expired_rows_go_in_compaction(tmp_path: Path, arrow: pa.DataType, value: Callable[[int], Any]) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("at", arrow)])
    options = {"bucket": "1", "record-level.expire-time": "1 h", "record-level.time-field": "at"}
    now = FixedClock().seconds
    table = bucketlake.open(tmp_path).create_table("default.t", schema, primary_keys=["k"], options=options)
    table = replace(table, store=replace(table.store, env=Env(table.store.env.storage, FixedClock())))
    ages = {1: 3601, 2: 3600, 3: 10, 4: None}
    times = [None if age is None else value(now - age) for age in ages.values()]
    table.write_arrow(pa.table([pa.array(list(ages)), pa.array(times, arrow)], schema=schema))
    keys = [row["k"] for row in table.to_arrow().to_pylist()]
    assert sorted(keys) == [1, 2, 3, 4], "reads do not look"
    table.compact()
    assert sorted(row["k"] for row in table.to_arrow().to_pylist()) == [2, 3, 4]
    assert table.compact() is None
    later = replace(table, store=replace(table.store, env=Env(table.store.env.storage, FixedClock(now + 100))))
    later.compact()
    assert sorted(row["k"] for row in later.to_arrow().to_pylist()) == [3, 4], "statistics say that the file has some"


# ---- races and failures


def race(times: int, act: Callable[[int], None]) -> Callable[[Sequence[Task]], Inline]:
    """A runner that lets another commit come between each time that all units are done, so many times."""
    turns = iter(range(times))

    class Racing(Inline):
        def wait(self, seconds: float | None) -> list[Done] | None:
            found = super().wait(seconds)
            if found is None and (turn := next(turns, None)) is not None:
                act(turn)
            return found

    return Racing


@pytest.mark.parametrize("options", [{}, DV, LOOKUP], ids=["plain", "vectors", "lookup"])
def test_a_compaction_that_loses_is_planned_anew(catalog: Catalog, options: dict[str, str]) -> None:
    table = create(catalog, {"bucket": "1", "write-only": "true", **options})
    put(table, dict.fromkeys(range(20), 0))
    put(table, dict.fromkeys(range(5), 1))
    clean = on_disk(table)

    def other(turn: int) -> None:
        put(table, {100 + turn: turn})
        table.compact()
        put(table, {200 + turn: turn})

    found = compact(table.store, Wanted(), race(2, other))
    assert found is not None
    assert found.commit_kind is CommitKind.COMPACT
    assert content(table) == {**{k: int(k < 5) for k in range(20)}, 100: 0, 101: 1, 200: 0, 201: 1}
    live = {entry.file.file_name for entry in live_entries(table.store, table.latest_snapshot())}
    referred = {
        file.file_name
        for snapshot in table.snapshots()
        for entries in (live_entries(table.store, snapshot), changelog_entries(table.store, snapshot))
        for file in (entry.file for entry in entries)
    }
    left = {name for name in on_disk(table) - clean if name.startswith(("data-", "changelog-"))}
    assert live <= referred
    assert left <= referred, "the files of lost compactions are gone"


def test_giving_up_behind_a_write(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(store: Store, units: Sequence[CompactUnit]) -> list[CommitMessage]:
        raise ConflictError("lost again")

    monkeypatch.setattr(SystemClock, "sleep", lambda clock, seconds: None)  # attempts pause longer and longer
    plain = create(catalog, {"num-sorted-run.compaction-trigger": "2"})
    monkeypatch.setattr(maintain, "compact_bucket", lambda store, unit: never(store, [unit]))
    put(plain, {1: 1})
    with pytest.warns(UserWarning, match="given up"):
        put(plain, {2: 2})
    assert content(plain) == {1: 1, 2: 2}
    hidden = catalog.create_table("default.dv", SCHEMA, primary_keys=["k"], options={"bucket": "1", **DV})
    with pytest.raises(CommitError, match="sys.compact"):
        put(hidden, {1: 1})
    monkeypatch.undo()
    hidden.compact()
    assert content(hidden) == {1: 1}


def test_a_failed_compaction_leaves_no_files(catalog: Catalog) -> None:
    table = create(catalog, LOOKUP | {"write-only": "true"})
    put(table, dict.fromkeys(range(50), 0))
    put(table, dict.fromkeys(range(50), 1))
    (unit,) = due(table, full=True)
    store = table.store
    gone = store.paths.file_path(store.paths.bucket_dir(unit.partition, unit.bucket), unit.files[-1])
    store.env.storage.delete(gone)
    before = on_disk(table)
    with pytest.raises(NotFoundError):
        compact_bucket(store, unit)
    assert on_disk(table) == before
    with pytest.raises(NotFoundError):
        table.compact()
    assert on_disk(table) == before


def stream(table: Table, number: int, keys: Sequence[int]) -> Snapshot | None:
    """A batch of the query `q`, and what is compacted behind it."""
    made = pa.record_batch({"k": list(keys), "v": [number] * len(keys), "s": ["x"] * len(keys)}, schema=SCHEMA)
    task = prepare_write(table.store, table.latest_snapshot(), commit_user="q")
    messages = write_batches(table.store, [made] if keys else [], task)
    snapshot = table.commit(messages, BatchName("q", number))
    return maintain.after_write(table.store, snapshot, messages) if snapshot is not None else None


def test_every_nth_batch_of_a_stream_compacts_in_full_what_the_stream_wrote_since(catalog: Catalog) -> None:
    table = create(catalog, {"full-compaction.delta-commits": "2", "bucket": "8"})
    assert stream(table, 0, range(100)) is None, "the first batch is no second one"
    assert stream(table, 1, [1]) is not None
    assert {level for level, _ in levels(table)} == {5}, "other buckets than the second batch's, too"
    assert stream(table, 2, [1, 2, 3, 4]) is None
    assert stream(table, 3, []) is None, "no rows, no snapshot"
    put(table, {50: 9}, **{"write-only": "true"})
    assert stream(table, 4, [5, 6]) is None
    assert stream(table, 5, [7]) is not None
    others = [file for file in files(table) if file.level == 0]
    assert len(others) <= 1, "of another writer's at most, where its bucket was not written by the stream"
    assert content(table) == dict.fromkeys(range(100), 0) | dict.fromkeys([1, 2, 3, 4], 2) | {50: 9, 5: 4, 6: 4, 7: 5}


def test_every_writer_with_delta_commits_compacts_in_full(catalog: Catalog) -> None:
    table = create(catalog, {"full-compaction.delta-commits": "1"})
    for number in range(3):
        put(table, {1: number, number + 10: number})
        assert [level for level, _ in levels(table)] == [5]
    assert content(table) == {1: 2, 10: 0, 11: 1, 12: 2}
