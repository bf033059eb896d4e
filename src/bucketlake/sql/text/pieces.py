"""Statements of a longer text, and errors told of that text.

pieces(text) -> [Piece]          the statements with their places
located(error, text, piece)      the error, told of the script instead of the statement
"""

from __future__ import annotations

from bucketlake.errors import BucketlakeError
from bucketlake.spark.raised import RaisedError
from bucketlake.sql.text.scripts import statement_places
from bucketlake.sql.text.tokens import tokenize
from bucketlake.values import dataclass

_SHOWN = 80  # letters of a statement that an error shows


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement of a script: its number from 1, of how many, where it starts, its text."""

    number: int
    of: int
    start: int
    text: str


def pieces(script: str) -> list[Piece]:
    """The statements of a script. InvalidError for a literal or comment that is not closed."""
    places = statement_places(script)
    return [Piece(n, len(places), start, script[start:end]) for n, (start, end) in enumerate(places, 1)]


def located(error: Exception, script: str, piece: Piece) -> Exception:
    """The same error, which says where in the script it is, and which statement it is about."""
    first = piece.start + tokenize(piece.text)[0].start
    line = script.count("\n", 0, first) + 1
    if isinstance(error, RaisedError):
        error.point(script, piece.start)
    elif isinstance(error, BucketlakeError) and {"line", "column"} <= error.details.keys():
        _move(error, script, piece.start)
    if piece.of == 1:
        return error
    begins = script[first : piece.start + len(piece.text)].split("\n")[0]
    shown = begins if len(begins) <= _SHOWN else begins[:_SHOWN] + " …"
    note = f"statement {piece.number} of {piece.of}, line {line}: {shown}"
    error.__dict__["note"] = note
    if isinstance(error, BucketlakeError):
        error.details = {**error.details, "statement": piece.number}
        error.args = (f"{error.args[0]}\n\n{note}", *error.args[1:])
    else:  # Spark's: its message is not ours to change
        error.__dict__.setdefault("__notes__", []).append(note)
    return error


def _move(error: BucketlakeError, script: str, start: int) -> None:
    """Let line and column count from the script's first letter."""
    line, column = int(error.details["line"]), int(error.details["column"])
    before = script.count("\n", 0, start)
    column += start - (script.rfind("\n", 0, start) + 1) if line == 1 else 0
    BucketlakeError.__init__(
        error, error.what, remedy=error.remedy, **{**error.details, "line": line + before, "column": column}
    )
