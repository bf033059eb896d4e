"""Columns of type VECTOR: what makes an ARRAY column one, and what a table with them must be.

    declared(item, options)         a column of a new table as the options declare it
    directed(item, comment)         a column that its comment declares: `__VECTOR_FIELD;128; comment`
    check_vector_columns(schema)    what the options must say of such columns

Spec: docs/spec/types.md#vectors
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from bucketlake.errors import InvalidError
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField, DataType, Root, checked, type_text

FIELD = "vector-field"
DIRECTIVE = "__VECTOR_FIELD"


def dimension_key(column: str) -> str:
    """The option that says how many elements the vectors of a column have."""
    return f"field.{column}.vector-dim"


def declared(item: DataField, options: Mapping[str, str]) -> DataField:
    """A column of a new table that 'vector-field' names, as a VECTOR. InvalidError, in Paimon's words."""
    if item.type.root is Root.VECTOR:
        return item
    key = dimension_key(item.name)
    if not (options.get(key) or "").strip():
        raise InvalidError(
            f"When setting '{FIELD}', you must also set 'field.%s.vector-dim', where %s is the name of the vector "
            "field.",
            column=item.name,
            remedy=f"set '{key}'",
        )
    what = f"'{key}'"
    return replace(item, type=_vector(item, _dimension(options[key], what), f"in '{FIELD}'"))


def directed(item: DataField, comment: str) -> DataField:
    """A column whose comment begins with `__VECTOR`, as a VECTOR, with what is left of the comment. InvalidError, in
    Paimon's words."""
    directive, _, rest = comment.partition(";")
    if directive != DIRECTIVE:
        raise InvalidError(
            f"Unsupported VECTOR directive in column comment: '{comment}'. Supported directive is '{DIRECTIVE}'.",
            column=item.name,
        )
    if comment == DIRECTIVE:
        raise InvalidError(
            f"VECTOR directive '{comment}' requires a dimension, e.g. '{DIRECTIVE};128' or "
            f"'{DIRECTIVE};128; my comment'.",
            column=item.name,
        )
    number, _, own = rest.partition(";")
    kind = _vector(item, _dimension(number, f"'{DIRECTIVE};'"), "with a VECTOR directive")
    return replace(item, type=kind, description=own.strip() or None)


def _dimension(text: str, what: str) -> int:
    found = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", found):
        raise InvalidError(f"Expected an integer dimension after {what}, but got: '{found}'.")
    if int(found) < 1:
        raise InvalidError(f"Vector dimension must be >= 1, but got: {int(found)}.")
    return int(found)


def _vector(item: DataField, dimension: int, how: str) -> DataType:
    kind = item.type
    if kind.root is not Root.ARRAY:
        raise InvalidError(
            f"Column {item.name} declared {how} must be of ARRAY type, but was {type_text(kind)}.", column=item.name
        )
    return checked(DataType(Root.VECTOR, kind.nullable, dimension, element=kind.element))


def check_vector_columns(schema: TableSchema) -> None:
    """InvalidError, in Paimon's words, where 'vector-field' names what is no VECTOR column."""
    for name in schema.table_options.names(FIELD):
        if name not in schema.field_names:
            raise InvalidError("Some of the columns specified as vector-field are unknown.", column=name)
        kind = schema.field(name).type
        if kind.root is not Root.VECTOR:
            raise InvalidError(
                f"Field name[{name}] is configured as vector-field so the type must be vector, but it is "
                f"{type_text(kind)}",
                column=name,
            )
        dimension = schema.options.get(dimension_key(name))
        if dimension is not None and dimension.strip() != str(kind.length):
            raise InvalidError(
                f"'{dimension_key(name)}' is {dimension}, but the column is {type_text(kind)}", column=name
            )
