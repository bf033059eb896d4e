"""Files that COPY INTO loads: whatever dies, gets no answer, expires, or loads the same files beside, the rows of each
are there once, or the load is refused by name."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import first
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, KILL_BEFORE, FaultStorage, Killed, MapStorage
from tests.sim.tables import ROOT, create_table, make_store, table_schema

from bucketlake.errors import BucketlakeError, CommitUnknownError, ConflictError, CorruptError
from bucketlake.ops.commit.loads import LoadedMeanwhile, Loading, SourceFile, loaded, without_loaded
from bucketlake.ops.table.store import clear_cache
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.table import Table

ROWS = pa.schema([("pt", pa.int32()), ("k", pa.int64()), ("v", pa.string())])
FAULTS = [KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER]
HISTORY, INTENTS = f"{ROOT}/copy-into/history/", f"{ROOT}/copy-into/intents/"
PROCESSES = count()


def schema(keyed: bool = False) -> Any:
    return table_schema(keyed=keyed, partitioned=False, bucket=1 if keyed else -1)


def table_on(storage: Any, keyed: bool = False) -> Table:
    """A process of its own."""
    return Table(make_store(storage, FakeClock(next(PROCESSES)), schema(keyed)), "db.t")


def file(number: int, modified: int = 5) -> SourceFile:
    return SourceFile(f"file:/given/f{number}.csv", 10, modified)


def load(table: Table, numbers: Sequence[int], force: bool = False) -> list[int]:
    """Load files, a row each, as the statement does; the numbers of those that were loaded."""
    store = table.store

    def once() -> list[int]:
        files = [file(number) for number in numbers]
        skipped = set() if force else loaded(store, files)
        wanted = [number for number in numbers if file(number) not in skipped]
        if not wanted:
            return []
        with Loading(store, new_commit_user(store), [(file(n), 1) for n in wanted], again=force) as loading:
            made = pa.record_batch({"pt": [1] * len(wanted), "k": wanted, "v": ["x"] * len(wanted)}, schema=ROWS)
            task = prepare_write(store, table.latest_snapshot(), commit_user=loading.user)
            messages = write_batches(store, [made], task)
            loading.begin()
            loading.finish(table.commit(messages, loading))
        return wanted

    return without_loaded(once)


def numbers(storage: Any) -> list[int]:
    clear_cache()
    return sorted(row["k"] for row in table_on(storage).to_arrow().to_pylist())


def ready() -> MapStorage:
    clear_cache()
    storage = MapStorage()
    create_table(storage, FakeClock(), schema())
    load(table_on(storage), [0])
    return storage


@cache
def places(most: int = 8) -> list[int]:
    """Calls of a load to fail or be overtaken at, in `make soak` all: most of them from its intent on."""
    storage = FaultStorage(ready())
    load(table_on(storage), [1, 2])
    begun = next(k for k, (called, path) in enumerate(storage.calls) if INTENTS in path and called == "write")
    whole = range(len(storage.calls))
    return first(whole[: begun - 1], most // 4) + first(whole[begun - 1 :], most - most // 4)


def below(storage: MapStorage, folder: str) -> list[str]:
    return [path for path in storage.files if path.startswith(folder)]


def attempt(storage: MapStorage, place: int, fault: str, force: bool = False) -> None:
    """A load of files 1 and 2 with a fault at one of its calls."""
    broken = FaultStorage(storage, lambda k, operation, path: fault if k == place else None)
    with contextlib.suppress(Killed, BucketlakeError):
        load(table_on(broken), [1, 2], force)
    clear_cache()


def others_go_on(storage: MapStorage, times: int = 3) -> Table:
    table = table_on(storage)
    for _ in range(times):
        table.write_arrow(pa.table({"pt": [1], "k": [9], "v": ["x"]}, schema=ROWS))
    return table


@pytest.mark.parametrize("fault", FAULTS)
def test_a_load_after_a_fault_loads_what_is_missing(fault: str) -> None:
    for place in places():
        storage = ready()
        attempt(storage, place, fault)
        load(table_on(storage), [1, 2])
        assert numbers(storage) == [0, 1, 2], f"{fault} at call {place}"
        assert load(table_on(storage), [0, 1, 2]) == []
        assert below(storage, INTENTS) == [], f"{fault} at call {place}"
        for path in below(storage, HISTORY):
            record = json.loads(storage.files[path])
            assert set(record) == {"filePath", "fileSize", "lastModified", "loadedAt", "snapshotId", "rowsLoaded"}


def test_a_load_that_was_resolved_has_its_history() -> None:
    """What Paimon's statement reads is there after the next load, whoever wrote it."""
    storage = ready()
    broken = FaultStorage(
        storage, lambda k, operation, path: KILL_BEFORE if HISTORY in path and "write" in operation else None
    )
    with contextlib.suppress(Killed):
        load(table_on(broken), [1, 2])
    assert len(below(storage, HISTORY)) == 1
    assert load(table_on(storage), [2]) == []
    told = [json.loads(storage.files[path]) for path in below(storage, HISTORY)]
    assert sorted((one["filePath"], one["snapshotId"], one["rowsLoaded"]) for one in told) == [
        ("file:/given/f0.csv", 1, 1),
        ("file:/given/f1.csv", 2, 1),
        ("file:/given/f2.csv", 2, 1),
    ]


