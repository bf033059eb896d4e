"""Structured Streaming from table to table."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.profile import SOAK

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.events.bus import BatchCommitted, subscribe
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.spark.cluster import parallelism
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark


# Spark tells the source where a batch starts from 4.2 on; before, limits of a batch are refused.
LIMITS = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="limits of a batch need PySpark 4.2"
)


@pytest.fixture
def tables(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    lake.sql("CREATE TABLE db.keyed (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    lake.sql("CREATE TABLE db.plain (id INT, v STRING)")
    return lake


def insert(lake: Lake, *rows: tuple[int, str]) -> None:
    lake.sql("INSERT INTO db.source VALUES " + ", ".join(f"({key}, '{value}')" for key, value in rows))


def run(lake: Lake, name: str, checkpoint: Path, **options: Any) -> None:
    source = lake.table("db.source").read_stream(read_stream_maxFilesPerTrigger=1)
    target = lake.table(f"db.{name}")
    target.write_stream(source, str(checkpoint), trigger={"availableNow": True}, **options).awaitTermination()


def rows(lake: Lake, name: str) -> list[tuple[int, str]]:
    return sorted((row.id, row.v) for row in lake.table(f"db.{name}").read().collect())


@LIMITS
def test_from_table_to_table_once_over_restarts(tables: Lake, tmp_path: Path) -> None:
    insert(tables, (1, "a"), (2, "a"))
    insert(tables, (2, "b"), (3, "b"))
    run(tables, "plain", tmp_path / "plain")
    insert(tables, (1, "c"))
    for _ in range(2):
        run(tables, "plain", tmp_path / "plain")
    assert rows(tables, "plain") == [(1, "a"), (1, "c"), (2, "a"), (2, "b"), (3, "b")]
    users = {snapshot.commit_user for snapshot in tables.table("db.plain").snapshots()}
    assert len(users) == 1


def test_latest_begins_with_what_the_newest_snapshot_changed(tables: Lake, tmp_path: Path) -> None:
    """As Apache Paimon's source for Spark does."""
    insert(tables, (1, "older"))
    insert(tables, (2, "newest"))
    target = tables.table("db.plain")
    for _ in range(2):
        source = tables.table("db.source").read_stream(scan_mode="latest")
        target.write_stream(source, str(tmp_path / "c"), trigger={"availableNow": True}).awaitTermination()
        insert(tables, (3, "after"))
    assert rows(tables, "plain") == [(2, "newest"), (3, "after")]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("mode", ["latest", "latest-full"])
def test_a_stream_begins_as_of_the_call(tables: Lake, tmp_path: Path, mode: str, first: bool) -> None:
    """A query looks where it begins some time after it was started: what was written meanwhile is what follows."""
    if first:
        insert(tables, (1, "older"))
        insert(tables, (2, "newest"))
    source = tables.table("db.source").read_stream(scan_mode=mode)
    insert(tables, (3, "after"))
    tables.table("db.source").write(tables.sql("SELECT 4 AS id, 'after' AS v"), mode="overwrite")
    target = tables.table("db.plain")
    target.write_stream(source, str(tmp_path / "c"), trigger={"availableNow": True}).awaitTermination()
    before = [(1, "older")] * (mode != "latest") + [(2, "newest")]
    assert rows(tables, "plain") == [*before * first, (3, "after")]  # overwrites are passed over


def test_two_places_to_start_at_are_refused_before_the_query_starts(tables: Lake) -> None:
    insert(tables, (1, "a"))
    source = tables.spark.readStream.format("bucketlake")
    with pytest.raises(Exception, match="Only one of the following parameters may be set"):
        wrong = source.options(**{"scan.snapshot-id": "1", "scan.timestamp-millis": "1"})
        _ = wrong.load(tables.table("db.source").path).schema  # Spark Connect looks at nothing before it is asked


