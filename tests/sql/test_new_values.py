"""UPDATE and MERGE of append tables: rows stay where they are, whoever computes and writes their new values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T
from tests.profile import later

from bucketlake.errors import InvalidError
from bucketlake.ops.scan.scan import Scan, plan
from bucketlake.spark import arrow_rows
from bucketlake.spark.merge import held
from bucketlake.spark.read import among, reader
from bucketlake.spark.session import Lake

COLUMNS = """id BIGINT NOT NULL, b BOOLEAN, i INT, d DECIMAL(12, 2), w DECIMAL(30, 3), f FLOAT, t STRING, v VARCHAR(5),
    c CHAR(4), y BINARY, e DATE, n TIMESTAMP_NTZ, z TIMESTAMP, s STRUCT<x: INT>, a ARRAY<INT>, k INT DEFAULT 7"""
TABLES = {
    "plain": "",
    "partitioned": "PARTITIONED BY (i)",
    "bucketed": "TBLPROPERTIES ('bucket' = '2', 'bucket-key' = 'id')",
    "orc": "TBLPROPERTIES ('file.format' = 'orc')",
}
NEW = {
    "b": "NOT t.b",
    "d": "t.d * 2",
    "w": "t.w + 1",
    "f": "-t.f",
    "t": "concat(t.t, '!')",
    "v": "'v'",
    "c": "'c'",
    "y": "X'00ff'",
    "e": "t.e + 1",
    "n": "t.n + INTERVAL 1 HOUR",
    "z": "t.z - INTERVAL 1 HOUR",
}
SET = ", ".join(f"{name} = {value}" for name, value in NEW.items())
WAYS: dict[str, dict[Any, dict[str, int]]] = {
    "driver": {},
    "apart": {arrow_rows: {"SPREAD_BYTES": 0}},
    "tasks": {reader: {"SMALL_ROWS": 0}},
    "frames": {reader: {"SMALL_ROWS": 0}, among: {"MOST_ROWS": 1}},
    "shuffled": {reader: {"SMALL_ROWS": 0}, among: {"MOST_ROWS": 1}, held: {"FEW_ROWS": 1}},
}


def made(lake: Lake, kind: str, rows: int = 40) -> None:
    lake.sql(f"CREATE TABLE db.t ({COLUMNS}) {TABLES[kind]}")
    for start, end in ((0, rows // 2), (rows // 2, rows)):
        lake.sql(
            f"""INSERT INTO db.t SELECT id, id % 2 = 0, id % 3, id / 4, id * 1000, id / 8, concat('t', id), 'old', 'o',
            CAST('y' AS BINARY), date_add('2024-02-28', CAST(id AS INT)), timestamp_ntz'2024-03-31 01:30:00',
            timestamp'2024-03-31 01:30:00Z', IF(id % 4 = 0, NULL, named_struct('x', id)), array(id, NULL), id
            FROM range({start}, {end})"""
        )


def rows_of(lake: Lake, query: str = "SELECT * FROM db.t") -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(query).collect()), key=lambda row: row[0])


def computed(lake: Lake, where: str) -> list[tuple[Any, ...]]:
    """The rows as an UPDATE shall leave them, told by a query."""
    parts = {**NEW, "c": "rpad('c', 4, ' ')"}
    names = [
        column.split()[0] for column in COLUMNS.replace("d DECIMAL(12, 2), w DECIMAL(30, 3)", "d D, w W").split(",")
    ]
    listed = [f"IF({where}, {parts[name]}, t.{name}) AS {name}" if name in parts else f"t.{name}" for name in names]
    return rows_of(lake, f"SELECT {', '.join(listed)} FROM db.t t")


def files(lake: Lake) -> list[int]:
    return sorted(f.row_count for split in plan(lake.table("db.t").table.store, Scan()).splits for f in split.files)


def choose(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    for module, values in WAYS[way].items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "way"),
    later(
        [
            *(("partitioned", "tasks"), ("plain", "apart"), ("plain", "driver"), ("bucketed", "tasks")),
            *(("plain", "tasks"), ("orc", "driver")),
        ],
        2,
    ),
)
def test_update(classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str, way: str) -> None:
    choose(monkeypatch, way)
    made(classic, kind)
    before = files(classic)
    expected = computed(classic, "t.id % 5 = 1")
    classic.sql(f"UPDATE db.t AS t SET {SET} WHERE t.id % 5 = 1")
    assert rows_of(classic) == expected
    assert (sum(files(classic)), len(files(classic)) <= len(before)) == (40, True)
    classic.sql("UPDATE db.t SET k = NULL, t = DEFAULT WHERE id = 3")  # null in a column that has a default
    assert rows_of(classic, "SELECT id, k, t FROM db.t WHERE id = 3") == [(3, 7, None)]
    assert not classic.table("db.t").table.fsck(level="rows").findings


@pytest.mark.spark
@pytest.mark.parametrize("way", later(["driver", "tasks"], 1))
def test_columns_that_are_not_named_in_the_text(classic: Lake, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Only the columns that a statement names are read, unless Spark alone works out which these are."""
    choose(monkeypatch, way)
    classic.sql("CREATE TABLE db.t (id INT, v1 INT, v2 INT, s STRUCT<a: INT, b: INT>)")
    classic.sql("INSERT INTO db.t SELECT id, id, 0, named_struct('a', id, 'b', 1) FROM range(8)")
    classic.sql("UPDATE db.t SET v2 = IDENTIFIER('v' || '1') + s.b WHERE IDENTIFIER('i' || 'd') > 5")
    classic.sql("UPDATE db.t SET s.b = array_size(array(s.*)) WHERE struct(*).v1 = 4")
    classic.sql("DELETE FROM db.t WHERE IDENTIFIER('v' || '1') < 3")
    classic.sql("DELETE FROM db.t AS t WHERE to_json(struct(t.*)) LIKE '%\"v1\":3%'")
    classic.spark.conf.set("some.column", "v2")
    classic.table("db.t").update({"v1": "${some.column} + 1"}, "${some.column} > 6")
    rows = classic.sql("SELECT id, v1, v2, s.a, s.b FROM db.t ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(4, 4, 0, 4, 2), (5, 5, 0, 5, 1), (6, 8, 7, 6, 1), (7, 9, 8, 7, 1)]
    classic.sql("CREATE TABLE db.k (id INT, v1 INT, v2 INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    classic.sql("INSERT INTO db.k SELECT id, v1, v2 FROM db.t")
    classic.table("db.k").update({"v1": "${some.column} + 2"}, "${some.column} = 7")
    classic.sql("UPDATE db.k SET v1 = IDENTIFIER('v' || '2') WHERE IDENTIFIER('v' || '2') = 8")
    classic.table("db.k").delete("${some.column} = 0")
    assert rows_of(classic, "SELECT * FROM db.k") == [(6, 9, 7), (7, 8, 8)]


def test_how_frames_are_made_stays_the_sessions(classic: Lake) -> None:
    """Rows beside a plan are asked for by a setting: it is back behind each."""
    spark, key = classic.spark, "spark.sql.execution.arrow.localRelationThreshold"
    rows = pa.table({"a": range(100_000), "b": ["x"] * 100_000})
    schema = T.StructType([T.StructField("a", T.LongType()), T.StructField("b", T.StringType())])
    for own in (None, "3MB"):
        if own is not None:
            spark.conf.set(key, own)
        found = arrow_rows.spread(spark, rows, schema).selectExpr("sum(a)", "count(b)").collect()
        assert (tuple(found[0]), spark.conf.get(key, None)) == ((4_999_950_000, 100_000), own)
    spark.conf.unset(key)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "way"),
    later(
        [
            *(("plain", "driver"), ("bucketed", "shuffled"), ("plain", "tasks"), ("bucketed", "frames")),
            *(("plain", "frames"), ("partitioned", "shuffled"), ("orc", "shuffled")),
        ],
        2,
    ),
)
def test_merge(classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str, way: str) -> None:
    choose(monkeypatch, way)
    made(classic, kind)
    before = files(classic)
    expected = computed(classic, "t.id % 5 = 1 AND t.id < 30")
    added = [(id, *[None] * 5, f"new {id}", *[None] * 8, 7) for id in range(41, 50, 5)]
    assignments = SET.replace("(t.t, '!')", "(t.t, s.x)")
    classic.sql(
        f"""MERGE INTO db.t t USING (SELECT id, '!' AS x FROM range(1, 50, 5)) s ON t.id = s.id
        WHEN MATCHED AND t.id < 30 THEN UPDATE SET {assignments}
        WHEN NOT MATCHED THEN INSERT (id, t) VALUES (s.id, concat('new ', s.id))"""
    )
    assert rows_of(classic) == sorted([*expected, *added], key=lambda row: row[0])
    assert sum(files(classic)) == 42
    assert len(files(classic)) <= len(before) + (2 if kind == "bucketed" else 1)
    assert not classic.table("db.t").table.fsck(level="rows").findings


