"""The words of a SQL condition, as Spark's lexer cuts them, and its boolean skeleton.

    condition := part (OR part)* | part (AND part)* | NOT condition | "(" condition ")" | leaf

Strings and numbers that say their type become values here, so that no other parser's escapes matter. The skeleton is
found by brackets alone, without recursion along chains, redundant parentheses or NOTs.

Spec: docs/spec/types.md#predicates
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Literal

from bucketlake.errors import InvalidError
from bucketlake.predicate.numbers import Beyond, parse_number
from bucketlake.values import dataclass

__all__ = ["UNREAD", "Part", "Words", "names_in", "shortened"]

DEEPEST = 100  # of a condition's skeleton
_SHOWN = 300
UNREAD = object()  # a string with escapes that are not read here

_LEXEME = re.compile(
    r"""(?P<space>\s+|--(?:\\\n|[^\r\n])*)
      | (?P<comment>/\*)
      | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
      | (?P<hex>[xX]\s*(?:'[^']*'|"[^"]*"))
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<name>`(?:[^`]|``)*`)
      | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|[LSYFD])?(?![0-9A-Za-z_]))
      | (?P<word>[^\W\d]\w*|\d\w*)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_PLAIN_NUMBER = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_OPEN = {"(": ")", "[": "]", "{": "}", "CASE": "END"}
_CLOSE = frozenset(_OPEN.values())
_QUERIES = frozenset(("SELECT", "WITH", "VALUES", "FROM", "TABLE", "MAP", "REDUCE"))
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r", "%": "\\%", "_": "\\_"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_BEFORE_VALUES = frozenset(("(", ",", "=", "<", ">", "!", "+", "-", "*", "/", "AND", "OR", "NOT"))
_NOT = ("NOT", "!")
_HEX = re.compile(r"[0-9A-Fa-f]*")


@dataclass(frozen=True, slots=True)
class Word:
    """One lexeme: where it stands; `upper`: what it is known by, empty for values and quoted names."""

    start: int
    end: int
    upper: str
    value: Any = None
    is_value: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A node of the skeleton over words first … last - 1; `kind` says what joins its `parts`."""

    kind: Literal["and", "or", "leaf"]
    first: int
    last: int
    negated: bool = False
    parts: tuple[Part, ...] = ()


class Words:
    """The lexemes of one condition."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = list(self._scan())
        self.partner = self._brackets()
        self.values = [word.value for word in self.words if word.is_value]

    def error(self, what: str, position: int) -> InvalidError:
        """A condition that cannot be read."""
        return InvalidError(
            "cannot parse the condition", condition=shortened(self.text), position=position, reason=what
        )

    def _scan(self) -> list[Word]:
        found: list[Word] = []
        at = 0
        while at < len(self.text):
            match = _LEXEME.match(self.text, at)
            if match is None:
                raise self.error("unexpected character", at)
            kind = match.lastgroup
            if kind == "comment":
                at = self._comment_end(at)
                continue
            if kind != "space":
                found.append(self._word(match, str(kind)))
            at = match.end()
        return found

    def _comment_end(self, start: int) -> int:
        depth, at = 0, start
        while match := _COMMENT_MARK.search(self.text, at):
            depth += 1 if match[0] == "/*" else -1
            at = match.end()
            if depth == 0:
                return at
        raise self.error("comment does not end", start)

    def _word(self, match: re.Match[str], kind: str) -> Word:
        start, end, text = match.start(), match.end(), match[0]
        if kind == "raw":
            return Word(start, end, "", text[2:-1], True)
        if kind == "hex":
            digits = text[1:].strip()[1:-1]
            if _HEX.fullmatch(digits) is None:
                raise self.error("not hexadecimal digits", start)
            return Word(start, end, "", bytes.fromhex("0" * (len(digits) % 2) + digits), True)
        if kind == "string":
            return Word(start, end, "", _unescaped(text), True)
        if kind == "number" and _PLAIN_NUMBER.fullmatch(text) is None:
            try:
                return Word(start, end, "", parse_number(text), True)
            except Beyond:
                return Word(start, end, "", UNREAD, True)
        if kind == "sign" and text in "'\"`":
            raise self.error("quote does not end", start)
        return Word(start, end, "" if kind == "name" else text.upper())

    def _brackets(self) -> dict[int, int]:
        """Opening brackets, and CASE, to what closes them."""
        open_: list[int] = []
        found: dict[int, int] = {}
        for at, word in enumerate(self.words):
            sign = word.upper
            if sign in _OPEN and not self._member(at):
                open_.append(at)
            elif sign in _CLOSE and not self._member(at):
                while open_ and self.words[open_[-1]].upper == "CASE" and sign != "END":
                    open_.pop()  # a column of that name
                if open_ and _OPEN[self.words[open_[-1]].upper] == sign:
                    found[open_.pop()] = at
                elif sign != "END":
                    raise self.error(f"unexpected {sign}", word.start)
        for at in open_:
            if self.words[at].upper != "CASE":
                raise self.error("bracket does not close", self.words[at].start)
        return found

    def _member(self, at: int) -> bool:
        return at > 0 and self.words[at - 1].upper == "." and self.words[at].upper.isalpha()

    # ---- the skeleton

    def skeleton(self) -> Part:
        """The condition's parts. InvalidError where it is empty, or nested too deeply."""
        return self._part(0, len(self.words), 0)

    def _part(self, first: int, last: int, depth: int) -> Part:
        if depth > DEEPEST:
            raise InvalidError("condition is nested too deeply", depth=depth, remedy="join its parts by fewer levels")
        negated = False
        while True:
            if first >= last:
                place = self.words[last].start if last < len(self.words) else len(self.text)
                raise self.error("a condition is missing", place)
            if self.words[first].upper == "(" and self.partner[first] == last - 1:
                if first + 1 < last and self.words[first + 1].upper in _QUERIES:
                    return Part("leaf", first, last, negated)
                first, last = first + 1, last - 1
                continue
            cuts = self._cuts(first, last)
            if cuts is not None or self.words[first].upper not in _NOT:
                break
            while first < last and self.words[first].upper in _NOT:
                first, negated = first + 1, not negated
        if cuts is None:
            return Part("leaf", first, last, negated)
        kind, places = cuts
        edges = [first - 1, *places, last]
        pairs = pairwise(edges)
        parts = tuple(self._part(before + 1, after, depth + 1) for before, after in pairs)
        return Part(kind, first, last, negated, parts)

    def _cuts(self, first: int, last: int) -> tuple[Literal["and", "or"], list[int]] | None:
        """Where the outermost ORs stand, or else the outermost ANDs."""
        ands: list[int] = []
        ors: list[int] = []
        between, at = 0, first
        while at < last:
            word = self.words[at].upper
            if at in self.partner:
                at = self.partner[at]
            elif word == "BETWEEN" and not self._member(at):
                between += 1
            elif word == "OR" and not self._member(at):
                ors.append(at)
                between = 0
            elif word == "AND" and not self._member(at):
                if between:
                    between -= 1
                else:
                    ands.append(at)
            at += 1
        return ("or", ors) if ors else ("and", ands) if ands else None

    # ---- texts

    def original(self, first: int, last: int) -> str:
        """The user's text of these words."""
        return self.text[self.words[first].start : self.words[last - 1].end]

    def plain(self, first: int, last: int) -> tuple[str, dict[str, Any], list[tuple[int, int]]]:
        """The text of these words for another parser: values are strings that stand for them, pairs of parentheses
        around parentheses are left out. Also what the strings mean, and places in this text beside those in the
        condition."""
        pieces: list[str] = []
        values: dict[str, Any] = {}
        places: list[tuple[int, int]] = []
        dropped: set[int] = set()
        length = 0
        for at in range(first, last):
            word = self.words[at]
            if self._is_doubled(at):
                dropped.add(self.partner[at])
                continue
            if at in dropped:
                continue
            text = self.text[word.start : word.end]
            if word.is_value:
                key = f"\ue000{len(values)}\ue000"
                values[key] = word.value
                text = f"'{key}'"
            gap = " " if pieces and self.words[at - 1].end < word.start else ""
            places.append((length + len(gap), word.start))
            pieces.append(gap + text)
            length += len(gap) + len(text)
        return "".join(pieces), values, places

    def _is_doubled(self, at: int) -> bool:
        """Whether this is the outer of two pairs of parentheses with nothing between them, and no call's."""
        if self.words[at].upper != "(" or self.words[at + 1].upper != "(":
            return False
        if self.partner[at + 1] != self.partner[at] - 1:
            return False
        if at == 0:
            return True
        return self.words[at - 1].upper in _BEFORE_VALUES


def names_in(text: str, names: Iterable[str]) -> frozenset[str]:
    """The names that a text may mean: they stand in it as words or in backticks, in whatever case."""
    folded = text.lower()
    written = {name: re.escape(name.replace("`", "``").lower()) for name in names}
    return frozenset(name for name, own in written.items() if re.search(rf"(?<!\w){own}(?!\w)", folded))


def shortened(text: str) -> str:
    """A condition as errors show it."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _unescaped(literal: str) -> Any:
    """What a quoted string means: UNREAD for escapes that engines or settings read differently."""
    quote, body = literal[0], literal[1:-1].replace(literal[0] * 2, literal[0])
    if "\\" not in body:
        return body
    if quote * 2 in literal[1:-1]:
        return UNREAD
    if any(match[1] not in _ESCAPES for match in _ESCAPE.finditer(body)):
        return UNREAD
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], body)
