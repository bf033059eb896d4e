"""CALL sys.fsck and sys.repair_table, and the same by Spark's tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketlake.errors import InvalidError
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
    done = lake.sql("CALL sys.repair_table(table => 'db.t', allow => 'data-file-missing', dry_run => false)").collect()
    assert {(row["state"], row["snapshot"]) for row in done} == {("mended", 3)}
    monkeypatch.setattr(checks, "DRIVER_BYTES", -1)
    (left,) = lake.table("db.t").fsck("rows").findings
    assert (left.code, left.place.holder) == ("data-file-missing", "snapshot 2"), "travel to it still needs the file"
    assert lake.sql("SELECT k FROM db.t ORDER BY k").collect() == [(1,), (2,), (3,), (4,)]
    for call in ("CALL sys.fsck('db.t', 'deep')", "CALL sys.repair_table(table => 'db.t', allow => 'hint-latest')"):
        with pytest.raises(InvalidError):
            lake.sql(call)
