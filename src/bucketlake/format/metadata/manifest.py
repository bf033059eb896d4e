"""Manifests and manifest lists: which data files a snapshot has, as Avro object files.

    manifest      := avro record a ManifestEntry:  _VERSION 2, _KIND, _PARTITION, _BUCKET, _TOTAL_BUCKETS, _FILE
    manifest list := avro record a ManifestFile:   _VERSION 2, _FILE_NAME, …, _PARTITION_STATS, …

Fields that an older release did not write decode as their defaults; fields of newer ones are passed over.
Spec: docs/spec/manifest.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from bucketlake.errors import CorruptError
from bucketlake.format.avro.container import Header
from bucketlake.format.avro.records import Kind, decode_records, encode_records, millis, optional, record, records_of
from bucketlake.types.wall_clock import EARLIEST_MILLIS, LATEST_MILLIS
from bucketlake.values import dataclass


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

    @property
    def stats_columns(self) -> tuple[str, ...] | None:
        """The columns that `value_stats` speaks of, None for all of its schema."""
        return self.write_cols if self.value_stats_cols is None else self.value_stats_cols


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file added to or deleted from a bucket. `partition`: BinaryRow bytes; `total_buckets`: n, -1 or -2."""

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile


@dataclass(frozen=True, slots=True)
class FileRef:
    """One file added to or deleted from a bucket, as far as it takes to find the file and to tell when it may go."""

    kind: FileKind
    partition: bytes
    bucket: int
    file_name: str
    extra_files: tuple[str, ...] = ()
    external_path: str | None = None
    creation_time: int | None = None
    file_source: FileSource | None = None
    level: int = 0

    @classmethod
    def of(cls, entry: ManifestEntry) -> FileRef:
        """What an entry refers to."""
        file = entry.file
        rest = (file.external_path, file.creation_time, file.file_source, file.level)
        return cls(entry.kind, entry.partition, entry.bucket, file.file_name, file.extra_files, *rest)


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


MANIFEST_VERSION = 2


def _stats_schema(owner: str) -> dict[str, Any]:
    fields = [
        {"name": "_MIN_VALUES", "type": "bytes"},
        {"name": "_MAX_VALUES", "type": "bytes"},
        optional("_NULL_COUNTS", {"type": "array", "items": ["null", "long"]}),
    ]
    return record(owner, fields)


def _plain(kind: str, *names: str) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind} for name in names]


