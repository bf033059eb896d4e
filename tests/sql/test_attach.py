"""A session that is attached: its own calls reach lake tables; detached it is what it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from tests.profile import later

import bucketlake
from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.spark.session import Lake


@pytest.fixture
def attached(lake: Lake, tmp_path: Path) -> Iterator[Lake]:
    """The session of `lake`, attached to another warehouse."""
    made = bucketlake.attach(lake.spark, tmp_path / "other", **{"table-default.file.format": "avro"})
    made.catalog.create_database("db")
    yield made
    while bucketlake.detach(lake.spark):
        pass


def _state(spark: Any) -> tuple[Any, ...]:
    frame = type(spark.range(0))
    members = tuple(vars(frame)[name] for name in ("write", "writeTo", "writeStream", "mergeInto"))
    return type(spark), {key for key in vars(spark) if key != "catalog"}, members


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_a_sessions_own_calls(attached: Lake) -> None:
    spark = attached.spark
    spark.sql("CREATE TABLE db.t (id INT, name STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ('bucket' = '-1')")
    spark.sql("INSERT INTO lake.db.t VALUES (:a, 'x', 1), (2, 'y', 2)", args={"a": 1})
    frame = spark.createDataFrame([(3, "z", 2)], "id int, name string, p int")
    spark.sql("INSERT INTO db.t SELECT * FROM {new}", new=frame)
    assert [row.id for row in spark.sql("SELECT id FROM lake.db.t WHERE p = ? ORDER BY id", args=[2]).collect()] == [
        2,
        3,
    ]
    joined = spark.sql("SELECT t.id FROM db.t JOIN {f} AS f ON f.id = t.id WHERE {c} = 2", f=frame, c=F.col("t.p"))
    assert _rows(joined) == [(3,)]
    # ---- tables
    for table in ("db.t", "lake.db.t", "`lake`.`db`.`t`"):
        assert spark.table(table).count() == 3
    assert spark.read.table("db.t").where("p = 1").count() == 1
    assert spark.read.option("scan.snapshot-id", 1).table("db.t").count() == 2
    assert _rows(spark.read.option("columns", "name, id").option("where", "p = 1").table("db.t")) == [("x", 1)]
    assert _rows(attached.read_table("db.t", ["id"], "p = 1", limit=1, snapshot_id=1)) == [(1,)]
    with pytest.raises(InvalidError, match="this one does not"):
        attached.table("db.t").write(frame, columns=["id"])
    assert spark.table("db.`t$snapshots`").count() == 2
    # ---- frames
    frame.write.insertInto("db.t")
    frame.write.mode("append").saveAsTable("lake.db.t")
    assert spark.table("db.t").count() == 5
    frame.write.mode("overwrite").partitionBy("p").option("dynamic-partition-overwrite", "true").saveAsTable("db.t")
    assert _rows(spark.table("db.t").select("id")) == [(1,), (3,)]
    frame.write.option("primary-key", "id").option("bucket", 1).saveAsTable("db.made")
    assert attached.table("db.made").schema.primary_keys == ("id",)
    with pytest.raises(BucketlakeError, match="ALREADY_EXISTS"):
        frame.write.saveAsTable("db.made")
    frame.writeTo("lake.db.v2").using("paimon").partitionedBy(F.col("p")).tableProperty("bucket", "-1").create()
    frame.writeTo("db.v2").append()
    assert attached.table("db.v2").schema.partition_keys == ("p",)
    frame.limit(1).writeTo("db.v2").overwritePartitions()
    assert spark.table("db.v2").count() == 1
    frame.limit(0).writeTo("db.v2").overwrite(F.lit(True))
    assert spark.table("db.v2").count() == 0
    frame.writeTo("db.v2").append()
    kept = {row.p for row in frame.collect()} - {frame.first().p}
    frame.limit(0).writeTo("db.v2").overwrite(F.col("p") == frame.first().p)
    assert {row.p for row in spark.table("db.v2").collect()} == kept
    # ---- merges
    spark.sql("CREATE TABLE db.m (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql("INSERT INTO db.m VALUES (1, 'a'), (2, 'b')")
    changes = spark.sql("SELECT * FROM VALUES (2, 'B'), (3, 'C') AS v(id, v)")
    merge = changes.alias("s").mergeInto("db.m", F.expr("m.id = s.id")).whenMatched(F.col("s.v") == "B")
    merge.update({"v": F.concat("m.v", "s.v")}).whenNotMatched().insertAll().merge()
    changes.mergeInto("db.m", F.col("m.id") == changes.id).whenNotMatchedBySource().delete().merge()
    assert _rows(spark.table("db.m")) == [(2, "bB"), (3, "C")]
    for key, meant in (
        ("primaryKey", "'primary_key'"),
        ("MERGE-engine", "'merge-engine'"),
        ("partitionBy", "df.write"),
    ):
        with pytest.raises(InvalidError, match=f"no such option.*{meant}"):
            frame.write.option(key, "id").saveAsTable("db.b")
    for refused in (
        lambda: frame.write.bucketBy(2, "id").saveAsTable("db.b"),
        lambda: frame.writeTo("db.v2").overwrite(F.udf(lambda p: True, "boolean")("p")),
    ):
        with pytest.raises(UnsupportedError):
            refused()


@pytest.mark.parametrize("kind", later(["paimon", "bucketlake"], 1))
def test_tables_by_their_folders(attached: Lake, kind: str) -> None:
    spark = attached.spark
    spark.sql("CREATE TABLE db.f (id INT, name STRING)")
    folder = attached.catalog.table_path("db.f")
    for number in (1, 2):
        rows = spark.createDataFrame([("a", number)], "name STRING, id INT")
        rows.write.format(kind).mode("append").save(folder)
    read = spark.read.format(kind)
    assert _rows(read.load(f"file://{folder}/")) == [(1, "a"), (2, "a")]
    assert _rows(spark.read.option("scan.snapshot-id", 1).load(folder, format=kind)) == [(1, "a")]
    spark.conf.set("spark.paimon.scan.snapshot-id", "1")
    try:
        assert _rows(spark.read.format(kind).load(folder)) == [(1, "a")]
        spark.conf.set("spark.paimon.*.db.f.scan.snapshot-id", "2")
        assert len(_rows(spark.read.format(kind).load(folder))) == 2
    finally:
        for key in ("scan.snapshot-id", "*.db.f.scan.snapshot-id"):
            spark.conf.unset(f"spark.paimon.{key}")
    changes = spark.read.format(kind).option("read.changelog", "true").load(folder)
    assert _rows(changes) == [("+I", 1, "a"), ("+I", 2, "a")]
    stream = spark.readStream.format(kind).options(**{"read.changelog": True, "scan.snapshot-id": 2}).load(folder)
    query = stream.writeStream.format("memory").queryName(f"of_{kind}").trigger(availableNow=True).start()
    query.processAllAvailable()
    assert _rows(spark.table(f"of_{kind}")) == [("+I", 2, "a")]
    rows.write.format(kind).mode("overwrite").save(folder)
    assert _rows(spark.table("db.f")) == [(2, "a")]
    spark.createDataFrame([("b", 3)], "name STRING, number INT").select("number", "name").write.format(kind).mode(
        "append"
    ).save(folder)
    assert _rows(spark.table("db.f")) == [(2, "a"), (3, "b")]
    with pytest.raises(BucketlakeError, match="extra columns"):
        spark.createDataFrame([("b", 3)], "id STRING, number INT").select("number", "id").write.format(kind).mode(
            "append"
        ).save(folder)
    spark.sql("DELETE FROM db.f WHERE id = 3")
    spark.createDataFrame([(4, "d")], "id INT, name STRING").write.format(kind).mode("append").option(
        "path", folder
    ).save()
    assert _rows(spark.read.format(kind).options(PATH=folder).load()) == [(2, "a"), (4, "d")]
    spark.sql("DELETE FROM db.f WHERE id = 4")
    if kind == "bucketlake":  # what only the data source knows stays its
        assert _rows(spark.read.format(kind).option("columns", "id").load(folder)) == [(2,)]


@pytest.mark.parametrize("by_option", later([True, False], 1))
def test_streams_into_folders(attached: Lake, tmp_path: Path, by_option: bool) -> None:
    spark = attached.spark
    spark.sql("CREATE TABLE db.f (id INT, name STRING)")
    spark.sql("CREATE TABLE db.g (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    folder = attached.catalog.table_path("db.g")
    spark.sql("INSERT INTO db.f VALUES (1, 'a'), (1, 'b'), (2, 'c')")
    stream = spark.readStream.table("db.f").writeStream.format("paimon").outputMode("append").queryName("into_g")
    stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query = stream.option("path", folder).start() if by_option else stream.start(folder)
    assert query.name == "into_g"
    query.awaitTermination()
    assert _rows(spark.table("db.g")) == [(1, "b"), (2, "c")]
    with pytest.raises(InvalidError, match="checkpointLocation"):
        spark.readStream.table("db.f").writeStream.format("paimon").start(folder)


def test_what_paimons_page_says_of_frames(attached: Lake, tmp_path: Path) -> None:
    spark = attached.spark
    spark.sql("USE lake.db")
    data = spark.createDataFrame([(1, "x1", "p1"), (2, "x2", "p2")], "a INT, b STRING, pt STRING")
    both = [(1, "x1", "p1"), (2, "x2", "p2")]
    made = data.write.format("paimon").option("primary-key", "a,pt").option("k1", "v1").partitionBy("pt")
    made.saveAsTable("page")
    schema = attached.table("db.page").schema
    assert schema.options["k1"] == "v1" and schema.primary_keys == ("a", "pt") and schema.partition_keys == ("pt",)
    folder = attached.catalog.table_path("db.page")
    read = spark.read.format("paimon")
    assert _rows(read.table("page")) == _rows(read.load(folder)) == both
    # ---- a catalog's name goes before the path, whose parts stand for what is not said
    for options in ({}, {"table": "page"}, {"database": "db", "table": "page"}):
        assert _rows(spark.read.format("paimon").option("catalog", "lake").options(**options).load(folder)) == both
    elsewhere = spark.read.format("paimon").options(catalog="LAKE", database="db", table="page")
    assert _rows(elsewhere.load("/nowhere")) == both
    with pytest.raises(NotFoundError, match="pagee.*did you mean"):
        spark.read.format("paimon").options(catalog="lake", database="db", table="pagee").load()
    # ---- what the lake's format says of no table here, the data source reads
    assert spark.read.format("paimon").load(f"{folder}$snapshots").count() == 1
    other = bucketlake.open(tmp_path / "third")
    other.create_database("d")
    other.create_table("d.o", pa.schema({"id": pa.int32()})).write_arrow(pa.table({"id": pa.array([7], pa.int32())}))
    assert _rows(spark.read.format("paimon").load(other.table_path("d.o"))) == [(7,)]
    assert _rows(spark.read.load(other.table_path("d.o"), "paimon")) == [(7,)]
    for nothing in (lambda: spark.read.format("paimon").load(f"{folder}x").collect(), lambda: made.save(f"{folder}x")):
        with pytest.raises(Exception, match="no table in this folder|ErrorIfExists"):
            nothing()
    # ---- saved into the folder, by Spark's other modes and with the partitions that it has
    data.limit(1).write.format("paimon").partitionBy("pt").mode("overwrite").save(folder)
    assert _rows(spark.table("page")) == both[:1]
    data.write.format("paimon").mode("ignore").option("k2", "v2").save(folder)
    assert _rows(spark.table("page")) == both[:1]
    for refused, told in (
        (lambda: data.write.format("paimon").save(folder), "already exists.*mode append"),
        (lambda: data.write.format("paimon").partitionBy("b").mode("append").save(folder), "another partition_by"),
        (lambda: data.write.format("paimon").option("k2", "v2").mode("append").save(folder), "no such option.*k2"),
        (lambda: data.write.mode("overwrite").save(folder), "another format.*db.page"),
        (lambda: data.write.mode("append").save(os.path.relpath(folder)), "another format.*db.page"),
        (lambda: data.write.mode("overwrite").parquet(f"{folder}/pt=x"), "another format.*db.page"),
        (lambda: data.write.mode("overwrite").save(str(Path(folder).parent)), "has its tables.*db.db"),
        (lambda: data.write.mode("overwrite").json(f"file:{Path(folder).parents[1]}/"), "has its tables"),
        (lambda: spark.sql(f"INSERT OVERWRITE DIRECTORY '{tmp_path}' USING parquet SELECT 1"), "has its tables"),
        (lambda: data.write.mode("overwrite").parquet(folder), "another format.*db.page"),
        (lambda: data.write.csv(path=f"file://{folder}/", mode="append"), "another format.*db.page"),
        (lambda: data.write.format("parquet").mode("overwrite").saveAsTable("page"), "another format.*db.page"),
        (lambda: data.write.saveAsTable("db.page", format="orc", mode="append"), "another format.*db.page"),
        (lambda: data.writeTo("page").using("csv").createOrReplace(), "another format.*db.page, format=csv"),
        (lambda: data.write.option("path", folder).saveAsTable("spark_catalog.default.e"), "another format.*db.page"),
        (lambda: spark.sql(f"INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT 1"), "another format.*db.page"),
        (
            lambda: spark.sql(f"INSERT OVERWRITE DIRECTORY USING csv OPTIONS (path '{folder}') SELECT 1"),
            "another format.*db.page",
        ),
        (
            lambda: spark.readStream.table("page").writeStream.format("parquet").start(folder),
            "another format.*db.page",
        ),
    ):
        with pytest.raises(BucketlakeError, match=told):
            refused()
    assert _rows(spark.table("page")) == both[:1]
    data.write.parquet(f"{folder}-files")
    assert _rows(spark.read.parquet(f"{folder}-files")) == _rows(data)


@pytest.mark.parametrize("kind", ["paimon", "bucketlake", None])
def test_a_stream_makes_its_table(attached: Lake, tmp_path: Path, kind: str | None) -> None:
    spark = attached.spark
    spark.sql("USE lake.db")
    spark.sql("CREATE TABLE fed (id INT, pt STRING)")
    spark.sql("INSERT INTO fed VALUES (1, 'a'), (2, 'b'), (1, 'a')")

    def run(into: str, checkpoint: str, keys: str = "pt", key: str = "id,pt") -> None:
        stream = spark.readStream.table("fed").writeStream.option("checkpointLocation", str(tmp_path / checkpoint))
        stream = stream.option("primary-key", key).option("bucket", "1").partitionBy(keys).trigger(availableNow=True)
        stream = stream if kind is None else stream.format(kind)
        (stream.start(into) if "/" in into else stream.toTable(into)).awaitTermination()

    run("made", "one")
    schema = attached.table("db.made").schema
    assert schema.primary_keys == ("id", "pt") and schema.partition_keys == ("pt",)
    spark.sql("INSERT INTO fed VALUES (3, 'c')")
    run("made", "one")
    assert _rows(spark.table("made")) == [(1, "a"), (2, "b"), (3, "c")]
    if kind is not None:
        run(attached.catalog.table_path("db.made"), "two")
    with pytest.raises(InvalidError, match="another partition_by"):
        run("made", "three", keys="id")
    with pytest.raises(InvalidError, match="another primary_key"):
        run("made", "three", key="id")
    assert _rows(spark.table("made")) == [(1, "a"), (2, "b"), (3, "c")]


def test_batches_of_a_stream_reach_the_lake(classic: Lake, tmp_path: Path) -> None:
    spark = classic.spark
    made = bucketlake.attach(spark, tmp_path / "other")
    try:
        spark.sql("CREATE DATABASE db")
        spark.sql("USE db")
        spark.sql("CREATE TABLE g (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
        spark.sql("INSERT INTO g VALUES (1, 'old')")
        arriving = tmp_path / "arriving"
        arriving.mkdir()
        (arriving / "one.json").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n')
        folder = made.catalog.table_path("db.g")
        sessions = []

        def take(batch: Any, number: int) -> None:
            sessions.append(batch.sparkSession)
            batch.write.mode("append").saveAsTable("h")
            batch.write.format("paimon").mode("append").save(folder)
            batch.createOrReplaceTempView("updates")
            batch.sparkSession.sql(
                "MERGE INTO g USING updates u ON g.id = u.id WHEN MATCHED THEN UPDATE SET name = upper(u.name)"
            )

        given = spark.readStream.schema("id INT, name STRING").json(str(arriving))
        stream = given.writeStream.foreachBatch(take).trigger(availableNow=True)
        query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        spark.sql("USE default")
        query.awaitTermination()
        assert sessions
        assert spark not in sessions, "Spark makes one for the query"
        assert _rows(spark.table("db.h")) == [(1, "a"), (2, "b")]
        assert made.catalog.table_exists("db.h"), "no table of Spark's own"
        assert _rows(spark.table("db.g")) == [(1, "A"), (2, "B")]
    finally:
        bucketlake.detach(spark)


def test_the_catalog(attached: Lake) -> None:
    catalog = attached.spark.catalog
    attached.sql("CREATE TABLE db.t (id INT NOT NULL COMMENT 'key', p STRING) PARTITIONED BY (p) COMMENT 'mine'")
    attached.spark.range(1).createOrReplaceTempView("a_view")
    before = attached.spark.conf.get("spark.sql.codegen.factoryMode")
    attached.spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")  # Spark lists views by generated code alone
    try:
        listed = {(one.name, one.isTemporary) for one in catalog.listTables("db")}
        assert {("t", False), ("a_view", True)} <= listed  # other tests' views are the session's too
        assert [name for name, temporary in listed if not temporary] == ["t"]
        assert [one.name for one in catalog.listTables("db", "t*")] == ["t"]
        assert catalog.tableExists("a_view")
        assert catalog.getTable("a_view").isTemporary
        if hasattr(catalog, "listViews"):
            assert [one for one in catalog.listViews("db") if not one.isTemporary] == []
    finally:
        catalog.dropTempView("a_view")
        attached.spark.conf.set("spark.sql.codegen.factoryMode", before)
    assert (catalog.currentCatalog(), catalog.currentDatabase()) == ("lake", "default")
    assert catalog.tableExists("db.t")
    assert catalog.tableExists("t", "db")
    assert catalog.tableExists("lake.db.t")
    assert not catalog.tableExists("db.u")
    assert catalog.getTable("db.t").description == "mine"
    assert [(one.name, one.dataType, one.isPartition) for one in catalog.listColumns("db.t")] == [
        ("id", "int", False),
        ("p", "string", True),
    ]
    assert {one.name for one in catalog.listDatabases()} == {"db", "default"}
    assert catalog.databaseExists("lake.db")
    assert "lake" in {one.name for one in catalog.listCatalogs()}
    catalog.setCurrentDatabase("db")
    assert catalog.tableExists("t")
    assert attached.spark.table("t").count() == 0
    assert [one.name for one in catalog.listFunctions(pattern="abs")] == ["abs"]
    assert [one.name for one in catalog.listFunctions("db", "abs")] == ["abs"]
    catalog.refreshTable("t")
    catalog.cacheTable("t")
    assert catalog.isCached("t")
    catalog.uncacheTable("t")
    # ---- Spark's own
    catalog.setCurrentCatalog("spark_catalog")
    assert catalog.currentCatalog() == "spark_catalog"
    assert not catalog.tableExists("db.t")
    assert catalog.tableExists("lake.db.t")
    catalog.setCurrentCatalog("lake")
    assert catalog.tableExists("db.t")


def test_what_is_sparks_goes_to_spark(attached: Lake, tmp_path: Path) -> None:
    spark = attached.spark
    frame = spark.range(3)
    frame.write.format("parquet").saveAsTable("plain")
    try:
        assert not attached.catalog.table_exists("default.plain")
        frame.write.mode("append").saveAsTable("plain")
        frame.write.insertInto("plain")
        assert spark.table("plain").count() == 9
        spark.sql("INSERT INTO plain SELECT id FROM {f}", f=frame)
        assert spark.sql("SELECT count(*) FROM spark_catalog.default.plain").collect()[0][0] == 12
        assert spark.catalog.tableExists("plain")
        frame.writeTo("elsewhere").using("parquet").create()
        assert not attached.catalog.table_exists("default.elsewhere")
    finally:
        spark.sql("DROP TABLE IF EXISTS plain")
        spark.sql("DROP TABLE IF EXISTS spark_catalog.default.elsewhere")
    frame.write.parquet(str(tmp_path / "files"))
    assert spark.read.format("parquet").load(str(tmp_path / "files")).count() == 3
    assert spark.sql(f"SELECT * FROM parquet.`{tmp_path / 'files'}`").count() == 3
    for text in ("SELEC 1", "SELECT 1; SELECT 2", "SELECT 'a"):
        with pytest.raises(AnalysisException):
            spark.sql(text)
    assert spark.sql("SELECT '{{}}' AS a, {n} AS b", n=2).collect()[0].b == 2


def test_detached_it_is_what_it_was(lake: Lake, tmp_path: Path) -> None:
    spark = lake.spark
    before = _state(spark)
    assert bucketlake.detach(spark) is False
    for catalog in ("spark_catalog", "a.b", ""):
        with pytest.raises(InvalidError):
            bucketlake.attach(spark, tmp_path / "no", catalog=catalog)
    assert _state(spark) == before
    first = bucketlake.attach(spark, tmp_path / "one", catalog="one")
    second = bucketlake.attach(spark, tmp_path / "two", catalog="two")
    fresh = spark.newSession()
    try:
        assert type(spark).__module__ == before[0].__module__
        spark.sql("CREATE TABLE one.default.t AS SELECT 1 AS a")
        spark.sql("CREATE TABLE t AS SELECT 2 AS a")
        assert (first.tables(), second.tables()) == (["default.t"], ["default.t"])
        assert _rows(spark.sql("SELECT one.default.t.a FROM one.default.t UNION ALL SELECT a FROM two.default.t")) == [
            (1,),
            (2,),
        ]
        assert spark.table("one.default.t").collect() == [(1,)]
        assert spark.catalog.tableExists("one.default.t")
        # Sessions are attached each for itself.
        assert type(fresh) is before[0]
        with pytest.raises(AnalysisException):
            fresh.table("one.default.t").collect()
        with pytest.raises(BucketlakeError):
            spark.sql("SELECT nope FROM t")
        spark.range = None  # as if it were stopped
        assert bucketlake.detach(spark)
        del spark.range
        assert spark.table("t").collect() == [(1,)]
        with pytest.raises(AnalysisException):
            spark.table("two.default.t").collect()
    finally:
        while bucketlake.detach(spark):
            pass
    assert _state(spark) == before
    assert not spark.catalog.tableExists("t")


@pytest.mark.spark
def test_names_of_sparks_alone(classic: Lake, tmp_path: Path) -> None:
    spark = classic.spark
    lake = bucketlake.attach(spark, tmp_path / "other", current=False)
    try:
        lake.catalog.create_database("db")
        spark.sql("CREATE TABLE lake.db.t AS SELECT 1 AS a")
        assert spark.catalog.currentCatalog() == "spark_catalog"
        assert not spark.catalog.tableExists("db.t")
        assert spark.table("lake.db.t").count() == 1
        spark.sql("CALL lake.sys.compact(table => 'lake.db.t')")
        spark.sql("USE lake.db")
        assert spark.table("t").count() == 1
    finally:
        bucketlake.detach(spark)


@pytest.mark.spark
def test_the_name_of_the_catalog_counts_wherever_one_stands(classic: Lake, tmp_path: Path) -> None:
    spark = classic.spark
    bucketlake.attach(spark, tmp_path / "other", catalog="Mine")
    try:
        spark.sql("CREATE TABLE mine.default.t (a INT, p INT) PARTITIONED BY (p)")
        for n in (1, 2):
            spark.sql(f"INSERT INTO t VALUES ({n}, {n})")
        for key in ("spark.paimon.mine.default.t.scan.snapshot-id", "spark.paimon.mine.*.t.scan.snapshot-id"):
            spark.sql(f"SET {key} = 1")
            try:
                assert spark.sql("SELECT a FROM mine.default.t").collect() == [(1,)], key
                assert spark.table("t").count() == 1
            finally:
                spark.sql(f"RESET {key}")
        assert spark.table("t").count() == 2
        assert spark.sql("SELECT mine.sys.max_pt('t'), mine.sys.bucket(1, 5)").collect() == [("2", 0)]
        functions = [row[0] for row in spark.sql("SHOW FUNCTIONS IN mine.sys").collect()]
        assert functions == [row[0] for row in spark.sql("SHOW FUNCTIONS IN sys").collect()] != []
        with pytest.raises(AnalysisException, match="catalog nowhere does not exist"):
            spark.sql("SELECT nowhere.sys.bucket(1, 5)")
        for statement in (
            "SELECT * FROM nowhere.default.t",
            "INSERT INTO nowhere.default.t VALUES (1, 1)",
            "ALTER TABLE t RENAME TO nowhere.default.u",
            "USE CATALOG nowhere",
            "SET spark.paimon.nowhere.default.t.scan.snapshot-id = 1",
        ):
            with pytest.raises((BucketlakeError, AnalysisException), match=r"\bmine\b"):
                spark.sql(statement)
    finally:
        bucketlake.detach(spark)


def test_partitions_are_overwritten_by_columns(attached: Lake) -> None:
    """As upstream's `Support v2 write with overwrite`."""
    spark, c = attached.spark, F.col
    spark.sql("CREATE TABLE db.o (c1 INT, c2 STRING) PARTITIONED BY (p1 STRING, p2 STRING)")

    def writer(first: int, last: int, second: str = "id") -> Any:
        rows = spark.range(first, last).selectExpr("id AS c1", "id AS c2", "'a' AS p1", f"{second} AS p2")
        return rows.writeTo("db.o")

    writer(0, 3).overwrite(c("p1") == "a")
    writer(7, 10).overwrite(c("p1") == "a")
    assert _rows(spark.table("db.o").select("c1", "p2")) == [(7, "7"), (8, "8"), (9, "9")]
    writer(0, 2, "9").overwrite(c("p1").eqNullSafe("a") & (c("p2") == "9"))
    assert _rows(spark.table("db.o").select("c1", "p2")) == [(0, "9"), (1, "9"), (7, "7"), (8, "8")]
    for condition, message in (
        (c("p1") != "a", "Only support Overwrite filters with Equal and EqualNullSafe"),
        (c("p1") == c("c2"), "Table does not support overwrite by expression"),
        (c("c1") == c("c2") + 1, "Table does not support overwrite by expression"),
        ((c("p1") == "a") & (c("p1") == "b"), "Only support Overwrite with one filter for each partition column"),
        (c("p1") == "b", "does not belong to this partition"),
    ):
        with pytest.raises(BucketlakeError, match=message):
            writer(0, 2).overwrite(condition)
    assert spark.table("db.o").count() == 4


