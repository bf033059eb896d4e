"""The one place where a command writes: answers to standard output, everything about them to standard error.

    Console(as_json, form)      where it writes and how; `show(answer, columns)` -> exit status
    confirmed(…)                a question before what deletes
    failure(error)              message, place, remedy

Text respects pipes (no colours, nothing shortened), NO_COLOR and the terminal's width; `--json` is one document, an
error with it one object on standard error. Nothing that others wrote reaches a terminal raw.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any

from bucketlake.cli.answer import Answer, Column, Facts, Rows, Streamed, UsageError, document, plain, shown
from bucketlake.cli.text import aligned, clean, is_terminal, look_of, table
from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.lazy import lazy
from bucketlake.redaction import redact
from bucketlake.traces import message
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.cli import rows as row_output
else:
    row_output = lazy("bucketlake.cli.rows")

__all__ = ["DONE", "FAILED", "FORMATS", "INTERRUPTED", "PIPE", "USAGE", "Console", "confirmed", "drop_output", "told"]

DONE, FAILED, USAGE, INTERRUPTED, PIPE = 0, 1, 2, 130, 141
FORMATS = ("table", "json", "jsonl", "csv", "arrow")


@dataclass(slots=True)
class Console:
    """Where a command writes. `form`: of rows, one of FORMATS; `quiet`: no progress and no notes; `spelled`: what an
    error says to do, in words of the command line."""

    form: str = "table"
    quiet: bool = False
    spelled: Callable[[str], str] = str
    noted: list[str] = field(default_factory=list)

    @property
    def is_json(self) -> bool:
        """Whether programs read it."""
        return self.form in ("json", "jsonl")

    def show(self, answer: Answer | None, columns: Sequence[Column] = ()) -> int:
        """Write an answer; the exit status."""
        if answer is None:
            return DONE
        if isinstance(answer, Streamed):
            row_output.write(answer, self.form, sys.stdout)
        elif isinstance(answer, Facts):
            self._facts(answer, columns)
        else:
            self._rows(answer, columns)
        sys.stdout.flush()
        return answer.status() if callable(answer.status) else answer.status

    def _facts(self, answer: Facts, columns: Sequence[Column]) -> None:
        _check({column.name for column in columns}, set(answer.values))
        values = {column.name: plain(answer.values.get(column.name), column.kind) for column in columns}
        if self.is_json:
            self.write([document(values)])
        elif self.form == "csv":
            self.write(_csv([list(values), [_flat(value) for value in values.values()]]))
        elif answer.text is not None:
            self.write(answer.text)
        else:
            pairs = [(one.name.replace("_", " "), shown(answer.values.get(one.name), one.kind)) for one in columns]
            self.write(aligned([pair for pair in pairs if pair[1]], look_of(sys.stdout)))

    def _rows(self, answer: Rows, columns: Sequence[Column]) -> None:
        names = [column.name for column in columns]
        kinds = [column.kind for column in columns]
        if self.form == "arrow":
            row_output.write(row_output.of_values(answer.rows, columns), self.form, sys.stdout)
            return
        if self.form == "jsonl":
            self.write(document(dict(zip(names, map(plain, row, kinds), strict=True))) for row in answer.rows)
            return
        if self.form == "json":
            self.write_list(dict(zip(names, map(plain, row, kinds), strict=True)) for row in answer.rows)
            return
        rows = [list(row) for row in answer.rows]
        if self.form == "csv":
            self.write(_csv([names, *([_flat(plain(*cell)) for cell in zip(row, kinds, strict=True)] for row in rows)]))
        elif rows:
            cells = [[shown(*cell) for cell in zip(row, kinds, strict=True)] for row in rows]
            kept = [place for place, column in enumerate(zip(*cells, strict=True)) if any(column)] or [0]
            right = [kinds[place] in ("count", "id", "number", "size") for place in kept]
            heads = [names[place].replace("_", " ") for place in kept]
            lines = table(heads, [[row[place] for place in kept] for row in cells], right, look_of(sys.stdout))
            self.write([*lines, *map(clean, answer.notes)])
        elif answer.hint:
            self.note(answer.hint)

    def write(self, lines: Sequence[str] | Iterator[str]) -> None:
        """Lines to standard output."""
        sys.stdout.writelines(f"{line}\n" for line in lines)

    def write_list(self, objects: Iterator[Any]) -> None:
        """One JSON document of many objects, which need not be in memory at once."""
        first = next(objects, None)  # where there is an error at once, nothing is written
        sys.stdout.write("[" if first is None else "[" + document(first))
        sys.stdout.writelines(f", {document(one)}" for one in objects)
        sys.stdout.write("]\n")

    def note(self, text: str) -> None:
        """A line about what happened, to standard error; nothing where programs read or it is to be quiet."""
        if not self.quiet and not self.is_json:
            look = look_of(sys.stderr)
            print(look.style(clean(redact(text)), "2"), file=sys.stderr)

    def warn(self, text: str) -> None:
        """A warning, to standard error, once."""
        if text not in self.noted:
            self.noted.append(text)
            look = look_of(sys.stderr)
            print(f"{look.style('warning:', '33')} {clean(redact(text))}", file=sys.stderr)

    def failure(self, error: BaseException, otherwise: str | None = None, table: str | None = None) -> int:
        """Say what went wrong: message, place, remedy (`otherwise` where the error names none). `table`: which of
        several it was. The exit status."""
        status = USAGE if isinstance(error, UsageError) else FAILED
        what, place, remedy = told(error)
        place = place if table is None else {**place, "table": table}
        remedy = self.spelled(remedy) if remedy else otherwise
        if self.is_json:
            print(
                document({"error": {"kind": _kind(error), "what": what, "place": place, "remedy": remedy}}),
                file=sys.stderr,
            )
            return status
        look = look_of(sys.stderr)
        lines = [f"{look.style('error:', '1;31')} {clean(what)}"]
        if place:
            lines.append("  at: " + ", ".join(f"{clean(key)}={clean(str(value))}" for key, value in place.items()))
        if remedy:
            lines.append(f"  do: {clean(remedy)}")
        print("\n".join(lines), file=sys.stderr)
        return status


# Of what the system says, where the error itself does not know better.
_REMEDIES = {
    "Permission denied": "look at whose it is and who may read and write it",
    "No such file or directory": "look at the path; a folder to write to has to be there",
    "No space left on device": "make room (bucketlake usage, expire, orphans), or write elsewhere",
    "Read-only file system": "write elsewhere",
}


def _kind(error: BaseException) -> str:
    """The error's class; of those that are Spark's as well, ours."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ != "bucketlake.spark.raised")


