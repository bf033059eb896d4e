"""Conditions of a statement over one table as predicates: what has the same truth for every row, and nothing else.

Spec: docs/spec/pushdown.md
"""

from __future__ import annotations

import re

from sqlglot import exp

from bucketlake.predicate.tree import And as AllOf
from bucketlake.predicate.tree import (
    Compare,
    Constant,
    Contains,
    EndsWith,
    IsNotNull,
    IsNull,
    Operator,
    Or,
    Predicate,
    StartsWith,
    negate,
)
from bucketlake.sql.query import typed
from bucketlake.sql.query.parser import Source, Statement, bare, only, parts
from bucketlake.sql.query.typed import Moment, Value
from bucketlake.sql.text import lexemes
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

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
class Reading:
    """Reads conditions over one table. `alone`: its columns need no qualifier."""

    statement: Statement
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
        if kind in _CALLS and only(node, {"this", "expression"}) and self.statement.settings.own_functions_first:
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
        settings = self.statement.settings
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
        if qualifier is not None and not self.same(self.statement.source_of(qualifier), self.source.exposed):
            return None
        written = self.statement.source_of(node.this)
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
        return name == known or (near and not self.statement.settings.case_sensitive)

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
        written = self.statement.source_of(node)
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
        if kind == "zoned" and not self.statement.settings.utc:
            return None
        text = lexemes.string(self.statement.source_of(node.this) or "")
        return None if text is None else Moment(kind, text)
