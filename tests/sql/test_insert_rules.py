"""What INSERT and DataFrame writes make of modes, names, policies and defaults: Spark's rules, with Paimon's defaults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pyspark
import pytest
from tests.profile import later

from bucketlake.errors import AlreadyExistsError, CommitUnknownError, InvalidError, StorageError
from bucketlake.spark.session import Lake
from bucketlake.spark.write import writer
from bucketlake.table import Table

pytestmark = pytest.mark.spark


@contextmanager
def session(lake: Lake, **settings: str) -> Iterator[None]:
    keys = {name: name.replace("__", ".") for name in settings}
    before = {key: lake.spark.conf.getAll.get(key) for key in keys.values()}
    try:
        for name, value in settings.items():
            lake.spark.conf.set(keys[name], value)
            assert lake.spark.conf.get(keys[name]) == value
        yield
    finally:
        for key, value in before.items():
            lake.spark.conf.unset(key) if value is None else lake.spark.conf.set(key, value)


def rows(lake: Lake, text: str = "SELECT * FROM db.t") -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in lake.sql(text).collect()), key=repr)


DYNAMIC = {"spark__sql__sources__partitionOverwriteMode": "dynamic"}
STATIC = {"spark__sql__sources__partitionOverwriteMode": "static"}


def test_overwrites_of_a_partly_named_partition(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (v INT, pt1 STRING, pt2 INT) PARTITIONED BY (pt1, pt2)")
    table = lake.table("db.t")
    lake.sql("INSERT INTO db.t VALUES (1, 'a', 11), (2, 'a', 22), (3, 'b', 22)")
    with session(lake, **DYNAMIC):
        lake.sql("INSERT OVERWRITE db.t PARTITION (pt2 = 22) VALUES (4, 'a')")
        assert rows(lake) == [(1, "a", 11), (3, "b", 22), (4, "a", 22)]
        lake.sql("INSERT OVERWRITE db.t PARTITION (pt2 = 22, pt1) SELECT v, pt1 FROM db.t WHERE false")
        assert len(rows(lake)) == 3
        lake.sql("INSERT OVERWRITE db.t PARTITION (pt1 = 'b', pt2 = 22) SELECT 1 WHERE false")  # named whole: emptied
        assert rows(lake) == [(1, "a", 11), (4, "a", 22)]
        frame = lake.spark.sql("SELECT 5 AS v, 'b' AS pt1")
        table.write(frame, mode="overwrite", partition={"pt2": 22})
        assert rows(lake) == [(1, "a", 11), (4, "a", 22), (5, "b", 22)]
        with pytest.raises(InvalidError, match="do not belong"):
            table.write(frame.selectExpr("*", "11 AS pt2"), mode="overwrite", partition={"pt2": 22})
    with session(lake, **STATIC):
        table.write(lake.spark.sql("SELECT 6 AS v, 'c' AS pt1"), mode="overwrite", partition={"pt2": 22})
        assert rows(lake) == [(1, "a", 11), (6, "c", 22)]
        lake.sql("INSERT OVERWRITE db.t PARTITION (pt2 = 22) VALUES (7, 'd')")
        assert rows(lake) == [(1, "a", 11), (7, "d", 22)]
        table.write(lake.spark.sql("SELECT 8 AS v, 'd' AS pt1, 22 AS pt2"), mode="overwrite")
        assert rows(lake) == [(8, "d", 22)]
    with pytest.raises(InvalidError, match="not of its column"):
        lake.sql("INSERT OVERWRITE db.t PARTITION (pt2 = 'many') VALUES (4, 'a')")


def test_members_are_matched_by_name_at_every_level(classic: Lake) -> None:
    lake = classic
    inner = "STRUCT<a: STRING, b: INT>"
    lake.sql(f"CREATE TABLE db.t (id INT, s {inner}, l ARRAY<{inner}>, m MAP<STRING, {inner}>)")
    swapped = "named_struct('B', 1, 'A', 'x')"
    lake.sql(
        f"INSERT INTO db.t BY NAME SELECT map('k', {swapped}) AS m, {swapped} AS S, 1 AS id, array({swapped}, NULL) AS l"
    )
    found = lake.sql("SELECT s.a, s.b, l[0].a, l[0].b, l[1], m['k'].a, m['k'].b FROM db.t").collect()[0]
    assert tuple(found) == ("x", 1, "x", 1, None, "x", 1)
    frame = lake.spark.sql(f"SELECT 2 AS id, {swapped} AS s")
    lake.table("db.t").write(frame)
    assert rows(lake, "SELECT s.a, s.b, l FROM db.t WHERE id = 2") == [("x", 1, None)]
    lake.sql("INSERT INTO db.t (id, s) SELECT 3, named_struct('b', 'p', 'a', 2)")  # by position, as Spark has it
    assert rows(lake, "SELECT s.a, s.b FROM db.t WHERE id = 3") == [("p", 2)]
    lake.sql("INSERT INTO db.t BY NAME SELECT 4 AS id, CAST(NULL AS STRUCT<b: INT, a: STRING>) AS s")
    assert rows(lake, "SELECT s IS NULL FROM db.t WHERE id = 4") == [(True,)]
    before = lake.table("db.t").latest_snapshot()
    for members in ("'a', 'x'", "'a', 'x', 'b', 1, 'c', 2", "'a', 'x', 'b', 1, 'A', 'y'"):
        with pytest.raises(InvalidError, match="s"):
            lake.sql(f"INSERT INTO db.t BY NAME SELECT 5 AS id, named_struct({members}) AS s")
    with pytest.raises(InvalidError, match="twice"):
        lake.sql("INSERT INTO db.t BY NAME SELECT 5 AS id, 6 AS ID")
    with (
        session(lake, spark__sql__caseSensitive="true"),
        pytest.raises(InvalidError, match="extra struct fields at `s`: `B`, `A`"),
    ):
        lake.sql(f"INSERT INTO db.t BY NAME SELECT 5 AS id, {swapped} AS s")
    assert lake.table("db.t").latest_snapshot() == before


def test_store_assignment_follows_its_policy_in_either_ansi_mode(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (i INT, l ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<x: INT>)")
    big = 3_000_000_000
    lossy = [f"(i) VALUES ({big})", f"(l) SELECT array(1, {big})", f"(m) SELECT map('a', {big})"]
    lossy += [f"(s) SELECT named_struct('x', {big})", "(i) SELECT CAST('NaN' AS DOUBLE)"]
    for ansi in ("false", "true"):
        with session(lake, spark__sql__ansi__enabled=ansi):
            for tail in lossy:
                with pytest.raises(Exception, match="does not fit its column"):
                    lake.sql(f"INSERT INTO db.t {tail}")
            with pytest.raises(InvalidError, match="cannot safely cast"):
                lake.sql("INSERT INTO db.t (i) VALUES (DATE '2024-01-01')")
            with session(lake, spark__sql__storeAssignmentPolicy="STRICT"), pytest.raises(InvalidError, match="safely"):
                lake.sql("INSERT INTO db.t (i) VALUES (1L)")
    with pytest.raises(Exception, match="does not fit its column"):
        lake.sql("INSERT INTO db.t (i) VALUES ('x')")
    assert lake.table("db.t").snapshots() == []
    lake.sql("INSERT INTO db.t VALUES ('7', array('8'), map('a', '9'), named_struct('x', '10'))")
    with session(lake, spark__sql__ansi__enabled="false"):
        lake.sql("INSERT INTO db.t (i, s) SELECT 'x', struct('11 monkeys')")
    assert rows(lake, "SELECT i, l[0], m['a'], s.x FROM db.t") == [(7, 8, 9, 10), (None, None, None, None)]
    lake.sql("TRUNCATE TABLE db.t")
    with session(lake, spark__sql__ansi__enabled="false", spark__sql__storeAssignmentPolicy="LEGACY"):
        lake.sql(f"INSERT INTO db.t (i) VALUES ({big})")
        lake.sql("INSERT INTO db.t (i) VALUES ('x'), ('12')")
    assert [row[0] for row in rows(lake, "SELECT i FROM db.t")] == [-1294967296, 12, None]


def test_what_is_no_number_is_a_decimal_s_null(classic: Lake) -> None:
    """As Spark stores it in tables of its own; what is too large stays an error."""
    classic.sql("CREATE TABLE db.t (d DECIMAL(5, 2), a ARRAY<DECIMAL(5, 2)>)")
    for value in ("double('NaN')", "float('-Infinity')", "double('Infinity')"):
        classic.sql(f"INSERT INTO db.t SELECT {value}, array({value}, 1.5D)")
    assert {(row.d, row.a[0], str(row.a[1])) for row in classic.sql("SELECT * FROM db.t").collect()} == {
        (None, None, "1.50")
    }
    with pytest.raises(InvalidError, match="CAST_OVERFLOW_IN_TABLE_INSERT"):
        classic.sql("INSERT INTO db.t SELECT 1e9D, array(1D)")


def test_defaults_of_every_type(classic: Lake) -> None:
    lake = classic
    lake.sql("""
        CREATE TABLE db.t (id INT, n INT DEFAULT 1 + 1, d DATE DEFAULT DATE '2024-02-03', s STRING DEFAULT 'it''s',
          a ARRAY<INT> DEFAULT array(1, 2), m MAP<STRING, INT> DEFAULT map('k', 7), x DECIMAL(5, 2) DEFAULT 1.5,
          r STRUCT<p: INT, q: STRING> DEFAULT named_struct('p', 1, 'q', 'z'), dt STRING DEFAULT 'today', e INT DEFAULT NULL
        ) PARTITIONED BY (dt) TBLPROPERTIES ('bucket' = '2', 'bucket-key' = 'n')""")
    columns = "n, CAST(d AS STRING), s, a, m['k'], CAST(x AS STRING), r.p, r.q, dt, e"
    filled = (2, "2024-02-03", "it's", [1, 2], 7, "1.50", 1, "z", "today", None)
    lake.sql("INSERT INTO db.t (id) VALUES (1)")
    lake.sql("INSERT INTO db.t (id, n, s) VALUES (2, DEFAULT, DEFAULT)")
    lake.sql("INSERT INTO db.t BY NAME SELECT 3 AS id")
    lake.table("db.t").write(lake.spark.range(4, 5).selectExpr("CAST(id AS INT) AS ID"))
    lake.table("db.t").table.write_arrow(lake.spark.sql("SELECT 5 AS id").toArrow())
    assert rows(lake, f"SELECT {columns} FROM db.t") == [filled] * 5
    assert lake.table("db.t").partitions() == [{"dt": "today"}]
    lake.sql("ALTER TABLE db.t ALTER COLUMN n SET DEFAULT 9")
    lake.sql("UPDATE db.t SET n = DEFAULT WHERE id = 1")
    assert rows(lake, "SELECT n FROM db.t WHERE id = 1") == [(9,)]
    statement = lake.sql("SHOW CREATE TABLE db.t").collect()[0][0]
    defaults = [f.default for f in lake.table("db.t").schema.fields]
    lake.sql("DROP TABLE db.t")
    lake.sql(statement)
    assert [f.default for f in lake.table("db.t").schema.fields] == defaults


@pytest.mark.parametrize("default", ["0) AS n, 1 AS m FROM db.payroll --", "(SELECT max(pay) FROM db.payroll)"])
def test_a_default_in_a_schema_file_is_no_query(classic: Lake, default: str) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.payroll (pay INT)")
    lake.sql("INSERT INTO db.payroll VALUES (77)")
    lake.sql("CREATE TABLE db.t (id INT, n INT DEFAULT 5, s STRING DEFAULT 'x')")
    path = Path(lake.table("db.t").path) / "schema" / "schema-0"
    tree = json.loads(path.read_text())
    for field in tree["fields"][1:]:
        field["defaultValue"] = default
    path.write_text(json.dumps(tree))
    for statement in (
        "INSERT INTO db.t (id, s) VALUES (1, 'a')",
        "INSERT INTO db.t (id, s) SELECT 1, 'a'",
        "INSERT INTO db.t VALUES (1, DEFAULT, 'a')",
    ):
        with pytest.raises(Exception, match="Unsupported default value"):
            lake.sql(statement)
    assert lake.table("db.t").snapshots() == []
    lake.sql("INSERT INTO db.t VALUES (1, 2, 'a')")  # needs none
    assert rows(lake) == [(1, 2, "a")]
    assert lake.sql("SHOW CREATE TABLE db.t").count() == 1


def test_columns_that_must_be_given(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    with pytest.raises(InvalidError, match="missing=.'id'."):
        classic.sql("INSERT INTO db.t BY NAME SELECT 'a' AS v")
    with pytest.raises(InvalidError, match="missing=.'id'."):
        classic.table("db.t").write(classic.spark.sql("SELECT 'a' AS v"))
    classic.table("db.t").write(classic.spark.sql("SELECT 1 AS id"))
    assert rows(classic) == [(1, None)]


CTAS = "CREATE TABLE IF NOT EXISTS db.t AS SELECT id FROM range(3)"


def test_a_ctas_that_another_job_overtakes(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other table stays as it is: no rows of ours in it, and it is not dropped."""
    lake, written = classic, writer._written

    def overtaken(*args: object) -> object:
        found = written(*args)
        monkeypatch.setattr(writer, "_written", written)
        lake.sql("CREATE TABLE db.t AS SELECT 'theirs' AS who")
        monkeypatch.setattr(writer, "_written", overtaken)
        return found

    monkeypatch.setattr(writer, "_written", overtaken)
    lake.sql(CTAS)
    assert rows(lake) == [("theirs",)]
    files = list(Path(lake.table("db.t").path).rglob("*.parquet"))
    assert len(files) == 1
    monkeypatch.setattr(writer, "_written", written)
    lake.sql(CTAS)
    with pytest.raises(AlreadyExistsError):
        lake.sql(CTAS.replace("IF NOT EXISTS ", ""))
    assert rows(lake) == [("theirs",)]


