"""Expiry beside what is out of the usual order: files that a rollback adds again, snapshots published into the past,
tags that move under their own name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FaultStorage, MapStorage
from tests.sim.tables import NO_PARTITION, commit_of, create_table, data_file, make_store, table_schema

from bucketlake.errors import CommitUnknownError, ConflictError
from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot, encode_snapshot
from bucketlake.ops.clean.expire import ExpireConfig, Limits, expire_snapshots
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.refs.rollback import rollback
from bucketlake.ops.refs.tags import delete_tag
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import deletion
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import clear_cache

SCHEMA = table_schema(keyed=False, partitioned=False, bucket=1, options={"manifest.merge-min-count": "100"})


class Lake:
    """A table of files without rows, whose paths exist."""

    def __init__(self, seed: int = 0) -> None:
        clear_cache()
        self.storage = MapStorage()
        self.store = create_table(self.storage, FakeClock(seed), SCHEMA)
        self.count = 0

    def path(self, name: str) -> str:
        return f"{self.store.paths.bucket_dir(NO_PARTITION, 0)}/{name}"

    def write(self, name: str, *gone: str, index: str | None = None) -> None:
        """Add one file, taking others away; `index`: the bucket's new index file."""
        self.storage.write(self.path(name), b"rows")
        file = data_file(name, sequences=(self.count * 10, self.count * 10 + 9))
        self.count += 1
        live = {e.file.file_name: e.file for e in self.live()}
        before = tuple(live[other] for other in gone)
        message = CommitMessage(NO_PARTITION, 0, 1, new_files=(file,))
        if before:
            message = CommitMessage(NO_PARTITION, 0, 1, compact_before=before, compact_after=(file,))
        if index is not None:
            made = IndexFile("HASH", index, 4, 1)
            self.storage.write(self.store.paths.index_path(NO_PARTITION, 0, made), b"keys")
            old = tuple(e.file for e in self.store.index_manifest(self.store.latest_snapshot()))
            message = replace(message, new_index_files=(made,), deleted_index_files=old)
        commit_of(self.store).commit([message])

    def live(self) -> list[ManifestEntry]:
        newest = self.store.latest_snapshot()
        return [] if newest is None else live_entries(self.store, newest)

    def tag(self, name: str, number: int | None = None) -> None:
        number = number or self.store.latest_snapshot_id() or 0
        self.storage.write(self.store.paths.tag(name), encode_snapshot(self.store.snapshot(number)))

    def roll_back(self, target: Snapshot) -> None:
        """What Paimon's rollback_to_as_latest commits."""
        wanted = {e.file.file_name: e for e in live_entries(self.store, target)}
        live = {e.file.file_name: e for e in self.live()}
        gone = tuple(deletion(e) for name, e in live.items() if name not in wanted)
        back = tuple(replace(e, kind=FileKind.ADD) for name, e in wanted.items() if name not in live)
        name = CommitName(0, "rollback", BATCH_COMMIT_IDENTIFIER, CommitKind.OVERWRITE)
        done = Publisher(self.store).publish(Request(name, lambda view: Changes(gone + back)))
        whole = replace(done, index_manifest=target.index_manifest, statistics=target.statistics)
        self.storage.write(self.store.paths.snapshot(done.id), encode_snapshot(whole))

    def expire(self, keep: int) -> None:
        expire_snapshots(self.store, ExpireConfig.of(self.store, Limits(retain_max=keep, retain_min=keep)))

    def whole(self) -> None:
        """Every snapshot and tag has all of its files."""
        clear_cache()
        for found in (*self.store.snapshots(), *self.store.tags().values()):
            for entry in live_entries(self.store, found):
                assert self.path(entry.file.file_name) in self.storage.files, f"{entry.file.file_name} of {found.id}"
            for index in self.store.index_manifest(found):
                assert self.store.paths.index_path(NO_PARTITION, 0, index.file) in self.storage.files, found.id


