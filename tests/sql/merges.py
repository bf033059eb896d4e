"""Tables and sources that tests of MERGE share."""

from __future__ import annotations

from bucketlake.spark.session import Lake

Row = tuple[object, ...]
KINDS = {
    "keyed": "'primary-key' = 'a', 'bucket' = '2'",
    "append": "'bucket' = '-1'",
    "dynamic": "'primary-key' = 'a', 'bucket' = '-1'",
    "marked": "'deletion-vectors.enabled' = 'true'",
    "postpone": "'primary-key' = 'a', 'bucket' = '-2'",
    "bucketed": "'bucket' = '2', 'bucket-key' = 'a'",
    "keyed marked": "'primary-key' = 'a', 'bucket' = '1', 'deletion-vectors.enabled' = 'true'",
}
TWO = [(1, 10, "c1"), (2, 20, "c2")]
FIVE = [(1, 10, "c1"), (2, 20, "c2"), (3, 30, "c3"), (4, 40, "c4"), (5, 50, "c5")]
CHANGES = [(1, 100, "c11"), (3, 300, "c33")]
NINE = [(1, 100, "c11"), (3, 300, "c33"), (5, 500, "c55"), (7, 700, "c77"), (9, 900, "c99")]
ALL_CLAUSES = """
    WHEN MATCHED AND t.a = 5 THEN UPDATE SET b = source.b + t.b
    WHEN MATCHED AND source.c > 'c2' THEN UPDATE SET *
    WHEN MATCHED THEN DELETE
    WHEN NOT MATCHED AND c > 'c9' THEN INSERT (a, b, c) VALUES (a, b * 1.1, c)
    WHEN NOT MATCHED THEN INSERT *
    WHEN NOT MATCHED BY SOURCE AND a = 2 THEN UPDATE SET b = b * 10
    WHEN NOT MATCHED BY SOURCE THEN DELETE
    """
AFTER_ALL: list[Row] = [(2, 200, "c2"), (3, 300, "c33"), (5, 550, "c5"), (7, 700, "c77"), (9, 990, "c99")]


def content(lake: Lake, table: str = "db.t") -> list[Row]:
    return sorted((tuple(row) for row in lake.sql(f"SELECT * FROM {table}").collect()), key=repr)


def made(
    lake: Lake, kind: str, rows: list[Row] | None = None, columns: str = "a INT, b INT, c STRING", name: str = "db.t"
) -> None:
    lake.sql(f"CREATE TABLE {name} ({columns}) TBLPROPERTIES ({KINDS[kind]})")
    if rows:
        lake.table(name).write(lake.spark.createDataFrame(rows, lake.table(name).read().schema))


def view(lake: Lake, rows: list[Row], columns: str = "a int, b int, c string", name: str = "source") -> None:
    lake.spark.createDataFrame(rows, columns).createOrReplaceTempView(name)
