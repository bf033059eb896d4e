"""A table and a reader of its stream, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketlake
from bucketlake.ops.scan.system_tables import RowView, read_view
from bucketlake.ops.stream.limits import Limits
from bucketlake.ops.stream.position import Position
from bucketlake.ops.stream.source import Source
from bucketlake.table import Table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


KEYED = {
    "none": {"bucket": "2"},
    "input": {"bucket": "2", "changelog-producer": "input"},
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
    "full-compaction": {"bucket": "2", "changelog-producer": "full-compaction"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "5", "changelog-producer": "lookup"},
    "vectors": {"bucket": "2", "deletion-vectors.enabled": "true"},
    "postpone": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
    "postpone, lookup": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "changelog-producer": "lookup"},
}


ALL = Limits()


def make(tmp_path: Path, keyed: bool, options: dict[str, str]) -> Table:
    catalog = bucketlake.open(str(tmp_path / "wh"))
    catalog.create_database("db", ignore_if_exists=True)
    return catalog.create_table("db.t", SCHEMA, primary_keys=["k"] if keyed else (), options=options)


def rows_of(table: Table, **values: int) -> pa.Table:
    return pa.table({"k": [values["k"]], "v": [values["v"]]}, schema=SCHEMA)


class Reader:
    """A stream's consumer that keeps its offset as JSON, as Spark's checkpoint does."""

    def __init__(self, table: Table, **options: Any) -> None:
        self.table = table.with_options(options)
        self.told: list[tuple[str, int, int | None]] = []
        source = Source.of(self.table.store)
        self.offset = json.dumps(source.origin().as_offset())

    def step(self, limits: Limits | None = ALL) -> int:
        """Read one batch, in a process of its own; how many rows."""
        source = Source.of(self.table.store)
        start = Position.of(json.loads(self.offset))
        end = source.following(start, limits)
        first = [self._rows(group) for group in Source.of(self.table.store).batch(start, end)]
        again = [
            self._rows(group) for group in source.batch(start, Position.of(json.loads(json.dumps(end.as_offset()))))
        ]
        assert first == again, "a batch that is read again gives other rows"
        self.offset = json.dumps(end.as_offset())
        found = [row for group in first for row in group]
        self.told += found
        return len(found)

    def read_all(self, limits: Limits | None = ALL) -> None:
        while True:
            before = self.offset
            self.step(limits)
            if self.offset == before:
                return

    def _rows(self, group: Any) -> list[tuple[str, int, int | None]]:
        view = RowView("audit_log", follows=True)
        return [
            (row["rowkind"], row["k"], row["v"])
            for split in group
            for batch in read_view(self.table.store, view, split)
            for row in batch.to_pylist()
        ]

    @property
    def state(self) -> dict[int, int | None]:
        found: dict[int, int | None] = {}
        for kind, key, value in self.told:
            if self.table.options.get("changelog-producer") in ("lookup", "full-compaction"):
                was = {"+I": None}.get(kind, value) if kind != "+U" else found.get(key)
                assert kind != "-D" or key in found, f"{kind} {key} {value} of a row that was not told: {self.told}"
                assert found.get(key) == was, f"{kind} {key} {value} where {found.get(key)} was told: {self.told}"
            if kind == "-U":
                found.pop(key, None)
            if kind in ("+I", "+U"):
                found[key] = value
            elif kind == "-D":
                found.pop(key, None)
        return found