def test_files_that_come_back_while_they_expire_are_kept() -> None:
    """No tag holds them: it was deleted after the rollback."""
    lake = Lake()
    lake.write("a")
    target = lake.store.snapshot(1)
    lake.write("b", "a")
    lake.write("c")
    lake.roll_back(target)
    lake.write("d")
    lake.expire(3)  # the snapshot that took a away expires
    lake.whole()
    assert {e.file.file_name for e in lake.live()} == {"a", "d"}
    lake.write("e", "a")
    for _ in range(4):
        lake.write(f"more{_}")
    lake.expire(1)
    lake.whole()
    assert lake.path("a") not in lake.storage.files


def test_files_that_come_back_and_go_again_are_kept_for_the_snapshots_between() -> None:
    lake = Lake()
    lake.write("a")
    target = lake.store.snapshot(1)
    lake.write("b", "a")
    lake.roll_back(target)
    lake.write("c", "a")
    lake.write("d")
    lake.expire(3)
    lake.whole()
    lake.expire(1)
    lake.whole()
    assert lake.path("a") not in lake.storage.files and lake.path("d") in lake.storage.files


@pytest.mark.parametrize("keep", [1, 2, 3, 4, 5, 6])
def test_an_old_tag_keeps_what_was_brought_back_from_it(keep: int) -> None:
    """Another tag, made between, does not hold the files."""
    lake = Lake()
    lake.write("a", index="i1")
    lake.tag("old")
    lake.write("b", "a", index="i2")
    lake.tag("between")
    lake.roll_back(lake.store.tag("old"))
    lake.write("c")
    lake.write("d", "a", index="i3")
    lake.write("e")
    lake.expire(keep)
    lake.whole()
    lake.write("f")
    lake.expire(1)
    lake.whole()
    assert lake.path("a") in lake.storage.files


def test_index_files_that_come_back_are_kept() -> None:
    lake = Lake()
    lake.write("a", index="i1")
    target = lake.store.snapshot(1)
    lake.write("b", "a", index="i2")
    lake.write("c", index="i3")
    lake.roll_back(target)
    lake.write("d")
    lake.write("e")
    for keep in (5, 4, 3, 2, 1):
        lake.expire(keep)
        lake.whole()


def test_a_tag_of_a_history_that_was_rolled_back_is_kept() -> None:
    lake = Lake()
    for name in ("a", "b", "c", "d"):
        lake.write(name)
    lake.write("e", "b")
    lake.tag("ahead", 4)
    for number in (5, 4, 3):
        lake.storage.delete(lake.store.paths.snapshot(number))
    lake.storage.delete(lake.store.paths.latest_hint)
    lake.write("f", "b")
    lake.write("g")
    lake.write("h")
    lake.expire(1)
    lake.whole()


def sleeping(lake: Lake, meanwhile: Callable[[], Any], name: str, *gone: str) -> Exception | None:
    """A commit of another process that sleeps right before it publishes."""
    fired: list[bool] = []

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and not fired:
            fired.append(True)
            meanwhile()

    other = Lake.__new__(Lake)
    other.storage, other.count = lake.storage, lake.count + 50
    other.store = make_store(FaultStorage(lake.storage, plan), FakeClock(77), SCHEMA)
    try:
        other.write(name, *gone)
    except Exception as error:
        return error
    return None


def busy(lake: Lake, keep: int = 2) -> Callable[[], None]:
    def work() -> None:
        for number in range(6):
            lake.write(f"busy{number}")
        lake.expire(keep)

    return work


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_a_writer_that_slept_past_expiry_leaves_no_snapshot(keep: int) -> None:
    lake = Lake()
    lake.write("a")
    lake.write("b")
    error = sleeping(lake, busy(lake, keep), "late", "a")
    ids = lake.store.snapshot_ids()
    assert ids == list(range(ids[0], 9)) and len(ids) == keep, "no gap"
    assert isinstance(error, CommitUnknownError)
    assert "late" not in {e.file.file_name for e in lake.live()}
    lake.expire(1)
    lake.whole()
    assert lake.path("a") in lake.storage.files, "it deletes nothing"


