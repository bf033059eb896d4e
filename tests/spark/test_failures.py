"""What goes wrong leaves the table as it was: bad rows, failing and repeated tasks, killed writers, races."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.classic.dataframe import DataFrame
from tests import quick
from tests.profile import first, pairs

from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, NotFoundError
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int64())])
OPTIONS = {
    "append": ((), {}),
    "buckets": ((), {"bucket": "2", "bucket-key": "id"}),
    "keyed": (("id",), {"bucket": "2"}),
}


@pytest.fixture(params=list(OPTIONS))
def table(request: pytest.FixtureRequest, lake: Lake):
    return made(lake, request.param)


def made(lake: Lake, kind: str):
    keys, options = OPTIONS[kind]
    lake.catalog.create_table("db.t", SCHEMA, (), keys, options)
    table = lake.table("db.t")
    table.write(lake.spark.range(5).selectExpr("id", "id AS v"))
    return table


def _data_files(table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("*.parquet")}


def _live_files(table) -> set[str]:
    return {Path(found.path).name for found in table.files()}


UNFIT = {
    "id AS v": "missing=.*id",
    "id, id AS v, id AS w": "extra columns.*w",
    "id, 'x' AS v": "fit|cast",
    "id, array(id) AS v": "cannot safely cast",
    "cast(null AS bigint) AS id, id AS v": "[Nn]ull|NULL",
    "id, 1e30 AS v": "fit",
}


@pytest.mark.parametrize(("columns", "kind", "count"), first(pairs(list(UNFIT), list(OPTIONS), [3, 50_000]), 7))
def test_rows_that_do_not_fit(lake: Lake, columns: str, kind: str, count: int) -> None:
    table, message = made(lake, kind), UNFIT[columns]
    with pytest.raises(Exception, match=message) as raised:
        table.write(lake.spark.range(count).selectExpr(*_split(columns)))
    del raised
    assert len(table.snapshots()) == 1
    assert table.read().count() == 5
    assert _data_files(table) == _live_files(table)


@pytest.mark.parametrize("count", [3, 50_000])
def test_what_is_damaged_is_said_whoever_meets_it(classic: Lake, count: int) -> None:
    """A task that meets a damaged file of the table, too: no error of Spark's takes the place of ours."""
    classic.catalog.create_table("db.t", SCHEMA, (), ("id",))
    table = classic.table("db.t")
    table.write(classic.spark.range(40_000).selectExpr("id", "id AS v"))
    for path in Path(table.path, "index").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    before = _data_files(table)
    with pytest.raises(CorruptError):
        table.write(classic.spark.range(count).selectExpr("id", "id AS v"))
    assert len(table.snapshots()) == 1
    assert _data_files(table) == before


def _split(columns: str) -> list[str]:
    return [part.strip() for part in columns.split(", ")]


def test_wrong_calls(lake: Lake, table) -> None:
    frame = lake.spark.range(1).selectExpr("id", "id AS v")
    with pytest.raises(InvalidError, match="mode"):
        table.write(frame, mode="replace")
    with pytest.raises(InvalidError, match="partition"):
        table.write(frame, mode="overwrite", partition={"v": 1})
    with pytest.raises(InvalidError, match="no such column"):
        table.read(columns=["w"])
    with pytest.raises(BucketlakeError):
        table.read(where="w = 1")
    with pytest.raises(NotFoundError, match=r"db\.t"):
        lake.table("db.tt")


def test_a_missing_data_file_is_named(lake: Lake) -> None:
    lake.catalog.create_table("db.gone", SCHEMA)
    table = lake.table("db.gone")
    table.write(lake.spark.range(200_000).selectExpr("id", "id AS v"))
    path = Path(table.files()[0].path)
    path.unlink()
    with pytest.raises(Exception, match=path.name):
        table.read().collect()


def _failing_once(folder: Path):
    """A task function that fails at its first attempt, after handing on its rows."""
    place = str(folder)

    def task(batches):
        import pathlib

        from pyspark import TaskContext

        mark = pathlib.Path(place) / str(TaskContext.get().partitionId())
        yield from batches
        if not mark.exists():
            mark.touch()
            raise RuntimeError("first attempt")

    return task


