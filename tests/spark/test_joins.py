"""How large Spark takes the rows of a table for, by which it chooses its joins: as large as they are, about."""

from __future__ import annotations

import pytest
from tests.profile import later

from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

ROWS = 150_000
KINDS = {
    "rows of tasks": "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum'",
    "merged in the scan": "'merge-engine' = 'deduplicate'",
    "less deleted rows": "'deletion-vectors.enabled' = 'true'",
}


@pytest.fixture
def in_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is small enough for the driver."""
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    monkeypatch.setattr(reader, "LARGE_MERGE_ROWS", 0)


@pytest.mark.parametrize("kind", later([*KINDS], 1))
def test_a_join_takes_a_large_table_for_large_and_a_small_one_for_small(
    lake: Lake, in_tasks: None, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    spark = lake.spark
    for name in ("a", "b"):
        lake.sql(
            f"CREATE TABLE db.{name} (k BIGINT NOT NULL, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) "
            f"WITH ('bucket' = '2', 'write-only' = '{'false' if 'vectors' in KINDS[kind] else 'true'}', {KINDS[kind]})"
        )
        for part in (1, 2):
            rows = spark.range(ROWS).selectExpr("id AS k", f"id * {part} AS v").where(f"k % {part} = 0")
            lake.write_table(rows, f"db.{name}")
    query = "SELECT a.k, a.v + b.v AS s FROM db.a JOIN db.b ON a.k = b.k WHERE a.v >= 0"
    joins = {}
    for threshold in ("200kb", "1gb"):
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
        frame = lake.sql(query)
        frame.explain()
        joins[threshold] = "SortMergeJoin" in capsys.readouterr().out
        assert frame.count() == ROWS
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert joins == {"200kb": True, "1gb": False}
