"""CALL sys.fsck and sys.repair_table, and the same by Spark's tasks."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.errors import InvalidError
from bucketlake.ops.check import advise as advising
from bucketlake.ops.check.remedy import set_options
from bucketlake.spark.maintain import checks
from bucketlake.spark.session import Lake


def test_fsck_and_repair(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql("CREATE TABLE db.t (k INT, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='2', 'write-only'='true')")
    lake.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    lake.sql("INSERT INTO db.t VALUES (5, 'e')")
    table = lake.table("db.t")
    for level in ("metadata", "footers", "keys", "rows"):
        assert lake.sql(f"CALL sys.fsck('db.t', '{level}')").collect() == []
    Path(table.path, "snapshot", "LATEST").write_text("9")
    gone = next(file.path for file in table.files() if file.file.row_count == 1)
    Path(gone).unlink()
    found = lake.sql("CALL sys.fsck(table => 'db.t', level => 'keys')")
    assert found.columns[:6] == ["code", "severity", "level", "partition", "bucket", "snapshot"]
    assert [(row["code"], row["repair"]) for row in found.collect()] == [
        ("data-file-missing", "named"),
        ("hint-latest", "yes"),
    ]
    planned = lake.sql("CALL sys.repair_table('db.t')").collect()
    assert [(row["code"], row["state"]) for row in planned] == [
        ("data-file-missing", "to be named"),
        ("hint-latest", "would mend"),
    ]
    remedy = lake.sql("CALL sys.fsck(table => '`db`.`t`', level => 'keys')").first()["remedy"]
    statement = (
        "CALL sys.repair_table(table => 'db.t', level => 'metadata', allow => 'data-file-missing', dry_run => false)"
    )
    assert remedy == f"restore the file from a copy, or {statement}"
    done = lake.sql(statement).collect()
    assert {(row["state"], row["snapshot"]) for row in done} == {("mended", 3)}
    monkeypatch.setattr(checks, "DRIVER_BYTES", -1)
    (left,) = lake.table("db.t").fsck("rows").findings
    assert (left.code, left.place.holder) == ("data-file-missing", "snapshot 2"), "travel to it still needs the file"
    assert left.repair == "no"
    assert [row["state"] for row in lake.sql(statement).collect()] == ["cannot"]
    way = "CALL sys.expire_snapshots(table => 'db.t', retain_max => 1, retain_min => 1)"
    assert lake.sql("CALL sys.fsck('db.t')").first()["remedy"] == f"restore the file from a copy, or {way}"
    lake.sql(way)
    assert lake.sql("CALL sys.fsck('db.t')").collect() == []
    assert lake.sql("SELECT k FROM db.t ORDER BY k").collect() == [(1,), (2,), (3,), (4,)]
    for call in ("CALL sys.fsck('db.t', 'deep')", "CALL sys.repair_table(table => 'db.t', allow => 'hint-latest')"):
        with pytest.raises(InvalidError):
            lake.sql(call)


def test_advice_names_partitions_and_is_followed(
    classic: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classic.sql(
        "CREATE TABLE db.n (day DATE, s STRING, v INT) PARTITIONED BY (day, s) TBLPROPERTIES ('write-only'='true')"
    )
    table = bucketlake.open(tmp_path / "warehouse").table("db.n")
    day, odd = dt.date(2026, 3, 1), "a,b; 'c/d\\"
    schema = pa.schema([("day", pa.date32()), ("s", pa.string()), ("v", pa.int32())])
    for number in range(6):
        for names in ([odd, "x:y"], [None]):
            rows = {"day": [day] * len(names), "s": names, "v": [number] * len(names)}
            table.write_arrow(pa.table(rows, schema=schema))
    monkeypatch.setattr(advising, "SMALL_FILES", 2)
    null = "__DEFAULT_PARTITION__"
    found = {one["partition"]: one["command"] for one in classic.sql("CALL sys.advise('db.n')").collect()}
    assert {f"day=2026-03-01/s={text}" for text in (odd, "x:y", null)} <= set(found)
    for done, text in enumerate((odd, "x:y", null), 1):
        command = found[f"day=2026-03-01/s={text}"]
        classic.sql(command.replace("compact(", "compact(options => 'write-only=false', "))
        assert len(classic.table("db.n").files()) == 18 - 5 * done, command


def test_statements_name_any_table(classic: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `tests/cli/test_remedies.py` does with commands."""
    monkeypatch.setattr(advising, "SMALL_FILES", 2)
    catalog = bucketlake.open(tmp_path / "warehouse")
    values = ["x", "two\nlines\x1b", "${user}", "back\\slash 'n", None]
    schema = pa.schema([("p-q`r", pa.string()), ("n", pa.int64())])
    for name in ("`d b`.`it's a.t``x`", "`d b`.`-r`", "`d b`.` no\u200bbreak`"):
        catalog.create_database("d b", ignore_if_exists=True)
        table = catalog.create_table(name, schema, ["p-q`r"])
        for number in range(5):
            table.write_arrow(pa.table({"p-q`r": values, "n": [number] * len(values)}, schema=schema))
        found = [one for one in table.advise() if one.topic == "small-files"]
        assert len(found) == len(values)
        for done, one in enumerate(found, 1):
            assert one.command is not None and one.command.isprintable()
            classic.sql(one.command)
            assert len(table.refresh().files()) == 25 - 4 * done, one.command
        classic.sql(set_options(table.name, {"k'": "${v}\n"}).sql)
        assert table.refresh().schema.options["k'"] == "${v}\n"


def test_advice_on_history_is_followed(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "LITTLE", 0)
    classic.sql("CREATE TABLE db.t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    table = classic.table("db.t")
    for number in range(4):
        table.write(classic.spark.createDataFrame([(1, number)], "id int, v int"))
        table.compact()
    found = {one["topic"]: one["command"] for one in classic.sql("CALL sys.advise('db.t')").collect()}
    classic.sql(found["history"])
    assert len(table.snapshots()) == 4, found["history"]


def test_advice_on_partitions_is_followed(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "SMALL_PARTITIONS", 3)
    made = "CREATE TABLE db.{} (k INT, day DATE, hour INT, v INT) PARTITIONED BY (day, hour) TBLPROPERTIES ({})"
    keyed = "'primary-key' = 'day,hour,k', 'bucket' = '2', 'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum'"
    for name, options in (("hours", "'partition.legacy-name' = 'false'"), ("sums", keyed)):
        classic.sql(made.format(name, options))
        classic.sql(f"INSERT INTO db.{name} SELECT id, DATE '2026-03-01', id % 4, 7 FROM range(40)")
        classic.sql(f"INSERT INTO db.{name} SELECT id, DATE '2026-03-01', id % 4, 1 FROM range(4)")
        (command,) = [
            one["command"]
            for one in classic.sql(f"CALL sys.advise('db.{name}')").collect()
            if one["topic"] == "partitions"
        ]
        classic.sql(command)
        anew = classic.table(f"db.{name}_anew")
        assert (
            anew.schema.partition_keys == ("day",)
            and anew.schema.primary_keys == classic.table(f"db.{name}").schema.primary_keys
        )
        assert {key: anew.schema.options.get(key) for key in ("merge-engine", "partition.legacy-name")} == {
            "merge-engine": classic.table(f"db.{name}").schema.options.get("merge-engine"),
            "partition.legacy-name": None,
        }
        same = "SELECT day, hour, k, v FROM db.{} ORDER BY ALL"
        assert classic.sql(same.format(f"{name}_anew")).collect() == classic.sql(same.format(name)).collect()
    assert classic.table("db.sums_anew").schema.bucket == 1
