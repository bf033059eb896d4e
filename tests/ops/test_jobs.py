"""Jobs of many units: partial commits, conflicts that drop single units, interrupts, deaths and what a rerun finds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import SOAK
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_BEFORE, FaultStorage, Killed, MapStorage, fault_on

import bucketlake
from bucketlake import Table
from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import CommitUnknownError, ConflictError, CorruptError, InvalidError, StorageError
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.compact.append_compact import AppendPlan, rewritten
from bucketlake.ops.compact.compaction import Compaction, compaction_job, parse_buckets
from bucketlake.ops.compact.job import Job, run_job, run_jobs
from bucketlake.ops.compact.maintain import Wanted, compacted
from bucketlake.ops.compact.running import here, inline
from bucketlake.ops.progress import Progress
from bucketlake.ops.table.store import clear_cache

SCHEMA = pa.schema(
    [pa.field("pt", pa.int32(), nullable=False), pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())]
)
PARTS = 6
SEEDS = itertools.count(100)  # of clocks: no two processes take the same names


def table_on(storage: Any, clock: Any = None, *, keyed: bool = True, **options: str) -> Table:
    """A table of six partitions, one unit of compaction each."""
    catalog = Catalog(Env(storage, clock or FakeClock(1)), "memory://wh")
    given = {"bucket": "1" if keyed else "-1", "write-only": "true", "compaction.min.file-num": "2", **options}
    table = catalog.create_table("default.t", SCHEMA, ["pt"], ["pt", "k"] if keyed else [], given)
    for version in range(3):
        table.write_arrow(rows(range(PARTS), version))
    return table


def rows(parts: Sequence[int], version: int) -> pa.Table:
    parts = list(parts)
    return pa.table({"pt": parts, "k": [version % 2] * len(parts), "v": [version] * len(parts)}, schema=SCHEMA)


def through(storage: Any, table: Table) -> Table:
    """The table as another process sees it."""
    clear_cache()
    return Catalog(Env(storage, FakeClock(next(SEEDS))), "memory://wh").table("default.t")


def content(table: Table) -> list[tuple[int, int, int]]:
    return sorted((row["pt"], row["k"], row["v"]) for row in table.to_arrow().to_pylist())


def compactions(table: Table) -> int:
    return sum(snapshot.commit_kind.value == "COMPACT" for snapshot in table.snapshots())


def files_of(storage: MapStorage) -> set[str]:
    return {path for path in storage.files if "/bucket-" in path}


def stopping_after(units: int, error: type[BaseException] = KeyboardInterrupt) -> Callable[[Progress], None]:
    """An `on_progress` that raises once so many units are done."""

    def tell(progress: Progress) -> None:
        if progress.units >= units:
            raise error

    return tell


# ---- commits on the way


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("run", [inline, here], ids=["inline", "threads"])
def test_what_is_finished_is_committed_on_the_way(keyed: bool, run: Any) -> None:
    table = table_on(MapStorage(), keyed=keyed)
    before = content(table)
    small = table.with_options({"compaction.commit-size": "1 b"})
    assert run_job(compaction_job(small.store, Compaction()), run) == table.latest_snapshot()
    assert compactions(table) == PARTS
    assert content(table) == before and len(table.files()) == PARTS
    assert table.compact() is None


def test_usually_there_is_one_commit(tmp_path: Path) -> None:
    table = table_on(MapStorage())
    seen: list[Progress] = []
    table.compact(on_progress=seen.append)
    assert compactions(table) == 1
    assert seen[-1].done and (seen[-1].units, seen[-1].total_units, seen[-1].commits) == (PARTS, PARTS, 1)
    assert seen[-1].rows == seen[-1].total_rows == 3 * PARTS and seen[-1].bytes == seen[-1].total_bytes > 0
    assert seen[-1].table == "default.t"


def test_time_commits_too() -> None:
    clock = FakeClock(1)
    table = table_on(MapStorage(), clock)

    def slow(store: Any, unit: Any) -> Any:
        clock.sleep(40)
        return compacted(store, unit)

    run_job(Job.of(table.store, Wanted(work=slow)), inline)
    assert compactions(table) == PARTS / 3, "a minute after the first of them was finished"


# ---- conflicts


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
def test_a_conflict_drops_only_the_units_concerned(keyed: bool) -> None:
    storage = MapStorage()
    table = table_on(storage, keyed=keyed)
    done: list[int] = []
    runs: list[Any] = []

    def beaten(store: Any, unit: Any) -> Any:
        runs.append(unit.partition)
        made = (compacted if keyed else rewritten)(store, unit)
        if not done:
            done.append(1)
            other = through(storage, table)
            other.compact(partitions=[{"pt": 2}, {"pt": 3}])
            other.write_arrow(rows([2], 7))
            other.write_arrow(rows([2], 9))
            other.drop_partitions([{"pt": 4}])
        return made

    plan = Wanted(work=beaten) if keyed else AppendPlan(work=beaten)
    assert run_job(Job.of(table.store, plan), inline) is not None
    again = sum(runs.count(part) - 1 for part in set(runs))
    assert again == 1, "partition 2 is compacted again, 3 and 4 have nothing left to compact"
    assert sorted({row[0] for row in content(table)}) == [0, 1, 2, 3, 5]
    assert len(table.files()) == 5
    live = {file.path for file in table.files()}
    assert all(path in storage.files for path in live)
    seen = {
        e.file.file_name for s in table.snapshots() for e in Table(table.store, "t").plan(scan_snapshot_id=s.id).entries
    }
    stray = {path for path in files_of(storage) if path.rsplit("/", 1)[1] not in seen}
    assert not stray, "what the lost units wrote is gone"


def test_vectors_that_come_meanwhile_are_kept() -> None:
    options = {"deletion-vectors.enabled": "true"}
    storage = MapStorage()
    table = table_on(storage, keyed=False, **options)
    table.delete("v = 0 AND pt < 4")
    done: list[int] = []

    def beaten(store: Any, unit: Any) -> Any:
        made = rewritten(store, unit)
        if not done:
            done.append(1)
            through(storage, table).delete("pt = 1 AND v = 1")
        return made

    run_job(Job.of(table.store, AppendPlan(work=beaten)), inline)
    expected = [(p, v % 2, v) for p in range(PARTS) for v in range(3)]
    expected = [row for row in expected if not (row[2] == 0 and row[0] < 4) and not (row[0] == 1 and row[2] == 1)]
    assert content(table) == sorted(expected)


def test_others_that_always_come_first_leave_units_behind() -> None:
    storage = MapStorage()
    table = table_on(storage)

    def beaten(store: Any, unit: Any) -> Any:
        made = compacted(store, unit)
        if store.paths.partition_texts(unit.partition)["pt"] == "2":
            other = through(storage, table)
            other.compact(partitions=[{"pt": 2}])
            other.write_arrow(rows([2], 5))
        return made

    with pytest.warns(UserWarning, match="before 1 units, which were left"):
        run_job(Job.of(table.store, Wanted(work=beaten)), inline)
    only = table.store.paths.partition_bytes({"pt": "2"})
    with pytest.raises(ConflictError):
        run_job(Job.of(table.store, Wanted(partitions=only.__eq__, work=beaten)), inline)


# ---- interrupts, errors, deaths


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
def test_an_interrupt_keeps_what_is_finished(keyed: bool, error: type[BaseException]) -> None:
    storage = MapStorage()
    table = table_on(storage, keyed=keyed)
    before = content(table)
    job = compaction_job(table.store, Compaction(), stopping_after(3, error))
    with pytest.raises(error):
        run_job(job, inline)
    assert compactions(table) == 1
    assert sum(len(table.files(where=f"pt = {part}")) == 1 for part in range(PARTS)) == 3
    assert content(table) == before
    assert table.compact() is not None and len(table.files()) == PARTS
    assert content(table) == before


def test_threads_stop_when_they_are_told() -> None:
    table = table_on(MapStorage())
    before = content(table)
    with pytest.raises(KeyboardInterrupt):
        table.compact(on_progress=stopping_after(1))
    assert content(table) == before
    assert 1 <= sum(len(table.files(where=f"pt = {part}")) == 1 for part in range(PARTS)) <= PARTS
    table.compact()
    assert len(table.files()) == PARTS


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
def test_a_death_at_any_call_keeps_what_was_committed(keyed: bool) -> None:
    base = MapStorage()
    table = table_on(base, keyed=keyed)
    before = content(table)
    kept: set[int] = set()
    for call in range(0, 4000, 1 if SOAK else 37):
        clear_cache()
        inner = MapStorage()
        inner.files = dict(base.files)
        storage = FaultStorage(inner, lambda k, operation, path, call=call: KILL_BEFORE if k == call else None)
        with suppress(Killed):
            dying = Catalog(Env(storage, FakeClock(3)), "memory://wh").table("default.t")
            small = dying.with_options({"compaction.commit-size": "1 b"})
            run_job(compaction_job(small.store, Compaction()), inline)
        survivor = through(inner, table)
        assert content(survivor) == before
        kept.add(compactions(survivor))
        survivor.compact()
        assert content(survivor) == before and len(survivor.files()) == PARTS
        remove_orphans(survivor.store, 1 << 60)
        assert content(through(inner, table)) == before
        if not storage.dead:
            break
    assert {0, PARTS} <= kept and (not SOAK or kept == set(range(PARTS + 1)))


def test_a_unit_that_fails_stops_its_job_and_keeps_the_rest() -> None:
    table = table_on(MapStorage())
    before = content(table)

    def broken(store: Any, unit: Any) -> Any:
        if store.paths.partition_texts(unit.partition)["pt"] == "3":
            raise CorruptError("broken", path="x")
        return compacted(store, unit)

    with pytest.raises(CorruptError, match="broken"):
        run_job(Job.of(table.store, Wanted(work=broken)), inline)
    assert content(table) == before
    assert compactions(table) == 1 and len(table.files(where="pt = 3")) == 3


def test_of_several_tables_one_that_fails_stops_no_other() -> None:
    good, bad = table_on(MapStorage()), table_on(MapStorage())

    def broken(store: Any, unit: Any) -> Any:
        raise CorruptError("broken", path="x")

    jobs = [Job.of(bad.store, Wanted(work=broken)), Job.of(good.store, Wanted())]
    run_jobs(jobs, here)
    assert isinstance(jobs[0].failed, CorruptError) and len(bad.files()) == 3 * PARTS
    assert jobs[1].finish() is not None and len(good.files()) == PARTS


@pytest.mark.parametrize(("fault", "error"), [(FAIL_BEFORE, StorageError), (FAIL_AFTER, None)])
def test_lost_answers(fault: str, error: type[Exception] | None) -> None:
    inner = MapStorage()
    table = table_on(inner)
    before = content(table)
    storage = FaultStorage(inner, fault_on("put_if_absent", "/snapshot-", fault, 1))
    faulty = Catalog(Env(storage, FakeClock(3)), "memory://wh").table("default.t")
    run_job(compaction_job(faulty.store, Compaction()), inline)
    assert compactions(table) == 1 and content(table) == before


def test_a_storage_that_never_answers_keeps_all_files() -> None:
    inner = MapStorage()
    table = table_on(inner, **{"commit.max-retries": "2"})
    before = content(table)
    storage = FaultStorage(inner, fault_on("put_if_absent", "/snapshot-", FAIL_AFTER, 1000))
    faulty = Catalog(Env(storage, FakeClock(3)), "memory://wh").table("default.t")
    with pytest.raises((CommitUnknownError, StorageError)):
        run_job(compaction_job(faulty.store, Compaction()), inline)
    assert content(through(inner, table)) == before


# ---- buckets


def test_buckets_by_number(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    for name, keys in (("pk", ["k"]), ("log", [])):
        options = {"bucket": "4", "bucket-key": "k", "write-only": "true"}
        table = catalog.create_table(f"db.{name}", SCHEMA, [], keys, options)
        for start in (0, 40, 80):
            data = {"pt": [0] * 40, "k": list(range(start, start + 40)), "v": [0] * 40}
            table.write_arrow(pa.table(data, schema=SCHEMA))
        job = compaction_job(table.store, Compaction(buckets=parse_buckets("0-1", 4)))
        assert run_job(job) is not None
        assert [sum(file.bucket == bucket for file in table.files()) for bucket in range(4)] == [1, 1, 3, 3]
    dynamic = catalog.create_table("db.d", SCHEMA, [], ["k"], {"bucket": "-1"})
    with pytest.raises(InvalidError, match="only supported for fixed-bucket tables"):
        compaction_job(dynamic.store, Compaction(buckets=frozenset({0})))


@pytest.mark.parametrize(
    ("text", "found"), [("3", {3}), ("0,2", {0, 2}), (" 0-2, 4, 2, 6 - 7", {0, 1, 2, 4, 6, 7}), ("5-5", {5})]
)
def test_ranges_of_buckets(text: str, found: set[int]) -> None:
    assert parse_buckets(text, 8) == found


@pytest.mark.parametrize("text", ["", " ", "a", "1-", "-1", "1--2", "8", "0-8", "3-1", "1,,2", "0,", "1.5"])
def test_texts_that_are_no_buckets(text: str) -> None:
    with pytest.raises(InvalidError):
        parse_buckets(text, 8)
