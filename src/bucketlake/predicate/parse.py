"""The text of a WHERE clause -> a predicate over a table's columns.

sqlglot reads the text; what the tree cannot say exactly becomes an Opaque node with the user's own words.

Spec: docs/spec/types.md#predicates
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import field, replace
from functools import cache
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError, did_you_mean
from bucketlake.lazy import exp, sqlglot, sqlglot_errors
from bucketlake.predicate.numbers import (
    WHOLE,
    Beyond,
    Fixed,
    Single,
    cast_number,
    compare_number,
    float_of,
    number_in,
    parse_number,
)
from bucketlake.predicate.scan import UNREAD, Part, Words, shortened
from bucketlake.predicate.times import Stamp, as_date, as_time, compare_stamp, date_of, stamp_of, zone_of
from bucketlake.predicate.tree import (
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
    columns_of,
    conjunction,
    is_exact,
    joined,
    negate,
    padded_forms,
)
from bucketlake.types.model import DataField, DataType, Root
from bucketlake.values import dataclass

_NUMERIC = (*WHOLE, Root.DECIMAL, Root.FLOAT, Root.DOUBLE)
_STAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_MOST_FORMS = 255  # of a CHAR value, padded or not; a type may have 2^31 letters


def parse_where(sql_text: str, fields: Sequence[DataField], zone: str = "UTC", ansi: bool = True) -> Predicate:
    """The predicate of a Spark SQL condition over columns; literals are typed by the column beside them.

    `zone`: where text and dates without an offset are, beside local-zoned timestamps. `ansi`: Spark's ANSI mode; else
    it compares a column with a list of texts as text, whatever the column's type. Parts joined by AND are taken
    one by one: those that the tree cannot express become `Opaque`.
    Raises: InvalidError for text that is no condition (with its position) and for unknown columns.
    Spec: docs/spec/types.md#predicates
    """
    check_condition(sql_text)
    return _Reader(Words(sql_text), fields, zone_of(zone), ansi).condition()


def check_condition(where: object) -> None:
    """InvalidError for what is neither SQL text nor a predicate, such as an expression of another library."""
    if not isinstance(where, (str, Predicate)):
        remedy = "write it as SQL: where=\"id > 3 AND name = 'a'\""
        raise InvalidError("not a condition", type=type(where).__name__, remedy=remedy)


def exact_where(where: str | Predicate, fields: Sequence[DataField]) -> Predicate:
    """A condition that is evaluated without Spark. InvalidError as `parse_where`, where it is none, and where a text is
    no value of the column beside it; UnsupportedError for what only Spark can evaluate."""
    check_condition(where)
    found = parse_where(where, fields) if isinstance(where, str) else where
    if is_exact(found):
        return found
    parts = (found, *(found.children if isinstance(found, And) else ()))
    why = next((item.why for item in parts if isinstance(item, Opaque) and item.why), "")
    if why:
        raise InvalidError(why, where=where, remedy="give a value of the column's type")
    remedy = "ask in SQL (lake.sql, `bucketlake sql`), or write a simpler one"
    raise UnsupportedError("this condition needs Spark", where=where, remedy=remedy)


@dataclass
class _Reader:
    words: Words
    fields: Sequence[DataField]
    zone: dt.tzinfo | None
    ansi: bool = True
    values: dict[str, Any] = field(default_factory=dict)  # what the strings of the leaf in hand stand for

    def condition(self) -> Predicate:
        """The whole condition; parts joined by AND are taken one by one."""
        return conjunction(self.conjuncts(self.words.skeleton())) or Constant(True)

    def conjuncts(self, part: Part) -> list[Predicate]:
        if part.kind == "and" and not part.negated:
            return [item for inner in part.parts for item in self.conjuncts(inner)]
        return [self.part(part)]

    def part(self, part: Part) -> Predicate:
        """One part: what is not exact throughout stays in the user's words."""
        if part.kind == "leaf":
            found = self.leaf(part)
        else:
            inner = [self.part(item) for item in part.parts]
            if not all(is_exact(item) for item in inner):
                names = (name for item in inner for name in sorted(columns_of(item)))
                why = next((item.why for item in inner if isinstance(item, Opaque) and item.why), "")
                found = Opaque(self.words.original(part.first, part.last), tuple(dict.fromkeys(names)), why)
            else:
                found = joined(And if part.kind == "and" else Or, inner)
        return negate(found) if part.negated else found

    def leaf(self, part: Part) -> Predicate:
        tree = self.parse(part)
        try:
            return self.predicate(tree)
        except Beyond as error:
            names = dict.fromkeys(item.name for item in self.known_columns(tree))
            return Opaque(self.words.original(part.first, part.last), tuple(names), str(error))

    def comparison(self, part: Part) -> exp.Expression | None:
        """`column op number` and `column op 'text'` without a parser; None for anything else."""
        words = self.words.words[part.first : part.last]
        name = self.words.text[words[0].start : words[0].end]
        known = words[0].upper not in _CONSTANTS and words[0].upper.isidentifier() and self.lookup(name) is not None
        at = 1
        while at < len(words) and words[at].upper in _SIGNS and (at == 1 or words[at].start == words[at - 1].end):
            at += 1
        node = _SPELLED.get("".join(word.upper for word in words[1:at]))
        minus = len(words) == at + 2 and words[at].upper == "-"
        if not known or node is None or len(words) != at + 1 + minus:
            return None
        value: exp.Expression
        if words[-1].is_value:
            self.values = {_VALUE: words[-1].value}
            value = exp.Literal.string(_VALUE)
        elif words[-1].upper.isdigit():
            value = exp.Literal.number(words[-1].upper)
        else:
            return None
        return getattr(exp, node)(this=exp.column(name), expression=exp.Neg(this=value) if minus else value)

    def parse(self, part: Part) -> exp.Expression:
        """The leaf's tree."""
        return self.comparison(part) or self.parsed(part)

    def parsed(self, part: Part) -> exp.Expression:
        text, self.values, places = self.words.plain(part.first, part.last)
        try:
            statements = sqlglot.parse(f"{_HEAD}{text}", read="spark")
        except RecursionError as error:
            raise InvalidError(
                "condition is nested too deeply",
                condition=shortened(self.words.text),
                position=self.words.words[part.first].start,
                remedy="write it with fewer parentheses and calls inside each other",
            ) from error
        except (sqlglot_errors.SqlglotError, ValueError) as error:
            first = error.errors[0] if getattr(error, "errors", None) else {}  # type: ignore[union-attr]
            column = int(first.get("col") or 0) - len(_HEAD)
            within = [(mine, theirs) for mine, theirs in places if mine <= max(column - 1, 0)] or [(0, 0)]
            raise InvalidError(
                "cannot parse the condition",
                condition=shortened(self.words.text),
                position=within[-1][1],
                reason=_UNNAMED.sub(
                    "something is missing", first.get("description") or (str(error).splitlines() or [""])[0]
                ),
                remedy="write it as in SQL: id > 3 AND city = 'Oslo'",
            ) from error
        tree = statements[0] if len(statements) == 1 else None
        where = tree.args.get("where") if isinstance(tree, exp.Select) else None
        extra = [
            key
            for key, value in (tree.args.items() if tree else ())
            if value and key not in ("where", "expressions", "kind")
        ]
        if where is None or extra:
            text = shortened(self.words.text)
            raise InvalidError("not a condition", condition=text, remedy="give what stands after WHERE")
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
        at = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.words.text)
        names = [item.name for item in self.fields]
        place = at.start() if at else None
        remedy = did_you_mean(name, names)
        if remedy is None and node.arg_key in ("expression", "expressions"):  # where values stand: city = Oslo
            remedy = f"a text stands in quotes: '{name}'"
        return InvalidError("no such column", column=name, position=place, columns=names, remedy=remedy)

    def column(self, node: exp.Expression) -> DataField:
        if not isinstance(node, exp.Column):
            raise Beyond
        parts = [part.name for part in node.parts]
        if len(parts) > 1 and self.lookup(parts[0]) is not None:
            raise Beyond  # a member of a ROW column
        found = self.lookup(parts[-1])
        if found is None:
            raise self.unknown(node)
        return found

    # ---- conditions

    def predicate(self, node: exp.Expression) -> Predicate:
        if any(value for key, value in node.args.items() if key not in _KNOWN_ARGS):
            raise Beyond
        if isinstance(node, exp.Paren):
            return self.predicate(node.this)
        if isinstance(node, exp.Not):
            return negate(self.predicate(node.this))
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this))
        if isinstance(node, exp.Null):
            return Constant(None)
        if isinstance(node, exp.Column):
            field = self.column(node)
            if field.type.root is not Root.BOOLEAN:
                raise Beyond
            return Compare(field.name, "=", True)
        if isinstance(node, exp.Is):
            return self.is_(node)
        if isinstance(node, exp.In):
            return self.in_(node)
        if isinstance(node, exp.Between):
            if self.column(_bare(node.this)).type.root is Root.CHAR:
                raise Beyond  # Spark pads the column, but not the bounds
            low = self.compare(node.this, ">=", node.args["low"])
            return And((low, self.compare(node.this, "<=", node.args["high"])))
        for kind, op in _OPERATORS.items():
            if isinstance(node, getattr(exp, kind)):
                return self.compare(node.this, op, node.expression)
        if isinstance(node, exp.NullSafeNEQ):
            return negate(self.compare(node.this, "<=>", node.expression))
        return self.text_match(node)

    def is_(self, node: exp.Is) -> Predicate:
        right = node.expression
        negated = isinstance(right, exp.Not)
        right = right.this if negated else right
        if isinstance(right, exp.Null):
            name = self.column(_bare(node.this)).name
            return IsNotNull(name) if negated else IsNull(name)
        if not isinstance(right, exp.Boolean):
            raise Beyond
        field = self.column(_bare(node.this))
        if field.type.root is not Root.BOOLEAN:
            raise Beyond
        found = Compare(field.name, "<=>", bool(right.this))
        return Not(found) if negated else found

    def in_(self, node: exp.In) -> Predicate:
        if not node.expressions:
            raise Beyond
        item = self.column(_bare(node.this))
        values = [self.literal(one) for one in node.expressions]
        kinds = {type(value) for value in values if value is not None}
        if str in kinds and not self.ansi and item.type.root not in (Root.CHAR, Root.VARCHAR):
            raise Beyond
        if item.type.root in _NUMERIC:
            if str in kinds and len(kinds) > 1:
                raise Beyond  # text among numbers gives all of them another type
            return number_in(item, [self.number(value, item.type) for value in values])
        if len(kinds) > 1:
            raise Beyond
        parts = [self.against(item, "=", value) for value in values]
        if all(isinstance(part, (Compare, Constant)) for part in parts):
            return In(item.name, tuple(dict.fromkeys(getattr(part, "literal", None) for part in parts)))
        return joined(Or, parts)

    def compare(self, left: exp.Expression, op: Operator, right: exp.Expression) -> Predicate:
        left, right = _bare(left), _bare(right)
        if not isinstance(left, exp.Column):
            left, right, op = right, left, _FLIPPED[op]
        if isinstance(right, exp.Column):
            raise Beyond
        field = self.column(left)
        return self.against(field, op, self.literal(right))

    def text_match(self, node: exp.Expression) -> Predicate:
        kind = type(node).__name__
        if kind not in ("Like", "StartsWith", "EndsWith", "Contains"):
            raise Beyond
        field, text = self.column(_bare(node.this)), self.text(_bare(node.args["expression"]))
        if field.type.root is not Root.VARCHAR:
            raise Beyond
        found: Predicate
        if kind == "Like":
            found = like(field.name, text)
        else:
            found = {"StartsWith": StartsWith, "EndsWith": EndsWith, "Contains": Contains}[kind](field.name, text)
        return negate(found) if node.args.get("negate") else found

    # ---- literals

    def literal(self, node: exp.Expression) -> Any:
        """The value of a constant, typed by what it is: int, Fixed, float, Single, str, bytes, bool, date, datetime,
        None."""
        node = _bare(node)
        if isinstance(node, exp.Neg):
            return self.negative(node)
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Cast):
            return self.cast(node)
        if not isinstance(node, exp.Literal):
            raise Beyond
        if not node.is_string:
            return parse_number(str(node.this))
        value = self.values.get(str(node.this), UNREAD)
        if value is UNREAD:
            raise Beyond
        return value

    def negative(self, node: exp.Neg) -> Any:
        value = self.literal(node.this)
        if isinstance(value, bool) or not isinstance(value, (int, float, Fixed)):
            raise Beyond
        if isinstance(node.this, exp.Literal):
            return -value
        if isinstance(value, int):  # no literal any more: it has all the digits of its type
            bits = value.bit_length()
            return Fixed(-value, 0, 10 if bits < 32 else 20 if bits < 64 else len(str(abs(value))), plain=False)
        return replace(-value, plain=False) if isinstance(value, Fixed) else -value

    def text(self, node: exp.Expression) -> str:
        """The value of a string literal."""
        value = self.literal(node)
        if not isinstance(value, str):
            raise Beyond
        return value

    def cast(self, node: exp.Cast) -> Any:
        """CAST('…' AS type), DATE '…', TIMESTAMP '…', and numbers cast to number types."""
        value = self.literal(node.this)
        target = node.to.this
        sizes = [int(item.name) if item.name.isdecimal() else -1 for item in node.to.expressions]
        if value is None:
            return None
        if isinstance(value, str):
            if target in _types(*_DATE_TYPES):
                return date_of(value)
            if target in _types(*_STAMP_TYPES):
                return self.stamp_cast(value, target, sizes[0] if sizes else 6)
            if target in _types(*_TEXT_TYPES) and not sizes:
                return value
        return cast_number(value, target.name, sizes)

    def stamp_cast(self, text: str, target: exp.DataType.Type, digits: int) -> Stamp:
        value = stamp_of(text)
        if digits < 6 and value.microsecond % 10 ** (6 - digits):
            raise Beyond
        return Stamp(value, target in _types(*_ZONELESS))

    # ---- a literal beside a column

    def against(self, field: DataField, op: Operator, value: Any) -> Predicate:
        """`column op value` with the value brought to the column's type, exactly."""
        if value is None:
            return IsNull(field.name) if op == "<=>" else Constant(None)
        t = field.type
        if isinstance(value, str) and is_no_value(value, t):
            raise Beyond(f"{value!r} is not of type {t.root.name}")
        if t.root is Root.BOOLEAN and isinstance(value, bool):
            return Compare(field.name, op, value)
        if isinstance(value, bool):
            raise Beyond
        if t.root is Root.VARCHAR and isinstance(value, str):
            return Compare(field.name, op, value)
        if t.root is Root.CHAR and isinstance(value, str):
            return compare_char(field, op, value)
        if t.root in (Root.BINARY, Root.VARBINARY, Root.BLOB) and isinstance(value, bytes):
            return Compare(field.name, op, value)
        if t.root in _NUMERIC:
            return compare_number(field, op, self.number(value, t))
        if t.root is Root.DATE:
            return Compare(field.name, op, as_date(value))
        if t.root is Root.TIME:
            return Compare(field.name, op, as_time(value))
        if t.root in _STAMPS:
            return self.against_stamp(field, op, value)
        raise Beyond

    def against_stamp(self, field: DataField, op: Operator, value: Any) -> Predicate:
        zoned = field.type.root is Root.TIMESTAMP_LTZ
        if isinstance(value, str):
            value = Stamp(stamp_of(value), not zoned)
        elif isinstance(value, dt.date):
            value = Stamp(dt.datetime(value.year, value.month, value.day), not zoned)
        if not isinstance(value, Stamp) or (value.zoneless and value.value.tzinfo is not None):
            raise Beyond
        moment = value.value
        if zoned:
            moment = self.aware(moment)
        elif not value.zoneless:  # Spark takes the column's values to the session's zone
            if self.zone is None or self.zone.utcoffset(None) is None:
                raise Beyond
            moment = self.aware(moment).astimezone(self.zone).replace(tzinfo=None)
        return compare_stamp(field, op, moment)

    def aware(self, value: dt.datetime) -> dt.datetime:
        """The instant, UTC; without an offset in the session's zone."""
        if value.tzinfo is None:
            if self.zone is None:
                raise Beyond
            value = value.replace(tzinfo=self.zone)
        try:
            return value.astimezone(dt.timezone.utc)
        except OverflowError as error:
            raise Beyond from error

    def number(self, value: Any, t: DataType) -> Any:
        """A literal beside a numeric column as a number; text as Spark casts it there."""
        if value is None or (isinstance(value, (int, float, Fixed)) and not isinstance(value, bool)):
            return value
        if not isinstance(value, str):
            raise Beyond
        if is_no_value(value, t):
            raise Beyond(f"{value!r} is not of type {t.root.name}")
        text = value.strip(" \t\r\n")
        if t.root in WHOLE:
            found = int(text) if _WHOLE_TEXT.fullmatch(text) else None
            if found is None or found.bit_length() >= WHOLE[t.root]:
                raise Beyond  # out of the column's range it is an error, or null, by the session's mode
            return found
        number = float_of(text)
        if t.root is Root.FLOAT and number == number and Single(number) != number:
            raise Beyond  # it is cast to FLOAT or DOUBLE, by the session's mode
        return number


