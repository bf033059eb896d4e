"""What a death, or a delete beside, leaves behind: commits into a branch or a table that is deleted, tags whose maker
died while their snapshot expired. It costs nothing that lives, and maintenance gets past it or says by name what is in its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.sim import test_interrupted as interrupted
from tests.sim.clock import FakeClock
from tests.sim.storage import KILL_AFTER, KILL_BEFORE, FaultStorage, Killed, MapStorage
from tests.sim.tables import (
    check_table,
    commit_of,
    create_table,
    data_file,
    live_names,
    make_store,
    message,
    table_schema,
)

from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError, ConflictError, NotFoundError
from bucketlake.ops.clean.expire import ExpireConfig, Limits, expire_snapshots
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.commit.alter import Alter
from bucketlake.ops.commit.replacement import draft_replacement
from bucketlake.ops.refs.branches import create_branch, delete_branch
from bucketlake.ops.refs.tags import create_tag, delete_tag
from bucketlake.ops.table.store import Store, clear_cache
from bucketlake.schema.change import AddColumn, DropColumn, SetOption
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table
from bucketlake.types.model import BIGINT

SCHEMA = replace(table_schema(options={"commit.max-retries": "4"}), time_millis=1_700_000_000_000)


def branched(tag: bool) -> tuple[MapStorage, Store]:
    """A table with a snapshot, and a branch b from it, or an empty one."""
    clear_cache()
    storage = MapStorage()
    store = create_table(storage, FakeClock(), SCHEMA)
    put(store, "base")
    create_tag(store, "one", 1)
    create_branch(store, "b", "one" if tag else None)
    return storage, store


def put(store: Store, name: str, first: int = 0) -> None:
    file = data_file(name, sequences=(first, first + 9))
    store.env.storage.write(store.paths.file_path(store.paths.bucket_dir(message().partition, 0), file), b"rows")
    commit_of(store, name).commit([message(file)])


def calls(tag: bool) -> list[tuple[str, str]]:
    storage, _ = branched(tag)
    counted = FaultStorage(storage)
    put(make_store(counted, FakeClock(1), SCHEMA).on_branch("b"), "new", 20)
    return counted.calls


@pytest.mark.parametrize("tag", [True, False])
def test_a_commit_does_not_bring_a_deleted_branch_back(tag: bool) -> None:
    """Deleted before each call of the commit: it is refused, or it went with the branch."""
    refused = 0
    for place in range(len(calls(tag))):
        storage, store = branched(tag)

        def plan(k: int, operation: str, path: str, at: int = place, own: Store = store) -> None:
            if k == at:
                delete_branch(own, "b")

        broken = make_store(FaultStorage(storage, plan), FakeClock(1), SCHEMA).on_branch("b")
        clear_cache()
        try:
            put(broken, "new", 20)
        except BucketlakeError:
            refused += 1
        left = [path for path in storage.files if "/branch/" in path]
        assert not left, f"at call {place}: {left}"
        assert store.branches() == [] and live_names(store) == {"base"}
        check_table(store)
    assert refused


def write(store: Store) -> None:
    put(store, "new", 20)


def widen(store: Store) -> None:
    Alter(store, "t", lambda _: [AddColumn("w", BIGINT)]).publish()


def fork(store: Store) -> None:
    create_branch(store, "b")


@pytest.mark.parametrize("action", [write, widen, fork])
@pytest.mark.parametrize("again", [True, False])
def test_what_comes_for_a_table_that_was_dropped_is_not_put_into_its_place(
    action: Callable[[Store], None], again: bool
) -> None:
    """Dropped before each call, and made anew under its name or not: the new one is as it was made, nothing brings the
    old one back, and who wrote is told."""
    counted = FaultStorage(branched(False)[0])
    delete_branch(make_store(counted.inner, FakeClock(), SCHEMA), "b")
    action(make_store(counted, FakeClock(1), SCHEMA))
    looked = max(k for k, (called, path) in enumerate(counted.calls) if called == "read" and "/schema-0" in path)
    refused, first = 0, 2 if action is widen else 0  # a change is of the schema that it finds
    for place in range(first, len(counted.calls)):
        storage, store = branched(False)
        delete_branch(store, "b")
        other = replace(SCHEMA, time_millis=1_800_000_000_000)

        def plan(k: int, operation: str, path: str, at: int = place, files: MapStorage = storage) -> None:
            if k == at:
                files.files.clear()
                if again:
                    create_table(files, FakeClock(), other)

        clear_cache()
        try:
            action(make_store(FaultStorage(storage, plan), FakeClock(1), SCHEMA))
        except BucketlakeError:
            refused += 1
        else:
            assert place > looked, f"at call {place}"
        names = ("/snapshot-", "/schema-")
        left = {path: data for path, data in storage.files.items() if any(name in path for name in names)}
        assert left == ({store.paths.schema(0): other.encode()} if again else {}), f"at call {place}"
    assert refused > looked - first


@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER])
def test_cleaning_gets_past_what_a_dead_writer_left_of_a_branch(fault: str) -> None:
    """The branch is deleted, and the writer dies, at each call after its put: nothing else that lives goes."""
    made = calls(True)
    first = next(at for at, (called, path) in enumerate(made) if called == "put_if_absent" and "/snapshot-" in path)
    seen = 0
    for place in range(first, len(made) + 2):
        storage, store = branched(True)

        def plan(k: int, operation: str, path: str, at: int = place, own: Store = store) -> str | None:
            if k == first:
                delete_branch(own, "b")
            return fault if k == at else None

        with suppress(Killed, BucketlakeError):
            put(make_store(FaultStorage(storage, plan), FakeClock(1), SCHEMA).on_branch("b"), "new", 20)
        seen += bool(store.branches())
        stray = f"{store.paths.bucket_dir(message().partition, 0)}/data-stray-0.parquet"
        for _ in ("whole", "in part"):
            storage.write(stray, b"1")
            clear_cache()
            assert stray in remove_orphans(store, 1 << 60, threads=1).paths
            assert live_names(store) == {"base"}
            for snapshot in store.on_branch("b").snapshots():
                storage.delete(store.paths.manifest(snapshot.base_manifest_list))
    assert seen


def test_a_branch_without_schemas_keeps_its_files() -> None:
    """As one that is being made has, whose tag is deleted meanwhile."""
    storage, store = branched(True)
    branch = store.on_branch("b")
    put(branch, "new", 20)
    held = storage.read(store.paths.schema(0))
    storage.delete(branch.paths.schema(0))
    clear_cache()
    remove_orphans(store, 1 << 60, threads=1)
    storage.write(branch.paths.schema(0), held)
    clear_cache()
    assert live_names(branch) == {"base", "new"}
    folder = store.paths.bucket_dir(message().partition, 0)
    assert {f"{folder}/base", f"{folder}/new"} <= storage.files.keys()


def test_an_expiry_names_the_tag_that_is_in_its_way() -> None:
    """Its maker died after the put; its snapshot had expired since it was looked up."""
    clear_cache()
    storage = MapStorage()
    store = create_table(storage, FakeClock(), SCHEMA)

    def expire() -> int:
        clear_cache()
        return expire_snapshots(store, ExpireConfig.of(store, Limits(retain_max=1, retain_min=1))).snapshots

    for number in range(3):
        put(store, f"f{number}", 10 * number)

    def plan(k: int, operation: str, path: str) -> str | None:
        if operation != "put_if_absent":
            return None
        assert expire() == 2
        return KILL_AFTER

    with pytest.raises(Killed):
        create_tag(make_store(FaultStorage(storage, plan), FakeClock(1), SCHEMA), "dead", 1)
    put(store, "f3", 30)
    with pytest.raises(NotFoundError, match="Tag 'dead' leads to files that are not there") as caught:
        expire()
    assert "sys.delete_tag" in str(caught.value)
    assert live_names(store) == {"f0", "f1", "f2", "f3"}
    assert delete_tag(store, "dead")
    assert store.snapshot_ids() == [4] or expire() == 1
    remove_orphans(store, 1 << 60, threads=1)
    assert live_names(store) == {"f0", "f1", "f2", "f3"}


def test_a_fast_forward_beside_which_the_table_is_made_anew_takes_and_leaves_nothing() -> None:
    """Before each call: of the new table, whose snapshots and tags have the same names, all but hints stays, and no
    file of the branch comes to it. Between its look and a delete nobody can tell."""
    started = interrupted.copied("append")
    interrupted.through(started).table("t").with_options(branch="dev").alter(AddColumn("w", BIGINT))
    branch = interrupted.through(started).table("t$branch_dev")
    branch.write_arrow(pa.table({"k": [6], "v": [6], "p": pa.array([0], pa.int32()), "w": [1]}))
    branch.create_tag("d", 2)
    counted = FaultStorage(MapStorage())
    counted.inner.files.update(started.files)
    interrupted.through(counted).table("t").fast_forward("dev")
    refused = 0
    for at, (called, _) in enumerate(counted.calls):
        storage, made = MapStorage(), {}
        storage.files.update(started.files)

        def plan(
            k: int, operation: str, path: str, storage: MapStorage = storage, made: Any = made, at: int = at
        ) -> None:
            if k == at:
                catalog = interrupted.through(storage)
                catalog.env.clock.millis += 10**9
                catalog.drop_table("t")
                table = catalog.create_table("t", interrupted.SCHEMA, ["p"])
                for key in (41, 42):
                    table.write_arrow(interrupted.rows_of([key], 4))
                table.create_tag("own", 1)
                made.update(storage.files)
                clear_cache()

        try:
            interrupted.through(FaultStorage(storage, plan)).table("t").fast_forward("dev")
        except BucketlakeError:
            refused += 1
        lost = {
            path for path in made if storage.files.get(path) != made[path] and not path.endswith(("LATEST", "EARLIEST"))
        }
        assert not lost or called == "delete", f"at call {at}: {lost}"
        assert not set(storage.files) - set(made) or at == 0, f"at call {at}: {set(storage.files) - set(made)}"
    assert refused > 30


OTHER = pa.schema([pa.field("v", pa.string()), pa.field("k", pa.int32(), False)])
BY_OLD_HANDLES: dict[str, Callable[[Table], Any]] = {
    "write": lambda t: t.write_arrow(interrupted.rows_of([7], 7)),
    "overwrite": lambda t: t.write_arrow(interrupted.rows_of([7], 7), mode="overwrite"),
    "delete": lambda t: t.delete("k >= 3"),
    "update": lambda t: t.update({"v": 8}, "k = 4"),
    "compact": lambda t: t.compact(full=True),
    "compact due": lambda t: t.compact(),
    "rollback": lambda t: t.rollback_to(1),
    "rollback as latest": lambda t: t.rollback_to_as_latest(1),
    "drop column": lambda t: t.alter(DropColumn("v")),
    "drop partition": lambda t: t.drop_partitions([{"p": "1"}]),
    "truncate": lambda t: t.truncate(),
    "orphans": lambda t: t.remove_orphan_files(),
    "read": lambda t: t.to_arrow(),
}


@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.parametrize("what", ["gone", "made anew", "made anew and altered"])
def test_an_old_handle_does_nothing_to_what_lies_in_its_tables_place(kind: str, what: str) -> None:
    """And it is told so: not that nothing was to be done, nor that something is damaged."""
    for name, action in BY_OLD_HANDLES.items():
        storage = MapStorage()
        storage.files.update(interrupted.made(kind))
        old, catalog = interrupted.through(storage).table("t"), interrupted.through(storage)
        catalog.env.clock.millis += 10**9
        catalog.drop_table("t")
        if what != "gone":
            new = catalog.create_table("t", OTHER, [], ["k"] if kind == "keyed" else [])
            for key in (41, 42):
                if what != "made anew":
                    new = new.alter(SetOption("comment", str(key)))
                new.write_arrow(pa.table({"v": ["x"], "k": pa.array([key], pa.int32())}, schema=OTHER))
            new.create_tag("own", 1)
        before = dict(storage.files)
        clear_cache()
        with pytest.raises(NotFoundError if what == "gone" else (ConflictError, NotFoundError)):
            action(old)
            pytest.fail(f"{name} was done")
        assert storage.files == before, name


def before_each_call(
    kind: str, change: Callable[[Catalog], Any], other: Callable[[Catalog], Any]
) -> Iterator[tuple[str, MapStorage, bool]]:
    """A change, with another one before each of its calls: where, what is left, whether the first succeeded."""
    counted = FaultStorage(interrupted.copied(kind))
    change(interrupted.through(counted))
    for at, call in enumerate(counted.calls):
        storage = interrupted.copied(kind)

        def plan(k: int, operation: str, path: str, at: int = at, storage: MapStorage = storage) -> None:
            if k == at:
                with suppress(BucketlakeError):
                    other(interrupted.through(storage))
                clear_cache()

        try:
            change(interrupted.through(FaultStorage(storage, plan)))
            done = True
        except BucketlakeError:
            done = False
        yield f"at call {at}: {call}", storage, done


def test_an_alter_beside_a_drop_leaves_no_table() -> None:
    def widen(catalog: Catalog) -> None:
        catalog.table("t").alter(AddColumn("w", BIGINT))

    for where, storage, done in before_each_call("append", lambda catalog: catalog.drop_table("t"), widen):
        assert done, where
        assert not interrupted.through(storage).table_exists("t"), where
        interrupted.through(storage).create_table("t", OTHER)


def replace_table(catalog: Catalog) -> None:
    table = catalog.table("t")
    schema = table.schema
    made = create_schema(schema.fields, schema.partition_keys, schema.primary_keys, schema.options)
    replacement = draft_replacement(table.store, made, "t")
    replacement.switch()
    replacement.finish()


@pytest.mark.parametrize(("kind", "back"), [("append", 1), ("keyed", "v2")])
def test_a_rollback_beside_a_replacement_brings_no_rows_under_other_columns(kind: str, back: int | str) -> None:
    refused = 0
    for where, storage, done in before_each_call(kind, lambda c: c.table("t").rollback_to(back), replace_table):
        assert interrupted.seen(interrupted.through(storage).table("t")) == [], where
        refused += not done
    assert refused > 5
    for where, storage, done in before_each_call(kind, replace_table, lambda c: c.table("t").rollback_to(back)):
        rows = interrupted.seen(interrupted.through(storage).table("t"))
        assert rows == [] if done else all(key is not None for key, _, _ in rows), where


def test_a_commit_beside_a_rollback_says_what_became_of_it() -> None:
    counted, said = FaultStorage(interrupted.copied("append")), set[str]()
    interrupted.through(counted).table("t").write_arrow(interrupted.rows_of([7], 7))
    for at in range(len(counted.calls)):
        storage = interrupted.copied("append")

        def plan(k: int, operation: str, path: str, at: int = at, storage: MapStorage = storage) -> None:
            if k == at:
                interrupted.through(storage).table("t").rollback_to(1)
                clear_cache()

        try:
            interrupted.through(FaultStorage(storage, plan)).table("t").write_arrow(interrupted.rows_of([7], 7))
        except BucketlakeError as error:
            assert (7, 7, 1) not in interrupted.seen(interrupted.through(storage).table("t")), at
            said.add(error.what)
    gone = "a rollback or an expiry took away the snapshot that the commit stands on"
    assert said == {
        f"{gone}, and what was published on it is taken back",
        f"{gone}: whether the table holds what was published cannot be told",
    }
