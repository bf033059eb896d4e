"""Apache Paimon reads what was put in order here, clusters it further, and is clustered further here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon

import bucketlake
from bucketlake.table import Table

pytestmark = pytest.mark.peer

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("c", pa.string())])
OPTIONS = {
    "deletion-vectors.enabled": "true",
    "num-levels": "6",
    "num-sorted-run.compaction-trigger": "2",
    "clustering.columns": "a,b",
    "clustering.incremental": "true",
}


def put(made: Table, first: int) -> None:
    numbers = range(first, first + 40)
    columns = [[(n * 7) % 40 for n in numbers], [(n * 3) % 17 for n in numbers], [f"text {n}" for n in numbers]]
    made.write_arrow(pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA))


@pytest.mark.slow
def test_clustered_in_turns(flink: FlinkPaimon, tmp_path: Path) -> None:
    flink.use(tmp_path)
    catalog = bucketlake.open(tmp_path)
    ordered = catalog.create_table("ordered", SCHEMA, [], [], {"deletion-vectors.enabled": "true"})
    made = catalog.create_table("t", SCHEMA, [], [], OPTIONS)
    for table in (ordered, made):
        for first in (0, 40, 80):
            put(table, first)
        table.delete("c = 'text 7'")
    ordered.compact(order_by="a,b", order_strategy="hilbert")
    made.compact(full=True)
    count = "SELECT COUNT(*), SUM(a), SUM(b), COUNT(DISTINCT c) FROM "
    expected = [(119, sum((n * 7) % 40 for n in range(120)) - 9, sum((n * 3) % 17 for n in range(120)) - 4, 119)]
    assert flink.sql(count + "ordered").rows == expected == flink.sql(count + "t").rows
    assert flink.sql("SELECT level, record_count FROM `t$files`").rows == [(5, 119)]
    for first in (120, 160):
        put(made, first)
    made.delete("c = 'text 121' OR c = 'text 1'")
    flink.sql("CALL sys.compact(`table` => 'default.t', `compact_strategy` => 'full')")
    assert {entry.file.level for entry in made.plan().entries} == {5}
    texts = made.to_arrow()["c"].to_pylist()
    assert sorted(texts) == sorted(f"text {n}" for n in range(200) if n not in (1, 7, 121))
    put(made, 200)
    put(made, 240)
    made.compact(full=True)
    assert flink.sql("SELECT COUNT(*), COUNT(DISTINCT c) FROM t").rows == [(277, 277)]
