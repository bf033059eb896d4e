"""Constant SQL expressions and their values: literals, casts and arithmetic of them, constructors of nested values.

A whitelist: whatever is not known here, a column, a query, a function, is refused, and so is a literal that engines
read differently. The text must be one expression from its first to its last sign.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from itertools import pairwise
from typing import Any

from bucketlake.errors import InvalidError
from bucketlake.lazy import exp, pa, spark_dialect, sqlglot, sqlglot_errors, sqlglot_tokens
from bucketlake.schema.evolution import value_of
from bucketlake.types.model import DataType, Root
from bucketlake.values import dataclass

LONGEST = 10_000
_DIGITS = 38  # of Spark's decimals
_EXACT = Context(prec=76, traps=[Inexact, InvalidOperation])
_DOUBTFUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[^\\'\"nrt]")
_CALL = re.compile(r"\s*\w+\s*\(.*\)\s*", re.DOTALL)
_STAMP = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")


@dataclass(frozen=True, slots=True)
class Pairs:
    """A map: keys with their values."""

    items: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True, slots=True)
class Struct:
    """A row: members by name; `named`: whether the text gave the names."""

    members: tuple[tuple[str, Any], ...]
    named: bool


def constant(text: str) -> Any:
    """The value of a constant expression: None, bool, int, Decimal, float, str, bytes, date, datetime, list, Pairs or
    Struct. InvalidError for anything else."""
    tree = _tree(text)
    if tree is None or _DOUBTFUL_ESCAPE.search(text):
        raise InvalidError("not a constant expression", text=text[:200])
    try:
        return _value(tree, text)
    except (ArithmeticError, ValueError, RecursionError, pa.ArrowInvalid) as error:
        raise InvalidError("not a constant expression", text=text[:200], reason=str(error)[:200]) from error


def looks_computed(text: str) -> bool:
    """Whether a text reads as a call of a function or holds a query, rather than as plain text."""
    if "select" not in text.lower() and not _CALL.fullmatch(text):
        return False
    tree = _tree(text)
    return tree is not None and (tree.find(exp.Query) is not None or isinstance(tree, exp.Func))


def _tree(text: str) -> exp.Expression | None:
    """The one expression that the text is; None if it is none."""
    if len(text) > LONGEST or not text.strip():
        return None
    try:
        found = sqlglot.parse(f"SELECT {text}\n", read="spark")
    except (sqlglot_errors.SqlglotError, RecursionError, LookupError, ValueError):  # `map(1)` breaks it
        return None
    select = found[0] if len(found) == 1 else None
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        return None
    more = [key for key, value in select.args.items() if value and key != "expressions"]
    return None if more else select.expressions[0]


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
}
_OF_DECIMALS = {"Add": _EXACT.add, "Sub": _EXACT.subtract, "Mul": _EXACT.multiply}  # operators keep 28 digits


def _value(node: exp.Expression, text: str) -> Any:
    if isinstance(node, exp.Paren):
        return _value(node.this, text)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return node.this if node.is_string else _number(node.this)
    if isinstance(node, exp.HexString):
        return bytes.fromhex(node.this)
    if isinstance(node, exp.Neg):
        return _negated(node.this, text)
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return _cast(_value(node.this, text), node.to)
    if isinstance(node, exp.Concat):
        return _adjacent(node, text)
    if isinstance(node, (exp.Array, exp.VarMap, exp.Struct)):
        return _nested(node, text)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "named_struct":  # as older parsers have it
        return _named_struct(node, text)
    if isinstance(node, exp.Binary):
        return _binary(node, _value(node.this, text), _value(node.expression, text))
    raise InvalidError("only constants can be defaults", expression=node.sql(dialect="spark")[:200])


def _number(text: str) -> Any:
    if "e" in text.lower():
        return float(text)
    return int(text) if text.isdigit() else Decimal(text)


def _negated(node: exp.Expression, text: str) -> Any:
    """A sign is part of a literal with a suffix, which is read as a cast: 128Y is none, -128Y is one."""
    inner = node.this if isinstance(node, exp.TryCast) else None
    if isinstance(inner, exp.Literal) and re.search(rf"-\s*{re.escape(inner.name)}[YSL]\b", text, re.IGNORECASE):
        return _cast(_negative(_number(inner.name)), node.to)
    return _negative(_value(node, text))


def _negative(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise InvalidError("only numbers have a sign", value=repr(value)[:80])
    return value.copy_negate() if isinstance(value, Decimal) else -value  # its sign keeps 28 digits


def _binary(node: exp.Binary, left: Any, right: Any) -> Any:
    if isinstance(node, exp.DPipe) and isinstance(left, str) and isinstance(right, str):
        return left + right
    if not all(isinstance(side, (int, float, Decimal)) and not isinstance(side, bool) for side in (left, right)):
        raise InvalidError("arithmetic is for numbers", expression=node.sql(dialect="spark")[:200])
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    whole = isinstance(left, int) and isinstance(right, int)
    name = type(node).__name__
    operation = _OPERATIONS.get(name)
    if operation is not None and whole:
        return _in_range(operation(left, right), left, right)
    if operation is not None:
        return operation(left, right) if isinstance(left, float) else _of_decimals(name, Decimal(left), Decimal(right))
    if type(node) is exp.Div and (whole or isinstance(left, float)):
        return left / right
    if type(node) in (exp.IntDiv, exp.Mod) and whole and left >= 0 and right > 0:
        return left // right if isinstance(node, exp.IntDiv) else left % right
    raise InvalidError("only constants can be defaults", expression=node.sql(dialect="spark")[:200])


def _in_range(value: int, *sides: int) -> int:
    """Spark's INT and BIGINT do not grow: what does not fit the operands' type is its error."""
    bits = 31 if all(-(1 << 31) <= side < 1 << 31 for side in sides) else 63
    if not -(1 << bits) <= value < 1 << bits:
        raise InvalidError("integer overflow", value=value)
    return value


def _of_decimals(name: str, left: Decimal, right: Decimal) -> Decimal:
    """Of so many digits that Spark's type for the result has them all: it rounds others."""
    (whole, scale), (whole_right, scale_right) = _sizes(left), _sizes(right)
    times = name == "Mul"
    after = scale + scale_right if times else max(scale, scale_right)
    before = whole + whole_right if times else max(whole, whole_right)
    if before + after + 1 > _DIGITS:
        raise InvalidError("arithmetic of so long decimals", digits=before + after + 1, remedy="write the result")
    return _OF_DECIMALS[name](left, right)


