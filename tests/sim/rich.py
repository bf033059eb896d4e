"""Kinds of tables whose columns are more than numbers, what their commits mean, and who is at them, by the public API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from tests.sim.actors import Actor
from tests.sim.beside import Follower
from tests.sim.world import ANOTHER_ORDER, FIELDS, HERE, LONG, PENDING, SEEN, VECTORS, Key, Kind, World, meaning

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.format.metadata.statistics import TableStatistics
from bucketlake.ops.change.append_rows import Means, change_rows, found_here
from bucketlake.ops.change.row_conflicts import MergeRead
from bucketlake.ops.commit.analyze import commit_statistics
from bucketlake.ops.rows.global_index import KINDS as INDEXES
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.change import SetOption
from bucketlake.table import Table
from bucketlake.types.model import DataField, DataType, arrow_schema
from bucketlake.types.parse import parse_type_text

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
BLOBS = {"blob-field": "b", "blob.target-file-size": "1 kb", "blob-compaction.enabled": "true"}
SHREDDED = {"fields.b.map.storage-layout": "shared-shredding", "fields.b.map.shared-shredding.max-columns": "2"}
DROPS = {"global-index.column-update-action": "DROP_PARTITION_INDEX"}
KEPT = {**LONG, "changelog-producer": "lookup"}
BY_A = {"pk-btree.index.columns": "a", "num-sorted-run.compaction-trigger": "2"}
UPSERTED = {"deletion-vectors.enabled": "true", "upsert-key": "pt,k"}


@dataclass(frozen=True)
class Value:
    """What column `b` holds, of a small number."""

    type: str
    of: Callable[[int], Any]
    options: Mapping[str, str] = field(default_factory=dict)


BLOB = Value("BYTES", lambda number: bytes([number % 251]) * (number * 7 % 90), BLOBS)
VECTOR = Value("VECTOR<FLOAT, 2>", lambda number: [float(number), number / 2])
MAP = Value("MAP<STRING NOT NULL, BIGINT>", lambda n: {f"k{n % 5}": n, "all": None if n % 7 == 0 else n}, SHREDDED)
COLUMNS = {"blob": BLOB, "vector": VECTOR, "map": MAP}

# each with the name of its value last
KINDS = (
    Kind("evolving, blob", -1, (), {**EVOLVING, **VECTORS, **DROPS}),
    Kind("fixed, vector", 2, options=SEEN),
    Kind("fixed, lookup, map", 2, options=KEPT, told="late"),
    Kind("fixed, clustered, vector", 2, options={**SEEN, **ANOTHER_ORDER, "clustering.columns": "a"}),
    Kind("fixed, indexed, map", 2, options={**VECTORS, **BY_A}, late=True),
    Kind("fixed, blob", 2),
    Kind("postpone, vector", -2, options=PENDING),
    Kind("evolving, vector", -1, (), {**EVOLVING, **DROPS}),
    Kind("append, map", -1, (), VECTORS),
    Kind("dynamic, blob", -1),
    Kind("across partitions, map", -1, ("k",)),
    Kind("append, upserts, vector", -1, (), UPSERTED),
    Kind("evolving, vectors, map", -1, (), {**EVOLVING, **VECTORS, **DROPS}),
    Kind("full-compaction, vector", 1, options={**KEPT, "changelog-producer": "full-compaction"}, told="late"),
    Kind("tracked, map", -1, (), {"row-tracking.enabled": "true", **VECTORS}),
    Kind("dynamic, clustered, map", -1, options={**SEEN, **ANOTHER_ORDER, "clustering.columns": "a"}),
)


def value_of(kind: Kind) -> Value:
    return COLUMNS[kind.name.rsplit(", ", 1)[1]]


def plain(cell: Any) -> Any:
    """A cell as the model has it: of a map its pairs, in order."""
    if isinstance(cell, list) and cell and isinstance(cell[0], tuple):
        return sorted(cell)
    return sorted(cell.items()) if isinstance(cell, dict) else cell


def create(storage: Any, clock: Any, kind: Kind, options: Mapping[str, str]) -> Store:
    """The table."""
    value = value_of(kind)
    kept: DataType = parse_type_text(value.type, "flink")
    fields = [*FIELDS[:3], DataField(3, "b", kept)]
    catalog = Catalog(Env(storage, clock), "memory://wh")
    storage.write("memory://wh/db.db/.folder", b"")
    return catalog.create_table("db.t", fields, ["pt"], kind.keys, {**options, **value.options}).store


@dataclass
class RichWorld(World):
    """Rows as (number of a, number of b); of an update what it sets."""

    def after(self, state: Any, operation: str, what: Any) -> Any:
        if operation == "update":
            keys, column, value = what
            place = "ab".index(column)
            hit = {key: row for key, row in state.items() if key in keys}
            return state | {key: (value, row[1]) if place == 0 else (row[0], value) for key, row in hit.items()}
        return meaning(self.kind, state, operation, what)

    def cells(self, rows: Any) -> Counter[str]:
        of = value_of(self.kind).of
        return Counter(repr((*key, a, None if b is None else plain(of(b)))) for key, (a, b) in rows.items())

    def check(self, store: Store, found: Snapshot, where: str, **travel: Any) -> None:
        if found.uuid in self.doubtful:
            return
        try:
            rows = Table(store, "t").to_arrow(**travel).to_pylist()
        except NotFoundError as error:
            raise AssertionError(f"{where}: {error}") from error
        seen = Counter(repr((row["pt"], row["k"], row["a"], plain(row["b"]))) for row in rows)
        wanted = self.cells(self.rows[found.uuid or ""])
        assert seen == wanted, f"{where}: lost {wanted - seen}, too many {seen - wanted}"


class Told(Follower):
    """A stream's reader of such tables: its state has what cells are."""

    world: RichWorld

    def wanted(self, uuid: str) -> dict[Key, Any]:
        of = value_of(self.world.kind).of
        return {key: (a, repr(None if b is None else plain(of(b)))) for key, (a, b) in self.world.rows[uuid].items()}

    def _apply(self, state: Any, split: Any) -> None:
        own: dict[Key, Any] = dict(state)
        super()._apply(own, split)
        state.clear()
        state.update({key: (a, b if isinstance(b, str) else repr(plain(b))) for key, (a, b) in own.items()})


