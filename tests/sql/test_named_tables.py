"""Which names of a statement are tables', whether or not the parser in use knows the statement: `named_tables`."""

from __future__ import annotations

import pytest

from bucketlake.spark.session import Lake
from bucketlake.sql.query.tree import named_tables, parsed_of

# A statement, and the tables that it names, each use once.
TREES = [
    ("WITH t AS (SELECT * FROM t) SELECT * FROM t", "t"),
    ("WITH t (SELECT 1 AS k) SELECT * FROM t", ""),
    ("WITH u AS (SELECT * FROM t), t AS (SELECT * FROM u) SELECT * FROM t", "t"),
    ("WITH RECURSIVE z AS (SELECT * FROM t), t AS (SELECT 1 AS k) SELECT count(*) FROM z", "t"),
    ("WITH RECURSIVE t AS (SELECT 1 AS k UNION ALL SELECT k FROM t) SELECT * FROM t, u", "u"),
    ("SELECT * FROM (WITH t AS (SELECT 1 AS k) SELECT * FROM t) z JOIN t USING (k)", "t"),
    ("SELECT k, sum(a) OVER t FROM t WINDOW t AS (PARTITION BY p)", "t"),
    ("SELECT extract(DAY FROM x.at) FROM t AS x WHERE a IS DISTINCT FROM x.k", "t"),
]
# Those that have no tree.
TOKENS = [
    ("WITH RECURSIVE t(k) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL SELECT k + 1 FROM t) SELECT * FROM t", ""),
    ("WITH RECURSIVE t(k) MAX RECURSION LEVEL 9 (SELECT * FROM u UNION ALL SELECT k + 1 FROM t) SELECT * FROM t", "u"),
    ("WITH t (SELECT 1 AS k) FROM t |> SELECT k", ""),
    ("WITH t(k) (SELECT 1) FROM t, u |> SELECT k", "u"),
    ("WITH `T` AS (SELECT 1 AS k) FROM t |> SELECT k", ""),
    ("FROM t |> JOIN (WITH t AS (SELECT 1 AS k) SELECT * FROM t) z USING (k)", "t"),
    ("FROM (WITH t AS (SELECT 1 AS k), u AS (TABLE t) FROM u) |> JOIN t USING (k) |> JOIN u USING (k)", "t u"),
    ("WITH u AS (SELECT * FROM t), t AS (SELECT * FROM u) SELECT * FROM t |> WHERE k = 3", "t"),
    ("FROM t |> SELECT k, sum(a) OVER t AS z WINDOW t AS (PARTITION BY p)", "t"),
    ("FROM t |> EXTEND 3 AS u |> WHERE a IS NOT DISTINCT FROM u |> SELECT k, u", "t"),
    ("FROM t |> SELECT extract(DAY FROM u), trim(BOTH 'x' FROM x), substring(s FROM 2)", "t"),
    ("FROM t |> SELECT trim((SELECT max(s) FROM u))", "t u"),
    ("FROM (t) |> SELECT k", "t"),
    ("FROM ((t AS z) JOIN u USING (k)) |> SELECT k", "t u"),
    ("FROM t AS q(k, x), u |> SELECT k, x", "t u"),
    ("FROM (SELECT 1 AS k) AS z, u |> SELECT k, x", "u"),
    ("FROM t UNPIVOT (v FOR n IN (k, a)), u |> SELECT 1", "t u"),
    ("FROM t LATERAL VIEW explode(array(1)) z AS x, u |> SELECT k, x", "t"),
    ("FROM t, LATERAL (SELECT * FROM u WHERE u.k = t.k) |> SELECT 1", "t u"),
    ("FROM range(3) r, t |> WHERE k IN (SELECT k FROM x, u WHERE x.k = u.k)", "t u x"),
    ("SELECT * FROM t JOIN u ON t.k | 1 = u.k, x |> SELECT 1", "t u x"),
    ("FROM x |> SELECT with.k, 1 AS t |> JOIN t USING (k)", "t x"),
]


@pytest.mark.parametrize(("statement", "tables"), [*TREES, *TOKENS])
def test_what_a_statement_names(statement: str, tables: str) -> None:
    parsed = parsed_of(statement)
    assert (parsed is not None) == ((statement, tables) in TREES)
    found = list(named_tables(statement, None if parsed is None else parsed.tree))
    assert " ".join(sorted(statement[one.start : one.end] for one in found if one.table)) == tables


def test_names_that_differ_in_case() -> None:
    for statement in ("WITH T AS (SELECT 1) SELECT * FROM t", "WITH T AS (SELECT 1) FROM t |> SELECT 1"):
        parsed = parsed_of(statement)
        tree = None if parsed is None else parsed.tree
        assert [one.table for one in named_tables(statement, tree)] == [False]
        assert [one.table for one in named_tables(statement, tree, sensitive=True)] == [True]


