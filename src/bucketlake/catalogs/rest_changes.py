"""Changes of a schema as the REST catalog's document writes them.

Spec: docs/catalogs.md#rest
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bucketlake.errors import UnsupportedError
from bucketlake.schema.change import (
    AddColumn,
    ColumnPath,
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
from bucketlake.types.model import format_type


def change_to_json(change: SchemaChange) -> dict[str, Any]:
    """One change, `SchemaChange` of the document."""
    if isinstance(change, SetOption):
        return {"action": "setOption", "key": change.key, "value": change.value}
    if isinstance(change, RemoveOption):
        return {"action": "removeOption", "key": change.key}
    if isinstance(change, UpdateComment) and change.column is None:
        return {"action": "updateComment", "comment": change.comment}
    if isinstance(change, UpdateComment):
        return {"action": "updateColumnComment", "fieldNames": _path(change.column or ""), "newComment": change.comment}
    if isinstance(change, AddColumn):
        return _added(change)
    if isinstance(change, RenameColumn):
        return {"action": "renameColumn", "fieldNames": _path(change.column), "newName": change.name}
    if isinstance(change, DropColumn):
        return {"action": "dropColumn", "fieldNames": _path(change.column)}
    if isinstance(change, UpdateColumnType):
        kept = {"newDataType": format_type(change.type), "keepNullability": change.keep_nullability}
        return {"action": "updateColumnType", "fieldNames": _path(change.column), **kept}
    if isinstance(change, UpdateColumnNullability):
        told = {"fieldNames": _path(change.column), "newNullability": change.nullable}
        return {"action": "updateColumnNullability", **told}
    if isinstance(change, UpdateColumnDefault):
        told = {"fieldNames": _path(change.column), "newDefaultValue": change.default}
        return {"action": "updateColumnDefaultValue", **told}
    if isinstance(change, UpdatePosition):
        return {"action": "updateColumnPosition", "move": _moved(change)}
    if isinstance(change, DropPrimaryKey):
        return {"action": "dropPrimaryKey"}
    raise UnsupportedError("a REST catalog has no such change", change=type(change).__name__)


def _added(change: AddColumn) -> dict[str, Any]:
    path = _path(change.column)
    made = {"action": "addColumn", "fieldNames": path, "dataType": format_type(change.type)}
    if change.comment is not None:
        made["comment"] = change.comment
    if change.first or change.after is not None:
        made["move"] = _move(path[-1], "FIRST" if change.first else "AFTER", None if change.first else change.after)
    return made


def _moved(change: UpdatePosition) -> dict[str, Any]:
    path = _path(change.column)
    if len(path) > 1:
        raise UnsupportedError("a REST catalog moves columns, not members of ROWs", column=".".join(path))
    if change.first:
        return _move(path[0], "FIRST", None)
    if change.after is not None:
        return _move(path[0], "AFTER", change.after)
    if change.before is not None:
        return _move(path[0], "BEFORE", change.before)
    return _move(path[0], "LAST", None)


def _move(name: str, kind: str, reference: str | None) -> dict[str, Any]:
    made = {"fieldName": name, "type": kind}
    return made if reference is None else {**made, "referenceFieldName": reference}


def _path(column: ColumnPath) -> list[str]:
    return [column] if isinstance(column, str) else list(column)


def changes_to_json(changes: Sequence[SchemaChange]) -> dict[str, Any]:
    """`AlterTableRequest` of the document."""
    told = [change_to_json(change) for change in changes]
    columns = ("newComment", "newDefaultValue")  # of which nothing at all means none
    return {"changes": [{k: v for k, v in one.items() if v is not None or k not in columns} for one in told]}
