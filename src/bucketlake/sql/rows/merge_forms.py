"""The forms of MERGE INTO, read to their end: what they mean stands in `merge`.

    [WITH …] MERGE INTO t [[AS] a] USING {table | (query)} [[AS] b [(columns)]] ON condition
    {WHEN MATCHED [AND c] THEN {UPDATE SET … | DELETE}
     | WHEN NOT MATCHED [BY TARGET] [AND c] THEN INSERT …
     | WHEN NOT MATCHED BY SOURCE [AND c] THEN {UPDATE SET … | DELETE}} …

Spec: docs/sql/merge.md
"""

from __future__ import annotations

import re
from dataclasses import replace

import sqlglot
from sqlglot import exp

from bucketlake.spark.merge.clauses import DELETE, INSERT, UPDATE, Side
from bucketlake.sql.query.parser import UNREAD
from bucketlake.sql.query.travel import travels
from bucketlake.sql.rows.merge import MergeInto, Source, Text, When, check_order
from bucketlake.sql.rows.target import Target, parse_target
from bucketlake.sql.text.cursor import Cursor, option_hints
from bucketlake.sql.text.parsed import Statement
from bucketlake.sql.text.tokens import blank

_NAMELESS = "__bucketlake_source"
_NO_ALIAS = ("ON", "WHEN", "USING")


def parse(cursor: Cursor) -> Statement:
    """Read a MERGE."""
    return _merge(cursor, "")


def parse_after_with(cursor: Cursor) -> Statement:
    """Read the MERGE at the cursor, which common table expressions precede."""
    return _merge(cursor, cursor.text[: cursor.tokens[cursor.at - 1].end])


def _merge(cursor: Cursor, ctes: str) -> MergeInto:
    cursor.expect("MERGE")
    evolves = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    target = parse_target(cursor, "USING")
    cursor.expect("USING")
    source = _source(cursor, ctes)
    cursor.expect("ON")
    on = _expression(cursor, "WHEN")
    clauses = []
    while not cursor.done:
        clauses.append(_when(cursor))
    if not clauses:
        cursor.fail("MERGE needs a WHEN clause")
    check_order(clauses)
    texts = [on, *(text for clause in clauses for text in (clause.condition, *clause.values) if text is not None)]
    source = _told_apart(cursor, target, source.with_metadata(texts))
    return MergeInto(cursor.text, target, source, on, tuple(clauses), evolves)


def _told_apart(cursor: Cursor, target: Target, source: Source) -> Source:
    """The source, under a name for frames that is no longer than what stands before its columns, where both tables have
    one name in two databases."""
    folded = [tuple(part.lower() for part in parts) for parts in (target.parts, source.parts)]
    if target.alias is not None or not source.parts or folded[0] == folded[1] or folded[0][-1] != folded[1][-1]:
        return source
    longer = source.parts if len(source.parts) > 1 else (*source.parts, "")
    name = re.sub(r"\W", "_", "_".join(longer[-2:]), flags=re.ASCII)
    used = {token.value.lower() for token in cursor.tokens}
    return source if name.lower() in used else replace(source, name=name)


def _source(cursor: Cursor, ctes: str) -> Source:
    """Read what stands between USING and ON."""
    start = cursor.at
    if cursor.accept("("):
        inner, end = cursor.expression(")"), cursor.ends
        cursor.expect(")")
        alias, columns = _alias(cursor)
        body = f"{ctes} SELECT * FROM ({inner})" if ctes else _in_place(cursor, start + 1, end)
        return Source(body, alias or _only_table(inner) or _NAMELESS, (), columns)
    parts = cursor.name()
    if cursor.accept("("):
        cursor.expression(")")
        cursor.expect(")")
    _step_over_travel(cursor)
    named = cursor.tokens[cursor.at - 1].end
    alias, columns = _alias(cursor)
    following = cursor.peek()
    until = following.start if following is not None else len(cursor.text)
    hints = [hint for hint in option_hints(cursor.text, cursor.tokens) if named <= hint.start < until]
    text = cursor.text[cursor.tokens[start].start : named] + "".join(cursor.text[h.start : h.end] for h in hints)
    whole = f"{ctes} SELECT * FROM {text}"
    return Source(whole, alias or parts[-1], () if alias else parts, columns, (ctes, text))


