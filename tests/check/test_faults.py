"""Every fault that a check knows: injected, found by its code, and where that is possible mended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import corpus
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
    rows,
    settle,
    some,
    table_of,
    with_file,
)

import bucketlake
from bucketlake.format.index.deletion_vector import vector_of
from bucketlake.format.index.index_manifest import DELETION_VECTORS, HASH, IndexEntry
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.format.metadata.stats import ColumnStats, encode_stats
from bucketlake.ops.check.faults import FAULTS, Mend
from bucketlake.ops.rows.deletions import write_vectors
from bucketlake.table import Table

MOVED = 3600 * 1000


@dataclass(frozen=True)
class Case:
    """`make` spoils a table of its own and says which rows it shall have once it is mended, None where that cannot be
    said. `also`: codes that come with it; `level`: how deep it is looked for."""

    code: str
    make: Callable[[Path], tuple[Table, list[Row] | None]]
    also: frozenset[str] = frozenset()


CASES: list[Case] = []


def case(code: str, *also: str) -> Callable[[Callable[[Path], tuple[Table, list[Row] | None]]], object]:
    def take(make: Callable[[Path], tuple[Table, list[Row] | None]]) -> object:
        CASES.append(Case(code, make, frozenset(also)))
        return make

    return take


def keyed(folder: Path, **options: str) -> Table:
    """Two commits of overlapping keys in one bucket."""
    table = table_of(folder, **{"bucket": "1", **options})
    table.write_arrow(some(0, 10))
    table.write_arrow(some(5, 12, "b"))
    return table


def appended(folder: Path, **options: str) -> Table:
    table = table_of(folder, (), **{"bucket": "-1", **options})
    table.write_arrow(some(0, 10))
    table.write_arrow(some(10, 20, "b"))
    return table


def dynamic(folder: Path) -> Table:
    table = table_of(folder, bucket="-1", **{"dynamic-bucket.target-row-num": "5"})
    table = table.with_options({})
    table.write_arrow(some(0, 10))
    return table


def marked(folder: Path) -> Table:
    """An append table with deletion vectors."""
    table = appended(folder, **{"deletion-vectors.enabled": "true"})
    table.delete("k IN (1, 2, 11)")
    return table


def packed(folder: Path, **options: str) -> Table:
    """A bucket that is one run of the top level."""
    table = keyed(folder, **options)
    table.compact()
    return table


# ---------------------------------------------------------------------------------------------- history


@case("hint-latest")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    Path(table.store.paths.latest_hint).write_text("17")
    return table, read(table)


@case("hint-earliest")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    Path(table.store.paths.earliest_hint).write_text("not a number")
    return table, read(table)


@case("hint-changelog")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = table_of(
        folder,
        bucket="1",
        changelog_producer="input",
        **{"changelog.num-retained.max": "9", "changelog.num-retained.min": "9"},
    )
    table = table.with_options({"changelog.num-retained.min": "9", "changelog.time-retained": "9 d"})
    for start in range(3):
        table.write_arrow(some(start, start + 2))
    table.with_options({"changelog.num-retained.max": "9"}).expire_snapshots(retain_max=1, retain_min=1)
    Path(table.store.paths.changelog_latest_hint).write_text("1")
    return table, read(table)


@case("snapshot-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    Path(table.store.paths.snapshot(1)).write_text("{")
    return table, None


@case("snapshot-zombie")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    put(table, replace(newest(table), id=9))
    Path(table.store.paths.latest_hint).write_text("9")
    Path(table.store.paths.earliest_hint).write_text("9")
    return table, read(table)


@case("snapshot-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    put(table, replace(newest(table), total_record_count=3))
    return table, None


TRACKED = {"row-tracking.enabled": "true"}


@case("row-ids-free")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder, **TRACKED)
    put(table, replace(newest(table), next_row_id=5))
    return table, None


@case("row-ids-shared")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder, **TRACKED)
    one, two = live(table)
    settle(table, [one, with_file(two, first_row_id=3)])
    return table, None


@case("row-ids-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder, **TRACKED)
    one, two = live(table)
    settle(table, [one, with_file(two, first_row_id=None, write_cols=("k",))])
    return table, None


@case("chain-lost", "snapshot-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    last, first = newest(table), table.store.snapshot(1)
    put(table, replace(last, base_manifest_list=first.base_manifest_list, base_manifest_list_size=None))
    return table, None


@case("chain-extra", "snapshot-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    first = table.store.snapshot(1)
    empty = first.base_manifest_list
    put(table, replace(first, delta_manifest_list=empty, delta_manifest_list_size=None, total_record_count=0))
    return table, None


@case("schema-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    put(table, replace(newest(table), schema_id=7))
    return table, None


@case("schema-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    table = table.alter(bucketlake_option("comment", "x"))
    Path(table.store.paths.schema(0)).write_text("[]")
    return table, None


@case("schema-chain")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    schema = table.schema
    Path(table.store.paths.schema(2)).write_bytes(replace(schema, id=2).encode())
    return table, None


@case("tag-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    table.create_tag("one")
    Path(table.store.paths.tag("one")).write_text("{}")
    return table, None


@case("tag-dead", "data-file-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    table.create_tag("one", 1)
    gone = live(table)[0]
    table.truncate()
    table.expire_snapshots(retain_max=1, retain_min=1)
    path_of(table, gone).unlink()
    return table, None


@case("branch-dead")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    table.create_branch("b")
    Path(table.store.on_branch("b").paths.schema(0)).unlink()
    return table, None


@case("consumer-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    _consumer(table, "[]")
    return table, None


@case("consumer-ahead")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    _consumer(table, '{"nextSnapshot": 90}')
    return table, read(table)


@case("consumer-behind")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    table.expire_snapshots(retain_max=1, retain_min=1)
    _consumer(table, '{"nextSnapshot": 1}')
    return table, None


def _consumer(table: Table, text: str) -> None:
    path = Path(table.store.paths.consumer("c"))
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@case("changelog-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    path = Path(table.store.paths.changelog(1))
    path.parent.mkdir()
    path.write_text("no")
    return table, None


@case("statistics-missing")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    put(table, replace(newest(table), statistics="stat-gone"))
    return table, read(table)


@case("statistics-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    path = Path(table.store.paths.statistics("stat-1"))
    path.parent.mkdir()
    path.write_text('{"snapshotId": "x"}')
    put(table, replace(newest(table), statistics="stat-1"))
    return table, read(table)


# ---------------------------------------------------------------------------------------------- manifests


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


# ---------------------------------------------------------------------------------------------- files


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


# ---------------------------------------------------------------------------------------------- the live files


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
    from bucketlake.ops.commit.manifests import write_list, write_manifests

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


def read_all(*parts: pa.Table) -> list[Row]:
    return sorted(tuple(row.values()) for part in parts for row in part.to_pylist())


@case("vector-dangling")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = marked(folder)
    found = [row for row in read(table) if row[1] >= 10]
    settle(table, _later(table))
    return table, found


def _later(table: Table) -> list:  # type: ignore[type-arg]
    names = {e.file.file_name: pq.read_table(path_of(table, e)).column("k")[0].as_py() for e in live(table)}
    return [e for e in live(table) if names[e.file.file_name] >= 10]


def _vectors(table: Table, name: str, positions: list[int]) -> IndexEntry:
    partition = live(table)[0].partition
    (file,) = write_vectors(table.store, partition, 0, {name: vector_of(np.array(positions), bits64=False)})
    return IndexEntry(FileKind.ADD, partition, 0, file)


@case("vector-twice")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = marked(folder)
    name = _later(table)[0].file.file_name
    settle(table, index=[*indexes(table), _vectors(table, name, [5])])
    return table, [row for row in read_all(some(0, 10), some(10, 20, "b")) if row[1] not in (1, 2, 11, 15)]


@case("vector-rows")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder, **{"deletion-vectors.enabled": "true"})
    name = live(table)[0].file.file_name
    settle(table, index=[_vectors(table, name, list(range(30)))])
    return table, None


# ---------------------------------------------------------------------------------------------- footers


@case("data-file-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    one = _later(table)[0]
    path = path_of(table, one)
    path.write_bytes(b"x" * path.stat().st_size)
    return table, read_all(some(0, 10))


@case("row-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    found = read(table)
    settle(table, [with_file(entry, row_count=3) for entry in live(table)])
    return table, found


@case("column-missing", "data-file-broken", "data-file-size", "null-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    path = path_of(table, live(table)[0])
    pq.write_table(pq.read_table(path).drop_columns(["v"]), path)
    settle(table, [with_file(e, file_size=path_of(table, e).stat().st_size) for e in live(table)])
    return table, None


@case("stats-bounds")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    found = read(table)
    types = [item.type for item in table.schema.fields]
    lie = encode_stats([ColumnStats("x", "x", 0), ColumnStats(3, 4, 0), ColumnStats("a", "b", 0)], types)
    settle(table, [with_file(e, value_stats=lie, value_stats_cols=None) for e in live(table)])
    return table, found


@case("hash-index-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = dynamic(folder)
    found = read(table)
    first = next(entry for entry in indexes(table) if entry.file.index_type == HASH)
    lie = replace(first, file=replace(first.file, row_count=99))
    settle(table, index=[lie, *(entry for entry in indexes(table) if entry != first)])
    return table, found


@case("vector-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = marked(folder)
    for entry in indexes(table):
        path = Path(table.store.paths.index(entry.file.file_name))
        data = bytearray(path.read_bytes())
        data[-1] ^= 255
        path.write_bytes(bytes(data))
    return table, None


@case("file-index-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder, **{"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1b"})
    next(Path(table.path).rglob("*.index")).write_bytes(b"nothing of the kind")
    return table, None


# ---------------------------------------------------------------------------------------------- keys


def _with_rows(table: Table, given: list[tuple[int, int, int, str]], level: int) -> None:
    """Let the table be one file of these rows."""
    settle(table, [file_of(table, live(table)[0], key_values(table, given), level)])


@case("key-order", "key-outside", "key-range")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    _with_rows(table, [(7, 0, 0, "c"), (3, 1, 0, "d"), (5, 2, 0, "e")], 5)
    return table, [("x", 3, "d"), ("x", 5, "e"), ("x", 7, "c")]


@case("key-twice")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    _with_rows(table, [(3, 0, 0, "old"), (3, 1, 0, "new"), (5, 2, 0, "e")], 5)
    return table, [("x", 3, "new"), ("x", 5, "e")]


@case("key-outside")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = packed(folder)
    found = read(table)
    (one,) = live(table)
    settle(table, [with_file(one, max_key=one.file.min_key)])
    return table, found


@case("sequence-outside")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = packed(folder)
    found = read(table)
    (one,) = live(table)
    settle(table, [with_file(one, max_sequence_number=one.file.min_sequence_number)])
    return table, found


@case("sequence-tie")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    other = file_of(table, live(table)[0], key_values(table, [(1, 1, 0, "other")]))
    settle(table, [*live(table), other])
    return table, None


@case("delete-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    table.delete("k = 1")
    found = read(table)
    settle(table, [with_file(entry, delete_row_count=0) for entry in live(table)])
    return table, found


@case("bucket-wrong")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder, bucket="2")
    table.compact()
    entries = live(table)
    wrong = [file_of(table, e, key_values(table, [(k, 50, 0, "new") for k in range(4)]), 0) for e in entries]
    settle(table, [*entries, wrong[0], wrong[1]])
    kept = [(("x", k, f"b{k}") if k >= 5 else ("x", k, "new" if k < 4 else f"a{k}")) for k in range(12)]
    return table, kept


@case("key-two-buckets")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = dynamic(folder)
    by_bucket = {entry.bucket: entry for entry in live(table)}
    first, second = by_bucket[0], by_bucket[1]
    keys = pq.read_table(path_of(table, first)).column("k").to_pylist()
    copied = file_of(table, second, key_values(table, [(keys[0], 60, 0, "newest")]))
    from bucketlake.ops.buckets.dynamic import key_hashes, read_hashes

    own = next(e for e in indexes(table) if e.bucket == 1)
    batch = key_values(table, [(keys[0], 60, 0, "newest")])
    known = np.union1d(read_hashes(table.store, own.partition, 1, own.file), key_hashes(batch, table.schema.key_fields))
    others = [e for e in indexes(table) if e.bucket != 1]
    settle(table, [*live(table), copied], [*others, hash_index(table, second, known.astype(np.int32))])
    return table, [("x", k, "newest" if k == keys[0] else f"a{k}") for k in range(10)]


@case("key-two-partitions")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = table_of(folder, ("k",), bucket="-1")
    table.write_arrow(rows(("x", 1, "a"), ("y", 2, "b")))
    other = next(e for e in live(table) if table.store.paths.partition_path(e.partition) == "p=y")
    settle(table, [*live(table), file_of(table, other, key_values(table, [(1, 9, 0, "again")], "y"))])
    return table, None


@case("hash-index-lacks")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = dynamic(folder)
    found = read(table)
    first = live(table)[0]
    others = [e for e in indexes(table) if e.bucket != first.bucket]
    settle(table, index=[*others, hash_index(table, first, np.array([5], np.int32))])
    return table, found


# ---------------------------------------------------------------------------------------------- rows


@case("null-count")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    found = read(table)
    settle(
        table,
        [with_file(e, value_stats=replace(e.file.value_stats, null_counts=(0, 0, 4))) for e in live(table)],
    )
    return table, found


@case("changelog-file-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder, changelog_producer="input")
    path = next(Path(table.path).rglob("changelog-*.parquet"))
    path.write_bytes(b"x" * path.stat().st_size)
    return table, None


@case("data-file-unread")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    return bucketlake.open(corpus.unpack(folder)).table("corpus.types_far_parquet"), None


def bucketlake_option(key: str, value: str):  # type: ignore[no-untyped-def]
    from bucketlake.schema.change import SetOption

    return SetOption("snapshot.num-retained.max", "77") if key == "comment" else SetOption(key, value)


# ---------------------------------------------------------------------------------------------- the tests


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.code)
def test_a_fault_is_found_and_mended(one: Case, tmp_path: Path) -> None:
    table, wanted = one.make(tmp_path)
    level = FAULTS[one.code].level
    report = table.fsck(level)
    assert one.code in report.codes, report.findings
    assert report.codes - {one.code} <= one.also | {"orphan-file"}, report.findings
    finding = next(found for found in report.findings if found.code == one.code)
    assert finding.cause
    assert finding.fault.remedy
    mends = FAULTS[one.code].mend is not Mend.NONE and wanted is not None
    allow = [found.code for found in report.findings if found.fault.loses] if mends else []
    planned = table.repair(report, allow)
    assert planned.snapshot is None
    assert table.fsck(level).codes == report.codes, "a dry run changes nothing"
    if not mends:
        return
    if FAULTS[one.code].loses:
        refused = table.repair(report, dry_run=False)
        assert {action.state for action in refused.actions if action.finding.code == one.code} == {"to be named"}
        assert one.code in table.fsck(level).codes
    done = table.repair(report, allow, dry_run=False)
    assert {action.state for action in done.actions if action.finding.code == one.code} == {"mended"}
    after = table.fsck("rows")
    newest_only = [found for found in after.findings if found.place.holder in (None, f"snapshot {after.snapshot}")]
    assert not [found for found in newest_only if found.code == one.code], newest_only
    assert read(table) == wanted


def test_every_fault_has_a_case() -> None:
    assert {one.code for one in CASES} == set(FAULTS)


def test_files_say_what_json_holds() -> None:
    assert json.loads('{"nextSnapshot": 1}') == {"nextSnapshot": 1}


__all__ = ["DELETION_VECTORS"]
