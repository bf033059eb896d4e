"""What a query says that Spark, or whoever looks for names behind FROM, has no word for, in words that they have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bucketlake.sql.text.tokens import Token, splice, tokenize

_TIMESTAMPS = {"TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP_LTZ": "TIMESTAMP_LTZ", "TIMESTAMP_NTZ": "TIMESTAMP_NTZ"}
_ZONES = (
    (("WITHOUT", "TIME", "ZONE"), "TIMESTAMP_NTZ"),
    (("WITH", "LOCAL", "TIME", "ZONE"), "TIMESTAMP_LTZ"),
)


def with_quoted(text: str) -> str:
    """The text, names with `$` in backticks, as Spark reads them: Flink's `SELECT * FROM t$snapshots`."""
    return splice(text, _quoted(text)) if "$" in text else text


def before_quotes(written: str, place: int) -> int:
    """Where in the text as it was written a place of its `with_quoted` is."""
    for start, end, quoted in _quoted(written) if "$" in written else ():
        if place <= start:
            break
        place = place - 2 if place >= start + len(quoted) else min(place - 1, end)
    return place


def _quoted(text: str) -> list[tuple[int, int, str]]:
    tokens = tokenize(text)
    pieces: list[tuple[int, int, str]] = []
    start = end = 0  # of the name that the last tokens are
    for at, token in enumerate(tokens):
        goes_on = at > 1 and token.kind == "word" and end == tokens[at - 1].start and token.start == tokens[at - 1].end
        if goes_on and tokens[at - 1].value == "$":
            pieces = pieces[:-1] if pieces and pieces[-1][0] == start else pieces
            end = token.end
            pieces.append((start, end, f"`{text[start:end]}`"))
        elif token.kind == "word":
            start, end = token.start, token.end
    return pieces


def plain_pieces(text: str) -> list[tuple[int, int, str]]:
    """What is spliced into a query for what Spark, or whoever looks for names behind FROM, has no word for."""
    return [*timestamp_pieces(text), *_tables(text)]


def timestamp_pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """Casts to Flink's `TIMESTAMP(n)` and `TIMESTAMP_LTZ(n)` as Spark's types: Spark knows one precision."""
    tokens = tokenize(text)
    for at in range(1, len(tokens) - 3):
        before, word, opens, number, closes = tokens[at - 1 : at + 4]
        if not (before.is_word("AS") or before.value == "::") or opens.value != "(" or closes.value != ")":
            continue
        if number.kind != "number" or word.kind != "word" or word.value.upper() not in _TIMESTAMPS:
            continue
        kind, end = _TIMESTAMPS[word.value.upper()], closes.end
        for suffix, named in _ZONES:
            following = tokens[at + 4 : at + 4 + len(suffix)]
            if len(following) == len(suffix) and all(t.is_word(w) for t, w in zip(following, suffix, strict=True)):
                kind, end = named, following[-1].end
        yield word.start, end, kind


_SET_OPERATORS = ("UNION", "EXCEPT", "MINUS", "INTERSECT")
_EXPLAINS = ("EXPLAIN", "EXTENDED", "CODEGEN", "COST", "FORMATTED", "QUERY")  # EXPLAIN FORMATTED, DESCRIBE QUERY
# What may stand before a query's bracket: any other word there is the name of a function.
_BEFORE_BRACKET = re.compile(
    "AS|FROM|JOIN|IN|EXISTS|LATERAL|ANY|SOME|ALL|DISTINCT|SELECT|WHERE|AND|OR|NOT|ON|HAVING|CASE|WHEN|THEN|ELSE|SET|BY"
    "|BETWEEN|LIKE|VALUES|UNION|EXCEPT|MINUS|INTERSECT|EXPLAIN|EXTENDED|CODEGEN|COST|FORMATTED|QUERY"
)


def _tables(text: str) -> Iterator[tuple[int, int, str]]:
    """Queries `TABLE t` as `SELECT * FROM t`, wherever a query may stand, and a function's `TABLE(t)` as
    `TABLE(SELECT * FROM t)`."""
    if "table" not in text.lower():
        return
    tokens = tokenize(text)
    for at, token in enumerate(tokens[:-1]):
        if not token.is_word("TABLE"):
            continue
        before = tokens[at - 1] if at else None
        if tokens[at + 1].kind in ("word", "quoted"):
            if _begins_query(tokens, at):
                yield token.start, token.end, "SELECT * FROM"
        elif before is not None and before.value in ("(", ",", "=>", ">") and _is_argument(tokens, at + 1):
            yield tokens[at + 1].end, tokens[at + 1].end, "SELECT * FROM "


def _begins_query(tokens: Sequence[Token], at: int) -> bool:
    """Whether a query may begin at this token."""
    if not at:
        return True
    before = tokens[at - 1]
    if before.is_word("ALL") or before.is_word("DISTINCT"):
        before = tokens[at - 2] if at > 1 else before
    if before.kind == "word":
        word = before.value.upper()
        return word in _SET_OPERATORS or (word in _EXPLAINS and at <= 2)
    if before.kind != "sign" or before.value not in ("(", ")"):
        return False
    opens = at - 1
    if before.value == ")":  # behind common table expressions: name AS (…)
        depth = 0
        for opens in range(at - 1, -1, -1):
            token = tokens[opens]
            depth += {")": 1, "(": -1}.get(token.value, 0) if token.kind == "sign" else 0
            if not depth:
                break
        return opens > 0 and tokens[opens - 1].is_word("AS")
    outer = tokens[opens - 1] if opens else None
    if outer is None or outer.kind not in ("word", "quoted"):
        return True
    return outer.kind == "word" and _BEFORE_BRACKET.fullmatch(outer.value.upper()) is not None


def _is_argument(tokens: Sequence[Token], at: int) -> bool:
    """Whether these tokens are a name in brackets."""
    if tokens[at].value != "(" or tokens[at].kind != "sign":
        return False
    for place in range(at + 1, len(tokens)):
        token = tokens[place]
        if (place - at) % 2 == 0:
            if token.value != ".":
                return token.value == ")" and token.kind == "sign"
        elif token.kind not in ("word", "quoted"):
            return False
    return False
