"""What Apache Paimon's document of the REST catalog (rest-catalog-open-api.yaml) says of requests and answers, as far as
the client uses it: operations with the shapes of their bodies.

A shape: "str", "int", "bool", each with "?" where null is allowed; [shape]; {"*": shape} for maps; {name: shape} for
objects, whose properties may be left out and are no others.
"""

from __future__ import annotations

import re
from typing import Any

TEXTS = {"*": "str"}
FIELD = {"id": "int", "name": "str", "type": "type", "description": "str", "defaultValue": "str"}
SCHEMA = {"fields": [FIELD], "partitionKeys": ["str"], "primaryKeys": ["str"], "options": TEXTS, "comment": "str"}
VIEW = {"fields": [FIELD], "query": "str", "dialects": TEXTS, "comment": "str?", "options": TEXTS}
IDENTIFIER = {"database": "str", "object": "str"}
MOVE = {"fieldName": "str", "referenceFieldName": "str", "type": "str"}
CHANGES: dict[str, dict[str, Any]] = {
    "setOption": {"key": "str", "value": "str"},
    "removeOption": {"key": "str"},
    "updateComment": {"comment": "str?"},
    "addColumn": {"fieldNames": ["str"], "dataType": "type", "comment": "str", "move": MOVE},
    "renameColumn": {"fieldNames": ["str"], "newName": "str"},
    "dropColumn": {"fieldNames": ["str"]},
    "updateColumnComment": {"fieldNames": ["str"], "newComment": "str"},
    "updateColumnDefaultValue": {"fieldNames": ["str"], "newDefaultValue": "str"},
    "updateColumnType": {"fieldNames": ["str"], "newDataType": "type", "keepNullability": "bool"},
    "updateColumnPosition": {"move": MOVE},
    "updateColumnNullability": {"fieldNames": ["str"], "newNullability": "bool"},
    "dropPrimaryKey": {},
}
VIEW_CHANGES: dict[str, dict[str, Any]] = {
    **{key: {"dialect": "str", "query": "str"} for key in ("addDialect", "updateDialect")},
    "dropDialect": {"dialect": "str"},
}
SNAPSHOT = {
    **dict.fromkeys(("baseManifestList", "deltaManifestList", "indexManifest", "commitUser", "statistics"), "str"),
    **dict.fromkeys(("id", "schemaId", "timeMillis", "totalRecordCount", "deltaRecordCount", "watermark"), "int"),
    **{"version": "int?", "uuid": "str?", "changelogManifestList": "str?", "changelogRecordCount": "int"},
    "commitKind": "str",
    "commitIdentifier": "int",  # the document says string; Paimon's own client and server have numbers
    "logOffsets": {"*": "int"},
    # newer than the document
    **dict.fromkeys(("baseManifestListSize", "deltaManifestListSize", "changelogManifestListSize", "nextRowId"), "int"),
    "properties": TEXTS,
    "operation": "str",
}
STATISTICS = {
    "spec": TEXTS,
    **dict.fromkeys(("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime", "totalBuckets"), "int"),
}
INSTANT = {"type": "str", "snapshotId": "int", "tagName": "str"}
TABLE = "/databases/{database}/tables/{table}"
# operation: method, path, request
OPERATIONS: dict[str, tuple[str, str, Any]] = {
    "getConfig": ("GET", "/config", None),
    "listDatabases": ("GET", "/databases", None),
    "createDatabase": ("POST", "/databases", {"name": "str", "options": TEXTS}),
    "getDatabase": ("GET", "/databases/{database}", None),
    "dropDatabase": ("DELETE", "/databases/{database}", None),
    "alterDatabase": ("POST", "/databases/{database}", {"removals": ["str"], "updates": TEXTS}),
    "listTables": ("GET", "/databases/{database}/tables", None),
    "createTable": ("POST", "/databases/{database}/tables", {"identifier": IDENTIFIER, "schema": SCHEMA}),
    "renameTable": ("POST", "/tables/rename", {"source": IDENTIFIER, "destination": IDENTIFIER}),
    "getTable": ("GET", TABLE, None),
    "alterTable": ("POST", TABLE, {"changes": ["change"]}),
    "dropTable": ("DELETE", TABLE, None),
    "commitTable": (
        "POST",
        f"{TABLE}/commit",
        {"tableId": "str", "baseSnapshotUuid": "str?", "snapshot": SNAPSHOT, "statistics": [STATISTICS]},
    ),
    "rollbackTable": ("POST", f"{TABLE}/rollback", {"instant": INSTANT, "fromSnapshot": "int?"}),
    "getTableToken": ("GET", f"{TABLE}/token", None),
    "getTableSnapshot": ("GET", f"{TABLE}/snapshot", None),
    "createBranch": ("POST", f"{TABLE}/branches", {"branch": "str", "fromTag": "str?"}),
    "dropBranch": ("DELETE", TABLE + "/branches/{branch}", None),
    "renameBranch": ("POST", TABLE + "/branches/{branch}/rename", {"toBranch": "str"}),
    "forwardBranch": ("POST", TABLE + "/branches/{branch}/forward", {"branch": "str"}),
    "listViews": ("GET", "/databases/{database}/views", None),
    "createView": ("POST", "/databases/{database}/views", {"identifier": IDENTIFIER, "schema": VIEW}),
    "getView": ("GET", "/databases/{database}/views/{view}", None),
    "alterView": ("POST", "/databases/{database}/views/{view}", {"changes": ["view change"]}),
    "dropView": ("DELETE", "/databases/{database}/views/{view}", None),
}
_KINDS: dict[str, type] = {"str": str, "int": int, "bool": bool}


def operation(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    """The operation of a request behind the prefix, and what its path names."""
    for name, (own, pattern, _) in OPERATIONS.items():
        found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern), path)
        if own == method and found:
            return name, found.groupdict()
    return None


def faults(given: Any, shape: Any, place: str = "body") -> list[str]:
    """What of a body is not as its shape says."""
    if shape is None:
        return [] if given is None else [f"{place}: no body is foreseen"]
    if shape in ("change", "view change"):
        kind = (
            (CHANGES if shape == "change" else VIEW_CHANGES).get(given.get("action"))
            if isinstance(given, dict)
            else None
        )
        return [f"{place}: {given!r}"] if kind is None else faults(given, {"action": "str", **kind}, place)
    if shape == "type":
        return [] if isinstance(given, (str, dict)) else [f"{place}: {given!r} is no type"]
    if isinstance(shape, str):
        kind = _KINDS[shape.rstrip("?")]
        right = (given is None and shape.endswith("?")) or (
            isinstance(given, kind) and (kind is not int or not isinstance(given, bool))
        )
        return [] if right else [f"{place}: {given!r} is no {shape}"]
    if isinstance(shape, list):
        if not isinstance(given, list):
            return [f"{place}: {given!r} is no list"]
        return [fault for at, item in enumerate(given) for fault in faults(item, shape[0], f"{place}[{at}]")]
    if not isinstance(given, dict):
        return [f"{place}: {given!r} is no object"]
    found = []
    for key, value in given.items():
        inner = shape.get(key, shape.get("*"))
        found += [f"{place}.{key} is not in the document"] if inner is None else faults(value, inner, f"{place}.{key}")
    return found
