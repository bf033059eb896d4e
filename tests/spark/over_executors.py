"""Executors that are killed: what they leave are orphans, never rows. Run by test_cluster.py, over executors of its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.profile import first

from bucketlake.spark.session import Lake

pytestmark = [pytest.mark.spark, pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")]

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int64())])
KINDS = {"append": ((), {}), "buckets": ((), {"bucket": "2", "bucket-key": "id"}), "keyed": (("id",), {"bucket": "2"})}


def _killing(marks: Path):
    """A task function whose first attempt kills its executor, after handing on its rows."""
    place = str(marks)

    def task(batches):
        import os
        import signal
        import threading
        from pathlib import Path

        from pyspark import TaskContext

        def parent(process: int) -> int:
            return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])

        yield from batches
        number = TaskContext.get().partitionId()
        first, again = Path(place) / f"first-{number}", Path(place) / f"again-{number}"
        if number != 1:
            return
        if first.exists():
            again.touch()
            return
        first.touch()
        os.kill(parent(parent(os.getpid())), signal.SIGKILL)  # this worker's daemon's executor
        threading.Event().wait(60)

    return task


@pytest.mark.parametrize("kind", first(["keyed", "append", "buckets"], 2))
def test_rows_of_lost_executors_count_once(classic: Lake, tmp_path: Path, kind: str) -> None:
    keys, options = KINDS[kind]
    classic.catalog.create_table("db.t", SCHEMA, (), keys, options)
    table = classic.table("db.t")
    marks = tmp_path / "marks"
    marks.mkdir()
    rows = classic.spark.range(0, 100_000, 1, 2).selectExpr("id", "id AS v")
    table.write(rows.mapInArrow(_killing(marks), rows.schema))
    assert (marks / "again-1").exists()
    assert len(table.snapshots()) == 1
    ids = classic.catalog.table("db.t").to_arrow().column("id").to_pylist()
    assert len(ids) == 100_000 and len(set(ids)) == 100_000
