"""Ids of rows under faults: at every call of a write and of an update something goes wrong, or another writer is there
first; no id is given out twice, and none is lost."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import SOAK
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, FaultStorage, Killed, MapStorage
from tests.sim.tables import ROOT, create_table

from bucketlake.catalog import open_named
from bucketlake.env.env import Env
from bucketlake.errors import BucketlakeError
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table, open_table
from bucketlake.types.model import BIGINT, DataField, arrow_schema

FIELDS = (DataField(0, "k", BIGINT), DataField(1, "v", BIGINT))
SCHEMA = arrow_schema(FIELDS)
OPTIONS = {"row-tracking.enabled": "true", "scan.manifest.parallelism": "1", "compaction.min.file-num": "2"}
ACTIONS: dict[str, Callable[[Table], Any]] = {
    "write": lambda t: put(t, range(20, 23)),
    "update": lambda t: t.update({"v": 7}, "k < 3"),
    "compact": lambda t: t.compact(),
}


def put(table: Table, keys: Any) -> None:
    table.write_arrow(pa.table({"k": list(keys), "v": list(keys)}, schema=SCHEMA))


def through(storage: Any, seed: int) -> Table:
    clear_cache()
    return open_table(ROOT, Env(storage, FakeClock(seed)))


def ids(storage: Any) -> dict[int, int]:
    """Key → id."""
    clear_cache()
    found = open_named(f"{ROOT}$row_tracking", Env(storage, FakeClock(99))).to_arrow().to_pylist()
    assert len({row["_ROW_ID"] for row in found}) == len(found)
    return {row["k"]: row["_ROW_ID"] for row in found}


def base() -> dict[str, bytes]:
    storage = MapStorage()
    create_table(storage, FakeClock(), create_schema(FIELDS, (), (), OPTIONS))
    for seed, start in enumerate((0, 5), 1):
        put(through(storage, seed), range(start, start + 5))
    return storage.files


@pytest.mark.parametrize("name", ACTIONS)
def test_every_fault(name: str) -> None:
    files = base()
    inner = MapStorage()
    inner.files = dict(files)
    storage = FaultStorage(inner)
    table = through(storage, 3)
    storage.calls.clear()
    ACTIONS[name](table)
    calls = list(storage.calls)
    stride = 1 if SOAK else 5
    for number in [k for k, call in enumerate(calls) if k % stride == 0 or call[0] == "put_if_absent"]:
        for fault in (FAIL_BEFORE, FAIL_AFTER, KILL_AFTER, "race"):
            inner = MapStorage()
            inner.files = dict(files)
            storage = FaultStorage(inner)
            table = through(storage, 3)
            storage.calls.clear()

            def plan(k: int, operation: str, path: str, at: int = number, what: str = fault, to: Any = inner) -> Any:
                if k != at:
                    return None
                if what == "race":
                    put(through(to, 5), range(30, 32))
                    return None
                return what

            storage.plan = plan
            with suppress(BucketlakeError, Killed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ACTIONS[name](table)
            put(through(inner, 7), [40])
            found = ids(inner)
            assert [found[key] for key in range(10)] == list(range(10)), (name, calls[number], fault)
            newest = through(inner, 8).latest_snapshot()
            assert newest is not None and newest.next_row_id is not None
            assert newest.next_row_id == 1 + max(found.values()) == len(found), (name, calls[number], fault)


EVOLVING = {**OPTIONS, "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
CHANGES: dict[str, Callable[[Table], Any]] = {
    "update": lambda t: t.update({"v": 7}, "k < 3"),
    "delete": lambda t: t.delete("k = 4"),
    "compact": lambda t: t.compact(),
}
RIVALS: dict[str, Callable[[Table], Any]] = {
    "insert": lambda t: put(t, range(30, 32)),
    "update": lambda t: t.update({"v": 100}, "k = 1"),
    "delete": lambda t: t.delete("k = 0"),
    "compact": lambda t: t.compact(),
}


def values(storage: Any) -> dict[int, tuple[int, int]]:
    """Key → value and id."""
    clear_cache()
    found = open_named(f"{ROOT}$row_tracking", Env(storage, FakeClock(99))).to_arrow().to_pylist()
    assert len({row["k"] for row in found}) == len(found)
    return {row["k"]: (row["v"], row["_ROW_ID"]) for row in found}


def apart() -> dict[str, bytes]:
    """Two files of five rows, one with newer values beside it."""
    storage = MapStorage()
    create_table(storage, FakeClock(), create_schema(FIELDS, (), (), EVOLVING))
    for seed, start in enumerate((0, 5), 1):
        put(through(storage, seed), range(start, start + 5))
    through(storage, 4).update({"v": 50}, "k = 2")
    return storage.files


@pytest.mark.parametrize("name", CHANGES)
def test_every_fault_of_columns(name: str) -> None:
    """A change is there whole or not at all, and so is what another writer commits in the midst of it."""
    files = apart()
    inner = MapStorage()
    inner.files = dict(files)
    before = values(inner)
    storage = FaultStorage(inner)
    table = through(storage, 3)
    storage.calls.clear()
    CHANGES[name](table)
    calls, after = list(storage.calls), values(inner)
    assert (after != before) is (name != "compact")
    stride = 1 if SOAK else 4
    for number in [k for k, call in enumerate(calls) if k % stride == 0 or call[0] == "put_if_absent"]:
        for fault in (FAIL_BEFORE, FAIL_AFTER, KILL_AFTER, *(RIVALS if number % 3 == 0 or SOAK else ())):
            inner = MapStorage()
            inner.files = dict(files)
            storage = FaultStorage(inner)
            table = through(storage, 3)
            storage.calls.clear()
            met: list[str] = []

            def plan(k: int, operation: str, path: str, at: int = number, what: str = fault, to: Any = inner) -> Any:
                if k != at:
                    return None
                if what in RIVALS:
                    RIVALS[what](through(to, 5))
                    met.append(what)
                    return None
                return what

            storage.plan = plan
            with suppress(BucketlakeError, Killed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                CHANGES[name](table)
            found = values(inner)
            if not met:
                assert found in (before, after), (name, calls[number], fault)
                continue
            expected = {k: v[0] for k, v in after.items()}
            if fault == "insert":
                expected |= {30: 30, 31: 31}
            elif fault == "update":  # it came first, or was seen: the change has the last word on k < 3
                expected[1] = 7 if name == "update" else 100
            elif fault == "delete":
                expected.pop(0, None)
            given = {k: v[0] for k, v in found.items()}
            late = {**expected, 1: 100}
            assert given == expected or (fault == "update" and given == late), (name, calls[number], fault)
            assert all(found[k][1] == v[1] for k, v in after.items() if k in found), (name, calls[number], fault)