@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER])
def test_our_expiry_leaves_nothing_unknown(fault: str) -> None:
    for place in places():
        storage = ready()
        attempt(storage, place, fault)
        for _ in range(2):
            table = others_go_on(storage)
            table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
        load(table_on(storage), [1, 2])
        assert [k for k in numbers(storage) if k != 9] == [0, 1, 2], f"{fault} at call {place}"


def test_what_anothers_expiry_took_is_refused() -> None:
    refused = 0
    for place in places(12):
        storage = ready()
        attempt(storage, place, KILL_AFTER)
        others_go_on(storage)
        newest = table_on(storage).latest_snapshot()
        assert newest is not None
        for number in range(1, newest.id):
            storage.delete(f"{ROOT}/snapshot/snapshot-{number}")
        there = [k for k in numbers(storage) if k in (1, 2)]
        try:
            load(table_on(storage), [1, 2])
        except CommitUnknownError as error:
            refused += 1
            assert load(table_on(storage), [3]) == [3], "other files are no concern of it"
            path = below(storage, INTENTS)[0]
            assert path in str(error) and "f1.csv" in str(error)
            if there:  # as the error says
                told = json.loads(storage.files[path])
                storage.write(path, json.dumps({**told, "committed": True}).encode())
            else:
                storage.delete(path)
            load(table_on(storage), [1, 2])
        assert [k for k in numbers(storage) if k in (1, 2)] == [1, 2], f"call {place}"
    assert refused


@pytest.mark.parametrize("forced", [(False, False), (True, False), (False, True)])
def test_two_side_by_side_load_a_file_once(forced: tuple[bool, bool]) -> None:
    lost = 0
    for place in places():
        storage = ready()
        second: list[list[int]] = []

        def beside(k: int, operation: str, path: str, at: int = place, raw: MapStorage = storage) -> None:
            if k == at and not second:
                second.append([])
                second[0] = load(table_on(raw), [2, 3], forced[1])

        ours = load(table_on(FaultStorage(storage, beside)), [1, 2], forced[0])
        if not second:
            break  # a forced load looks less often
        assert numbers(storage) == sorted([0, *ours, *second[0]]), f"at call {place}"
        assert sorted({*ours, *second[0]}) == [1, 2, 3]
        twice = 2 in ours and 2 in second[0]
        assert twice == any(forced) or not twice, f"at call {place}: {ours}, {second}"
        if forced[1]:
            assert 2 in second[0]
        lost += 2 not in ours
        assert load(table_on(storage), [0, 1, 2, 3]) == []
        assert below(storage, INTENTS) == []
    assert lost if forced == (False, False) else True


@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER, FAIL_AFTER])
def test_one_that_dies_beside_another(fault: str) -> None:
    """At each call of one, another begins, and dies or loses an answer at its own call of the same number."""
    for place in places():
        for later in (place, place + 9):
            storage = ready()
            broken = FaultStorage(storage, lambda k, operation, path, at=later: fault if k == at else None)

            def beside(k: int, operation: str, path: str, at: int = place, theirs: FaultStorage = broken) -> None:
                if k == at and not theirs.calls:
                    with contextlib.suppress(Killed, BucketlakeError):
                        load(table_on(theirs), [2, 3])

            load(table_on(FaultStorage(storage, beside)), [1, 2])
            load(table_on(storage), [0, 1, 2, 3])
            assert numbers(storage) == [0, 1, 2, 3], f"{fault} at {place}, {later}"


