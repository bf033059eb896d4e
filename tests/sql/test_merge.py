"""MERGE INTO, as Paimon's connector has it: what becomes of which rows, on tables of every kind."""

from __future__ import annotations

import pytest

from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

Row = tuple[object, ...]
KINDS = {
    "keyed": "'primary-key' = 'a', 'bucket' = '2'",
    "dynamic": "'primary-key' = 'a', 'bucket' = '-1'",
    "postpone": "'primary-key' = 'a', 'bucket' = '-2'",
    "append": "'bucket' = '-1'",
    "bucketed": "'bucket' = '2', 'bucket-key' = 'a'",
    "marked": "'deletion-vectors.enabled' = 'true'",
}
FIVE = "(1, 10, 'c1'), (2, 20, 'c2'), (3, 30, 'c3'), (4, 40, 'c4'), (5, 50, 'c5')"


def content(lake: Lake, table: str = "db.t") -> list[Row]:
    return sorted((tuple(row) for row in lake.sql(f"SELECT * FROM {table}").collect()), key=repr)


def made(lake: Lake, kind: str, rows: str = FIVE, columns: str = "a INT, b INT, c STRING", name: str = "db.t") -> None:
    lake.sql(f"CREATE TABLE {name} ({columns}) TBLPROPERTIES ({KINDS[kind]})")
    if rows:
        lake.sql(f"INSERT INTO {name} VALUES {rows}")


def source(lake: Lake, rows: list[Row], columns: str = "a int, b int, c string", name: str = "source") -> None:
    lake.spark.createDataFrame(rows, columns).createOrReplaceTempView(name)


@pytest.mark.parametrize("kind", KINDS)
def test_clauses_apply_in_order(classic: Lake, kind: str) -> None:
    made(classic, kind)
    source(classic, [(1, 100, "c11"), (3, 300, "c33"), (5, 500, "c55"), (7, 700, "c77"), (9, 900, "c99")])
    classic.sql(
        """
        MERGE INTO db.t
        USING source
        ON t.a = source.a
        WHEN MATCHED AND t.a = 5 THEN UPDATE SET b = source.b + t.b
        WHEN MATCHED AND source.c > 'c2' THEN UPDATE SET *
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND c > 'c9' THEN INSERT (a, b, c) VALUES (a, b * 1.1, c)
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND a = 2 THEN UPDATE SET b = b * 10
        WHEN NOT MATCHED BY SOURCE THEN DELETE
        """
    )
    assert content(classic) == [(2, 200, "c2"), (3, 300, "c33"), (5, 550, "c5"), (7, 700, "c77"), (9, 990, "c99")]
    newest = classic.table("db.t").latest_snapshot()
    assert newest is not None and newest.operation == "MERGE"
