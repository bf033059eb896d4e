"""A batch of events that dies, or gets no answer, at a call of the storage, and comes again: what it decided (schemas,
which events are rows, which are put aside) is decided again the same, and each row, letter and snapshot is there once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.profile import first
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, KILL_BEFORE, FaultStorage, Killed

import bucketlake
from bucketlake.cdc.sink import CdcSink, SyncDone
from bucketlake.env.storage import FileInfo
from bucketlake.errors import BucketlakeError
from bucketlake.spark.session import Lake
from bucketlake.spark.stream.checkpoint import Query

from .feeds import Feed, begun_by, debezium

FAULTS = (KILL_AFTER, KILL_BEFORE, FAIL_AFTER, FAIL_BEFORE)
_V = [["id", "int32"], ["v", "int32"]]
_WIDE = [["id", "int32"], ["v", "int64"], ["w", "double"]]
_TITLE = [["id", "int32"], ["title", "string"]]
NEWS = [["n", "int32"]]


class Driver(FaultStorage):
    """Faults of the driver alone: what goes to tasks is the storage as it is."""

    def __reduce__(self) -> Any:
        return (copy.copy, (self.inner,))  # what tasks can import

    def list(self, path: str) -> list[FileInfo]:
        return list(super().list(path))


def _event(table: str, fields: list[Any] | None, op: str = "c", before: Any = None, **row: Any) -> Any:
    keys = {} if table == "log" else {"pkNames": ["id"]}
    return debezium(op, before, row or None, table, fields, **keys)


def _before() -> list[Any]:
    return [
        *(_event("a", _V, id=key, v=key) for key in (1, 2, 3)),
        _event("b", [["id", "int32"], ["name", "string"]], id=1, name="one"),
        *(_event("log", NEWS, n=n) for n in (1, 2)),
    ]


def _batch() -> list[Any]:
    """Updates, a delete, a column that is wider and one that is new, one that is renamed, a table that is new, rows
    without a key, events that are none and values that are none."""
    renamed = {
        "ddl": "ALTER TABLE b RENAME COLUMN name TO title",
        "source": {"db": "shop", "table": "b"},
        "databaseName": "shop",
    }
    return [
        _event("a", _V, "u", {"id": 1, "v": 1}, id=1, v=10),
        _event("b", [["id", "int32"], ["name", "string"]], id=2, name="two"),
        renamed,
        _event("b", _TITLE, id=3, title="three"),
        _event("a", _WIDE, "u", {"id": 2, "v": 2, "w": None}, id=2, v=1 << 40, w=0.5),
        debezium("d", {"id": 3, "v": 3, "w": None}, None, "a", _WIDE, pkNames=["id"]),
        _event("new", _V, id=7, v=7),
        *(_event("log", NEWS, n=n) for n in (3, 4)),
        _event("log", NEWS, n="x"),
        "broken",
    ]


EXPECTED = {
    "a": [(1, 10, None), (2, 1 << 40, 0.5)],
    "b": [(1, "one"), (2, "two"), (3, "three")],
    "log": [(1,), (2,), (3,), (4,)],
    "new": [(7, 7)],
}
SNAPSHOTS = {"a": 2, "b": 2, "log": 2, "new": 1, "cdc_dead_letters": 1}
SCHEMAS_OF_A = 1


@pytest.fixture
def begun(classic: Lake, tmp_path: Path) -> tuple[Feed, Callable[[], Path]]:
    return begun_by(classic, tmp_path, _before())


def run(feed: Feed, folder: Path, frame: Any, number: int, storage: Any = None) -> SyncDone:
    """A batch by a query that has just been started."""
    catalog, told = bucketlake.open(str(folder / "warehouse")), []
    if storage is not None:
        storage.inner = catalog.env.storage
        catalog = replace(catalog, env=replace(catalog.env, storage=storage))
    job = replace(feed.job, catalog=catalog, on_batch=told.append)
    CdcSink(job, Query("feed", str(folder / "checkpoint")))(frame, number)
    return told[-1]


def check(folder: Path, said: str) -> None:
    catalog = bucketlake.open(str(folder / "warehouse"))
    for name, expected in EXPECTED.items():
        found = catalog.table(f"db.{name}").to_arrow().to_pylist()
        assert sorted(tuple(row.values()) for row in found) == expected, f"{name}, {said}"
    letters = catalog.table("db.cdc_dead_letters").to_arrow().column("reason").to_pylist()
    assert len(letters) == 2, said
    for name, count in SNAPSHOTS.items():
        assert len(catalog.table(f"db.{name}").snapshots()) == count, f"{name}, {said}"
    schemas = {name: catalog.table(f"db.{name}").schema.id for name in SNAPSHOTS}
    assert schemas == {"a": SCHEMAS_OF_A, "b": 1, "log": 0, "new": 0, "cdc_dead_letters": 0}, said


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # upkeep that dies, too
@pytest.mark.parametrize("fault", FAULTS)
def test_a_batch_that_dies_at_a_call_and_comes_again(begun: Any, fault: str) -> None:
    feed, copied = begun
    frame, whole = feed.frame(_batch()), Driver(None)
    folder = copied()
    run(feed, folder, frame, 1, whole)
    check(folder, "without a fault")
    start = FAULTS.index(fault)
    for place in first(range(len(whole.calls)), 4)[start::4]:
        folder = copied()
        broken = Driver(None, lambda k, operation, path, at=place: fault if k == at else None)
        with suppress(Killed, BucketlakeError):
            run(feed, folder, frame, 1, broken)
        said = f"{fault} at call {place}: {whole.calls[place]}"
        done = run(feed, folder, frame, 1)
        check(folder, said)
        assert (done.events, done.dead_letters) == (len(_batch()), 2), said
        run(feed, folder, feed.frame([_event("log", NEWS, n=5)]), 2)
        found = bucketlake.open(str(folder / "warehouse")).table("db.log").to_arrow().column("n").to_pylist()
        assert sorted(found) == [1, 2, 3, 4, 5], said
