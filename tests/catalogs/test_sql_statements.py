"""Statements through Spark on catalogs that are no file system: tables, CTAS, views, system tables, procedures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.catalogs import servers
from tests.catalogs.rest_server import TOKEN, serving

import bucketlake
from bucketlake.errors import AlreadyExistsError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.spark.session import Lake
from bucketlake.sql.attached import attach, detach


@pytest.fixture
def lake(request: pytest.FixtureRequest, classic: Lake, tmp_path: Path) -> Iterator[Lake]:
    if request.param == "jdbc":
        options = {**servers.sqlite(tmp_path), "lock.enabled": "true"}
        yield bucketlake.connect(tmp_path / "wh", spark=classic.spark, options=options)
        return
    with serving(tmp_path / "files") as server:
        server.add_database("default", {})
        yield bucketlake.connect("ware house", spark=classic.spark, metastore="rest", uri=server.uri, token=TOKEN)


def rows(lake: Lake, statement: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql(statement).collect())


@pytest.mark.spark
@pytest.mark.parametrize("lake", ["rest"], indirect=True)
def test_statements_go_through_the_catalog(lake: Lake) -> None:
    lake.sql("CREATE DATABASE db COMMENT 'of tests' WITH DBPROPERTIES ('x' = '1', 'a' = '2', 's.password' = 'hush')")
    lake.sql("CREATE TABLE db.t (id BIGINT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    lake.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    lake.sql("UPDATE db.t SET v = 'B' WHERE id = 2")
    lake.sql("DELETE FROM db.t WHERE id = 3")
    assert rows(lake, "SELECT * FROM db.t") == [(1, "a"), (2, "B")]
    lake.sql("CREATE TABLE db.c AS SELECT id, v FROM db.t WHERE id < 2")
    assert rows(lake, "SELECT * FROM db.c") == [(1, "a")]
    with pytest.raises(Exception, match="(?i)divi"):
        lake.sql("CREATE TABLE db.broken AS SELECT CAST(raise_error('divided') AS INT) AS id FROM db.t")
    assert lake.catalog.list_tables("db") == ["c", "t"]
    lake.sql("ALTER TABLE db.t ADD COLUMN n INT")
    lake.sql("ALTER TABLE db.c RENAME TO db.d")
    assert rows(lake, "SELECT table_name FROM sys.tables") == [("d",), ("t",)]
    assert rows(lake, "SHOW TABLES IN db") == [("db", "d", False), ("db", "t", False)]
    assert rows(lake, "SELECT snapshot_id FROM db.`t$snapshots`") == [(1,), (2,), (3,)]
    secret = lake.sql("SELECT * FROM sys.catalog_options").collect()
    assert TOKEN not in str(secret)
    described = dict(lake.sql("DESCRIBE DATABASE EXTENDED db").collect())
    assert described["Comment"] == "of tests"
    assert described["Properties"].startswith("((a,2), (s.password,") and "hush" not in described["Properties"]
    assert lake.table("db.t").read(where="id = 1").collect()[0].v == "a"
    with pytest.raises(Exception, match="no way into this catalog"):
        lake.spark.read.format("bucketlake").option("table", "db.t").load().collect()
    lake.sql("DROP DATABASE db CASCADE")
    assert lake.catalog.list_databases() == ["default"]


@pytest.mark.spark
@pytest.mark.parametrize("lake", ["jdbc"], indirect=True)
def test_persistent_views(lake: Lake) -> None:
    lake.sql("CREATE DATABASE db")
    lake.sql("CREATE DATABASE other")
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (id BIGINT, v STRING)")
    lake.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    lake.sql("CREATE VIEW v AS SELECT id, v FROM t WHERE id > 1 -- of few")
    lake.sql(
        "CREATE VIEW other.w (number COMMENT 'n', text) COMMENT 'of v' AS SELECT v.id + 1, t.v FROM v JOIN t USING (id)"
    )
    assert rows(lake, "SELECT * FROM v") == [(2, "b")]
    assert rows(lake, "SELECT x.id, v.v FROM v x, v WHERE x.id = v.id") == [(2, "b")]
    lake.sql("USE other")
    assert rows(lake, "SELECT number, text FROM w WHERE number = 3") == [(3, "b")]
    assert rows(lake, "SELECT w.number FROM other.w UNION ALL SELECT id FROM db.v") == [(2,), (3,)]
    assert rows(lake, "WITH w AS (SELECT 5 AS n) SELECT n FROM w") == [(5,)]
    assert rows(lake, "SELECT id FROM db.t WHERE id IN (SELECT id FROM db.v)") == [(2,)]
    assert rows(lake, "FROM w |> JOIN db.v ON number = id + 1 |> SELECT id, text") == [(2, "b")]
    assert rows(lake, "WITH w (SELECT 5 AS n) FROM w |> SELECT n") == [(5,)]
    lake.sql("INSERT INTO db.t SELECT id + 5, v FROM db.v")
    assert rows(lake, "SELECT id FROM db.v") == [(2,), (7,)]
    lake.sql("DELETE FROM db.t WHERE id IN (SELECT id + 5 FROM db.v WHERE id = 2)")
    assert rows(lake, "SELECT id FROM db.v") == [(2,)]

    def stored(statement: str) -> list[tuple[object, ...]]:
        return [row for row in rows(lake, statement) if not row[2]]  # the session's temporary ones are others'

    assert stored("SHOW VIEWS IN db") == [("db", "v", False)]
    assert stored("SHOW VIEWS LIKE 'w*'") == [("other", "w", False)]
    assert rows(lake, "DESC TABLE db.v") == [("id", "BIGINT", None), ("v", "STRING", None)]
    assert [tuple(row)[:2] for row in lake.sql("DESCRIBE EXTENDED w").collect()][3:] == [
        ("# Detailed View Information", ""),
        ("Name", "other.w"),
        ("Comment", "of v"),
        ("View Text", lake.catalog.view("other.w").query),
        ("View Query Output Columns", "[number, text]"),
        ("View Properties", "[]"),
    ]
    assert ("comment", "n") in rows(lake, "DESCRIBE w NUMBER")
    assert rows(lake, "SHOW COLUMNS IN other.w") == [("number",), ("text",)]
    ((made,),) = rows(lake, "SHOW CREATE TABLE other.w")
    lake.sql("DROP VIEW other.w")
    lake.sql(made)
    assert rows(lake, "SHOW CREATE TABLE w") == [(made,)] and rows(lake, "SELECT number FROM w") == [(3,)]
    with pytest.raises(AlreadyExistsError):
        lake.sql("CREATE VIEW db.v AS SELECT 1 AS id")
    with pytest.raises(AlreadyExistsError):
        lake.sql("CREATE VIEW db.t AS SELECT 1 AS id")
    lake.sql("CREATE VIEW IF NOT EXISTS db.v AS SELECT 1 AS id")
    lake.sql("CREATE OR REPLACE VIEW db.v AS SELECT 9 AS id, 'z' AS v")
    assert rows(lake, "SELECT * FROM db.v") == [(9, "z")]
    lake.sql("CALL sys.alter_view_dialect('db.v', 'update', 'spark', 'SELECT 8 AS id, v FROM t')")
    assert rows(lake, "SELECT * FROM db.v WHERE v = 'a'") == [(8, "a")]
    assert ("View Text", "SELECT 8 AS id, v FROM t", "") in rows(lake, "DESCRIBE EXTENDED db.v")
    assert "AS\nSELECT 8 AS id" in rows(lake, "SHOW CREATE TABLE db.v")[0][0]
    lake.sql("CALL sys.alter_view_dialect(`view` => 'db.v', `action` => 'drop')")
    assert rows(lake, "SELECT * FROM db.v") == [(9, "z")]
    for arguments, error in (
        ("'db.v', 'add'", "query is required for add action"),
        ("'db.v', 'replace', 'spark', 'SELECT 1'", "Unsupported action: replace"),
        ("'db.v', 'drop'", "Dialect spark"),
    ):
        with pytest.raises((InvalidError, NotFoundError), match=error):
            lake.sql(f"CALL sys.alter_view_dialect({arguments})")
    lake.sql("SELECT 1 AS a").createOrReplaceTempView("temporary")
    with pytest.raises(InvalidError, match="temporary"):
        lake.sql("CREATE VIEW x AS SELECT * FROM temporary")
    with pytest.raises(InvalidError, match="DROP TABLE"):
        lake.sql("DROP VIEW db.t")
    lake.sql("DROP VIEW temporary")
    lake.sql("CREATE TEMPORARY FUNCTION of_session() RETURNS INT RETURN 5")
    with pytest.raises(InvalidError, match=r"from a temporary function \[view=other.x, temporary=of_session\]"):
        lake.sql("CREATE VIEW x AS SELECT Of_Session() AS a, abs(1) AS b")
    lake.sql("DROP TEMPORARY FUNCTION of_session")
    held = lake.catalog.view("db.v")
    assert held is not None
    for text in ("SELECT 1) UNION ALL (SELECT 2", "SELECT 1; DROP TABLE t", "SELECT (1", "SELECT 1 /* x"):
        lake.catalog.create_view("db.odd", replace(held, query=text), replace=True)
        with pytest.raises(InvalidError, match="not a whole query"):
            lake.sql("SELECT * FROM db.odd")
    lake.sql("DROP VIEW other.w")
    lake.sql("DROP VIEW IF EXISTS other.w")
    with pytest.raises((NotFoundError, UnsupportedError)):
        lake.sql("DROP VIEW other.w")
    assert lake.catalog.list_views("other") == []


@pytest.mark.spark
@pytest.mark.parametrize("lake", ["jdbc"], indirect=True)
def test_views_of_altered_tables(lake: Lake) -> None:
    """A star gives what the table has today: values never come under another column's name."""
    lake.sql("CREATE DATABASE db")
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (a STRING, b STRING)")
    lake.sql("INSERT INTO t VALUES ('of a', 'of b')")
    for view in ("v AS SELECT * FROM t", "listed AS SELECT a, b FROM t", "named (m, n) AS TABLE t", "vv AS FROM v"):
        lake.sql(f"CREATE VIEW {view}")
    with pytest.raises(InvalidError, match="other columns than the view"):
        lake.sql("CREATE VIEW other_way (b, a) AS SELECT * FROM t")
    lake.sql("ALTER TABLE t ADD COLUMN c INT")
    assert rows(lake, "SELECT * FROM v") == rows(lake, "SELECT a, b FROM vv") == [("of a", "of b")]
    for change in ("ALTER TABLE t ALTER COLUMN b FIRST", "ALTER TABLE t DROP COLUMN b"):
        lake.sql(change)
        for view in ("v", "vv"):
            with pytest.raises(InvalidError, match=r"other columns than the view \[view=db.v"):
                lake.sql(f"SELECT a FROM {view}")
        if "FIRST" in change:
            assert rows(lake, "SELECT * FROM listed") == [("of a", "of b")]
            with pytest.raises(InvalidError, match="CREATE OR REPLACE VIEW"):
                lake.sql("SELECT m FROM named")
    with pytest.raises(UnsupportedError, match="CREATE OR REPLACE VIEW"):
        lake.sql("ALTER VIEW v AS SELECT a FROM t")


