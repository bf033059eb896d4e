"""`snapshot/snapshot-<id>`: one commit, as JSON. Spec: docs/spec/snapshot.md"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


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
