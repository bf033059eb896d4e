"""Orphan files: exactly what nothing refers to and is old goes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.ops.test_expire import KINDS, History, ids, left_over, made, make_branch, put, rows_of, tag
from tests.profile import SOAK, later
from tests.sim.storage import KILL_AFTER, KILL_BEFORE, FaultStorage, Killed, fault_at

import bucketlake
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.errors import BucketlakeError, ConflictError, CorruptError, InvalidError
from bucketlake.ops.clean import orphans, references
from bucketlake.ops.clean.orphans import Run, remove_orphans
from bucketlake.ops.table.store import Store, clear_cache
from bucketlake.table import Table

FUTURE = 1 << 60


def in_pieces(action: Any, units: Sequence[Any]) -> list[Any]:
    """As tasks elsewhere do it, in no order."""
    shipped = pickle.dumps(action)
    return [pickle.loads(pickle.dumps(pickle.loads(shipped)(unit))) for unit in reversed(units)]


RUNS = pytest.mark.parametrize("run", [None, in_pieces], ids=["here", "in tasks"])


def files(table: Table) -> set[str]:
    return {info.path for info in LocalStorage().walk(table.path)}


def with_storage(table: Table, storage: FaultStorage) -> Table:
    store = table.store
    env = Env(storage, store.env.clock)  # type: ignore[arg-type]
    return Table(Store(env, store.paths, store.schema, store.options), table.name)


def stray(table: Table, *paths: str) -> set[str]:
    made_now = {f"{table.path}/{path}" for path in paths}
    for path in made_now:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(b"12345")
    return made_now


OURS = (
    "manifest/manifest-gone-0",
    "manifest/manifest-list-gone-0",
    "manifest/.manifest-x.0123456789abcdef0123456789abcdef.tmp",
    "index/index-gone-0",
    "statistics/stat-gone",
    "p=1/bucket-0/data-gone-0.parquet",
    "p=1/bucket-postpone/data-u-x-s-0-w-gone-0.avro",
    "p=7/bucket-3/data-gone-1.parquet",
    "snapshot/.snapshot-9.0123456789abcdef0123456789abcdef.tmp",
    "changelog/tmp",
    "branch/branch-b/snapshot/.snapshot-2.tmp",
    "branch/branch-b/tag/.tag-x.0123456789abcdef0123456789abcdef.tmp",
    "schema/.schema-1.0123456789abcdef0123456789abcdef.tmp",
    "copy-into/history/.load-x.0123456789abcdef0123456789abcdef.tmp",
    "branch/branch-b/stream/.stream-x.0123456789abcdef0123456789abcdef.tmp",
    "p=1/._SUCCESS.0123456789abcdef0123456789abcdef.tmp",
    "p=1/bucket-0/.data-x-0.parquet.0123456789abcdef0123456789abcdef.tmp",
    ".staging-x/p=1/part-0.parquet",
)
OTHERS = (
    "readme.txt",
    "notes/p=1/bucket-0/x",
    "p=1/x",
    "p=1/other/x",
    "p=1/bucket-0/deeper/x",
    "p=1/q=1/bucket-0/x",
    "bucket-0/x",
    "tag/notes",
    "consumer/consumer-x",
    "copy-into/history/load-x",
    "stream/stream-x",
    "cache/keys",
)


@RUNS
@pytest.mark.parametrize("kind", later([*KINDS], 3))
def test_exactly_the_strays_go(tmp_path: Path, kind: str, run: Run | None) -> None:
    table = made(tmp_path, kind)
    history = History(table)
    for number in range(4):
        put(table, (1, number, number), (2, 1, number))
    table.delete("k = 1")
    table.compact()
    history.note()
    first = table.store.snapshot(1)
    tag(table, "old", first)
    history.tags["old"] = history.expected[1]
    branch = make_branch(table, "b", first)
    put(branch, (1, 50, 50))
    table.expire_snapshots(retain_max=3, retain_min=1)
    before = files(table)
    strays, others = stray(table, *OURS), stray(table, *OTHERS)
    dry = remove_orphans(table.store, FUTURE, dry_run=True, run=run)
    assert set(dry.paths) == strays and files(table) == before | strays | others
    done = remove_orphans(table.store, FUTURE, run=run)
    assert (done.count, done.size) == (len(strays), 5 * len(strays)) == (dry.count, dry.size)
    assert files(table) == before | others
    assert not (Path(table.path) / "p=7").exists() and not (Path(table.path) / ".staging-x/p=1/part-0.parquet").exists()
    history.check()
    assert (1, 50, 50) in rows_of(branch)


def test_young_files_stay(tmp_path: Path) -> None:
    table = made(tmp_path, "append")
    put(table, (1, 1, 1))
    young, old = sorted(stray(table, "p=1/bucket-0/data-a-0.parquet", "p=1/bucket-0/data-b-0.parquet"))
    os.utime(old, (10**9, 10**9))
    assert table.remove_orphan_files().paths == (old,)
    assert os.path.exists(young)
    with pytest.raises(InvalidError, match="olderThan must be less than now"):
        table.remove_orphan_files(older_than="2999-01-01")


@RUNS
def test_files_elsewhere(tmp_path: Path, run: Run | None) -> None:
    outside = tmp_path / "outside"
    options = {"data-file.path-directory": "data/here"}
    table = made(tmp_path / "warehouse", "append", **options)
    put(table, (1, 1, 1))
    mine = stray(table, "data/here/p=1/bucket-0/data-x-0.parquet")
    stray(table, "p=1/bucket-0/data-x-0.parquet")  # not where this table keeps data
    (outside / "p=2" / "bucket-0").mkdir(parents=True)
    (outside / "p=2" / "bucket-0" / "data-y-0.parquet").write_bytes(b"1")
    (outside / "p=2" / "data-z-0.parquet").write_bytes(b"1")
    declared = {"data-file.external-paths": str(outside)}
    assert set(remove_orphans(table.with_options(declared).store, FUTURE, run=run).paths) == mine
    uses = {**declared, "data-file.external-paths.strategy": "round-robin"}
    schema = replace(table.schema, options={**table.schema.options, **uses})
    assert remove_orphans(Store.of(Env(LocalStorage()), table.path, schema), FUTURE, run=run).count == 0
    allowed = Store.of(Env(LocalStorage(), external=(str(tmp_path),)), table.path, schema)
    done = remove_orphans(allowed, FUTURE, run=run)
    assert set(done.paths) == {str(outside / "p=2" / "bucket-0" / "data-y-0.parquet")}
    assert (outside / "p=2" / "data-z-0.parquet").exists()
    assert rows_of(table) == [(1, 1, 1)]


@RUNS
def test_links_are_not_followed(tmp_path: Path, run: Run | None) -> None:
    """Neither links to folders nor links to files, wherever they stand in the table's folder."""
    table = made(tmp_path / "warehouse", "append")
    put(table, (1, 1, 1))
    kept = tmp_path / "elsewhere" / "bucket-0" / "data-x-0.parquet"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"1")
    root = Path(table.path)
    (root / "p=5").symlink_to(kept.parent.parent)
    (root / "p=1" / "bucket-7").symlink_to(kept.parent)
    (root / "p=1" / "bucket-0" / "data-linked-0.parquet").symlink_to(kept)
    for folder in ("index", "statistics"):
        (root / folder).symlink_to(kept.parent)
    mine = stray(table, "p=1/bucket-0/data-gone-0.parquet")
    assert set(remove_orphans(table.store, FUTURE, run=run).paths) == mine
    assert kept.read_bytes() == b"1"
    assert rows_of(table) == [(1, 1, 1)]


