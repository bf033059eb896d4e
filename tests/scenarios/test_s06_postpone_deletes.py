"""S6: deletes of pending rows, with and without `postpone.merge-on-read`."""

from __future__ import annotations

import pytest

import bucketlake

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark
OPTIONS = {"bucket": "-2", "merge-engine": "deduplicate", "postpone.batch-write-fixed-bucket": "false"}


def rows(lake: bucketlake.Lake) -> list[tuple[int, ...]]:
    return sorted(row[:] for row in lake.sql("SELECT * FROM t").collect())


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("seeing", [False, True])
def test_deletes_of_pending_rows(lake: bucketlake.Lake, spelling: str, seeing: bool) -> None:
    more = {"postpone.merge-on-read": "true"} if seeing else {}
    lake.sql(create(spelling, "t", "k INT, v INT, pt INT", "k", "pt", **OPTIONS, **more))
    lake.sql("INSERT INTO t VALUES (1,10,1),(2,20,1),(3,30,1),(4,40,1)")
    lake.sql("DELETE FROM t WHERE k = 1")
    lake.sql("INSERT INTO t VALUES (1,11,2)")
    if seeing:
        lake.sql("UPDATE t SET v = v + 1 WHERE k = 2")
        assert rows(lake) == [(1, 11, 2), (2, 21, 1), (3, 30, 1), (4, 40, 1)]
    else:
        assert rows(lake) == []
    lake.sql("CALL sys.compact('t')")
    if seeing:
        assert rows(lake) == [(1, 11, 2), (2, 21, 1), (3, 30, 1), (4, 40, 1)]
    else:
        assert rows(lake) == [(1, 10, 1), (1, 11, 2), (2, 20, 1), (3, 30, 1), (4, 40, 1)]
