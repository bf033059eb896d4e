"""Statements behind common table expressions. Of DELETE and UPDATE, as Spark has it, the names are every subquery's.

    WITH name [(columns)] AS (query), … {DELETE FROM t … | UPDATE t SET … | MERGE INTO t … | INSERT …}

Spec: docs/spec/row_changes.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bucketlake.sql.rows import delete, insert_forms, merge_forms, update
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Parse, Statement
from bucketlake.sql.text.tokens import QUERIES, Token, blank, splice


def parse_led(cursor: Cursor) -> Statement | None:
    """Read the statement that WITH leads; None for a query, which is Spark's to read."""
    depth = 0
    for at, token in enumerate(cursor.tokens):
        if token.kind == "sign":
            depth += (token.value == "(") - (token.value == ")")
        elif depth == 0 and token.kind == "word" and at and cursor.tokens[at - 1].value == ")":
            led = _LED.get(token.value.upper())
            if led is not None:
                cursor.at = at
                return led(cursor)
            if token.value.upper() not in ("AS", "MAX"):  # r (n) MAX RECURSION LEVEL 9 AS (…)
                break
    return insert_forms.parse_led(cursor)


def parse_after_with(cursor: Cursor) -> Statement | None:
    """Read the DELETE or UPDATE at the cursor, which common table expressions precede.

    Each subquery gets these as its own: it is evaluated by itself, with the rows of the table or before them.
    """
    text, start = cursor.text, cursor.tokens[cursor.at].start
    parse = delete.parse if cursor.sees("DELETE") else update.parse
    alone = blank(text, [(0, start)])
    plain = Cursor(alone)
    parse(plain)  # what is wrong with it is told at its place
    ctes = text[: cursor.tokens[cursor.at - 1].end]
    found = parse(Cursor(splice(alone, _pieces(cursor.tokens[cursor.at :], ctes))))
    cursor.at, cursor.subject = len(cursor.tokens), plain.subject
    return found


def _pieces(tokens: Sequence[Token], ctes: str) -> Iterator[tuple[int, int, str]]:
    """What goes into the text for the outermost subqueries to have the expressions before them."""
    depth, opened, wrapped = 0, None, False
    for at, token in enumerate(tokens):
        if token.kind != "sign":
            continue
        if token.value == "(":
            first = tokens[at + 1] if at + 1 < len(tokens) else None
            if opened is None and first is not None and any(first.is_word(word) for word in QUERIES):
                opened, wrapped = depth, first.is_word("WITH")  # one with names of its own stays a query by itself
                yield first.start, first.start, f"{ctes} {'(' if wrapped else ''}"
            depth += 1
        elif token.value == ")":
            depth -= 1
            if depth == opened:
                opened = None
                if wrapped:
                    yield token.start, token.start, ")"


_LED: Mapping[str, Parse] = {
    "MERGE": merge_forms.parse_after_with,
    "DELETE": parse_after_with,
    "UPDATE": parse_after_with,
}