def test_a_ctas_whose_commit_fails(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that may hold the rows stays, one that certainly does not goes, one that others use stays."""
    lake, commit = classic, Table.commit

    def failing(error: Exception, first: str | None = None) -> None:
        def fail(table: Table, *args: object, **more: object) -> None:
            monkeypatch.setattr(Table, "commit", commit)
            if first is not None:
                lake.sql(first)
            raise error

        monkeypatch.setattr(Table, "commit", fail)

    failing(StorageError("the store is away"))
    with pytest.raises(StorageError):
        lake.sql(CTAS)
    assert not lake.catalog.table_exists("db.t")
    failing(CommitUnknownError("no answer"))
    with pytest.raises(CommitUnknownError):
        lake.sql(CTAS)
    assert lake.catalog.table_exists("db.t")
    lake.sql("DROP TABLE db.t")
    for used in ("INSERT INTO db.t VALUES (9)", "ALTER TABLE db.t ADD COLUMN z INT"):
        failing(StorageError("the store is away"), used)
        with pytest.raises(StorageError):
            lake.sql(CTAS)
        assert lake.catalog.table_exists("db.t")
        lake.sql("DROP TABLE db.t")


def test_a_ctas_whose_query_fails_leaves_no_trace(classic: Lake) -> None:
    with pytest.raises(Exception, match="(?i)broken"):
        classic.sql("CREATE TABLE db.t AS SELECT CAST(raise_error('broken') AS INT) AS y FROM range(3)")
    assert list((Path(classic.catalog.warehouse) / "db.db").iterdir()) == []


def test_a_delete_takes_one_condition(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (k INT, dt STRING) PARTITIONED BY (dt)")
    classic.sql("INSERT INTO db.t VALUES (1, 'x'), (2, 'x'), (3, 'y')")
    for tail in ("LIMIT 1", "ORDER BY k", "GROUP BY k", "UNION SELECT 1", "garbage garbage"):
        with pytest.raises(Exception, match="SQL|PARSE"):
            classic.sql(f"DELETE FROM db.t WHERE dt = 'x' {tail}")
    with pytest.raises(Exception, match="SQL|PARSE"):
        classic.sql("UPDATE db.t SET k = 1 WHERE dt = 'x' OFFSET 3")
    assert len(classic.table("db.t").snapshots()) == 1
    classic.sql("DELETE FROM db.t AS d WHERE d.dt = 'x' AND d.k IN (SELECT k FROM db.t ORDER BY k LIMIT 1)")
    assert rows(classic) == [(2, "x"), (3, "y")]


def test_char_is_padded_as_the_session_says(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (id INT, c CHAR(5))")
    with session(lake, spark__sql__legacy__charVarcharAsString="true"):
        lake.sql("INSERT INTO db.t VALUES (1, 'xy')")
        assert rows(lake) == [(1, "xy")]
    lake.sql("INSERT INTO db.t VALUES (2, 'xy')")
    assert rows(lake) == [(1, "xy   "), (2, "xy   ")]
    with session(lake, spark__sql__readSideCharPadding="false"):
        assert rows(lake) == [(1, "xy"), (2, "xy   ")]


def test_char_inside_of_values_is_padded_as_spark_has_it(classic: Lake) -> None:
    lake, spark = classic, classic.spark
    columns = "(id INT, s STRUCT<c: CHAR(3), v: VARCHAR(2)>, a ARRAY<CHAR(2)>, m MAP<VARCHAR(2), CHAR(2)>)"
    lake.sql(f"CREATE TABLE db.t {columns}")
    spark.sql(f"CREATE TABLE spark_catalog.default.nested_chars {columns} USING parquet")
    given = (
        "(1, named_struct('c', 'a', 'v', 'b   '), array('x', NULL, 'y   '), map('k   ', 'é'))",
        "(2, named_struct('c', NULL, 'v', 'b'), array(), map('k', NULL))",
        "(3, NULL, NULL, NULL)",
    )
    wrong = (
        "(4, named_struct('c', 'aaaa', 'v', 'b'), NULL, NULL)",
        "(4, named_struct('c', 'a', 'v', 'bbb'), NULL, NULL)",
        "(4, NULL, array('x', 'xxx'), NULL)",
        "(4, NULL, NULL, map('kkk', 'x'))",
        "(4, NULL, NULL, map('k', 'xxx'))",
    )
    shown = "SELECT *, length(s.c), length(get(a, 0)) FROM {} ORDER BY id"
    try:
        for run, name in ((lake.sql, "db.t"), (spark.sql, "spark_catalog.default.nested_chars")):
            run(f"INSERT INTO {name} VALUES {', '.join(given)}")
            for one in wrong:
                with pytest.raises(Exception, match="char/varchar type length limitation"):
                    run(f"INSERT INTO {name} VALUES {one}")
        expected = spark.sql(shown.format("spark_catalog.default.nested_chars")).collect()
    finally:
        spark.sql("DROP TABLE spark_catalog.default.nested_chars")
    assert lake.sql(shown.format("db.t")).collect() == expected
    lake.sql("UPDATE db.t SET s.c = 'q', a = array('z') WHERE id = 1")
    source = "(SELECT 2 AS id, named_struct('c', 'w', 'v', 'w  ') AS s) n"
    lake.sql(f"MERGE INTO db.t USING {source} ON t.id = n.id WHEN MATCHED THEN UPDATE SET s = n.s, m = map('k', 'm')")
    found = sorted(lake.catalog.table("db.t").to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [found[0]["s"], found[0]["a"], found[0]["m"]] == [{"c": "q  ", "v": "b "}, ["z "], [("k ", "é ")]]
    assert [found[1]["s"], found[1]["m"]] == [{"c": "w  ", "v": "w "}, [("k", "m ")]]


def test_a_char_partition_is_overwritten_by_its_text_without_spaces(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (id INT, p CHAR(3), q CHAR(2)) PARTITIONED BY (p, q)")
    lake.sql("INSERT INTO db.t VALUES (1, '2', 'a'), (2, '33', 'a'), (3, '2', 'b')")
    lake.sql("INSERT OVERWRITE db.t PARTITION (p = '2', q = 'a') VALUES (4)")
    assert rows(lake) == [(2, "33 ", "a "), (3, "2  ", "b "), (4, "2  ", "a ")]
    lake.sql("INSERT OVERWRITE db.t PARTITION (p = '2     ', q) VALUES (5, 'c')")
    assert rows(lake) == [(2, "33 ", "a "), (5, "2  ", "c ")]
    lake.sql("INSERT INTO db.t REPLACE WHERE p = '33' VALUES (6, '33', 'a')")
    assert rows(lake) == [(5, "2  ", "c "), (6, "33 ", "a ")]
    lake.table("db.t").write(lake.spark.sql("SELECT 7 AS id, 'z' AS q"), mode="overwrite", partition={"p": "2"})
    assert rows(lake) == [(6, "33 ", "a "), (7, "2  ", "z ")]
    with session(lake, spark__sql__legacy__charVarcharAsString="true"):
        lake.sql("INSERT OVERWRITE db.t PARTITION (p = '2', q = 'z') VALUES (8)")
        assert rows(lake) == [(6, "33 ", "a "), (7, "2  ", "z "), (8, "2", "z")]


@pytest.mark.parametrize("ansi", later(["true", "false"], 1))
def test_values_of_partitions_are_texts_to_spark(classic: Lake, ansi: str) -> None:
    """As such they are cast, whatever the session says: what is no value of the column's type names no partition, not
    the nearest one, nor that of nulls."""
    before = classic.spark.conf.get("spark.sql.ansi.enabled")
    classic.spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        classic.sql("CREATE TABLE db.parts (k INT, p INT) PARTITIONED BY (p)")
        classic.sql("INSERT INTO db.parts VALUES (1, 1), (2, NULL)")
        for value in ("1.9", "'1.9'", "'abc'", "true", "1e0", "3000000000", "-.5", "1.0D"):
            for statement in (
                "INSERT OVERWRITE db.parts PARTITION (p = {}) SELECT 7",
                "ALTER TABLE db.parts DROP PARTITION (p = {})",
                "ALTER TABLE db.parts DROP IF EXISTS PARTITION (p = {})",
                "TRUNCATE TABLE db.parts PARTITION (p = {})",
                "SHOW PARTITIONS db.parts PARTITION (p = {})",
            ):
                with pytest.raises(InvalidError, match="not of its column"):
                    classic.sql(statement.format(value)).collect()
        assert sorted(map(str, classic.sql("SELECT * FROM db.parts").collect())) == [
            "Row(k=1, p=1)",
            "Row(k=2, p=None)",
        ]
        classic.sql("ALTER TABLE db.parts DROP PARTITION (p = 01L)")
        assert [tuple(row) for row in classic.sql("SELECT * FROM db.parts").collect()] == [(2, None)]
    finally:
        classic.spark.conf.set("spark.sql.ansi.enabled", before)


def test_constants_of_partitions(classic: Lake) -> None:
    """Numbers with suffixes and without a leading zero, bytes, and texts in pieces."""
    classic.sql("CREATE TABLE db.parts (k INT, p STRING) PARTITIONED BY (p)")
    classic.sql("CREATE TABLE db.reals (k INT, p DOUBLE) PARTITIONED BY (p)")
    for k, value in enumerate(["007", "7L", "X'78'", "'a' 'b'", "1.50BD", "-.5"]):
        classic.sql(f"INSERT INTO db.parts PARTITION (p = {value}) VALUES ({k})")
        assert len(classic.sql(f"SHOW PARTITIONS db.parts PARTITION (p = {value})").collect()) == 1
    assert [row.p for row in classic.sql("SELECT p FROM db.parts ORDER BY k").collect()] == [
        *("7", "7", "x", "ab", "1.50", "-0.5")
    ]
    for k, value in enumerate(["1e300D", "1.5D", "2S", "1F", "-.5"]):
        classic.sql(f"INSERT OVERWRITE db.reals PARTITION (p = {value}) VALUES ({k})")
        classic.sql(f"INSERT OVERWRITE db.reals PARTITION (p = {value}) VALUES ({k})")
    assert [row.p for row in classic.sql("SELECT p FROM db.reals ORDER BY k").collect()] == [1e300, 1.5, 2.0, 1.0, -0.5]


def test_a_partition_of_null_that_a_default_replaces(classic: Lake) -> None:
    """Every null is the default, so that the row lies elsewhere: the error named no way to say it."""
    classic.sql("CREATE TABLE db.parts (k INT, p INT DEFAULT 5) PARTITIONED BY (p)")
    with pytest.raises(InvalidError, match="does not belong to this partition.*name the default of p instead: 5"):
        classic.sql("INSERT OVERWRITE db.parts PARTITION (p = NULL) SELECT 1")
    classic.sql("INSERT OVERWRITE db.parts PARTITION (p = 5) SELECT 1")
    classic.sql("TRUNCATE TABLE db.parts PARTITION (p = 6)")  # nothing to remove, as with Apache Paimon's connector
    assert [tuple(row) for row in classic.sql("SELECT * FROM db.parts").collect()] == [(1, 5)]


@pytest.mark.skipif(pyspark.__version__ < "4.3", reason="Spark casts no times of day to timestamps yet")
def test_times_of_day_become_timestamps_of_today(classic: Lake) -> None:
    """As Spark casts them; to columns TIME, which are milliseconds in DataFrames, they are refused: it casts to seconds."""
    classic.sql("CREATE TABLE db.times (t TIMESTAMP, n TIMESTAMP_NTZ, d TIME)")
    classic.sql("INSERT INTO db.times (t, n) SELECT TIME'01:02:03', TIME'01:02:03'")
    found = classic.sql("SELECT date_format(t, 'HH:mm:ss'), date_format(n, 'HH:mm:ss') FROM db.times").collect()
    assert [tuple(row) for row in found] == [("01:02:03", "01:02:03")]
    with pytest.raises(InvalidError, match="cannot safely cast"):
        classic.sql("INSERT INTO db.times (d) SELECT TIME'01:02:03'")


def test_what_spark_casts_to_numbers_and_variants_is_taken(classic: Lake) -> None:
    """Intervals as numbers, arrays as VARIANT, a VARIANT as nested values; its null is NULL of every type."""
    lake = classic
    lake.sql(
        "CREATE TABLE db.t (i INT, d DECIMAL(9, 2), a ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<`x y`: INT>, v VARIANT)"
    )
    seconds = "INTERVAL '1 02:03:04.5' DAY TO SECOND"
    lake.sql(f"INSERT INTO db.t (i, d, v) VALUES (INTERVAL '5' DAY, {seconds}, array(1, NULL))")
    lake.sql("""INSERT INTO db.t (i, a, m, s) SELECT INTERVAL '1-2' YEAR TO MONTH,
        parse_json('[1, null]'), parse_json('{"k": 3}'), parse_json('{"x y": 4}')""")
    null = "parse_json('null')"
    lake.sql(f"INSERT INTO db.t SELECT {null}, {null}, {null}, {null}, {null}, {null}")
    found = [tuple(row) for row in lake.sql("SELECT i, d, a, m, s.`x y`, to_json(v) FROM db.t").collect()]
    assert sorted(found, key=repr) == sorted(
        [
            (5, Decimal("93784.50"), None, None, None, "[1,null]"),
            (14, None, [1, None], {"k": 3}, 4, None),
            (None, None, None, None, None, "null"),
        ],
        key=repr,
    )
    lake.sql("UPDATE db.t SET a = parse_json('[7]'), i = INTERVAL '9' MONTH WHERE i = 5")
    assert rows(lake, "SELECT i, a[0] FROM db.t WHERE i = 9") == [(9, 7)]
    for ansi in ("true", "false"):
        with session(lake, spark__sql__ansi__enabled=ansi):
            for lost in ("parse_json('[\"x\"]') AS a", "INTERVAL '99999999' DAY AS d", "parse_json('\"x\"') AS i"):
                with pytest.raises(Exception, match="does not fit its column|INVALID_VARIANT_CAST"):
                    lake.sql(f"INSERT INTO db.t BY NAME SELECT {lost}")
    for lost in ("map('a', 1) AS v", "INTERVAL '5' DAY AS a", "parse_json('1') AS x"):
        with pytest.raises(InvalidError, match="Cannot write|safely"):
            lake.sql(f"INSERT INTO db.t BY NAME SELECT {lost}")
    with session(lake, spark__sql__storeAssignmentPolicy="STRICT"), pytest.raises(InvalidError, match="safely"):
        lake.sql("INSERT INTO db.t (i) VALUES (INTERVAL '5' DAY)")
