"""EXECUTE IMMEDIATE: statements whose text is a value, over tables of the lake."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import pytest
from pyspark.errors import AnalysisException

import bucketlake
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.raised import RaisedError, StatementError
from bucketlake.spark.session import Lake
from bucketlake.sql.query.immediate import execute
from bucketlake.sql.text.cursor import Cursor

pytestmark = pytest.mark.spark
VARIABLES = ("lowest", "text", "price", "no", "word", "of", "v")


@pytest.fixture(autouse=True)
def leaves_no_variables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sessions are shared with the tests of other files."""
    lake = request.getfixturevalue("lake") if "lake" in request.fixturenames else None
    yield
    for name in VARIABLES if lake is not None else ():
        lake.spark.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {name}")


def test_statements_reach_the_lake(lake: Lake) -> None:
    """Queries and changes, with values by place and by name, texts and values in variables, rows into variables."""
    lake.sql("CREATE TABLE t (id BIGINT, p DECIMAL(9, 2), at TIMESTAMP, d DATE) TBLPROPERTIES ('primary-key'='id')")
    lake.sql(
        "EXECUTE IMMEDIATE 'INSERT INTO t VALUES (?, ?, ?, ?)' USING 1L, 1.5, TIMESTAMP'2024-02-29 01:02:03', NULL"
    )
    lake.sql(
        "EXECUTE IMMEDIATE 'INSERT INTO t VALUES (:id, :p, NULL, :d)' USING (2 AS id, -0.5 AS p, DATE'2024-03-01' AS d)"
    )
    lake.sql("DECLARE OR REPLACE lowest BIGINT DEFAULT 2")
    lake.sql("DECLARE OR REPLACE text STRING DEFAULT 'SELECT * FROM t WHERE id >= ? ORDER BY id'")
    lake.sql("DECLARE OR REPLACE price DECIMAL(9, 2)")
    assert [row[0] for row in lake.sql("EXECUTE IMMEDIATE text USING lowest").collect()] == [2]
    assert [row[0] for row in lake.sql("EXECUTE IMMEDIATE text USING lowest - 1").collect()] == [1, 2]
    lake.sql(
        "EXECUTE IMMEDIATE 'SELECT p, id FROM IDENTIFIER(:of) WHERE id = :id' INTO price, lowest USING 't' AS of, 1 AS id"
    )
    assert tuple(lake.sql("SELECT price, lowest").collect()[0]) == (Decimal("1.50"), 1)
    lake.sql("EXECUTE IMMEDIATE 'SELECT p FROM t WHERE id > 9' INTO price")
    assert lake.sql("SELECT price").collect()[0][0] is None
    lake.sql("EXECUTE IMMEDIATE CONCAT('DELETE FROM ', 't', ' WHERE d = ?') USING DATE'2024-03-01'")
    assert [tuple(row) for row in lake.sql("SELECT * FROM t").collect()] == [
        (1, Decimal("1.50"), dt.datetime(2024, 2, 29, 1, 2, 3), None)
    ]


def test_values_keep_their_types(lake: Lake) -> None:
    given = {
        "5Y": "tinyint",
        "5L": "bigint",
        "1.10": "decimal(3,2)",
        "1.1F": "float",
        "1.1D": "double",
        "'a''b'": "string",
        "TRUE": "boolean",
        "X'00ff'": "binary",
        "DATE'2024-02-29'": "date",
        "TIMESTAMP'2024-02-29 01:02:03.000004'": "timestamp",
        "TIMESTAMP_NTZ'2024-02-29 01:02:03.000004'": "timestamp_ntz",
        "CAST(NULL AS SMALLINT)": "smallint",
        "CAST(NULL AS INT)": "int",
        "CAST(NULL AS STRING)": "string",
        "NULL": "void",
    }
    marks = ", ".join(f"? AS c{at}, typeof(?) AS t{at}" for at in range(len(given)))
    twice = ", ".join(f"{value}, {value}" for value in given)
    row = lake.sql(f"EXECUTE IMMEDIATE 'SELECT {marks}' USING {twice}").collect()[0]
    assert list(row)[1::2] == list(given.values())
    assert list(row)[0::2] == list(lake.spark.sql(f"SELECT {', '.join(given)}").collect()[0])
    for value, told in (("array(INTERVAL '1' YEAR)", "a value of type interval year"), ("parse_json('1')", "variant")):
        with pytest.raises(UnsupportedError, match=told):
            lake.sql(f"EXECUTE IMMEDIATE 'SELECT ?' USING {value}")


