"""Paimon's table functions in queries: `FROM paimon_incremental_query('t', start, end)` and its like.

A call stands where a table's name may stand and means a read of the table with an option. Its arguments are blanked
before the statement is parsed, so that the function's name is taken for a table's; where it stands as one, the whole
call is replaced as a table's name is.

Spec: docs/spec/incremental.md#in-sql
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.tokens import Token
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

# Function → the option that it means, the parameters behind the table.
FUNCTIONS = {
    "paimon_incremental_query": ("incremental-between", ("startSnapshotId", "endSnapshotId")),
    "paimon_incremental_between_timestamp": ("incremental-between-timestamp", ("startTimestamp", "endTimestamp")),
    "paimon_incremental_to_auto_tag": ("incremental-to-auto-tag", ("endTagName",)),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A call at `start:end`, its arguments from `opens` on; `arguments`: their source texts."""

    function: str
    start: int
    opens: int
    end: int
    arguments: tuple[str, ...]

    def read(self, lake: Lake) -> tuple[names.LakeName, dict[str, str]]:
        """The table and the scan options that it means; InvalidError for arguments that cannot be meant."""
        option, parameters = FUNCTIONS[self.function]
        count = {1: "one parameter", 2: "two parameters"}[len(parameters)]
        if len(self.arguments) != 1 + len(parameters):
            raise InvalidError(
                f"{self.function} needs {count}: {', and '.join(parameters)}.",
                given=len(self.arguments),
                remedy=f"write {self.function}('table', {', '.join(parameters)})",
            )
        named = zip(("table", *parameters), self.arguments, strict=True)
        table, *values = [self._value(lake, name, text) for name, text in named]
        return names.target(lake, names.parts_of(table)), {"scan.mode": "incremental", option: ",".join(values)}

    def _value(self, lake: Lake, name: str, text: str) -> str:
        """An argument as text: a literal, or an expression that Spark computes; moments as epoch milliseconds."""
        cursor = Cursor(text)
        first = cursor.peek()
        if len(cursor.tokens) == 1 and first is not None and first.kind in ("string", "number"):
            return first.value
        if not cursor.tokens:
            raise InvalidError(f"{self.function}: {name} is missing", remedy="give a value")
        if any(token.value == "=>" for token in cursor.tokens):
            raise InvalidError(f"{self.function} takes no named arguments", argument=text, remedy="give them by place")
        frame = lake.spark.sql(f"SELECT {text} AS v")
        moment = frame.schema[0].dataType.typeName() == "timestamp"
        found = frame.selectExpr(f"CAST({'unix_millis(v)' if moment else 'v'} AS STRING)").collect()[0][0]
        if found is None:
            raise InvalidError(f"{self.function}: {name} is null", argument=text, remedy="give a value")
        return str(found)


def calls(statement: str, tokens: list[Token]) -> dict[int, Call]:
    """The calls of a statement by where they start; InvalidError for one that does not end."""
    found = {}
    for at, (token, following) in enumerate(pairwise(tokens)):
        qualified = at > 0 and tokens[at - 1].value == "."
        named = token.kind in ("word", "quoted") and token.value.lower() in FUNCTIONS
        if named and not qualified and following.value == "(" and following.kind == "sign":
            found[token.start] = _call(statement, tokens, at)
    return found


def _call(statement: str, tokens: list[Token], at: int) -> Call:
    name, opens = tokens[at], tokens[at + 1]
    arguments: list[str] = []
    depth, start = 0, opens.end
    for token in tokens[at + 1 :]:
        sign = token.value if token.kind == "sign" else ""
        depth += (sign in ("(", "[")) - (sign in (")", "]"))
        if (sign == "," and depth == 1) or depth == 0:
            text = statement[start : token.start].strip()
            if text or sign == "," or arguments:
                arguments.append(text)
            start = token.end
        if depth == 0:
            return Call(name.value.lower(), name.start, opens.start, token.end, tuple(arguments))
    raise InvalidError("SQL: a call does not end", function=name.value, remedy="close its parenthesis")
