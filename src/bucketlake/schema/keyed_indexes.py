"""Indexes of tables with a primary key: options 'pk-btree.index.columns' and 'pk-bitmap.index.columns'.

    keyed_indexes(schema) -> tuple[KeyedIndex, …]      in the order of the columns

Spec: docs/spec/keyed_index.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.options.options import TableOptions
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField, Root, type_text
from bucketlake.values import dataclass

_BTREES = "pk-btree.index.columns"
_BITMAPS = "pk-bitmap.index.columns"
KEYED_INDEXES: Mapping[str, str] = {"btree": _BTREES, "bitmap": _BITMAPS}
_WITHOUT = frozenset(
    (Root.BINARY, Root.VARBINARY, Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW, Root.VARIANT, Root.BLOB, Root.VECTOR)
)
_ALL = "Primary-key BTree and Bitmap indexes"


@dataclass(frozen=True, slots=True)
class KeyedIndex:
    """An index of one column. `kind`: "btree" or "bitmap"; `options`: the table's, and those of this index."""

    field: DataField
    kind: str
    options: TableOptions


def keyed_indexes(schema: TableSchema) -> tuple[KeyedIndex, ...]:
    """The indexes that compaction of a table keeps, in the order of the columns."""
    if not schema.primary_keys:
        return ()
    named = {name: kind for kind, key in KEYED_INDEXES.items() for name in schema.table_options.names(key)}
    return tuple(
        KeyedIndex(item, named[item.name], _options(schema.table_options, item.name, named[item.name]))
        for item in schema.fields
        if item.name in named
    )


def check_keyed_indexes(schema: TableSchema) -> None:
    """InvalidError or UnsupportedError, in Paimon's words, for options that do not go together."""
    options = schema.table_options
    columns = [(key, name) for key in KEYED_INDEXES.values() for name in options.names(key)]
    if not columns:
        return
    if not options.get("deletion-vectors.enabled"):
        raise InvalidError(f"{_ALL} require deletion-vectors.enabled = true.")
    if not schema.primary_keys:
        raise InvalidError(f"{_ALL} require a primary-key table.")
    if not (schema.bucket > 0 or schema.bucket == -2):
        what = "require fixed or postpone bucket mode (bucket > 0 or bucket = -2), but bucket is"
        raise InvalidError(f"{_ALL} {what} {schema.bucket}.")
    if schema.clustered:
        raise InvalidError(f"{_ALL} do not support pk-clustering-override.")
    seen: set[str] = set()
    for key, name in columns:
        if name not in schema.field_names:
            raise InvalidError(f"{key} entry '{name}' must reference an existing column.")
        if options.names(key).count(name) > 1:
            raise InvalidError(f"{key} contains duplicate column '{name}'.")
        if name in seen:
            raise InvalidError(f"Column '{name}' can own at most one primary-key index.")
        seen.add(name)
        kind = schema.field(name).type
        if kind.root in _WITHOUT:
            raise UnsupportedError(f"DataType: {type_text(kind)} is not supported by global index now.", column=name)
    keyed_indexes(schema)


def refuse_merge_on_read(schema: TableSchema) -> None:
    """InvalidError where a table with indexes itself says that level 0 is read too; one read may."""
    if keyed_indexes(schema) and schema.table_options.get("deletion-vectors.merge-on-read"):
        raise InvalidError(f"{_ALL} require deletion-vectors.merge-on-read = false.")


def indexed_columns(options: TableOptions) -> list[str]:
    """The columns that have an index, which are neither dropped nor renamed, and keep their type."""
    return [name for key in KEYED_INDEXES.values() for name in options.names(key)]


def _options(options: TableOptions, column: str, kind: str) -> TableOptions:
    key, prefix = f"fields.{column}.pk-{kind}.index.options", f"{kind}-index."
    text = options.raw.get(key) or ""
    if not text.strip():
        return options
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InvalidError(f"{key} must be a JSON object of option key-value pairs.", value=text)
    found = dict(options.raw)
    for name, value in given.items():
        if not name.strip():
            raise InvalidError(f"{key} contains an empty option key.")
        full = name if name.startswith((prefix, "fields.")) else prefix + name
        if found.get(full, value) != value:
            raise InvalidError(f"{key} defines conflicting values for {full}.")
        found[full] = value
    return TableOptions(found)
