"""Faults of how live files, indexes and vectors lie together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.check.cases.case import appended, case, dynamic, keyed, later, marked, packed, read_all
from tests.check.forged import (
    Row,
    file_of,
    hash_index,
    indexes,
    key_values,
    live,
    newest,
    path_of,
    put,
    read,
    settle,
    some,
    table_of,
    with_file,
    write_list,
)

from bucketlake.format.index.deletion_vector import vector_of
from bucketlake.format.index.index_manifest import IndexEntry
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.ops.commit.manifests import write_manifests
from bucketlake.ops.rows.deletions import write_vectors
from bucketlake.table import Table


@case("bucket-number")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder, bucket="2")
    found = read(table)
    settle(table, [replace(e, total_buckets=4) if n == 0 else e for n, e in enumerate(live(table))])
    return table, found


@case("bucket-outside")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = table_of(folder, (), bucket="2", bucket_key="k")
    table.write_arrow(some(0, 10))
    one, *others = live(table)
    moved = replace(one, bucket=9)
    target = path_of(table, moved)
    target.parent.mkdir()
    path_of(table, one).rename(target)
    settle(table, [moved, *others])
    return table, [("x", k, f"a{k}") for k in range(10)]


@case("level-overlap")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    found = read(table)
    settle(table, [with_file(entry, level=5) for entry in live(table)])
    return table, found


@case("key-range")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    found = read(table)
    one, two = live(table)
    settle(table, [with_file(one, min_key=one.file.max_key, max_key=one.file.min_key), two])
    return table, found


@case("sequence-range")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = packed(folder)
    found = read(table)
    (one,) = live(table)
    settle(table, [with_file(one, min_sequence_number=99, max_sequence_number=3)])
    return table, found


@case("sequence-behind", "sequence-tie")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    late = file_of(table, live(table)[0], key_values(table, [(1, 0, 0, "late")]))

    last = newest(table)
    base = write_list(table.store, table.store.data_manifests(last))
    delta = write_list(table.store, write_manifests(table.store, [late]))
    made = replace(
        last,
        id=last.id + 1,
        uuid="u",
        base_manifest_list=base.name,
        base_manifest_list_size=base.size,
        delta_manifest_list=delta.name,
        delta_manifest_list_size=delta.size,
        total_record_count=last.total_record_count + 1,
        delta_record_count=1,
        commit_kind=CommitKind.APPEND,
    )
    put(table, made)
    Path(table.store.paths.latest_hint).write_text(str(made.id))
    return table, None


@case("hash-index-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = dynamic(folder)
    found = read(table)
    settle(table, index=indexes(table)[1:])
    return table, found


@case("hash-index-twice")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = dynamic(folder)
    found = read(table)
    settle(table, index=[*indexes(table), hash_index(table, live(table)[0], np.array([1, 2], np.int32))])
    return table, found


@case("hash-file-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = dynamic(folder)
    Path(table.store.paths.index(indexes(table)[0].file.file_name)).unlink()
    return table, read(table)


@case("hash-file-size")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = dynamic(folder)
    path = Path(table.store.paths.index(indexes(table)[0].file.file_name))
    path.write_bytes(path.read_bytes()[:-4])
    return table, read(table)


@case("vector-file-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = marked(folder)
    Path(table.store.paths.index(indexes(table)[0].file.file_name)).unlink()
    return table, read_all(some(0, 10), some(10, 20, "b"))


@case("vector-file-size")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = marked(folder)
    path = Path(table.store.paths.index(indexes(table)[0].file.file_name))
    path.write_bytes(path.read_bytes()[:3])
    return table, read_all(some(0, 10), some(10, 20, "b"))


@case("vector-dangling")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = marked(folder)
    found = [row for row in read(table) if row[1] >= 10]
    settle(table, later(table))
    return table, found


@case("vector-left")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = packed(folder, **{"deletion-vectors.enabled": "true"})
    (gone,) = live(table)
    table.write_arrow(some(0, 3, "c"))
    table.compact(full=True)
    settle(table, index=[*indexes(table), _vectors(table, gone.file.file_name, [1, 2])])
    return table, read(table)


def _vectors(table: Table, name: str, positions: list[int]) -> IndexEntry:
    partition = live(table)[0].partition
    (file,) = write_vectors(table.store, partition, 0, {name: vector_of(np.array(positions), bits64=False)})
    return IndexEntry(FileKind.ADD, partition, 0, file)


@case("vector-twice")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = marked(folder)
    name = later(table)[0].file.file_name
    settle(table, index=[*indexes(table), _vectors(table, name, [5])])
    return table, [row for row in read_all(some(0, 10), some(10, 20, "b")) if row[1] not in (1, 2, 11, 15)]


@case("vector-rows")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder, **{"deletion-vectors.enabled": "true"})
    name = live(table)[0].file.file_name
    settle(table, index=[_vectors(table, name, list(range(30)))])
    return table, None


@case("vector-lost", "hint-latest")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = marked(folder)
    settle(table)
    last = newest(table)
    put(table, replace(last, id=last.id + 1, uuid="u", commit_kind=CommitKind.COMPACT, index_manifest=None))
    return table, None
