"""What a polars expression says of a table's rows, where it is understood for certain.

    of_polars(expression, fields)     a predicate that is true wherever the expression is; None: nothing is known

polars writes an expression's tree as JSON. Literals are evaluated by polars itself, and what has another shape than
those listed here, in this version of polars or the next, is not understood: polars filters what is left.

Spec: docs/spec/pushdown.md#libraries
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from bucketlake.frames.literals import Fields, among, compared
from bucketlake.lazy import pl
from bucketlake.predicate.tree import (
    Constant,
    IsNotNull,
    IsNull,
    Operator,
    Or,
    Predicate,
    StartsWith,
    conjunction,
    negate,
)
from bucketlake.types.model import Root

_COMPARED: dict[str, Operator] = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED: dict[str, str] = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_EDGES: dict[str, tuple[Operator, Operator]] = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}


def of_polars(expression: Any, fields: Fields) -> Predicate | None:
    """A predicate that is true of all rows that a polars expression is true of; None: any row may be."""
    try:
        return conjunction(_implied(json.loads(expression.meta.serialize(format="json")), fields))
    except Exception:  # of whatever polars raises for a tree that it does not write as JSON
        return None


def _implied(node: Any, fields: Fields) -> Iterator[Predicate]:
    """What is understood of the parts that all must be true."""
    binary = node.get("BinaryExpr") if isinstance(node, dict) else None
    if binary and binary["op"] in ("And", "LogicalAnd"):
        yield from _implied(binary["left"], fields)
        yield from _implied(binary["right"], fields)
        return
    found = _exact(node, fields)
    if found is not None:
        yield found


def _exact(node: Any, fields: Fields, negated: bool = False) -> Predicate | None:
    """The same as the expression; None where that is not certain. `negated`: it stands under a NOT."""
    if not isinstance(node, dict) or len(node) != 1:
        return None
    ((kind, body),) = node.items()
    if kind == "BinaryExpr":
        return _binary(body, fields, negated)
    if kind == "Function":
        return _function(body, fields, negated)
    if kind == "Literal":
        value = _literal(node)
        return Constant(value[0].as_py()) if len(value) == 1 and pa.types.is_boolean(value.type) else None
    return None


def _binary(body: Any, fields: Fields, negated: bool) -> Predicate | None:
    op, left, right = body["op"], body["left"], body["right"]
    if op in ("And", "LogicalAnd", "Or", "LogicalOr"):
        parts = [_exact(left, fields, negated), _exact(right, fields, negated)]
        known = [part for part in parts if part is not None]
        if len(known) < 2:
            return None
        return conjunction(known) if op in ("And", "LogicalAnd") else Or(tuple(known))
    if "Literal" in left:
        left, right, op = right, left, _MIRRORED.get(op, op)
    if op not in _COMPARED or "Column" not in left or "Literal" not in right:
        return None
    value = _literal(right)
    return compared(fields, left["Column"], _COMPARED[op], value[0]) if len(value) == 1 else None


def _function(body: Any, fields: Fields, negated: bool) -> Predicate | None:
    function, (first, *rest) = body["function"], body["input"]
    boolean = function.get("Boolean") if isinstance(function, dict) else None
    if boolean == "Not":
        inner = _exact(first, fields, True)
        return None if inner is None else negate(inner)
    name = first.get("Column") if isinstance(first, dict) else None
    if not isinstance(name, str) or name not in fields:
        return None
    if boolean == "IsNull":
        return IsNull(name)
    if boolean == "IsNotNull":
        return IsNotNull(name)
    if isinstance(boolean, dict) and "IsBetween" in boolean:
        values = [_literal(edge)[0] for edge in rest]
        edges = _EDGES[boolean["IsBetween"]["closed"]]
        parts = [compared(fields, name, op, value) for op, value in zip(edges, values, strict=True)]
        return None if None in parts else conjunction(parts)
    if isinstance(boolean, dict) and "IsIn" in boolean and not negated:  # versions differ about NULL under a NOT
        return None if boolean["IsIn"].get("nulls_equal") else among(fields, name, _listed(rest[0]))
    if function == {"StringExpr": "StartsWith"} and fields[name].type.root in (Root.CHAR, Root.VARCHAR):
        text = _literal(rest[0])[0].as_py()
        return StartsWith(name, text) if isinstance(text, str) else None
    return None


def _listed(node: Any) -> Any:
    """The values of a list: the one value of a literal, or those of a series."""
    while "Alias" in node:
        node = node["Alias"][0]
    value = _literal(node)
    kind = value.type
    nested = hasattr(kind, "value_field")
    return value[0].values if nested and len(value) == 1 else value if not nested else [pa.scalar(None)]


def _literal(node: Any) -> pa.Array:
    """The values of a literal, evaluated by polars."""
    if set(node) != {"Literal"}:
        raise ValueError("not a literal")
    text = io.BytesIO(json.dumps(node).encode())
    found = pl.select(pl.Expr.deserialize(text, format="json")).to_series().to_arrow()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
