"""Metadata columns in statements: which are named, and how stars go on leaving them out.

A table whose metadata columns are named is bound with them as columns, and every star of its SELECT gets them as
exceptions: `SELECT * EXCEPT (t.__paimon_bucket)`. Where it is not certain which SELECT a table belongs to, the
statement is refused.

Spec: docs/sql/system-tables.md#metadata-columns
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from bucketlake.errors import UnsupportedError
from bucketlake.schema.schema import TRACKING
from bucketlake.spark.read.hidden import COLUMNS
from bucketlake.spark.types import quoted
from bucketlake.sql.text import lexemes
from bucketlake.sql.text.tokens import Token
from bucketlake.values import dataclass

_MARKS = ("__paimon_", *(lexemes.fold(name) for name in TRACKING))
_BEFORE_STAR = ("SELECT", "DISTINCT", "ALL")


def named(statement: str) -> tuple[str, ...]:
    """The metadata columns that a statement names."""
    folded = lexemes.fold(statement)
    if not any(mark in folded for mark in _MARKS):
        return ()
    return tuple(name for name in COLUMNS if lexemes.mentions(folded, name))


@dataclass(frozen=True, slots=True)
class Bound:
    """A table with metadata columns: where its name starts, what qualifies its columns, and which they are."""

    start: int
    exposed: str
    columns: tuple[str, ...]


@dataclass(slots=True)
class _Level:
    """What lies between two brackets: the SELECT in force, and whether a FROM came before any."""

    select: int | None = None
    bare: bool = False


def star_pieces(tokens: Sequence[Token], bound: Sequence[Bound]) -> Iterator[tuple[int, int, str]]:
    """What to insert so that stars leave the metadata columns out. UnsupportedError for statements in which that is not
    certain."""
    if not any(item.columns for item in bound):
        return
    pipes = any(one.value + two.value == "|>" for one, two in pairwise(tokens))
    if pipes or any(token.is_word("NATURAL") or token.value == "|>" for token in tokens):
        raise _unknown()
    scopes = _scopes(tokens, {item.start: item for item in bound})
    for at, token in enumerate(tokens):
        if token.kind == "sign" and token.value == "*" and _is_star(tokens, at):
            select = scopes.of_stars.get(at)
            inside = [item for item in bound if item.columns and scopes.of_tables[item.start] == select]
            if tokens[at - 1].value == ".":
                qualifier = lexemes.fold(tokens[at - 2].value)
                inside = [item for item in inside if lexemes.fold(item.exposed) == qualifier]
            if inside:
                yield _piece(tokens, at, inside)


def _piece(tokens: Sequence[Token], at: int, inside: Sequence[Bound]) -> tuple[int, int, str]:
    listed = ", ".join(f"{quoted(item.exposed)}.{name}" for item in inside for name in item.columns)
    following = tokens[at + 1 : at + 3]
    if len(following) == 2 and following[0].is_word("EXCEPT") and following[1].value == "(":
        return following[1].end, following[1].end, f"{listed}, "
    return tokens[at].end, tokens[at].end, f" EXCEPT ({listed})"


def _is_star(tokens: Sequence[Token], at: int) -> bool:
    """Whether a sign stands for columns rather than for a product; those that COUNT counts stay rows."""
    if at == 0:
        return False
    before = tokens[at - 1]
    if before.kind == "sign":
        if before.value == "(":
            return not (at > 1 and tokens[at - 2].is_word("COUNT"))
        return before.value in (",", ".", "*/")
    return before.kind == "word" and before.value.upper() in _BEFORE_STAR


@dataclass(frozen=True, slots=True)
class _Scopes:
    """The SELECT, by its token, of each star (by its token) and of each table (by its place)."""

    of_stars: Mapping[int, int]
    of_tables: Mapping[int, int]


def _scopes(tokens: Sequence[Token], bound: Mapping[int, Bound]) -> _Scopes:
    levels = [_Level()]
    stars: dict[int, int] = {}
    tables: dict[int, int] = {}
    for at, token in enumerate(tokens):
        if token.kind == "sign" and token.value in ("(", ")"):
            if token.value == "(":
                levels.append(_Level())
            elif len(levels) > 1:
                levels.pop()
        elif token.is_word("SELECT"):
            levels[-1] = _Level(at, levels[-1].bare)
        elif token.is_word("FROM"):
            levels[-1].bare |= levels[-1].select is None
        if token.start in bound:
            tables[token.start] = _governing(levels)
        elif token.kind == "sign" and token.value == "*" and any(level.select is not None for level in levels):
            stars[at] = next(level.select for level in reversed(levels) if level.select is not None)
    if len(tables) < len(bound):
        raise _unknown()
    return _Scopes(stars, tables)


def _governing(levels: Sequence[_Level]) -> int:
    for level in reversed(levels):
        if level.bare:
            break
        if level.select is not None:
            return level.select
    raise _unknown()


def _unknown() -> UnsupportedError:
    return UnsupportedError(
        "metadata columns in a statement of this form", columns=list(COLUMNS), remedy="write SELECT … FROM t WHERE …"
    )