def test_another_format_for_a_table_that_the_lake_has(attached: Lake) -> None:
    sql = attached.spark.sql
    sql("CREATE TABLE lake.db.kept (id INT)")
    sql("INSERT INTO lake.db.kept VALUES (1)")
    sql("USE lake.db")
    for statement in (
        "CREATE OR REPLACE TABLE kept USING csv AS SELECT 2 AS id",
        "REPLACE TABLE db.kept (id INT) USING parquet",
        "CREATE TABLE kept (id INT) USING csv",
        "CREATE TABLE lake.db.new (id INT) USING csv",
    ):
        with pytest.raises(UnsupportedError, match="currently does not support format table"):
            sql(statement)
    sql("CREATE TABLE IF NOT EXISTS kept (id INT) USING csv")
    assert [row.id for row in sql("SELECT * FROM kept").collect()] == [1]


def test_errors_of_the_lakes_own_sql_point_at_what_was_written(attached: Lake) -> None:
    attached.sql("CREATE TABLE db.t (id INT)")
    for call in (attached.sql, attached.spark.sql):
        with pytest.raises(BucketlakeError) as found:
            call("SELECT nope FROM lake.db.t")
        assert "SELECT nope FROM lake.db.t\n       ^^^^" in str(found.value)


def test_temporary_views_hide_no_table_that_is_saved(attached: Lake) -> None:
    spark = attached.spark
    spark.sql("USE lake.db")
    frame = spark.createDataFrame([(1,)], "id INT")
    for name in ("there", "made", "made_too"):
        frame.createOrReplaceTempView(name)
    try:
        spark.sql("CREATE TABLE db.there (id INT)")
        frame.write.mode("append").saveAsTable("there")
        frame.write.saveAsTable("made")
        frame.writeTo("made_too").create()
        for name in ("there", "made", "made_too"):
            assert _rows(attached.read_table(f"db.{name}")) == [(1,)]
        for add in (frame.writeTo("there").append, lambda: frame.writeTo("there").overwrite("true")):
            with pytest.raises(AnalysisException, match="VIEW_WRITE_NOT_ALLOWED"):
                add()
    finally:
        for name in ("there", "made", "made_too"):
            spark.catalog.dropTempView(name)


def test_what_is_said_before_insert_into_and_reads(attached: Lake) -> None:
    spark = attached.spark
    spark.sql("CREATE TABLE db.t (id INT)")
    frame = spark.createDataFrame([(1,)], "id INT")
    for mode in ("ignore", "error", "APPEND"):
        frame.write.mode(mode).insertInto("db.t")
    assert spark.table("db.t").count() == 3
    frame.write.mode("Overwrite").insertInto("db.t")
    assert spark.table("db.t").count() == 1
    for key in ("mode", "name", "frame", "self", "limit", "by_position"):
        for call in (
            lambda key=key: frame.write.option(key, "1").insertInto("db.t"),
            lambda key=key: spark.read.option(key, "1").table("db.t"),
            lambda key=key: spark.readStream.option(key, "1").table("db.t"),
        ):
            with pytest.raises(InvalidError, match="no such option|scan.mode"):
                call()
    assert spark.table("db.t").count() == 1
    spark.catalog.createTable("db.made", schema=frame.schema, name="x", frame="y", owner="me")
    assert attached.table("db.made").schema.options["owner"] == "me"