_FILE_SCHEMA = record(
    "_FILE",
    [
        *_plain("string", "_FILE_NAME"),
        *_plain("long", "_FILE_SIZE", "_ROW_COUNT"),
        *_plain("bytes", "_MIN_KEY", "_MAX_KEY"),
        {"name": "_KEY_STATS", "type": _stats_schema("_FILE__KEY_STATS")},
        {"name": "_VALUE_STATS", "type": _stats_schema("_FILE__VALUE_STATS")},
        *_plain("long", "_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID"),
        *_plain("int", "_LEVEL"),
        {"name": "_EXTRA_FILES", "type": {"type": "array", "items": "string"}},
        optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
        optional("_DELETE_ROW_COUNT", "long"),
        optional("_EMBEDDED_FILE_INDEX", "bytes"),
        optional("_FILE_SOURCE", "int"),
        optional("_VALUE_STATS_COLS", {"type": "array", "items": "string"}),
        optional("_EXTERNAL_PATH", "string"),
        optional("_FIRST_ROW_ID", "long"),
        optional("_WRITE_COLS", {"type": "array", "items": "string"}),
    ],
)
MANIFEST_SCHEMA = record(
    "",
    [
        *_plain("int", "_VERSION", "_KIND"),
        *_plain("bytes", "_PARTITION"),
        *_plain("int", "_BUCKET", "_TOTAL_BUCKETS"),
        {"name": "_FILE", "type": _FILE_SCHEMA},
    ],
)
MANIFEST_LIST_SCHEMA = record(
    "",
    [
        *_plain("int", "_VERSION"),
        *_plain("string", "_FILE_NAME"),
        *_plain("long", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES"),
        {"name": "_PARTITION_STATS", "type": _stats_schema("_PARTITION_STATS")},
        *_plain("long", "_SCHEMA_ID"),
        *[optional(name, "int") for name in ("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL")],
        *[optional(name, "long") for name in ("_MIN_ROW_ID", "_MAX_ROW_ID")],
    ],
)

INT = (-(1 << 31), (1 << 31) - 1)
COUNT = (0, (1 << 62) - 1)
SIZE = (-1, (1 << 62) - 1)  # not known: 0 or -1
BUCKET = (-2, INT[1])
SEQUENCE = (-(1 << 62), 1 << 62)
RANGES = {
    "_BUCKET": BUCKET,
    "_TOTAL_BUCKETS": BUCKET,
    "_KIND": (0, 1),
    "_FILE_SIZE": SIZE,
    "_ROW_COUNT": COUNT,
    "_MIN_SEQUENCE_NUMBER": SEQUENCE,
    "_MAX_SEQUENCE_NUMBER": SEQUENCE,
    "_SCHEMA_ID": (0, INT[1]),
    "_LEVEL": (0, 1 << 16),
    "_CREATION_TIME": (EARLIEST_MILLIS, LATEST_MILLIS),
    "_DELETE_ROW_COUNT": (-1, COUNT[1]),
    "_FILE_SOURCE": (0, 1),
}
MANIFEST = Kind("a manifest", (MANIFEST_VERSION,), MANIFEST_SCHEMA, RANGES, "_FILE")
_LIST_RANGES = {
    "_FILE_SIZE": SIZE,
    "_NUM_ADDED_FILES": COUNT,
    "_NUM_DELETED_FILES": COUNT,
    "_SCHEMA_ID": (0, INT[1]),
    "_MIN_BUCKET": BUCKET,
    "_MAX_BUCKET": BUCKET,
    "_MIN_LEVEL": (-1, INT[1]),
    "_MAX_LEVEL": (-1, INT[1]),
}
MANIFEST_LIST = Kind("a manifest list", (MANIFEST_VERSION,), MANIFEST_LIST_SCHEMA, _LIST_RANGES)


def encode_manifest(entries: Iterable[ManifestEntry], compression: str = "zstd") -> bytes:
    """One manifest file of these entries, in order."""
    return encode_records(MANIFEST_SCHEMA, (_entry_record(entry) for entry in entries), compression)


def decode_manifest(data: bytes, source: str = "manifest") -> list[ManifestEntry]:
    """The entries of a manifest, in order. UnsupportedError for another version, CorruptError naming `source`."""
    return decode_records(data, source, MANIFEST, _entry)


def entries_of(plain: bytes, header: Header) -> list[ManifestEntry]:
    """As `decode_manifest`, of a file that is `unpacked`."""
    return records_of(plain, header, MANIFEST, _entry)


def encode_manifest_list(manifests: Iterable[ManifestFile], compression: str = "zstd") -> bytes:
    """One manifest list of these manifests, in order."""
    return encode_records(MANIFEST_LIST_SCHEMA, (_manifest_record(manifest) for manifest in manifests), compression)


def decode_manifest_list(data: bytes, source: str = "manifest list") -> list[ManifestFile]:
    """The manifests of a manifest list, in order. Errors as `decode_manifest`'s."""
    found = decode_records(data, source, MANIFEST_LIST, _manifest)
    for item in found:
        bounds = ((item.min_bucket, item.max_bucket), (item.min_level, item.max_level))
        if any(low is not None and high is not None and low > high for low, high in bounds):
            raise CorruptError("a manifest list has bounds that hold nothing", path=source, manifest=item.file_name)
    return found


def _stats_record(stats: SimpleStats) -> dict[str, Any]:
    counts = None if stats.null_counts is None else list(stats.null_counts)
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": counts}


def _stats(row: Mapping[str, Any]) -> SimpleStats:
    counts = row.get("_NULL_COUNTS")
    return SimpleStats(row["_MIN_VALUES"], row["_MAX_VALUES"], None if counts is None else tuple(counts))


def _entry_record(entry: ManifestEntry) -> dict[str, Any]:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": _file_record(entry.file),
    }


