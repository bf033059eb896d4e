"""Sessions that take TIMESTAMP for Spark's own (`legacy-timestamp-mapping.enabled`): definitions, tables made of queries,
streams and other ways to a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tests.sql.legacy_timestamps import KEY, TIMES, at, filled, legacy, rows, stored

import bucketlake
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.schema.change import AddColumn
from bucketlake.spark.session import Lake
from bucketlake.types.model import type_text
from bucketlake.types.parse import parse_type_text

pytestmark = pytest.mark.spark


def test_definitions_are_sparks(classic: Lake) -> None:
    lake = classic
    with legacy(lake):
        lake.sql(
            "CREATE TABLE t (id BIGINT, ts TIMESTAMP, s STRUCT<a: TIMESTAMP, b: ARRAY<TIMESTAMP>>, n TIMESTAMP_NTZ, p TIMESTAMP(3), "
            "z TIMESTAMP WITH LOCAL TIME ZONE)"
        )
        lake.sql("ALTER TABLE t ADD COLUMNS (m MAP<STRING, TIMESTAMP>, y TIMESTAMP_LTZ, d DATE)")
        lake.sql("ALTER TABLE t ALTER COLUMN d TYPE TIMESTAMP")
        types = {item.name: type_text(item.type) for item in lake.catalog.table("t").schema.fields}
        assert types == {
            "id": "BIGINT",
            "ts": "TIMESTAMP(6)",
            "s": "ROW<`a` TIMESTAMP(6), `b` ARRAY<TIMESTAMP(6)>>",
            "n": "TIMESTAMP(6)",
            "p": "TIMESTAMP(3)",
            "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            "m": "MAP<STRING NOT NULL, TIMESTAMP(6)>",
            "y": "TIMESTAMP(6)",
            "d": "TIMESTAMP(6)",
        }
        described = {row[0]: row[1] for row in lake.sql("DESCRIBE t").collect()}
        assert {described[name] for name in ("ts", "n", "p", "z", "y", "d")} == {"timestamp"}
        assert described["s"] == "struct<a:timestamp,b:array<timestamp>>"
        assert ("data_type", "timestamp") in rows(lake, "DESCRIBE t ts")
        again = lake.sql("SHOW CREATE TABLE t").collect()[0][0]
        assert KEY not in again + str(lake.sql("SHOW TBLPROPERTIES t").collect()) + str(
            lake.sql("DESC EXTENDED t").collect()
        )
        head = again.split("USING")[0].replace(".`t`", ".`u`").replace(".t (", ".u (")
        lake.sql(f"{head} USING paimon")
        lake.sql("CREATE TABLE w LIKE t")
        for name in ("u", "w"):
            assert {f.name: type_text(f.type) for f in lake.catalog.table(name).schema.fields} == types
    assert {row[0]: row[1] for row in lake.sql("DESCRIBE t").collect()}["ts"] == "timestamp_ntz"
    lake.sql("ALTER TABLE t ADD COLUMN k TIMESTAMP")
    assert type_text(lake.catalog.table("t").schema.field("k").type) == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert KEY not in str([lake.catalog.table(name).schema.options for name in ("t", "u", "w")])


def test_tables_are_made_of_queries_and_frames(classic: Lake) -> None:
    lake = classic
    local = parse_type_text("TIMESTAMP", "flink")
    with legacy(lake):
        query = "SELECT 1 AS id, TIMESTAMP '1893-05-06 07:08:09' AS ts, named_struct('a', TIMESTAMP '2024-06-30 22:00:00+00:00') AS s"
        frame = lake.sql(query)
        lake.sql(f"CREATE TABLE a AS {query}")
        lake.sql(f"CREATE OR REPLACE TABLE a AS {query}")
        lake.write_table(frame, "b")
        lake.write_table(frame, "c", "create_or_replace")
        lake.sql("CREATE TABLE d AS SELECT * FROM a")
    lake.write_table(lake.spark.sql("SELECT 1 AS id, TIMESTAMP_LTZ '2024-01-01 00:00:00' AS ts"), "plain")
    with legacy(lake):
        lake.write_table(frame, "e", legacy_timestamp_mapping_enabled=True)
        lake.write_table(frame, "f", legacy_timestamp_mapping_enabled=False)
        assert lake.catalog.table("f").schema.field("ts").type.root.value == "TIMESTAMP WITH LOCAL TIME ZONE"
    for name in "abcde":
        assert lake.catalog.table(name).schema.field("ts").type == local, name
        assert stored(lake, name) == [(1, at("1893-05-06 07:08:09"), {"a": at("2024-07-01 00:00:00")})], name
    assert lake.catalog.table("plain").schema.field("ts").type != local
    assert lake.catalog.table("f").schema.field("ts").type != local


def test_columns_that_writes_add(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE t (id BIGINT, z TIMESTAMP_LTZ, s STRUCT<a: TIMESTAMP_NTZ>)")
    with legacy(lake):
        frame = lake.spark.sql(
            "SELECT 1L AS id, TIMESTAMP '2024-01-01 00:00:00' AS z, named_struct('a', TIMESTAMP '2024-01-01 00:00:00', 'b', "
            "TIMESTAMP '2024-02-01 00:00:00') AS s, TIMESTAMP '2024-03-01 00:00:00' AS n"
        )
        lake.table("t").write(frame, write_merge_schema=True)
        frame.withColumn("id", F.lit(2).cast("bigint")).withColumnRenamed("n", "o").createOrReplaceTempView("src")
        lake.sql("MERGE WITH SCHEMA EVOLUTION INTO t USING src s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    types = {item.name: type_text(item.type) for item in lake.catalog.table("t").schema.fields}
    assert types["z"] == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert types["s"] == "ROW<`a` TIMESTAMP(6), `b` TIMESTAMP(6)>"
    assert (types["n"], types["o"]) == ("TIMESTAMP(6)", "TIMESTAMP(6)")
    member = {"a": at("2024-01-01 00:00:00"), "b": at("2024-02-01 00:00:00")}
    assert stored(lake, "t", "id", "s", "n", "o") == [
        (1, member, at("2024-03-01 00:00:00"), None),
        (2, member, None, at("2024-03-01 00:00:00")),
    ]


def test_other_ways_to_look_at_a_table(classic: Lake) -> None:
    lake = classic
    filled(lake, properties="TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'changelog-producer' = 'input')")
    lake.sql("INSERT INTO t (id, ts) VALUES (50, TIMESTAMP_NTZ '2024-06-30 23:30:00')")
    condition = "ts > TIMESTAMP '2024-06-30 21:00:00+00:00' AND ts < '2024-07-01'"
    with legacy(lake):
        wanted = [("2024-06-30 23:30:00",)] * 2
        assert rows(lake, f"SELECT CAST(ts AS STRING) FROM `t$audit_log` WHERE {condition}") == wanted
        lake.sql("CALL sys.compact('t')")
        assert rows(lake, f"SELECT CAST(ts AS STRING) FROM `t$ro` WHERE {condition}") == wanted
        assert lake.sql("SELECT ts FROM `t$binlog`").schema["ts"].dataType == T.ArrayType(T.TimestampType())
        found = rows(lake, f"SELECT CAST(ts AS STRING) FROM paimon_incremental_query('t', '1', '2') WHERE {condition}")
        assert found == wanted[:1]
        assert rows(lake, f"SELECT CAST(ts AS STRING) FROM t VERSION AS OF 1 WHERE {condition}") == wanted[:1]
        assert lake.sql("SELECT commit_time FROM `t$snapshots`").schema["commit_time"].dataType == T.TimestampType()
        assert rows(
            lake, "SELECT count(*) FROM `t$snapshots` WHERE commit_time > current_timestamp() - INTERVAL 1 DAY"
        ) == [(3,)]
        assert lake.table("t").read(read_changelog=True).schema["ts"].dataType == T.TimestampType()
        lake.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS ts")
        lake.sql("CREATE OR REPLACE TEMPORARY VIEW seen AS SELECT ts FROM t")
        assert lake.sql("SELECT * FROM seen").schema["ts"].dataType == T.TimestampType()
        lake.sql("CACHE TABLE t")
        assert rows(lake, f"SELECT CAST(ts AS STRING) FROM t WHERE {condition}") == wanted
        lake.sql("UNCACHE TABLE t")


def test_streams(classic: Lake, tmp_path: Any) -> None:
    lake = classic
    filled(lake)
    lake.sql("CREATE TABLE u (id BIGINT, ts TIMESTAMP_NTZ)")
    condition = "ts >= TIMESTAMP '2024-06-30 21:30:00+00:00' OR ts = '1893-05-06 07:08:09'"
    with legacy(lake):
        assert lake.table("t").read_stream(columns=["id"], where=condition).columns == ["id"]
        stream = lake.table("t").read_stream(columns=["id", "ts"], where=condition)
        assert stream.schema["ts"].dataType == T.TimestampType()
        lake.table("u").write_stream(stream, str(tmp_path / "c"), trigger={"availableNow": True}).awaitTermination()
        assert [row[0] for row in stored(lake, "u")] == [1, 2, 5]
        assert stored(lake, "u")[1:] == [(2, at("1893-05-06 07:08:09")), (5, at("2024-06-30 23:30:00"))]
        seen: list[Any] = []

        def body(frame: Any, number: int) -> None:
            seen.extend(row[0] for row in frame.collect())
            assert frame.columns == ["id"]

        lake.table("t").process_stream(
            body, str(tmp_path / "p"), trigger={"availableNow": True}, where=condition, columns=["id"]
        ).awaitTermination()
        assert sorted(seen) == [1, 2, 5]


def test_an_attached_session(classic: Lake) -> None:
    lake = classic
    filled(lake)
    spark = lake.spark
    bucketlake.attach(spark, lake.catalog.warehouse)
    try:
        with legacy(lake):
            assert spark.sql("SELECT ts FROM t").schema["ts"].dataType == T.TimestampType()
            assert spark.table("t").schema["ts"].dataType == T.TimestampType()
            assert spark.read.table("t").schema["ts"].dataType == T.TimestampType()
            assert {c.name: c.dataType for c in spark.catalog.listColumns("t")}["ts"] == "timestamp"
            spark.table("t").where("ts < '1900-01-01'").select("id", "ts").writeTo("made").using("paimon").create()
            spark.table("t").where("id = 0").select("id", "ts").writeTo("made").append()
        assert stored(lake, "made") == [(0, at(TIMES[0])), (2, at(TIMES[2])), (3, at(TIMES[3]))]
    finally:
        bucketlake.detach(spark)


def test_copy_into(classic: Lake, tmp_path: Any) -> None:
    lake = classic
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,2024-06-30 22:00:00+00:00\n2,1893-05-06 07:08:09\n3,\n")
    with legacy(lake):
        lake.sql("CREATE TABLE t (id BIGINT, ts TIMESTAMP)")
        lake.sql(f"COPY INTO t FROM '{tmp_path}/in' FILE_FORMAT = (TYPE = CSV)")
        assert stored(lake, "t") == [(1, at("2024-07-01 00:00:00")), (2, at("1893-05-06 07:08:09")), (3, None)]
        lake.sql(f"COPY INTO '{tmp_path}/out' FROM t FILE_FORMAT = (TYPE = PARQUET)")
        assert lake.spark.read.parquet(f"{tmp_path}/out").schema["ts"].dataType == T.TimestampType()
        lake.sql("CREATE TABLE u (id BIGINT, ts TIMESTAMP)")
        lake.sql(f"COPY INTO u FROM '{tmp_path}/out' FILE_FORMAT = (TYPE = PARQUET)")
    assert stored(lake, "u") == stored(lake, "t")


def test_what_cannot_honour_it_says_so(classic: Lake, tmp_path: Any) -> None:
    lake = classic
    filled(lake)
    filled(lake, "k", "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    path = lake.table("t").path
    frame = lake.spark.createDataFrame([(1,)], "id BIGINT")
    doors: list[Callable[[], Any]] = [
        lambda: lake.sql(f"CREATE TABLE u (id BIGINT) TBLPROPERTIES ('{KEY}' = 'true')"),
        lambda: lake.sql(f"ALTER TABLE t SET TBLPROPERTIES ('{KEY}' = 'true')"),
        lambda: lake.spark.read.format("bucketlake").option(KEY, "true").load(path).collect(),
        lambda: frame.write.format("bucketlake").mode("append").option(KEY, "true").save(path),
        lambda: lake.table("k", {KEY: True}).lookup(frame, on=["id"]).collect(),
    ]
    for door in doors:
        with pytest.raises(Exception, match=KEY):
            door()
    lake.spark.conf.set(f"spark.paimon.paimon.*.t.{KEY}", "true")
    try:
        with pytest.raises(UnsupportedError, match="of one table"):
            lake.sql("SELECT * FROM t")
    finally:
        lake.spark.conf.unset(f"spark.paimon.paimon.*.t.{KEY}")
    with legacy(lake), pytest.raises(InvalidError):
        lake.spark.conf.set(f"spark.paimon.{KEY}", "perhaps")
        lake.sql("SELECT * FROM t")
    assert lake.catalog.list_tables() == ["k", "t"]


def test_an_option_that_another_engine_stored_says_nothing(classic: Lake) -> None:
    lake = classic
    filled(lake)
    newest = Path(lake.table("t").path) / "schema" / "schema-0"
    told = json.loads(newest.read_text())
    newest.write_text(json.dumps({**told, "options": {**told["options"], KEY: "true"}}))
    lake = bucketlake.connect(lake.catalog.warehouse, spark=lake.spark)
    assert lake.catalog.table("t").schema.options.get(KEY) == "true"
    assert lake.sql("SELECT ts FROM t").schema["ts"].dataType == T.TimestampNTZType()
    assert lake.table("t").read().schema["ts"].dataType == T.TimestampNTZType()
    lake.table("t").alter(AddColumn(("more",), parse_type_text("INT")))
