"""What Spark says of a statement, told again of the text that the user wrote: every such error leaves through here.

It stays Spark's error to those who look for that, with its condition, and is ours as well.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException

from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.sql.text import faults, habits

_READ = "bucketlake_text"  # on an error: the text that Spark read
_MARKER = re.compile(r"\{t\d+\}")
_VIEW, _REMOTE_VIEW = (head + 32 * "0" for head in ("_pyspark_", "_pyspark_connect_temp_view_"))  # as PySpark names

_WITHOUT_OURS = ("MISSING_CATALOG_ABILITY.PROCEDURES",)  # statements that Spark reads, and no catalog of ours is asked
# What a catalog says in its own words -> Spark's condition and sentence, and the detail that has the name.
_CONDITIONS = {
    "no such table": ("TABLE_OR_VIEW_NOT_FOUND", "The table or view {} cannot be found", "table"),
    "table exists": (
        "TABLE_OR_VIEW_ALREADY_EXISTS",
        "Cannot create table or view {} because it already exists",
        "table",
    ),
    "no such database": ("SCHEMA_NOT_FOUND", "The schema {} cannot be found", "database"),
    "database exists": ("SCHEMA_ALREADY_EXISTS", "Cannot create schema {} because it already exists", "database"),
}


class StatementError(InvalidError, AnalysisException):  # type: ignore[misc]
    """A statement that Spark cannot make sense of. `place`: where in the user's text, from 0; None where unknown."""

    place: int | None = None
    length: int = 0
    _condition: str | None = None
    _state: str | None = None

    def __str__(self) -> str:
        return str(self.args[0])

    def point(self, text: str, start: int) -> None:
        """Let the message show the place in `text`, where the statement starts at `start`, and the remedy."""
        where = [] if self.place is None else [faults.pointed(text, start + self.place, self.length)]
        self.args = ("\n\n".join([self.what, *where, *([f"do: {self.remedy}"] if self.remedy else [])]),)

    def getMessage(self) -> str:
        """The message."""
        return str(self.args[0])

    def getCondition(self) -> str | None:
        """Spark's name for the error."""
        return self._condition

    def getSqlState(self) -> str | None:
        """SQLSTATE."""
        return self._state

    def getMessageParameters(self) -> dict[str, str]:
        """None are kept: they may name what the user did not write."""
        return {}

    def getQueryContext(self) -> list[Any]:
        """None is kept: it is of another text."""
        return []


class StatementSyntaxError(StatementError, ParseException):  # type: ignore[misc]
    """A statement that Spark cannot read."""


def remember(error: Exception, bound: str, frames: bool) -> None:
    """Note on an error which text Spark read, before it leaves the place that knows."""
    if not hasattr(error, _READ):
        view = _REMOTE_VIEW if ".connect" in type(error).__module__ else _VIEW
        text = _MARKER.sub(view, bound).replace("{{", "{").replace("}}", "}") if frames else bound
        setattr(error, _READ, text)


def retold(error: AnalysisException, statement: str) -> StatementError | None:
    """The error as one about the user's statement; None for one that is ours already."""
    if isinstance(error, BucketlakeError):
        return None
    told = faults.read_message(_text(error))
    read = told.text if told.text is not None else getattr(error, _READ, None)
    place, length = _place(error, told, statement, read)
    kind = StatementSyntaxError if isinstance(error, ParseException) else StatementError
    made = kind(told.what)
    made.place, made.length = place, length
    made._condition, made._state = error.getCondition(), error.getSqlState()
    if isinstance(error, ParseException) or made._condition in _WITHOUT_OURS:
        made.remedy = habits.remedy(statement, place)
    made.point(statement, 0)
    return made


def with_condition(error: BucketlakeError) -> None:
    """Let an error about a name that is missing or taken say it as Spark does, too: programs look for its condition."""
    condition, sentence, key = _CONDITIONS.get(error.what, ("", "", ""))
    name = error.details.get(key)
    if name:
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in str(name).split("."))
        what = f"[{condition}] {sentence.format(quoted)}: {error.what}"
        BucketlakeError.__init__(error, what, remedy=error.remedy, **error.details)


def _text(error: AnalysisException) -> str:
    """The message without a trace of the JVM."""
    return str(getattr(error, "_desc", None) or getattr(error, "_message", None) or error)


def _place(error: PySparkException, told: faults.Told, statement: str, read: str | None) -> tuple[int | None, int]:
    """Where in the statement, and how many signs."""
    for context in _contexts(error):
        piece, start = str(context.fragment()), int(context.startIndex())
        found = faults.place_of(statement, piece, start, read)
        if piece and found is not None:
            return found, len(piece.split("\n")[0])
    if told.line is None or told.position is None:
        return None, 0
    text = statement if read is None else read
    offset = faults.offset_of(text, told.line, told.position)
    piece = faults.token_at(text, offset)
    return faults.place_of(statement, piece, offset, read), len(piece)


def _contexts(error: PySparkException) -> list[Any]:
    try:
        return [one for one in error.getQueryContext() if one.contextType().name == "SQL"]
    except AttributeError:
        return []
