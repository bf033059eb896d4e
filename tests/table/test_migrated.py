"""Migrated tables without Spark: files of one name in many partitions and buckets, without the partition columns."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.migrated import SCHEMA, migrated, rows_of

from bucketlake import Catalog, Table
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.ops.rebase.numbers import shifts
from bucketlake.ops.scan.scan import plan
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.predicate.tree import Compare
from bucketlake.types.model import DataField, DataType, Root

VECTORS = {"deletion-vectors.enabled": "true"}
PARTS: dict[Any, list[pa.Table]] = {
    "a": [rows_of(0, 100)],
    "b": [rows_of(100, 200)],
    None: [rows_of(200, 300)],
    "d": [rows_of(300, 400)],
}


def by_bucket(rows: pa.Table) -> list[pa.Table]:
    """The rows of bucket 0 and of bucket 1."""
    number = DataField(0, "k", DataType(Root.BIGINT))
    found = assign_buckets(rows.select(["k"]).combine_chunks().to_batches()[0], [number], 2, "default")
    return [rows.filter(pa.array(found == bucket)) for bucket in (0, 1)]


def keys(table: Table, **read: Any) -> list[int]:
    return sorted(table.to_arrow(columns=["k"], **read).column(0).to_pylist())


@pytest.fixture(params=["parquet", "orc", "avro"])
def file_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[{}, VECTORS], ids=["rewrite", "vectors"])
def kind(request: pytest.FixtureRequest) -> dict[str, str]:
    return dict(request.param)


def test_a_delete_takes_the_rows_of_its_partition(catalog: Catalog, kind: dict[str, str], file_format: str) -> None:
    table = migrated(catalog, PARTS, {**kind, "file.format": file_format})
    assert table.delete("pt = 'b' AND k < 150") is not None
    assert keys(table) == [*range(100), *range(150, 400)]
    assert table.delete("k IN (5, 205, 399)") is not None
    assert keys(table) == [k for k in [*range(100), *range(150, 400)] if k not in (5, 205, 399)]
    assert keys(table, where="pt IS NULL") == [k for k in range(200, 300) if k != 205]
    found = table.to_arrow(where="pt = 'd' AND k > 397")
    assert found.to_pylist() == [{"k": 398, "v": "x", "pt": "d"}]


def test_an_update_keeps_the_other_partitions(catalog: Catalog, kind: dict[str, str]) -> None:
    table = migrated(catalog, PARTS, kind)
    table.update({"v": "new"}, "k IN (107, 307)")
    assert keys(table) == list(range(400))
    assert keys(table, where="v = 'new'") == [107, 307]
    assert keys(table, where="pt = 'b'") == list(range(100, 200))
    table.update({"pt": "z"}, "pt IS NULL AND k < 210")
    assert keys(table, where="pt = 'z'") == list(range(200, 210))
    assert keys(table, where="pt IS NULL") == list(range(210, 300))


def test_files_of_one_name_in_the_buckets_of_a_partition(catalog: Catalog, kind: dict[str, str]) -> None:
    parts = {"a": by_bucket(rows_of(0, 100)), "b": by_bucket(rows_of(100, 200))}
    table = migrated(catalog, parts, {**kind, "bucket": "2", "bucket-key": "k"})
    left = list(range(200))
    for gone in [(3, 160), (53, 110, 199)]:
        table.delete(f"k IN {gone}")
        left = [k for k in left if k not in gone]
        assert keys(table) == left
    table.compact(full=True)
    assert keys(table) == left


def test_a_compaction_keeps_every_partition_s_rows_and_value(catalog: Catalog, kind: dict[str, str]) -> None:
    table = migrated(catalog, PARTS, kind)
    table.delete("k IN (1, 101, 201)")
    table.write_arrow(pa.table({"k": [1000], "v": ["y"], "pt": ["b"]}, schema=SCHEMA))
    table = table.with_options({"compaction.min.file-num": "1"})
    table.compact(full=True)
    assert keys(table) == [*(k for k in range(400) if k not in (1, 101, 201)), 1000]
    assert keys(table, where="pt = 'b'") == [*(k for k in range(100, 200) if k != 101), 1000]
    if kind:
        assert not [e for e in table.store.index_manifest(table.latest_snapshot()) if e.file.dv_ranges]


@pytest.mark.parametrize("where", ["pt = 'b'", "pt >= 'b' AND pt < 'c'", "pt = 'b' OR k = 3"])
def test_statistics_do_not_say_that_a_column_of_the_partition_is_null(catalog: Catalog, where: str) -> None:
    table = migrated(catalog, PARTS, {}, stats=True)
    assert keys(table, where=where)[-100:] == list(range(100, 200))


def test_statistics_taken_of_the_files_themselves_know_nothing_of_the_partition(catalog: Catalog) -> None:
    """Another engine's statistics may count a missing column as null in every row, or have a value of its own."""
    files = {"a": [rows_of(0, 10).append_column("pt", pa.array(["zzz"] * 10))], "b": [rows_of(10, 20)]}
    table = migrated(catalog, files, {})
    table.delete("pt = 'a' AND k < 5")
    assert keys(table, where="pt = 'a'") == [5, 6, 7, 8, 9]
    assert keys(table, where="pt = 'zzz'") == []


