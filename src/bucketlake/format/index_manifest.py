"""Index manifests: hash indexes and deletion vectors of a snapshot. Spec: docs/spec/index_manifest.md"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bucketlake.format.manifest import FileKind


@dataclass(frozen=True, slots=True)
class DeletionVectorRange:
    """Where one data file's deletion vector lies in an index file."""

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file of `index/`. `index_type`: "HASH", "DELETION_VECTORS", or one unknown here, carried verbatim."""

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    dv_ranges: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None
    global_index: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One index file of one bucket (deletion vectors of unaware tables: of one partition, bucket 0)."""

    kind: FileKind
    partition: bytes
    bucket: int
    file: IndexFile
