"""Columns of type BLOB, ARRAY<BLOB>, MAP<K, BLOB>: what makes a column one, and what a table with them must be.

    declared(item, options)        a column of a new table as the options declare it
    directed(item, comment)        a column that its comment declares: `__BLOB_FIELD; comment`
    check_blobs, refuse_blobs      what such a schema must satisfy, and what is not done here

Spec: docs/spec/blob.md#columns
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField, DataType, Root, in_blob_file, type_text

FIELD = "blob-field"
DESCRIPTOR_FIELD = "blob-descriptor-field"
VIEW_FIELD = "blob-view-field"
COLUMN_KEYS = (FIELD, DESCRIPTOR_FIELD, VIEW_FIELD)
_DIRECTIVES = {"__BLOB_FIELD": FIELD, "__BLOB_DESCRIPTOR_FIELD": DESCRIPTOR_FIELD, "__BLOB_VIEW_FIELD": VIEW_FIELD}
OLDER = {DESCRIPTOR_FIELD: "blob.stored-descriptor-fields"}
_SOURCES = (Root.BINARY, Root.VARBINARY, Root.BLOB)


def declared(item: DataField, options: Mapping[str, str]) -> DataField:
    """A column of a new table that the options 'blob-field' and 'blob-descriptor-field' name, as a BLOB.

    Raises: InvalidError, in Paimon's words, for columns that cannot be blobs; UnsupportedError for storage that is not
    honoured.
    """
    for key in (VIEW_FIELD, DESCRIPTOR_FIELD, FIELD):
        if item.name in names_in(options, key):
            item = replace(item, type=_as_blob(item, key))
    return item


def directed(item: DataField, comment: str) -> tuple[DataField, str]:
    """A column whose comment begins with `__BLOB`, as a BLOB, with what is left of the comment; the option that names
    it. Errors: as `declared`."""
    directive, _, rest = comment.partition(";")
    key = _DIRECTIVES.get(directive)
    if key is None:
        raise InvalidError(
            f"Unsupported BLOB directive in column comment: '{comment}'. Supported directives are "
            + ", ".join(f"'{name}'" for name in _DIRECTIVES),
            column=item.name,
        )
    kind = _as_blob(item, key)
    if key == VIEW_FIELD:
        raise UnsupportedError(f"'{key}' is not supported yet", column=item.name, remedy="use the comment __BLOB_FIELD")
    return replace(item, type=kind, description=rest.strip() or None), key


def _as_blob(item: DataField, key: str) -> DataType:
    kind = item.type
    if kind.root in (Root.ARRAY, Root.MAP) and kind.element is not None:
        shown = "ARRAY<BLOB>" if kind.root is Root.ARRAY else "MAP<X, BLOB>"
        if key != FIELD:
            raise InvalidError(
                f"Column {item.name} declared with '{key}' must be of BYTES, BINARY or BLOB type, but was "
                f"{type_text(kind)}. {shown} is only supported by '{FIELD}'."
            )
        if kind.element.root in _SOURCES:
            return replace(kind, element=DataType(Root.BLOB, kind.element.nullable))
    if kind.root not in _SOURCES:
        raise InvalidError(
            f"Column {item.name} declared with a BLOB directive must be of BYTES, BINARY, BLOB, ARRAY<BYTES>, "
            "ARRAY<BINARY> or ARRAY<BLOB> type, or a supported MAP<X, BYTES/BINARY/BLOB> type, but was "
            f"{type_text(kind)}."
        )
    return DataType(Root.BLOB, kind.nullable)


def names_in(options: Mapping[str, str], key: str) -> list[str]:
    """The columns that an option, or its older name, lists."""
    return listed(options.get(key) or options.get(OLDER.get(key, "")) or "")


def listed(text: str) -> list[str]:
    """Names between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def check_blobs(schema: TableSchema) -> None:
    """InvalidError, in Paimon's words, where a table with such columns cannot be."""
    for item in schema.fields:
        if item.type.holds(Root.BLOB) and not in_blob_file(item.type):
            raise InvalidError(
                f"Field '{item.name}' has unsupported nested BLOB type {type_text(item.type)}. BLOB is only supported "
                "as a top-level BLOB, ARRAY<BLOB>, or MAP<X, BLOB> field."
            )
    blobs = [item.name for item in schema.fields if item.type.holds(Root.BLOB)]
    for name in names_in(schema.options, FIELD):
        if name not in blobs:
            raise InvalidError(
                f"Field '{name}' in '{FIELD}' must be a BLOB, ARRAY<BLOB> or MAP<X, BLOB> field in table schema."
            )
    plain = [item.name for item in schema.fields if item.type.root is Root.BLOB]
    for key in (DESCRIPTOR_FIELD, VIEW_FIELD):
        for name in names_in(schema.options, key):
            if name not in plain:
                raise InvalidError(
                    f"Field '{name}' in '{key}' must be a BLOB field in table schema. ARRAY<BLOB> and MAP<X, BLOB> are "
                    f"only supported by '{FIELD}'."
                )
    if not blobs:
        return
    if not schema.primary_keys and not schema.data_evolution:
        raise InvalidError(
            "Data evolution config must enabled for table with BLOB, ARRAY<BLOB> or MAP<X, BLOB> type column.",
            columns=blobs,
            remedy="set 'row-tracking.enabled' and 'data-evolution.enabled' to true",
        )
    if schema.primary_keys:
        _check_managed(schema, blobs)
    if len(blobs) == len(schema.fields):
        raise InvalidError("Table with BLOB, ARRAY<BLOB> or MAP<X, BLOB> type column must have other normal columns.")
    if set(blobs) & set(schema.partition_keys):
        raise InvalidError(
            "The BLOB, ARRAY<BLOB> or MAP<X, BLOB> type column can not be part of partition keys.", columns=blobs
        )
    unordered = [name for name in blobs if name in schema.table_options.names("clustering.columns")]
    if unordered:
        raise InvalidError("BLOB columns cannot be in 'clustering.columns'.", columns=unordered)


def _check_managed(schema: TableSchema, blobs: Sequence[str]) -> None:
    """InvalidError, in Paimon's words, where a table with a primary key cannot have blobs. Here columns of descriptors
    are held to the same rules."""
    options = schema.table_options
    for keys, shown in (
        (schema.primary_keys, "primary keys"),
        (schema.bucket_keys, "bucket keys"),
        (options.names("sequence.field"), "sequence fields"),
    ):
        found = [name for name in blobs if name in keys]
        if found:
            raise InvalidError(f"Managed BLOB fields cannot be {shown}: {found}.")
    for key, wanted, shown in (
        ("merge-engine", "deduplicate", "the deduplicate merge engine"),
        ("changelog-producer", "none", "changelog-producer 'none'"),
    ):
        if options.get(key) != wanted:
            raise InvalidError(f"Primary-key managed BLOB tables only support {shown}.", columns=blobs)
    if options.is_set("data-file.external-paths"):
        raise InvalidError("Primary-key managed BLOB tables do not support 'data-file.external-paths'.", columns=blobs)


def refuse_blobs(schema: TableSchema) -> None:
    """UnsupportedError for what is not done here: blobs in pending rows of postpone tables."""
    blobs = [item.name for item in schema.fields if item.type.holds(Root.BLOB)]
    if blobs and schema.primary_keys and schema.bucket == -2:
        raise UnsupportedError(
            "BLOB columns in tables with a primary key and 'bucket' = '-2' are not supported",
            columns=blobs,
            remedy="choose a number of buckets, or -1",
        )
