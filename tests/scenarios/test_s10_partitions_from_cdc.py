"""S10: a partition field of event time inside the primary key; complete change data keep each row once, and the changelog
of `changelog-producer` = `input` tells both ends of a row that moves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cdc.feeds import Feed, debezium

import bucketlake

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark
FIRST = [(1, "d1", 10, "+I"), (2, "d1", 20, "+I"), (3, "d2", 30, "+I")]
MOVES = [(1, "d1", 10, "-U"), (1, "d2", 11, "+U"), (3, "d2", 30, "-U"), (3, "d1", 31, "+U"), (2, "d1", 20, "-D")]
LEFT = [(1, "d2", 11), (3, "d1", 31)]


def rows(lake: bucketlake.Lake, table: str = "t") -> list[tuple[object, ...]]:
    return sorted(row[:] for row in lake.sql(f"SELECT * FROM {table}").collect())


@pytest.mark.parametrize("bucket", ["-1", "2"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_row_moves_with_its_event_time(lake: bucketlake.Lake, spelling: str, bucket: str) -> None:
    given = {"bucket": bucket, "changelog_producer": "input"}
    lake.sql(create(spelling, "t", "id INT, dt STRING, v INT", key="id, dt", partition="dt", **given))
    for told in (FIRST, MOVES):
        frame = lake.spark.createDataFrame(told, "id INT, dt STRING, v INT, _VALUE_KIND STRING")
        lake.table("t").write(frame)
    assert rows(lake) == LEFT
    lake.sql("CALL sys.compact(table => 't')")
    assert rows(lake) == LEFT
    log = lake.sql("SELECT id, dt, v, rowkind FROM paimon_incremental_query('`t$audit_log`', '1', '2')").collect()
    assert sorted(row[:] for row in log) == sorted(MOVES)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_kinds_in_a_column(lake: bucketlake.Lake, spelling: str) -> None:
    given = {"bucket": "-1", "changelog_producer": "input", "rowkind.field": "op"}
    lake.sql(create(spelling, "t", "id INT, dt STRING, v INT, op STRING", key="id, dt", partition="dt", **given))
    for told in (FIRST, MOVES):
        lake.sql(f"INSERT INTO t VALUES {', '.join(map(str, told))}")
    assert [row[:3] for row in rows(lake)] == LEFT


def test_events_of_a_database(lake: bucketlake.Lake, tmp_path: Path) -> None:
    lake.sql(
        "CREATE TABLE db.t (id INT, dt STRING, v INT) PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key'='id, dt', 'bucket'='-1', 'changelog-producer'='input')"
    )
    feed = Feed(lake, "debezium-json", "db.t", tmp_path)
    feed.give([debezium("c", None, {"id": n, "dt": dt, "v": v}) for n, dt, v, _ in FIRST])
    feed.give(
        [
            debezium("u", {"id": 1, "dt": "d1", "v": 10}, {"id": 1, "dt": "d2", "v": 11}),
            debezium("u", {"id": 3, "dt": "d2", "v": 30}, {"id": 3, "dt": "d1", "v": 31}),
            debezium("d", {"id": 2, "dt": "d1", "v": 20}, None),
        ]
    )
    assert rows(lake, "db.t") == LEFT