def _sizes(value: Decimal) -> tuple[int, int]:
    """Digits before and after the point."""
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    return max(len(digits) + int(exponent), 0), scale


def _adjacent(node: exp.Concat, text: str) -> str:
    """Strings one after another: `'it''s'` is one with a quote in it, `'a' 'b'` and `'a'"b"` are two."""
    tokens = spark_dialect.Spark().tokenize(text)
    literal = all(token.token_type == sqlglot_tokens.TokenType.STRING for token in tokens)
    if not literal or len(tokens) != len(node.expressions):
        raise InvalidError("strings beside others", text=text[:200], remedy="join them by ||")
    quotes = [text[token.start] for token in tokens]
    found: str = node.expressions[0].this
    for number, (before, after) in enumerate(pairwise(tokens), 1):
        doubled = before.end + 1 == after.start and quotes[number - 1] == quotes[number]
        found += (quotes[number] if doubled else "") + node.expressions[number].this
    return found


def _named_struct(node: exp.Anonymous, text: str) -> Struct:
    names, values = node.expressions[::2], node.expressions[1::2]
    if len(names) != len(values) or not all(isinstance(one, exp.Literal) and one.is_string for one in names):
        raise InvalidError("a row's members are constants", text=text[:200])
    return _struct([(name.this, _value(item, text)) for name, item in zip(names, values, strict=True)])


def _struct(members: list[tuple[str, Any]]) -> Struct:
    given = [name for name, _ in members] != [f"col{place}" for place in range(1, len(members) + 1)]
    return Struct(tuple(members), given)


def _nested(node: exp.Expression, text: str) -> Any:
    if isinstance(node, exp.Array):
        return [_value(item, text) for item in node.expressions]
    if isinstance(node, exp.VarMap):
        keys, values = (node.args[side] for side in ("keys", "values"))
        if not (isinstance(keys, exp.Array) and isinstance(values, exp.Array)):
            raise InvalidError("only constants can be defaults", expression=text[:200])
        if len(keys.expressions) != len(values.expressions):
            raise InvalidError("a map needs a value for every key", text=text[:200])
        pairs = zip(keys.expressions, values.expressions, strict=True)
        return Pairs(tuple((_value(key, text), _value(item, text)) for key, item in pairs))
    members = []
    for item in node.expressions:
        if not isinstance(item, exp.PropertyEQ) or not isinstance(item.this, exp.Identifier):
            raise InvalidError("a row's members are constants", text=text[:200])
        members.append((item.this.name, _value(item.expression, text)))
    return _struct(members)


_KINDS: dict[str, Root] = {
    "TINYINT": Root.TINYINT,
    "SMALLINT": Root.SMALLINT,
    "INT": Root.INT,
    "BIGINT": Root.BIGINT,
    "FLOAT": Root.FLOAT,
    "DOUBLE": Root.DOUBLE,
    "BOOLEAN": Root.BOOLEAN,
    "DATE": Root.DATE,
}
_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_STAMPS = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ")


def _cast(value: Any, to: exp.DataType) -> Any:
    """The value as one of the type, nothing lost: what a cast would round or cut is refused."""
    name = to.this.name if isinstance(to.this, exp.DataType.Type) else ""
    root = _KINDS.get(name)
    if value is None:
        return None
    if to.this in (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR) and isinstance(value, (str, int, Decimal)):
        if not to.expressions and not isinstance(value, bool):
            return format(value, "f") if isinstance(value, Decimal) else str(value)
    elif name in _STAMPS and isinstance(value, str) and _STAMP.fullmatch(value.strip()):
        return dt.datetime.fromisoformat(value.strip())
    elif to.this is exp.DataType.Type.DECIMAL:
        return _decimal(value, to)
    elif root is not None and isinstance(value, str):
        return value_of(value, DataType(root)).as_py()
    elif root in (Root.FLOAT, Root.DOUBLE) and isinstance(value, (int, float, Decimal)):
        return float(value)
    elif root in _BITS and isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        most, whole = 1 << (_BITS[root] - 1), int(value)
        if value == whole and -most <= whole < most:
            return whole
    raise InvalidError("not a cast of a constant that keeps its value", value=repr(value)[:80], to=to.sql("spark"))


def _decimal(value: Any, to: exp.DataType) -> Decimal:
    sizes = [int(part.name) for part in to.expressions] or [10]
    precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
    if isinstance(value, (bool, float)) or not isinstance(value, (int, str, Decimal)):
        raise InvalidError("not a cast of a constant that keeps its value", value=repr(value)[:80])
    number = _EXACT.create_decimal(value.strip() if isinstance(value, str) else value)
    exact = _EXACT.quantize(number, Decimal(1).scaleb(-scale))
    if exact.copy_abs() >= 10 ** (precision - scale):
        raise InvalidError("not a cast of a constant that keeps its value", value=str(value)[:80])
    return exact
