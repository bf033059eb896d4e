"""The door of `lake.sql`: the first word of a statement says which room reads it.

A room only reads: what it makes of the text is run by `parsed.execute`, once the text was read to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.sql.procedures import call
from bucketlake.sql.query import query
from bucketlake.sql.rows import delete, insert, update
from bucketlake.sql.tables import alter, ddl, show
from bucketlake.sql.text import names
from bucketlake.sql.text.parsed import Parse, Statement, execute
from bucketlake.sql.text.text import Cursor, split_statements, tokenize
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

_UNDELIVERED = ("MERGE", "ANALYZE")
# Keys that Flink users set out of habit; they say nothing about a batch on Spark.
_FLINK_PREFIXES = (
    "execution.",
    "parallelism.",
    "table.",
    "sql-client.",
    "pipeline.",
    "state.",
    "taskmanager.",
    "restart-strategy",
)


def run(lake: Lake, statement: str, args: Any = None) -> DataFrame:
    """Run one statement: Spark SQL where Spark has it, and the table language. Statements that yield no rows
    return an empty DataFrame, as Spark's own do. `args` binds `:name` and `?` markers of queries."""
    statements = split_statements(statement)
    if len(statements) != 1:
        raise InvalidError(
            "SQL: expected one statement", found=len(statements), remedy="call sql once a statement, or use sql_script"
        )
    result = _run(lake, statements[0], args)
    return result if result is not None else lake.spark.createDataFrame([], "result string").select()


def run_script(lake: Lake, script: str) -> DataFrame | None:
    """Run the statements of a script in order; the last one's rows, None if it had no statement."""
    result: DataFrame | None = None
    for statement in split_statements(script):
        result = run(lake, statement)
    return result


def _run(lake: Lake, statement: str, args: Any) -> DataFrame | None:
    first = tokenize(statement)[0]
    parse = ROOMS.get(first.value.upper()) if first.kind == "word" else None
    if parse is None:
        return query.run(lake, statement, args)
    return execute(lake, statement, parse, lambda: query.run(lake, statement, args))


@dataclass(frozen=True, slots=True)
class _Undelivered:
    """A statement that is not honoured on lake tables."""

    word: str

    def run(self, lake: Lake, name: names.LakeName) -> None:
        raise UnsupportedError(f"{self.word} on a lake table", table=name.full, remedy="see README.md for what works")


def _undelivered(cursor: Cursor) -> Statement:
    word = cursor.next().value.upper()
    if not (cursor.accept("INTO") or cursor.accept("FROM")):
        cursor.accept("TABLE")
    cursor.table()
    cursor.at = len(cursor.tokens)
    return _Undelivered(word)


@dataclass(frozen=True, slots=True)
class _FlinkSet:
    key: str
    value: str

    def run(self, lake: Lake, name: names.LakeName) -> None:
        if not self.key.startswith(_FLINK_PREFIXES):
            lake.spark.conf.set(self.key, self.value)


def _set(cursor: Cursor) -> Statement | None:
    """`SET 'k' = 'v'`, Flink's spelling: its own keys are accepted without effect, others are Spark's; so is Spark's
    spelling."""
    cursor.expect("SET")
    token = cursor.peek()
    if token is None or token.kind != "string":
        return None
    key = cursor.string()
    cursor.expect("=")
    return _FlinkSet(key, cursor.string())


ROOMS: dict[str, Parse] = {
    "CREATE": ddl.create,
    "DROP": ddl.drop,
    "ALTER": alter.alter,
    "TRUNCATE": ddl.truncate,
    "USE": ddl.use,
    "COMMENT": ddl.comment_on,
    "INSERT": insert.parse,
    "CALL": call.parse,
    "DELETE": delete.parse,
    "UPDATE": update.parse,
    "SET": _set,
    "SHOW": show.show,
    "DESC": show.describe,
    "DESCRIBE": show.describe,
    **dict.fromkeys(_UNDELIVERED, _undelivered),
}
