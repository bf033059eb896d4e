"""A Column as SQL text, where that is certain: a text can be looked at before Spark evaluates it, and prunes.

    column_text(F.col("id") == 1)              "(`id` = 1)"
    column_text(frame["id"] == 1, frame, "s")  "(`s`.`id` = 1)"

A Column is a tree that Spark has not looked at yet: names, literals, calls. What is known to mean the same in a
statement becomes text; one part that is not known (a Python function, a window, a subquery), and there is no text.

Source: `org.apache.spark.sql.internal.ColumnNode`, `pyspark.sql.connect.expressions`
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.predicate.parse import check_condition
from bucketlake.predicate.tree import Predicate, literal_sql
from bucketlake.spark.types import quoted
from bucketlake.values import dataclass

_BETWEEN = {name: name for name in ("=", "<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%")}
_BETWEEN |= {"==": "=", "and": "AND", "or": "OR", "like": "LIKE"}
_BEFORE = {"!": "NOT", "not": "NOT", "negative": "-"}
_BEHIND = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_FUNCTION = re.compile(r"[a-z][a-z0-9_]*")
_WHOLE_NUMBER = re.compile(r"-?[0-9]+[LSY]?")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\([0-9, ]+\))?")
_PLAIN = re.compile(r"[^'\"`();/{}\[\]\\?:-]+")  # SQL text that has one meaning wherever it stands
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_REBASED = -2_208_988_800_000_000  # before 1900 Spark reads the days of Java's instants by another calendar
_BEYOND_DECIMALS = 10**38
_WIDTH = {"ByteType": "Y", "ShortType": "S", "IntegerType": "", "LongType": "L"}


class _UnknownError(Exception):
    """Something that has no certain text."""


def column_text(column: Column, frame: DataFrame | None = None, name: str = "") -> str | None:
    """The Column as Spark's SQL, None where it is not certain that it means the same.

    `frame`, `name`: whose own columns (`frame["a"]`) may occur, and what it is called in the statement.
    """
    try:
        if _is_remote(column):
            return _Remote(frame, name).text(column._expr, whole=True)
        return _Classic(frame, name).text(column._jc.node(), whole=True)
    except Exception:  # what is not known, and what another PySpark names otherwise: the trees are its own affair
        return None


def condition_text(where: str | Predicate | Column | None) -> str | Predicate | None:
    """A condition that may be a Column, as text. InvalidError for what is none, UnsupportedError for a Column that has
    no certain text."""
    if where is None:
        return None
    if not isinstance(where, Column):
        check_condition(where)
        return where
    text = column_text(where)
    if text is None:
        raise UnsupportedError("a condition by this Column", column=str(where), remedy="give it as SQL text")
    return text


def expression_given(given: Any) -> str | Column:
    """What a caller gives as a condition; InvalidError for values of Python's."""
    if not isinstance(given, (str, Column)):
        remedy = 'give SQL text ("t.id = source.id"), or a Column'
        raise InvalidError("neither SQL text nor a Column", given=type(given).__name__, remedy=remedy)
    return given


def value_given(given: Any, **where: Any) -> str | Column:
    """What a caller sets a column to: SQL text, a Column, or a constant of Python's that is no text, as SQL text.
    Moments without a zone are TIMESTAMP_NTZ, as in rows of this process. InvalidError for anything else."""
    if isinstance(given, (str, Column)):
        return given
    try:
        text = _constant(given)
    except (OverflowError, ValueError):  # a moment that is out of Python's range in UTC
        text = None
    if text is None:
        remedy = 'give SQL text ("price * 2", "\'Oslo\'"), a number, date, moment, bytes or None, or a Column'
        raise InvalidError("no value for a column", given=type(given).__name__, **where, remedy=remedy)
    return text


def _constant(value: Any) -> str | None:
    """A value of Python's or a number of numpy's as SQL text; None for what has no certain text."""
    if getattr(getattr(value, "dtype", None), "kind", "") in tuple("biuf") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if type(value) is int:
        return None if abs(value) >= _BEYOND_DECIMALS else _negative(str(value))
    if type(value) is dt.datetime and value.tzinfo is not None:
        value = value.astimezone(dt.timezone.utc)
    known = value is None or type(value) in (bool, float, Decimal, bytes, dt.date, dt.datetime)
    return _value(value) if known and not (type(value) is Decimal and not value.is_finite()) else None


def expression_of(text: str, name: str | None = None) -> Column:
    """A text as the one expression that it is. Without brackets Spark takes a word behind it for the column's name;
    here that is an error of its parser's. `name`: what the column is called, a plain word."""
    behind = "" if name is None else f" AS {name}"
    # Places in the text stay; it may end in a comment.
    return F.expr(f"({text[1:] if text[:1].isspace() else text}\n){behind}")


