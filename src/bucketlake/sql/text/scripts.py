"""Where the statements of a script begin and end."""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.sql.text.tokens import Token, tokenize


def opens_script(tokens: Sequence[Token], at: int = 0) -> int | None:
    """The place of BEGIN where a script of Spark's, `[label:] BEGIN … END`, begins here; None where none does."""
    begin = at + 2 if [token.value for token in tokens[at + 1 : at + 2]] == [":"] else at
    if len(tokens) <= begin + 1 or not tokens[begin].is_word("BEGIN"):
        return None
    following = tokens[begin + 1]
    return None if following.value == ";" or following.is_word("TRANSACTION") or following.is_word("WORK") else begin


def statement_places(text: str) -> list[tuple[int, int]]:
    """Where the statements of a script begin and end, without the blanks around them: cut at semicolons between
    tokens, so at none in literals and comments, and at none before the END of a BEGIN. What holds comments alone is
    left out."""
    places: list[tuple[int, int]] = []
    start, said = 0, False
    opened, depth = len(text), 0  # BEGIN of the script here, by its token, and what is open of it
    tokens = [*tokenize(text), Token("sign", ";", len(text), len(text))]
    for at, token in enumerate(tokens):
        begin = None if said else opens_script(tokens, at)
        opened = opened if begin is None else begin
        if at == opened or (at > opened and depth):
            depth += _opened(tokens, at)
        if token.kind != "sign" or token.value != ";" or (depth and at < len(tokens) - 1):
            said = True
            continue
        if said:
            piece = text[start : token.start]
            places.append((start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())))
        start, said, opened, depth = token.end, False, len(text), 0
    return places


def _opened(tokens: Sequence[Token], at: int) -> int:
    """By how much a token of a script changes how many BEGIN and CASE are open."""
    token, before = tokens[at], tokens[at - 1] if at else None
    if token.kind != "word" or (before is not None and before.value == "."):
        return 0
    if token.is_word("END"):
        return -(not any(tokens[at + 1].is_word(word) for word in ("IF", "WHILE", "LOOP", "REPEAT", "FOR")))
    ends = before is not None and before.is_word("END")
    return int(token.is_word("BEGIN") or (token.is_word("CASE") and not ends))


def split_statements(text: str) -> list[str]:
    """The statements of a script: see `statement_places`."""
    return [text[start:end] for start, end in statement_places(text)]
