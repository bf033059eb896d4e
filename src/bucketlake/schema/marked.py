"""Columns that comments and options mark as BLOB or VECTOR, which the engines' own SQL has no words for.

    declared(fields, options)      columns and options of a new table
    added(item, options)           a column that is added
    dropped(item, options)         the options without a column

Spec: docs/spec/blob.md#columns, docs/spec/types.md#vectors
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bucketlake.schema import blobs, vectors
from bucketlake.types.model import DataField, Root

COLUMN_KEYS = (*blobs.COLUMN_KEYS, vectors.FIELD)
"""Options that follow the columns: they change as columns are added and dropped."""


def declared(fields: Sequence[DataField], options: Mapping[str, str]) -> tuple[tuple[DataField, ...], dict[str, str]]:
    """Columns and options with what comments say of columns (`__BLOB_FIELD; comment`), and the columns that options
    name as BLOB or VECTOR.

    Raises: InvalidError, in Paimon's words, for columns that cannot be such; UnsupportedError for storage that is not
    honoured.
    """
    texts = dict(options)
    named = blobs.names_in(texts, vectors.FIELD)
    found = [vectors.declared(item, texts) if item.name in named else item for item in fields]
    return tuple(blobs.declared(added(item, texts), texts) for item in found), texts


def added(item: DataField, options: dict[str, str]) -> DataField:
    """A new column as its comment declares it; `options` gain its name. Errors: as `declared`.

    A column that is a VECTOR by its type is named, too, always with its dimension: Flink goes by these options."""
    comment = (item.description or "").strip()
    if comment.startswith("__BLOB"):
        item, key = blobs.directed(item, comment)
    elif comment.startswith("__VECTOR") or item.type.root is Root.VECTOR:
        item, key = vectors.directed(item, comment) if comment.startswith("__VECTOR") else item, vectors.FIELD
        options.setdefault(vectors.dimension_key(item.name), str(item.type.length))
    else:
        return item
    if item.name not in blobs.names_in(options, key):
        options[key] = ",".join([*blobs.names_in(options, key), item.name])
        options.pop(blobs.OLDER.get(key, ""), None)
    return item


def dropped(item: DataField, options: Mapping[str, str]) -> dict[str, str]:
    """The options without the name of a BLOB or VECTOR column that is dropped."""
    found = dict(options)
    keys: tuple[str, ...] = ()
    if item.type.root is Root.VECTOR:
        keys = (vectors.FIELD,)
        found.pop(vectors.dimension_key(item.name), None)
    elif item.type.holds(Root.BLOB):
        keys = (*blobs.COLUMN_KEYS, *blobs.OLDER.values())
    for key in keys:
        if key in found:
            left = [other for other in blobs.listed(found.pop(key)) if other != item.name]
            if left:
                found[key] = ",".join(left)
    return found
