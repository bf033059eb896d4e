"""Spark over S3 without hadoop-aws: every byte of a table goes through Python, never through Spark's own scan or writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.object_store.conftest import S3, SECRET, rows
from tests.profile import first

import bucketlake
from bucketlake import Catalog
from bucketlake.cdc.sink import bind
from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.spark.maintain.orphans import run_each
from bucketlake.spark.read import filtered as live
from bucketlake.spark.read import native, reader
from bucketlake.spark.read.native import FileAt
from bucketlake.spark.session import Lake
from bucketlake.spark.stream.checkpoint import Query

SCHEMA = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "keyed": (["p", "k"], {"bucket": "2"}),
    "bucketed": ([], {"bucket": "2", "bucket-key": "k"}),
    "unaware": ([], {"bucket": "-1"}),
}
MANY = 60_000  # more than tasks send back to the driver


@pytest.fixture(
    params=[pytest.param("classic", marks=pytest.mark.spark), pytest.param("connect", marks=pytest.mark.connect)]
)
def lake(request: pytest.FixtureRequest, s3: S3, warehouse: str, monkeypatch: pytest.MonkeyPatch) -> Lake:
    spark = request.getfixturevalue(f"{request.param}_session")
    if request.param == "connect":
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    found = bucketlake.connect(warehouse, spark, s3.options)
    found.sql("CREATE DATABASE db")
    found.sql("USE db")
    return found


@pytest.fixture
def in_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is small enough for the driver, and merges are large enough for Spark's scan."""
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    monkeypatch.setattr(reader, "LARGE_MERGE_ROWS", 0)


