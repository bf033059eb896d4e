"""Queries over lake tables: each reference becomes a DataFrame argument of `spark.sql`, the rest stays as written.

Per reference the plan is told which columns the statement can name and which conjuncts of its WHERE speak of this table
alone. Both only prune files and columns: Spark still evaluates the statement itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.predicate import parse_where
from bucketlake.sql import names, text
from bucketlake.sql.functions import Call, calls
from bucketlake.sql.travel import Travel, session_options, travels

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake


@dataclass(slots=True)
class Reference:
    """One use of a lake table in a query: `text[start:end]` names it, `until` is where its hint or AS OF ends.
    `call`: the options of the table function that it stands in."""

    name: names.LakeName
    start: int
    end: int
    until: int
    node: exp.Table | None = None
    options: dict[str, str] = field(default_factory=dict)
    call: dict[str, str] = field(default_factory=dict)

    @property
    def exposed(self) -> str:
        """The name by which the query's columns may qualify it."""
        return self.node.alias if self.node is not None and self.node.alias else self.name.table

    @property
    def aliased(self) -> bool:
        """Whether the query gives it a name of its own."""
        return self.node is not None and bool(self.node.alias)


@dataclass(frozen=True, slots=True)
class Place:
    """A reference, by where its name starts in the statement, and the DataFrame to bind it to instead of its rows."""

    start: int
    frame: DataFrame


def run(lake: Lake, statement: str, args: Any = None, place: Place | None = None) -> DataFrame:
    """Run a query or any statement that reads: lake tables are bound, everything else reaches Spark as written."""
    statement = text.plain_timestamps(statement)
    bound, frames = bind(lake, statement, place)
    if not frames:
        return lake.spark.sql(statement, args) if args else lake.spark.sql(statement)
    return lake.spark.sql(bound, args, **frames) if args else lake.spark.sql(bound, **frames)


def bind(lake: Lake, statement: str, place: Place | None = None) -> tuple[str, dict[str, DataFrame]]:
    """The statement with lake tables replaced by `{t0}`, `{t1}`, …, and the DataFrame that each one stands for."""
    tokens = text.tokenize(statement)
    hints = text.option_hints(statement, tokens)
    found = travels(statement, tokens)
    called = calls(statement, tokens)
    cut = [(hint.start, hint.end) for hint in hints] + [(t.start, t.end) for t in found]
    plain = text.blank(statement, cut + [(call.opens, call.end) for call in called.values()])
    tree = _parse(text.blank(plain, [_explain(tokens)]))
    references = list(_from_tree(lake, tree, called) if tree is not None else _from_tokens(lake, plain, called))
    if not references:
        return statement, {}
    for reference in references:
        _attach(lake, reference, plain, hints, found)
    identifiers = _identifiers(tokens)
    frames: dict[str, DataFrame] = {}
    pieces = _after_aliases(references, plain, hints)
    plans: dict[tuple[Any, ...], str] = {}
    for reference in references:
        table = lake.table(reference.name.full)
        columns = _columns(table, identifiers, tree)
        where = _where(reference, references, table, tree)
        own = place is not None and place.start == reference.start
        key = (reference.name, tuple(reference.options.items()), tuple(columns or ()), where, own)
        if key not in plans:
            plans[key] = f"t{len(plans)}"
            read = table.read(columns, where, _limit(tree), **reference.options) if not own else None
            frames[plans[key]] = place.frame if place is not None and read is None else read
        alias = "" if reference.aliased else f" AS `{reference.name.table.replace('`', '``')}`"
        pieces.append((reference.start, reference.until, "{" + plans[key] + "}" + alias))
    if tree is not None:
        pieces.extend(_unqualified(tree, references))
    escaped = statement.replace("{", "{{").replace("}", "}}")
    return text.splice(escaped, _shifted(statement, pieces)), frames


def _shifted(statement: str, pieces: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The pieces' places once braces have been doubled."""

    def moved(place: int) -> int:
        head = statement[:place]
        return place + head.count("{") + head.count("}")

    return [(moved(start), moved(end), piece) for start, end, piece in pieces]


_PARSED = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "INSERT", "CREATE", "(")
_EXPLAIN = ("EXPLAIN", "EXTENDED", "CODEGEN", "COST", "FORMATTED")


def _explain(tokens: list[text.Token]) -> tuple[int, int]:
    """Where EXPLAIN and its mode stand; nowhere, in other statements."""
    end = 0
    for token in tokens[:2] if tokens and tokens[0].is_word("EXPLAIN") else ():
        end = token.end if token.value.upper() in _EXPLAIN else end
    return 0, end


