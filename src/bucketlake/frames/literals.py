"""Leaves of predicates of what another library's filter says, where it is certain that both mean the same.

    typed(field, value)              the literal of a column; None where it is none for sure
    compared(fields, name, op, …)    a comparison; None where it is not understood

Filters that are not understood are left to the library that brought them: a None is always a right answer.

Spec: docs/spec/pushdown.md#libraries
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from bucketlake.errors import BucketlakeError
from bucketlake.predicate.tree import And, Compare, In, IsNotNull, Operator, Predicate
from bucketlake.types.model import DataField, Root, arrow_type

Fields = Mapping[str, DataField]
MOST_VALUES = 10_000  # of a list; longer ones are left to the library
_WHOLE = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_FLOATS = (Root.FLOAT, Root.DOUBLE)
_FAMILIES: tuple[tuple[tuple[Root, ...], tuple[str, ...]], ...] = (
    ((Root.BOOLEAN,), ("is_boolean",)),
    (_WHOLE, ("is_integer",)),
    ((Root.DECIMAL,), ("is_decimal", "is_integer")),
    (_FLOATS, ("is_floating",)),
    ((Root.CHAR, Root.VARCHAR), ("is_string", "is_large_string", "is_string_view")),
    ((Root.BINARY, Root.VARBINARY), ("is_binary", "is_large_binary", "is_binary_view")),
    ((Root.DATE,), ("is_date32",)),
    ((Root.TIME,), ("is_time",)),
    ((Root.TIMESTAMP, Root.TIMESTAMP_LTZ), ("is_timestamp",)),
)


def is_float(fields: Fields, name: str) -> bool:
    """Whether a column holds floating-point numbers, whose NaN libraries order in different ways."""
    return name in fields and fields[name].type.root in _FLOATS


def typed(field: DataField, value: pa.Scalar) -> Any | None:
    """The literal that a predicate over the column has for a value of another library's; None for null, NaN, values of
    other kinds of types, and those that the column cannot hold exactly."""
    roots = next((kinds for roots, kinds in _FAMILIES if field.type.root in roots), ())
    if not value.is_valid or not any(getattr(pa.types, kind)(value.type) for kind in roots):
        return None
    try:
        target = arrow_type(field.type)
        if pa.types.is_timestamp(target) and (target.unit == "ns" or (target.tz is None) != (value.type.tz is None)):
            return None
        held = value.cast(target)
        if not held.cast(value.type).equals(value):
            return None
        literal = held.as_py()
    except (pa.ArrowException, BucketlakeError, ValueError, OverflowError):
        return None
    if isinstance(literal, float) and math.isnan(literal):
        return None
    aware = isinstance(literal, dt.datetime) and literal.tzinfo is not None
    return literal.astimezone(dt.timezone.utc) if aware else literal


def compared(fields: Fields, name: str, op: Operator, value: pa.Scalar) -> Predicate | None:
    """`name op value`; None where it is not understood."""
    literal = typed(fields[name], value) if name in fields else None
    return None if literal is None else Compare(name, op, literal)


def among(fields: Fields, name: str, values: Iterable[pa.Scalar]) -> Predicate | None:
    """Whether the column has one of these values, false for NULL; None where it is not understood."""
    if name not in fields:
        return None
    literals = [typed(fields[name], value) for value in values]
    if any(literal is None for literal in literals) or len(literals) > MOST_VALUES:
        return None
    return And((IsNotNull(name), In(name, tuple(literals))))
