"""Spark's SQL scripts, `BEGIN … END`, as one statement: Spark runs them, over tables of the lake as they are when it
begins. Only queries may name these: what changes tables stands in statements of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bucketlake.errors import UnsupportedError
from bucketlake.sql.query import query
from bucketlake.sql.text.text import Token, tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

_CHANGES = {
    *("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "REPLACE", "DROP", "ALTER", "TRUNCATE"),
    *("CALL", "EXECUTE", "USE", "COPY", "CACHE"),
}
_OPENS = {"BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "SQLEXCEPTION", "FOUND"}  # a statement follows


def is_compound(statement: str) -> bool:
    """Whether a text is a script in Spark's language: `[label:] BEGIN … END`, and no statement of several."""
    tokens = tokenize(statement)
    first = 2 if [token.value for token in tokens[1:2]] == [":"] else 0
    return len(tokens) > first + 2 and tokens[first].is_word("BEGIN") and not tokens[first + 1].is_word("TRANSACTION")


def run_compound(lake: Lake, statement: str, args: Any = None) -> DataFrame:
    """The rows of a script's last query. UnsupportedError for a statement in it that may change tables."""
    if not lake.in_spark_catalog:
        tokens = tokenize(statement)
        found = next((token for at, token in enumerate(tokens) if _changes(tokens, at)), None)
        if found is not None:
            raise UnsupportedError(
                "a script (BEGIN … END) of Spark's may only query tables",
                statement=found.value.upper(),
                remedy="run the statements one by one, their conditions and loops in Python",
            )
    return query.run(lake, statement, args, prune=False)


def _changes(tokens: Sequence[Token], at: int) -> bool:
    """Whether a statement begins with this token, or goes on with it behind WITH or FROM, that is no query."""
    token, before = tokens[at], tokens[at - 1] if at else None
    if token.kind != "word" or token.value.upper() not in _CHANGES or before is None:
        return False
    into = at + 1 < len(tokens) and tokens[at + 1].value.upper() in ("INTO", "OVERWRITE")
    return into or before.value == ";" or (before.kind == "word" and before.value.upper() in _OPENS)
