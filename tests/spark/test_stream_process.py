"""Tables processed in batches of native DataFrames, streams that are enriched by lookup, workers and drivers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import functions as F
from tests import quick
from tests.profile import seeds

from bucketlake.errors import ConflictError, InvalidError, NotFoundError
from bucketlake.spark.datasource import BucketlakeSource
from bucketlake.spark.read import reader
from bucketlake.spark.read.stream_reader import ReadAllAvailable
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
NOW = {"availableNow": True}


def insert(lake: Lake, name: str, *rows: tuple[int, str]) -> None:
    lake.table(f"db.{name}").table.write_arrow([{"id": key, "v": value} for key, value in rows])


def rows(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    found = [tuple(row) for row in lake.table(f"db.{name}").read().collect()]
    return sorted(found, key=lambda row: [(value is None, value or 0) for value in row])


@pytest.fixture
def tables(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    lake.sql("CREATE TABLE db.plain (id INT, v STRING)")
    return lake


def test_each_batch_is_a_native_scan_and_comes_again_until_it_is_done(
    tables: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "SMALL_ROWS", 1)  # few rows are read in the driver
    lake, told, failing = tables, [], [True]
    source, plain = lake.table("db.source"), lake.table("db.plain")

    def body(frame: Any, number: int) -> None:
        told.append((number, len(frame.inputFiles())))
        plain.write_batch(frame, "copy", number)
        if failing and number == 1:
            raise ValueError(failing.pop())

    def run() -> Any:
        options = {"read_stream_maxFilesPerTrigger": 2, "trigger": NOW}
        return source.process_stream(body, str(tmp_path / "c"), **options)

    for number in range(4):
        insert(lake, "source", (number, "a"), (number + 10, "a"))
    with pytest.raises(ValueError, match="True"):
        run().awaitTermination()
    process = run()
    assert process.awaitTermination(120)
    assert [number for number, _ in told] == [0, 1, 1]
    assert all(files == 2 for _, files in told), "rows passed through Python"
    assert [done.rows for done in process.batches] == [4]
    insert(lake, "source", (5, "b"))
    assert run().awaitTermination(120)
    expected = [(n, "a") for n in (0, 1, 2, 3, 10, 11, 12, 13)]
    assert rows(lake, "plain") == sorted([*expected, (5, "b")])
    with pytest.raises(InvalidError, match="of another table"):
        plain.process_stream(body, str(tmp_path / "c"))
    with pytest.raises(InvalidError, match="no such trigger"):
        source.process_stream(body, str(tmp_path / "d"), trigger={"continuous": "1 s"})


def test_latest_is_what_it_was_when_the_process_began(classic: Lake, tmp_path: Path) -> None:
    lake, told, came = classic, [], Event()
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    insert(lake, "source", (0, "older"))
    insert(lake, "source", (1, "newest"))

    def body(frame: Any, number: int) -> None:
        told.extend(tuple(row) for row in frame.collect())
        if (2, "after") in told:
            came.set()

    process = lake.table("db.source").process_stream(
        body, str(tmp_path / "c"), trigger={"processingTime": "1 ms"}, scan_mode="latest"
    )
    insert(lake, "source", (2, "after"))
    assert came.wait(120) and told == [(1, "newest"), (2, "after")]
    process.stop()


def test_values_of_a_newer_type_end_what_was_opened_before(classic: Lake, tmp_path: Path) -> None:
    classic.sql("CREATE TABLE db.t (id INT, v INT)")
    table = classic.table("db.t")
    classic.sql("ALTER TABLE db.t ALTER COLUMN v TYPE BIGINT")
    classic.sql(f"INSERT INTO db.t VALUES (1, {2**32 + 7})")
    seen: list[Any] = []
    process = table.process_stream(lambda frame, number: seen.extend(frame.collect()), checkpoint=tmp_path / "c")
    for read in (lambda: process.awaitTermination(60), lambda: table.read().collect()):
        with pytest.raises(ConflictError, match="another type since the table was opened.*column=v"):
            read()
    assert not seen
    process = classic.table("db.t").process_stream(
        lambda frame, number: seen.extend(map(tuple, frame.collect())), tmp_path / "c", {"availableNow": True}
    )
    process.awaitTermination(60)
    assert seen == [(1, 2**32 + 7)]


def test_changes_of_keys_in_order(classic: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are read in the driver, those of the last batch in tasks."""
    lake, told = classic, []
    lake.sql(
        "CREATE TABLE db.t (id INT, v STRING) TBLPROPERTIES "
        "('primary-key'='id', 'bucket'='1', 'changelog-producer'='lookup')"
    )
    table = lake.table("db.t")
    insert(lake, "t", (1, "a"), (2, "a"))
    insert(lake, "t", (1, "b"))

    def body(frame: Any, number: int) -> None:
        found = frame.withColumn("task", F.spark_partition_id()).collect()
        told.extend(tuple(row)[:-1] for row in found)
        assert len({row.task for row in found}) == 1

    options = {"read_changelog": True, "trigger": NOW, "consumer_id": "c", "where": "id = 1"}
    table.process_stream(body, str(tmp_path / "c"), **options).awaitTermination()
    insert(lake, "t", (1, "c"))
    insert(lake, "t", (1, "d"))
    assert table.consumers()["c"].snapshots == 4 and table.consumers()["c"].rows == 4
    table.process_stream(body, str(tmp_path / "c"), **options).awaitTermination()
    changes = [("-U", 1, "b"), ("+U", 1, "c"), ("-U", 1, "c"), ("+U", 1, "d")]
    assert told == [("+I", 1, "b"), *changes]
    monkeypatch.setattr(reader, "SMALL_ROWS", 1)
    insert(lake, "t", (1, "e"))
    table.process_stream(body, str(tmp_path / "c"), **options).awaitTermination()
    assert told[-2:] == [("-U", 1, "d"), ("+U", 1, "e")] and len(told) == 7
    assert table.consumers()["c"].snapshots == table.consumers()["c"].millis == 0


