"""The text of a WHERE clause -> a predicate over a table's columns.

sqlglot reads the text; what the tree cannot say exactly becomes an Opaque node with the user's own words.

Spec: docs/spec/types.md#predicates
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from bucketlake.errors import InvalidError
from bucketlake.predicate_tree import (
    And,
    Compare,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    Opaque,
    Operator,
    Or,
    Predicate,
    StartsWith,
    conjunction,
    negate,
)
from bucketlake.types import DataField, DataType, Root

_EXACT = Context(prec=80)
_WHOLE = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_TEXT = (Root.CHAR, Root.VARCHAR)
_STAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


class _Beyond(Exception):
    """The condition has a meaning that the tree cannot hold: it becomes Opaque."""


def parse_where(sql_text: str, fields: Sequence[DataField], zone: str = "UTC") -> Predicate:
    """The predicate of a Spark SQL condition over columns; literals are typed by the column beside them.

    `zone`: where text and dates without an offset are, beside local-zoned timestamps. Parts joined by AND are taken
    one by one: those that the tree cannot express become `Opaque`.
    Raises: InvalidError for text that is no condition (with its position) and for unknown columns.
    Spec: docs/spec/types.md#predicates
    """
    try:
        home = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidError("unknown time zone", zone=zone) from error
    reader = _Reader(sql_text, fields, home)
    return conjunction(reader.conjuncts(sql_text)) or Constant(True)


@dataclass
class _Reader:
    whole: str
    fields: Sequence[DataField]
    zone: ZoneInfo

    def conjuncts(self, text: str) -> list[Predicate]:
        """One predicate for each part between top-level ANDs, outer parentheses taken off."""
        tree = self.parse(text)
        if isinstance(tree, (exp.And, exp.Paren)):
            parts = _split(text)
            if parts != [text]:
                return [item for part in parts for item in self.conjuncts(part)]
        try:
            return [self.predicate(tree)]
        except _Beyond:
            return [Opaque(text.strip(), tuple(dict.fromkeys(f.name for f in self.known_columns(tree))))]

    def parse(self, text: str) -> exp.Expression:
        try:
            statements = sqlglot.parse(f"SELECT 1 WHERE {text}\n", read="spark")
        except SqlglotError as error:
            first = error.errors[0] if getattr(error, "errors", None) else {}
            raise InvalidError(
                "cannot parse the condition",
                condition=self.whole,
                line=first.get("line"),
                position=max(int(first.get("col") or 0) - len("SELECT 1 WHERE "), 0),
                reason=first.get("description") or str(error).splitlines()[0],
            ) from error
        tree = statements[0] if len(statements) == 1 else None
        where = tree.args.get("where") if isinstance(tree, exp.Select) else None
        extra = [
            key
            for key, value in (tree.args.items() if tree else ())
            if value and key not in ("where", "expressions", "kind")
        ]
        if where is None or extra:
            raise InvalidError("not a condition", condition=self.whole, remedy="give what stands after WHERE")
        condition: exp.Expression = where.this
        return condition

    # ---- columns

    def known_columns(self, tree: exp.Expression) -> list[DataField]:
        found, statement = [], tree.find_ancestor(exp.Select)
        for node in tree.find_all(exp.Column):
            parts = [part.name for part in node.parts]
            hits = [hit for hit in map(self.lookup, parts) if hit is not None]
            inner = node.find_ancestor(exp.Lambda, exp.Dot) or node.find_ancestor(exp.Select) is not statement
            if not hits and not inner:
                raise self.unknown(node)
            found += hits[:1]
        return found

    def lookup(self, name: str) -> DataField | None:
        exact = [item for item in self.fields if item.name == name]
        near = exact or [item for item in self.fields if item.name.lower() == name.lower()]
        return near[0] if len(near) == 1 else None

    def unknown(self, node: exp.Column) -> InvalidError:
        name = node.name
        at = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.whole)
        names = [item.name for item in self.fields]
        return InvalidError("no such column", column=name, position=at.start() if at else None, columns=names)

    def column(self, node: exp.Expression) -> DataField:
        if not isinstance(node, exp.Column):
            raise _Beyond
        parts = [part.name for part in node.parts]
        if len(parts) > 1 and self.lookup(parts[0]) is not None:
            raise _Beyond  # a member of a ROW column
        found = self.lookup(parts[-1])
        if found is None:
            raise self.unknown(node)
        return found

    # ---- conditions

    def predicate(self, node: exp.Expression) -> Predicate:
        if any(value for key, value in node.args.items() if key not in _KNOWN_ARGS):
            raise _Beyond
        if isinstance(node, exp.Paren):
            return self.predicate(node.this)
        if isinstance(node, exp.And):
            return And(tuple(self.flat(node, exp.And)))
        if isinstance(node, exp.Or):
            return Or(tuple(self.flat(node, exp.Or)))
        if isinstance(node, exp.Not):
            return negate(self.predicate(node.this))
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this))
        if isinstance(node, exp.Null):
            return Constant(None)
        if isinstance(node, exp.Column):
            field = self.column(node)
            if field.type.root is not Root.BOOLEAN:
                raise _Beyond
            return Compare(field.name, "=", True)
        if isinstance(node, exp.Is):
            return self.is_(node)
        if isinstance(node, exp.In):
            return self.in_(node)
        if isinstance(node, exp.Between):
            low = self.compare(node.this, ">=", node.args["low"])
            return And((low, self.compare(node.this, "<=", node.args["high"])))
        for kind, op in _OPERATORS.items():
            if isinstance(node, kind):
                return self.compare(node.this, op, node.expression)
        if isinstance(node, exp.NullSafeNEQ):
            return negate(self.compare(node.this, "<=>", node.expression))
        return self.text_match(node)

    def flat(self, node: exp.Expression, kind: type[exp.Expression]) -> list[Predicate]:
        """Operands of a chain, without recursion along it."""
        found: list[Predicate] = []
        stack = [node]
        while stack:
            top = stack.pop()
            if isinstance(top, kind):
                stack += [top.args["expression"], top.this]
            else:
                found.append(self.predicate(top))
        return found

    def is_(self, node: exp.Is) -> Predicate:
        right = node.expression
        negated = isinstance(right, exp.Not)
        right = right.this if negated else right
        if isinstance(right, exp.Null):
            name = self.column(_bare(node.this)).name
            return IsNotNull(name) if negated else IsNull(name)
        if not isinstance(right, exp.Boolean):
            raise _Beyond
        field = self.column(_bare(node.this))
        if field.type.root is not Root.BOOLEAN:
            raise _Beyond
        found = Compare(field.name, "<=>", bool(right.this))
        return Not(found) if negated else found

    def in_(self, node: exp.In) -> Predicate:
        if not node.expressions:
            raise _Beyond
        field = self.column(_bare(node.this))
        values: list[Any] = []
        for item in node.expressions:
            one = self.against(field, "=", self.literal(item, field))
            if isinstance(one, Constant):
                values.append(None)
            elif isinstance(one, Compare):
                values.append(one.literal)
            elif not isinstance(one, In):
                raise _Beyond
        return In(field.name, tuple(dict.fromkeys(values)))

    def compare(self, left: exp.Expression, op: Operator, right: exp.Expression) -> Predicate:
        left, right = _bare(left), _bare(right)
        if not isinstance(left, exp.Column):
            left, right, op = right, left, _FLIPPED[op]
        if isinstance(right, exp.Column):
            raise _Beyond
        field = self.column(left)
        return self.against(field, op, self.literal(right, field))

    def text_match(self, node: exp.Expression) -> Predicate:
        kind = type(node).__name__
        if kind not in ("Like", "StartsWith", "EndsWith", "Contains"):
            raise _Beyond
        field, text = self.column(_bare(node.this)), self.text(_bare(node.args["expression"]))
        if field.type.root is not Root.VARCHAR:
            raise _Beyond
        found: Predicate
        if kind == "Like":
            found = like(field.name, text)
        else:
            found = {"StartsWith": StartsWith, "EndsWith": EndsWith, "Contains": Contains}[kind](field.name, text)
        return negate(found) if node.args.get("negate") else found

    # ---- literals

    def literal(self, node: exp.Expression, field: DataField) -> Any:
        """The value of a constant, typed by what it is: int, Decimal, float, str, bytes, bool, date, datetime, None."""
        node = _bare(node)
        if isinstance(node, exp.Neg):
            value = self.literal(node.this, field)
            if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
                return -value
            raise _Beyond
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.HexString):
            digits = str(node.this)
            return int(digits, 16).to_bytes(len(digits) // 2, "big") if len(digits) % 2 == 0 and digits else b""
        if isinstance(node, exp.Cast):
            return self.cast(node, field)
        if isinstance(node, exp.RawString):
            return str(node.this)
        if not isinstance(node, exp.Literal):
            raise _Beyond
        return self.text(node) if node.is_string else _number(str(node.this))

    def text(self, node: exp.Expression) -> str:
        """The value of a string literal; only escapes that sqlglot and Spark read alike."""
        if isinstance(node, exp.RawString):
            return str(node.this)
        if not isinstance(node, exp.Literal) or not node.is_string or _OTHER_ESCAPE.search(self.whole):
            raise _Beyond
        return str(node.this)

    def cast(self, node: exp.Cast, field: DataField) -> Any:
        """CAST('…' AS type), DATE '…', TIMESTAMP '…', and numbers cast to number types."""
        value = self.literal(node.this, field)
        target = node.to.this
        if value is None:
            return None
        if isinstance(value, str) and target in _DATE_TYPES:
            return _date(value)
        if isinstance(value, str) and target in _STAMP_TYPES:
            stamp = self.stamp(value, zoned=field.type.root is Root.TIMESTAMP_LTZ)
            digits = int(node.to.expressions[0].name) if node.to.expressions else 6
            if digits < 6 and stamp.microsecond % 10 ** (6 - digits):
                raise _Beyond
            return stamp
        if isinstance(value, str) and target in _TEXT_TYPES and not node.to.expressions:
            return value
        if isinstance(value, int) and not isinstance(value, bool) and target in _WHOLE_TYPES:
            bits = _WHOLE_TYPES[target]
            if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
                return value
        if isinstance(value, (int, Decimal, float)) and not isinstance(value, bool) and target in _DOUBLE_TYPES:
            return float(value)
        if isinstance(value, str) and target in _DECIMAL_TYPES and re.fullmatch(r"[+-]?\d+(\.\d+)?", value):
            value = Decimal(value)
        if isinstance(value, (int, Decimal)) and not isinstance(value, bool) and target in _DECIMAL_TYPES:
            sizes = [int(item.name) for item in node.to.expressions]
            precision, scale = (*sizes, 0)[:2] if sizes else (10, 0)
            exact = Decimal(value)
            if exact == round(exact, scale) and abs(exact) < 10 ** (precision - scale):
                return exact
        raise _Beyond

    def stamp(self, text: str, zoned: bool) -> dt.datetime:
        """A timestamp's text; aware (UTC) if `zoned`, where text without an offset is in the session's zone."""
        value = _stamp(text)
        if not zoned:
            if value.tzinfo is not None:
                raise _Beyond
            return value
        return self.aware(value)

    def aware(self, value: dt.datetime) -> dt.datetime:
        if value.tzinfo is None:
            value = value.replace(tzinfo=self.zone)
        try:
            return value.astimezone(dt.timezone.utc)
        except OverflowError as error:
            raise _Beyond from error

    # ---- a literal beside a column

    def against(self, field: DataField, op: Operator, value: Any) -> Predicate:
        """`column op value` with the value brought to the column's type, exactly."""
        if value is None:
            return IsNull(field.name) if op == "<=>" else Constant(None)
        t = field.type
        if t.root is Root.BOOLEAN and isinstance(value, bool):
            return Compare(field.name, op, value)
        if isinstance(value, bool):
            raise _Beyond
        if t.root in _TEXT and isinstance(value, str):
            return Compare(field.name, op, value)
        if t.root in (Root.BINARY, Root.VARBINARY) and isinstance(value, bytes):
            return Compare(field.name, op, value)
        if t.root in _WHOLE or t.root is Root.DECIMAL:
            return _on_grid(field, op, _exact(value, t))
        if t.root in (Root.FLOAT, Root.DOUBLE):
            return Compare(field.name, op, _float(value))
        if t.root is Root.DATE:
            return Compare(field.name, op, _as_date(value))
        if t.root is Root.TIME:
            return Compare(field.name, op, _as_time(value))
        if t.root in _STAMPS:
            return self.against_stamp(field, op, value)
        raise _Beyond

    def against_stamp(self, field: DataField, op: Operator, value: Any) -> Predicate:
        zoned = field.type.root is Root.TIMESTAMP_LTZ
        if isinstance(value, str):
            value = self.stamp(value, zoned)
        elif isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            value = dt.datetime(value.year, value.month, value.day)
        if not isinstance(value, dt.datetime) or (value.tzinfo is not None and not zoned):
            raise _Beyond
        if zoned:
            value = self.aware(value)
        if (field.type.precision or 0) > 3:
            return Compare(field.name, op, value)
        rest = value.microsecond % 1000
        floor = value - dt.timedelta(microseconds=rest)
        if rest == 0:
            return Compare(field.name, op, value)
        return _between(field.name, op, floor, floor + dt.timedelta(milliseconds=1))


