"""Faults of manifest lists, manifests and files that they name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tests.check.cases.case import appended, case, keyed, marked
from tests.check.forged import (
    Row,
    live,
    newest,
    path_of,
    read,
    settle,
    with_file,
)

from bucketlake.format.metadata.manifest import FileKind
from bucketlake.ops.table.entries import deletion
from bucketlake.table import Table


def _manifest(table: Table, name: str | None) -> Path:
    return Path(table.store.paths.manifest(name or ""))


@case("manifest-list-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    _manifest(table, newest(table).delta_manifest_list).unlink()
    return table, None


@case("manifest-list-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    _manifest(table, newest(table).delta_manifest_list).write_bytes(b"Obj\1")
    return table, None


@case("manifest-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    _manifest(table, table.store.delta_manifests(newest(table))[0].file_name).unlink()
    return table, None


@case("manifest-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    path = _manifest(table, table.store.delta_manifests(newest(table))[0].file_name)
    path.write_bytes(path.read_bytes()[:-9])
    return table, None


@case("manifest-bounds")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder, bucket="4")
    found = read(table)
    settle(table, listed=lambda one: replace(one, max_bucket=0, min_bucket=0))
    return table, found


@case("manifest-twice", "snapshot-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    settle(table, [*live(table), live(table)[0]])
    return table, None


@case("manifest-dangling", "data-file-missing", "snapshot-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    gone = replace(with_file(live(table)[0], file_name="data-never.parquet"), kind=FileKind.DELETE)
    settle(table, [*live(table), gone])
    return table, None


@case("manifest-hides")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    found, (first, *others) = read(table), live(table)
    settle(table.with_options({"manifest.target-file-size": "1 b"}), [first, deletion(first), *others, first])
    return table, found


@case("index-manifest-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = marked(folder)
    _manifest(table, newest(table).index_manifest).unlink()
    return table, None


@case("index-manifest-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = marked(folder)
    _manifest(table, newest(table).index_manifest).write_bytes(b"x")
    return table, None


@case("data-file-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    path_of(table, live(table)[0]).unlink()
    return table, [("x", k, f"b{k}") for k in range(10, 20)]


@case("data-file-size")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    path = path_of(table, live(table)[0])
    path.write_bytes(path.read_bytes()[:-20])
    return table, [("x", k, f"b{k}") for k in range(5, 12)]


@case("data-file-outside", "data-file-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    one, two = live(table)
    settle(table, [one, with_file(two, external_path=f"file:{folder}/elsewhere/data-1.parquet")])
    return table, None


@case("file-index-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder, **{"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1b"})
    next(Path(table.path).rglob("*.index")).unlink()
    return table, None


@case("changelog-file-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder, changelog_producer="input")
    next(Path(table.path).rglob("changelog-*.parquet")).unlink()
    return table, None


@case("orphan-file")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    stray = path_of(table, live(table)[0]).with_name("data-nobody.parquet")
    stray.write_bytes(b"x")
    os.utime(stray, (1, 1))
    return table, None


@case("foreign-file")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    Path(table.path, "notes.txt").write_text("hello")
    return table, None
