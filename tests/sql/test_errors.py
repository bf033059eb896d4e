"""Errors speak of the user's text: line, column and caret there, no made names, no plans, the nearest names."""

from __future__ import annotations

import pandas as pd
import pyspark
import pytest
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    NumberFormatException,
    ParseException,
    SparkRuntimeException,
    StreamingQueryException,
)

from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    ConflictError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)
from bucketlake.spark import faults
from bucketlake.spark.raised import StatementError, StatementSyntaxError, of_query
from bucketlake.spark.session import Lake
from bucketlake.sql.query.retold import with_condition
from bucketlake.sql.text import habits

OLDEST = pyspark.__version__.startswith("4.1.")  # says less of names of three parts
VIEW = "_pyspark_0123456789abcdef0123456789abcdef"


def test_messages_lose_what_the_user_did_not_write() -> None:
    plan = f"'Project ['nam]\n+- SubqueryAlias {VIEW}\n"
    told = faults.read_message(
        f"[X] `nam` is not there. SQLSTATE: 42703; line 2 pos 7;\n{plan}\n\nJVM stacktrace:\norg.x"
    )
    assert told == faults.Told("[X] `nam` is not there. SQLSTATE: 42703", 2, 7)
    assert faults.read_message(f"[X] wrong. SQLSTATE: 42803;\n{plan}") == faults.Told("[X] wrong. SQLSTATE: 42803")
    sql = f"SELECT 1 FROM {VIEW} AS `t` WHERE"
    told = faults.read_message(
        f"\n[P] at end. SQLSTATE: 42601 (line 1, pos {len(sql)})\n\n== SQL ==\n{sql}\n{'-' * 9}^^^\n"
    )
    assert (told.what, told.position, (told.text or "").strip()) == ("[P] at end. SQLSTATE: 42601", len(sql), sql)
    assert faults.read_message(f"no {VIEW} AS `t` here, nor {VIEW}").what == "no `t` here, nor the table"


def test_names_missing_or_taken_are_told_with_sparks_condition() -> None:
    error = NotFoundError("no such table", table="db.a`b", remedy="create it first")
    for _ in range(2):
        with_condition(error, "DROP TABLE db.`a``b`")
        assert str(error) == (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `db`.`a``b` cannot be found: "
            "no such table [table=db.a`b]: create it first"
        )
    other = NotFoundError("no such tag", tag="t")
    with_condition(other, "")
    assert str(other) == "no such tag [tag=t]"


def test_pieces_are_found_in_the_users_text() -> None:
    own, read = "SELECT a FROM db.t JOIN x ON a = b", f"SELECT a FROM {VIEW} AS `t` JOIN x ON a = b"
    second = read.rindex("a =")
    assert faults.place_of(own, "a", 7, read) == 7
    assert faults.place_of(own, "a", second, read) == own.rindex("a =")
    assert faults.place_of(own, "b", read.rindex("b"), read) == len(own) - 1
    assert faults.place_of("DELETE FROM t WHERE a = a", "a", 40, "SELECT a AS a, b FROM t WHERE (a = a)") is None
    assert faults.place_of(own, "nothing", 3, read) is None
    assert faults.place_of("SELECT 1 FROM ; ", "", 30, read[:20]) == len("SELECT 1 FROM")
    assert faults.pointed("a\n\tbc d", 3, 2) == "line 2, column 2:\n\tbc d\n\t^^"


CASES = {
    "SELECT id,\n  nme FROM db.t": ("UNRESOLVED_COLUMN", "nme", "`name`"),
    "SELECT 1 FROM db.t AS a, db.t AS b WHERE name = 1": ("AMBIGUOUS_REFERENCE", "name", "`a`.`name`"),
    "SELECT x.id FROM db.t": ("UNRESOLVED_COLUMN", "x.id", "`t`.`id`"),
    "SELECT * FROM (SELECT 1) q JOIN db.t ON q.one = nope": ("UNRESOLVED_COLUMN", "q.one", ""),
    "INSERT INTO db.t SELECT id, nme FROM db.t": ("UNRESOLVED_COLUMN", "nme", "`name`"),
    "UPDATE db.t SET name = nme WHERE id = 1": ("UNRESOLVED_COLUMN", "nme", "`name`"),
    "DELETE FROM db.t WHERE idd = 1": ("UNRESOLVED_COLUMN", "idd", "`id`"),
    "MERGE INTO db.t USING (SELECT 1 AS k) s ON t.idd = s.k WHEN MATCHED THEN DELETE": (
        "UNRESOLVED_COLUMN",
        "t.idd",
        "`t`.`id`",
    ),
    "SELECT id FROM db.t WHERE = 1": ("PARSE_SYNTAX_ERROR", "=", ""),
    "DELETE FROM db.t WHERE id = = 1": ("PARSE_SYNTAX_ERROR", "= 1", ""),
    "DELETE FROM db.t WHERE id = 1 WORD": ("PARSE_SYNTAX_ERROR", "WORD", ""),
    "DELETE FROM db.t WHERE id IN (1) WORD": ("PARSE_SYNTAX_ERROR", "WORD", ""),
    "UPDATE db.t SET name = 'b' WORD WHERE id = 1": ("PARSE_SYNTAX_ERROR", "WORD", ""),
    "MERGE INTO db.t USING db.t s ON t.id = s.id WORD WHEN MATCHED THEN DELETE": ("PARSE_SYNTAX_ERROR", "WORD", ""),
    "MERGE INTO db.t USING db.t s ON t.id = s.id WHEN MATCHED AND true AS x THEN DELETE": (
        "PARSE_SYNTAX_ERROR",
        "AS x",
        "",
    ),
    "MERGE INTO db.t USING db.t s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name WORD": (
        "PARSE_SYNTAX_ERROR",
        "WORD",
        "",
    ),
    "EXPLAIN UPDATE db.t SET name = 'b' WHERE id = 1 WORD": ("PARSE_SYNTAX_ERROR", "WORD", ""),
    "CREATE TEMPORARY VIEW v AS SELECT nme FROM db.t": ("UNRESOLVED_COLUMN", "nme", "`name`"),
}


