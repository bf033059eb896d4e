"""A chain table and its branches, for tests of what is read of it and of what changes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketlake
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.change import SetOption
from bucketlake.schema.schema import KIND_FIELD

MAIN, WHOLE, DELTA = "db.t", "db.t$branch_snapshot", "db.t$branch_delta"
DAILY = {"partition.timestamp-pattern": "$dt", "partition.timestamp-formatter": "yyyyMMdd"}
HOURLY = {"partition.timestamp-pattern": "$dt $hh:00", "partition.timestamp-formatter": "yyyyMMdd HH:mm"}
INSERT, DELETE = 0, 3

Row = tuple[Any, ...]  # the partition's values, k, s, v


class Chain:
    """A chain table `db.t`, partitioned by text columns, with key k, sequence s and value v."""

    def __init__(self, folder: Path, keys: Sequence[str] = ("dt",), **options: str) -> None:
        self.catalog, self.keys = bucketlake.open(str(folder)), list(keys)
        self.catalog.create_database("db")
        columns = [*((key, pa.string()) for key in keys), ("k", pa.int64()), ("s", pa.int64()), ("v", pa.string())]
        self.schema = pa.schema(columns)
        every = {"chain-table.enabled": "true", "sequence.field": "s", "bucket-key": "k", "bucket": "2", **DAILY}
        self.catalog.create_table(MAIN, self.schema, keys, [*keys, "k"], {**every, **options})
        for name in ("snapshot", "delta"):
            self.catalog.table(MAIN).create_branch(name)
        for name in (MAIN, WHOLE, DELTA):
            self.set(name, **{f"scan.fallback-{one}-branch": one for one in ("snapshot", "delta")})

    def set(self, name: str, **options: str) -> None:
        self.catalog.table(name).alter(*(SetOption(key, value) for key, value in options.items()))

    def rows_of(self, *rows: Row) -> pa.Table:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
        arrays = [pa.array(column, item.type) for column, item in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def write(self, name: str, *rows: Row, **how: Any) -> None:
        self.catalog.table(name).write_arrow(self.rows_of(*rows), **how)

    def change(self, name: str, *rows: tuple[int, Row]) -> None:
        """Write rows with their kinds."""
        table = self.catalog.table(name)
        store, user = table.store, new_commit_user(table.store)
        kinds = pa.array([kind for kind, _ in rows], pa.int8())
        data = self.rows_of(*(row for _, row in rows)).append_column(KIND_FIELD.name, kinds)
        task = prepare_write(store, store.latest_snapshot(), commit_user=user)
        messages = write_batches(store, data.to_batches(), task, KIND_FIELD.name)
        table.compacted(table.commit(messages, user), messages)

    def rows(self, name: str = MAIN, **options: Any) -> list[Row]:
        found = self.catalog.table(name).to_arrow(**options).to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)

    def partitions(self, name: str) -> list[str]:
        return ["/".join(one.values()) for one in self.catalog.table(name).partitions()]


def paimons_example(tables: Chain) -> None:
    """The rows of Paimon's own test of its Spark connector."""
    tables.write(MAIN, ("20250810", 1, 1, "1"), ("20250810", 2, 1, "1"))
    for day, *rows in (
        ("20250809", (1, 1, "1"), (2, 1, "1")),
        ("20250810", (1, 2, "1-1"), (3, 1, "1")),
        ("20250811", (2, 2, "1-1"), (4, 1, "1")),
        ("20250812", (3, 2, "1-1"), (4, 2, "1-1"), (7, 1, "d7")),
        ("20250813", (5, 1, "1"), (6, 1, "1")),
        ("20250814", (5, 2, "1-1"), (6, 2, "1-1")),
    ):
        tables.write(DELTA, *((day, *row) for row in rows), mode="overwrite")
    twelfth = [(1, 2, "1-1"), (2, 2, "1-1"), (3, 2, "1-1"), (4, 2, "1-1")]
    for day, *rows in (
        ("20250810", (1, 2, "1-1"), (2, 1, "1"), (3, 1, "1")),
        ("20250812", *twelfth),
        ("20250814", *twelfth, (5, 1, "1"), (6, 1, "1")),
    ):
        tables.write(WHOLE, *((day, *row) for row in rows), mode="overwrite")
