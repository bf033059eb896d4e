"""Partitions as system tables print them, `{2024-01-01, 5}` and `dt=2024-01-01/hour=5`, and conditions on these texts
as conditions on partition columns, which prune manifests.

A condition is translated only where the text has one meaning, and whoever asked filters by the text again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.format.row.texts import parse_value
from bucketlake.lazy import pc
from bucketlake.ops.system.model import Ask
from bucketlake.ops.system.texts import cast_texts, joined, row_texts
from bucketlake.ops.table.partitions import partition_columns
from bucketlake.ops.table.store import Store
from bucketlake.paths import DEFAULT_PARTITION
from bucketlake.predicate.tree import And, Compare, IsNull, Or, Predicate
from bucketlake.types.model import DataField, Root

_Text = Callable[[Sequence[pa.Array], int], pa.Array]
_CERTAIN = {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.VARCHAR, Root.DATE}  # one text, one value


def braced(store: Store, partitions: Sequence[bytes]) -> pa.Array:
    """`{a, 1}`, a row a partition; `{}` for tables without partitions."""
    if not store.schema.partition_keys:
        return pa.repeat(pa.scalar("{}", pa.string()), len(partitions))
    return _spread(store, partitions, lambda columns, rows: row_texts(columns, rows))


def named(store: Store, partitions: Sequence[bytes]) -> pa.Array:
    """`dt=a/hour=1`, a row a partition, with the default name for null and blank; empty without partition columns."""
    if not store.schema.partition_keys:
        return pa.repeat(pa.scalar("", pa.string()), len(partitions))
    default = default_name(store)

    def text(columns: Sequence[pa.Array], rows: int) -> pa.Array:
        parts = []
        for name, column in zip(store.schema.partition_keys, columns, strict=True):
            blank = pc.equal(pc.utf8_trim_whitespace(column), "")
            shown = pc.fill_null(pc.if_else(pc.fill_null(blank, True), default, column), default)
            parts.append(pc.binary_join_element_wise(name, shown, "="))
        return joined(parts, rows, "/")

    return _spread(store, partitions, text)


def default_name(store: Store) -> str:
    """What a path has for a null."""
    return str(store.schema.options.get("partition.default-name", DEFAULT_PARTITION))


def _spread(store: Store, partitions: Sequence[bytes], text: _Text) -> pa.Array:
    places = {partition: place for place, partition in enumerate(dict.fromkeys(partitions))}
    columns = partition_columns(store, list(places))
    texts = [cast_texts(c, item.type) for c, item in zip(columns, store.schema.partition_fields, strict=True)]
    shown = text(texts, len(places))
    return shown.take(pa.array([places[partition] for partition in partitions], pa.int64()))


def braced_condition(store: Store, ask: Ask) -> Predicate | None:
    """What a condition on `{a, 1}` says of the partition columns; None where that is not certain."""
    wanted = ask.pinned("partition")
    return None if wanted is None else _condition(store, [_braced_parts(text) for text in wanted], "null")


def named_condition(store: Store, ask: Ask) -> Predicate | None:
    """What a condition on `dt=a/hour=1` says of the partition columns; None where that is not certain."""
    wanted = ask.pinned("partition")
    if wanted is None:
        return None
    return _condition(store, [_named_parts(store, text) for text in wanted], default_name(store))


def _braced_parts(text: object) -> list[str] | None:
    if not isinstance(text, str) or not text.startswith("{") or not text.endswith("}"):
        return None
    return text[1:-1].split(", ")


def _named_parts(store: Store, text: object) -> list[str] | None:
    if not isinstance(text, str):
        return None
    pairs = [part.partition("=") for part in text.split("/")]
    if [name for name, _, _ in pairs] != list(store.schema.partition_keys):
        return None
    return [value for _, _, value in pairs]


def _condition(store: Store, wanted: Sequence[list[str] | None], null: str) -> Predicate | None:
    fields = store.schema.partition_fields
    if not fields or not wanted or any(item.type.root not in _CERTAIN for item in fields):
        return None
    found = []
    for parts in wanted:
        if parts is None or len(parts) != len(fields):
            return None
        conditions = [_is(item, text, null) for item, text in zip(fields, parts, strict=True)]
        known = [condition for condition in conditions if condition is not None]
        if len(known) < len(conditions):
            return None
        found.append(known[0] if len(known) == 1 else And(tuple(known)))
    return found[0] if len(found) == 1 else Or(tuple(found))


def _is(item: DataField, text: str, null: str) -> Predicate | None:
    if text == null:  # a null, or just this text; a blank, in paths
        return IsNull(item.name) if item.type.root is not Root.VARCHAR else None
    try:
        return Compare(item.name, "=", parse_value(text, item.type))
    except InvalidError:
        return None
