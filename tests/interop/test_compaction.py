"""Tables compacted by Bucketlake and by Apache Paimon in turns: both read the same rows, and Paimon reads our changelogs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon
from tests.profile import SOAK, first, later

import bucketlake
from bucketlake.ops.scan.scan import live_entries
from bucketlake.table import Table

pytestmark = pytest.mark.peer

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64()), pa.field("s", pa.string())])
MODES: dict[str, dict[str, str]] = {
    "plain": {},
    "lookup": {"changelog-producer": "lookup"},
    "full": {"changelog-producer": "full-compaction"},
    "input": {"changelog-producer": "input"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors64": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
    "both": {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    "first": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "sum": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "changelog-producer": "lookup"},
    "sumdv": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "deletion-vectors.enabled": "true"},
    "partial": {"merge-engine": "partial-update", "changelog-producer": "lookup"},
}
# Those first that have rules of their own for files; test_engines_in_turns.py has every engine.
ORDER = ("plain", "input", "vectors64", "both", "first", "full", "sum", "vectors", "lookup", "sumdv", "partial")
COMMON = {
    "bucket": "2",
    "num-sorted-run.compaction-trigger": "3",
    "compaction.max-size-amplification-percent": "100000",
}


def put(table: Table, rows: list[tuple[int, int | None, str | None]]) -> None:
    columns = [pa.array(column, f.type) for column, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    table.write_arrow(pa.table(columns, schema=SCHEMA))


def ours(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.refresh().to_arrow().to_pylist())


def replayed(flink: FlinkPaimon, table: Table, name: str) -> list[tuple[Any, ...]]:
    """Paimon's changelog of all snapshots, applied in order to a dict."""
    newest = table.latest_snapshot()
    assert newest is not None
    state: dict[int, tuple[Any, ...]] = {}
    for snapshot in range(1, newest.id + 1):
        options = f"'incremental-between'='{snapshot - 1},{snapshot}','incremental-between-scan-mode'='changelog'"
        found = flink.sql(f"SELECT rowkind, k, v, s FROM `{name}$audit_log` /*+ OPTIONS({options}) */")
        for kind, *row in found.rows:
            if kind in ("+I", "+U"):
                state[row[0]] = tuple(row)
            elif kind == "-D":
                assert state.pop(row[0]) == tuple(row)
            else:
                assert state[row[0]] == tuple(row)
    return sorted(state.values())


@pytest.mark.parametrize("mode", later(first(ORDER, 3), 1))
def test_compacted_in_turns(flink: FlinkPaimon, tmp_path_factory: pytest.TempPathFactory, mode: str) -> None:
    catalog = bucketlake.open(tmp_path_factory.mktemp("turns"))
    flink.use(catalog.warehouse)
    table = catalog.create_table(f"default.{mode}", SCHEMA, primary_keys=["k"], options={**COMMON, **MODES[mode]})
    deletes = "merge-engine" not in MODES[mode]
    put(table, [(k, k, f"row {k:05d}") for k in range(400)])
    for turn in range(4 if SOAK else 2):
        put(table, [(k, 1000 + turn, None) for k in range(turn * 7, 400, 61)])
        if deletes:
            table.delete(f"k >= {turn * 10} and k < {turn * 10 + 3}")
        theirs = sorted(flink.sql(f"SELECT k, v, s FROM `{mode}`").rows)
        assert theirs == ours(table), f"turn {turn}: written by us"
        values = ", ".join(f"(CAST({k} AS BIGINT), CAST({2000 + turn} AS BIGINT), 'x')" for k in range(turn, 420, 83))
        flink.sql(f"INSERT INTO `{mode}` VALUES {values}")
        theirs = sorted(flink.sql(f"SELECT k, v, s FROM `{mode}`").rows)
        assert theirs == ours(table), f"turn {turn}: written by Flink"
    if MODES[mode].get("changelog-producer") in ("lookup", "full-compaction"):
        assert replayed(flink, table, mode) == ours(table)
    table.compact()
    theirs = sorted(flink.sql(f"SELECT k, v, s FROM `{mode}`").rows)
    assert theirs == ours(table)
    flink.sql(f"CALL sys.compact(`table` => 'default.{mode}')")
    newest = table.latest_snapshot()
    assert newest is not None
    assert {entry.file.level for entry in live_entries(table.store, newest)} == {3}
