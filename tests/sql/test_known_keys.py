"""Rows of known keys: MERGE, DELETE and UPDATE read other columns only where such rows are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.profile import SOAK, first, later
from tests.sql.merges import KINDS

from bucketlake.errors import CorruptError
from bucketlake.spark import changes
from bucketlake.spark.read import among, reader
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

COLUMNS = "a BIGINT, g STRING, b INT, c STRING, d STRING, e STRING"
TABLES = {**KINDS, "two": "'primary-key' = 'a,g', 'bucket' = '2'", "keyed": "'primary-key' = 'a', 'bucket' = '1'"}
BOTH = {"db.here": among.MOST_ROWS, "db.else": 0}  # and how many rows are looked up at most
MERGE = """MERGE INTO db.t USING source s ON t.a = s.a AND t.g = s.g
    WHEN MATCHED AND s.b < 0 THEN DELETE WHEN MATCHED THEN UPDATE SET b = s.b, c = concat(t.c, s.g)
    WHEN NOT MATCHED THEN INSERT (a, g, b) VALUES (s.a, s.g, s.b)"""


@pytest.fixture(autouse=True)
def _no_table_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)


def _made(lake: Lake, kind: str) -> None:
    lake.sql(f"CREATE TABLE db.t ({COLUMNS}) TBLPROPERTIES ({TABLES[kind]})")


def _add(lake: Lake, numbers: str) -> None:
    """Rows of these numbers, in one file a bucket."""
    lake.sql(
        f"""INSERT INTO db.t SELECT id, concat('g', id % 2), id * 10, concat('c', id), 'd', repeat('e', 20)
        FROM {numbers}"""
    )


def _source(lake: Lake, rows: list[tuple[int | None, str, int]]) -> None:
    lake.spark.createDataFrame(rows, "a bigint, g string, b int").createOrReplaceTempView("source")


def _content(lake: Lake) -> list[tuple[Any, ...]]:
    rows = lake.sql("SELECT a, g, b, c FROM db.t").collect()
    return sorted((tuple(row) for row in rows), key=lambda row: (row[0] is None, *row[:2]))


WAYS: dict[str, dict[str, int]] = {"driver": {}, "tasks": {"DRIVER_ROWS": 0}, "too many": {"MOST_ROWS": 1}}

FEW = [("driver", "two"), ("tasks", "keyed marked"), ("tasks", "append"), ("too many", "marked")]


@pytest.mark.parametrize(("way", "kind"), list(product(WAYS, TABLES)) if SOAK else later(FEW, 2))
def test_every_way_gives_the_same_rows(classic: Lake, monkeypatch: pytest.MonkeyPatch, way: str, kind: str) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(among, name, value)
    keyed = "primary-key" in TABLES[kind]
    _made(classic, kind)
    _add(classic, "range(0, 40)")
    _add(classic, "range(20, 60)" if keyed else "range(40, 60)")
    source = [(3, "g1", 1), (4, "g1", 2), (6, "g0", -1), (50, "g0", 5), (70, "g0", 7)]
    _source(classic, source if keyed else [*source, (None, "g0", 9)])
    classic.sql(MERGE)
    classic.sql("DELETE FROM db.t WHERE b % 40 = 0")
    rows = {(number, f"g{number % 2}"): (number * 10, f"c{number}") for number in range(60)}
    rows |= {(3, "g1"): (1, "c3g1"), (50, "g0"): (5, "c50g0"), (70, "g0"): (7, None), (4, "g1"): (2, None)}
    gone = [key for key, row in rows.items() if key == (6, "g0") or row[0] % 40 == 0]
    expected = sorted((*key, *row) for key, row in rows.items() if key not in gone)
    assert [row for row in _content(classic) if row[0] is not None] == expected
    assert [row for row in _content(classic) if row[0] is None] == ([] if keyed else [(None, "g0", 9, None)])


TYPES = {
    "k": "DECIMAL(9, 2)",
    "g": "STRING",
    "b": "INT",
    "c": "STRING",
    "d": "DOUBLE",
    "z": "TIMESTAMP",
    "m": "TIMESTAMP_NTZ",
    "x": "BINARY",
    "w": "BIGINT NOT NULL",
}
ON = "`t`.k = s.k AND s.g = T.G"
CLAUSES = [
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "WHEN MATCHED THEN UPDATE SET b = s.w, d = s . d, m = `S`.`m` WHEN NOT MATCHED THEN INSERT (k, g, w) VALUES (s.k, s.g, s.w)",
    "WHEN MATCHED AND s.b < t.b THEN DELETE WHEN MATCHED THEN UPDATE SET c = concat(t.c, s.c), z = s.z",
    "WHEN MATCHED AND t.d = s.d OR s.x IS NULL THEN UPDATE SET x = s.x, w = t.w + 1 WHEN NOT MATCHED AND s.b > 3 THEN INSERT *",
    "WHEN MATCHED THEN UPDATE SET k = s.k, c = CASE WHEN t.b > 30 THEN 'c' ELSE extra END",
    "WHEN NOT MATCHED THEN INSERT (k, g, w, c, b) VALUES (s.k, s.g, s.w, 'new', DEFAULT)",
    "WHEN MATCHED AND extra = 'y' THEN DELETE",
    "WHEN MATCHED THEN UPDATE SET k = s.k + 1",
    "WHEN MATCHED THEN UPDATE SET w = NULL",
    "WHEN MATCHED THEN UPDATE SET c = b",
    "WHEN MATCHED THEN UPDATE SET c = s.nothing",
    "WHEN MATCHED THEN UPDATE SET b = s.c WHEN NOT MATCHED THEN INSERT (k, g, w) VALUES (s.k, s.g, s.w)",
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
]


@pytest.mark.parametrize("kind", ["keyed", "marked"] if SOAK else ["keyed"])
def test_pairs_in_the_driver_become_what_spark_makes_of_them(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Each statement upon two tables: with the rows looked up, and with all of it in Spark."""
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    options = TABLES[kind].replace("'a'", "'k,g'")
    values = """CAST(id % 8 AS DECIMAL(9, 2)) AS k, concat('g', id % 3) AS g, CAST(id AS INT) AS b, 'c' AS c,
        IF(id % 5 = 0, double('NaN'), -0.0D) AS d, timestamp_micros(id - 5) AS z, TIMESTAMP_NTZ'1960-01-01' AS m,
        X'00ff' AS x, id AS w"""
    for name in BOTH:
        classic.sql(f"CREATE TABLE {name} ({columns}) TBLPROPERTIES ({options})")
        classic.sql(f"INSERT INTO {name} SELECT {values} FROM range(0, 18)")
        classic.sql(f"INSERT INTO {name} SELECT {values} FROM range(40, 42)")
    for at, clauses in enumerate(first(CLAUSES, 4)):
        some = "IF(id = 3, NULL, k) AS k, g, b - 3 AS b, concat(c, id) AS c, d, z, IF(id % 2 = 0, m, NULL) AS m, x, w"
        source = f"(SELECT {some}, 'y' AS extra FROM (SELECT *, {values} FROM range({at}, {at} + 24, 3))) s"
        _same_both_ways(classic, monkeypatch, f"MERGE INTO {{}} t USING {source} ON {ON} {clauses}")


