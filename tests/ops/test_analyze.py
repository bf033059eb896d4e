"""ANALYZE snapshots: they change no rows, rebase on any commit, and leave nothing behind where they fail."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, FaultStorage, MapStorage, fault_on

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import CorruptError, StorageError
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.format.metadata.statistics import TableStatistics
from bucketlake.ops.commit.analyze import commit_statistics, statistics_of
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn
from bucketlake.table import Table
from bucketlake.types.parse import parse_type_text

SEEDS = itertools.count(1)


def table_on(storage: Any) -> Table:
    return Catalog(Env(storage, FakeClock(next(SEEDS))), "/wh").table("t")


@pytest.fixture
def storage() -> MapStorage:
    clear_cache()
    found = MapStorage()
    catalog = Catalog(Env(found, FakeClock(next(SEEDS))), "/wh")
    catalog.create_table("t", pa.schema([("k", pa.int64())])).write_arrow(pa.table({"k": [1, 2]}))
    return found


def files(storage: MapStorage) -> set[str]:
    return {path for path in storage.files if "/statistics/" in path}


def test_a_snapshot_of_its_own(storage: MapStorage) -> None:
    table = table_on(storage)
    base = table.latest_snapshot()
    stats = TableStatistics(1, 0, 2, 100)
    snapshot = commit_statistics(table.store, "me", stats)
    assert (snapshot.id, snapshot.commit_kind) == (base.id + 1, CommitKind.ANALYZE)
    assert (snapshot.total_record_count, snapshot.delta_record_count) == (2, 0)
    assert statistics_of(table.store, snapshot) == stats
    assert statistics_of(table.store, base) is None
    assert table.to_arrow()["k"].to_pylist() == [1, 2]
    table.write_arrow(pa.table({"k": [3]}))
    assert statistics_of(table.store, table.latest_snapshot()) == stats  # later snapshots keep them
    table.alter(AddColumn("v", parse_type_text("INT", "spark"))).write_arrow(pa.table({"k": [4]}))
    assert statistics_of(table.store, table.latest_snapshot()) is None  # of another schema


@pytest.mark.parametrize("data", [b"[]", b'{"snapshotId": 1}', None])
@pytest.mark.parametrize("count", ["true", '"2"', "1.5", "-2", str(1 << 63), "[1]"])
def test_a_statistics_file_that_is_damaged_is_named(storage: MapStorage, data: bytes | None, count: str) -> None:
    """As a system table it failed with an error of Arrow's."""
    table = table_on(storage)
    commit_statistics(table.store, "me", TableStatistics(1, 0, 2, 100))
    (path,) = files(storage)
    text = f'{{"snapshotId": 1, "schemaId": 0, "mergedRecordCount": {count}}}'
    storage.delete(path)
    if data is not None:
        storage.write(path, text.encode() if count != "true" else data)
    shown = Catalog(Env(storage, FakeClock(next(SEEDS))), "/wh").table("t$statistics")
    with pytest.raises(CorruptError, match=rf"statistics.*{path}.*ANALYZE TABLE"):
        shown.to_arrow()
    assert table.refresh().to_arrow()["k"].to_pylist() == [1, 2]
    assert [one.code[:10] for one in table.fsck().findings] == ["statistics"]
    commit_statistics(table.store, "me", TableStatistics(1, 0, 2, 100))
    assert shown.refresh().to_arrow().num_rows == 1


def test_statistics_go_with_their_last_snapshot(storage: MapStorage) -> None:
    table = table_on(storage)
    commit_statistics(table.store, "me", TableStatistics(1, 0, 2, 100))
    table.write_arrow(pa.table({"k": [3]}))
    commit_statistics(table.store, "me", TableStatistics(3, 0, 3, 150))
    assert len(files(storage)) == 2
    table.expire_snapshots(1, 1)
    assert len(files(storage)) == 1


def test_another_commit_comes_first(storage: MapStorage) -> None:
    table, other = table_on(storage), table_on(storage)

    class Raced(FaultStorage):
        raced = False

        def put_if_absent(self, path: str, data: bytes) -> bool:
            if path.endswith("snapshot-2") and not self.raced:
                self.raced = True
                other.write_arrow(pa.table({"k": [3]}))
            return bool(super().put_if_absent(path, data))

    slow = table_on(Raced(storage))
    snapshot = commit_statistics(slow.store, "me", TableStatistics(1, 0, 2, 100))
    assert (snapshot.id, snapshot.total_record_count) == (3, 3)
    assert sorted(table.to_arrow()["k"].to_pylist()) == [1, 2, 3]
    assert len(files(storage)) == 1


def test_a_failure_leaves_no_file(storage: MapStorage) -> None:
    failing = table_on(FaultStorage(storage, fault_on("write", "/manifest/", FAIL_BEFORE, times=99)))
    before = set(storage.files)
    with pytest.raises(StorageError):
        commit_statistics(failing.store, "me", TableStatistics(1, 0))
    assert set(storage.files) == before


def test_a_lost_answer_is_found_out(storage: MapStorage) -> None:
    failing = table_on(FaultStorage(storage, fault_on("put_if_absent", "snapshot-2", FAIL_AFTER, times=1)))
    commit_statistics(failing.store, "me", TableStatistics(1, 0))
    clear_cache()
    table = table_on(storage)
    assert statistics_of(table.store, table.latest_snapshot()) == TableStatistics(1, 0)
