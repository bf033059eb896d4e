"""S9: a key without the partition field and a fixed bucket number. Across partitions keys may repeat: the user deletes a
row before it comes back in another partition, or moves it by UPDATE."""

from __future__ import annotations

import pytest

import bucketlake

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark

FOUR = "insert into T values (1, 10, 1), (2, 20, 1), (3, 30, 1), (4, 40, 1)"


def table(lake: bucketlake.Lake, spelling: str) -> None:
    lake.sql(create(spelling, "T", "pk INT, v INT, pt INT", key="pk", partition="pt", bucket="2"))
    lake.sql(FOUR)


def rows(lake: bucketlake.Lake) -> list[tuple[int, ...]]:
    return sorted(tuple(row) for row in lake.sql("select * from T").collect())


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_key_is_unique_within_a_partition_only(lake: bucketlake.Lake, spelling: str) -> None:
    table(lake, spelling)
    lake.sql("insert into T values (1, 11, 2)")
    lake.sql("insert into T values (1, 12, 3)")
    lake.sql("insert into T values (2, 21, 1)")
    assert rows(lake) == [(1, 10, 1), (1, 11, 2), (1, 12, 3), (2, 21, 1), (3, 30, 1), (4, 40, 1)]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_delete_before_each_move_leaves_one_row(lake: bucketlake.Lake, spelling: str) -> None:
    table(lake, spelling)
    lake.sql("DELETE FROM T WHERE pk = 1")
    lake.sql("insert into T values (1, 11, 2)")
    lake.sql("DELETE FROM T WHERE pk = 1")
    lake.sql("insert into T values (1, 12, 3)")
    assert rows(lake) == [(1, 12, 3), (2, 20, 1), (3, 30, 1), (4, 40, 1)]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_update_moves_the_row_in_one_commit(lake: bucketlake.Lake, spelling: str) -> None:
    table(lake, spelling)
    lake.sql("DELETE FROM T WHERE pk = 1")
    lake.sql("insert into T values (1, 11, 2)")
    before = lake.table("T").latest_snapshot()
    lake.sql("UPDATE T SET v = 12, pt = 3 WHERE pk = 1")
    assert rows(lake) == [(1, 12, 3), (2, 20, 1), (3, 30, 1), (4, 40, 1)]
    after = lake.table("T").snapshots()[-1]
    assert before is not None
    written = [s for s in lake.table("T").snapshots() if s.id > before.id and s.commit_kind.value != "COMPACT"]
    assert len(written) == 1 and after is not None and written[0].operation == "UPDATE"