def _file_record(file: DataFile) -> dict[str, Any]:
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_record(file.key_stats),
        "_VALUE_STATS": _stats_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_time,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_index,
        "_FILE_SOURCE": None if file.file_source is None else int(file.file_source),
        "_VALUE_STATS_COLS": _listed(file.value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": _listed(file.write_cols),
    }


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _tupled(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _entry(row: Mapping[str, Any]) -> ManifestEntry:
    kind = FileKind(row["_KIND"])
    return ManifestEntry(kind, row["_PARTITION"], row["_BUCKET"], row["_TOTAL_BUCKETS"], _file(row["_FILE"]))


def _file(row: Mapping[str, Any]) -> DataFile:
    source = row.get("_FILE_SOURCE")
    return DataFile(
        file_name=row["_FILE_NAME"],
        file_size=row["_FILE_SIZE"],
        row_count=row["_ROW_COUNT"],
        min_key=row["_MIN_KEY"],
        max_key=row["_MAX_KEY"],
        key_stats=_stats(row["_KEY_STATS"]),
        value_stats=_stats(row["_VALUE_STATS"]),
        min_sequence_number=row["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=row["_MAX_SEQUENCE_NUMBER"],
        schema_id=row["_SCHEMA_ID"],
        level=row["_LEVEL"],
        extra_files=tuple(row["_EXTRA_FILES"]),
        creation_time=millis(row.get("_CREATION_TIME")),
        delete_row_count=row.get("_DELETE_ROW_COUNT"),
        embedded_index=row.get("_EMBEDDED_FILE_INDEX"),
        file_source=None if source is None else FileSource(source),
        value_stats_cols=_tupled(row.get("_VALUE_STATS_COLS")),
        external_path=row.get("_EXTERNAL_PATH"),
        first_row_id=row.get("_FIRST_ROW_ID"),
        write_cols=_tupled(row.get("_WRITE_COLS")),
    )


def _manifest_record(manifest: ManifestFile) -> dict[str, Any]:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": manifest.file_name,
        "_FILE_SIZE": manifest.file_size,
        "_NUM_ADDED_FILES": manifest.num_added_files,
        "_NUM_DELETED_FILES": manifest.num_deleted_files,
        "_PARTITION_STATS": _stats_record(manifest.partition_stats),
        "_SCHEMA_ID": manifest.schema_id,
        "_MIN_BUCKET": manifest.min_bucket,
        "_MAX_BUCKET": manifest.max_bucket,
        "_MIN_LEVEL": manifest.min_level,
        "_MAX_LEVEL": manifest.max_level,
        "_MIN_ROW_ID": manifest.min_row_id,
        "_MAX_ROW_ID": manifest.max_row_id,
    }


def _manifest(row: Mapping[str, Any]) -> ManifestFile:
    return ManifestFile(
        file_name=row["_FILE_NAME"],
        file_size=row["_FILE_SIZE"],
        num_added_files=row["_NUM_ADDED_FILES"],
        num_deleted_files=row["_NUM_DELETED_FILES"],
        partition_stats=_stats(row["_PARTITION_STATS"]),
        schema_id=row["_SCHEMA_ID"],
        min_bucket=row.get("_MIN_BUCKET"),
        max_bucket=row.get("_MAX_BUCKET"),
        min_level=row.get("_MIN_LEVEL"),
        max_level=row.get("_MAX_LEVEL"),
        min_row_id=row.get("_MIN_ROW_ID"),
        max_row_id=row.get("_MAX_ROW_ID"),
    )
