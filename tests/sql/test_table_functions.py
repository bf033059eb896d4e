"""Paimon's table functions: what came between two snapshots, times or tags, wherever a table may stand."""

from __future__ import annotations

import pytest

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.spark.session import Lake
from bucketlake.spark.table import LakeTable

SNAPSHOTS = {"one": 1, "2024-12-01": 1, "2024-12-02": 2, "2024-12-04": 3}


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    """Snapshot n brings keys n and 10 + n; tags."""
    lake.sql("USE db")
    lake.sql(
        "CREATE TABLE t (k INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '1',"
        " 'write-only' = 'true', 'tag.creation-period' = 'daily')"
    )
    for number in (1, 2, 3):
        lake.sql(f"INSERT INTO t VALUES ({number}, 'a', 1), ({10 + number}, 'b', 2)")
    found = lake.table("t")
    store = found.table.store
    for name, number in SNAPSHOTS.items():
        store.env.storage.write(store.paths.tag(name), store.env.storage.read(store.paths.snapshot(number)))
    return found


def keys(lake: Lake, text: str) -> list[object]:
    return sorted(row[0] for row in lake.sql(text).collect())


def test_between_two_snapshots_times_or_tags(lake: Lake, table: LakeTable) -> None:
    first, second, third = (snapshot.time_millis for snapshot in table.snapshots())
    cases = {
        "paimon_incremental_query('t', 0, 1)": [1, 11],
        "paimon_incremental_query('t', '1', '3')": [2, 3, 12, 13],
        "paimon_incremental_query('db.t', 1 + 0, 1 + 1) AS x WHERE x.p = 2": [12],
        "Paimon_Incremental_Query ( '`paimon`.db.t' , 1, 2 ) WHERE v = 'a'": [2],
        "paimon_incremental_query('t', 'one', '2024-12-04')": [2, 3, 12, 13],
        "paimon_incremental_query('t', 1, 3) /*+ OPTIONS('incremental-between-scan-mode'='diff') */ q": [2, 3, 12, 13],
        f"`paimon_incremental_between_timestamp`('t', '{first}', {second})": [2, 12],
        f"paimon_incremental_between_timestamp('t', timestamp_millis({second}), timestamp_millis({third}))": [3, 13],
        "paimon_incremental_between_timestamp('t', '1999-01-01 00:00:00', '1999-01-02')": [],
        "paimon_incremental_to_auto_tag('t', '2024-12-01')": [],
        "paimon_incremental_to_auto_tag('t', '2024-12-02')": [2, 12],
        "paimon_incremental_to_auto_tag('t', '2024-12-03')": [],
        "paimon_incremental_to_auto_tag('t', '2024-12-04') WHERE k < 10 -- ('": [3],
    }
    for source, expected in cases.items():
        assert keys(lake, f"SELECT k FROM {source}") == expected, source


def test_wherever_a_table_may_stand(lake: Lake, table: LakeTable) -> None:
    lake.sql("INSERT INTO t VALUES (1, 'new', 1)")
    joined = (
        "SELECT n.v FROM paimon_incremental_query('t', 3, 4) n JOIN t VERSION AS OF 1 o USING (p, k), t WHERE t.k = 2"
    )
    assert keys(lake, joined) == ["new"]
    nested = (
        "WITH news AS (SELECT * FROM paimon_incremental_query('t', 2, 4)) SELECT count(*) FROM news WHERE k IN"
        " (SELECT k FROM paimon_incremental_query('t', 3, 4) UNION ALL SELECT t.k FROM paimon_incremental_query('t', 2, 3))"
    )
    assert keys(lake, nested) == [3]
    lake.sql("INSERT INTO t SELECT k + 100, v, p FROM paimon_incremental_query('t', 3, 4)")
    assert keys(lake, "SELECT k FROM t WHERE k > 100") == [101]
    audit = "SELECT rowkind || k FROM paimon_incremental_query('t$audit_log', 3, 5)"
    assert keys(lake, audit) == ["+I1", "+I101"]
    assert keys(lake, "SELECT 'paimon_incremental_query(1' FROM range(1)") == ["paimon_incremental_query(1"]


REFUSED: list[tuple[str, type[Exception], str]] = [
    ("paimon_incremental_query('t', 1)", InvalidError, "needs two parameters: startSnapshotId, and endSnapshotId"),
    ("paimon_incremental_query()", InvalidError, "needs two parameters"),
    ("paimon_incremental_between_timestamp('t', 1, 2, 3)", InvalidError, "startTimestamp, and endTimestamp"),
    ("paimon_incremental_to_auto_tag('t')", InvalidError, "needs one parameter: endTagName"),
    ("paimon_incremental_to_auto_tag('t', 'one')", InvalidError, "'one' is not an auto-created tag"),
    ("paimon_incremental_to_auto_tag('t', NULL)", InvalidError, "endTagName is null"),
    ("paimon_incremental_query('t', start => 1, end => 2)", InvalidError, "takes no named arguments"),
    ("paimon_incremental_query('t', 1, )", InvalidError, "endSnapshotId is missing"),
    ("paimon_incremental_query('t', 1, 2", InvalidError, "does not end"),
    ("paimon_incremental_query('t', 'no', 'tag')", InvalidError, "Didn't find two tags"),
    ("paimon_incremental_query('t', 2, 9)", InvalidError, "out of available snapshotId range"),
    ("paimon_incremental_query('t', 1, 2) VERSION AS OF 1", InvalidError, "AS OF after a table function"),
    ("paimon_incremental_query('t', 1, 2) /*+ OPTIONS('scan.snapshot-id'='1') */", InvalidError, "must be null"),
    ("paimon_incremental_query('nope', 1, 2)", NotFoundError, "nope"),
    ("paimon_incremental_query('a.b.c.d', 1, 2)", InvalidError, "no such catalog"),
]


def test_what_cannot_be_meant_is_refused(lake: Lake, table: LakeTable) -> None:
    for source, error, message in REFUSED:
        with pytest.raises(error, match=message):
            lake.sql(f"SELECT * FROM {source}").collect()


def test_two_bucket_numbers_are_compared_row_by_row(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    lake.sql("CREATE TABLE r (k INT, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    lake.sql("INSERT INTO r VALUES (1, 11), (2, 22)")
    lake.sql("ALTER TABLE r SET TBLPROPERTIES ('bucket' = '2')")
    lake.sql("INSERT OVERWRITE r SELECT * FROM r")
    lake.sql("INSERT INTO r VALUES (3, 33)")
    lake.sql("DELETE FROM r WHERE k = 1")
    lake.sql("UPDATE r SET v = 222 WHERE k = 2")
    for number in (1, 3, 5):
        lake.sql(f"CALL sys.create_tag('r', 's{number}', {number})")
    found = lake.sql("SELECT * FROM paimon_incremental_query('r', 's1', 's5') ORDER BY k").collect()
    assert [tuple(row) for row in found] == [(2, 222), (3, 33)]
    assert keys(lake, "SELECT v FROM paimon_incremental_query('r', 's1', 's3') WHERE k > 1") == [33]
    log = lake.sql("SELECT * FROM paimon_incremental_query('`r$audit_log`', 's1', 's5') ORDER BY k").collect()
    assert [tuple(row) for row in log] == [("-D", 1, 11), ("+U", 2, 222), ("+I", 3, 33)]
    with pytest.raises(InvalidError, match="bucket number of two snapshots are different"):
        lake.catalog.table("db.r").to_arrow(**{"incremental-between": "s1,s3"})
