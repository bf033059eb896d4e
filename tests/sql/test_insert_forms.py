"""Forms of INSERT, options of sessions and statements, columns that rows bring: what Paimon's connector does with each.

One session, small tables; a case is a statement and what the table holds then."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import AnalysisException
from tests.sql.sessions import session

from bucketlake.errors import AlreadyExistsError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark


def rows(lake: Lake, text: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in lake.sql(text).collect()), key=repr)


MERGE = {"spark.paimon.write.merge-schema": "true"}
WIDEN = {**MERGE, "spark.paimon.write.merge-schema.type-widening": "true"}


def test_columns_that_a_query_brings(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (id INT, info STRUCT<f1: INT, f2: STRING>)")
    lake.sql("INSERT INTO t VALUES (1, struct(10, 'a'))")
    more = "INSERT INTO t BY NAME SELECT 2 AS ID, named_struct('F1', 20L, 'f3', 'new') AS info, array(1) AS extra"
    with pytest.raises(InvalidError, match="extra columns: `extra`"):
        lake.sql(more)
    with session(lake, MERGE):
        lake.sql(more)
        lake.sql("INSERT INTO t VALUES (3, struct(30, 'c', 'd'), array(2))")
        lake.sql("INSERT INTO t BY NAME SELECT 0 AS id, null AS info, array(null) AS extra")  # nulls say no type
        lake.sql("DELETE FROM t WHERE id = 0")
        with pytest.raises(InvalidError, match="the number of data columns"):
            lake.sql("INSERT INTO t VALUES (3, struct(30, 'c', 'd'), array(2), 4)")
        with pytest.raises(InvalidError, match="cast"):
            lake.sql("INSERT INTO t BY NAME SELECT 4 AS id, 5 AS info, 6 AS late")
    assert rows(lake, "SELECT id, info.f1, info.f2, info.f3, extra FROM t") == [
        (1, 10, "a", None, None),
        (2, 20, None, "new", [1]),
        (3, 30, "c", "d", [2]),
    ]
    assert [f.name for f in lake.table("t").schema.fields] == ["id", "info", "extra"]
    schemas = lake.table("t").schema.id
    with session(lake, WIDEN):
        lake.sql("INSERT INTO t BY NAME SELECT 4L AS id, named_struct('f1', 40L) AS info")
        for misfit in ("'x' AS id", "5 AS id, array(5L) AS extra", "named_struct('f1', DATE '2020-01-01') AS info"):
            with pytest.raises(UnsupportedError, match="Failed to merge"):
                lake.sql(f"INSERT INTO t BY NAME SELECT {misfit}")
    assert lake.table("t").schema.id == schemas + 1
    assert rows(lake, "SELECT typeof(id), typeof(info.f1) FROM t LIMIT 1") == [("bigint", "bigint")]
    with session(lake, {**MERGE, "spark.sql.caseSensitive": "true"}):
        lake.sql("INSERT INTO t BY NAME SELECT 5L AS id, 7 AS ID")
    assert [f.name for f in lake.table("t").schema.fields] == ["id", "info", "extra", "ID"]


def test_a_statement_with_schema_evolution(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    lake.sql("CREATE TABLE ev (id INT, s STRUCT<a: INT, b: STRING>)")
    evolve = "INSERT WITH SCHEMA EVOLUTION"
    lake.sql(f"{evolve} INTO ev SELECT 1, named_struct('p', 10, 'q', 'x', 'c', 7), 'new' AS more")
    lake.sql(f"{evolve} INTO ev VALUES (2, named_struct('p', null), null)")
    lake.sql(f"WITH q AS (SELECT 3 AS id, 5 AS last) {evolve} INTO TABLE ev BY NAME SELECT * FROM q")
    assert rows(lake, "SELECT id, s.a, s.b, s.c, more, last FROM ev") == [
        (1, 10, "x", 7, "new", None),
        (2, None, None, None, None, None),
        (3, None, None, None, None, 5),
    ]
    for misfit, told in (
        ("SELECT 4, null, 'm'", "number of data columns"),  # fewer, by position
        ("SELECT 4, null, 'm', 1, 9 AS ID", "number of data columns"),  # a name that is there
        ("SELECT 4, null, 'm', 1, null AS void", "no value says its type"),
    ):
        with pytest.raises((InvalidError, UnsupportedError), match=told):
            lake.sql(f"{evolve} INTO ev {misfit}")
    with pytest.raises(InvalidError, match="extra struct fields at `s`: `d`"):
        lake.sql("INSERT INTO ev VALUES (4, named_struct('a', 1, 'b', 'y', 'c', 8, 'd', 9), 'm', 1)")
    assert (
        "INSERT, rows are added" in lake.sql(f"EXPLAIN {evolve} INTO ev BY NAME SELECT 1 AS id, 2 AS never").first()[0]
    )
    lake.sql(f"{evolve} OVERWRITE ev BY NAME SELECT 9 AS id")
    assert rows(lake, "SELECT id, more, last FROM ev") == [(9, None, None)]
    assert lake.table("ev").schema.field_names == ("id", "s", "more", "last")


def test_merged_schemas_widen_keys_that_stay_where_they_are(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    for name, first in (("t", 1), ("u", -1)):
        lake.sql(f"CREATE TABLE {name} (a INT, b STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '3')")
        lake.sql(f"INSERT INTO {name} VALUES ({first}, 'x'), (2, 'y')")
    widening = {"write.merge-schema": True, "write.merge-schema.type-widening": True}
    frame = lake.spark.sql("SELECT 2L AS a, 'Y' AS b UNION ALL SELECT 3L, 'z'")
    merge = "MERGE INTO {} t USING {} s ON t.a = s.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    frame.createOrReplaceTempView("more")
    with session(lake, WIDEN):
        for way in (
            lambda: lake.sql("INSERT INTO u BY NAME SELECT * FROM more"),
            lambda: lake.sql(merge.format("u", "more")),
            lambda: lake.write_table(frame, "u", "append", **widening),
        ):
            with pytest.raises(InvalidError, match="Cannot update primary key"):
                way()
        lake.sql(merge.format("t", "more"))
        lake.write_table(lake.spark.sql("SELECT 1L AS a, 'X' AS b"), "t", "append", **widening)
    assert lake.table("u").schema.id == 0
    assert rows(lake, "SELECT typeof(a), * FROM t") == [("bigint", 1, "X"), ("bigint", 2, "Y"), ("bigint", 3, "z")]
    assert rows(lake, "SELECT b FROM t WHERE a = 1") == [("X",)]


def test_default_is_a_whole_item_of_a_row(classic: Lake) -> None:
    """Within a call it was NULL: `coalesce(DEFAULT, 9)` wrote 9."""
    lake = classic
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (a INT DEFAULT 7, b STRING DEFAULT 'd')")
    for row in ("(coalesce(DEFAULT, 9), 'x')", "(1, concat(DEFAULT))", "struct(DEFAULT, 'x')"):
        with pytest.raises(AnalysisException, match="DEFAULT stands alone"):
            lake.sql(f"INSERT INTO t VALUES {row}")
    lake.sql("INSERT INTO t VALUES (abs(-1), DEFAULT), (DEFAULT, upper('x'))")
    lake.sql("INSERT INTO t (a) VALUES (DEFAULT)")
    assert rows(lake, "SELECT * FROM t ORDER BY a, b") == [(1, "d"), (7, "X"), (7, "d")]


def test_default_is_a_column_of_that_name(lake: Lake) -> None:
    """It was the default of the column that it goes into."""
    lake.sql("CREATE TABLE db.t (a INT, b INT DEFAULT 7)")
    lake.sql("CREATE TABLE db.s (a INT, `default` INT)")
    lake.sql("INSERT INTO db.s VALUES (1, 10)")
    assert "default" in lake.sql("EXPLAIN INSERT INTO db.t SELECT a, default FROM db.s").collect()[0][0]
    lake.sql("INSERT INTO db.t SELECT a, default FROM db.s")
    lake.sql("INSERT INTO db.t SELECT a + 1, DEFAULT FROM (SELECT a FROM db.s)")
    lake.sql("FROM db.s INSERT INTO db.t SELECT a + 2, Default")
    lake.sql("WITH q AS (SELECT 4 AS a) INSERT INTO db.t SELECT a, DEFAULT FROM q")
    assert rows(lake, "SELECT * FROM db.t ORDER BY a") == [(1, 10), (2, 7), (3, 10), (4, 7)]


def test_inserts_behind_with_and_from(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    for name in ("t", "u"):
        lake.sql(f"CREATE TABLE {name} (a INT, b STRING DEFAULT 'd')")
    lake.sql("WITH q AS (SELECT 1 AS a) INSERT INTO t BY NAME SELECT a FROM q")
    lake.sql("WITH q AS (SELECT 2 AS a) INSERT INTO t WITH r AS (SELECT a + 1 AS a FROM q) SELECT a, 'x' FROM r")
    lake.sql("FROM t INSERT INTO t SELECT a + 10, b WHERE a < 3 INSERT OVERWRITE u SELECT a, DEFAULT WHERE a < 9")
    assert rows(lake, "SELECT * FROM t") == [(1, "d"), (11, "d"), (3, "x")]
    assert rows(lake, "SELECT * FROM u") == [(1, "d"), (3, "d")]  # what there was before the first of them wrote
    assert rows(lake, "FROM u SELECT a WHERE a > 1") == [(3,)]
    assert rows(lake, "WITH q AS (SELECT 1 AS insert) SELECT insert FROM q") == [(1,)]
    lake.sql("INSERT INTO u WITH ('data-file.prefix' = 'own-') SELECT 4, 'x'")
    assert sum(found.file.file_name.startswith("own-") for found in lake.table("u").files()) == 1
    before = lake.table("u").latest_snapshot()
    for wrong in (
        "WITH q AS (SELECT 1 AS a) INSERT INTO u (a) SELECT a FROM q INSERT INTO t (a) SELECT a FROM q",
        "FROM t INSERT INTO u SELECT a, b INSERT INTO nope SELECT a",
        "INSERT OVERWRITE u PARTITION (a = 1) IF NOT EXISTS SELECT 'x'",
        "INSERT OVERWRITE u REPLACE WHERE a = 1 SELECT 1, 'x'",
    ):
        with pytest.raises((InvalidError, NotFoundError)):
            lake.sql(wrong)
    assert lake.table("u").latest_snapshot() == before


def test_rows_that_a_condition_replaces(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (c INT, p1 STRING, p2 STRING) PARTITIONED BY (p1, p2)")
    lake.sql("INSERT INTO t VALUES (1, 'a', '8'), (2, 'a', '9'), (3, 'b', '9')")
    lake.sql("INSERT INTO t BY NAME REPLACE WHERE p1 <=> 'a' AND p2 = '9' SELECT 9 AS p2, 'a' AS p1, '7' AS c")
    assert rows(lake, "SELECT * FROM t") == [(1, "a", "8"), (3, "b", "9"), (7, "a", "9")]
    for condition, message in (
        ("p1 <> 'a'", "Only support Overwrite filters with Equal and EqualNullSafe"),
        ("p1 = p2", "does not support overwrite by expression"),
        ("c = 1", "Only support Overwrite filters on partition column"),
        ("p1 = 'a' AND p1 = 'b'", "one filter for each partition column"),
        ("p1 = 'b'", "does not belong"),
    ):
        with pytest.raises((InvalidError, UnsupportedError), match=message):
            lake.sql(f"INSERT INTO t REPLACE WHERE {condition} SELECT 0, 'a', '9'")
    frame = lake.spark.sql("SELECT 5 AS c, 'b' AS p1, '1' AS p2")
    lake.write_table(frame, "t", mode="overwrite", replace_where="p1 = 'b'")
    assert rows(lake, "SELECT * FROM t") == [(1, "a", "8"), (5, "b", "1"), (7, "a", "9")]
    lake.sql("INSERT INTO t REPLACE WHERE true VALUES (1, 'z', 'z')")
    assert rows(lake, "SELECT * FROM t") == [(1, "z", "z")]


def test_hives_order_of_partition_columns(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (id INT, dt STRING, name STRING, hr STRING) PARTITIONED BY (dt, hr)")
    statement = "INSERT INTO db.t PARTITION (dt, hr) SELECT 1 AS id, {} "
    lake.sql("SET spark.paimon.write.hive-style-dynamic-partition.enabled=true")
    try:
        lake.sql(statement.format("'n' AS name, 'd' AS dt, 'h' AS hr"))
        lake.sql(statement.format("'d' AS dt, 'n' AS name, 'h' AS hr"))
        lake.sql("INSERT INTO db.t PARTITION (dt = 'd', hr) SELECT 1, 'n', 'h'")
    finally:
        lake.sql("RESET spark.paimon.write.hive-style-dynamic-partition.enabled")
    lake.sql(statement.format("'d', 'n', 'h'"))
    lake.sql(statement.format("'n' AS name, 'd' AS dt, 'h' AS hr"))  # these names leave no doubt
    lake.sql("INSERT INTO db.t PARTITION (dt = 'd', hr) SELECT 1 AS id, 'n' AS name, 'h' AS hr")
    lake.sql(statement.format("'d' AS named, 'n' AS dt, 'h' AS hr"))
    lake.sql("INSERT INTO db.t SELECT 1 AS id, 'd' AS name, 'n' AS dt, 'h' AS hr")
    assert rows(lake, "SELECT * FROM db.t") == [(1, "d", "n", "h")] * 8


def test_options_of_one_table(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    for name in ("t", "u"):
        lake.sql(f"CREATE TABLE {name} (a INT)")
        lake.sql(f"INSERT INTO {name} VALUES (1)")
        lake.sql(f"INSERT INTO {name} VALUES (2)")
    both = "SELECT t.a, u.a FROM t JOIN u ON t.a = u.a"
    one, key = [(1, 1)], "scan.snapshot-id"
    for settings, expected in (
        ({f"spark.paimon.{key}": "1"}, one),
        ({f"spark.paimon.*.*.*.{key}": "1"}, one),
        ({f"spark.paimon.paimon.db.t.{key}": "1"}, one),
        ({f"spark.paimon.{key}": "1", f"spark.paimon.*.*.*.{key}": "2"}, [*one, (2, 2)]),
        ({f"spark.paimon.*.other.t.{key}": "1"}, [*one, (2, 2)]),
    ):
        with session(lake, settings):
            assert rows(lake, both) == expected, settings
            assert lake.read_table("t").count() == len(expected)
    with session(lake, {"spark.paimon.bucket": "1"}), pytest.raises(InvalidError, match="bucket"):
        lake.sql("SELECT * FROM t")


def test_char_is_padded_and_compared_so(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (c CHAR(4), v VARCHAR(2))")
    lake.sql("INSERT INTO db.t VALUES ('ab', 'x'), ('abcd   ', 'xy '), (NULL, NULL)")
    assert rows(lake, "SELECT c, v FROM db.t") == [("ab  ", "x"), ("abcd", "xy"), (None, None)]
    assert rows(lake, "SELECT v FROM db.t WHERE c = 'ab'") == [("x",)]
    with pytest.raises(InvalidError, match="longer"):
        lake.sql("INSERT INTO db.t VALUES ('abcde', 'x')")


def test_write_table(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    sql = lake.spark.sql
    made = {"primary_key": ["a", "pt"], "bucket": 2, "comment": "mine", "write_merge_schema": True}
    lake.write_table(sql("SELECT 1 AS a, 'x' AS b, 'p1' AS pt"), "t", partition_by="pt", **made)
    schema = lake.table("t").schema
    assert (list(schema.partition_keys), list(schema.primary_keys), schema.comment) == (["pt"], ["a", "pt"], "mine")
    assert "write.merge-schema" not in schema.options
    lake.write_table(sql("SELECT 'p2' AS pt, 2 AS A, 'y' AS b"), "t")
    lake.write_table(sql("SELECT 3, 'z', 'p2'"), "db.t", by_position=True)
    assert rows(lake, "SELECT * FROM t") == [(1, "x", "p1"), (2, "y", "p2"), (3, "z", "p2")]
    lake.write_table(sql("SELECT 4 AS a, 'w' AS b, 'p2' AS pt"), "t", mode="overwrite_partitions")
    assert rows(lake, "SELECT a FROM t") == [(1,), (4,)]
    with session(lake, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        lake.write_table(
            sql("SELECT 5 AS a, 'v' AS b, 'p2' AS pt, 1.5D AS n"), "t", "overwrite", write_merge_schema=True
        )
    assert rows(lake, "SELECT a, n FROM t") == [(1, None), (5, 1.5)]
    lake.write_table(sql("SELECT 6 AS a, 'v' AS b, 'p3' AS pt"), "t", mode="overwrite")
    assert rows(lake, "SELECT a FROM t") == [(6,)]
    assert lake.write_table(sql("SELECT 7 AS a, 'v' AS b, 'p3' AS pt"), "t", mode="ignore") is None
    assert lake.write_table(sql("SELECT 7 AS other"), "t", mode="ignore", primary_key="b", nothing_such=1) is None
    for wrong, error in (
        ({"mode": "create"}, AlreadyExistsError),
        ({"mode": "maybe"}, InvalidError),
        ({"partition_by": "a"}, InvalidError),
        ({"mode": "append", "replace_where": "pt = 'p3'"}, UnsupportedError),
    ):
        with pytest.raises(error):
            lake.write_table(sql("SELECT 7 AS a, 'v' AS b, 'p3' AS pt"), "t", **wrong)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        lake.write_table(sql("SELECT 1 AS a"), "missing", mode="replace")
    with pytest.raises(UnsupportedError, match="Not a supported type: void"):
        lake.write_table(sql("SELECT 1 AS a, NULL AS bad"), "bad", mode="overwrite")
    assert lake.catalog.list_tables("db") == ["t"]
    assert rows(lake, "SELECT a FROM t") == [(6,)]


def test_scripts(classic: Lake) -> None:
    last = classic.sql_script("CREATE TABLE db.t (a INT); INSERT INTO db.t VALUES (1); SELECT a FROM db.t;")
    assert last is not None
    assert [tuple(row) for row in last.collect()] == [(1,)]


def test_rows_of_a_key_update_its_row(classic: Lake) -> None:
    with pytest.raises(InvalidError, match=r"Cannot define 'upsert-key' \[k\] with 'primary-key' \[k\]"):
        classic.sql("CREATE TABLE db.no (k INT) TBLPROPERTIES ('upsert-key' = 'k', 'primary-key' = 'k')")
    with pytest.raises(InvalidError, match="nope"):
        classic.sql("CREATE TABLE db.no (k INT) TBLPROPERTIES ('upsert-key' = 'nope')")
    classic.sql("CREATE TABLE db.u (k INT, a INT, b STRING) TBLPROPERTIES ('upsert-key' = 'k')")
    classic.sql("INSERT INTO db.u VALUES (1, 1, 'c1'), (NULL, 2, 'c2'), (3, 3, 'c3')")
    classic.sql("INSERT INTO db.u (b, k) VALUES ('c22', NULL), ('c11', 1), ('c4', 4)")
    assert sorted(map(tuple, classic.sql("SELECT * FROM db.u").collect()), key=str) == [
        (1, None, "c11"), (3, 3, "c3"), (4, None, "c4"), (None, None, "c22"),
    ]  # fmt: skip
    rows = classic.spark.createDataFrame([(3, 9, "d")], "k INT, a INT, b STRING")
    classic.write_table(rows, "db.u")
    assert tuple(classic.sql("SELECT * FROM db.u WHERE k = 3").collect()[0]) == (3, 9, "d")
    for plain in (
        lambda: classic.table("db.u").write(rows),
        lambda: classic.catalog.table("db.u").write_arrow({"k": [1]}),
    ):
        with pytest.raises(UnsupportedError, match="upsert-key.*INSERT INTO"):
            plain()
    with pytest.raises(Exception, match="MERGE_CARDINALITY"):
        classic.sql("INSERT INTO db.u VALUES (1, 1, 'x'), (1, 2, 'y')")
    classic.sql("UPDATE db.u SET a = 0 WHERE k = 1")
    classic.sql("DELETE FROM db.u WHERE k <> 1")
    classic.sql("INSERT OVERWRITE db.u SELECT k, a + 7, b FROM db.u WHERE k = 1")
    assert [tuple(row) for row in classic.sql("SELECT * FROM db.u").collect()] == [(1, 7, "c11")]


def test_the_latest_row_of_a_key_counts(classic: Lake) -> None:
    classic.sql(
        "CREATE TABLE db.u (k1 INT, k2 INT, ts1 INT, ts2 INT, c STRING) PARTITIONED BY (k2) "
        "TBLPROPERTIES ('upsert-key' = 'k1,k2', 'sequence.field' = 'ts1,ts2', 'deletion-vectors.enabled' = 'true')"
    )
    classic.sql(
        "INSERT INTO db.u (k1, k2, ts1, ts2, c) VALUES (NULL, NULL, 2, 1, 'v3'), (NULL, NULL, 2, 2, 'v4'), "
        "(NULL, NULL, 1, 1, 'v1'), (1, NULL, 1, 1, 'v1'), (1, 2, 1, 1, 'v1'), (1, 2, 2, 1, 'v2')"
    )
    classic.sql(
        "INSERT INTO db.u (k1, k2, ts1, ts2, c) VALUES (NULL, NULL, 2, 1, 'v44'), (1, NULL, 2, 1, 'v2'), "
        "(NULL, 1, 1, 1, 'v1'), (1, 2, 2, 2, 'v3'), (1, 1, 1, 1, 'v1')"
    )
    assert sorted((tuple(r) for r in classic.sql("SELECT k1, k2, ts1, ts2, c FROM db.u").collect()), key=str) == [
        (1, 1, 1, 1, "v1"), (1, 2, 2, 2, "v3"), (1, None, 2, 1, "v2"), (None, 1, 1, 1, "v1"), (None, None, 2, 2, "v4"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        "FROM (SELECT 5, 'e') INSERT INTO {} SELECT *",
        "WITH q AS (SELECT 5, 'e') INSERT INTO {} SELECT * FROM q",
        "WITH RECURSIVE q(n) MAX RECURSION LEVEL 5 AS (SELECT 5) DELETE FROM {}",
        "WITH q AS (SELECT 5, 'e') MERGE INTO {} t USING q ON false WHEN NOT MATCHED THEN INSERT *",
    ],
)
@pytest.mark.parametrize("head", ["INSERT INTO", "CREATE TABLE made AS", "CREATE TEMPORARY VIEW made AS"])
def test_what_is_no_query_changes_no_table(classic: Lake, head: str, query: str) -> None:
    """Spark would run the INSERT behind FROM, before the one around it turns out to have no rows."""
    lake = classic
    lake.sql("USE db")
    lake.sql("CREATE TABLE into_me (id INT, v STRING)")
    lake.spark.sql("CREATE TABLE default.beside (id INT, v STRING) USING parquet")
    try:
        with pytest.raises(InvalidError, match="needs a query, which changes no table") as caught:
            lake.sql(f"{head}{' into_me' if 'INTO' in head else ''} {query.format('spark_catalog.default.beside')}")
        assert re.search(r"near=(INSERT|MERGE) INTO spark_cat|near=DELETE FROM spark_cat", str(caught.value))
        assert lake.spark.table("default.beside").count() == 0
    finally:
        lake.spark.sql("DROP TABLE default.beside")
    assert not lake.catalog.table_exists("db.made")
    lake.sql("INSERT INTO into_me SELECT insert, update FROM (SELECT 1 AS insert, 'x' AS update)")
    assert rows(lake, "TABLE into_me") == [(1, "x")]
