"""A newest snapshot whose file is damaged: the ways out, what each loses, and deaths and writers on the way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, KILL_BEFORE, FaultStorage, Killed, MapStorage
from tests.sim.tables import create_table, table_schema

from bucketlake.errors import BucketlakeError, CorruptError, NotFoundError
from bucketlake.ops.table.store import clear_cache
from bucketlake.table import Table

ALLOW = ("newest-broken",)


def rows(number: int) -> pa.Table:
    schema = pa.schema([("pt", pa.int32()), ("k", pa.int64()), ("v", pa.string())])
    return pa.table([[1], [number], [f"of {number}"]], schema=schema)


def made(commits: int = 3) -> tuple[MapStorage, Table]:
    """A table of so many commits, a row each."""
    storage = MapStorage()
    table = Table(create_table(storage, FakeClock(), table_schema(bucket=1, options={"write-only": "true"})), "t")
    for number in range(1, commits + 1):
        table.write_arrow(rows(number))
    return storage, table


def damage(storage: MapStorage, table: Table, snapshot: int, data: bytes = b'{"version": 3, "id"') -> None:
    storage.files[table.store.paths.snapshot(snapshot)] = data
    clear_cache()


def over(table: Table, storage: object) -> Table:
    clear_cache()
    return replace(table, store=replace(table.store, env=replace(table.store.env, storage=storage)))


def keys(table: Table) -> list[int]:
    return sorted(table.to_arrow()["k"].to_pylist())


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\x00garbage", b'{"version": 3, "id": 17}'])
def test_a_repair_that_is_told_so_goes_back_one_commit(data: bytes) -> None:
    storage, table = made()
    damage(storage, table, 3, data)
    report = table.fsck()
    assert report.codes - {"orphan-file"} == {"newest-broken"}
    before = dict(storage.files)
    assert table.repair(report, dry_run=False).actions[0].state == "to be named"
    assert table.repair(report, ALLOW).actions[0].state == "would mend"
    assert storage.files == before
    table.repair(report, ALLOW, dry_run=False)
    assert keys(table) == [1, 2] and table.fsck().codes <= {"orphan-file"}
    table.write_arrow(rows(9))
    assert keys(table) == [1, 2, 9] and table.snapshots()[-1].id == 3


def test_what_it_names_are_no_orphans_to_remove() -> None:
    """Its file may yet be restored from a copy."""
    storage, table = made()
    damage(storage, table, 3)
    before = dict(storage.files)
    with pytest.raises(CorruptError):
        table.remove_orphan_files()
    assert storage.files == before


def test_several_are_damaged() -> None:
    storage, table = made(4)
    for snapshot in (3, 4):
        damage(storage, table, snapshot)
    table.repair(table.fsck(), ALLOW, dry_run=False)
    assert keys(table) == [1, 2] and table.fsck().codes <= {"orphan-file"}


def test_where_nothing_can_be_read_nothing_goes() -> None:
    storage, table = made(1)
    damage(storage, table, 1)
    report = table.fsck()
    assert report.codes - {"orphan-file"} == {"snapshot-broken"}
    before = dict(storage.files)
    assert {one.state for one in table.repair(report, ALLOW, dry_run=False).actions} == {"cannot", "to be named"}
    with pytest.raises(NotFoundError, match=r"no snapshot behind .*newest-broken"):
        table.repair(report, ("snapshot-broken",), dry_run=False)
    with pytest.raises(NotFoundError, match="rollback|exist"):
        table.rollback_to(2)
    assert storage.files == before


def test_a_tag_of_it_gives_it_back_whole() -> None:
    storage, table = made()
    table.create_tag("kept", 3)
    damage(storage, table, 3)
    table.repair(table.fsck(), ALLOW, dry_run=False)
    assert keys(table) == [1, 2, 3] and set(table.tags()) == {"kept"} and table.fsck().codes <= {"orphan-file"}
    damage(storage, table, 3)
    table.rollback_to("kept")
    assert keys(table) == [1, 2, 3]


@pytest.mark.parametrize("damaged", [(3,), (2, 3)])
def test_a_rollback_passes_it(damaged: tuple[int, ...]) -> None:
    storage, table = made()
    for snapshot in damaged:
        damage(storage, table, snapshot)
    assert table.rollback_to(1).id == 1
    assert keys(table) == [1] and table.fsck().codes <= {"orphan-file"}


def test_what_somebody_mended_meanwhile_stays() -> None:
    storage, table = made()
    whole = storage.files[table.store.paths.snapshot(3)]
    damage(storage, table, 3)
    report = table.fsck()
    damage(storage, table, 3, whole)
    table.repair(report, ALLOW, dry_run=False)
    assert keys(table) == [1, 2, 3]
    damage(storage, table, 3)
    report = table.fsck()
    table.repair(report, ALLOW, dry_run=False)
    table.write_arrow(rows(7))
    table.repair(report, ALLOW, dry_run=False)
    assert keys(table) == [1, 2, 7]


def test_what_a_writer_that_had_read_it_commits_meanwhile_stays() -> None:
    """It had read the snapshot before it was damaged, and commits at any step of the repair."""
    for at in range(60):
        storage, table = made()
        path = table.store.paths.snapshot(3)
        whole, calls = storage.files[path], []
        damage(storage, table, 3)
        report = table.fsck()

        def meanwhile(
            k: int, operation: str, name: str, files: dict[str, bytes] = storage.files, at: int = at, path: str = path
        ) -> None:
            calls.append(operation)
            if k == at and path in files:
                own = MapStorage()
                own.files = {**files, path: whole}
                over(table, own).write_arrow(rows(8))
                files.update({one: data for one, data in own.files.items() if one != path})
                clear_cache()

        over(table, FaultStorage(storage, meanwhile)).repair(report, ALLOW, dry_run=False)
        left = over(table, storage)
        if 8 in keys(left):
            assert keys(left) == [1, 2, 3, 8]
        else:
            assert keys(left) == [1, 2] and (at >= len(calls) or not left.store.has_snapshot(4)), at
    assert len(calls) < 60


@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER])
@pytest.mark.parametrize("tagged", [False, True])
def test_it_dies_at_every_call(fault: str, tagged: bool) -> None:
    """In between a reader is refused, or reads what is wanted in the end; the same repair finishes it."""
    start, table = made()
    if tagged:
        table.create_tag("kept", 3)
    damage(start, table, 3)
    wanted = [1, 2, 3] if tagged else [1, 2]
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
        try:
            assert keys(left) == wanted
        except CorruptError:
            left.repair(left.fsck(), ALLOW, dry_run=False)
        left.repair(left.fsck(), dry_run=False)
        assert keys(left) == wanted
        assert not {one.code for one in left.fsck().findings} - {"orphan-file"}
        assert left.rollback_to(1).id == 1
        if at >= len(faulty.calls):
            break
    assert calls > 10 and at < 199


def nth(at: int, fault: str) -> Callable[[int, str, str], str | None]:
    return lambda k, operation, path: fault if k == at else None


def test_rollback_of_a_table_without_snapshots_is_refused() -> None:
    table = Table(create_table(MapStorage(), FakeClock(), table_schema()), "t")
    with pytest.raises(NotFoundError, match="Latest snapshot is null"):
        table.rollback_to(1)
