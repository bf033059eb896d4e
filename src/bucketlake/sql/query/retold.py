"""What Spark says of a statement, told again of the text that the user wrote: every such error leaves through here.

It stays Spark's error to those who look for that, with its condition, and is ours as well.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import AnalysisException, PySparkException

from bucketlake.errors import BucketlakeError
from bucketlake.file_names import parts_of
from bucketlake.spark import faults
from bucketlake.spark.raised import RaisedError, StatementSyntaxError, made, what
from bucketlake.sql.text import habits
from bucketlake.sql.text.tokens import tokenize
from bucketlake.types.model import quote_identifier

_READ = "bucketlake_text"  # on an error: the text that Spark read
_MARKER = re.compile(r"\{t\d+\}")
_VIEW, _REMOTE_VIEW = (head + 32 * "0" for head in ("_pyspark_", "_pyspark_connect_temp_view_"))  # as PySpark names

_WITHOUT_OURS = ("MISSING_CATALOG_ABILITY.PROCEDURES",)  # statements that Spark reads, and no catalog of ours is asked
# What a catalog says in its own words -> Spark's condition and sentence, and the detail that has the name.
_CONDITIONS = {
    "not a table but a view": ("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", "A table is expected, not {}", "view"),
    "no such table": ("TABLE_OR_VIEW_NOT_FOUND", "The table or view {} cannot be found", "table"),
    "table exists": (
        "TABLE_OR_VIEW_ALREADY_EXISTS",
        "Cannot create table or view {} because it already exists",
        "table",
    ),
    "no such column": ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "A column with name {} cannot be resolved", "column"),
    "column exists": ("FIELD_ALREADY_EXISTS", "Cannot add or rename to column {} because it already exists", "column"),
    "no such database": ("SCHEMA_NOT_FOUND", "The schema {} cannot be found", "database"),
    "database exists": ("SCHEMA_ALREADY_EXISTS", "Cannot create schema {} because it already exists", "database"),
}


def remember(error: Exception, bound: str, frames: bool) -> None:
    """Note on an error which text Spark read, before it leaves the place that knows."""
    if not hasattr(error, _READ):
        view = _REMOTE_VIEW if ".connect" in type(error).__module__ else _VIEW
        text = _MARKER.sub(view, bound).replace("{{", "{").replace("}}", "}") if frames else bound
        setattr(error, _READ, text)


def retold(error: PySparkException, statement: str, remedy: str | None = None) -> RaisedError | None:
    """The error as one about the user's statement; None for one that is ours already, or about neither text nor rows.
    `remedy`: of a name that Spark does not know."""
    found = made(error)
    if found is None:
        return None
    found.place, found.length = _place(error, statement)
    found.remedy = remedy
    if isinstance(found, StatementSyntaxError) or found.getCondition() in _WITHOUT_OURS:
        found.remedy = habits.remedy(statement, found.place)
    elif found.getCondition() == "UNBOUND_SQL_PARAMETER":
        found.remedy = "give it a value: lake.sql(…, args={'name': value}), or, in a notebook, a variable of its name"
    elif (found.getCondition() or "").startswith("UNRESOLVED_COLUMN") and "`DEFAULT`" in found.what.upper():
        found.remedy = "as a column's default DEFAULT stands alone: VALUES (1, DEFAULT), SET c = DEFAULT"
    elif remedy is None:
        found.remedy = habits.begun(statement)
    found.point(statement, 0)
    return found


def of_rows(error: Exception, statement: str) -> RaisedError | None:
    """What Spark raised while a statement's rows were fetched, told of the statement; None for other errors."""
    return retold(error, statement) if isinstance(error, PySparkException) else None


def with_condition(error: BucketlakeError, statement: str) -> None:
    """Let an error about a name that is missing or taken say it as Spark does, too: programs look for its condition.
    A name that is missing is told as the statement has it."""
    condition, sentence, key = _CONDITIONS.get(error.what, ("", "", ""))
    name = error.details.get(key)
    if name:
        parts = parts_of(str(name)) or str(name).split(".")
        if condition == "TABLE_OR_VIEW_NOT_FOUND" and _stands_alone(statement, parts[-1]):
            parts = parts[-1:]
        plain = condition == "TABLE_OR_VIEW_ALREADY_EXISTS" and "RENAME" in statement.upper()  # which Spark quotes not
        quoted = ".".join(parts if plain else map(quote_identifier, parts))
        what = f"[{condition}] {sentence.format(quoted)}: {error.what}"
        BucketlakeError.__init__(error, what, remedy=error.remedy, **error.details)


def _stands_alone(statement: str, name: str) -> bool:
    """Whether a statement has a name without one before it, wherever it stands."""
    tokens = tokenize(statement)
    before = [None, *(token.value for token in tokens)]
    return any(
        token.kind in ("word", "quoted") and token.value == name and before[at] != "."
        for at, token in enumerate(tokens)
    )


def _place(error: PySparkException, statement: str) -> tuple[int | None, int]:
    """Where in the statement, and how many signs. Errors of rows have a place of the text that Spark read alone."""
    told = what(error)
    read = told.text if told.text is not None else getattr(error, _READ, None)
    for context in _contexts(error):
        piece, start = str(context.fragment()), int(context.startIndex())
        found = faults.place_of(statement, piece, start, read)
        if piece and found is not None:
            return found, len(piece.split("\n")[0])
    if told.line is None or told.position is None or not isinstance(error, AnalysisException):
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
