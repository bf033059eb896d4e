"""Partitions that are too old: which go, by which clock, and that nothing goes twice or that was written meanwhile."""

from __future__ import annotations

import itertools
import time
from contextlib import suppress
from typing import Any

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, KILL_BEFORE, FaultStorage, Killed, MapStorage
from tests.sim.tables import ROOT, check_table, commit_of, create_table, data_file, make_store, message, partition

from bucketlake import events
from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.ops.clean.expire import after_commit
from bucketlake.ops.clean.partitions import expire_partitions, worth_compacting
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.partitions import partition_values
from bucketlake.ops.table.store import Store, clear_cache
from bucketlake.ops.table.wall_clock import local_from_epoch

WEEK = {"partition.expiration-time": "7 d", "partition.timestamp-formatter": "yyyyMMdd"}
UPDATED = {"partition.expiration-time": "1 h", "partition.expiration-strategy": "update-time"}
OLD, NEW = (20200101, 20200102, 20200103), 99991231
SERIAL = {"file-operation.thread-num": "1"}


class Made:
    """A table in memory, its files, and how to write to it."""

    def __init__(self, root: str = ROOT, **options: str) -> None:
        clear_cache()
        self.storage, self.clock, self.count = MapStorage(), FakeClock(), itertools.count()
        self.store = create_table(self.storage, self.clock, root=root).with_options({**SERIAL, **options})

    def write(self, *days: int | None) -> None:
        now = local_from_epoch(self.clock.millis)
        for day in days:
            n = next(self.count)
            file = data_file(f"f{n}", sequences=(10 * n, 10 * n + 9), creation_time=now)
            commit_of(self.store, f"w{n}").commit([message(file, part=partition(day))])

    def days(self) -> list[int]:
        newest = self.store.latest_snapshot()
        entries = [] if newest is None else live_entries(self.store, newest)
        return sorted(partition_values(self.store, entry.partition)[0] or 0 for entry in entries)


def spec(*days: int) -> list[dict[str, str]]:
    return [{"pt": str(day)} for day in days]


def test_by_values() -> None:
    made = Made(**WEEK)
    assert expire_partitions(made.store) == []
    made.write(*reversed(OLD), NEW, None, 7)
    assert expire_partitions(made.store.with_options({"partition.expiration-max-num": "0"})) == []
    assert expire_partitions(made.store.with_options({"partition.expiration-max-num": "1"})) == spec(OLD[0])
    before = made.store.latest_snapshot_id() or 0
    assert expire_partitions(made.store.with_options({"partition.expiration-batch-size": "1"})) == spec(*OLD[1:])
    assert made.store.latest_snapshot_id() == before + 2 and made.days() == [0, 7, NEW]
    assert expire_partitions(made.store) == [] and made.store.latest_snapshot_id() == before + 2


def test_by_last_write() -> None:
    made = Made(**UPDATED)
    made.write(1, 2, None)
    made.clock.sleep(1800)
    made.write(2)
    made.clock.sleep(2400)
    assert expire_partitions(made.store) == [{"pt": "1"}, {"pt": "__DEFAULT_PARTITION__"}]
    assert made.days() == [2, 2]


@pytest.mark.parametrize(
    "options",
    [{"partition.expiration-time": "0 s"}, {"partition.expiration-max-num": "-1"}, {"partition.expiration-time": None}],
)
def test_what_would_take_everything_is_refused(options: dict[str, Any]) -> None:
    made = Made(**WEEK)
    made.write(NEW)
    files = dict(made.storage.files)
    with pytest.raises(InvalidError):
        expire_partitions(made.store.with_options(options))
    assert made.storage.files == files


