"""Writers, a compactor, a tagger and expiries interleaved at every storage call, with faults and kills.

At every step each snapshot, tag and changelog that can be found has all of its files.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.profile import SOAK, later, often, seeds
from tests.sim.clock import FakeClock
from tests.sim.schedule import Scheduler
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    Killed,
    MapStorage,
    fault_on,
)
from tests.sim.tables import NO_PARTITION, commit_of, create_table, data_file, make_store, message, table_schema

from bucketlake.errors import BucketlakeError, NotFoundError
from bucketlake.format.metadata.manifest import FileKind, FileSource
from bucketlake.format.metadata.snapshot import Snapshot, encode_snapshot
from bucketlake.ops.clean import expire
from bucketlake.ops.clean.expire import ExpireConfig, Limits, expire_changelogs, expire_snapshots
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store, clear_cache

SEEDS = seeds(5, 100)
SERIAL = {"file-operation.thread-num": "1", "commit.max-retries": "300", "manifest.merge-min-count": "3"}
DECOUPLED = {"changelog.num-retained.max": "6", "changelog.num-retained.min": "2"}


@dataclass
class World:
    """All processes' view from outside: what is there, and whether it is whole."""

    store: Store
    files: dict[str, bytes]
    tags: dict[str, Snapshot] = field(default_factory=dict)
    revived: set[int] = field(default_factory=set)  # names that were free again: the writer is told that it is unknown
    highest: int = 0
    checks: int = 0

    def whole(self, snapshot: Snapshot) -> None:
        store = self.store
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        assert all(store.paths.manifest(name) in self.files for name in lists), f"lists of {snapshot.id}"
        for manifest in store.data_manifests(snapshot):
            assert store.paths.manifest(manifest.file_name) in self.files, f"manifest of {snapshot.id}"
        for entry in live_entries(store, snapshot):
            self.has(entry, snapshot)

    def has(self, entry: Any, snapshot: Snapshot) -> None:
        folder = self.store.paths.bucket_dir(entry.partition, entry.bucket)
        assert self.store.paths.file_path(folder, entry.file) in self.files, f"data of {snapshot.id}"

    def check(self) -> None:
        self.checks += 1
        for snapshot in self.store.snapshots():
            if snapshot.id not in self.revived:
                self.whole(snapshot)
        for tag in self.tags.values():
            self.whole(tag)
        for changelog in self.store.changelogs():
            for manifest in self.store.manifest_list(changelog.delta_manifest_list):
                assert self.store.paths.manifest(manifest.file_name) in self.files, f"changelog {changelog.id}"
                for entry in self.store.manifest(manifest.file_name):
                    if entry.kind is FileKind.ADD and entry.file.file_source is FileSource.APPEND:
                        self.has(entry, changelog)


@dataclass
class Process:
    """One process; each of its methods is something it does over and over."""

    name: str
    store: Store
    world: World
    random: random.Random
    done: Counter[str] = field(default_factory=Counter)
    made: int = 0

    def loop(self, action: str, times: int) -> None:
        for _ in range(times):
            try:
                getattr(self, action)()
                self.done[action] += 1
            except BucketlakeError as error:
                self.done[type(error).__name__] += 1
            except Killed:
                return

    def file(self, source: FileSource) -> Any:
        self.made += 1
        file = data_file(f"{self.name}-{self.made}", file_source=source)
        paths = self.store.paths
        self.store.env.storage.write(paths.file_path(paths.bucket_dir(NO_PARTITION, 0), file), b"rows")
        return file

    def write(self) -> None:
        message = CommitMessage(NO_PARTITION, 0, -1, new_files=(self.file(FileSource.APPEND),))
        Commit(self.store, self.name).commit([message])

    def compact(self) -> None:
        newest = self.store.latest_snapshot()
        files = [] if newest is None else [entry.file for entry in live_entries(self.store, newest)]
        if len(files) > 2:
            chosen = tuple(self.random.sample(files, 2))
            after = (self.file(FileSource.COMPACT),)
            message = CommitMessage(NO_PARTITION, 0, -1, compact_before=chosen, compact_after=after)
            Commit(self.store, self.name).commit([message])

    def expire(self) -> None:
        config = ExpireConfig.of(self.store, Limits(retain_max=self.random.randint(2, 4), retain_min=1))
        self.done["expired"] += expire_snapshots(self.store, config).snapshots
        if config.decoupled:
            self.done["changelogs"] += expire_changelogs(self.store, config).changelogs

    def tag(self) -> None:
        """Write the tag, then make sure that the snapshot is still there: else it is no tag."""
        snapshot = self.random.choice(list(self.store.snapshots()) or [None])
        if snapshot is None:
            return
        name = f"{self.name}-{self.made}"
        self.made += 1
        self.store.env.storage.write(self.store.paths.tag(name), encode_snapshot(snapshot))
        if self.store.has_snapshot(snapshot.id):
            self.world.tags[name] = snapshot
        else:
            self.store.env.storage.delete(self.store.paths.tag(name))


