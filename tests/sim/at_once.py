"""One seed: a table, its world and who is at it, interleaved at every storage call, and what must hold in the end."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sim.actors import ROLES, Actor
from tests.sim.beside import CLONES
from tests.sim.schedule import Local, Scheduler
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    NotingStorage,
    Raised,
)
from tests.sim.tables import ROOT, create_table, make_store
from tests.sim.world import (
    DAY,
    FIELDS,
    HERE,
    JumpingClock,
    Kind,
    TimedStorage,
    World,
)

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops import progress
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.commit import draft, outcome, units
from bucketlake.ops.commit.strays import strays
from bucketlake.ops.refs.rollback import AS_LATEST
from bucketlake.ops.refs.tags import expire_tags
from bucketlake.ops.table import parallel as threads
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table


class Serial:
    """A pool of no threads."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    map = staticmethod(map)

    def submit(self, action: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(action(*arguments))
        except BaseException as error:
            done.set_exception(error)
        return done


@contextmanager
def watched(world: World) -> Iterator[None]:
    """Tell the world of every snapshot that is about to be put, and of which one its changes were planned on, and let
    nothing run in threads of its own."""
    real, real_on = draft.Drafts._snapshot, outcome.Attempt.on

    def on(self: Any, snapshot: Snapshot | None) -> Snapshot | None:
        HERE.planned_on = snapshot
        return real_on(self, snapshot)

    def spy(self: Any, request: Any, name: Any, base: Any, *rest: Any) -> Snapshot:
        made = real(self, request, name, base, *rest)
        world.note(name, base, made, rest[0], self._store.env.clock.millis)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft.Drafts, "_snapshot", spy)
        patch.setattr(outcome.Attempt, "on", on)
        patch.setattr(threads, "futures", SimpleNamespace(ThreadPoolExecutor=Serial))
        patch.setattr(units, "ThreadPoolExecutor", Serial)
        patch.setattr(progress, "_here", Local())
        yield


def schema_of(kind: Kind) -> TableSchema:
    texts = {
        "bucket": str(kind.bucket),
        "scan.manifest.parallelism": "1",
        "file-operation.thread-num": "1",
        "commit.max-retries": "300",
        "manifest.merge-min-count": "3",
        "write-only": "true",
        "compaction.min.file-num": "2",
        **({"bucket.auto": "true"} if kind.bucket > 0 and kind.keys else {}),
        **kind.options,
    }
    return create_schema(FIELDS, ("pt",), kind.keys, texts)


