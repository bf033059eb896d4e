"""As test_maintenance, tables whose rows have ids, and whose columns may lie in several files: besides, no id is given out
twice, and a row keeps the one it has got, unless ids are given out anew; global indexes come and go, and no condition
finds other rows by them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from tests.profile import SOAK, seeds
from tests.sim.actors import ROLES, Actor
from tests.sim.at_once import Run
from tests.sim.tables import ROOT, make_store
from tests.sim.world import FIELDS, HERE, Key, Kind

from bucketlake.catalog import open_named
from bucketlake.errors import BucketlakeError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.compact.compaction import Compaction, compaction_job
from bucketlake.ops.compact.job import run_job
from bucketlake.ops.compact.reassign import reassign_row_ids
from bucketlake.ops.compact.running import inline
from bucketlake.ops.global_index.build import create_index, drop_index
from bucketlake.ops.rows.global_index import KINDS as INDEXES
from bucketlake.ops.rows.global_index import indexed_ids
from bucketlake.ops.table.store import Store, clear_cache
from bucketlake.table import Table
from bucketlake.types.model import arrow_schema

TRACKED = {"row-tracking.enabled": "true"}
VECTORS = {"deletion-vectors.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true"}
ACTION = "global-index.column-update-action"
KINDS = (
    Kind("evolving, vectors", -1, (), {**EVOLVING, **VECTORS, ACTION: "DROP_PARTITION_INDEX"}),
    Kind("tracked", -1, (), TRACKED),
    Kind("tracked, vectors", -1, (), {**TRACKED, **VECTORS}),
    Kind("evolving", -1, (), {**EVOLVING, ACTION: "IGNORE"}),
)
WRITES = ("append", "append", "delete", "update", "update")
MORE = {
    **ROLES,
    "w0": (WRITES, 5),
    "w1": ((*WRITES, "drop", "age", "replace"), 5),
    "u": (("update",), 5),
    "x": (("sort", "cluster", "materialize", "renumber"), 4),
    "i": (("index", "index", "index", "unindex"), 4),
}


class Changer(Actor):
    """An actor that changes rows, too."""

    def delete(self, user: str) -> None:
        chosen = self._some(2)
        if chosen:
            HERE.what = ("delete", set(chosen))
            Table(self.store, "t").delete(f"k IN ({', '.join(map(str, chosen))})")

    def update(self, user: str) -> None:
        chosen, column, value = self._some(4), self.random.choice("ab"), self.random.randint(100, 199)
        if chosen:
            HERE.what = ("update", (set(chosen), column, value))
            Table(self.store, "t").update({column: value}, f"k IN ({', '.join(map(str, chosen))})")

    def replace(self, user: str) -> None:
        """INSERT OVERWRITE of a partition."""
        part, rows = self.random.randint(1, 2), dict[Key, tuple[int, int]]()
        for _ in range(3):
            self.serial[0] += 1
            rows[part, self.serial[0]] = self.random.randint(0, 99), self.random.randint(0, 99)
        HERE.what = ("replace", rows)
        columns = zip(*((*key, *row) for key, row in rows.items()), strict=True)
        schema = arrow_schema(FIELDS)
        arrays = [pa.array(list(column), item.type) for column, item in zip(columns, schema, strict=True)]
        Table(self.store, "t").write_arrow(pa.Table.from_arrays(arrays, schema=schema), mode="overwrite")

    def materialize(self, user: str) -> None:
        """Deleted rows go for good, those beside them get new ids."""
        if self._moves("evolving, vectors"):
            run_job(compaction_job(self.store, Compaction(deleted=True)), inline)

    def renumber(self, user: str) -> None:
        """The ids of each partition come to lie side by side."""
        if self._moves("evolving"):
            reassign_row_ids(self.store)

    def index(self, user: str) -> None:
        """An index of a column, of what none covers."""
        if self.world.kind.name.startswith("evolving"):
            create_index(self.store, [self.random.choice("abk")], self.random.choice(INDEXES), run=inline)

    def unindex(self, user: str) -> None:
        """An index less."""
        if self.world.kind.name.startswith("evolving"):
            drop_index(self.store, [self.random.choice("abk")], self.random.choice(INDEXES))

    def _moves(self, kind: str) -> bool:
        if not self.world.kind.name.startswith(kind) or self.store.latest_snapshot() is None:
            return False
        HERE.what = ("move", None)
        return True

    def _some(self, most: int) -> list[int]:
        newest = self.store.latest_snapshot()
        known = sorted(key for _, key in self.world.rows[newest.uuid or ""]) if newest is not None else []
        return self.random.sample(known, min(most, len(known)))


@dataclass
class TrackedRun(Run):
    """One seed. `ids`: of the rows seen so far; `owners`: of the ids."""

    ids: dict[Key, int] = field(default_factory=dict)
    owners: dict[int, Key] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def check(self, where: str) -> None:
        super().check(where)
        clear_cache()
        store = make_store(self.inner, self.clock, self.store.schema)
        newest = store.latest_snapshot()
        if newest is None or newest.uuid in self.world.doubtful:
            return
        self._ask(store, newest, where)
        found = open_named(f"{ROOT}$row_tracking", store.env).to_arrow().to_pylist()
        assert len({row["_ROW_ID"] for row in found}) == len(found), f"{where}: an id twice"
        for row in found if not self.world.rolled_back else ():
            key, number = (row["pt"], row["k"]), row["_ROW_ID"]
            known, owner = self.ids.setdefault(key, number), self.owners.setdefault(number, key)
            assert known == number or self.world.moved, f"{where}: {row} had the id {known}"
            assert owner == key, f"{where}: {row} has the id that {owner} had"

    def _ask(self, store: Store, newest: Snapshot, where: str) -> None:
        """Conditions on columns that are indexed find the rows that they find without an index."""
        indexes = [entry for entry in store.index_manifest(newest) if entry.file.index_type in INDEXES]
        if not indexes:
            return
        table = Table(store, "t")
        plain = table.with_options({"global-index.enabled": "false"})
        names = {item.id: item.name for item in store.schema.fields}
        for name in sorted({names[id] for entry in indexes for id in indexed_ids(entry)}):
            known = [value for value in plain.to_arrow(columns=[name]).column(0).to_pylist() if value is not None]
            value = self.chance.choice(known or [1])
            for text in (f"{name} = {value}", f"{name} >= {value} AND {name} < {value + 9}", f"{name} IS NULL"):
                rows, expected = (sorted(map(repr, one.to_arrow(text).to_pylist())) for one in (table, plain))
                assert rows == expected, f"{where}: {text}"
                self.asked[name] += 1


def run(seed: int) -> Counter[str]:
    kind = KINDS[seed % len(KINDS)]
    faults = (0.0, 0.003, 0.01)[seed // len(KINDS) % 3]
    rolls_back = seed // (3 * len(KINDS)) % 2 == 1
    try:
        tracked = TrackedRun(seed, kind, faults, rolls_back, Changer, MORE)
        return tracked.go() + Counter({"asked": tracked.asked.total()})
    except (AssertionError, BucketlakeError, LookupError) as error:
        raise AssertionError(f"seed {seed}, {kind.name}, faults {faults}, back {rolls_back}: {error}") from error


@pytest.mark.parametrize("seed", [seed * (1 if SOAK else 31) for seed in seeds(3, 1000)])
def test_nobody_loses_a_row_or_its_id(seed: int) -> None:
    assert run(seed)["update"]
