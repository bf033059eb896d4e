"""What a statement needs of a lake table: columns, rows and a number of rows, as far as it is proved.

The rule: nothing is left out of a table's plan unless the statement's answer cannot change. Every conclusion is about
one SELECT with every clause known here, holds whatever stands around that SELECT, and is drawn from a text that the
parser and Spark cut alike. A clause, an option or a kind of expression that is not known here ends it.

Spec: docs/spec/pushdown.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokens import TokenType

from bucketlake.predicate.tree import Opaque, Predicate, conjunction
from bucketlake.spark.types import quoted
from bucketlake.sql.query.conditions import Reading
from bucketlake.sql.query.parser import Parsed, Settings, Source, Statement, only, parse, parts
from bucketlake.sql.text import lexemes
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

# The clauses of a SELECT that see the rows which WHERE has chosen, or name columns by themselves.
FILTERED = {
    *("expressions", "from_", "where", "joins", "group", "having", "order", "sort", "cluster", "distribute"),
    *("limit", "offset", "distinct", "windows", "with_", "hint"),
}
_PROJECTED = FILTERED | {"laterals"}
_LIMITED = {"expressions", "from_", "limit"}
_ORDERED = _LIMITED | {"order"}
PLAIN_TABLE = {"this", "db", "catalog", "alias"}
_JOIN = {"this", "on", "using", "side", "kind"}
_INNER = {("", ""), ("", "INNER"), ("", "CROSS")}
MATCHES = _INNER | {("LEFT", "SEMI"), ("", "SEMI")}
_MATCHES_RIGHT = MATCHES | {("LEFT", ""), ("LEFT", "OUTER"), ("LEFT", "ANTI"), ("", "ANTI")}
_KEEPS_LEFT = _MATCHES_RIGHT
_SHOWS_RIGHT = _INNER | {("RIGHT", ""), ("RIGHT", "OUTER")}


@dataclass(frozen=True)
class Proof(Statement):
    """What can be concluded from a statement about its tables."""

    # ---- columns

    def columns(self, source: Source) -> list[str] | None:
        """The table's columns that the statement can mean; None for all."""
        if not self._names_columns or self.select(source, _PROJECTED) is None:
            return None
        wanted = [item.name for item in source.fields if lexemes.mentions(self._folded, item.name)]
        return wanted or [source.fields[0].name]

    @cached_property
    def _folded(self) -> str:
        return lexemes.fold(self.whole)

    @cached_property
    def _names_columns(self) -> bool:
        """Whether every column that the statement uses stands in it by name."""
        if self.tree.find(exp.Command, exp.Pivot, exp.QueryTransform, exp.MatchRecognize):
            return False
        if any(join.args.get("method") for join in self.tree.find_all(exp.Join)):
            return False
        return all(counts_rows(star.parent) for star in self.tree.find_all(exp.Star))

    def select(self, source: Source, clauses: set[str]) -> exp.Select | None:
        """The SELECT in whose FROM or JOIN a table stands by itself, if it has only such clauses."""
        node = source.node
        alias = node.args.get("alias") if node is not None else None
        if node is None or not only(node, PLAIN_TABLE) or (alias is not None and not only(alias, {"this"})):
            return None
        parent = node.parent
        if parent is None or not only(parent, {exp.Join: _JOIN, exp.From: {"this"}}.get(type(parent), set())):
            return None
        select = parent.parent
        if not isinstance(select, exp.Select) or not only(select, clauses) or not select.expressions:
            return None
        return select

    # ---- rows

    def predicate(self, source: Source, unknown: Predicate | None = None) -> Predicate | None:
        """What the table's own SELECT demands of its rows: those for which it is not true change nothing.

        `unknown` stands for each conjunct that is not understood."""
        select = self.select(source, FILTERED)
        if select is None:
            return None
        alone = not select.args.get("joins")
        if not alone and not self.is_told_apart(source, select):
            return None
        reading = Reading(self, source, alone)
        return conjunction(reading.certain(part) or unknown for part in demands(source.node, select))

    def is_told_apart(self, source: Source, select: exp.Select) -> bool:
        """Whether the table's name qualifies columns of it alone."""
        others = [select.args["from_"].this, *(join.this for join in select.args["joins"])]
        for other in others:
            if other is source.node:
                continue
            if not isinstance(other, (exp.Table, exp.Subquery)) or other.args.get("joins") or other.args.get("pivots"):
                return False
            if isinstance(other, exp.Subquery) and not isinstance(other.this, (exp.Select, exp.SetOperation)):
                return False
            if lexemes.fold(other.alias_or_name) == lexemes.fold(source.exposed):
                return False
        return True

    # ---- a number of rows

    def limit(self, source: Source) -> int | None:
        """How many rows of the table are enough, any: those of `SELECT columns FROM t LIMIT n`."""
        select = self.select(source, _LIMITED)
        if select is None or not all(_is_column(item) for item in select.expressions):
            return None
        return self._first(select)

    def _first(self, select: exp.Select) -> int | None:
        """The number of a SELECT's LIMIT, if it is that SELECT's alone."""
        if select.parent is not None and type(select.parent) not in (exp.Subquery, exp.CTE):
            return None
        limit = select.args.get("limit")
        if type(limit) is not exp.Limit:
            return None
        written = self.source_of(limit.expression) if only(limit, {"expression"}) else None
        return int(written) if written is not None and written.isascii() and written.isdigit() else None

    def ordered(self, source: Source) -> tuple[DataField, bool, int] | None:
        """The column, whether it falls, and n of `SELECT columns FROM t ORDER BY column, … LIMIT n`. Nothing in its
        list may have a name that is not the table's, which ORDER BY would mean."""
        select = self.select(source, _ORDERED)
        if select is None or not all(_is_own_column(item) for item in select.expressions):
            return None
        rows, order = self._first(select), select.args.get("order")
        if rows is None or order is None or not only(order, {"expressions"}):
            return None
        leading = order.expressions[0]
        if type(leading) is not exp.Ordered or not only(leading, {"this", "desc", "nulls_first"}):
            return None
        column = leading.this
        if type(column) is not exp.Column or not only(column, {"this"}):
            return None
        field = Reading(self, source, True).column(column)
        if field is None or field.name.lower() == "all" or field.name in source.unproved:  # ORDER BY ALL
            return None
        return field, bool(leading.args.get("desc")), rows