def test_a_new_reader_is_told_of_no_deletes_of_rows_that_it_never_had(classic: Lake, tmp_path: Path) -> None:
    """Sums over the stream would take back what they never added."""
    lake, told = classic, []
    lake.sql(
        "CREATE TABLE db.t (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1', 'changelog-producer'='input')"
    )
    insert(lake, "t", (1, "a"), (2, "a"))
    lake.sql("DELETE FROM db.t WHERE id = 2")
    table = lake.table("db.t")
    assert table.read(read_changelog=True).count() == 2, "a batch shows the delete, as in Apache Paimon"
    source = BucketlakeSource({"path": table.path, "read.changelog": "true"})
    stream = source.streamReader(source.schema())

    def read(start: Any) -> Any:
        asked = () if ReadAllAvailable is None else (start, stream.getDefaultReadLimit())  # as PySpark 4.1 asks
        end = stream.latestOffset(*asked)
        rows = [
            row for part in stream.partitions(start, end) for batch in stream.read(part) for row in batch.to_pylist()
        ]
        return end, [tuple(row.values()) for row in rows]

    end, rows = read(stream.initialOffset())
    process = table.process_stream(
        lambda frame, number: told.extend(map(tuple, frame.collect())), tmp_path / "c", NOW, read_changelog=True
    )
    process.awaitTermination(60)
    assert rows == told == [("+I", 1, "a")]
    lake.sql("DELETE FROM db.t WHERE id = 1")
    assert read(end)[1] == [("-D", 1, "a")], "of what it had it is"
    lake.sql("DROP TABLE db.t")
    with pytest.raises(NotFoundError, match="not there any more.*read it under its new name") as gone:
        read(end)
    assert "ops" not in "".join(str(entry.path) for entry in gone.traceback), (
        "frames that Spark would put into its message"
    )


@pytest.mark.slow
def test_a_stream_is_enriched_by_lookup_in_its_tasks(tables: Lake, tmp_path: Path) -> None:
    lake = tables
    lake.sql("CREATE TABLE db.names (k INT, name STRING, at TIMESTAMP) TBLPROPERTIES ('primary-key'='k', 'bucket'='2')")
    names = lake.table("db.names")
    lake.sql("INSERT INTO db.names VALUES (1, 'one', TIMESTAMP'2024-01-01 00:00:00'), (2, 'two', NULL)")
    insert(lake, "source", (1, "x"), (2, "x"), (3, "x"))
    seen: list[Any] = []

    def run() -> list[tuple[Any, ...]]:
        stream = names.lookup(lake.table("db.source").read_stream(), on={"id": "k"}, columns=["name"])
        target = lake.table("db.plain")
        rows_of = stream.selectExpr("id", "concat(v, name) AS v")
        options = {"trigger": NOW, "on_batch": seen.append} if not _remote(lake) else {"trigger": NOW}
        query = target.write_stream(rows_of, str(tmp_path / "c"), **options)
        query.awaitTermination()
        if not _remote(lake):
            assert list(query.batches) and seen[-1].snapshot is not None and seen[-1].rows == 3 - 2 * (len(seen) > 1)
            assert seen[-1].millis >= seen[-1].writing_millis + seen[-1].commit_millis and not seen[-1].conflicts
        return rows(lake, "plain")

    assert run() == [(1, "xone"), (2, "xtwo"), (3, None)]
    lake.sql("INSERT INTO db.names VALUES (3, 'three', NULL)")
    insert(lake, "source", (3, "y"))
    assert run()[2:] == [(3, "ythree"), (3, None)]
    found = names.lookup(lake.sql("SELECT 1L AS k UNION ALL SELECT 9L"), how="inner").collect()
    assert [tuple(row)[:2] for row in found] == [(1, "one")] and found[0]["at"].year == 2024


