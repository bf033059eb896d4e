"""Predicates as trees of plain values.

Literals are typed by their column: int, float, Decimal, str, bytes, bool, date, time, naive datetime for TIMESTAMP,
aware datetime (UTC) for the local-zoned one. NOT is pushed down to the leaves.

Spec: docs/spec/types.md#predicates
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Any, Literal

from bucketlake.types.model import quote_identifier, quote_text
from bucketlake.values import dataclass

_MOST_FORMS = 1000  # of CHAR values, with more and fewer blanks
Operator = Literal["=", "<>", "<", "<=", ">", ">=", "<=>"]


class Predicate:
    """Base of all nodes; each is frozen, hashable and picklable."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """`column op literal`; the literal is never None."""

    column: str
    op: Operator
    literal: Any


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """`column IN (…)`; None among the values makes a miss NULL instead of false; no values: false, or NULL for NULL."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """`column IS NULL`."""

    column: str


@dataclass(frozen=True, slots=True)
class IsNotNull(Predicate):
    """`column IS NOT NULL`."""

    column: str


@dataclass(frozen=True, slots=True)
class StartsWith(Predicate):
    """The text of the column begins with `text`."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class EndsWith(Predicate):
    """The text of the column ends with `text`."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class Contains(Predicate):
    """The text of the column contains `text`."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class Like(Predicate):
    """`column LIKE pattern`, backslash escapes."""

    column: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The negation of a leaf that has no opposite of its own (In, StartsWith, EndsWith, Contains, Like, `<=>`)."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """All children hold."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """Some child holds."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Constant(Predicate):
    """TRUE, FALSE or (None) NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Opaque(Predicate):
    """SQL that only Spark evaluates: `sql` as the user wrote it, `columns` as far as they are known, `why`: what is
    wrong with it, where that is certain. Prunes nothing."""

    sql: str
    columns: tuple[str, ...] = ()
    why: str = field(default="", compare=False)


def conjunction(predicates: Iterable[Predicate | None]) -> Predicate | None:
    """All of them, flattened; None leaves nothing out, and is the answer if nothing is left."""
    parts: list[Predicate] = []
    for item in predicates:
        if isinstance(item, And):
            parts.extend(item.children)
        elif item is not None:
            parts.append(item)
    return parts[0] if len(parts) == 1 else And(tuple(parts)) if parts else None


def joined(kind: type[And] | type[Or], predicates: Iterable[Predicate]) -> Predicate:
    """All of them under one And, or Or; those of the same kind are taken apart."""
    parts: list[Predicate] = []
    for item in predicates:
        parts.extend(item.children if isinstance(item, kind) else (item,))
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


_OPPOSITE: dict[str, Operator] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def negate(predicate: Predicate) -> Predicate:
    """NOT, pushed down to the leaves under three-valued logic."""
    if isinstance(predicate, And):
        return Or(tuple(negate(child) for child in predicate.children))
    if isinstance(predicate, Or):
        return And(tuple(negate(child) for child in predicate.children))
    if isinstance(predicate, Not):
        return predicate.child
    if isinstance(predicate, IsNull):
        return IsNotNull(predicate.column)
    if isinstance(predicate, IsNotNull):
        return IsNull(predicate.column)
    if isinstance(predicate, Constant):
        return Constant(None if predicate.value is None else not predicate.value)
    if isinstance(predicate, Opaque):
        return Opaque(f"NOT ({predicate.sql})", predicate.columns, predicate.why)
    if isinstance(predicate, Compare) and predicate.op in _OPPOSITE:
        return Compare(predicate.column, _OPPOSITE[predicate.op], predicate.literal)
    return Not(predicate)


def columns_of(predicate: Predicate) -> frozenset[str]:
    """The columns that a predicate names."""
    if isinstance(predicate, (And, Or)):
        return frozenset[str]().union(*(columns_of(child) for child in predicate.children))
    if isinstance(predicate, Not):
        return columns_of(predicate.child)
    if isinstance(predicate, Opaque):
        return frozenset(predicate.columns)
    column = getattr(predicate, "column", None)
    return frozenset() if column is None else frozenset((column,))


def longest_list(predicate: Predicate) -> int:
    """The most values of one IN in a predicate, 0 without any."""
    if isinstance(predicate, (And, Or)):
        return max(map(longest_list, predicate.children), default=0)
    if isinstance(predicate, Not):
        return longest_list(predicate.child)
    return len(predicate.values) if isinstance(predicate, In) else 0


def is_exact(predicate: Predicate) -> bool:
    """Whether `mask` can evaluate it: no Opaque part."""
    if isinstance(predicate, (And, Or)):
        return all(is_exact(child) for child in predicate.children)
    return not isinstance(predicate.child if isinstance(predicate, Not) else predicate, Opaque)


def restrict(predicate: Predicate, columns: Iterable[str]) -> Predicate | None:
    """The strongest part that follows from the predicate and names only these columns; None if there is none."""
    wanted = frozenset(columns)
    if isinstance(predicate, And):
        return conjunction(restrict(child, wanted) for child in predicate.children)
    if isinstance(predicate, Or):
        parts = [restrict(child, wanted) for child in predicate.children]
        kept = tuple(part for part in parts if part is not None)
        return Or(kept) if len(kept) == len(parts) else None
    if isinstance(predicate, Opaque) or not columns_of(predicate) <= wanted:
        return None
    return predicate


def without(predicate: Predicate, columns: Collection[str]) -> Predicate:
    """The same predicate, comparisons of these columns opaque: only whether they are null is known."""
    if isinstance(predicate, (And, Or)):
        return type(predicate)(tuple(without(child, columns) for child in predicate.children))
    if isinstance(predicate, (Constant, Opaque, IsNull, IsNotNull)) or columns_of(predicate).isdisjoint(columns):
        return predicate
    return Opaque(to_spark_sql(predicate), tuple(columns_of(predicate)))


def padded_forms(text: str, length: int) -> tuple[str, ...]:
    """A text with each number of blanks behind it, up to a length."""
    return tuple(text.ljust(size) for size in range(len(text), max(length, len(text)) + 1))


def of_padded(predicate: Predicate, lengths: Mapping[str, int]) -> Predicate:
    """What holds of CHAR values as they are stored where the predicate does of them without their trailing blanks, or
    as they are. `lengths`: of the CHAR columns; what names more than a thousand forms is opaque."""
    if isinstance(predicate, (And, Or)):
        return type(predicate)(tuple(of_padded(child, lengths) for child in predicate.children))
    if columns_of(predicate).isdisjoint(lengths) or isinstance(predicate, (StartsWith, Contains)):
        return predicate
    if isinstance(predicate, Compare) and predicate.op in (">", ">="):
        return predicate
    if isinstance(predicate, In) or (isinstance(predicate, Compare) and predicate.op == "="):
        values = predicate.values if isinstance(predicate, In) else (predicate.literal,)
        longest = lengths[predicate.column]
        if sum(max(longest - len(value), 0) + 1 for value in values if isinstance(value, str)) <= _MOST_FORMS:
            forms = [padded_forms(value, longest) if isinstance(value, str) else (value,) for value in values]
            return In(predicate.column, tuple(dict.fromkeys(itertools.chain.from_iterable(forms))))
    return without(predicate, lengths)


def rename(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    """The same predicate over other column names; names that the mapping lacks stay."""
    if isinstance(predicate, And):
        return And(tuple(rename(child, names) for child in predicate.children))
    if isinstance(predicate, Or):
        return Or(tuple(rename(child, names) for child in predicate.children))
    if isinstance(predicate, Not):
        return Not(rename(predicate.child, names))
    if isinstance(predicate, Compare):
        return Compare(names.get(predicate.column, predicate.column), predicate.op, predicate.literal)
    if isinstance(predicate, In):
        return In(names.get(predicate.column, predicate.column), predicate.values)
    if isinstance(predicate, (IsNull, IsNotNull)):
        return type(predicate)(names.get(predicate.column, predicate.column))
    if isinstance(predicate, Like):
        return Like(names.get(predicate.column, predicate.column), predicate.pattern)
    if isinstance(predicate, (StartsWith, EndsWith, Contains)):
        return type(predicate)(names.get(predicate.column, predicate.column), predicate.text)
    return predicate


# ---------------------------------------------------------------------------------------------- pinned keys


def key_values(predicate: Predicate, columns: Sequence[str], limit: int = 1000) -> list[tuple[Any, ...]] | None:
    """Values of these columns outside of which no row matches, or None if not every column is pinned by = or IN.

    The answer may hold more than can match (a product of per-column values), never less; above `limit` it is None.
    """
    pins = _pins(predicate)
    if not columns or any(column not in pins for column in columns):
        return None
    if math.prod(len(pins[column]) for column in columns) > limit:
        return None
    return list(itertools.product(*(pins[column] for column in columns)))


def _pins(predicate: Predicate) -> dict[str, list[Any]]:
    """Per pinned column its possible values, in the order written."""
    if isinstance(predicate, Compare) and predicate.op in ("=", "<=>"):
        values = _hashable([predicate.literal])
        return {} if values is None else {predicate.column: values}
    if isinstance(predicate, In):
        values = _hashable([value for value in predicate.values if value is not None])
        return {} if values is None else {predicate.column: values}
    if isinstance(predicate, And):
        merged: dict[str, list[Any]] = {}
        for child in predicate.children:
            for column, values in _pins(child).items():
                known = merged.get(column)
                merged[column] = values if known is None else [value for value in known if value in values]
        return merged
    if isinstance(predicate, Or):
        parts = [_pins(child) for child in predicate.children]
        shared = [column for column in parts[0] if all(column in part for part in parts)] if parts else []
        return {column: list(dict.fromkeys(v for part in parts for v in part[column])) for column in shared}
    return {}


def _hashable(values: list[Any]) -> list[Any] | None:
    """Values with all their bit patterns: SQL's 0.0 is also -0.0; NaN has too many."""
    found: list[Any] = []
    for value in dict.fromkeys(values):
        if isinstance(value, float):
            return None  # equal floats can hash to different buckets
        found.append(value)
    return found


