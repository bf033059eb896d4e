"""Writers that meet, answers that are lost, processes that die, stores that are careless."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.object_store.conftest import S3, rows
from tests.profile import SOAK, later
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, FaultStorage, Killed, fault_at, fault_on

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.env import object_store
from bucketlake.env.env import Env
from bucketlake.errors import CommitUnknownError, StorageError
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.store import clear_cache
from bucketlake.table import Table, open_table

SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64())])
QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "50 ms", "write-only": "true"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "keyed": (["k"], {"bucket": "1"}),
    "bucketed": ([], {"bucket": "1", "bucket-key": "k"}),
    "unaware": ([], {"bucket": "-1"}),
}


@pytest.fixture(params=list(KINDS))
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    keys, options = KINDS[request.param]
    return catalog.create_table("t", SCHEMA, primary_keys=keys, options={**options, **QUICK})


def keyed(catalog: Catalog, **options: str) -> Table:
    return catalog.create_table("t", SCHEMA, primary_keys=["k"], options={"bucket": "1", **QUICK, **options})


def data(keys: Any, value: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [value] * len(list(keys))}, SCHEMA)


def check(table: Table, commits: int, s3: S3) -> None:
    """Snapshots are contiguous, each was published by one conditional put that won, and no sequence number is twice."""
    snapshots = table.snapshots()
    assert [snapshot.id for snapshot in snapshots] == list(range(1, commits + 1))
    published = s3.puts("/t/snapshot/snapshot-")
    assert {condition for _, condition, _ in published} == {"*"}
    won = Counter(path for path, _, status in published if status == 200)
    assert sorted(won.values()) == [1] * commits
    if table.schema.bucket > 0:
        entries = live_entries(table.store, snapshots[-1])
        ranges = sorted((e.file.min_sequence_number, e.file.max_sequence_number) for e in entries)
        assert all(left[1] < right[0] for left, right in pairwise(ranges)), ranges


def child(catalog: Catalog, s3: S3, **more: Any) -> subprocess.Popen[str]:
    given = {"warehouse": catalog.warehouse, "options": s3.options, **more}
    script = str(Path(__file__).with_name("child.py"))
    return subprocess.Popen([sys.executable, script, json.dumps(given)], stdin=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_writers_in_processes_and_threads(table: Table, catalog: Catalog, s3: S3) -> None:
    children = [child(catalog, s3, action="write", number=number, turns=3) for number in range(2)]
    others = [open_table(table.path, table.store.env, name="t") for _ in range(2)]

    def write(number: int) -> None:
        for turn in range(3):
            others[number].write_arrow(data(range(turn, 40, 2), 1000 + number * 100 + turn))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for process in children:
        assert process.stdin is not None
        process.stdin.close()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait(120) for process in children] == [0, 0]
    check(table, 12, s3)
    found = rows(table)
    if table.schema.primary_keys:
        assert [k for k, _ in found] == list(range(40))
    else:
        every = [(k, base + turn) for base in (0, 100, 1000, 1100) for turn in range(3) for k in range(turn, 40, 2)]
        assert found == sorted(every)


def test_the_name_is_given_once(catalog: Catalog, s3: S3) -> None:
    """Two writers that saw the same base: the second's put is refused by the store, and it takes the next name."""
    table = keyed(catalog)
    inner = table.store.env.storage
    met = threading.Event()

    def meet(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and not met.is_set():
            met.set()
            table.write_arrow(data([1, 2], 1))

    late = open_table(table.path, Env(FaultStorage(inner, meet)), name="t")
    late.write_arrow(data([2, 3], 2))
    assert rows(table) == [(1, 1), (2, 2), (3, 2)]
    published = s3.puts("/t/snapshot/snapshot-")
    assert [(path[-1], status) for path, _, status in published] == [("1", 200), ("1", 412), ("2", 200)]
    check(table, 2, s3)


@pytest.mark.parametrize("fault", ["lose", "refuse"])
@pytest.mark.parametrize("times", [1, 3])
def test_the_client_asks_again_by_itself(table: Table, s3: S3, fault: str, times: int) -> None:
    s3.fail(("/t/snapshot/snapshot-1", fault, times))
    done = table.write_arrow(data([1, 2], 1))
    assert done is not None
    assert [snapshot.uuid for snapshot in table.snapshots()] == [done.uuid]
    assert rows(table) == [(1, 1), (2, 1)]
    published = [status for path, _, status in s3.puts("/t/snapshot/snapshot-1")]
    assert published == [500] * times + [412 if fault == "lose" else 200]


def test_a_store_that_is_busy_with_a_name_that_nobody_gets(catalog: Catalog, s3: S3) -> None:
    """S3 answers 409 where another conditional request for the name was under way: the name is not taken by that."""
    s3.fail(("/t/schema/schema-0", "busy", 1), ("/t/snapshot/snapshot-1", "busy", 2))
    table = keyed(catalog)
    table.write_arrow(data([1, 2], 1))
    assert rows(table) == [(1, 1), (2, 1)]
    assert [status for _, _, status in s3.puts("/t/schema/schema-0")] == [409, 200]
    assert [status for _, _, status in s3.puts("/t/snapshot/snapshot-1")] == [409, 409, 200]


@pytest.mark.parametrize("fault", [FAIL_AFTER, FAIL_BEFORE])
def test_lost_answers_at_publish_are_resolved(table: Table, fault: str) -> None:
    storage = FaultStorage(table.store.env.storage, fault_on("put_if_absent", "snapshot-1", fault, 2))
    done = open_table(table.path, Env(storage), name="t").write_arrow(data([1, 2], 1))
    assert done is not None
    assert [snapshot.uuid for snapshot in table.snapshots()] == [done.uuid]
    assert rows(table) == [(1, 1), (2, 1)]


def test_answers_that_never_come_are_reported(catalog: Catalog) -> None:
    table = keyed(catalog, **{"commit.max-retries": "2"})
    for fault, expected in ((FAIL_BEFORE, []), (FAIL_AFTER, [(1, 1)])):
        storage = FaultStorage(table.store.env.storage, fault_on("put_if_absent", "snapshot-", fault, 99))
        with pytest.raises(CommitUnknownError, match="look for a snapshot with this uuid"):
            open_table(table.path, Env(storage), name="t").write_arrow(data([1], 1))
        assert rows(table) == expected


@pytest.mark.parametrize("fault", later([KILL_AFTER, FAIL_BEFORE, FAIL_AFTER], 1))
def test_faults_at_every_call_of_a_write(catalog: Catalog, fault: str) -> None:
    table = keyed(catalog)
    table.write_arrow(data(range(3), 0))
    before, after = rows(table), [(k, 1) for k in range(5)]
    inner = table.store.env.storage
    call, finished = 0, False
    while not finished:
        clear_cache()
        storage = FaultStorage(inner, fault_at(call, fault))
        first = table.latest_snapshot()
        assert first is not None
        with contextlib.suppress(Killed, StorageError):
            open_table(table.path, Env(storage), name="t").write_arrow(data(range(5), 1))
        finished = len(storage.calls) <= call
        last = table.latest_snapshot()
        assert last is not None
        assert last.id in (first.id, first.id + 1), call
        assert rows(table) == (before if last.id == first.id else after), call
        if last.id != first.id:  # as it was before
            table.write_arrow(data(range(3), 0), mode="overwrite")
        call += 1 if SOAK else 3
    assert call > 10
    table.write_arrow(data(range(5), 1))
    assert rows(table) == after
    ids = [snapshot.id for snapshot in table.snapshots()]
    assert ids == list(range(1, len(ids) + 1))


@pytest.mark.parametrize("moment", later(["after", "between", "before"], 1))
def test_killed_processes(catalog: Catalog, s3: S3, moment: str) -> None:
    options = {"target-file-size": "4 kb", "write-buffer-size": "16 kb"}
    table = keyed(catalog, **options)
    table.write_arrow(data(range(10), 0))
    known = s3.keys(table.path)
    process = child(catalog, s3, action="die", moment=moment)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    clear_cache()
    if moment == "after":
        assert rows(table) == [(k, -1) for k in range(4000)]
    else:
        assert s3.keys(table.path) > known, "it died with work done"
        assert rows(table) == [(k, 0) for k in range(10)]
    assert len(table.snapshots()) == (2 if moment == "after" else 1)
    table.write_arrow(data(range(20), 5))
    assert rows(table)[:20] == [(k, 5) for k in range(20)]


def test_failed_writes_remove_their_objects(table: Table, s3: S3) -> None:
    table.write_arrow(data(range(10), 0))
    known = s3.keys(table.path)

    def broken() -> Any:
        yield from data(range(5000), 1).to_batches()
        raise RuntimeError("source is gone")

    small = {"target-file-size": "4 kb", "write-buffer-size": "16 kb"}
    with pytest.raises(RuntimeError, match="source is gone"):
        table.write_arrow(broken(), **small)
    assert s3.keys(table.path) == known
    assert rows(table) == [(k, 0) for k in range(10)]


def test_stores_that_ignore_conditions_are_refused(s3: S3) -> None:
    careless = bucketlake.open("s3://careless/wh", s3.options)
    with pytest.raises(StorageError, match=r"ignores conditional puts.*If-None-Match"):
        careless.create_table("t", SCHEMA)
    assert s3.keys("s3://careless/wh") == set()
    assert careless.list_tables() == []


def test_the_store_is_probed_once(catalog: Catalog, s3: S3) -> None:
    table = keyed(catalog)
    s3.fail()
    table.write_arrow(data([1], 1))
    assert s3.puts(".probe-") == []
    other = bucketlake.open(catalog.warehouse, {**s3.options, "s3.session-token": "new"})
    other.table("t").write_arrow(data([2], 1))
    assert [(condition, status) for _, condition, status in s3.puts(".probe-")] == [("*", 200), ("*", 412)]
    assert not any(".probe-" in key for key in s3.keys(catalog.warehouse))


def test_a_probe_that_somebody_takes_away(catalog: Catalog, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who drops a table removes what lies in its folder: the store honours conditions all the same."""
    real, taken = object_store._created, list[str]()

    def created(store: Any, key: str, data: bytes) -> bool:
        done = real(store, key, data)
        if ".probe-" in key and not taken:
            taken.append(key)
            s3.client.delete_object(Bucket="lake", Key=key)
        return done

    monkeypatch.setattr(object_store, "_created", created)
    object_store._probed.clear()
    keyed(catalog).write_arrow(data([1], 1))
    assert taken
    assert rows(catalog.table("t")) == [(1, 1)]