ROWS = [
    ("WITH t (SELECT 9 AS k) FROM t |> SELECT k", {9}),
    ("FROM t |> JOIN (WITH t AS (SELECT 1 AS k) SELECT * FROM t) z USING (k) |> SELECT k", {1}),
    ("SELECT t.k FROM (FROM u |> SELECT k) z, t WHERE z.k = t.k", {2}),
    ("SELECT k FROM (WITH t AS (FROM u |> SELECT k) TABLE t) z JOIN t USING (k)", {2}),
    ("FROM (t JOIN u USING (k)) |> SELECT k", {2}),
    ("FROM t |> EXTEND 2 AS u |> WHERE k IS NOT DISTINCT FROM u |> SELECT k", {2}),
]


@pytest.mark.spark
def test_their_rows(classic: Lake) -> None:
    classic.sql("USE db")
    for name, values in (("t", "(1), (2)"), ("u", "(2), (3)")):
        classic.sql(f"CREATE TABLE {name} (k INT)")
        classic.sql(f"INSERT INTO {name} VALUES {values}")
    for statement, expected in ROWS:
        assert {row.k for row in classic.sql(statement).collect()} == expected, statement
    if tuple(map(int, classic.spark.version.split(".")[:2])) > (4, 0):
        limited = "WITH RECURSIVE t(k) MAX RECURSION LEVEL 5 AS (SELECT 7 UNION ALL SELECT k + 1 FROM t WHERE k < 9) "
        assert {row.k for row in classic.sql(limited + "SELECT k FROM t").collect()} == {7, 8, 9}
    classic.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert len(classic.sql("WITH T AS (SELECT 1 AS k) SELECT * FROM t").collect()) == 2
    finally:
        classic.spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.spark
def test_names_with_braces(classic: Lake) -> None:
    """Braces mark DataFrames in what Spark is given: those of names are letters."""
    for at, name in enumerate(("{t0}", "a{b}", "{", "}}", "x {0}")):
        classic.sql(f"CREATE TABLE db.`{name}` (`{name} k` INT, s STRING)")
        classic.sql(f"INSERT INTO db.`{name}` VALUES ({at}, 'x')")
        shown = f"`{name}`.`{name} k`, z.s, '{{t1}}' AS u"
        for statement in (
            f"SELECT {shown} FROM db.`{name}` JOIN db.`{name}` AS z USING (s)",
            f"SELECT {shown} FROM db.`{name}` TABLESAMPLE (100 PERCENT) JOIN db.`{name}` AS z USING (s)",
            f"FROM db.`{name}` |> JOIN db.`{name}` AS z ON z.s = `{name}`.s |> SELECT {shown}",
        ):
            assert [tuple(row) for row in classic.sql(statement).collect()] == [(at, "x", "{t1}")], statement
        paths = classic.sql(f"SELECT *, __paimon_bucket AS b FROM db.`{name}`")
        assert paths.columns == [f"{name} k", "s", "b"]
        assert paths.count() == 1
        classic.sql(f"UPDATE db.`{name}` SET s = 'y' WHERE `{name}`.`{name} k` = {at}")
        classic.sql(f"MERGE INTO db.`{name}` z USING db.`{name}` ON z.s = `{name}`.s WHEN MATCHED THEN DELETE")
        assert classic.sql(f"SELECT * FROM db.`{name}` WHERE `{name}`.s = 'y'").count() == 0


# Words that begin clauses, and are aliases where nothing follows that they could begin.
WORDS = ("limit", "where", "as", "order", "group", "having", "window", "tablesample", "for", "set", "fetch", "from")


@pytest.mark.parametrize("word", WORDS)
def test_a_word_at_the_end_is_an_alias_as_in_spark(classic: Lake, word: str) -> None:
    classic.sql("CREATE TABLE db.t (id INT)")
    classic.spark.range(1).createOrReplaceTempView("shown")
    for form in (
        "SELECT {0}.id FROM {1} {0}",
        "SELECT * FROM (SELECT * FROM {1} {0})",
        "SELECT u.id FROM {1} {0}, {1} u",
    ):
        assert classic.sql(form.format(word, "shown")).columns == ["id"]
        assert classic.sql(form.format(word, "db.t")).columns == ["id"]


def test_asof_before_a_join_is_an_alias_as_in_spark(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT)")
    assert classic.sql("SELECT asof.id FROM db.t ASOF JOIN db.t USING (id)").columns == ["id"]