def test_statements_are_pointed_at(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    lake.sql("INSERT INTO db.t VALUES (1, 'a')")
    for statement, (condition, piece, suggested) in CASES.items():
        with pytest.raises(AnalysisException) as raised:
            lake.sql(statement).collect()
        message = str(raised.value)
        assert isinstance(raised.value, StatementError), statement
        assert str(raised.value.getCondition()).startswith(condition), statement
        assert isinstance(raised.value, ParseException) == (condition == "PARSE_SYNTAX_ERROR")
        assert "_pyspark" not in message
        assert "SubqueryAlias" not in message
        assert suggested in message, statement
        place = statement.rindex(piece)
        line, column = statement.count("\n", 0, place) + 1, place - (statement.rfind("\n", 0, place) + 1) + 1
        assert raised.value.place == place, statement
        assert f"line {line}, column {column}:\n{statement.splitlines()[line - 1]}\n" in message, message
    for statement, near in (
        ("SELECT * FROM db.tt", "'t'"),
        ("SELECT * FROM t", "'db.t'"),
        ("DROP TABLE t", "'db.t'"),
        ("UPDATE db.t SET nam = 1", "'name'"),
        ("INSERT INTO db.t (id, nme) VALUES (1, 'x')", "'name'"),
        ("ALTER TABLE db.t DROP COLUMN nme", "'name'"),
        ("CALL sys.compat('db.t')", "compact"),
        ("SELECT * FROM db.`t$snapshot`", "$snapshots"),
    ):
        with pytest.raises(BucketlakeError, match="did you mean") as known:
            lake.sql(statement)
        assert near in str(known.value), statement
    lake.spark.range(1).createOrReplaceTempView("some_numbers")
    with pytest.raises(NotFoundError, match="did you mean 'some_numbers'"):
        lake.sql("SELECT * FROM some_nubmers")
    lake.spark.catalog.dropTempView("some_numbers")
    with pytest.raises(StatementError) as raised:
        lake.table("db.t").merge(lake.spark.range(1), "t.id = source.idd").whenMatched().delete().merge()
    assert "`source`.`id`" in str(raised.value)
    assert "__bucketlake" not in str(raised.value)
    for call in (  # to Spark a name of the column
        lambda table: table.update({"name": "'b' WORD"}, "id = 1"),
        lambda table: table.merge(table.read(), "t.id = source.id WORD").whenMatched().delete().merge(),
    ):
        with pytest.raises(StatementSyntaxError):
            call(lake.table("db.t"))
    with pytest.raises(InvalidError, match="cannot parse the value"):
        lake.table("db.t").update({"name": "'b') || ('c'"}, "id = 1")
    assert [tuple(row) for row in lake.read_table("db.t").collect()] == [(1, "a")]
    for statement, remedy in (
        ("CALL compact('db.t')", r"CALL sys\.compact"),
        ("DESCRIBE HISTORY db.t", r"SELECT \* FROM db\.`t\$snapshots`"),
        ("DESC HISTORY t", r"SELECT \* FROM `t\$snapshots`"),
        ("DESCRIBE DETAIL db.t", r"DESCRIBE EXTENDED db\.t"),
        ("SHOW TABELS", "did you mean TABLES"),
        ("SHOW TABLE", "SHOW TABLES"),
        ("SELCT * FROM db.t", "did you mean SELECT"),
        ("SELECT * FORM db.t", "did you mean FROM"),
        ("SELECT * FROM db.t WHRE id = 1", "did you mean WHERE"),
        ("SELECT count(*) FROM db.t GRUOP BY id", "did you mean GROUP"),
        ("SELECT * FROM db.t /*+ OPTION('scan.snapshot-id' = '1') */", r"/\*\+ OPTIONS\('key'"),
        ("SELECT * FROM db.tt /*+ OPTIONS('scan.snapshot-id' = '1') */ x", r"`tt` cannot be found.*did you mean 't'"),
        ("SELECT * FROM range(3) /*+ OPTIONS('scan.snapshot-id' = '1') */", "an OPTIONS hint follows no lake table"),
        ("INSERT INTO hive.db.t VALUES (1, 'a')", r"no such catalog \[name=hive\.db\.t\]"),
        ("DELETE FROM hive.db.t WHERE id = 1", r"no such catalog \[name=hive\.db\.t\]"),
        ("SELECT ARRAY['a', 'b'], MAP['a', 1] FROM db.t", r"do: array\(1, 2\)"),
        ("SELECT * FROM vector_search('db.t', 'e', array(0.1f), 10)", "do: vector and full-text indexes are not"),
        ("CREATE CATALOG c WITH ('type' = 'paimon')", r"do: bucketlake\.connect"),
        ("ALTER FUNCTION db.f AS 'x' LANGUAGE JAVA", "do: functions are kept by no catalog"),
        ("ALTER TABLE db.t ADD PRIMARY KEY (id)", "REPLACE TABLE gives"),
        ("CALL system.rewrite_data_files('db.t')", r"do: procedures of the lake are in sys: CALL sys\.help\(\)"),
        ("SELECT * FROM read_csv('a.csv')", "do: rows of a file are csv"),
        ("INSERT INTO db.t VALEUS (1, 'a')", "did you mean VALUES"),
        ("CREATE TABEL db.u (id INT)", "did you mean TABLE"),
        ("UPDAET db.t SET id = 1", "did you mean UPDATE"),
        ("EXPLAIN TRUNCATE TABLE db.t", "EXPLAIN takes queries, INSERT"),
        ("EXPLAIN CREATE TABLE db.u (id INT)", "EXPLAIN takes queries, INSERT"),
        ("EXPLAIN FROM db.t INSERT INTO db.t SELECT * INSERT INTO db.t SELECT *", "EXPLAIN each of them by itself"),
        ("INSERT INTO db.`t$snapshots` VALUES (1)", "please use data table"),
        (" ;", "there is none in the text"),
        ("CALL sys.create_tag('db.t', 'x', 99)", "snapshots of the table: 1 to 1"),
        ("CALL sys.fast_forward('db.t', 'none')", "branches: none"),
        ("SHOW PARTITIONS db.t", r"is not partitioned\.$"),
        ("ALTER TABLE db.t ADD COLUMN n INT NOT NULL", r"in the db.t table\. do: leave NOT NULL out"),
        ("SELECT 1 AS a, 'abc", "line=1, column=16, near='abc.: close the literal"),
        ("SELECT 'x' AS a, X'0g'", "line=1, column=18, near=X'0g'.: write bytes as X'1F'"),
        ("SELECT /* 'a' */ 1 -- it's\n, \"b", 'line=2, column=3, near="b.: close the literal'),
    ):
        with pytest.raises(BucketlakeError, match=remedy):
            lake.sql(statement)
    for statement in ("INSRT INTO db.t VALUES (1, 'a')", "MERG INTO db.t USING db.t s ON 1 = 1", "DROPP TABLE db.t"):
        with pytest.raises(StatementSyntaxError, match=r"line 1, column 1:\n.*\n\^+\n\ndo: did you mean [A-Z]+\?"):
            lake.sql(statement)
    with pytest.raises(InvalidError, match="did you mean 'name'"):
        lake.catalog.table("db.t").to_arrow(where="nme = 1")


def test_what_other_engines_say_is_told_as_it_is_said_here() -> None:
    for text, place, told in (
        ("CREATE TABLE x (id INT GENERATED ALWAYS AS IDENTITY)", "GENERATED", "leave it out"),
        ("CREATE TABLE x (id INT) CLUSTERED BY (id) INTO 4 BUCKETS", "CLUSTERED", "'bucket-key'"),
        ("CREATE TABLE x (id INT) CLUSTER BY (id)", "CLUSTER", "'clustering.columns'"),
        ("CREATE TABLE my-table (id INT)", "-table", "`my-table`"),
        ('CREATE TABLE "t" (id INT)', '"t', "backticks"),
        ("CREATE TABLE x (id INT) ENGINE=InnoDB", "ENGINE", "'file.format'"),
        ("ALTER TABLE t SET OPTIONS ('a' = 'b')", "SET", "SET TBLPROPERTIES"),
        ("ALTER TABLE t COMPACT", "COMPACT", "CALL sys.compact"),
        ("SELECT a, b, FROM t", "", "leave out the comma"),
        ("SHOW CREATE t", "t", "SHOW CREATE TABLE t"),
        ("EXPLAIN PLAN FOR SELECT 1", "PLAN", "EXPLAIN SELECT"),
        ("CREATE TABLE x (id INT) PARTITION BY (id)", "PARTITION", "PARTITIONED BY (a_column)"),
        ("ALTER TABLE t EXECUTE expire_snapshots", "EXECUTE", "CALL sys.help()"),
        ("ALTER TABLE t WRITE ORDERED BY a", "WRITE", "order_by"),
        ("ALTER TABLE t CREATE BRANCH b", "CREATE", "CALL sys.create_branch"),
        ("SELECT * FROM t LIMIT 1,2", ",2", "OFFSET"),
        ("SHOW TABLE t", "t", "DESCRIBE t"),
        ("SHOW COLUMNS t", "t", "SHOW COLUMNS IN t"),
        ("DELETE t WHERE id = 1", "t WHERE", "DELETE FROM t"),
        ("INSERT t VALUES (1)", "t VALUES", "INSERT INTO t"),
        ("TRUNCATE t", "TRUNCATE", "TRUNCATE TABLE t"),
        ("ANALYZE TABLE t", "", "COMPUTE STATISTICS"),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED UPDATE SET *", "UPDATE", "WHEN MATCHED THEN"),
        ("GRANT SELECT ON t TO bob", "GRANT", "the storage says who"),
    ):
        assert told in (habits.remedy(text, text.rindex(place) if place else len(text)) or ""), text
    for text, place in (  # a type, and names of tables that are near to keywords
        ("CREATE TABLE x (id INT", ""),
        ("CREATE TABLE orders id INT", "id INT"),
        ("DROP TABLE db.orders now", "now"),
    ):
        assert habits.remedy(text, text.rindex(place) if place else len(text)) is None, text


def test_what_ended_a_stream_is_told_without_traces() -> None:
    head = "[STREAM_FAILED] Query [id = 6, runId = 7] terminated with exception: "
    tail = " SQLSTATE: 39000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: x\n"
    trace = 'Traceback (most recent call last):\n  File "a.py", line 6, in f\n    g()\n    ^^^\n'
    in_batch = f"{head}[FOREACH_BATCH_USER_FUNCTION_ERROR] Reason: Return Message: {trace}"
    own = f"{in_batch}bucketlake.errors.ConflictError: lost [table=db.t]: try again\n{tail}"
    found = of_query(StreamingQueryException(own))
    assert isinstance(found, ConflictError) and isinstance(found, StreamingQueryException)
    assert str(found) == "lost [table=db.t]: try again"
    assert (found.what, found.remedy) == ("lost [table=db.t]", "try again")
    twice = f"{in_batch}KeyError: 'a'\n\nDuring handling of the above exception:\n\n{trace}ValueError: b\nc\n{tail}"
    assert str(of_query(StreamingQueryException(twice))) == "the query has ended [reason=ValueError: b\nc]"
    spark = of_query(StreamingQueryException(f"{head}Path is gone.{tail}"))
    assert str(spark) == "the query has ended [reason=Path is gone.]"
    assert of_query(ValueError("x")) is None


def test_names_that_are_missing_are_told_as_the_statement_has_them(classic: Lake) -> None:
    """As Spark tells them, and Apache Paimon's users know them."""
    lake = classic
    lake.sql("USE db")
    lake.sql("CREATE TABLE s (a INT)")
    lake.sql("CREATE TABLE t (a INT)")
    for statement, said in (
        ("ALTER TABLE u RENAME TO v", "view `u` cannot be found"),
        ("INSERT INTO u VALUES (1)", "view `u` cannot be found"),
        ("DROP TABLE db.u", "view `db`.`u` cannot be found"),
        ("DELETE FROM `db`.`u` WHERE id = 1", "view `db`.`u` cannot be found"),
        ("CREATE TABLE u (a INT) PARTITIONED BY (d)", "Couldn't find column d"),
        ("ALTER TABLE s RENAME TO t", "Cannot create table or view db.t because it already exists"),
        ("CREATE TABLE t (a INT)", "Cannot create table or view `db`.`t` because it already exists"),
    ):
        with pytest.raises(BucketlakeError, match=said):
            lake.sql(statement)


def test_statements_of_other_engines_have_a_remedy(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id')")
    lake.sql("USE db")
    for statement, remedy in (
        ("CREATE INDEX i ON t (name)", "file-index.bloom-filter.columns"),
        ("DROP INDEX i ON t", "UNSET TBLPROPERTIES"),  # it was "a table … found where the statement itself names it"
        ("DROP INDEX IF EXISTS i ON TABLE db.t", "sys.drop_global_index"),
        ("DROP INDEX i ON nope", "existing tables: t"),
        ("CREATE TABLE spark_catalog.default.q LIKE t", "AS SELECT * FROM db.t LIMIT 0"),  # a syntax error near 'AS'
        ("CREATE TABLE IF NOT EXISTS spark_catalog.default.q LIKE db.t USING parquet", "SELECT * FROM db.t LIMIT 0"),
        ("CREATE TABLE spark_catalog.default.q (a INT) USING paimon", "do: USING paimon, for a name of the lake"),
        ("CREATE TEMPORARY VIEW q USING nothing_such", "[DATA_SOURCE_NOT_FOUND]"),  # these were Py4JJavaError
        ("SHOW SNAPSHOTS FROM t", "SELECT * FROM `t$snapshots`"),
        ("SHOW BRANCHES t", "SELECT * FROM `t$branches`"),
        ("SHOW CREATE VIEW t", "SHOW CREATE TABLE"),
        ("SHOW PROCEDURES", "CALL sys.help()"),
        ("SELECT * FROM t.snapshots", "'db.t$snapshots'"),
        ("SELECT * FROM db.t.snapshots", "write db.table" if OLDEST else "'db.t$snapshots'"),
        ("SELECT * FROM t.snapshot", "'db.t$snapshots'"),
        ("SELECT * FROM `tt$snapshots`", "'t$snapshots'"),
        ("SELECT [name] FROM t", "backticks"),
        ("SELECT * FROM t@v1", "VERSION AS OF"),
        ("SELECT * FROM {nope}", "df=frame"),
        ("SELECT * FROM 'a.csv'", "csv.`path`"),
        ("SELECT TOP 3 * FROM t", "LIMIT"),
        ("SELECT * FROM t WHERE id = :k", "args={'name': value}"),
        ("\\d t", "DESCRIBE t"),
        ("BEGIN", "a commit of its own"),
        ("COMMIT", "a commit of its own"),
        ("UPSERT INTO t VALUES (1, 'a')", "is an upsert"),
        ("REPLACE INTO t VALUES (1, 'a')", "is an upsert"),
        ("INSERT INTO t VALUES (1, 'a') ON CONFLICT DO NOTHING", "is an upsert"),
        ("COPY INTO t FROM 'x'", "FILE_FORMAT = (TYPE = CSV)"),
        ("CREATE TABLE u (id INT, name TEXT)", "write STRING"),
        ("CREATE TABLE u (id INT, name STRNG)", "'STRING'"),
        ("CREATE TABLE u (id INT, name VARCHAR)", "write VARCHAR(20), or STRING"),
        ("ALTER TABLE t ADD COLUMN name2 CHAR", "write CHAR(20), or STRING"),
        ("ALTER TABLE t MODIFY COLUMN name VARCHAR(20)", "ALTER COLUMN c TYPE"),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM t", "CREATE TABLE t AS SELECT"),
        ("REFRESH MATERIALIZED VIEW v", "INSERT OVERWRITE t"),
        ("SELECT FROM t", "[UNRESOLVED_COLUMN.WITHOUT_SUGGESTION]"),
        ("SELECT name LIKE FROM t", "[UNRESOLVED_COLUMN.WITHOUT_SUGGESTION]"),
        ("SELECT id, FROM t", "[TRAILING_COMMA_IN_SELECT]"),
        ("SELECT map(id) FROM t", "[WRONG_NUM_ARGS"),
        ("DELETE FROM t WHERE map(id) IS NULL", "[WRONG_NUM_ARGS"),
        ("INSERT INTO t DROP TABLE t", "INSERT needs a query"),
        ("INSERT INTO t (id) SET id = 1", "INSERT needs a query"),
        ("CREATE TABLE u AS DROP TABLE t", "CREATE TABLE … AS needs a query"),
        ("CREATE TEMPORARY VIEW u AS DROP TABLE t", "CREATE VIEW … AS needs a query"),
        ("CACHE TABLE u AS DROP TABLE t", "CACHE TABLE … AS needs a query"),
    ):
        with pytest.raises((BucketlakeError, AnalysisException)) as raised:
            lake.sql(statement)
        assert remedy in str(raised.value), (statement, str(raised.value))
    assert lake.catalog.list_tables("db") == ["t"]
    refused = "[X] CREATE INDEX is not valid. SQLSTATE: 42601\n== SQL (line 1, position 1) ==\nCREATE INDEX i\n^^^^"
    assert faults.read_message(refused) == faults.Told("[X] CREATE INDEX is not valid. SQLSTATE: 42601", 1, 0)
    lake.sql("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(InvalidError, match=r"ask for a time from 20\d\d-\d\d-\d\d \d\d:"):
        lake.sql("SELECT * FROM t TIMESTAMP AS OF '2000-01-01'")


def test_explain_says_what_is_read(classic: Lake) -> None:
    classic.sql(
        "CREATE TABLE db.t (id INT, name STRING, p INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '1', 'write-only' = 'true')"
    )
    classic.sql("INSERT INTO db.t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    classic.sql("INSERT INTO db.t VALUES (1, 'x', 1)")
    for mode in ("", "EXTENDED "):
        plan = classic.sql(f"EXPLAIN {mode}SELECT name FROM db.t WHERE p = 1").collect()[0][0]
        assert "Physical Plan" in plan
        assert "_pyspark" not in plan
        assert "db.t: snapshot 2, columns name, p\n  partitions: 1 of 3\n  files: 2 of 4\n" in plan
        assert "  merged: 2 files in 1 splits\n" in plan


def test_what_fails_over_rows_names_the_users_tables(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT, name STRING)")
    classic.sql("INSERT INTO db.t VALUES (0, 'x')")
    for wrong, kind, what in (
        ("DROP TABLE db.u", NotFoundError, r"TABLE_OR_VIEW_NOT_FOUND.*`db`.`u` cannot be found: no such table"),
        (
            "CREATE TABLE db.t (id INT)",
            AlreadyExistsError,
            "TABLE_OR_VIEW_ALREADY_EXISTS.*already exists: table exists",
        ),
        ("CREATE DATABASE db", AlreadyExistsError, "Cannot create schema `db` because it already exists"),
        ("DROP DATABASE gone", NotFoundError, "SCHEMA_NOT_FOUND.*no such database"),
    ):
        with pytest.raises(kind, match=what):
            classic.sql(wrong)
    for statement in ("SELECT 1 / id FROM db.t", "WITH q AS (SELECT 1 / id AS a FROM db.t AS u) SELECT a FROM q"):
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as told:
            classic.sql(statement).collect()
        assert "_pyspark_" not in str(told.value)
        assert "FROM `db.t` AS " in str(told.value) or "..." in str(told.value)
    classic.sql("INSERT INTO db.t VALUES (1, 'y')")
    twice = "SELECT a.name, b.name, '{t0}' FROM db.t VERSION AS OF 1 a RIGHT JOIN db.t b ON a.id = b.id ORDER BY b.id"
    assert [tuple(row) for row in classic.sql(twice).collect()] == [("x", "x", "{t0}"), (None, "y", "{t0}")]
    assert not {view.viewName for view in classic.spark.sql("SHOW VIEWS").collect()} & {"db.t", "db.t (2)"}
    classic.spark.range(3).createOrReplaceTempView("`db.t`")  # the user's own of that name stays
    try:
        assert classic.sql("SELECT count(*) FROM (SELECT * FROM db.t WHERE id < 9)").collect()[0][0] == 2
        assert classic.sql("SELECT count(t.id) FROM db.t JOIN `db.t` v ON t.id = v.id").collect()[0][0] == 2
        assert classic.sql("SELECT count(*) FROM `db.t`").collect()[0][0] == 3
    finally:
        classic.spark.catalog.dropTempView("db.t")


def test_values_that_a_statement_cannot_use_are_told_of_its_own_text(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (id INT, name STRING, n INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    lake.sql("INSERT INTO db.t VALUES (1, 'a', 0)")
    for statement, kind, piece in (
        ("DELETE FROM db.t WHERE CAST(name AS INT) = 1", NumberFormatException, "CAST(name AS INT)"),
        ("UPDATE db.t SET n = CAST('abc' AS INT)", NumberFormatException, "CAST('abc' AS INT)"),
        ("UPDATE db.t SET n = 1 / n", ArithmeticException, "1 / n"),
    ):
        with pytest.raises(kind) as raised:
            lake.sql(statement)
        assert isinstance(raised.value, InvalidError)
        message, place = str(raised.value), statement.index(piece)
        assert message.endswith(f"line 1, column {place + 1}:\n{statement}\n{' ' * place}{'^' * len(piece)}"), message
        assert "== SQL" not in message
        with pytest.raises(kind, match=r"statement 2 of 2, line 2:"):
            lake.sql_script(f"SELECT 1;\n{statement}")
    lake.sql("INSERT INTO db.t VALUES (2, 'b', 0)")
    for statement in (
        "UPDATE db.t SET n = (SELECT id FROM db.t)",
        "DELETE FROM db.t WHERE id = (SELECT id FROM db.t)",
        "INSERT INTO db.t SELECT 3, 'c', (SELECT id FROM db.t)",
    ):
        with pytest.raises(InvalidError, match=r"\A\[SCALAR_SUBQUERY_TOO_MANY_ROWS\] More than one row") as raised:
            lake.sql(statement)
        assert raised.value.getCondition() == "SCALAR_SUBQUERY_TOO_MANY_ROWS"
        assert "\n" not in str(raised.value)
    lake.sql("DELETE FROM db.t WHERE id = 2")
    wrong = r"\A\[CAST_INVALID_INPUT\] value does not fit its column \[column=n, type=INT\]: b\Z"
    for call in (
        lambda: lake.sql("INSERT INTO db.t SELECT 1, 'a', 'b'"),
        lambda: lake.sql("UPDATE db.t SET n = 'b'"),
        lambda: lake.table("db.t").update({"n": "'b'"}),
        lambda: lake.table("db.t").write(lake.spark.sql("SELECT 1 AS id, 'b' AS n")),
        lambda: lake.write_table(lake.spark.sql("SELECT 1 AS id, 'b' AS n"), "db.t"),
    ):
        with pytest.raises(SparkRuntimeException, match=wrong) as raised:
            call()
        assert isinstance(raised.value, InvalidError)
        assert raised.value.getCondition() == "CAST_INVALID_INPUT"
    with pytest.raises(InvalidError, match="does not fit its column"):
        frame = lake.spark.sql("SELECT 1 AS id, 'b' AS n")
        lake.table("db.t").merge(frame, "t.id = source.id").whenMatched().update({"n": "source.n"}).merge()
    assert [tuple(row) for row in lake.sql("SELECT * FROM db.t").collect()] == [(1, "a", 0)]


def test_expressions_of_calls_that_are_not_understood_are_told_without_plans(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    classic.sql("INSERT INTO db.t VALUES (1, 'a')")
    table = classic.table("db.t")
    with pytest.raises(
        AnalysisException, match=r"(?s)`nme` cannot be resolved.*`name`.*a text stands in quotes"
    ) as raised:
        table.update({"name": "nme"}, "id = 1")
    assert isinstance(raised.value, InvalidError)
    assert "Project" not in str(raised.value)
    with pytest.raises(InvalidError, match=r"an update takes column → expression \[given=str\]"):
        table.update("id = 1", {"name": "'b'"})  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match=r"no value for a column \[given=dict, column=id\].*or a Column"):
        table.update({"ID": {"a": 2.5}}, "name = 'a'")
    with pytest.raises(InvalidError, match=r"neither SQL text nor a Column \[given=bool\]"):
        table.merge([{"id": 1}], True).whenMatched().delete().merge()  # type: ignore[arg-type]
    merge = table.merge([{"id": 1}], "t.id = source.id").whenMatched().update({"name": "nme"})
    with pytest.raises(AnalysisException, match=r"(?s)`nme` cannot be resolved.*a text stands in quotes"):
        merge.merge()
    merge = table.merge([{"id": 1}], "t.id = source.id").whenMatched().update({"name": [2.5]})
    assert repr(merge) == "MergeBuilder('t', on='t.id = source.id', 1 clause: merge() does it)"
    with pytest.raises(InvalidError, match=r"no value for a column \[given=list, column=name\]"):
        merge.merge()
    stream = classic.spark.readStream.format("rate").load().selectExpr("1 AS id", "'b' AS name")
    with pytest.raises(InvalidError, match=r"(?s)streaming sources.*do: write_stream\(\) writes a stream"):
        table.write(stream)
    for nothing, message in (
        (pd.DataFrame(), "columns nobody knows"),  # it became a table with a column id
        (pd.DataFrame(index=[0, 1]), "columns nobody knows"),
        (classic.sql("SELECT 1 AS a").drop("a"), "table has no columns"),
    ):
        with pytest.raises(InvalidError, match=message):
            classic.write_table(nothing, "db.nothing")
    with pytest.raises(UnsupportedError, match="void.*column=n.*no value says its type"):
        classic.write_table([{"id": 1, "n": None}], "db.nothing")
    assert not classic.catalog.table_exists("db.nothing")
    assert classic.sql("SELECT * FROM db.t").collect() == [(1, "a")]


def test_the_nearest_function_is_named(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT, name STRING)")
    for call, near in (
        ("SELECT upperr(name) FROM db.t", "'upper'"),
        ("SELECT sys.buckt(4, id) FROM db.t", "'sys.bucket'"),
        ("SELECT * FROM paimon_incremental_qury('db.t', 1, 2)", "'paimon_incremental_query'"),
        ("SELECT * FROM table_changes('db.t', 1, 2)", "paimon_incremental_query('table', startSnapshotId"),
        ("DELETE FROM db.t WHERE uppr(name) = 'A'", "'upper'"),
    ):
        with pytest.raises(StatementError) as raised:
            classic.sql(call)
        assert near in str(raised.value), str(raised.value)


def test_a_table_that_is_written_again_by_other_words(classic: Lake) -> None:
    frame = classic.spark.sql("SELECT 1 AS id, 2 AS day, 'a' AS name")
    made = {"primary_key": ["day", "id"], "partition_by": "day"}
    classic.write_table(frame, "db.t", **made)
    assert classic.write_table(frame, "db.t", **made) is not None
    for call, message in (
        ({"primary_key": "id"}, r"another primary_key \[.*has=\['day', 'id'\]\]: leave primary_key out"),
        ({"partition_by": "name"}, r"another partition_by \[.*has=\['day'\]\]: leave partition_by out"),
        ({"mode": "upsert"}, "append: in a table with a primary key it upserts"),
        ({"bucket": 4}, "Cannot change bucket when it is -1.*write the rows to a new table"),
    ):
        with pytest.raises(InvalidError, match=message):
            classic.write_table(frame, "db.t", **call)


def test_columns_that_a_query_does_not_name_are_suggested(classic: Lake) -> None:
    """Though they are not read for it."""
    classic.sql("CREATE TABLE db.t (id INT, name STRING)")
    for query in ("SELECT nme FROM db.t WHERE id = 1", "SELECT count(*) FROM db.t x JOIN db.t y USING (id, nme)"):
        with pytest.raises(StatementError, match="`name`"):
            classic.sql(query)


MERGE = "MERGE INTO db.t USING (VALUES (1), (1)) AS s (k) ON t.id = s.k WHEN MATCHED THEN UPDATE SET n = 2"
BY_TASKS = "INSERT INTO db.t SELECT id, repeat('a', CAST(id DIV 8000 AS INT)), 1 FROM range(0, 40000, 1, 1)"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "condition", "state", "kind"),
    [
        ("INSERT INTO db.t VALUES (1, 'a', 1e10D)", "CAST_OVERFLOW_IN_TABLE_INSERT", "22003", ArithmeticException),
        ("UPDATE db.t SET n = 3000000000", "CAST_OVERFLOW_IN_TABLE_INSERT", "22003", ArithmeticException),
        ("INSERT INTO db.t VALUES (1, 'a', 'b')", "CAST_INVALID_INPUT", "22018", SparkRuntimeException),
        ("INSERT INTO db.t VALUES (1, 'abcd', 1)", "EXCEED_LIMIT_LENGTH", "54006", SparkRuntimeException),
        (BY_TASKS, "EXCEED_LIMIT_LENGTH", "54006", SparkRuntimeException),
        ("UPDATE db.t SET name = 'abcd'", "EXCEED_LIMIT_LENGTH", "54006", SparkRuntimeException),
        (MERGE, "MERGE_CARDINALITY_VIOLATION", "23K01", SparkRuntimeException),
    ],
)
def test_errors_of_rows_have_sparks_conditions(
    classic: Lake, statement: str, condition: str, state: str, kind: type[Exception]
) -> None:
    """As programs look for them: they were USER_RAISED_EXCEPTION, or had none, by whether tasks looked at the rows."""
    classic.sql("CREATE TABLE db.t (id INT, name VARCHAR(3), n INT)")
    classic.sql("INSERT INTO db.t VALUES (1, 'a', 0)")
    with pytest.raises(kind) as raised:
        classic.sql(statement)
    assert isinstance(raised.value, InvalidError)
    assert (raised.value.getCondition(), raised.value.getSqlState()) == (condition, state)
    assert str(raised.value).startswith(f"[{condition}] ")
    script = f"BEGIN DECLARE EXIT HANDLER FOR {condition} SELECT 'told' AS a; {statement}; END"
    assert classic.sql(script).collect()[0].a == "told"
    with pytest.raises(SparkRuntimeException) as raised:  # what a user says on purpose stays theirs
        classic.sql(f"INSERT INTO db.t SELECT 1, raise_error('[{condition}] mine'), 1")
    assert raised.value.getCondition() == "USER_RAISED_EXCEPTION"


UNFIT, ARITY = "INCOMPATIBLE_DATA_FOR_TABLE", "INSERT_COLUMN_ARITY_MISMATCH"
UNFIT_INSERTS = {
    "INSERT INTO db.t VALUES (1, 'p')": f"{ARITY}.NOT_ENOUGH_DATA_COLUMNS",
    "INSERT OVERWRITE db.t SELECT 1, NULL, 'p', 4": f"{ARITY}.TOO_MANY_DATA_COLUMNS",
    "INSERT INTO db.t (id, ID) VALUES (1, 2)": "COLUMN_ALREADY_EXISTS",
    "INSERT INTO db.t (id, nope) VALUES (1, 2)": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    "UPDATE db.t SET nope = 1": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    "INSERT INTO db.t PARTITION (id = 1) SELECT NULL, 'p'": "NON_PARTITION_COLUMN",
    "INSERT INTO db.t BY NAME SELECT 1 AS id, 2 AS nope": f"{UNFIT}.EXTRA_COLUMNS",
    "INSERT INTO db.t BY NAME SELECT 1 AS id, 2 AS ID": f"{UNFIT}.AMBIGUOUS_COLUMN_NAME",
    "INSERT INTO db.t VALUES (array(1), NULL, 'p')": f"{UNFIT}.CANNOT_SAFELY_CAST",
    "UPDATE db.t SET id = DATE'2020-01-01'": f"{UNFIT}.CANNOT_SAFELY_CAST",
    "INSERT INTO db.t SELECT 1, named_struct('m', 1), 'p'": f"{UNFIT}.STRUCT_MISSING_FIELDS",
    "INSERT INTO db.t SELECT 1, named_struct('m', 1, 'k', '', 'z', 2), 'p'": f"{UNFIT}.EXTRA_STRUCT_FIELDS",
    "INSERT INTO db.t VALUES (NULL, NULL, 'p')": "NOT_NULL_ASSERT_VIOLATION",
    "INSERT INTO db.t SELECT IF(id < 39999, id, NULL), NULL, 'p' FROM range(0, 40000, 1, 1)": "NOT_NULL_ASSERT_VIOLATION",
    "INSERT INTO db.t SELECT 1, named_struct('m', NULL, 'k', ''), 'p'": "NOT_NULL_ASSERT_VIOLATION",
    "INSERT INTO db.t (p) VALUES ('p')": "NOT_NULL_ASSERT_VIOLATION",
    "UPDATE db.t SET id = NULL": "NOT_NULL_ASSERT_VIOLATION",
}


@pytest.mark.spark
def test_rows_that_are_not_the_tables_have_sparks_conditions(classic: Lake) -> None:
    """Handlers of scripts, and programs, found none: what they look for is Spark's."""
    columns = "id INT NOT NULL, st STRUCT<m: INT NOT NULL, k: STRING>, p STRING"
    classic.sql(f"CREATE TABLE db.t ({columns}) PARTITIONED BY (p)")
    classic.sql("INSERT INTO db.t (id) VALUES (1)")  # a column of NOT NULL members that is left out is null itself
    for statement, condition in UNFIT_INSERTS.items():
        kind = SparkRuntimeException if condition.startswith("NOT_NULL") else AnalysisException
        with pytest.raises(kind) as raised:
            classic.sql(statement)
        assert isinstance(raised.value, InvalidError), statement
        assert raised.value.getCondition() == condition, statement
        assert len(raised.value.getSqlState()) == 5, statement
    handler = f"BEGIN DECLARE EXIT HANDLER FOR {ARITY} SELECT 'told' AS a; INSERT INTO db.t VALUES (1); END"
    assert classic.sql(handler).collect()[0].a == "told"
    with pytest.raises(AnalysisException, match=r"(?s)columns=\['id', 'st', 'p'\].*statement 2 of 2") as raised:
        classic.sql_script("SELECT 1; INSERT INTO db.t VALUES (1)")
    assert [tuple(row) for row in classic.sql("SELECT * FROM db.t").collect()] == [(1, None, None)]