def test_values_may_be_nested_or_intervals(lake: Lake) -> None:
    """They were refused, or an error of PySpark's; members keep their names and types, NaN and null included."""
    lake.sql("CREATE TABLE t (id INT, s STRING)")
    given = [
        "array(array(1Y, NULL), array())",
        "map('k', struct(1.5, DATE'2024-01-01', TIMESTAMP'2024-01-01 01:02:03'))",
        "named_struct('a b', array(INTERVAL '-1 02:03:04.5' DAY TO SECOND, NULL), 'c', map(), 'd', double('nan'))",
        "INTERVAL '1 2' DAY TO HOUR",
        "INTERVAL '-1-2' YEAR TO MONTH",
        "CAST(NULL AS ARRAY<INT>)",
    ]
    lake.sql(
        f"EXECUTE IMMEDIATE 'INSERT INTO t VALUES {', '.join(f'({n}, to_json(struct(? AS v)))' for n in range(6))}' USING {', '.join(given)}"
    )
    wanted = ", ".join(f"to_json(struct({value} AS v))" for value in given)
    found = [row.s for row in lake.sql("SELECT s FROM t ORDER BY id").collect()]
    assert found == list(lake.spark.sql(f"SELECT {wanted}").collect()[0])
    given.pop()  # Spark forgets the type of a null
    types = f"EXECUTE IMMEDIATE 'SELECT {', '.join('typeof(?)' for _ in given)}' USING {', '.join(given)}"
    assert list(lake.sql(types).collect()[0]) == list(lake.spark.sql(types).collect()[0])
    given = {"a": dt.timedelta(days=-1, microseconds=7), "b": [dt.timedelta(hours=1)]}
    lake.sql("INSERT INTO t VALUES (7, CAST(:a AS STRING) || CAST(:b[0] AS STRING))", given)
    seconds = "INTERVAL '-0 23:59:59.999993' DAY TO SECONDINTERVAL '0 01:00:00' DAY TO SECOND"
    assert lake.sql("SELECT s FROM t WHERE id = 7").collect()[0][0] == seconds


def test_values_go_by_name_or_place_as_sparks_do(lake: Lake) -> None:
    """A variable has its own name; `?` takes values by place, whatever they are called; others are left."""
    lake.sql("CREATE TABLE t (id BIGINT, s STRING)")
    lake.sql("DECLARE OR REPLACE no BIGINT DEFAULT 7")
    lake.sql("DECLARE OR REPLACE word STRING DEFAULT 'w'")
    lake.sql("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (:no, :word)' USING (word, session.no)")
    for text in (
        "'SELECT :no' USING no",
        "'SELECT :p, :no' USING no, 1 AS p",
        "'SELECT ?, ?' USING no AS a, word",
        "'SELECT ?' USING word, no",
        "'SELECT :no, :no' USING no, no, word",
        "'SELECT 3' USING no",
    ):
        statement = f"EXECUTE IMMEDIATE {text}"
        wanted = lake.spark.sql(statement).collect()
        assert lake.sql(statement).collect() == wanted, text
        assert lake.sql(statement.replace("' USING", " FROM t' USING")).collect() == wanted, text


def test_names_are_what_constant_expressions_give(lake: Lake) -> None:
    """Variables, also a script's, and what is made of them and markers: Spark looked for these tables among its own."""
    lake.sql("CREATE TABLE db_t (id BIGINT)")
    lake.sql("DECLARE OR REPLACE of STRING DEFAULT 't'")
    lake.sql("INSERT INTO IDENTIFIER('db_' || session.of) VALUES (1)")
    lake.sql("BEGIN DECLARE name STRING DEFAULT 'db_t'; INSERT INTO IDENTIFIER(name) VALUES (2); END")
    lake.sql("EXECUTE IMMEDIATE 'INSERT INTO IDENTIFIER(:name || \"t\") VALUES (3)' USING 'db_' AS name")
    text = "SELECT max(IDENTIFIER(:c || 'd')) FROM IDENTIFIER(CONCAT(LOWER(:a), '_', of)) HAVING count(*) = 3"
    assert [tuple(row) for row in lake.sql(text, {"a": "DB", "c": "i"}).collect()] == [(3,)]
    for text in ("(SELECT 'db_t')", "nobody", "'db_t' || rand()"):
        with pytest.raises(Exception, match="IDENTIFIER|nobody|constant|SELECT"):
            lake.sql(f"SELECT * FROM IDENTIFIER({text})").collect()