ROLES = {"w0": ("write", 7), "w1": ("write", 7), "c": ("compact", 4), "t": ("tag", 3), "e0": ("expire", 40)}


def simulate(seed: int, faults: float, **options: str) -> tuple[World, Counter[str]]:
    clear_cache()
    inner, scheduler = MapStorage(), Scheduler(seed)
    clock = FakeClock(seed, on_sleep=scheduler.pause)
    schema = table_schema(keyed=False, partitioned=False, bucket=-1, options={**SERIAL, **options})
    world = World(create_table(inner, clock, schema), inner.files)
    chance = random.Random(seed + 1)

    def plan(k: int, operation: str, path: str) -> str | None:
        scheduler.pause()
        if operation in ("delete", "put_if_absent"):
            world.check()
        if operation == "put_if_absent" and "/snapshot/" in path:
            number = int(path.rsplit("-", 1)[1])
            if path not in inner.files and number <= world.highest:
                world.revived.add(number)
            world.highest = max(world.highest, number)
        if chance.random() >= faults:
            return None
        return chance.choices([FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE, KILL_AFTER], [6, 3, 1, 1])[0]

    team = []
    for number, (name, (action, times)) in enumerate((ROLES | {"e1": ("expire", 40)}).items()):
        storage = FaultStorage(inner, plan)
        process = Process(name, make_store(storage, clock, schema), world, random.Random(seed * 100 + number))
        team.append(process)
        scheduler.spawn(name, lambda process=process, action=action, times=times: process.loop(action, times))  # type: ignore[misc]
    scheduler.finish()
    world.check()
    return world, sum((process.done for process in team), Counter())


@pytest.mark.parametrize("faults", [0.0, 0.02])
@pytest.mark.parametrize("options", [{}, DECOUPLED], ids=["plain", "decoupled"])
def test_what_can_be_found_is_whole(options: dict[str, str], faults: float) -> None:
    seen: Counter[str] = Counter()
    checks = 0
    for seed in SEEDS:
        try:
            world, done = simulate(seed, faults, **options)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        seen += done
        checks += world.checks
        if not world.revived:
            remove_orphans(world.store, 1 << 60)
            world.check()
    assert min(seen[action] for action, _ in ROLES.values()) > often(20), seen
    assert seen["expired"] > often(20) and checks > often(300), (checks, seen)
    assert bool(seen["changelogs"]) == bool(options), seen


def test_a_death_leaves_an_expiry_that_goes_on() -> None:
    """Killed at any call: the next expiry finishes, and only orphans are left."""
    for fault in (KILL_BEFORE, KILL_AFTER):
        for call in itertools.count(0, 1 if SOAK else 3):
            clear_cache()
            inner, clock = MapStorage(), FakeClock()
            schema = table_schema(keyed=False, partitioned=False, bucket=-1, options=SERIAL)
            world = World(create_table(inner, clock, schema), inner.files)
            writer = Process("w", world.store, world, random.Random(call))
            for _ in range(3):
                writer.write()
            writer.compact()
            writer.write()
            storage = FaultStorage(
                inner, lambda k, operation, path, call=call, fault=fault: fault if k == call else None
            )
            config = ExpireConfig.of(world.store, Limits(retain_max=1, retain_min=1))
            with suppress(Killed):
                expire_snapshots(make_store(storage, clock, schema), config)
            world.check()
            expire_snapshots(world.store, config)
            world.check()
            assert world.store.snapshot_ids() == [5]
            remove_orphans(world.store, 1 << 60)
            world.check()
            names = {path for path in inner.files if "/bucket-" in path}
            assert len(names) == 3, names
            if not storage.dead:
                break
        assert not storage.dead and call > 20


