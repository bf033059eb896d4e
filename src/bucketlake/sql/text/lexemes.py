"""Spark's own reading of a statement's characters: what is a literal, a name, a comment, and what a literal means.

The parser in use reads SQL of many kinds and is not Spark. What is concluded from its trees holds where both cut the
text alike: `cuts_alike` says so. Literals are read here, from the user's text, never from the tree.

Spec: docs/spec/pushdown.md#text
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from sqlglot.tokens import Token

# Spark's lexer, SqlBaseLexer.g4. A comment within a comment, `$$` strings, locators with `://`, other white space and
# what stands in no grammar match nothing: such a text is not read.
_PIECE = re.compile(
    r"""(?P<blank>[ \t\r\n]+|--(?:\\\n|[^\r\n])*|/\*(?!\+)(?:(?!/\*|\*/).)*\*/)
    |(?P<quoted>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)
    |(?P<plain>\w+(?!://)|/\*\+|[()\[\],.;:?=<>!+\-*/%&|^~{}])""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[0-9]+|[0-9]+\.[0-9]*|\.[0-9]+")
_REAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]{1,3}")
_WORD = re.compile(r"[^ \t\r\n]+")
Span = tuple[int, int]


def cuts_alike(text: str, tokens: Iterable[Token]) -> bool:
    """Whether the parser's tokens of `text` cover what Spark would not skip, with the same quoted parts."""
    covered: list[Span] = []
    quoted: list[Span] = []
    at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return False
        if piece.lastgroup != "blank":
            _extend(covered, piece.span())
        if piece.lastgroup == "quoted":
            _extend(quoted, (at + (text[at] in "rR"), piece.end()))
        at = piece.end()
    theirs: list[Span] = []
    their_quoted: list[Span] = []
    for token in tokens:
        start, end = token.start, token.end + 1
        quotes = [place for place in (text.find(quote, start, end) for quote in "'\"`") if place >= 0]
        if quotes:
            _extend(theirs, (start, end))
            _extend(their_quoted, (min(quotes), end))
            continue
        for word in _WORD.finditer(text, start, end):  # GROUP BY is one token
            _extend(theirs, word.span())
    return covered == theirs and quoted == their_quoted


def masked(text: str) -> str:
    """The text with strings that hold quotes or escapes overwritten: all parsers cut it alike, at the same places."""
    pieces, at = [], 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return text
        found = piece.group()
        if piece.lastgroup == "quoted" and found[0] in "'\"" and ("\\" in found or found[0] * 2 in found[1:-1]):
            found = found[0] + "x" * (len(found) - 2) + found[0]
        pieces.append(found)
        at = piece.end()
    return "".join(pieces)


def _extend(spans: list[Span], found: Span) -> None:
    """Add a span, joined to the last one where they touch."""
    if spans and spans[-1][1] == found[0]:
        found = (spans.pop()[0], found[1])
    spans.append(found)


def string(source: str) -> str | None:
    """What a string literal means by Spark's default settings; None with an escape, or if it is no such literal."""
    if source[:1] in ("r", "R"):
        quote, body = source[1:2], source[2:-1]
        closed = len(source) > 2 and source[-1] == quote and quote in ("'", '"')
        return body if closed and quote not in body else None
    if len(source) < 2 or source[0] not in "'\"" or source[0] != source[-1] or "\\" in source:
        return None
    quote, body = source[0], source[1:-1]
    return None if quote in body.replace(quote * 2, "") else body.replace(quote * 2, quote)


def number(source: str, sign: str = "") -> int | Decimal | float | None:
    """An INT, BIGINT or DECIMAL literal as int or Decimal, one with an exponent as float (DOUBLE); None for others."""
    if len(source) > 60:
        return None
    if _REAL.fullmatch(source):
        return float(sign + source)
    if not _NUMBER.fullmatch(source):
        return None
    return Decimal(sign + source) if "." in source else int(sign + source)


def name(source: str) -> str:
    """What an identifier's source names."""
    return source[1:-1].replace("``", "`") if source[:1] == "`" else source


def fold(text: str) -> str:
    """A form that is equal for all names that some rule may call equal without case."""
    if text.isascii():
        return text.lower()
    return "".join(char.upper()[:1].lower()[:1] for char in text)


def mentions(text: str, column: str) -> bool:
    """Whether a folded statement may name this column anywhere."""
    wanted = fold(column)
    if wanted.isascii() and wanted.isidentifier():
        return re.search(rf"(?<!\w){wanted}(?!\w)", text) is not None
    return wanted in text or wanted.replace("`", "``") in text
