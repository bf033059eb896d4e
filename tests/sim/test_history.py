"""Writers, expiries, taggers, branches and rollbacks interleaved at every storage call, with faults and kills.

At every step each snapshot, tag and branch that can be found has all of its files; at the end the history has no gap.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from tests.sim.clock import FakeClock
from tests.sim.schedule import Scheduler
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, KILL_BEFORE, FaultStorage, MapStorage
from tests.sim.tables import create_table, make_store, table_schema
from tests.sim.test_expiry import SERIAL, Process, World

from bucketlake.ops.refs.branches import create_branch, delete_branch
from bucketlake.ops.refs.rollback import find_version, rollback, rollback_as_latest
from bucketlake.ops.refs.tags import create_tag, delete_tag, rename_tag, replace_tag
from bucketlake.ops.table.store import clear_cache

SEEDS = range(10)
SLOW = {**SERIAL, "file-operation.thread-num": "1", "scan.manifest.parallelism": "1"}


@dataclass
class Whole(World):
    """Looks at tags and branches, too; a snapshot that a writer has just put may be on its way back."""

    strange: set[int] = field(default_factory=set)

    def check(self) -> None:
        self.checks += 1
        stores = [self.store, *(self.store.on_branch(name) for name in self.store.branches())]
        for store in stores:
            for snapshot in store.snapshots():
                if store is not self.store or snapshot.id not in self.revived:
                    self.whole(snapshot)
            for tag in store.tags().values():
                self.whole(tag)


@dataclass
class Actor(Process):
    """A process that names and changes the history."""

    def pick(self) -> int:
        tagged = [tag.id for tag in self.store.tags().values()]
        return self.random.choice([*self.store.snapshot_ids(), *tagged] or [1])

    def tag(self) -> None:
        """Make one of few names, in one of the ways."""
        name = f"tag{self.random.randint(0, 3)}"
        action = self.random.randint(0, 4)
        if action < 2:
            create_tag(self.store, name, self.pick(), if_absent=True)
        elif action == 2:
            delete_tag(self.store, name)
        elif action == 3:
            replace_tag(self.store, name, self.pick())
        else:
            rename_tag(self.store, name, f"tag{self.random.randint(0, 3)}")

    def branch(self) -> None:
        name = f"b{self.random.randint(0, 1)}"
        tags = self.store.tag_names()
        if self.random.random() < 0.6 and tags:
            create_branch(self.store, name, self.random.choice(tags), if_absent=True)
        else:
            delete_branch(self.store, name)

    def back(self) -> None:
        target = find_version(self.store, self.pick())
        if self.random.random() < 0.7:
            rollback(self.store, target)
            self.done["rolled back"] += 1
        else:
            rollback_as_latest(self.store, target)


ROLES = {
    "w0": ("write", 8),
    "w1": ("write", 8),
    "c": ("compact", 4),
    "t": ("tag", 8),
    "e": ("expire", 4),
    "b": ("branch", 6),
    "r": ("back", 5),
}


def simulate(seed: int, faults: float) -> tuple[Whole, Counter[str]]:
    clear_cache()
    inner, scheduler = MapStorage(), Scheduler(seed)
    clock = FakeClock(seed, on_sleep=scheduler.pause)
    schema = table_schema(keyed=False, partitioned=False, bucket=-1, options=SLOW)
    world = Whole(create_table(inner, clock, schema), inner.files)
    chance = random.Random(seed + 1)

    def plan(k: int, operation: str, path: str) -> str | None:
        scheduler.pause()
        if operation in ("delete", "put_if_absent"):
            world.check()
        if operation == "put_if_absent" and "/snapshot/snapshot-" in path and "/branch/" not in path:
            number = int(path.rsplit("-", 1)[1])
            if path not in inner.files and number <= world.highest:
                world.revived.add(number)  # the name was free again: expired or rolled back
            world.highest = max(world.highest, number)
        if chance.random() >= faults:
            return None
        return chance.choices([FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE, KILL_AFTER], [6, 3, 1, 1])[0]

    team = []
    for number, (name, (action, times)) in enumerate(ROLES.items()):
        store = make_store(FaultStorage(inner, plan), clock, schema)
        actor = Actor(name, store, world, random.Random(seed * 100 + number))
        team.append(actor)
        scheduler.spawn(name, lambda actor=actor, action=action, times=times: actor.loop(action, times))  # type: ignore[misc]
    scheduler.finish()
    return world, sum((actor.done for actor in team), Counter())


@pytest.mark.parametrize("faults", [0.0, 0.01])
def test_what_can_be_found_is_whole(faults: float) -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        try:
            world, done = simulate(seed, faults)
            newest = world.store.latest_snapshot()
            assert newest is not None
            world.whole(newest)
            if not faults and not done["CommitUnknownError"]:
                ids = world.store.snapshot_ids()
                assert ids == list(range(ids[0], ids[-1] + 1)), ids
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        seen += done
    assert min(seen[action] for action, _ in ROLES.values()) > 5 < seen["rolled back"], seen
