"""SELECT over lake tables, Spark's own tables and temp views in one statement; hints, time travel, pruning."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.predicate.tree import Compare
from bucketlake.spark.session import Lake
from bucketlake.sql.query import tree


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("USE db")
    lake.sql(
        "CREATE TABLE orders (id BIGINT, customer INT, total DECIMAL(10,2), day STRING) PARTITIONED BY (day) "
        "TBLPROPERTIES ('primary-key'='day,id', 'bucket'='2')"
    )
    lake.sql("INSERT INTO orders VALUES (1, 10, 5.00, 'a'), (2, 10, 6.00, 'a'), (3, 11, 7.00, 'b')")
    lake.sql("INSERT INTO orders VALUES (1, 10, 50.00, 'a'), (4, 12, 8.00, 'c')")
    lake.sql("CREATE TABLE customers (id INT, name STRING)")
    lake.sql("INSERT INTO customers VALUES (10, 'ann'), (11, 'bob')")
    return lake


def rows(lake: Lake, text: str, args: object = None) -> set[tuple[object, ...]]:
    return {tuple(row) for row in lake.sql(text, args).collect()}


CASES = [
    ("SELECT count(*) FROM orders$snapshots s JOIN db.orders$schemas USING (schema_id)", {(2,)}),
    ("SELECT id FROM orders WHERE day = 'a'", {(1,), (2,)}),
    ("SELECT o.id FROM orders o WHERE o.total > 6.5", {(1,), (3,), (4,)}),
    ("SELECT orders.id FROM orders WHERE orders.day IN ('b', 'c')", {(3,), (4,)}),
    ("SELECT db.orders.id FROM db.orders WHERE db.orders.day = 'b'", {(3,)}),
    ("SELECT db.orders.* FROM paimon.db.orders WHERE id = 3", {(3, 11, "7.00", "b")}),
    ("SELECT count(*) FROM orders", {(4,)}),
    ("SELECT `orders`.`id` FROM `db`.`orders` WHERE `day` = 'c'", {(4,)}),
    ("SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id", {(1, "ann"), (2, "ann"), (3, "bob")}),
    ("SELECT id, name FROM orders LEFT JOIN customers c USING (id) WHERE name IS NULL", {(1, None), (2, None), (3, None), (4, None)}),
    ("SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id WHERE c.name IS NULL", {(4,)}),
    ("SELECT c.name, o.id FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.day = 'b' WHERE o.id IS NULL",
     {("ann", None)}),
    ("SELECT c.name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.day = 'b')", {("bob",)}),
    ("SELECT id FROM orders WHERE customer IN (SELECT id FROM customers WHERE name = 'ann')", {(1,), (2,)}),
    ("WITH orders AS (SELECT 99 AS id) SELECT id FROM orders", {(99,)}),
    ("WITH x AS (SELECT id FROM orders WHERE day = 'a'), y AS (SELECT id + 1 AS id FROM x) SELECT * FROM y", {(2,), (3,)}),
    ("WITH orders AS (SELECT id FROM orders WHERE id = 1) SELECT * FROM orders", {(1,)}),
    ("SELECT a.id FROM orders a, customers b WHERE a.customer = b.id AND b.name = 'bob'", {(3,)}),
    ("SELECT limit.id FROM orders limit WHERE day = 'b'", {(3,)}),
    ("SELECT where.id FROM orders /*+ OPTIONS('scan.snapshot-id' = '1') */ where JOIN customers window WHERE window.id = 10",
     {(1,), (2,), (3,)}),
    ("SELECT id FROM orders offset WHERE id IN (SELECT id FROM orders having WHERE having.day = 'c')", {(4,)}),
    ("SELECT id FROM orders WHERE (day = 'c')", {(4,)}),
    ("SELECT id FROM orders UNION ALL SELECT id FROM customers", {(1,), (2,), (3,), (4,), (10,), (11,)}),
    ("SELECT max(total) FROM (SELECT * FROM orders WHERE day <> 'a') t", {("8.00",)}),
    ("SELECT '{braces}', 'FROM orders' FROM orders WHERE id = 1", {("{braces}", "FROM orders")}),
    ("SELECT id AS day FROM orders WHERE day = 'a' ORDER BY id LIMIT 1", {(1,)}),
    ("SELECT id FROM orders WHERE NOT (day = 'a' OR customer = 11)", {(4,)}),
    ("SELECT id, row_number() OVER (PARTITION BY customer ORDER BY id DESC) r FROM orders WHERE day = 'a'", {(1, 2), (2, 1)}),
    ("SELECT t.id FROM orders AS t /*+ OPTIONS('scan.snapshot-id'='1') */ WHERE t.day = 'a'", {(1,), (2,)}),
    ("SELECT count(*) FROM orders /*+ OPTIONS('scan.snapshot-id'='1') */", {(3,)}),
    ("SELECT total FROM orders VERSION AS OF 1 WHERE id = 1", {("5.00",)}),
    ("SELECT total FROM orders FOR VERSION AS OF 1 AS o WHERE o.id = 1", {("5.00",)}),
    ("SELECT n.total - o.total FROM orders n JOIN orders VERSION AS OF 1 o ON n.id = o.id AND n.day = o.day WHERE n.id = 1",
     {("45.00",)}),
    ("SELECT /*+ BROADCAST(c) */ o.id FROM orders o JOIN customers c ON o.customer = c.id WHERE c.name = 'bob'", {(3,)}),
    ("FROM orders SELECT id WHERE day = 'b'", {(3,)}),
    ("SELECT id FROM orders -- FROM customers\n WHERE day = 'b' /* comment */;", {(3,)}),
]  # fmt: skip


def test_queries(shop: Lake) -> None:
    for text, expected in CASES:
        found = {tuple(str(v) if isinstance(v, Decimal) else v for v in row) for row in rows(shop, text)}
        assert found == expected, text


def test_temp_views_hide_lake_tables_and_mix_with_them(shop: Lake) -> None:
    shop.spark.createDataFrame([(1, "view")], "id int, name string").createOrReplaceTempView("customers")
    try:
        assert rows(shop, "SELECT * FROM customers") == {(1, "view")}
        assert rows(shop, "SELECT * FROM db.customers") == {(10, "ann"), (11, "bob")}
        joined = "SELECT o.total, c.name FROM orders o JOIN customers c ON o.id = c.id WHERE o.day = 'a'"
        assert rows(shop, joined) == {(Decimal("50.00"), "view")}
    finally:
        shop.spark.catalog.dropTempView("customers")


def test_temp_view_over_a_query(shop: Lake) -> None:
    shop.sql("CREATE OR REPLACE TEMP VIEW big AS SELECT id FROM orders WHERE total > 7")
    try:
        assert rows(shop, "SELECT id FROM big") == {(1,), (4,)}
    finally:
        shop.spark.catalog.dropTempView("big")


def test_arguments(shop: Lake) -> None:
    assert rows(shop, "SELECT id FROM orders WHERE day = :day", {"day": "b"}) == {(3,)}
    assert rows(shop, "SELECT id FROM orders WHERE id > ? AND day < ?", [1, "b"]) == {(2,)}


def test_explain_shows_the_plan(shop: Lake) -> None:
    assert "Physical Plan" in shop.sql("EXPLAIN SELECT id FROM orders WHERE day = 'a'").collect()[0][0]


def test_where_prunes_partitions(shop: Lake) -> None:
    """The query itself opens no file of another partition: those are not there."""
    for found in shop.table("orders").files():
        if found.partition["day"] != "b":
            Path(found.path).unlink()
    assert rows(shop, "SELECT id FROM orders o WHERE o.day = 'b' AND id > 0") == {(3,)}
    with pytest.raises(Exception, match="(?i)no such file|gone|not exist|not found"):
        rows(shop, "SELECT id FROM orders o WHERE o.day >= 'b' AND id > 0")


def test_time_travel_by_timestamp(shop: Lake) -> None:
    first = shop.table("orders").snapshots()[0].time_millis
    later = f"timestamp_millis({first})"
    assert rows(shop, f"SELECT count(*) FROM orders TIMESTAMP AS OF {later}") == {(3,)}
    assert rows(shop, "SELECT count(*) FROM orders TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY") == {(4,)}
    assert rows(shop, "SELECT count(*) FROM orders TIMESTAMP AS OF now() + INTERVAL '1 2' DAY TO HOUR o") == {(4,)}
    assert rows(shop, f"SELECT count(*) FROM orders TIMESTAMP AS OF CASE WHEN true THEN {later} END o") == {(3,)}


def test_session_options(shop: Lake) -> None:
    shop.spark.conf.set("spark.paimon.*.db.orders.scan.snapshot-id", "1")
    try:
        assert rows(shop, "SELECT count(*) FROM orders") == {(3,)}
        assert rows(shop, "SELECT count(*) FROM customers") == {(2,)}
        with pytest.raises(InvalidError, match="Only one of the following"):
            shop.sql("SELECT count(*) FROM orders TIMESTAMP AS OF now()")
    finally:
        shop.spark.conf.unset("spark.paimon.*.db.orders.scan.snapshot-id")


@pytest.mark.parametrize("mode", ["default", "from-snapshot"])
def test_a_clause_takes_the_place_of_the_sessions_snapshot(shop: Lake, mode: str) -> None:
    options = {"spark.paimon.*.db.orders.scan.snapshot-id": "1", "spark.paimon.*.db.orders.scan.mode": mode}
    shop.sql("CALL sys.create_tag('db.orders', 'second', 2)")
    newest = len(shop.table("orders").snapshots())
    now = rows(shop, "SELECT count(*) FROM orders")
    try:
        for key, value in options.items():
            shop.spark.conf.set(key, value)
        assert rows(shop, "SELECT count(*) FROM orders") == {(3,)}
        assert rows(shop, f"SELECT count(*) FROM orders VERSION AS OF {newest}") == now
        assert rows(shop, f"SELECT count(*) FROM orders /*+ OPTIONS('scan.version' = '{newest}') */") == now
        with pytest.raises(InvalidError, match="(?i)only one"):
            shop.sql("SELECT count(*) FROM orders VERSION AS OF 'second'")
    finally:
        for key in options:
            shop.spark.conf.unset(key)


def test_a_clause_is_not_lost_to_the_sessions_scan_mode(shop: Lake) -> None:
    shop.spark.conf.set("spark.paimon.*.db.orders.scan.mode", "latest-full")
    try:
        with pytest.raises(InvalidError, match=r"scan\.snapshot-id must be null when you use latest-full"):
            shop.sql("SELECT count(*) FROM orders VERSION AS OF 1")
    finally:
        shop.spark.conf.unset("spark.paimon.*.db.orders.scan.mode")


def test_a_time_may_be_asked_of_another_table(shop: Lake) -> None:
    first = "SELECT commit_time FROM `orders$snapshots` WHERE snapshot_id = 1"
    assert rows(shop, f"SELECT count(*) FROM orders TIMESTAMP AS OF ({first})") == {(3,)}
    assert rows(shop, f"SELECT count(*) FROM orders TIMESTAMP AS OF (SELECT max(t) FROM ({first}) AS s(t)) o") == {(3,)}
    with pytest.raises(AnalysisException, match="nope"):
        shop.sql("SELECT count(*) FROM orders TIMESTAMP AS OF (SELECT nope FROM customers)")


@pytest.mark.parametrize(
    ("statement", "line", "column"),
    [
        ("ALTER TABLE orders$branch_x ADD COLUMN", 1, 39),
        ("ALTER TABLE orders$branch_x\n  ADD COLUMN c", 2, 15),
    ],
)
def test_errors_behind_a_name_with_a_dollar_point_where_the_user_wrote(
    shop: Lake, statement: str, line: int, column: int
) -> None:
    with pytest.raises(InvalidError) as found:
        shop.sql(statement)
    assert (found.value.details["line"], found.value.details["column"]) == (line, column)


ERRORS = {
    "SELECT * FROM orders VERSION AS OF 77": (BucketlakeError, "77"),
    "SELECT * FROM nothing_here": (AnalysisException, "nothing_here"),
    "SELECT nope FROM orders": (AnalysisException, "nope"),
    "SELECT 1; SELECT 2": (InvalidError, "statement"),
    "SELECT 'open": (InvalidError, "open|quote|end|text"),
    "USE nowhere": (NotFoundError, "nowhere"),
}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM (TABLE {t}) ORDER BY k",
        "WITH a AS (TABLE {t}) SELECT k FROM a ORDER BY k",
        "WITH a AS (SELECT 1) TABLE {t} |> SELECT k |> ORDER BY k",
        "SELECT k FROM {t} WHERE k IN (SELECT x.k FROM (TABLE {t}) x) ORDER BY k",
        "(TABLE {t}) UNION (TABLE {t}) ORDER BY k",
    ],
)
def test_a_table_is_a_query_wherever_one_may_stand(classic: Lake, query: str) -> None:
    """In brackets, as a common table expression and behind these, too."""
    classic.sql("CREATE TABLE db.named (k INT)")
    classic.sql("INSERT INTO db.named VALUES (5), (3)")
    assert [row.k for row in classic.sql(query.replace("{t}", "db.named")).collect()] == [3, 5]


def test_tables_and_timestamps_as_flink_says_them_in_changes(classic: Lake) -> None:
    """What is put into the statement's text before the table's name moves the name, not the table that is meant."""
    classic.sql("CREATE TABLE db.named (k INT, at TIMESTAMP_NTZ) TBLPROPERTIES ('primary-key' = 'k')")
    classic.sql("INSERT INTO db.named VALUES (1, NULL), (2, NULL), (3, NULL)")
    classic.sql("UPDATE db.named SET at = CAST('2020-01-01 00:00:00' AS TIMESTAMP(3)) WHERE k IN (SELECT 1)")
    classic.sql(
        "UPDATE db.named SET at = (SELECT max(at) FROM (TABLE db.named)) WHERE k = (SELECT max(k) FROM db.named) - 1"
    )
    classic.sql(
        "MERGE INTO db.named USING (TABLE db.named) s ON named.k = s.k AND named.k = 3"
        " WHEN MATCHED THEN UPDATE SET at = CAST('2021-01-01 00:00:00' AS TIMESTAMP(3))"
    )
    rows = classic.sql("SELECT k, year(at) AS y FROM db.named ORDER BY k").collect()
    assert [tuple(row) for row in rows] == [(1, 2020), (2, 2020), (3, 2021)]


def test_errors(shop: Lake) -> None:
    for text, (error, message) in ERRORS.items():
        with pytest.raises(error, match=message):
            shop.sql(text).collect()


def test_flinks_set_is_accepted(lake: Lake) -> None:
    lake.sql("SET 'execution.runtime-mode' = 'batch'")


def test_limit_opens_only_the_files_that_it_needs(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.many (id INT)")
    for number in range(4):
        lake.sql(f"INSERT INTO db.many VALUES ({number}), ({number + 10})")
    table = lake.table("db.many").with_options({"source.split.open-file-cost": "1 gb"})
    first = list(itertools.takewhile(lambda n: n < 2, itertools.accumulate(s.row_count for s in table.plan().splits)))
    kept = {file.file_name for split in table.plan().splits[: len(first) + 1] for file in split.files}
    assert len(kept) < len(table.files())
    for found in table.files():
        if found.file.file_name not in kept:
            lake.catalog.env.storage.delete(found.path)
    assert table.read(limit=2).count() == 2
    lake.spark.conf.set("spark.paimon.source.split.open-file-cost", "1 gb")
    try:
        assert len(lake.sql("SELECT id AS x FROM db.many LIMIT 1").collect()) == 1
        with pytest.raises(Exception, match="(?i)no such file|gone|not exist|not found"):
            lake.sql("SELECT id FROM db.many ORDER BY id LIMIT 1").collect()
    finally:
        lake.spark.conf.unset("spark.paimon.source.split.open-file-cost")


TRICKY = [
    ("SELECT c FROM (SELECT count(*) AS c FROM db.p) LIMIT 1", {(6,)}),
    ("SELECT id FROM (SELECT id FROM db.p ORDER BY id DESC) LIMIT 1", {(12,)}),
    ("SELECT count(*) FROM (SELECT DISTINCT name FROM db.p) LIMIT 1", {(2,)}),
    ("SELECT id FROM db.p WHERE name = 'O''Brien'", {(0,), (1,), (2,)}),
    ('SELECT id FROM db.p WHERE name IN ("O\'Brien", \'z\') AND id > 0', {(1,), (2,)}),
    ("SELECT id FROM db.p WHERE name = 'O' '\\'Brien' AND n = 1", {(1,)}),
    ("SELECT id FROM db.p WHERE log10(id) = 1", {(10,)}),
    ("SELECT n FROM db.p AS z(n, id, name) WHERE z.n = 12", {(12,)}),
    ("SELECT a.id FROM db.p a LEFT JOIN (db.p b JOIN db.p c ON b.id = c.id + 100) ON a.id = b.id WHERE c.id IS NULL AND a.id = 1",
     {(1,)}),
    ("FROM db.p |> WHERE n IS NOT NULL |> LIMIT 3 |> AGGREGATE count(*) AS c", {(3,)}),
    ("FROM db.p x |> WHERE x.n = 2 |> SELECT id", {(2,)}),
    ("SELECT count(*) FROM db.p TABLESAMPLE (3 ROWS)", {(3,)}),
    ("SELECT v FROM db.p UNPIVOT (v FOR name2 IN (id, n)) WHERE name2 = 'n' AND v = 2", {(2,)}),
    ("SELECT id FROM db.p WHERE IDENTIFIER('n') = 2", {(2,)}),
    ("SELECT /*+ BROADCAST(p) */ p.id FROM db.p WHERE p.n = 2", {(2,)}),
]  # fmt: skip


def test_what_is_easily_pushed_to_the_wrong_place(classic: Lake) -> None:
    """Over three files of two partitions each; the answers are Spark's."""
    classic.sql("CREATE TABLE db.p (id BIGINT, name STRING, n INT)")
    for i in range(3):
        classic.sql(f"INSERT INTO db.p VALUES ({i}, 'O''Brien', {i}), ({i + 10}, 'x', NULL)")
    for statement, expected in TRICKY:
        assert rows(classic, statement) == expected, statement


