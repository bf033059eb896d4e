"""The process dies, the store fails or loses the answer: at every call of a commit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
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
    fault_on,
)
from tests.sim.tables import (
    check_table,
    commit_of,
    create_table,
    data_file,
    live_names,
    make_store,
    message,
    orphans,
    partition,
    table_schema,
)

from bucketlake.errors import BucketlakeError, CommitUnknownError, StorageError
from bucketlake.format.metadata.snapshot import encode_snapshot
from bucketlake.ops.refs.rollback import go_back_to_intact, rollback
from bucketlake.ops.table.store import clear_cache

SCHEMA = table_schema(options={"manifest.merge-min-count": "2", "commit.max-retries": "4"})
BASE = data_file("base")


def work(store: Any) -> Any:
    """A commit that renumbers, merges manifests, and ends as two snapshots."""
    own = data_file("new", sequences=(0, 4))
    other = data_file("p2", sequences=(0, 3))
    return commit_of(store, "worker").commit(
        [
            message(own),
            message(other, part=partition(2), compact_before=(other,), compact_after=(replace(other, level=5),)),
        ],
        9,
    )


def base_table() -> tuple[MapStorage, Any]:
    clear_cache()
    inner = MapStorage()
    store = create_table(inner, FakeClock(), SCHEMA)
    for bucket in (0, 1):
        commit_of(store, "base").commit([message(replace(BASE, file_name=f"base{bucket}"), bucket=bucket)])
    return inner, store


def calls_of(action: Callable[[Any], Any]) -> int:
    inner, _ = base_table()
    storage = FaultStorage(inner)
    action(make_store(storage, FakeClock(1), SCHEMA))
    return len(storage.calls)


STATES = ({"base0", "base1"}, {"base0", "base1", "new'", "p2"})


@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER])
def test_dying_at_every_call_leaves_the_table_before_or_after(fault: str) -> None:
    for call in range(calls_of(work)):
        inner, store = base_table()
        storage = FaultStorage(inner, fault_at(call, fault))
        with pytest.raises(Killed):
            work(make_store(storage, FakeClock(1), SCHEMA))
        clear_cache()
        check_table(store)
        assert live_names(store) in STATES, f"call {call}: {storage.calls[-1]}"
        # a restart finishes the work, whatever was left behind
        work(make_store(inner, FakeClock(2), SCHEMA))
        check_table(store)
        assert live_names(store) == STATES[1], f"call {call}: {storage.calls[-1]}"
        assert [s.commit_kind.value for s in store.snapshots()] == ["APPEND", "APPEND", "APPEND", "COMPACT"]


@pytest.mark.parametrize("fault", [FAIL_BEFORE, FAIL_AFTER])
def test_a_failure_at_every_call_is_survived_or_reported(fault: str) -> None:
    for call in range(calls_of(work)):
        inner, store = base_table()
        storage = FaultStorage(inner, fault_at(call, fault))
        where = f"call {call}"
        try:
            work(make_store(storage, FakeClock(1), SCHEMA))
            assert live_names(store) == STATES[1], where
        except StorageError:
            assert live_names(store) in STATES, where
        clear_cache()
        check_table(store)
        work(make_store(inner, FakeClock(2), SCHEMA))
        assert live_names(store) == STATES[1], where


def lose(times: int, fault: str = FAIL_AFTER) -> tuple[MapStorage, Any, Any]:
    inner, store = base_table()
    storage = FaultStorage(inner, fault_on("put_if_absent", "snapshot-3", fault, times))
    return inner, store, make_store(storage, FakeClock(1), SCHEMA)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("fault", [FAIL_AFTER, FAIL_BEFORE])
def test_a_lost_answer_is_resolved_by_the_uuid(fault: str, times: int) -> None:
    inner, store, faulty = lose(times, fault)
    done = commit_of(faulty).commit([message(data_file("x", sequences=(10, 19)))])
    assert done == store.snapshot(3)
    assert live_names(store) == {"base0", "base1", "x"}
    assert not orphans(store, inner.files)


def test_an_answer_that_never_comes_is_unknown_and_removes_nothing() -> None:
    _, store, faulty = lose(1000)
    with pytest.raises(CommitUnknownError) as caught:
        commit_of(faulty).commit([message(data_file("x", sequences=(10, 19)))])
    assert store.snapshot(3).uuid in str(caught.value)
    assert live_names(store) == {"base0", "base1", "x"}, "it had landed"
    check_table(store)


def test_another_commit_takes_the_name_while_the_answer_is_lost() -> None:
    inner, store = base_table()
    rival = commit_of(make_store(inner, FakeClock(5), SCHEMA), "rival")

    def plan(k: int, operation: str, path: str) -> str | None:
        if operation == "put_if_absent" and path.endswith("snapshot-3") and store.latest_snapshot_id() == 2:
            rival.commit([message(data_file("r", sequences=(10, 12)))])
            return FAIL_BEFORE
        return None

    done = commit_of(make_store(FaultStorage(inner, plan), FakeClock(1), SCHEMA)).commit(
        [message(data_file("x", sequences=(10, 19)))]
    )
    assert done.id == 4
    assert live_names(store) == {"base0", "base1", "r", "x'"}
    check_table(store)
    assert not orphans(store, inner.files)


def test_publishing_into_the_expired_past_is_noticed() -> None:
    inner, store = base_table()
    rival = commit_of(make_store(inner, FakeClock(5), SCHEMA), "rival")

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and store.latest_snapshot_id() == 2:
            for n in range(5):
                rival.commit([message(data_file(f"r{n}", sequences=(10 + n, 10 + n)))])
            for old in range(1, 5):
                inner.delete(store.paths.snapshot(old))

    with pytest.raises(CommitUnknownError):
        commit_of(make_store(FaultStorage(inner, plan), FakeClock(1), SCHEMA)).commit(
            [message(data_file("x", sequences=(10, 19)))]
        )
    assert "x" not in live_names(store)


@pytest.mark.parametrize("damage", ["gone", "garbage", "fails", "foreign"])
def test_nothing_but_unknown_is_raised_after_the_name_was_taken(damage: str) -> None:
    """The base expires right after publishing, and what tells whether the commit lives cannot be read."""
    inner, store = base_table()
    rival = commit_of(make_store(inner, FakeClock(5), SCHEMA), "rival")
    published: list[bool] = []

    def plan(k: int, operation: str, path: str) -> Any:
        if operation == "read" and path.endswith("snapshot-2") and store.has_snapshot(3) and not published:
            published.append(True)
            for n in range(2):
                rival.commit([message(data_file(f"r{n}", sequences=(30 + n, 30 + n)))])
            for old in (1, 2):
                inner.delete(store.paths.snapshot(old))
            clear_cache()
            name = store.paths.manifest(store.snapshot(4).base_manifest_list)
            if damage == "gone":
                inner.delete(name)
            if damage == "garbage":
                inner.files[name] = b"no avro"
        if published and damage in ("fails", "foreign") and operation == "list":
            return FAIL_BEFORE if damage == "fails" else Raised(ValueError)
        return None

    faulty = make_store(FaultStorage(inner, plan), FakeClock(1), SCHEMA)
    with pytest.raises(CommitUnknownError):
        commit_of(faulty).commit([message(data_file("x", sequences=(10, 19)))])
    assert published and store.has_snapshot(3), "it lives, and stays"


def test_a_base_that_expires_right_after_publishing_is_no_failure() -> None:
    inner, store = base_table()
    rival = commit_of(make_store(inner, FakeClock(5), SCHEMA), "rival")
    published: list[bool] = []

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "read" and path.endswith("snapshot-2") and store.has_snapshot(3) and not published:
            published.append(True)
            for n in range(5):  # enough to merge the manifests
                rival.commit([message(data_file(f"r{n}", sequences=(30 + n, 30 + n)))])
            for old in (1, 2):
                inner.delete(store.paths.snapshot(old))

    done = commit_of(make_store(FaultStorage(inner, plan), FakeClock(1), SCHEMA)).commit(
        [message(data_file("x", sequences=(20, 29)))]
    )
    assert published and done.id == 3 and "x" in {name.rstrip("'") for name in live_names(store)}


def test_another_writer_commits_at_every_call() -> None:
    for call in range(calls_of(work)):
        inner, store = base_table()
        rival = commit_of(make_store(inner, FakeClock(5), SCHEMA), "rival")

        def plan(k: int, operation: str, path: str, call: int = call, rival: Any = rival) -> None:
            if k == call:
                rival.commit([message(data_file("r", sequences=(10, 12)))])

        work(make_store(FaultStorage(inner, plan), FakeClock(1), SCHEMA))
        check_table(store)
        names = {name.rstrip("'") for name in live_names(store)}
        assert names == {"base0", "base1", "new", "p2", "r"}, f"call {call}"
        assert len(store.snapshot_ids()) == 5
        assert not orphans(store, inner.files), f"call {call}"


def test_hints_are_best_effort() -> None:
    inner, store = base_table()
    storage = FaultStorage(inner, fault_on("write", "LATEST", FAIL_BEFORE, 100))
    commit_of(make_store(storage, FakeClock(1), SCHEMA)).commit([message(data_file("x", sequences=(10, 19)))])
    assert inner.read(store.paths.latest_hint) == b"2"
    assert store.latest_snapshot().id == 3


def test_no_hint_names_a_snapshot_that_a_rollback_took_away() -> None:
    """Apache Paimon goes by the hint where there is no snapshot behind the hint's: it could not read the table."""
    for call in range(calls_of(work)):
        inner, store = base_table()

        def plan(k: int, operation: str, path: str, call: int = call, store: Any = store) -> None:
            if k == call:
                rollback(store, store.snapshot(1))

        with suppress(BucketlakeError):
            work(make_store(FaultStorage(inner, plan), FakeClock(1), SCHEMA))
        hint, ids = store.hint(store.paths.latest_hint), store.snapshot_ids()
        assert hint is None or hint in ids or hint + 1 in ids, f"call {call}: {hint} of {ids}"


