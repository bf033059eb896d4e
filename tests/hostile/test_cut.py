"""Files cut short, and counts that are not so: never fewer rows in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bucketlake
from bucketlake import CorruptError, Table
from bucketlake.format.index.hash_index import verify
from bucketlake.format.index.index_manifest import decode_index_manifest, encode_index_manifest
from bucketlake.format.metadata.manifest import (
    ManifestEntry,
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from bucketlake.ops.table.store import clear_cache

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
MARKED = {"bucket": "-1", "deletion-vectors.enabled": "true"}


@pytest.fixture(autouse=True)
def fresh() -> None:
    clear_cache()


def made(folder: Path, keys: tuple[str, ...] = ("k",), step: int = 50, **options: str) -> Table:
    table = bucketlake.open(folder).create_table("t", SCHEMA, [], list(keys), options)
    for start in (0, step):
        table.write_arrow(pa.table({"k": range(start, start + 50), "v": ["x"] * 50}, schema=SCHEMA))
    return table


def only(table: Table, pattern: str) -> Path:
    return sorted(Path(table.path).glob(pattern))[-1]


def rewritten(table: Table, change: Callable[[ManifestEntry], ManifestEntry]) -> None:
    """Change all entries, and forget what is recorded of metadata files, as old releases did."""
    for path in Path(table.path).glob("manifest/manifest-*"):
        data = path.read_bytes()
        if path.name.startswith("manifest-list-"):
            path.write_bytes(encode_manifest_list([replace(m, file_size=-1) for m in decode_manifest_list(data)]))
        else:
            path.write_bytes(encode_manifest([change(entry) for entry in decode_manifest(data)]))
    for path in Path(table.path).glob("snapshot/snapshot-*"):
        tree = json.loads(path.read_text())
        path.write_text(json.dumps({key: value for key, value in tree.items() if not key.endswith("Size")}))
    clear_cache()


def cut_after_header(path: Path) -> None:
    """The sync marker that ends an avro file ends its header too."""
    data = path.read_bytes()
    path.write_bytes(data[: data.index(data[-16:]) + 16])
    clear_cache()


@pytest.mark.parametrize("pattern", ["delta", "manifest/manifest-[!l]*", "bucket-*/*.avro"])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_file_cut_after_its_header_is_not_empty(tmp_path: Path, pattern: str, recorded: bool) -> None:
    table = made(tmp_path, bucket="1", **{"file.format": "avro"})
    if not recorded:
        rewritten(table, lambda entry: replace(entry, file=replace(entry.file, file_size=0)))
    assert table.to_arrow().num_rows == 100
    newest = table.latest_snapshot()
    assert newest is not None
    path = only(table, f"manifest/{newest.delta_manifest_list}" if pattern == "delta" else pattern)
    cut_after_header(path)
    with pytest.raises(CorruptError, match=path.name):
        table.to_arrow()


def test_an_index_manifest_cut_after_its_header_does_not_bring_rows_back(tmp_path: Path) -> None:
    table = made(tmp_path, (), **MARKED)
    table.delete("k IN (1, 2, 70)")
    path = only(table, "manifest/index-manifest-*")
    cut_after_header(path)
    with pytest.raises(CorruptError, match=path.name):
        table.to_arrow()


def test_a_vector_of_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    table = made(tmp_path, (), **MARKED)
    table.delete("k IN (1, 2, 70)")
    path = only(table, "manifest/index-manifest-*")
    (entry,) = decode_index_manifest(path.read_bytes())
    ranges = tuple(replace(part, data_file_name=f"x{part.data_file_name}") for part in entry.file.dv_ranges or ())
    path.write_bytes(encode_index_manifest([replace(entry, file=replace(entry.file, dv_ranges=ranges))]))
    clear_cache()
    with pytest.raises(CorruptError, match=path.name):
        table.to_arrow()


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("field", ["row_count", "file_size"])
def test_a_data_file_is_what_its_manifest_says(tmp_path: Path, format: str, field: str) -> None:
    table = made(tmp_path, bucket="1", **{"file.format": format})
    rewritten(table, lambda e: replace(e, file=replace(e.file, **{field: getattr(e.file, field) + 1})))
    with pytest.raises(CorruptError, match="data-"):
        table.to_arrow()


def test_an_impossible_row_count_with_a_vector_takes_no_memory(tmp_path: Path) -> None:
    table = made(tmp_path, (), **MARKED)
    table.delete("k IN (1, 2, 70)")
    rewritten(table, lambda entry: replace(entry, file=replace(entry.file, row_count=1 << 40)))
    with pytest.raises(CorruptError, match="data-"):
        table.to_arrow()


def test_compaction_compares_keys_with_the_hash_index(tmp_path: Path) -> None:
    table = made(tmp_path, step=25, bucket="-1")
    (entry,) = table.store.index_manifest(table.latest_snapshot())
    path = only(table, f"index/{entry.file.file_name}")
    data = bytearray(path.read_bytes())
    data[10] ^= 4
    path.write_bytes(data)
    with pytest.raises(CorruptError, match=path.name):
        table.compact()
    assert table.to_arrow().num_rows == 75


def test_changes_of_rows_find_their_keys_in_the_hash_index(tmp_path: Path) -> None:
    """A key that its index lacks would go to another bucket: deleted there, and still here; updated there, and twice."""
    table = made(tmp_path, step=25, bucket="-1", **{"dynamic-bucket.target-row-num": "20"})
    for path in Path(table.path).glob("index/index-*"):
        data = bytearray(path.read_bytes())
        data[10] ^= 4
        path.write_bytes(data)
    clear_cache()
    files = sorted(Path(table.path).glob("bucket-*/*"))
    for change in (lambda: table.delete("true AND k >= 0"), lambda: table.update({"v": "y"}, "k >= 0")):
        with pytest.raises(CorruptError, match="lacks keys of rows that are there"):
            change()
    assert sorted(Path(table.path).glob("bucket-*/*")) == files
    assert sorted(table.to_arrow().column("v").to_pylist()) == ["x"] * 75
    table.write_arrow(table.to_arrow(), mode="overwrite")
    table.delete("k >= 5")
    assert sorted(table.to_arrow().column("k").to_pylist()) == [0, 1, 2, 3, 4]


def test_verify_tells_the_hashes_that_lack() -> None:
    known = np.array([-5, 1, 9], np.int32)
    assert verify(known, np.array([9, -5, 1], np.int32)).tolist() == []
    assert verify(known, np.array([9, 10, -6], np.int32)).tolist() == [-6, 10]
    assert verify(known[:0], np.array([3], np.int32)).tolist() == [3]


def test_a_snapshot_under_the_name_of_another(tmp_path: Path) -> None:
    table = made(tmp_path, bucket="1")
    newest = Path(table.path, "snapshot", "snapshot-2")
    newest.write_bytes(Path(table.path, "snapshot", "snapshot-1").read_bytes())
    with pytest.raises(CorruptError, match="snapshot-2"):
        table.to_arrow()
    newest.rename(newest.with_name("snapshot-²"))
    Path(table.path, "snapshot", "LATEST").write_text("9" * 5000)
    assert table.to_arrow().num_rows == 50
