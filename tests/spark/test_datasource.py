"""`format("bucketlake")`: Spark's own way to a table folder."""

from __future__ import annotations

import pyarrow as pa
import pytest

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
    _frame(lake, 0, 10).where("pt = 'p0'").write.format("bucketlake").mode("overwrite").save(table.path)
    assert table.read(where="pt = 'p0'").count() == 5
    assert table.read(where="pt = 'p1'").count() == 50


def test_wrong_columns_and_paths_are_refused(lake: Lake, table) -> None:
    with pytest.raises(Exception, match=r"missing=\['id'\]"):
        _frame(lake, 0, 1).drop("id").write.format("bucketlake").mode("append").save(table.path)
    with pytest.raises(Exception, match="no table"):
        lake.spark.read.format("bucketlake").load(table.path + "x").count()
    assert table.snapshots() == []
