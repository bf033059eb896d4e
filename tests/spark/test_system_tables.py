"""System tables and incremental reads through Spark: its own scan where rows are a file's, Python tasks where not."""

from __future__ import annotations

from typing import Any

import pytest

from bucketlake.errors import InvalidError
from bucketlake.spark.read import native, reader
from bucketlake.spark.session import Lake


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many files went through Spark's scan, how many splits through tasks; nothing is read in the driver."""
    seen = {"native": 0, "tasks": 0}
    plain, tasks = native.scan, reader._in_tasks

    def scanned(*arguments: Any) -> Any:
        seen["native"] += len(arguments[2])
        return plain(*arguments)

    def crossed(*arguments: Any) -> Any:
        seen["tasks"] += len(arguments[2])
        return tasks(*arguments)

    monkeypatch.setattr(native, "scan", scanned)
    monkeypatch.setattr(reader, "_in_tasks", crossed)
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    monkeypatch.setattr(reader, "SMALL_BYTES", 0)
    return seen


def create(lake: Lake, options: str) -> None:
    lake.sql(
        f"CREATE TABLE db.t (k INT, v BIGINT, s STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1', {options})"
    )
    lake.sql("INSERT INTO db.t VALUES (1, 10, 'a'), (2, 20, 'b')")


def rows(lake: Lake, statement: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.sql(statement).collect())


def test_read_optimized(lake: Lake, scans: dict[str, int]) -> None:
    create(lake, "'write-only'='true'")
    lake.sql("CALL sys.compact('db.t')")
    lake.sql("INSERT INTO db.t VALUES (1, 11, 'z'), (3, 30, 'c')")
    scans["native"] = scans["tasks"] = 0
    assert rows(lake, "SELECT * FROM db.`t$ro`") == [(1, 10, "a"), (2, 20, "b")]
    assert rows(lake, "SELECT sum(v) FROM db.`t$ro` WHERE k > 1") == [(20,)]
    assert lake.table("db.t$ro").read(columns=["s"]).count() == 2
    assert scans["native"] == 3 and scans["tasks"] == 0
    lake.sql("CALL sys.compact('db.t')")
    assert rows(lake, "SELECT k FROM db.`t$ro`") == [(1,), (2,), (3,)]
    assert rows(lake, "SELECT k FROM db.`t$ro` VERSION AS OF 2") == [(1,), (2,)]
    assert rows(lake, "SELECT a.k, b.v FROM db.`t$ro` a JOIN db.t b ON a.k = b.k WHERE b.v > 11") == [(2, 20), (3, 30)]


def test_changes(lake: Lake, scans: dict[str, int]) -> None:
    create(lake, "'changelog-producer'='lookup'")
    lake.sql("INSERT INTO db.t VALUES (1, 11, 'z'), (3, 30, 'c')")
    lake.sql("DELETE FROM db.t WHERE k = 2")
    newest = lake.table("db.t").latest_snapshot()
    assert newest is not None
    hint = f"/*+ OPTIONS('incremental-between'='2,{newest.id}') */"
    assert rows(lake, f"SELECT * FROM db.`t$audit_log` {hint}") == [
        ("+I", 3, 30, "c"),
        ("+U", 1, 11, "z"),
        ("-D", 2, 20, "b"),
        ("-U", 1, 10, "a"),
    ]
    assert rows(lake, f"SELECT k, rowkind FROM db.`t$audit_log` {hint} WHERE rowkind LIKE '-%'") == [
        (1, "-U"),
        (2, "-D"),
    ]
    assert rows(lake, f"SELECT rowkind, k, v, s[1] FROM db.`t$binlog` {hint} WHERE size(v) = 2") == [
        ("+U", [1, 1], [10, 11], "z")
    ]
    assert rows(lake, "SELECT rowkind, k FROM db.`t$audit_log`") == [("+I", 1), ("+I", 3), ("-D", 2)]
    assert scans["tasks"] > 0
    found = lake.table("db.t").read(incremental_between=f"2,{newest.id}")
    assert sorted(tuple(row) for row in found.collect()) == [(1, 11, "z"), (3, 30, "c")]
    delta = f"'incremental-between'='1,{newest.id}','incremental-between-scan-mode'"
    scans["native"] = 0
    assert rows(lake, f"SELECT * FROM db.t /*+ OPTIONS({delta}='delta') */") == [(1, 11, "z"), (3, 30, "c")]
    assert scans["native"] == 0  # the delta holds deletes, which are no rows
    assert lake.table("db.t").read(incremental_between="2,4", incremental_between_scan_mode="delta").count() == 2
    assert scans["native"] == 1
    assert rows(lake, f"SELECT * FROM db.t /*+ OPTIONS({delta}='diff') */") == [(1, 11, "z"), (3, 30, "c")]
    source = lake.spark.read.format("bucketlake").option("incremental-between", f"1,{newest.id}")
    assert source.load(lake.table("db.t").path).count() == 4


def test_small_results_stay_in_the_driver(lake: Lake) -> None:
    create(lake, "'table-read.sequence-number.enabled'='true','write-only'='true'")
    lake.sql("DELETE FROM db.t WHERE k = 2")
    found = lake.sql("SELECT * FROM db.`t$audit_log` ORDER BY _SEQUENCE_NUMBER").collect()
    assert [(row.rowkind, row.k, row.v, row.s) for row in found] == [("+I", 1, 10, "a"), ("-D", 2, 20, "b")]
    found = lake.sql("SELECT * FROM db.`t$binlog` ORDER BY _SEQUENCE_NUMBER").collect()
    assert [(row.rowkind, row.k, row.s) for row in found] == [("+I", [1], ["a"]), ("-D", [2], ["b"])]
    frame = lake.table("db.t$binlog").read()
    assert frame.schema.simpleString() == (
        "struct<rowkind:string,_SEQUENCE_NUMBER:bigint,k:array<int>,v:array<bigint>,s:array<string>>"
    )
    assert lake.table("db.t$audit_log").read(where="rowkind = '-D' AND k = 2", columns=["v"]).collect()[0].v == 20
    described = [row[0] for row in lake.sql("DESCRIBE db.`t$audit_log`").collect()]
    assert described[:3] == ["rowkind", "_SEQUENCE_NUMBER", "k"]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO db.`t$ro` VALUES (9, 9, 'x')",
        "DELETE FROM db.`t$audit_log` WHERE k = 1",
        "UPDATE db.`t$ro` SET v = 1",
        "INSERT OVERWRITE db.`t$binlog` SELECT * FROM db.`t$binlog`",
        "ALTER TABLE db.`t$ro` SET TBLPROPERTIES ('write-only'='true')",
        "TRUNCATE TABLE db.`t$ro`",
    ],
)
def test_system_tables_cannot_be_written(classic: Lake, statement: str) -> None:
    create(classic, "'write-only'='true'")
    with pytest.raises(InvalidError, match="system table"):
        classic.sql(statement)
    assert rows(classic, "SELECT * FROM db.t") == [(1, 10, "a"), (2, 20, "b")]
