"""Postpone buckets without Spark: names, order and numbers; pending writes, reads over them, compaction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.profile import examples
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage
from tests.sim.tables import data_file

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.ops.buckets import dealt
from bucketlake.ops.buckets.postpone import Amount, buckets_for_compaction, buckets_for_write, in_order
from bucketlake.ops.compact import postpone_compact
from bucketlake.ops.compact.postpone_compact import PendingPlan, place_pending, place_rows, units_pending
from bucketlake.ops.compact.running import inline
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.store import clear_cache
from bucketlake.ops.write.postpone_write import write_counted
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.options.options import TableOptions
from bucketlake.schema.change import SetOption
from bucketlake.table import Table

FIELDS = pa.schema([("pt", pa.int32()), ("k", pa.int64()), ("v", pa.int64())])
PENDING = {"postpone.batch-write-fixed-bucket": "false"}
SEEING = {**PENDING, "postpone.merge-on-read": "true"}
Row = tuple[int, int, int]


def create(folder: Path, keys: Sequence[str] = ("pt", "k"), **options: str) -> Table:
    catalog = bucketlake.open(folder)
    catalog.create_database("db", ignore_if_exists=True)
    texts = {"bucket": "-2", **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}}
    return catalog.create_table("db.t", FIELDS, partition_keys=["pt"], primary_keys=list(keys), options=texts)


def table_of(folder: Path, options: dict[str, str], **more: str) -> Table:
    return create(folder, **{key.replace(".", "__"): value for key, value in options.items()}, **more)


def data(*rows: Row) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    return pa.table({name: list(column) for name, column in zip(FIELDS.names, columns, strict=True)}, FIELDS)


def rows_of(table: Table, **options: Any) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.to_arrow(**options).to_pylist())


def live(table: Table) -> list[tuple[str, int, int, str]]:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    found = live_entries(table.store, snapshot)
    paths = table.store.paths
    return sorted((paths.partition_path(e.partition), e.bucket, e.total_buckets, e.file.file_name) for e in found)


# ---- rules


def test_pending_files_are_ordered_by_snapshot_then_creation_then_writer_then_counter() -> None:
    def file(name: str, created: int) -> Any:
        return data_file(name, creation_time=created)

    a = "data--u-a-s-0-w-11111111-1111-4111-8111-111111111111-"
    b = "data--u-b-s-0-w-22222222-2222-4222-8222-222222222222-"
    files = [file(f"{b}10.avro", 5), file(f"{b}9.avro", 5), file(f"{a}0.avro", 9), file(f"{a}1.avro", 3)]
    order = in_order(files, {f.file_name: 7 for f in files})
    assert [f.file_name for f in order] == [f"{a}1.avro", f"{b}9.avro", f"{b}10.avro", f"{a}0.avro"]
    later = in_order(files, {f"{a}1.avro": 8, f"{a}0.avro": 8, f"{b}9.avro": 7, f"{b}10.avro": 7})
    assert [f.file_name for f in later] == [f"{b}9.avro", f"{b}10.avro", f"{a}1.avro", f"{a}0.avro"]
    expired = in_order(files, {f"{a}1.avro": 8})
    assert [f.file_name for f in expired] == [f"{b}9.avro", f"{b}10.avro", f"{a}0.avro", f"{a}1.avro"]


@pytest.mark.parametrize(
    ("options", "incoming", "pending", "expected"),
    [
        ({}, Amount(10, 100), 0, 1),
        ({}, Amount(), 0, 1),
        ({"postpone.target-size-per-bucket": "100 b"}, Amount(10, 101), 0, 2),
        ({"postpone.target-size-per-bucket": "100 b"}, Amount(10, 100), 10, 2),
        ({"postpone.target-row-num-per-bucket": "4"}, Amount(9, 1 << 40), 0, 3),
        ({"postpone.target-row-num-per-bucket": "4"}, Amount(9, 1 << 40), 4, 4),
        (
            {
                "postpone.target-row-num-per-bucket": "1",
                "postpone.batch-write-fixed-bucket.max-parallelism": "3",
                "postpone.default-bucket-num": "7",
            },
            Amount(9, 9),
            0,
            3,
        ),
    ],
)
def test_bucket_numbers_of_writes(options: dict[str, str], incoming: Amount, pending: int, expected: int) -> None:
    assert buckets_for_write(TableOptions(options), incoming, pending) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 5),
        ({"postpone.default-bucket-num": "2"}, 2),
        ({"postpone.default-bucket-num": "2", "postpone.target-row-num-per-bucket": "3"}, 4),
    ],
)
def test_bucket_numbers_of_compactions(options: dict[str, str], expected: int) -> None:
    assert buckets_for_compaction(TableOptions(options), 10, parallelism=5) == expected


@pytest.mark.parametrize("key", ["postpone.target-row-num-per-bucket", "postpone.target-size-per-bucket"])
def test_targets_must_be_positive(key: str) -> None:
    with pytest.raises(InvalidError, match=f"Option '{key}' must be greater than 0."):
        buckets_for_write(TableOptions({key: "0"}), Amount(1, 1))


# ---- tables


def test_pending_rows_lie_aside_until_compaction(tmp_path: Path) -> None:
    table = table_of(tmp_path, PENDING, postpone__default_bucket_num="2")
    table.write_arrow(data((1, 1, 10), (1, 2, 20), (2, 1, 30)))
    table.write_arrow(data((1, 1, 11)))
    assert rows_of(table) == []
    assert [(path, bucket, total) for path, bucket, total, _ in live(table)] == [
        ("pt=1", -2, -2),
        ("pt=1", -2, -2),
        ("pt=2", -2, -2),
    ]
    names = {path.name for path in Path(table.path).glob("pt=1/bucket-postpone/*")}
    assert names == {name for path, _, _, name in live(table) if path == "pt=1"}
    assert all(name.startswith("data--u-") and "-s-0-w-" in name for name in names)
    snapshot = table.compact()
    assert snapshot is not None and snapshot.commit_kind is CommitKind.COMPACT
    assert rows_of(table) == [(1, 1, 11), (1, 2, 20), (2, 1, 30)]
    assert {(bucket >= 0, total) for _, bucket, total, _ in live(table)} == {(True, 2)}
    assert table.compact() is None


def test_pending_files_hold_rows_as_they_came_without_statistics(tmp_path: Path) -> None:
    table = table_of(tmp_path, PENDING)
    table.write_arrow(data((1, 5, 1), (1, 3, 2), (1, 5, 3)))
    table.write_arrow(data())
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    (entry,) = live_entries(table.store, snapshot)
    path = f"{table.path}/pt=1/bucket-postpone/{entry.file.file_name}"
    assert pq.read_table(path).column("k").to_pylist() == [5, 3, 5]
    assert entry.file.row_count == 3
    assert entry.file.value_stats_cols == ()


def test_batch_writes_choose_a_number_for_each_new_partition(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__target_row_num_per_bucket="10")
    table.write_arrow(data(*((1, k, k) for k in range(25)), (2, 1, 1)))
    assert {(path, total) for path, _, total, _ in live(table)} == {("pt=1", 3), ("pt=2", 1)}
    table.write_arrow(data(*((2, k, k) for k in range(100))).to_reader())
    assert {(path, total) for path, _, total, _ in live(table)} == {("pt=1", 3), ("pt=2", 1)}
    table.write_arrow(data(*((3, k, k) for k in range(100))).to_reader())
    assert {total for path, _, total, _ in live(table) if path == "pt=3"} == {10}
    table.write_arrow(data(*((1, k, -k) for k in range(50))), mode="overwrite")
    assert {total for path, _, total, _ in live(table) if path == "pt=1"} == {3}
    assert len(rows_of(table)) == 250


def test_waiting_rows_count_and_spill(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__target_row_num_per_bucket="100", write_buffer_size="32 kb")
    table.write_arrow(data(*((1, k, k) for k in range(150))), **PENDING)
    batches = (
        batch for k in range(0, 10_000, 500) for batch in data(*((1, k + n, n) for n in range(500))).to_batches()
    )
    table.write_arrow(batches)
    assert {total for _, bucket, total, _ in live(table) if bucket >= 0} == {102}
    assert len(rows_of(table)) == 10_000


def test_overwrites_replace_pending_rows_too(tmp_path: Path) -> None:
    table = table_of(tmp_path, SEEING)
    table.write_arrow(data((1, 1, 10), (2, 1, 20)))
    table.write_arrow(data((1, 2, 11)), mode="overwrite")
    assert rows_of(table) == [(1, 2, 11), (2, 1, 20)]
    table.compact()
    assert rows_of(table, postpone_merge_on_read="false") == [(1, 2, 11), (2, 1, 20)]


@pytest.mark.parametrize("pending", [True, False])
def test_deletes_and_updates_see_what_reads_see(tmp_path: Path, pending: bool) -> None:
    table = table_of(tmp_path, SEEING)
    table.write_arrow(data((1, 1, 10), (1, 2, 20), (1, 3, 30)))
    table.write_arrow(data((2, 1, 40), (2, 2, 50)), postpone_batch_write_fixed_bucket="true")
    mode = {"postpone.batch-write-fixed-bucket": str(not pending).lower()}
    table.delete("k = 1", **mode)
    table.update({"v": 21}, "k = 2", **mode)
    expected = [(1, 2, 21), (1, 3, 30), (2, 2, 21)]
    assert rows_of(table) == expected
    table.compact()
    assert rows_of(table) == expected
    assert rows_of(table, postpone_merge_on_read="false") == expected


def test_deletes_do_not_see_pending_rows_otherwise(tmp_path: Path) -> None:
    table = table_of(tmp_path, PENDING, keys=("k",))
    table.write_arrow(data((1, 1, 10), (1, 2, 20)))
    assert table.delete("k = 1") is None
    table.compact()
    assert rows_of(table) == [(1, 1, 10), (1, 2, 20)]


def test_reads_of_what_was_compacted_see_real_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path, SEEING)
    table.write_arrow(data((1, 1, 10)), postpone_batch_write_fixed_bucket="true")
    table.write_arrow(data((1, 1, 11)))
    assert rows_of(table) == [(1, 1, 11)]
    assert rows_of(table, scan_mode="compacted-full") == [(1, 1, 10)]


@pytest.mark.parametrize("forgotten", ["not", "expired", "cloned", "branched"])
@pytest.mark.parametrize("drift", [1, -1], ids=["slow to commit", "clock goes back"])
def test_what_a_slow_writer_commits_last_is_the_newest(drift: int, forgotten: str) -> None:
    """Whoever reads it, with all snapshots or without: others go by creation time alone."""
    storage, clock = MapStorage(), FakeClock()
    catalog = Catalog(Env(storage, clock), "memory://wh")
    options = {"bucket": "-2", "scan.manifest.parallelism": "1", "target-file-size": "1 b", **SEEING}
    table = catalog.create_table("default.t", FIELDS, ["pt"], primary_keys=["pt", "k"], options=options)
    table.write_arrow(data((1, 0, 0)))
    written = []
    for value in (3, 2, 1) if drift > 0 else (1, 2, 3):
        clock.millis += 60_000 * drift
        task = prepare_write(table.store, None, commit_user=f"u{value}")
        batches = [data((1, 7, value), (1, value, value)), data((1, 8, value))]
        written.append(
            (f"u{value}", write_counted(table.store, [b for each in batches for b in each.to_batches()], task))
        )
    for user, messages in sorted(written):
        clock.millis += 60_000 * max(drift, 0)
        table.commit(messages, user)
    wanted = [(1, 0, 0), (1, 1, 1), (1, 2, 2), (1, 3, 3), (1, 7, 3), (1, 8, 3)]
    if forgotten == "expired":
        table.expire_snapshots(1, 1)
    elif forgotten == "cloned":
        catalog.clone_table(table, "default.c")
        table = catalog.table("default.c")
    elif forgotten == "branched":
        table.create_tag("all")
        table.create_branch("b", "all")
        table = catalog.table("default.t$branch_b")
    clear_cache()
    if drift > 0 or forgotten in ("not", "cloned"):
        assert rows_of(table) == wanted
        times = [(e.file.creation_time, e.file.min_key) for e in live_entries(table.store, table.latest_snapshot())]
        assert len(set(times)) == len(times)


def test_snapshots_expire_after_compactions_only(tmp_path: Path) -> None:
    retained = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"}
    table = table_of(tmp_path, {**PENDING, **retained})
    for value in range(4):
        table.write_arrow(data((1, value, value)))
    assert len(table.snapshots()) == 4
    table.compact()
    assert len(table.snapshots()) == 2
    assert [row[2] for row in rows_of(table)] == [0, 1, 2, 3]


def test_only_the_partitions_named_are_compacted(tmp_path: Path) -> None:
    table = table_of(tmp_path, PENDING)
    table.write_arrow(data((1, 1, 10), (2, 1, 20), (3, 1, 30)))
    table.compact(partitions=[{"pt": 1}])
    assert rows_of(table) == [(1, 1, 10)]
    table.compact(where="pt = 3")
    assert rows_of(table) == [(1, 1, 10), (3, 1, 30)]
    assert [path for path, bucket, _, _ in live(table) if bucket == -2] == ["pt=2"]


def test_what_is_committed_meanwhile_stays_pending(tmp_path: Path) -> None:
    table = table_of(tmp_path, PENDING)
    table.write_arrow(data((1, 1, 10)))

    def meanwhile(store: Any, unit: Any) -> Any:
        messages = place_rows(store, unit)
        table.write_arrow(data((1, 1, 11), (1, 2, 20)))
        return messages

    place_pending(table.store, PendingPlan(work=meanwhile), inline)
    assert rows_of(table) == [(1, 1, 10)]
    assert len([bucket for _, bucket, _, _ in live(table) if bucket == -2]) == 1
    table.compact()
    assert rows_of(table) == [(1, 1, 11), (1, 2, 20)]


def test_rows_written_to_real_buckets_meanwhile_come_before_the_pending_ones(tmp_path: Path) -> None:
    table = table_of(tmp_path, SEEING)
    table.write_arrow(data((1, 1, 10)), postpone_batch_write_fixed_bucket="true")
    table.write_arrow(data((1, 1, 11)))

    def meanwhile(store: Any, unit: Any) -> Any:
        messages = place_rows(store, unit)
        table.write_arrow(data((1, 1, 12), (1, 2, 20)), postpone_batch_write_fixed_bucket="true")
        return messages

    place_pending(table.store, PendingPlan(work=meanwhile), inline)
    assert rows_of(table) == [(1, 1, 11), (1, 2, 20)], "as a read over pending rows has it"
    numbers = [e.file.max_sequence_number for e in live_entries(table.store, table.latest_snapshot())]
    assert len(set(numbers)) == len(numbers)
    table.compact()
    assert rows_of(table) == [(1, 1, 11), (1, 2, 20)]


def test_rows_that_a_rollback_brings_back_do_not_come_after_later_ones(tmp_path: Path) -> None:
    table = table_of(tmp_path, SEEING)
    table.write_arrow(data((1, 1, 10), (1, 2, 20)))
    changes: list[Any] = [lambda: table.delete("k = 1"), lambda: table.rollback_to_as_latest(2)]

    def beaten(store: Any, unit: Any) -> Any:
        messages = place_rows(store, unit)
        if changes:
            changes.pop(0)()
        return messages

    place_pending(table.store, PendingPlan(work=beaten), inline)
    assert rows_of(table) == [(1, 2, 20)], "the delete is pending, the row is not"
    place_pending(table.store, PendingPlan(work=beaten), inline)
    assert rows_of(table) == [(1, 2, 20)] == rows_of(table, postpone_merge_on_read="false")


def test_two_compactions_of_the_same_files_do_not_double_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path, PENDING, merge_engine="aggregation", fields__v__aggregate_function="sum")
    table.write_arrow(data((1, 1, 10), (1, 1, 5)))
    first = True

    def beaten(store: Any, unit: Any) -> Any:
        nonlocal first
        messages = place_rows(store, unit)
        if first:
            first = False
            assert place_pending(table.store) is not None
        return messages

    assert place_pending(table.store, PendingPlan(work=beaten), inline) is None
    assert rows_of(table) == [(1, 1, 15)]
    files = {path.name for path in Path(table.path).rglob("*.parquet") if path.parent.name != "bucket-postpone"}
    assert files == {name for _, _, _, name in live(table)}, "the loser's files are gone"


def test_of_two_numbers_for_one_new_partition_the_first_counts(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__target_row_num_per_bucket="10")
    store = table.store
    parts = []
    for count in (5, 50):
        batch = data(*((1, k, count) for k in range(count)))
        task = prepare_write(store, None, commit_user=f"u{count}")
        parts.append((f"u{count}", write_counted(store, batch.to_batches(), task)))
    table.commit(parts[0][1], parts[0][0])
    table.commit(parts[1][1], parts[1][0])
    assert {total for _, _, total, _ in live(table)} == {1}, "the later write hashes its rows anew"
    assert rows_of(table) == [(1, k, 50) for k in range(50)]


def test_compaction_adopts_the_number_that_another_commit_chose(tmp_path: Path) -> None:
    table = table_of(tmp_path, PENDING, postpone__default_bucket_num="4")
    table.write_arrow(data(*((1, k, k) for k in range(20))))
    rounds = []

    def meanwhile(store: Any, unit: Any) -> Any:
        rounds.append({unit.total_buckets})
        messages = place_rows(store, unit)
        if len(rounds) == 1:
            table.write_arrow(data((1, 99, 99)), postpone_batch_write_fixed_bucket="true")
        return messages

    place_pending(table.store, PendingPlan(work=meanwhile), inline)
    assert rounds == [{4}, {1}]
    assert len(rows_of(table)) == 21


def test_units_cover_all_rows_in_order_for_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postpone_compact, "UNIT_BYTES", 1)
    monkeypatch.setattr(postpone_compact, "FILE_BYTES", 1)
    monkeypatch.setattr(postpone_compact, "MOST_SHARES", 2)
    table = table_of(tmp_path, PENDING, postpone__default_bucket_num="3")
    for version in range(6):
        table.write_arrow(data(*((1, k, version) for k in range(version, 30))))
    units = units_pending(table.store, table.latest_snapshot(), parallelism=6)
    assert len(units) == 6
    assert {unit.share for unit in units} == {(0, 2), (1, 2)}
    postpone_compact.place_pending(table.store, PendingPlan(parallelism=6))
    assert rows_of(table) == [(1, k, min(k, 5)) for k in range(30)]
    table.compact()
    assert rows_of(table) == [(1, k, min(k, 5)) for k in range(30)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"merge-engine": "first-row"}, [(1, 1, 10), (1, 2, 20)]),
        ({"merge-engine": "partial-update"}, [(1, 1, 12), (1, 2, 20)]),
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, [(1, 1, 33), (1, 2, 20)]),
        ({"deletion-vectors.enabled": "true"}, [(1, 1, 12), (1, 2, 20)]),
        ({"changelog-producer": "lookup", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, None),
        ({"file.format": "orc"}, [(1, 1, 12), (1, 2, 20)]),
        ({"file.format": "avro"}, [(1, 1, 12), (1, 2, 20)]),
        ({"data-file.thin-mode": "true"}, [(1, 1, 12), (1, 2, 20)]),
        ({"bucket-function.type": "mod"}, [(1, 1, 12), (1, 2, 20)]),
        ({"sequence.field": "v", "fields.v.ignore-retract": "true"}, [(1, 1, 12), (1, 2, 20)]),
    ],
)
def test_every_engine_and_mode(tmp_path: Path, options: dict[str, str], expected: list[Row] | None) -> None:
    table = table_of(tmp_path, {**SEEING, **options, "postpone.default-bucket-num": "2"})
    expected = expected or [(1, 1, 33), (1, 2, 20)]
    table.write_arrow(data((1, 1, 10)), postpone_batch_write_fixed_bucket="true")
    table.compact()
    table.write_arrow(data((1, 1, 11), (1, 2, 20)))
    table.write_arrow(data((1, 1, 12)))
    assert rows_of(table) == expected
    assert rows_of(table, where="k = 1") == expected[:1]
    assert rows_of(table, where="v > 15") == [row for row in expected if row[2] > 15]
    assert rows_of(table, columns=["v"]) == sorted((row[2],) for row in expected)
    table.compact()
    assert rows_of(table) == expected
    assert rows_of(table, postpone_merge_on_read="false") == expected


@pytest.mark.parametrize(
    ("producer", "changes"),
    [
        ("input", [(0, 1, 10), (0, 1, 11), (3, 1, 11)]),
        ("lookup", [(0, 1, 10), (1, 1, 10), (2, 1, 12), (0, 2, 20)]),
        ("full-compaction", [(0, 1, 10), (1, 1, 10), (2, 1, 12), (0, 2, 20)]),
    ],
)
def test_changelogs_come_with_compaction(tmp_path: Path, producer: str, changes: list[tuple[int, int, int]]) -> None:
    table = table_of(tmp_path, PENDING, changelog_producer=producer)

    def told() -> list[tuple[int, int, int]]:
        found = []
        for snapshot in table.snapshots():
            for part in table.store.manifests(table.store.changelog_manifests(snapshot)):
                for entry in part:
                    folder = table.store.paths.bucket_dir(entry.partition, entry.bucket)
                    rows = pq.read_table(f"{folder}/{entry.file.file_name}").to_pylist()
                    found += [(row["_VALUE_KIND"], row["k"], row["v"]) for row in rows]
        return found

    table.write_arrow(data((1, 1, 10)))
    assert told() == []
    table.compact()
    if producer == "input":
        kinds = data((1, 1, 11), (1, 1, 11)).append_column("_VALUE_KIND", pa.array([0, 3], pa.int8()))
        table.write_arrow(kinds)
    else:
        table.write_arrow(data((1, 1, 11), (1, 2, 20)))
        table.write_arrow(data((1, 1, 12)))
    table.compact()
    assert sorted(told()) == sorted(changes)


def test_many_shares_read_the_same_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path, {**SEEING, "postpone.target-row-num-per-bucket": "100"})
    table.write_arrow(data(*((1, k, 0) for k in range(1000))), postpone_batch_write_fixed_bucket="true")
    table.write_arrow(data(*((1, k, 1) for k in range(500, 1500)), *((2, k, 2) for k in range(10))))
    small = {"source.split.target-size": "1 kb", "write-buffer-size": "2 kb"}
    splits = table.plan(**small).splits
    assert len([split for split in splits if split.bucket == -2]) > 5
    expected = [(1, k, int(k >= 500)) for k in range(1500)] + [(2, k, 2) for k in range(10)]
    assert rows_of(table, **small) == expected
    assert rows_of(table, where="k = 700", **small) == [(1, 700, 1)]


def test_a_table_leaves_and_enters_the_mode(tmp_path: Path) -> None:
    table = create(tmp_path, bucket="2")
    table.write_arrow(data((1, 1, 10), (1, 2, 10)))
    table = table.alter(SetOption("bucket", "-2"), SetOption("postpone.batch-write-fixed-bucket", "false"))
    table.write_arrow(data((1, 1, 11)))
    with pytest.raises(InvalidError, match="pending"):
        table.alter(SetOption("bucket", "2"))
    table.compact()
    assert {total for _, _, total, _ in live(table)} == {2}
    table = table.alter(SetOption("bucket", "2"))
    assert rows_of(table) == [(1, 1, 11), (1, 2, 10)]


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="number of buckets needs to be greater than 0"):
        bucketlake.open(tmp_path).create_database("db")
        bucketlake.open(tmp_path).create_table("db.x", FIELDS, options={"bucket": "-2"})
    with pytest.raises(UnsupportedError, match="sequence.snapshot-ordering"):
        create(tmp_path, sequence__snapshot_ordering="true", write_only="true")
    table = table_of(tmp_path / "named", PENDING, data_file__prefix="a-s-b")
    with pytest.raises(InvalidError, match="data-file.prefix"):
        table.write_arrow(data((1, 1, 1)))
    assert table.latest_snapshot() is None
    table = table_of(tmp_path, PENDING)
    table.write_arrow(data((1, 1, 1)))
    with pytest.raises(InvalidError, match="scan.bucket"):
        table.to_arrow(scan_bucket=0)


# ---- histories


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["pend", "pend", "fix", "delete", "update", "compact", "overwrite", "drop"]),
        st.lists(st.tuples(st.integers(1, 2), st.integers(0, 5), st.integers(0, 99)), min_size=1, max_size=6),
    ),
    max_size=9,
)


@settings(max_examples=examples(8, 480), deadline=None, suppress_health_check=list(HealthCheck))
@given(OPERATIONS, st.sampled_from([2, 100]), st.booleans())
def test_any_history_is_what_a_dict_says(
    tmp_path_factory: pytest.TempPathFactory, history: Any, target: int, many: bool
) -> None:
    """`seen`: with pending rows applied over the real ones. A row written past pending ones is below them. `many`: as
    if there were many rows."""
    options = {**SEEING, "postpone.target-row-num-per-bucket": str(target)}
    if many:
        options |= {"source.split.target-size": "1 kb"}
    with patch.object(dealt, "DEALT_BYTES", 1 if many else 1 << 30), patch.object(postpone_compact, "UNIT_BYTES", 1):
        _follow(table_of(tmp_path_factory.mktemp("wh"), options), history, target)


def _follow(table: Table, history: Any, target: int) -> None:
    real: dict[tuple[int, int], int] = {}
    pending: dict[tuple[int, int], int | None] = {}

    def seen() -> dict[tuple[int, int], int]:
        both = {**real, **pending}
        return {key: value for key, value in both.items() if value is not None}

    for operation, rows in history:
        new = {(pt, k): v for pt, k, v in rows}
        if operation in ("pend", "fix"):
            fixed = operation == "fix"
            table.write_arrow(data(*rows), postpone_batch_write_fixed_bucket=str(fixed).lower())
            (real if fixed else pending).update(new)
        elif operation == "delete":
            table.delete(f"k = {rows[0][1]}")
            pending.update({key: None for key in seen() if key[1] == rows[0][1]})
        elif operation == "update":
            table.update({"v": 1000}, f"k = {rows[0][1]}")
            pending.update({key: 1000 for key in seen() if key[1] == rows[0][1]})
        elif operation == "compact":
            table.compact(partitions=None if target == 2 else [{"pt": 1}])
            done = [key for key in pending if target == 2 or key[0] == 1]
            for key in done:
                value = pending.pop(key)
                real.pop(key, None)
                if value is not None:
                    real[key] = value
        else:
            gone = {rows[0][0]} if operation == "drop" else {pt for pt, _, _ in rows}
            real = {key: value for key, value in real.items() if key[0] not in gone}
            pending = {key: value for key, value in pending.items() if key[0] not in gone}
            if operation == "drop":
                table.drop_partitions([{"pt": rows[0][0]}])
            else:
                table.write_arrow(data(*rows), mode="overwrite")
                pending.update(new)
        if table.latest_snapshot() is not None:
            assert rows_of(table) == sorted((*key, value) for key, value in seen().items()), operation
            hidden = rows_of(table, postpone_merge_on_read="false")
            assert hidden == sorted((*key, value) for key, value in real.items()), operation
