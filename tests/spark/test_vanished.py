"""Files that another writer's expiry takes away under a job of Spark's: the statement begins anew on the newest snapshot, and
where it cannot, says what happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from bucketlake.errors import NotFoundError
from bucketlake.spark import actions, cluster
from bucketlake.spark.merge import held
from bucketlake.spark.read import native, reader
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
KINDS = {
    "append": "",
    "vectors": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')",
    "keyed": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')",
    "read by Python": "TBLPROPERTIES ('file.format' = 'avro')",
}
STATEMENTS = {
    "DELETE FROM t WHERE v || k = 'x5'": 5,
    "UPDATE t SET v = 'y' WHERE v || k = 'x5'": "y",
    "MERGE INTO t USING (SELECT 'x5' AS c) s ON t.v || t.k = s.c WHEN MATCHED THEN UPDATE SET v = t.v || 'y'": "xy",
}


class Rival:
    """Once Spark has planned a scan, writes the table's rows anew and expires what was there, `times` times."""

    def __init__(self, lake: Lake, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.table, self.left, self.rows = (
            lake.catalog.table("default.t"),
            times,
            lake.catalog.table("default.t").to_arrow(),
        )
        for module, name in ((native, "_load"), (cluster, "made_of")):
            monkeypatch.setattr(module, name, self._overtaken(getattr(module, name)))
        monkeypatch.setattr(reader, "SMALL_ROWS", 0)

    def _overtaken(self, planned: Callable[..., Any]) -> Callable[..., Any]:
        def planning(*given: Any) -> Any:
            frame = planned(*given)
            if self.left:
                self.left -= 1
                self.table.write_arrow(self.rows, mode="overwrite")
                self.table.expire_snapshots(retain_max=1, retain_min=1)
            return frame

        return planning


@pytest.mark.parametrize("when", ["is opened", "is read"])
def test_spark_tells_in_two_ways(classic: Lake, tmp_path: Path, when: str) -> None:
    """A file may go before it is opened, or after, and before its columns are read, for which Hadoop opens it again."""
    classic.spark.range(9).write.parquet(str(tmp_path / "files"))
    frame = classic.spark.read.parquet(str(tmp_path / "files"))
    if when == "is opened":
        for path in (tmp_path / "files").glob("*.parquet"):
            path.unlink()
        with pytest.raises(NotFoundError, match="a data file is gone.*part-.*parquet"):
            actions.to_arrow(frame)
        return
    text = "org.apache.spark.SparkException: Job aborted\nCaused by: java.nio.file.NoSuchFileException: /w/t/data-1.parquet"
    with pytest.raises(NotFoundError, match="a data file is gone.*data-1.parquet"), actions.lost_told():
        raise RuntimeError(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("statement", STATEMENTS, ids=[text.split()[0] for text in STATEMENTS])
def test_a_statement_begins_anew(classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str, statement: str) -> None:
    classic.sql(f"CREATE TABLE t (k INT, v STRING) {KINDS[kind]}")
    classic.sql("INSERT INTO t SELECT CAST(id AS INT), 'x' FROM range(9)")
    rival = Rival(classic, monkeypatch, 1)
    classic.sql(statement)
    assert not rival.left, "Spark scanned no file"
    monkeypatch.undo()
    done = STATEMENTS[statement]
    wanted = [(k, done if k == 5 else "x") for k in range(9) if k != done]
    assert sorted(row[:] for row in classic.sql("SELECT * FROM t").collect()) == wanted


def test_rows_of_a_table_that_is_written_from_another(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which rows were read is not known: nothing is written, and the message says why."""
    classic.sql("CREATE TABLE t (k INT, v STRING)")
    classic.sql("INSERT INTO t SELECT CAST(id AS INT), 'x' FROM range(9)")
    classic.sql("CREATE TABLE u (k INT, v STRING)")
    Rival(classic, monkeypatch, 100)
    with pytest.raises(NotFoundError, match="a data file is gone.*data-.*may have expired: read again"):
        classic.sql("INSERT INTO u SELECT * FROM t")
    monkeypatch.undo()
    assert classic.table("u").latest_snapshot() is None


@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_a_statement_begins_anew_where_an_executor_died_with_rows_of_it(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A MERGE's source is evaluated once, and kept by the executors without the means to make it again."""
    lake, keep, lost = classic, held.decided_later, []
    lake.sql(f"CREATE TABLE t (k INT, v STRING) {KINDS[kind]}")
    lake.sql("INSERT INTO t SELECT CAST(id AS INT), 'x' FROM range(10)")

    def losing(frame: DataFrame) -> DataFrame:
        stored = lake.spark.sparkContext._jsc.getPersistentRDDs
        before, found = set(stored()), keep(frame)
        if not lost:
            found.count()
            lost.extend(set(stored()) - before)
            for number in lost:
                stored()[number].unpersist(True)
        return found

    monkeypatch.setattr(held, "decided_later", losing)
    monkeypatch.setattr(held, "FEW_ROWS", 2)
    source = "(SELECT CAST(id AS INT) AS k, 'y' AS v FROM range(5, 15))"
    lake.sql(
        f"MERGE INTO t USING {source} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = t.v || s.v "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert lost
    rows = {row.k: row.v for row in lake.table("t").read().collect()}
    assert rows == {k: "x" if k < 5 else "xy" if k < 10 else "y" for k in range(15)}
    assert [snapshot.operation for snapshot in lake.table("t").snapshots()].count("MERGE") == 1
