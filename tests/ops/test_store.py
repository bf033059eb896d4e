"""Finding snapshots, tags and schemas; hints that lie; caches."""

from __future__ import annotations

import gc
import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FaultStorage, MapStorage
from tests.sim.tables import commit_of, create_table, data_file, make_store, message, table_schema

import bucketlake
from bucketlake.env.env import Env, SystemClock
from bucketlake.env.local import LocalStorage
from bucketlake.errors import NotFoundError
from bucketlake.format.metadata.snapshot import encode_snapshot
from bucketlake.ops.table import decoded
from bucketlake.ops.table.store import MAX_PROBES, clear_cache

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def table_with(snapshots: int) -> tuple[MapStorage, Any]:
    inner = MapStorage()
    store = create_table(inner, FakeClock())
    for n in range(snapshots):
        commit_of(store).commit([message(data_file(f"f{n}", sequences=(n, n)))])
    return inner, store


def test_a_table_without_snapshots() -> None:
    _, store = table_with(0)
    assert store.latest_snapshot() is None
    assert store.latest_snapshot_id() is None
    assert store.earliest_snapshot() is None
    assert list(store.snapshots()) == []
    with pytest.raises(NotFoundError, match="There is currently no snapshot"):
        store.snapshot(1)


@pytest.mark.parametrize("hint", [b"5", b"3", b"1", b"99", b"0", b"-1", b"abc", b"\xff\xfe", b"", None])
def test_a_latest_hint_is_never_trusted(hint: bytes | None) -> None:
    inner, store = table_with(5)
    if hint is None:
        inner.delete(store.paths.latest_hint)
    else:
        inner.write(store.paths.latest_hint, hint)
    assert store.latest_snapshot().id == 5


@pytest.mark.parametrize("hint", [b"3", b"4", b"1", b"99", b"x", None])
def test_an_earliest_hint_is_never_trusted(hint: bytes | None) -> None:
    inner, store = table_with(5)
    for expired in (1, 2):
        inner.delete(store.paths.snapshot(expired))
    if hint is None:
        inner.delete(store.paths.earliest_hint)
    else:
        inner.write(store.paths.earliest_hint, hint)
    assert store.earliest_snapshot().id == 3


def test_a_hint_far_behind_is_replaced_by_a_listing() -> None:
    inner, store = table_with(MAX_PROBES + 5)
    inner.write(store.paths.latest_hint, b"1")
    storage = FaultStorage(inner)
    assert make_store(storage, FakeClock()).latest_snapshot().id == MAX_PROBES + 5
    assert [operation for operation, _ in storage.calls].count("list") == 1


def test_the_hint_saves_the_listing() -> None:
    inner, _ = table_with(3)
    storage = FaultStorage(inner)
    assert make_store(storage, FakeClock()).latest_snapshot().id == 3
    assert len(storage.calls) == 3, "hint, snapshot, no next one"


def test_snapshots_by_id_and_time() -> None:
    inner, store = table_with(4)
    assert [s.id for s in store.snapshots()] == [1, 2, 3, 4]
    assert [s.id for s in store.snapshots(newest_first=True)] == [4, 3, 2, 1]
    times = [s.time_millis for s in store.snapshots()]
    assert store.snapshot_at(times[1]).id == 2
    assert store.snapshot_at(times[2] - 1).id == 2
    assert store.snapshot_at(times[3] + 1000).id == 4
    assert store.snapshot_at(times[0] - 1) is None
    inner.delete(store.paths.snapshot(1))
    with pytest.raises(NotFoundError, match=r"scan snapshotId 1 is out of available snapshotId range \[2, 4\]"):
        store.snapshot(1)


def test_tags() -> None:
    inner, store = table_with(2)
    inner.write(store.paths.tag("v1"), encode_snapshot(store.snapshot(1)))
    assert store.tag("v1").id == 1
    assert list(store.tags()) == ["v1"]
    assert store.find_tag("v2") is None
    with pytest.raises(NotFoundError, match=r"Tag 'v11' doesn't exist.*did you mean 'v1'"):
        store.tag("v11")
    with pytest.raises(NotFoundError, match=r"Tag 'before' doesn't exist.*tags of the table: v1\Z"):
        store.tag("before")
    inner.delete(store.paths.tag("v1"))
    with pytest.raises(NotFoundError, match="the table has no tags"):
        store.tag("v1")


