"""`snapshot/snapshot-<id>`: one commit, as JSON. Spec: docs/spec/snapshot.md"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from bucketlake.errors import CorruptError, UnsupportedError


class CommitKind(str, Enum):
    """What a commit did; an APPEND deletes no file and adds no deletion vector."""

    APPEND = "APPEND"
    OVERWRITE = "OVERWRITE"
    COMPACT = "COMPACT"
    ANALYZE = "ANALYZE"


BATCH_COMMIT_IDENTIFIER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table's state after one commit; manifest lists are file names in `manifest/`, times are epoch milliseconds."""

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    version: int = 3
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    changelog_record_count: int | None = None
    index_manifest: str | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: dict[str, str] | None = None
    next_row_id: int | None = None
    operation: str | None = None
    unknown: dict[str, Any] = field(default_factory=dict)  # fields of later releases, carried verbatim


SNAPSHOT_VERSION = 3
# Field names in the order in which Paimon writes them.
_NAMES = {
    "version": "version",
    "uuid": "uuid",
    "id": "id",
    "schemaId": "schema_id",
    "baseManifestList": "base_manifest_list",
    "baseManifestListSize": "base_manifest_list_size",
    "deltaManifestList": "delta_manifest_list",
    "deltaManifestListSize": "delta_manifest_list_size",
    "changelogManifestList": "changelog_manifest_list",
    "changelogManifestListSize": "changelog_manifest_list_size",
    "indexManifest": "index_manifest",
    "commitUser": "commit_user",
    "commitIdentifier": "commit_identifier",
    "commitKind": "commit_kind",
    "timeMillis": "time_millis",
    "totalRecordCount": "total_record_count",
    "deltaRecordCount": "delta_record_count",
    "changelogRecordCount": "changelog_record_count",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "nextRowId": "next_row_id",
    "operation": "operation",
}
_REQUIRED = ("id", "schemaId", "baseManifestList", "deltaManifestList", "commitUser", "commitIdentifier", "commitKind", "timeMillis")


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The JSON of a snapshot file: fields in upstream's order, absent ones left out, unknown ones at the end."""
    found: dict[str, Any] = {}
    for name, attribute in _NAMES.items():
        value = getattr(snapshot, attribute)
        if value is not None:
            found[name] = value.value if isinstance(value, CommitKind) else value
    return json.dumps({**found, **snapshot.unknown}, indent=2, ensure_ascii=False).encode()


def decode_snapshot(data: bytes, source: str = "snapshot") -> Snapshot:
    """The snapshot of a snapshot or tag file. UnsupportedError for a newer version, CorruptError naming `source`."""
    try:
        found = json.loads(data)
        version = found.get("version", 1)
        if version > SNAPSHOT_VERSION:
            raise UnsupportedError(
                "snapshot of a newer format version",
                path=source,
                version=version,
                supported=SNAPSHOT_VERSION,
                remedy="upgrade bucketlake",
            )
        missing = [name for name in _REQUIRED if name not in found]
        if missing:
            raise CorruptError("snapshot lacks fields", path=source, fields=missing)
        known = {_NAMES[name]: value for name, value in found.items() if name in _NAMES}
        known["version"] = version
        known["commit_kind"] = CommitKind(known["commit_kind"])
        known.setdefault("total_record_count", 0)
        known.setdefault("delta_record_count", 0)
        return Snapshot(**known, unknown={name: value for name, value in found.items() if name not in _NAMES})
    except (ValueError, AttributeError, TypeError) as error:
        if isinstance(error, (CorruptError, UnsupportedError)):
            raise
        raise CorruptError("not a snapshot", path=source, reason=str(error)) from error
