"""SQL text with positions: words, quoted names and literals, and splicing.

Spark's tokens come from sqlglot's tokenizer. Statements that Spark has are never printed anew: they are cut and
spliced, so that what Spark parses is what the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from bucketlake.errors import InvalidError
from bucketlake.sql.text import habits
from bucketlake.sql.text.between import comment_end
from bucketlake.values import dataclass

QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")  # that a query begins with, or a bracket
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL: `kind` is word, quoted, string, number or sign; `text[start:end]` of the statement made it."""

    kind: str
    value: str
    start: int
    end: int

    def is_word(self, word: str) -> bool:
        """Whether this is the keyword `word` (upper case), not quoted."""
        return self.kind == "word" and self.value.upper() == word


_CLOSED = re.compile(  # up to a literal or comment that is not closed
    r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|[^'"`/-]|/(?!\*)|-(?!-))*""", re.DOTALL
)
_OPENED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|(/\*(?!\+))""", re.DOTALL)
_NO_BYTES = re.compile(r"""(?i)(?<![\w'"`])x(['"])(?![0-9a-f]*\1)""")
_RAW = (TokenType.RAW_STRING, TokenType.NATIONAL_STRING)
_NUMBERS = (TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.BYTE_STRING)


def tokenize(text: str) -> list[Token]:
    """The tokens of a statement, comments and hints left out; InvalidError on an unterminated literal."""
    return list(_tokens(text))


def explain_length(tokens: Sequence[Token]) -> int:
    """How many of a statement's first tokens are EXPLAIN and its mode: none of other statements."""
    if not tokens or not tokens[0].is_word("EXPLAIN"):
        return 0
    return (
        1 + any(tokens[1].is_word(mode) for mode in ("EXTENDED", "CODEGEN", "COST", "FORMATTED")) if tokens[1:] else 1
    )


class _Tokenizer(Spark.Tokenizer):  # type: ignore[misc]  # sqlglot makes it at import
    """Spark's. It does not take the rest of SHOW, CALL, EXECUTE and the like for one opaque text, not behind a
    semicolon or BEGIN either."""

    COMMANDS: ClassVar[set[TokenType]] = set()


@lru_cache(maxsize=8)  # every room that looks at a statement asks for its tokens
def _tokens(text: str) -> tuple[Token, ...]:
    try:
        raw = _Tokenizer(Spark()).tokenize(_nested_blank(text))
    except TokenError as error:
        closed = _CLOSED.match(text)
        at, remedy = closed.end() if closed else 0, "close the literal or comment"
        if at == len(text) and (bytes_ := _NO_BYTES.search(text)):
            at, remedy = bytes_.start(), "write bytes as X'1F'"
        raise InvalidError("SQL text cannot be read", **habits.told_place(text, at), remedy=remedy) from error
    tokens: list[Token] = []
    for token in raw:
        start, end = token.start, token.end + 1
        if tokens and start < tokens[-1].end:
            continue  # 1.5D is said again as a cast
        source = text[start:end]
        if token.token_type == TokenType.STRING:
            _append_string(tokens, Token("string", token.text, start, end), text)
        elif token.token_type == TokenType.IDENTIFIER:
            tokens.append(Token("quoted", token.text, start, end))
        elif token.token_type in _RAW:
            tokens.append(Token("string", token.text, start, end))
        elif token.token_type in _NUMBERS:
            tokens.append(Token("number", source, start, end))
        elif source[:1].isalnum() or source[:1] == "_":  # Spark's names may begin with digits
            tokens.extend(
                Token("word", word.group(), start + word.start(), start + word.end()) for word in _WORD.finditer(source)
            )
        elif token.token_type != TokenType.HINT:
            tokens.append(Token("sign", source, start, end))
    return tuple(tokens)


@lru_cache(maxsize=1024)
def is_name(word: str) -> bool:
    """Whether a word is no keyword of sqlglot's, which knows those of Spark that can begin an expression."""
    return [token.token_type for token in _Tokenizer(Spark()).tokenize(word)] == [TokenType.VAR]


def _nested_blank(text: str) -> str:
    """The text with blanks for its comments where sqlglot would end one too early: it misses a comment that begins
    right behind the sign that opens another."""
    spans: list[tuple[int, int]] = []
    at = 0 if "/*/*" in text else len(text)
    while (found := _OPENED.search(text, at)) is not None:
        at = found.end()
        if found[1]:
            at = comment_end(text, found, len(text))
            spans.append((found.start(), at))
    return blank(text, [(start, end) for start, end in spans if text[:end].endswith("*/")])


def _append_string(tokens: list[Token], token: Token, text: str) -> None:
    last, quote = tokens[-1] if tokens else None, text[token.start]
    if last is not None and last.kind == "string" and last.end == token.start and text[last.start] == quote:  # 'it''s'
        token = Token("string", tokens.pop().value + quote + token.value, last.start, token.end)
    tokens.append(token)


def blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with the spans overwritten by spaces, line ends kept: positions stay true."""
    for start, end in spans:
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def splice(text: str, pieces: Iterable[tuple[int, int, str]]) -> str:
    """The text with each `text[start:end]` replaced; pieces do not overlap."""
    for start, end, piece in sorted(pieces, reverse=True):
        text = text[:start] + piece + text[end:]
    return text


def past_comments(text: str) -> str:
    """The text with blanks for the comments before its first word: what a statement is, its beginning says."""
    lead = text[: tokenize(text)[0].start]
    return text if not lead.strip() else blank(text, [(0, len(lead))])
