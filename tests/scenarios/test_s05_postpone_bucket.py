"""S5: an order table with postpone buckets: pending rows, batch writes past them, compaction."""

from __future__ import annotations

import pytest

import bucketlake
from bucketlake.ops.scan.scan import live_entries

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark
NAME = "ods.postpone_bucket_table"
COLUMNS = "order_id INT, customer_id INT, order_date STRING, total_amount DECIMAL(10,2), status STRING"
OPTIONS = {
    "bucket": "-2",
    "postpone.batch-write-fixed-bucket": "false",
    "postpone.default-bucket-num": "2",
    "file.format": "parquet",
}
FIXED = "/*+ OPTIONS('postpone.batch-write-fixed-bucket'='true') */"


def orders(lake: bucketlake.Lake) -> list[int]:
    return sorted(row[0] for row in lake.sql(f"SELECT order_id FROM {NAME}").collect())


def files(lake: bucketlake.Lake) -> list[tuple[str, int, int, int, str]]:
    """Partition, bucket, bucket number, level and name of every live file."""
    store = lake.catalog.table(NAME).store
    snapshot = store.latest_snapshot()
    assert snapshot is not None
    found = live_entries(store, snapshot)
    date = {entry.partition: store.paths.partition_texts(entry.partition)["order_date"] for entry in found}
    return sorted((date[e.partition], e.bucket, e.total_buckets, e.file.level, e.file.file_name) for e in found)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_pending_rows_and_writes_past_them(lake: bucketlake.Lake, spelling: str) -> None:
    lake.sql("CREATE DATABASE ods")
    lake.sql(create(spelling, NAME, COLUMNS, "order_date, order_id", "order_date", **OPTIONS))
    lake.sql(
        f"INSERT INTO {NAME} VALUES (1,1001,'2023-10-01',100.50,'COMPLETED'), (2,1002,'2023-10-01',200.75,'PENDING'),"
        " (3,1001,'2023-10-02',150.20,'COMPLETED')"
    )
    assert orders(lake) == []
    assert {(date, bucket) for date, bucket, *_ in files(lake)} == {("2023-10-01", -2), ("2023-10-02", -2)}
    lake.sql(f"INSERT INTO {NAME} {FIXED} VALUES (4,1003,'2023-10-02',300.00,'COMPLETED')")
    assert orders(lake) == [4]
    lake.sql(
        f"INSERT INTO {NAME} {FIXED} VALUES (5,1004,'2023-10-03',450.80,'PENDING'),"
        " (6,1005,'2023-10-03',220.30,'COMPLETED')"
    )
    assert orders(lake) == [4, 5, 6]
    lake.sql(f"CALL sys.compact(`table` => '{NAME}', compact_strategy => 'full')")
    assert orders(lake) == [1, 2, 3, 4, 5, 6]
    compacted = files(lake)
    assert {(date, total) for date, _, total, *_ in compacted} == {
        ("2023-10-01", 2),
        ("2023-10-02", 1),
        ("2023-10-03", 1),
    }
    assert all(bucket >= 0 and level == 5 for _, bucket, _, level, _ in compacted)
    assert len(compacted) == len({(date, bucket) for date, bucket, *_ in compacted}), "one sorted run a bucket"

    lake.sql(f"CALL sys.rescale(`table` => '{NAME}', `bucket_num` => 1, `partition` => 'order_date=2023-10-02')")
    rescaled = files(lake)
    moved = [(bucket, total) for date, bucket, total, *_ in rescaled if date == "2023-10-02"]
    assert moved == [(0, 1)], "one bucket, one sorted run"
    assert [f for f in rescaled if f[0] != "2023-10-02"] == [f for f in compacted if f[0] != "2023-10-02"]
    assert orders(lake) == [1, 2, 3, 4, 5, 6]

    lake.sql(f"INSERT INTO {NAME} {FIXED} VALUES (7,1006,'2023-10-03',1.00,'COMPLETED')")
    lake.sql(f"INSERT INTO {NAME} VALUES (8,1007,'2023-10-03',2.00,'PENDING')")
    lake.sql(f"INSERT INTO {NAME} VALUES (9,1008,'2023-10-03',3.00,'PENDING')")
    lake.sql(f"INSERT INTO {NAME} {FIXED} VALUES (10,1009,'2023-10-03',4.00,'COMPLETED')")
    assert orders(lake) == [1, 2, 3, 4, 5, 6, 7, 10]
    lake.sql(f"CALL sys.compact(`table` => '{NAME}')")
    assert orders(lake) == list(range(1, 11))


def test_rescale_leaves_pending_rows_pending(lake: bucketlake.Lake) -> None:
    lake.sql("CREATE DATABASE ods")
    lake.sql(create("WITH", NAME, COLUMNS, "order_date, order_id", "order_date", **OPTIONS))
    lake.sql(f"INSERT INTO {NAME} {FIXED} VALUES (1,1,'2023-10-02',1.0,'A'), (2,1,'2023-10-02',1.0,'A')")
    lake.sql(f"INSERT INTO {NAME} VALUES (3,1,'2023-10-02',1.0,'A')")
    pending = [f for f in files(lake) if f[1] < 0]
    lake.sql(f"CALL sys.rescale(`table` => '{NAME}', bucket_num => 3, `partition` => 'order_date=2023-10-02')")
    assert orders(lake) == [1, 2]
    assert [f for f in files(lake) if f[1] < 0] == pending
    assert {total for _, bucket, total, *_ in files(lake) if bucket >= 0} == {3}
    lake.sql(f"CALL sys.compact(`table` => '{NAME}')")
    assert orders(lake) == [1, 2, 3]
    assert {total for _, _, total, *_ in files(lake)} == {3}


@pytest.mark.parametrize("how", ["`partitions` => 'order_date=2023-10-03'", "where => 'order_date = \"2023-10-03\"'"])
def test_only_the_partition_named_is_compacted(lake: bucketlake.Lake, how: str) -> None:
    lake.sql("CREATE DATABASE ods")
    lake.sql(create("WITH", NAME, COLUMNS, "order_date, order_id", "order_date", **OPTIONS))
    lake.sql(f"INSERT INTO {NAME} VALUES (1,1,'2023-10-02',1.0,'A'), (2,1,'2023-10-03',1.0,'A')")
    lake.sql(f"CALL sys.compact(`table` => '{NAME}', {how})")
    assert orders(lake) == [2]
    assert [(date, bucket) for date, bucket, *_ in files(lake) if bucket < 0] == [("2023-10-02", -2)]
    lake.sql(f"CALL sys.compact(`table` => '{NAME}')")
    assert orders(lake) == [1, 2]
