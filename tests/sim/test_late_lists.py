"""Stores that answer late: a LIST that shows for long what is gone, a put whose answer is lost. Nothing that was committed
goes, no read gives other rows, and what fails says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import first, seeds
from tests.sim.clock import FakeClock
from tests.sim.late import LateLists
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, FaultStorage, MapStorage

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import BucketlakeError
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import SetOption
from bucketlake.table import Table

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
FEW = {"num-sorted-run.compaction-trigger": "3", "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "keyed": (["k"], {"bucket": "1"}),
    "append": ([], {}),
    "vectors": ([], {"deletion-vectors.enabled": "true"}),
    "lookup": (["k"], {"bucket": "1", "changelog-producer": "lookup", "changelog.num-retained.max": "6"}),
    "dynamic": (["k"], {"bucket": "-1"}),
    "crossing": (["k"], {"bucket": "-1"}),
}
LATE = ("gone", "gone and lost")
DAYS = 3 * 24 * 3600 * 1000
Rows = dict[int, int]


def rows_of(found: pa.Table) -> list[tuple[int, int]]:
    return sorted((row["k"], row["v"]) for row in found.to_pylist())


class History:
    """A table, what it must hold, and what is done to it. `lost`: how often the answer of a conditional put is."""

    def __init__(self, kind: str, seed: int, lost: float) -> None:
        self.chance, self.clock, self.files = random.Random(f"{kind} {seed}"), FakeClock(seed), LateLists(seed)
        loses = random.Random(f"lost {seed}")

        def plan(call: int, operation: str, path: str) -> str | None:
            if operation != "put_if_absent" or loses.random() >= lost:
                return None
            return loses.choice([FAIL_BEFORE, FAIL_AFTER, FAIL_AFTER])

        self.keyed, self.name = bool(KINDS[kind][0]), "t"
        Catalog(Env(self.files, self.clock), "/wh").create_table("t", SCHEMA, (), KINDS[kind][0], FEW | KINDS[kind][1])
        self.storage = FaultStorage(self.files, plan)
        self.rows: Rows = {}
        self.tags: dict[str, Rows] = {}
        self.branches: dict[str, Rows] = {}

    def catalog(self) -> Catalog:
        """As another process has it."""
        if self.chance.random() < 0.5:
            clear_cache()
        return Catalog(Env(self.storage, self.clock), "/wh")

    def truth(self, name: str = "") -> Table:
        """The table as it is."""
        files = MapStorage()
        files.files = dict(self.files.files)
        clear_cache()
        return Catalog(Env(files, FakeClock(1)), "/wh").table(name or self.name)

    def done(self, action: Callable[[], Any]) -> bool:
        """Whether it is said to be."""
        try:
            action()
        except BucketlakeError:
            return False
        return True

    def change(self, action: Callable[[], Any], after: Rows) -> None:
        """Rows are those before or after; those after where that is said, and so is what a read gives then."""
        said, found = self.done(action), rows_of(self.truth().to_arrow())
        assert found in ([sorted(after.items())] if said else [sorted(after.items()), sorted(self.rows.items())])
        self.rows = dict(found)
        assert rows_of(self.catalog().table(self.name).to_arrow()) == found

    def step(self, number: int) -> None:
        table, chance = self.catalog().table(self.name), self.chance
        steps = ["write"] * 5 + ["delete", "compact", "expire", "tag", "untag", "branch", "unbranch", "alter", "clean"]
        what = chance.choice([*steps, "rename"])
        if what == "write":
            new = {chance.randrange(9) if self.keyed else number: chance.randrange(100)}
            self.change(lambda: table.write_arrow([{"k": k, "v": v} for k, v in new.items()]), self.rows | new)
        elif what == "delete" and self.rows:
            key = chance.choice(list(self.rows))
            self.change(lambda: table.delete(f"k = {key}"), {k: v for k, v in self.rows.items() if k != key})
        elif what == "compact":
            self.change(lambda: table.compact(full=chance.random() < 0.5), self.rows)
        elif what == "expire":
            self.change(lambda: table.expire_snapshots(retain_max=2, retain_min=1), self.rows)
        elif what == "clean":
            self.clock.millis += DAYS
            self.change(table.remove_orphan_files, self.rows)
        elif what == "alter":
            self.change(lambda: table.alter(SetOption("comment", f"{number}")), self.rows)
        elif what == "rename":
            self._rename()
        else:
            self._refer(what, table, number)

    def _refer(self, what: str, table: Table, number: int) -> None:
        names = list(self.branches if what == "unbranch" else self.tags)
        name, rows = self.chance.choice(names) if names else "", dict(self.rows)
        if what == "tag":
            if self.done(lambda: table.create_tag(f"t{number}")):
                self.tags[f"t{number}"] = rows
        elif what == "untag" and name:
            if not self.done(lambda: table.delete_tag(name)) or name not in self.truth().tags():
                del self.tags[name]
        elif what == "branch" and name:
            if self.done(lambda: table.create_branch(f"b{number}", name)):
                self.branches[f"b{number}"] = self.tags[name]
        elif what == "unbranch" and name:
            del self.branches[name]
            self.done(lambda: table.delete_branch(name))

    def _rename(self) -> None:
        other = {"t": "u", "u": "t"}[self.name]
        if self.done(lambda: self.catalog().rename_table(self.name, other)):
            self.name = other

    def check(self) -> None:
        """All of it is there."""
        table = self.truth()
        assert rows_of(table.to_arrow()) == sorted(self.rows.items())
        for name, rows in self.tags.items():
            assert rows_of(table.to_arrow(scan_tag_name=name)) == sorted(rows.items())
        for name, rows in self.branches.items():
            assert rows_of(self.truth(f"{self.name}$branch_{name}").to_arrow()) == sorted(rows.items())
        assert table.fsck().errors == ()


@pytest.mark.parametrize(("kind", "late"), first(list(product(KINDS, LATE)), 9))
@pytest.mark.filterwarnings("ignore")
def test_a_store_that_answers_late(kind: str, late: str) -> None:
    for seed in seeds(1, 40):
        history = History(kind, seed, 0.1 if late == "gone and lost" else 0)
        for number in range(25):
            history.step(number)
        history.check()
