"""The maintainer: rules, one leader by a lease, what it does in a pass, how it ends."""

from __future__ import annotations

import itertools
import os
import signal
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.schedule import Scheduler
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, FaultStorage, MapStorage, fault_on

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import InvalidError
from bucketlake.maintenance import service
from bucketlake.maintenance.lease import FOLDER, Lease
from bucketlake.maintenance.rules import DEFAULT_RULES, Event, Rule, rules_of
from bucketlake.maintenance.service import Service, maintain

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
WAREHOUSE = "memory://wh"


def catalog_on(storage: Any, clock: FakeClock) -> Catalog:
    return Catalog(Env(storage, clock), WAREHOUSE)


def filled(catalog: Catalog, name: str, keyed: bool = True, **options: str) -> Any:
    given = {"bucket": "1" if keyed else "-1", "write-only": "true", **options}
    table = catalog.create_table(f"default.{name}", SCHEMA, [], ["k"] if keyed else [], given)
    for version in range(6):
        table.write_arrow(pa.table({"k": [1, 2], "v": [version, version]}, schema=SCHEMA))
    return table


def ran(events: list[Event], kind: str = "did") -> list[tuple[str, str]]:
    return [(event.action, event.table) for event in events if event.kind == kind]


def test_one_pass_does_what_is_due() -> None:
    catalog = catalog_on(MapStorage(), FakeClock(1))
    kept = {"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "1"}
    keyed, log = filled(catalog, "a", **kept), filled(catalog, "log", keyed=False)
    other = filled(catalog, "other")
    rules = rules_of(
        [{"action": "compact", "excluding": ".*other"}, {"action": "expire_snapshots", "tables": ".*[.]a"}]
    )
    events = maintain(catalog, Service(rules), once=True)
    assert ran(events) == [("compact", "default.a"), ("compact", "default.log")]
    assert [event.kind for event in events] == ["leads", "did", "did", "nothing"], "compaction expires at its end"
    assert len(keyed.files()) == 1 == len(log.files()) and len(other.files()) == 6
    assert len(keyed.snapshots()) == 2
    assert catalog.list_databases() == ["default"] and catalog.list_tables("default") == ["a", "log", "other"]


def test_the_usual_rules_on_a_healthy_table_do_nothing() -> None:
    catalog = catalog_on(MapStorage(), FakeClock(1))
    filled(catalog, "t").compact()
    events = maintain(catalog, Service(), once=True)
    assert ran(events, "nothing") == [(rule.action, "default.t") for rule in DEFAULT_RULES]


def test_turns_come_by_time_and_end_when_told() -> None:
    clock = FakeClock(1)
    catalog = catalog_on(MapStorage(), clock)
    table = filled(catalog, "t")
    times: list[int] = []

    def told(event: Event) -> None:
        if event.action == "compact":
            times.append(clock.millis)
            if event.kind == "did":
                for _ in range(6):
                    table.write_arrow(pa.table({"k": [1], "v": [9]}, schema=SCHEMA))
        if len(times) == 4:
            raise KeyboardInterrupt

    rules = (Rule("compact", every="1 min", sorted_runs=3), Rule("expire_tags", every="7 h"))
    events = maintain(catalog, Service(rules, on_event=told))
    assert events[-1].kind == "stopped"
    assert all(60_000 <= later - first < 75_000 for first, later in itertools.pairwise(times))
    assert catalog_on(catalog.env.storage, clock).table("default.t").latest_snapshot() is not None
    assert maintain(catalog, Service(rules), once=True)[0].kind == "leads", "the lease was given back"


def test_sigterm_ends_it() -> None:
    catalog = catalog_on(MapStorage(), FakeClock(1))
    filled(catalog, "t")
    before = signal.getsignal(signal.SIGTERM)
    rules = (Rule("compact", every="1 min"),)
    events = maintain(catalog, Service(rules, on_event=lambda event: os.kill(os.getpid(), signal.SIGTERM)))
    assert events[-1].kind == "stopped" and signal.getsignal(signal.SIGTERM) == before


def test_what_fails_stops_nothing_else() -> None:
    storage = MapStorage()
    catalog = catalog_on(storage, FakeClock(1))
    broken, good = filled(catalog, "a"), filled(catalog, "b")
    storage.delete(broken.files()[0].path)
    events = maintain(catalog, Service((Rule("compact", full=True),)), once=True)
    assert ran(events, "failed") == [("compact", "default.a")] and ran(events) == [("compact", "default.b")]
    assert len(good.files()) == 1


@pytest.mark.parametrize("place", ["a job", "between jobs"])
@pytest.mark.parametrize("told", ["as a class is made", "by PySpark"])
def test_ctrl_c_that_another_error_replaces_ends_it(monkeypatch: pytest.MonkeyPatch, place: str, told: str) -> None:
    catalog = catalog_on(MapStorage(), FakeClock(1))
    filled(catalog, "a")

    def interrupted(*given: Any) -> None:
        if told == "as a class is made":
            raise RuntimeError("Error calling __set_name__ on 'Field' instance") from KeyboardInterrupt()
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("Exception thrown in awaitResult: the job was cancelled")

    if place == "a job":
        monkeypatch.setattr(service, "run_job", interrupted)
    else:
        monkeypatch.setattr(Catalog, "list_databases", interrupted)
    events = maintain(catalog, Service((Rule("compact", full=True),)), once=True)
    assert [event.kind for event in events] == ["leads", "stopped"]


def test_small_files_are_followed_from_turn_to_turn() -> None:
    """Two files are few; once nothing came for some turns they are merged all the same."""
    clock = FakeClock(1)
    catalog = catalog_on(MapStorage(), clock)
    table = catalog.create_table("default.t", SCHEMA, [], [], {"bucket": "-1", "write-only": "true"})
    for version in range(2):
        table.write_arrow(pa.table({"k": [version], "v": [0]}, schema=SCHEMA))
    kinds: list[str] = []

    def told(event: Event) -> None:
        if event.action:
            kinds.append(event.kind)
            if event.kind == "did":
                raise KeyboardInterrupt

    maintain(catalog, Service((Rule("compact"),), on_event=told))
    assert kinds == ["nothing"] * 5 + ["did"]
    assert len(catalog.table("default.t").files()) == 1


def test_tables_that_are_clustered_incrementally_are_clustered() -> None:
    catalog = catalog_on(MapStorage(), FakeClock(1))
    options = {"clustering.columns": "v", "clustering.incremental": "true", "num-sorted-run.compaction-trigger": "2"}
    table = filled(catalog, "t", keyed=False, **options)
    assert ran(maintain(catalog, Service((Rule("compact"),)), once=True)) == [("compact", "default.t")]
    (file,) = table.files()
    assert file.file.level > 0


# ---- leaders


def test_one_leads_and_the_next_one_takes_over() -> None:
    clock, storage = FakeClock(1), MapStorage()
    env = Env(storage, clock)
    first, second = (Lease(env, WAREHOUSE, name, 60_000) for name in ("first", "second"))
    assert first.hold() and not second.hold() and first.hold()
    clock.sleep(40)
    assert first.hold() and not second.hold(), "kept before its time was over"
    clock.sleep(61)
    assert second.hold() and not first.hold()
    found = second.current()
    assert found is not None and found.holder == "second"
    second.release()
    assert first.hold()
    assert len([path for path in storage.files if FOLDER in path]) == 1, "old numbers are removed"


def test_nobody_holds_a_lease_that_is_not_one() -> None:
    clock, storage = FakeClock(1), MapStorage()
    storage.write(f"{WAREHOUSE}/{FOLDER}/lease-{'9' * 5000}", b"of no number")
    damaged = (b"{", b"[" * 100_000, b'{"holder": "them", "until": Infinity}', b'{"holder": "them", "until": []}')
    for number, data in enumerate(damaged):
        storage.write(f"{WAREHOUSE}/{FOLDER}/lease-{number + 1}", data)
        assert Lease(Env(storage, clock), WAREHOUSE, "me", 60_000).hold()
        storage.delete(f"{WAREHOUSE}/{FOLDER}/lease-{number + 2}")
    storage.write(f"{WAREHOUSE}/{FOLDER}/lease-7", b"{")
    lease = Lease(Env(storage, clock), WAREHOUSE, "me", 60_000)
    assert lease.hold()
    storage.write(f"{WAREHOUSE}/{FOLDER}/lease-9", b'{"holder": "them", "until": 99999999999999}')
    clock.sleep(31)
    assert lease.hold(), "a time beyond reason holds nothing"


@pytest.mark.parametrize("fault", [FAIL_BEFORE, FAIL_AFTER])
def test_lost_answers_to_a_lease(fault: str) -> None:
    inner, clock = MapStorage(), FakeClock(1)
    faulty = FaultStorage(inner, fault_on("put_if_absent", FOLDER, fault))
    events = maintain(catalog_on(faulty, clock), Service(), once=True)
    assert [event.kind for event in events] == ["failed"]
    assert maintain(catalog_on(inner, clock), Service(), once=True)[0].kind == (
        "leads" if fault == FAIL_BEFORE else "waits"
    )
    clock.sleep(301)
    assert maintain(catalog_on(inner, clock), Service(), once=True)[0].kind == "leads"


@pytest.mark.parametrize("seed", range(20))
def test_of_many_one_holds_it_at_a_time(seed: int) -> None:
    inner, scheduler, clock = MapStorage(), Scheduler(seed), FakeClock(seed)
    holds: list[tuple[int, int, str]] = []

    def plan(k: int, operation: str, path: str) -> None:
        scheduler.pause()

    def run(name: str) -> None:
        lease = Lease(Env(FaultStorage(inner, plan), clock), WAREHOUSE, name, 1000)
        for _ in range(6):
            if lease.hold():
                found = lease.current()
                if found is not None and found.holder == name:
                    holds.append((found.number, found.until, name))
            clock.millis += 300

    for name in "abc":
        scheduler.spawn(name, lambda name=name: run(name))  # type: ignore[misc]
    scheduler.finish()
    by_number = {number: name for number, _, name in holds}
    assert all(by_number[number] == name for number, _, name in holds), "a number has one holder"


def test_a_leader_that_loses_its_lease_ends_with_what_is_finished() -> None:
    clock, storage = FakeClock(1), MapStorage()
    catalog = catalog_on(storage, clock)
    table = catalog.create_table(
        "default.t", SCHEMA, ["k"], ["k", "v"], {"bucket": "1", "write-only": "true", "compaction.commit-size": "1 b"}
    )
    for version in range(3):
        table.write_arrow(pa.table({"k": list(range(4)), "v": [version] * 4}, schema=SCHEMA))
    other = Lease(catalog.env, WAREHOUSE, "other", 60_000)

    def steal(progress: Any) -> None:
        if progress.units:
            clock.sleep(400)
            assert other.hold()

    events = maintain(catalog, Service((Rule("compact", full=True),), on_progress=steal), once=True)
    assert [event.kind for event in events][:2] == ["leads", "waits"] and events[-1].kind == "lost"
    assert catalog.table("default.t").latest_snapshot().commit_kind.value == "COMPACT"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "given",
    [
        {"action": "fly"},
        {"tables": "a"},
        {"action": "compact", "tables": "("},
        {"action": "compact", "when": "now"},
        {"action": "compact", "every": "soon"},
        {"action": "compact", "every": "0 s"},
        {"action": "compact", "sorted_runs": 0},
        {"action": "expire_tags", "full": True},
    ],
)
def test_rules_that_cannot_be_meant(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        rules_of([given])
    with pytest.raises(InvalidError):
        rules_of([])