@RUNS
def test_nothing_goes_where_it_cannot_be_told(tmp_path: Path, run: Run | None) -> None:
    table = made(tmp_path, "append")
    put(table, (1, 1, 1))
    put(table, (1, 2, 2))
    kept = stray(table, "p=1/bucket-0/data-x-0.parquet")
    store = table.store
    gone = store.data_manifests(store.snapshot(2))[0].file_name
    os.unlink(store.paths.manifest(gone))
    clear_cache()
    with pytest.raises(CorruptError, match="a file is missing"):
        remove_orphans(store, FUTURE, run=run)
    assert kept <= files(table)


def test_a_commit_during_the_cleaning_keeps_its_files(tmp_path: Path) -> None:
    table = made(tmp_path, "keyed")
    put(table, (1, 1, 1))

    class Meanwhile(LocalStorage):
        def walk(self, path: str):  # type: ignore[no-untyped-def]
            put(table, (2, 2, 2))
            yield from super().walk(path)

    store = Store(Env(Meanwhile(), table.store.env.clock), table.store.paths, table.store.schema, table.store.options)
    assert remove_orphans(store, FUTURE).count == 0
    assert rows_of(table) == [(1, 1, 1), (2, 2, 2)] and left_over(table) == ()

    def meanwhile(action: Any, units: Sequence[Any]) -> list[Any]:
        put(table, (1, 3, 3))
        return in_pieces(action, units)

    assert remove_orphans(table.store, FUTURE, run=meanwhile).count == 0
    assert rows_of(table) == [(1, 1, 1), (1, 3, 3), (2, 2, 2)] and left_over(table) == ()


