"""Rows that Spark's own parquet writer writes: append tables without buckets, pending rows of postpone tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bucketlake import InvalidError, Table
from bucketlake.format.binary_row import from_serialized
from bucketlake.spark import staged
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
PENDING = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "postpone.merge-on-read": "true"}
MANY = 200_000  # more than a task sends back


def frame(lake: Lake, rows: int, value: int = 1, start: int = 0, tasks: int = 4) -> DataFrame:
    return lake.spark.range(start, start + rows, 1, tasks).select(
        "id",
        F.concat(F.lit("key "), F.col("id").cast("string")).alias("name"),
        F.lit(value).alias("v"),
        (F.col("id") / 100).cast("decimal(12,2)").alias("price"),
        F.when(F.col("id") % 3 == 0, F.date_add(F.lit("2024-01-01").cast("date"), F.col("id").cast("int") % 99)).alias(
            "d"
        ),
        (F.col("id") % 2 == 0).alias("even"),
    )


def create(lake: Lake, options: dict[str, str], keys: bool = True) -> Table:
    fields = frame(lake, 1).limit(0).toArrow().schema
    return lake.catalog.create_table("db.t", fields, primary_keys=["name", "id"] if keys else [], options=options)


def makers(table: Table) -> set[str]:
    """Who wrote the table's data files."""
    return {pq.ParquetFile(found.path).metadata.created_by.split()[0] for found in table.refresh().files()}


def sums(lake: Lake, **options: str) -> tuple[int, int]:
    return tuple(lake.table("db.t").read(**options).agg(F.count("*"), F.coalesce(F.sum("v"), F.lit(0))).collect()[0])


@pytest.mark.parametrize("thin", ["true", "false"])
def test_pending_rows_are_written_by_spark_and_compacted(lake: Lake, thin: str) -> None:
    table = create(lake, {**PENDING, "data-file.thin-mode": thin, "postpone.default-bucket-num": "3"})
    handle = lake.table("db.t")
    handle.write(frame(lake, MANY))
    handle.write(frame(lake, MANY // 2, 2))
    assert makers(table) == {"parquet-mr"}
    assert {file.bucket for file in table.refresh().files()} == {-2}
    expected = (MANY, MANY + MANY // 2)
    assert sums(lake) == expected
    kinds = [item.type for item in table.schema.select(["name", "id"])]
    for found in table.refresh().files():
        low, high = (from_serialized(key, kinds) for key in (found.file.min_key, found.file.max_key))
        assert low[1] <= high[1] < MANY
    lake.sql("DELETE FROM db.t WHERE id < 10")
    lake.sql("CALL sys.compact('db.t')")
    assert sums(lake, **{"postpone.merge-on-read": "false"}) == (MANY - 10, MANY + MANY // 2 - 20)
    shown = lake.table("db.t").read(where="id = 60000").collect()[0]
    assert shown == frame(lake, 1, 2, start=60000).collect()[0]
    assert not list(Path(table.path).glob(".staging*"))


@pytest.mark.parametrize("keys", [True, False])
def test_small_files_of_many_tasks_become_one(lake: Lake, keys: bool) -> None:
    table = create(lake, PENDING if keys else {"bucket": "-1"}, keys)
    lake.table("db.t").write(frame(lake, 1000, tasks=7))
    assert len(table.refresh().files()) == 1
    assert sums(lake) == (1000, 1000)
    lake.table("db.t").write(frame(lake, 2 * MANY, start=1000, tasks=2).union(frame(lake, 10, start=10**6, tasks=3)))
    assert len(table.refresh().files()) == 1 + 2 + 1
    assert sums(lake) == (2 * MANY + 1010, 2 * MANY + 1010)


def test_rows_with_kinds_keep_them(lake: Lake) -> None:
    table = create(lake, PENDING)
    handle = lake.table("db.t")
    handle.write(frame(lake, MANY))
    handle.write(frame(lake, MANY // 2).withColumn("_VALUE_KIND", F.lit(3).cast("tinyint")))
    assert len(makers(table)) == 2
    assert sums(lake) == (MANY // 2, MANY // 2)


def test_large_files_are_cut(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "_row_width", lambda store: 0.01)  # a guess far from the truth
    table = create(lake, {**PENDING, "target-file-size": "200 kb"})
    lake.table("db.t").write(frame(lake, 2 * MANY, tasks=2))
    sizes = [found.file.file_size for found in table.refresh().files()]
    assert len(sizes) > 2 and max(sizes) < 500_000
    assert sums(lake) == (2 * MANY, 2 * MANY)


@pytest.mark.parametrize("broken", ["name", "id"])
def test_null_keys_are_refused_and_nothing_remains(lake: Lake, broken: str) -> None:
    table = create(lake, PENDING)
    rows = frame(lake, MANY).withColumn(broken, F.when(F.col("id") != 77, F.col(broken)))
    with pytest.raises(InvalidError, match=f"NOT NULL.*{broken}"):
        lake.table("db.t").write(rows)
    assert table.refresh().latest_snapshot() is None
    assert not list(Path(table.path).rglob("*.parquet"))


def test_values_that_do_not_fit_are_refused(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE db.t (id BIGINT, name VARCHAR(9)) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-2',"
        " 'postpone.batch-write-fixed-bucket' = 'false')"
    )
    with pytest.raises(PySparkException, match="too long.*column=name"):
        lake.table("db.t").write(frame(lake, MANY).select("id", "name"))
    assert lake.table("db.t").latest_snapshot() is None
