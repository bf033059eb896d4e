"""Manifests and manifest lists: which data files a snapshot has. Spec: docs/spec/manifest.md"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class FileKind(IntEnum):
    """What a manifest entry does to its file."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """Which kind of write made a data file."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minimum and maximum as BinaryRow bytes (with the 4-byte arity header, as stored), null counts per column."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class DataFile:
    """One live or once-live data file. `min_key`, `max_key`: BinaryRow bytes of the trimmed primary key, exact.
    `creation_time`: epoch milliseconds of the local wall clock, as Paimon stores it. Sizes in bytes."""

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    delete_row_count: int | None = 0
    embedded_index: bytes | None = None
    file_source: FileSource | None = FileSource.APPEND
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file added to or deleted from a bucket. `partition`: BinaryRow bytes; `total_buckets`: n, -1 or -2."""

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One manifest as a manifest list names it, with what prunes it. `partition_stats` over partition columns."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