UPDATES = [
    "SET b = b + 1, c = concat(c, '!', G), w = DEFAULT WHERE b % 3 = 0",
    "AS u SET u.d = -u.d, z = z + INTERVAL 1 DAY, m = NULL WHERE u.g = 'g1' AND b > 2",
    "SET b = CAST(k AS INT), w = w * 2, x = NULL WHERE k > 3 AND g <> 'g0'",
    "SET w = NULL WHERE k = 1",
    "SET b = 1 / (b - 4) WHERE g = 'g1'",
    "SET b = c WHERE g = 'g1'",
    "SET b = 3000000000 WHERE g = 'g1'",
    "SET c = b, d = b WHERE w < 9",
    "SET c = (SELECT max(c) || 'y' FROM {}) WHERE g = 'g2'",
    "SET c = __paimon_bucket WHERE b > 3",
    "SET c = CASE WHEN rand() < 2 THEN 'r' END WHERE rand() < 2 AND k = 2",
    "SET c = nothing WHERE k = 2",
    "SET c = count(*) WHERE k = 2",
    "SET b = 7 WHERE k = 99",
    "SET b = NULL",
]


@pytest.mark.parametrize("kind", ["keyed", "keyed marked"] if SOAK else ["keyed"])
def test_updates_of_rows_that_are_looked_up_are_what_spark_makes_of_them(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Each statement upon two tables, as above."""
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    options = TABLES[kind].replace("'a'", "'k,g'")
    values = """CAST(id % 8 AS DECIMAL(9, 2)), concat('g', id % 3), CAST(id AS INT), 'c', IF(id % 5 = 0, double('NaN'), -0.0D),
        timestamp_micros(id - 5), TIMESTAMP_NTZ'1960-01-01', X'00ff', id"""
    for name in BOTH:
        classic.sql(f"CREATE TABLE {name} ({columns}) TBLPROPERTIES ({options})")
        for numbers in ("range(0, 18)", "range(30, 36)"):
            classic.sql(f"INSERT INTO {name} SELECT {values} FROM {numbers}")
    looked_up, seen = among.of_keys, []
    monkeypatch.setattr(among, "of_keys", lambda *given: seen.append(looked_up(*given)) or seen[-1])
    for change in UPDATES:
        _same_both_ways(classic, monkeypatch, f"UPDATE {{}} {change}")
    assert len(seen) >= len(UPDATES) // 2
    for name, rows in BOTH.items():
        monkeypatch.setattr(among, "MOST_ROWS", rows)
        assert classic.table(name).update({"b": "b + 1", "C": F.lit("z")}, where="w % 2 = 0") is not None
    here, other = (sorted(map(repr, classic.sql(f"SELECT * FROM {name}").collect())) for name in BOTH)
    assert here == other


@pytest.mark.parametrize("given", later(["TINYINT", "INT", "BIGINT"], 1))
def test_numbers_of_other_sizes_are_what_spark_makes_of_them(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """As above, of whole numbers and decimals that a column may hold, or none of its values may equal."""
    monkeypatch.undo()  # tables of any size
    for name in BOTH:
        classic.sql(
            f"""CREATE TABLE {name} (k SMALLINT NOT NULL, i INT, l BIGINT, d DECIMAL(9, 3))
                TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')"""
        )
        classic.sql(
            f"INSERT INTO {name} VALUES (1, 1, 1, 1.5), (-32768, 2, 2, 2.5), (127, 3, 3, NULL), (32767, 4, 4, 4)"
        )
    keys = {"TINYINT": "1, 127, -128, NULL", "INT": "1, 32767, -32769, 70000", "BIGINT": "1, -32768, 3000000000, NULL"}
    clauses = [
        "WHEN MATCHED THEN UPDATE SET l = s.v, d = s.d",
        "WHEN MATCHED THEN UPDATE SET i = s.v, d = s.d + 1, l = s.k",
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, l, d) VALUES (s.v, s.k, s.d)",
        "WHEN NOT MATCHED AND s.k < 100 THEN INSERT (k, i, d) VALUES (s.v + 500, s.v, s.d)",
        "WHEN MATCHED THEN UPDATE SET k = s.k WHEN NOT MATCHED THEN INSERT (k, i) VALUES (s.k, s.v)",
    ]
    values = ", ".join(f"({key}, {place})" for place, key in enumerate(keys[given].split(", ")))
    columns = f"CAST(k AS {given}) AS k, CAST(v AS TINYINT) AS v, CAST(v + 0.5 AS DECIMAL(3, 1)) AS d"
    source = f"(SELECT {columns} FROM VALUES {values} q(k, v)) s"
    for change in clauses:
        _same_both_ways(classic, monkeypatch, f"MERGE INTO {{}} t USING {source} ON t.k = s.k {change}")


