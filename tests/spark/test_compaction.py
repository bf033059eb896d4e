"""Compaction through Spark: as tasks and in the driver, after writes, and what a failing task leaves."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.profile import later

import bucketlake
from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.ops.compact.append_compact import AppendUnit
from bucketlake.ops.progress import Progress
from bucketlake.spark.cluster import pack
from bucketlake.spark.maintain import jobs

pytestmark = pytest.mark.spark

Row = tuple[object, ...]


def rows(lake: bucketlake.Lake) -> list[Row]:
    return sorted((tuple(row) for row in lake.sql("SELECT * FROM db.t").collect()), key=repr)


def upserts(lake: bucketlake.Lake, options: str) -> None:
    lake.sql(f"CREATE TABLE db.t (id BIGINT, v BIGINT, s STRING) TBLPROPERTIES ('primary-key' = 'id'{options})")
    for turn in range(3):
        lake.sql(f"INSERT INTO db.t SELECT id, id + {turn}, concat('s', id) FROM range({turn * 500}, 2000)")


def data_files(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "warehouse" / "db.db" / "t").rglob("data-*")}


@pytest.mark.parametrize("driver_bytes", later([0, 1 << 30], 1), ids=["tasks", "driver"])
def test_full_compaction(lake: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch, driver_bytes: int) -> None:
    monkeypatch.setattr(jobs, "DRIVER_BYTES", driver_bytes)
    upserts(lake, ", 'bucket' = '4', 'write-only' = 'true'")
    before = rows(lake)
    table = lake.table("db.t")
    assert len(table.files()) >= 12
    snapshot = table.compact()
    assert snapshot is not None and snapshot.commit_kind.value == "COMPACT"
    assert rows(lake) == before
    files = table.files()
    assert len(files) == 4 and len({f.file.level for f in files}) == 1 and sum(f.file.row_count for f in files) == 2000
    assert table.compact() is None


@pytest.mark.parametrize("driver_bytes", later([0, 1 << 30], 1), ids=["tasks", "driver"])
def test_append_compaction(lake: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch, driver_bytes: int) -> None:
    monkeypatch.setattr(jobs, "DRIVER_BYTES", driver_bytes)
    lake.sql("CREATE TABLE db.t (id BIGINT, pt INT) PARTITIONED BY (pt) TBLPROPERTIES ('bucket' = '-1')")
    for turn in range(5):
        lake.sql(f"INSERT INTO db.t VALUES ({turn}, 1), ({turn}, 2)")
    before = rows(lake)
    table = lake.table("db.t")
    assert table.compact(partitions=[{"pt": 1}]) is not None
    assert table.compact(where="pt = 2") is not None
    assert len(table.files()) == 2
    assert rows(lake) == before


def test_writes_compact_what_they_made_due(lake: bucketlake.Lake) -> None:
    upserts(lake, ", 'bucket' = '1', 'num-sorted-run.compaction-trigger' = '2'")
    table = lake.table("db.t")
    kinds = [snapshot.commit_kind.value for snapshot in table.snapshots()]
    assert kinds.count("APPEND") == 3 and "COMPACT" in kinds
    assert rows(lake) == sorted(((i, i + min(i // 500, 2), f"s{i}") for i in range(2000)), key=repr)
    lake.sql("DELETE FROM db.t WHERE id >= 10")
    assert len(rows(lake)) == 10


def test_bucketed_append_writes_compact_too(lake: bucketlake.Lake) -> None:
    lake.sql("CREATE TABLE db.t (id BIGINT) TBLPROPERTIES ('bucket' = '1', 'bucket-key' = 'id')")
    for turn in range(5):
        lake.sql(f"INSERT INTO db.t VALUES ({turn})")
    assert [row[0] for row in rows(lake)] == [0, 1, 2, 3, 4]
    assert len(lake.table("db.t").files()) == 1


@pytest.mark.parametrize("driver_bytes", later([1 << 30, 0], 1), ids=["driver", "tasks"])
def test_a_failing_unit_keeps_what_is_finished_and_leaves_no_file(
    lake: bucketlake.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver_bytes: int
) -> None:
    monkeypatch.setattr(jobs, "DRIVER_BYTES", driver_bytes)
    upserts(lake, ", 'bucket' = '4', 'write-only' = 'true'")
    table = lake.table("db.t")
    gone = table.files()[0]
    Path(gone.path).unlink()
    with pytest.raises(NotFoundError, match=gone.file.file_name):
        table.compact()
    live = {file.file.file_name for snapshot in table.snapshots() for file in table.files(scan_snapshot_id=snapshot.id)}
    assert data_files(tmp_path) == live - {gone.file.file_name}
    assert sum(file.bucket == gone.bucket for file in table.files()) == 3


def test_tables_together_and_what_ctrl_c_keeps(lake: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of two tables by the same Spark jobs, a Spark job and a commit each; then one that is interrupted."""
    monkeypatch.setattr(jobs, "DRIVER_BYTES", 0)
    monkeypatch.setattr(jobs, "TASK_BYTES", 1)
    upserts(lake, ", 'bucket' = '8', 'write-only' = 'true', 'compaction.commit-size' = '1 b'")
    lake.sql("CREATE TABLE db.log (id BIGINT, pt INT) PARTITIONED BY (pt) TBLPROPERTIES ('bucket' = '-1')")
    for turn in range(5):
        lake.sql(f"INSERT INTO db.log VALUES ({turn}, 1), ({turn}, 2)")
    before = rows(lake)
    table, log = lake.table("db.t"), lake.table("db.log")

    def stop(progress: Progress) -> None:
        if progress.units:
            raise KeyboardInterrupt

    newest = table.latest_snapshot()
    with pytest.raises(KeyboardInterrupt):
        table.compact(on_progress=stop)
    assert table.latest_snapshot() != newest, "what was finished is committed"
    buckets = Counter(file.bucket for file in table.files())
    assert 1 <= sum(count == 1 for count in buckets.values()) <= 8
    assert rows(lake) == before
    call = (
        "CALL sys.compact_database(including_databases => 'db', including_tables => '.*[.](t|log)', mode => 'combined')"
    )
    assert lake.sql(call).collect()[0][0] == "Compact database finished. Success: 2, Failed: 0"
    assert len(table.files()) == 8 and len(log.files()) == 2
    assert rows(lake) == before


