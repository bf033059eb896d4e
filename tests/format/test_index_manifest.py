"""Index manifests: round trips, Paimon's own files and schema, entries of unknown types."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from tests import corpus

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.index.index_manifest import (
    DeletionVectorRange,
    IndexEntry,
    IndexFile,
    decode_index_manifest,
    encode_index_manifest,
)
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.format.row.binary_row import EMPTY_ROW

GLOBAL = {
    "_ROW_RANGE_START": 1,
    "_ROW_RANGE_END": 9,
    "_INDEX_FIELD_ID": 2,
    "_EXTRA_FIELD_IDS": [3, 4],
    "_INDEX_META": b"\0\1",
    "_SOURCE_META": None,
}
ENTRIES = [
    IndexEntry(FileKind.ADD, EMPTY_ROW, 0, IndexFile("HASH", "index-a-0", 20, 5)),
    IndexEntry(
        FileKind.DELETE,
        EMPTY_ROW,
        3,
        IndexFile(
            "DELETION_VECTORS",
            "index-b-0",
            2**40,
            2,
            (DeletionVectorRange("data-a-0.parquet", 1, 22, 7), DeletionVectorRange("data-b-0.parquet", 23, 9, None)),
            "s3://x/index-b-0",
        ),
    ),
    IndexEntry(FileKind.ADD, EMPTY_ROW, 1, IndexFile("lumina-vector-ann", "index-c-0", 1, 1, None, None, GLOBAL)),
    IndexEntry(FileKind.ADD, EMPTY_ROW, 1, IndexFile("DELETION_VECTORS", "index-d-0", 1, 0, ())),
]


def test_round_trip_with_unknown_types_verbatim():
    assert decode_index_manifest(encode_index_manifest(ENTRIES)) == ENTRIES
    assert decode_index_manifest(encode_index_manifest([], "none")) == []


def test_paimons_own_files_and_schema(tmp_path):
    found = sorted(corpus.unpack(tmp_path).glob("corpus.db/*/manifest/index-manifest-*"))
    assert found
    for file in found:
        data = file.read_bytes()
        entries = decode_index_manifest(data, file.name)
        again = encode_index_manifest(entries)
        theirs, ours = fastavro.reader(io.BytesIO(data)), fastavro.reader(io.BytesIO(again))
        assert json.loads(ours.metadata["avro.schema"]) == json.loads(theirs.metadata["avro.schema"])
        assert list(ours) == list(theirs)
        assert {entry.file.index_type for entry in entries} <= {"HASH", "DELETION_VECTORS"}


def test_other_versions_and_damage_are_named():
    whole = encode_index_manifest(ENTRIES, "none")
    with pytest.raises(CorruptError, match="im-1"):
        decode_index_manifest(whole[:-30], "im-1")
    reader = fastavro.reader(io.BytesIO(whole))
    schema, rows = json.loads(reader.metadata["avro.schema"]), [{**row, "_VERSION": 2} for row in reader]
    sink = io.BytesIO()
    fastavro.writer(sink, schema, rows)
    with pytest.raises(UnsupportedError, match=r"im-1.*version=2"):
        decode_index_manifest(sink.getvalue(), "im-1")


def test_pypaimon_writes_null_where_an_index_file_has_no_vector():
    """Of an entry that it carries along. Where there are vectors, null is damage."""
    for size, count, fine in ((1, 0, True), (31, 1, False), (31, 0, False), (1, 1, False)):
        written = IndexFile("DELETION_VECTORS", "index-d-0", size, count, None)
        data = encode_index_manifest([IndexEntry(FileKind.ADD, EMPTY_ROW, 1, written)])
        if fine:
            assert decode_index_manifest(data)[0].file.dv_ranges == ()
            continue
        with pytest.raises(CorruptError, match="contradict"):
            decode_index_manifest(data)
