"""Changelog files that Flink merged (`precommit-compact`), made here of those of three buckets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import Table
from bucketlake.errors import CorruptError
from bucketlake.format.data.pieces import Piece, piece_of
from bucketlake.format.metadata.manifest import encode_manifest, encode_manifest_list
from bucketlake.format.metadata.snapshot import encode_snapshot
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.table.store import clear_cache

SCHEMA = pa.schema([pa.field("p", pa.int32()), pa.field("k", pa.int64()), pa.field("v", pa.string())])
FORMATS = pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
BETWEEN = {"incremental-between": "0,1", "incremental-between-scan-mode": "changelog"}


def made(folder: Path, form: str, lie: int = 0) -> Table:
    """A table of which each partition's changelog files are one; its first piece tells `lie` more bytes than it has."""
    options = {"bucket": "3", "changelog-producer": "input", "changelog-file.format": form}
    table = bucketlake.open(folder).create_table("t", SCHEMA, ["p"], ["p", "k"], options)
    rows = [(p, k, f"{p}-{k}") for p in (1, 2) for k in range(20)]
    table.write_arrow(pa.table(dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True)), schema=SCHEMA))
    store = table.store
    snapshot = store.snapshot(1)
    assert snapshot.changelog_manifest_list is not None
    (listed,) = store.manifest_list(snapshot.changelog_manifest_list)
    whole: dict[bytes, tuple[str, int, Path]] = {}
    entries = []
    for number, entry in enumerate(sorted(store.manifest(listed), key=lambda entry: (entry.partition, entry.bucket))):
        folder = Path(store.paths.bucket_dir(entry.partition, entry.bucket))
        data, length = (folder / entry.file.file_name).read_bytes(), entry.file.file_size + lie
        (folder / entry.file.file_name).unlink()
        if entry.partition not in whole:
            name = f"compacted-changelog-x{number}${entry.bucket}-{length}"
            whole[entry.partition] = (name, entry.bucket, folder / f"{name}.cc-{form}")
            name = f"{name}.cc-{form}"
        else:
            name, _, place = whole[entry.partition]
            name = f"{name}-{place.stat().st_size}-{length}.cc-{form}"
        with whole[entry.partition][2].open("ab") as file:
            file.write(data)
        entries.append(replace(entry, file=replace(entry.file, file_name=name, file_size=length)))
    manifest, listing = encode_manifest(entries), "manifest-list-merged-0"
    store.env.storage.write(store.paths.manifest("manifest-merged-0"), manifest)
    made = encode_manifest_list([replace(listed, file_name="manifest-merged-0", file_size=len(manifest))])
    store.env.storage.write(store.paths.manifest(listing), made)
    changed = replace(snapshot, changelog_manifest_list=listing, changelog_manifest_list_size=len(made))
    store.env.storage.write(store.paths.snapshot(1), encode_snapshot(changed))
    clear_cache()
    remove_orphans(store, 1 << 60)  # the manifest and the list that were
    return table


@FORMATS
def test_their_rows_are_read(tmp_path: Path, form: str) -> None:
    table = made(tmp_path, form)
    names = sorted(path.name for path in Path(table.path).rglob("compacted-*"))
    assert len(names) == 2 and all(name.count("-") == 4 for name in names)
    changes = bucketlake.open(tmp_path).table("t$audit_log").to_arrow(**BETWEEN)
    expected = sorted((p, k, f"{p}-{k}") for p in (1, 2) for k in range(20))
    assert sorted((row["p"], row["k"], row["v"]) for row in changes.to_pylist()) == expected
    assert [table.fsck(level).findings for level in ("metadata", "footers", "rows")] == [(), (), ()]
    (Path(table.path) / "p=1/bucket-0/compacted-changelog-y$0-9.cc-parquet").write_bytes(b"1")
    assert remove_orphans(table.store, 1 << 60).count == 1


@FORMATS
def test_what_is_lost_or_lies_is_told(tmp_path: Path, form: str) -> None:
    table = made(tmp_path / "lies", form, lie=1 << 40)
    with pytest.raises(CorruptError):
        bucketlake.open(tmp_path / "lies").table("t$audit_log").to_arrow(**BETWEEN)
    assert {finding.code for finding in table.fsck("rows").findings} == {"changelog-file-broken"}
    table = made(tmp_path / "lost", form)
    next(Path(table.path).glob("p=1/*/compacted-*")).unlink()
    assert {finding.code for finding in table.fsck().findings} == {"changelog-file-missing"}


def test_no_piece_leads_out_of_the_folders_of_a_table(tmp_path: Path) -> None:
    """What lies beside the folder that is named is looked at as what is named itself."""
    table = made(tmp_path, "parquet")
    (listed,) = table.store.manifest_list(table.store.snapshot(1).delta_manifest_list)
    (entry, *_) = table.store.manifest(listed)
    name = "compacted-changelog-x$0-9-0-9.cc-parquet"
    for folder, leads_out in ((table.path, True), (f"{table.path}/bucket-1", False)):
        file = replace(entry.file, file_name=name, external_path=f"{folder}/{name}")
        if leads_out:
            with pytest.raises(CorruptError, match="outside of the table"):
                table.store.paths.file_path("", file)
        else:
            found = table.store.paths.file_path("", file)
            assert found == f"{table.path}/bucket-0/compacted-changelog-x$0-9.cc-parquet"


def test_they_go_with_their_snapshot(tmp_path: Path) -> None:
    table = made(tmp_path, "parquet")
    table.write_arrow(pa.table({"p": [1], "k": [1], "v": ["x"]}, schema=SCHEMA))
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert not list(Path(table.path).rglob("compacted-*"))
    assert remove_orphans(table.store, 1 << 60, dry_run=True).count == 0 and table.fsck().findings == ()


@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("compacted-changelog-a-b$3-10.cc-orc", Piece("compacted-changelog-a-b$3-10.cc-orc", 3, 0, 10)),
        ("compacted-changelog-a-b$3-10-10-7.cc-orc", Piece("compacted-changelog-a-b$3-10.cc-orc", 3, 10, 7)),
        ("data-a-b$3-10-10-7.cc-orc", None),
        ("compacted-changelog-a$3-10-10.cc-orc", None),
        ("compacted-changelog-a$../x-10-10-7.cc-orc", None),
        ("compacted-changelog-a$3-٣.cc-orc", None),
        ("compacted-changelog-a$3-10.orc", None),
    ],
)
def test_names(name: str, piece: Piece | None) -> None:
    assert piece_of(name) == piece