_OPERATORS: dict[type[exp.Expression], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_KNOWN_ARGS = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
_OTHER_ESCAPE = re.compile(r"\\[^%_\\'\"nrt]")
_FLIPPED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_KIND = exp.DataType.Type
_DATE_TYPES = {_KIND.DATE}
_STAMP_TYPES = {_KIND.TIMESTAMP, _KIND.TIMESTAMPTZ, _KIND.TIMESTAMPLTZ, _KIND.TIMESTAMPNTZ, _KIND.DATETIME}
_TEXT_TYPES = {_KIND.TEXT, _KIND.VARCHAR}
_WHOLE_TYPES = {_KIND.TINYINT: 8, _KIND.SMALLINT: 16, _KIND.INT: 32, _KIND.BIGINT: 64}
_DOUBLE_TYPES = {_KIND.DOUBLE}
_DECIMAL_TYPES = {_KIND.DECIMAL}


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _split(text: str) -> list[str]:
    """The texts between top-level ANDs; one pair of parentheses around the whole is taken off first."""
    tokens: list[Token] = sqlglot.tokenize(text, read="spark")
    depth, between, start, parts, closed = 0, 0, 0, [], -1
    for i, token in enumerate(tokens):
        if token.token_type in (TokenType.L_PAREN, TokenType.CASE):
            depth += 1
        elif token.token_type in (TokenType.R_PAREN, TokenType.END):
            depth -= 1
            if depth == 0 and closed < 0:
                closed = i
        elif depth == 0 and token.token_type is TokenType.BETWEEN:
            between += 1
        elif depth == 0 and token.token_type is TokenType.OR:
            return [text]
        elif depth == 0 and token.token_type is TokenType.AND:
            if between:
                between -= 1
            else:
                parts.append(text[start : token.start])
                start = token.end + 1
    if parts:
        return [*parts, text[start:]]
    if tokens and tokens[0].token_type is TokenType.L_PAREN and closed == len(tokens) - 1:
        return [text[tokens[0].end + 1 : tokens[-1].start]]
    return [text]


def like(column: str, pattern: str) -> Predicate:
    """LIKE, as the simplest node that says the same."""
    inner = pattern.strip("%")
    if any(mark in inner for mark in "%_\\") or any(mark in pattern for mark in "_\\"):
        return Like(column, pattern)
    first, last = pattern.startswith("%"), pattern.endswith("%")
    if not pattern.strip("%"):
        return Compare(column, "=", "") if not pattern else Like(column, "%")
    if first and last:
        return Contains(column, inner)
    if first:
        return EndsWith(column, inner)
    return StartsWith(column, inner) if last else Compare(column, "=", pattern)


def _number(text: str) -> int | float | Decimal:
    if re.fullmatch(r"\d+", text):
        return int(text)
    try:
        return float(text) if "e" in text.lower() else Decimal(text)
    except (ValueError, InvalidOperation) as error:
        raise _Beyond from error


def _exact(value: Any, t: DataType) -> Decimal:
    """The value beside a whole-number or DECIMAL column as an exact decimal."""
    if isinstance(value, str) and t.root in _WHOLE and re.fullmatch(r"[+-]?\d{1,18}", value.strip()):
        return Decimal(value.strip())
    if isinstance(value, float) and (t.root is Root.DECIMAL or abs(value) >= 2**53):
        raise _Beyond
    if not isinstance(value, (int, Decimal, float)):
        raise _Beyond
    return Decimal(value)


def _on_grid(field: DataField, op: Operator, value: Decimal) -> Predicate:
    """A comparison with a number that the column's type may not be able to hold."""
    t = field.type
    scale = t.scale or 0
    step = Decimal(1).scaleb(-scale)
    if t.root in _WHOLE:
        low, high = Decimal(-(1 << (_WHOLE[t.root] - 1))), Decimal((1 << (_WHOLE[t.root] - 1)) - 1)
    else:
        high = Decimal(10 ** (t.precision or 10) - 1).scaleb(-scale, _EXACT)
        low = -high
    if value > high or value < low:
        nothing = In(field.name, ())
        holds = op in ("<", "<=", "<>") if value > high else op in (">", ">=", "<>")
        if op == "<=>":
            return Constant(False)
        return Not(nothing) if holds else nothing
    floor = value.quantize(step, ROUND_FLOOR, _EXACT)
    if floor == value:
        return Compare(field.name, op, _stored(floor, t))
    return _between(field.name, op, _stored(floor, t), _stored(value.quantize(step, ROUND_CEILING, _EXACT), t))


def _stored(value: Decimal, t: DataType) -> Any:
    return int(value) if t.root in _WHOLE else value


def _between(column: str, op: Operator, floor: Any, ceiling: Any) -> Predicate:
    """The comparison with a value strictly between two neighbours that the column can hold."""
    if op in ("<", "<="):
        return Compare(column, "<=", floor)
    if op in (">", ">="):
        return Compare(column, ">=", ceiling)
    if op == "<=>":
        return Constant(False)
    return In(column, ()) if op == "=" else Not(In(column, ()))


def _float(value: Any) -> float:
    if isinstance(value, str):
        if re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", value.strip()) or value.strip().lower() == "nan":
            return float(value)
        raise _Beyond
    if not isinstance(value, (int, float, Decimal)):
        raise _Beyond
    try:
        return float(value)
    except OverflowError as error:
        raise _Beyond from error


def _date(text: str) -> dt.date:
    found = re.fullmatch(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})\s*", text)
    if found is None:
        raise _Beyond
    try:
        return dt.date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError as error:
        raise _Beyond from error


