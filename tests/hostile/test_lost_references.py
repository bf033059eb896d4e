"""Orphan removal over damaged metadata: a file that was live goes only where nothing could tell that it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.hostile.test_cut import rewritten

import bucketlake
from bucketlake import CorruptError, Table
from bucketlake.format.metadata.manifest import (
    FileKind,
    ManifestEntry,
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.table.store import clear_cache

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "compaction.min.file-num": "2"}
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def made(folder: Path, *keys: str, **options: str) -> Table:
    options = {"bucket": "1" if keys else "-1", **options}
    table = bucketlake.open(folder).create_table("t", SCHEMA, [], list(keys), options)
    for start in (0, 10):
        table.write_arrow(pa.table({"k": range(start, start + 10), "v": ["x"] * 10}, schema=SCHEMA))
    clear_cache()
    return table


def files(table: Table) -> list[Path]:
    return sorted(path for path in Path(table.path).rglob("*") if path.is_file())


def edited(table: Table, change: Callable[[list[ManifestEntry]], list[ManifestEntry]]) -> None:
    """Change the first manifest that deletes files, and what manifest lists record of it."""
    store = table.store
    listed = next(m for m in store.data_manifests(store.latest_snapshot()) if m.num_deleted_files)
    path = Path(store.paths.manifest(listed.file_name))
    entries = change(decode_manifest(path.read_bytes()))
    path.write_bytes(encode_manifest(entries))
    added = sum(entry.kind is FileKind.ADD for entry in entries)
    counts = {"num_added_files": added, "num_deleted_files": len(entries) - added}
    for found in Path(table.path).glob("manifest/manifest-list-*"):
        lists = decode_manifest_list(found.read_bytes())
        lists = [replace(one, **counts) if one.file_name == listed.file_name else one for one in lists]
        found.write_bytes(encode_manifest_list(lists))
    rewritten(table, lambda entry: entry)  # whatever lengths are recorded


def test_a_newest_snapshot_that_is_lost_keeps_its_files(tmp_path: Path) -> None:
    table = made(tmp_path)
    newest = table.latest_snapshot()
    Path(table.path, "snapshot", f"snapshot-{newest.id}").unlink()
    clear_cache()
    before = files(table)
    with pytest.raises(CorruptError, match="names a newest snapshot that is not there") as raised:
        remove_orphans(table.store, 1 << 60)
    assert raised.value.details["snapshot"] == newest.id
    assert files(table) == before
    found = [one.cause for one in table.fsck().findings if one.code == "hint-latest"]
    assert [f"snapshot-{newest.id} is lost" in cause for cause in found] == [True]
    Path(table.path, "snapshot", "LATEST").write_text(str(newest.id - 1))
    remove_orphans(table.store, 1 << 60)
    assert table.refresh().to_arrow().num_rows == 10
    assert len(files(table)) < len(before)


@pytest.mark.parametrize("damage", ["a deletion twice", "an addition lost"])
def test_a_deletion_of_what_was_not_added_keeps_all_files(tmp_path: Path, damage: str) -> None:
    """The file has come to another level, under its own name: counted by names alone it would be gone."""
    table = made(tmp_path, "k")
    if damage == "an addition lost":
        table.compact(full=True)
        table.write_arrow(pa.table({"k": [1], "v": ["y"]}, schema=SCHEMA))
    table.compact(full=True)

    def change(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        gone = [entry for entry in entries if entry.kind is FileKind.DELETE]
        return gone if damage == "an addition lost" else entries + gone[:1]

    edited(table, change)
    before = files(table)
    with pytest.raises(CorruptError, match="delete files that they have not added"):
        remove_orphans(table.store, 1 << 60)
    assert files(table) == before


@pytest.mark.parametrize("columns", [(), ("nope",)])
def test_a_file_of_columns_that_its_schema_has_not(tmp_path: Path, columns: tuple[str, ...]) -> None:
    table = made(tmp_path, **EVOLVING)
    rewritten(table, lambda entry: replace(entry, file=replace(entry.file, write_cols=columns)))
    for call in (table.to_arrow, table.compact, lambda: table.update({"v": "y"}, "k = 1")):
        with pytest.raises(CorruptError, match="says that a file has columns which its schema has not"):
            call()


@pytest.mark.parametrize("whole", [False, True], ids=["entry", "manifest"])
def test_a_file_that_is_added_twice_may_be_told_of_in_the_place_of_another(tmp_path: Path, whole: bool) -> None:
    """The name that a damaged entry had before was taken for an orphan's."""
    table = made(tmp_path, **{"write-only": "true"})
    store = table.store
    first, second = (Path(store.paths.manifest(m.file_name)) for m in store.data_manifests(store.latest_snapshot()))
    (one,), (two,) = decode_manifest(first.read_bytes()), decode_manifest(second.read_bytes())
    second.write_bytes(encode_manifest([replace(two, file=replace(two.file, file_name=one.file.file_name))]))
    if whole:
        for path in Path(table.path).glob("manifest/manifest-list-*"):
            lists = [replace(m, file_name=first.name) for m in decode_manifest_list(path.read_bytes())]
            path.write_bytes(encode_manifest_list(lists))
    rewritten(table, lambda entry: entry)
    before = files(table)
    with pytest.raises(CorruptError, match=r"manifests add a file twice.*snapshot-2"):
        remove_orphans(table.store, 2**62)
    assert files(table) == before


def test_a_file_that_is_added_twice_is_seen_behind_a_snapshot_that_deletes_it(tmp_path: Path) -> None:
    table = made(tmp_path, **{"write-only": "true"})
    table.write_arrow(pa.table({"k": range(20, 30), "v": ["x"] * 10}, schema=SCHEMA))
    clear_cache()
    store = table.store
    paths = [Path(store.paths.manifest(m.file_name)) for m in store.data_manifests(store.latest_snapshot())]
    (one,), (two,), (three,) = (decode_manifest(path.read_bytes()) for path in paths)
    paths[1].write_bytes(encode_manifest([replace(two, file=replace(two.file, file_name=one.file.file_name))]))
    paths[2].write_bytes(encode_manifest([three, replace(one, kind=FileKind.DELETE)]))
    for path in Path(table.path).glob("manifest/manifest-list-*"):
        lists = decode_manifest_list(path.read_bytes())
        lists = [replace(m, num_deleted_files=1) if m.file_name == paths[2].name else m for m in lists]
        path.write_bytes(encode_manifest_list(lists))
    rewritten(table, lambda entry: entry)
    before = files(table)
    with pytest.raises(CorruptError, match=r"manifests add a file twice.*snapshot-2"):
        remove_orphans(table.store, 2**62)
    assert files(table) == before
