"""S12: N partitions x B buckets / P writer tasks stays under 100, or the write says so; many partitions, few files."""

from __future__ import annotations

import warnings

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.profile import SOAK

import bucketlake
from bucketlake.spark.cluster import parallelism

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark
PARTITIONS = 600 if SOAK else 300
EACH = 60_000 // PARTITIONS  # rows; fewer in all would stay in the driver


def rows(lake: bucketlake.Lake, partitions: int = PARTITIONS, each: int = EACH) -> DataFrame:
    """Rows of all partitions in every task."""
    ids = lake.spark.range(0, partitions * each, 1, 4)
    return ids.select("id", (F.col("id") % partitions).cast("int").alias("pt"), F.lit("x").alias("v"))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_many_partitions_make_one_file_a_bucket(lake: bucketlake.Lake, spelling: str) -> None:
    lake.sql(create(spelling, "db.t", "id BIGINT, pt INT, v STRING", "id, pt", "pt", bucket="2"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lake.table("db.t").write(rows(lake))
    files = lake.catalog.table("db.t").files()
    assert len(files) == 2 * PARTITIONS
    assert sum(file.file.row_count for file in files) == PARTITIONS * EACH
    assert lake.table("db.t").read(where="pt = 7").count() == EACH


def test_a_backfill_of_a_table_with_one_partition_too(lake: bucketlake.Lake) -> None:
    """What is there already says nothing of how many partitions come."""
    lake.sql(create("TBLPROPERTIES", "db.t", "id BIGINT, pt INT, v STRING", "id, pt", "pt", bucket="2"))
    lake.sql("INSERT INTO db.t VALUES (1, 1, 'a')")
    lake.table("db.t").write(rows(lake))
    assert len(lake.catalog.table("db.t").files()) <= 2 * PARTITIONS + 1


def test_append_tables_too(lake: bucketlake.Lake) -> None:
    lake.sql("CREATE TABLE db.t (id BIGINT, pt INT, v STRING) PARTITIONED BY (pt)")
    lake.table("db.t").write(rows(lake))
    files = lake.catalog.table("db.t").files()
    assert len(files) == PARTITIONS
    assert sum(file.file.row_count for file in files) == PARTITIONS * EACH


@pytest.mark.slow
def test_a_write_that_was_too_wide_says_so(lake: bucketlake.Lake) -> None:
    """Where counting the partitions would cost as much as the query, the write warns afterwards."""
    lake.sql(
        "CREATE TABLE db.t (id BIGINT, pt INT, v STRING) PARTITIONED BY (pt) TBLPROPERTIES ('primary-key'='id,pt', 'bucket'='4')"
    )
    tasks = parallelism(lake.spark)
    partitions = 30 * tasks
    costly = rows(lake, partitions, 100).repartition(3).withColumn("n", F.explode(F.sequence(F.lit(0), F.lit(9))))
    wide = costly.select((F.col("id") * 10 + F.col("n")).alias("id"), "pt", F.lit("y" * 400).alias("v"))
    with pytest.warns(UserWarning, match=f"{partitions} partitions x 4 buckets / {tasks} writer tasks = 120 files"):
        lake.table("db.t").write(wide)
    assert lake.table("db.t").read().count() == partitions * 1000