def _step_over_travel(cursor: Cursor) -> None:
    """Step over AS OF, where it comes next; a hint may stand before it."""
    following = cursor.peek()
    for clause in travels(cursor.text, cursor.tokens):
        if following is not None and clause.start == following.start:
            while not cursor.done and cursor.tokens[cursor.at].start < clause.end:
                cursor.at += 1


def _in_place(cursor: Cursor, first: int, end: int) -> str:
    """The tokens from `first` up to a place, with blanks before them."""
    return blank(cursor.text[:end], [(0, cursor.tokens[first].start)])


def _alias(cursor: Cursor) -> tuple[str | None, tuple[str, ...]]:
    explicit = cursor.accept("AS")
    token = cursor.peek()
    if not explicit and (
        token is None
        or token.kind not in ("word", "quoted")
        or (token.kind == "word" and token.value.upper() in _NO_ALIAS)
    ):
        return None, ()
    alias = cursor.identifier()
    return alias, tuple(cursor.names()) if cursor.sees("(") else ()


def _only_table(text: str) -> str | None:
    """The name by which columns of a query's one table are qualified: a source without alias shows it."""
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except UNREAD:
        return None
    if not isinstance(tree, exp.Select) or tree.args.get("joins") or tree.args.get("laterals"):
        return None
    table = tree.args["from_"].this if tree.args.get("from_") else None
    return (table.alias or table.name) if isinstance(table, exp.Table) else None


def _expression(cursor: Cursor, *stops: str) -> Text:
    token = cursor.peek()
    return Text(cursor.expression(*stops), token.start if token is not None else 0)


def _when(cursor: Cursor) -> When:
    cursor.expect("WHEN")
    side = Side.MATCHED
    if cursor.accept("NOT", "MATCHED"):
        side = Side.NOT_MATCHED
        if cursor.accept("BY") and not cursor.accept("TARGET"):
            cursor.expect("SOURCE", among=["TARGET"])
            side = Side.NOT_MATCHED_BY_SOURCE
    else:
        cursor.expect("MATCHED", among=["NOT"])
    condition = _expression(cursor, "THEN") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if side is Side.NOT_MATCHED:
        cursor.expect("INSERT")
        if cursor.accept("*"):
            return When(side, INSERT, condition, None)
        columns = tuple(cursor.bracketed(cursor.name))
        cursor.expect("VALUES")
        values = tuple(cursor.bracketed(lambda: _expression(cursor, ",", ")")))
        if len(columns) != len(values):
            what = f"INSERT names {len(columns)} columns and gives {len(values)} values"
            cursor.fail(what, condition="MERGE_INSERT_VALUE_COUNT_MISMATCH")
        return When(side, INSERT, condition, columns, values)
    if cursor.accept("DELETE"):
        return When(side, DELETE, condition)
    cursor.expect("UPDATE", among=["DELETE"])
    cursor.expect("SET")
    if cursor.accept("*"):
        if side is Side.NOT_MATCHED_BY_SOURCE:
            cursor.fail("UPDATE SET * needs a source row")
        return When(side, UPDATE, condition, None)
    pairs = cursor.listed(lambda: _assignment(cursor))
    return When(side, UPDATE, condition, tuple(name for name, _ in pairs), tuple(value for _, value in pairs))


def _assignment(cursor: Cursor) -> tuple[tuple[str, ...], Text]:
    name = cursor.name()
    cursor.expect("=")
    return name, _expression(cursor, ",", "WHEN")