def _same_both_ways(lake: Lake, patch: pytest.MonkeyPatch, statement: str) -> None:
    """A statement, `{}` for its table, upon a table whose rows are looked up, and upon one that Spark alone reads."""
    found = []
    for name, rows in BOTH.items():
        patch.setattr(among, "MOST_ROWS", rows)
        error = _error(lake, statement.replace("{}", name)).replace(name, "db.t")
        found.append((error, sorted(map(repr, lake.sql(f"SELECT * FROM {name}").collect()))))
    assert found[0] == found[1], statement


def _error(lake: Lake, statement: str) -> str:
    try:
        lake.sql(statement)
    except Exception as raised:
        return re.sub(r"nulls=\d+", "nulls", f"{type(raised).__name__}: {raised}")  # of a batch
    return ""


@contextmanager
def _spoiled(path: str, columns: tuple[str, ...]) -> Iterator[None]:
    """A parquet file whose chunks of some columns cannot be decoded."""
    whole = Path(path).read_bytes()
    data, group = bytearray(whole), pq.ParquetFile(path).metadata.row_group(0)
    for place in range(group.num_columns):
        chunk = group.column(place)
        if chunk.path_in_schema in columns:
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    Path(path).write_bytes(data)
    yield
    Path(path).write_bytes(whole)


