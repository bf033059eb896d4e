"""Columns behind their table's database, `db.t.c`: once bound, a table is known by one name, its last.

Where another relation of the statement has that name as well (`db2.t`, an alias, a common table expression), the table
takes a name that is its own alone, `db.t` in one pair of backticks, and its columns are called by that, in whichever
way they were written: else `SELECT … FROM db.t WHERE EXISTS (SELECT 1 FROM db2.t WHERE db2.t.c = db.t.c)` would
compare a column of the inner table with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from bucketlake.spark.types import quoted
from bucketlake.sql.text import lexemes
from bucketlake.sql.text.tokens import tokenize
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.sql.text.names import LakeName

_JOINED = (exp.From, exp.Join)
_NAMES = ("word", "quoted")
_RELATIONS = (exp.Table, exp.Subquery, exp.Lateral, exp.Values, exp.Unnest)
Whole = tuple[str, str]  # a database and a table, folded


@dataclass(frozen=True, slots=True)
class Plain:
    """A lake table that a statement gives no name of its own, its node in the tree, and what its catalog is called."""

    name: LakeName
    node: exp.Table | None
    catalogs: Collection[str]

    @property
    def whole(self) -> Whole:
        """What it is known by."""
        return lexemes.fold(self.name.database), lexemes.fold(self.name.table)


def own_names(tree: exp.Expr, tables: Sequence[Plain]) -> dict[Whole, str]:
    """The names that tables take in place of their last: those of which a column stands behind the database, where
    something else in the statement has the last name as well."""
    names = {table.whole: table.name for table in tables}
    meant = {found for column in _columns(tree) if (found := _meant(column, tables)) is not None}
    shared = {last for last in {last for _, last in meant} if _is_shared(tree, last, tables)}
    taken = {lexemes.fold(alias.name) for alias in tree.find_all(exp.TableAlias)}
    chosen: dict[Whole, str] = {}
    for whole, name in names.items():
        if whole[1] in shared:
            own = f"{name.database}.{name.table}"
            while lexemes.fold(own) in taken:
                own += "."
            chosen[whole] = own
    return chosen


def qualified_pieces(
    tree: exp.Expr, tables: Sequence[Plain], own: Mapping[Whole, str], has: Callable[[LakeName, str], bool]
) -> Iterator[tuple[int, int, str]]:
    """What stands for the qualifiers of columns. `own`: as `own_names` found it; `has`: whether
    a table has a column."""
    for column in _columns(tree):
        names = _names(column)
        whole = _meant(column, tables)
        if whole is not None:
            last = names[_place(names, whole)]
            until, text = (last.meta["end"] + 1, quoted(own[whole])) if whole in own else (last.meta["start"], "")
            yield names[0].meta["start"], until, text
        elif any(last == lexemes.fold(names[0].name) for _, last in own):
            whole = _renamed(column, tables, has)
            if whole is not None:
                yield names[0].meta["start"], names[0].meta["end"] + 1, quoted(own[whole])


def _columns(tree: exp.Expr) -> Iterator[exp.Column]:
    """The columns and stars that stand behind another name."""
    for column in tree.find_all(exp.Column):
        if column.args.get("table") is not None and column.find_ancestor(exp.Hint) is None:
            names = _names(column)
            if names and all("start" in name.meta for name in names):
                yield column


def _names(column: exp.Column) -> list[exp.Identifier]:
    """The parts of a column's name, less a star."""
    return [part for part in column.parts if isinstance(part, exp.Identifier)]


def _place(names: Sequence[exp.Identifier], whole: Whole) -> int:
    """Where a table's last name stands among the parts of a column's: `c.db.t.x`, `db.t.x`, `db.t.x.member`; else 0."""
    folded = [lexemes.fold(name.name) for name in names]
    return next((at for at in (2, 1) if tuple(folded[at - 1 : at + 1]) == whole), 0)


