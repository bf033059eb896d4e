"""Postpone tables written, read and compacted by several tasks."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.profile import later

from bucketlake.ops.compact import postpone_compact
from bucketlake.ops.scan.scan import delta_entries, live_entries
from bucketlake.spark.maintain import jobs
from bucketlake.spark.session import Lake
from bucketlake.spark.write import placement
from bucketlake.table import Table

pytestmark = pytest.mark.spark
PENDING = {"postpone.batch-write-fixed-bucket": "false"}
SEEING = {**PENDING, "postpone.merge-on-read": "true"}


def frame(lake: Lake, rows: int, value: int, parts: int = 2) -> DataFrame:
    return lake.spark.range(0, rows, 1, 4).select(
        F.concat(F.lit("p"), (F.col("id") % parts).cast("string")).alias("pt"),
        F.concat(F.lit("a longer key "), F.col("id").cast("string")).alias("name"),
        F.col("id"),
        F.lit(value).alias("v"),
    )


def create(lake: Lake, options: dict[str, str]) -> Table:
    fields = frame(lake, 1, 1).limit(0).toArrow().schema
    keys = ["pt", "name", "id"]
    return lake.catalog.create_table(
        "db.t", fields, partition_keys=["pt"], primary_keys=keys, options={"bucket": "-2", **options}
    )


def places(table: Table) -> set[tuple[str, int, int]]:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    paths = table.store.paths
    found = live_entries(table.store, snapshot)
    return {(paths.partition_path(e.partition), e.bucket, e.total_buckets) for e in found}


def sums(lake: Lake, **options: str) -> tuple[int, int]:
    found = lake.table("db.t").read(**options).agg(F.count("*"), F.coalesce(F.sum("v"), F.lit(0))).collect()[0]
    return found[0], found[1]


@pytest.mark.parametrize("rows", [3000, 60_000], ids=["sent back", "by tasks"])
def test_pending_rows_of_tasks_are_read_and_compacted(lake: Lake, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "DRIVER_BYTES", 1 << 10)
    monkeypatch.setattr(postpone_compact, "UNIT_BYTES", 1 << 10)
    table = create(lake, {**SEEING, "postpone.target-row-num-per-bucket": str(rows // 4)})
    handle = lake.table("db.t")
    handle.write(frame(lake, rows, 1))
    handle.write(frame(lake, rows // 2, 2))
    assert places(table) == {("pt=p0", -2, -2), ("pt=p1", -2, -2)}
    expected = (rows, rows + rows // 2)
    assert sums(lake) == expected
    assert sums(lake, postpone_merge_on_read="false") == (0, 0)
    lake.sql("DELETE FROM db.t WHERE id < 10")
    expected = (rows - 10, rows + rows // 2 - 20)
    assert sums(lake) == expected
    assert lake.sql("SELECT v FROM db.t WHERE id = 11").collect()[0][0] == 2
    lake.sql("CALL sys.compact('db.t', 'pt=p0')")
    assert sums(lake) == expected
    assert {place for place in places(table) if place[1] < 0} == {("pt=p1", -2, -2)}
    lake.sql("CALL sys.compact('db.t')")
    assert sums(lake, postpone_merge_on_read="false") == expected
    assert {total for *_, total in places(table)} == {4}, "by the rows pending when a partition is compacted first"


@pytest.mark.parametrize("rows", later([3000, 60_000], 1), ids=["sent back", "by tasks"])
def test_batch_writes_number_new_partitions_by_their_rows(
    lake: Lake, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "FEW_FILES_OF_PARTITIONS", 1)
    table = create(lake, {"postpone.target-row-num-per-bucket": str(rows // 10)})
    handle = lake.table("db.t")
    handle.write(
        frame(lake, rows, 1).where("pt = 'p0' OR id < 300").groupBy("pt", "name", "id").agg(F.sum("v").alias("v"))
    )
    assert {(path, total) for path, _, total in places(table)} == {("pt=p0", 5), ("pt=p1", 1)}
    assert {bucket for path, bucket, _ in places(table) if path == "pt=p0"} == set(range(5))
    handle.write(frame(lake, rows, 2, parts=3))
    assert {(path, total) for path, _, total in places(table)} == {("pt=p0", 5), ("pt=p1", 1), ("pt=p2", 4)}
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    written = [(entry.partition, entry.bucket) for entry in delta_entries(table.store, snapshot)]
    assert len(written) == len(set(written)), "one task owns a bucket, whatever its partition's number"
    plain = frame(lake, rows, 1).where("pt = 'p0' OR id < 300").select("pt", "id")
    other = frame(lake, rows, 2, parts=3).select("pt", "id")
    assert sums(lake)[0] == plain.union(other).distinct().count()


def test_sizes_are_estimated_as_rows_of_paimon(lake: Lake) -> None:
    table = create(lake, {"postpone.target-size-per-bucket": "40 kb"})
    handle = lake.table("db.t")
    handle.write(frame(lake, 3000, 1, parts=1))
    by_driver = {total for *_, total in places(table)}
    assert by_driver == {3000 * (8 + 4 * 8 + 24) // (40 << 10) + 1}
    fresh = frame(lake, 3000, 1, parts=1).withColumn("pt", F.lit("q0"))
    handle.table.write_arrow(fresh.toArrow())
    assert {total for *_, total in places(table)} == by_driver


def test_sparks_own_writer(classic: Lake) -> None:
    """Rows that have to be counted first are put aside, and counted where they are committed."""
    table = create(classic, {})
    writer = frame(classic, 10, 1).write.format("bucketlake").mode("append")
    writer.save(table.path)
    assert {(part, bucket >= 0) for part, bucket, _ in places(table)} == {("pt=p0", True), ("pt=p1", True)}
    assert classic.spark.read.format("bucketlake").load(table.path).count() == 10
    table.truncate()
    writer.options(**PENDING).save(table.path)
    assert places(table) == {("pt=p0", -2, -2), ("pt=p1", -2, -2)}
    seen = classic.spark.read.format("bucketlake").option("postpone.merge-on-read", "true").load(table.path)
    assert seen.count() == 10
