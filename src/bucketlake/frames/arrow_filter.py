"""What a pyarrow expression says of a table's rows: DuckDB, Acero and others hand their filters to a dataset so.

    expression_columns(expression)       the columns that it names; None: not known
    of_arrow(expression, fields)         a predicate that is true wherever the expression is; None: nothing is known

pyarrow shows no tree of an expression, but pickles it as an Arrow IPC file: its calls, columns and literals are
key-value pairs of the schema, in order, and the literals' values its columns. What is read here only leaves out files
and rows early; the expression itself filters what is left.

    expression := "literal" n | "field_ref" name | "nested_field_ref" n ("field_ref" name)*
                | "call" function expression* ["options" n] "end" function

Spec: docs/spec/pushdown.md#libraries
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from bucketlake.frames.literals import Fields, among, compared, is_float
from bucketlake.predicate.tree import (
    Constant,
    IsNotNull,
    IsNull,
    Operator,
    Or,
    Predicate,
    conjunction,
    negate,
)
from bucketlake.values import dataclass

_COMPARED: dict[str, Operator] = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MIRRORED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ODD = (struct.error, ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError, pa.ArrowException)


@dataclass(frozen=True)
class Call:
    """A function of an expression with its arguments; `options`: as pyarrow serialized them."""

    name: str
    arguments: tuple[Any, ...]
    options: pa.Scalar | None = None


@dataclass(frozen=True)
class Column:
    """A column of the table by its name."""

    name: str


def expression_columns(expression: Any) -> list[str] | None:
    """The columns that a pyarrow expression names, of nested ones the outermost; None where that cannot be told."""
    tree = _tree(expression)
    return None if tree is None else list(dict.fromkeys(_names(tree)))


def of_arrow(expression: Any, fields: Fields) -> Predicate | None:
    """A predicate that is true of all rows that a pyarrow expression is true of; None: any row may be."""
    tree = _tree(expression)
    try:
        return None if tree is None else conjunction(_implied(tree, fields))
    except _ODD:
        return None


def _implied(tree: Any, fields: Fields) -> Iterator[Predicate]:
    """What is understood of the parts that all must be true."""
    if isinstance(tree, Call) and tree.name in ("and_kleene", "and"):
        for part in tree.arguments:
            yield from _implied(part, fields)
        return
    found = _exact(tree, fields)
    if found is not None:
        yield found


def _exact(tree: Any, fields: Fields, negated: bool = False) -> Predicate | None:
    """The same as the expression; None where that is not certain. `negated`: it stands under a NOT, where a comparison
    of floats must not be true of more rows than Arrow's, to which NaN is greater than nothing."""
    if isinstance(tree, pa.Scalar):
        return Constant(tree.as_py()) if pa.types.is_boolean(tree.type) else None
    if not isinstance(tree, Call):
        return None
    if tree.name in ("and_kleene", "or_kleene"):
        parts = [_exact(part, fields, negated) for part in tree.arguments]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return conjunction(known) if tree.name == "and_kleene" else Or(tuple(known))
    if tree.name == "invert":
        inner = _exact(tree.arguments[0], fields, True)
        return None if inner is None else negate(inner)
    if tree.name in _COMPARED:
        return _comparison(tree, fields, negated)
    return _membership(tree, fields)


def _comparison(tree: Call, fields: Fields, negated: bool) -> Predicate | None:
    left, right = tree.arguments
    op = _COMPARED[tree.name]
    if isinstance(left, pa.Scalar):
        left, right, op = right, left, _MIRRORED[op]
    if not isinstance(left, Column) or not isinstance(right, pa.Scalar) or (negated and is_float(fields, left.name)):
        return None
    return compared(fields, left.name, op, right)


