"""Rows with ids: Apache Paimon reads those given out here, gives out more, compacts, and is read here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon

import bucketlake
from bucketlake.table import Table

pytestmark = pytest.mark.peer

SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string())])
COLUMNS = ["id", "v", "_ROW_ID", "_SEQUENCE_NUMBER"]


def put(table: Table, *ids: int) -> None:
    table.refresh().write_arrow(pa.table({"id": ids, "v": ["o"] * len(ids)}, SCHEMA))


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_ids_in_turns(flink: FlinkPaimon, tmp_path: Path, format: str) -> None:
    flink.use(tmp_path)
    catalog = bucketlake.open(tmp_path)
    options = {"row-tracking.enabled": "true", "compaction.min.file-num": "2", "file.format": format}
    table = catalog.create_table("t", SCHEMA, options=options)

    def same() -> list[tuple[object, ...]]:
        theirs = flink.sql(f"SELECT {', '.join(COLUMNS)} FROM `t$row_tracking`").rows
        found = catalog.table("t$row_tracking").to_arrow(columns=COLUMNS).to_pylist()
        assert sorted(theirs) == sorted(tuple(row.values()) for row in found)
        return sorted(theirs)

    put(table, 1, 2, 3)
    flink.sql("INSERT INTO t VALUES (4, 'f'), (5, 'f')")
    table.refresh().update({"v": "x"}, "id in (2, 4)")
    assert same() == [(1, "o", 0, 1), (2, "x", 1, 3), (3, "o", 2, 1), (4, "x", 3, 3), (5, "f", 4, 2)]
    assert flink.sql("SELECT v, COUNT(*) FROM t WHERE id > 1 GROUP BY v ORDER BY v").rows == [
        ("f", 1),
        ("o", 1),
        ("x", 2),
    ]
    flink.sql("CALL sys.compact(`table` => 'default.t')")
    put(table, 6)
    table.refresh().delete("id = 1")
    flink.sql("INSERT INTO t VALUES (7, 'f')")
    before = same()
    assert [row[2] for row in before] == [1, 2, 3, 4, 5, 6]
    assert table.refresh().compact() is not None
    assert same() == before
    assert not table.refresh().fsck(level="rows").findings
