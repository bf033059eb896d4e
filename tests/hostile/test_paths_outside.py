"""Forged tables whose files name, or lead by links to, what lies outside of their folder: nothing there is read, written
or removed, whatever is done with the table."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import BucketlakeError, Catalog, CorruptError, InvalidError, Table
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.env.object_store import ObjectStorage, open_env, storage_for
from bucketlake.errors import UnsupportedError
from bucketlake.format.index.index_manifest import IndexEntry, IndexFile, encode_index_manifest
from bucketlake.format.metadata.manifest import (
    DataFile,
    FileKind,
    ManifestEntry,
    ManifestFile,
    encode_manifest,
    encode_manifest_list,
)
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot, encode_snapshot
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import SetOption
from bucketlake.table import open_table

ROWS = pa.table({"p": ["a"], "k": [1], "v": [1]})
SECRET = b"not yours"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return bucketlake.open(tmp_path / "wh")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    options = {"bucket": "1", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    made = catalog.create_table("t", ROWS.schema, ["p"], ["p", "k"], options)
    made.write_arrow(ROWS)
    return made


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "outside" / "x"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


def forged(table: Table, change: Callable[[DataFile], DataFile], kinds: Sequence[FileKind]) -> None:
    """Publish a snapshot whose only new entries are of a file that `change` made, with manifests written by hand."""
    store = table.store
    last = store.latest_snapshot()
    assert last is not None
    entry = store.manifest(store.data_manifests(last)[-1].file_name)[0]
    entries = [ManifestEntry(kind, entry.partition, 0, 1, change(entry.file)) for kind in kinds]
    _publish(table, last, entries, [])


def _publish(table: Table, last: Snapshot, entries: list[ManifestEntry], indexes: list[IndexEntry]) -> None:
    folder = Path(table.path) / "manifest"
    number = last.id + 1
    forged = encode_manifest(entries)
    (folder / f"forged-{number}").write_bytes(forged)
    known = table.store.data_manifests(last)[-1]
    added = sum(entry.kind == FileKind.ADD for entry in entries)
    listed = ManifestFile(f"forged-{number}", len(forged), added, len(entries) - added, known.partition_stats, 0)
    (folder / f"forged-list-{number}").write_bytes(encode_manifest_list(table.store.data_manifests(last)))
    (folder / f"forged-empty-{number}").write_bytes(encode_manifest_list([listed]))
    if indexes:
        (folder / f"forged-index-{number}").write_bytes(encode_index_manifest(indexes))
    snapshot = replace(
        last,
        id=number,
        base_manifest_list=f"forged-list-{number}",
        base_manifest_list_size=None,
        delta_manifest_list_size=None,
        delta_manifest_list=f"forged-empty-{number}",
        index_manifest=f"forged-index-{number}" if indexes else None,
        commit_kind=CommitKind.COMPACT,
    )
    (Path(table.path) / "snapshot" / f"snapshot-{number}").write_bytes(encode_snapshot(snapshot))
    clear_cache()


def use(table: Table) -> list[BucketlakeError]:
    """Everything that a victim may do with a table; the errors, which are ours and name a file."""
    actions: list[Callable[[], object]] = [
        table.to_arrow,
        table.files,
        lambda: table.write_arrow(ROWS),
        lambda: table.write_arrow(ROWS, mode="overwrite"),
        lambda: table.delete("k = 1"),
        table.compact,
        lambda: table.expire_snapshots(retain_max=1, retain_min=1),
        lambda: remove_orphans(table.store, 1 << 60),
    ]
    found = []
    for action in actions:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                action()
        except BucketlakeError as error:
            found.append(error)
    return found


def folders(path: Path) -> set[str]:
    return {str(inner.relative_to(path)) for inner in path.rglob("*")}


FORGED = {
    "file name": lambda file, path: replace(file, file_name=f"../../../../../outside/{path.name}"),
    "absolute file name": lambda file, path: replace(file, file_name=str(path)),
    "file name ..": lambda file, path: replace(file, file_name=".."),
    "extra file": lambda file, path: replace(file, extra_files=("../../../../../outside/x",)),
    "extra file, absolute": lambda file, path: replace(file, extra_files=("ok.index", str(path))),
    "external path": lambda file, path: replace(file, external_path=str(path)),
    "external URI": lambda file, path: replace(file, external_path=f"file://{path}"),
    "external path upwards": lambda file, path: replace(file, external_path=f"{path.parent}/../outside/x"),
    "empty name": lambda file, path: replace(file, file_name=""),
    "control character": lambda file, path: replace(file, file_name="a\0b"),
}


@pytest.mark.parametrize("kinds", [[FileKind.ADD], [FileKind.DELETE], [FileKind.ADD, FileKind.DELETE]], ids=str)
@pytest.mark.parametrize("case", FORGED)
def test_entries_that_lead_elsewhere(table: Table, victim: Path, case: str, kinds: list[FileKind]) -> None:
    forged(table, lambda file: FORGED[case](file, victim), kinds)
    errors = use(table)
    assert errors
    assert all(isinstance(error, (CorruptError, InvalidError)) for error in errors), errors
    assert victim.read_bytes() == SECRET
    assert folders(victim.parent) == {"x"}


@pytest.mark.parametrize("name", ["../../../../outside/x", "{path}", ".."])
@pytest.mark.parametrize("external", [False, True])
def test_indexes_that_lead_elsewhere(table: Table, victim: Path, name: str, external: bool) -> None:
    last = table.latest_snapshot()
    assert last is not None
    name = name.format(path=victim)
    file = IndexFile("HASH", "index-a-0", 4, 1, external_path=name) if external else IndexFile("HASH", name, 4, 1)
    entry = table.store.manifest(table.store.data_manifests(last)[0].file_name)[0]
    _publish(table, last, [], [IndexEntry(FileKind.ADD, entry.partition, 0, file)])
    use(table)
    assert victim.read_bytes() == SECRET


@pytest.mark.parametrize("field", ["statistics", "baseManifestList", "indexManifest"])
def test_snapshots_that_lead_elsewhere(table: Table, victim: Path, field: str) -> None:
    """The next append expired the snapshot, and with it the file that it named."""
    path = Path(table.path) / "snapshot" / "snapshot-1"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: "../../../../outside/x"}))
    for error in use(table):
        assert "snapshot-1" in str(error)
    assert victim.read_bytes() == SECRET


def test_manifests_that_lead_elsewhere(table: Table, victim: Path) -> None:
    last = table.latest_snapshot()
    assert last is not None
    listed = replace(table.store.data_manifests(last)[0], file_name="../../../../outside/x")
    (Path(table.path) / "manifest" / last.delta_manifest_list).write_bytes(encode_manifest_list([listed]))
    clear_cache()
    for error in use(table):
        assert last.delta_manifest_list in str(error)
    assert victim.read_bytes() == SECRET


@pytest.mark.parametrize("link", ["p=a", "p=a/bucket-0", "snapshot", "manifest", "schema"])
def test_linked_folders(table: Table, tmp_path: Path, link: str) -> None:
    """A folder of the table that is a link to one elsewhere: what lies there is not touched."""
    away = tmp_path / "away"
    (Path(table.path) / link).rename(away)
    (Path(table.path) / link).symlink_to(away)
    before = {path: path.read_bytes() for path in away.rglob("*") if path.is_file()}
    clear_cache()
    errors = use(table)
    assert any(isinstance(error, CorruptError) and "symbolic link" in str(error) for error in errors)
    assert {path: path.read_bytes() for path in away.rglob("*") if path.is_file()} == before


def test_linked_files(table: Table, victim: Path) -> None:
    (file,) = table.files()
    data = Path(file.path).read_bytes()
    victim.write_bytes(data)
    Path(file.path).unlink()
    Path(file.path).symlink_to(victim)
    with pytest.raises(CorruptError, match="symbolic link"):
        table.to_arrow()
    use(table)
    assert victim.read_bytes() == data


def test_dropping_follows_no_link(catalog: Catalog, table: Table, victim: Path) -> None:
    (Path(table.path) / "p=b").symlink_to(victim.parent)
    (Path(table.path) / "x").symlink_to(victim)
    catalog.drop_table("t")
    assert not Path(table.path).exists()
    assert victim.read_bytes() == SECRET
    catalog.create_database("d")
    (Path(catalog.warehouse) / "d.db" / "linked").symlink_to(victim.parent)
    catalog.drop_database("d", cascade=True)
    assert victim.read_bytes() == SECRET


def test_a_link_that_leads_to_itself_hides_one_table_alone(catalog: Catalog, table: Table) -> None:
    catalog.create_table("u", pa.schema([("x", pa.int32())]))
    schema = Path(table.path) / "schema" / "schema-0"
    schema.unlink()
    schema.symlink_to("schema-0")
    assert catalog.list_tables() == ["u"]
    with pytest.raises(BucketlakeError):
        catalog.table("t")


# ---- external paths


def external(catalog: Catalog, table: Table, place: Path) -> Path:
    """Move the table's only data file to a folder outside, as an engine with external paths would have written it."""
    (file,) = table.files()
    target = place / "p=a" / "bucket-0" / Path(file.path).name
    target.parent.mkdir(parents=True)
    Path(file.path).rename(target)
    forged(table, lambda item: item, [FileKind.DELETE])
    forged(table, lambda item: replace(item, external_path=str(target)), [FileKind.ADD])
    return target