def proof(parsed: Parsed, settings: Settings, whole: str = "") -> Proof | None:
    """What can be concluded from a tree, if it can be trusted to be what Spark makes of the text."""
    for token, following in pairwise(parsed.tokens):
        if token.text.upper() == "IDENTIFIER" and following.token_type is TokenType.L_PAREN:
            return None
    text = parsed.text
    if "|>" in text or not settings.reads(text) or not lexemes.cuts_alike(lexemes.masked(text), parsed.tokens):
        return None
    return Proof(text, parsed.tree, settings, whole or text)


def condition(text: str, source: Source, settings: Settings) -> Predicate:
    """A condition over the rows of one table; what is not understood of it is opaque and has no columns."""
    unknown = Opaque(text)
    statement = f"SELECT 1 FROM {quoted(source.exposed)} WHERE {text}"
    parsed = parse(statement)
    found = proof(parsed, settings) if parsed is not None else None
    if found is None or type(found.tree) is not exp.Select or not only(found.tree, {"expressions", "from_", "where"}):
        return unknown
    node = found.tree.args["from_"].this
    return found.predicate(replace(source, node=node), unknown) or unknown


def counts_rows(node: exp.Expr | None) -> bool:
    """Whether an expression is `count(*)`: a star beside other arguments, or less some columns, stands for columns."""
    if node is None or type(node) is not exp.Count or not only(node, {"this", "big_int"}):
        return False
    return type(node.this) is exp.Star and only(node.this, set())


def _is_column(item: exp.Expr) -> bool:
    """Whether an item of a SELECT list is a column or a plain star, under whatever name."""
    if isinstance(item, exp.Alias):
        item = item.this
    if isinstance(item, exp.Column):
        item = item.this
    return isinstance(item, exp.Identifier) or (type(item) is exp.Star and only(item, set()))


def _is_own_column(item: exp.Expr) -> bool:
    """Whether an item of a SELECT list is a plain star, or a name by itself, without another one."""
    if type(item) is exp.Star:
        return only(item, set())
    return type(item) is exp.Column and only(item, {"this"}) and type(item.this) is exp.Identifier


def join_kind(join: exp.Join) -> tuple[str, str]:
    """A join's side and kind, in capitals; empty where nothing is said."""
    return join.side.upper(), join.kind.upper()


def demands(node: exp.Expr | None, select: exp.Select) -> Iterator[exp.Expr]:
    """Conditions that have to hold where a row of a SELECT's table is to change anything: the conjuncts of WHERE and of
    the ON of joins that keep no row by themselves, where no outer join fills up for the row; those of the table's own
    ON where the join shows its rows as matches only."""
    where, joins = select.args.get("where"), joins_of(select)
    if joins is None:
        return
    conditions = []
    if _reaches(node, joins):
        conditions += [where.this] if where is not None and only(where, {"this"}) else []
        conditions += [join.args.get("on") for join in joins if join_kind(join) in MATCHES]
    else:
        conditions += [join.args.get("on") for join in joins if is_matched(node, join)]
    for condition in conditions:
        if condition is not None:
            yield from parts(condition, exp.And)


def joins_of(select: exp.Select) -> list[exp.Join] | None:
    """The joins of a SELECT, None where one has a clause that is not known here."""
    joins: list[exp.Join] = select.args.get("joins") or []
    return joins if all(type(join) is exp.Join and only(join, _JOIN) for join in joins) else None


def is_matched(node: exp.Expr | None, join: exp.Join) -> bool:
    """Whether a join shows rows of a table, or looks at them, as matches only: as its right side, or either."""
    return join.this is node and join_kind(join) in _MATCHES_RIGHT


def _reaches(node: exp.Expr | None, joins: Sequence[exp.Join]) -> bool:
    """Whether a table's row that WHERE rejects can have no other part in the joins: no outer join fills up for it."""
    own = next((place for place, join in enumerate(joins) if join.this is node), -1)
    if own >= 0 and join_kind(joins[own]) not in _SHOWS_RIGHT:
        return False
    return all(join_kind(join) in _KEEPS_LEFT for join in joins[own + 1 :])
