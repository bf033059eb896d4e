"""S7: dynamic buckets where the key contains the partition field."""

from __future__ import annotations

import pytest

import bucketlake
from bucketlake.ops.buckets.dynamic import hash_files

from .spelling import SPELLINGS

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_in_two_partitions_is_two_rows(lake: bucketlake.Lake, spelling: str) -> None:
    key = ", PRIMARY KEY (pk, pt) NOT ENFORCED" if spelling == "WITH" else ""
    named = "" if spelling == "WITH" else "'primary-key'='pk, pt', "
    lake.sql(
        f"CREATE TABLE t (pk INT, v INT, pt INT{key}) PARTITIONED BY (pt) "
        f"{spelling} ({named}'bucket'='-1', 'dynamic-bucket.target-row-num'='2')"
    )
    lake.sql("INSERT INTO t VALUES (1, 10, 1), (2, 20, 1), (3, 30, 1), (4, 40, 1)")
    lake.sql("INSERT INTO t VALUES (1, 11, 2)")
    rows = sorted(row[:] for row in lake.sql("SELECT * FROM t").collect())
    assert rows == [(1, 10, 1), (1, 11, 2), (2, 20, 1), (3, 30, 1), (4, 40, 1)]
    table = lake.table("t").table
    index = hash_files(table.store.index_manifest(table.latest_snapshot()))
    counts = {
        (table.store.paths.partition_texts(partition)["pt"], bucket): file.row_count
        for partition, files in index.items()
        for bucket, file in files.items()
    }
    assert counts == {("1", 0): 2, ("1", 1): 2, ("2", 0): 1}
