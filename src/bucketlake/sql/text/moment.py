"""The time that a statement sees: one, however many queries of Spark's it takes.

Spark fixes it for each query that it plans. So texts that several queries evaluate say it as a number.
"""

from __future__ import annotations

from collections.abc import Collection

from bucketlake.sql.text.tokens import splice, tokenize

_MICROS = "timestamp_micros({})"
_AS: dict[str, str] = {  # what the functions without arguments give, by a number of microseconds
    "CURRENT_TIMESTAMP": _MICROS,
    "NOW": _MICROS,
    "CURRENT_DATE": f"CAST({_MICROS} AS DATE)",
    "CURDATE": f"CAST({_MICROS} AS DATE)",
    "LOCALTIMESTAMP": f"CAST({_MICROS} AS TIMESTAMP_NTZ)",
    "UNIX_TIMESTAMP": f"unix_seconds({_MICROS})",
}
_BARE = frozenset({"CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIMESTAMP"})  # that need no brackets


def at_moment(text: str, millis: int, columns: Collection[str]) -> str:
    """An expression that sees a moment, of epoch milliseconds, wherever it asks what time it is. `columns`: names that
    columns have, which such a word without brackets means then."""
    if not any(name in text.upper() for name in _AS):
        return text
    tokens, taken = tokenize(text), {name.upper() for name in columns}
    pieces = []
    for at, token in enumerate(tokens):
        name = token.value.upper() if token.kind == "word" else ""
        if name not in _AS or (at and tokens[at - 1].value == "."):
            continue
        following = [one.value for one in tokens[at + 1 : at + 3]]
        if following == ["(", ")"]:
            pieces.append((token.start, tokens[at + 2].end, _AS[name].format(1000 * millis)))
        elif following[:1] != ["("] and following[:1] != ["."] and name in _BARE and name not in taken:
            pieces.append((token.start, token.end, _AS[name].format(1000 * millis)))
    return splice(text, pieces)
