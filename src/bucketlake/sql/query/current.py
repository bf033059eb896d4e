"""`current_database()`, `current_schema()`, `current_catalog()` where short names are the lake's: what USE has said.

Spark's own functions know the session's catalogs, of which the lake is none. An attached session asks Spark.

Spec: docs/sql/functions.md#current_database
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bucketlake.options.session import CATALOG_NAMES
from bucketlake.sql.query.given import literal
from bucketlake.sql.text.names import own_catalog
from bucketlake.sql.text.tokens import Token, tokenize

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_NAMES = ("current_catalog", "current_database", "current_schema")
_BEHIND = (  # words behind the columns of a SELECT
    *("FROM", "LATERAL", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"),
    *("LIMIT", "OFFSET", "UNION", "EXCEPT", "MINUS", "INTERSECT"),
)


def pieces(lake: Lake, statement: str) -> list[tuple[int, int, str]]:
    """The calls of a statement with what to write in their place: strings, named as Spark names such a column."""
    if lake.in_spark_catalog or lake.catalog_names != CATALOG_NAMES or "current_" not in statement.lower():
        return []
    found = []
    for first, last, name, alone in _calls(tokenize(statement)):
        value = literal(own_catalog(lake) if name == "current_catalog" else lake.current_database, name)
        found.append((first.start, last.end, value + (f" AS `{name}()`" if alone else "")))
    return found


def _calls(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token, str, bool]]:
    """The first and the last token of each call, its name, and whether it is a whole column of a SELECT without a name
    of its own."""
    listing = [False]  # of each bracket around: whether its SELECT lists columns here
    for at, token in enumerate(tokens):
        if token.kind == "sign" and token.value in "()":
            listing = [*listing, False] if token.value == "(" else listing[:-1] or [False]
        elif token.kind == "word" and (token.is_word("SELECT") or token.value.upper() in _BEHIND):
            listing[-1] = token.is_word("SELECT")
        if _is_call(tokens, at):
            before, behind = tokens[at - 1 : at], tokens[at + 3 : at + 4]
            begins = any(one.value.upper() in ("SELECT", "DISTINCT", "ALL", ",") for one in before)
            ends = not behind or behind[0].value in (",", ")", ";") or behind[0].value.upper() in _BEHIND
            yield token, tokens[at + 2], token.value.lower(), listing[-1] and begins and ends


def _is_call(tokens: Sequence[Token], at: int) -> bool:
    if tokens[at].kind != "word" or tokens[at].value.lower() not in _NAMES:
        return False
    behind = [(token.kind, token.value) for token in tokens[at + 1 : at + 3]]
    qualified = any(token.value == "." or token.is_word("FUNCTION") for token in tokens[max(at - 1, 0) : at])
    return behind == [("sign", "("), ("sign", ")")] and not qualified
