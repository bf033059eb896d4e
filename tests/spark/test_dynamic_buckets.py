"""Tables with dynamic buckets, written by several tasks: every key in one bucket, in the one that the index says."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.profile import first

from bucketlake.ops.buckets.dynamic import hash_files, key_hashes, read_hashes
from bucketlake.ops.table.made import discard
from bucketlake.spark.session import Lake
from bucketlake.spark.write import placement
from bucketlake.table import Table
from bucketlake.types.model import canonical_batch

pytestmark = pytest.mark.spark


def frame(lake: Lake, rows: int, value: int, parts: int = 2) -> DataFrame:
    return lake.spark.range(0, rows, 1, 4).select(
        F.concat(F.lit("p"), (F.col("id") % parts).cast("string")).alias("pt"),
        F.concat(F.lit("key-"), F.col("id").cast("string")).alias("name"),
        F.col("id"),
        F.lit(value).alias("v"),
    )


def create(lake: Lake, **options: str) -> Table:
    texts = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    fields = frame(lake, 1, 1).limit(0).toArrow().schema
    return lake.catalog.create_table(
        "db.t", fields, partition_keys=["pt"], primary_keys=["pt", "name", "id"], options=texts
    )


def check(table: Table) -> dict[tuple[str, int], int]:
    """Every key's hash is in the index of the one bucket that all its rows lie in. Partition and hash -> bucket."""
    table = table.refresh()
    store, keys = table.store, table.schema.select(table.schema.trimmed_primary_keys)
    index: dict[tuple[str, int], list[int]] = {}
    for partition, files in hash_files(store.index_manifest(table.latest_snapshot())).items():
        for bucket, file in files.items():
            for value in read_hashes(store, partition, bucket, file).tolist():
                index.setdefault((store.paths.partition_texts(partition)["pt"], value), []).append(bucket)
    assert all(len(found) == 1 for found in index.values())
    for file in table.files():
        for batch in pq.ParquetFile(file.path).iter_batches(columns=["name", "id"]):
            for value in key_hashes(canonical_batch(batch, keys), keys).tolist():
                assert index[file.partition["pt"], value] == [file.bucket]
    return {key: found[0] for key, found in index.items()}


OPTIONS = [{}, {"dynamic_bucket__initial_buckets": "3"}, {"dynamic_bucket__max_buckets": "1"}]
CASES = [(options, small) for small in (False, True) for options in OPTIONS]


@pytest.mark.parametrize(("options", "small"), first(CASES[::-1], 1))
def test_tasks_keep_each_key_in_one_bucket(lake: Lake, options: dict[str, str], small: bool) -> None:
    rows = 3000 if small else 60_000
    table = create(lake, dynamic_bucket__target_row_num=str(rows // 20), **options)
    handle = lake.table("db.t")
    handle.write(frame(lake, rows, 1))
    first = check(table)
    assert rows - 5 < len(first) <= rows, "few keys share a hash"
    assert len(set(first.values())) >= (1 if "dynamic_bucket__max_buckets" in options else 10)
    handle.write(frame(lake, rows + rows // 10, 2).repartition(3))
    second = check(table)
    assert {key: second[key] for key in first} == first
    assert handle.read().agg(F.count("*"), F.sum("v")).collect()[0][:] == (rows + rows // 10, 2 * (rows + rows // 10))
    handle.write(frame(lake, rows // 10, 3), mode="overwrite")
    assert rows // 10 - 5 < len(check(table)) <= rows // 10
    lake.sql("DELETE FROM db.t WHERE id < 5")
    assert handle.read().count() == rows // 10 - 5
    check(table)


def test_shares_agree_between_spark_and_tasks(classic: Lake) -> None:
    """A row reaches the task whose number its share says, whatever computes it."""
    from bucketlake.format.row.hashing import bucket_of
    from bucketlake.spark.write.bucketing import share_column

    table = create(classic)
    keys = table.schema.select(table.schema.trimmed_primary_keys)
    found = frame(classic, 1000, 1).withColumn("share", share_column(table.schema, 7)).toArrow()
    for batch in found.to_batches():
        expected = bucket_of(key_hashes(canonical_batch(batch, keys), keys), 7)
        assert batch.column("share").to_pylist() == expected.tolist()


def test_discarding_removes_index_files(classic: Lake) -> None:
    from pathlib import Path

    from bucketlake.ops.write.prepare import prepare_write
    from bucketlake.ops.write.write import write_batches

    table = create(classic)
    batches = frame(classic, 10, 1).toArrow().to_batches()
    messages = write_batches(table.store, batches, prepare_write(table.store, None))
    written = [path for path in Path(table.path).rglob("*") if path.is_file() and "schema" not in path.parts]
    assert len(written) == 4, "two partitions, a data file and an index file each"
    discard(table.store, messages)
    assert not any(path.exists() for path in written)


def test_rows_of_partitions_that_were_not_counted_keep_each_key_in_one_bucket(classic: Lake) -> None:
    """A first load counts rows and evaluates them again to write them: chance and times come out otherwise."""
    table, half = create(classic, dynamic_bucket__target_row_num="600"), 30_000
    key = f"IF(id < {half}, id, {2 * half - 1} - id)"  # both tasks have every key, in other orders
    columns = ["CAST(unix_micros(now()) AS STRING) AS pt", f"concat('key-', {key}) AS name", f"{key} AS id", "1 AS v"]
    classic.table("db.t").write(classic.spark.range(0, 2 * half, 1, 2).selectExpr(*columns))
    check(table)
    assert classic.table("db.t").read().count() == half


def test_sparks_own_writer_looks_keys_up(lake: Lake) -> None:
    table = create(lake)
    for value in (1, 2):
        frame(lake, 10, value).write.format("bucketlake").mode("append").save(table.path)
    check(table)
    assert lake.table("db.t").read().count() == 10


@pytest.mark.slow
def test_a_large_first_load_is_not_shuffled_however_many_buckets_it_fills(
    classic: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "FEW_FILES_OF_PARTITIONS", 1)
    monkeypatch.setattr(placement, "LARGE_FILE_ROWS", 1_000)
    table = create(classic, dynamic_bucket__target_row_num="20000", write_only="true")
    classic.table("db.t").write(frame(classic, 100_000, 1))
    check(table)
    files = table.refresh().files()
    assert len(files) == 2 * len({(file.partition["pt"], file.bucket) for file in files})  # one a task and bucket
    assert classic.table("db.t").read().count() == 100_000
