"""A damaged snapshot or changelog that is not the newest: nothing expires until the history begins behind it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, KILL_BEFORE, FaultStorage, Killed, MapStorage
from tests.sim.tables import create_table, table_schema

from bucketlake.errors import BucketlakeError, CorruptError
from bucketlake.ops.check.repair import Repair
from bucketlake.ops.table.store import clear_cache
from bucketlake.table import Table

from .test_newest_broken import damage, keys, made, nth, over, rows

ALLOW = ("snapshot-broken",)
CHANGES = ("changelog-broken",)
KEPT = {"retain_max": 1, "retain_min": 1}


def states(done: Repair) -> set[str]:
    """What became of the damaged files."""
    return {one.state for one in done.actions if one.finding.code in (*ALLOW, *CHANGES)}


def expires(table: Table) -> None:
    """Expiry and removal of orphans go on, and leave the rows."""
    before = keys(table)
    table.expire_snapshots(**KEPT)
    clock = table.store.env.clock
    clock.millis += 10**9
    table.remove_orphan_files(older_than=datetime.fromtimestamp(clock.now_millis() / 1000 - 1))
    assert keys(table) == before and table.fsck("rows").codes == set()


def test_the_history_begins_behind_it() -> None:
    storage, table = made(5)
    table.create_tag("kept", 2)
    damage(storage, table, 3)
    report = table.fsck()
    assert report.codes - {"orphan-file"} == {"snapshot-broken"}
    before = dict(storage.files)
    for call in (lambda: table.expire_snapshots(**KEPT), table.remove_orphan_files):
        with pytest.raises(CorruptError):
            call()
    assert states(table.repair(report, dry_run=False)) == {"to be named"}
    assert states(table.repair(report, ALLOW)) == {"would mend"}
    assert storage.files == before
    table.repair(report, ALLOW, dry_run=False)
    assert [one.id for one in table.snapshots()] == [4, 5] and keys(table) == [1, 2, 3, 4, 5]
    expires(table)
    assert table.to_arrow(**{"scan.tag-name": "kept"}).num_rows == 2
    assert table.rollback_to("kept").id == 2


@pytest.mark.parametrize("damaged", [(1,), (2, 3), (1, 4)])
def test_several_are_damaged(damaged: tuple[int, ...]) -> None:
    storage, table = made(5)
    for snapshot in damaged:
        damage(storage, table, snapshot)
    table.repair(table.fsck(), ALLOW, dry_run=False)
    assert [one.id for one in table.snapshots()] == list(range(max(damaged) + 1, 6))
    expires(table)


def test_what_somebody_mended_meanwhile_stays() -> None:
    storage, table = made()
    whole = storage.files[table.store.paths.snapshot(2)]
    damage(storage, table, 2)
    report = table.fsck()
    damage(storage, table, 2, whole)
    table.repair(report, ALLOW, dry_run=False)
    assert [one.id for one in table.snapshots()] == [1, 2, 3]


@pytest.mark.parametrize("target", [1, 2])
@pytest.mark.parametrize("what", ["repair", "expiry"])
def test_a_rollback_meanwhile_keeps_what_it_goes_to(what: str, target: int) -> None:
    """A whole rollback between any two calls, to a snapshot that goes."""
    for at in range(200):
        storage, table = made(4)
        table.create_tag("kept", target)
        if what == "repair":
            damage(storage, table, 3)
        report = table.fsck()
        calls: list[str] = []

        def meanwhile(k: int, operation: str, name: str, storage: MapStorage = storage, at: int = at) -> None:
            calls.append(operation)
            if k == at:
                over(table, storage).rollback_to("kept")
                clear_cache()

        own = over(table, FaultStorage(storage, meanwhile))
        with suppress(BucketlakeError):
            own.repair(report, ALLOW, dry_run=False) if what == "repair" else own.expire_snapshots(**KEPT)
        left = over(table, storage)
        assert keys(left) == list(range(1, 1 + (target if at < len(calls) else 4))), at
        left.write_arrow(rows(9))
        assert 9 in keys(left) and left.fsck().codes <= {"orphan-file", "hint-earliest"}
        if at >= len(calls):
            break
    assert 10 < at < 199


@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER])
def test_it_dies_at_every_call(fault: str) -> None:
    start, table = made(4)
    damage(start, table, 2)
    calls = 0
    for at in range(200):
        storage = MapStorage()
        storage.files = dict(start.files)
        report = over(table, storage).fsck()
        faulty = FaultStorage(storage, nth(at, fault))
        with suppress(Killed, BucketlakeError):
            over(table, faulty).repair(report, ALLOW, dry_run=False)
        calls = max(calls, len(faulty.calls))
        left = over(table, storage)
        assert keys(left) == [1, 2, 3, 4]
        left.repair(left.fsck(), ALLOW, dry_run=False)
        expires(left)
        if at >= len(faulty.calls):
            break
    assert calls > 10 and at < 199


@pytest.mark.parametrize("broken", [1, 3, 5])
def test_changelogs_begin_behind_one(broken: int) -> None:
    storage = MapStorage()
    options = {"changelog-producer": "input", "changelog.num-retained.max": "99", "write-only": "true"}
    table = Table(create_table(storage, FakeClock(), table_schema(bucket=1, options=options)), "t")
    for number in range(1, 7):
        table.write_arrow(rows(number))
    table.expire_snapshots(**KEPT)
    assert table.store.changelog_ids() == [1, 2, 3, 4, 5]
    storage.files[table.store.paths.changelog(broken)] = b"no"
    clear_cache()
    report = table.fsck()
    assert report.codes - {"orphan-file", "hint-changelog"} == {"changelog-broken"}
    with pytest.raises(CorruptError):
        table.expire_changelogs(everything=True)
    assert states(table.repair(report, dry_run=False)) == {"to be named"}
    table.repair(report, CHANGES, dry_run=False)
    assert table.store.changelog_ids() == list(range(broken + 1, 6)) and keys(table) == [1, 2, 3, 4, 5, 6]
    expires(table)
    table.write_arrow(rows(7))
    table.expire_snapshots(**KEPT)
    assert table.store.changelog_ids() == [*range(broken + 1, 6), 6]
    table.expire_changelogs(everything=True)
    assert table.store.changelog_ids() == [] and table.fsck().codes == set()