@dataclass
class Run:
    """One seed: a table, its world, and who is at it."""

    seed: int
    kind: Kind
    faults: float
    rolls_back: bool
    actor: type[Actor] = Actor
    roles: Mapping[str, tuple[tuple[str, ...], int]] = field(default_factory=lambda: ROLES)

    def __post_init__(self) -> None:
        clear_cache()
        self.world = World(self.kind)
        self.scheduler = Scheduler(self.seed)
        # Pending rows of several snapshots that a rollback took away go by their files' times: docs/conflicts.md.
        back = not (self.rolls_back and self.kind.bucket == -2)
        self.clock = JumpingClock(self.seed, lambda: self.scheduler.pause(), back)
        self.inner = TimedStorage(self.clock, self.published)
        self.store = create_table(self.inner, self.clock, schema_of(self.kind))
        self.chance = random.Random(self.seed + 1)
        self.revived: set[int] = set()
        self.highest = 0
        self.team: list[Actor] = []
        self.serial = [0]
        self.whole: dict[tuple[str, str], dict[Any, Any]] = {}  # what was read, and what the reads of that day met

    def published(self, path: str, data: bytes) -> None:
        """A snapshot was put; its name may have been free again, after an expiry or a rollback."""
        if not path.startswith(f"{ROOT}/snapshot/"):
            return
        wanted = int(path.rsplit("-", 1)[1])
        if wanted <= self.highest:
            self.revived.add(wanted)
            if self.world.rolled_back:
                self.world.doubtful.add(json.loads(data)["uuid"])
        self.highest = max(self.highest, wanted)

    def plan(self, k: int, operation: str, path: str) -> str | Raised | None:
        self.scheduler.pause()
        if self.chance.random() >= self.faults:
            return None
        interrupts = [Raised(KeyboardInterrupt), Raised(KeyboardInterrupt, after=True)]
        return self.chance.choices([FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE, KILL_AFTER, *interrupts], [6, 3, 1, 1, 1, 1])[
            0
        ]

    def round(self, roles: Mapping[str, tuple[tuple[str, ...], int]]) -> None:
        self.scheduler = Scheduler(self.seed + len(self.team))
        for place, (name, (actions, times)) in enumerate(roles.items()):
            store = make_store(FaultStorage(self.inner, self.plan), self.clock, self.store.schema)
            chance = random.Random(self.seed * 100 + place + len(self.team) * 1000)
            actor = self.actor(f"{name}-{len(self.team)}", store, self.world, chance, self.serial)
            self.team.append(actor)
            self.scheduler.spawn(name, lambda actor=actor, actions=actions, times=times: actor.loop(actions, times))  # type: ignore[misc]
        self.scheduler.run()
        for task in self.scheduler._tasks:
            if task.error is not None:
                raise AssertionError(f"{task.name}: {task.error!r}") from task.error

    def check(self, where: str) -> None:
        """Every snapshot and tag. One whose files are all as they were when it was read needs not be read again."""
        clear_cache()
        noting = NotingStorage(self.inner)
        store, noted = (make_store(one, self.clock, self.store.schema) for one in (self.inner, noting))
        still = {place: noting.is_as_met(met) for place, met in {id(met): met for met in self.whole.values()}.items()}

        def read(found: Snapshot, name: str, **travel: Any) -> None:
            what = found.uuid or "", name
            if what not in self.whole or not still[id(self.whole[what])]:
                self.world.check(noted, found, f"{where}, {name}", **travel)
                self.whole[what] = noting.met

        ids, newest = store.snapshot_ids(), store.latest_snapshot()
        below = {*strays(ids), *self.revived}
        # Rows that are seen late have come with a compaction of the newest snapshot: others may stand above a gap.
        compacted = [newest.id] if where == "compacted" and newest is not None else []
        for found in ids if not self.kind.late else compacted:
            if found not in below or found == ids[-1]:
                read(store.snapshot(found), f"snapshot {found}", scan_snapshot_id=found)
        for name, tag in store.tags().items() if not self.kind.late else ():
            read(tag, f"tag {name}", scan_tag_name=name)
        self.check_clones(where)
        if not self.world.rolled_back:
            line = self.world.line(store.latest_snapshot())
            lost = [one.id for actor in self.team for one in actor.acknowledged if one.uuid not in line]
            assert not lost, f"{where}: acknowledged commits are gone: {lost}"

    def check_clones(self, where: str) -> None:
        """The newest snapshot of each clone."""
        for root in CLONES if not self.kind.late else ():
            own = make_store(self.inner, self.clock, self.store.schema, root)
            if self.inner.list(own.paths.schema_dir) and (newest := own.latest_snapshot()) is not None:
                self.world.check(own.with_schema(own.latest_schema()), newest, f"{where}, {root}")

    def check_followers(self) -> None:
        """What streams' readers have in the end, of tables that were never rolled back."""
        newest = make_store(self.inner, self.clock, self.store.schema).latest_snapshot()
        for actor in self.team:
            if actor.follower is not None and newest is not None:
                actor.follower.store = make_store(self.inner, self.clock, self.store.schema)
                with suppress(NotFoundError, InvalidError):
                    actor.follower.step()
                    wanted = self.world.rows[newest.uuid or ""]
                    assert actor.follower.state == wanted, f"{actor.name} has read {actor.follower.state}, not {wanted}"

    def go(self) -> Counter[str]:
        HERE.what = None
        with watched(self.world):
            roles = {**self.roles, **({"r": (("back",), 2)} if self.rolls_back else {})}
            self.round({name: role for name, role in roles.items() if name != "o"})
            self.check("after the first day")
            self.clock.millis += 3 * DAY
            self.round(roles)
            self.check("after the second day")
            HERE.what = None
            store = make_store(self.inner, self.clock, self.store.schema)
            kept = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
            Table(store, "t").compact(bucket_auto=False, **(kept if self.kind.bucket == -2 else {}))  # see Actor.expire
            self.check("compacted")
            if self.kind.told and not self.world.rolled_back:
                self.check_followers()
            self.clock.millis += 9 * DAY
            expire_tags(store)  # what rollbacks that died left
            assert all(name.startswith(("tag", AS_LATEST)) for name in store.tags()), f"whose are {store.tag_names()}?"
            if not self.revived:
                remove_orphans(store, 1 << 60, threads=1)
                self.check("cleaned")
        return sum((actor.done for actor in self.team), Counter())
