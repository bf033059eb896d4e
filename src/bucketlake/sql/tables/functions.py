"""CREATE FUNCTION: functions are Spark's. One that reads lake tables, or that a lake's database shall hold, is refused.

Spec: docs/sql/functions.md#your-own
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.errors import UnsupportedError
from bucketlake.sql.query import query
from bucketlake.sql.tables.views import in_the_lake
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake


def function(cursor: Cursor) -> Statement | None:
    """`[OR REPLACE] [TEMPORARY] FUNCTION …`, the cursor behind CREATE; else None, the cursor where it was."""
    start = cursor.at
    cursor.accept("OR", "REPLACE")
    if not cursor.accept("TEMPORARY"):
        cursor.accept("TEMP")
    if not cursor.accept("FUNCTION"):
        cursor.at = start
        return None
    cursor.accept("IF", "NOT", "EXISTS")
    parts = cursor.name()
    cursor.rest()
    return _Function(cursor.text, parts)


@dataclass(frozen=True, slots=True)
class _Function:
    statement: str
    parts: tuple[str, ...]

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        """Spark keeps a function's body as text, in which lake tables would have names that are gone after it."""
        written = ".".join(self.parts)
        if in_the_lake(lake, self.parts):
            raise UnsupportedError(
                "the catalog keeps no functions: CREATE FUNCTION",
                function=written,
                remedy="CREATE TEMPORARY FUNCTION, or a function of Spark's own catalog: leave the database out",
            )
        if query.bind(lake, self.statement)[1]:
            raise UnsupportedError(
                "a function that reads lake tables: CREATE FUNCTION",
                function=written,
                remedy="join with the table where the function would be called",
            )
        return query.run(lake, self.statement)
