"""Scripts, and what is handed over beside a text: markers, braces."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.spark.session import Lake
from bucketlake.sql.query.given import literal, read_braces, with_identifiers, with_values
from bucketlake.sql.text.pieces import pieces


def test_statements_end_at_semicolons_between_tokens() -> None:
    script = "-- a; b\nSELECT ';' AS `x;y` /* ; */;\n;;\n  INSERT INTO t VALUES (\"a;b\") -- end;\n; -- nothing; here\n"
    found = pieces(script)
    assert [(piece.number, piece.of) for piece in found] == [(1, 2), (2, 2)]
    assert [script[piece.start :].startswith(piece.text) for piece in found] == [True, True]
    assert found[1].text.startswith("INSERT")
    assert pieces(" -- nothing\n;") == []
    whole = (
        "BEGIN DECLARE x INT; IF x > 1 THEN SELECT CASE WHEN x = 2 THEN 3 END; END IF; CASE x WHEN 1 THEN SELECT 2; END CASE; "
        "l: BEGIN WHILE false DO SELECT t.end, t.`begin` FROM t; END WHILE; END l; FOR SELECT 1 DO SELECT 2; END FOR; END"
    )
    assert [piece.text for piece in pieces(f"SELECT 1; {whole}; a: {whole} a;\nSELECT 2")] == [
        *("SELECT 1", whole, f"a: {whole} a", "SELECT 2")
    ]
    assert [piece.text for piece in pieces("BEGIN; SELECT 1; BEGIN TRANSACTION; SELECT 2; BEGIN SELECT 3; ")] == [
        *("BEGIN", "SELECT 1", "BEGIN TRANSACTION", "SELECT 2", "BEGIN SELECT 3;")
    ]
    with pytest.raises(InvalidError, match="cannot be read"):
        pieces("SELECT 1; SELECT 'a")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (7, "7"),
        (-7, " -7"),
        (1.5, "1.5D"),
        (float("nan"), "double('nan')"),
        ("it's \\", "'it\\'s \\\\'"),
        (b"\x01\xff", "X'01ff'"),
        (Decimal("-1.50"), " -1.50BD"),
        (dt.date(2024, 2, 29), "DATE'2024-02-29'"),
        (dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc), "timestamp_micros(1000000)"),
        (dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))), "timestamp_micros(-62135604000000000)"),
        ([1, None], "array(1, NULL)"),
        (np.float64(1.5), "1.5D"),  # its repr has its type's name
        (np.int64(-7), " -7"),
        (np.array([True, False]), "array(TRUE, FALSE)"),
        (pd.Timestamp("1970-01-01 00:00:01", tz="UTC"), "timestamp_micros(1000000)"),
        (pd.NaT, "NULL"),
    ],
)
def test_literals(value: object, text: str) -> None:
    assert literal(value, "x") == text


def test_times_without_a_zone() -> None:
    with pytest.raises(InvalidError, match="parameter=x"):
        literal(dt.datetime.min, "x")
    moment = dt.datetime(2024, 5, 6, 7, 8)
    assert literal(pd.Timestamp(moment), "x") == literal(moment, "x")  # of this machine's zone, as in DataFrames


def test_markers_are_replaced_where_they_are_markers() -> None:
    text = "DELETE FROM t WHERE a=:a AND v:a = ':a' AND b[0]:a = 1 AND c::int = :b"
    assert with_values(text, {"a": 1, "b": "x"}) == (
        "DELETE FROM t WHERE a=1 AND v:a = ':a' AND b[0]:a = 1 AND c::int = 'x'"
    )
    assert with_values("INSERT INTO t VALUES (?, '?', ?)", [1, -2]) == "INSERT INTO t VALUES (1, '?',  -2)"
    with pytest.raises(InvalidError, match="more"):
        with_values("SELECT ?, ?", [1])
    assert with_values("SELECT ?, ?", [1, 2, 3]) == "SELECT 1, 2"  # as Spark, which leaves the last ones
    with pytest.raises(UnsupportedError, match="parameter=1"):
        with_values("SELECT ?", [object()])


def test_braces_are_fields_of_what_is_given() -> None:
    found = read_braces("SELECT {{1}}, {d[a]} FROM {d}", {"d": 1}, "m")
    assert found.text == "SELECT {1}, given_m_1_ FROM given_m_0_"
    assert found.bound(found.text, {})[0] == "SELECT {{1}}, {given_d[a]} FROM {given_d}"
    for text in ("{e}", "{}", "{d!r}", "{d:x}", "{", "}"):
        with pytest.raises(InvalidError, match="braces"):
            read_braces(text, {"d": 1}, "m")


@pytest.mark.spark
def test_a_script_says_what_failed_and_where(classic: Lake) -> None:
    assert classic.sql_script("-- nothing\n;") is None
    last = classic.sql_script("CREATE TABLE db.s (a INT);\nINSERT INTO db.s VALUES (1);\nSELECT a FROM db.s")
    assert last is not None
    assert last.collect()[0].a == 1
    looped = "BEGIN DECLARE i INT DEFAULT 0; WHILE i < 2 DO INSERT INTO db.s VALUES (i); SET i = i + 1; END WHILE; END"
    last = classic.sql_script(f"{looped}; DELETE FROM db.s WHERE a = 0; SELECT count(*) AS n FROM db.s")
    assert last is not None
    assert last.collect()[0].n == 2
    script = "INSERT INTO db.s VALUES (2);\n\n-- then\nSELECT nope\n  FROM db.s;\nINSERT INTO db.s VALUES (3)"
    with pytest.raises(BucketlakeError) as wrong:
        classic.sql_script(script)
    assert "line 4, column 8:\nSELECT nope\n       ^^^^" in str(wrong.value)
    assert "statement 2 of 3, line 4: SELECT nope" in str(wrong.value)
    assert wrong.value.details == {"statement": 2, "line": 4, "column": 8}  # what the command line's JSON says
    with pytest.raises(BucketlakeError) as misspelt:
        classic.sql_script("SELECT 1; ALTER TABLE db.s\nSET TBLPROPERTIES ('a' 'b' 'c')")
    assert "line=2" in str(misspelt.value)
    with pytest.raises(Exception, match="X") as theirs:
        classic.sql_script("SELECT 1; CREATE TABLE db.u AS SELECT raise_error('X') AS a FROM db.s; SELECT 2")
    assert "statement 2 of 3" in str(theirs.value) + " ".join(getattr(theirs.value, "__notes__", []))


def test_identifiers_are_names() -> None:
    for text, args, read in (
        (
            "FROM IDENTIFIER('a.`b$x`') WHERE 'IDENTIFIER(''z'')' = x",
            None,
            "FROM `a`.`b$x` WHERE 'IDENTIFIER(''z'')' = x",
        ),
        ("FROM identifier (:n) WHERE IDENTIFIER(:c) = :v", {"n": "db.t", "c": "k"}, "FROM `db`.`t` WHERE `k` = :v"),
    ):
        assert with_identifiers(text, args) == (read, args)
    text = "SELECT ? FROM IDENTIFIER(?) WHERE a = ? AND IDENTIFIER(?) > 0"
    assert with_identifiers(text, [1, "t", 3, "k"]) == ("SELECT ? FROM `t` WHERE a = ? AND `k` > 0", [1, 3])
    for text in ("IDENTIFIER('a' || 'b')", "IDENTIFIER('a b')", "IDENTIFIER('')", "IDENTIFIER(:n", "x.identifier('a')"):
        assert with_identifiers(text, {"n": "t"}) == (text, {"n": "t"})  # Spark's to evaluate, or to refuse


def test_values_beside_the_text(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (a INT, b STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1')")
    lake.sql("INSERT INTO db.t VALUES (:a, :b), (2, 'y')", {"a": 1, "b": "it's"})
    lake.sql("UPDATE db.t SET b = ? WHERE a = ?", ["z", 2])
    lake.sql("DELETE FROM IDENTIFIER(:t) WHERE a = :no", {"no": 7, "t": "db.t"})
    assert lake.sql("SELECT max(IDENTIFIER(?)) FROM IDENTIFIER(?) WHERE a < ?", ["a", "db.t", 2]).collect()[0][0] == 1
    assert sorted(map(tuple, lake.sql("SELECT * FROM db.t WHERE b <> :b", {"b": "q"}).collect())) == [
        (1, "it's"),
        (2, "z"),
    ]
    numbers = {"a": np.int64(1), "b": [np.float32(2.5)], "c": pd.NaT, "d": F.lit(4)}
    assert tuple(lake.sql("SELECT :a, :b, :c, :d", numbers).collect()[0]) == (1, [2.5], None, 4)
    long = {"a": 2**64, "b": -(10**37)}
    assert tuple(lake.sql("SELECT :a, :b", long).collect()[0]) == (2**64, -(10**37))
    lake.sql("CREATE TABLE db.long (d DECIMAL(38, 0))")
    lake.sql("INSERT INTO db.long VALUES (:a), (:b)", long)
    assert sorted(row.d for row in lake.sql("SELECT d FROM db.long").collect()) == [-(10**37), 2**64]
    for wrong in (object(), 10**38, [np.datetime64("2024-01-01")]):  # Spark's word was of an attribute that they lack
        for text in ("SELECT :a", "INSERT INTO db.t VALUES (:a, 'x')"):
            with pytest.raises(InvalidError, match=r"no value of SQL's.*parameter=a"):
                lake.sql(text, {"a": wrong})
    frame = lake.spark.createDataFrame([(2, "{b}"), (3, "c")], "k int, v string")
    run = lake._fronted.sql
    joined = run(
        lake,
        "SELECT t.a, {d[v]} AS v, '{{}}' AS w FROM db.t JOIN {d} ON {d[k]} = t.a WHERE {c} = 'z'",
        None,
        {"d": frame, "c": F.col("b")},
    )
    assert [tuple(row) for row in joined.collect()] == [(2, "{b}", "{}")]
    assert [
        tuple(row) for row in run(lake, "SELECT count(*) FROM {d} WHERE k = {n}", None, {"d": frame, "n": 3}).collect()
    ] == [(1,)]
    run(lake, "INSERT INTO db.t SELECT {d[k]}, v FROM {d}", None, {"d": frame})
    assert lake.sql("SELECT b FROM db.t WHERE a = 3").collect()[0].b == "c"
    assert not [view for view in lake.spark.sql("SHOW VIEWS").collect() if view.viewName.startswith("given_")]


def test_scripts_of_sparks_query_tables_of_the_lake(lake: Lake) -> None:
    """They were cut at their semicolons, and refused as several statements."""
    lake.sql("CREATE TABLE db.t (k INT, v INT)")
    lake.sql("INSERT INTO db.t VALUES (1, 10), (2, 20), (3, 30)")
    for script, expected in (
        ("BEGIN SELECT count(*) FROM db.t; END", 3),
        ("BEGIN\n DECLARE x INT DEFAULT 2; SELECT v FROM db.t WHERE k = x; -- the one\nEND;", 20),
        ("BEGIN DECLARE s INT DEFAULT 0; FOR r AS SELECT v FROM db.t DO SET s = s + r.v; END FOR; SELECT s; END", 60),
        (
            "BEGIN DECLARE x INT; SET x = (SELECT max(k) FROM db.t); IF x > 2 THEN SELECT 1; ELSE SELECT 0; END IF; END",
            1,
        ),
        ("BEGIN SELECT CASE WHEN k = 1 THEN v ELSE k END FROM db.t WHERE k = 1; END", 10),
        (
            "BEGIN DECLARE n INT DEFAULT 0; SET n = 1; a: WHILE n < 9 DO SET n = n + 4; END WHILE a; SELECT n; END",
            9,
        ),
        ("BEGIN DECLARE n INT DEFAULT 0; REPEAT SET n = n + 2; UNTIL n > 5 END REPEAT; VALUES (n); END", 6),
        ("BEGIN SELECT length(repeat('x', 3)); END", 3),
        ("BEGIN DECLARE s INT DEFAULT 0; FOR r AS SELECT t.v FROM db.t DO SET s = s + r.v; END FOR; SELECT s; END", 60),
        ("BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT -1; SELECT raise_error('x') FROM db.t; END", -1),
    ):
        assert [tuple(row) for row in lake.sql(script).collect()] == [(expected,)], script
    assert lake.sql("BEGIN SELECT k FROM db.t WHERE v > :low; END", {"low": 20}).collect()[0].k == 3


def test_what_no_braces_take_is_told_by_the_users_name(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (k INT)")
    with pytest.raises(InvalidError, match=r"in `?c`? should be a plain column reference"):
        lake.sql("SELECT {c} FROM db.t", c=F.col("k") + 1)


@pytest.mark.spark
def test_markers_say_which_snapshot_is_read(classic: Lake) -> None:
    """Queries refused them behind AS OF, which Spark takes."""
    classic.sql("CREATE TABLE db.t (id INT)")
    for number in (1, 2):
        classic.sql("INSERT INTO db.t VALUES (?)", [number])
    classic.sql("CALL sys.create_tag(table => 'db.t', tag => 'it''s', snapshot => 1)")
    later, both = (
        dt.datetime(2099, 1, 1),
        "SELECT a.id + b.id FROM db.t VERSION AS OF {} a JOIN db.t TIMESTAMP AS OF {} AS b",
    )
    cases = [
        (both.format(":v", ":t") + " WHERE b.id >= :v", {"v": 1, "t": later}, [2, 3]),
        (f"SELECT ? + x FROM ({both.format('?', '?')}) AS s (x) WHERE x > ?", [10, "it's", later.date(), 2], [13]),
        (both.format(":tag", "(:t - INTERVAL 1 DAY)"), {"tag": "it's", "t": later}, [2, 3]),
    ]
    for text, args, wanted in cases:
        assert sorted(row[0] for row in classic.sql(text, args).collect()) == wanted, text
    with pytest.raises(NotFoundError, match="Tag 'nope' doesn't exist"):
        classic.sql("SELECT * FROM db.t VERSION AS OF :v", {"v": "nope"})
