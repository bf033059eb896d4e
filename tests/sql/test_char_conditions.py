"""What is compared with a CHAR column is padded, as Spark has it, in every statement that looks at rows or partitions."""

from __future__ import annotations

import pytest

from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

KINDS = {
    "append": "'bucket' = '-1'",
    "vectors": "'bucket' = '-1', 'deletion-vectors.enabled' = 'true'",
    "columns": "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', 'deletion-vectors.enabled' = 'true'",
    "keyed": "'bucket' = '1', 'primary-key' = 'v'",
}
STATEMENTS = [
    "DELETE FROM db.t WHERE c = '2'",
    "DELETE FROM db.t WHERE c = concat('2', '') OR length(w) = 9",
    "UPDATE db.t SET w = 'new' WHERE c IN ('2') AND length(w) = 1",
    "MERGE INTO db.t t USING one s ON t.v = s.v AND t.c = '2' WHEN MATCHED THEN UPDATE SET w = 'new'",
    "MERGE INTO db.t t USING one s ON t.v = s.v WHEN MATCHED AND t.c = concat('2', '') THEN DELETE",
    "MERGE INTO db.t t USING one s ON t.v = -s.v WHEN NOT MATCHED BY SOURCE AND t.c = '2' THEN UPDATE SET w = 'new'",
]


@pytest.mark.parametrize("kind", KINDS)
def test_rows(classic: Lake, kind: str) -> None:
    lake = classic
    lake.sql("CREATE DATABASE IF NOT EXISTS db")
    lake.sql("SELECT 1 v").createOrReplaceTempView("one")
    lake.sql(f"CREATE TABLE db.t (c CHAR(4), v INT NOT NULL, w STRING) TBLPROPERTIES ({KINDS[kind]})")
    for statement in STATEMENTS:
        lake.sql("TRUNCATE TABLE db.t")
        lake.sql("INSERT INTO db.t VALUES ('2', 1, 'a'), ('ab', 2, 'b')")
        lake.sql(statement)
        changed = [] if "DELETE" in statement else [("2   ", 1, "new")]
        found = [tuple(row) for row in lake.sql("SELECT * FROM db.t ORDER BY v").collect()]
        assert found == [*changed, ("ab  ", 2, "b")], statement


def test_partitions(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE DATABASE IF NOT EXISTS db")
    lake.sql("CREATE TABLE db.t (v INT, p CHAR(4)) PARTITIONED BY (p)")
    for statement in (
        "DELETE FROM db.t WHERE p = '2'",
        "DELETE FROM db.t WHERE p = concat('2', '')",
        "ALTER TABLE db.t DROP PARTITION (p = '2')",
    ):
        lake.sql("TRUNCATE TABLE db.t")
        lake.sql("INSERT INTO db.t VALUES (1, '2'), (2, 'ab')")
        assert lake.sql("SELECT v, __paimon_bucket b FROM db.t WHERE p = '2'").collect() == [(1, 0)]
        lake.sql(statement)
        assert [tuple(row) for row in lake.sql("SELECT * FROM db.t").collect()] == [(2, "ab  ")], statement
