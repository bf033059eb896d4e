"""As test_maintenance, with branches: made from tags, written to and compacted, deleted and made again, and now and then
the main history becomes one of theirs. Expiry and orphan cleaning of the table leave every branch whole. Branches of a
table that only grows are merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.profile import SOAK, seeds
from tests.sim.actors import ROLES, Actor
from tests.sim.at_once import Run
from tests.sim.tables import make_store
from tests.sim.world import HERE, PARTITIONS, SEEN, VECTORS, Key, Kind, World

from bucketlake.errors import BucketlakeError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.compact.compaction import Compaction, compaction_job
from bucketlake.ops.compact.job import run_job
from bucketlake.ops.compact.running import inline
from bucketlake.ops.refs.branches import create_branch, delete_branch, fast_forward, merge_branch
from bucketlake.ops.refs.tags import create_tag
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.store import Store, clear_cache

KINDS = (
    Kind("fixed", 2),
    Kind("fixed, vectors", 2, options=SEEN),
    Kind("dynamic", -1),
    Kind("append", -1, ()),
    Kind("append, vectors", -1, (), VECTORS),
    Kind("append, grown", -1, ()),
)
GROWN = {
    "w0": (("append", "append", "tag"), 5),
    "b0": (("fork", "aside", "aside", "join"), 6),
    "b1": (("fork", "aside", "join", "join"), 6),
    "t": (("tag",), 3),
    "o": (("clean",), 2),
}
BRANCHED = {**ROLES, "b0": (("fork", "fork", "aside", "shrink"), 5), "b1": (("fork", "aside", "aside", "shrink"), 5)}


@dataclass
class Lines(World):
    """Knows the rows of each file of a table that only grows, too."""

    files: dict[str, Mapping[Key, Any]] = field(default_factory=dict)

    def note(self, name: Any, base: Snapshot | None, made: Snapshot, changes: Changes, now: int) -> None:
        what = getattr(HERE, "what", None)
        added = {entry.file.file_name: PARTITIONS[entry.partition] for entry in changes.table}
        if what is not None and what[0] == "append":
            for file, part in added.items():
                self.files[file] = {key: row for key, row in what[1].items() if key[0] == part}
        if what is not None and what[0] == "join":
            HERE.what = "join", {key: row for file in added for key, row in self.files[file].items()}
        super().note(name, base, made, changes, now)
        if what is not None and what[0] == "join":
            HERE.what = what
            missing = what[1]() - self.rows[made.uuid or ""].keys()
            assert not missing, f"the merge left {missing} out"

    def after(self, state: Any, operation: str, what: Any) -> Any:
        if operation == "join":
            assert not state.keys() & what.keys(), f"the merge brings rows twice: {state.keys() & what.keys()}"
            return {**state, **what}
        return super().after(state, operation, what)


class Brancher(Actor):
    """An actor that works on branches, too."""

    def fork(self, user: str) -> None:
        name = f"b{self.random.randint(0, 1)}"
        if name in self.store.branches() and self.random.random() < 0.3:
            delete_branch(self.store, name)
            return
        if self.world.kind.name == "append, grown":  # branches are merged that have their whole history
            first = self.store.find_snapshot(1)
            if first is not None and self.random.random() < 0.5:
                create_tag(self.store, "tag-first", 1, if_absent=True)
            create_branch(self.store, name, "tag-first" if "tag-first" in self.store.tag_names() else None)
            return
        create_tag(self.store, f"tag{self.random.randint(0, 2)}", if_absent=True)
        if tags := self.store.tag_names():  # another may have deleted it
            create_branch(self.store, name, self.random.choice(tags), if_absent=True)

    def aside(self, user: str) -> None:
        self._on_branch(lambda: self.append(user))

    def shrink(self, user: str) -> None:
        self._on_branch(lambda: run_job(compaction_job(self.store, Compaction(True)), inline))

    def _on_branch(self, act: Callable[[], object]) -> None:
        names, main, known = self.store.branches(), self.store, len(self.acknowledged)
        if not names:
            return
        try:
            self.store = main.on_branch(self.random.choice(names))
            act()
        finally:
            self.store = main
            del self.acknowledged[known:]  # of another line

    def join(self, user: str) -> None:
        """The files of one branch that another one has not."""
        names = ["main", *self.store.branches()]
        if len(names) < 2:
            return
        source, target = self.random.sample(names, 2)
        raw = make_store(self.store.env.storage.inner, self.store.env.clock, self.store.schema).on_branch(source)
        seen: list[Snapshot | None] = []

        def opened(name: str) -> Store:
            if name == source:
                seen.append(raw.latest_snapshot())
            return self.store.on_branch(name)

        def wanted() -> set[Key]:
            """What the source had when it was opened, unless it is another one by now."""
            newest = raw.latest_snapshot()
            began = seen[-1].uuid if seen and seen[-1] is not None else None
            return set(self.world.rows[began]) if began is not None and began in self.world.line(newest) else set()

        HERE.what = "join", wanted
        merge_branch(self.store, source, target, opened)

    def forward(self, user: str) -> None:
        names = self.store.branches()
        if names:
            self.world.rolled_back = True
            fast_forward(self.store, self.random.choice(names))


@dataclass
class BranchedRun(Run):
    """One seed."""

    world: World = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.world = Lines(self.kind)

    def published(self, path: str, data: bytes) -> None:
        if "/branch/" not in path:
            super().published(path, data)

    def check(self, where: str) -> None:
        super().check(where)
        clear_cache()
        store = make_store(self.inner, self.clock, self.store.schema)
        for name in store.branches():
            branch = store.on_branch(name)
            if not branch.schema_ids():
                continue  # half made, or half gone, or of a writer that died: cleaning gets past it
            before = None
            for snapshot in branch.snapshots():
                if before is not None and self.world.parents[snapshot.uuid or ""] != before:
                    break  # put by a writer that slept while the branch was made anew
                travel = {"scan_snapshot_id": snapshot.id}
                self.world.check(branch, snapshot, f"{where}, branch {name}, snapshot {snapshot.id}", **travel)
                before = snapshot.uuid


def run(seed: int) -> Counter[str]:
    kind = KINDS[seed % len(KINDS)]
    faults = (0.0, 0.003, 0.01)[seed // len(KINDS) % 3]
    rolls_back = seed // (3 * len(KINDS)) % 2 == 1
    grown = kind.name == "append, grown"
    roles = GROWN if grown else {**BRANCHED, **({"f": (("forward",), 1)} if seed // (6 * len(KINDS)) % 2 else {})}
    HERE.what = None
    try:
        return BranchedRun(seed, kind, faults, rolls_back, Brancher, roles).go()
    except (AssertionError, BucketlakeError, LookupError) as error:
        raise AssertionError(f"seed {seed}, {kind.name}, faults {faults}, back {rolls_back}: {error}") from error


@pytest.mark.parametrize("seed", [seed * 29 for seed in seeds(3, 1000)])
def test_every_branch_stays_whole(seed: int) -> None:
    assert run(seed)["fork"] or SOAK  # of many seeds, some make none
