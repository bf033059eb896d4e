"""EXPLAIN of what changes or stores rows: how the table would do it, and Spark's plan of the query that finds or brings
them. Nothing is written.

    EXPLAIN [EXTENDED | FORMATTED | COST | CODEGEN]
        {INSERT … | DELETE … | UPDATE … | MERGE … | CREATE [OR REPLACE] TABLE … AS query}

Spec: docs/spec/row_changes.md#explain
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from bucketlake.errors import UnsupportedError
from bucketlake.sql.query import query
from bucketlake.sql.rows import delete, insert_forms, merge_forms, row_forms, update
from bucketlake.sql.tables import ddl
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Parse, Statement
from bucketlake.sql.text.tokens import blank, explain_length
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake
    from bucketlake.sql.rows.ways import Explained

_CHANGES: Mapping[str, Parse] = {
    "INSERT": insert_forms.parse,
    "FROM": insert_forms.parse_led,
    "DELETE": delete.parse,
    "UPDATE": update.parse,
    "MERGE": merge_forms.parse,
    "WITH": row_forms.parse_led,
    "CREATE": ddl.create,
    "REPLACE": ddl.replace_table,
}


class Change(Statement, Protocol):
    """A statement that changes rows, or makes a table of them."""

    def explained(self, lake: Lake, name: names.LakeName) -> Explained:
        """How it would, nothing done. Errors: those of the statement that show before rows are looked at."""


def parse(cursor: Cursor) -> Statement | None:
    """Read EXPLAIN of a change to its end; None for EXPLAIN of anything else."""
    length = explain_length(cursor.tokens)
    following = cursor.tokens[length : length + 1]
    change = _CHANGES.get(following[0].value.upper()) if following else None
    if change is None:
        return None
    start = following[0].start
    alone = Cursor(blank(cursor.text, [(0, start)]))
    try:
        found = change(alone)
        if found is not None:
            alone.end()
    finally:
        cursor.subject = alone.subject
    if found is None or not (isinstance(found, insert_forms.Branches) or hasattr(found, "explained")):
        return None
    cursor.at = len(cursor.tokens)
    return _Explain(cursor.text[:start], cursor.text, found)


@dataclass(frozen=True, slots=True)
class _Explain:
    """`words`: EXPLAIN and its mode as written, up to the change; a comment may be its last line."""

    words: str
    statement: str
    change: Statement

    @property
    def place(self) -> tuple[str, ...]:
        """The catalog that a statement names which makes a table."""
        return getattr(self.change, "place", ())

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        """One row, `plan`."""
        if isinstance(self.change, insert_forms.Branches):
            return self._of_several(lake, self.change)
        change: Change = self.change  # type: ignore[assignment]  # `parse` takes no others
        found = change.explained(lake, name)
        text = f"== Change ==\n{found.table}: {found.told}\n"
        if found.query is not None:
            text += "\n" + "\n".join(str(row[0]) for row in query.run(lake, self._of_query(found.query)).collect())
        return lake.spark.createDataFrame([(text,)], "plan string")

    def _of_query(self, text: str) -> str:
        """EXPLAIN of a query; one that stands at its place in the statement stays there, for errors to point at."""
        count = len(self.words)
        return self.words + (text[count:] if text[:count].isspace() else f" {text}")

    def _of_several(self, lake: Lake, change: insert_forms.Branches) -> DataFrame:
        for branch in change.branches:
            found = names.find(lake, branch.parts)
            if found is not None:
                remedy = "EXPLAIN each of them by itself"
                raise UnsupportedError("EXPLAIN of several INSERTs, into a lake table", table=found.full, remedy=remedy)
        return query.run(lake, self.statement)
