"""Streaming queries over folders of files: the whole way, started again, by the command, through a PostgreSQL and a
Kafka."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import quick

from bucketlake import cdc
from bucketlake.cli.app import run
from bucketlake.errors import CorruptError, InvalidError, NotFoundError
from bucketlake.spark.session import Lake

from .feeds import debezium

ROOT = Path(__file__).parents[2]


def _arrive(folder: Path, name: str, *events: Any) -> None:
    folder.mkdir(exist_ok=True)
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    (folder / f"{name}.part").write_text("\n".join(lines) + "\n")
    (folder / f"{name}.part").rename(folder / f"{name}.json")


@pytest.mark.slow
def test_a_stream_of_files(lake: Lake, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "events", str(tmp_path / "checkpoint")
    source = cdc.files(str(folder), format="debezium-json", pathGlobFilter="*.json")
    once = {"availableNow": True}

    def sync() -> None:
        cdc.sync_table(lake, source, "db.t", checkpoint, primary_keys="id", trigger=once).awaitTermination()

    _arrive(
        folder, "1", debezium("c", None, {"id": 1, "v": "a"}), "", "broken", debezium("c", None, {"id": 2, "v": "a"})
    )
    sync()
    _arrive(
        folder, "2", debezium("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b", "w": 1}), debezium("d", {"id": 2}, None)
    )
    sync()
    sync()
    assert [tuple(row) for row in lake.sql("SELECT * FROM db.t").collect()] == [("1", "b", "1")]
    letters = lake.sql("SELECT line, event, reason, file LIKE '%1.json' FROM db.t_dead_letters").collect()
    assert [tuple(row) for row in letters] == [(3, "broken", "not a JSON object", True)]
    assert len(lake.table("db.t").snapshots()) == 2
    with pytest.raises(InvalidError, match="another synchronisation"):
        cdc.sync_table(lake, source, "db.u", checkpoint, trigger=once)
    foreign = tmp_path / "foreign"  # of a query that has run for long: Spark keeps the newest notes alone
    for kind in ("offsets", "commits"):
        (foreign / kind).mkdir(parents=True)
        (foreign / kind / "150").write_text("v1\n{}")
    with pytest.raises(InvalidError, match="the checkpoint is of another query"):
        cdc.sync_table(lake, source, "db.u", str(foreign), trigger=once)
    (foreign / "metadata").touch()
    with pytest.raises(CorruptError, match=f"{foreign}/metadata"):
        cdc.sync_table(lake, source, "db.u", str(foreign), trigger=once)
    with pytest.raises(CorruptError, match=f"{foreign}/metadata"):
        lake.table("db.t").write_stream(lake.table("db.t").read_stream(), str(foreign), trigger=once)


def test_the_command(classic: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "events"
    _arrive(folder, "1", {"a": 1}, {"a": 2}, "x")
    place = ["--warehouse", classic.catalog.warehouse, "--checkpoint", str(tmp_path / "checkpoint"), "--format", "json"]
    options = ["--files", str(folder), "--source-option", "pathGlobFilter=*.json", "--once"]
    assert run(["cdc", "table", "db.t", *place, *options, "--json", "--computed-column", "b=upper(a)"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["events"], told["dead_letters"], told["tables"][0]["rows"]) == (3, 1, {"insert": 2})
    assert told["letters"] == "db.t_dead_letters" and told["tables"][0]["new"]
    latin = '{"a": "Zürich"}'.encode("latin-1")  # ended the query, again and again
    (folder / "2.part").write_bytes(latin + b'\n{"a": 3}\n')
    (folder / "2.part").rename(folder / "2.json")
    for said, wanted in (("out", "; db.t 1 insert; 1 dead letter: bucketlake cat -w "), ("err", "nothing new\n")):
        assert run(["cdc", "table", "db.t", *place, *options, "--computed-column", "b=upper(a)"]) == 0
        assert wanted in getattr(capsys.readouterr(), said)
    letter = classic.sql("SELECT reason, line, unbase64(event) FROM db.t_dead_letters WHERE batch = 1").collect()
    assert [tuple(row) for row in letter] == [("not UTF-8", 1, latin)]
    (folder / "2.json").unlink()  # a batch that comes again has lost what it read: Spark would write it without
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    assert run(["cdc", "table", "db.t", *place, *options]) == 1
    assert re.search(r"files of events are gone.*2\.json.*put them back", capsys.readouterr().err, re.DOTALL)
    (folder / "2.json").touch()
    assert run(["cdc", "table", "db.t", *place, *options]) == 0
    capsys.readouterr()
    assert run(["cdc", "database", "db", *place, *options]) == 1
    assert "which table" in capsys.readouterr().err
    assert run(["cdc", "table", "db.t", *place]) == 2
    assert "--kafka" in capsys.readouterr().err


def test_the_command_says_which_line_ended_it(
    classic: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said where in Spark the query had failed."""
    folder = tmp_path / "events"
    _arrive(folder, "1", {"a": 1}, "x")
    where = ["--warehouse", classic.catalog.warehouse, "--checkpoint", str(tmp_path / "checkpoint")]
    how = ["--files", str(folder), "--format", "json", "--once", "--on-error", "stop"]
    assert run(["cdc", "table", "db.t", *where, *how]) == 1
    told = capsys.readouterr().err
    assert "error: an event cannot be written [reason=not a JSON object, file=file:" in told
    assert told.endswith("1.json, line=2]\n  do: --on-error dead-letter puts such events aside\n")


