"""Faults that the files themselves show: footers, keys and rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests import corpus
from tests.check.cases.case import appended, case, dynamic, keyed, later, marked, packed, read_all
from tests.check.forged import (
    Row,
    file_of,
    hash_index,
    indexes,
    key_values,
    live,
    path_of,
    read,
    rows,
    settle,
    some,
    table_of,
    with_file,
)

import bucketlake
from bucketlake.errors import CorruptError
from bucketlake.format.index.index_manifest import HASH
from bucketlake.format.metadata.stats import ColumnStats, encode_stats
from bucketlake.ops.buckets.dynamic import key_hashes, read_hashes
from bucketlake.table import Table


@case("data-file-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    one = later(table)[0]
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


@case("stats-bounds")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder)
    found = read(table)
    keys = table.schema.select(table.schema.trimmed_primary_keys)
    lie = encode_stats([ColumnStats(3, 4, 0)], [item.type for item in keys])
    settle(table, [with_file(e, key_stats=lie) for e in live(table)])
    return table, found


@case("stats-broken")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    found = read(table)
    settle(table, [with_file(entry, write_cols=("p", "k")) for entry in live(table)])
    with pytest.raises(CorruptError, match="path=data-"):
        table.refresh().update({"v": "'u'"}, "k = 3")
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


@case("key-unmarked")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = keyed(folder, **{"deletion-vectors.enabled": "true"})
    one, two = live(table)
    settle(table, [with_file(one, level=5), with_file(two, level=4)])
    assert len(read(table)) == 17  # five keys twice
    return table, read_all(some(0, 5), some(5, 12, "b"))


@case("partition-wrong")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = appended(folder)
    table.write_arrow(some(20, 30, part="y"))
    first, *others = live(table)
    moved = replace(first, partition=others[-1].partition)
    path_of(table, first).rename(path_of(table, moved))
    settle(table, [moved, *others])
    return table, None


@case("key-outside")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = packed(folder)
    found = read(table)
    (one,) = live(table)
    settle(table, [with_file(one, max_key=one.file.min_key)])
    return table, found


@case("key-range-wide")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    """Keys of rows that a compaction dropped as deleted may be recorded, as Apache Paimon does: the index has them."""
    table = dynamic(folder)
    found = read(table)
    one, *others = live(table)
    wide = file_of(table, one, key_values(table, [(-1, 0, 0, "a"), (99, 1, 0, "b")])).file
    settle(table, [with_file(one, min_key=wide.min_key, max_key=wide.max_key), *others])
    return table, found


@case("sequence-beyond")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = packed(folder)
    found = read(table)
    (one,) = live(table)
    settle(table, [with_file(one, max_sequence_number=one.file.min_sequence_number)])
    return table, found


@case("sequence-outside")
def _(folder: Path) -> tuple[Table, list[Row] | None]:
    table = packed(folder)
    found = read(table)
    (one,) = live(table)
    settle(table, [with_file(one, min_sequence_number=one.file.max_sequence_number)])
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
