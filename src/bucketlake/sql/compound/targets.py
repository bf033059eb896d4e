"""Which variables a statement of a script sets, by their names in its text.

set_targets("l.x = 1, y = 2")                             what follows SET
into_targets("EXECUTE IMMEDIATE 'SELECT 1' INTO l.x")
qualifiers(text)                                          the names that stand before a dot
"""

from __future__ import annotations

from itertools import pairwise

from bucketlake.errors import InvalidError
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.tokens import tokenize
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class SetName:
    """A variable that is set: its name in parts, and where that stands."""

    parts: tuple[str, ...]
    start: int
    end: int


def set_targets(text: str) -> list[SetName]:
    """The variables of `a = expression, …` or `(a, b) = (query)`; none of a text that is neither."""
    cursor = Cursor(text)
    try:
        if cursor.sees("("):
            return cursor.bracketed(lambda: _name(cursor))

        def assignment() -> SetName:
            found = _name(cursor)
            cursor.expect("=")
            cursor.expression(",")
            return found

        return cursor.listed(assignment)
    except InvalidError:
        return []  # Spark says what is wrong with it


def into_targets(text: str) -> list[SetName]:
    """The variables behind INTO of an EXECUTE IMMEDIATE; none of another statement."""
    cursor = Cursor(text)
    if not cursor.accept("EXECUTE", "IMMEDIATE"):
        return []
    try:
        cursor.expression("INTO", "USING")
        return cursor.listed(lambda: _name(cursor)) if cursor.accept("INTO") else []
    except InvalidError:
        return []


def qualifiers(text: str) -> frozenset[str]:
    """The names in a text that stand before a dot, in lower case."""
    tokens = tokenize(text)
    return frozenset(
        token.value.lower()
        for token, after in pairwise(tokens)
        if after.value == "." and token.kind in ("word", "quoted")
    )


def _name(cursor: Cursor) -> SetName:
    start = cursor.peek()
    parts = cursor.name()
    return SetName(parts, start.start if start is not None else 0, cursor.tokens[cursor.at - 1].end)
