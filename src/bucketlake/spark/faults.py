"""Where in the user's own text an error lies, and how that is shown.

Spark reads another text than the user wrote: names of tables are replaced, conditions stand in statements of ours. What
it points at is looked for in the user's text: the piece itself, where it stands at the same place, or the same
occurrence of it in both; nowhere, where that is not certain.
"""

from __future__ import annotations

import re

from bucketlake.values import dataclass

_SYNTAX = re.compile(r"\s*\(line (\d+), pos(?:ition)? (\d+)\)\s*(?:== SQL ==\s?\n(.*))?\s*\Z", re.DOTALL)
_ANALYSED = re.compile(r";\s*line (\d+) pos (\d+)\s*(?:;.*)?\Z", re.DOTALL)
_PLAN = re.compile(r";\n.*\Z", re.DOTALL)
_REFUSED = re.compile(r"\s*== SQL \(line (\d+), position (\d+)\) ==\n.*\Z", re.DOTALL)  # positions from 1
_CARETS = re.compile(r"\n-*\^\^\^\s*\n?")
_TOKEN = re.compile(r"`(?:[^`]|``)*`|\w+|\S")
_STACK = re.compile(r"\n\s*(?:JVM stacktrace:|\tat ).*\Z", re.DOTALL)
_MADE = re.compile(r"`?_pyspark_(?:connect_temp_view_)?[0-9a-f]{32}`?(?: AS `((?:[^`]|``)+)`)?")
_OURS = re.compile(r"(, )?(?:`[^`]*`\.)*`__bucketlake_\w*`(?(1)|(, )?)")


@dataclass(frozen=True, slots=True)
class Told:
    """What Spark says of a statement. `line` (from 1), `position` (from 0): in the text that it read, which is `text`
    where the message holds it."""

    what: str
    line: int | None = None
    position: int | None = None
    text: str | None = None


def read_message(message: str) -> Told:
    """The parts of an error's message: plans, traces and texts that the user did not write are left out."""
    message = _STACK.sub("", message.strip())
    found = _SYNTAX.search(message)
    if found is not None:
        text = found.group(3)
        if text is not None:
            text = _CARETS.sub("\n", text + "\n")
        return Told(_named(message[: found.start()]), int(found.group(1)), int(found.group(2)), text)
    found = _REFUSED.search(message)
    if found is not None:
        return Told(_named(message[: found.start()]), int(found.group(1)), int(found.group(2)) - 1)
    found = _ANALYSED.search(message)
    if found is not None:
        return Told(_named(message[: found.start()]), int(found.group(1)), int(found.group(2)))
    return Told(_named(_PLAN.sub("", message)))


def _named(text: str) -> str:
    """The text with the user's names for what was bound under made ones, and no column of ours among suggestions."""
    text = _OURS.sub(lambda found: "" if found[1] or found[2] else "no column", text)
    return _MADE.sub(lambda found: f"`{found.group(1)}`" if found.group(1) else "the table", text).strip()


def without_made_names(text: str) -> str:
    """The text of a plan, with the user's names for what was bound under made ones."""
    return _named(text)


def offset_of(text: str, line: int, position: int) -> int:
    """The place of a line and a position in it."""
    lines = text.split("\n")
    return min(sum(len(part) + 1 for part in lines[: line - 1]) + position, len(text))


def token_at(text: str, offset: int) -> str:
    """The word or sign that starts at a place; empty at the end of the text."""
    found = _TOKEN.match(text, offset)
    return found.group() if found is not None else ""


def place_of(own: str, piece: str, offset: int, read: str | None) -> int | None:
    """Where in `own` the piece stands that Spark points at. `offset`: its place in the text that Spark read, `read`
    that text where it is known. None where nothing is certain."""
    if not piece:
        return len(own.rstrip().rstrip(";").rstrip()) if read is not None and not read[offset:].strip() else None
    if own.startswith(piece, offset) and (read is None or own[:offset] == read[:offset] or not read[:offset].strip()):
        return offset
    mine = _occurrences(own, piece)
    if len(mine) == 1:
        return mine[0]
    if read is None:
        return None
    theirs = _occurrences(read, piece)
    if len(theirs) != len(mine) or offset not in theirs:
        return None
    return mine[theirs.index(offset)]


def _occurrences(text: str, piece: str) -> list[int]:
    before = r"(?<!\w)" if piece[:1].isalnum() or piece[:1] == "_" else ""
    after = r"(?!\w)" if piece[-1:].isalnum() or piece[-1:] == "_" else ""
    return [found.start() for found in re.finditer(before + re.escape(piece) + after, text)]


def pointed(text: str, offset: int, length: int) -> str:
    """The line with carets below what is meant: `line 2, column 7:` …"""
    line, column = line_and_column(text, offset)
    shown = text[offset - column + 1 :].split("\n", 1)[0]
    width = max(1, min(length, len(shown) - column + 1))
    blank = "".join("\t" if sign == "\t" else " " for sign in shown[: column - 1])
    return f"line {line}, column {column}:\n{shown}\n{blank}{'^' * width}"


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Where a letter of a text stands, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
