"""Index manifests: hash indexes and deletion vectors of a snapshot, as an Avro object file.

    index manifest := avro record an IndexEntry:  _VERSION 1, _KIND, _PARTITION, _BUCKET, _INDEX_TYPE, _FILE_NAME, …

Entries of types unknown here are carried verbatim.
Spec: docs/spec/index_manifest.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bucketlake.errors import CorruptError
from bucketlake.format.avro.records import Kind, decode_records, encode_records, optional, record
from bucketlake.format.guard import decoding
from bucketlake.format.metadata.manifest import BUCKET, COUNT, SIZE, FileKind
from bucketlake.values import dataclass

DELETION_VECTORS = "DELETION_VECTORS"
HASH = "HASH"


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


INDEX_MANIFEST_VERSION = 1

_RANGE_SCHEMA = record(
    "_DELETIONS_VECTORS_RANGES",
    [
        {"name": "f0", "type": "string"},
        {"name": "f1", "type": "int"},
        {"name": "f2", "type": "int"},
        optional("_CARDINALITY", "long"),
    ],
)
_GLOBAL_SCHEMA = record(
    "_GLOBAL_INDEX",
    [
        {"name": "_ROW_RANGE_START", "type": "long"},
        {"name": "_ROW_RANGE_END", "type": "long"},
        {"name": "_INDEX_FIELD_ID", "type": "int"},
        optional("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
        optional("_INDEX_META", "bytes"),
        optional("_SOURCE_META", "bytes"),
    ],
)
INDEX_MANIFEST_SCHEMA = record(
    "",
    [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_INDEX_TYPE", "type": "string"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_ROW_COUNT", "type": "long"},
        optional("_DELETIONS_VECTORS_RANGES", {"type": "array", "items": ["null", _RANGE_SCHEMA]}),
        optional("_EXTERNAL_PATH", "string"),
        optional("_GLOBAL_INDEX", _GLOBAL_SCHEMA),
    ],
)

_RANGES = {"_KIND": (0, 1), "_BUCKET": BUCKET, "_FILE_SIZE": SIZE, "_ROW_COUNT": COUNT}
INDEX_MANIFEST = Kind("an index manifest", (INDEX_MANIFEST_VERSION,), INDEX_MANIFEST_SCHEMA, _RANGES)


def encode_index_manifest(entries: Iterable[IndexEntry], compression: str = "zstd") -> bytes:
    """One index manifest of these entries, in order."""
    return encode_records(INDEX_MANIFEST_SCHEMA, (_record(entry) for entry in entries), compression)


def decode_index_manifest(data: bytes, source: str = "index manifest") -> list[IndexEntry]:
    """The entries of an index manifest, in order. UnsupportedError for another version, CorruptError with `source`."""
    found = decode_records(data, source, INDEX_MANIFEST, _entry)
    with decoding("not an index manifest", source):
        for entry in found:
            _check_ranges(entry.file)
    return found


def _check_ranges(file: IndexFile) -> None:
    """A vector lies inside of its index file, which begins with a version, and no data file has two."""
    if (file.index_type == "DELETION_VECTORS") != (file.dv_ranges is not None):
        raise CorruptError("an index file's type and vectors contradict each other", index=file.file_name)
    ranges = file.dv_ranges or ()
    for part in ranges:
        end = part.offset + part.length
        if part.offset < 1 or part.length < 1 or (file.file_size > 0 and end > file.file_size):
            raise CorruptError("a deletion vector lies outside of its index file", index=file.file_name)
        if part.cardinality is not None and not 0 <= part.cardinality <= COUNT[1]:
            raise CorruptError("a deletion vector of an impossible number of rows", index=file.file_name)
    if len({part.data_file_name for part in ranges}) < len(ranges):
        raise CorruptError("a data file has two deletion vectors in one index file", index=file.file_name)


def _record(entry: IndexEntry) -> dict[str, Any]:
    file = entry.file
    ranges = None
    if file.dv_ranges is not None:
        ranges = [
            {"f0": part.data_file_name, "f1": part.offset, "f2": part.length, "_CARDINALITY": part.cardinality}
            for part in file.dv_ranges
        ]
    return {
        "_VERSION": INDEX_MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": ranges,
        "_EXTERNAL_PATH": file.external_path,
        "_GLOBAL_INDEX": file.global_index,
    }


def _entry(row: Mapping[str, Any]) -> IndexEntry:
    ranges = row.get("_DELETIONS_VECTORS_RANGES")
    if ranges is None and row["_INDEX_TYPE"] == "DELETION_VECTORS" and not row["_ROW_COUNT"] and row["_FILE_SIZE"] <= 1:
        ranges = []  # no vector at all: pypaimon writes entries of others so, which had an empty list
    file = IndexFile(
        index_type=row["_INDEX_TYPE"],
        file_name=row["_FILE_NAME"],
        file_size=row["_FILE_SIZE"],
        row_count=row["_ROW_COUNT"],
        dv_ranges=None
        if ranges is None
        else tuple(
            DeletionVectorRange(part["f0"], part["f1"], part["f2"], part.get("_CARDINALITY"))
            for part in ranges
            if part is not None
        ),
        external_path=row.get("_EXTERNAL_PATH"),
        global_index=row.get("_GLOBAL_INDEX"),
    )
    return IndexEntry(FileKind(row["_KIND"]), row["_PARTITION"], row["_BUCKET"], file)
