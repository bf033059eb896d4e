"""Tags, branches and rollbacks of real tables: what is read before and after, and which files stay."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ops.test_expire import KINDS, made, make_branch, put, rows_of
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_BEFORE, KILL_BEFORE, FaultStorage, Killed, MapStorage, fault_on
from tests.sim.tables import create_table, make_store

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CommitUnknownError,
    ConflictError,
    CorruptError,
    InvalidError,
    NotFoundError,
    StorageError,
)
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.format.metadata.snapshot import Snapshot, encode_snapshot
from bucketlake.ops.check.fault import LEVELS
from bucketlake.ops.check.fsck import FsckRequest, fsck
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.publish import Publisher
from bucketlake.ops.commit.strays import Standing, standing
from bucketlake.ops.refs.rollback import take_after
from bucketlake.ops.refs.tags import tag_created, tag_lifetime
from bucketlake.ops.scan.scan import delta_entries, live_entries
from bucketlake.ops.table.partition_times import filled_pattern, parse_time
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, DataField


def filled(folder: Path, kind: str) -> tuple[Table, dict[int, Any]]:
    table = made(folder, kind)
    for number in range(1, 5):
        put(table, (1, number, number), (2, number + 1, -number))
    return table, {one.id: rows_of(table, scan_snapshot_id=one.id) for one in table.snapshots()}


def paths(table: Table) -> set[str]:
    return {str(path) for path in Path(table.path).rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_state_comes_back(tmp_path: Path, kind: str) -> None:
    table, states = filled(tmp_path, kind)
    newest = max(states)
    table.create_tag("one", 1)
    table.create_tag("last")
    assert table.rollback_to_as_latest(2).id == newest + 1
    assert rows_of(table) == states[2]
    table.rollback_to(newest)
    assert rows_of(table) == states[newest] and "last" in table.tags()
    table.rollback_to(3)
    assert rows_of(table) == states[3] and "last" not in table.tags()
    assert [one.id for one in table.snapshots()] == [1, 2, 3]
    put(table, (1, 9, 9))
    assert (1, 9, 9) in rows_of(table)
    table.create_branch("b", "one")
    catalog = bucketlake.open(tmp_path)
    branch = catalog.table("t$branch_b")
    put(branch, (1, 7, 7))
    mine = rows_of(branch)
    assert mine != states[1] and (1, 7, 7) not in rows_of(table)
    table.fast_forward("b")
    assert rows_of(table) == mine
    put(table, (1, 8, 8))
    assert len(rows_of(table)) == len(mine) + 1
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert rows_of(table, scan_tag_name="one") == states[1] and rows_of(branch) == mine
    table.rollback_to("one")
    assert rows_of(table) == states[1]
    put(table, (2, 8, 8))
    table.purge()
    assert rows_of(table) == [] and table.branches() == [] and len(table.snapshots()) == 1
    put(table, (1, 1, 1))
    assert rows_of(table) == [(1, 1, 1)]


@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_a_tag_takes_with_it_what_it_alone_kept(tmp_path: Path, kind: str) -> None:
    table, states = filled(tmp_path, kind)
    table.create_tag("one", 1)
    table.create_tag("two", 2)
    table.create_branch("b", "one")
    before = paths(table)
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.delete_tag("two")
    assert rows_of(table, scan_tag_name="one") == states[1]
    table.delete_tag("one")
    branch = bucketlake.open(tmp_path).table("t$branch_b")
    assert rows_of(branch) == states[1]
    table.delete_branch("b", "b")
    kept = paths(table)
    clear_cache()
    assert rows_of(table) == states[max(states)] and len(kept) < len(before)


def test_what_a_tag_says(tmp_path: Path) -> None:
    table, _ = filled(tmp_path, "append")
    table.create_tag("plain")
    table.create_tag("short", 1, "90 min")
    table.replace_tag("plain", 2)
    held = table.tags()
    assert held["plain"] == table.snapshots()[1] and tag_lifetime(held["plain"]) is None
    lifetime, created = tag_lifetime(held["short"]), tag_created(held["short"])
    assert lifetime is not None and lifetime.total_seconds() == 5400 and created is not None
    assert table.expire_tags() == [] and table.expire_tags("2999-01-01") == ["short", "plain"]
    with pytest.raises(NotFoundError):
        table.create_tag("gone", 99)
    with pytest.raises(InvalidError):
        table.create_tag("../x")
    table.create_tag("a")
    table.create_tag("b")
    for again in (lambda: table.create_tag("a"), lambda: table.rename_tag("a", "b")):
        with pytest.raises(AlreadyExistsError):
            again()


def test_a_commit_on_what_was_rolled_back_takes_itself_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It read its base, slept through the rollback, and found the next name free."""
    table, states = filled(tmp_path, "append")
    put_snapshot = Publisher._put

    def late(self: Publisher, snapshot: Snapshot, *rest: Any) -> bool:
        monkeypatch.setattr(Publisher, "_put", put_snapshot)
        table.rollback_to(1)
        return put_snapshot(self, snapshot, *rest)

    monkeypatch.setattr(Publisher, "_put", late)
    with pytest.raises(CommitUnknownError):
        put(table, (1, 50, 50))
    assert rows_of(table) == states[1] and table.store.snapshot_ids() == [1]
    put(table, (1, 60, 60))
    assert table.store.snapshot_ids() == [1, 2]


