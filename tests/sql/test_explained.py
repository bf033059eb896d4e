"""EXPLAIN of statements that change rows: how they would, and what is read; nothing changes, and errors are theirs."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from bucketlake.errors import InvalidError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

ANEW = "files that hold such rows are written anew"
MARKED = "rows are marked in deletion vectors"


@pytest.fixture
def shop(classic: Lake) -> Lake:
    """An append table, the same with deletion vectors, and one with a primary key; two partitions of one row each."""
    for name, options in (
        ("a", ""),
        ("v", "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')"),
        ("k", "TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '1')"),
    ):
        classic.sql(f"CREATE TABLE db.{name} (id BIGINT, n INT, p STRING) PARTITIONED BY (p) {options}")
        classic.sql(f"INSERT INTO db.{name} VALUES (1, 10, 'x'), (2, 20, 'y')")
    return classic


def explain(lake: Lake, statement: str, mode: str = "", **more: object) -> str:
    return str(lake.sql(f"EXPLAIN {mode}{statement}", **more).collect()[0][0])


STAR = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
CHANGES = [
    ("DELETE FROM db.a WHERE n > 15", f"db.a: DELETE, {ANEW}\n", "db.a: snapshot 1, columns n\n  partitions: 1 of 2"),
    ("DELETE FROM db.v WHERE n > 15", f"db.v: DELETE, {MARKED}\n", "files: 1 of 2"),
    ("DELETE FROM db.k WHERE n > 15", "db.k: DELETE, a row of kind -D is written for each\n", "columns id, n, p"),
    ("DELETE FROM db.k", "db.k: DELETE of all rows, by metadata alone\n", ""),
    ("DELETE FROM db.a WHERE p = 'x'", "db.a: DELETE of whole partitions, by metadata alone\n", "partitions: 1 of 2"),
    ("UPDATE db.a SET n = n + 1 WHERE p = 'x'", f"db.a: UPDATE, {ANEW}\n", "partitions: 1 of 2"),
    ("UPDATE db.v SET n = n + 1", f"db.v: UPDATE, {MARKED}, and written with their new values\n", "files: 2 of 2"),
    ("UPDATE db.k SET n = 0 WHERE id = 1", "db.k: UPDATE, each is written with its new values, of kind +U\n", "1 of 2"),
    ("INSERT INTO db.a SELECT * FROM db.k WHERE p = 'y'", "db.a: INSERT, rows are added\n", "db.k: snapshot 1"),
    ("INSERT INTO db.k VALUES (1, 2, 'x')", "db.k: INSERT, rows of one key are merged (deduplicate)\n", ""),
    ("INSERT OVERWRITE db.a SELECT * FROM db.k", "db.a: INSERT, in the place of all rows\n", "db.k: snapshot 1"),
    (
        "INSERT OVERWRITE db.a PARTITION (p = 'x') SELECT id, n FROM db.k",
        "in the place of partition p=x\n",
        "columns id, n\n",
    ),
    ("INSERT INTO db.a REPLACE WHERE p = 'x' SELECT * FROM db.k", "the rows where p = 'x'\n", "db.k: snapshot 1"),
    ("FROM db.k INSERT INTO db.a SELECT *", "db.a: INSERT, rows are added\n", "db.k: snapshot 1"),
    ("WITH q AS (SELECT id FROM db.a) DELETE FROM db.k WHERE id IN (SELECT id FROM q)", "-D", "db.a: snapshot 1"),
    (f"MERGE INTO db.a USING db.k s ON a.id = s.id {STAR}", f"MERGE; UPDATE: {ANEW}; INSERT: rows", "db.k: snapshot 1"),
    (
        f"MERGE INTO db.k USING (SELECT * FROM db.a WHERE n > 15) s ON k.id = s.id AND k.p = s.p {STAR}",
        "db.k: MERGE, the source's rows are written: if no two have one key, nothing of the table is read\n",
        "db.a: snapshot 1, columns all\n  partitions: 1 of 2",
    ),
    (
        "MERGE INTO db.k AS t USING db.a AS s (i, m, q) ON t.id = i WHEN MATCHED AND m > 3 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 0",
        "db.k: MERGE; DELETE: a row of kind -D is written for each; UPDATE: each",
        "db.k: snapshot 1, columns all",
    ),
    ("CREATE TABLE db.c AS SELECT id FROM db.a", "db.c: a new table, of the query's rows\n", "columns id\n"),
    ("CREATE OR REPLACE TABLE db.a AS SELECT id FROM db.a", "db.a: another table in its place, of", "columns id\n"),
    ("CREATE TABLE IF NOT EXISTS db.a AS SELECT id FROM db.k", "db.a: nothing is done, the table is there\n", ""),
]


@pytest.mark.parametrize(("statement", "told", "read"), CHANGES, ids=[case[0] for case in CHANGES])
def test_it_says_how_rows_change_and_changes_none(shop: Lake, statement: str, told: str, read: str) -> None:
    text = explain(shop, statement)
    assert text.startswith("== Change ==\n") and told in text and read in text, text
    assert ("== Lake Tables ==" in text) == bool(read)
    assert [shop.table(f"db.{name}").latest_snapshot().id for name in "avk"] == [1, 1, 1]
    assert shop.catalog.list_tables("db") == ["a", "k", "v"]


def test_modes_parameters_and_frames(shop: Lake) -> None:
    statement = "DELETE FROM db.k WHERE id = :a AND n > 0"
    assert "Parsed Logical Plan" in explain(shop, statement, "EXTENDED ", args={"a": 1})
    assert "files: 1 of 2" in explain(shop, statement, args={"a": 1})
    for lead in ("/* why */ ", "-- why\n", "FORMATTED -- why\n"):
        assert "Physical Plan" in explain(shop, "DELETE FROM db.k WHERE n > 5", lead)
        assert "Physical Plan" in explain(shop, "INSERT INTO db.a SELECT * FROM db.k", lead)
    text = explain(shop, "DELETE FROM db.k WHERE id IN (SELECT id FROM {f})", f=shop.spark.range(5))
    assert "LeftSemi" in text and "Range (0, 5" in text


def test_on_both_kinds_of_session(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id BIGINT, n INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    lake.sql("INSERT INTO db.t VALUES (1, 10)")
    for statement in (
        "DELETE FROM db.t WHERE n > 5",
        "UPDATE db.t SET n = n + 1",
        "INSERT INTO db.t SELECT id + 1, n FROM db.t",
        "MERGE INTO db.t USING (SELECT 1L AS id, 2 AS n) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n",
    ):
        text = explain(lake, statement)
        assert text.startswith("== Change ==\ndb.t: ") and "Physical Plan" in text and "db.t: snapshot 1" in text, text
    assert [tuple(row) for row in lake.read_table("db.t").collect()] == [(1, 10)]
    for statement in ("DELETE FROM db.t WHERE id = 1 WORD", "UPDATE db.t SET n = 1 WORD"):
        with pytest.raises(AnalysisException, match="near 'WORD'"):
            explain(lake, statement)


WRONG = [
    ("DELETE FROM db.a WHERE nix = 1", AnalysisException, "nix"),
    ("UPDATE db.k SET id = 1", InvalidError, "Can't update the primary key column"),
    ("DELETE FROM db.a WHERE", InvalidError, "WHERE needs a condition"),
    ("INSERT INTO db.a SELECT 1", InvalidError, "NOT_ENOUGH_DATA_COLUMNS"),
    ("INSERT INTO db.`a$files` SELECT 1", InvalidError, "please use data table"),
    ("MERGE INTO db.k USING db.a s ON k.id = s.id WHEN MATCHED THEN UPDATE SET n = s.nix", AnalysisException, "nix"),
    ("CREATE TABLE db.a AS SELECT 1 AS x", Exception, "exists"),
]


@pytest.mark.parametrize(("statement", "kind", "what"), WRONG, ids=[case[0] for case in WRONG])
def test_errors_are_the_statements(shop: Lake, statement: str, kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=what):
        explain(shop, statement)


def test_tables_of_sparks_own_are_sparks_to_explain(shop: Lake) -> None:
    shop.spark.sql("CREATE TABLE spark_catalog.default.explained_own (id INT) USING parquet")
    try:
        text = explain(shop, "INSERT INTO spark_catalog.default.explained_own SELECT n FROM db.a")
        assert "InsertIntoHadoopFsRelationCommand" in text and "db.a: snapshot 1" in text and "Change" not in text
    finally:
        shop.spark.sql("DROP TABLE spark_catalog.default.explained_own")