def _parse(statement: str) -> exp.Expr | None:
    """The statement's tree; None for what sqlglot does not know, whose names are then found among the tokens."""
    first = text.tokenize(statement)[:1]
    if not first or first[0].value.upper() not in _PARSED:
        return None
    try:
        return sqlglot.parse_one(statement, dialect="spark", error_level=sqlglot.ErrorLevel.IMMEDIATE)
    except (SqlglotError, RecursionError):
        return None


def _of_call(lake: Lake, call: Call, node: exp.Table | None) -> Reference:
    name, options = call.read(lake)
    return Reference(name, call.start, call.end, call.end, node, call=options)


def _from_tree(lake: Lake, tree: exp.Expr, called: Mapping[int, Call]) -> Iterator[Reference]:
    for node in tree.find_all(exp.Table):
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        if len(parts) != len(node.parts) or not parts or "start" not in parts[0].meta:
            continue
        if parts[0].meta["start"] in called:
            yield _of_call(lake, called[parts[0].meta["start"]], node)
            continue
        if len(parts) == 1 and parts[0].name.lower() in _visible_ctes(node):
            continue
        name = names.find(lake, tuple(part.name for part in parts))
        if name is not None:
            end = parts[-1].meta["end"] + 1
            yield Reference(name, parts[0].meta["start"], end, end, node)


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


def _from_tokens(lake: Lake, statement: str, called: Mapping[int, Call]) -> Iterator[Reference]:
    """Names after FROM and JOIN, for statements that sqlglot cannot parse: Spark then says what is wrong with them."""
    cursor = text.Cursor(statement)
    ctes = {a.value.lower() for a, b in zip(cursor.tokens, cursor.tokens[1:], strict=False) if b.is_word("AS")}
    while not cursor.done:
        if not (cursor.accept("FROM") or cursor.accept("JOIN")):
            cursor.at += 1
            continue
        token = cursor.peek()
        if token is None or token.kind not in ("word", "quoted"):
            continue
        parts = cursor.name()
        after = cursor.peek()
        follows = after is not None and (after.is_word("AS") or after.kind == "quoted")
        alias = exp.to_table("x", alias="x") if follows else None
        if token.start in called:
            yield _of_call(lake, called[token.start], alias)
            continue
        if cursor.sees("(") or (len(parts) == 1 and parts[0].lower() in ctes):
            continue
        name = names.find(lake, parts)
        if name is not None:
            end = cursor.tokens[cursor.at - 1].end
            yield Reference(name, token.start, end, end, alias)


def _attach(lake: Lake, reference: Reference, plain: str, hints: list[text.Hint], found: list[Travel]) -> None:
    """Give a reference the session's options, its call's, then the hint and AS OF that follow it directly."""
    reference.options = {**session_options(lake, reference.name), **reference.call}
    clauses: list[text.Hint | Travel] = [*hints, *found]
    moved = True
    while moved:
        moved = False
        for clause in clauses:
            follows = clause.start >= reference.until and not plain[reference.until : clause.start].strip()
            if follows and clause.end > reference.until:
                if reference.call and isinstance(clause, Travel):
                    raise InvalidError(
                        "SQL: AS OF after a table function", clause=clause.value, remedy="leave out one of them"
                    )
                reference.until = clause.end
                reference.options.update(clause.options if isinstance(clause, text.Hint) else clause.scan(lake))
                moved = True


def _after_aliases(references: list[Reference], plain: str, hints: list[text.Hint]) -> list[tuple[int, int, str]]:
    """Hints that follow a table's alias (`t AS a /*+ OPTIONS(…) */`) taken up; the places to cut them out."""
    cuts = []
    for hint in hints:
        if any(reference.start < hint.start < reference.until for reference in references):
            continue
        for reference in references:
            after = _alias_end(reference)
            if after and hint.start >= after and not plain[after : hint.start].strip():
                reference.options.update(hint.options)
                cuts.append((hint.start, hint.end, ""))
                break
        else:
            raise InvalidError(
                "SQL: an OPTIONS hint follows no lake table", hint=hint.options, remedy="put it after one"
            )
    return cuts


def _alias_end(reference: Reference) -> int:
    """Where the reference's alias ends, 0 without one."""
    if reference.node is None or not reference.aliased:
        return 0
    return int(reference.node.args["alias"].this.meta.get("end", -1)) + 1


def _identifiers(tokens: list[text.Token]) -> set[str]:
    return {token.value.lower() for token in tokens if token.kind in ("word", "quoted")}


