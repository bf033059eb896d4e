"""Magics of notebooks, and errors there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import bucketlake
from bucketlake import traces
from bucketlake.errors import InvalidError
from bucketlake.spark.session import Lake


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))  # its folder goes first
    made.run_line_magic("load_ext", "bucketlake")
    yield made
    made.run_line_magic("unload_ext", "bucketlake")
    assert made.find_cell_magic("lake") is None
    assert made.custom_exceptions == ()
    InteractiveShell.clear_instance()


@pytest.mark.spark
def test_cells(classic: Lake, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.push({"lake": classic, "day": "it's", "least": 1})
    shell.run_cell(
        "%%lake late\nCREATE TABLE db.t (id INT, d STRING); INSERT INTO db.t VALUES (1, :day), (2, '<b>');\n"
        "SELECT * FROM db.t WHERE id >= :least ORDER BY id"
    )
    capsys.readouterr()
    assert shell.user_ns["late"].count() == 2
    shown = shell.user_ns["_"]
    assert repr(shown) == "id  d\n1   it's\n2   <b>"
    assert "<td>&lt;b&gt;</td>" in shown._repr_html_()
    shell.run_cell("%lake")
    assert "db.t" in shell.user_ns["_"]._repr_html_()
    wrong = shell.run_cell("%%lake\nSELECT 1;\nSELECT nope\nFROM db.t")
    assert isinstance(wrong.error_in_exec, bucketlake.BucketlakeError)
    told = capsys.readouterr()
    text = told.out + told.err
    assert "line 2, column 8:" in text
    assert "statement 2 of 2" in text
    assert len(text.splitlines()) < 15
    shell.run_cell("def mine():\n    return lake.sql(\"SELECT raise_error('out') FROM db.t\").collect()\nmine()")
    told = capsys.readouterr()
    text = told.out + told.err
    assert "out" in text
    assert "return lake.sql" in text
    assert "org.apache" not in text
    assert len(text.splitlines()) < 15


@pytest.mark.spark
def test_moments_are_in_the_zone_of_the_session(classic: Lake, shell: Any) -> None:
    shell.push({"lake": classic})
    zone = str(classic.spark.conf.get("spark.sql.session.timeZone"))
    classic.spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        shell.run_cell("%%lake\nSELECT timestamp'2026-01-01 10:00:00' a, timestamp_ntz'2026-01-01 09:00:00' b")
    finally:
        classic.spark.conf.set("spark.sql.session.timeZone", zone)
    assert "2026-01-01 10:00:00  2026-01-01 09:00:00" in repr(shell.user_ns["_"])


@pytest.mark.spark
def test_a_warehouse_is_a_folder_or_a_variable(classic: Lake, shell: Any, tmp_path: Path) -> None:
    """A variable that held a `Path` was taken for the name of a folder."""
    shell.push({"where": tmp_path / "w", "named": str(tmp_path / "n")})
    for text, folder in (("where", "w"), ("named", "n"), (str(tmp_path / "x"), "x")):
        shell.run_cell(f"%lake {text}")
        assert shell.user_ns["lake"].catalog.warehouse.endswith(f"/{folder}")


def test_magics_say_what_is_missing(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for text, told in (
        ("%lake", "no lake yet"),
        ("%%lake\nSELECT 1", "no lake yet"),
        ("%lake a b", "takes a warehouse"),
        ("%%lake a.b\nSELECT 1", "name of a variable"),
    ):
        result = shell.run_cell(text)
        assert isinstance(result.error_in_exec or result.error_before_exec, InvalidError), text
        shown = capsys.readouterr()
        assert told in shown.out + shown.err


def test_traces_are_of_the_users_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = compile("def mine():\n    open('nowhere')\nmine()\n", str(tmp_path / "mine.py"), "exec")
    names = {"open": lambda place: bucketlake.open(tmp_path).table(place)}
    try:
        exec(code, names)
    except bucketlake.NotFoundError as error:
        lines = traces.told(error)
        assert any("mine.py, line 2" in line for line in lines)
        assert not any("catalog.py" in line for line in lines)
        assert lines[-1].startswith("NotFoundError: no such table")
        monkeypatch.setenv("BUCKETLAKE_TRACE", "1")
        assert any("catalog.py" in line for line in traces.told(error))
    made = RuntimeError("Job aborted: x\n\nDriver stacktrace:\n\tat org.apache.y(z.java:1)\nCaused by: q")
    assert traces.message(made) == "Job aborted: x"