def test_a_rollback_takes_commits_of_meanwhile_along(tmp_path: Path) -> None:
    table, states = filled(tmp_path, "append")
    first = table.snapshots()[0]
    Commit(table.store, "other").truncate()
    take_after(table.store, first)
    assert table.store.snapshot_ids() == [1] and rows_of(table) == states[1]


def appended(storage: Any, commits: int, **options: str) -> Table:
    """An append table of so many commits."""
    catalog = Catalog(Env(storage, FakeClock(1)), "memory://wh")
    columns = pa.schema([("v", pa.int64())])
    table = catalog.create_table("default.t", columns, options={"write-only": "true", **options})
    for number in range(commits):
        table.write_arrow(pa.table({"v": [number]}))
    return table


def test_a_commit_into_a_gap_goes_with_a_rollback() -> None:
    """A writer that slept through a rollback put the newest snapshot above a gap, and another one fills the gap."""
    inner = MapStorage()
    table = appended(inner, 4)
    four = table.store.snapshot(4)

    def put_as(number: int) -> None:
        made = replace(four, id=number, uuid=f"as-{number}")
        inner.put_if_absent(table.store.paths.snapshot(number), encode_snapshot(made))

    def plan(call: int, operation: str, path: str) -> None:
        if operation == "delete" and path.endswith("snapshot-2"):
            put_as(5)

    put_as(6)
    clear_cache()
    Catalog(Env(FaultStorage(inner, plan), FakeClock(2)), "memory://wh").table("default.t").rollback_to(1)
    assert table.store.snapshot_ids() == [1]


DAY = 86_400_000


def beside(inner: MapStorage, plan: Any) -> Table:
    """The table through a storage where something goes wrong."""
    clear_cache()
    return Catalog(Env(FaultStorage(inner, plan), FakeClock(2)), "memory://wh").table("default.t")


def test_the_tag_of_a_rollback_that_dies_has_an_end() -> None:
    """It holds files, is listed beside the user's tags, and may name what others have removed: orphans are not
    looked for then."""
    inner = MapStorage()
    table = appended(inner, 4)
    with pytest.raises(Killed):
        beside(inner, fault_on("delete", "snapshot-3", KILL_BEFORE)).rollback_to(1)
    (left,) = table.store.tags()
    assert left.startswith("rollback-guard-1-")
    late = FakeClock(3)
    late.millis += 3 * DAY
    clear_cache()
    later = Catalog(Env(inner, late), "memory://wh").table("default.t")
    assert later.expire_tags() == [left]
    later.rollback_to(1)
    assert later.store.snapshot_ids() == [1] and not later.store.tags() and rows_of(later) == [(0,)]


def test_a_rollback_takes_its_tag_away_though_the_storage_fails_once() -> None:
    inner = MapStorage()
    table = appended(inner, 3)
    beside(inner, fault_on("delete", "rollback-guard-", FAIL_BEFORE, times=2)).rollback_to(1)
    assert table.store.snapshot_ids() == [1] and not table.store.tags()


