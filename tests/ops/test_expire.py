"""What expiry removes, and that everything left can be read as before."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.profile import examples, later
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage

import bucketlake
from bucketlake import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot, encode_snapshot
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.scan.scan import changelog_entries
from bucketlake.ops.table.store import clear_cache
from bucketlake.table import Table

SCHEMA = pa.schema([pa.field("p", pa.int32()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])
NEVER = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "keyed": (["p", "k"], {"bucket": "2", "num-sorted-run.compaction-trigger": "2"}),
    "lookup": (["p", "k"], {"bucket": "1", "changelog-producer": "lookup"}),
    "vectors": (["p", "k"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "dynamic": (["p", "k"], {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
    "append": ([], {"bucket": "-1", "deletion-vectors.enabled": "true"}),
    "bucketed": ([], {"bucket": "2", "bucket-key": "k", "file-index.bloom-filter.columns": "v"}),
}
Rows = list[tuple[Any, ...]]


def rows_of(table: Table, **options: Any) -> Rows:
    return sorted(tuple(row.values()) for row in table.to_arrow(**options).to_pylist())


def made(folder: Path, kind: str, **options: str) -> Table:
    keys, fixed = KINDS[kind]
    return bucketlake.open(folder).create_table("t", SCHEMA, ["p"], keys, {**NEVER, **fixed, **options})


def put(table: Table, *rows: tuple[int, int, int], mode: str = "append") -> Snapshot | None:
    columns = [pa.array(column, f.type) for column, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return table.write_arrow(pa.table(columns, schema=SCHEMA), mode=mode)


def tag(table: Table, name: str, snapshot: Snapshot, branch: str | None = None) -> None:
    store = table.store if branch is None else table.store.on_branch(branch)
    store.env.storage.write(store.paths.tag(name), encode_snapshot(snapshot))


def make_branch(table: Table, name: str, snapshot: Snapshot) -> Table:
    """As Paimon makes a branch from a tag."""
    store = table.store.on_branch(name)
    tag(table, "at", snapshot, name)
    store.env.storage.write(store.paths.snapshot(snapshot.id), encode_snapshot(snapshot))
    store.env.storage.write(store.paths.schema(0), table.store.env.storage.read(table.store.paths.schema(0)))
    return bucketlake.open(Path(table.path).parent.parent).table(f"t$branch_{name}")


def consume(table: Table, name: str, following: int) -> None:
    data = json.dumps({"nextSnapshot": following}).encode()
    table.store.env.storage.write(table.store.paths.consumer(name), data)


def left_over(table: Table) -> tuple[str, ...]:
    """Files that nothing refers to."""
    clear_cache()
    return remove_orphans(table.store, 1 << 60, dry_run=True).paths


def ids(table: Table) -> list[int]:
    return table.store.snapshot_ids()


@dataclass
class History:
    """A table and what every snapshot and tag of it must show."""

    table: Table
    expected: dict[int, Rows] = field(default_factory=dict)
    tags: dict[str, Rows] = field(default_factory=dict)

    def note(self) -> None:
        for snapshot in self.table.snapshots():
            if snapshot.id not in self.expected:
                self.expected[snapshot.id] = rows_of(self.table, scan_snapshot_id=snapshot.id)

    def check(self) -> None:
        clear_cache()
        for number in ids(self.table):
            assert rows_of(self.table, scan_snapshot_id=number) == self.expected[number], number
        for name, rows in self.tags.items():
            assert rows_of(self.table, scan_tag_name=name) == rows, name


@pytest.mark.parametrize("kind", later([*KINDS], 4))
@settings(max_examples=examples(2, 64), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_left_stays_as_it_was(kind: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    table = made(tmp_path_factory.mktemp("expiry"), kind)
    history = History(table)
    row = st.tuples(st.integers(1, 2), st.integers(0, 5), st.integers(0, 99))
    steps = ["put"] * 4 + ["delete", "overwrite", "compact", "tag", "consume", "expire", "expire"]
    for number, step in enumerate(data.draw(st.lists(st.sampled_from(steps), min_size=6, max_size=14))):
        newest = table.latest_snapshot()
        if step in ("put", "overwrite"):
            put(table, *data.draw(st.lists(row, min_size=1, max_size=4)), mode="append" if step == "put" else step)
        elif newest is None:
            continue
        elif step == "delete":
            table.delete(f"k = {data.draw(st.integers(0, 5))}")
        elif step == "compact":
            table.compact()
        elif step == "tag":
            chosen = table.store.snapshot(data.draw(st.sampled_from(ids(table))))
            tag(table, f"t{number}", chosen)
            history.tags[f"t{number}"] = history.expected[chosen.id]
        elif step == "consume":
            consume(table, "c", data.draw(st.integers(ids(table)[0], newest.id + 1)))
        else:
            keep = data.draw(st.integers(1, 4))
            before, oldest = ids(table), min([99, *table.store.consumers().values()])
            table.expire_snapshots(retain_max=keep, retain_min=1)
            assert ids(table) == [i for i in before if i > newest.id - keep or i >= oldest]
            assert left_over(table) == ()
        history.note()
        history.check()


def test_counts_time_and_limit(tmp_path: Path) -> None:
    table = made(tmp_path, "append")
    for number in range(8):
        put(table, (1, number, number))
    assert table.expire_snapshots(retain_min=1).snapshots == 0  # an hour
    assert table.expire_snapshots(retain_max=6, retain_min=1, max_deletes=1).snapshots == 1
    assert ids(table) == [2, 3, 4, 5, 6, 7, 8]
    assert table.expire_snapshots(retain_max=6, retain_min=1).snapshots == 1
    moment = table.store.snapshot(5).time_millis
    store = table.store
    for late in (6, 7, 8):  # well after the fifth
        found = store.snapshot(late)
        data = encode_snapshot(found).replace(str(found.time_millis).encode(), str(moment + 60_000).encode())
        store.env.storage.write(store.paths.snapshot(late), data)
    old = datetime.fromtimestamp((moment + 30_000) / 1000)
    assert table.expire_snapshots(retain_min=1, older_than=old).snapshots == 2
    assert ids(table) == [5, 6, 7, 8]  # the fifth was the newest one at that moment
    assert store.env.storage.read(store.paths.earliest_hint) == b"5"
    assert table.expire_snapshots(retain_min=3, older_than="2999-01-01").snapshots == 1
    assert ids(table) == [6, 7, 8]
    assert left_over(table) == ()


@pytest.mark.parametrize(("most", "fewest"), [(1, 2), (0, 0), (3, 0)])
def test_contradictory_limits_are_refused(tmp_path: Path, most: int, fewest: int) -> None:
    table = made(tmp_path, "append")
    put(table, (1, 1, 1))
    with pytest.raises(InvalidError, match="retainM"):
        table.expire_snapshots(retain_max=most, retain_min=fewest)
    assert ids(table) == [1]


def test_an_expired_snapshot_is_named(tmp_path: Path) -> None:
    table = made(tmp_path, "append")
    for number in range(3):
        put(table, (1, number, number))
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(NotFoundError, match="snapshotId 2 is out of available"):
        table.to_arrow(scan_snapshot_id=2)


def test_branches_keep_what_they_share(tmp_path: Path) -> None:
    table = made(tmp_path, "keyed")
    put(table, (1, 1, 1), (2, 2, 2))
    first = table.latest_snapshot()
    assert first is not None
    branch = make_branch(table, "b", first)
    put(branch, (1, 7, 7))
    put(table, (1, 9, 9), mode="overwrite")
    put(table, (1, 10, 10))
    table.expire_snapshots(retain_max=1, retain_min=1)
    clear_cache()
    assert rows_of(branch) == [(1, 1, 1), (1, 7, 7), (2, 2, 2)]
    assert rows_of(branch, scan_snapshot_id=first.id) == [(1, 1, 1), (2, 2, 2)]
    branch.truncate()
    branch.expire_snapshots(retain_max=1, retain_min=1)
    clear_cache()
    assert rows_of(table) == [(1, 9, 9), (1, 10, 10), (2, 2, 2)]
    assert rows_of(branch, scan_tag_name="at") == [(1, 1, 1), (2, 2, 2)]
    assert left_over(table) == ()


def test_empty_folders_go_when_asked(tmp_path: Path) -> None:
    for clean in ("false", "true"):
        table = made(tmp_path / clean, "append", **{"snapshot.clean-empty-directories": clean})
        put(table, (1, 1, 1), (2, 2, 2))
        table.drop_partitions([{"p": 1}])
        table.expire_snapshots(retain_max=1, retain_min=1)
        assert (Path(table.path) / "p=1").exists() == (clean == "false")
        assert rows_of(table) == [(2, 2, 2)]


# ---------------------------------------------------------------------------------------------- changelogs


def changes(table: Table, number: int) -> int:
    found = table.store.find_changes(number)
    assert found is not None
    return sum(entry.file.row_count for entry in changelog_entries(table.store, found))


@pytest.mark.parametrize("kind", ["lookup", "keyed"])
def test_changelogs_outlive_their_snapshots(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path, kind, **{"changelog.num-retained.max": "1000", "changelog.num-retained.min": "1000"})
    table = table.with_options({"changelog.num-retained.max": "2000", "changelog.num-retained.min": "2000"})
    for number in range(6):
        put(table, (1, number % 2, number))
    newest = table.latest_snapshot()
    assert newest is not None
    before = {i: changes(table, i) for i in ids(table)}
    delta = table.store.manifest_list(table.store.snapshot(1).delta_manifest_list)
    assert table.expire_snapshots(retain_max=1, retain_min=1).snapshots == newest.id - 1
    clear_cache()
    store = table.store
    assert ids(table) == [newest.id]
    assert store.changelog_ids() == list(range(1, newest.id)) and store.changelog_ends() == (1, newest.id - 1)
    assert {i: changes(table, i) for i in before} == before
    if kind == "keyed":  # the commits themselves are the changelog
        first = store.find_changelog(1)
        assert first is not None and store.manifest_list(first.delta_manifest_list) == delta
        for entry in store.manifest(delta[0].file_name):
            folder = store.paths.bucket_dir(entry.partition, entry.bucket)
            assert store.env.storage.info(store.paths.file_path(folder, entry.file)) is not None
    assert left_over(table) == ()
    done = table.expire_changelogs(retain_max=3, retain_min=1)
    assert done.changelogs == newest.id - 3 and store.changelog_ids() == [newest.id - 2, newest.id - 1]
    assert store.env.storage.read(store.paths.changelog_earliest_hint) == str(newest.id - 2).encode()
    assert table.expire_changelogs(everything=True).changelogs == 2
    assert store.changelog_ends() is None and store.env.storage.list(store.paths.changelog_dir) == []
    clear_cache()
    assert rows_of(table) == [(1, 0, 4), (1, 1, 5)]
    if kind == "lookup":
        assert left_over(table) == ()


# ---------------------------------------------------------------------------------------------- after a commit


def test_commits_expire_by_the_tables_options(tmp_path: Path) -> None:
    limits = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
    table = made(tmp_path, "append", **limits)
    for number in range(6):
        put(table, (1, number, number))
    assert ids(table) == [4, 5, 6]
    table.delete("k = 1")
    table.drop_partitions([{"p": 9}])
    table.truncate()
    newest = table.latest_snapshot()
    assert newest is not None and ids(table) == [newest.id - 2, newest.id - 1, newest.id]
    assert left_over(table) == ()
    silent = made(tmp_path / "other", "keyed", **{**limits, "write-only": "true"})
    for number in range(6):
        put(silent, (1, 1, number))
    assert ids(silent) == [1, 2, 3, 4, 5, 6]
    silent.compact()  # the dedicated job does it
    assert ids(silent) == [5, 6, 7]


def test_a_failing_expiry_fails_no_write(tmp_path: Path) -> None:
    table = made(tmp_path, "append", **{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    put(table, (1, 1, 1))
    consume(table, "c", 1)
    Path(table.store.paths.consumer("c")).write_text("no json")
    with pytest.warns(UserWarning, match="not a consumer"):
        put(table, (1, 2, 2))
    assert rows_of(table) == [(1, 1, 1), (1, 2, 2)] and ids(table) == [1, 2]


def test_idle_consumers_are_dropped(tmp_path: Path) -> None:
    limits = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = made(tmp_path, "append", **limits, **{"consumer.expiration-time": "1 d"})
    put(table, (1, 1, 1))
    consume(table, "c", 1)
    put(table, (1, 2, 2))
    assert ids(table) == [1, 2]
    os.utime(table.store.paths.consumer("c"), (0, 0))
    put(table, (1, 3, 3))
    assert ids(table) == [3] and table.store.consumers() == {}


class _Read(MapStorage):
    """Files, and which were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_paths: list[str] = []

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.read_paths.append(path)
        return super().read(path, offset, length)


def test_when_the_second_snapshot_was_made_is_asked_once() -> None:
    """A table that is made anew in the same place has another one of its number."""
    storage, clock = _Read(), FakeClock()
    catalog, rows = Catalog(Env(storage, clock), "/wh"), pa.table({"k": [1]})
    options = {"snapshot.num-retained.min": "2", "snapshot.time-retained": "1 h"}
    for _ in range(2):
        table = catalog.create_table("t", rows.schema, options=options)
        for _ in range(4):
            table.write_arrow(rows)
        storage.read_paths.clear()
        table.write_arrow(rows)
        assert not [path for path in storage.read_paths if path.endswith("/snapshot-2")]
        clock.sleep(2 * 3600)
        table.write_arrow(rows)
        assert table.store.snapshot_ids() == [5, 6]
        clock.sleep(600)
        catalog.drop_table("t")