@pytest.mark.slow
@LIMITS
def test_a_batch_that_comes_again_is_recognised(classic: Lake, tmp_path: Path) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    lake.sql("CREATE TABLE db.plain (id INT, v STRING)")
    insert(lake, (1, "a"))
    told: list[Any] = []
    heard: list[Any] = []
    end = subscribe(heard.append, BatchCommitted)
    run(lake, "plain", tmp_path / "one", told=told.append)
    end()
    assert [(event.batch, event.rows, event.again) for event in heard] == [(0, 1, False)]
    older = shutil.copytree(tmp_path / "one", tmp_path / "older")
    insert(lake, (2, "b"))
    run(lake, "plain", tmp_path / "one", told=told.append)
    assert [(done.batch, done.rows, done.again) for done in told] == [(0, 1, False), (1, 1, False)]
    for name in os.listdir(tmp_path / "one" / "commits"):
        if name.strip(".").removesuffix(".crc") == "1":
            (tmp_path / "one" / "commits" / name).unlink()
    run(lake, "plain", tmp_path / "one", told=told.append)
    assert told[-1].again and told[-1].batch == 1
    assert rows(lake, "plain") == [(1, "a"), (2, "b")]
    insert(lake, (3, "c"))
    with pytest.raises(StreamingQueryException, match="other rows"):
        run(lake, "plain", older)
    lake.sql("CREATE TABLE db.other (id INT, v STRING)")
    with pytest.raises(StreamingQueryException, match="has not written to this table") as refused:
        run(lake, "other", tmp_path / "one")
    ended = refused.value
    assert isinstance(ended, InvalidError) and ended.getCondition() == "STREAM_FAILED"
    assert len(str(ended).splitlines()) == 1 and str(ended).endswith("]: use a checkpoint of its own for each table")


def test_a_stateful_query_goes_on_behind_a_batch_that_comes_again(classic: Lake, tmp_path: Path) -> None:
    """Spark wants every batch evaluated: what its operators keep would lack the rows of one that was not."""
    lake, told = classic, []
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    lake.sql("CREATE TABLE db.plain (id INT, v STRING)")

    def once() -> None:
        rows_in = lake.table("db.source").read_stream().dropDuplicates(["id"])
        how = {"trigger": {"availableNow": True}, "on_batch": told.append}
        lake.table("db.plain").write_stream(rows_in, str(tmp_path / "c"), **how).awaitTermination()

    insert(lake, (1, "a"))
    once()
    for note in (tmp_path / "c" / "commits").iterdir():  # as if the driver had died before Spark noted the batch
        note.unlink()
    once()
    insert(lake, (1, "b"), (2, "b"))
    once()
    assert [(one.batch, one.again) for one in told] == [(0, False), (0, True), (1, False)]
    assert rows(lake, "plain") == [(1, "a"), (2, "b")]


def test_changes_with_their_kinds(classic: Lake, tmp_path: Path) -> None:
    lake = classic
    lake.sql(
        "CREATE TABLE db.t (id INT, v STRING) TBLPROPERTIES ('primary-key'='id','bucket'='1','changelog-producer'='lookup')"
    )
    table, told = lake.table("db.t"), []
    lake.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'a')")

    def take(frame: Any, number: int) -> None:
        told.extend(tuple(row) for row in frame.collect())

    def follow() -> None:
        stream = table.read_stream(read_changelog=True).writeStream.foreachBatch(take)
        query = stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        query.awaitTermination()

    follow()
    lake.sql("INSERT INTO db.t VALUES (1, 'b')")
    lake.sql("DELETE FROM db.t WHERE id = 2")
    follow()
    assert sorted(told) == [("+I", 1, "a"), ("+I", 2, "a"), ("+U", 1, "b"), ("-D", 2, "a"), ("-U", 1, "a")]
    lake.sql("CREATE TABLE db.second (id INT, v STRING) TBLPROPERTIES ('primary-key'='id','bucket'='1')")
    changes, second = table.read_stream(read_changelog=True), lake.table("db.second")
    with pytest.raises(InvalidError, match=r"extra columns: `rowkind`.*withColumnRenamed\(\"rowkind\""):
        second.write_stream(changes, checkpoint=tmp_path / "s")
    with pytest.raises(InvalidError, match="a trigger is a mapping.*processingTime"):
        second.write_stream(changes.drop("rowkind"), checkpoint=tmp_path / "s", trigger="5 seconds")
    assert not (tmp_path / "s").exists(), "refused before a query starts"
    renamed = changes.withColumnRenamed("rowkind", "_VALUE_KIND")
    second.write_stream(renamed, checkpoint=tmp_path / "s", trigger={"availableNow": True}).awaitTermination()
    assert [tuple(row) for row in second.read().collect()] == [(1, "b")]