@pytest.mark.spark
@pytest.mark.parametrize("lake", ["jdbc"], indirect=True)
def test_views_where_tables_stand(lake: Lake) -> None:
    lake.sql("CREATE DATABASE db")
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (a INT)")
    for row in (1, 2):
        lake.sql(f"INSERT INTO t VALUES ({row})")
    lake.sql("CREATE VIEW v AS SELECT t.a FROM t VERSION AS OF 1")
    lake.sql("CREATE VIEW w AS SELECT t.a FROM t TABLESAMPLE (100 PERCENT) JOIN v ON v.a < t.a")
    assert rows(lake, "SELECT a FROM w") == [(2,)]
    for read in ("v", "w"):
        with pytest.raises(InvalidError, match="a view is made of itself"):  # and the old one is there
            lake.sql(f"CREATE OR REPLACE VIEW v AS SELECT a FROM {read}")
    assert rows(lake, "SELECT v.a FROM v TABLESAMPLE (100 PERCENT) WHERE v.a > 0") == [(1,)]
    for column in ("db.v.a", "bucketlake.db.v.a", "v.*", "db.v.*"):
        assert rows(lake, f"SELECT {column} FROM db.v WHERE db.v.a > 0") == [(1,)]
    assert rows(lake, "SELECT db.t.a, db.v.a FROM t JOIN v ON db.v.a < db.t.a") == [(2, 1)]
    with pytest.raises(UnsupportedError, match="VERSION AS OF of a view"):
        lake.sql("SELECT * FROM w VERSION AS OF 1")
    for statement in (
        "INSERT INTO v VALUES (1)",
        "DELETE FROM v",
        "DROP TABLE v",
        "ALTER TABLE v RENAME TO x",
        "CREATE TABLE x LIKE v",
    ):
        with pytest.raises(NotFoundError, match=r"EXPECT_TABLE_NOT_VIEW.*not a table but a view \[view=db.v\]"):
            lake.sql(statement)
    attach(lake, "own", True)
    try:
        spark = lake.spark
        for name in ("db.w", "own.db.w"):
            assert spark.table(name).count() == spark.read.table(name).count() == 1 and spark.catalog.tableExists(name)
        assert not spark.catalog.tableExists("db.x")
        with pytest.raises(UnsupportedError, match="options of a view"):
            spark.read.option("scan.snapshot-id", 1).table("db.w")
    finally:
        detach(lake.spark)


