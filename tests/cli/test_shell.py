"""The shell: what Enter does, what may come next, statements and errors as text and for programs, cancelling."""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from pyspark.sql.types import StringType, StructField, StructType

import bucketlake
from bucketlake.cli import main
from bucketlake.cli.output import Console
from bucketlake.cli.shell import helpers, prompt, running
from bucketlake.cli.shell.words import Known, suggestions
from bucketlake.spark.session import Lake


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("SELECT 1; -- done;", True),
        ("SELECT 1 -- done;", False),
        ("/* open ;", False),
        ("\\d", True),
        ("quit", True),
        ("help", True),
        ("help me", False),
        ("BEGIN;", True),
        ("BEGIN DECLARE x INT;", False),
        ("BEGIN IF true THEN SELECT 1; END IF;", False),
        ("SELECT 1; BEGIN IF true THEN SELECT 1; END IF; END;", True),
    ],
)
def test_a_semicolon_ends_a_statement(text: str, whole: bool) -> None:
    assert prompt.is_whole(text) is whole


def _known(folder: Path) -> Known:
    catalog = bucketlake.open(folder)
    catalog.create_database("shop")
    schema = pa.schema([("id", pa.int64()), ("status", pa.string())])
    catalog.create_table("shop.orders", schema)
    catalog.create_table("default.days", schema)
    catalog.create_table("default.my-days", pa.schema([("a day", pa.int64())]))
    return Known(catalog, lambda: "default")