@pytest.mark.parametrize("kind", ["keyed", "marked"])
def test_columns_of_files_without_a_match_are_not_read(classic: Lake, kind: str) -> None:
    _made(classic, kind)
    classic.sql("ALTER TABLE db.t SET TBLPROPERTIES ('write-only' = 'true')")
    _add(classic, "range(0, 20, 2)")
    _add(classic, "range(1, 20, 2)")
    odd = next(file for file in classic.table("db.t").table.files() if _holds(file.path, 1))
    _source(classic, [(2, "g0", 5), (8, "g0", -1), (30, "g1", 3)])
    with _spoiled(odd.path, ("d", "e")):
        classic.sql(MERGE)
        if kind == "keyed":
            classic.sql("DELETE FROM db.t WHERE b % 120 = 0")
            classic.sql("UPDATE db.t SET c = concat(c, '!') WHERE b = 160")
    rows = _content(classic)
    gone = {8, *((0, 12) if kind == "keyed" else ())}
    assert [row[0] for row in rows] == [number for number in [*range(20), 30] if number not in gone]
    assert rows[2 - (kind == "keyed")] == (2, "g0", 5, "c2g0")
    assert kind != "keyed" or (16, "g0", 160, "c16!") in rows


def test_columns_that_only_the_source_is_asked_for_are_not_read(classic: Lake) -> None:
    _made(classic, "append")
    _add(classic, "range(0, 20)")
    (file,) = classic.table("db.t").table.files()
    _source(classic, [(2, "g0", 5)])
    merge = """MERGE INTO db.t USING (SELECT *, 'xyz' AS c FROM source) s ON t.a = s.a AND t.g = s.g
        WHEN MATCHED AND {} > 2 THEN UPDATE SET b = length(s.c) + s.b"""
    with _spoiled(file.path, ("c", "d", "e")):
        classic.sql(merge.format("length(s.c)"))
        with pytest.raises(CorruptError):
            classic.sql(merge.format("length(t.c)"))
    assert classic.sql("SELECT a, b FROM db.t WHERE a < 4").collect() == [(0, 0), (1, 10), (2, 8), (3, 30)]


def test_columns_that_every_clause_replaces_are_not_read(classic: Lake) -> None:
    _made(classic, "keyed")
    _add(classic, "range(0, 20)")
    (file,) = classic.table("db.t").table.files()
    _source(classic, [(2, "g0", 5), (3, "g1", -1)])
    merge = """MERGE INTO db.t USING source s ON t.a = s.a WHEN MATCHED AND s.b < 0 THEN UPDATE SET c = 'less', b = s.b
        WHEN MATCHED THEN UPDATE SET {}"""
    with _spoiled(file.path, ("c",)):
        classic.sql(merge.format("c = concat(s.g, t.b)"))
        with pytest.raises(CorruptError):
            classic.sql(merge.format("b = s.b"))
    assert _content(classic)[1:5] == [
        (1, "g1", 10, "c1"),
        (2, "g0", 20, "g020"),
        (3, "g1", -1, "less"),
        (4, "g0", 40, "c4"),
    ]