def _as_date(value: Any) -> dt.date:
    if isinstance(value, str):
        return _date(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    raise _Beyond


def _as_time(value: Any) -> dt.time:
    """Milliseconds of the day, as DataFrames have them, or 'hh:mm:ss[.fff]'."""
    if isinstance(value, int) and 0 <= value < 86_400_000:
        return (dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=value)).time()
    if isinstance(value, str) and re.fullmatch(r"\d\d:\d\d(:\d\d(\.\d{1,3})?)?", value):
        try:
            return dt.time.fromisoformat(value if "." not in value else value.ljust(12, "0"))
        except ValueError as error:
            raise _Beyond from error
    raise _Beyond


_STAMP = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})0*)?)?\s*(Z|[+-]\d{2}:\d{2}|UTC)?)?\s*"
)


def _stamp(text: str) -> dt.datetime:
    found = _STAMP.fullmatch(text)
    if found is None:
        raise _Beyond
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        value = dt.datetime(year, month, day, hour, minute, second, int((found[7] or "").ljust(6, "0")))
        zone = found[8]
        if zone is None:
            return value
        if zone in ("Z", "UTC"):
            return value.replace(tzinfo=dt.timezone.utc)
        offset = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
        return value.replace(tzinfo=dt.timezone(-offset if zone[0] == "-" else offset))
    except ValueError as error:
        raise _Beyond from error
