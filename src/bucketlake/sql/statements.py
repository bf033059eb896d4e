"""The door of `lake.sql`: the first word of a statement says which room it goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.sql import call, ddl, delete, insert, names, query, show, update
from bucketlake.sql.text import Cursor, split_statements, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

_ROOMS: dict[str, Callable[[Lake, str], DataFrame | None]] = {
    "CREATE": ddl.create,
    "DROP": ddl.drop,
    "ALTER": ddl.alter,
    "TRUNCATE": ddl.truncate,
    "USE": ddl.use,
    "INSERT": insert.run,
    "CALL": call.run,
    "DELETE": delete.run,
    "UPDATE": update.run,
    "SHOW": show.show,
    "DESC": show.describe,
    "DESCRIBE": show.describe,
}
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
    first, *others = tokenize(statement)
    word = first.value.upper()
    if first.kind == "word" and word == "SET" and others and others[0].kind == "string":
        _flink_set(lake, others[0].value, others[-1].value)
        return None
    if first.kind == "word" and word in _UNDELIVERED:
        _refuse_undelivered(lake, statement)
    if first.kind == "word" and word in _ROOMS and not (word == "INSERT" and _is_directory(others)):
        return _ROOMS[word](lake, statement)
    return query.run(lake, statement, args)


def _refuse_undelivered(lake: Lake, statement: str) -> None:
    """UnsupportedError if a statement that is not honoured on lake tables names one."""
    cursor = Cursor(statement)
    word = cursor.next().value.upper()
    if not (cursor.accept("INTO") or cursor.accept("FROM")):
        cursor.accept("TABLE")
    name = names.find(lake, cursor.name())
    if name is not None:
        raise UnsupportedError(f"{word} on a lake table", table=name.full, remedy="see README.md for what works")


def _is_directory(others: list[Any]) -> bool:
    """INSERT OVERWRITE [LOCAL] DIRECTORY is Spark's own statement over files."""
    return any(token.is_word("DIRECTORY") for token in others[1:3])


def _flink_set(lake: Lake, key: str, value: str) -> None:
    """`SET 'k' = 'v'`, Flink's spelling: its own keys are accepted without effect, others are Spark's."""
    if not key.startswith(_FLINK_PREFIXES):
        lake.spark.conf.set(key, value)
