"""Tables with global indexes: made, filled, and what a plan reads of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.sim.clock import FakeClock
from tests.sim.storage import FaultStorage, MapStorage

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.ops.rows import global_index
from bucketlake.ops.scan.select import select_snapshot
from bucketlake.table import Table, open_table

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "compaction.min.file-num": "2"}
VECTORS = {"deletion-vectors.enabled": "true"}
ACTION = "global-index.column-update-action"
SCHEMA = pa.schema([("id", pa.int32()), ("b", pa.string()), ("p", pa.int32())])


def create(catalog: Catalog, by: tuple[str, ...] = (), name: str = "db.t", **options: str) -> Table:
    return catalog.create_table(name, SCHEMA, partition_keys=by, options={**EVOLVING, **VECTORS, **options})


def insert(table: Table, *ids: int, p: int = 0) -> None:
    table.write_arrow(pa.table({"id": ids, "b": [f"b{i}" for i in ids], "p": [p] * len(ids)}, SCHEMA))


def files(table: Table, where: str) -> int:
    return len(table.planned(table.predicate(where), select_snapshot(table.store)).entries)


def ids(table: Table, where: str) -> list[int]:
    return sorted(table.to_arrow(where, columns=["id"]).column(0).to_pylist())


def indexes(table: Table) -> list[Any]:
    snapshot = select_snapshot(table.store).snapshot
    return [e for e in table.store.index_manifest(snapshot) if e.file.index_type in global_index.KINDS]


def scattered(table: Table) -> None:
    """Four files over which the values are scattered, so that statistics leave none out."""
    for first in range(4):
        insert(table, *range(first, 40, 4))


def of(storage: Any, seed: int = 1) -> Table:
    return open_table("memory://wh/default.db/t", Env(storage, FakeClock(seed)))


def rivalled(rival: Any, **options: str) -> tuple[MapStorage, Table, list[int]]:
    """A table on a storage, and a handle on it beside which another program does something before its first commit."""
    storage = MapStorage()
    catalog = Catalog(Env(storage, FakeClock()), "memory://wh")
    table = create(catalog, name="default.t", **options)
    scattered(table)
    fired: list[int] = []

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and "/snapshot/" in path and not fired:
            fired.append(k)
            rival(of(storage, 2))

    return storage, of(FaultStorage(storage, plan), 3), fired
