"""What a text does that begins like a query: WITH and FROM lead statements that change tables, too."""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.sql.text.tokens import Token


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
        following = tokens[place + 1] if place + 1 < len(tokens) else None
        if token.is_word("INSERT") and following is not None and any(map(following.is_word, ("INTO", "OVERWRITE"))):
            return place
        word = token.value.upper()
        if led and word in ("DELETE", "UPDATE", "MERGE") and tokens[place - 1].value == ")":  # behind its last name
            return place
        led = led and word not in ("SELECT", "FROM", "VALUES", "TABLE")
    return None
