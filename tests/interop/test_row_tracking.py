"""Rows with ids: Apache Paimon reads those given out here, gives out more, compacts, and is read here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon
from tests.peers.python_peers import PyPaimon
from tests.profile import later

import bucketlake
from bucketlake.errors import UnsupportedError
from bucketlake.schema.change import AddColumn
from bucketlake.table import Table
from bucketlake.types.model import INT

pytestmark = pytest.mark.peer

SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string())])
COLUMNS = ["id", "v", "_ROW_ID", "_SEQUENCE_NUMBER"]


def put(table: Table, *ids: int) -> None:
    table.refresh().write_arrow(pa.table({"id": ids, "v": ["o"] * len(ids)}, SCHEMA))


@pytest.mark.parametrize("format", later(["parquet", "orc"], 1))
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


def test_columns_in_several_files(flink: FlinkPaimon, tmp_path: Path) -> None:
    """Paimon writes columns of rows anew, adds one, and compacts: the rows are the same here."""
    flink.use(tmp_path)
    made = "'row-tracking.enabled'='true','data-evolution.enabled'='true','compaction.min.file-num'='2'"
    flink.sql(f"CREATE TABLE e (id INT, b INT, c STRING, p INT) PARTITIONED BY (p) WITH ({made})")
    flink.sql("CREATE TABLE s (id INT, v INT)")
    flink.sql("INSERT INTO e VALUES (1, 1, 'x', 1), (2, 2, 'y', 1), (3, 3, 'z', 2)")
    flink.sql("INSERT INTO e VALUES (4, 4, 'w', 1)")
    flink.sql("INSERT INTO s VALUES (1, 10), (3, 30)")
    merge = "CALL sys.data_evolution_merge_into('default.e', '', '', 's', 's.id=e.id', '{}', 1)"
    flink.sql(merge.format("b=s.v"))
    flink.sql("ALTER TABLE e ADD d INT")
    flink.sql(merge.format("d=s.v"))
    catalog = bucketlake.open(tmp_path)
    table = catalog.table("e")

    def same() -> list[tuple[object, ...]]:
        columns = ["id", "b", "c", "p", "d", "_ROW_ID", "_SEQUENCE_NUMBER"]
        theirs = flink.sql(f"SELECT {', '.join(columns)} FROM `e$row_tracking`").rows
        ours = catalog.table("e$row_tracking").to_arrow(columns=columns).to_pylist()
        assert sorted(theirs) == sorted(tuple(row.values()) for row in ours)
        return sorted(theirs)

    found = same()
    assert [row[:5] for row in found] == [
        (1, 10, "x", 1, 10),
        (2, 2, "y", 1, None),
        (3, 30, "z", 2, 30),
        (4, 4, "w", 1, None),
    ]
    assert table.to_arrow(where="b = 30", columns=["id"]).to_pylist() == [{"id": 3}]
    assert table.to_arrow(where="b = 1", columns=["id"]).num_rows == 0
    assert table.to_arrow(columns=["p"]).num_rows == 4
    with pytest.raises(UnsupportedError, match="DeletionVector enabled"):
        table.delete("id = 1")
    with pytest.raises(UnsupportedError, match="data-evolution"):
        table.to_arrow(incremental_between="1,2").num_rows
    assert not table.fsck(level="rows").findings
    flink.sql("CALL sys.compact(`table` => 'default.e')")
    table.refresh()
    assert [row[:6] for row in same()] == [row[:6] for row in found]


EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "compaction.min.file-num": "2"}


@pytest.mark.slow
def test_columns_in_several_files_in_turns(flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path) -> None:
    """Columns written here, by Paimon on Flink and by pypaimon, one beside the other, with deleted rows, a column that
    is new, and compactions of both: all see the same rows."""
    flink.use(tmp_path)
    pypaimon.use(tmp_path)
    catalog = bucketlake.open(tmp_path)
    schema = pa.schema([("id", pa.int32()), ("b", pa.int32()), ("c", pa.string())])
    table = catalog.create_table("e", schema, options={**EVOLVING, "deletion-vectors.enabled": "true"})
    columns = ["id", "b", "c", "_ROW_ID", "_SEQUENCE_NUMBER"]

    def same() -> list[tuple[object, ...]]:
        found = catalog.table("e").to_arrow(columns=["id", "b", "c"]).to_pylist()
        theirs = flink.sql("SELECT id, b, c FROM e").rows
        assert sorted(map(str, theirs)) == sorted(str(tuple(row.values())) for row in found)
        python = pypaimon.read("default", "e", columns=["id", "b", "c"]).to_pylist()
        assert sorted(map(str, python)) == sorted(map(str, found))
        ours = sorted(
            tuple(row.values()) for row in catalog.table("e$row_tracking").to_arrow(columns=columns).to_pylist()
        )
        assert sorted(flink.sql(f"SELECT {', '.join(columns)} FROM `e$row_tracking`").rows) == ours
        return ours

    def insert(*ids: int) -> None:
        rows = {"id": ids, "b": ids, "c": ["o"] * len(ids)}
        catalog.table("e").write_arrow(pa.table(rows, schema))

    insert(1, 2, 3)
    insert(4, 5)
    table.refresh().update({"b": 20}, "id = 2 OR id = 5")
    table.refresh().update({"c": "x", "b": 30}, "id = 3")
    assert same() == [(1, 1, "o", 0, 4), (2, 20, "o", 1, 4), (3, 30, "x", 2, 4), (4, 4, "o", 3, 3), (5, 20, "o", 4, 3)]
    table.refresh().delete("id = 1")
    same()
    flink.sql("CREATE TABLE s (id INT, v INT)")
    flink.sql("INSERT INTO s VALUES (2, 200), (4, 400)")
    flink.sql("CALL sys.data_evolution_merge_into('default.e', '', '', 's', 's.id=e.id', 'b=s.v', 1)")
    ids = pa.table({"c": ["p", "p"], "_ROW_ID": pa.array([2, 4], pa.int64())})
    pypaimon.update_by_ids("default", "e", ids)
    table.refresh().update({"c": "y"}, "b = 400")
    expected = [(2, 200, "o", 1), (3, 30, "p", 2), (4, 400, "y", 3), (5, 20, "p", 4)]
    assert [row[:4] for row in same()] == expected
    assert table.refresh().compact() is not None
    assert [row[:4] for row in same()] == expected
    insert(6)
    catalog.alter_table("e", AddColumn("d", INT))
    table = catalog.table("e")
    table.update({"d": 1}, "id > 4")
    table.update({"b": 0}, "id = 6")
    flink.sql("CALL sys.compact(`table` => 'default.e')")
    assert [row[:4] for row in same()] == [*expected, (6, 0, "o", 5)]
    found = catalog.table("e").to_arrow(columns=["id", "d"]).sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(2, None), (3, None), (4, None), (5, 1), (6, 1)]
    assert sorted(flink.sql("SELECT id, d FROM e WHERE d = 1").rows) == [(5, 1), (6, 1)]
    table.refresh().update({"b": 7}, "id = 2")
    table.refresh().delete("id = 3")
    assert [row[:4] for row in same()] == [(2, 7, "o", 1), (4, 400, "y", 3), (5, 20, "p", 4), (6, 0, "o", 5)]
    assert not table.refresh().fsck(level="rows").findings