@pytest.mark.spark
@pytest.mark.parametrize("lake", ["jdbc"], indirect=True)
def test_views_behind_use_spark_catalog(lake: Lake) -> None:
    """A view reads its own database's tables where names of one and two parts are Spark's."""
    lake.sql("CREATE TABLE default.of_view (a INT)")
    lake.sql("INSERT INTO default.of_view VALUES (1)")
    lake.sql(
        "CREATE VIEW default.v AS SELECT a, of_view.a + 1 AS b FROM of_view WHERE a IN (SELECT a FROM default.of_view)"
    )
    lake.sql("CREATE VIEW default.w AS SELECT v.b FROM v")
    lake.sql("CREATE TABLE spark_catalog.default.of_view (a INT) USING parquet")
    try:
        lake.sql("USE spark_catalog")
        assert rows(lake, "SELECT * FROM bucketlake.default.v") == [(1, 2)]
        assert rows(lake, "SELECT * FROM bucketlake.default.w") == [(2,)]
        with pytest.raises(InvalidError, match="write bucketlake.db.table"):  # it is Spark's here, and none later
            lake.sql("CREATE OR REPLACE VIEW bucketlake.default.w AS SELECT a FROM of_view")
        lake.sql("CREATE OR REPLACE VIEW bucketlake.default.w AS SELECT a FROM bucketlake.default.of_view")
        assert (
            lake.catalog.view("default.w").query == "SELECT a FROM `default`.`of_view`"
        )  # whatever a session calls us
        assert ("default", "w", False) in rows(lake, "SHOW VIEWS IN bucketlake.default")
        lake.sql("DROP VIEW bucketlake.default.v")
        assert lake.catalog.list_views("default") == ["w"]
    finally:
        lake.sql("USE bucketlake")
        lake.sql("DROP TABLE spark_catalog.default.of_view")