def test_incremental_reads_know_the_partition(catalog: Catalog, kind: dict[str, str]) -> None:
    table = migrated(catalog, PARTS, kind)
    table.delete("k = 150")
    table.write_arrow(pa.table({"k": [1000], "v": ["y"], "pt": ["b"]}, schema=SCHEMA))
    delta = table.to_arrow(where="pt = 'b'", **{"incremental-between": "0,1"})
    assert sorted(delta.column("k").to_pylist()) == list(range(100, 200))
    assert set(delta.column("pt").to_pylist()) == {"b"}


def test_a_file_named_like_one_of_another_partition_is_numbered_after_its_own_bucket(catalog: Catalog) -> None:
    table = migrated(catalog, {"a": [rows_of(0, 10)], "b": [rows_of(10, 20)]}, {"bucket": "1", "bucket-key": "k"})
    one, two = plan(table.store).entries
    # A file like the one of `two` comes to the bucket of `one`, whose newest file has another name.
    other = replace(one, file=replace(one.file, file_name="data-0.parquet", max_sequence_number=9))
    message = CommitMessage(one.partition, 0, 1, new_files=(two.file,))
    assert shifts([message], [other, two]) == {(one.partition, 0): 10}


# ---- partitions of floating point


def floats(catalog: Catalog, kind: pa.DataType) -> Table:
    schema = pa.schema([("k", pa.int64()), ("f", kind)])
    table = catalog.create_table("f", schema, ["f"], [], {})
    for number, values in enumerate(([math.nan], [1.0, math.nan, 0.5], [-0.0], [0.0, 7.0], [math.nan, -3.0])):
        ks = [number * 10 + place for place in range(len(values))]
        table.write_arrow(pa.table({"k": ks, "f": values}, schema=schema))
    return table


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=["float", "double"])
@pytest.mark.parametrize("merged", [False, True])
def test_partitions_of_nan_are_found(catalog: Catalog, kind: pa.DataType, merged: bool) -> None:
    table = floats(catalog, kind)
    if merged:
        table = table.with_options({"manifest.full-compaction-threshold-size": "1 b"})
    nan = [0, 11, 40]
    assert keys(table, where=Compare("f", "=", math.nan)) == nan
    assert keys(table, where="f > 6") == [0, 11, 31, 40]
    assert keys(table, where="f < 1") == [12, 20, 30, 41]
    assert keys(table, where="f = 0") == [20, 30]
    again = pa.table({"k": pa.array([1000], pa.int64()), "f": pa.array([math.nan], kind)})
    table.write_arrow(again, mode="overwrite")
    assert keys(table) == [10, 12, 20, 30, 31, 41, 1000]
    table.delete(Compare("f", "=", math.nan))
    table.drop_partitions([{"f": 0.5}])
    table.delete("f < 0")
    assert keys(table) == [10, 20, 30, 31]