@pytest.mark.parametrize("fault", later([KILL_AFTER, KILL_BEFORE], 1))
def test_a_death_among_changelogs_goes_on(fault: str) -> None:
    """Changelogs outlive snapshots: whatever is found is whole after a death at any call, and the next one finishes."""
    for call in itertools.count(0, 1 if SOAK else 5):
        clear_cache()
        inner, clock = MapStorage(), FakeClock()
        schema = table_schema(keyed=False, partitioned=False, bucket=-1, options=SERIAL | DECOUPLED)
        world = World(create_table(inner, clock, schema), inner.files)
        writer = Process("w", world.store, world, random.Random(call))
        for _ in range(9):
            writer.write()
        writer.compact()
        storage = FaultStorage(inner, lambda k, operation, path, call=call: fault if k == call else None)  # type: ignore[misc]
        dying = make_store(storage, clock, schema)
        config = ExpireConfig.of(world.store, Limits(retain_max=1, retain_min=1))
        with suppress(Killed):
            expire_snapshots(dying, config)
            expire_changelogs(dying, config)
        world.check()
        expire_snapshots(world.store, config)
        expire_changelogs(world.store, config)
        world.check()
        assert world.store.snapshot_ids() == [10] and world.store.changelog_ids() == [5, 6, 7, 8, 9]
        remove_orphans(world.store, 1 << 60)
        world.check()
        if not storage.dead:
            break
    assert call > 30


@pytest.mark.parametrize("everything", [False, True])
def test_changelogs_of_snapshots_that_are_still_there_stay(everything: bool) -> None:
    """An expiry writes changelogs, then takes the snapshots away: one that dies between the two, or finds that a rollback
    came, leaves both."""
    clear_cache()
    inner, clock = MapStorage(), FakeClock()
    schema = table_schema(keyed=False, partitioned=False, bucket=-1, options=SERIAL | DECOUPLED)
    world = World(create_table(inner, clock, schema), inner.files)
    writer = Process("w", world.store, world, random.Random(0))
    for _ in range(12):
        writer.write()
    config = ExpireConfig.of(world.store, Limits(retain_max=1, retain_min=1))
    dying = make_store(FaultStorage(inner, fault_on("delete", "/snapshot/snapshot-3", KILL_BEFORE)), clock, schema)
    with pytest.raises(Killed):
        expire_snapshots(dying, config)
    assert world.store.changelog_ids() == list(range(1, 12)) and world.store.snapshot_ids() == list(range(3, 13))
    expire_changelogs(world.store, config, everything=everything)
    world.check()
    assert world.store.changelog_ids() == list(range(3, 12))


def test_a_vanished_base_is_no_failure() -> None:
    """A commit whose base expires under it is planned again on the newest snapshot."""
    inner, clock = MapStorage(), FakeClock()
    schema = table_schema(keyed=False, partitioned=False, bucket=-1, options=SERIAL)
    world = World(create_table(inner, clock, schema), inner.files)
    other = Process("other", world.store, world, random.Random(0))
    other.write()
    fired: list[bool] = []

    def plan(k: int, operation: str, path: str) -> str | None:
        if operation == "read" and "/manifest-list-" in path and not fired:
            fired.append(True)
            for _ in range(3):
                other.write()
            expire_snapshots(world.store, ExpireConfig.of(world.store, Limits(retain_max=1, retain_min=1)))
            clear_cache()
        return None

    clear_cache()
    slow = Process("slow", make_store(FaultStorage(inner, plan), clock, schema), world, random.Random(1))
    slow.write()
    assert fired and world.store.snapshot_ids() == [4, 5]
    world.check()
    with pytest.raises(NotFoundError):
        world.store.snapshot(1)


def test_expiring_many_at_once_looks_at_them_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each round looks at all that is left: ten times as many snapshots are not looked at ten times as often."""
    monkeypatch.setattr(expire, "ROUND", 8)
    looks = {}
    for count in (100, 1000):
        clear_cache()
        storage = MapStorage()
        store = create_table(storage, FakeClock())
        commit_of(store).commit([message(data_file("f"))])
        first = store.snapshot(1)
        for number in range(2, count + 1):
            storage.write(store.paths.snapshot(number), encode_snapshot(replace(first, id=number)))
        storage.delete(store.paths.latest_hint)
        counted = FaultStorage(storage)
        limits = Limits(retain_max=1, retain_min=1, max_deletes=count)
        own = make_store(counted, FakeClock(1))
        assert expire_snapshots(own, ExpireConfig.of(own, limits)).snapshots == count - 1
        folder = store.paths.snapshot_dir
        looks[count] = sum(call == "list" and path == folder for call, path in counted.calls)
    assert looks[1000] < 5 * looks[100], looks
