"""`snapshot/snapshot-<id>`: one commit, as JSON.

    { "version" : 3, "uuid"?, "id", "schemaId", "baseManifestList", …, "operation"? }     order: `_NAMES`; no nulls

Spec: docs/spec/snapshot.md
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Any

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.file_names import check_names
from bucketlake.format.guard import LARGEST_LONG, decoding, integer, json_object, nearly, text, text_map
from bucketlake.schema.schema import pretty_json
from bucketlake.types.wall_clock import LATEST_MILLIS
from bucketlake.values import dataclass


class CommitKind(str, Enum):
    """What a commit did; an APPEND deletes no file and adds no deletion vector."""

    APPEND = "APPEND"
    OVERWRITE = "OVERWRITE"
    COMPACT = "COMPACT"
    ANALYZE = "ANALYZE"

    __str__ = str.__str__


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

    def __repr__(self) -> str:
        """What people look for; `dataclasses.asdict` has all fields."""
        shown = ("id", "operation", "time_millis", "delta_record_count", "total_record_count", "commit_user")
        rest = "".join(f", {name}={getattr(self, name)!r}" for name in shown[1:] if getattr(self, name) is not None)
        return f"Snapshot(id={self.id}, {self.commit_kind}{rest})"


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
_REQUIRED = (
    "id",
    "schemaId",
    "baseManifestList",
    "deltaManifestList",
    "commitUser",
    "commitIdentifier",
    "commitKind",
    "timeMillis",
)


_FILES = ("base_manifest_list", "delta_manifest_list", "changelog_manifest_list", "index_manifest", "statistics")
_TEXTS = {
    "uuid",
    "base_manifest_list",
    "delta_manifest_list",
    "changelog_manifest_list",
    "index_manifest",
    "commit_user",
    "commit_kind",
    "statistics",
    "operation",
}


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The JSON of a snapshot file: fields in upstream's order, absent ones left out, unknown ones at the end."""
    found: dict[str, Any] = {}
    for name, attribute in _NAMES.items():
        value = getattr(snapshot, attribute)
        if value is not None:
            found[name] = value.value if isinstance(value, CommitKind) else value
    return pretty_json({**found, **snapshot.unknown}).encode()


def unreadable(snapshot: Snapshot) -> list[str]:
    """Names of fields that no reader would take: numbers beyond what a base near the end of its range leaves."""
    values = {name: getattr(snapshot, attribute) for name, attribute in _NAMES.items() if attribute != "commit_kind"}
    return [name for name, value in values.items() if value is not None and not _fits(_NAMES[name], value)]


def decode_snapshot(data: bytes, source: str = "snapshot") -> Snapshot:
    """The snapshot of a snapshot or tag file; fields unknown here are in `unknown`.

    Raises: UnsupportedError for a newer version, CorruptError for what is no snapshot; both name `source`.
    """
    with decoding("not a snapshot", source):
        found = json_object(data)
    version = found.get("version", 1)
    if integer(version, SNAPSHOT_VERSION + 1):
        raise UnsupportedError(
            "snapshot of a newer format version",
            path=source,
            version=version,
            supported=SNAPSHOT_VERSION,
            remedy="upgrade bucketlake",
        )
    missing = [name for name in _REQUIRED if found.get(name) is None]
    if missing:
        raise CorruptError("snapshot lacks fields", path=source, fields=missing)
    spoilt = [name for name in found if name not in _NAMES and any(nearly(name, other) for other in _NAMES)]
    if spoilt:
        raise CorruptError("snapshot has damaged field names", path=source, fields=spoilt)
    known = {attribute: found[name] for name, attribute in _NAMES.items() if found.get(name) is not None}
    wrong = [name for name, value in {"version": version, **known}.items() if not _fits(name, value)]
    if wrong:
        raise CorruptError("snapshot has fields of a wrong type or out of range", path=source, fields=wrong)
    check_names([known[name] for name in _FILES if name in known], source)
    known["commit_kind"] = _KINDS[known["commit_kind"]]
    counts = {"version": version, "total_record_count": 0, "delta_record_count": 0}
    unknown = {name: value for name, value in found.items() if name not in _NAMES}
    return Snapshot(**{**counts, **known}, unknown=unknown)


_KINDS = {kind.value: kind for kind in CommitKind}


_RANGES = {
    "id": (1, LARGEST_LONG),
    "schema_id": (0, (1 << 31) - 1),
    "version": (1, SNAPSHOT_VERSION),
    "time_millis": (0, LATEST_MILLIS),
    "next_row_id": (0, LARGEST_LONG),
    "base_manifest_list_size": (-1, LARGEST_LONG),
    "delta_manifest_list_size": (-1, LARGEST_LONG),
    "changelog_manifest_list_size": (-1, LARGEST_LONG),
}


def _fits(attribute: str, value: Any) -> bool:
    """Whether a field has its type and is within the range that everything made of it can hold."""
    if attribute == "commit_kind":
        return isinstance(value, str) and value in _KINDS
    if attribute == "properties":
        return text_map(value)
    if attribute in _TEXTS:
        # Paimon's procedure that expires partitions commits as nobody.
        return text(value) and (value != "" or attribute == "commit_user") and "\0" not in value
    return integer(value, *_RANGES.get(attribute, (-LARGEST_LONG - 1, LARGEST_LONG)))