def test_a_tag_that_could_not_be_looked_after_is_not_there() -> None:
    """Nobody knows whether the snapshot's files went before the tag was there."""
    inner = MapStorage()
    table = appended(inner, 3)
    put_already: list[str] = []

    def plan(call: int, operation: str, path: str) -> str | None:
        if operation == "put_if_absent":
            put_already.append(path)
        return FAIL_BEFORE if put_already and operation == "read" and path.endswith("snapshot-2") else None

    with pytest.raises(StorageError):
        beside(inner, plan).create_tag("mine", 2)
    assert len(put_already) == 1 and not table.store.tags()


def test_nothing_holds_what_its_writer_is_about_to_take_back() -> None:
    """A writer slept through a rollback and put its snapshot above: files of what was rolled back may go at any moment,
    since nothing that is there needs them."""
    inner = MapStorage()
    table = appended(inner, 4)
    above = inner.files[table.store.paths.snapshot(4)]
    table.rollback_to(1)
    inner.files[table.store.paths.snapshot(4)] = above
    inner.files[table.store.paths.latest_hint] = b"4"
    clear_cache()
    for act in (lambda: table.create_tag("new", 4), lambda: table.create_tag("new"), lambda: table.rollback_to(4)):
        with pytest.raises(ConflictError, match=r"stands above a gap.*choose a snapshot below 4"):
            act()
    assert table.store.snapshot_ids() == [1, 4] and not table.store.tags()
    table.create_tag("old", 1)
    late = FakeClock(3)
    late.millis += DAY  # its writer is dead: it is history
    Catalog(Env(inner, late), "memory://wh").table("default.t").create_tag("late", 4)
    assert sorted(table.store.tags()) == ["late", "old"]


@pytest.mark.parametrize("at", [None, "snapshot-3"], ids=["before", "among snapshots"])
def test_a_branch_that_is_deleted_takes_no_schema_of_the_table_along(at: str | None) -> None:
    """It loses its schemas first: those that it lacks then are not the table's to lose."""
    inner = MapStorage()
    table = appended(inner, 2)
    table.create_tag("t", 2)
    table.create_branch("b", "t")
    table.with_options(branch="b").write_arrow(pa.table({"v": [9]}))
    table.write_arrow(pa.table({"v": [7]}))

    def plan(call: int, operation: str, path: str) -> None:
        here = at is not None and path.endswith(f"default.db/t/{at.split('-')[0]}/{at}")
        if here and operation in ("delete", "write") and table.store.branches():
            table.delete_branch("b")

    if at is None:
        for path in [path for path in inner.files if "/branch/branch-b/schema/" in path]:
            inner.delete(path)
        with pytest.raises(NotFoundError, match="it was deleted"):
            beside(inner, plan).fast_forward("b")
    else:
        beside(inner, plan).fast_forward("b")
        assert not table.store.branches()
    clear_cache()
    reopened = Catalog(Env(inner, FakeClock(3)), "memory://wh").table("default.t")
    assert sorted(reopened.to_arrow()["v"].to_pylist()) == [0, 1, 7 if at is None else 9]


@pytest.mark.parametrize("least", ["30", "2"], ids=["plain", "manifests are merged at every commit"])
def test_a_base_that_was_taken_back_is_known_while_an_expiry_is_under_way(least: str) -> None:
    inner = MapStorage()
    table = appended(inner, 6, **{"manifest.merge-min-count": least})
    store, six = table.store, table.store.snapshot(6)
    delta = delta_entries(store, six)
    for number in (1, 2, 5):  # the hint still says 1
        inner.delete(store.paths.snapshot(number))
    assert store.hint(store.paths.earliest_hint) == 1
    assert standing(store, six, delta) is Standing.STRAY
    for number in (3, 4):
        inner.delete(store.paths.snapshot(number))
    assert standing(store, six, delta) is Standing.LIVES


def test_an_expiry_ends_where_a_rollback_takes_back_what_it_keeps() -> None:
    inner = MapStorage()
    table = appended(inner, 8)
    other = Catalog(Env(inner, FakeClock(2)), "memory://wh").table("default.t")

    def plan(call: int, operation: str, path: str) -> None:
        if operation == "delete" and path.endswith("snapshot-2"):
            other.rollback_to(4)

    expiring = Catalog(Env(FaultStorage(inner, plan), FakeClock(2)), "memory://wh").table("default.t")
    expiring.expire_snapshots(retain_max=2, retain_min=2)
    clear_cache()
    assert table.store.snapshot_ids() == [3, 4]
    assert sorted(table.to_arrow()["v"].to_pylist()) == [0, 1, 2, 3]
    table.write_arrow(pa.table({"v": [9]}))
    assert sorted(table.to_arrow()["v"].to_pylist()) == [0, 1, 2, 3, 9]