def test_what_cannot_be_meant_is_refused_before_anything_is_done(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (id BIGINT)")
    lake.sql("DECLARE OR REPLACE v BIGINT")
    for text, says in [
        ("EXECUTE IMMEDIATE CAST(NULL AS STRING)", "NULL"),
        ("EXECUTE IMMEDIATE 5", "not text"),
        ("EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE ''SELECT 1'''", "within"),
        ("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1)' INTO v", "row of a query"),
        ("EXECUTE IMMEDIATE 'WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a' INTO v", "row of a query"),
        ("EXECUTE IMMEDIATE '5' INTO v", "row of a query"),
        ("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (?), (?)' USING 1", "more markers"),
        ("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (?), (:v)' USING v", "in one statement"),
        ("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (:v)' USING v + 1", "without a name"),
        ("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)'", "expected one statement"),
        ("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (:a)' USING 1 AS a, 2", "without a name"),
        ("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (:a)' USING 1 AS a, 2 AS a", "given twice"),
        ("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1)' NOW", "unexpected|syntax|PARSE"),
    ]:
        with pytest.raises(Exception, match=says):
            lake.sql(text)
    assert lake.sql("SELECT * FROM t").collect() == []
    assert execute(Cursor("EXECUTE something")) is None
    with pytest.raises(InvalidError, match="needs an expression"):
        execute(Cursor("EXECUTE IMMEDIATE USING 1"))


def test_attached_sessions_run_it_too(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (id BIGINT)")
    attached = bucketlake.attach(lake.spark, lake.catalog.warehouse)
    try:
        lake.spark.sql("EXECUTE IMMEDIATE 'INSERT INTO paimon.default.t VALUES (?)' USING 3")
        assert [row[0] for row in lake.spark.sql("SELECT * FROM paimon.default.t").collect()] == [3]
    finally:
        bucketlake.detach(lake.spark)
    assert attached is not None


def test_values_that_are_queries_are_refused_as_by_spark(classic: Lake) -> None:
    """Over Spark's own tables they were evaluated, over tables of the lake these were not found."""
    classic.sql("CREATE TABLE db.t (id INT)")
    for value in (
        "(SELECT max(id) FROM db.t)",
        "1 + (SELECT 1)",
        "EXISTS (SELECT 1)",
        "(WITH q AS (SELECT 1) SELECT * FROM q)",
    ):
        with pytest.raises(StatementError, match="^.UNSUPPORTED_EXPR_FOR_PARAMETER.*SET VARIABLE") as caught:
            classic.sql(f"EXECUTE IMMEDIATE 'SELECT id FROM db.t WHERE id = ?' USING {value}")
        assert caught.value.getCondition() == "UNSUPPORTED_EXPR_FOR_PARAMETER"
        with pytest.raises(AnalysisException) as own:
            classic.spark.sql(
                f"EXECUTE IMMEDIATE 'SELECT ?' USING {value.replace('id', '1').replace('db.t', 'range(3)')}"
            )
        assert own.value.getCondition() == "UNSUPPORTED_EXPR_FOR_PARAMETER", value
    assert classic.sql("EXECUTE IMMEDIATE 'SELECT ?' USING '(SELECT 1)'").collect()[0][0] == "(SELECT 1)"


def test_several_rows_for_variables_are_told(classic: Lake) -> None:
    """The error of one variable was Spark's, that of two was Py4J's, with the traces of the JVM."""
    classic.sql("CREATE TABLE db.t (id INT, v STRING)")
    classic.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'b')")
    try:
        classic.sql("DECLARE VARIABLE lowest INT")
        classic.sql("DECLARE VARIABLE word STRING")
        for statement in (
            "EXECUTE IMMEDIATE 'SELECT id, v FROM db.t' INTO lowest, word",
            "SET VARIABLE (lowest, word) = (SELECT id, v FROM db.t)",
        ):
            with pytest.raises(
                RaisedError, match=r"^\[ROW_SUBQUERY_TOO_MANY_ROWS\] More than one row.*row\."
            ) as caught:
                classic.sql(statement)
            assert caught.value.getCondition() == "ROW_SUBQUERY_TOO_MANY_ROWS"
    finally:
        for name in ("lowest", "word"):
            classic.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {name}")
