"""What stands between the tokens of a statement: comments, and OPTIONS hints, which look like some.

comments(text, tokens)     where comments are
hints(text, tokens)        OPTIONS hints, but those that are commented out
comment_end(text, opened, until)    where a comment ends
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol

_HINT = re.compile(r"/\*\+\s*OPTIONS\s*\((.*?)\)\s*\*/", re.IGNORECASE | re.DOTALL)
_OPENS = re.compile(r"--|/\*")
_BRACKET = re.compile(r"/\*|\*/")


class Placed(Protocol):
    """A token, or another piece of a text."""

    @property
    def start(self) -> int:
        """Where it starts."""
        ...

    @property
    def end(self) -> int:
        """The place behind it."""
        ...


def comments(text: str, tokens: Sequence[Placed]) -> list[tuple[int, int]]:
    """The comments between tokens, in order, without hints."""
    return [(start, end) for start, end, hint in _pieces(text, tokens) if hint is None]


def hints(text: str, tokens: Sequence[Placed]) -> list[re.Match[str]]:
    """The OPTIONS hints between tokens, in order; the first group is what stands in their brackets."""
    return [hint for _, _, hint in _pieces(text, tokens) if hint is not None]


def _pieces(text: str, tokens: Sequence[Placed]) -> Iterator[tuple[int, int, re.Match[str] | None]]:
    """Comments and OPTIONS hints; other hints are Spark's, and stand between tokens, too."""
    if _OPENS.search(text) is None:
        return
    starts = chain([0], (token.end for token in tokens))
    ends = chain((token.start for token in tokens), [len(text)])
    for at, until in zip(starts, ends, strict=True):
        while at < until and (found := _OPENS.search(text, at, until)) is not None:
            hint = _HINT.match(text, found.start(), until)
            at = comment_end(text, found, until) if hint is None else hint.end()
            if hint is not None or text[found.end() : found.end() + 1] != "+" or found[0] == "--":
                yield found.start(), at, hint


def comment_end(text: str, opened: re.Match[str], until: int) -> int:
    """Where a comment ends: at its line's end, or behind the bracket that closes it, for they are nested."""
    if opened[0] == "--":
        line = text.find("\n", opened.end(), until)
        return until if line < 0 else line
    depth, at = 1, opened.end()
    while depth and (bracket := _BRACKET.search(text, at, until)) is not None:
        depth += 1 if bracket[0] == "/*" else -1
        at = bracket.end()
    return until if depth else at