@pytest.mark.parametrize(
    ("text", "form", "wanted"),
    [
        ("2024-06-01", None, "2024-06-01 00:00:00"),
        ("2024-6-1 1:2:3.5", None, "2024-06-01 01:02:03.500000"),
        ("20240601", "yyyyMMdd", "2024-06-01 00:00:00"),
        ("2024-06-01T07", "yyyy-MM-dd'T'HH", "2024-06-01 07:00:00"),
        ("99:99", "HH:mm", None),
        ("2024-13-01", "yyyy-MM-dd", None),
        ("odd", None, None),
    ],
)
def test_times_in_texts(text: str, form: str | None, wanted: str | None) -> None:
    found = parse_time(text, form)
    assert (None if found is None else str(found)) == wanted


def test_patterns_of_columns() -> None:
    assert filled_pattern("$dt $dt1:00", {"dt": "a", "dt1": "b"}) == "a b:00"
    with pytest.raises(InvalidError):
        parse_time("x", "EEE")


def postponed() -> tuple[MapStorage, FakeClock, Table]:
    """A table of pending rows."""
    clock, storage = FakeClock(1), MapStorage()
    fields = (DataField(0, "k", BIGINT.with_nullable(False)), DataField(1, "v", BIGINT))
    given = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "postpone.merge-on-read": "true"}
    return storage, clock, Table(create_table(storage, clock, create_schema(fields, (), ("k",), given)), "t")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_came_back_outlasts_merges_of_manifests(tmp_path: Path, kind: str) -> None:
    """No manifest deletes a file that lives: Paimon, where it merges all of them, would forget it."""
    table, states = filled(tmp_path, kind)
    table.truncate()
    table.create_tag("empty")
    for version in (3, "empty", 2, 4):
        table.rollback_to_as_latest(version)
        newest = table.latest_snapshot()
        assert newest is not None
        told = [e for part in table.store.manifests(table.store.data_manifests(newest)) for e in part]
        live = {e.file.file_name for e in live_entries(table.store, newest)}
        assert not [e for e in told if e.kind == FileKind.DELETE and e.file.file_name in live]
        for _ in range(2):
            assert rows_of(table) == ([] if version == "empty" else states[version])
            table.compact_manifests()
    put(table, (1, 9, 9))
    assert (1, 9, 9) in rows_of(table)
    assert not fsck(table.store, FsckRequest(level=LEVELS[-1])).errors


def put_value(table: Table, value: int) -> None:
    table.write_arrow(pa.table({"k": [1], "v": [value]}, schema=table.arrow_schema))


def test_pending_rows_that_come_back_apply_in_the_order_of_their_snapshots() -> None:
    """One commit brings back what several had brought."""
    _, clock, table = postponed()
    for value in (1, 2, 3):
        put_value(table, value)
        clock.millis -= 3_600_000
    table.truncate()
    table.rollback_to_as_latest(3)
    assert table.to_arrow()["v"].to_pylist() == [3]
    table.compact()
    assert table.to_arrow()["v"].to_pylist() == [3]


