"""The schema of a table: what it is, may be, becomes, and how files of older ones are read."""

from __future__ import annotations

from bucketlake.schema.change import (
    AddColumn,
    DropColumn,
    DropPrimaryKey,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
    UpdatePosition,
)
from bucketlake.schema.evolution import ReadColumn, cast_allowed, read_mapping
from bucketlake.schema.schema import (
    KEY_FIELD_ID_START,
    KIND_FIELD,
    SEQUENCE_FIELD,
    SHOWN,
    VERSION,
    BucketMode,
    TableSchema,
    pretty_json,
)
from bucketlake.schema.validation import refuse_undelivered, validate_schema
from bucketlake.schema.versions import apply, create_schema, normalised, refuse_change

__all__ = [
    "AddColumn",
    "BucketMode",
    "DropColumn",
    "DropPrimaryKey",
    "KEY_FIELD_ID_START",
    "KIND_FIELD",
    "ReadColumn",
    "RemoveOption",
    "RenameColumn",
    "SEQUENCE_FIELD",
    "SHOWN",
    "SchemaChange",
    "SetOption",
    "TableSchema",
    "UpdateColumnDefault",
    "UpdateColumnNullability",
    "UpdateColumnType",
    "UpdateComment",
    "UpdatePosition",
    "VERSION",
    "apply",
    "cast_allowed",
    "create_schema",
    "normalised",
    "pretty_json",
    "read_mapping",
    "refuse_change",
    "refuse_undelivered",
    "validate_schema",
]