def test_what_is_no_source_of_events_leaves_the_checkpoint_free(classic: Lake, tmp_path: Path) -> None:
    """A folder that was spelled wrong had taken the checkpoint, and the right one was refused by it."""
    folder, checkpoint, once = tmp_path / "events", str(tmp_path / "checkpoint"), {"availableNow": True}
    for sync in (cdc.sync_table, cdc.sync_database):
        with pytest.raises(InvalidError, match=r"not a source of events \[type=str\].*cdc.files"):
            sync(classic, str(folder), "db", checkpoint)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match=r"no such folder \[path=.*eventss\]"):
        source = cdc.files(f"{folder}s", format="debezium-json")
        cdc.sync_table(classic, source, "db.t", checkpoint, primary_keys="id", trigger=once)
    _arrive(folder, "1", debezium("c", None, {"id": 1, "v": "a"}))
    source = cdc.files(str(folder), format="debezium-json", pathGlobFilter="*.json")
    cdc.sync_table(classic, source, "db.t", checkpoint, primary_keys="id", trigger=once).awaitTermination()
    assert [tuple(row) for row in classic.sql("SELECT * FROM db.t").collect()] == [("1", "a")]


@pytest.mark.slow
@pytest.mark.peer
def test_a_postgres_through_a_kafka(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "cdc.py")]
    environment = quick.environment(tmp_path / "quick")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    missing = [line for line in done.stderr.splitlines() if line.startswith("PEER MISSING")]
    if missing:
        pytest.skip(missing[0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "orders: 181 rows, the same on both sides" in done.stdout
    assert "customers: 8 rows, the same on both sides" in done.stdout


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"trigger": {"availableNw": True}}, "did you mean 'availableNow'"),
        ({"table_options": {"bucket": "x"}}, "Could not parse value 'x'"),
        ({"table_options": ["bucket"]}, "argument=table_options, given=list"),
        ({"including_tables": ["orders"]}, "argument=including_tables, given=list"),
        ({"primary_keys": [1]}, "argument=primary_keys, given=int"),
        ({"on_batch": 3}, "not a function"),
        ({"metadata_columns": ["op_tss"]}, "did you mean 'op_ts'"),
    ],
)
def test_arguments_are_refused_before_a_query_starts(
    classic: Lake, tmp_path: Path, how: dict[str, Any], told: str
) -> None:
    """The first batch met them, within an error of Spark's."""
    (tmp_path / "events").mkdir()
    source = cdc.files(str(tmp_path / "events"), format="json")
    with pytest.raises(InvalidError, match=told):
        cdc.sync_table(classic, source, "db.t", str(tmp_path / "checkpoint"), **how)
    with pytest.raises(NotFoundError, match="no such database.*did you mean 'db'"):
        cdc.sync_table(classic, source, "dbb.t", str(tmp_path / "checkpoint"))
    with pytest.raises(InvalidError, match="earliest, latest, or Spark's JSON"):
        cdc.kafka("host:9092", "t", format="json", starting="late")
    with pytest.raises(InvalidError, match=r"spark\.jars\.packages to org\.apache\.spark:spark-sql-kafka"):
        cdc.sync_table(classic, cdc.kafka("host:9092", "t", format="json"), "db.t", str(tmp_path / "checkpoint"))
    assert not (tmp_path / "checkpoint").exists()
