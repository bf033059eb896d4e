"""What a statement needs of a lake table: columns, rows and a number of rows, as far as it is proved.

The rule: nothing is left out of a table's plan unless the statement's answer cannot change. Every conclusion is about
one SELECT with every clause known here, holds whatever stands around that SELECT, and is drawn from a text that the
parser and Spark cut alike. A clause, an option or a kind of expression that is not known here ends it.

Spec: docs/spec/pushdown.md
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokens import Token, TokenType

from bucketlake.predicate.tree import And as AllOf
from bucketlake.predicate.tree import (
    Compare,
    Constant,
    Contains,
    EndsWith,
    IsNotNull,
    IsNull,
    Opaque,
    Operator,
    Or,
    Predicate,
    StartsWith,
    conjunction,
    negate,
)
from bucketlake.spark.instants import UTC
from bucketlake.spark.settings import ESCAPED_LITERALS
from bucketlake.spark.types import quoted
from bucketlake.sql.query import typed
from bucketlake.sql.query.typed import Moment, Value
from bucketlake.sql.text import lexemes
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_FLIPPED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CALLS: dict[type[exp.Expr], type[StartsWith] | type[EndsWith] | type[Contains]] = {
    exp.StartsWith: StartsWith,
    exp.EndsWith: EndsWith,
    exp.Contains: Contains,
}
_KIND = exp.DataType.Type
_WHOLE = {_KIND.TINYINT: Root.TINYINT, _KIND.SMALLINT: Root.SMALLINT, _KIND.INT: Root.INT, _KIND.BIGINT: Root.BIGINT}
_DIGITS = re.compile(r"[+-]?[0-9]{1,18}")
_MOMENTS = {
    _KIND.DATE: "date",
    _KIND.TIMESTAMPNTZ: "local",
    _KIND.TIMESTAMPLTZ: "zoned",
    _KIND.TIMESTAMPTZ: "zoned",
}


@dataclass(frozen=True)
class Settings:
    """What the session says of the meaning of a text; asked only where it matters."""

    spark: SparkSession

    def on(self, key: str) -> bool:
        """Whether a flag that is off by default is set."""
        return str(self.spark.conf.get(key, "false")).lower() != "false"

    @cached_property
    def case_sensitive(self) -> bool:
        """Whether names differ by case."""
        return self.on("spark.sql.caseSensitive")

    @cached_property
    def utc(self) -> bool:
        """Whether local times of the session are UTC's."""
        zoned = str(self.spark.conf.get("spark.sql.timestampType", "TIMESTAMP_LTZ")) == "TIMESTAMP_LTZ"
        return zoned and str(self.spark.conf.get("spark.sql.session.timeZone")) in UTC

    @cached_property
    def own_functions_first(self) -> bool:
        """Whether Spark is certain to take the name of a function of its own for that, whatever the user registered."""
        return str(self.spark.conf.get("spark.sql.functionResolution.sessionOrder", "first")).lower() != "first"

    @cached_property
    def dates_beside_text(self) -> bool:
        """Whether a text beside a DATE or TIMESTAMP is read as one."""
        return not self.on("spark.sql.legacy.typeCoercion.datetimeToString.enabled")

    def reads(self, text: str) -> bool:
        """Whether the quotes of a text mean what they do by default."""
        if '"' in text and self.on("spark.sql.ansi.doubleQuotedIdentifiers"):
            return False
        if "`" in text and self.on("spark.sql.parser.quotedRegexColumnNames"):
            return False
        if "\\" in text and self.on(ESCAPED_LITERALS):
            return False
        doubled = "''" in text or '""' in text
        return not (doubled and self.on("spark.sql.legacy.consecutiveStringLiterals.enabled"))


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement that the parser knows, with its tokens."""

    text: str
    tree: exp.Expr
    tokens: list[Token]


@dataclass(frozen=True)
class Source:
    """A table in a statement: the node that names it, the name that qualifies its columns, and its columns. `unproved`:
    those of which a comparison says nothing about what is stored."""

    node: exp.Table | None
    exposed: str
    fields: Sequence[DataField]
    unproved: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Proof:
    """A statement as the parser has it, and as written, OPTIONS hints and AS OF clauses blanked in both.

    `whole`: the whole statement, in which a name may stand anywhere."""

    text: str
    tree: exp.Expr
    settings: Settings
    whole: str

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

    # ---- text

    def source_of(self, node: exp.Expr | None) -> str | None:
        """A literal or identifier as written."""
        if not isinstance(node, (exp.Literal, exp.Identifier, exp.RawString)) or "start" not in node.meta:
            return None
        return self.text[node.meta["start"] : node.meta["end"] + 1]


# What the parser raises for what it does not know, and where it breaks: at `map(a)`, which has no pairs.
UNREAD = (SqlglotError, RecursionError, LookupError, ValueError)
# What the parser does not know it logs as a warning, which would reach the terminal of a user whose statement is right.
_here = threading.local()
logging.getLogger("sqlglot").addFilter(lambda _: not getattr(_here, "parsing", False))


def parse(statement: str) -> Parsed | None:
    """The tree of a statement, None for what the parser does not know. It sees no quotes and escapes within strings."""
    masked = lexemes.masked(statement)
    _here.parsing = True
    try:
        tokens = Spark().tokenize(masked)
        trees = Spark().parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, masked)
    except UNREAD:
        return None
    finally:
        _here.parsing = False
    return Parsed(statement, trees[0], tokens) if len(trees) == 1 and trees[0] is not None else None


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


def only(node: exp.Expr, known: set[str]) -> bool:
    """Whether a node has nothing but these parts."""
    return all(key in known for key, value in node.args.items() if value)


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


def parts(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The operands of a chain, without recursion along it, brackets around a part taken off."""
    stack = [node]
    while stack:
        top = stack.pop()
        while type(top) is exp.Paren:
            top = top.this
        if type(top) is kind:
            stack += [top.args["expression"], top.this]
        else:
            yield top


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