def test_what_expires_during_the_cleaning_is_no_damage(tmp_path: Path) -> None:
    table = made(tmp_path, "keyed")
    for number in range(4):
        put(table, (1, 1, number))
    table.compact(full=True)
    gone = stray(table, "p=1/bucket-0/data-gone-0.parquet", "p=1/bucket-1/data-gone-0.parquet")
    before = files(table)

    class Meanwhile(LocalStorage):
        def walk(self, path: str):  # type: ignore[no-untyped-def]
            table.expire_snapshots(retain_max=1, retain_min=1)
            yield from super().walk(path)

    store = Store(Env(Meanwhile(), table.store.env.clock), table.store.paths, table.store.schema, table.store.options)
    assert set(remove_orphans(store, FUTURE).paths) == gone
    assert len(before - files(table) - gone) > 4 and rows_of(table) == [(1, 1, 3)] and left_over(table) == ()


def test_many_orphans_and_names_for_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orphans go in several tasks; names that are too many to travel lie in a file meanwhile."""
    monkeypatch.setattr(orphans, "REMOVED_TOGETHER", 3)
    monkeypatch.setattr(orphans, "SHIPPED_BYTES", 0)
    table = made(tmp_path, "keyed")
    put(table, (1, 1, 1), (2, 2, 2))
    before = files(table)
    strays = stray(table, *(name for name in OURS if not name.startswith("branch/")))
    for path in (*strays, *before):
        os.utime(path, (10**9, 10**9))
    young = stray(table, "p=1/bucket-0/data-young-0.parquet")
    stages: list[int] = []

    def counted(action: Any, units: Sequence[Any]) -> list[Any]:
        stages.append(len(units))
        return in_pieces(action, units)

    done = remove_orphans(table.store, 10**12 + 1000, run=counted)
    assert set(done.paths) == strays and done.size == 5 * len(strays)
    assert files(table) == before | young and not list(Path(table.path).glob(".staging-*/known"))
    assert len(stages) == 2 and stages[1] == -(-len(strays) // 3)


@RUNS
@pytest.mark.parametrize("kind", later([*KINDS], 3))
def test_a_file_stays_whose_name_a_manifest_tells_wrongly(tmp_path: Path, kind: str, run: Run | None) -> None:
    """A bit that flipped in a manifest may alter a name, and nothing else tells: what it meant is there once it is mended."""
    table = made(tmp_path, kind, **{"manifest.compression": "null"})
    put(table, (1, 1, 1), (2, 2, 2), (2, 3, 3))
    put(table, (1, 1, 3))
    if kind != "bucketed":
        table.delete("k = 2")
    rows, owned = rows_of(table), sorted(files(table))
    manifests = {path: Path(path).read_bytes() for path in owned if "/manifest/" in path}
    told = [path for path in owned if "/bucket-" in path or "/index/" in path]
    assert {path.split("/")[-2] for path in told} >= ({"index"} if kind in ("vectors", "dynamic", "append") else set())
    for path in told:
        name = path.rpartition("/")[2].encode()
        for manifest, data in manifests.items():
            Path(manifest).write_bytes(data.replace(name, name[:-1] + bytes([name[-1] ^ 1])))
        clear_cache()
        strays = stray(table, "p=9/bucket-0/data-gone-0.parquet", f"{path[len(table.path) + 1 :]}-gone")
        with pytest.warns(UserWarning, match="files that nothing refers to stay: files are missing beside them"):
            gone = set(remove_orphans(table.store, FUTURE, run=run).paths)
        assert gone == {one for one in strays if "p=9" in one}
        assert {*owned, *strays} - files(table) == gone
        for manifest, data in manifests.items():
            Path(manifest).write_bytes(data)
        clear_cache()
        assert set(remove_orphans(table.store, FUTURE, run=run).paths) == strays - gone
    assert rows_of(table) == rows and sorted(files(table)) == owned


@pytest.mark.parametrize("fault", later([KILL_AFTER, KILL_BEFORE], 1))
@pytest.mark.parametrize("kind", ["keyed", "dynamic", "append"])
def test_killed_writes_and_expiries_leave_only_orphans(tmp_path: Path, kind: str, fault: str) -> None:
    table = made(tmp_path, kind, **{"file-operation.thread-num": "1", "scan.manifest.parallelism": "1"})
    history = History(table)
    for number in range(3):
        put(table, (1, number, number), (2, number, number))
    history.note()

    def work(victim: Table) -> None:
        put(victim, (1, 1, 77), (3, 5, 5))
        victim.delete("k = 0")
        victim.expire_snapshots(retain_max=2, retain_min=1)

    call = 0
    while call < 400:
        storage = FaultStorage(LocalStorage(), fault_at(call, fault))
        try:
            work(with_storage(table, storage))
        except Killed:
            pass
        except BucketlakeError:
            assert storage.dead
        history.note()
        remove_orphans(table.store, FUTURE)
        history.check()
        assert left_over(table) == ()
        if not storage.dead:
            break
        call += 3 if SOAK else 41
    assert len(ids(table)) <= 2 or storage.dead


def test_many_orphans_do_not_look_at_all_names_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look for new commits before each removal costs no more where there are none: else a scan is quadratic."""
    table = made(tmp_path, next(iter(KINDS)))
    put(table, (1, 1, 1))
    stray(table, *(f"p=1/bucket-0/data-gone-{number}.parquet" for number in range(20)))
    settled, real = [], references.References._settle
    monkeypatch.setattr(orphans, "BATCH", 2)
    monkeypatch.setattr(references.References, "_settle", lambda self: (settled.append(1), real(self)))
    assert remove_orphans(table.store, FUTURE, threads=1).count == 20
    assert len(settled) == 1


