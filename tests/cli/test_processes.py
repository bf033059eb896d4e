"""What only a process shows: what a call loads, a reader that goes, Ctrl-C, colours on a terminal."""

from __future__ import annotations

import io
import os
import pty
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.cli import cdc as cli_cdc
from bucketlake.cli import main

COMMAND = [sys.executable, "-m", "bucketlake"]


def environment(**more: str) -> dict[str, str]:
    root = Path(bucketlake.__file__).parents[1]
    found = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    return {**found, "PYTHONPATH": str(root), "TERM": "xterm", **more}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of more rows than a pipe holds."""
    root = str(tmp_path_factory.mktemp("many"))
    table = bucketlake.open(root).create_table("t", pa.schema([("x", pa.int64())]))
    table.write_arrow(pa.table({"x": range(500_000)}))
    return root


def test_a_call_loads_what_it_uses(many: str) -> None:
    code = "import sys; from bucketlake.cli import main; main(); print(*sys.modules)"

    def loaded(*words: str) -> set[str]:
        run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment())
        return set(run.stdout.split())

    assert not {"pyarrow", "rich", "bucketlake.catalog"} & loaded("--version")
    libraries = {"pyspark", "pandas", "polars", "sqlglot", "rich", "pydantic"}
    assert not {*libraries, "pyarrow", "numpy", "bucketlake.table", "bucketlake.cli.load"} & loaded(
        "tables", "-w", many
    )
    for command in ("describe", "files", "snapshots"):
        rooms = {
            f"bucketlake.{name}" for name in ("ops.rows.read", "ops.commit.publish", "predicate.parse", "lsm.merge")
        }
        found = {*libraries, *rooms, "pyarrow", "numpy"} & loaded(command, "t", "-w", many)
        assert not found, command
    for words in (("cat", "t", "-n", "3"), ("diff", "t", "1"), ("fsck", "t"), ("compact", "t")):
        found = loaded(*words, "-w", many)
        assert "pyarrow" in found and not {"pyspark", "pandas"} & found, words


def test_a_reader_that_goes(many: str) -> None:
    run = subprocess.Popen(
        [*COMMAND, "cat", "t", "-w", many, "--format", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert run.stdout is not None
    assert run.stdout.readline() == b'{"x":0}\n'
    run.stdout.close()
    assert (run.wait(60), run.stderr.read() if run.stderr else b"") == (141, b"")


def test_ctrl_c(many: str) -> None:
    run: Any = subprocess.Popen(
        [*COMMAND, "watch", "-w", many, "--only", "compact", "--json"], stdout=subprocess.PIPE, env=environment()
    )
    assert b"leads" in run.stdout.readline()
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert (run.returncode, b"stopped" in out.splitlines()[-1]) == (0, True)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_ends_a_command_in_order(tmp_path: Path, number: int, status: int) -> None:
    words = ("import", "-", "t", "--format", "jsonl", "-y", "-w", str(tmp_path))
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    pipes["preexec_fn"] = lambda: signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may ignore it
    run: Any = subprocess.Popen([*COMMAND, *words], env=environment(), **pipes)
    run.stdin.write(b'{"x":1}\n' * 100_000)  # more than a pipe holds: it reads
    run.stdin.flush()
    run.send_signal(number)
    _, told = run.communicate(timeout=60)
    assert (run.returncode, told) == (status, b"\nwarning: interrupted: no rows were imported\n")


def test_what_the_caller_ignores_stays_ignored(many: str) -> None:
    words = ["nohup", *COMMAND, "watch", "-w", many, "--only", "compact", "--json"]
    run: Any = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
    assert b"leads" in run.stdout.readline()
    run.send_signal(signal.SIGHUP)
    run.send_signal(signal.SIGTERM)
    out, _ = run.communicate(timeout=60)
    assert (run.returncode, b"stopped" in out.splitlines()[-1]) == (0, True)


def test_ctrl_c_before_there_is_a_command() -> None:
    code = """
import importlib, sys
def struck(name): raise KeyboardInterrupt
import bucketlake.cli as cli
cli.import_module = struck
sys.exit(cli.main())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment())
    assert (run.returncode, run.stderr) == (130, b"\ninterrupted\n")


@pytest.mark.parametrize(("more", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_and_width_of_a_terminal(many: str, more: dict[str, str], coloured: bool) -> None:
    ours, theirs = pty.openpty()
    wanted = environment(COLUMNS="80", **more)
    with subprocess.Popen([*COMMAND, "files", "t", "-w", many], stdout=theirs, stderr=theirs, env=wanted) as run:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # the terminal is closed
                break
            if not part:
                break
            text += part
    os.close(ours)
    assert run.returncode == 0
    assert (b"\x1b[1m" in text) == coloured
    plain = text.decode().replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert "…" in plain


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("tables -w {many}", b"error: No space left on device"),
        ("tables --json -w {many}", b'"what": "No space left on device"'),
        ("--version", b"error: No space left on device"),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_the_output(many: str, words: str, told: bytes, unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        given = [*COMMAND, *words.format(many=many).split()]
        run = subprocess.run(given, stdout=full, stderr=subprocess.PIPE, env=environment(PYTHONUNBUFFERED=unbuffered))
    assert run.returncode == 1 and told in run.stderr
    assert run.stderr.count(b"No space") == 1 and b"File" not in run.stderr


def test_streams_that_the_caller_closed(many: str) -> None:
    """Their numbers are no file's of a table, and what a library prints is in none."""
    code = "import os, sys; from bucketlake.cli import main; status = main(); "
    code += "print(status, *(os.readlink(f'/proc/self/fd/{n}') for n in range(3)), file=open(os.environ['TOLD'], 'w'))"
    told = Path(many) / "told"
    words = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} cat nowhere -w {many} <&- >&- 2>&-"
    subprocess.run(["sh", "-c", words], check=True, env=environment(TOLD=str(told)))
    assert told.read_text().split() == ["1", *["/dev/null"] * 3]


class Unread(io.StringIO):
    """Standard output whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("once", [[], ["--once"]])
def test_batches_that_nobody_reads_of_end_a_query_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], once: list[str]
) -> None:
    """`cdc … | head -1`: the pipe's end was an error of the query, which was told with status 1."""
    done = SimpleNamespace(batch=0, events=1, dead_letters=0, letters=None, tables=[], millis=1)
    stopped = threading.Event()

    def sync(*_: Any, on_batch: Any, **how: Any) -> Any:
        on_batch(done)
        return SimpleNamespace(awaitTermination=stopped.wait, stop=stopped.set)

    monkeypatch.setattr(cli_cdc, "_lake", lambda given: None)
    monkeypatch.setattr("bucketlake.cdc.sync_table", sync)
    monkeypatch.setattr(sys, "stdout", Unread())
    words = ["cdc", "table", "t", "--files", "/events", "--format", "canal-json", "--checkpoint", str(tmp_path / "c")]
    assert main(["-w", str(tmp_path), *words, *once]) == 141
    assert stopped.is_set() and "error" not in capsys.readouterr().err
