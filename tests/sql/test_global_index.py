"""CALL sys.create_global_index and sys.drop_global_index, and what statements make of such indexes."""

from __future__ import annotations

from typing import Any

import pytest

from bucketlake.errors import UnsupportedError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

CALL = "table => 't', index_column => 'name', index_type => 'btree'"
RANGES = "SELECT row_range_start, row_range_end FROM `t$table_indexes` WHERE index_field_name = 'name' ORDER BY 1"


def rows(lake: Lake, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(statement).collect()]


def test_an_index_is_built_asked_and_dropped(lake: Lake) -> None:
    """As upstream's DropGlobalIndexProcedureTest, and what follows from it."""
    lake.sql(
        "CREATE TABLE t (id INT, name STRING, pt STRING) PARTITIONED BY (pt) "
        "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')"
    )
    for pt, count in (("p0", 65), ("p1", 35), ("p0", 22), ("p2", 10)):
        lake.sql(
            f"INSERT INTO t SELECT /*+ REPARTITION(1) */ CAST(id AS INT), concat('name_', id), '{pt}' FROM range({count})"
        )
    assert rows(lake, f"CALL sys.create_global_index({CALL})") == [(True,)]
    assert rows(lake, RANGES) == [(0, 64), (65, 99), (100, 121), (122, 131)]
    query = "SELECT id, pt FROM t WHERE name = 'name_30' ORDER BY pt"
    assert rows(lake, query) == [(30, "p0"), (30, "p1")]
    assert "files: 2 of 4" in lake.sql(f"EXPLAIN {query}").collect()[0][0]
    with pytest.raises(UnsupportedError, match="globally indexed"):
        lake.sql("UPDATE t SET name = upper(name) WHERE pt = 'p1' AND id = 1")
    drop = f"CALL sys.drop_global_index({CALL}, partitions => 'pt=\"p1\"'"
    assert rows(lake, f"{drop}, dry_run => true)") == [(True, 1)]
    assert rows(lake, f"{drop})") == [(True, 1)]
    assert rows(lake, RANGES) == [(0, 64), (100, 121), (122, 131)]
    lake.sql("UPDATE t SET name = upper(name) WHERE pt = 'p1' AND id = 1")
    lake.sql("ALTER TABLE t SET TBLPROPERTIES ('global-index.column-update-action' = 'DROP_PARTITION_INDEX')")
    lake.sql(
        "MERGE INTO t USING (SELECT 9 AS id) AS s ON t.id = s.id AND t.pt = 'p2' "
        "WHEN MATCHED THEN UPDATE SET name = 'nine'"
    )
    assert rows(lake, RANGES) == [(0, 64), (100, 121)]
    found = rows(lake, "SELECT name, pt FROM t WHERE name IN ('NAME_1', 'nine', 'name_64') ORDER BY pt")
    assert found == [("name_64", "p0"), ("NAME_1", "p1"), ("nine", "p2")]
    with pytest.raises(UnsupportedError, match="'full-text'"):
        lake.sql("CALL sys.create_global_index(table => 't', index_column => 'name', index_type => 'full-text')")


def test_ranges_prefixes_and_bitmaps(classic: Lake) -> None:
    classic.sql(
        "CREATE TABLE t (id INT, name STRING, price DECIMAL(30, 2)) "
        "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')"
    )
    for first in range(3):
        classic.sql(
            f"INSERT INTO t SELECT /*+ REPARTITION(1) */ CAST(id * 3 + {first} AS INT), concat('n', id * 3 + {first}), "
            f"CAST((id * 3 + {first}) AS DECIMAL(20, 0)) * CAST('10000000000' AS DECIMAL(11, 0)) FROM range(300)"
        )
    for column, kind in (("id", "btree"), ("name", "bitmap"), ("price", "btree"), ("price", "bitmap")):
        classic.sql(f"CALL sys.create_global_index(table => 't', index_column => '{column}', index_type => '{kind}')")
    assert rows(classic, "SELECT DISTINCT index_type FROM `t$table_indexes` ORDER BY 1") == [("bitmap",), ("btree",)]
    for where, count, read in (
        ("id BETWEEN 100 AND 101", 2, 2),
        ("id > 100 AND id < 102", 1, 1),
        ("name LIKE 'n77_' AND id = 779", 1, 1),
        ("name LIKE 'n12%' AND name < 'n121'", 2, 1),
        ("name > 'n98' AND name < 'n990'", 1, 1),
        ("price > 1000000000000.00 AND price <= 1010000000000.00", 1, 1),
        ("id <> 5", 899, 3),
    ):
        query = f"SELECT count(*) FROM t WHERE {where}"
        assert rows(classic, query) == [(count,)], where
        assert f"files: {read} of 3" in classic.sql(f"EXPLAIN SELECT * FROM t WHERE {where}").collect()[0][0], where


def test_indexes_of_many_rows_are_built_by_tasks(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketlake.spark.maintain.jobs.DRIVER_BYTES", -1)
    classic.sql(
        "CREATE TABLE t (id INT, name STRING) "
        "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')"
    )
    for first in range(3):
        classic.sql(f"INSERT INTO t SELECT CAST(id * 3 + {first} AS INT), concat('n', id % 50) FROM range(500)")
    options = "options => 'sorted-index.records-per-range=400'"
    assert rows(classic, f"CALL sys.create_global_index({CALL}, {options})") == [(True,)]
    assert len(rows(classic, RANGES)) > 2 and rows(classic, "SELECT count(*) FROM t WHERE name = 'n7'") == [(30,)]
    assert rows(classic, "SELECT count(*) FROM t WHERE name = 'n77'") == [(0,)]
    assert not classic.table("t").fsck("rows").findings