@pytest.mark.spark
@pytest.mark.parametrize("way", later(["shuffled", "driver", "tasks"], 1))
def test_clauses_that_set_other_columns_and_values_that_do_not_fit(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    choose(monkeypatch, way)
    made(classic, "plain")
    before = rows_of(classic, "SELECT id, t, k, v FROM db.t")
    classic.sql(
        """MERGE INTO db.t t USING (SELECT id FROM range(0, 20)) s ON t.id = s.id
        WHEN MATCHED AND s.id % 4 = 0 THEN UPDATE SET t = 'four' WHEN MATCHED AND s.id % 2 = 0 THEN UPDATE SET k = -1"""
    )
    expected = [
        (id, "four" if id < 20 and id % 4 == 0 else t, -1 if id < 20 and id % 4 == 2 else k, v)
        for id, t, k, v in before
    ]
    assert rows_of(classic, "SELECT id, t, k, v FROM db.t") == expected
    paths = set(classic.sql("SELECT file_path FROM `db`.`t$files`").toPandas()["file_path"])
    for value in ("v = 'too long'", "id = CAST(NULL AS BIGINT)", "d = 1e12"):
        with pytest.raises(InvalidError):
            classic.sql(
                f"MERGE INTO db.t t USING (SELECT 5L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {value}"
            )
    assert rows_of(classic, "SELECT id, t, k, v FROM db.t") == expected
    assert set(classic.sql("SELECT file_path FROM `db`.`t$files`").toPandas()["file_path"]) == paths


@pytest.mark.slow
@pytest.mark.spark
def test_a_change_of_many_rows_goes_by_a_shuffle(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id BIGINT, x INT, t STRING)")
    for start in (0, 150_000):
        classic.sql(f"INSERT INTO db.t SELECT id, 0, concat('t', id) FROM range({start}, {start + 150_000})")
    before = files(classic)
    classic.sql("UPDATE db.t SET x = CAST(id AS INT) WHERE id % 2 = 0")
    asked = "SELECT count(*), sum(x), count_if(x = id), count_if(t = concat('t', id)) FROM db.t"
    assert rows_of(classic, asked) == [(300_000, sum(range(0, 300_000, 2)), 150_000, 300_000)]
    classic.sql(
        """MERGE INTO db.t USING (SELECT id FROM range(100000, 300100)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET x = -1 WHEN NOT MATCHED THEN INSERT (id, x, t) VALUES (s.id, -1, '')"""
    )
    asked = "SELECT count(*), count_if(x = -1), min(id) FILTER (WHERE x = -1) FROM db.t"
    assert rows_of(classic, asked) == [(300_100, 200_100, 100_000)]
    assert sum(files(classic)) == sum(before) + 100


# What ON says, what the source's columns are, and whether rows can stay where they are when all columns are set.
STAYS = {
    "id and i": ("t.id = s.id AND t.i = s.i", "id, i", True),
    "sides": ("(s.i = t.i) AND s.id = t.id", "id, i", True),
    "another type": ("t.id = s.id AND t.i = s.i", "id, CAST(i AS BIGINT) AS i", False),
    "text": ("t.id = s.id AND t.i = s.i", "id, concat('0', i) AS i", False),
    "an expression": ("t.id = s.id AND t.i = s.i + 0", "id, i", False),
    "an alternative": ("t.id = s.id AND (t.i = s.i OR s.id = 7)", "id, IF(id = 7, 9, i) AS i", False),
    "another column": ("t.id = s.id AND t.i = s.j", "id, i + 1 AS i, i AS j", False),
    "one of them": ("t.id = s.id", "id, i", False),
}


@pytest.mark.spark
@pytest.mark.parametrize("way", later(["driver", "shuffled", "tasks"], 1))
@pytest.mark.parametrize("on", later(list(STAYS), 5))
def test_rows_stay_where_on_says_what_places_them(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, on: str, way: str
) -> None:
    choose(monkeypatch, way)
    condition, columns, stays = STAYS[on]
    classic.sql("CREATE TABLE db.t (id BIGINT, i INT, v STRING) PARTITIONED BY (i)")
    classic.sql("INSERT INTO db.t SELECT id, id % 3, 'old' FROM range(60) UNION ALL SELECT 60, NULL, 'old'")
    before = files(classic)
    changes = f"SELECT {columns}, 'new' AS v FROM (SELECT id, CAST(id % 3 AS INT) AS i FROM range(0, 90, 7))"
    expected = {row[0]: row for row in rows_of(classic)}
    query = f"SELECT t.id AS id, CAST(s.i AS INT) AS i, s.v AS v FROM db.t t JOIN ({changes}) s ON {condition}"
    expected |= {row[0]: row for row in rows_of(classic, query)}
    assert any(row[2] == "new" for row in expected.values())
    classic.sql(f"MERGE INTO db.t t USING ({changes}) s ON {condition} WHEN MATCHED THEN UPDATE SET *")
    assert rows_of(classic) == sorted(expected.values())
    assert (files(classic) == before) == stays
    assert not classic.table("db.t").table.fsck(level="rows").findings


@pytest.mark.spark
def test_rows_stay_where_clauses_set_what_they_hold(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id BIGINT, p CHAR(3), f DOUBLE, v STRING) PARTITIONED BY (p, f)")
    classic.sql("INSERT INTO db.t SELECT id, 'a', -0.0D, 'old' FROM range(20)")
    before = files(classic)
    source = "(SELECT id, 'a  ' AS p, 0.0D AS f, 'new' AS v FROM range(0, 20, 2))"
    on = "t.id = s.id AND t.p = s.p AND t.f = s.f"
    classic.sql(
        f"""MERGE INTO db.t t USING {source} s ON {on} WHEN MATCHED AND s.id < 8 THEN UPDATE SET v = s.v, p = t.p, `F` = `t`.f
        WHEN MATCHED AND s.id < 12 THEN UPDATE SET id = s.id, v = 'more' WHEN NOT MATCHED THEN INSERT *"""
    )
    assert files(classic) == before
    told = {row[0]: row[3] for row in rows_of(classic)}
    assert told == {id: "old" if id % 2 or id >= 12 else "new" if id < 8 else "more" for id in range(20)}
    # Equal values of these types have other forms: the rows go where the source says.
    classic.sql(f"MERGE INTO db.t t USING {source} s ON {on} WHEN MATCHED THEN UPDATE SET *")
    assert files(classic) != before
    assert sorted(str(row[2]) for row in rows_of(classic)) == ["-0.0"] * 10 + ["0.0"] * 10


@pytest.mark.spark
def test_columns_that_place_rows_move_them(classic: Lake) -> None:
    made(classic, "partitioned")
    classic.sql("UPDATE db.t SET i = 9, k = 1 WHERE id < 4")
    classic.sql(
        "MERGE INTO db.t t USING (SELECT 20L AS id, 9 AS i) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET i = s.i"
    )
    assert [row[0] for row in rows_of(classic, "SELECT id FROM db.t WHERE i = 9")] == [0, 1, 2, 3, 20]
    with pytest.raises(InvalidError, match="no such column"):
        classic.table("db.t").update({"nope": "1"}, "id = 1")


def test_by_python(lake: Lake) -> None:
    made(lake, "plain", 20)
    lake.table("db.t").update({"t": "concat(t, '?')", "k": "id + 1"}, "id % 2 = 1 AND length(t) = 2")
    expected = [(id, f"t{id}?", id + 1) if id % 2 and id < 10 else (id, f"t{id}", id) for id in range(20)]
    assert rows_of(lake, "SELECT id, t, k FROM db.t") == expected