def _columns(table: Any, identifiers: set[str], tree: exp.Expr | None) -> list[str] | None:
    """The table's columns that the statement can mean; None (all) under a star, NATURAL JOIN or an unparsed text."""
    if tree is None:
        return None
    for star in tree.find_all(exp.Star):
        if not isinstance(star.parent, exp.Count):
            return None
    if any(join.args.get("method") for join in tree.find_all(exp.Join)) or tree.find(exp.Command):
        return None
    fields = [f.name for f in table.schema.fields]
    wanted = [name for name in fields if name.lower() in identifiers]
    return wanted or fields[:1]


def _where(reference: Reference, references: list[Reference], table: Any, tree: exp.Expr | None) -> str | None:
    """The conjuncts of the enclosing WHERE that only this table decides, as text; None if there are none."""
    if tree is None or reference.node is None:
        return None
    select = reference.node.parent_select
    if not isinstance(select, exp.Select) or select.args.get("where") is None or _nullable_side(reference.node, select):
        return None
    fields = {f.name.lower(): f.name for f in table.schema.fields}
    alone = not select.args.get("joins") and not select.args.get("laterals")
    kept = []
    for conjunct in (
        select.args["where"].this.flatten()
        if isinstance(select.args["where"].this, exp.And)
        else [select.args["where"].this]
    ):
        predicate = _own(conjunct, reference, fields, alone)
        if predicate is not None and _understood(predicate, table):
            kept.append(predicate)
    return " AND ".join(f"({predicate})" for predicate in kept) or None


def _limit(tree: exp.Expr | None) -> int | None:
    """How many rows of its one table the statement can use: `SELECT columns FROM t LIMIT n`, None for all others."""
    if not isinstance(tree, exp.Select) or tree.args.get("limit") is None:
        return None
    clauses = {name for name, value in tree.args.items() if value}
    count = tree.args["limit"].expression
    plain = all(isinstance(item.unalias(), (exp.Column, exp.Star, exp.Literal)) for item in tree.expressions)
    if not plain or not clauses <= {"expressions", "from_", "from", "limit", "kind"}:
        return None
    return int(count.name) if isinstance(count, exp.Literal) and count.is_int else None


def _nullable_side(node: exp.Table, select: exp.Select) -> bool:
    """Whether an outer join may fill this table's columns with nulls (pruning it first would then add rows)."""
    if node.find_ancestor(exp.Join, exp.From, exp.Select) is select:
        return True
    sides = [(join, join.side.upper()) for join in select.args.get("joins") or []]
    own = node.find_ancestor(exp.Join)
    if own is not None and all(own is not join for join, _ in sides):
        own = None
    if own is not None and own.side.upper() in ("LEFT", "FULL"):
        return True
    return any(side in ("RIGHT", "FULL") for join, side in sides if join is not own)


def _own(conjunct: exp.Expr, reference: Reference, fields: dict[str, str], alone: bool) -> str | None:
    """The conjunct as text without qualifiers if it only speaks of this table, else None."""
    if conjunct.find(exp.Query, exp.Placeholder, exp.Parameter, exp.Window, exp.Dot):
        return None
    copy = conjunct.copy()
    columns = list(copy.find_all(exp.Column))
    for column in columns:
        qualifier = column.table.lower()
        if column.name.lower() not in fields or (not qualifier and not alone):
            return None
        if qualifier and qualifier != reference.exposed.lower():
            return None
        column.set("this", exp.to_identifier(fields[column.name.lower()], quoted=True))
        for part in ("table", "db", "catalog"):
            column.set(part, None)
    return copy.sql(dialect="spark") if columns else None


def _understood(predicate: str, table: Any) -> bool:
    try:
        parse_where(predicate, table.schema.fields)
    except (InvalidError, UnsupportedError):
        return False
    return True


def _unqualified(tree: exp.Expr, references: list[Reference]) -> Iterator[tuple[int, int, str]]:
    """`db.t.c` -> `t.c`: once bound, a table is known by its last name only."""
    exposed = {(r.name.database.lower(), r.name.table.lower()) for r in references if not r.aliased}
    for column in tree.find_all(exp.Column):
        database, qualifier = column.args.get("db"), column.args.get("table")
        if database is None or qualifier is None or "start" not in qualifier.meta:
            continue
        if (database.name.lower(), qualifier.name.lower()) in exposed:
            first = column.args.get("catalog") or database
            yield first.meta["start"], qualifier.meta["start"], ""