def test_small_files_share_tasks(classic: Lake, tmp_path: Path) -> None:
    classic.sql("CREATE TABLE db.source (id INT, v STRING)")
    table, seen = classic.table("db.source"), []
    for number in range(12):
        table.table.write_arrow(pa.table({"id": pa.array([number], pa.int32()), "v": ["a"]}))

    def take(frame: DataFrame, number: int) -> None:
        seen.extend(frame.select("id", F.spark_partition_id().alias("task")).collect())

    stream = table.read_stream().writeStream.foreachBatch(take).trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()
    assert sorted(row.id for row in seen) == list(range(12))
    assert len({row.task for row in seen}) == min(12, parallelism(classic.spark))


@pytest.mark.slow
def test_output_modes(classic: Lake, tmp_path: Path) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    lake.sql("CREATE TABLE db.counts (id INT NOT NULL, n BIGINT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    lake.sql("CREATE TABLE db.whole (id INT, n BIGINT)")
    insert(lake, (1, "a"), (1, "b"), (2, "a"))

    def count(name: str, mode: str) -> list[tuple[int, int]]:
        counts = lake.table("db.source").read_stream().groupBy("id").count().withColumnRenamed("count", "n")
        table = lake.table(f"db.{name}")
        query = table.write_stream(counts, str(tmp_path / name), mode=mode, trigger={"availableNow": True})
        query.awaitTermination()
        return sorted(tuple(row) for row in table.read().collect())

    assert count("counts", "update") == count("whole", "complete") == [(1, 2), (2, 1)]
    insert(lake, (1, "c"))
    assert count("counts", "update") == count("whole", "complete") == [(1, 3), (2, 1)]
    table = lake.table("db.whole")
    with pytest.raises(UnsupportedError, match="primary key"):
        table.write_stream(lake.table("db.source").read_stream(), str(tmp_path / "x"), mode="update")
    with pytest.raises(InvalidError, match="not a streaming DataFrame"):
        table.write_stream(table.read(), str(tmp_path / "x"))
    batch = lake.spark.sql("SELECT 9 AS id, 9L AS n")
    for number in (5, 5, 6):
        table.write_batch(batch, "mine", number)
    assert table.read().where("id = 9").count() == 2


@LIMITS
def test_compaction_beside_a_query_leaves_its_numbers_in_order(classic: Lake, tmp_path: Path) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    trigger = "'num-sorted-run.compaction-trigger'='2', 'num-sorted-run.stop-trigger'='9'"
    lake.sql(f"CREATE TABLE db.keyed (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1', {trigger})")
    for number in range(5):
        insert(lake, (number, "a"))
    run(lake, "keyed", tmp_path / "keyed")
    for thread in threading.enumerate():
        if thread.name == "bucketlake-lane":
            thread.join()
    table = lake.table("db.keyed")
    kinds = {snapshot.commit_kind: snapshot.commit_user for snapshot in table.snapshots()}
    query = kinds[CommitKind.APPEND]
    assert kinds[CommitKind.COMPACT] != query
    numbers = [s.commit_identifier for s in table.snapshots() if s.commit_user == query]
    assert numbers == sorted(numbers) and len(numbers) == 5
    assert table.read().count() == 5


def test_columns_that_are_dropped_while_a_query_runs_end_it(classic: Lake) -> None:
    """Their values would be in files that nobody reads; a query that starts is refused in the same way."""
    lake = classic
    lake.sql("CREATE TABLE db.t (id INT, v STRUCT<a: INT, b: INT>, w INT, x INT)")
    table = lake.table("db.t")
    batch = lake.spark.sql("SELECT 1 AS id, named_struct('a', 1, 'b', 2) AS v, 1 AS w, 1 AS x")
    table.write_batch(batch, "q", 0)
    lake.sql("ALTER TABLE db.t RENAME COLUMN x TO y")
    table.write_batch(batch, "q", 1)
    lake.sql("ALTER TABLE db.t DROP COLUMN w")
    table.write_batch(batch, "q", 1)  # done: no rows are written
    with pytest.raises(InvalidError, match=r"were dropped since the table was opened.*'w'"):
        table.write_batch(batch, "q", 2)
    table.write_batch(batch.drop("w", "v"), "q", 2)
    lake.sql("ALTER TABLE db.t DROP COLUMN v.b")
    with pytest.raises(InvalidError, match=r"'v\.b'"):
        table.write_batch(batch.drop("w"), "q", 3)
    found = [tuple(row) for row in lake.sql("SELECT id, v.a, y FROM db.t ORDER BY v.a NULLS LAST").collect()]
    assert found == [(1, 1, 1), (1, 1, 1), (1, None, 1)]


@LIMITS
def test_a_consumer_stands_behind_the_last_batch_of_a_query_that_has_ended(classic: Lake, tmp_path: Path) -> None:
    """Another checkpoint goes on there: Spark tells a source of a batch's end as the next one begins, if one does."""
    lake = classic
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    lake.sql("CREATE TABLE db.plain (id INT, v STRING)")
    source, target = lake.table("db.source"), lake.table("db.plain")
    for number in range(3):
        insert(lake, (number, "a"))
        stream = source.read_stream(consumer_id="c", read_stream_maxFilesPerTrigger=1)
        target.write_stream(stream, str(tmp_path / str(number)), trigger={"availableNow": True}).awaitTermination()
        assert source.consumers()["c"] == number + 2 and not source.consumers()["c"].snapshots
    assert rows(lake, "plain") == [(0, "a"), (1, "a"), (2, "a")]


def test_a_batch_that_comes_again_makes_up_for_its_compaction(classic: Lake) -> None:
    lake = classic
    options = "'primary-key'='id', 'bucket'='1', 'deletion-vectors.enabled'='true'"
    lake.sql(f"CREATE TABLE db.t (id INT, v STRING) TBLPROPERTIES ({options})")
    table, batch = lake.table("db.t"), lake.spark.sql("SELECT 1 AS id, 'a' AS v")
    table.with_options({"write-only": "true"}).write_batch(batch, "q", 0)  # died before the compaction
    assert table.read().count() == 0
    table.write_batch(batch, "q", 0)
    assert [row.id for row in table.read().collect()] == [1]


SHAPES = {
    "keyed": "PARTITIONED BY (v) TBLPROPERTIES ('primary-key'='id,v', 'bucket'='2')",
    "dynamic": "PARTITIONED BY (v) TBLPROPERTIES ('primary-key'='id,v', 'bucket'='-1')",
    "cross": "PARTITIONED BY (v) TBLPROPERTIES ('primary-key'='id', 'bucket'='-1')",
    "postpone": "PARTITIONED BY (v) TBLPROPERTIES ('primary-key'='id,v', 'bucket'='-2')",
    "append": "PARTITIONED BY (v)",
    "ordered": "TBLPROPERTIES ('clustering.columns'='id')",
}


def observed(lake: Lake, name: str, checkpoint: Path) -> int:
    """How many rows Spark's progress says that a stream of all rows had, observed before the sink."""
    rows_in = lake.table("db.source").read_stream().observe("in", F.count(F.lit(1)).alias("rows"))
    query = lake.table(f"db.{name}").write_stream(rows_in, str(checkpoint / name), trigger={"availableNow": True})
    query.awaitTermination()
    told = [progress["observedMetrics"]["in"] for progress in query.recentProgress]
    return sum(one["values"][0] if "values" in one else one["rows"] for one in told)  # PySpark's Connect: bare values


@pytest.mark.slow
def test_rows_are_evaluated_once_so_that_observed_metrics_are_exact(lake: Lake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE db.source (id INT, v STRING)")
    insert(lake, (1, "a"), (2, "b"), (3, "b"))
    for name in SHAPES if SOAK else ("keyed", "dynamic"):
        lake.sql(f"CREATE TABLE db.{name} (id INT, v STRING) {SHAPES[name]}")
        assert observed(lake, name, tmp_path) == 3, name
    made = lake.table("db.keyed").snapshots()[0]
    assert (made.properties, made.operation, made.commit_identifier) == (None, "WRITE", 0)


@pytest.mark.slow
@LIMITS
def test_tags_follow_a_streams_watermark(classic: Lake, tmp_path: Path) -> None:
    classic.sql("CREATE TABLE db.source (id INT, at TIMESTAMP)")
    options = "'tag.automatic-creation'='watermark', 'tag.creation-period'='hourly'"
    classic.sql(f"CREATE TABLE db.t (id INT, at TIMESTAMP) TBLPROPERTIES ({options})")
    for number, time in enumerate(("10:10", "11:20", "12:30", "12:40")):
        classic.sql(f"INSERT INTO db.source VALUES ({number}, TIMESTAMP '2026-01-01 {time}:00')")
    source = classic.table("db.source").read_stream(read_stream_maxFilesPerTrigger=1)
    target = classic.table("db.t")
    query = target.write_stream(
        source.withWatermark("at", "0 seconds"), str(tmp_path / "c"), trigger={"availableNow": True}
    )
    query.awaitTermination()
    for thread in threading.enumerate():
        if thread.name == "bucketlake-lane":
            thread.join()
    marks = {snapshot.id: snapshot.watermark for snapshot in target.snapshots()}
    assert len(marks) == 4 and list(marks.values())[1:] == sorted(list(marks.values())[1:])
    assert {name: tag.id for name, tag in target.tags().items()} == {
        "2026-01-01 09": 2,
        "2026-01-01 10": 3,
        "2026-01-01 11": 4,
    }


def test_arguments_of_another_type(classic: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before anything is made: Spark would make a checkpoint that is None a folder "None" where it runs."""
    monkeypatch.chdir(tmp_path)
    classic.sql("CREATE TABLE db.typed (k INT, v STRING)")
    table, more = classic.table("db.typed"), str(tmp_path / "checkpoint")
    stream = classic.spark.readStream.format("rate").load().selectExpr("CAST(value AS INT) AS k", "'s' AS v")
    calls: list[Callable[[], Any]] = [
        *(partial(table.write_stream, stream, given) for given in (None, 5, "", {"a": 1})),
        *(partial(table.process_stream, print, given) for given in (None, 5, "")),
        *(partial(table.write_stream, given, more) for given in (None, "db.typed", classic.sql("SELECT 1 AS k"))),
        partial(table.write_stream, stream, more, on_batch=5),
        partial(table.write_stream, stream, more, trigger=5),
        partial(table.write_stream, stream, more, mode=5),
        partial(table.process_stream, None, more),
        partial(table.process_stream, print, more, trigger="5 seconds"),
        partial(table.process_stream, print, more, trigger={"once": False}),
        partial(table.read_stream, columns="kv"),
        partial(table.read_stream, where=5),
        partial(table.write_batch, classic.sql("SELECT 1 AS k, 'a' AS v"), "q", None),
        partial(table.read, limit=1.5),
        partial(table.read, columns=5),
        partial(classic.sql_script, 5),
        partial(classic.write_table, classic.sql("SELECT 1 AS k"), "db.new", mode=5),
        partial(classic.write_table, classic.sql("SELECT 1 AS k"), 5),
        partial(classic.write_table, classic.sql("SELECT 1 AS k"), "db.new", partition_by=5),
        partial(classic.maintain, 5, once=True),
    ]
    before = sorted(tmp_path.rglob("*"))
    for call in calls:
        with pytest.raises(InvalidError):
            call()
    assert sorted(tmp_path.rglob("*")) == before
    assert not classic.spark.streams.active
    classic.sql("INSERT INTO db.typed VALUES (1, 'a')")
    assert table.read(columns=(name for name in ("v", "k"))).collect() == [("a", 1)]


def test_columns_of_any_name(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.named (`a,b` INT, ` s ` INT, `x``y` INT, z INT)")
    classic.sql("INSERT INTO db.named VALUES (1, 2, 3, 4)")
    table = classic.table("db.named")
    names = ["z", "a,b", "x`y", " s "]
    frame = table.read_stream(columns=names, where="`a,b` = 1")
    query = frame.writeStream.format("memory").queryName("named").trigger(availableNow=True).start()
    query.awaitTermination(60)
    found = classic.spark.table("named")
    assert (found.columns, found.collect()) == (names, [(4, 1, 3, 2)])
    of_source = classic.spark.read.format("bucketlake").option("columns", "`a,b`, z").load(table.path)
    assert (of_source.columns, of_source.collect()) == (["a,b", "z"], [(1, 4)])


def test_slips_are_told_before_a_query_starts(classic: Lake, tmp_path: Path) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    table = lake.table("db.t")
    for options, told in (
        ({"columns": ["idd"]}, "did you mean 'id'"),
        ({"where": "idd = 1"}, "did you mean 'id'"),
        ({"where": "id ="}, "cannot parse the condition"),
        ({"scan_mode": "from-timestamp", "scan_timestamp": "2026-13-01"}, "not a timestamp"),
        ({"scan_tag_name": "x"}, "a stream cannot start there"),
        ({"consumer_id": "a/b"}, "not the name of a consumer"),
        ({"read_changelog": "yes"}, "neither true nor false"),
        ({"read_changelog": 1}, "neither true nor false"),
    ):
        with pytest.raises((InvalidError, UnsupportedError), match=told):
            table.read_stream(**options)
    with pytest.raises(UnsupportedError, match="metadata is not read as a stream"):
        lake.table("db.t$snapshots").read_stream()
    assert table.read_stream(read_changelog="TRUE", columns=["rowkind", "id"]).columns == ["rowkind", "id"]
    frame = table.read_stream()
    with pytest.raises(InvalidError, match="did you mean 'availableNow'"):
        table.write_stream(frame, str(tmp_path / "c"), trigger={"availableNw": True})
    with pytest.raises(InvalidError, match="did you mean 'availableNow'"):
        table.process_stream(lambda *_: None, str(tmp_path / "c"), trigger={"availableNw": True})
    with pytest.raises(InvalidError, match="not a watermark"):
        table.write_batch(lake.spark.range(1).selectExpr("cast(id AS INT) id"), "q", 1, watermark="now")
    assert not (tmp_path / "c").exists()
    lake.sql("CREATE TABLE db.u (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    lake.sql("INSERT INTO db.t VALUES (1, 'a')")
    query = lake.table("db.u").write_stream(frame, str(tmp_path / "c"), mode="Append", trigger={"availableNow": True})
    query.awaitTermination()
    assert rows(lake, "u") == [(1, "a")]