def test_what_may_come_next(tmp_path: Path) -> None:
    known = _known(tmp_path)
    for text, expected, no in (
        ("SELECT * FROM ", {"days", "shop."}, {"id", "SELECT"}),
        ("SELECT * FROM shop.o", {"shop.orders"}, {"days"}),
        ("SELECT * FROM my", {"`my-days`"}, {"days", "my-days"}),
        ("SELECT * FROM `my", {"`my-days`"}, {"days"}),
        ("SELECT * FROM `my-days` WHERE a", {"`a day`"}, {"a day"}),
        ("SELECT * FROM days$sn", {"`days$snapshots`"}, {"days", "`days$files`"}),
        ("SELECT * FROM shop.orders$sn", {"shop.`orders$snapshots`"}, {"days"}),
        ("SELECT * FROM days WHERE st", {"status"}, {"days"}),
        ("SELECT o.st FROM x JOIN shop.orders o ON o.i", {"o.id"}, set()),
        ("sel", {"SELECT"}, {"days"}),
        ("USE s", {"shop", "sys"}, {"days"}),
        ("CALL ", {"sys.compact(", "sys.rescale("}, {"days"}),
        ("CALL sys.comp", {"sys.compact(", "sys.compact_database("}, {"sys.rescale("}),
        ("CALL sys.compact(", {"table => "}, {"days"}),
        ("CALL sys.compact(table => 'a', pa", {"partitions => "}, {"table => "}),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('buck", {"bucket", "bucket-key"}, {"days"}),
        ("ALTER TABLE days SET TBLPROPERTIES ('a' = 'b', 'file.form", {"file.format"}, set()),
        ("SELECT 'x", set(), {"days"}),
        ("DESCRIBE no.", set(), {"days"}),
    ):
        found = {name for name, _ in suggestions(text, known)}
        assert expected <= found, (text, found)
        assert not found & no, (text, found & no)


class _Start:
    """A lake that is there."""

    def __init__(self, lake: Any) -> None:
        self.catalog, self._lake = lake.catalog, lake
        self.is_ready = True

    @property
    def database(self) -> str:
        return str(self._lake.current_database)

    def lake(self) -> Any:
        return self._lake


@pytest.mark.spark
def test_a_conversation(
    classic: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    runner: Any = running.Runner(_Start(classic), Console("table"))  # type: ignore[arg-type]
    words = prompt.Words(runner)
    typed = (
        "CREATE TABLE db.t (id INT,\nname STRING);\n"
        "INSERT INTO db.t VALUES (1, 'a'), (2, 'b');\n"
        "USE db;\n\\d\n\\d t\n\\s t\n\\f db.t\n\\nothing\n\\limit 1\nSELECT * FROM t ORDER BY id;\n"
        "\\format jsonl\nSELECT id AS a, id AS a FROM t WHERE id = 2;\n"
        "SELECT nope FROM t;\nSELECT 'secret-key=abc';\n\\limit x\nhelp\n\\q\n"
    )
    with create_pipe_input() as pipe:
        pipe.send_text(typed.replace("\n", "\r"))
        session: PromptSession[str] = prompt._session(words, input=pipe, output=DummyOutput())
        assert prompt.talk(runner, session) == 0
    told = capsys.readouterr()
    assert "db         t" in told.out or "t" in told.out
    assert "APPEND" in told.out
    assert "bucket-0" in told.out
    assert '{"a":2,"a_2":2}' in told.out
    assert "the first 1 row: \\limit N shows more" in told.err
    assert "no such command of the shell" in told.err
    assert "a limit is a number" in told.err
    assert "         ^^^^" not in told.out
    assert "column 8" in told.err
    assert "\\timing" in told.out
    kept = (tmp_path / "state" / "bucketlake" / "history").read_text()
    assert "SELECT nope FROM t;" in kept
    assert "abc" not in kept
    completions = [one.text for one in words.get_completions(Document("\\d "), None)]  # type: ignore[arg-type]
    assert "t" in completions


@pytest.mark.spark
def test_a_statement_is_cancelled(classic: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """One Ctrl-C, as a terminal sends it, ends what runs, Spark's job too, and the session goes on."""
    runner: Any = running.Runner(_Start(classic), Console("table"))  # type: ignore[arg-type]
    jobs = classic.spark.sparkContext.statusTracker()  # type: ignore[no-untyped-call]
    main = threading.main_thread().ident or 0

    def strike() -> None:
        until = time.monotonic() + 60
        while not jobs.getActiveJobsIds() and time.monotonic() < until:
            time.sleep(0.1)
        signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    emergency = threading.Timer(120, classic.spark.sparkContext.cancelAllJobs)
    timer = threading.Thread(target=strike)
    try:
        timer.start()
        emergency.start()
        with pytest.raises(KeyboardInterrupt):
            runner.script("SELECT count(*) FROM range(0, 200000000000L, 1, 2) WHERE id % 7 = rand();")
        assert emergency.is_alive(), "Ctrl-C did not cancel the job"
        assert not jobs.getActiveJobsIds()
    finally:
        emergency.cancel()
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert runner.script("SELECT 1 AS one") == 0
    assert capsys.readouterr().out.split() == ["one", "1"]


class _Fetching:
    """A lake whose jobs, like Spark's, are waited for even where the fetch was interrupted. `late`: how often a cancel
    comes before there is a job."""

    columns = ("x",)
    schema = StructType([StructField("x", StringType())])
    catalog = None

    def __init__(self, late: int) -> None:
        self.spark, self._late = self, late
        self._cancelled = threading.Event()

    def sql(self, text: str) -> _Fetching:
        return self

    def interruptAll(self) -> None:
        self._late -= 1
        if self._late < 0:
            self._cancelled.set()

    def toArrow(self) -> pa.Table:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            assert not logging.getLogger("py4j").isEnabledFor(logging.CRITICAL)  # which logs it with many lines
            if not self._cancelled.wait(30):
                raise AssertionError("the job was not cancelled")
            raise RuntimeError("the job was cancelled")


@pytest.mark.spark
def test_an_interrupt_after_the_commit_names_it(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the statement for undone runs it again, and has its rows twice."""
    runner: Any = running.Runner(_Start(classic), Console("table"))  # type: ignore[arg-type]
    runner.script("CREATE TABLE db.noted (id INT)")
    monkeypatch.setattr(runner, "_summary", _strike)
    with pytest.raises(KeyboardInterrupt):
        runner.script("INSERT INTO db.noted VALUES (1)")
    assert runner.cancelled() == "the statement that ran was cancelled after it had committed snapshot 1 of db.noted"
    with pytest.raises(KeyboardInterrupt):
        runner.script("SELECT * FROM db.noted")
    assert runner.cancelled() == "the statement that ran was cancelled"


def _strike(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("late", [0, 2])
def test_one_ctrl_c_is_enough_while_rows_are_fetched(late: int) -> None:
    lake = _Fetching(late)
    runner: Any = running.Runner(_Start(lake), Console("table"))  # type: ignore[arg-type]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.script("SELECT 1;")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert logging.getLogger("py4j").isEnabledFor(logging.CRITICAL)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.spark
def test_answers_and_statuses(
    classic: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: Future[Any] = Future()
    made.set_result(classic)
    monkeypatch.setattr(running.Start, "_make", lambda self: self._made.set_result(classic))
    monkeypatch.chdir(tmp_path)
    place = ["-w", str(tmp_path / "warehouse"), "sql"]

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main([*place, *arguments])
        told = capsys.readouterr()
        return status, told.out, told.err

    (tmp_path / "a.sql").write_text(
        "CREATE TABLE db.t (id INT);\nINSERT INTO db.t VALUES (1), (2);\nSELECT * FROM db.t"
    )
    assert call("-f", "a.sql", "--format", "csv") == (0, '"id"\n1\n2\n', "")
    assert json.loads(call("-e", "SELECT id FROM db.t WHERE id = 2", "--format", "json")[1]) == [{"id": 2}]
    assert call("-e", "SELECT 1 AS a", "-e", "SELECT 2 AS b", "--format", "jsonl")[1] == '{"a":1}\n{"b":2}\n'
    assert call("-e", "SELECT * FROM db.t ORDER BY id", "--limit", "1", "--format", "csv")[1] == '"id"\n1\n'
    status, out, err = call("-e", "SELECT 1 AS a;\nSELECT nope FROM db.t; SELECT 3")
    assert status == 1
    assert out.split() == ["a", "1"]
    assert "line 2, column 8:\nSELECT nope FROM db.t; SELECT 3\n       ^^^^\n" in err
    status, _, err = call("-e", "SELECT 1 AS a;\nSELECT cast(concat('x', id) AS INT) FROM db.t")
    assert status == 1 and "AS `" not in err
    assert "line 2, column 8:\nSELECT cast(concat('x', id) AS INT) FROM db.t\n       ^^^" in err
    status, _, err = call("-e", "ALTER TABLE db.no ADD COLUMN a INT", "--format", "json")
    assert status == 1
    assert json.loads(err)["error"]["kind"] == "NotFoundError"
    assert json.loads(call("-e", "SELECT nope", "--format", "json")[2])["error"]["kind"] == "InvalidError"
    assert call("-e", "SELECT 1", "--format", "xml")[0] == 2
    assert call("-e", "SELECT 1", "--conf", "no")[0] == 2
    status, _, err = call("-f", "nowhere.sql")
    assert (status, "no such file" in err) == (1, True)
    status, _, err = call("-e", "SELECT raise_error('X')")
    assert status == 1
    assert "X" in err
    assert "\tat " not in err


@pytest.mark.spark
def test_moments_in_the_zone_of_the_session(classic: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """In tables, also within other values; in UTC for programs, beside values that Arrow has no type for, too."""
    runner: Any = running.Runner(_Start(classic), Console("table"))  # type: ignore[arg-type]
    at, other = "timestamp'2026-01-01 10:00:00'", "timestamp_ntz'2026-01-01 09:00:00'"
    nested = f"array(named_struct('x', {at})) b, map({at}, interval '1' month) c"
    zone = str(classic.spark.conf.get("spark.sql.session.timeZone"))
    classic.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert runner.script(f"SELECT {at} A, {at} a, {other} n, {nested.split(', map')[0]}") == 0
        head, values = capsys.readouterr().out.splitlines()
        assert head.split() == ["A", "a", "n", "b"]
        shown = "2026-01-01T10:00:00.000000"
        assert values.split() == [shown, shown, "2026-01-01T09:00:00.000000", f'[{{"x":"{shown}"}}]']
        runner.form = "jsonl"
        assert runner.script(f"SELECT {at} a, {other} n, {nested}") == 0
        row = json.loads(capsys.readouterr().out)
    finally:
        classic.spark.conf.set("spark.sql.session.timeZone", zone)
    utc = "2026-01-01T15:00:00.000000Z"
    assert (row["a"], row["n"], row["b"]) == (utc, "2026-01-01T09:00:00.000000", [{"x": utc}])
    assert "INTERVAL '1' MONTH" in row["c"]


def test_helpers_are_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "shell.md").read_text()
    for name in helpers.HELPERS:
        assert f"`{name}" in text
