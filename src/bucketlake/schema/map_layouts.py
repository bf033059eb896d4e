"""Which MAP columns of a table may be shredded, in Paimon's words.

Spec: docs/spec/map_shredding.md#tables
"""

from __future__ import annotations

from collections.abc import Callable

from bucketlake.errors import InvalidError
from bucketlake.options.map_layout import LAYOUT, SHREDDED, SHREDDING, map_layouts, named_layouts
from bucketlake.options.options import TableOptions
from bucketlake.schema.file_indexes import index_specs
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataType, Root

_POSTPONE = -2
_CODECS = ("none", "lz4", "zstd")
_WHAT = "MAP shared-shredding currently"


def check_map_layouts(schema: TableSchema) -> None:
    """Raise InvalidError where options for the layout of MAP columns fit neither these nor the table's files."""
    layouts = named_layouts(schema.options)
    for name, layout in layouts.items():
        _check_column(schema, name, layout)
    shredded = map_layouts(schema.options)
    if not shredded:
        return
    _check_files(schema.table_options)
    for root in (Root.VARIANT, Root.MULTISET):
        what = "Variant" if root is Root.VARIANT else root.value
        if any(item.type.holds(root) for item in schema.fields):
            raise InvalidError(f"{_WHAT} cannot be used with {what} fields.")
    for root in (Root.BLOB, Root.VECTOR):
        if any(_value(schema.field(name).type).holds(root) for name in shredded):
            raise InvalidError(f"{_WHAT} cannot contain {root.value} fields.")
    if schema.bucket == _POSTPONE:
        raise InvalidError(f"{_WHAT} does not support postpone bucket mode.")
    indexed = [spec.column for spec in index_specs(schema.options) if spec.key is not None and spec.column in shredded]
    if indexed:
        raise InvalidError(
            f"Column '{indexed[0]}' is configured with {LAYOUT}={SHREDDED}, which does not support nested file index."
        )


def _check_column(schema: TableSchema, name: str, layout: str) -> None:
    where = f"Column '{name}' is configured with {LAYOUT}"
    if name not in schema.field_names:
        raise InvalidError(f"{where} but does not exist in table schema.")
    kind = schema.field(name).type
    if kind.root is not Root.MAP:
        raise InvalidError(f"{where} but its type is not MAP.")
    if layout != SHREDDED or kind.key is None:
        return
    if kind.key.root is not Root.VARCHAR:
        raise InvalidError(f"{where}={SHREDDED} but its type is not MAP<STRING NOT NULL, T>.")
    if kind.key.nullable:
        raise InvalidError(
            f"{where}={SHREDDED} but its map key type is nullable.", remedy="declare it MAP<STRING NOT NULL, …>"
        )


def _check_files(options: TableOptions) -> None:
    _check_each(options, "format", lambda value: value in SHREDDING, "parquet/orc file formats")
    _check_each(options, "compression", lambda value: value in _CODECS, "none/lz4/zstd compression")


def _check_each(options: TableOptions, what: str, fits: Callable[[str], bool], known: str) -> None:
    """What is said of files of every level, and of changelogs."""
    key = f"file.{what}"
    said = {key: options.text(key), f"changelog-file.{what}": options.text(f"changelog-file.{what}")}
    levels = options.get(f"{key}.per.level") or {}
    said |= {f"{key}.per.level.{level}": value for level, value in levels.items()}
    for name, value in said.items():
        if value is not None and value.strip() and not fits(value.strip().lower()):
            raise InvalidError(f"MAP shared-shredding only supports {known}, but {name} is {value}.")


def _value(kind: DataType) -> DataType:
    assert kind.element is not None
    return kind.element