def told(error: BaseException) -> tuple[str, dict[str, Any], str | None]:
    """What happened, where, what to do; of errors that nobody expected too. No secrets."""
    if isinstance(error, BucketlakeError):
        place = {key: plain(value) for key, value in error.details.items() if value is not None}
        return error.what, place, error.remedy or _REMEDIES.get(str(place.get("reason")))
    text = redact(str(error)).strip() or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        place = {"path": redact(os.fsdecode(error.filename))} if isinstance(error.filename, (str, bytes)) else {}
        return error.strerror, place, _REMEDIES.get(error.strerror)
    if isinstance(error, MemoryError):
        return "not enough memory", {}, "read fewer columns, or use --where or --limit"
    where = "BUCKETLAKE_TRACE=1 shows where"
    if type(error).__module__.startswith("pyspark."):  # of what was asked of Spark, not of a fault here
        return redact(message(error).split("\n\n")[0]), {}, where
    where += "; please report it"
    return f"{type(error).__name__}: {text.splitlines()[0]}", {}, where


def _check(declared: set[str], given: set[str]) -> None:
    if given - declared:
        raise InvalidError("an answer holds values that its command does not declare", values=sorted(given - declared))


def _csv(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of CSV; on a terminal without what would move its cursor."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    lines = text.getvalue().split("\n")[:-1]
    return [clean(line) for line in lines] if is_terminal(sys.stdout) else lines


def _flat(value: Any) -> str:
    """A value in a cell of CSV: texts and numbers as they are, lists and maps as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return document(value) if isinstance(value, (list, Mapping)) else str(value)


def drop_output() -> None:
    """What is left of standard output, which cannot be written, leads nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def confirmed(question: str, yes: bool, remedy: str = "add --yes, or look with --dry-run first") -> None:
    """Go on where the question is answered with yes; an error where it is not, or nobody can be asked."""
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise InvalidError("this asks first, and standard input is no terminal", question=question, remedy=remedy)
    print(f"{clean(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidError("not done: the question was not answered with yes")
