"""A machine that fails right after a snapshot was published: what it names had been synced before, folders too."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.env.storage import Buffered
from bucketlake.ops.scan.scan import changelog_entries, live_entries
from bucketlake.table import Table

SCHEMA = pa.schema([("p", pa.int32()), pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


class Recording:
    """Local files, and which of them and which names would survive a power failure."""

    def __init__(self) -> None:
        self.inner = LocalStorage()
        self.streamed: set[str] = set()
        self.named: set[str] = set()  # whose folder was synced with them in it
        self.published: list[str] = []
        self.check: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open_output(self, path: str) -> BinaryIO:
        self.streamed.add(path)
        return self.inner.open_output(path)

    def sync(self, paths: Sequence[str], named: Sequence[str], root: str) -> None:
        self.inner.sync(paths, named, root)
        assert all(os.path.exists(path) for path in (*paths, *named))
        self.streamed -= set(paths)
        self.named |= {*paths, *named}

    def put_if_absent(self, path: str, data: bytes) -> bool:
        done = self.inner.put_if_absent(path, data)
        if done and "/snapshot/" in path:
            self.published.append(path)
            self.check()
        return done


def rows(start: int, count: int = 20) -> pa.Table:
    keys = range(start, start + count)
    return pa.table({"p": [key % 3 for key in keys], "k": list(keys), "v": list(keys)}, SCHEMA)


KEYED = {"bucket": "2", "changelog-producer": "lookup", "file-index.bloom-filter.columns": "v"}
CASES: dict[str, tuple[list[str], dict[str, str]]] = {
    "keyed": (["p", "k"], {**KEYED, "file-index.in-manifest-threshold": "1 b"}),
    "vectors": (["p", "k"], {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "dynamic": (["p", "k"], {"bucket": "-1"}),
    "append": ([], {"bucket": "-1", "compaction.min.file-num": "2"}),
    "append, marked": ([], {"bucket": "-1", "deletion-vectors.enabled": "true"}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_snapshot_names_is_durable_before_it(name: str, tmp_path: Path) -> None:
    storage = Recording()
    assert isinstance(storage, Buffered)
    catalog = Catalog(Env(storage), str(tmp_path))  # type: ignore[arg-type]
    catalog.create_database("db")
    keys, options = CASES[name]
    table = catalog.create_table("db.t", SCHEMA, ["p"], keys, options)
    storage.check = lambda: _check(storage, table)
    for start in (0, 10, 20):
        table.write_arrow(rows(start))
    table.write_arrow(rows(0, 4), mode="overwrite")
    table.delete("k IN (1, 12)")
    table.update({"v": 5}, "k = 13")
    table.compact()
    if options["bucket"] == "2":
        table.rescale(3)
    assert len(storage.published) >= 5 and storage.named


def _check(storage: Recording, table: Table) -> None:
    store = table.store
    newest = store.latest_snapshot()
    assert newest is not None
    paths = [store.paths.manifest(newest.base_manifest_list)]
    for entry in (*live_entries(store, newest), *changelog_entries(store, newest)):
        folder = store.paths.bucket_dir(entry.partition, entry.bucket)
        paths.append(store.paths.file_path(folder, entry.file))
        paths += [store.paths.extra_path(folder, entry.file, extra) for extra in entry.file.extra_files]
    paths += [store.paths.index_path(e.partition, e.bucket, e.file) for e in store.index_manifest(newest)]
    assert not storage.streamed & set(paths), "written, not synced"
    assert set(paths) <= storage.named, "the name is not synced"


def test_folders_are_synced_up_to_the_tables_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Catalog(Env(), str(tmp_path))
    table.create_database("db")
    made = table.create_table("db.t", SCHEMA, ["p"], ["p", "k"], {"bucket": "1"})
    synced: set[str] = set()
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.add(os.readlink(f"/proc/self/fd/{handle}")), real(handle)))
    made.write_arrow(rows(0, 2))
    root = made.path
    folders = {root, f"{root}/manifest", f"{root}/snapshot", f"{root}/p=0", f"{root}/p=0/bucket-0"}
    assert folders <= synced
    assert {file.path for file in made.files()} <= synced
