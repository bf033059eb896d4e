"""Which columns and options each aggregate function takes; refusals in Paimon's words.

Spec: docs/spec/aggregates.md#types
"""

from __future__ import annotations

from collections.abc import Callable

from bucketlake.errors import UnsupportedError
from bucketlake.lsm.aggregates.rows import About
from bucketlake.lsm.aggregates.sketches import require_datasketches
from bucketlake.types.model import MAX_LENGTH, DataType, Root, type_text

__all__ = [
    "anything",
    "array",
    "boolean",
    "comparable",
    "image",
    "map_",
    "map_with_time",
    "nested_partial_update",
    "nested_update",
    "numeric",
    "text",
]

_NUMERIC = {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DECIMAL}
_COMPARABLE = _NUMERIC | {
    Root.CHAR,
    Root.VARCHAR,
    Root.BINARY,
    Root.VARBINARY,
    Root.DATE,
    Root.TIME,
    Root.TIMESTAMP,
    Root.TIMESTAMP_LTZ,
}
_STRINGS = {Root.CHAR, Root.VARCHAR}


def anything(about: About) -> None:
    """Takes every column."""


def numeric(about: About) -> None:
    """Takes numbers."""
    is_number = about.field.type.root in _NUMERIC
    _need(about, is_number, f"Data type for {about.name} column must be 'NumericType' but was {{}}.")


def comparable(about: About) -> None:
    """Takes what has an order in Paimon: no BOOLEAN, nothing constructed."""
    _need(about, about.field.type.root in _COMPARABLE, "Incomparable type: {}")


def boolean(words: str) -> Callable[[About], None]:
    """Takes BOOLEAN; `words`: the function in the message."""

    def check(about: About) -> None:
        _need(
            about,
            about.field.type.root is Root.BOOLEAN,
            f"Data type for {words} column must be 'BooleanType' but was {{}}.",
        )

    return check


def image(words: str) -> Callable[[About], None]:
    """Takes VARBINARY and BYTES; `words`: the function in the message."""

    def check(about: About) -> None:
        _need(
            about,
            about.field.type.root is Root.VARBINARY,
            f"Data type for {words} column must be 'VarBinaryType' but was {{}}.",
        )
        if about.name.endswith("_sketch"):
            require_datasketches(about)

    return check


def text(about: About) -> None:
    """Takes STRING."""
    kind = about.field.type
    _need(about, kind.root is Root.VARCHAR, "Data type for list agg column must be 'VarCharType' but was {}.")
    _need(
        about,
        kind.length == MAX_LENGTH,
        f"Data type for list agg column must be STRING (unbounded VARCHAR), but was VARCHAR({kind.length}).",
    )
    if about.options.distinct and not about.options.delimiter:
        raise UnsupportedError(
            "listagg with 'distinct' and an empty delimiter is not supported",
            field=about.field.name,
            remedy=f"set 'fields.{about.field.name}.list-agg-delimiter'",
        )


def array(about: About) -> None:
    """Takes ARRAY."""
    _need(about, about.field.type.root is Root.ARRAY, "Data type for collect column must be 'Array' but was {}.")


def map_(about: About) -> None:
    """Takes MAP."""
    _need(about, about.field.type.root is Root.MAP, "Data type for merge map column must be 'MAP' but was {}")


def map_with_time(about: About) -> None:
    """Takes MAP of ROWs of two members or more, one of them a string: the time."""
    name, kind = about.field.name, about.field.type
    _need(about, kind.root is Root.MAP, f"Data type for field '{name}' must be 'MAP' but was {{}}")
    value = kind.element or kind
    _need(about, value.root is Root.ROW, f"Value type of MAP for field '{name}' must be ROW but was {{}}", value)
    members = [item.name for item in value.fields]
    _need(
        about,
        len(members) >= 2,
        f"ROW type for field '{name}' must have at least 2 fields, but found {len(members)}",
    )
    time = about.options.ts_field
    _need(
        about,
        time is None or time in members,
        f"Timestamp field '{time}' not found in ROW type for field '{name}'. Available fields: [{', '.join(members)}]",
    )
    member = value.fields[-1 if time is None else members.index(time)]
    _need(
        about,
        member.type.root in _STRINGS,
        f"Timestamp field '{member.name}' for field '{name}' must be a string but was {{}}",
        member.type,
    )


def nested_update(about: About) -> None:
    """Takes ARRAY of ROW; options of nested keys need nested keys."""
    options = about.options
    _nested_table(about)
    for key, is_set in (
        ("nested-key-null-strategy", options.nested_key_null_strategy is not None),
        ("nested-sequence-field", bool(options.nested_sequence_field)),
    ):
        _need(
            about,
            not is_set or bool(options.nested_key),
            f"Option 'fields.<field-name>.{key}' requires 'fields.<field-name>.nested-key' to be configured.",
        )


def nested_partial_update(about: About) -> None:
    """Takes ARRAY of ROW with a nested key."""
    _need(
        about,
        bool(about.options.nested_key),
        f"Aggregate function 'nested_partial_update' requires 'fields.{about.field.name}.nested-key'.",
    )
    _nested_table(about)


def _nested_table(about: About) -> None:
    kind = about.field.type
    element = kind.element
    _need(
        about,
        kind.root is Root.ARRAY and element is not None and element.root is Root.ROW,
        "Data type for nested table column must be 'Array<Row>' but was {}.",
    )
    members = {} if element is None else {item.name: item.type for item in element.fields}
    for name in (*about.options.nested_key, *about.options.nested_sequence_field):
        _need(about, name in members, f"Nested field '{name}' not found. Available fields: [{', '.join(members)}]")
    for name in about.options.nested_sequence_field:
        comparable_member = members[name].root in _COMPARABLE | {Root.BOOLEAN}
        _need(about, comparable_member, f"Nested sequence field '{name}' has no order, it was {{}}", members[name])


def _need(about: About, holds: bool, message: str, kind: DataType | None = None) -> None:
    if not holds:
        other = f"give the column another type, or another 'fields.{about.field.name}.aggregate-function'"
        remedy = other if "{}" in message else None
        raise about.error(message.replace("{}", f"'{type_text(kind or about.field.type)}'"), remedy)
