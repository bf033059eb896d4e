"""Progress of long operations: counts, time left, and a line of text for whoever looks."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from itertools import pairwise

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage

from bucketlake import Table, events
from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.ops.clean import expire
from bucketlake.ops.clean.orphans import Run, remove_orphans
from bucketlake.ops.progress import Bar, Meter, OnProgress, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_meter_counts_and_tells() -> None:
    seen: list[Progress] = []
    clock = FakeClock()
    meter = Meter("compact", "db.t", clock, seen.append)
    meter.expect(units=4, rows=100, bytes=1000)
    clock.sleep(10)
    meter.add(rows=25, bytes=500)
    assert (seen[-1].units, seen[-1].rows, seen[-1].share) == (1, 25, 0.5)
    assert round(seen[-1].seconds) == 10 and round(seen[-1].seconds_left or 0) == 10
    meter.commit()
    meter.lose(2)
    meter.finish()
    assert (seen[-1].commits, seen[-1].lost, seen[-1].done, seen[-1].share) == (1, 2, True, 1.0)
    assert len(seen) == 5


def test_nobody_listens_nobody_pays() -> None:
    clock = FakeClock()
    before = clock.millis
    meter = Meter("compact", "db.t", clock)
    meter.add(rows=5)
    assert meter.finish().rows == 5 and clock.millis == before


def test_what_is_not_known_is_not_told() -> None:
    assert Progress("expire", "t", units=3).share is None
    assert Progress("expire", "t", units=3).seconds_left is None
    assert "of" not in str(Progress("expire", "t", units=3))
    assert "3 of 4 units, 1,000 rows, 2.0 KiB" in str(Progress("compact", "t", 3, 4, 1000, 0, 2048, 0))


def test_a_bar_is_for_terminals() -> None:
    pipe, terminal = io.StringIO(), Terminal()
    for stream in (pipe, terminal):
        bar = Bar(stream)
        bar(Progress("compact", "db.t", 1, 2, seconds=1.0))
        bar(Progress("compact", "db.t", 1, 2, seconds=1.05))  # too soon
        bar(Progress("compact", "db.t", 2, 2, seconds=1.06, done=True))
    assert pipe.getvalue() == ""
    shown = terminal.getvalue().split("\r")[1:]
    assert len(shown) == 2 and " 50%" in shown[0] and shown[1].endswith("\n")


# ---- what long operations tell

SCHEMA = pa.schema([pa.field("dt", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False)])
FUTURE = 1 << 60


def table_of(snapshots: int, storage: MapStorage | None = None, options: Mapping[str, str] | None = None) -> Table:
    """So many snapshots, each of two rows in two partitions; all partitions are old."""
    catalog = Catalog(Env(storage or MapStorage(), FakeClock(3)), "memory://wh")
    given = {"bucket": "1", "write-only": "true", "partition.expiration-time": "1 d", **(options or {})}
    table = catalog.create_table("default.t", SCHEMA, ["dt"], ["dt", "k"], given)
    for number in range(snapshots):
        table.write_arrow(pa.table({"dt": ["2001-01-01", "2001-01-02"], "k": [number, number]}, schema=SCHEMA))
    return table


def told(run: Callable[[OnProgress], object]) -> list[Progress]:
    """What was told, in an order that only grows and ends."""
    seen: list[Progress] = []
    run(seen.append)
    for before, after in pairwise(seen):
        assert (before.units, before.rows, before.bytes) <= (after.units, after.rows, after.bytes)
    assert [one.done for one in seen] == [False] * (len(seen) - 1) + [True]
    assert {one.table for one in seen} == {"default.t"}
    return seen


def interrupt(after: int) -> OnProgress:
    """Ctrl-C once so many units are done."""

    def tell(progress: Progress) -> None:
        if progress.units >= after:
            raise KeyboardInterrupt

    return tell


def test_a_rescale_tells_and_an_interrupt_gives_it_up() -> None:
    storage = MapStorage()
    table = table_of(2, storage)
    files, before = set(storage.files), table.latest_snapshot()
    with pytest.raises(KeyboardInterrupt):
        table.rescale(4, on_progress=interrupt(1))
    assert table.latest_snapshot() == before and set(storage.files) == files
    last = told(lambda tell: table.rescale(4, on_progress=tell))[-1]
    assert (last.units, last.rows, last.commits) == (last.total_units, 4, 1) and last.bytes == last.total_bytes > 0
    assert told(lambda tell: table.rescale(4, [{"dt": "gone"}], on_progress=tell))[-1].total_units == 0


def test_expiring_snapshots_tells_of_rounds_and_an_interrupt_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expire, "ROUND", 2)
    table = table_of(8)
    with pytest.raises(KeyboardInterrupt):
        table.expire_snapshots(1, 1, on_progress=interrupt(2))
    assert [snapshot.id for snapshot in table.snapshots()] == [3, 4, 5, 6, 7, 8]
    seen = told(lambda tell: table.expire_snapshots(1, 1, on_progress=tell))
    assert [one.units for one in seen] == [0, 2, 4, 5, 5] and {one.total_units for one in seen} == {5}


def test_due_by_time_and_consumers_is_told_beforehand() -> None:
    table = table_of(6)
    times = [snapshot.time_millis for snapshot in table.snapshots()]
    old = datetime.fromtimestamp(times[3] / 1000 + 0.0005, timezone.utc)
    first = told(lambda tell: table.expire_snapshots(9, 1, old, 2, on_progress=tell))
    assert (first[0].total_units, first[-1].units) == (2, 2)  # as many as may
    table.reset_consumer("reader", 3)
    held = told(lambda tell: table.expire_snapshots(1, 1, on_progress=tell))
    assert (held[0].total_units, held[-1].units) == (0, 0)
    table.clear_consumers()
    rest = told(lambda tell: table.expire_snapshots(9, 1, old, on_progress=tell))
    assert rest[0].total_units == rest[-1].units == len(times) - 2 - len(table.snapshots())


def test_expiring_partitions_tells_of_commits_and_an_interrupt_leaves_the_rest() -> None:
    table = table_of(2, options={"partition.expiration-batch-size": "1"})
    with pytest.raises(KeyboardInterrupt):
        table.expire_partitions(on_progress=interrupt(1))
    assert table.partitions() == [{"dt": "2001-01-02"}]
    last = told(lambda tell: table.expire_partitions(on_progress=tell))[-1]
    assert (last.units, last.total_units, last.rows, last.total_rows, last.commits) == (1, 1, 2, 2, 1)
    assert last.bytes == last.total_bytes > 0 and table.partitions() == []


@pytest.mark.parametrize("run", [None, lambda action, units: [action(unit) for unit in units]], ids=["here", "tasks"])
def test_cleaning_orphans_tells_of_what_is_read_and_walked(run: Run | None) -> None:
    storage = MapStorage()
    table = table_of(3, storage)
    table.create_tag("kept", 1)
    stray = table.store.paths.bucket_dir(table.plan().entries[0].partition, 0) + "/data-stray-0.parquet"
    storage.write(stray, b"1234567")
    seen = told(lambda tell: remove_orphans(table.store, FUTURE, False, 1, run, tell))
    assert seen[-1].bytes == 7 and seen[-1].units == seen[-1].total_units > 3 and stray not in storage.files
    if run is None:
        with pytest.raises(KeyboardInterrupt):
            remove_orphans(table.store, FUTURE, on_progress=interrupt(2))


def test_who_listens_to_events_hears_of_an_expiry_that_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expire, "ROUND", 1)
    table = table_of(3)
    heard: list[events.Event] = []
    stop = events.subscribe(heard.append)
    with pytest.raises(KeyboardInterrupt):
        table.expire_snapshots(1, 1, on_progress=interrupt(1))
    stop()
    assert [(type(one).__name__, getattr(one, "snapshots", 0)) for one in heard] == [("SnapshotsExpired", 1)]
