"""Which tables a statement's tree names, and where."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def table_names(tree: exp.Expr) -> Iterator[tuple[tuple[str, ...], int, int, bool]]:
    """Each use of a table by name: the name's parts, where they start and end, whether the query gives it an alias.
    Names of common table expressions, of hints and of table functions are none."""
    for node, parts, start, end in named_tables(tree):
        if not is_cte(node, parts):
            yield parts, start, end, bool(node.alias)


def named_tables(tree: exp.Expr) -> Iterator[tuple[exp.Table, tuple[str, ...], int, int]]:
    """What stands where a table may and has a name: its node, the name's parts, where they start and end. Table
    functions and common table expressions are among them, names in hints are not."""
    for node in tree.find_all(exp.Table):
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        if len(parts) != len(node.parts) or not parts or not all("start" in part.meta for part in parts):
            continue
        if node.find_ancestor(exp.Hint) is not None:
            continue  # BROADCAST(t): a name of the query, and its place counts from the hint
        yield node, tuple(part.name for part in parts), parts[0].meta["start"], parts[-1].meta["end"] + 1


def is_cte(node: exp.Expr, parts: tuple[str, ...]) -> bool:
    """Whether a name at this place means a common table expression."""
    return len(parts) == 1 and parts[0].lower() in _visible_ctes(node)


def _visible_ctes(node: exp.Expr) -> set[str]:
    """The names of common table expressions that hide tables at this place, in lower case."""
    visible: set[str] = set()
    child: exp.Expr = node
    parent = node.parent
    while parent is not None:
        clause = parent.args.get("with_") or parent.args.get("with")
        if isinstance(parent, exp.With):
            for cte in parent.expressions:
                if cte is child and not parent.args.get("recursive"):
                    break
                visible.add(cte.alias.lower())
        elif isinstance(clause, exp.With) and clause is not child:
            visible.update(cte.alias.lower() for cte in clause.expressions)
        child, parent = parent, parent.parent
    return visible
