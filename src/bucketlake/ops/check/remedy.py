"""What to do about a table, as a value, and its two spellings, which both run as they are written.

    Call("compact", (("partitions", "dt=1"),), "db.t")   a procedure, with its arguments and the table
    Statement(text)                                      what no procedure does
    step.sql                                             a statement, for `lake.sql`
    command_line(step, warehouse)                        a command of `bucketlake`, for a shell
    in_words(remedies, warehouse)                        several ways, in one line
    shell_line(command, …)                               the same of words that are no step

Spec: docs/maintenance.md#what-to-do
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from bucketlake.file_names import parts_of
from bucketlake.types.model import quote_identifier, quote_text
from bucketlake.values import dataclass

Value = str | int | bool
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_DIGITS = frozenset("0123456789")
_IN_DOUBLE_QUOTES = frozenset('"$`\\!')  # what means something to a shell there


@dataclass(frozen=True, slots=True)
class Blank:
    """An argument that a person has to fill in: what is wanted."""

    wanted: str


@dataclass(frozen=True, slots=True)
class Call:
    """A procedure with its arguments by name, but for the table, which is named as statements name it. `first`: what
    has to be known before it is called, said before each spelling."""

    procedure: str
    arguments: tuple[tuple[str, Value | Blank], ...] = ()
    table: str = ""
    first: str = ""

    @property
    def sql(self) -> str:
        """As a statement."""
        given = [("table", identifier(self.table)), *self.arguments]
        return f"CALL sys.{self.procedure}({', '.join(f'{name} => {_literal(value)}' for name, value in given)})"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of SQL that is no call."""

    sql: str


Step = Call | Statement


def set_options(table: str, options: Mapping[str, str]) -> Statement:
    """What sets options of a table."""
    return Statement(f"ALTER TABLE {identifier(table)} SET TBLPROPERTIES ({pairs(options)})")


@dataclass(frozen=True, slots=True)
class _Command:
    """A command that does what a procedure does. `flags`: how each argument is said, "" for one by its place, None for
    one that is not; `words`: what is said always."""

    name: str
    flags: Mapping[str, str | None]
    words: tuple[str, ...] = ()


_LIMITS = {"retain_max": "--retain-max", "retain_min": "--retain-min", "max_deletes": "--max-deletes"}
_COMMANDS = {
    "compact": _Command("compact", {"partitions": "--partition", "where": "--where"}),
    "rescale": _Command("rescale", {"bucket_num": "--buckets", "partitions": "--partition", "where": "--where"}),
    "expire_snapshots": _Command("expire", _LIMITS),
    "expire_changelogs": _Command("expire", _LIMITS, ("--only", "changelogs")),
    "remove_orphan_files": _Command("orphans", {}),
    "delete_tag": _Command("tag delete", {"tag": ""}),
    "delete_branch": _Command("branch delete", {"branch": ""}),
    "reset_consumer": _Command("consumer delete", {"consumer_id": ""}),
    "rollback": _Command("rollback", {"version": ""}),
    "repair_table": _Command("fsck", {"level": "--level", "allow": "--allow", "dry_run": None}, ("--repair",)),
}


def command_line(step: Step, warehouse: str = "") -> str:
    """The command of this program that does it, without Spark where it has one; `warehouse`: its place as it is said,
    where it is said. The partition of a command is written with a slash between its columns: a value that has one is
    left to SQL."""
    command = _COMMANDS.get(step.procedure) if isinstance(step, Call) else None
    if command is None or not isinstance(step, Call):
        return _of_statement(step.sql, warehouse)
    given = {name: value.wanted if isinstance(value, Blank) else str(value) for name, value in step.arguments}
    if not command.flags.keys() >= given.keys() or "/" in given.get("partitions", ""):
        return _of_statement(step.sql, warehouse)
    by_place, flags = [step.table], list(command.words)
    for name, value in given.items():
        flag = command.flags[name]
        if flag == "":
            by_place.append(value)
        elif flag is not None:
            flags += [flag, value]
    return shell_line(command.name, warehouse, by_place, flags)


def in_words(remedies: Sequence[str | Call], warehouse: str | None = None) -> str:
    """Several of which one will do, in one line: calls as statements, as commands where `warehouse` is not None."""
    spelled = [
        one if isinstance(one, str) else one.first + (one.sql if warehouse is None else command_line(one, warehouse))
        for one in remedies
    ]
    return ", or ".join(spelled)


def shell_line(command: str, warehouse: str, by_place: Sequence[str], flags: Sequence[str] = ()) -> str:
    """A command of this program for a shell to take as it stands. `by_place`: what is no flag."""
    place = ["-w", warehouse] if warehouse else []
    dashed = any(word.startswith("-") for word in by_place)
    words = [*place, *flags, "--", *by_place] if dashed else [*place, *by_place, *flags]
    return " ".join(["bucketlake", command, *map(_quoted, words)])


def _of_statement(statement: str, warehouse: str) -> str:
    place = f" -w {_quoted(warehouse)}" if warehouse else ""
    double = statement.isprintable() and not _IN_DOUBLE_QUOTES & {*statement}
    return f"bucketlake sql{place} -e " + (f'"{statement}"' if double else _quoted(statement))


def _quoted(word: str) -> str:
    """A word of a shell, on one line that shows what is in it."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(one if one.isprintable() else _bytes(one) for one in escaped) + "'"


def _bytes(one: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in one.encode())


def identifier(name: str) -> str:
    """A table's name as a statement takes it wherever a name may stand: parts that are no plain word in backticks."""
    parts = parts_of(name) or [name]
    return ".".join(part if _is_plain(part) else quote_identifier(part) for part in parts)


def _is_plain(part: str) -> bool:
    return {*part} <= _PLAIN | _DIGITS and part[:1] in _PLAIN


def pairs(options: Mapping[str, str]) -> str:
    """Options as `TBLPROPERTIES (…)` has them."""
    return ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in options.items())


def _literal(value: Value | Blank) -> str:
    """A value in SQL; what is not printable in a text by its number, so that it stays what it is on a terminal."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    text = quote_text(value if isinstance(value, str) else value.wanted)
    return text if text.isprintable() else "".join(one if one.isprintable() else _number(one) for one in text)


def _number(one: str) -> str:
    return f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}"
