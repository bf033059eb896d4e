"""Indexes of which their manifest says what is not so: hash indexes that lie at other buckets than their own, in which no
change of a row is looked up, sorted ones of which nothing is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.check.forged import indexes, newest, put, read, write_index_manifest

import bucketlake
from bucketlake import CorruptError, Table

SCHEMA = pa.schema([pa.field("k", pa.string(), nullable=False), ("v", pa.string())])


def rows(keys: range, value: str) -> pa.Table:
    return pa.table({"k": [f"key number {key}" for key in keys], "v": [value] * len(keys)}, schema=SCHEMA)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.delete("k = 'key number 3'"),
        lambda table: table.update({"v": "b"}, "k = 'key number 3'"),
        lambda table: table.write_arrow(rows(range(3, 4), "b")),
    ],
    ids=["delete", "update", "upsert"],
)
def test_indexes_of_two_buckets_that_are_swapped_are_named(tmp_path: Path, change: Callable[[Table], object]) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "5", "write-only": "true"}
    table = bucketlake.open(tmp_path).create_table("t", SCHEMA, [], ["k"], options)
    table.write_arrow(rows(range(10), "a"))
    table.write_arrow(rows(range(10), "a"))  # keys that are known need no other index
    first, second = indexes(table)
    swapped = [replace(first, file=second.file), replace(second, file=first.file)]
    put(table, replace(newest(table), index_manifest=write_index_manifest(table.store, swapped)))
    before = read(table)
    with pytest.raises(
        CorruptError, match=rf"a hash index lacks keys.*({first.file.file_name}|{second.file.file_name})"
    ):
        change(table.refresh())
    assert read(table) == before

    table.refresh().write_arrow(rows(range(10), "c"), mode="overwrite")  # as the error says
    change(table.refresh())
    assert len(read(table)) in (9, 10) and len({key for key, _ in read(table)}) == len(read(table))


def test_a_sorted_index_of_which_nothing_is_recorded_is_named_by_its_path(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = bucketlake.open(tmp_path).create_table("t", SCHEMA, [], [], options)
    table.write_arrow(rows(range(10), "a"))
    table.create_global_index("k", "bitmap")
    (entry,) = indexes(table)
    forged = replace(entry, file=replace(entry.file, global_index={**entry.file.global_index, "_INDEX_META": b""}))
    put(table, replace(newest(table), index_manifest=write_index_manifest(table.store, [forged])))
    path = table.store.paths.index_path(entry.partition, entry.bucket, entry.file)
    with pytest.raises(CorruptError, match=rf"path={path}.*drop the index"):
        table.refresh().to_arrow("k = 'key number 3'")
    assert table.with_options({"global-index.enabled": "false"}).to_arrow("k = 'key number 3'").num_rows == 1