def alias_of(frame: DataFrame) -> str | None:
    """The name that all columns of a frame go by, as `DataFrame.alias` gives one; None where there is none."""
    try:
        if _is_remote(frame):
            plan: Any = frame._plan
            return str(plan._alias) if type(plan).__name__ == "SubqueryAlias" else None
        names = {tuple(_items(_attribute(frame, name).qualifier()))[-1:] for name in frame.columns}
    except Exception:  # as above
        return None
    return names.pop()[0] if len(names) == 1 and () not in names else None


@dataclass(frozen=True, slots=True)
class _Classic:
    """Trees of classic sessions, in the JVM."""

    frame: DataFrame | None
    name: str

    def text(self, node: Any, whole: bool = False) -> str:
        """A tree's text, in brackets where it has parts. `whole`: it stands alone."""
        kind = node.getClass().getSimpleName()
        if kind == "UnresolvedAttribute":
            if node.planId().isDefined() or node.isMetadataColumn():
                raise _UnknownError
            return ".".join(map(quoted, _items(node.nameParts())))
        if kind == "ExpressionColumnNode":
            return self._own(node.expression())
        if kind == "Literal":
            return self._literal(node)
        if kind == "UnresolvedFunction":
            if node.isDistinct() or node.isUserDefinedFunction() or node.isInternal():
                raise _UnknownError
            return _call(node.functionName(), list(map(self.text, _items(node.arguments()))))
        if kind == "Cast":
            mode = node.evalMode().get().getClass().getSimpleName() if node.evalMode().isDefined() else ""
            return _cast(self.text(node.child()), node.dataType().sql(), mode)
        if kind == "UnresolvedExtractValue":
            return f"{self.text(node.child())}[{self.text(node.extraction())}]"
        if kind == "CaseWhenOtherwise":
            branches = [(self.text(item._1()), self.text(item._2())) for item in _items(node.branches())]
            rest = self.text(node.otherwise().get()) if node.otherwise().isDefined() else None
            return _case(branches, rest)
        if kind == "SqlExpression":
            return _said(node.expression(), whole)
        raise _UnknownError

    def _own(self, expression: Any) -> str:
        """A column that a frame gave: of `frame` itself."""
        if self.frame is None or self.frame.columns.count(expression.name()) != 1:
            raise _UnknownError
        if _attribute(self.frame, expression.name()).exprId().id() != expression.exprId().id():
            raise _UnknownError
        return f"{quoted(self.name)}.{quoted(expression.name())}"

    def _literal(self, node: Any) -> str:
        value, typed = node.value(), node.dataType().isDefined()
        if value is None:
            return f"CAST(NULL AS {_type(node.dataType().get().sql())})" if typed else "NULL"
        if typed:
            raise _UnknownError
        if isinstance(value, int) and not isinstance(value, bool):
            if not _WHOLE_NUMBER.fullmatch(node.sql()):
                raise _UnknownError
            return _negative(node.sql())
        if isinstance(value, (bool, str, float, Decimal)):
            return _value(value)
        kind = value.getClass().getName() if hasattr(value, "getClass") else ""
        if kind in ("java.sql.Date", "java.time.LocalDate"):
            return _value(_date(value.toString()))
        if kind == "java.sql.Timestamp":
            micros = value.getTime() // 1000 * 1_000_000 + value.getNanos() // 1000
            if micros < _REBASED:
                raise _UnknownError
            return _value(_instant(micros))
        raise _UnknownError


@dataclass(frozen=True, slots=True)
class _Remote:
    """Trees of Spark Connect, in Python."""

    frame: DataFrame | None
    name: str

    def text(self, node: Any, whole: bool = False) -> str:
        """A tree's text, in brackets where it has parts. `whole`: it stands alone."""
        kind = type(node).__name__
        if kind == "ColumnReference":
            return self._reference(node)
        if kind == "LiteralExpression":
            return _remote_literal(node._value, node._dataType)
        if kind == "UnresolvedFunction":
            if node._is_distinct:
                raise _UnknownError
            return _call(node._name, list(map(self.text, node._args)))
        if kind == "CastExpression":
            if isinstance(node._data_type, str) and node._data_type.lower() == "timestamp":
                raise _UnknownError  # the session says which
            named = node._data_type if isinstance(node._data_type, str) else node._data_type.simpleString()
            return _cast(self.text(node._expr), named, "" if node._eval_mode is None else str(node._eval_mode))
        if kind == "UnresolvedExtractValue":
            return f"{self.text(node._child)}[{self.text(node._extraction)}]"
        if kind == "CaseWhen":
            branches = [(self.text(when), self.text(then)) for when, then in node._branches]
            return _case(branches, None if node._else_value is None else self.text(node._else_value))
        if kind == "SQLExpression":
            return _said(node._expr, whole)
        raise _UnknownError

    def _reference(self, node: Any) -> str:
        parts = _parts(node._unparsed_identifier)
        if node._is_metadata_column:
            raise _UnknownError
        if node._plan_id is None:
            return ".".join(map(quoted, parts))
        if self.frame is None or len(parts) != 1 or self.frame.columns.count(parts[0]) != 1:
            raise _UnknownError
        known: Any = self.frame[quoted(parts[0])]
        if known._expr._plan_id != node._plan_id:
            raise _UnknownError
        return f"{quoted(self.name)}.{quoted(parts[0])}"


