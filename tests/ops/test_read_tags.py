"""Tags that hold what batch reads read: `scan.plan-auto-tag-for-read.time-retained`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.sim.storage import FAIL_BEFORE, FaultStorage, fault_on

import bucketlake
from bucketlake.errors import NotFoundError
from bucketlake.ops.refs import tags
from bucketlake.spark.session import Lake
from bucketlake.table import Table

OPTION = "scan.plan-auto-tag-for-read.time-retained"
ROWS = pa.table({"a": pa.array([1, 2], pa.int32())})
ONE = {"retain_max": 1, "retain_min": 1}


def _made(folder: Path, options: dict[str, str] | None = None) -> Table:
    table = bucketlake.open(folder).create_table(
        "t", ROWS.schema, (), (), {OPTION: "1 h"} if options is None else options
    )
    table.write_arrow(ROWS)
    return table


def _replaced(table: Table) -> None:
    """No file of the first snapshot is live any more, and the snapshot has expired."""
    table.write_arrow(ROWS.slice(0, 1), "overwrite")
    table.write_arrow(ROWS)
    table.expire_snapshots(**ONE)


def _read(table: Table, splits: list[object]) -> list[int]:
    return [row for split in splits for batch in table.read_split(split) for row in batch.column("a").to_pylist()]


def test_what_was_planned_is_read_after_it_has_expired(tmp_path: Path) -> None:
    table = _made(tmp_path)
    first, second = table.splits(), table.splits()
    (name,) = table.tags()
    assert name.startswith("batch-read-1-")
    assert tags.tag_lifetime(table.tags()[name]).total_seconds() == pytest.approx(66 * 60)
    _replaced(table)
    assert [snapshot.id for snapshot in table.snapshots()] == [3]
    assert _read(table, first) == _read(table, second) == [1, 2]
    table.delete_tag(name)
    with pytest.raises(NotFoundError):
        _read(table, first)


def test_without_the_option_there_is_no_tag(tmp_path: Path) -> None:
    table = _made(tmp_path, {})
    splits = table.splits()
    _replaced(table)
    with pytest.raises(NotFoundError):
        _read(table, splits)
    assert not table.tags()


def test_only_reads_of_one_snapshot_make_tags(tmp_path: Path) -> None:
    table = _made(tmp_path)
    table.write_arrow(ROWS)
    table.files()
    table.splits(**{"incremental-between": "1,2"})
    assert not table.tags()
    table.splits(**{"scan.snapshot-id": "1"})
    assert [name[:13] for name in table.tags()] == ["batch-read-1-"]


def test_tags_go_with_the_process(tmp_path: Path) -> None:
    table = _made(tmp_path)
    code = f"""import bucketlake
table = bucketlake.open({str(tmp_path)!r}).table("default.t")
table.splits()
print(len(table.tags()))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    assert not table.tags()


def test_a_read_without_a_tag_goes_on(tmp_path: Path) -> None:
    table = _made(tmp_path)
    storage = FaultStorage(table.store.env.storage, fault_on("put_if_absent", "tag-batch-read", FAIL_BEFORE, times=99))
    failing = replace(table, store=replace(table.store, env=replace(table.store.env, storage=storage)))
    with pytest.warns(UserWarning, match="not protected from expiry"):
        assert failing.to_arrow().num_rows == 2


@pytest.mark.spark
def test_queries_leave_no_tag(classic: Lake) -> None:
    classic.sql(
        f"CREATE TABLE t (a INT, b STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1', '{OPTION}' = '1 h')"
    )
    classic.sql("INSERT INTO t VALUES (1, 'v1'), (2, 'v2')")
    assert classic.sql("SELECT * FROM t ORDER BY a").collect() == [(1, "v1"), (2, "v2")]
    assert classic.sql("SELECT count(*), max(b) FROM t WHERE a > 1").collect() == [(1, "v2")]
    classic.sql("UPDATE t SET b = 'v3' WHERE a = 2")
    classic.sql("MERGE INTO t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE")
    classic.sql("DELETE FROM t WHERE a = 2")
    assert classic.sql("SELECT tag_name FROM `t$tags`").count() == 0
