"""Cross-partition tables written by several tasks, each of which owns a range of the keys' hashes."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.profile import first

from bucketlake import Table
from bucketlake.ops.key_index.cache import cached_index
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
ROWS = 60_000  # more than tasks leave to the driver


def frame(lake: Lake, start: int, stop: int, value: int, shift: int = 0) -> DataFrame:
    number = F.col("id")
    return lake.spark.range(start, stop, 1, 4).select(
        F.concat(F.lit("p"), ((number + shift) % 3).cast("string")).alias("pt"),
        (number % 2).cast("int").alias("half"),
        F.concat(F.lit("key-"), number.cast("string")).alias("name"),
        number.alias("id"),
        F.lit(value).alias("v"),
    )


def create(lake: Lake, keys: list[str], **options: str) -> Table:
    fields = frame(lake, 0, 1, 1).limit(0).toArrow().schema
    texts = {"bucket": "-1", **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}}
    return lake.catalog.create_table("db.t", fields, partition_keys=["pt", "half"], primary_keys=keys, options=texts)


def check(lake: Lake, expected: dict[int, tuple[int, int]]) -> None:
    """By value: how many rows have it, and the shift of their partitions."""
    found = lake.table("db.t").read().toArrow()
    assert found.num_rows == pc.count_distinct(found.column("id")).as_py()
    for value, (count, shift) in expected.items():
        rows = found.filter(pc.equal(found.column("v"), value)).to_pylist()
        assert len(rows) == count, value
        assert all(row["pt"] == f"p{(row['id'] + shift) % 3}" for row in rows[:100])


@pytest.mark.slow
@pytest.mark.parametrize("keys", first([["name", "half"], ["id"]], 1))
def test_tasks_move_rows_of_their_keys(lake: Lake, keys: list[str]) -> None:
    table = create(lake, keys, dynamic_bucket__target_row_num="20000")
    handle = lake.table("db.t")
    handle.write(frame(lake, 0, ROWS, 1))
    check(lake, {1: (ROWS, 0)})
    handle.write(frame(lake, ROWS // 2, 2 * ROWS, 2, shift=1))
    check(lake, {1: (ROWS // 2, 0), 2: (ROWS + ROWS // 2, 1)})
    store = table.refresh().store
    snapshot = store.latest_snapshot()
    assert snapshot is not None
    index = cached_index(store, snapshot)
    assert index is not None and sum(index.file.counts) == 2 * ROWS
    for cached in Path(store.paths.key_index_dir).glob("layer-*"):
        cached.write_bytes(b"damaged" + cached.read_bytes()[7:])
    handle.write(frame(lake, 0, ROWS, 3, shift=2))
    check(lake, {1: (0, 0), 2: (ROWS, 1), 3: (ROWS, 2)})
    handle.write(frame(lake, 0, 9, 4))
    check(lake, {2: (ROWS, 1), 3: (ROWS - 9, 2), 4: (9, 0)})
    handle.delete("id % 2 = 0 and id < 40000")
    assert lake.table("db.t").read().count() == 2 * ROWS - 20_000


def test_an_overwrite_of_partitions_takes_keys_from_the_others(lake: Lake) -> None:
    create(lake, ["id"])
    handle = lake.table("db.t")
    handle.write(frame(lake, 0, 30, 1))
    rows = frame(lake, 0, 10, 2).withColumn("pt", F.lit("p0")).withColumn("half", F.lit(0))
    handle.write(rows, mode="overwrite")
    found = {row["id"]: (row["pt"], row["half"], row["v"]) for row in handle.read().collect()}
    old = {n: (f"p{n % 3}", n % 2, 1) for n in range(30) if (n % 3, n % 2) != (0, 0)}
    assert found == old | dict.fromkeys(range(10), ("p0", 0, 2))
    assert handle.read().count() == len(found)


def test_sparks_own_writer_moves_rows_of_their_keys(lake: Lake) -> None:
    table = create(lake, ["id"])
    for value in (1, 2):
        rows = frame(lake, 0, 3, value, shift=value)
        rows.write.format("bucketlake").mode("append").save(table.path)
    check(lake, {1: (0, 1), 2: (3, 2)})