def test_files_of_a_folder_are_sparks(classic: Lake, tmp_path: Path) -> None:
    folder = str(tmp_path / "files")
    classic.sql("SELECT 3 AS n").write.parquet(folder)
    assert [tuple(row) for row in classic.sql(f"SELECT * FROM parquet.`{folder}`").collect()] == [(3,)]


def test_values_are_parsed_only_where_they_name_tables(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    classic.sql("CREATE TABLE kept (id INT, name STRING)")
    parsed: list[str] = []
    real = tree.parse
    monkeypatch.setattr(tree, "parse", lambda text: parsed.append(text) or real(text))
    classic.sql("INSERT INTO kept VALUES (1, 'from a table'), (2, substr('|b', 2))")
    assert parsed == []
    for statement, expected in {
        "VALUES (3, 'c') UNION ALL TABLE kept": 3,
        "VALUES (1, 'x') |> UNION ALL (SELECT * FROM kept)": 3,
        "values (1, 'x') union all (from kept)": 3,
    }.items():
        assert classic.sql(statement).count() == expected


@contextmanager
def settings(lake: Lake, given: dict[str, str]) -> Iterator[None]:
    conf = lake.spark.conf
    before = {key: conf.get(key, None) for key in given}
    for key, value in given.items():
        conf.set(key, value)
    yield
    for key, kept in before.items():
        conf.unset(key) if kept is None else conf.set(key, kept)


VARIABLES = {"day": "b", "hivevar:n": "x", "n": "3", "column": "day", "table": "db.orders", "twice": "${spark:day}"}


def test_variables_stand_for_their_values(shop: Lake) -> None:
    """As in Spark, whose parser fills them in first, in literals too: what is pruned by a text is what is evaluated."""
    table = shop.table("orders")
    with settings(shop, VARIABLES):
        assert rows(shop, "SELECT id FROM orders WHERE day = '${day}'") == {(3,)}
        assert rows(shop, "SELECT count(*) FROM ${table} WHERE ${column} = '${twice}'") == {(1,)}
        assert rows(shop, "SELECT '${nobody}', '${other:x}', '${env:NO_SUCH}' FROM orders WHERE id = ${hivevar:n}") == {
            ("", "${other:x}", "${env:NO_SUCH}")
        }
        frame = table.read(where="day = '${day}'")
        assert [row.id for row in frame.collect()] == [3]
        table.update({"total": "${n}"}, where="day = '${day}'")
        assert rows(shop, "SELECT total FROM orders WHERE id = 3") == {(Decimal("3.00"),)}
        source = shop.spark.sql("SELECT 3L AS id")
        merge = table.merge(source, "orders.id = source.id AND orders.day = '${day}'").whenMatched()
        merge.update({"customer": "${n}"}).merge()
        assert rows(shop, "SELECT customer FROM orders WHERE id = 3") == {(3,)}
        shop.sql("INSERT INTO orders PARTITION (day = '${day}') VALUES (7, ${n}, 1)")
        shop.sql("DELETE FROM orders WHERE day = '${day}' AND id = 3")
        assert rows(shop, "SELECT id FROM orders WHERE day = 'b'") == {(7,)}
        with settings(shop, {"spark.sql.variable.substitute": "false"}):
            assert rows(shop, "SELECT id FROM orders WHERE day = '${day}'") == set()


def test_values_are_no_variables(shop: Lake) -> None:
    table = shop.table("customers")
    with settings(shop, {"v": "ann"}):
        shop.sql("INSERT INTO customers VALUES (1, :v)", {"v": "${v}"})
        assert rows(shop, "SELECT id FROM customers WHERE name = :v", {"v": "${v}"}) == {(1,)}
        table.delete(F.col("name") == "${v}")
        assert rows(shop, "SELECT id FROM customers") == {(10,), (11,)}
        with pytest.raises(InvalidError, match="refers to itself"), settings(shop, {"a": "${b}", "b": "${a}"}):
            shop.sql("SELECT '${a}'")


def test_backslashes_are_letters_where_the_session_says_so(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.e (s STRING, n INT) PARTITIONED BY (s)")
    lake.sql(r"INSERT INTO db.e VALUES ('a\\b', 1), ('a\\\\b', 2)")
    with settings(lake, {"spark.sql.parser.escapedStringLiterals": "true"}):
        assert rows(lake, r"SELECT n FROM db.e WHERE s = 'a\\b'") == {(2,)}
        assert [row.n for row in lake.table("db.e").read(where=r"s = 'a\\b'").collect()] == [2]
        lake.sql(r"DELETE FROM db.e WHERE s = 'a\\b'")
    assert rows(lake, "SELECT n FROM db.e") == {(1,)}


def test_quotes_in_values_where_literals_have_no_escapes(lake: Lake) -> None:
    """There a doubled quote is two, and nothing that stands in a literal is one quote."""
    lake.sql("CREATE TABLE db.q (s STRING, n INT) PARTITIONED BY (s)")
    table = lake.table("db.q")
    table.write(lake.spark.createDataFrame([("it's", 1), ("it''s", 2), ("a\\b", 3), ("a\\\\b", 4)], "s string, n int"))

    def found(where: Any) -> list[int]:
        return sorted(row.n for row in table.read(where=where).collect())

    with settings(lake, {"spark.sql.parser.escapedStringLiterals": "true"}):
        assert rows(lake, "SELECT n FROM db.q WHERE s = 'it''s'") == {(2,)}
        assert [found("s = 'it''s'"), found(Compare("s", "=", "it's")), found(F.col("s") == "a\\b")] == [[2], [1], [3]]
        with pytest.raises(UnsupportedError, match="escapedStringLiterals"):
            lake.sql("DELETE FROM db.q WHERE s = :s", {"s": "it's"})
        table.delete(F.col("s") == "it's")
        lake.sql("DELETE FROM db.q WHERE s = 'it''s' OR n = :n", {"n": 4})
    assert found(None) == [3]


@pytest.mark.parametrize("setting", ["parser.escapedStringLiterals", "legacy.consecutiveStringLiterals.enabled"])
def test_statements_that_spark_never_sees_refuse_literals_of_other_settings(lake: Lake, setting: str) -> None:
    """A partition that is named by one goes with all its rows."""
    lake.sql("CREATE TABLE db.p (s STRING, n INT) PARTITIONED BY (s)")
    lake.table("db.p").write(lake.spark.createDataFrame([("it's", 1), ("it''s", 2), ("its", 3)], "s string, n int"))
    with settings(lake, {f"spark.sql.{setting}": "true"}):
        for text in (
            "ALTER TABLE db.p DROP PARTITION (s = 'it''s')",
            "CALL sys.drop_partition(table => 'db.p', partitions => 's=it''s')",
            "INSERT INTO db.p REPLACE WHERE s = 'it''s' SELECT 'x', 1 WHERE false",
            "CREATE TABLE db.made (s STRING DEFAULT 'it''s')",
            "REPLACE TABLE db.p TBLPROPERTIES ('a' = 'it''s') AS SELECT 1 AS n",
        ):
            with pytest.raises(UnsupportedError, match=setting):
                lake.sql(text)
        lake.sql("ALTER TABLE db.p SET TBLPROPERTIES ('a' = '')")
        lake.sql("CREATE TABLE db.made TBLPROPERTIES ('a' = 'b') AS SELECT 'it''s' AS s")  # the query is Spark's
        assert rows(lake, "SELECT s FROM db.made") == rows(lake, "SELECT 'it''s'")
    assert rows(lake, "SELECT n FROM db.p") == {(1,), (2,), (3,)}


def test_identifiers_in_double_quotes_are_no_text(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.d (s STRING, a STRING, n INT) PARTITIONED BY (s)")
    lake.sql("INSERT INTO db.d VALUES ('a', 'x', 1), ('x', 'x', 2)")
    with settings(lake, {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}):
        assert [row.n for row in lake.table("db.d").read(where='s = "a"').collect()] == [2]


def test_a_long_list_is_a_set_before_rows_of_the_driver_are_compared_with_it(classic: Lake) -> None:
    """Spark works filters of rows in its plan out first: each row against each value, minutes for 100,000 of both."""
    classic.sql("CREATE TABLE db.listed (k INT, v INT)")
    classic.table("db.listed").write(
        classic.spark.range(3000).selectExpr("CAST(id AS INT) AS k", "CAST(id AS INT) AS v")
    )
    for form, count in (("k IN ({})", 1000), ("k NOT IN ({})", 2000), ("v > 5 AND k IN ({})", 998)):
        for many in (False, True):
            listed = ", ".join(str(3 * number) for number in range(1000 if many else 5))
            found = classic.sql(f"SELECT k FROM db.listed WHERE {form.format(listed)}")
            plan = found._jdf.queryExecution().optimizedPlan().toString()
            assert ("Repartition" in plan) is many, plan
            if many:
                assert found.count() == count