def test_a_snapshot_shows_what_people_look_for() -> None:
    shown = repr(table_with(1)[1].snapshot(1))
    assert shown.startswith("Snapshot(id=1, APPEND, ")
    assert "total_record_count=" in shown
    assert "manifest" not in shown


def test_schemas() -> None:
    inner, store = table_with(0)
    assert store.latest_schema() == store.schema
    second = replace(store.schema, id=1, comment="new")
    inner.write(store.paths.schema(1), second.encode())
    assert store.latest_schema().comment == "new"
    assert store.schema_of(1) is store.schema_of(1)
    assert store.schema_of(0) is store.schema
    inner.files.clear()
    with pytest.raises(NotFoundError):
        create = make_store(inner, FakeClock())
        create.latest_schema()


def test_manifests_are_read_once() -> None:
    inner, _ = table_with(3)
    clear_cache()
    storage = FaultStorage(inner)
    reader = make_store(storage, FakeClock())
    snapshot = reader.latest_snapshot()
    first = reader.manifests(reader.data_manifests(snapshot))
    calls = len(storage.calls)
    assert reader.manifests(reader.data_manifests(snapshot)) == first
    assert len(storage.calls) == calls


def test_it_travels() -> None:
    _, store = table_with(0)
    local = replace(store, env=Env(LocalStorage(), SystemClock()))
    assert pickle.loads(pickle.dumps(local)) == local


@pytest.mark.slow
def test_a_process_that_commits_for_long_remembers_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits with compaction, expiry, tags and reads between: what the package holds is soon as much as it ever is."""
    monkeypatch.setattr(decoded.CACHE, "age", 60)
    clear_cache()
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", "manifest.merge-min-count": "4"}
    kept = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
    table = bucketlake.open(tmp_path).create_table("t", ROWS, primary_keys=["k"], options={**options, **kept})
    held = []
    for number in range(32):
        table.write_arrow(pa.table({"k": [number % 7], "v": [number]}, schema=ROWS))
        if number % 3 == 0:
            assert table.to_arrow().num_rows == min(number + 1, 7)
            table.create_tag(f"tag-{number}")
            if number:
                table.delete_tag(f"tag-{number - 3}")
        if number % 8 == 7:
            gc.collect()
            ours = sum(str(type(one).__module__).startswith("bucketlake") for one in gc.get_objects())
            held.append((ours, len(decoded.CACHE)))
    assert held[3][0] <= held[1][0] + 20 and held[3][1] <= held[1][1] + 20, held


@pytest.mark.parametrize("look", ["tags", "known tags", "snapshots", "changelogs"])
def test_many_small_files_are_read_by_several_threads(look: str) -> None:
    """Nobody reads one before another begins: a store may take its time for each."""
    inner = MapStorage()
    schema = table_schema(options={"scan.manifest.parallelism": "2"})
    store = create_table(inner, FakeClock(), schema)
    commit_of(store).commit([message(data_file("f"))])
    snapshot = store.snapshot(1)
    for number in range(2, 8):
        inner.write(store.paths.snapshot(number), encode_snapshot(replace(snapshot, id=number)))
        if number < 5:
            inner.write(store.paths.changelog(number), encode_snapshot(replace(snapshot, id=number)))
        inner.write(store.paths.tag(f"t{number}"), encode_snapshot(snapshot))
    two = threading.Barrier(2, timeout=30)

    class Slow(MapStorage):
        files = inner.files

        def __init__(self) -> None:
            self.first = look in ("snapshots", "changelogs")  # whoever wants only that gets it at once

        def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
            if not self.first:
                two.wait()
            self.first = False
            return super().read(path, offset, length)

    slow = make_store(Slow(), FakeClock(1), schema)
    looks: dict[str, Any] = {
        "tags": slow.tags,
        "known tags": slow.known_tags,
        "snapshots": slow.snapshots,
        "changelogs": slow.changelogs,
    }
    clear_cache()
    assert len(list(looks[look]())) == {"snapshots": 7, "changelogs": 3}.get(look, 6)


def test_snapshots_that_are_listed_and_gone_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, store = table_with(3)
    listed = storage.list(store.paths.snapshot_dir)
    for hint in (store.paths.latest_hint, store.paths.earliest_hint):
        storage.files.pop(hint, None)
    monkeypatch.setattr(storage, "list", lambda path: listed)
    for gone, ends in ((1, (2, 3)), (3, (2, 2)), (2, None)):
        del storage.files[store.paths.snapshot(gone)]
        found = store.earliest_snapshot(), store.latest_snapshot()
        assert tuple(one.id for one in found if one is not None) == (ends or ())
