"""What a text does that begins like a query: WITH and FROM lead statements that change tables, too."""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.sql.text.tokens import Token

EVOLUTION = ("WITH", "SCHEMA", "EVOLUTION")


def change_in(tokens: Sequence[Token], at: int) -> int | None:
    """Where a text that begins like a query, behind WITH or FROM, turns out to change a table."""
    depth, led = 0, tokens[at].is_word("WITH")
    for place in range(at, len(tokens)):
        token = tokens[place]
        if token.kind == "sign":
            depth += token.value.count("(") - token.value.count(")")
            continue
        if depth or token.kind != "word":
            continue
        if is_insert(tokens, place):
            return place
        word = token.value.upper()
        if led and word in ("DELETE", "UPDATE", "MERGE") and tokens[place - 1].value == ")":  # behind its last name
            return place
        led = led and word not in ("SELECT", "FROM", "VALUES", "TABLE")
    return None


def is_insert(tokens: Sequence[Token], at: int) -> bool:
    """Whether the verb of an INSERT stands at a place: a word that goes on as its grammar does."""
    if not tokens[at].is_word("INSERT"):
        return False
    evolves = [token.value.upper() for token in tokens[at + 1 : at + 4]] == [*EVOLUTION]
    following = tokens[at + 4 : at + 5] if evolves else tokens[at + 1 : at + 2]
    return bool(following) and (following[0].is_word("INTO") or following[0].is_word("OVERWRITE"))