ABOUT_KEYS = {  # and whether stored rows can be asked
    "a % 3 = 0 AND abs(a - 30) < 20": (True, lambda a: a % 3 == 0 and abs(a - 30) < 20),
    "pmod(hash(t.a, 7) * 0 + a, 4) = 1 OR A IN (8, 12)": (True, lambda a: a % 4 == 1 or a in (8, 12)),
    "NOT a & 1 = 0 AND CAST(a AS STRING) LIKE '1%'": (True, lambda a: a & 1 == 1 and str(a)[0] == "1"),
    "100 / (a - 25) > 10": (True, lambda a: 25 < a < 35),  # row 25 lives no more
    r"a < 10 AND CAST(a AS STRING) <> '\\'": (False, lambda a: a < 10),
    "a < 10 AND rand() < 2": (False, lambda a: a < 10),
    "a < 10 AND b >= 0": (False, lambda a: a < 10),
    "a = (SELECT max(id) FROM range(8))": (False, lambda a: a == 7),
    "own(a) = 4": (False, lambda a: a == 4),
    "`own`(a) = 4 OR `abs`(a) = 3": (False, lambda a: a in (3, 4)),
    "a = __paimon_bucket + 5": (False, lambda a: a == 5),
}
SOME = ["a % 3 = 0 AND abs(a - 30) < 20", "100 / (a - 25) > 10", "own(a) = 4", "`own`(a) = 4 OR `abs`(a) = 3"]


@pytest.mark.parametrize("kind", later(["keyed", "keyed marked"], 1))
@pytest.mark.parametrize("condition", list(ABOUT_KEYS) if SOAK else SOME)
def test_what_is_about_the_key_alone_is_asked_of_stored_rows(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str, condition: str
) -> None:
    asked, wanted = ABOUT_KEYS[condition]
    classic.spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION own(x BIGINT) RETURNS BIGINT RETURN x")
    stored, seen = reader.stored_rows, []
    monkeypatch.setattr(reader, "stored_rows", lambda *given: seen.append(stored(*given)) or seen[-1])
    _made(classic, kind)
    for numbers in ("range(0, 40)", "range(20, 60)"):
        _add(classic, numbers)
    classic.sql("DELETE FROM db.t WHERE a BETWEEN 25 AND 26")
    seen.clear()
    classic.sql(f"DELETE FROM db.t WHERE {condition}")
    assert [frame is not None for frame in seen] == ([True] if asked else [])
    assert [row[0] for row in _content(classic)] == [a for a in range(60) if a not in (25, 26) and not wanted(a)]


def test_many_stored_rows_of_few_keys_are_merged_first(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_STORED", 5)
    monkeypatch.setattr(among, "MOST_ROWS", 4)
    _made(classic, "keyed")
    for _ in range(3):
        _add(classic, "range(0, 6)")
    classic.sql("DELETE FROM db.t WHERE a % 2 = 0")
    assert [row[0] for row in _content(classic)] == [1, 3, 5]


def _holds(path: str, number: int) -> bool:
    return number in pq.read_table(path, columns=["a"]).column("a").to_pylist()


@pytest.mark.parametrize("updates", [False, True])
def test_a_row_that_others_change_meanwhile_is_looked_at_again(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, updates: bool
) -> None:
    _made(classic, "keyed")
    _add(classic, "range(10)")
    looked_up, others = among.of_keys, ["INSERT INTO db.t VALUES (4, 'new', 7, 'x', 'y', 'z')"]

    def late(*given: Any) -> Any:
        while others:
            classic.sql(others.pop())
        return looked_up(*given)

    monkeypatch.setattr(among, "of_keys", late)
    classic.sql("UPDATE db.t SET g = 'set' WHERE b % 20 = 0" if updates else "DELETE FROM db.t WHERE b % 20 = 0")
    assert not others
    if updates:
        assert [row[0] for row in _content(classic) if row[1] == "set"] == [0, 2, 6, 8]
        assert _content(classic)[4][:3] == (4, "new", 7)
        return
    assert [(row[0], row[1]) for row in _content(classic)] == [
        (number, "new" if number == 4 else "g1") for number in (1, 3, 4, 5, 7, 9)
    ]
