"""What changes a table beside its rows, where the storage takes effect and then fails: it is done once, and whoever is
told otherwise is told what is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_BEFORE, FaultStorage, Killed, MapStorage, fault_on

from bucketlake.catalog import Catalog
from bucketlake.env import local
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.errors import InvalidError, NotFoundError, StorageError
from bucketlake.ops.refs import branches
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn, RenameColumn
from bucketlake.table import Table
from bucketlake.types.model import BIGINT

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
SEEDS = itertools.count(1)


def through(storage: Any) -> Catalog:
    clear_cache()
    return Catalog(Env(storage, FakeClock(next(SEEDS))), "memory://wh")


def made() -> MapStorage:
    """Table t with two snapshots, the tag v1 of the first and the branch dev of that tag."""
    storage = MapStorage()
    options = {"bucket": "1", "write-only": "true", "scan.manifest.parallelism": "1"}
    table = through(storage).create_table("t", SCHEMA, [], ["k"], options)
    for number in (1, 2):
        table.write_arrow(pa.table({"k": [number], "v": [number]}, schema=SCHEMA))
    table.create_tag("v1", 1)
    table.create_branch("dev", "v1")
    return storage


def columns(table: Table) -> list[str]:
    return [field.name for field in table.schema.fields]


# what is done, the call whose answer is lost, and what must then be so
PUTS: dict[str, tuple[Callable[[Catalog], Any], str, Callable[[Catalog], Any]]] = {
    "add": (lambda c: c.table("t").alter(AddColumn("w", BIGINT)), "schema-1", lambda c: columns(c.table("t"))[2:]),
    "rename": (lambda c: c.table("t").alter(RenameColumn("v", "w")), "schema-1", lambda c: columns(c.table("t"))),
    "tag": (lambda c: c.table("t").create_tag("v2", 2, "1 d"), "tag-v2", lambda c: c.table("t").tags()["v2"].id),
    "rename tag": (lambda c: c.table("t").rename_tag("v1", "w1"), "tag-w1", lambda c: list(c.table("t").tags())),
    "branch": (lambda c: c.table("t").create_branch("b", "v1"), ".creating", lambda c: c.table("t").branches()),
    "table": (lambda c: c.create_table("n", SCHEMA), "schema-0", lambda c: c.list_tables()),
    "fast-forward": (lambda c: c.table("t").fast_forward("dev"), "tag-fast", lambda c: len(c.table("t").snapshots())),
    "rollback": (lambda c: c.table("t").rollback_to(1), "tag-rollback", lambda c: len(c.table("t").snapshots())),
}


@pytest.mark.parametrize("name", PUTS)
def test_a_lost_answer_is_settled_by_what_stands_there(name: str) -> None:
    action, part, seen = PUTS[name]
    plain = made()
    action(through(plain))
    storage = made()
    action(through(FaultStorage(storage, fault_on("put_if_absent", part, FAIL_AFTER))))
    assert seen(through(storage)) == seen(through(plain))


@pytest.mark.parametrize("part", ["schema-0", "schema-1", "schema-2"])
def test_a_branch_whose_maker_dies_is_none_until_it_is_whole(part: str) -> None:
    storage = made()
    table = through(storage).table("t").alter(AddColumn("w", BIGINT)).alter(RenameColumn("w", "x"))
    table.write_arrow([{"k": 3, "v": 3, "x": 3}])
    table.create_tag("v3")
    with pytest.raises(Killed):
        dying = FaultStorage(storage, fault_on("write", f"branch-b/schema/{part}", KILL_BEFORE))
        through(dying).table("t").create_branch("b", "v3")
    with pytest.raises(NotFoundError, match="the branch (lacks|has no) schema.*delete it once more"):
        through(storage).table("t$branch_b")
    assert [one.code for one in through(storage).table("t").fsck().findings] == ["branch-dead"]
    through(storage).table("t").delete_branch("b")
    through(storage).table("t").create_branch("b", "v3")
    assert through(storage).table("t$branch_b").to_arrow().sort_by("k")["x"].to_pylist() == [None, None, 3]


def test_a_branch_whose_mark_stays_is_made() -> None:
    storage = made()
    through(FaultStorage(storage, fault_on("delete", ".creating", FAIL_BEFORE))).table("t").create_branch("b", "v1")
    table = through(storage).table("t").with_options(branch="b")
    assert table.to_arrow()["k"].to_pylist() == [1]


# what fails after the effect, and what its error says
AFTER: dict[str, tuple[Callable[[Catalog], Any], tuple[str, str], str]] = {
    "alter": (lambda c: c.table("t").alter(AddColumn("w", BIGINT)), ("read", "schema-1"), "the schema is changed"),
    "create": (lambda c: c.create_table("n", SCHEMA), ("read", "n/schema/schema-0"), "the table is created"),
    "tag": (lambda c: c.table("t").rename_tag("v1", "w1"), ("delete", "tag-v1"), "Tag 'w1' is made"),
}


@pytest.mark.parametrize("name", AFTER)
def test_what_fails_after_the_effect_says_what_is_done(name: str) -> None:
    action, (operation, part), said = AFTER[name]
    with pytest.raises(StorageError, match=said):
        action(through(FaultStorage(made(), fault_on(operation, part, FAIL_BEFORE))))


HALVES = {
    "rollback": (lambda c: c.table("t").rollback_to(1), ("delete", "snapshot-2"), "roll back again"),
    "fast-forward": (lambda c: c.table("t").fast_forward("dev"), ("delete", "snapshot-3"), "fast-forward again"),
    "tags": (lambda c: c.table("t").fast_forward("dev"), ("write", "t/tag/tag-v1"), "fast-forward again"),
}


@pytest.mark.parametrize("name", HALVES)
def test_a_history_that_is_changed_in_part_is_said_to_be_and_finished_by_the_same_call(name: str) -> None:
    action, (operation, part), said = HALVES[name]
    storage = made()
    through(storage).table("t").with_options(branch="dev").write_arrow([{"k": 9, "v": 9}])
    for number in (3, 4):
        through(storage).table("t").write_arrow([{"k": number, "v": number}])
    whole = MapStorage()
    whole.files = dict(storage.files)
    action(through(whole))
    with pytest.raises(StorageError, match=said):
        action(through(FaultStorage(storage, fault_on(operation, part, FAIL_BEFORE))))
    action(through(storage))
    found, wanted = (through(one).table("t") for one in (storage, whole))
    assert found.to_arrow().equals(wanted.to_arrow()) and found.snapshots() == wanted.snapshots()


def test_rows_that_came_during_an_alter_could_not_be_looked_at() -> None:
    storage = made()

    def plan(k: int, operation: str, path: str) -> str | None:
        changed = any("schema-1" in name for name in storage.files)
        return FAIL_BEFORE if changed and path.endswith("/snapshot-2") else None

    with pytest.raises(StorageError, match="the schema is changed"):
        through(FaultStorage(storage, plan)).table("t").alter(AddColumn("w", BIGINT))


def test_a_rollback_as_latest_that_cannot_read_leaves_no_tag() -> None:
    storage = made()
    table = through(storage).table("t")
    manifest = table.store.paths.manifest(table.snapshots()[0].delta_manifest_list).rpartition("/")[2]
    with pytest.raises(StorageError):
        through(FaultStorage(storage, fault_on("read", manifest, FAIL_BEFORE))).table("t").rollback_to_as_latest(1)
    assert list(through(storage).table("t").tags()) == ["v1"]


@pytest.mark.parametrize("error", [FileExistsError(17, "exists"), TimeoutError(110, "timed out")])
def test_a_share_that_loses_its_own_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    link = local.os.link

    def lost(source: str, target: str) -> None:
        link(source, target)
        raise error

    monkeypatch.setattr(local.os, "link", lost)
    assert LocalStorage().put_if_absent(str(tmp_path / "snapshot-1"), b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot-1"]


class Dying(MapStorage):
    """Dies after so many files were deleted."""

    left = 1 << 30

    def delete(self, path: str) -> None:
        if not self.left:
            raise Killed
        self.left -= 1
        super().delete(path)


def test_a_removal_that_dies_leaves_a_table_that_can_be_dropped_and_no_rows_for_the_next() -> None:
    files = made().files
    for number in range(len(files)):
        storage = Dying()
        storage.files, storage.left = dict(files), number
        with pytest.raises(Killed):
            through(storage).drop_table("t")
        storage.left = 1 << 30
        catalog = through(storage)
        assert catalog.table("t").to_arrow().num_rows in (0, 2) if number else True
        catalog.drop_table("t")
        assert not storage.files
        catalog.create_table("t", SCHEMA)


def test_a_folder_with_snapshots_is_no_place_for_a_new_table() -> None:
    storage = made()
    storage.files = {path: data for path, data in storage.files.items() if "/t/schema/" not in path}
    with pytest.raises(InvalidError, match="remove the folder"):
        through(storage).create_table("t", SCHEMA)


def test_a_rollback_beside_a_rollback_as_latest_leaves_it_no_files() -> None:
    """What is restored must be held by a snapshot or a tag: orphan removal takes its files else."""
    storage = made()
    ours = FaultStorage(storage)

    def plan(k: int, operation: str, path: str) -> None:
        tagged = any("tag-rollback-to-as-latest" in name for name in storage.files)
        if tagged and operation == "read" and "/manifest/" in path and len(through(storage).table("t").snapshots()) > 1:
            through(storage).table("t").rollback_to(1)

    ours.plan = plan
    with pytest.raises(NotFoundError, match="taken away by a rollback"):
        through(ours).table("t").rollback_to_as_latest(2)
    assert [one.id for one in through(storage).table("t").snapshots()] == [1]


def test_a_branch_is_merged_only_while_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MapStorage()
    table = through(storage).create_table("a", SCHEMA, options={"bucket": "-1", "scan.manifest.parallelism": "1"})
    table.write_arrow(pa.table({"k": [1], "v": [1]}, schema=SCHEMA))
    table.create_tag("v1")
    table.create_branch("dev", "v1")
    table.with_options(branch="dev").write_arrow(pa.table({"k": [2], "v": [2]}, schema=SCHEMA))
    real = branches._check_file_schemas

    def then_deleted(*given: Any) -> None:
        real(*given)
        table.delete_branch("dev")

    monkeypatch.setattr(branches, "_check_file_schemas", then_deleted)
    with pytest.raises(NotFoundError, match="has changed meanwhile"):
        through(storage).table("a").merge_branch("dev")
    assert len(through(storage).table("a").snapshots()) == 1