def test_a_lake_maintains_itself(classic: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "DRIVER_BYTES", 0)
    upserts(classic, ", 'bucket' = '2', 'write-only' = 'true'")
    before = rows(classic)
    rules = [{"action": "compact", "full": True, "tables": "db[.]t"}, {"action": "expire_snapshots"}]
    events = classic.maintain(rules, once=True)
    assert [(event.kind, event.action) for event in events if event.kind == "did"] == [("did", "compact")]
    assert rows(classic) == before and len(classic.table("db.t").files()) == 2


def test_buckets_of_the_procedure(classic: bucketlake.Lake) -> None:
    upserts(classic, ", 'bucket' = '4', 'write-only' = 'true'")
    classic.sql("CALL sys.compact(table => 'db.t', compact_strategy => 'full', buckets => '0-1')")
    files = classic.table("db.t").files()
    assert [sum(file.bucket == bucket for file in files) for bucket in range(4)] == [1, 1, 3, 3]
    for bad, message in (("9", "out of range"), ("x", "Invalid integer or range")):
        with pytest.raises(InvalidError, match=message):
            classic.sql(f"CALL sys.compact(table => 'db.t', buckets => '{bad}')")
    classic.sql("CREATE TABLE db.d (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-1')")
    with pytest.raises(InvalidError, match="Specifying buckets is only supported for fixed-bucket tables"):
        classic.sql("CALL sys.compact(table => 'db.d', buckets => '0')")


def test_the_statements_of_an_order_table(lake: bucketlake.Lake) -> None:
    lake.sql("CREATE TABLE db.t (order_id BIGINT, PRIMARY KEY (order_id) NOT ENFORCED) WITH ('bucket' = '2')")
    lake.sql("SET 'execution.runtime-mode' = 'batch'")
    for values in ("(1)", "(2), (3)", "(4), (5), (6), (7)"):
        lake.sql(f"INSERT INTO db.t VALUES {values}")
    lake.sql("DELETE FROM db.t WHERE order_id IN (2, 3)")
    assert [row[0] for row in rows(lake)] == [1, 4, 5, 6, 7]
    lake.sql("CALL sys.compact('db.t', '', '', '', '')")
    assert [row[0] for row in rows(lake)] == [1, 4, 5, 6, 7]
    per_bucket = [f.bucket for f in lake.table("db.t").files()]
    assert len(per_bucket) == len(set(per_bucket))


def test_units_are_packed_by_bytes() -> None:
    class Sized(AppendUnit):
        """A unit of a given size."""

        @property
        def size(self) -> int:
            return self.bucket

    units = [Sized(b"", size, 1, ()) for size in (7, 5, 4, 3, 1)]
    groups = pack(units, 2)
    assert sorted(sum(unit.size for unit in group) for group in groups) == [10, 10]
    assert len(pack(units, 100)) == 5 and pack([], 3) == [[]]


@dataclass(frozen=True)
class Unit:
    size: int


@pytest.mark.parametrize(("units", "slots"), [(64, 2), (64, 4), (64, 5), (64, 6), (64, 16), (63, 4), (7, 4)])
def test_tasks_are_even(units: int, slots: int) -> None:
    """64 buckets of about one size: no task is larger than 1.3 times the mean, whatever runs at once."""
    chance = random.Random(units * slots)
    found = [Unit(int(chance.gauss(100, 5) * (1 << 20))) for _ in range(units)]
    groups = jobs.balanced(found, slots, lambda unit: unit.size)
    sizes = [sum(unit.size for unit in group) for group in groups]
    assert sum(map(len, groups)) == units and sizes == sorted(sizes, reverse=True)
    assert min(units, slots) <= len(groups) <= slots * jobs.WAVES
    assert max(sizes) <= 1.3 * sum(sizes) / len(sizes)


def test_a_large_unit_is_a_task_of_its_own() -> None:
    found = [Unit(1 << 30), *[Unit(1 << 24)] * 100]
    groups = jobs.balanced(found, 4, lambda unit: unit.size)
    assert groups[0] == [Unit(1 << 30)] and sum(map(len, groups)) == 101
    assert jobs.balanced([Unit(5)], 4, lambda unit: unit.size) == [[Unit(5)]]