@pytest.mark.parametrize("how", ["rolled back", "made anew"])
def test_a_snapshot_that_another_one_takes_the_place_of_is_no_damage(tmp_path: Path, how: str) -> None:
    """While its manifests are about to be read: the other's files stay, and who cleans another table than was opened is told."""
    table = made(tmp_path, "keyed")
    put(table, (1, 1, 1))
    second = put(table, (2, 2, 2))
    assert second is not None
    catalog, names = bucketlake.open(tmp_path), table.store.paths.manifest(second.delta_manifest_list)

    def meanwhile(k: int, operation: str, path: str) -> None:
        if operation == "read" and path == names and os.path.exists(names):
            if how == "rolled back":
                table.rollback_to(1)
                put(table, (1, 3, 3))
                Path(names).unlink(missing_ok=True)
                return
            catalog.drop_table("t")
            other = made(tmp_path, "keyed", comment="another")
            put(other, (1, 4, 4))
            put(other, (1, 5, 5))

    clear_cache()
    cleaned = with_storage(table, FaultStorage(LocalStorage(), meanwhile))
    if how == "rolled back":
        remove_orphans(cleaned.store, FUTURE)
        clear_cache()
        assert rows_of(table) == [(1, 1, 1), (1, 3, 3)] and left_over(table) == ()
        return
    with pytest.raises(ConflictError):
        remove_orphans(cleaned.store, FUTURE)
    clear_cache()
    assert rows_of(catalog.table("t")) == [(1, 4, 4), (1, 5, 5)]


@pytest.mark.parametrize("how", ["tag", "branch"])
def test_what_a_tag_holds_stays_where_its_snapshot_expires_as_it_is_read(tmp_path: Path, how: str) -> None:
    """The expiry takes the snapshot and its changelog, and leaves all else that the tag, or a branch of it, names."""
    table = made(tmp_path, "lookup")
    put(table, (1, 1, 1))
    held = table.latest_snapshot()
    assert held is not None and held.changelog_manifest_list is not None
    table.create_tag("held")
    if how == "branch":
        table.create_branch("b", "held")
        table.delete_tag("held")
    for number in (2, 3):
        put(table, (1, 1, number))
        table.compact(full=True)
    expired: list[str] = []
    names = table.store.paths.snapshot(held.id)

    def meanwhile(k: int, operation: str, path: str) -> None:
        if not expired and operation == "read" and "/manifest/" in path and os.path.exists(names):
            expired.append(path)
            table.expire_snapshots(retain_max=1, retain_min=1)

    clear_cache()
    remove_orphans(with_storage(table, FaultStorage(LocalStorage(), meanwhile)).store, FUTURE)
    clear_cache()
    assert expired and not os.path.exists(names)
    assert rows_of(table.with_options({"scan.tag-name": "held"} if how == "tag" else {"branch": "b"})) == [(1, 1, 1)]
    assert rows_of(table) == [(1, 1, 3)] and left_over(table) == ()
