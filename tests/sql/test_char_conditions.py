"""What is compared with a CHAR column is padded, as Spark has it, in every statement that looks at rows or partitions."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.profile import later

from bucketlake.errors import UnsupportedError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

KINDS = {
    "append": "'bucket' = '-1'",
    "vectors": "'bucket' = '-1', 'deletion-vectors.enabled' = 'true'",
    "columns": "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', 'deletion-vectors.enabled' = 'true'",
    "keyed": "'bucket' = '1', 'primary-key' = 'v'",
}
STATEMENTS = [
    "DELETE FROM db.t WHERE c = '2'",
    "DELETE FROM db.t WHERE c = concat('2', '') OR length(w) = 9",
    "UPDATE db.t SET w = 'new' WHERE c IN ('2') AND length(w) = 1",
    "MERGE INTO db.t t USING one s ON t.v = s.v AND t.c = '2' WHEN MATCHED THEN UPDATE SET w = 'new'",
    "MERGE INTO db.t t USING one s ON t.v = s.v WHEN MATCHED AND t.c = concat('2', '') THEN DELETE",
    "MERGE INTO db.t t USING one s ON t.v = -s.v WHEN NOT MATCHED BY SOURCE AND t.c = '2' THEN UPDATE SET w = 'new'",
]


@pytest.mark.parametrize("kind", later(list(KINDS), 1))
def test_rows(classic: Lake, kind: str) -> None:
    lake = classic
    lake.sql("CREATE DATABASE IF NOT EXISTS db")
    lake.sql("SELECT 1 v").createOrReplaceTempView("one")
    lake.sql(f"CREATE TABLE db.t (c CHAR(4), v INT NOT NULL, w STRING) TBLPROPERTIES ({KINDS[kind]})")
    for statement in STATEMENTS:
        lake.sql("TRUNCATE TABLE db.t")
        lake.sql("INSERT INTO db.t VALUES ('2', 1, 'a'), ('ab', 2, 'b')")
        lake.sql(statement)
        changed = [] if "DELETE" in statement else [("2   ", 1, "new")]
        found = [tuple(row) for row in lake.sql("SELECT * FROM db.t ORDER BY v").collect()]
        assert found == [*changed, ("ab  ", 2, "b")], statement


def test_keys_that_are_not_padded(classic: Lake) -> None:
    """As engines but Spark store them: a change in SQL would write other keys."""
    lake = classic
    lake.sql("CREATE DATABASE IF NOT EXISTS db")
    lake.sql("CREATE TABLE db.t (c CHAR(4), v INT) TBLPROPERTIES ('bucket' = '2', 'primary-key' = 'c')")
    lake.catalog.table("db.t").write_arrow(pa.table({"c": ["ab", "abcd"], "v": pa.array([1, 2], pa.int32())}))
    source = "MERGE INTO db.t USING (SELECT 'ab' c, 8 v) s ON t.c = s.c "
    for statement, rows in (
        ("UPDATE db.t SET v = 5 WHERE c = 'ab'", [("ab", 5), ("abcd", 2)]),
        (source + "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *", [("ab", 8), ("abcd", 2)]),
        (source + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", [("ab", 8), ("abcd", 2)]),
        ("DELETE FROM db.t WHERE c = 'ab'", [("abcd", 2)]),
    ):
        before = lake.catalog.table("db.t").to_arrow().to_pylist()
        with pytest.raises(UnsupportedError, match="CHAR keys are stored without padding"):
            lake.sql(statement)
        assert lake.catalog.table("db.t").to_arrow().to_pylist() == before
        lake.spark.conf.set("spark.sql.legacy.charVarcharAsString", "true")
        try:
            lake.sql(statement)
        finally:
            lake.spark.conf.unset("spark.sql.legacy.charVarcharAsString")
        found = lake.catalog.table("db.t").to_arrow().to_pylist()
        assert sorted((row["c"], row["v"]) for row in found) == rows, statement
    lake.sql("UPDATE db.t SET v = 3 WHERE c = 'abcd'")


@pytest.mark.parametrize("keys", ["", "TBLPROPERTIES ('primary-key' = 'p,v', 'bucket' = '1')"])
def test_partitions_that_are_not_padded(classic: Lake, keys: str) -> None:
    lake = classic
    lake.sql("CREATE DATABASE IF NOT EXISTS db")
    lake.sql(f"CREATE TABLE db.t (v INT, p CHAR(4)) PARTITIONED BY (p) {keys}")
    table = lake.catalog.table("db.t")
    for condition in ("p = 'ab'", "p IN ('ab', 'x') OR p IS NULL"):
        table.write_arrow(pa.table({"p": ["ab", "cd"], "v": pa.array([1, 2], pa.int32())}))
        lake.sql(f"DELETE FROM db.t WHERE {condition}")
        assert {row["p"] for row in table.to_arrow().to_pylist()} == {"cd"}, condition


def test_partitions(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE DATABASE IF NOT EXISTS db")
    lake.sql("CREATE TABLE db.t (v INT, p CHAR(4)) PARTITIONED BY (p)")
    for statement in (
        "DELETE FROM db.t WHERE p = '2'",
        "DELETE FROM db.t WHERE p = concat('2', '')",
        "ALTER TABLE db.t DROP PARTITION (p = '2')",
    ):
        lake.sql("TRUNCATE TABLE db.t")
        lake.sql("INSERT INTO db.t VALUES (1, '2'), (2, 'ab')")
        assert lake.sql("SELECT v, __paimon_bucket b FROM db.t WHERE p = '2'").collect() == [(1, 0)]
        lake.sql(statement)
        assert [tuple(row) for row in lake.sql("SELECT * FROM db.t").collect()] == [(2, "ab  ")], statement


def test_conditions_of_calls(classic: Lake) -> None:
    """They say of rows what the same statements say."""
    lake = classic
    lake.sql("CREATE TABLE db.t (c CHAR(4), v INT, p CHAR(3)) PARTITIONED BY (p)")
    lake.sql("INSERT INTO db.t VALUES ('ab', 1, 'x'), ('', 2, 'y'), (' b', 3, 'x'), (NULL, 4, 'y')")
    lake.catalog.table("db.t").write_arrow(
        pa.table({"c": ["ab", "b"], "v": pa.array([5, 6], pa.int32()), "p": ["z"] * 2})
    )
    table, without_spark = lake.table("db.t"), lake.catalog.table("db.t")
    conditions = ["c = 'ab'", "c <> 'ab  '", "c > ''", "c <= 'ab'", "c IN ('ab', 'zz')", "NOT (c <=> ' b')", "p = 'x'"]
    for where in [*conditions, "p >= 'y ' AND c = 'ab      '", "c BETWEEN '' AND ' b'"]:
        wanted = sorted(row.v for row in lake.sql(f"SELECT v FROM db.t WHERE {where}").collect())
        assert sorted(row.v for row in table.read(columns=["v"], where=where).collect()) == wanted, where
        if "BETWEEN" in where:  # whose bounds Spark does not pad
            with pytest.raises(UnsupportedError, match="needs Spark"):
                without_spark.to_arrow(where=where)
        else:
            assert sorted(without_spark.to_arrow(where=where)["v"].to_pylist()) == wanted, where
    lake.spark.conf.set("spark.sql.legacy.charVarcharAsString", "true")
    try:
        assert table.read(where="c <> 'ab'").count() == 4
    finally:
        lake.spark.conf.unset("spark.sql.legacy.charVarcharAsString")
    table.delete("c = 'ab' AND p = 'x'")
    without_spark.refresh().delete("c = ''")
    table.refresh().update({"v": "60"}, where="c = 'b'")
    assert sorted(row.v for row in lake.sql("SELECT v FROM db.t").collect()) == [3, 4, 5, 60]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_char_within_other_types_is_padded(classic: Lake, file_format: str) -> None:
    """As it is of Spark's own tables; ORC's readers, and engines but Spark, leave it without its spaces."""
    lake = classic
    lake.sql("CREATE DATABASE IF NOT EXISTS db")
    columns = (
        "k INT, s STRUCT<c: CHAR(3), n: INT>, a ARRAY<CHAR(2)>, m MAP<CHAR(2), ARRAY<CHAR(3)>>, t STRUCT<x: STRING>"
    )
    lake.sql(f"CREATE TABLE db.t ({columns}) TBLPROPERTIES ('file.format' = '{file_format}')")
    held = [
        {"k": 1, "s": {"c": "a", "n": 1}, "a": ["x", None, "yy"], "m": [("k", ["v", None])], "t": {"x": "q"}},
        {"k": 2, "s": {"c": None, "n": 2}, "a": [], "m": [], "t": None},
        {"k": 3, "s": None, "a": None, "m": None, "t": None},
    ]
    table = lake.catalog.table("db.t")
    table.write_arrow(pa.Table.from_pylist(held, table.arrow_schema))
    found = lake.sql("SELECT s.c, s.n, a, m, t.x FROM db.t ORDER BY k").collect()
    assert [tuple(row) for row in found] == [
        ("a  ", 1, ["x ", None, "yy"], {"k ": ["v  ", None]}, "q"),
        (None, 2, [], {}, None),
        (None, None, None, None, None),
    ]
    for where, keys in (
        ("s.c = 'a'", []),
        ("s.c = 'a  '", [1]),
        ("array_contains(a, 'x ') AND array_contains(m['k '], 'v  ')", [1]),
    ):
        assert [row.k for row in lake.sql(f"SELECT k FROM db.t WHERE {where}").collect()] == keys, where
    assert [row.k for row in lake.sql("SELECT k FROM db.t WHERE s IS NULL").collect()] == [3]


@pytest.mark.parametrize("few", [True, False])
def test_columns_of_a_merge_s_source(classic: Lake, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the driver holds its rows, into tables with and without CHAR columns."""
    lake = classic
    if not few:
        monkeypatch.setattr("bucketlake.spark.merge.held.FEW_ROWS", 0)
    lake.sql("CREATE DATABASE IF NOT EXISTS db")
    lake.sql("CREATE TABLE db.s (id INT, c CHAR(4))")
    lake.sql("INSERT INTO db.s VALUES (1, ''), (2, 'a'), (4, 'b'), (5, NULL)")
    for kind in ("CHAR(4)", "STRING"):
        lake.sql(f"CREATE OR REPLACE TABLE db.t (id INT, c {kind}, v INT)")
        lake.sql("INSERT INTO db.t VALUES (1, '', 0), (2, 'a', 0)")
        lake.sql(
            """MERGE INTO db.t USING db.s ON t.id = s.id AND s.c <> 'x'
            WHEN MATCHED AND s.c = 'a' THEN UPDATE SET v = 1
            WHEN MATCHED THEN UPDATE SET v = CASE WHEN s.c IN ('') THEN 2 ELSE 3 END
            WHEN NOT MATCHED AND s.c = 'b' THEN INSERT (id, v) VALUES (s.id, 4)"""
        )
        found = [(row.id, row.v) for row in lake.sql("SELECT id, v FROM db.t ORDER BY id").collect()]
        assert found == [(1, 2), (2, 1), (4, 4)], kind
