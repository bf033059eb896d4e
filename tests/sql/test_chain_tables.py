"""Chain tables in statements: made as Apache Paimon's page makes them, written by branches, read, compacted, dropped."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.profile import later

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

OPTIONS = {
    "chain-table.enabled": "true",
    "primary-key": "date,t1",
    "sequence.field": "t2",
    "bucket-key": "t1",
    "bucket": "2",
    "partition.timestamp-pattern": "$date",
    "partition.timestamp-formatter": "yyyyMMdd",
}


def rows(lake: Lake, statement: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql(statement).collect())


def made(lake: Lake, name: str = "db.t", flink: bool = False, **options: str) -> None:
    text = ", ".join(f"'{key}' = '{value}'" for key, value in {**OPTIONS, **options}.items())
    if flink:
        columns = "t1 STRING, t2 STRING, t3 STRING, `date` STRING"
        lake.sql(f"CREATE TABLE {name} ({columns}) PARTITIONED BY (`date`) WITH ({text})")
    else:
        columns = "t1 STRING, t2 STRING, t3 STRING"
        lake.sql(f"CREATE TABLE {name} ({columns}) PARTITIONED BY (`date` STRING) TBLPROPERTIES ({text})")
    lake.sql(f"CALL sys.create_branch('{name}', 'snapshot')")
    lake.sql(f"CALL sys.create_branch('{name}', 'delta')")
    database, table = name.split(".")
    for branch in ("", "$branch_snapshot", "$branch_delta"):
        lake.sql(
            f"ALTER TABLE `{database}`.`{table}{branch}` SET TBLPROPERTIES "
            "('scan.fallback-snapshot-branch' = 'snapshot', 'scan.fallback-delta-branch' = 'delta')"
        )


@pytest.mark.parametrize("flink", later([True, False], 1))
def test_paimons_page(lake: Lake, flink: bool) -> None:
    made(lake, flink=flink)
    lake.sql("INSERT OVERWRITE `db`.`t$branch_snapshot` PARTITION (date = '20250810') VALUES ('1', '1', '1')")
    lake.sql("INSERT OVERWRITE `db`.`t$branch_delta` PARTITION (date = '20250811') VALUES ('2', '1', '1')")
    full = [("1", "1", "1"), ("2", "1", "1")]
    query, delta = (f"SELECT t1, t2, t3 FROM db.{n} WHERE date = '20250811'" for n in ("t", "`t$branch_delta`"))
    assert rows(lake, query) == full and rows(lake, delta) == full[1:]
    assert rows(lake, f"{query} UNION ALL {delta}") == [*full, full[1]]
    assert rows(lake, "SELECT count(*), max(date), min(t1) FROM db.t") == [(3, "20250811", "1")]
    assert rows(lake, "SHOW PARTITIONS db.t") == [("date=20250810",), ("date=20250811",)]
    assert rows(lake, "SELECT sys.max_pt('db.t')") == [("20250811",)]
    call = "CALL sys.compact_chain_table(table => 'db.t', partition => 'date=\"20250811\"')"
    assert rows(lake, call) == [(True,)] and rows(lake, call) == [(False,)]
    assert rows(lake, "SELECT t1, t2, t3 FROM db.`t$branch_snapshot` WHERE date = '20250811'") == full
    kinds = "SELECT snapshot_id, commit_kind FROM db.`t$branch_snapshot$snapshots`"
    assert rows(lake, kinds) == [(1, "OVERWRITE"), (2, "APPEND")]
    lake.sql("INSERT INTO db.`t$branch_delta` PARTITION (date = '20250811') VALUES ('3', '1', 'late')")
    assert rows(lake, query) == full
    assert rows(lake, call.replace(")", ", overwrite => true)")) == [(True,)]
    assert rows(lake, query) == [*full, ("3", "1", "late")]
    assert rows(lake, kinds)[-1] == (3, "OVERWRITE")


def test_statements_write_the_branch_of_the_session(lake: Lake) -> None:
    made(lake)
    lake.sql("INSERT INTO db.t PARTITION (date = '20250809') VALUES ('1', '0', 'main')")
    lake.sql("SET spark.paimon.branch=snapshot")
    lake.sql("INSERT OVERWRITE TABLE db.t PARTITION (date = '20250810') VALUES ('1', '1', 'a'), ('2', '1', 'a')")
    lake.sql("SET spark.paimon.branch=delta")
    lake.sql("INSERT OVERWRITE TABLE db.t VALUES ('1', '2', 'b', '20250811'), ('3', '1', 'c', '20250812')")
    lake.sql("DELETE FROM db.t WHERE t1 = '1'")
    lake.sql("INSERT INTO db.t VALUES ('2', '2', 'd', '20250811')")
    lake.sql("RESET spark.paimon.branch")
    assert rows(lake, "SELECT date, t1, t3 FROM db.t WHERE date > '20250809'") == [
        ("20250810", "1", "a"),
        ("20250810", "2", "a"),
        ("20250811", "2", "d"),
        ("20250812", "2", "d"),
        ("20250812", "3", "c"),
    ]
    lake.sql("DELETE FROM db.t WHERE t1 IN ('1', '2')")  # of the main branch, as all changes
    assert rows(lake, "SELECT count(*) FROM db.t") == [(5,)]
    lake.sql("UPDATE db.t SET t3 = 'x' WHERE date = '20250812'")
    assert rows(lake, "SELECT DISTINCT t3 FROM db.t WHERE date = '20250812'") == [("c",), ("d",)]


def test_snapshot_partitions_are_dropped_where_nothing_needs_them(lake: Lake) -> None:
    made(lake)
    for day in ("20250810", "20250812"):
        lake.sql(f"INSERT INTO db.`t$branch_snapshot` VALUES ('1', '1', 'a', '{day}')")
    lake.sql("INSERT INTO db.`t$branch_delta` VALUES ('2', '1', 'b', '20250811')")
    with pytest.raises(InvalidError, match="Snapshot partition cannot be dropped"):
        lake.sql("ALTER TABLE db.`t$branch_snapshot` DROP PARTITION (date = '20250810')")
    with pytest.raises(InvalidError, match="Snapshot partition cannot be dropped"):
        lake.sql("CALL sys.drop_partition('db.t$branch_snapshot', 'date=20250810')")
    with pytest.raises(InvalidError, match="Snapshot partition cannot be dropped"):
        lake.sql("DELETE FROM db.`t$branch_snapshot` WHERE date = '20250810'")
    lake.sql("ALTER TABLE db.`t$branch_snapshot` DROP PARTITION (date = '20250812')")
    assert rows(lake, "SELECT date, t1 FROM db.t") == [("20250810", "1"), ("20250811", "1"), ("20250811", "2")]


def test_large_chains_are_read_by_tasks_and_by_spark_itself(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made(lake)
    lake.sql(
        "INSERT INTO db.`t$branch_snapshot` SELECT CAST(id AS STRING), '1', 'whole', '20250810' FROM range(1000, 1500)"
    )
    lake.sql(
        "INSERT INTO db.`t$branch_delta` SELECT CAST(id AS STRING), '2', 'delta', '20250811' FROM range(1400, 1600)"
    )
    lake.sql(
        "INSERT INTO db.`t$branch_delta` SELECT CAST(id AS STRING), '1', 'next', '20250812' FROM range(5000, 5100)"
    )
    queries = (
        "SELECT * FROM db.t WHERE date = '20250811'",
        "SELECT date, t3, count(*), max(t1) FROM db.t GROUP BY ALL",
        "SELECT t1, date FROM db.t WHERE t3 = 'whole' AND t1 > '1390'",
        "SELECT t1, t3, date, __paimon_partition FROM db.t WHERE t1 IN ('1399', '1400', '5050') AND date = '20250812'",
    )
    small = [rows(lake, query) for query in queries]
    assert small[1] == [
        ("20250810", "whole", 500, "1499"),
        ("20250811", "delta", 200, "1599"),
        ("20250811", "whole", 400, "1399"),
        ("20250812", "delta", 200, "1599"),
        ("20250812", "next", 100, "5099"),
        ("20250812", "whole", 400, "1399"),
    ]
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    assert [rows(lake, query) for query in queries] == small
    plan = lake.sql("EXPLAIN SELECT * FROM db.t WHERE date = '20250812'").collect()[0][0]
    assert "FileScan parquet" in plan and "20250812 AS date" in plan  # of the file whose keys meet no other's


def test_what_reads_a_branch_says_so(lake: Lake, tmp_path: Path) -> None:
    made(lake)
    lake.sql("INSERT INTO db.`t$branch_delta` VALUES ('2', '1', 'b', '20250811')")
    table = lake.table("db.t")
    with pytest.raises(UnsupportedError, match=r"not read as a stream.*t.branch_delta tells what is added"):
        table.process_stream(lambda frame, number: None, checkpoint=str(tmp_path / "c"))
    with pytest.raises(Exception, match="a chain table is not read as a stream"):
        query = table.read_stream().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "d")).start()
        query.processAllAvailable()
    for wrong, reason in (
        ("'db.t', 'date=1;date=2'", "only supports a single partition"),
        ("'db.t', ';'", "no partition is named"),
        ("'db.t', 'date=1', 'perhaps'", "neither true nor false"),
        ("'db.t$branch_delta', 'date=1'", "is not a chain table"),
    ):
        with pytest.raises(InvalidError, match=reason):
            lake.sql(f"CALL sys.compact_chain_table({wrong})")
    with pytest.raises(UnsupportedError, match=r"\$ro of a chain table"):
        rows(lake, "SELECT * FROM db.`t$ro`")
    assert rows(lake, "SELECT rowkind, t1 FROM db.`t$audit_log` WHERE rowkind = '+I'") == [("+I", "2")]