def _remote(lake: Lake) -> bool:
    return "connect" in type(lake.spark).__module__


def _dies_once(folder: Path) -> Any:
    place = str(folder)

    def task(batches: Any) -> Any:
        import os
        import pathlib
        import signal

        yield from batches
        mark = pathlib.Path(place) / "died"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return task


@pytest.mark.slow
def test_a_worker_that_is_killed_doubles_nothing(classic: Lake, tmp_path: Path) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    lake.sql("CREATE TABLE db.keyed (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    lake.sql("CREATE TABLE db.plain (id INT, v STRING)")
    insert(lake, "source", *[(number, "a") for number in range(20)])
    for name in ("keyed", "plain"):
        marks = tmp_path / name
        marks.mkdir()
        stream = lake.table("db.source").read_stream().mapInArrow(_dies_once(marks), "id INT, v STRING")
        query = lake.table(f"db.{name}").write_stream(stream, str(tmp_path / f"c-{name}"), trigger=NOW)
        query.awaitTermination()
        assert (marks / "died").exists()
        assert rows(lake, name) == [(number, "a") for number in range(20)]


DRIVER = """
import sys
from tests.sim.stream_job import die_at
import bucketlake
warehouse, checkpoint, change = sys.argv[1:]
lake = bucketlake.connect(warehouse)
stream = lake.table("db.source").read_stream(read_stream_maxFilesPerTrigger=1)
die_at(int(change), warehouse)
target = lake.table("db.keyed")
target.write_stream(stream, checkpoint, trigger={"availableNow": True}).awaitTermination()
print("through")
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_a_driver_that_is_killed_goes_on_where_it_was(classic: Lake, tmp_path: Path, seed: int) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    options = "'primary-key'='id', 'bucket'='2', 'changelog-producer'='lookup'"
    lake.sql(f"CREATE TABLE db.keyed (id INT, v STRING) TBLPROPERTIES ({options})")
    for number in range(4):
        insert(lake, "source", (number, "a"), (9, f"{number}"))
    warehouse, checkpoint = str(tmp_path / "warehouse"), str(tmp_path / "checkpoint")
    command = [sys.executable, "-c", DRIVER, warehouse, checkpoint, str(25 + 11 * seed)]
    environment = {**quick.environment(tmp_path / "conf"), "PYTHONPATH": os.getcwd()}
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    assert ended.returncode == -signal.SIGKILL, ended
    before = lake.table("db.keyed").read().count()
    stream = lake.table("db.source").read_stream(read_stream_maxFilesPerTrigger=1)
    query = lake.table("db.keyed").write_stream(stream, checkpoint, trigger=NOW)
    query.awaitTermination()
    assert before < 5 and rows(lake, "keyed") == [*((number, "a") for number in range(4)), (9, "3")]
    log = [tuple(row) for row in lake.sql("SELECT rowkind, v FROM `db`.`keyed$audit_log` WHERE id = 9").collect()]
    assert log == [("+I", "3")]
    told = [(s.changelog_record_count or 0) for s in lake.table("db.keyed").snapshots()]
    assert sum(told) == 4 + 1 + 2 * 3, "every change is told once"


def test_two_processes_with_one_checkpoint(classic: Lake, tmp_path: Path) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    insert(lake, "source", (1, "a"))
    source, ran = lake.table("db.source"), []

    def other(frame: Any, number: int) -> None:
        ran.append(number)

    def body(frame: Any, number: int) -> None:
        insert(lake, "source", (2, "b"))
        source.process_stream(other, str(tmp_path / "c"), trigger=NOW).awaitTermination()

    with pytest.raises(ConflictError, match="another process"):
        source.process_stream(body, str(tmp_path / "c"), trigger={"processingTime": "100 ms"}).awaitTermination(300)
    assert ran == [0, 1]