_OPERATORS: dict[str, Operator] = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
}
_HEAD = "SELECT 1 WHERE "
_UNNAMED = re.compile(r"Required keyword: .* missing for <class .*>")
_KNOWN_ARGS = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
_FLIPPED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CONSTANTS = ("", "NOT", "NULL", "TRUE", "FALSE")
_SIGNS = ("=", "<", ">", "!")
_SPELLED: dict[str, str] = {
    "=": "EQ",
    "==": "EQ",
    "<>": "NEQ",
    "!=": "NEQ",
    "<": "LT",
    "<=": "LTE",
    ">": "GT",
    ">=": "GTE",
    "<=>": "NullSafeEQ",
}
_VALUE = "value"
_DATE_TYPES = ("DATE",)
_ZONELESS = ("TIMESTAMPNTZ",)
_STAMP_TYPES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
_TEXT_TYPES = ("TEXT", "VARCHAR")
_LETTER = re.compile("[A-Za-z]")
_NO_NUMBER = re.compile("[g-oq-wyz]|^[^0-9]*$")  # 1e5, 1.5d and 0x1p3 are some
_DIGIT = re.compile("[0-9]")
_WHOLE_TEXT = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@cache
def _types(*names: str) -> frozenset[exp.DataType.Type]:
    return frozenset(exp.DataType.Type[name] for name in names)


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def is_no_value(text: str, t: DataType) -> bool:
    """Whether a text beside a column of this type is certain not to be one of its values: with ANSI mode Spark refuses
    it, without it is NULL. False where nobody has to know."""
    if t.root in WHOLE:
        return _LETTER.search(text) is not None
    if t.root in (Root.DECIMAL, Root.FLOAT, Root.DOUBLE):
        word = text.strip().lstrip("+-").lower()
        return _NO_NUMBER.search(word) is not None and word not in ("inf", "infinity", "nan")
    return t.root in (Root.DATE, Root.TIME, *_STAMPS) and _DIGIT.search(text) is None


def compare_char(field: DataField, op: Operator, text: str) -> Predicate:
    """`column op text` over a CHAR column: both sides are padded with blanks, as Spark does, whatever is stored. Spark
    stores values padded, other engines as they come.

    Beyond for a text with letters before the blank: one that is stored short would be at another place than padded; and
    where there are too many forms to name them.
    """
    short, length = text.rstrip(" "), field.type.length or 1
    if any(letter < " " for letter in text) or length - len(short) > _MOST_FORMS:
        raise Beyond
    forms = padded_forms(short, length)
    name, whole = field.name, short.ljust(length)
    if op in ("=", "<>", "<=>"):
        same = In(name, forms)
        return same if op == "=" else Not(same) if op == "<>" else And((IsNotNull(name), same))
    if op in ("<", ">="):  # shorter forms stand before the whole one
        least = Or((Compare(name, ">=", whole), In(name, forms[:-1])))
        return least if op == ">=" else negate(least)
    return Compare(name, op, whole)


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