def test_external_files_need_the_table_and_the_session(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    place = tmp_path / "place"
    target = external(catalog, table, place)
    with pytest.raises(CorruptError, match="outside of the table's folder"):
        table.to_arrow()
    table.alter(SetOption("data-file.external-paths", f"file://{place}"))
    with pytest.raises(InvalidError, match="allowed-external-paths"):
        catalog.table("t").to_arrow()
    for wrong in (tmp_path / "plac", place / "p=b", tmp_path / "wh"):
        with pytest.raises(InvalidError, match="allowed-external-paths"):
            bucketlake.open(tmp_path / "wh", {"allowed-external-paths": str(wrong)}).table("t").to_arrow()
    for right in (tmp_path, place, place / "p=a", f"{tmp_path / 'more'}, file:{place}/"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            opened = bucketlake.open(tmp_path / "wh", {"allowed-external-paths": str(right)}).table("t")
        assert opened.to_arrow().to_pylist() == ROWS.to_pylist()
        assert [file.path for file in opened.files()] == [str(target)]
    (place / "p=a" / "linked").symlink_to(place)
    opened.write_arrow(ROWS)
    opened.compact()
    opened.expire_snapshots(retain_max=1, retain_min=1)
    assert not target.exists()


def test_a_table_cannot_allow_itself(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    external(catalog, table, tmp_path / "place")
    declared = {"data-file.external-paths": str(tmp_path), "allowed-external-paths": str(tmp_path)}
    table.alter(*[SetOption(key, value) for key, value in declared.items()])
    for opened in (catalog.table("t"), open_table(table.path, Env(LocalStorage()), options=declared)):
        with pytest.raises(InvalidError, match="does not allow"):
            opened.to_arrow()


@pytest.mark.parametrize("text", ["relative", "/a/../b", "s3://b//x", "/a\0"])
def test_what_cannot_be_allowed(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidError, match="allowed-external-paths"):
        bucketlake.open(tmp_path, {"allowed-external-paths": text})


# ---- storages


def test_a_table_stays_in_its_folder(tmp_path: Path, victim: Path) -> None:
    root = tmp_path / "wh" / "t"
    root.mkdir(parents=True)
    storage = Env().of_table(str(root)).storage
    for path in (str(victim), f"{root}/../../outside/x", f"{root}x/y", "relative", str(tmp_path), f"{root}/..", "/"):
        _refused(storage, path)
    assert victim.read_bytes() == SECRET
    storage.write(f"{root}/a/b", b"1")
    assert storage.read(f"{root}/a/b") == b"1"


def _refused(storage: LocalStorage | ObjectStorage, path: str, kind: type[Exception] = CorruptError) -> None:
    calls: list[Callable[[], object]] = [
        lambda: storage.read(path),
        lambda: storage.read_ranges(path, [(0, 1)]),
        lambda: storage.open_input(path),
        lambda: storage.open_output(path),
        lambda: storage.write(path, b""),
        lambda: storage.put_if_absent(path, b""),
        lambda: storage.info(path),
        lambda: storage.list(path),
        lambda: list(storage.walk(path)),
        lambda: storage.make_dir(path),
        lambda: storage.delete(path),
        lambda: storage.delete_all([path]),
        lambda: storage.delete_tree(path),
    ]
    for call in calls:
        with pytest.raises(kind):
            call()


def test_an_object_store_reaches_nothing_else(tmp_path: Path, victim: Path) -> None:
    """`file://` was joined to the process's own folder, read, deleted, and its folders made."""
    env, root = open_env("memory://bucket/wh/t")
    for path in (f"file://{victim}", "file://../plain.txt", str(victim), "s3://bucket/wh/t/x", "memory:/bucket/wh/t/x"):
        _refused(env.storage, path, InvalidError)
    own = env.of_table(root).storage
    for path in ("memory://bucket/wh/u", "memory://other/wh/t/x", f"{root}/../u/x", f"{root}/a//b", f"{root}/./a"):
        _refused(own, path)
    for path in (f"file://{victim}", f"{root}x", "s3://bucket/wh/t/x"):
        _refused(own, path, BucketlakeError)
    own.write(f"{root}/a", b"1")
    assert own.read(f"{root}/a") == b"1"
    assert victim.read_bytes() == SECRET
    assert not (tmp_path / "plain.txt").exists()


def test_forged_tables_on_an_object_store(victim: Path) -> None:
    catalog = bucketlake.open("memory://forged/wh")
    table = catalog.create_table("t", ROWS.schema, ["p"], ["p", "k"], {"bucket": "1"})
    table.write_arrow(ROWS)
    store = table.store
    last = store.latest_snapshot()
    assert last is not None
    listed = store.data_manifests(last)[-1]
    entry = store.manifest(listed.file_name)[0]
    for path in (f"file://{victim}", "file://../plain.txt", "memory://forged/other/x", str(victim)):
        bad = replace(entry, file=replace(entry.file, external_path=path))
        store.env.storage.write(store.paths.manifest(listed.file_name), encode_manifest([bad]))
        clear_cache()
        with pytest.raises(CorruptError):
            table.to_arrow()
        use(table)
    assert victim.read_bytes() == SECRET


@pytest.mark.parametrize("url", ["s3://b/../c", "s3:/b/c", "s3://b/a//c", "memory://b/./c", "s3://"])
def test_urls_that_are_no_folders(url: str) -> None:
    with pytest.raises((InvalidError, UnsupportedError)):
        storage_for(url)