def test_repeated_tasks_leave_no_row_twice(lake: Lake, table, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    rows = lake.spark.range(10, 100_010, 1, 2).selectExpr("id", "id AS v")
    table.write(rows.mapInArrow(_failing_once(marks), rows.schema))
    assert list(marks.iterdir())
    assert table.read().count() == 100_005
    assert table.read().select("id").distinct().count() == 100_005


def test_failed_tasks_leave_the_table_alone(lake: Lake, table) -> None:
    rows = lake.spark.range(100_000).selectExpr("id", "if(id = 99999, raise_error('broken row'), id) AS v")
    with pytest.raises(Exception, match="broken row"):
        table.write(rows)
    assert len(table.snapshots()) == 1
    assert table.read().count() == 5


def test_concurrent_appends_both_count(lake: Lake, table) -> None:
    errors: list[BaseException] = []

    def write(start: int) -> None:
        try:
            table.write(lake.spark.range(start, start + 60_000).selectExpr("id", "id AS v"))
        except BaseException as error:
            errors.append(error)

    writers = [threading.Thread(target=write, args=(start,)) for start in (1_000_000, 2_000_000, 3_000_000)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert errors == []
    assert [snapshot.commit_kind.value for snapshot in table.snapshots()].count("APPEND") == 4
    assert table.read().count() == 180_005


KILLED = """
import os, signal, sys
import bucketlake
from bucketlake.spark.session import new_session

def slow(batches):
    import time
    for number, batch in enumerate(batches):
        yield batch
        if number == 6:
            print("writing", flush=True)
            open(sys_argv[2], "w").close()
            time.sleep(600)

sys_argv = sys.argv
spark = new_session(**{"spark.master": "local[2]"})
table = bucketlake.connect(sys.argv[1], spark=spark).table("db.t")
rows = spark.range(200000).selectExpr("id", "id AS v")
table.write(rows.mapInArrow(slow, rows.schema))
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("kind", first(["keyed", "buckets", "append"], 1))
def test_a_killed_writer_leaves_no_row(classic: Lake, tmp_path: Path, kind: str) -> None:
    keys, options = OPTIONS[kind]
    classic.catalog.create_table("db.t", SCHEMA, (), keys, options)
    table = classic.table("db.t")
    table.write(classic.spark.range(5).selectExpr("id", "id AS v"))
    reached = tmp_path / "reached"
    arguments = [sys.executable, "-c", KILLED, classic.catalog.warehouse, str(reached)]
    environment = quick.environment(tmp_path / "quick")
    writer = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    waited = threading.Event()
    for _ in range(3000):
        if reached.exists() or writer.poll() is not None:
            break
        waited.wait(0.1)
    os.killpg(writer.pid, signal.SIGKILL)
    writer.wait()
    assert reached.exists()
    assert len(table.snapshots()) == 1
    assert table.read().count() == 5
    table.write(classic.spark.range(5, 50_005).selectExpr("id", "id AS v"))
    assert table.read().count() == 50_005


@pytest.mark.parametrize("how", ["write", "sql"])
def test_a_cancelled_job_is_told_by_its_condition(classic: Lake, how: str) -> None:
    """Not as Py4J's error, which PySpark lets through."""
    classic.sql("CREATE TABLE db.t (id BIGINT)")
    context, before = classic.spark.sparkContext, classic.table("db.t").snapshots()

    def cancels(batches: Any) -> Any:
        yield from batches
        threading.Event().wait()

    rows = classic.spark.range(0, 4, 1, 2).mapInArrow(cancels, "id BIGINT")
    rows.createOrReplaceTempView("slow")
    context.setJobGroup("cancelled", "a write", interruptOnCancel=True)
    tracker, through = context.statusTracker(), threading.Event()

    def cancel() -> None:
        while not through.wait(0.05):
            if tracker.getJobIdsForGroup("cancelled"):
                context.cancelJobGroup("cancelled")

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        with pytest.raises(PySparkException, match="cancelled part of cancelled job group") as raised:
            if how == "write":
                classic.table("db.t").write(rows)
            else:
                classic.sql("INSERT INTO db.t SELECT * FROM slow").collect()
    finally:
        through.set()
        canceller.join()
        context.setJobGroup("", "")
    assert isinstance(raised.value, BucketlakeError) and raised.value.getCondition() == "SPARK_JOB_CANCELLED"
    assert classic.table("db.t").snapshots() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda lake: lake.sql("INSERT INTO db.t SELECT id + 10 AS id, id AS v FROM range(30)"),
        lambda lake: lake.sql("UPDATE db.t SET v = v + 1 WHERE id > 1"),
        lambda lake: lake.table("db.t").write(lake.spark.range(30).selectExpr("id + 10 AS id", "id AS v")),
        lambda lake: lake.table("db.t").update({"v": "v + 1"}, "id > 1"),
    ],
)
def test_ctrl_c_is_raised_as_such(classic: Lake, monkeypatch: pytest.MonkeyPatch, change) -> None:
    """PySpark raises what became of the job in its place. An error of a call within its handler is that error."""
    table = made(classic, "keyed")
    before = table.latest_snapshot().id

    def cancelled(frame):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("the job was cancelled")

    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    with monkeypatch.context() as during:
        during.setattr(DataFrame, "toArrow", cancelled)
        during.setattr(DataFrame, "collect", cancelled)
        with pytest.raises(KeyboardInterrupt):
            change(classic)
    assert table.latest_snapshot().id == before
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(InvalidError, match="nope"):
            classic.sql("UPDATE db.t SET v = nope WHERE v = v")
    change(classic)
    assert table.latest_snapshot().id > before


