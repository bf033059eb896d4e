"""Snapshot files: Paimon's own bytes, unknown fields, versions, corruption."""

from __future__ import annotations

import json

import pytest
from tests import corpus

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.metadata.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
)

SNAPSHOT = Snapshot(
    id=7,
    schema_id=1,
    base_manifest_list="manifest-list-a-0",
    delta_manifest_list="manifest-list-a-1",
    commit_user="me",
    commit_identifier=BATCH_COMMIT_IDENTIFIER,
    commit_kind=CommitKind.OVERWRITE,
    time_millis=1_700_000_000_000,
    total_record_count=10,
    delta_record_count=-3,
    uuid="u",
    base_manifest_list_size=1,
    delta_manifest_list_size=2,
    changelog_manifest_list="manifest-list-a-2",
    changelog_manifest_list_size=3,
    changelog_record_count=4,
    index_manifest="index-manifest-b-0",
    watermark=-(2**63),
    statistics="stat-c-0",
    properties={"k": "ä/v"},
    next_row_id=0,
    operation="WRITE",
)
MINIMAL = {
    "version": 3,
    "id": 1,
    "schemaId": 0,
    "baseManifestList": "b",
    "deltaManifestList": "d",
    "commitUser": "u",
    "commitIdentifier": 1,
    "commitKind": "APPEND",
    "timeMillis": 5,
    "totalRecordCount": 1,
    "deltaRecordCount": 1,
}


def test_bytes_of_a_snapshot_with_every_field():
    assert (
        encode_snapshot(SNAPSHOT).decode()
        == """{
  "version" : 3,
  "uuid" : "u",
  "id" : 7,
  "schemaId" : 1,
  "baseManifestList" : "manifest-list-a-0",
  "baseManifestListSize" : 1,
  "deltaManifestList" : "manifest-list-a-1",
  "deltaManifestListSize" : 2,
  "changelogManifestList" : "manifest-list-a-2",
  "changelogManifestListSize" : 3,
  "indexManifest" : "index-manifest-b-0",
  "commitUser" : "me",
  "commitIdentifier" : 9223372036854775807,
  "commitKind" : "OVERWRITE",
  "timeMillis" : 1700000000000,
  "totalRecordCount" : 10,
  "deltaRecordCount" : -3,
  "changelogRecordCount" : 4,
  "watermark" : -9223372036854775808,
  "statistics" : "stat-c-0",
  "properties" : {
    "k" : "ä/v"
  },
  "nextRowId" : 0,
  "operation" : "WRITE"
}"""
    )
    assert decode_snapshot(encode_snapshot(SNAPSHOT)) == SNAPSHOT


def test_absent_fields_are_left_out():
    found = decode_snapshot(json.dumps(MINIMAL).encode())
    assert (found.uuid, found.properties, found.watermark) == (None, None, None)
    assert json.loads(encode_snapshot(found)) == MINIMAL


def test_unknown_fields_are_carried():
    found = decode_snapshot(json.dumps({**MINIMAL, "tagCreateTime": [2024, 1], "future": {"a": 1}}).encode())
    assert found.unknown == {"tagCreateTime": [2024, 1], "future": {"a": 1}}
    assert json.loads(encode_snapshot(found))["future"] == {"a": 1}


def test_nobody_may_have_committed():
    found = decode_snapshot(json.dumps({**MINIMAL, "commitUser": ""}).encode())
    assert found.commit_user == "" and decode_snapshot(encode_snapshot(found)) == found


def test_newer_versions_are_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"snapshot-9.*version=4"):
        decode_snapshot(json.dumps({**MINIMAL, "version": 4}).encode(), "snapshot-9")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"\xff\xfe",
        json.dumps({**MINIMAL, "commitKind": "MAGIC"}).encode(),
        json.dumps({k: v for k, v in MINIMAL.items() if k != "baseManifestList"}).encode(),
        json.dumps({**MINIMAL, "id": "one"}).encode(),
    ],
)
def test_what_is_no_snapshot_is_corrupt(data):
    with pytest.raises(CorruptError, match="snapshot-9"):
        decode_snapshot(data, "snapshot-9")


def test_paimons_own_snapshots_keep_their_bytes(tmp_path):
    warehouse = corpus.unpack(tmp_path)
    files = sorted(warehouse.glob("corpus.db/*/snapshot/snapshot-*"))
    assert len(files) > 100
    for file in files:
        data = file.read_bytes()
        found = decode_snapshot(data, file.name)
        assert not found.unknown, file
        assert encode_snapshot(found) == data, file