def _is_remote(item: Column | DataFrame) -> bool:
    """Whether it is Spark Connect's. Any attribute of a classic one is there: it is a column's member."""
    return type(item).__module__.startswith("pyspark.sql.connect.")


def _attribute(frame: DataFrame, name: str) -> Any:
    """A column of a classic frame, as the JVM has it."""
    column: Any = frame[quoted(name)]
    return column._jc.node().expression()


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _call(function: str, parts: Sequence[str]) -> str:
    """A call of an operator or a function."""
    name = function.lower()
    if name in _BETWEEN and len(parts) == 2:
        return f"({parts[0]} {_BETWEEN[name]} {parts[1]})"
    if name in _BEFORE and len(parts) == 1:
        return f"({_BEFORE[name]} {parts[0]})"
    if name in _BEHIND and len(parts) == 1:
        return f"({parts[0]} {_BEHIND[name]})"
    if name == "in" and len(parts) > 1:
        return f"({parts[0]} IN ({', '.join(parts[1:])}))"
    if not _FUNCTION.fullmatch(name) or name in ("in", "like", "and", "or", "not"):
        raise _UnknownError
    return f"{name}({', '.join(parts)})"


def _parts(identifier: str) -> list[str]:
    """The parts of a name as `functions.col` takes it."""
    parts, at = [], 0
    while True:
        found = _PART.match(identifier, at)
        if found is None or found.group() == "*":
            raise _UnknownError
        parts.append(found.group(2) or found.group(1).replace("``", "`"))
        at = found.end()
        if at == len(identifier):
            return parts
        if identifier[at] != ".":
            raise _UnknownError
        at += 1


def _said(text: str, whole: bool) -> str:
    """What the user said as SQL; as a part of more only where brackets around it are sure to hold it together."""
    if whole:
        return text
    if not _PLAIN.fullmatch(text):
        raise _UnknownError
    return f"({text})"


def _case(branches: Sequence[tuple[str, str]], rest: str | None) -> str:
    whens = " ".join(f"WHEN {when} THEN {then}" for when, then in branches)
    return f"CASE {whens}{'' if rest is None else f' ELSE {rest}'} END"


def _cast(child: str, kind: str, mode: str) -> str:
    if mode.lower().removesuffix("$") not in ("", "try"):
        raise _UnknownError
    return f"{'TRY_CAST' if mode else 'CAST'}({child} AS {_type(kind)})"


def _type(kind: str) -> str:
    """A type by its name, which does not depend on the session as TIMESTAMP does."""
    if not _TYPE.fullmatch(kind):
        raise _UnknownError
    return "TIMESTAMP_LTZ" if kind.upper() == "TIMESTAMP" else kind


def _negative(number: str) -> str:
    return f"({number})" if number.startswith("-") else number


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"double('{value}')" if not math.isfinite(value) else _negative(f"{value!r}D")
    return _negative(literal_sql(value)) if isinstance(value, Decimal) else literal_sql(value)


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise _UnknownError from None


def _instant(micros: int) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        raise _UnknownError from None


def _remote_literal(value: Any, kind: T.DataType) -> str:
    name = type(kind).__name__
    if value is None:
        return "NULL" if name == "NullType" else f"CAST(NULL AS {_type(kind.simpleString())})"
    if name in _WIDTH and isinstance(value, int):
        return _negative(f"{value}{_WIDTH[name]}")
    if isinstance(value, int) and name in ("DateType", "TimestampType", "TimestampNTZType"):
        if name == "DateType":
            return _value(_instant(value * 86_400_000_000).date())
        return _value(_instant(value) if name == "TimestampType" else _instant(value).replace(tzinfo=None))
    if isinstance(value, Decimal) and kind == T.DecimalType():  # the type that is said without looking at the value
        return _value(value)
    plain = name == "BooleanType" or name == "DoubleType" or (name == "StringType" and kind == T.StringType())
    if plain and isinstance(value, (bool, float, str)):
        return _value(value)
    raise _UnknownError
