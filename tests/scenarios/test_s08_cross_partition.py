"""S8: dynamic buckets where the key leaves the partition field out; each merge engine keeps the key once."""

from __future__ import annotations

import pytest

import bucketlake

from .spelling import SPELLINGS

pytestmark = pytest.mark.spark
FOUR = "(1, 10, 1), (2, 20, 1), (3, 30, 1), (4, 40, 1)"
REST = [(2, 20, 1), (3, 30, 1), (4, 40, 1)]
EXPECTED = {
    "deduplicate": (1, 11, 2),
    "partial-update": (1, 11, 1),
    "aggregation": (1, 21, 1),
    "first-row": (1, 10, 1),
}


def create(lake: bucketlake.Lake, spelling: str, engine: str, more: str = "") -> None:
    key = ", PRIMARY KEY (pk) NOT ENFORCED" if spelling == "WITH" else ""
    named = "" if spelling == "WITH" else "'primary-key'='pk', "
    sums = ", 'fields.v.aggregate-function'='sum'" if engine == "aggregation" else ""
    lake.sql(
        f"CREATE TABLE t (pk INT, v INT, pt INT{key}) PARTITIONED BY (pt) {spelling} ({named}'bucket'='-1', "
        f"'dynamic-bucket.target-row-num'='2', 'merge-engine'='{engine}'{sums}{more})"
    )


def rows(lake: bucketlake.Lake) -> list[tuple[int, ...]]:
    return sorted(row[:] for row in lake.sql("SELECT * FROM t").collect())


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("engine", EXPECTED)
def test_a_key_lies_in_one_partition(lake: bucketlake.Lake, spelling: str, engine: str) -> None:
    create(lake, spelling, engine)
    lake.sql(f"INSERT INTO t VALUES {FOUR}")
    assert rows(lake) == [(1, 10, 1), *REST]
    lake.sql("INSERT INTO t VALUES (1, 11, 2)")
    assert rows(lake) == [EXPECTED[engine], *REST]
    assert lake.table("t").latest_snapshot().index_manifest is None, "Paimon writes no hash index here"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_that_left_the_index_is_not_doubled(lake: bucketlake.Lake, spelling: str) -> None:
    create(lake, spelling, "deduplicate", ", 'cross-partition-upsert.index-ttl'='1 ms'")
    lake.sql(f"INSERT INTO t VALUES {FOUR}")
    lake.sql("INSERT INTO t SELECT pk, v + 1, 2 FROM t WHERE pk = 1")
    assert rows(lake) == [(1, 11, 2), *REST]


def test_rows_are_deleted_and_moved_by_statements(lake: bucketlake.Lake) -> None:
    create(lake, "TBLPROPERTIES", "deduplicate")
    lake.sql(f"INSERT INTO t VALUES {FOUR}")
    lake.sql("UPDATE t SET v = 12, pt = 3 WHERE pk = 1")
    assert rows(lake) == [(1, 12, 3), *REST]
    lake.sql("DELETE FROM t WHERE v = 12")
    lake.sql("DELETE FROM t WHERE pk = 2 AND pt = 1")
    assert rows(lake) == REST[1:]
    lake.sql("INSERT INTO t VALUES (1, 13, 4), (2, 21, 4)")
    lake.sql("ALTER TABLE t DROP PARTITION (pt = 1)")
    lake.sql("INSERT INTO t VALUES (3, 31, 4)")
    assert rows(lake) == [(1, 13, 4), (2, 21, 4), (3, 31, 4)]
    lake.sql("TRUNCATE TABLE t")
    lake.sql("INSERT INTO t VALUES (3, 32, 5)")
    assert rows(lake) == [(3, 32, 5)]