def _membership(tree: Call, fields: Fields) -> Predicate | None:
    first = tree.arguments[0]
    if tree.name == "if_else":  # DuckDB's IN: if_else(is_valid(x), is_in(x, …), null)
        tested, inner, other = tree.arguments
        nothing = isinstance(other, pa.Scalar) and not other.is_valid
        same = isinstance(tested, Call) and isinstance(inner, Call) and tested.arguments == inner.arguments
        if not (nothing and same and tested.name == "is_valid" and inner.name == "is_in"):
            return None
        return _membership(inner, fields)
    if not isinstance(first, Column) or first.name not in fields:
        return None
    if tree.name == "is_valid":
        return IsNotNull(first.name)
    options = {} if tree.options is None else dict(tree.options.items())
    if tree.name == "is_null" and options and not options["nan_is_null"].as_py():
        return IsNull(first.name)
    if tree.name == "is_in":
        return among(fields, first.name, options["value_set"].values)
    return None


def _names(tree: Any) -> Iterator[str]:
    if isinstance(tree, Column):
        yield tree.name
    elif isinstance(tree, Call):
        for part in tree.arguments:
            yield from _names(part)
    elif isinstance(tree, tuple):  # a part of a nested column
        yield tree[0].name


# ---------------------------------------------------------------------------------------------- the pickled form


def _tree(expression: Any) -> Any:
    try:
        _, (buffer, *rest) = expression.__reduce__()
        if rest:
            return None
        values = pa.ipc.open_file(buffer).read_all()
        pairs = _pairs(memoryview(pa.ipc.read_message(buffer.slice(8)).metadata))
        tree, end = _parsed(pairs, 0, values)
        return tree if end == len(pairs) else None
    except _ODD:
        return None


def _parsed(pairs: Sequence[tuple[str, str]], at: int, values: pa.Table) -> tuple[Any, int]:
    word, value = pairs[at]
    at += 1
    if word == "literal":
        return values.column(int(value))[0], at
    if word == "field_ref":
        return Column(value), at
    if word == "nested_field_ref":
        end = at + int(value)
        return tuple(Column(name) for key, name in pairs[at:end] if key == "field_ref"), end
    if word != "call":
        raise ValueError(word)
    arguments: list[Any] = []
    options = None
    while pairs[at][0] not in ("end", "options"):
        part, at = _parsed(pairs, at, values)
        arguments.append(part)
    if pairs[at][0] == "options":
        options = values.column(int(pairs[at][1]))[0]
        at += 1
    if pairs[at] != ("end", value):
        raise ValueError(value)
    return Call(value, tuple(arguments), options), at + 1


def _pairs(message: memoryview) -> list[tuple[str, str]]:
    """The key-value pairs of the schema that an IPC message holds, in order, repeated ones included, which pyarrow's
    `metadata` leaves out. Flatbuffers: Message.header (field 2) is a Schema, its field 2 a vector of KeyValue."""
    schema = _field(message, _at(message, 0), 2)
    vector = _field(message, schema, 2)
    (count,) = struct.unpack_from("<I", message, vector)
    tables = [_at(message, vector + 4 + 4 * place) for place in range(count)]
    return [(_text(message, _field(message, table, 0)), _text(message, _field(message, table, 1))) for table in tables]


def _at(message: memoryview, place: int) -> int:
    """Where an offset leads."""
    (offset,) = struct.unpack_from("<I", message, place)
    return place + int(offset)


def _field(message: memoryview, table: int, number: int) -> int:
    """Where the value of a table's field lies, which is an offset in the table; ValueError where it is absent."""
    (back,) = struct.unpack_from("<i", message, table)
    size, _ = struct.unpack_from("<HH", message, table - back)
    (offset,) = struct.unpack_from("<H", message, table - back + 4 + 2 * number) if 4 + 2 * number < size else (0,)
    if not offset:
        raise ValueError("no such field")
    return _at(message, table + offset)


def _text(message: memoryview, place: int) -> str:
    (length,) = struct.unpack_from("<I", message, place)
    return bytes(message[place + 4 : place + 4 + length]).decode()