def test_force_loads_again_and_is_remembered() -> None:
    for place in places():
        storage = ready()
        attempt(storage, place, KILL_AFTER, force=True)
        once = [k for k in numbers(storage) if k]
        assert load(table_on(storage), [1, 2]) == ([] if once else [1, 2]), f"call {place}"
        assert load(table_on(storage), [1, 2], force=True) == [1, 2]
        assert numbers(storage) == [0, 1, 1, 2, 2]


DAMAGED = {
    "empty": b"",
    "cut": b'{"version": 1, "commitUser": "a", "bra',
    "a list": b"[]",
    "another version": b'{"version": 2, "commitUser": "a", "branch": "main", "base": 1, "files": []}',
    "no files": b'{"version": 1, "commitUser": "a", "branch": "main", "base": 1, "files": []}',
    "a base that is none": b'{"version": 1, "commitUser": "a", "branch": "main", "base": -1, "files": [{}]}',
    "a file that is none": b'{"version": 1, "commitUser": "a", "branch": "main", "base": 1, "files": [{"filePath": "a"}]}',
    "no numbers": b'{"version": 1, "commitUser": "a", "branch": "main", "base": 1, "files": '
    b'[{"filePath": "a", "fileSize": "x", "lastModified": 1e999, "rowsLoaded": 1}]}',
    "deep": b"[" * 100_000,
    "surrogates": b'{"version": 1, "commitUser": "\\ud800", "branch": "main", "base": 1, "files": [{}]}',
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_intent_is_named(name: str) -> None:
    storage = ready()
    path = f"{INTENTS}load-x"
    storage.write(path, DAMAGED[name])
    with pytest.raises(CorruptError, match="not an intent of COPY INTO") as caught:
        load(table_on(storage), [1])
    assert path in str(caught.value)
    assert numbers(storage) == [0]
    assert load(table_on(storage), [1], force=True) == [1]
    others_go_on(storage).expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    storage.delete(path)
    assert load(table_on(storage), [1]) == []


@pytest.mark.parametrize("branch", ["../../other", "nowhere", "main"])
def test_a_hostile_intent_says_no_more_than_a_record(branch: str) -> None:
    """It leads nowhere, is of no branch that is not there, and may be far ahead; no snapshot is its own."""
    storage = ready()
    told = {"version": 1, "commitUser": "nobody", "branch": branch, "base": 2**63 - 1}
    files = [{"filePath": file(1).path, "fileSize": 10, "lastModified": 5, "rowsLoaded": 1}]
    storage.write(f"{INTENTS}load-x", json.dumps({**told, "files": files}).encode())
    storage.write(f"{INTENTS}README", b"x")
    storage.write(f"{INTENTS}load-folder/load-x", b"x")
    if branch == "main":
        assert load(table_on(storage), [1]) == [1]
        return
    with pytest.raises(CommitUnknownError):
        load(table_on(storage), [1])
    assert load(table_on(storage), [2]) == [2]
    assert load(table_on(storage), [1], force=True) == [1]


def test_a_rollback_meanwhile() -> None:
    """What was rolled back was not loaded, unless the history says so; a load begun before stands on what is left."""
    for place in places():
        storage = ready()
        others_go_on(storage, 1)
        done: list[bool] = []

        def beside(k: int, operation: str, path: str, at: int = place, raw: MapStorage = storage) -> None:
            if k == at and not done:
                done.append(True)
                table_on(raw).rollback_to(1)

        with contextlib.suppress(ConflictError, CommitUnknownError):  # a write that finds its base gone
            load(table_on(FaultStorage(storage, beside)), [1, 2])
        before = [k for k in numbers(storage) if k in (1, 2)]
        after = load(table_on(storage), [1, 2])
        assert sorted([*before, *after]) in ([1, 2], []), f"at call {place}"


def test_what_was_rolled_back_before_it_was_remembered_is_loaded_again() -> None:
    storage = ready()
    broken = FaultStorage(
        storage, lambda k, operation, path: KILL_BEFORE if operation == "write" and HISTORY in path else None
    )
    with contextlib.suppress(Killed):
        load(table_on(broken), [1, 2])
    assert numbers(storage) == [0, 1, 2]
    table_on(storage).rollback_to(1)
    others_go_on(storage, 2)
    assert load(table_on(storage), [1, 2]) == [1, 2]
    assert numbers(storage) == [0, 1, 2, 9, 9]


def test_it_is_tried_no_more_than_some_times() -> None:
    tries = []

    def once() -> None:
        tries.append(1)
        raise LoadedMeanwhile("again")

    with pytest.raises(LoadedMeanwhile):
        without_loaded(once)
    assert 1 < len(tries) < 20
