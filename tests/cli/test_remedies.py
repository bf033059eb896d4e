"""What checks and advice say to do runs as it is written: as a command of a shell, whatever tables and values are called."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from tests.check.cases import buckets, contents, history, manifests
from tests.check.cases.case import CASES, Case
from tests.cli.conftest import Run

import bucketlake
from bucketlake.ops.check import advise as advising
from bucketlake.ops.check.faults import FAULTS
from bucketlake.ops.check.remedy import Blank, Call, Statement, command_line, identifier

MODULES = (history, manifests, buckets, contents)  # their cases are in CASES
NAMES = ("plain", 'it\'s "a" table', "-r", "a.b", "d c`e.f", "!x & y;", "no\u200bbreak", "ü ñ", "9")
# Values of partitions: what paths escape, what ends a value in a spec, what moves a cursor.
VALUES = (
    "x",
    "a,b; 'c/d",
    "back\\slash",
    "two\nlines\x1b",
    "${user}",
    "`t`",
    "q\u2028r",
    "\U000e0001",
    "",
    " b ",
    None,
)


def words_of(command: str) -> list[str]:
    """The words that a shell gives to the program."""
    told = subprocess.run(["bash", "-c", f'bucketlake() {{ printf "%s\\0" "$@"; }}; {command}'], capture_output=True)
    assert (told.returncode, told.stderr) == (0, b""), command
    return told.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("database", ["default", "d b.c"])
@pytest.mark.parametrize("name", NAMES)
def test_advice_about_any_table_is_a_command(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, database: str
) -> None:
    monkeypatch.setattr(advising, "SMALL_FILES", 2)
    own = str(tmp_path / "w 'h")
    catalog = bucketlake.open(own)
    catalog.create_database(database, ignore_if_exists=True)
    called = identifier(f"{identifier_of(database)}.{identifier_of(name)}")
    schema = pa.schema([("p-q`r", pa.string()), ("n", pa.int64())])
    table = catalog.create_table(called, schema, ["p-q`r"])
    for number in range(5):
        values = [value for value in VALUES if value != ""]
        table.write_arrow(pa.table({"p-q`r": values, "n": [number] * len(values)}, schema=schema))
    advice = [one for one in table.advise() if one.topic == "small-files"]
    assert len(advice) == len(VALUES) - 1
    files = len(table.files())
    for one in advice:
        command = command_line(one.steps[0], own)
        assert command.isprintable()
        words = words_of(command)
        assert words[0] == "compact", command
        done = run(*words)
        assert done.status == 0, (command, done.err)
        files, before = len(table.refresh().files()), files
        assert files == before - 4, command
    assert sorted(table.refresh().to_arrow()["n"].to_pylist()) == sorted([*range(5)] * len(advice))


def identifier_of(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.code)
def test_what_fsck_says_to_do_mends(run: Run, one: Case, tmp_path: Path) -> None:
    table, _ = one.make(tmp_path)
    level = FAULTS[one.code].level
    report = table.fsck(level)
    finding = next(found for found in report.findings if found.code == one.code)
    for call in finding.remedies(report.table):
        if isinstance(call, str) or any(isinstance(value, Blank) for _, value in call.arguments):
            continue
        words = words_of(command_line(call, str(tmp_path)))
        if words[0] == "sql" or call.procedure == "remove_orphan_files":  # which needs Spark; which are a day old
            continue
        done = run(*words, "--yes")
        assert done.status in (0, 1), (words, done.err)
        after = table.fsck(level)
        left = [found for found in after.findings if found.place.holder in (None, f"snapshot {after.snapshot}")]
        assert finding not in left, (words, done.out, done.err)  # travel to an older snapshot may need it still


def test_a_statement_is_one_word_of_a_shell() -> None:
    for text in ("ALTER TABLE t", "a 'b'", 'a "b"', "$HOME `ls` !1 \\", "two\nlines\x1b[2J ü"):
        command = command_line(Statement(text), "/w h")
        assert words_of(command) == ["sql", "-w", "/w h", "-e", text] and command.isprintable()


def test_what_a_command_cannot_say_is_left_to_sql() -> None:
    call = Call("compact", (("partitions", "a=b/c"),), "t")
    assert words_of(command_line(call)) == ["sql", "-e", "CALL sys.compact(table => 't', partitions => 'a=b/c')"]
    call = Call("delete_tag", (("tag", "-x"),), "t")
    assert words_of(command_line(call)) == ["tag", "delete", "--", "t", "-x"]
    assert call.sql == "CALL sys.delete_tag(table => 't', tag => '-x')"
    call = Call("delete_tag", (("tag", "it's\n\U000e0001"),), "d b.t")
    assert call.sql == "CALL sys.delete_tag(table => '`d b`.t', tag => 'it\\'s\\u000a\\U000e0001')"