@dataclass(frozen=True)
class Reading:
    """Reads conditions over one table. `alone`: its columns need no qualifier."""

    proof: Proof
    source: Source
    alone: bool

    def certain(self, node: exp.Expr) -> Predicate | None:
        """A condition as a predicate with the same truth for every row, None where that is not certain."""
        try:
            return self._condition(node)
        except RecursionError:
            return None

    def _condition(self, node: exp.Expr) -> Predicate | None:
        kind = type(node)
        if kind in (exp.And, exp.Or):
            return self._combined(node)
        if kind is exp.Paren and only(node, {"this"}):
            return self._condition(node.this)
        if kind is exp.Not and only(node, {"this"}):
            inner = self._condition(node.this)
            return None if inner is None else negate(inner)
        if kind is exp.Boolean:
            return Constant(bool(node.this))
        if kind is exp.Column:
            field = self.column(node)
            return Compare(field.name, "=", True) if field is not None and field.type.root is Root.BOOLEAN else None
        if kind is exp.Is and only(node, {"this", "expression"}):
            return self._null(node)
        if kind is exp.In and only(node, {"this", "expressions"}):
            return self._listed(node)
        if kind is exp.Between and only(node, {"this", "low", "high"}):
            low = self._compared(node.this, ">=", node.args["low"])
            high = self._compared(node.this, "<=", node.args["high"])
            return AllOf((low, high)) if low is not None and high is not None else None
        if kind is exp.Like and only(node, {"this", "expression", "negate"}):
            field, pattern = self.column(node.this), self.value(node.expression)
            found = None if field is None else typed.like(field, pattern)
            return negate(found) if found is not None and node.args.get("negate") else found
        if kind in _OPERATORS and only(node, {"this", "expression"}):
            return self._compared(node.this, _OPERATORS[kind], node.expression)
        if kind in _CALLS and only(node, {"this", "expression"}) and self.proof.settings.own_functions_first:
            field, text = self.column(node.this), self.value(node.expression)
            return None if field is None else typed.call(field, _CALLS[kind], text)
        return None

    def _combined(self, node: exp.Expr) -> Predicate | None:
        found = [self._condition(part) for part in parts(node, type(node))]
        known = tuple(part for part in found if part is not None)
        if len(known) < len(found):
            return None
        return AllOf(known) if type(node) is exp.And else Or(known)

    def _null(self, node: exp.Is) -> Predicate | None:
        right = node.expression
        negated = type(right) is exp.Not
        right = right.this if negated else right
        field = self.column(node.this)
        if type(right) is not exp.Null or field is None:
            return None
        return IsNotNull(field.name) if negated else IsNull(field.name)

    def _listed(self, node: exp.In) -> Predicate | None:
        field = self.column(node.this)
        if field is None or not node.expressions:
            return None
        values = []
        for item in node.expressions:
            plain = bare(item)
            value = self.value(plain)
            if (value is None and type(plain) is not exp.Null) or not self.may_meet(field, value):
                return None
            values.append(value)
        return typed.is_in(field, values)

    def _compared(self, left: exp.Expr, op: Operator, right: exp.Expr) -> Predicate | None:
        left, right = bare(left), bare(right)
        if type(left) is not exp.Column:
            left, right, op = right, left, _FLIPPED[op]
        field, value = self.column(left), self.value(right)
        if field is None or value is None or not self.may_meet(field, value):
            return None
        return typed.compare(field, op, value)

    def may_meet(self, field: DataField, value: Value) -> bool:
        """Whether the session's settings give a moment beside this literal its plain meaning."""
        if field.name in self.source.unproved:
            return False
        settings = self.proof.settings
        moments = field.type.root in (Root.DATE, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
        if moments and isinstance(value, str) and not settings.dates_beside_text:
            return False
        return field.type.root is not Root.TIMESTAMP_LTZ or settings.utc

    def column(self, node: exp.Expr) -> DataField | None:
        """The table's column that a name can only mean."""
        node = bare(node)
        if type(node) is not exp.Column or not only(node, {"this", "table"}):
            return None
        qualifier = node.args.get("table")
        if qualifier is None and not self.alone:
            return None
        if qualifier is not None and not self.same(self.proof.source_of(qualifier), self.source.exposed):
            return None
        written = self.proof.source_of(node.this)
        return None if written is None else self.named(written)

    def named(self, written: str) -> DataField | None:
        """The table's column of that name, as it is written in the statement."""
        folded = lexemes.fold(lexemes.name(written))
        found = [item for item in self.source.fields if lexemes.fold(item.name) == folded]
        if len(found) != 1 or found[0].type.root not in typed.PLAIN_TYPES:
            return None
        return found[0] if self.same(written, found[0].name) else None

    def same(self, written: str | None, known: str) -> bool:
        """Whether a written name is this name under the session's rule."""
        if written is None:
            return False
        name = lexemes.name(written)
        near = name.isascii() and known.isascii() and name.lower() == known.lower()
        return name == known or (near and not self.proof.settings.case_sensitive)

    def value(self, node: exp.Expr) -> Value:
        """What a literal means, None for NULL and for everything that is not understood."""
        node, sign = bare(node), ""
        if type(node) is exp.Neg:
            node, sign = node.this, "-"
            if type(node) is not exp.Literal or node.is_string:
                return None
        if type(node) is exp.Boolean:
            return bool(node.this)
        if type(node) in (exp.Cast, exp.TryCast) and only(node, {"this", "to", "_type", "safe"}):
            return self.cast(node)
        written = self.proof.source_of(node)
        if written is None or type(node) not in (exp.Literal, exp.RawString):
            return None
        if type(node) is exp.RawString or node.is_string:
            return lexemes.string(written)
        return lexemes.number(written, sign)

    def cast(self, node: exp.Expr) -> Value:
        """A literal cast to a type of whole numbers that holds its value, whatever the session's mode; moments."""
        to = node.args["to"]
        if not only(to, {"this"}) or to.this not in _WHOLE:
            return self.moment(node)
        value, bits = self.value(node.this), typed.WHOLE[_WHOLE[to.this]]
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None

    def moment(self, node: exp.Expr) -> Value:
        """DATE '…', TIMESTAMP '…' and casts that say the same."""
        to = node.args["to"]
        kind = _MOMENTS.get(to.this) if only(to, {"this"}) else None
        if kind is None or type(node.this) is not exp.Literal or not node.this.is_string:
            return None
        if kind == "zoned" and not self.proof.settings.utc:
            return None
        text = lexemes.string(self.proof.source_of(node.this) or "")
        return None if text is None else Moment(kind, text)


def bare(node: exp.Expr) -> exp.Expr:
    """An expression without the brackets around it."""
    while type(node) is exp.Paren:
        node = node.this
    return node