def _meant(column: exp.Column, tables: Sequence[Plain]) -> Whole | None:
    """The table that a column names with its database."""
    names = _names(column)
    count = len(names) if isinstance(column.this, exp.Star) else len(names) - 1  # those before the column
    for table in tables:
        place = _place(names, table.whole)
        if 0 < place < count and (place == 1 or lexemes.fold(names[0].name) in table.catalogs):
            return table.whole
    return None


def _is_shared(tree: exp.Expr, last: str, tables: Sequence[Plain]) -> bool:
    """Whether more than one thing in a statement is called so."""
    if any(lexemes.fold(alias.name) == last for alias in tree.find_all(exp.TableAlias)):
        return True
    known = {id(table.node): table.whole for table in tables}
    named = [node for node in tree.find_all(exp.Table) if not node.alias and lexemes.fold(node.name) == last]
    return len({known.get(id(node)) for node in named}) > 1


def _renamed(column: exp.Column, tables: Sequence[Plain], has: Callable[[LakeName, str], bool]) -> Whole | None:
    """The table that `t.c` means: of the innermost SELECT that has such a `t`; None where it may be another's."""
    names = _names(column)
    last, known = lexemes.fold(names[0].name), {id(table.node): table for table in tables}
    nearest: Whole | None = None
    for select in _scopes(column):
        same = [node for node in _relations(select) if lexemes.fold(node.alias_or_name) == last]
        if any(id(node) not in known for node in same):
            break
        found = [known[id(node)] for node in same]
        if nearest is None and len(found) == 1:
            nearest = found[0].whole  # of rows that were put in its place nobody here knows the columns
        if len(names) > 1:
            found = [table for table in found if has(table.name, names[1].name)]
        if found:
            return found[0].whole if len(found) == 1 else None
    return nearest


def _relations(select: exp.Select) -> Iterator[exp.Expr]:
    """What stands in a SELECT's FROM, its joins and lateral views."""
    clauses = [select.args.get("from_"), *(select.args.get("joins") or ()), *(select.args.get("laterals") or ())]
    for clause in clauses:
        if clause is not None:
            yield from (node for node in clause.find_all(*_RELATIONS) if node.parent_select is select)


def _scopes(column: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs whose relations a name may mean, from the innermost on. A subquery in FROM and a common table
    expression see nothing of what stands beside them."""
    node: exp.Expr = column
    closed = False
    while (parent := node.parent) is not None:
        derived = isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query)
        if isinstance(node, exp.With) or (derived and isinstance(parent, _JOINED) and parent.this is node):
            closed = True
        if isinstance(parent, exp.Select):
            if not closed:
                yield parent
            closed = False
        node = parent


def token_pieces(
    statement: str, tables: Mapping[tuple[int, int], LakeName], catalogs: Collection[str]
) -> Iterator[tuple[int, int, str]]:
    """What `qualified_pieces` gives, of a statement of which there is no tree: for tables, by where they stand in the
    text, of which nothing else there has the last name."""
    tokens = tokenize(statement)
    folded = [lexemes.fold(lexemes.name(token.value)) if token.kind in _NAMES else token.value for token in tokens]
    wholes = {(lexemes.fold(name.database), lexemes.fold(name.table)) for name in tables.values()}
    places = range(len(tokens))
    inside = {at for at in places if any(start <= tokens[at].start < end for start, end in tables)}
    starts = [at for at in places if (at == 0 or folded[at - 1] != ".") and at not in inside]
    alone = {
        last for _, last in wholes if not any(folded[at] == last and folded[at + 1 : at + 2] != ["."] for at in starts)
    }
    for at in starts:
        behind = [at] if tokens[at].kind in _NAMES else []
        behind += [at + 2] if behind and folded[at] in catalogs and folded[at + 1 : at + 2] == ["."] else []
        for first in behind:
            whole = tuple(folded[first : first + 3 : 2])
            if whole in wholes and whole[1] in alone and folded[first + 1 : first + 4 : 2] == [".", "."]:
                yield tokens[at].start, tokens[first + 2].start, ""
                break