class Watched(Table):
    """Tells of the rows that a change has found: others that come to have their keys meanwhile are not changed."""

    __slots__ = ()

    def _rows_now(self, predicate: Any) -> Iterator[pa.RecordBatch]:
        HERE.found = found = set[Key]()
        for batch in super()._rows_now(predicate):
            found.update(zip(batch["pt"].to_pylist(), batch["k"].to_pylist(), strict=True))
            yield batch

    def commit(self, messages: Any, commit_user: Any, *rest: Any, **more: Any) -> Snapshot | None:
        operation, what = HERE.what
        if more.get("read") and operation == "update":
            HERE.what = operation, (HERE.found, *what[1:])
        elif more.get("read") and operation == "delete":
            HERE.what = operation, HERE.found
        return super().commit(messages, commit_user, *rest, **more)


class Rich(Actor):
    """An actor of the public API."""

    def opened(self) -> Table:
        return Watched(Table(self.store, "t").refresh().store if self.random.random() < 0.5 else self.store, "t")

    def known(self) -> list[Key]:
        newest = self.store.latest_snapshot()
        return [] if newest is None else sorted(self.world.rows.get(newest.uuid or "", {}))

    def some(self, most: int) -> list[Key]:
        known = self.known()
        return self.random.sample(known, min(most, len(known)))

    @staticmethod
    def where(keys: list[Key]) -> str:
        return " OR ".join(f"pt = {part} AND k = {key}" for part, key in keys)

    def made(self, parts: tuple[int, ...] = (1, 2)) -> dict[Key, Any]:
        rows: dict[Key, Any] = {}
        for _ in range(self.random.randint(1, 6)):
            number = self.random.randint(0, 15)
            if self.world.kind.engine == "append":
                self.serial[0] += 1
                number = self.serial[0]
            rows[self.random.choice(parts), number] = tuple(
                self.random.choice([None, self.random.randint(0, 99), self.random.randint(0, 99)]) for _ in "ab"
            )
        if self.world.kind.keys == ("k",):
            rows = dict({key[1]: (key, row) for key, row in rows.items()}.values())
        return rows

    def arrow(self, rows: Mapping[Key, Any]) -> pa.Table:
        of = value_of(self.world.kind).of
        lines = []
        for (part, key), (a, b) in rows.items():
            cell = None if b is None else of(b)
            lines.append({"pt": part, "k": key, "a": a, "b": list(cell.items()) if isinstance(cell, dict) else cell})
        return pa.Table.from_pylist(lines, arrow_schema(self.store.schema.fields))

    def append(self, user: str) -> None:
        rows, table = self.made(), self.opened()
        if table.options.names("upsert-key"):
            self.upsert(table.store, rows)
            return
        HERE.what = ("append", rows)
        done = table.write_arrow(self.arrow(rows))
        if done is not None:
            self.acknowledged.append(done)

    def upsert(self, store: Store, rows: dict[Key, Any]) -> None:
        """What INSERT INTO a table with `upsert-key` does: rows whose keys are there take their place."""
        rows = {(part, key % 16): row for (part, key), row in rows.items()}
        HERE.what = ("merge", rows)
        where = Table(store, "t").predicate(self.where(list(rows)))
        assert where is not None

        def write(own: Store, snapshot: Any, touched: Any) -> Iterator[Any]:
            yield from write_batches(own, self.arrow(rows).to_batches(), prepare_write(own, snapshot))

        means = Means(found_here(where), write, anew=True, check=lambda base: MergeRead(store, base).check)
        change_rows(store, where, means, "MERGE")

    def replace(self, user: str) -> None:
        """INSERT OVERWRITE of the partition."""
        if self.world.kind.told == "late" or self.world.kind.keys == ("k",):
            return
        part = self.random.randint(1, 2)
        rows = self.made((part,))
        HERE.what = ("replace", rows)
        self.opened().write_arrow(self.arrow(rows), mode="overwrite", partition={"pt": part})

    def delete(self, user: str) -> None:
        chosen = self.some(2)
        if chosen:
            HERE.what = ("delete", set(chosen))
            self.opened().delete(self.where(chosen))

    def update(self, user: str) -> None:
        chosen, column, value = self.some(3), self.random.choice("ab"), self.random.randint(100, 199)
        if chosen:
            HERE.what = ("update", (set(chosen), column, value))
            given = value_of(self.world.kind).of(value) if column == "b" else value
            self.opened().update({column: given}, self.where(chosen))

    # ---- beside

    def analyze(self, user: str) -> None:
        newest = self.store.latest_snapshot()
        if newest is not None:
            commit_statistics(self.store, user, TableStatistics(newest.id, newest.schema_id, 1, 1))

    def alter(self, user: str) -> None:
        self.opened().alter(SetOption("comment", user))

    def branch(self, user: str) -> None:
        table, name = self.opened(), f"b{self.random.randint(0, 1)}"
        if name in table.branches():
            table.delete_branch(name)
        elif tags := list(table.tags()):
            table.create_branch(name, self.random.choice(tags))

    def index(self, user: str) -> None:
        if self.world.kind.name.startswith("evolving"):
            self.opened().create_global_index(self.random.choice("ak"), self.random.choice(list(INDEXES)))

    def unindex(self, user: str) -> None:
        if self.world.kind.name.startswith("evolving"):
            self.opened().drop_global_index(self.random.choice("ak"), self.random.choice(list(INDEXES)))

    def materialize(self, user: str) -> None:
        if self.world.kind.name.startswith("evolving") and "deletion-vectors.enabled" in self.world.kind.options:
            HERE.what = ("move", None)
            self.opened().materialize_deletion_vectors()

    def renumber(self, user: str) -> None:
        if self.world.kind.name.startswith("evolving"):
            HERE.what = ("move", None)
            self.opened().reassign_row_ids()

    def listen(self, user: str) -> None:
        if self.world.kind.told:
            if self.follower is None:
                self.follower = Told(self.store)
                self.follower.world = self.world  # type: ignore[attr-defined]
            self.follower.step()

    def copy(self, user: str) -> None:
        if "blob" not in self.world.kind.name:
            super().copy(user)
