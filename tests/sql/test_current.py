"""`current_database()` and its like say where `USE` has gone in the lake, under the names that Spark gives such columns."""

from __future__ import annotations

import pytest

import bucketlake
from bucketlake import InvalidError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
SPARKS = ("SELECT current_catalog(), current_database()", [("spark_catalog", "default")])


def test_they_say_what_use_has_said(lake: Lake) -> None:
    lake.sql("CREATE DATABASE IF NOT EXISTS f")
    lake.sql("USE f")
    frame = lake.sql("SELECT current_catalog(), current_schema( ), CURRENT_DATABASE() db, upper(current_database())")
    assert frame.columns[:3] == ["current_catalog()", "current_schema()", "db"]
    assert [tuple(row) for row in frame.collect()] == [("paimon", "f", "f", "F")]
    both = "SELECT DISTINCT current_database() FROM range(3) UNION ALL (SELECT concat('x', current_database()))"
    assert sorted(row[0] for row in lake.sql(both).collect()) == ["f", "xf"]
    grouped = "SELECT count(*), current_database() FROM range(3) GROUP BY 2 HAVING max(current_database()) = 'f'"
    assert [tuple(row) for row in lake.sql(grouped).collect()] == [(3, "f")]
    assert lake.sql("SELECT 'f' AS s GROUP BY 'a', current_database()").collect()[0][0] == "f"
    if not lake.spark.version.startswith("4.1."):  # which knows no function by its whole name
        own = lake.sql("SELECT builtin.current_database() AS s").collect()[0][0]
        assert own == lake.spark.catalog.currentDatabase()  # so said it is Spark's
    assert lake.sql("SELECT 'current_database()'").collect()[0][0] == "current_database()"


def test_statements_that_change_rows_have_them(lake: Lake) -> None:
    lake.sql("CREATE DATABASE IF NOT EXISTS f")
    lake.sql("USE f")
    lake.sql("CREATE TABLE t (id INT, s STRING)")
    lake.sql("INSERT INTO t SELECT 1, current_database()")
    lake.sql("INSERT INTO t VALUES (2, current_catalog()), (3, 'x')")
    lake.sql("UPDATE t SET s = concat(current_database(), '!') WHERE s = 'x'")
    lake.sql("DELETE FROM t WHERE s = current_catalog()")
    source = "(SELECT 1 AS id, current_database() AS s) AS n"
    lake.sql(
        f"MERGE INTO t USING {source} ON t.id = n.id AND t.s = current_database() WHEN MATCHED THEN UPDATE SET "
        "s = concat(n.s, current_catalog())"
    )
    assert sorted(tuple(row) for row in lake.sql("SELECT * FROM t").collect()) == [(1, "fpaimon"), (3, "f!")]


def test_behind_use_spark_catalog_they_are_sparks(classic: Lake) -> None:
    classic.sql("USE spark_catalog")
    try:
        assert [tuple(row) for row in classic.sql(SPARKS[0]).collect()] == SPARKS[1]
    finally:
        classic.sql("USE paimon")


def test_attached_sessions_ask_spark(classic: Lake) -> None:
    bucketlake.attach(classic.spark, classic.catalog.warehouse)
    try:
        assert [tuple(row) for row in classic.spark.sql(SPARKS[0]).collect()] == SPARKS[1]
    finally:
        bucketlake.detach(classic.spark)


def test_a_lake_begins_in_the_database_of_its_catalogs_option(lake: Lake) -> None:
    place = lake.catalog.warehouse
    for option in ("defaultDatabase", "default-database"):
        other = bucketlake.connect(place, spark=lake.spark, options={option: "sales"})
        assert other.sql("SHOW CURRENT NAMESPACE").collect()[0]["namespace"] == "sales"
        other.sql("CREATE TABLE IF NOT EXISTS t (id INT)")
        other.sql("USE default")
        other.sql("USE paimon")
        assert other.sql("SELECT current_database()").collect()[0][0] == "sales", "USE of the catalog alone"
    assert lake.tables("sales") == ["sales.t"]
    assert lake.current_database == "default"
    both = bucketlake.connect(place, spark=lake.spark, default_database="default", defaultDatabase="sales")
    assert both.current_database == "sales"
    for name in ("", "a/b", "sys"):
        with pytest.raises(InvalidError):
            bucketlake.connect(place, spark=lake.spark, defaultDatabase=name)
    attached = bucketlake.attach(lake.spark, place, defaultDatabase="sales")
    try:
        assert attached.spark.catalog.currentDatabase() == "sales"
        assert attached.spark.table("t").count() == 0
    finally:
        bucketlake.detach(lake.spark)