@pytest.fixture(autouse=True)
def decisions(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often the ways of Spark's own were taken."""
    taken = {"scan": 0, "scan_without": 0}

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def call(*given: Any) -> Any:
            taken[name] += 1
            return real(*given)

        monkeypatch.setattr(module, name, call)

    counted(native, "scan")
    counted(live, "scan_without")
    return taken


def made(lake: Lake, kind: str, **more: str) -> Any:
    keys, options = KINDS[kind]
    lake.catalog.create_table("db.t", SCHEMA, ["p"], keys, {**options, **more})
    return lake.table("db.t")


def many(lake: Lake, start: int = 0, count: int = MANY) -> Any:
    return lake.spark.range(start, start + count).selectExpr("if(id % 2 = 0, 'a', 'b') AS p", "id AS k", "id + 1 AS v")


def summary(frame: Any) -> tuple[Any, ...]:
    return tuple(frame.selectExpr("count(*)", "count(DISTINCT k)", "min(k)", "max(k)", "sum(v)").collect()[0])


def expected(keys: range) -> tuple[Any, ...]:
    return len(keys), len(keys), keys[0], keys[-1], sum(keys) + len(keys)


def test_this_spark_cannot_read_s3(lake: Lake, warehouse: str) -> None:
    with pytest.raises(Exception, match=r"S3AFileSystem|No FileSystem|UNSUPPORTED_FILESYSTEM|ClassNotFound"):
        lake.spark.read.parquet(warehouse.replace("s3://", "s3a://")).collect()


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(list(KINDS), 1))
def test_large_writes_and_reads(
    lake: Lake, kind: str, in_tasks: None, decisions: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(lake, kind)
    store = table.table.store
    table.write(many(lake))
    files = [FileAt(found.path, found.file) for found in table.files()]
    assert all(found.path.startswith("s3://") for found in files)
    assert not any(native.is_native(store, found, table.schema.fields) for found in files)
    with monkeypatch.context() as patch:
        patch.setattr(reader, "_in_driver", _never)
        assert summary(table.read()) == expected(range(MANY))
        assert table.read().where("k = 7 AND p = 'b'").select("v").collect() == [(8,)]
        if kind == "keyed":
            table.write(many(lake, MANY // 2, MANY))  # overlapping files
            assert summary(table.read()) == expected(range(MANY // 2 + MANY))
    table.write(many(lake, 0, 100).where("p = 'a'"), mode="overwrite", partition={"p": "a"})
    assert table.read(where="p = 'a'").count() == 50
    assert summary(table.read(scan_snapshot_id=1)) == expected(range(MANY))
    assert decisions == {"scan": 0, "scan_without": 0}


def _never(*given: Any) -> Any:
    raise AssertionError("rows were read in the driver")


@pytest.mark.parametrize("kind", first(list(KINDS), 1))
def test_small_writes_and_reads(lake: Lake, kind: str, decisions: dict[str, int]) -> None:
    table = made(lake, kind)
    table.write(lake.spark.createDataFrame([("a", 1, 10), ("b", 2, 20)], "p string, k long, v long"))
    table.write(many(lake, 2, 2))
    found = sorted(tuple(row) for row in table.read().collect())
    assert found == sorted([("a", 1, 10), ("a", 2, 3), ("b", 2, 20), ("b", 3, 4)])
    assert decisions == {"scan": 0, "scan_without": 0}


def test_sql(lake: Lake, decisions: dict[str, int]) -> None:
    lake.sql(
        "CREATE TABLE orders (id BIGINT, status STRING, day STRING) PARTITIONED BY (day)"
        " TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '2')"
    )
    lake.sql("INSERT INTO orders VALUES (1, 'new', 'd1'), (2, 'new', 'd2')")
    lake.sql("INSERT INTO orders SELECT id, 'paid', 'd1' FROM range(1, 3)")
    lake.spark.createDataFrame([("paid", "yes")], "status string, label string").createOrReplaceTempView("labels")
    query = "SELECT o.id, o.day, l.label FROM orders o LEFT JOIN labels l USING (status) ORDER BY day, id"
    assert [tuple(row) for row in lake.sql(query).collect()] == [(1, "d1", "yes"), (2, "d1", "yes"), (2, "d2", None)]
    assert lake.sql("SELECT * FROM orders VERSION AS OF 1").count() == 2
    lake.sql("INSERT OVERWRITE orders PARTITION (day = 'd2') VALUES (9, 'late')")
    lake.sql("CREATE TABLE copy AS SELECT * FROM orders WHERE day = 'd2'")
    assert [tuple(row) for row in lake.sql("SELECT * FROM copy").collect()] == [(9, "late", "d2")]
    lake.sql("ALTER TABLE copy RENAME TO other")
    lake.sql("ALTER TABLE other ADD COLUMN note STRING")
    lake.sql("INSERT INTO other VALUES (10, 'x', 'd3', 'n')")
    assert lake.sql("SELECT note FROM other ORDER BY id").collect() == [(None,), ("n",)]
    assert sorted(row[1] for row in lake.sql("SHOW TABLES").collect()) == ["orders", "other"]
    lake.sql("DROP TABLE orders")
    lake.sql("DROP TABLE other")
    assert lake.sql("SHOW TABLES").count() == 0
    lake.sql("DROP DATABASE db")
    assert lake.catalog.list_databases() == ["default"]
    assert decisions == {"scan": 0, "scan_without": 0}


def test_rows_that_fail_leave_no_object(lake: Lake, s3: S3) -> None:
    table = made(lake, "unaware")
    table.write(many(lake, 0, 10))
    known = s3.keys(table.path)
    bad = many(lake).withColumn("v", _sql(lake, "if(k = 59999, raise_error('no such row'), v)"))
    with pytest.raises(Exception, match="no such row"):
        table.write(bad)
    assert len(table.snapshots()) == 1
    assert table.read().count() == 10
    assert {key for key in s3.keys(table.path) if "/snapshot" in key} == {key for key in known if "/snapshot" in key}


def _sql(lake: Lake, text: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(["keyed", "unaware"], 1))
def test_spark_s_own_reader_and_writer(lake: Lake, s3: S3, kind: str) -> None:
    """The options are the only place where the credentials are: Spark's configuration has none."""
    table = made(lake, kind)
    many(lake).write.format("bucketlake").options(**s3.options).mode("append").save(table.path)
    frame = lake.spark.read.format("bucketlake").options(**s3.options).load(table.path)
    assert summary(frame) == expected(range(MANY))
    if kind == "keyed":
        many(lake).write.format("bucketlake").options(**s3.options).mode("append").save(table.path)
    pruned = {**s3.options, "columns": "v", "where": "p = 'a' AND k < 4", "scan.snapshot-id": "1"}
    assert sorted(lake.spark.read.format("bucketlake").options(**pruned).load(table.path).collect()) == [(1,), (3,)]
    many(lake, 0, 10).write.format("bucketlake").options(**s3.options).mode("overwrite").save(table.path)
    assert lake.spark.read.format("bucketlake").options(**s3.options).load(table.path).count() == 10
    hadoop = {
        "fs.s3a.endpoint": s3.endpoint,
        "fs.s3a.access.key": "a",
        "fs.s3a.secret.key": "b",
    }
    other = table.path.replace("s3://", "s3a://")
    assert lake.spark.read.format("bucketlake").options(**hadoop).load(other).count() == 10
    with pytest.raises(Exception, match="holds no table|no table"):
        lake.spark.read.format("bucketlake").options(**s3.options).load(table.path + "x").count()


@pytest.mark.slow
def test_maintenance_through_sql(lake: Lake, s3: S3) -> None:
    lake.sql(
        "CREATE TABLE w (k BIGINT, v BIGINT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'k,p',"
        " 'bucket' = '-2', 'postpone.batch-write-fixed-bucket' = 'false', 'postpone.default-bucket-num' = '2')"
    )
    for turn in range(3):
        lake.sql(f"INSERT INTO w SELECT id, {turn}, if(id % 2 = 0, 'a', 'b & c') FROM range(0, 4000, {turn + 1})")
    lake.sql("CALL sys.compact('w')")
    lake.sql("CALL sys.rescale(`table` => 'w', bucket_num => 4)")
    table = lake.table("w")
    assert {found.bucket for found in table.files()} == {0, 1, 2, 3}
    counts = [tuple(row) for row in lake.sql("SELECT v, count(*) FROM w GROUP BY v ORDER BY v").collect()]
    assert counts == [(0, 1333), (1, 1333), (2, 1334)]
    before = len(table.snapshots())
    expired = lake.sql("CALL sys.expire_snapshots(`table` => 'w', retain_max => 1, retain_min => 1)").collect()
    assert expired == [(before - 1,)]
    gone = f"{table.path}/p=a/bucket-0/data-gone-0.parquet"
    table.table.store.env.storage.write(gone, b"12345")
    assert lake.sql("CALL sys.remove_orphan_files('w')").collect() == [(0, 0)], "a day has not passed"
    assert remove_orphans(table.table.store, 1 << 60, run=run_each(lake.spark)).paths == (gone,)
    assert lake.sql("SELECT count(*), sum(v) FROM w").collect() == [(4000, 1333 + 2 * 1334)]


def test_secrets_are_in_no_plan(lake: Lake, s3: S3, in_tasks: None, capsys: pytest.CaptureFixture[str]) -> None:
    table = made(lake, "keyed")
    table.write(many(lake))
    frame = lake.spark.read.format("bucketlake").options(**s3.options).load(table.path)
    for shown in (table.read(), frame, lake.sql("SELECT * FROM t")):
        shown.explain("extended")
        assert SECRET not in capsys.readouterr().out
    with pytest.raises(NotFoundError) as raised:
        lake.table("db.nothing")
    assert SECRET not in str(raised.value) + repr(lake) + repr(table)


@pytest.mark.slow
@pytest.mark.spark
def test_file_uris_take_the_native_way(
    classic_session: SparkSession, tmp_path: Path, in_tasks: None, decisions: dict[str, int]
) -> None:
    lake = bucketlake.connect(f"file://{tmp_path}/wh", classic_session)
    lake.sql("CREATE DATABASE db")
    lake.sql("USE db")
    table = made(lake, "unaware")
    table.write(many(lake))
    assert summary(table.read()) == expected(range(MANY))
    frame = classic_session.read.format("bucketlake").load(f"file://{table.path}")
    assert summary(frame) == expected(range(MANY))
    assert decisions == {"scan": 1, "scan_without": 0}
    keyed = lake.catalog.create_table("db.k", SCHEMA, ["p"], ["p", "k"], {"bucket": "1"})
    lake.table("k").write(many(lake))
    lake.table("k").write(many(lake, 10, 10))
    assert summary(lake.table("k").read()) == expected(range(MANY))
    assert decisions["scan_without"] == 1
    assert len(rows(keyed)) == MANY


@pytest.mark.spark
def test_checkpoints_lie_where_the_tables_do(s3: S3, warehouse: str, classic_session: SparkSession) -> None:
    lake = bucketlake.connect(warehouse, classic_session, s3.options)
    lake.catalog.create_database("db")
    table = made(lake, "keyed")
    table.table.write_arrow([{"p": "a", "k": 1, "v": 1}])
    seen: list[Any] = []
    for _ in range(2):  # the second goes on where the first was
        folder = f"{warehouse}/checkpoint"
        process = table.process_stream(lambda frame, _: seen.extend(frame.collect()), folder, {"availableNow": True})
        process.awaitTermination()
    assert seen == [("a", 1, 1)]
    assert "checkpoint/commits/0" in s3.keys(warehouse)


def test_notes_of_queries_lie_where_the_tables_do(s3: S3, warehouse: str, catalog: Catalog) -> None:
    note, binding = b'v1\n{"batchWatermarkMs": 7}\n{}', {"target": "db"}
    folder = f"{warehouse}/checkpoint"
    for name, data in (("metadata", b'{"id": "q"}'), ("offsets/3", note), ("state/0/1.delta", b"")):
        catalog.env.storage.write(f"{folder}/{name}", data)
    query = Query("a query", folder, None, catalog.env)
    found = query.batch(3)
    assert (found.query, found.number, found.watermark) == ("q", 3, 7)
    assert found.fingerprint
    assert query.folder.keeps_state()
    bind(query.folder, binding, began=False)
    bind(query.folder, binding, began=True)
    with pytest.raises(InvalidError, match="another synchronisation"):
        bind(query.folder, {"target": "other"}, began=True)
    assert SECRET not in repr(query)
