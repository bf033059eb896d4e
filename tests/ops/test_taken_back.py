"""What is published on a snapshot that a rollback takes away at that moment is taken back, whatever else happens."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_BEFORE, FaultStorage, MapStorage

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import CommitUnknownError, NotFoundError
from bucketlake.ops.refs.rollback import drop_tags_after, take_after
from bucketlake.ops.table.store import clear_cache
from bucketlake.table import Table

PROCESSES = count()  # each names its files otherwise


def through(storage: Any) -> Table:
    """The table as another process has it."""
    clear_cache()
    return Catalog(Env(storage, FakeClock(next(PROCESSES))), "memory://wh").table("default.t")


def put(table: Table, value: int) -> None:
    table.write_arrow(pa.table({"v": [value]}))


def filled(commits: int) -> MapStorage:
    storage = MapStorage()
    catalog = Catalog(Env(storage, FakeClock(next(PROCESSES))), "memory://wh")
    table = catalog.create_table("default.t", pa.schema([("v", pa.int64())]), options={"write-only": "true"})
    for number in range(commits):
        put(table, number)
    return storage


@pytest.mark.parametrize("beside", ["a fault", "another commit"])
def test_a_commit_above_a_rollback_goes(beside: str) -> None:
    storage, seen = filled(3), list[str]()

    def plan(k: int, operation: str, path: str) -> str | None:
        name = path.rpartition("/")[2]
        if (operation, name) == ("put_if_absent", "snapshot-4"):
            through(storage).rollback_to(1)
        if (operation, name) == ("delete", "snapshot-4"):
            seen.append(name)
            if len(seen) > 1:
                return None
            if beside == "a fault":
                return FAIL_BEFORE
            other = through(storage)
            storage.delete(other.store.paths.latest_hint)  # others go without it
            put(other, 5)  # sees its base in place
            assert through(storage).store.snapshot_ids() == [1, 4, 5]
        return None

    with pytest.raises(CommitUnknownError, match="taken back"):
        put(through(FaultStorage(storage, plan)), 4)
    table = through(storage)
    assert seen and table.store.snapshot_ids() == [1]
    assert table.store.hint(table.store.paths.latest_hint) in (1, None)
    assert table.to_arrow().column("v").to_pylist() == [0]
    put(table, 6)
    assert table.store.snapshot_ids() == [1, 2]


def test_an_old_state_does_not_come_back_without_what_keeps_its_files() -> None:
    """A rollback that was about to end took its names away before the old state was planned, and its tags after."""
    storage, stage = filled(4), list[str]()

    def plan(k: int, operation: str, path: str) -> None:
        store = through(storage).store
        if not stage and operation == "read" and "/manifest/" in path and store.tags():
            stage.append("names")
            take_after(store, store.snapshot(1))
        if stage == ["names"] and operation == "put_if_absent" and path.endswith("snapshot-2"):
            stage.append("tags")
            drop_tags_after(store, 1)

    with pytest.raises(NotFoundError, match="by a rollback"):
        through(FaultStorage(storage, plan)).rollback_to_as_latest(3)
    assert stage == ["names", "tags"]
    store = through(storage).store
    assert store.snapshot_ids() == [1] and store.hint(store.paths.latest_hint) in (1, None)
