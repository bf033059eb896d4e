"""`input_file_name()` over tables of the lake: the file that a row is in, whoever reads it.

Spark knows the file only where its own scan reads it. So the call becomes the metadata column `__paimon_file_path`
where its SELECT reads one table without a primary key; where it is not certain which file is meant it is refused.

Spec: docs/sql/functions.md#input_file_name
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.read.hidden import FILE_PATH, offered
from bucketlake.spark.settings import is_case_sensitive
from bucketlake.sql.text import names
from bucketlake.sql.text.clauses import Clauses
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.tokens import QUERIES, Token, tokenize
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

NAME = "input_file_name"
# Words that end a FROM.
_CLAUSES = frozenset(
    ["WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET"]
)


@dataclass(slots=True)
class _Item:
    """What a FROM reads: a table's name, `parts`, or what lies between two tokens. `shared`: the name of a common table
    expression."""

    parts: tuple[str, ...] | None
    begin: int
    shared: bool = False
    end: int = 0


@dataclass(slots=True)
class _Select:
    """A SELECT, by its token; None: brackets without one, so far."""

    at: int | None = None
    items: list[_Item] = field(default_factory=list)
    listing: bool = False  # in FROM: a comma goes on with its list
    expects: bool = False  # an item comes next


@dataclass(frozen=True, slots=True)
class _Call:
    at: int
    select: _Select
    alone: bool  # a whole column of the SELECT, without a name of its own


def pieces(lake: Lake, statement: str) -> list[tuple[int, int, str]]:
    """The calls of a statement over lake tables, with what to write in their place. UnsupportedError where a call's
    SELECT reads more than one table, or reads a lake table through a query of its own."""
    if NAME not in statement.lower():
        return []
    tokens = tokenize(statement)
    calls, selects = _read(tokens, statement, Clauses(tokens, is_case_sensitive(lake.spark)))
    found = []
    for call in calls:
        if _has_path(lake, call.select, selects):
            name = FILE_PATH + (f" AS `{NAME}()`" if call.alone else "")
            found.append((tokens[call.at].start, tokens[call.at + 2].end, name))
    return found


def refuse_calls(text: str) -> None:
    """UnsupportedError for a call in a condition or value of a statement that changes rows, but for those of its
    subqueries: which file Spark reads there is not the row's, and it may be none."""
    if NAME not in text.lower():
        return
    tokens, queries = tokenize(text), list[bool]()
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if token.kind == "sign":
            for sign in token.value:
                if sign == "(":
                    queries.append(following is not None and any(map(following.is_word, QUERIES)))
                elif sign == ")" and queries:
                    queries.pop()
        elif token.is_word(NAME.upper()) and following is not None and following.value[:1] == "(" and not any(queries):
            raise UnsupportedError(
                f"{NAME}() where rows of several files are merged, or come from no file",
                remedy=f"find the rows by their columns; DELETE and UPDATE of append tables know {FILE_PATH}",
            )


def _has_path(lake: Lake, select: _Select, selects: Sequence[_Select]) -> bool:
    """Whether the rows of a SELECT are those of one lake table that says which file they are in."""
    first = select.items[0] if len(select.items) == 1 else None
    if first is not None and first.parts is not None:
        name = names.find(lake, first.parts)
        if name is None:
            return False
        table = lake.table(name.full).table
        return table.view is None and not table.schema.primary_keys and FILE_PATH in offered(table.schema)
    if any(names.find(lake, parts) for parts in _beneath(select, selects)):
        raise UnsupportedError(
            f"{NAME}() over a join or a subquery of lake tables",
            remedy=f"select {FILE_PATH} of the table in the subquery, or where it is joined",
        )
    return False


def _beneath(select: _Select, selects: Sequence[_Select]) -> Iterator[tuple[str, ...]]:
    """The names of tables that a SELECT reads, through subqueries and, all there are, common table expressions."""
    for item in select.items:
        if item.parts is not None:
            yield item.parts
            continue
        for other in selects:
            if other.at is not None and (item.shared or item.begin < other.at < item.end):
                yield from (one.parts for one in other.items if one.parts is not None)


def _read(tokens: Sequence[Token], statement: str, clauses: Clauses) -> tuple[list[_Call], list[_Select]]:
    levels, selects, calls = [_Select()], list[_Select](), list[_Call]()
    opened: list[_Item | None] = []
    for at, token in enumerate(tokens):
        level = levels[-1]
        if token.kind == "sign" and token.value == "(":
            opened.append(_Item(None, at) if level.expects else None)
            level.items += [item for item in opened[-1:] if item is not None]
            level.expects = False
            bare = opened[-1] is not None and not (at + 1 < len(tokens) and _opens_query(tokens[at + 1]))
            levels.append(_Select(at + 1, listing=True, expects=True) if bare else _Select())
            selects += levels[-1:] if bare else []
        elif token.kind == "sign" and token.value == ")" and len(levels) > 1:
            levels.pop()
            item = opened.pop()
            if item is not None:
                item.end = at
        elif token.is_word("SELECT"):
            levels[-1] = _Select(at, level.items if level.at is None else [])  # FROM may come first
            selects.append(levels[-1])
        elif level.expects and not token.is_word("LATERAL"):
            level.expects = False
            level.items.append(_item(statement, token, at, clauses))
        elif level.at is not None or clauses.is_from(at):
            _step(level, tokens, at, clauses)
        if _is_call(tokens, at):
            calls += [_Call(at, one, one is level and _is_alone(tokens, at, one)) for one in _governing(levels)]
    return calls, selects


def _step(level: _Select, tokens: Sequence[Token], at: int, clauses: Clauses) -> None:
    """What a word or a comma of a SELECT says of the items to come."""
    word = tokens[at].value.upper() if tokens[at].kind in ("word", "sign") else ""
    if clauses.is_from(at):
        level.listing = level.expects = True
    elif word == "JOIN" or (word == "," and level.listing):
        level.expects = level.listing
    elif word in _CLAUSES:
        level.listing = False


def _governing(levels: Sequence[_Select]) -> list[_Select]:
    """The SELECT that a call stands in: the innermost; without any a FROM that it follows; none where there is none."""
    inside = [level for level in reversed(levels) if level.at is not None]
    return (inside or [level for level in reversed(levels) if level.items])[:1]


def _opens_query(token: Token) -> bool:
    return any(token.is_word(word) for word in ("SELECT", "WITH", "FROM", "VALUES", "TABLE"))


def _is_call(tokens: Sequence[Token], at: int) -> bool:
    behind = [(token.kind, token.value) for token in tokens[at + 1 : at + 3]]
    if tokens[at].kind != "word" or tokens[at].value.lower() != NAME or behind != [("sign", "("), ("sign", ")")]:
        return False
    return at == 0 or tokens[at - 1].value != "."


def _is_alone(tokens: Sequence[Token], at: int, select: _Select) -> bool:
    before, behind = tokens[at - 1], tokens[at + 3 : at + 4]
    starts = before.value == "," or any(before.is_word(word) for word in ("SELECT", "DISTINCT", "ALL"))
    ends = not behind or behind[0].is_word("FROM") or (behind[0].kind, behind[0].value) == ("sign", ",")
    return starts and ends and not select.items


def _item(statement: str, token: Token, at: int, clauses: Clauses) -> _Item:
    """What the dotted name that begins with this token stands for."""
    try:
        parts = Cursor(statement[token.start :]).name()
    except InvalidError:
        return _Item(None, at)
    shared = clauses.is_cte(parts, token.start)
    return _Item(None if shared else parts, at, shared)