@pytest.mark.parametrize("strategy", ["values-time", "update-time"])
def test_a_time_from_before_the_calendar_keeps_everything(strategy: str) -> None:
    made = Made(**WEEK, **{"partition.expiration-strategy": strategy})
    made.write(*OLD)
    for span in ("99999999 d", f"{2**63 - 1} ms"):
        store = made.store.with_options({"partition.expiration-time": span})
        assert expire_partitions(store) == [] and made.days() == list(OLD)
        keeps = worth_compacting(store.with_options({"compaction.skip-expired-partitions": "true"}))
        assert keeps is None or all(keeps(partition(day)) for day in OLD)


def test_days_on_which_clocks_are_put_back_are_kept_as_long_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/New_York")
        time.tzset()
        made = Made(**{**WEEK, "partition.expiration-time": "1 d"})
        made.clock.millis = 1_793_593_800_000  # 2026-11-01 23:30, of a day with 25 hours
        made.write(20261031, 20261101)
        assert expire_partitions(made.store) == spec(20261031) and made.days() == [20261101]
    time.tzset()


def test_values_that_are_no_time() -> None:
    strict = {"partition.timestamp-format.strict": "true"}
    made = Made(**WEEK, **strict)
    made.write(OLD[0])
    for odd in (7, None):
        with pytest.raises(InvalidError, match=r"does not match the 'partition\.timestamp-formatter'"):
            made.write(odd)
    assert made.days() == [OLD[0]]
    free = Made(**strict)
    free.write(7)
    assert free.days() == [7]


def test_when_commits_look() -> None:
    single = Made(**WEEK, **{"end-input.check-partition-expire": "true"})
    single.write(*OLD)
    after_commit(single.store, single.store.latest_snapshot())
    assert single.days() == []
    made = Made(root="memory://wh/db.db/looked", **WEEK, **{"partition.expiration-check-interval": "1 h"})
    made.write(OLD[0])
    for pause, left in ((0, [OLD[0]]), (3500, [OLD[0]]), (200, [])):
        made.clock.sleep(pause)
        after_commit(made.store, made.store.latest_snapshot())
        assert made.days() == left, pause


def test_partitions_that_are_written_meanwhile() -> None:
    """By values they go with what was added; by their last write they stay, and nothing is committed."""
    for options, kept in ((WEEK, [NEW]), (UPDATED, [OLD[0], OLD[0], NEW])):
        made = Made(**options)
        made.write(OLD[0])
        made.clock.sleep(3700)
        made.write(NEW)
        done: list[bool] = []

        def meanwhile(k: int, operation: str, path: str, made: Made = made, done: list[bool] = done) -> None:
            if operation == "put_if_absent" and "/snapshot/" in path and not done:
                done.append(True)
                made.write(OLD[0])

        faulty = FaultStorage(made.storage, meanwhile)  # type: ignore[arg-type]
        store = make_store(faulty, made.clock, made.store.schema)
        failed: list[events.Event] = []
        stop = events.subscribe(failed.append, events.CommitFailed)
        gone = expire_partitions(store)
        stop()
        assert not failed
        assert gone == (spec(OLD[0]) if options is WEEK else []) and made.days() == kept
        newest = made.store.latest_snapshot()
        assert newest is not None and newest.id == (4 if options is WEEK else 3)
        check_table(made.store)


@pytest.mark.parametrize("fault", [FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE, KILL_AFTER])
def test_a_death_anywhere_drops_nothing_twice(fault: str) -> None:
    for call in itertools.count(0, 3):
        made = Made(**WEEK)
        made.write(*OLD, NEW)
        storage = FaultStorage(made.storage, lambda k, operation, path, call=call: fault if k == call else None)  # type: ignore[misc]
        with suppress(BucketlakeError, Killed):
            expire_partitions(_over(storage, made))
        expire_partitions(made.store)
        newest = made.store.latest_snapshot()
        assert made.days() == [NEW] and newest is not None and newest.id == 5, (call, newest)
        check_table(made.store)
        if len(storage.calls) <= call:
            break
    assert call > 10


def _over(storage: FaultStorage, made: Made) -> Store:
    return make_store(storage, made.clock, made.store.schema)
