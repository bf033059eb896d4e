"""Names of columns that differ in case alone, and names asked for in another case."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import ParseException
from tests.sql.sessions import session

from bucketlake.errors import AlreadyExistsError, InvalidError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(text).collect()), key=str)


def test_partition_columns_that_differ_only_in_case(classic: Lake) -> None:
    """The clause (p = 5) meant the column P."""
    classic.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        classic.sql("CREATE TABLE db.t (id INT) PARTITIONED BY (p INT, P STRING)")
        classic.sql("INSERT INTO db.t VALUES (1, 1, '2'), (2, 2, '1')")
        classic.sql("INSERT INTO db.t PARTITION (p = 5) SELECT 3, 'w'")
        classic.sql("INSERT OVERWRITE db.t PARTITION (P = '1', p = 2) SELECT 4")
        assert rows(classic, "SELECT * FROM db.t") == [(1, 1, "2"), (3, 5, "w"), (4, 2, "1")]
        assert rows(classic, "SHOW PARTITIONS db.t PARTITION (p = 2)") == [("p=2/P=1",)]
        classic.sql("TRUNCATE TABLE db.t PARTITION (p = 1)")
        classic.sql("ALTER TABLE db.t DROP PARTITION (p = 5, P = 'w')")
        assert rows(classic, "SELECT id FROM db.t") == [(4,)]
    finally:
        classic.spark.conf.unset("spark.sql.caseSensitive")
    classic.sql("CREATE TABLE db.u (id INT) PARTITIONED BY (p INT)")
    for statement in (
        "INSERT INTO db.u PARTITION (p = 1, P = 2) SELECT 3",
        "SHOW PARTITIONS db.u PARTITION (p = 1, P = 2)",
    ):
        with pytest.raises(ParseException, match="partition column p is given twice"):
            classic.sql(statement)


def test_partition_columns_in_any_case(classic: Lake) -> None:
    """Spark finds them so, in statements and of DataFrames; with `spark.sql.caseSensitive` it does not."""
    classic.sql("USE db")
    classic.sql("CREATE TABLE a (k INT, p STRING) PARTITIONED BY (P)")
    classic.sql("CREATE TABLE b PARTITIONED BY (`P`) AS SELECT 1 AS k, 'x' AS p")
    classic.write_table(classic.sql("SELECT 1 AS k, 'x' AS p"), "c", partition_by="P")
    classic.sql("CREATE OR REPLACE TABLE a PARTITIONED BY (P) AS SELECT 1 AS k, 'x' AS p")
    assert [classic.table(name).schema.partition_keys for name in "abc"] == [("p",)] * 3
    with pytest.raises(InvalidError, match="duplicate"):
        classic.sql("CREATE TABLE d (k INT, p STRING) PARTITIONED BY (p, P)")
    with session(classic, {"spark.sql.caseSensitive": "true"}), pytest.raises(InvalidError, match="find column P"):
        classic.sql("CREATE TABLE d (k INT, p STRING) PARTITIONED BY (P)")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE u (k INT, K INT)",
        "CREATE TABLE u (k INT, s STRUCT<a: INT, b: ARRAY<STRUCT<c: INT, C: INT>>>)",
        "CREATE TABLE u AS SELECT 1 AS k, 2 AS K",
        "CREATE OR REPLACE TABLE t AS SELECT 1 AS k, 2 AS K",
        "ALTER TABLE t RENAME COLUMN v TO K",
        "ALTER TABLE t RENAME COLUMN s.b TO A",
        "ALTER TABLE t ADD COLUMNS (w INT, W INT)",
        "ALTER TABLE t ADD COLUMNS (w STRUCT<c: INT, C: INT>)",
        "ALTER TABLE t ADD COLUMN s.A INT",
    ],
)
def test_columns_that_no_statement_could_tell_apart(classic: Lake, text: str) -> None:
    """As Spark refuses them: every later mention of such a column would be ambiguous."""
    classic.sql("USE db")
    classic.sql("CREATE TABLE t (k INT, v STRING, s STRUCT<a: INT, b: INT>)")
    before = classic.table("t").schema
    with pytest.raises((InvalidError, AlreadyExistsError), match="COLUMN_ALREADY_EXISTS|column exists"):
        classic.sql(text)
    assert (classic.table("t").schema, classic.tables()) == (before, ["db.t"])
    classic.sql("ALTER TABLE t RENAME COLUMN k TO K")
    with session(classic, {"spark.sql.caseSensitive": "true"}):
        classic.sql("ALTER TABLE t RENAME COLUMN v TO k")
        classic.sql("CREATE TABLE copied LIKE t")
    assert classic.table("copied").schema.field_names == ("K", "k", "s")
    classic.sql("CREATE TABLE again LIKE copied")
