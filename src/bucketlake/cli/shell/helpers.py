"""The few commands of the shell that are no SQL: they begin with a backslash and end with the line.

Spec: docs/shell.md#helpers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bucketlake.cli.output import DONE, FORMATS
from bucketlake.cli.shell.running import SHOWN
from bucketlake.env import user_files
from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.cli.shell.running import Runner


class LeaveError(Exception):
    """The shell is to end."""


@dataclass(frozen=True, slots=True)
class Helper:
    """One of them: what it takes, what it does."""

    takes: str
    about: str
    run: Callable[[Runner, str], int]


def run(runner: Runner, line: str) -> int:
    """Run a line that begins with a backslash; the status. Errors: LeaveError."""
    name, _, rest = line.strip().rstrip(";").partition(" ")
    helper = HELPERS.get(name)
    if helper is None:
        return runner.failed(InvalidError("no such command of the shell", command=name, remedy="\\? lists them"))
    try:
        return helper.run(runner, rest.strip())
    except LeaveError:
        raise
    except Exception as error:
        return runner.failed(error)


def _quoted(name: str) -> str:
    if "`" in name:
        return name
    return ".".join(f"`{part}`" for part in name.split("."))


def _describe(runner: Runner, name: str) -> int:
    return runner.script(f"DESCRIBE {_quoted(name)}" if name else "SHOW TABLES")


def _snapshots(runner: Runner, name: str) -> int:
    table = _needed(name, "a table")
    columns = "snapshot_id, commit_kind, commit_time, commit_user, delta_record_count, total_record_count"
    return runner.script(f"SELECT {columns} FROM {_system(table, 'snapshots')} ORDER BY snapshot_id")


def _files(runner: Runner, name: str) -> int:
    table = _needed(name, "a table")
    columns = "partition, bucket, level, file_path, record_count, file_size_in_bytes"
    return runner.script(f"SELECT {columns} FROM {_system(table, 'files')} ORDER BY partition, bucket, level")


def _system(name: str, kind: str) -> str:
    table = _quoted(name)
    return f"{table[:-1]}${kind}`" if table.endswith("`") else f"{table}${kind}"


def _needed(given: str, what: str) -> str:
    if not given:
        raise InvalidError(f"{what} is to be named")
    return given


def _read(runner: Runner, name: str) -> int:
    text = user_files.read(_needed(name, "a file"))
    if text is None:
        raise NotFoundError("no such file", path=name)
    return runner.script(text, name)


def _format(runner: Runner, name: str) -> int:
    if name not in FORMATS or name == "arrow":
        raise InvalidError("no such format", format=name, remedy="one of table, json, jsonl, csv")
    runner.form = name
    return DONE


def _limit(runner: Runner, text: str) -> int:
    if not text.isdecimal():
        raise InvalidError("a limit is a number", given=text, remedy=f"\\limit {SHOWN}; \\limit 0 shows all rows")
    runner.limit = int(text) or None
    return DONE


def _timing(runner: Runner, _: str) -> int:
    runner.is_timed = not runner.is_timed
    runner.console.note(f"timing is {'on' if runner.is_timed else 'off'}")
    return DONE


def _leave(runner: Runner, _: str) -> int:
    raise LeaveError


def _help(runner: Runner, _: str) -> int:
    width = max(len(f"{name} {one.takes}") for name, one in HELPERS.items())
    lines = [f"{f'{name} {one.takes}':{width}}  {one.about}" for name, one in HELPERS.items()]
    runner.console.write(["Statements end with a semicolon. Besides:", *lines, "Ctrl-C cancels, Ctrl-D leaves."])
    return DONE


HELPERS: dict[str, Helper] = {
    "\\d": Helper("[TABLE]", "the tables of this database, or the columns of a table", _describe),
    "\\l": Helper("", "the databases", lambda runner, _: runner.script("SHOW DATABASES")),
    "\\s": Helper("TABLE", "the snapshots of a table", _snapshots),
    "\\f": Helper("TABLE", "the data files of a table", _files),
    "\\i": Helper("FILE", "run the statements of a file", _read),
    "\\format": Helper("FORMAT", "how rows are shown: table, json, jsonl, csv", _format),
    "\\limit": Helper("N", f"at most so many rows of an answer ({SHOWN} at first, 0: all)", _limit),
    "\\timing": Helper("", "say how long statements take, or no more", _timing),
    "\\?": Helper("", "this list", _help),
    "\\q": Helper("", "leave", _leave),
}

__all__ = ["HELPERS", "Helper", "LeaveError", "run"]
