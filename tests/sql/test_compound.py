"""Scripts of Spark's, `BEGIN … END`: those that change tables of the lake are run by us, as Spark runs its own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, PySparkException

import bucketlake
from bucketlake.errors import AlreadyExistsError, BucketlakeError, InvalidError, UnsupportedError
from bucketlake.spark.raised import condition_of
from bucketlake.spark.session import Lake
from bucketlake.sql.compound.queries import is_read_only
from bucketlake.sql.compound.run import Script
from bucketlake.sql.compound.tree import read

CHANGES = (
    "INSERT INTO db.t VALUES (4, 40)",
    "DROP TABLE db.t",
    "WITH q AS (SELECT 1, 2) INSERT INTO db.t TABLE q",
    "WITH q AS (SELECT 1, 2) DELETE FROM db.t WHERE k = 1",
    "FROM db.t INSERT INTO db.t SELECT *",
    "SHOW TABLES",
    "ANALYZE TABLE db.t COMPUTE STATISTICS",
    "SET spark.paimon.scan.snapshot-id = 1",
    "DESCRIBE db.t",
)
AROUND = (
    "BEGIN IF true THEN {}; END IF; END",
    "BEGIN {}; SELECT 1; END",
    "BEGIN SELECT 1; {}; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLSTATE VALUE '22012', NOT FOUND {}; SELECT 1; END",
    "BEGIN FOR r AS SELECT 1 DO {}; END FOR; END",
    "BEGIN l: LOOP {}; LEAVE l; END LOOP; END",
)
# What Spark's own scripts give is what ours give: rows, or an error.
SCRIPTS = (
    "BEGIN END",
    "BEGIN NOT ATOMIC SELECT 1 AS a; SELECT 2 AS a; END",
    "BEGIN SELECT 1; SELECT 1/0; SELECT 3; END",
    "BEGIN SELECT 1, 1; END",
    "BEGIN DECLARE x = 5; SELECT x, typeof(x); END",
    "BEGIN DECLARE VARIABLE x, y INT = 5; SET x = x + 1, y = 9; SELECT x, y; SET (x, y) = (SELECT 7, 8); SELECT x, y; END",
    "BEGIN DECLARE x INT DEFAULT 3; SET x = 4; SET x = DEFAULT; SELECT x; END",
    "BEGIN DECLARE x INT; SET x = 'abc'; SELECT x; END",
    "BEGIN DECLARE x INT DEFAULT 1; BEGIN DECLARE x STRING DEFAULT 'in'; SET x = 'seen'; END; SELECT x; END",
    "BEGIN DECLARE x INT DEFAULT 2; SET x = 3; BEGIN DECLARE x INT DEFAULT 9; END; SET x = DEFAULT; SELECT x; END",
    "BEGIN BEGIN DECLARE x INT DEFAULT 2; END; SELECT x; END",
    "BEGIN DECLARE x INT DEFAULT 2; SELECT 1 AS x, x; END",
    "BEGIN DECLARE Xy INT DEFAULT 2; BEGIN DECLARE xY INT DEFAULT 3; SET XY = 4; END; FOR SELECT 5 AS xy DO SELECT Xy; END FOR; "
    "SELECT xy; END",
    "BEGIN DECLARE OR REPLACE x INT; SELECT x; END",
    "BEGIN SELECT 1; DECLARE x INT; END",
    "BEGIN SET nobody = 3; END",
    "BEGIN SET spark.sql.ansi.enabled = false; SELECT 1; END",
    "BEGIN IF CAST(NULL AS BOOLEAN) THEN SELECT 1; ELSEIF 1 = 1 THEN SELECT 2; ELSE SELECT 3; END IF; END",
    "BEGIN IF NULL THEN SELECT 1; END IF; END",
    "BEGIN IF 1 THEN SELECT 1; END IF; END",
    "BEGIN IF (SELECT true WHERE false) THEN SELECT 1; ELSE SELECT 2; END IF; END",
    "BEGIN IF (SELECT id > 0 FROM range(3)) THEN SELECT 1; ELSE SELECT 2; END IF; END",
    "BEGIN IF CASE WHEN 1 > 2 THEN true ELSE false END THEN SELECT 1; ELSE SELECT 2; END IF; END",
    "BEGIN IF true THEN END IF; END",
    "BEGIN CASE WHEN false THEN SELECT 1; END CASE; SELECT 5; END",
    "BEGIN CASE WHEN true THEN SELECT 'a'; WHEN 1/0 = 1 THEN SELECT 'b'; END CASE; END",
    "BEGIN CASE 3 WHEN 1 THEN SELECT 1; WHEN NULL THEN SELECT 9; ELSE SELECT 4; END CASE; END",
    "BEGIN CASE (SELECT 2) WHEN 1 THEN SELECT 1; WHEN 2 THEN SELECT 'two'; WHEN 2 THEN SELECT 'no'; END CASE; END",
    "BEGIN DECLARE i INT DEFAULT 0; WHILE i < 3 DO SET i = i + 1; END WHILE; SELECT i; END",
    "BEGIN DECLARE i INT DEFAULT 0; REPEAT SET i = i + 1; UNTIL i >= 3 END REPEAT; SELECT i; END",
    "BEGIN DECLARE i INT DEFAULT 0; l: LOOP SET i = i + 1; IF i < 5 THEN ITERATE L; END IF; LEAVE l; END LOOP l; SELECT i; END",
    "BEGIN l: BEGIN SELECT 1; LEAVE l; SELECT 2; END l; END",
    "BEGIN l: WHILE true DO BEGIN DECLARE x INT DEFAULT 4; SELECT x; LEAVE l; END; END WHILE; END",
    "BEGIN l: LOOP m: LOOP LEAVE l; END LOOP m; END LOOP l; SELECT 1; END",
    "BEGIN l: LOOP LEAVE m; END LOOP; END",
    "BEGIN l: BEGIN ITERATE l; END; END",
    "BEGIN l: LOOP LEAVE l; END LOOP m; END",
    "BEGIN a: BEGIN a: LOOP LEAVE a; END LOOP; END; END",
    "BEGIN FOR SELECT id FROM range(3) DO SELECT id; END FOR; END",
    "BEGIN FOR r AS SELECT id, 'a' AS s FROM range(2) ORDER BY id DO SELECT s, r.id + id AS d; END FOR; END",
    "BEGIN DECLARE id INT DEFAULT 7; FOR r AS SELECT id FROM range(3) DO SELECT id; END FOR; SELECT id; END",
    "BEGIN FOR a AS SELECT 1 AS q DO FOR b AS SELECT 2 AS q DO SELECT a.q, b.q, q; END FOR; SELECT q + 10; END FOR; END",
    "BEGIN FOR r AS SELECT id FROM range(0) DO SELECT 1; END FOR; END",
    "BEGIN FOR r AS SELECT id, id FROM range(3) DO SELECT 1; END FOR; END",
    "BEGIN FOR r AS SHOW TABLES DO SELECT 1; END FOR; END",
    "BEGIN FOR r AS SELECT NULL AS n, map(1, 2) m, array(struct(1 AS `x y`)) a, TIMESTAMP'2024-01-01' t, INTERVAL 1 DAY d, "
    "X'01' b, 1.50BD e, 'c' `o'd` FROM range(1) DO SELECT n, m, a, t, d, b, e, r.`o'd`; END FOR; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'h'; SELECT 1/0; SELECT 2; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'h'; IF 1/0 = 1 THEN SELECT 1; END IF; SELECT 2; END",
    "BEGIN BEGIN DECLARE EXIT HANDLER FOR DIVIDE_BY_ZERO SELECT 'h'; BEGIN SELECT 1/0; END; SELECT 2; END; SELECT 3; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'e'; DECLARE EXIT HANDLER FOR SQLSTATE '22012' SELECT 's'; "
    "DECLARE EXIT HANDLER FOR DIVIDE_BY_ZERO SELECT 'c'; SELECT 1/0; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLSTATE '42P01' SELECT 's'; SELECT * FROM nope; END",
    "BEGIN DECLARE EXIT HANDLER FOR NOT FOUND SELECT 's'; SELECT 1/0; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 1/0; SELECT 1/0; END",
    "BEGIN DECLARE x INT DEFAULT 2; EXECUTE IMMEDIATE 'SELECT ?' INTO x USING 3; SELECT x; EXECUTE IMMEDIATE 'SELECT 4'; END",
    "BEGIN VALUES (1), (2); END",
    "BEGIN SELECT 1 END",
    "BEGIN ; END",
    "BEGIN SELECT 1; END x",
    "BEGIN SELECT (1; END",
    # A variable by the label of its block, or of FOR.
    "BEGIN l: BEGIN DECLARE x INT DEFAULT 1; SET l.x = l.x + 1; SELECT L.X, x; END; END",
    "BEGIN l: BEGIN DECLARE x, y INT; SET x = NULL, l.y = 4; SELECT l.x, l.y, y; SET (l.x, y) = (SELECT 5, l.y); SELECT x, l.y; END; END",
    "BEGIN l: BEGIN DECLARE x INT DEFAULT 1; m: BEGIN DECLARE x INT DEFAULT l.x + 5; SET l.x = 2; SET m.x = l.x + 9; "
    "SELECT l.x, m.x, x; END; SELECT x, l.x; END; END",
    "BEGIN l: BEGIN DECLARE x STRUCT<y: INT> DEFAULT struct(3); SELECT l.x.y, (SELECT max(id) + l.x.y FROM range(2)); END; END",
    "BEGIN l: BEGIN DECLARE x INT DEFAULT 1; SELECT l.x FROM VALUES (7) AS l(x); END; END",
    "BEGIN l: BEGIN DECLARE x INT DEFAULT 1; END; SELECT l.x; END",
    "BEGIN l: BEGIN DECLARE x INT DEFAULT 1; SET l.y = 2; END; END",
    "BEGIN l: BEGIN DECLARE x INT DEFAULT 1; SELECT l; END; END",
    "BEGIN FOR r AS SELECT 1 AS a DO SET a = 2; SELECT r.a, a; SET r.a = a + 1; SELECT r.a, a; END FOR; END",
    "BEGIN FOR r AS SELECT 1 AS r DO SELECT r; END FOR; END",
    "BEGIN l: BEGIN DECLARE x INT DEFAULT 1; FOR r AS SELECT id AS x FROM range(3) DO SET l.x = l.x + r.x + x; END FOR; SELECT x; END; END",
    "BEGIN l: BEGIN DECLARE x, y INT DEFAULT 3; EXECUTE IMMEDIATE 'SELECT 4, ?' INTO l.x, y USING l.x + 1; SELECT x, y, l.y; END; END",
    "BEGIN l: BEGIN DECLARE x INT DEFAULT 1; EXECUTE IMMEDIATE 'SELECT ?' USING l.x; END; END",
    "BEGIN l: BEGIN DECLARE x INT DEFAULT 1; DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT l.x; SET l.x = 7; SELECT 1/0; END; END",
    # What Spark does not take.
    "l: BEGIN SELECT 1; END",
    "BEGIN DECLARE x INT; SET VAR x = 2; SELECT x; END",
    "BEGIN DECLARE x INT; SET session.x = 2; SELECT x; END",
    "BEGIN DECLARE l.x INT; SELECT 1; END",
    "BEGIN DECLARE var INT; SET var = 2; SELECT var; END",
    "BEGIN session: BEGIN SELECT 1; END; END",
    "BEGIN system_1: LOOP LEAVE system_1; END LOOP; END",
)


def _ours(lake: Lake, script: str) -> Any:
    """The rows by our own run of a script that Spark would run as well."""
    return Script(lake, script).run(read(script))


def _rows(run: Any) -> Any:
    try:
        frame = run()
        return [type(item.dataType) for item in frame.schema], [tuple(row) for row in frame.collect()]
    except Exception as error:
        assert not isinstance(error, (KeyError, AttributeError, AssertionError)), error
        return "error"


def _left(lake: Lake) -> list[str]:
    return [view.viewName for view in lake.spark.sql("SHOW VIEWS").collect() if view.viewName.startswith("script_")]


@pytest.mark.parametrize("around", AROUND)
def test_statements_that_are_no_queries_are_told(around: str) -> None:
    assert [statement for statement in CHANGES if is_read_only(around.format(statement))] == []
    for query in ("SELECT 1", "VALUES (1)", "WITH q AS (SELECT 1) SELECT * FROM q", "FROM db.t SELECT k", "SET x = 1"):
        assert is_read_only(around.format(query)), query


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_give_what_sparks_give(lake: Lake, script: str) -> None:
    expected = _rows(lambda: lake.spark.sql(script))
    assert _rows(lambda: _ours(lake, script)) == expected
    assert _left(lake) == []
    for name in ("x", "id", "i", "r", "q", "l"):
        with pytest.raises(Exception, match=f"`{name}`"):
            lake.spark.sql(f"SELECT {name}").collect()


_SAY = st.integers(0, 9).map(lambda digit: f"SET said = said || '{digit}' || n;")
_WHETHER = st.sampled_from(["n % 2 = 0", "n > 1", "CASE WHEN n = 1 THEN true END", "length(said) < 9"])


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map(" ".join)
    return st.one_of(
        st.builds("IF {} THEN {} ELSE {} END IF;".format, _WHETHER, body, body),
        st.builds("CASE n WHEN 1 THEN {} WHEN 2 THEN {} ELSE {} END CASE;".format, body, body, body),
        st.builds("BEGIN DECLARE n INT DEFAULT {}; {} SET n = n + 1; {} END;".format, st.integers(0, 3), body, body),
        st.builds("FOR r AS SELECT id AS n FROM range({}) ORDER BY id DO {} END FOR;".format, st.integers(0, 2), body),
        st.builds(
            "a: BEGIN DECLARE c INT DEFAULT 0; b: LOOP SET c = c + 1; {} IF {} THEN LEAVE a; END IF; IF c < {} THEN "
            "ITERATE b; END IF; {} LEAVE b; END LOOP b; {} END a;".format,
            *(_SAY, _WHETHER, st.integers(0, 2), _SAY, _SAY),
        ),
        st.builds(
            "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION {} {} SET said = said || (1 / (n - {})); {} END;".format,
            *(_SAY, body, st.integers(0, 2), body),
        ),
    )


@pytest.mark.spark
@settings(
    max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.recursive(_SAY, _nested, max_leaves=6), min_size=1, max_size=3).map(" ".join))
def test_random_scripts_give_what_sparks_give(classic: Lake, body: str) -> None:
    script = f"BEGIN DECLARE said STRING DEFAULT ''; DECLARE n INT DEFAULT 1; {body} SELECT said, n; END"
    try:
        ours = _ours(classic, script)
    except UnsupportedError:  # a handler where n hides n
        return
    except Exception:
        assert _rows(lambda: classic.spark.sql(script)) == "error"
        return
    assert _rows(lambda: ours) == _rows(lambda: classic.spark.sql(script))


def test_scripts_change_tables(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.k (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')")
    lake.sql("CREATE TABLE db.log (s STRING)")
    found = lake.sql(
        """BEGIN
             DECLARE i INT DEFAULT 0;
             WHILE i < 3 DO
               INSERT INTO db.k VALUES (i, concat(:lead, i));
               SET i = i + 1;
             END WHILE;
             FOR r AS SELECT id, v FROM db.k WHERE id > 0 ORDER BY id DO
               IF (SELECT count(*) FROM db.k) < 5 THEN
                 MERGE INTO db.k USING (SELECT r.id + 10 AS id, v) AS s ON db.k.id = s.id
                   WHEN NOT MATCHED THEN INSERT *;
               END IF;
               UPDATE db.k SET v = upper(r.v) WHERE k.id = r.id;
               INSERT INTO db.log VALUES (v);
             END FOR;
             DELETE FROM db.k WHERE id < i - 2;
             SELECT id, v FROM db.k ORDER BY id;
             CALL sys.compact(table => 'db.k');
           END""",
        {"lead": "v"},
    )
    assert [tuple(row) for row in found.collect()] == [(1, "V1"), (2, "V2"), (11, "v1"), (12, "v2")]
    assert sorted(row.s for row in lake.sql("SELECT s FROM db.log").collect()) == ["v1", "v2"]
    lake.sql(
        "BEGIN l: BEGIN DECLARE n INT DEFAULT 1; FOR r AS SELECT v FROM db.k ORDER BY id DO SET l.n = l.n + 1; "
        "UPDATE db.k SET v = concat(r.v, l.n) WHERE id = l.n; END FOR; END; END"
    )
    assert lake.sql("SELECT v FROM db.k WHERE id = 2").collect()[0].v == "V12"
    told = lake.sql(
        "BEGIN DECLARE EXIT HANDLER FOR DIVIDE_BY_ZERO BEGIN INSERT INTO db.log VALUES ('div'); SELECT 'told' AS a; END; "
        "INSERT INTO db.log VALUES ('before'); DELETE FROM db.log WHERE 1 / (length(s) - 6) > 5; "
        "INSERT INTO db.log VALUES ('behind'); END"
    )
    assert [row.a for row in told.collect()] == ["told"]
    assert sorted(row.s for row in lake.sql("SELECT s FROM db.log").collect()) == ["before", "div", "v1", "v2"]
    assert lake.sql("BEGIN TRUNCATE TABLE db.log; END").columns == []
    assert lake.table("db.log").table.to_arrow().num_rows == 0
    assert _left(lake) == []


def test_scripts_are_not_nested_without_end() -> None:
    for levels in (60, 5000):
        text = "BEGIN IF true THEN " * (levels // 2) + "DROP TABLE t; " + "END IF; END; " * (levels // 2)
        if levels < 64:
            assert read(text).body
            continue
        with pytest.raises(InvalidError, match="nested"):
            read(text)


@pytest.mark.spark
def test_errors_of_scripts_tell_their_place(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (a INT)")
    for script, error, match in (
        (
            "BEGIN\n INSERT INTO db.t VALUES (1);\n DELETE FROM db.t WHERE nope = 3;\nEND",
            BucketlakeError,
            "line 3, column 25",
        ),
        (
            "BEGIN\n INSERT INTO db.t VALUES (1);\n IF nope THEN SELECT 1; END IF; END",
            BucketlakeError,
            "line 3, column 5",
        ),
        ("BEGIN INSERT INTO db.t VALUES (1) END", InvalidError, "line=1, column=38"),
        ("BEGIN INSERT INTO db.t VALUES (1); LEAVE l; END", InvalidError, "no block or loop of this label"),
        ("BEGIN DECLARE c CURSOR FOR SELECT 1; DROP TABLE db.t; END", UnsupportedError, "CURSOR"),
        ("BEGIN DROP TABLE db.t; SIGNAL SQLSTATE '45000'; END", UnsupportedError, "SIGNAL"),
        (
            "BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SELECT 1; DROP TABLE db.t; END",
            UnsupportedError,
            "CONTINUE",
        ),
        (
            "BEGIN DECLARE n INT; BEGIN DECLARE n INT; DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT n; DROP TABLE db.t; END; END",
            UnsupportedError,
            "one variable hides another",
        ),
        (
            "BEGIN DECLARE n INT; FOR SELECT 1 AS n DO BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT n; "
            "DROP TABLE db.t; END; END FOR; END",
            UnsupportedError,
            "one variable hides another",
        ),
        (
            "BEGIN DECLARE n INT; DECLARE EXIT HANDLER FOR SQLEXCEPTION FOR SELECT 1 AS n DO DROP TABLE db.t; END FOR; "
            "DELETE FROM db.t WHERE 1 / (a - 1) > 2; END",
            UnsupportedError,
            "one variable hides another",
        ),
        ("BEGIN DECLARE mine INT; DROP TABLE db.t; END", AlreadyExistsError, "DROP TEMPORARY VARIABLE `mine`"),
        ("BEGIN FOR SELECT 1 AS a, 2 AS A DO DROP TABLE db.t; END FOR; END", InvalidError, "there twice"),
        ("BEGIN FOR a AS SELECT 1 AS a DO DELETE FROM db.t WHERE a.a = 1; END FOR; END", UnsupportedError, "label=a"),
    ):
        classic.sql("DECLARE OR REPLACE mine INT DEFAULT 5")
        with pytest.raises(error, match=match):
            classic.sql(script)
        assert classic.sql("SELECT mine").collect()[0][0] == 5
    with pytest.raises(UnsupportedError, match="markers"):
        classic.sql("BEGIN INSERT INTO db.t VALUES (?); END", [1])
    classic.sql("DROP TEMPORARY VARIABLE mine")
    assert classic.table("db.t").table.to_arrow()["a"].to_pylist() == [1, 1]


@pytest.mark.spark
@pytest.mark.parametrize("current", [True, False])
def test_scripts_of_attached_sessions(classic: Lake, current: bool) -> None:
    spark = classic.spark
    classic.sql("CREATE TABLE db.t (a INT)")
    bucketlake.attach(spark, classic.catalog.warehouse, catalog="mine", current=current)
    try:
        script = "BEGIN DECLARE i INT DEFAULT 1; INSERT INTO mine.db.t VALUES (i), (i + 1); SELECT sum(a) AS s FROM mine.db.t; END"
        assert spark.sql(script).collect()[0].s == 3
        assert spark.sql("BEGIN SELECT max(a) AS m FROM mine.db.t; END").collect()[0].m == 2
        spark.sql("BEGIN CALL mine.sys.create_tag(table => 'mine.db.t', tag => 'called'); END")
        assert list(classic.table("db.t").tags()) == ["called"]
        theirs = "BEGIN CREATE OR REPLACE TEMPORARY VIEW script_view AS SELECT 1 AS a; SELECT a FROM script_view; END"
        assert spark.sql(theirs).collect()[0].a == 1
        assert spark.sql("BEGIN SELECT a + {b} AS c FROM {f}; END", b=3, f=spark.range(1).toDF("a")).collect()[0].c == 3
    finally:
        spark.catalog.dropTempView("script_view")
        bucketlake.detach(spark)


@pytest.mark.spark
def test_errors_of_names_have_sparks_conditions(classic: Lake) -> None:
    """Handlers, and programs, look for them: `getCondition` of a name that is missing was an AttributeError."""
    classic.sql("CREATE TABLE db.t (a INT)")
    classic.sql("CREATE TABLE db.p (a INT, p INT) PARTITIONED BY (p)")
    with pytest.raises(AnalysisException) as taken:
        classic.write_table(classic.spark.range(1), "db.t", mode="error")
    assert taken.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    for statement, condition, state in (
        ("SELECT * FROM db.nope", "TABLE_OR_VIEW_NOT_FOUND", "42P01"),
        ("DROP TABLE db.nope", "TABLE_OR_VIEW_NOT_FOUND", "42P01"),
        ("INSERT INTO db.nope VALUES (1)", "TABLE_OR_VIEW_NOT_FOUND", "42P01"),
        ("CREATE TABLE db.t (a INT)", "TABLE_OR_VIEW_ALREADY_EXISTS", "42P07"),
        ("CREATE DATABASE db", "SCHEMA_ALREADY_EXISTS", "42P06"),
        ("DROP DATABASE nope", "SCHEMA_NOT_FOUND", "42704"),
        ("ALTER TABLE db.p DROP PARTITION (p = 1)", "PARTITIONS_NOT_FOUND", "428FT"),
    ):
        with pytest.raises(BucketlakeError) as missing:
            classic.sql(statement)
        assert condition_of(missing.value) == (condition, state), statement
        assert isinstance(missing.value, AnalysisException), statement  # which programs catch
        assert missing.value.getCondition() == condition
        assert missing.value.getSqlState() == state
        for told in (condition, f"SQLSTATE '{state}'", "SQLEXCEPTION"):
            script = f"BEGIN DECLARE EXIT HANDLER FOR {told} SELECT 'told' AS a; {statement}; END"
            assert classic.sql(script).collect()[0].a == "told", script


@pytest.mark.spark
def test_errors_of_changes_have_sparks_conditions(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (a INT, i STRUCT<one: INT>, p INT) PARTITIONED BY (p)")
    twice, merge = (
        "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS",
        "MERGE INTO db.t USING (SELECT 1 AS a) s ON t.a = s.a ",
    )
    for statement, args, condition, match in (
        ("UPDATE db.t SET a = 1, a = 2", None, twice, "'a'"),
        ("UPDATE db.t SET i.one = 1, i = NULL", None, twice, "'i'"),
        ("UPDATE db.t SET i.on = 1", None, "FIELD_NOT_FOUND", "did you mean 'one'"),
        ("UPDATE db.t SET a.one = 1", None, "INVALID_EXTRACT_BASE_FIELD_TYPE", "type=INT"),
        (merge + "WHEN MATCHED THEN UPDATE SET a = 1, a = 2", None, twice, "'a'"),
        (
            merge + "WHEN NOT MATCHED THEN INSERT (a, p) VALUES (1)",
            None,
            "MERGE_INSERT_VALUE_COUNT_MISMATCH",
            "1 values",
        ),
        (
            merge + "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED THEN INSERT *",
            None,
            "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION",
            "NOT MATCHED clause",
        ),
        ("INSERT INTO db.t PARTITION (p = 1, P = 2) SELECT 1, NULL", None, "DUPLICATE_KEY", "twice"),
        ("TRUNCATE TABLE db.t PARTITION (p = 1, p = 2)", None, "DUPLICATE_KEY", "twice"),
        ("INSERT INTO db.t PARTITION (p = 'x') SELECT 1, NULL", None, "CAST_INVALID_INPUT", "column=p"),
        ("INSERT INTO db.t VALUES (?, NULL, ?)", [1], "UNBOUND_SQL_PARAMETER", "more markers"),
    ):
        with pytest.raises(InvalidError, match=match) as found:
            classic.sql(statement, args)
        assert isinstance(found.value, PySparkException), statement
        assert (found.value.getCondition(), condition_of(found.value)[0]) == (condition, condition), statement
    classic.sql("INSERT INTO db.t VALUES (?, NULL, ?)", [1, 2, 3])  # Spark leaves what no marker takes
    assert classic.table("db.t").table.to_arrow().to_pylist() == [{"a": 1, "i": None, "p": 2}]
