"""INSERT INTO and INSERT OVERWRITE: columns, partitions, assignment, overwriting what is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketlake.errors import InvalidError
from bucketlake.spark.session import Lake


@pytest.fixture
def table(lake: Lake) -> Lake:
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (id INT, v STRING, n BIGINT, dt STRING) PARTITIONED BY (dt)")
    return lake


def rows(lake: Lake, text: str = "SELECT * FROM t") -> set[tuple[object, ...]]:
    return {tuple(row) for row in lake.sql(text).collect()}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO t VALUES (1, 'a', 2, 'x')", (1, "a", 2, "x")),
        ("INSERT INTO TABLE db.t SELECT 1, 'a', 2, 'x'", (1, "a", 2, "x")),
        ("INSERT INTO t (dt, id) VALUES ('x', 1)", (1, None, None, "x")),
        ("INSERT INTO t (v, n, id, dt) SELECT 'a', 2, 1, 'x'", (1, "a", 2, "x")),
        ("INSERT INTO t PARTITION (dt = 'x') VALUES (1, 'a', 2)", (1, "a", 2, "x")),
        ("INSERT INTO t PARTITION (dt = 'x') (id) VALUES (1)", (1, None, None, "x")),
        ("INSERT INTO t PARTITION (dt) VALUES (1, 'a', 2, 'x')", (1, "a", 2, "x")),
        ("INSERT INTO t BY NAME SELECT 'x' AS dt, 1 AS id, 2 AS n, 'a' AS v", (1, "a", 2, "x")),
        ("INSERT INTO t /*+ OPTIONS('file.format'='orc') */ VALUES (1, 'a', 2, 'x')", (1, "a", 2, "x")),
        ("INSERT INTO t WITH c AS (SELECT 1 AS id) SELECT id, 'a', id + 1, 'x' FROM c", (1, "a", 2, "x")),
        ("INSERT INTO t (SELECT 1, 'a', 2, 'x')", (1, "a", 2, "x")),
        ("INSERT INTO t TABLE source", (1, "a", 2, "x")),
        ("INSERT INTO t VALUES (CAST(1 AS BIGINT), 5, 2.0, 'x')", (1, "5", 2, "x")),
        ("INSERT INTO t VALUES (1, NULL, NULL, NULL)", (1, None, None, None)),
    ],
)
def test_forms(table: Lake, statement: str, expected: tuple[object, ...]) -> None:
    if "source" in statement:
        table.spark.sql("SELECT 1 AS id, 'a' AS v, 2L AS n, 'x' AS dt").createOrReplaceTempView("source")
    table.sql(statement)
    assert rows(table) == {expected}


@pytest.mark.spark
def test_options_of_a_hint_and_of_the_session_name_the_files(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT, dt STRING) PARTITIONED BY (dt)")
    key, default = "spark.paimon.data-file.prefix", "__DEFAULT_PARTITION__"
    with pytest.raises(InvalidError, match="the folders that the rows lie in"):
        classic.sql("INSERT INTO db.t /*+ OPTIONS('partition.default-name'='none') */ VALUES (1, NULL)")
    classic.sql("INSERT INTO db.t /*+ OPTIONS('data-file.prefix'='hint-') */ VALUES (1, NULL)")
    classic.spark.conf.set(key, "session-")
    try:
        classic.sql("INSERT INTO db.t VALUES (2, 'a')")
        classic.sql("DELETE FROM db.t /*+ OPTIONS('data-file.prefix'='gone-') */ WHERE id = 3")
    finally:
        classic.spark.conf.unset(key)
    found = [path.relative_to(classic.catalog.table("db.t").path) for path in _data_files(classic)]
    assert {path.parts[0]: path.name.split("-")[0] for path in found} == {"dt=a": "session", f"dt={default}": "hint"}
    assert rows(classic, "SELECT * FROM db.t") == {(1, None), (2, "a")}


def _data_files(lake: Lake) -> list[Path]:
    return sorted(Path(lake.catalog.table("db.t").path).glob("dt=*/bucket-0/*.parquet"))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (1, 'a')",
        "INSERT INTO t VALUES ('one', 'a', 2, 'x')",
        "INSERT INTO t (id, nope) VALUES (1, 2)",
        "INSERT INTO t (id, id) VALUES (1, 2)",
        "INSERT INTO t PARTITION (v = 'a') VALUES (1, 2, 'x')",
        "INSERT INTO t PARTITION (dt = 'x', dt = 'y') VALUES (1, 'a', 2)",
        "INSERT INTO t BY NAME SELECT 1 AS id, 2 AS other",
        "INSERT INTO t VALUES (DATE '2020-01-01', 'a', 2, 'x')",
        "INSERT INTO t",
    ],
)
def test_bad_inserts_write_nothing(table: Lake, statement: str) -> None:
    with pytest.raises(Exception) as caught:
        table.sql(statement)
    assert isinstance(caught.value, InvalidError) or "does not fit its column" in str(caught.value)
    assert table.table("t").snapshots() == []


def test_overflow_fails_whatever_the_sessions_ansi_mode(table: Lake) -> None:
    with pytest.raises(Exception, match="(?i)overflow|does not fit"):
        table.sql("INSERT INTO t VALUES (3000000000, 'a', 2, 'x')")
    assert table.table("t").snapshots() == []


def test_overwrite_static_partition(table: Lake) -> None:
    table.sql("INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y')")
    table.sql("INSERT OVERWRITE t PARTITION (dt = 'x') SELECT 9, 'z', 9")
    assert rows(table) == {(9, "z", 9, "x"), (2, "b", 2, "y")}


def test_overwrite_static_partition_of_every_type(classic: Lake) -> None:
    lake = classic
    values = {
        "TIMESTAMP": "TIMESTAMP '1960-06-01 00:00:00.000001'",
        "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '2020-01-01 12:00:00'",
        "DATE": "DATE '1500-02-28'",
        "DECIMAL(38,10)": "-0.0000000001",
        "DOUBLE": "'NaN'",
        "BOOLEAN": "false",
        "TINYINT": "-128",
        "CHAR(3)": "'a'",
    }
    for zone in ("UTC", "America/New_York", "+05:30"):
        lake.spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            for kind, value in values.items() if zone == "UTC" else [*values.items()][:2]:
                lake.sql("DROP TABLE IF EXISTS db.p")
                lake.sql(f"CREATE TABLE db.p (k INT, p {kind}) PARTITIONED BY (p)")
                lake.sql(f"INSERT INTO db.p PARTITION (p = {value}) VALUES (1)")
                lake.sql("INSERT INTO db.p VALUES (2, NULL)")
                lake.sql(f"INSERT OVERWRITE db.p PARTITION (p = {value}) VALUES (3)")
                assert [row.k for row in lake.sql("SELECT k FROM db.p ORDER BY k").collect()] == [2, 3], (zone, kind)
        finally:
            lake.spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_overwrite_whole_table_by_default_as_spark_does(table: Lake) -> None:
    table.sql("INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y')")
    table.sql("INSERT OVERWRITE t VALUES (3, 'c', 3, 'x')")
    assert rows(table) == {(3, "c", 3, "x")}


def test_overwrite_dynamic_partitions(table: Lake) -> None:
    table.sql("INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y')")
    table.sql("SET spark.sql.sources.partitionOverwriteMode=dynamic")
    try:
        table.sql("INSERT OVERWRITE t VALUES (3, 'c', 3, 'x')")
        table.sql("INSERT OVERWRITE t SELECT * FROM t WHERE false")
    finally:
        table.sql("RESET spark.sql.sources.partitionOverwriteMode")
    assert rows(table) == {(3, "c", 3, "x"), (2, "b", 2, "y")}


def test_overwrite_from_itself(table: Lake) -> None:
    table.sql("INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y')")
    table.sql("INSERT OVERWRITE t SELECT id + 10, v, n, dt FROM t")
    assert rows(table) == {(11, "a", 1, "x"), (12, "b", 2, "y")}


def test_overwrite_with_nothing(table: Lake) -> None:
    table.sql("INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y')")
    table.sql("INSERT OVERWRITE t PARTITION (dt = 'x') SELECT id, v, n FROM t WHERE false")
    assert rows(table) == {(2, "b", 2, "y")}


def test_upsert_keeps_the_last(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.k (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    lake.sql("INSERT INTO db.k VALUES (1, 'a'), (2, 'b')")
    lake.sql("INSERT INTO db.k VALUES (1, 'A')")
    assert rows(lake, "SELECT * FROM db.k") == {(1, "A"), (2, "b")}
    with pytest.raises(Exception, match="(?i)null"):
        lake.sql("INSERT INTO db.k VALUES (NULL, 'x')")


def test_rows_that_stand_in_the_statement_make_one_file(lake: Lake) -> None:
    """Spark would write a file a task, however few the rows."""
    lake.sql("CREATE TABLE few (a INT, s STRING)")
    lake.sql("INSERT INTO few VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')")
    lake.sql("INSERT INTO few (s) VALUES ('x'), ('y')")
    assert sorted(found.file.row_count for found in lake.table("few").files()) == [2, 5]


@pytest.mark.parametrize("options", ["'primary-key' = 'a.b,c`d'", "'bucket' = '-1'"], ids=["keyed", "append"])
def test_columns_of_any_names(lake: Lake, options: str) -> None:
    """PySpark's own `mapInArrow` reads names as paths."""
    lake.sql(f"CREATE TABLE db.t (`a.b` INT, `c``d` INT, v STRING) PARTITIONED BY (`c``d`) TBLPROPERTIES ({options})")
    lake.sql("INSERT INTO db.t SELECT id, id % 2, concat('v', id) FROM range(4)")
    lake.sql("INSERT INTO db.t (`c``d`, `a.b`) SELECT 5, 6")
    lake.sql("UPDATE db.t SET v = concat(v, `a.b`) WHERE `c``d` = 1")
    lake.sql("DELETE FROM db.t WHERE `a.b` + `c``d` = 4")
    lake.sql("INSERT OVERWRITE db.t SELECT `a.b`, `c``d`, concat(v, '!') FROM db.t")
    assert rows(lake, "SELECT * FROM db.t") == {(0, 0, "v0!"), (1, 1, "v11!"), (2, 0, "v2!"), (6, 5, None)}


def test_columns_alike_in_case_are_each_their_own(classic: Lake) -> None:
    classic.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        classic.sql("CREATE TABLE db.t (id INT, Id INT, ID STRING)")
        classic.sql("INSERT INTO db.t (Id, id) VALUES (2, 1)")
        assert [tuple(row) for row in classic.sql("SELECT * FROM db.t").collect()] == [(1, 2, None)]
    finally:
        classic.spark.conf.unset("spark.sql.caseSensitive")
