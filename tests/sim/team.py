"""Writers of one table, interleaved at every storage call by a seed; their storage fails and kills them by chance."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.sim.clock import FakeClock
from tests.sim.schedule import Scheduler
from tests.sim.storage import FaultStorage, Killed, MapStorage, fault_by_chance
from tests.sim.tables import create_table, make_store

from bucketlake.errors import CommitError, StorageError
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.schema import TableSchema
from bucketlake.table import Table


@dataclass
class Writer:
    """One process. `operations`: its methods, by name, of which chance takes a few. `log`: commit user -> what the
    commit means."""

    name: str
    table: Table
    random: random.Random
    operations: Sequence[str]
    parts: int = 2
    log: dict[str, tuple[str, Any]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)

    def steps(self) -> int:
        return self.random.randint(2, 4)

    def run(self) -> None:
        for step in range(self.steps()):
            try:
                self.act(f"{self.name}.{step}")
            except (CommitError, StorageError) as error:
                self.failures[type(error).__name__] += 1
            except Killed:
                return

    def act(self, user: str) -> None:
        getattr(self, self.random.choice(self.operations))(user)

    def drop(self, user: str) -> None:
        """A partition of those numbered from 1 on."""
        part = self.random.randint(1, self.parts)
        self.log[user] = ("drop", part)
        Commit(self.table.store, user).drop_partitions([{"pt": part}])

    def compact(self, user: str) -> None:
        self.table.compact()


W = TypeVar("W", bound=Writer)
Makes = Callable[[str, Table, random.Random], W]


def simulate(
    seed: int, schema: TableSchema, team: Sequence[Makes[W]], faults: float, before: Makes[W] | None = None
) -> tuple[Any, MapStorage, list[W]]:
    """The store of a new table and its files once all writers have ended, and the writers. `faults`: the share of
    calls that fail or kill; `before`: one whose first append comes before all others."""
    clear_cache()
    inner, scheduler = MapStorage(), Scheduler(seed)
    clock = FakeClock(seed, on_sleep=scheduler.pause)
    store = create_table(inner, clock, schema)
    plan = fault_by_chance(seed + 1, faults, scheduler.pause)
    members = []
    if before is not None:
        members.append(before("w", Table(store, "t"), random.Random(seed)))
        members[0].append("w.0")
    for number, makes in enumerate(team):
        table = Table(make_store(FaultStorage(inner, plan), clock, schema), "t")
        members.append(makes(f"w{number}", table, random.Random(seed * 100 + number)))
        scheduler.spawn(members[-1].name, members[-1].run)
    scheduler.finish()
    return store, inner, members


def unreferenced(store: Any, files: dict[str, bytes]) -> set[str]:
    """Data and index files that no snapshot refers to."""
    paths, known = store.paths, set()
    for snapshot in store.snapshots():
        changelog = [entry for part in store.manifests(store.changelog_manifests(snapshot)) for entry in part]
        for entry in (*live_entries(store, snapshot), *changelog):
            known.add(paths.file_path(paths.bucket_dir(entry.partition, entry.bucket), entry.file))
        for entry in store.index_manifest(snapshot):
            known.add(paths.index_path(entry.partition, entry.bucket, entry.file))
    return {path for path in files if "/index/" in path or "/bucket-" in path} - known
