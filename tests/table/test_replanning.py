"""Plans on a snapshot that expires meanwhile are made anew; rows of a cross-partition write whose keys others took away;
windows of one bucket whose deletion vectors lie in one file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FaultStorage, MapStorage
from tests.sim.tables import ROOT, create_table

from bucketlake.env.env import Env
from bucketlake.errors import ConflictError, NotFoundError
from bucketlake.ops.check.fault import LEVELS
from bucketlake.ops.check.fsck import FsckRequest, fsck
from bucketlake.ops.compact.append_compact import AppendPlan, compact_append, plan_append
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table, open_table
from bucketlake.types.model import BIGINT, INT, DataField, arrow_schema

FIELDS = (
    DataField(0, "pt", INT.with_nullable(False)),
    DataField(1, "k", BIGINT.with_nullable(False)),
    DataField(2, "v", BIGINT),
    DataField(3, "w", BIGINT),
)
SEEDS = itertools.count(1)


def rows(*found: tuple[int | None, ...]) -> pa.Table:
    columns = zip(*found, strict=True)
    return pa.table(
        {item.name: list(column) for item, column in zip(FIELDS, columns, strict=True)}, arrow_schema(FIELDS)
    )


def through(storage: Any) -> Table:
    return open_table(ROOT, Env(storage, FakeClock(next(SEEDS))))


def content(table: Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*table.to_arrow().to_pydict().values(), strict=True))


def table_of(keys: tuple[str, ...] = ("pt", "k"), partitions: tuple[str, ...] = ("pt",), **options: str) -> MapStorage:
    clear_cache()
    storage = MapStorage()
    given = {"bucket": "1", "scan.manifest.parallelism": "1", **{k.replace("_", "."): v for k, v in options.items()}}
    create_table(storage, FakeClock(), create_schema(FIELDS, partitions, keys, given))
    return storage


READS: dict[str, Callable[[Table], Any]] = {
    "read": lambda t: t.to_arrow().num_rows,
    "plan": lambda t: len(t.plan().entries),
    "write": lambda t: t.write_arrow(rows((1, 1, 1, 1))),
    "delete": lambda t: t.delete("k = 0"),
    "update": lambda t: t.update({"v": 5}, "k = 0"),
}


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("times", [1, 3])
def test_a_plan_whose_snapshot_expires_is_made_anew(name: str, keyed: bool, times: int) -> None:
    options = {"bucket": "1"} if keyed else {"bucket": "-1"}
    storage = table_of(("pt", "k") if keyed else (), **options)
    through(storage).write_arrow(rows((1, 0, 0, 0)))
    fired: list[int] = []

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "read" and "/manifest-list-" in path and len(fired) < times:
            fired.append(k)
            rival = through(storage)
            rival.write_arrow(rows((1, 0, 100 + len(fired), 0)), mode="overwrite")
            rival.expire_snapshots(retain_max=1, retain_min=1)
            clear_cache()

    clear_cache()
    done = READS[name](through(FaultStorage(storage, plan)))
    assert len(fired) == times and done
    assert all(row[1] in (0, 1) for row in content(through(storage)))


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("read", [lambda t: t.to_arrow().to_pylist(), lambda t: t.to_pandas().to_dict("records")])
def test_what_is_read_at_once_begins_anew(keyed: bool, times: int, read: Callable[[Table], list[Any]]) -> None:
    """Files that go once they are to be opened, which a reader with a plan finds out."""
    storage = table_of(("pt", "k") if keyed else (), bucket="1" if keyed else "-1")
    through(storage).write_arrow(rows((1, 0, 0, 0), (2, 1, 0, 0)))
    fired: list[int] = []

    def plan(k: int, operation: str, path: str) -> None:
        if path.endswith(".parquet") and len(fired) < times:
            fired.append(k)
            rival = through(storage)
            rival.write_arrow(rows((1, 0, len(fired), 0), (2, 1, len(fired), 0)), mode="overwrite")
            rival.expire_snapshots(retain_max=1, retain_min=1)
            clear_cache()

    clear_cache()
    assert [row["v"] for row in read(through(FaultStorage(storage, plan)))] == [times, times]


def test_one_that_keeps_expiring_says_so() -> None:
    storage = table_of()
    through(storage).write_arrow(rows((1, 0, 0, 0)))

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "read" and "/manifest-list-" in path:
            rival = through(storage)
            rival.write_arrow(rows((1, 0, k, 0)), mode="overwrite")
            rival.expire_snapshots(retain_max=1, retain_min=1)
            clear_cache()

    clear_cache()
    with pytest.raises(NotFoundError, match=r"expire faster.*snapshot\.num-retained\.min"):
        through(FaultStorage(storage, plan)).to_arrow()


def test_a_file_that_is_missing_is_said_to_be() -> None:
    storage = table_of()
    through(storage).write_arrow(rows((1, 0, 0, 0)))
    gone = next(path for path in storage.files if "/manifest/manifest-" in path and "list" not in path)
    storage.delete(gone)
    clear_cache()
    with pytest.raises(NotFoundError, match="manifest-") as caught:
        through(storage).to_arrow()
    assert "expire faster" not in str(caught.value)


# ---- cross-partition writes


def amid(storage: MapStorage, rival: Callable[[Table], Any]) -> Table:
    fired: list[int] = []

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and "/snapshot/" in path and not fired:
            fired.append(k)
            rival(through(storage))

    return through(FaultStorage(storage, plan))


def crossing() -> MapStorage:
    options = {"bucket": "-1", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    storage = table_of(("k",), **options)
    through(storage).write_arrow(rows((1, 0, 5, 5), (1, 1, 6, 6), (2, 2, 7, 7)))
    return storage


@pytest.mark.parametrize("rival", ["drop", "delete", "overwrite"])
def test_rows_do_not_follow_their_keys_into_a_partition_that_was_emptied(rival: str) -> None:
    """The key lay in partition 1, and so the row went there; partition 1 shall not come back with half of it."""
    storage = crossing()
    actions: dict[str, Callable[[Table], Any]] = {
        "drop": lambda t: t.drop_partitions([{"pt": 1}]),
        "delete": lambda t: t.delete("k = 0"),
        "overwrite": lambda t: t.write_arrow(rows((1, 9, 9, 9)), mode="overwrite"),
    }
    table = amid(storage, actions[rival])
    with pytest.raises(ConflictError, match="took away the keys"):
        table.write_arrow(rows((3, 0, 50, None)))
    before = content(through(storage))
    assert not [row for row in before if row[1] == 0]
    table.write_arrow(rows((3, 0, 50, None)))
    assert content(through(storage)) == sorted([*before, (3, 0, 50, None)])


def test_rows_of_the_partition_itself_and_of_keys_that_stay_are_no_conflict() -> None:
    storage = crossing()
    amid(storage, lambda t: t.drop_partitions([{"pt": 2}])).write_arrow(rows((3, 0, 50, None), (1, 1, 60, None)))
    amid(storage, lambda t: t.drop_partitions([{"pt": 1}])).write_arrow(rows((1, 8, 8, 8)))
    assert content(through(storage)) == [(1, 8, 8, 8)]


# ---- windows of one bucket


def test_windows_whose_vectors_lie_in_one_index_file_are_compacted_by_one_commit() -> None:
    options = {
        "bucket": "1",
        "bucket-key": "k",
        "deletion-vectors.enabled": "true",
        "compaction.min.file-num": "3",
        "write-only": "true",
    }
    storage = table_of((), (), **options)
    table = through(storage)
    for start in range(0, 80, 10):
        table.write_arrow(rows(*((1, key, key, key) for key in range(start, start + 10))))
    table.delete("k IN (3, 15, 33, 41, 79)")
    wanted = content(table)
    units = plan_append(table.store, table.store.latest_snapshot(), full=False)
    assert [unit.parts for unit in units] == [(3, 3)], "two windows of three files; the last two files are too few"
    done = compact_append(table.store, AppendPlan(full=False))
    assert done is not None and done.commit_kind.value == "COMPACT"
    table = through(storage)
    assert content(table) == wanted and len(table.files()) == 4
    ranges = sorted((f.file.min_sequence_number, f.file.max_sequence_number) for f in table.files())
    assert all(low[1] < high[0] for low, high in itertools.pairwise(ranges))


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
@pytest.mark.parametrize("keys", [("k",), ("pt", "k")], ids=["crossing", "dynamic"])
@pytest.mark.parametrize("batches", [1, 3])
def test_a_write_outlives_the_snapshot_that_it_looks_keys_up_in(
    engine: str, keys: tuple[str, ...], batches: int
) -> None:
    """Other writers put keys into buckets and expire the snapshot that this write began on, before each of its batches:
    each key is there once, at last."""
    small = {"dynamic-bucket.target-row-num": "2"} if batches > 1 else {}
    storage = table_of(keys, **{"bucket": "-1", "merge-engine": engine, **small})
    through(storage).write_arrow(rows(*((1, k, 0, 0) for k in range(4))))

    def arriving() -> Iterator[pa.RecordBatch]:
        for number in range(batches):
            rival = through(storage)
            rival.write_arrow(rows((1, 10 + number, 1, None), (1, 20 + number, 1, None)))
            rival.write_arrow(rows((1, 30 + number, 1, None)))
            rival.expire_snapshots(retain_max=1, retain_min=1)
            clear_cache()
            given = [(1, k, 2, None) for k in (number, 10 + number, 20, 30, 40 + number)]
            yield from rows(*given).to_batches()

    through(storage).write_arrow(pa.RecordBatchReader.from_batches(arrow_schema(FIELDS), arriving()))
    written = {k for number in range(batches) for k in (number, 10 + number, 20, 30, 40 + number)}
    there = {*range(4), *(k + number for k in (10, 20, 30) for number in range(batches))}
    value = {k: 2 if k in written and (engine != "first-row" or k not in there) else 1 for k in written | there}
    value |= {k: 0 for k in range(4) if k not in written or engine == "first-row"}
    found = through(storage).to_arrow().to_pydict()
    assert sorted(zip(found["k"], found["v"], strict=True)) == sorted(value.items())
    assert not fsck(through(storage).store, FsckRequest(level=LEVELS[-1])).errors
