"""Changes of a chain table that are over two branches, interrupted, killed or failed at every call that changes the
storage: each branch is as before or as after, never the second alone, and the same change again brings both to the end."""

from __future__ import annotations

import datetime as dt
import itertools
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import SOAK, later
from tests.sim.clock import FakeClock
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    Killed,
    MapStorage,
    Raised,
    fault_at,
)

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import BucketlakeError
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import SetOption

SCHEMA = pa.schema([("dt", pa.string()), ("k", pa.int64()), ("s", pa.int64())])
OPTIONS = {
    "chain-table.enabled": "true",
    "sequence.field": "s",
    "bucket": "1",
    "partition.timestamp-pattern": "$dt",
    "partition.timestamp-formatter": "yyyyMMdd",
    "partition.expiration-time": "30 d",
    "scan.manifest.parallelism": "1",
    "file-operation.thread-num": "1",
}
WHOLE, DELTA = "t$branch_snapshot", "t$branch_delta"
FAULTS = (Raised(KeyboardInterrupt), Raised(KeyboardInterrupt, True), KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER)
CLOCKS = itertools.count(1)
START = FakeClock(0).now_millis()


def ago(days: int) -> str:
    return (dt.datetime.fromtimestamp(START / 1000) - dt.timedelta(days=days)).strftime("%Y%m%d")


def rows(*found: tuple[str, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in found], schema=SCHEMA)


def through(storage: Any) -> Catalog:
    clear_cache()
    return Catalog(Env(storage, FakeClock(next(CLOCKS))), "memory://wh")


def made() -> MapStorage:
    storage = MapStorage()
    catalog = through(storage)
    catalog.create_table("t", SCHEMA, ["dt"], ["dt", "k"], OPTIONS)
    for name in ("snapshot", "delta"):
        catalog.table("t").create_branch(name)
    for name in ("t", WHOLE, DELTA):
        keys = ("scan.fallback-snapshot-branch", "scan.fallback-delta-branch")
        catalog.table(name).alter(*map(SetOption, keys, ("snapshot", "delta")))
    for days in (90, 60, 20):
        catalog.table(WHOLE).write_arrow(rows((ago(days), 1, days)))
    for days in (80, 50, 20, 10):
        catalog.table(DELTA).write_arrow(rows((ago(days), 2, days)))
    return storage


CHANGES: dict[str, Callable[[Catalog], Any]] = {
    "overwrite": lambda c: c.table(DELTA).write_arrow(rows((ago(20), 3, 1), (ago(60), 3, 1)), mode="overwrite"),
    "compact": lambda c: c.table("t").compact_chain({"dt": ago(10)}),
    "compact again": lambda c: c.table("t").compact_chain({"dt": ago(20)}, overwrite=True),
    "expire": lambda c: c.table("t").expire_partitions(),
}


def state(storage: MapStorage) -> list[list[tuple[Any, ...]]]:
    """The rows of the branch of deltas, of the other one, and of the table."""
    catalog = through(storage)
    return [sorted(tuple(r.values()) for r in catalog.table(n).to_arrow().to_pylist()) for n in (DELTA, WHOLE, "t")]


def faults(storage: MapStorage) -> list[str]:
    found = [one for name in ("t", WHOLE, DELTA) for one in through(storage).table(name).fsck().findings]
    return [str(one) for one in found if "orphan" not in one.code and not one.code.startswith("hint-")]


@pytest.mark.parametrize("name", later([*CHANGES], 2))
def test_a_change_of_two_branches_can_be_repeated(name: str) -> None:
    change, first = CHANGES[name], made()
    files = dict(first.files)
    plain = FaultStorage(first)
    before = state(first)
    change(through(plain))
    after = state(first)
    assert before != after
    reads = ("read", "read_ranges", "list", "info", "walk")
    calls = [number for number, (call, _) in enumerate(plain.calls) if call not in reads]
    assert len(calls) > 5
    every = itertools.product(calls, FAULTS) if SOAK else zip(calls, itertools.cycle(FAULTS))
    for call, fault in every:
        storage = MapStorage()
        storage.files = dict(files)
        said = f"{name}, {fault} at call {call}: {plain.calls[call]}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what was given up behind a commit
            with suppress(KeyboardInterrupt, Killed, BucketlakeError):
                change(through(FaultStorage(storage, fault_at(call, fault))))
            now = state(storage)
            assert now[0] in (before[0], after[0]) and now[1] in (before[1], after[1]), said
            assert now[0] == after[0] or now[1] == before[1], said
            assert not faults(storage), said
            change(through(storage))
        assert state(storage) == after, said
