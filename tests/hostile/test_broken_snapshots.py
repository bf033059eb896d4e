"""Snapshots, hints and schemas whose names and contents disagree or say nothing: a named error, or passed over."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import CorruptError, InvalidError, NotFoundError, Table, UnsupportedError
from bucketlake.ops.check.fsck import FsckRequest, fsck
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn
from bucketlake.types.model import BIGINT

ROWS = pa.table({"k": [1], "v": [1]})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = bucketlake.open(tmp_path).create_table("t", ROWS.schema)
    for _ in range(3):
        made.write_arrow(ROWS)
    return made


def snapshots(table: Table) -> Path:
    return Path(table.path) / "snapshot"


def test_a_snapshot_that_says_another_id(table: Table) -> None:
    third = snapshots(table) / "snapshot-3"
    (snapshots(table) / "snapshot-4").write_bytes(third.read_bytes())
    for action in (table.to_arrow, lambda: table.write_arrow(ROWS), lambda: table.to_arrow(scan_snapshot_id=4)):
        with pytest.raises(CorruptError, match=r"another id.*snapshot-4"):
            action()


def test_a_changelog_and_a_schema_that_say_another_id(table: Table) -> None:
    folder = Path(table.path) / "changelog"
    folder.mkdir()
    (folder / "changelog-1").write_bytes((snapshots(table) / "snapshot-2").read_bytes())
    with pytest.raises(CorruptError, match=r"another id.*changelog-1"):
        table.store.find_changelog(1)
    schema = Path(table.path) / "schema" / "schema-0"
    (schema.parent / "schema-1").write_bytes(schema.read_bytes())
    with pytest.raises(CorruptError, match=r"schema-1.*id is 0"):
        table.refresh()


@pytest.mark.parametrize("name", ["snapshot-²", "snapshot-٣", "snapshot-004", "snapshot-+4", "snapshot-" + "9" * 100])
def test_names_that_are_no_snapshots(table: Table, name: str) -> None:
    (snapshots(table) / name).write_bytes(b"junk")
    (Path(table.path) / "schema" / "schema-²").write_bytes(b"junk")
    (snapshots(table) / "LATEST").unlink()
    assert table.refresh().to_arrow().num_rows == 3
    assert table.write_arrow(ROWS).id == 4


@pytest.mark.parametrize(
    "hint", [b"9" * 5000, b"", b"\xff\xfe", "³".encode(), b"-1", b"2", b"3.0", b"99999999999999999999", b"1\n2"]
)
@pytest.mark.parametrize("which", ["LATEST", "EARLIEST"])
def test_hints_are_best_effort(table: Table, hint: bytes, which: str) -> None:
    (snapshots(table) / which).write_bytes(hint)
    assert table.store.latest_snapshot_id() == 3
    assert table.store.earliest_snapshot().id == 1
    assert table.to_arrow().num_rows == 3
    assert table.write_arrow(ROWS).id == 4


def test_a_hint_that_is_a_folder(table: Table) -> None:
    (snapshots(table) / "LATEST").unlink()
    (snapshots(table) / "LATEST").mkdir()
    assert table.write_arrow(ROWS).id == 4
    assert "hint-latest" in fsck(table.store, FsckRequest()).codes
    (Path(table.path) / "changelog" / "LATEST").mkdir(parents=True)
    (Path(table.path) / "changelog" / "changelog-1").write_bytes((snapshots(table) / "snapshot-1").read_bytes())
    assert {"hint-latest", "hint-changelog"} <= fsck(table.store, FsckRequest()).codes


@pytest.mark.parametrize("damage", ["empty", "cut", "junk", "folder", "dangling link", "link", "pipe"])
def test_a_commit_that_a_broken_snapshot_blocks_says_so(table: Table, tmp_path: Path, damage: str) -> None:
    """At once, naming it: without a pause or another try."""
    path = snapshots(table) / "snapshot-4"
    whole = (snapshots(table) / "snapshot-3").read_bytes()
    if damage == "folder":
        path.mkdir()
    elif damage == "dangling link":
        path.symlink_to(tmp_path / "nowhere")
    elif damage == "link":
        (tmp_path / "secret").write_text("secret")
        path.symlink_to(tmp_path / "secret")
    elif damage == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes({"empty": b"", "cut": whole[:100], "junk": b"[" * 10}[damage])
    with pytest.raises(CorruptError, match="snapshot-4"):
        table.write_arrow(ROWS)


def test_a_file_where_a_folder_should_be(table: Table) -> None:
    table.create_branch("b")
    (Path(table.path) / "branch" / "branch-x").mkdir()
    (Path(table.path) / "branch" / "branch-x" / "snapshot").write_bytes(b"")
    assert table.to_arrow().num_rows == 3
    for action in (
        lambda: table.expire_snapshots(retain_max=1, retain_min=1),
        lambda: fsck(table.store, FsckRequest()),
    ):
        with pytest.raises(CorruptError, match=r"a file where a folder.*branch-x/snapshot"):
            action()


@pytest.mark.parametrize("field", ["baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest"])
@pytest.mark.parametrize("value", ["../../x", "..", "a/b", ""])
def test_names_in_a_snapshot(table: Table, field: str, value: str) -> None:
    path = snapshots(table) / "snapshot-3"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(CorruptError, match="snapshot-3"):
        table.to_arrow()
    with pytest.raises(CorruptError, match="snapshot-3"):
        table.write_arrow(ROWS)


def test_a_consumer_that_says_no_number(table: Table) -> None:
    folder = Path(table.path) / "consumer"
    folder.mkdir()
    for text in ('{"nextSnapshot": "²"}', '{"nextSnapshot": null}', '{"nextSnapshot": "9' + "9" * 5000 + '"}', "[]"):
        (folder / "consumer-c").write_text(text)
        with pytest.raises(CorruptError, match="consumer-c"):
            table.store.consumers()


@pytest.mark.parametrize("name", ["snapshot/snapshot-3", "schema/schema-0", "tag/tag-v1", "consumer/consumer-c"])
def test_a_file_of_any_length_takes_no_memory(table: Table, name: str) -> None:
    table.create_tag("v1")
    table.reset_consumer("c", 2)
    os.truncate(Path(table.path) / name, 1 << 40)
    clear_cache()
    with pytest.raises(CorruptError, match=f"larger than any.*{name}"):
        again = bucketlake.open(Path(table.path).parents[1]).table("t")
        again.to_arrow()
        again.tags()
        again.consumers()


def test_json_of_any_length_is_not_read(table: Table) -> None:
    third = snapshots(table) / "snapshot-3"
    third.write_bytes(b" " * (65 << 20) + third.read_bytes())
    clear_cache()
    with pytest.raises(CorruptError, match=r"snapshot-3.*more than any file"):
        table.to_arrow()


def test_a_schema_whose_highest_id_is_too_low_gives_no_id_twice(table: Table) -> None:
    path = Path(table.path) / "schema" / "schema-0"
    path.write_text(json.dumps({**json.loads(path.read_text()), "highestFieldId": 0}))
    clear_cache()
    again = bucketlake.open(Path(table.path).parents[1]).table("t").alter(AddColumn("w", BIGINT))
    assert [field.id for field in again.schema.fields] == [0, 1, 2]
    assert again.to_arrow().to_pydict() == {"k": [1] * 3, "v": [1] * 3, "w": [None] * 3}


def test_a_damaged_name_of_an_index_manifest_is_not_handed_on(tmp_path: Path) -> None:
    """An append does not read it, and leaves nothing behind; what is whole before it can be gone back to."""
    marked = bucketlake.open(tmp_path).create_table("m", ROWS.schema, [], [], {"deletion-vectors.enabled": "true"})
    marked.write_arrow({"k": [1, 2], "v": [1, 2]})
    marked.delete("k = 2")
    path = snapshots(marked) / "snapshot-2"
    path.write_text(json.dumps({**json.loads(path.read_text()), "indexManifest": "index-manifest-other"}))
    clear_cache()
    files = sorted(place for place in tmp_path.rglob("*") if place.is_file())
    again = bucketlake.open(tmp_path).table("m")
    with pytest.raises(NotFoundError, match=r"index-manifest-other.*bucketlake fsck"):
        again.write_arrow(ROWS)
    assert sorted(place for place in tmp_path.rglob("*") if place.is_file()) == files
    again.rollback_to(1)
    assert again.write_arrow(ROWS).id == 2


def test_partition_statistics_of_another_table_name_the_manifest(tmp_path: Path) -> None:
    """The schema file of a partitioned table in the place of one without partitions."""
    catalog = bucketlake.open(tmp_path)
    table = catalog.create_table("t", ROWS.schema, [], ["k"], {"bucket": "1"})
    other = catalog.create_table("o", ROWS.schema, ["v"], ["k", "v"], {"bucket": "1"})
    table.write_arrow(ROWS)
    Path(table.path, "schema", "schema-0").write_bytes(Path(other.path, "schema", "schema-0").read_bytes())
    with pytest.raises(CorruptError, match=r"partition statistics .*file=manifest-"):
        catalog.table("t").write_arrow(ROWS)


def test_a_stored_index_of_no_column_is_named_by_updates(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    table = catalog.create_table("t", ROWS.schema, [], [], {"file-index.bloom-filter.columns": "v"})
    table.write_arrow(ROWS)
    stored = Path(table.path, "schema", "schema-0")
    tree = json.loads(stored.read_text())
    stored.write_text(json.dumps({**tree, "options": {"file-index.bloom-filter.columns": "gone"}}))
    with pytest.raises(InvalidError, match=r"Column 'gone' specified in 'file-index"):
        catalog.table("t").update({"v": 2}, "k = 1")


@pytest.mark.parametrize(
    ("field", "kind"),
    [("indexManifest", "manifest-list"), ("indexManifest", "manifest"), ("deltaManifestList", "manifest")],
)
def test_a_file_that_is_named_as_another_kind(table: Table, field: str, kind: str) -> None:
    """What this process had decoded of it was taken for what it was named as."""
    files = (Path(table.path) / "manifest").glob(f"{kind}-*-[0-9]")
    name = next(path.name for path in sorted(files) if path.name.startswith("manifest-list") is (kind != "manifest"))
    newest = snapshots(table) / "snapshot-3"
    told = json.loads(newest.read_text())
    told.pop(f"{field}Size", None)
    assert table.to_arrow().num_rows == 3
    newest.write_text(json.dumps({**told, field: name}))
    with pytest.raises((CorruptError, UnsupportedError), match=name):
        table.refresh().to_arrow()
    assert {found.code for found in table.fsck().findings} & {"manifest-list-broken", "index-manifest-broken"}
