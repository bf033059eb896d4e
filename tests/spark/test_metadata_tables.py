"""System tables of metadata, metadata columns and max_pt through Spark: SQL, DataFrames, the data source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException

from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.spark.read import hidden, metadata
from bucketlake.spark.session import Lake


def rows(lake: Lake, statement: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(statement).collect()), key=repr)


def run(lake: Lake, statements: Sequence[str]) -> None:
    for statement in statements:
        lake.sql(statement)


def test_through_sql(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    run(
        lake,
        [
            "CREATE TABLE T (a INT, b STRING, dt STRING, hh STRING) PARTITIONED BY (dt, hh) "
            "TBLPROPERTIES ('primary-key'='a,dt,hh', 'bucket' = '3')",
            "INSERT INTO T VALUES (1, 'a', '2024-10-10', '01'), (2, 'b', '2024-10-10', '01')",
            "INSERT INTO T VALUES (3, 'c', '2024-10-10', '01'), (4, 'd', '2024-10-09', '02')",
        ],
    )
    assert rows(lake, "SELECT partition FROM `T$partitions`") == [("dt=2024-10-09/hh=02",), ("dt=2024-10-10/hh=01",)]
    assert rows(lake, "SELECT DISTINCT partition FROM paimon.default.`T$buckets`") == [
        ("{2024-10-09, 02}",),
        ("{2024-10-10, 01}",),
    ]
    assert rows(lake, "SELECT count(*) FROM `T$files` WHERE partition = '{2024-10-09, 02}' AND level = 0") == [(1,)]
    total = rows(lake, "SELECT count(*) FROM `T$files`")[0][0]
    first = rows(lake, "SELECT count(*) FROM `T$files` VERSION AS OF 1")[0][0]
    assert first < total
    assert rows(lake, "SELECT count(*) FROM `T$files` /*+ OPTIONS('scan.snapshot-id'='1') */ f") == [(first,)]
    joined = "SELECT s.snapshot_id, t.primary_keys FROM `T$snapshots` s JOIN `T$schemas` t ON s.schema_id = t.schema_id"
    assert rows(lake, f"{joined} WHERE s.snapshot_id = 2") == [(2, '["a","dt","hh"]')]
    described = rows(lake, "DESCRIBE `T$snapshots`")
    assert ("commit_time", "timestamp_ntz", None) in described and len(described) == 16
    assert rows(lake, "SELECT table_name, primary_key FROM sys.tables") == [("T", True)]
    before = lake.current_database
    lake.sql("USE sys")
    assert rows(lake, "SELECT table_name FROM tables") == [("T",)]
    assert "all_table_options" in [row.tableName for row in lake.sql("SHOW TABLES").collect()]
    lake.sql(f"USE {before}")
    assert rows(lake, "SELECT tableName FROM (SELECT 1) x, (SELECT table_name AS tableName FROM sys.tables)") == [
        ("T",)
    ]
    assert rows(lake, "SHOW TABLES") == [("default", "T", False)]
    assert lake.spark.conf.get("spark.paimon.scan.snapshot-id", None) is None
    lake.spark.conf.set("spark.paimon.scan.snapshot-id", "1")
    try:
        assert rows(lake, "SELECT count(*) FROM `T$files`") == [(first,)]
        assert rows(lake, "SELECT count(*) FROM `T$snapshots`") == [(2,)]
    finally:
        lake.spark.conf.unset("spark.paimon.scan.snapshot-id")
    frame = lake.table("T$files").read(where="bucket >= 0 AND record_count > 0", columns=["level"])
    assert frame.columns == ["level"] and frame.count() == total
    source = lake.spark.read.format("bucketlake").option("where", "level = 0").load(lake.table("T").path + "$files")
    assert source.count() == total and source.select("write_cols").first()[0] is None
    assert lake.spark.read.format("bucketlake").load(lake.table("T").path + "$audit_log").select("rowkind").count() == 4
    monkeypatch.setattr(metadata, "MOST_BYTES", 10)
    assert rows(lake, "SELECT count(*) FROM `T$files` WHERE level = 0") == [(total,)]
    assert rows(lake, "SELECT table_name FROM sys.tables") == [("T",)]


def test_refusals(classic: Lake) -> None:
    run(classic, ["CREATE TABLE T (a INT)", "INSERT INTO T VALUES (1)"])
    for statement in (
        "INSERT INTO `T$files` SELECT * FROM `T$files`",
        "INSERT INTO sys.tables SELECT * FROM sys.tables",
        "DELETE FROM `T$files` WHERE level = 0",
        "UPDATE sys.tables SET owner = 'x'",
        "ALTER TABLE `T$options` SET TBLPROPERTIES ('a'='b')",
        "DROP TABLE `T$files`",
        "TRUNCATE TABLE sys.tables",
        "CREATE TABLE sys.mine (a INT)",
    ):
        with pytest.raises(InvalidError, match="system table"):
            classic.sql(statement)
    for statement, near in {"`T$file`": r"\$files", "sys.table": r"sys\.tables"}.items():
        with pytest.raises(NotFoundError, match=f"did you mean '{near}'"):
            classic.sql(f"SELECT * FROM {statement}")
    with pytest.raises(InvalidError, match="row-tracking.enabled"):
        classic.sql("SELECT * FROM `T$row_tracking`")
    with pytest.raises(UnsupportedError, match="one snapshot"):
        classic.sql("SELECT * FROM `T$files` /*+ OPTIONS('incremental-between'='0,1') */")
    assert rows(classic, "SELECT * FROM T") == [(1,)]


def test_metadata_columns(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    run(
        lake,
        [
            "CREATE TABLE T (a INT, p1 INT, p2 STRING) PARTITIONED BY (p1, p2)",
            "INSERT INTO T VALUES (1, 1, 'x'), (2, 1, 'y')",
        ],
    )
    suffix = r"element_at(split(__paimon_file_path, '\\.'), -1)"
    wanted = [(1, 1, "x", "parquet", (1, "x"), 0), (2, 1, "y", "parquet", (1, "y"), 0)]
    for most in (hidden.SMALL_ROWS, 0):
        monkeypatch.setattr(hidden, "SMALL_ROWS", most)
        assert rows(lake, f"SELECT *, {suffix}, __paimon_partition, __paimon_bucket FROM T") == wanted
    assert rows(lake, "SELECT t.*, __paimon_row_index FROM T t WHERE p2 = 'y'") == [(2, 1, "y", 0)]
    frame = lake.table("T").read(columns=["a", "__paimon_bucket"], where="a = 2")
    assert [tuple(row) for row in frame.collect()] == [(2, 0)]
    run(
        lake, ["CREATE TABLE B (a INT) TBLPROPERTIES ('bucket-key'='a', 'bucket'='3')", "INSERT INTO B VALUES (1), (2)"]
    )
    assert rows(lake, "SELECT DISTINCT __paimon_partition FROM B") == [((),)]


def test_input_file_name_is_the_rows_file(classic: Lake) -> None:
    run(classic, ["CREATE TABLE T (a INT, b INT)", "INSERT INTO T VALUES (1, 10)", "INSERT INTO T VALUES (2, 20)"])
    paths = rows(classic, "SELECT a, __paimon_file_path FROM T")
    assert rows(classic, "SELECT a, input_file_name() FROM T") == paths
    found = classic.sql("SELECT *, input_file_name(), upper(INPUT_FILE_NAME ( )) AS u FROM T AS t ORDER BY 3, a")
    assert found.columns == ["a", "b", "input_file_name()", "u"]
    assert len(found.collect()) == 2
    name = paths[0][1]
    counted = f"SELECT input_file_name() = '{name}' AS f, count(*) FROM T x WHERE input_file_name() <> '' GROUP BY 1"
    assert rows(classic, counted) == [(False, 1), (True, 1)]
    inner = f"SELECT a FROM T WHERE a IN (SELECT a FROM T WHERE input_file_name() = '{name}')"
    assert rows(classic, inner) == [(1,)]
    assert rows(classic, "SELECT input_file_name(), 'input_file_name()' AS t") == [("", "input_file_name()")]
    classic.spark.range(1).createOrReplaceTempView("spark_view")
    assert rows(classic, "SELECT input_file_name() FROM spark_view WHERE id < (SELECT max(a) FROM T)") == [("",)]
    for text in (
        "SELECT input_file_name() FROM (SELECT * FROM T)",
        "SELECT input_file_name() FROM T r JOIN T s ON r.a = s.a",
        "SELECT input_file_name() FROM spark_view, T",
        "WITH c AS (SELECT a FROM T) SELECT a, input_file_name() FROM c",
    ):
        with pytest.raises(UnsupportedError, match="over a join or a subquery"):
            classic.sql(text)
    run(classic, [f"UPDATE T SET b = length(input_file_name()) WHERE input_file_name() = '{name}'"])
    assert rows(classic, "SELECT * FROM T") == [(1, len(name)), (2, 20)]
    run(classic, ["DELETE FROM T WHERE input_file_name() <> '' AND a < 9"])
    assert rows(classic, "SELECT * FROM T") == []


def test_rows_are_not_found_by_a_file_that_spark_does_not_know(classic: Lake) -> None:
    """`input_file_name() = ''` was true of every row."""
    run(classic, ["CREATE TABLE T (a INT, b STRING)", "INSERT INTO T VALUES (1, 'x')"])
    keyed = "CREATE TABLE K (a INT, b STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1')"
    run(classic, [keyed, "INSERT INTO K VALUES (1, 'x')"])
    for text in (
        "DELETE FROM K WHERE a > 0 AND Input_File_Name () = ''",
        "UPDATE K SET b = concat('', input_file_name())",
        "MERGE INTO T USING K ON T.a = K.a WHEN MATCHED AND input_file_name() = '' THEN DELETE",
        "MERGE INTO K USING T ON T.a = K.a WHEN MATCHED THEN UPDATE SET b = input_file_name()",
    ):
        with pytest.raises(UnsupportedError, match=r"input_file_name\(\) where rows"):
            classic.sql(text)
    for name in "TK":
        with pytest.raises(UnsupportedError, match=r"input_file_name\(\) where rows"):
            classic.table(f"{classic.current_database}.{name}").delete("input_file_name() = ''")
        assert rows(classic, f"SELECT * FROM {name}") == [(1, "x")]
    run(classic, ["UPDATE K SET b = 'input_file_name()' WHERE b <> 'input_file_name()'"])
    assert rows(classic, "SELECT b FROM K") == [("input_file_name()",)]
    classic.table(f"{classic.current_database}.T").update({"b": "'input_file_name()'"}, "b <> 'input_file_name()'")
    assert rows(classic, "SELECT b FROM T") == [("input_file_name()",)]


def test_stars_leave_metadata_columns_out(classic: Lake) -> None:
    run(classic, ["CREATE TABLE T (a INT, b INT)", "INSERT INTO T VALUES (1, 10), (2, 20)"])
    columns = {
        "SELECT * FROM T WHERE __paimon_bucket = 0": ["a", "b"],
        "SELECT * EXCEPT (b), __paimon_row_index FROM T": ["a", "__paimon_row_index"],
        "SELECT x.* FROM (SELECT *, __paimon_bucket AS c FROM T) x": ["a", "b", "c"],
        "SELECT *, s.__paimon_bucket FROM T r JOIN T s ON r.a = s.a": ["a", "b", "a", "b", "__paimon_bucket"],
        "SELECT * FROM (SELECT a z FROM T WHERE __paimon_bucket = 0) u JOIN T ON z = a": ["z", "a", "b"],
        "WITH c AS (SELECT *, __paimon_row_index i FROM T) SELECT * EXCEPT (i) FROM c UNION SELECT * FROM T": [
            "a",
            "b",
        ],
        "SELECT /*+ BROADCAST(T) */ *, __paimon_bucket FROM T": ["a", "b", "__paimon_bucket"],
        "SELECT struct(*) s, 2 * a AS d, __paimon_bucket*1 AS e FROM T": ["s", "d", "e"],
        "SELECT `x`.*, 3*__paimon_bucket k FROM T `x`": ["a", "b", "k"],
        "SELECT * FROM T WHERE a IN (SELECT a FROM T WHERE __paimon_row_index = 0)": ["a", "b"],
    }
    for statement, names in columns.items():
        found = classic.sql(statement)
        assert found.columns == names, statement
        assert found.count() in (1, 2), statement
    assert classic.sql("SELECT struct(*) s, __paimon_bucket FROM T").schema[0].dataType.names == ["a", "b"]
    assert rows(classic, "SELECT count(*), max(__paimon_row_index) FROM T") == [(2, 1)]
    for statement in (
        "FROM T SELECT *, __paimon_bucket",
        "FROM T |> SELECT __paimon_bucket",
        "SELECT * FROM (FROM T SELECT *) x, (SELECT __paimon_bucket FROM T) y",
        "SELECT * FROM T a NATURAL JOIN (SELECT a, __paimon_bucket FROM T)",
    ):
        with pytest.raises(UnsupportedError, match="metadata columns"):
            classic.sql(statement)
    with pytest.raises(AnalysisException, match="__paimon_other"):
        classic.sql("SELECT __paimon_other FROM T")
    with pytest.raises(AnalysisException, match="__paimon_bucket"):
        classic.sql("SELECT __paimon_bucket FROM `T$files`")
    run(classic, ["CREATE TABLE C (__paimon_bucket STRING)", "INSERT INTO C VALUES ('mine')"])
    assert rows(classic, "SELECT *, __paimon_bucket FROM C") == [("mine", "mine")]


def test_places_of_rows_that_are_merged_are_refused(classic: Lake) -> None:
    run(
        classic,
        [
            "CREATE TABLE K (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1', 'write-only'='true')",
            "INSERT INTO K VALUES (1, 'a')",
        ],
    )
    assert len(rows(classic, "SELECT *, __paimon_file_path FROM K")) == 1
    run(classic, ["INSERT INTO K VALUES (2, 'b')"])
    with pytest.raises(UnsupportedError, match="Only append table or deletion vector table support querying metadata"):
        classic.sql("SELECT *, __paimon_file_path FROM K")
    assert rows(classic, "SELECT id, __paimon_bucket FROM K") == [(1, 0), (2, 0)]
    run(
        classic,
        [
            "CREATE TABLE Other (id INT, w STRING)",
            "INSERT INTO Other VALUES (2, 'c')",
            "INSERT INTO Other VALUES (3, 'd')",
        ],
    )
    # Another table's places were refused beside such rows.
    joined = "SELECT K.id, v, w, Other.__paimon_row_index FROM K LEFT JOIN Other ON K.id = Other.id"
    assert rows(classic, joined) == [(1, "a", None, None), (2, "b", "c", 0)]
    run(classic, ["UPDATE K SET v = (SELECT max(__paimon_row_index) FROM Other) WHERE id = 1"])
    run(classic, ["DELETE FROM K WHERE id IN (SELECT id FROM Other WHERE __paimon_file_path = input_file_name())"])
    assert rows(classic, "SELECT * FROM K") == [(1, "0")]
    with pytest.raises(SparkRuntimeException, match="Only append table or deletion vector table support"):
        rows(classic, "SELECT id FROM K WHERE EXISTS (SELECT 1 FROM Other WHERE K.__paimon_row_index > Other.id)")
    with pytest.raises(SparkRuntimeException, match="Only append table or deletion vector table support"):
        classic.sql("UPDATE K SET v = K.__paimon_file_path WHERE id NOT IN (SELECT id FROM Other)")
    run(classic, ["INSERT INTO K VALUES (2, 'b')", "CALL sys.compact('K')"])
    assert rows(classic, "SELECT id, __paimon_row_index FROM K") == [(1, 0), (2, 1)]
    run(
        classic,
        [
            "CREATE TABLE D (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1', "
            "'deletion-vectors.enabled'='true')",
            "INSERT INTO D VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            "INSERT INTO D VALUES (2, 'z')",
        ],
    )
    assert rows(classic, "SELECT id, v, __paimon_row_index FROM D") == [(1, "a", 0), (2, "z", 0), (3, "c", 2)]
    run(
        classic,
        [
            "CREATE TABLE A (id INT) TBLPROPERTIES ('deletion-vectors.enabled'='true', 'file.format'='avro')",
            "INSERT INTO A VALUES (1), (2), (3)",
            "DELETE FROM A WHERE id = 2",
        ],
    )
    assert rows(classic, "SELECT id, __paimon_row_index FROM A") == [(1, 0), (3, 2)]


def test_max_pt(classic: Lake) -> None:
    run(
        classic,
        [
            "CREATE TABLE P (id INT, p STRING) PARTITIONED BY (p)",
            "CREATE TABLE N (id INT, m INT, n STRING) PARTITIONED BY (m, n)",
        ],
    )
    with pytest.raises(InvalidError, match="none of the partitions have any data"):
        classic.sql("SELECT sys.max_pt('P')")
    run(
        classic,
        [
            "INSERT INTO P VALUES (1, 'a'), (2, 'b'), (3, 'aa'), (4, null)",
            "INSERT INTO N VALUES (1, 9, 'c'), (2, 10, 'a'), (3, 10, 'b')",
        ],
    )
    assert rows(classic, "SELECT sys.max_pt('P'), paimon.sys.max_pt('default.N'), 'max_pt(1)'") == [
        ("b", "10", "max_pt(1)")
    ]
    assert rows(classic, "SELECT id FROM P WHERE p = max_pt('P')") == [(2,)]
    assert rows(classic, "SELECT id FROM N WHERE m = sys.max_pt('default.N')") == [(2,), (3,)]
    run(classic, ["UPDATE P SET p = concat(sys.max_pt('P'), '\\'') WHERE id = 1"])
    assert rows(classic, "SELECT id FROM P WHERE p = sys.max_pt('P')") == [(1,)]
    run(classic, ["DELETE FROM P WHERE p = sys.max_pt('P')"])
    assert rows(classic, "SELECT id FROM P") == [(2,), (3,), (4,)]
    for call, reason in {
        "sys.max_pt(1)": "must be a literal",
        "sys.max_pt()": "must be a literal",
        "sys.max_pt(p)": "must be a literal",
    }.items():
        with pytest.raises(InvalidError, match=reason):
            classic.sql(f"SELECT {call} FROM P")
    run(classic, ["CREATE TABLE F (a INT)"])
    with pytest.raises(InvalidError, match="is not a partitioned table"):
        classic.sql("SELECT sys.max_pt('F')")
