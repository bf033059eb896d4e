"""Statements as values: read to their end first, from text alone, and only then run.

What reads a statement gets a cursor and no lake, so that nothing can have happened when its text turns out to be wrong.
`execute` is the only way from text to effect: it asks that every token was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.types.model import quote_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake


class Statement(Protocol):
    """All that a statement will do, nothing done yet."""

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame | None:
        """Do it; its rows, None for a statement that has none. `name`: the table that the statement is about."""


Parse = Callable[[Cursor], Statement | None]
"""Reads a statement; None for one that is Spark's. InvalidError or UnsupportedError for what cannot be meant."""
_OF_THE_SESSION = ("USE", "SET", "RESET", "CALL", "EXECUTE")  # ours whichever catalog is the current one
_OF_ROWS = ("DELETE", "INSERT", "MERGE", "UPDATE")
# What Spark says of rows of a temporary view that are to change.
_ODD = ("Table `unknown`", "[INTERNAL_ERROR]", "[UNSUPPORTED_INSERT.")
NO_TABLE = names.LakeName("", "")  # of statements that are about no table that is there


def execute(lake: Lake, statement: str, parse: Parse, foreign: Callable[[], DataFrame]) -> DataFrame | None:
    """Read the statement to its end, then run it; `foreign` runs what is Spark's: its own statements and tables.

    Errors: InvalidError for text that is left over, before anything was done.
    """
    cursor = Cursor(statement)
    try:
        found = parse(cursor)
        if found is not None:
            cursor.end()
    except (InvalidError, UnsupportedError):
        if cursor.subject is None or not _is_foreign(lake, cursor.subject):
            raise
        return foreign()  # the table language is ours, of Spark's tables Spark knows more
    if found is None:
        return foreign()
    catalog = _catalog(cursor.subject, found)
    if catalog in lake.other_catalogs or catalog == names.SPARK_CATALOG:
        return foreign()
    if cursor.subject is None:
        spoken = cursor.tokens[0].value.upper() in _OF_THE_SESSION or not lake.in_spark_catalog
        return found.run(lake, NO_TABLE) if spoken or catalog in lake.catalog_names else foreign()
    name = names.find(lake, cursor.subject)
    if name is None and names.is_sparks(lake, cursor.subject):
        with _told_of_views(lake, cursor):
            return foreign()
    return found.run(lake, name or names.target(lake, cursor.subject))


@contextmanager
def _told_of_views(lake: Lake, cursor: Cursor) -> Iterator[None]:
    """Rows of temporary views are not changed: Spark says so of a table without a name, or of itself."""
    try:
        yield
    except Exception as error:
        subject, words = cursor.subject or (), (token.value.upper() for token in cursor.tokens)
        verb = next((word for word in words if word in _OF_ROWS), None)
        if verb is None or not any(told in str(error) for told in _ODD) or len(subject) > 1:
            raise
        if not names.is_temp_view(lake, subject[0]):
            raise
        hidden = names.target(lake, (lake.current_database, *subject))
        remedy = "name the table that it reads"
        if lake.catalog.table_exists(hidden.full):
            remedy = f"it hides the table {hidden.full}: write {verb} with its whole name"
        what = f"[EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE] {verb} expects a table but {quote_identifier(subject[0])} is a"
        raise InvalidError(f"{what} temporary view", remedy=remedy) from error


def _catalog(subject: tuple[str, ...] | None, found: Statement) -> str:
    """The catalog that a statement names, in lower case; empty where it names none. Statements that make something, or
    are about a database, have no subject, but a `place`: the parts that stand before the name of that."""
    if subject is not None:
        return subject[0].lower() if len(subject) > 2 else ""
    place: tuple[str, ...] = getattr(found, "place", ())
    return place[0].lower() if place else ""


def _is_foreign(lake: Lake, parts: tuple[str, ...]) -> bool:
    return names.is_elsewhere(lake, parts) or (names.find(lake, parts) is None and names.is_sparks(lake, parts))
