"""DESCRIBE EXTENDED … AS JSON: what programs read of a table or view, in the shape of Spark's own tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bucketlake.spark.instants import shown_type as as_shown
from bucketlake.spark.types import spark_type
from bucketlake.sql.query.views import text_of
from bucketlake.sql.tables.show import PROVIDER, default_text, properties
from bucketlake.sql.text.names import LakeName
from bucketlake.types.model import LISTS, MAX_LENGTH, DataField, DataType, Root

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.catalogs.model import View
    from bucketlake.options.options import TableOptions
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable


def of_table(lake: Lake, name: LakeName, table: LakeTable) -> DataFrame:
    """A lake table, with what DESCRIBE EXTENDED says of it."""
    schema = table.schema
    told = {
        "columns": _columns(schema.fields, table.options),
        "location": table.path,
        "type": "MANAGED",
        "provider": PROVIDER,
        **({"comment": schema.comment} if schema.comment is not None else {}),
        "table_properties": properties(table),
        **({"partition_columns": list(schema.partition_keys)} if schema.partition_keys else {}),
    }
    return _row(lake, name, told)


def of_view(lake: Lake, name: LakeName, view: View) -> DataFrame:
    """A persistent view of the catalog."""
    told = {
        "columns": _columns(view.fields, None),
        "type": "VIEW",
        **({"comment": view.comment} if view.comment is not None else {}),
        "table_properties": dict(view.options),
        "view_text": text_of(view),
        "view_query_output_columns": [item.name for item in view.fields],
    }
    return _row(lake, name, told)


def _row(lake: Lake, name: LakeName, told: dict[str, Any]) -> DataFrame:
    place = {
        "table_name": name.table,
        "catalog_name": lake.catalog_names[0],
        "namespace": [name.database],
        "schema_name": name.database,
    }
    text = json.dumps({**place, **told}, ensure_ascii=False, separators=(",", ":"))
    return lake.spark.createDataFrame([(text,)], "json_metadata string not null")


def _columns(fields: Sequence[DataField], options: TableOptions | None) -> list[dict[str, Any]]:
    found = []
    for item in fields:
        told = _member(item if options is None else replace(item, type=as_shown(item.type, options)))
        found.append(told if item.default is None else {**told, "default": default_text(item, item.default)})
    return found


def _type(kind: DataType) -> dict[str, Any]:
    """A type, as Spark's DESCRIBE has it."""
    match kind:
        case DataType(root=Root.ROW):
            return {"name": "struct", "fields": [_member(item) for item in kind.fields]}
        case DataType(root=Root.MAP, key=DataType() as key, element=DataType() as value):
            return {"name": "map", "key_type": _type(key), "value_type": _type(value), "value_nullable": value.nullable}
        case DataType(root=root, element=DataType() as element) if root in LISTS:
            return {"name": "array", "element_type": _type(element), "element_nullable": element.nullable}
        case DataType(root=Root.CHAR | Root.VARCHAR) if kind.length != MAX_LENGTH:
            return {"name": kind.root.value.lower(), "length": kind.length}
        case DataType(root=Root.DECIMAL):
            return {"name": "decimal", "precision": kind.precision, "scale": kind.scale}
        case DataType(root=Root.VARCHAR):
            return {"name": "string", "collation": "UTF8_BINARY"}
        case DataType(root=Root.TIMESTAMP_LTZ):
            return {"name": "timestamp_ltz"}  # not as in its SQL
    return {"name": spark_type(kind).simpleString()}


def _member(item: DataField) -> dict[str, Any]:
    told = {"name": item.name, "type": _type(item.type), "nullable": item.type.nullable}
    return told if item.description is None else {**told, "comment": item.description}
