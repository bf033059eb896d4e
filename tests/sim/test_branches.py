"""As test_maintenance, with branches: made from tags, written to and compacted, deleted and made again, and now and then
the main history becomes one of theirs. Expiry and orphan cleaning of the table leave every branch whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest
from tests.profile import seeds
from tests.sim.tables import make_store
from tests.sim.test_maintenance import HERE, ROLES, SEEN, VECTORS, Actor, Kind, Run

from bucketlake.errors import BucketlakeError
from bucketlake.ops.compact.compaction import Compaction, compaction_job
from bucketlake.ops.compact.job import run_job
from bucketlake.ops.compact.running import inline
from bucketlake.ops.refs.branches import create_branch, delete_branch, fast_forward, schema_ids
from bucketlake.ops.refs.tags import create_tag
from bucketlake.ops.table.store import clear_cache

KINDS = (
    Kind("fixed", 2),
    Kind("fixed, vectors", 2, options=SEEN),
    Kind("dynamic", -1),
    Kind("append", -1, ()),
    Kind("append, vectors", -1, (), VECTORS),
)
BRANCHED = {**ROLES, "b0": (("fork", "fork", "aside", "shrink"), 5), "b1": (("fork", "aside", "aside", "shrink"), 5)}


class Brancher(Actor):
    """An actor that works on branches, too."""

    def fork(self, user: str) -> None:
        name = f"b{self.random.randint(0, 1)}"
        if name in self.store.branches() and self.random.random() < 0.3:
            delete_branch(self.store, name)
            return
        create_tag(self.store, f"tag{self.random.randint(0, 2)}", if_absent=True)
        names = self.store.tag_names()
        if names:  # another may have deleted it by now
            create_branch(self.store, name, self.random.choice(names), if_absent=True)

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

    def forward(self, user: str) -> None:
        names = self.store.branches()
        if names:
            self.world.rolled_back = True
            fast_forward(self.store, self.random.choice(names))


@dataclass
class BranchedRun(Run):
    """One seed."""

    def published(self, path: str, data: bytes) -> None:
        if "/branch/" not in path:
            super().published(path, data)

    def check(self, where: str) -> None:
        super().check(where)
        clear_cache()
        store = make_store(self.inner, self.clock, self.store.schema)
        for name in store.branches():
            branch = store.on_branch(name)
            if not schema_ids(branch):
                continue  # half made, or half gone, or a writer's that slept through its end
            before = None
            for snapshot in branch.snapshots():
                if before is not None and self.world.parents[snapshot.uuid or ""] != before:
                    break  # put by a writer that slept while the branch was made anew
                travel = {"scan_snapshot_id": snapshot.id}
                self.world.check(branch, snapshot, f"{where}, branch {name}, snapshot {snapshot.id}", **travel)
                before = snapshot.uuid

    def settle(self) -> None:
        """What was half made, or half deleted, goes by its name."""
        store = make_store(self.inner, self.clock, self.store.schema)
        for name in store.branches():
            if not schema_ids(store.on_branch(name)):
                with suppress(BucketlakeError):
                    delete_branch(store, name)


def run(seed: int) -> Counter[str]:
    kind = KINDS[seed % len(KINDS)]
    faults = (0.0, 0.003, 0.01)[seed // len(KINDS) % 3]
    rolls_back = seed // (3 * len(KINDS)) % 2 == 1
    roles = {**BRANCHED, **({"f": (("forward",), 1)} if seed // (6 * len(KINDS)) % 2 else {})}
    HERE.what = None
    try:
        return BranchedRun(seed, kind, faults, rolls_back, Brancher, roles).go()
    except (AssertionError, BucketlakeError, LookupError) as error:
        raise AssertionError(f"seed {seed}, {kind.name}, faults {faults}, back {rolls_back}: {error}") from error


@pytest.mark.parametrize("seed", [seed * 31 for seed in seeds(3, 1000)])
def test_every_branch_stays_whole(seed: int) -> None:
    assert run(seed)["fork"]
