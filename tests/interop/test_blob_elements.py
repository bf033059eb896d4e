"""ARRAY<BLOB> and MAP<K, BLOB>: Apache Paimon on Flink and pypaimon read what is written here, and are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon
from tests.peers.python_peers import PyPaimon

import bucketlake
from bucketlake.format.data.blob import is_blob
from bucketlake.table import Table

pytestmark = pytest.mark.peer

SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("pics", pa.list_(pa.binary())),
        ("parts", pa.map_(pa.string(), pa.binary())),
        ("small", pa.map_(pa.int8(), pa.binary())),
    ]
)
OPTIONS = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
    "compaction.min.file-num": "2",
    "blob-field": "pics,parts,small",
    "blob.target-file-size": "300 b",
}
MADE = ",".join(f"'{key}'='{value}'" for key, value in OPTIONS.items() if key != "blob-field")
DIRECTIVE = "COMMENT '__BLOB_FIELD'"
ORDER = "SELECT id, name, pics, parts, small FROM t ORDER BY id"


def some(*ids: int) -> pa.Table:
    """Nulls, empty ones, nulls inside, many and large values."""
    pics = [None if n % 5 == 0 else [None if m % 3 == 1 else bytes([n]) * (m * 7) for m in range(n % 7)] for n in ids]
    parts = [None if n % 4 == 0 else [(f"k{m}ü", None if m == 2 else b"v" * n) for m in range(n % 6)] for n in ids]
    small = [[(m - 2, bytes([m]) * n) for m in range(n % 3)] for n in ids]
    return pa.table([ids, [f"n{n}" for n in ids], pics, parts, small], SCHEMA)


def listed(table: pa.Table) -> list[tuple[Any, ...]]:
    maps = [place for place, item in enumerate(table.schema) if pa.types.is_map(item.type)]
    rows = [list(row.values()) for row in table.sort_by("id").to_pylist()]
    for row in rows:
        for place in maps:
            row[place] = None if row[place] is None else dict(row[place])
    return [tuple(row) for row in rows]


def ours(table: Table) -> list[tuple[Any, ...]]:
    return listed(table.refresh().to_arrow(columns=SCHEMA.names))


@pytest.mark.slow
def test_all_write_and_read_one_table(flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path) -> None:
    """Rows of all three, files that roll, columns updated, deletes, compactions."""
    flink.use(tmp_path)
    pypaimon.use(tmp_path)
    flink.sql(
        f"CREATE TABLE t (id INT, name STRING, pics ARRAY<BYTES> {DIRECTIVE}, parts MAP<STRING, BYTES> {DIRECTIVE}, "
        f"small MAP<TINYINT, BYTES> {DIRECTIVE}) WITH ({MADE})"
    )
    table = bucketlake.open(tmp_path).table("t")
    assert [item.name for item in table.schema.blob_fields] == ["pics", "parts", "small"]

    def same() -> list[tuple[Any, ...]]:
        found = ours(table)
        assert flink.sql(ORDER).rows == found
        assert listed(pypaimon.read("default", "t")) == found
        return found

    source = bucketlake.open(tmp_path).create_table("d", SCHEMA)  # Flink has no literals of such arrays
    source.write_arrow(some(*range(1, 10)))
    flink.sql("INSERT INTO t SELECT * FROM d")
    assert same() == listed(some(*range(1, 10)))
    table.write_arrow(some(*range(10, 40)))
    pypaimon.write("default", "t", some(*range(40, 60)))
    assert same() == listed(some(*range(1, 60)))
    table.refresh().update({"name": "new"}, "id < 20 and id > 1")
    table.refresh().delete("id = 1 or id = 30 or id = 41")
    flink.sql("CALL sys.compact(`table` => 'default.t')")
    before = same()
    table.refresh().write_arrow(some(100, 101))
    before = same()
    table.refresh().compact()
    assert same() == before
    table.refresh().materialize_deletion_vectors()
    assert same() == before
    assert any(is_blob(file.path) for file in table.refresh().files())
    assert not table.refresh().fsck(level="rows").findings


def test_placeholders(flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path) -> None:
    """Rows that an update leaves alone keep their values, whoever updates."""
    flink.use(tmp_path)
    pypaimon.use(tmp_path)
    table = bucketlake.open(tmp_path).create_table("t", SCHEMA, options=OPTIONS)
    table.write_arrow(some(1, 2, 3, 4, 6))
    new = pa.table(
        {"_ROW_ID": pa.array([1, 2], pa.int64()), "pics": pa.array([[b"\xaa", None], None], SCHEMA.field("pics").type)}
    )
    pypaimon.update_by_ids("default", "t", new)
    found = ours(table)
    assert found == flink.sql(ORDER).rows
    assert [row[2] for row in found[1:3]] == [[b"\xaa", None], None]
    assert [found[place] for place in (0, 3, 4)] == listed(some(1, 4, 6))
    table.refresh().delete("id = 1")
    assert ours(table) == flink.sql(ORDER).rows == found[1:]
    table.refresh().materialize_deletion_vectors()
    assert ours(table) == flink.sql(ORDER).rows == listed(pypaimon.read("default", "t")) == found[1:]


def test_descriptors(flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path) -> None:
    """Descriptors of elements made here are followed by the others, and theirs here."""
    flink.use(tmp_path)
    pypaimon.use(tmp_path)
    table = bucketlake.open(tmp_path).create_table("t", SCHEMA, options=OPTIONS)
    table.write_arrow(some(1, 2, 3, 8))
    flink.sql("CREATE TABLE d (id INT, pics ARRAY<BYTES>, parts MAP<STRING, BYTES>, small MAP<TINYINT, BYTES>)")
    described = table.with_options({"blob-as-descriptor": "true"}).to_arrow(columns=["id", "pics", "parts", "small"])
    assert described["pics"].to_pylist() != table.refresh().to_arrow()["pics"].to_pylist()
    bucketlake.open(tmp_path).table("d").write_arrow(described)
    flink.sql("INSERT INTO t SELECT id + 10, 'n', pics, parts, small FROM d")
    found = ours(table)
    assert [row[2:] for row in found[4:]] == [row[2:] for row in found[:4]]
    theirs = pypaimon.read("default", "t", options={"blob-as-descriptor": "true"})
    table.refresh().write_arrow(theirs.set_column(0, SCHEMA.field("id"), pa.array(range(21, 29), pa.int32())))
    again = ours(table)
    assert sorted(map(str, (row[2:] for row in again[8:]))) == sorted(map(str, (row[2:] for row in found)))
