"""`format("bucketlake")`: Spark's own way to a table folder."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.profile import later

from bucketlake.spark.session import Lake

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("pt", pa.string()), ("v", pa.int32()), ("day", pa.date32())])


def _frame(lake: Lake, start: int, end: int):
    return lake.spark.range(start, end).selectExpr(
        "concat('p', id % 2) AS pt", "id", "cast(id AS int) AS v", "date '2024-01-01' AS day"
    )


@pytest.fixture(params=["append", "keyed"])
def table(request: pytest.FixtureRequest, lake: Lake):
    keys, options = ((), {}) if request.param == "append" else (("id", "pt"), {"bucket": "2"})
    lake.catalog.create_table("db.t", SCHEMA, ("pt",), keys, options)
    return lake.table("db.t")


def test_rows_go_both_ways(lake: Lake, table) -> None:
    _frame(lake, 0, 1000).write.format("bucketlake").mode("append").save(table.path)
    _frame(lake, 1000, 1500).write.format("bucketlake").mode("append").save(table.path)
    frame = lake.spark.read.format("bucketlake").load(table.path)
    assert frame.count() == 1500
    assert frame.where("id = 3").collect() == [(3, "p1", 3, frame.where("id = 3").collect()[0].day)]
    assert frame.count() == 1500
    assert sorted(frame.collect()) == sorted(table.read().collect())


def test_columns_conditions_and_snapshots_are_options(lake: Lake, table) -> None:
    _frame(lake, 0, 100).write.format("bucketlake").mode("append").save(table.path)
    _frame(lake, 100, 200).write.format("bucketlake").mode("append").save(table.path)
    reader = lake.spark.read.format("bucketlake").option("columns", "v,id").option("where", "pt = 'p1' AND id > 50")
    found = reader.option("scan.snapshot-id", "1").load(table.path)
    assert found.columns == ["v", "id"]
    assert sorted(row.id for row in found.collect()) == list(range(51, 100, 2))


def test_overwrite_replaces(lake: Lake, table) -> None:
    _frame(lake, 0, 100).write.format("bucketlake").mode("append").save(table.path)
    rows = _frame(lake, 0, 10).where("pt = 'p0'").write.format("bucketlake").mode("overwrite")
    rows.option("dynamic-partition-overwrite", "true").save(table.path)
    assert table.read(where="pt = 'p0'").count() == 5
    assert table.read(where="pt = 'p1'").count() == 50
    rows.option("dynamic-partition-overwrite", "false").save(table.path)
    assert table.read().count() == 5
    _frame(lake, 0, 100).write.format("bucketlake").mode("append").save(table.path)
    _frame(lake, 0, 10).where("pt = 'p0'").write.format("bucketlake").mode("overwrite").save(table.path)
    assert table.read().count() == 5


@pytest.mark.spark
def test_overwrite_replaces_all_rows_of_a_dynamic_table(classic: Lake) -> None:
    """Its rows are put aside, and given their buckets where the write commits."""
    classic.catalog.create_table("db.t", SCHEMA, ("pt",), ("id", "pt"), {"bucket": "-1"})
    table = classic.table("db.t")
    _frame(classic, 0, 100).write.format("bucketlake").mode("append").save(table.path)
    rows = _frame(classic, 0, 10).where("pt = 'p0'").write.format("bucketlake").mode("overwrite")
    rows.save(table.path)
    assert table.read().count() == 5


def test_wrong_columns_and_paths_are_refused(lake: Lake, table) -> None:
    with pytest.raises(Exception, match=r"missing=\['id'\]"):
        _frame(lake, 0, 1).drop("id").write.format("bucketlake").mode("append").save(table.path)
    with pytest.raises(Exception, match="no table") as caught:
        lake.spark.read.format("bucketlake").load(table.path + "x").count()
    assert table.snapshots() == []
    assert "newest_schema" not in str(caught.value), "frames inside are no business of the user's"


def test_a_frame_reads_the_table_that_was_loaded(classic: Lake) -> None:
    schema = pa.schema({"v": pa.string()})
    table = classic.catalog.create_table("db.t", schema)
    table.write_arrow(pa.table({"v": ["p"]}))
    early, frame = (classic.spark.read.format("bucketlake").load(table.path) for _ in range(2))
    table.write_arrow(pa.table({"v": ["q"]}))
    assert early.count() == 2, "the newest snapshot at the first action"
    classic.catalog.drop_table("db.t")
    classic.catalog.create_table("db.t", schema).write_arrow(pa.table({"v": ["r"]}))
    with pytest.raises(Exception, match="another table lies here than was opened"):
        frame.count()
    assert classic.spark.read.format("bucketlake").load(table.path).collect() == [("r",)]


def test_errors_tell_what_to_do_without_frames(classic: Lake, tmp_path: Path) -> None:
    classic.catalog.create_table("db.t", pa.schema({"id": pa.int32()}))
    spark, path = classic.spark, classic.catalog.table_path("db.t")
    reader = spark.read.format("bucketlake")
    assert reader.option("catalog", "paimon").option("database", "db").option("table", "t").load("/x").count() == 0
    stream = spark.readStream.format("bucketlake").load(path)
    limited = spark.readStream.format("bucketlake").option("read.stream.minRowsPerTrigger", 5)
    for refused, told in (
        (lambda: reader.option("catalog", "hive").option("table", "t").load(), "no such catalog.*bucketlake or paimon"),
        (lambda: spark.read.format("bucketlake").load("t").count(), r'a name is an option: .option\("table", "t"\)'),
        (lambda: limited.load(path), "set both"),
        (lambda: classic.table("db.t").read_stream(**{"read.stream.maxFilesPerTrigger": 0}), "less than one"),
        (lambda: spark.range(5_000_000_000, 5_000_000_001).write.format("bucketlake").mode("append").save(path), "fit"),
    ):
        with pytest.raises(Exception, match=told) as caught:
            refused()
        assert not re.search(r"ops/|sql/text|schema\.py|types/arrow", str(caught.value)), "no frames inside"
    query = stream.writeStream.format("bucketlake").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(Exception, match=r"write_stream\(df, checkpoint"):
        query.trigger(availableNow=True).start(path).awaitTermination()


@pytest.mark.spark
@pytest.mark.parametrize("keys", later([("id", "pt"), ("id",)], 1), ids=["dynamic", "cross-partition"])
def test_tables_whose_buckets_hang_on_all_rows(classic: Lake, keys: tuple[str, ...]) -> None:
    """Tasks put their rows aside; nothing of that stays."""
    lake = classic
    lake.catalog.create_table("db.t", SCHEMA, ("pt",), keys, {"dynamic-bucket.target-row-num": "50"})
    table = lake.table("db.t")
    _frame(lake, 0, 300).repartition(3).write.format("bucketlake").mode("append").save(table.path)
    more = _frame(lake, 200, 400).withColumn("v", F.lit(-1)).repartition(3)
    more.write.format("bucketlake").mode("append").option("table", "db.t").save()
    found = lake.spark.read.format("bucketlake").option("database", "db").option("table", "t").load()
    counted = found.agg(F.count("*"), F.countDistinct("id"), F.sum(F.when(F.col("v") == -1, 1))).collect()[0]
    assert tuple(counted) == (400, 400, 200)
    assert len({(file.partition["pt"], file.bucket) for file in table.files()}) > 2
    kept = {Path(file.path).name for file in table.files()} | {
        Path(entry.path).name
        for snapshot in table.snapshots()
        for entry in table.files(**{"scan.snapshot-id": snapshot.id})
    }
    assert {path.name for path in Path(table.path).rglob("*.parquet")} <= kept
    _frame(lake, 0, 10).where("pt = 'p0'").write.format("bucketlake").mode("overwrite").option(
        "replaceWhere", "pt = 'p0'"
    ).save(table.path)
    assert table.read(where="pt = 'p0'").count() == 5
    assert table.read(where="pt = 'p1'").count() == 200


@pytest.mark.spark
@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_text_of_a_length_is_stored_as_sql_stores_it(classic: Lake, bucket: str) -> None:
    """'ab' beside 'ab  ' was another key, and another partition."""
    classic.sql(
        "CREATE TABLE db.t (p CHAR(3), k CHAR(4), v VARCHAR(2), m ARRAY<CHAR(2)>, n INT) PARTITIONED BY (p) "
        f"TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '{bucket}')"
    )
    classic.sql("INSERT INTO db.t VALUES ('x', 'ab', 'v', array('m'), 1), ('y', 'cd', 'v', NULL, 1)")
    path = classic.table("db.t").path
    rows = classic.spark.sql("SELECT 'x' AS p, 'ab     ' AS k, 'vv ' AS v, array('m', NULL) AS m, 2 AS n")
    rows.write.format("bucketlake").mode("append").save(path)
    stored = [{"p": "x  ", "k": "ab  ", "v": "vv", "m": ["m ", None], "n": 2}]
    assert classic.table("db.t").table.to_arrow(where="p = 'x  '").to_pylist() == stored
    assert classic.table("db.t").partitions() == [{"p": "x  "}, {"p": "y  "}]
    rows.write.format("bucketlake").mode("overwrite").option("replaceWhere", "p = 'x'").save(path)
    assert classic.table("db.t").table.to_arrow(where="p = 'x  '").to_pylist() == stored
    with pytest.raises(Exception, match="value is longer than its column"):
        rows.selectExpr("p", "'abcde' AS k", "v", "m", "n").write.format("bucketlake").mode("append").save(path)


def test_columns_by_place_and_new_ones(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (a INT, b STRING, dt STRING) PARTITIONED BY (dt)")
    path = lake.table("db.t").path
    sql = lake.spark.sql

    def save(text: str, **options: str) -> None:
        sql(text).write.format("bucketlake").mode("append").options(**options).save(path)

    save("SELECT 1 AS a, 'x' AS b, 'p' AS c")  # another name in its place
    with pytest.raises(Exception, match="extra columns: `c`"):
        save("SELECT 'x' AS b, 2 AS a, 'p' AS c")
    with pytest.raises(Exception, match="extra columns: `n`"):
        save("SELECT 2 AS a, 'x' AS b, 'p' AS dt, 5 AS n")
    save("SELECT 2 AS A, 'x' AS b, 'p' AS dt, 5 AS n", **{"write.merge-schema": "true"})
    found = sorted(tuple(row) for row in lake.sql("SELECT * FROM db.t").collect())
    assert found == [(1, "x", "p", None), (2, "x", "p", 5)]


ASSIGNED = {  # column -> its type, what is given, what Spark's own tables make of it
    "w": ("INT", "CAST(-1.9 AS DOUBLE)", -1),
    "d": ("DECIMAL(4, 2)", "CAST(1.255 AS DECIMAL(5, 3))", "1.26"),
    "e": ("DECIMAL(4, 2)", "double('NaN')", None),
    "b": ("SMALLINT", "12.9", 12),
    "f": ("FLOAT", "1e300D", float("inf")),
    "s": ("STRING", "1.50", "1.50"),
    "t": ("STRING", "DATE'2024-01-05'", "2024-01-05"),
    "o": ("CHAR(6)", "true", "true  "),
    "y": ("DATE", "TIMESTAMP_NTZ'1969-12-31 23:00:00'", "1969-12-31"),
    "r": ("STRUCT<a: INT, n: STRUCT<x: STRING>>", "named_struct('N', named_struct('X', 5), 'A', 2.5D)", (2, ("5",))),
    "l": ("ARRAY<STRUCT<a: DECIMAL(3, 1)>>", "array(named_struct('A', 1.25D), NULL)", [("1.3",), None]),
    "m": ("MAP<STRING, ARRAY<INT>>", "map(7, array(1.5D, NULL))", {"7": [1, None]}),
}


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type([] if isinstance(value, list) else ())(_plain(item) for item in value)
    return value if value is None or isinstance(value, (int, float, str)) else str(value)


@pytest.mark.parametrize("options", ["", "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '-1')"])
def test_values_are_assigned_as_to_sparks_own_tables(classic: Lake, options: str) -> None:
    """What the docs said was taken ended in a task: `column has the wrong type`, members of another case `missing`."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in ASSIGNED.items())
    classic.sql(f"CREATE TABLE db.t (k INT, {columns}) {options}")
    path = classic.table("db.t").path
    given = ", ".join(f"{value} AS {name}" for name, (_, value, _) in ASSIGNED.items())
    rows = classic.spark.sql(f"SELECT 1 AS k, {given} UNION ALL SELECT 2, {', '.join(['NULL'] * len(ASSIGNED))}")
    rows.write.format("bucketlake").mode("append").save(path)
    found = sorted(_plain(tuple(row)) for row in classic.sql("SELECT * FROM db.t").collect())
    assert found == [(1, *(told for _, _, told in ASSIGNED.values())), (2, *[None] * len(ASSIGNED))]
    before = classic.table("db.t").latest_snapshot().id
    for text, told in (
        ("SELECT 3 AS k, double('NaN') AS w", "CAST_OVERFLOW_IN_TABLE_INSERT.*column=w"),
        ("SELECT 3 AS k, 99.999 AS d", "CAST_OVERFLOW_IN_TABLE_INSERT.*column=d"),
        ("SELECT 3 AS k, array(named_struct('a', 1e9D)) AS l", "CAST_OVERFLOW_IN_TABLE_INSERT.*column=l"),
        ("SELECT 3 AS k, 1.5D AS s", r"knows no session.*column=s, source=double"),
        ("SELECT 3 AS k, map(1.5D, array(1)) AS m", r"knows no session.*column=m.key"),
        ("SELECT 3 AS k, TIMESTAMP'2024-01-01 00:00:00' AS y", r"knows no session.*column=y, source=timestamp"),
        ("SELECT 3 AS k, '5' AS w", "CANNOT_SAFELY_CAST"),
    ):
        with pytest.raises(Exception, match=f"(?s){told}"):
            classic.spark.sql(text).write.format("bucketlake").mode("append").save(path)
    assert classic.table("db.t").latest_snapshot().id == before
