"""Manifests and manifest lists: round trips, Paimon's own files and schemas, older and newer files, corruption."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import corpus
from tests.profile import examples

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.metadata.manifest import (
    DataFile,
    FileKind,
    FileSource,
    ManifestEntry,
    ManifestFile,
    SimpleStats,
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from bucketlake.format.metadata.manifest_columns import decode_columns
from bucketlake.format.row.binary_row import EMPTY_ROW, serialized
from bucketlake.types.model import INT

ROW = serialized([7], [INT])
STATS = SimpleStats(ROW, ROW, (0, None))
FILE = DataFile("data-a-0.parquet", 10, 5, ROW, ROW, STATS, STATS, 0, 4, 1, 0)
FULL = DataFile(
    "data-b-0.orc", 2**40, 3, EMPTY_ROW, EMPTY_ROW, SimpleStats(EMPTY_ROW, EMPTY_ROW, ()), SimpleStats(ROW, ROW, None),
    -1, 2**62, 0, 5, ("x.index", "ü"), 1_700_000_000_123, 2, b"\0\1", FileSource.COMPACT, ("a", "b"), "s3://x/y", 9, (),
)  # fmt: skip
ENTRIES = [
    ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, -1, FILE),
    ManifestEntry(FileKind.DELETE, ROW, 3, 8, FULL),
    ManifestEntry(FileKind.ADD, ROW, -2, -2, replace(FILE, delete_row_count=None, file_source=None)),
]
MANIFESTS = [
    ManifestFile("manifest-a-0", 10, 1, 2, STATS, 3, 0, 5, 0, 5, 1, 2),
    ManifestFile("manifest-b-0", 10, 0, 0, STATS, 0),
]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    return corpus.unpack(tmp_path_factory.mktemp("corpus"))


def schema_of(data: bytes) -> dict:
    return json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])


def with_schema(data: bytes, change) -> bytes:
    """The same records written under a schema that `change` made of theirs."""
    reader = fastavro.reader(io.BytesIO(data))
    schema = schema_of(data)
    rows = list(reader)
    change(schema["fields"], rows)
    sink = io.BytesIO()
    fastavro.writer(sink, schema, rows, codec="zstandard")
    return sink.getvalue()


@pytest.mark.parametrize("compression", ["zstd", "ZSTD", "snappy", "deflate", "bzip2", "xz", "none"])
def test_round_trip(compression):
    data = encode_manifest(ENTRIES, compression)
    assert decode_manifest(data) == ENTRIES
    assert decode_columns(data) == ENTRIES
    assert decode_manifest_list(encode_manifest_list(MANIFESTS, compression)) == MANIFESTS


def test_empty_files():
    assert decode_manifest(encode_manifest([])) == []
    assert decode_manifest_list(encode_manifest_list([])) == []


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
longs = st.integers(-(2**63), 2**63 - 1)
counts, sequences = st.integers(0, 2**62 - 1), st.integers(-(2**62), 2**62)
names = st.none() | st.lists(texts, max_size=3).map(tuple)
stats = st.builds(SimpleStats, st.binary(), st.binary(), st.none() | st.lists(st.none() | longs, max_size=3).map(tuple))
files = st.builds(
    DataFile,
    file_name=texts, file_size=counts, row_count=counts, min_key=st.binary(), max_key=st.binary(), key_stats=stats,
    value_stats=stats, min_sequence_number=sequences, max_sequence_number=sequences,
    schema_id=st.integers(0, 2**31 - 1), level=st.integers(0, 9), extra_files=st.lists(texts, max_size=2).map(tuple),
    creation_time=st.none() | st.integers(0, 2**41), delete_row_count=st.none() | counts,
    embedded_index=st.none() | st.binary(), file_source=st.none() | st.sampled_from(FileSource),
    value_stats_cols=names, external_path=st.none() | texts, first_row_id=st.none() | longs, write_cols=names,
)  # fmt: skip
entries = st.builds(
    ManifestEntry, st.sampled_from(FileKind), st.binary(), st.integers(-2, 2**31 - 1), st.integers(-2, 9), files
)


@given(st.lists(entries, max_size=4))
@settings(max_examples=examples(20, 480), deadline=None)
def test_any_entries_round_trip(found):
    data = encode_manifest(found)
    assert decode_manifest(data) == found
    assert decode_columns(data) in (found, None)


def test_schemas_are_those_of_paimon(warehouse):
    table = warehouse / "corpus.db" / "pk_level_0" / "manifest"
    theirs = next(table.glob("manifest-[0-9a-f]*")).read_bytes()
    assert schema_of(encode_manifest(ENTRIES)) == schema_of(theirs)
    theirs = next(table.glob("manifest-list-*")).read_bytes()
    assert schema_of(encode_manifest_list(MANIFESTS)) == schema_of(theirs)


def test_paimons_own_files_keep_their_records(warehouse):
    count = 0
    for file in sorted(warehouse.glob("corpus.db/*/manifest/manifest-*")):
        data = file.read_bytes()
        again = (
            encode_manifest_list(decode_manifest_list(data, file.name))
            if file.name.startswith("manifest-list-")
            else encode_manifest(decode_manifest(data, file.name))
        )
        assert list(fastavro.reader(io.BytesIO(again))) == list(fastavro.reader(io.BytesIO(data))), file
        count += 1
    assert count > 500


def test_fields_that_older_releases_did_not_write_take_their_defaults():
    def older(fields, rows):
        file = next(field for field in fields if field["name"] == "_FILE")["type"]
        file["fields"] = file["fields"][:12]

    found = decode_manifest(with_schema(encode_manifest([ENTRIES[1]]), older))[0].file
    plain = (None, None, None, None, None, None, None, None)
    assert (found.creation_time, found.delete_row_count, found.embedded_index, found.file_source) == plain[:4]
    assert (found.value_stats_cols, found.external_path, found.first_row_id, found.write_cols) == plain[4:]

    def shorter(fields, rows):
        del fields[-6:]

    assert decode_manifest_list(with_schema(encode_manifest_list(MANIFESTS), shorter))[0] == replace(
        MANIFESTS[0], min_bucket=None, max_bucket=None, min_level=None, max_level=None, min_row_id=None, max_row_id=None
    )


def test_fields_of_newer_releases_are_passed_over():
    def newer(fields, rows):
        fields.append({"name": "_NEW", "type": ["null", "long"], "default": None})

    assert decode_manifest(with_schema(encode_manifest(ENTRIES), newer)) == ENTRIES


@pytest.mark.parametrize(
    ("encode", "decode"), [(encode_manifest, decode_manifest), (encode_manifest_list, decode_manifest_list)]
)
def test_other_versions_are_refused_by_name(encode, decode):
    def version_three(fields, rows):
        for row in rows:
            row["_VERSION"] = 3

    data = with_schema(encode(ENTRIES if encode is encode_manifest else MANIFESTS), version_three)
    with pytest.raises(UnsupportedError, match=r"path=m-1.*version=3"):
        decode(data, "m-1")


WHOLE = encode_manifest(ENTRIES)


@pytest.mark.parametrize(
    "data",
    [b"", b"Obj\x01", b"PAR1", WHOLE[:-1], WHOLE[:-40], WHOLE[: len(WHOLE) // 2], WHOLE[:100], WHOLE + b"x"],
    ids=["empty", "head", "parquet", "cut-1", "cut-40", "half", "start", "longer"],
)
def test_what_is_no_manifest_is_corrupt(data):
    with pytest.raises(CorruptError, match="m-1"):
        decode_manifest(data, "m-1")


@given(st.sampled_from(["zstd", "none", "snappy", "deflate", "bzip2", "xz"]), st.data())
@settings(max_examples=examples(100, 2400), deadline=None)
def test_damage_is_noticed_or_harmless(compression, data):
    whole = bytearray(encode_manifest(ENTRIES, compression))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    try:
        decode_manifest(bytes(whole), "m-1")
    except (CorruptError, UnsupportedError) as error:
        assert "m-1" in str(error) or "codec" in str(error)


def test_a_manifest_list_is_no_manifest():
    with pytest.raises(CorruptError, match="m-1"):
        decode_manifest(encode_manifest_list(MANIFESTS), "m-1")


def test_unknown_compressions_are_refused():
    with pytest.raises(UnsupportedError, match=r"manifest.compression.*lzo.*or null"):
        encode_manifest(ENTRIES, "lzo")