def test_a_damaged_snapshot_that_went_has_no_hint() -> None:
    """Its writer set the hint while the others were taken away."""
    inner, store = base_table()
    inner.files[store.paths.snapshot(2)] = b""

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "delete" and path.endswith("snapshot-2"):
            inner.files[store.paths.latest_hint] = b"2"

    assert go_back_to_intact(make_store(FaultStorage(inner, plan), FakeClock(1), SCHEMA), 2)
    assert (store.hint(store.paths.latest_hint), store.snapshot_ids()) == (1, [1])


def test_errors_of_the_plan_leave_nothing_behind() -> None:
    inner, store = base_table()
    before = set(inner.files)
    with pytest.raises(BucketlakeError):
        commit_of(store).commit([message(deleted_files=(data_file("gone"),))])
    assert set(inner.files) == before


def test_a_snapshot_of_another_run_with_the_same_identifier_counts_as_ours() -> None:
    """Two incarnations of one streaming job: the second finds the first's snapshot when it loses the race."""
    inner, store = base_table()
    twin = commit_of(make_store(inner, FakeClock(5), SCHEMA), "job")
    files = [message(data_file("x", sequences=(10, 19)))]

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and store.latest_snapshot_id() == 2:
            twin.commit(files, 4)

    done = commit_of(make_store(FaultStorage(inner, plan), FakeClock(1), SCHEMA), "job").commit(files, 4)
    assert done == store.snapshot(3)
    assert store.latest_snapshot_id() == 3
    assert not orphans(store, inner.files)
    assert encode_snapshot(done) == inner.read(store.paths.snapshot(3))
