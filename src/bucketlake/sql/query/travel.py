"""Time travel in queries: VERSION AS OF, TIMESTAMP AS OF, and the session's `spark.paimon.*` options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.options.session import options_of
from bucketlake.spark.settings import settings_of
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.names import LakeName
from bucketlake.sql.text.tokens import Token
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

_STOPS = (
    *(",", ")", ";", "WHERE", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "ANTI", "SEMI", "NATURAL", "GROUP"),
    *("ORDER", "SORT", "DISTRIBUTE", "CLUSTER", "LIMIT", "OFFSET", "HAVING", "UNION", "EXCEPT", "INTERSECT", "MINUS"),
    *("LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE", "WINDOW", "AS", "ON", "USING"),
)
_UNIT = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND")
_UNITS = frozenset(("TO", *_UNIT, *(f"{unit}S" for unit in _UNIT)))
_RARER = ("QUALIFY", "ASOF", "MATCH_CONDITION", "APPROX", "EXACT", "BIN")  # PySpark 4.3's
# The words that may follow a table's name and are no alias of it.
FOLLOWS = frozenset(
    (*_STOPS, *_RARER, "SELECT", "INSERT", "FROM", "FOR", "VERSION", "TIMESTAMP", "MAP", "REDUCE", "WHEN", "SET")
)


@dataclass(frozen=True, slots=True)
class Travel:
    """An AS OF clause at `start:end`: `kind` is version or timestamp, `value` the expression's source text."""

    kind: str
    value: str
    start: int
    end: int

    def scan(self, lake: Lake, run: Callable[[Lake, str], DataFrame]) -> dict[str, str]:
        """The scan options that it means, as upstream's Spark connector reads it: a version is a snapshot id or tag.
        `run`: runs a query, for a time may be asked of another lake table."""
        if self.kind == "version":
            cursor = Cursor(self.value)
            version = cursor.literal()
            cursor.end()
            return {"scan.version": version}
        rows = run(lake, f"SELECT unix_millis(CAST({self.value} AS TIMESTAMP))").collect()
        if rows[0][0] is None:
            raise InvalidError("TIMESTAMP AS OF is null", value=self.value, remedy="give a timestamp")
        return {"scan.timestamp-millis": str(rows[0][0])}


def travels(statement: str, tokens: list[Token]) -> list[Travel]:
    """The AS OF clauses of a statement, in order: [FOR] {VERSION | SYSTEM_VERSION | TIMESTAMP | SYSTEM_TIME} AS OF …"""
    found = []
    for at in range(len(tokens) - 2):
        word = tokens[at].value.upper()
        if tokens[at].kind != "word" or word not in ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME"):
            continue
        if not (tokens[at + 1].is_word("AS") and tokens[at + 2].is_word("OF")):
            continue
        start = tokens[at - 1].start if at and tokens[at - 1].is_word("FOR") else tokens[at].start
        value, end = _value(statement, tokens, at + 3)
        found.append(Travel("version" if word.endswith("VERSION") else "timestamp", value, start, end))
    return found


def _value(statement: str, tokens: list[Token], at: int) -> tuple[str, int]:
    """The expression after AS OF: a whole operand, with the operands that arithmetic signs join to it."""
    if at >= len(tokens):
        raise InvalidError("SQL: AS OF needs a value", statement=statement, remedy="give a version or timestamp")
    first, depth, last = at, 0, at
    while at < len(tokens):
        token = tokens[at]
        if depth == 0 and at > first and _ends(tokens, at):
            break
        if token.is_word("INTERVAL"):
            at = _behind_interval(tokens, at + 1)
        else:
            depth, at = depth + _depth(token), at + 1
        last = at - 1
    return statement[tokens[first].start : tokens[last].end], tokens[last].end


def _depth(token: Token) -> int:
    """How many levels a token opens: brackets, and CASE up to its END, whose parts are operands in a row."""
    if token.kind == "word":
        return token.is_word("CASE") - token.is_word("END")
    return sum(token.value.count(sign) for sign in "([") - sum(token.value.count(sign) for sign in ")]")


def _behind_interval(tokens: list[Token], at: int) -> int:
    """Where an INTERVAL literal has ended whose values start at `at`: 1 DAY -2 HOURS, '1 2' DAY TO HOUR, '1 day'."""
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "sign" and not (token.value in ("+", "-") and tokens[at + 1 : at + 2]):
            break
        if token.kind == "sign" and tokens[at + 1].kind not in ("number", "string"):
            break
        if token.kind == "word" and token.value.upper() not in _UNITS:
            break
        at += 1
    return at


def _ends(tokens: list[Token], at: int) -> bool:
    token, before = tokens[at], tokens[at - 1]
    if token.kind == "sign":
        return token.value in (",", ")", ";", "|>")
    if token.value.upper() in _STOPS and token.kind == "word":
        return True
    # Two operands in a row: what follows is the alias, unless a typed literal (TIMESTAMP '…') is open.
    typed = before.kind == "word" and before.value.upper() in ("TIMESTAMP", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
    operand = before.kind != "sign" or before.value in ("?", ")", "]")
    return operand and not typed


def session_options(lake: Lake, name: LakeName, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """The session's options for a table; `settings`: the session's, where they are known already."""
    known = settings_of(lake.spark) if settings is None else settings
    return options_of(known, lake.catalog_names, name.database, (name.table, name.base))
