"""As test_maintenance, while the table's columns change: one is added, dropped and added again, renamed, made wider. Handles
are as old as it happens: what they write has the columns they know, and what rewrites rows loses none of the others'.

A row is what each column's id holds; a column that is dropped takes its values along, in every snapshot from then on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import seeds
from tests.sim.actors import ROLES, Actor
from tests.sim.at_once import Run
from tests.sim.tables import make_store
from tests.sim.world import HERE, SEEN, VECTORS, Key, Kind, World, meaning

from bucketlake.errors import BucketlakeError, NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.postpone_write import write_counted
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.schema.change import AddColumn, DropColumn, RenameColumn, UpdateColumnType
from bucketlake.schema.schema import KIND_FIELD, BucketMode
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, INT, Root, arrow_schema

Cells = dict[int, int]  # value by the id of its column; what is null is not there
CLUSTERED = {"clustering.columns": "k", "clustering.incremental": "true", "num-sorted-run.compaction-trigger": "2"}
KINDS = (
    Kind("fixed", 2),
    Kind("fixed, vectors", 2, options=SEEN),
    Kind("fixed, lookup", 2, options={"changelog-producer": "lookup"}),
    Kind("fixed, partial-update", 2, options={"merge-engine": "partial-update"}),
    Kind("dynamic", -1),
    Kind("across partitions", -1, ("k",)),
    Kind("append", -1, ()),
    Kind("append, vectors", -1, (), VECTORS),
    Kind("append, clustered", -1, (), {**VECTORS, **CLUSTERED}),
    Kind("append, buckets, vectors", 2, (), {"bucket-key": "k", **VECTORS}),
    Kind("append, tracked", -1, (), {"row-tracking.enabled": "true"}),
    Kind("append, evolving", -1, (), {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}),
)
WRITES = ("append", "append", "delete", "update")
ALTERED = {**ROLES, "w0": (WRITES, 5), "w1": ((*WRITES, "drop", "age"), 5), "a": (("alter",), 4)}


@dataclass
class Columns(World):
    """Rows as cells."""

    def after(self, state: Any, operation: str, what: Any) -> Any:
        """The rows after a commit."""
        if operation == "append":
            if self.kind.engine == "partial-update":
                return {**state, **{key: {**state.get(key, {}), **cells} for key, cells in what.items()}}
            if self.kind.keys == ("k",):
                new = {key[1] for key in what}
                state = {key: cells for key, cells in state.items() if key[1] not in new}
            return {**state, **what}
        if operation == "delete":
            return {key: cells for key, cells in state.items() if key[1] not in what}
        if operation == "update":
            keys, column, value = what
            hit = [key for key in state if key in keys or key[1] in keys]
            return {**state, **{key: {**state[key], column: value} for key in hit}}
        return state if operation == "replace" else meaning(self.kind, state, operation, what)

    def check(self, store: Store, found: Snapshot, where: str, **travel: Any) -> None:
        if found.uuid in self.doubtful:
            return
        try:
            table, _ = Table(store, "t").as_of(travel)
            rows = Table(store, "t").to_arrow(**travel).to_pylist()
        except NotFoundError as error:
            raise AssertionError(f"{where}: {error}") from error
        ids = {item.name: item.id for item in table.schema.fields}
        seen = Counter(self._line(row["pt"], row["k"], {ids[name]: row[name] for name in ids}) for row in rows)
        wanted = Counter(
            self._line(*key, {number: cells.get(number) for number in ids.values()})  # type: ignore[attr-defined]
            for key, cells in self.rows[found.uuid or ""].items()
        )
        assert seen == wanted, f"{where}: lost {wanted - seen}, too many {seen - wanted}"

    @staticmethod
    def _line(pt: int, k: int, cells: Mapping[int, int | None]) -> tuple[Any, ...]:
        return pt, k, *sorted((number, value) for number, value in cells.items() if number > 1 and value is not None)


class Alterer(Actor):
    """An actor whose handle is opened again now and then."""

    def _opened(self) -> Table:
        if self.random.random() < 0.5:
            newest = self.store.latest_schema()
            self.store = make_store(self.store.env.storage, self.store.env.clock, newest)
            self.coordinator = None
        return Table(self.store, "t")

    def append(self, user: str) -> None:
        self._opened()
        free = [item for item in self.store.schema.fields if item.id > 1]
        rows: dict[Key, Cells] = {}
        for _ in range(self.random.randint(1, 6)):
            self.serial[0] += 1
            number = self.serial[0] if self.world.kind.engine == "append" else self.random.randint(0, 15)
            most = {item.id: 99 if item.type.root is Root.INT else 1 << 40 for item in free}
            cells = {at: self.random.randint(0, top) for at, top in most.items() if self.random.random() < 0.7}
            rows[self.random.randint(1, 2), number] = cells
        if self.world.kind.keys == ("k",):
            rows = dict({key[1]: (key, cells) for key, cells in rows.items()}.values())
        HERE.what = ("append", rows)
        self._put(user, rows, 0)

    def _put(self, user: str, rows: Mapping[Key, Cells], kind: int) -> None:
        schema = arrow_schema(self.store.schema.fields)
        fixed = [[key[0] for key in rows], [key[1] for key in rows]]
        known = {item.id: [cells.get(item.id) for cells in rows.values()] for item in self.store.schema.fields}
        columns = [fixed[item.id] if item.id < 2 else known[item.id] for item in self.store.schema.fields]
        arrays = [pa.array(column, item.type) for column, item in zip(columns, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        kinds = None
        if self.world.kind.keys:
            kinds = KIND_FIELD.name
            batch = batch.append_column(kinds, pa.array([kind] * len(rows), pa.int8()))
        task = prepare_write(self.store, self.store.latest_snapshot(), commit_user=user)
        done = Table(self.store, "t").commit(write_counted(self.store, [batch], task, kinds), user)
        if done is not None:
            self.acknowledged.append(done)

    def delete(self, user: str) -> None:
        table = self._opened()
        if self.world.kind.engine == "append":
            chosen = self._some(2)
            if chosen:
                HERE.what = ("delete", set(chosen))
                table.delete(f"k IN ({', '.join(map(str, chosen))})")
        elif self.world.kind.engine == "deduplicate":
            keys = {self.random.randint(0, 15) for _ in range(3)}
            HERE.what = ("delete", keys)
            parts = (1,) if self.world.kind.keys == ("k",) else (1, 2)
            self._put(user, {(part, key): {} for part in parts for key in keys}, 3)

    def update(self, user: str) -> None:
        table, chosen = self._opened(), self._some(4)
        item = self.random.choice([item for item in self.store.schema.fields if item.id > 1])
        if chosen and self.world.kind.engine in ("append", "deduplicate"):
            value = self.random.randint(100, 199)
            keys: set[Any] = set(chosen)
            where = f"k IN ({', '.join(map(str, chosen))})"
            if self.world.kind.engine == "deduplicate":
                # A row that comes to fulfil a condition while it is looked at counts as committed after: rows that are
                # there are named.
                newest = self.store.latest_snapshot()
                rows = self.world.rows[newest.uuid or ""] if newest is not None else {}
                keys = {key for key in rows if key[1] in chosen}
                where = " OR ".join(f"pt = {pt} AND k = {k}" for pt, k in sorted(keys)) or "false"
            HERE.what = ("update", (keys, item.id, value))
            table.update({item.name: value}, where)

    def _some(self, most: int) -> list[int]:
        newest = self.store.latest_snapshot()
        known = sorted({key for _, key in self.world.rows[newest.uuid or ""]}) if newest is not None else []
        return self.random.sample(known, min(most, len(known)))

    def alter(self, user: str) -> None:
        table = self._opened()
        fields = {item.id: item for item in self.store.latest_schema().fields}
        added = [item.name for item in fields.values() if item.id > 3]
        change = self.random.choice(["add", "add", "rename", "widen", "drop"])
        if change == "add" and len(added) < 2:
            table.alter(AddColumn(f"c{self.random.randint(0, 9)}", INT))
        elif change == "rename":
            table.alter(RenameColumn(fields[3].name, self.random.choice(["b", "bb"])))
        elif change == "widen" and fields[2].type.root is Root.INT:
            table.alter(UpdateColumnType("a", BIGINT))
        elif change == "drop" and added:
            table.alter(DropColumn(self.random.choice(added)))

    def compact(self, user: str) -> None:
        self._opened()
        super().compact(user)

    def follow(self, user: str) -> None:
        self._opened()
        super().follow(user)

    def sort(self, user: str) -> None:
        self._opened()
        super().sort(user)

    def cluster(self, user: str) -> None:
        self._opened()
        super().cluster(user)

    def rescale(self, user: str) -> None:
        if self.store.schema.bucket_mode is BucketMode.FIXED:
            self._opened()
            super().rescale(user)


@dataclass
class AlteredRun(Run):
    """One seed."""

    world: World = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.world = Columns(self.kind)

    def check(self, where: str) -> None:
        """By the first schema and by the newest one: time travel takes the snapshot's, whichever the handle has."""
        super().check(where)
        newest = make_store(self.inner, self.clock, self.store.latest_schema())
        last = newest.latest_snapshot()
        if last is not None and not self.kind.late:
            self.world.check(newest, last, f"{where}, newest schema")


def run(seed: int) -> Counter[str]:
    kind = KINDS[seed % len(KINDS)]
    faults = (0.0, 0.003, 0.01)[seed // len(KINDS) % 3]
    rolls_back = seed // (3 * len(KINDS)) % 2 == 1
    try:
        return AlteredRun(seed, kind, faults, rolls_back, Alterer, ALTERED).go()
    except (AssertionError, BucketlakeError, LookupError) as error:
        raise AssertionError(f"seed {seed}, {kind.name}, faults {faults}, back {rolls_back}: {error}") from error


@pytest.mark.parametrize("seed", [seed * 31 for seed in seeds(3, 1000)])
def test_no_column_of_a_row_is_lost(seed: int) -> None:
    assert run(seed)["alter"]
