"""Deletion vectors that Bucketlake wrote are read by Apache Paimon, which writes on in the same tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon
from tests.profile import first, later

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.table import Table

pytestmark = pytest.mark.peer

SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string())])
ROWS = 200_000
VECTORS = {"deletion-vectors.enabled": "true"}
TABLES = {
    "unaware": {**VECTORS, "bucket": "-1"},
    "unaware64": {**VECTORS, "bucket": "-1", "deletion-vectors.bitmap64": "true"},
    "small_indexes": {**VECTORS, "bucket": "-1", "deletion-vector.index-file.target-size": "1 kb"},
    "in_buckets": {**VECTORS, "bucket": "3", "bucket-key": "k"},
    "buckets64_inside": {
        **VECTORS,
        "bucket": "2",
        "bucket-key": "k",
        "deletion-vectors.bitmap64": "true",
        "index-file-in-data-file-dir": "true",
    },
    "avro": {**VECTORS, "bucket": "-1", "file.format": "avro"},
    "orc": {**VECTORS, "bucket": "-1", "file.format": "orc"},
    "rewritten": {"bucket": "-1"},
    "rewritten_buckets": {"bucket": "2", "bucket-key": "k"},
}

ORDER = ("unaware", "small_indexes", "unaware64", "buckets64_inside", "in_buckets", "avro", "rewritten")
ORDER += ("orc", "rewritten_buckets")


@pytest.fixture(scope="module")
def catalog(flink: FlinkPaimon, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder = tmp_path_factory.mktemp("deletion_vectors")
    flink.use(folder)
    return bucketlake.open(folder)


@pytest.fixture(scope="module", params=later(first(ORDER, 2), 1))
def deleted(catalog: Catalog, request: pytest.FixtureRequest) -> tuple[Table, set[int]]:
    """Two partitions of several files; rows deleted one by one, in runs, and densely: every kind of container."""
    table = catalog.create_table(f"default.{request.param}", SCHEMA, ["p"], [], TABLES[request.param])
    for low in range(0, ROWS, ROWS // 4):
        ks = range(low, low + ROWS // 4)
        table.write_arrow(
            pa.table({"p": [k // 100_000 for k in ks], "k": ks, "v": [str(k % 2) for k in ks]}, schema=SCHEMA)
        )
    left = set(range(ROWS))
    table.delete("k IN (0, 7, 49999, 50000, 199999)")
    left -= {0, 7, 49_999, 50_000, 199_999}
    table.delete("k >= 60000 AND k < 70000")
    left -= set(range(60_000, 70_000))
    table.delete("v = '1' AND p = 1 AND k < 150000")
    left -= set(range(100_001, 150_000, 2))
    table.update({"v": "new"}, "k >= 10 AND k < 20")
    return table, left


def read(flink: FlinkPaimon, name: str) -> tuple[Any, ...]:
    (row,) = flink.sql(f"SELECT COUNT(*), SUM(k), COUNT(DISTINCT k), MIN(k), MAX(k) FROM {name}").rows
    return tuple(row)


def summary(left: set[int]) -> tuple[Any, ...]:
    return (len(left), sum(left), len(left), min(left), max(left))


def ours(table: Table) -> set[int]:
    return set(table.to_arrow(columns=["k"]).column(0).to_pylist())


def test_flink_reads_what_is_left(flink: FlinkPaimon, deleted: tuple[Table, set[int]]) -> None:
    table, left = deleted
    name = table.name.split(".")[-1]
    assert read(flink, name) == summary(left)
    assert flink.sql(f"SELECT COUNT(*) FROM {name} WHERE v = 'new'").rows == [(10,)]
    assert flink.sql(f"SELECT COUNT(*) FROM {name} WHERE k >= 59990 AND k < 70010").rows == [(20,)]


def test_flink_writes_and_compacts_on(flink: FlinkPaimon, deleted: tuple[Table, set[int]]) -> None:
    table, left = deleted
    name = table.name.split(".")[-1]
    flink.sql(f"INSERT INTO {name} VALUES (1, 300000, 'x'), (0, 300001, 'x')")
    now = left | {300_000, 300_001}
    assert ours(table) == now
    table.delete("k = 300001 OR k = 3")
    flink.sql(f"CALL sys.compact(`table` => 'default.{name}', `options` => 'compaction.min.file-num=2')")
    now -= {300_001, 3}
    assert table.latest_snapshot().commit_kind in (CommitKind.COMPACT, CommitKind.OVERWRITE)  # type: ignore[union-attr]
    assert read(flink, name) == summary(now)
    assert ours(table) == now
    table.delete("k < 100")
    now = {k for k in now if k >= 100}
    assert read(flink, name) == summary(now)
    assert ours(table) == now
    left.clear()
    left.update(now)


def test_index_files_are_as_many_as_they_should_be(deleted: tuple[Table, set[int]]) -> None:
    table, _ = deleted
    for snapshot in table.snapshots():
        seen: set[tuple[bytes, int]] = set()
        for entry in table.store.index_manifest(snapshot):
            path = Path(table.store.paths.index_path(entry.partition, entry.bucket, entry.file))
            assert path.stat().st_size == entry.file.file_size
            assert table.options.get("bucket") < 0 or (entry.partition, entry.bucket) not in seen
            seen.add((entry.partition, entry.bucket))