@pytest.mark.parametrize("small", [True, False], ids=["driver", "tasks"])
def test_files_that_are_gone_say_what_to_do(classic: Lake, monkeypatch: pytest.MonkeyPatch, small: bool) -> None:
    """Another writer has expired and cleaned: whoever reads, the error is ours, and nothing is committed."""
    if not small:
        monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    classic.sql("CREATE TABLE db.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'write-only' = 'true')")
    for _ in range(2):
        classic.sql("INSERT INTO db.t SELECT id, 'x' FROM range(100)")
    table = classic.table("db.t")
    for file in Path(table.path).rglob("data-*"):
        file.unlink()
    calls: list[Callable[[], Any]] = [
        lambda: classic.sql("UPDATE db.t SET v = 'y' WHERE v LIKE 'x%'"),
        lambda: table.update({"v": "'y'"}, "v LIKE 'x%'"),
        lambda: table.table.to_arrow(),
    ]
    for call in calls:
        with pytest.raises(NotFoundError, match=r"(?s)\Aa (data )?file .*snapshot (may have|has) expired") as error:
            call()
        assert "Traceback" not in str(error.value)
    assert table.latest_snapshot().id == 2


ASIDE = """
import os, signal, sys
import bucketlake
from bucketlake.spark.session import new_session
from bucketlake.spark.write import dealt

dealt.gathered = lambda *given: os.kill(os.getpid(), getattr(signal, sys.argv[3]))
spark = new_session(**{"spark.master": "local[2]", "spark.local.dir": os.path.join(sys.argv[2], "local")})
table = bucketlake.connect(sys.argv[1], spark=spark).table("db.t")
table.write(spark.read.parquet(os.path.join(sys.argv[2], "rows.parquet")))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_killed_driver_leaves_nothing_aside(classic: Lake, tmp_path: Path, name: str) -> None:
    """Killed between the job that puts rows aside on the disk and the one that takes them."""
    classic.catalog.create_table("db.t", SCHEMA, (), ["id"], {"bucket": "80"})
    rows = pa.table({"id": range(50_000), "v": range(50_000)}, SCHEMA)
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=10_000)
    local = tmp_path / "local"
    local.mkdir()
    arguments = [sys.executable, "-c", ASIDE, classic.catalog.warehouse, str(tmp_path), name]
    environment = quick.environment(tmp_path / "quick")
    done = subprocess.run(arguments, env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.Signals[name], done.stderr[-3000:]
    waited = threading.Event()
    for _ in range(600):  # until its JVM has ended, too
        if not list(local.iterdir()):
            break
        waited.wait(0.1)
    assert not list(local.rglob("*"))
    assert classic.table("db.t").latest_snapshot() is None
