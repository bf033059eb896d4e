"""S9: a key without the partition field and a fixed bucket number: the inserts. Across partitions, keys may repeat."""

from __future__ import annotations

import pytest

import bucketlake

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_key_is_unique_within_a_partition_only(lake: bucketlake.Lake, spelling: str) -> None:
    lake.sql(create(spelling, "T", "pk INT, v INT, pt INT", key="pk", partition="pt", bucket="2"))
    lake.sql("insert into T values (1, 10, 1), (2, 20, 1), (3, 30, 1), (4, 40, 1)")
    lake.sql("insert into T values (1, 11, 2)")
    lake.sql("insert into T values (1, 12, 3)")
    lake.sql("insert into T values (2, 21, 1)")
    rows = {tuple(row) for row in lake.sql("select * from T order by pk").collect()}
    assert rows == {(1, 10, 1), (1, 11, 2), (1, 12, 3), (2, 21, 1), (3, 30, 1), (4, 40, 1)}