def test_pending_rows_that_come_back_do_not_apply_after_those_that_stayed() -> None:
    storage, clock, table = postponed()
    put_value(table, 1)

    def plan(number: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and "/snapshot/" in path and table.latest_snapshot().id == 1:  # type: ignore[union-attr]
            put_value(table, 2)

    Table(make_store(FaultStorage(storage, plan), clock, table.schema), "t").compact()
    assert {entry.bucket for entry in live_entries(table.store, table.latest_snapshot())} == {-2, 0}  # type: ignore[arg-type]
    table.rollback_to_as_latest(2)
    assert table.to_arrow()["v"].to_pylist() == [2]
    table.compact()
    assert table.to_arrow()["v"].to_pylist() == [2]


ONE_LEFT = {f"snapshot.{key}": value for key, value in (("num-retained.min", "1"), ("num-retained.max", "1"))}


@pytest.mark.parametrize("way", ["branch", "fast-forward", "rollback"])
def test_a_tag_gives_back_what_has_expired_without_its_changelog(tmp_path: Path, way: str) -> None:
    """The changelog goes with the snapshot: what was made of its tag named files that were gone."""
    table, _ = filled(tmp_path, "lookup")
    held = table.latest_snapshot()
    assert held is not None and held.changelog_manifest_list is not None
    rows = rows_of(table)
    table.create_tag("kept")
    put(table, (1, 9, 9))
    put(table, (1, 8, 8))
    table.with_options({**ONE_LEFT, "snapshot.time-retained": "0 s"}).expire_snapshots()
    assert table.store.snapshot_ids()[0] > held.id
    name = "t"
    if way == "rollback":
        table.rollback_to("kept")
    else:
        table.create_branch("side", "kept")
        name = "t$branch_side"
    if way == "fast-forward":
        table.fast_forward("side")
        name = "t"
    clear_cache()
    found = bucketlake.open(tmp_path).table(name)
    assert rows_of(found) == rows
    put(found, (1, 7, 7))
    assert (1, 7, 7) in rows_of(found)
    newest = found.latest_snapshot()
    assert newest is not None
    told = found.to_arrow(incremental_between=f"{held.id},{newest.id}", incremental_between_scan_mode="changelog")
    assert told.num_rows > 0
    assert not fsck(table.store, FsckRequest(level=LEVELS[-1])).errors


def test_a_branch_whose_changelog_is_gone_is_no_dead_branch(tmp_path: Path) -> None:
    """As Paimon makes one of such a tag: its rows are there."""
    table, _ = filled(tmp_path, "lookup")
    held = table.latest_snapshot()
    assert held is not None
    table.create_tag("kept")
    put(table, (1, 9, 9))
    table.with_options({**ONE_LEFT, "snapshot.time-retained": "0 s"}).expire_snapshots()
    branch = make_branch(table, "side", held)
    assert len(rows_of(branch)) > 0
    codes = {finding.code for finding in fsck(table.store, FsckRequest(level=LEVELS[-1])).errors}
    assert "manifest-missing" in codes and "branch-dead" not in codes


def test_the_history_of_a_branch_begins_where_its_hint_says(tmp_path: Path) -> None:
    """Paimon begins at the hint: it missed snapshots of the branch that are older than those that main had left."""
    table, _ = filled(tmp_path, "keyed")
    first = table.store.snapshot_ids()[0]
    table.create_tag("kept", first)
    table.with_options({**ONE_LEFT, "snapshot.time-retained": "0 s"}).expire_snapshots()
    table.create_branch("side", "kept")
    branch = bucketlake.open(tmp_path).table("t$branch_side")
    for number in range(6):
        put(branch, (1, number, number))
    table.fast_forward("side")
    assert table.store.hint(table.store.paths.earliest_hint) == table.store.snapshot_ids()[0] == first


LISTS = ("base_manifest_list", "delta_manifest_list", "manifest", "index_manifest")


@pytest.mark.parametrize(
    ("way", "kept"),
    [*(("rollback_to", kept) for kept in LISTS), *(("fast_forward", kept) for kept in (*LISTS, "schema"))],
)
def test_nothing_goes_for_a_state_that_cannot_be_read(tmp_path: Path, way: str, kept: str) -> None:
    """A file that only what would take the newest state's place needs is damaged, or gone."""
    table, _ = filled(tmp_path, "append")
    put(table, (1, 50, 1), (1, 51, 2))
    table.delete("k = 50")
    table.create_tag("old")
    old = rows_of(table)
    table.create_branch("b", "old")
    put(table, (1, 70, 70), mode="overwrite")
    target = table.tags()["old"]
    table.compact_manifests()
    store = table.store.on_branch("b")
    places = {
        "manifest": store.paths.manifest(store.data_manifests(target)[-1].file_name),
        "schema": store.paths.schema(target.schema_id),
    }
    path = Path(places.get(kept) or store.paths.manifest(getattr(target, kept)))
    before, whole = paths(table), path.read_bytes()
    for damage in (b"", whole[: len(whole) // 2], None):
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
        clear_cache()
        rows = rows_of(table)
        named = "'b' doesn't exist" if kept == "schema" and damage is None else path.name
        with pytest.raises((CorruptError, NotFoundError), match=named):
            getattr(table.refresh(), way)("b" if way == "fast_forward" else "old")
        path.write_bytes(whole)
        assert paths(table) == before
        assert rows_of(table.refresh()) == rows
    clear_cache()
    getattr(table, way)("b" if way == "fast_forward" else "old")
    assert rows_of(table.refresh()) == old


def test_a_branch_is_not_made_of_a_damaged_schema(tmp_path: Path) -> None:
    table, _ = filled(tmp_path, "append")
    table.alter(AddColumn("more", BIGINT))
    path = Path(table.store.paths.schema(0))
    whole = path.read_bytes()
    path.write_bytes(whole[:40])
    with pytest.raises(CorruptError, match="schema-0"):
        table.refresh().create_branch("b")
    assert not table.branches()


@pytest.mark.parametrize("way", ["fast_forward", "rollback_to"])
def test_a_damaged_tag_is_told_before_anything_goes(tmp_path: Path, way: str) -> None:
    table, states = filled(tmp_path, "keyed")
    table.create_tag("old", 1)
    table.create_tag("hurt")
    table.create_branch("b", "old")
    path = Path(table.store.paths.tag("hurt"))
    path.write_bytes(path.read_bytes()[:50])
    before = paths(table)
    with pytest.raises(CorruptError, match="tag-hurt.*delete the tag"):
        getattr(table, way)("b" if way == "fast_forward" else "old")
    assert paths(table) == before
    assert rows_of(table.refresh()) == states[max(states)]
    assert table.delete_tag("hurt") and not table.delete_tag("hurt")
    getattr(table, way)("b" if way == "fast_forward" else "old")
    assert rows_of(table.refresh()) == states[1]


def test_a_tag_is_deleted_beside_a_damaged_one(tmp_path: Path) -> None:
    table, states = filled(tmp_path, "keyed")
    table.create_tag("one", 1)
    table.create_tag("hurt", 2)
    table.expire_snapshots(retain_max=1, retain_min=1)
    path = Path(table.store.paths.tag("hurt"))
    whole = path.read_bytes()
    path.write_bytes(b"")
    assert table.delete_tag("one")
    path.write_bytes(whole)
    assert list(table.tags()) == ["hurt"] and rows_of(table, scan_tag_name="hurt") == states[2]


def by_the_hint(table: Table) -> int:
    """The newest snapshot as Apache Paimon finds it: the hint's, where it has no next one."""
    folder = Path(table.path, "snapshot")
    hint = folder / "LATEST"
    number = int(hint.read_text()) if hint.exists() else 0
    there = [int(path.name.removeprefix("snapshot-")) for path in folder.glob("snapshot-*")]
    return max(there) if not number or number + 1 in there else number


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("way", ["fast_forward", "rollback_to"])
def test_the_hint_names_a_snapshot_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, own: bool
) -> None:
    """Also where the change ends half-way, and where a branch brings nothing of its own."""
    table, states = filled(tmp_path, "keyed")
    table.create_tag("old", 1)
    table.create_branch("b", "old")
    branch = bucketlake.open(tmp_path).table("t$branch_b")
    if own:
        put(branch, (1, 7, 7))
    wanted = rows_of(branch) if way == "fast_forward" else states[1]
    delete = LocalStorage.delete
    for end in range(1, 4):
        left = [end]

        def ends(self: LocalStorage, path: str, left: list[int] = left) -> None:
            left[0] -= "/snapshot-" in path
            if not left[0]:
                raise StorageError("the disk is gone", path=path)
            delete(self, path)

        monkeypatch.setattr(LocalStorage, "delete", ends)
        with suppress(BucketlakeError):
            getattr(table.refresh(), way)("b" if way == "fast_forward" else "old")
        monkeypatch.setattr(LocalStorage, "delete", delete)
        assert Path(table.store.paths.snapshot(by_the_hint(table))).exists()
    getattr(table.refresh(), way)("b" if way == "fast_forward" else "old")
    assert by_the_hint(table) == table.refresh().snapshots()[-1].id == (2 if own and way == "fast_forward" else 1)
    assert rows_of(table.refresh()) == wanted
