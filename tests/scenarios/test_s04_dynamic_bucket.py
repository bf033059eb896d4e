"""S4: dynamic buckets of two rows each, and their options."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import bucketlake

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark
TARGET = {"dynamic-bucket.target-row-num": "2"}
KEYED = ("t", "k INT, v INT", "k")


def buckets(lake: bucketlake.Lake) -> set[int]:
    return {file.bucket for file in lake.table("t").files()}


def bucket_of(lake: bucketlake.Lake, key: int) -> set[int]:
    """The buckets with a file that holds a key."""
    found = set()
    for file in lake.table("t").files():
        keys = pq.ParquetFile(file.path).read(columns=["k"]).column("k").to_pylist()
        found |= {file.bucket} if key in keys else set()
    return found


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_ten_keys_fill_five_buckets_and_the_same_again_add_none(lake: bucketlake.Lake, spelling: str) -> None:
    lake.sql(create(spelling, *KEYED, **TARGET))
    lake.sql("INSERT INTO t SELECT cast(id AS INT), 1 FROM range(10)")
    first = buckets(lake)
    assert len(first) >= 5
    places = {key: bucket_of(lake, key) for key in (0, 3, 9)}
    lake.sql("INSERT INTO t SELECT cast(id AS INT), 2 FROM range(10)")
    assert buckets(lake) == first
    assert {key: bucket_of(lake, key) for key in (0, 3, 9)} == places
    assert all(len(found) == 1 for found in places.values())
    assert sorted(row[:] for row in lake.sql("SELECT * FROM t").collect()) == [(key, 2) for key in range(10)]


def test_no_effect_with_a_fixed_number(lake: bucketlake.Lake) -> None:
    lake.sql(create("WITH", *KEYED, bucket="2", **TARGET))
    lake.sql("INSERT INTO t SELECT cast(id AS INT), 1 FROM range(100)")
    assert buckets(lake) == {0, 1}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"dynamic-bucket.initial-buckets": "3"}, {0, 1, 2}),
        ({"dynamic-bucket.assigner-parallelism": "4"}, {0, 1, 2, 3}),
        ({"dynamic-bucket.max-buckets": "3", **TARGET}, {0, 1, 2}),
    ],
)
def test_options_of_assigners(lake: bucketlake.Lake, options: dict[str, str], expected: set[int]) -> None:
    lake.sql(create("WITH", *KEYED, **options))
    lake.sql("INSERT INTO t SELECT cast(id AS INT), 1 FROM range(100)")
    assert buckets(lake) == expected
    lake.sql("INSERT INTO t SELECT cast(id AS INT), 2 FROM range(100)")
    assert buckets(lake) == expected
    assert lake.sql("SELECT count(*), sum(v) FROM t").collect()[0][:] == (100, 200)
