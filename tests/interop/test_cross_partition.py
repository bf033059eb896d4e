"""Bucketlake and Apache Paimon on Flink write cross-partition tables in turns: each key lies in one partition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.engines import DATABASE, listed_here, listing, read_by_flink
from tests.interop.values import arrow_rows, canonical
from tests.peers.flink import FlinkPaimon
from tests.profile import first

import bucketlake
from bucketlake import Table
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.types.parse import parse_type_text

pytestmark = pytest.mark.peer
COLUMNS = {"k": "BIGINT", "v": "INT", "pt": "STRING"}
Row = tuple[int, int, str]
State = dict[int, tuple[int, str]]


def merged(state: State, engine: str, rows: list[Row]) -> State:
    state = dict(state)
    for key, value, part in rows:
        if key not in state or engine == "deduplicate":
            state[key] = (value, part)
        elif engine == "aggregation":
            state[key] = (state[key][0] + value, state[key][1])
        elif engine == "partial-update":
            state[key] = (value, state[key][1])
    return state


@pytest.mark.slow
@pytest.mark.parametrize("engine", first(["deduplicate", "partial-update", "aggregation", "first-row"], 2))
def test_each_key_lies_once_whoever_writes(flink: FlinkPaimon, tmp_path: Path, engine: str) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database(DATABASE)
    flink.use(tmp_path)
    fields = [DataField(n, name, parse_type_text(text, "flink")) for n, (name, text) in enumerate(COLUMNS.items())]
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "4", "merge-engine": engine}
    if engine == "aggregation":
        options["fields.v.aggregate-function"] = "sum"
    table = catalog.create_table(f"{DATABASE}.turns", fields, ["pt"], ["k"], options)
    name, state = table.name, {}

    def ours(rows: list[Row]) -> None:
        nonlocal state
        columns = [list(column) for column in zip(*rows, strict=True)]
        handle: Table = table.refresh()
        handle.write_arrow(pa.table(columns, schema=arrow_schema(table.schema.fields)))
        state = merged(state, engine, rows)

    def theirs(rows: list[Row]) -> None:
        nonlocal state
        flink.sql(f"INSERT INTO {name} VALUES " + ", ".join(f"({k}, {v}, '{part}')" for k, v, part in rows))
        state = merged(state, engine, rows)

    def agree() -> None:
        handle = table.refresh()
        expected = canonical([(key, value, part) for key, (value, part) in state.items()])
        assert canonical(arrow_rows(handle.to_arrow(), handle.schema.fields)) == expected
        assert read_by_flink(flink, [handle])[name] == expected
        assert listing(flink, [name])[name] == listed_here(handle)
        snapshot = handle.latest_snapshot()
        assert snapshot is not None and snapshot.index_manifest is None, "this mode has no hash index files"

    def rows(start: int, stop: int, value: int, parts: str) -> list[Row]:
        return [(key, value + key, parts[key % len(parts)]) for key in range(start, stop)]

    ours(rows(0, 12, 100, "ab"))
    agree()
    theirs(rows(6, 20, 200, "bc"))
    agree()
    ours(rows(0, 24, 300, "c"))
    agree()
    theirs(rows(10, 30, 400, "ad"))
    agree()
    if engine == "deduplicate":
        flink.sql(f"DELETE FROM {name} WHERE k IN (1, 21)")
        table.refresh().delete("k in (2, 22)")
        state = {key: row for key, row in state.items() if key not in (1, 2, 21, 22)}
        agree()
        ours([(1, 1, "z"), (2, 1, "z")])
        theirs([(21, 1, "y"), (22, 1, "y"), (1, 2, "y")])
        agree()
        flink.sql(f"ALTER TABLE {name} DROP PARTITION (pt = 'd')")
        state = {key: row for key, row in state.items() if row[1] != "d"}
        ours(rows(0, 30, 500, "abc"))
        agree()