# ---------------------------------------------------------------------------------------------- SQL text


def to_spark_sql(predicate: Predicate) -> str:
    """The predicate as a Spark SQL expression over the table's columns (TIME columns as milliseconds)."""
    if isinstance(predicate, (And, Or)):
        word = " AND " if isinstance(predicate, And) else " OR "
        if not predicate.children:
            return "TRUE" if isinstance(predicate, And) else "FALSE"
        return word.join(f"({to_spark_sql(child)})" for child in predicate.children)
    if isinstance(predicate, Not):
        return f"NOT ({to_spark_sql(predicate.child)})"
    if isinstance(predicate, Opaque):
        return predicate.sql
    if isinstance(predicate, Constant):
        return {True: "TRUE", False: "FALSE", None: "CAST(NULL AS BOOLEAN)"}[predicate.value]
    return _leaf_sql(predicate)


def _leaf_sql(predicate: Predicate) -> str:
    name = quote_identifier(str(getattr(predicate, "column", "")))
    if isinstance(predicate, Compare):
        return f"{name} {predicate.op} {literal_sql(predicate.literal)}"
    if isinstance(predicate, In):
        if not predicate.values:
            return f"{name} IS NULL AND CAST(NULL AS BOOLEAN)"
        return f"{name} IN ({', '.join(literal_sql(value) for value in predicate.values)})"
    if isinstance(predicate, IsNull):
        return f"{name} IS NULL"
    if isinstance(predicate, IsNotNull):
        return f"{name} IS NOT NULL"
    if isinstance(predicate, Like):
        return f"{name} LIKE {literal_sql(predicate.pattern)}"
    if isinstance(predicate, (StartsWith, EndsWith, Contains)):
        return f"{type(predicate).__name__.lower()}({name}, {literal_sql(predicate.text)})"
    raise TypeError(f"not a predicate: {predicate!r}")


def literal_sql(value: Any) -> str:
    """A literal as Spark SQL text."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"{value}L" if -(1 << 63) < value < (1 << 63) else f"{value}BD"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        return f"TIMESTAMP_NTZ '{text}'" if value.tzinfo is None else f"TIMESTAMP_LTZ '{text}+00:00'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, dt.time):
        return str(((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000)
    text = quote_text(str(value))
    # Escapes are letters where a setting of the session's says so.
    return text if text == f"'{value}'" else f"CAST(X'{str(value).encode(errors='replace').hex()}' AS STRING)"
