"""Options that name columns: what renaming makes of them, and what a table's options are under another schema.

Spec: docs/spec/schema.md#renamed-columns
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bucketlake.options.map_layout import is_of_layout
from bucketlake.schema.marked import COLUMN_KEYS
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.schema.vectors import FIELD, dimension_key

_COLUMN_LISTS = (
    "bucket-key",
    "changelog-producer.row-deduplicate-ignore-fields",
    "clustering.columns",
    "partial-update.remove-record-on-sequence-group",
    "record-level.time-field",
    "rowkind.field",
    "sequence.field",
    "upsert-key",
    FIELD,
)
_HOW_MERGED = ("changelog-producer", "deletion-vectors.enabled")
_MEMBER_LISTS = ("nested-key", "nested-sequence-field", "ts-field")


def renamed_in_options(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The options with columns' names, old to new, replaced at once wherever an option names columns, in its key or its
    value."""

    def renamed(listed: str) -> str:
        return ",".join(names.get(name.strip(), name) for name in listed.split(","))

    result = {}
    for key, value in options.items():
        head, _, rest = key.partition(".")
        parts = rest.split(".")
        if key in _COLUMN_LISTS:
            value = renamed(value)
        elif head == "field" and len(parts) > 1 and dimension_key(".".join(parts[:-1])) == key:
            key = dimension_key(renamed(".".join(parts[:-1])))
        elif head == "fields" and len(parts) > 1:
            suffix = rest[len(parts[0]) :]
            key, value = f"fields.{renamed(parts[0])}{suffix}", renamed(value) if suffix == ".sequence-group" else value
        elif head == "file-index" and len(parts) == 2 and parts[1] == "columns":
            value = ",".join(_renamed_index(name, names) for name in value.split(","))
        elif head == "file-index" and len(parts) == 3:
            key = f"file-index.{parts[0]}.{_renamed_index(parts[1], names)}.{parts[2]}"
        result[key] = value
    return result


def _renamed_index(name: str, names: Mapping[str, str]) -> str:
    """`column` or `column[key]`, renamed."""
    column, bracket, rest = name.strip().partition("[")
    return f"{names[column]}{bracket}{rest}" if column in names else name


def member_renamed_in_options(options: Mapping[str, str], path: Sequence[str], new: str) -> dict[str, str]:
    """The options with the new name of a member of the rows that an ARRAY or MAP column holds."""
    result = dict(options)
    if len(path) != 3 or path[1] not in ("element", "value"):
        return result
    for suffix in _MEMBER_LISTS:
        key = f"fields.{path[0]}.{suffix}"
        if key in result:
            result[key] = ",".join(new if name.strip() == path[2] else name for name in result[key].split(","))
    return result


def under_options(past: TableSchema, current: TableSchema) -> TableSchema:
    """Another schema of a table with the options of today's, but its own for what says how files of several levels were
    written: which of their rows count, whether rows waited for their buckets, and how maps lie in them. Where a column
    of it is gone or has another name, options that name columns are its own, too."""
    own = {*_HOW_MERGED, *(["bucket"] if past.bucket_mode is BucketMode.POSTPONE else [])}
    names = {item.id: item.name for item in current.fields}
    renamed = any(names.get(item.id) != item.name for item in past.fields)

    def is_own(key: str) -> bool:
        return key in own or is_of_layout(key) or (renamed and _names_columns(key))

    kept = {key: value for key, value in current.options.items() if not is_own(key)}
    return replace(past, options={**kept, **{key: value for key, value in past.options.items() if is_own(key)}})


def _names_columns(key: str) -> bool:
    head, _, rest = key.partition(".")
    if head == "file-index":
        return rest.endswith(".columns") or rest.count(".") > 1
    return (head == "fields" and "." in rest) or key in _COLUMN_LISTS or key in COLUMN_KEYS