@pytest.mark.parametrize("place", [2, 3, 6])
def test_a_snapshot_that_another_engine_left_in_the_past_goes_and_takes_nothing_along(place: int) -> None:
    """Even where it says that it deletes what is live, and whatever lies beside it."""
    lake = Lake()
    lake.write("a")
    lake.write("b")
    copy = Lake(seed=1)  # files of other names
    copy.write("a")
    copy.write("b")
    copy.write("z", "a", "b")
    stray = replace(copy.store.snapshot(3), uuid="stray")
    lake.storage.files.update({p: d for p, d in copy.storage.files.items() if "/manifest/" in p})
    busy(lake)()
    assert lake.store.snapshot_ids() == [7, 8]
    for number in {place, place - 1}:
        lake.storage.write(lake.store.paths.snapshot(number), encode_snapshot(replace(stray, id=number)))
    lake.expire(2)
    for number in range(3):
        lake.write(f"later{number}")
        lake.expire(2)
    assert lake.store.snapshot_ids() == [10, 11]
    lake.whole()


def test_a_tag_that_moves_under_its_own_name_during_an_expiry_keeps_its_files() -> None:
    for call in range(60):
        lake = Lake()
        for name in ("a", "b"):
            lake.write(name)
        lake.write("c", "a")
        lake.write("d", "b")
        lake.write("e")
        lake.tag("moving", 4)
        moved: list[bool] = []

        def plan(k: int, operation: str, path: str, call: int = call, lake: Lake = lake, moved: list = moved) -> None:  # type: ignore[type-arg]
            if k == call and lake.store.has_snapshot(2):
                lake.tag("moving", 2)
                moved.append(lake.store.has_snapshot(2))

        store = make_store(FaultStorage(lake.storage, plan), FakeClock(5), SCHEMA)
        expire_snapshots(store, ExpireConfig.of(store, Limits(retain_max=1, retain_min=1)))
        lake.whole()


@pytest.mark.parametrize("tagged", [False, True], ids=["snapshots", "a tag"])
def test_what_stands_above_a_gap_that_others_filled_keeps_its_files(tagged: bool) -> None:
    """A writer that slept through a rollback published above it, and died before it took that back; another one, which
    saw the rollback, filled the gap and replaced files that the first one's snapshot still has."""
    lake = Lake()
    for name in ("a", "b", "c"):
        lake.write(name)
    if tagged:
        lake.tag("old", 3)
    lake.write("d")
    snapshots = [lake.store.paths.snapshot(number) for number in (3, 4)]
    third, fourth = (lake.storage.files.pop(path) for path in snapshots)
    lake.storage.files.pop(lake.store.paths.latest_hint, None)
    lake.write("x", "a", "b")  # snapshot 3, of the rows of snapshot 2
    lake.storage.files[snapshots[1]] = fourth
    lake.storage.files.pop(lake.store.paths.latest_hint, None)
    clear_cache()
    for name in ("e", "f"):
        lake.write(name)
    assert third != lake.storage.files[snapshots[0]]
    if tagged:
        delete_tag(lake.store, "old")
    expire_snapshots(lake.store, ExpireConfig.of(lake.store, Limits(retain_max=4, retain_min=4)))
    assert lake.store.snapshot_ids() == [3, 4, 5, 6]
    for number in (4, 5, 6):
        for entry in live_entries(lake.store, lake.store.snapshot(number)):
            assert lake.path(entry.file.file_name) in lake.storage.files, (number, entry.file.file_name)


def test_a_rollback_does_not_bring_back_what_its_writer_takes_back() -> None:
    lake = Lake()
    for name in ("a", "b", "c", "d"):
        lake.write(name)
    target, files = lake.store.snapshot(3), lake.storage.files

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "delete" and path.endswith("snapshot-4"):
            files.pop(lake.store.paths.snapshot(3))

    with pytest.raises(ConflictError, match="taken back by its writer"):
        rollback(make_store(FaultStorage(lake.storage, plan), FakeClock(5), SCHEMA), target)
    assert lake.store.snapshot_ids() == [1, 2] and not lake.store.tags()
    lake.write("e")
    lake.whole()
