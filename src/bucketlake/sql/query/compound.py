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

_QUERIES = {"SELECT", "VALUES", "FROM", "WITH", "TABLE", "MAP", "REDUCE"}
_FLOW = {
    *("BEGIN", "END", "DECLARE", "IF", "ELSE", "ELSEIF", "CASE", "WHEN", "WHILE", "UNTIL", "REPEAT", "LOOP", "FOR"),
    *("LEAVE", "ITERATE", "OPEN", "FETCH", "CLOSE", "SIGNAL", "RESIGNAL", "GET"),
}
_CHANGES = {"INSERT", "UPDATE", "DELETE", "MERGE"}  # behind the queries of a WITH
_OPENS = {"BEGIN", "DO", "LOOP"}  # a statement follows
_MAY_OPEN = {"THEN", "ELSE", "REPEAT"}  # a statement follows, or an expression
_EXPRESSIONS = {"NOT", "INTERVAL", "CASE"}  # that go on with a word of their own
_GOES_ON = {
    *("END", "ELSE", "WHEN", "AND", "OR", "IN", "IS", "NOT", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV"),
    *("COLLATE", "XOR", "AT", "FROM"),
}  # behind an expression that is one word


def is_compound(statement: str) -> bool:
    """Whether a text is a script in Spark's language: `[label:] BEGIN … END`, and no statement of several."""
    tokens = tokenize(statement)
    first = 2 if [token.value for token in tokens[1:2]] == [":"] else 0
    return len(tokens) > first + 2 and tokens[first].is_word("BEGIN") and not tokens[first + 1].is_word("TRANSACTION")


def run_compound(lake: Lake, statement: str, args: Any = None) -> DataFrame:
    """The rows of a script's last query. UnsupportedError for a statement in it that is no query, nor directs the
    script: it may change tables of the lake, or speak of Spark's own of these names."""
    if not lake.in_spark_catalog:
        tokens = tokenize(statement)
        found = next((found for at in range(len(tokens)) if (found := _other(tokens, at)) is not None), None)
        if found is not None:
            raise UnsupportedError(
                "a script (BEGIN … END) of Spark's may only query tables",
                statement=found.value.upper(),
                remedy="run the statements one by one, their conditions and loops in Python",
            )
    return query.run(lake, statement, args, prune=False)


def _other(tokens: Sequence[Token], at: int) -> Token | None:
    """The first word of a statement that may not stand here, if one begins behind this token."""
    token, rest = tokens[at], tokens[at + 1 :]
    word = token.value.upper() if token.kind == "word" else token.value
    if not rest:
        return None
    if word == ";" or word in _OPENS:
        return _refused(rest)
    if word == "HANDLER":
        return _refused(_handled(rest))
    if word in _MAY_OPEN and len(rest) > 1 and not (word == "REPEAT" and rest[0].value == "("):
        alone = rest[1].kind not in ("word", "quoted") or rest[1].value.upper() in _GOES_ON
        return None if alone or rest[0].value.upper() in _EXPRESSIONS else _refused(rest)
    behind = word == ")" or rest[0].is_word("INSERT")
    changes = rest[0].kind == "word" and rest[0].value.upper() in _CHANGES
    return rest[0] if changes and behind and rest[1:] and rest[1].kind in ("word", "quoted") else None


def _refused(tokens: Sequence[Token]) -> Token | None:
    """The first of these tokens, unless what begins with it is a query or directs the script."""
    if len(tokens) > 1 and tokens[1].value == ":":
        return _refused(tokens[2:])
    if not tokens or tokens[0].value in ("(", ";"):
        return None
    word = tokens[0].value.upper()
    if word == "SET":
        return None if _sets_variables(tokens) else tokens[0]
    return None if tokens[0].kind == "word" and (word in _QUERIES or word in _FLOW) else tokens[0]


def _sets_variables(tokens: Sequence[Token]) -> bool:
    """Whether a SET is of variables of the script or session; settings change what queries behind it read."""
    known = {"CATALOG", "TIME", "ROLE", "PATH"}
    target = [token for token in tokens[1:] if not (token.is_word("VAR") or token.is_word("VARIABLE"))][:2]
    return len(target) == 2 and target[0].value.upper() not in known and target[1].value in ("=", "(", ",", ")")


def _handled(tokens: Sequence[Token]) -> Sequence[Token]:
    """What is behind the conditions of a handler: `FOR SQLSTATE VALUE '22012', DIVIDE_BY_ZERO, NOT FOUND`."""
    place = 1
    while place < len(tokens):
        if tokens[place].is_word("NOT"):
            place += 1
        elif tokens[place].is_word("SQLSTATE"):
            place += 1 + tokens[place + 1 : place + 2][0].is_word("VALUE") if tokens[place + 1 : place + 2] else 1
        place += 1
        if place >= len(tokens) or tokens[place].value not in (",", "."):
            break
        place += 1
    return tokens[place:]
