"""BLOB columns: Apache Paimon on Flink and pypaimon read the blob files written here, and are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon
from tests.peers.python_peers import PyPaimon
from tests.profile import later

import bucketlake
from bucketlake.format.data import descriptor
from bucketlake.format.data.blob import is_blob
from bucketlake.table import Table

pytestmark = pytest.mark.peer

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("pic", pa.large_binary())])
OPTIONS = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
    "compaction.min.file-num": "2",
    "blob-field": "pic",
    "blob.target-file-size": "300 b",
}
MADE = ",".join(f"'{key}'='{value}'" for key, value in OPTIONS.items() if key != "blob-field")
ORDER = "SELECT id, name, pic FROM t ORDER BY id"


def some(*ids: int) -> pa.Table:
    values = [None if number % 5 == 0 else bytes([number % 256]) * (number * 7) for number in ids]
    return pa.table({"id": ids, "name": [f"n{number}" for number in ids], "pic": values}, SCHEMA)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.sort_by("id").to_pylist()]


def ours(table: Table) -> list[tuple[object, ...]]:
    return rows(table.refresh().to_arrow(columns=["id", "name", "pic"]))


@pytest.mark.slow
def test_all_write_and_read_one_table(flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path) -> None:
    """Rows of all three, files that roll, nulls and empty values, columns updated, deletes, compactions."""
    flink.use(tmp_path)
    pypaimon.use(tmp_path)
    flink.sql(f"CREATE TABLE t (id INT, name STRING, pic BYTES COMMENT '__BLOB_FIELD; a picture') WITH ({MADE})")
    table = bucketlake.open(tmp_path).table("t")
    assert [(f.type.root.value, f.description) for f in table.schema.fields][2] == ("BLOB", "a picture")

    def same() -> list[tuple[object, ...]]:
        found = ours(table)
        assert flink.sql(ORDER).rows == found
        assert rows(pypaimon.read("default", "t")) == found
        return found

    flink.sql("INSERT INTO t VALUES (1, 'n1', X'0102'), (2, 'n2', CAST(NULL AS BYTES)), (3, 'n3', X'')")
    assert same() == [(1, "n1", b"\1\2"), (2, "n2", None), (3, "n3", b"")]
    table.write_arrow(some(*range(10, 40)))
    pypaimon.write("default", "t", some(*range(40, 60)))
    assert same()[3:] == rows(some(*range(10, 60)))
    table.refresh().update({"name": "new"}, "id < 20 and id > 2")
    table.refresh().delete("id = 1 or id = 30 or id = 41")
    table.refresh().update({"pic": b"new"}, "id = 3 or id = 44")
    before = same()
    assert [row[2] for row in before if row[0] in (3, 44)] == [b"new", b"new"]
    flink.sql("CALL sys.compact(`table` => 'default.t')")
    assert same() == before
    table.refresh().write_arrow(some(100, 101))
    before = same()
    table.refresh().compact()
    assert same() == before
    table.refresh().materialize_deletion_vectors()
    assert same() == before
    assert any(is_blob(file.path) for file in table.refresh().files())
    assert not table.refresh().fsck(level="rows").findings


def test_placeholders(flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path) -> None:
    """pypaimon's update of a blob column leaves placeholders for rows that it does not change: older files have them."""
    flink.use(tmp_path)
    pypaimon.use(tmp_path)
    table = bucketlake.open(tmp_path).create_table("t", SCHEMA, options=OPTIONS)
    table.write_arrow(some(1, 2, 3, 4, 6))
    new = pa.table({"_ROW_ID": pa.array([1, 2], pa.int64()), "pic": pa.array([b"\xaa", None], pa.large_binary())})
    pypaimon.update_by_ids("default", "t", new)
    found = ours(table)
    assert found == flink.sql(ORDER).rows
    assert [row[2] for row in found[1:3]] == [b"\xaa", None]
    assert [found[place] for place in (0, 3, 4)] == rows(some(1, 4, 6))
    table.refresh().delete("id = 1")
    assert ours(table) == flink.sql(ORDER).rows == found[1:]
    table.refresh().materialize_deletion_vectors()
    assert ours(table) == flink.sql(ORDER).rows == found[1:]


def test_descriptors(flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path) -> None:
    """Descriptors made here are followed by the others, and theirs here."""
    flink.use(tmp_path)
    pypaimon.use(tmp_path)
    table = bucketlake.open(tmp_path).create_table("t", SCHEMA, options=OPTIONS)
    table.write_arrow(some(1, 2, 3))
    flink.sql("CREATE TABLE d (id INT, pic BYTES)")
    described = table.with_options({"blob-as-descriptor": "true"}).to_arrow(columns=["id", "pic"])
    bucketlake.open(tmp_path).table("d").write_arrow(described)
    flink.sql("INSERT INTO t SELECT id + 10, 'n', pic FROM d")
    found = ours(table)
    assert [row[2] for row in found[3:]] == [row[2] for row in found[:3]]
    theirs = pypaimon.read("default", "t", options={"blob-as-descriptor": "true"})
    table.refresh().write_arrow(theirs.set_column(0, SCHEMA.field("id"), pa.array(range(21, 27), pa.int32())))
    found = ours(table)
    assert [row[2] for row in found[6:]] == [row[2] for row in rows(theirs_values(table))]


def theirs_values(table: Table) -> pa.Table:
    """The values of the first six rows."""
    return table.refresh().to_arrow(where="id < 20")


@pytest.mark.parametrize("form", later(["parquet", "orc", "avro"], 1))
def test_columns_of_descriptors(flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path, form: str) -> None:
    """`blob-descriptor-field`: all write descriptors, and read what they name."""
    flink.use(tmp_path)
    pypaimon.use(tmp_path)
    options = {key: value for key, value in OPTIONS.items() if key != "blob-field"}
    options |= {"blob-descriptor-field": "pic", "file.format": form}
    warehouse = bucketlake.open(tmp_path)
    table = warehouse.create_table("t", SCHEMA, options=options)
    source = Path(table.path) / "image"
    source.write_bytes(b"0123456789")
    one = [
        descriptor.describe(f"file:{source}", np.array([at]), np.array([size]))[0].as_py()
        for at, size in ((0, -1), (2, 3))
    ]
    data = pa.table([[1, 2, 3], ["a", "b", "c"], [one[0], None, one[1]]], SCHEMA)
    table.write_arrow(data)
    warehouse.create_table("d", pa.schema([SCHEMA.field("id"), ("pic", pa.binary())])).write_arrow(
        pa.table({"id": pa.array([4, 5, 6], pa.int32()), "pic": pa.array([one[1], None, one[0]], pa.binary())})
    )
    flink.sql("INSERT INTO t SELECT id, 'f', pic FROM d")
    assert ours(table) == [
        *((1, "a", b"0123456789"), (2, "b", None), (3, "c", b"234")),
        *((4, "f", b"234"), (5, "f", None), (6, "f", b"0123456789")),
    ]
    if form == "parquet":
        pypaimon.write("default", "t", data.set_column(0, SCHEMA.field("id"), pa.array([7, 8, 9], pa.int32())))
        assert [row[2] for row in ours(table)[6:]] == [b"0123456789", None, b"234"]
        assert rows(pypaimon.read("default", "t")) == ours(table)
    assert flink.sql(ORDER).rows == ours(table)
    stored = table.refresh().with_options({"blob-as-descriptor": "true"}).to_arrow().sort_by("id")
    assert stored["pic"].to_pylist()[:3] == data["pic"].to_pylist()
    table.refresh().update({"name": "new"}, "id = 1 or id = 4")
    table.refresh().update({"pic": one[1]}, "id = 6")
    table.refresh().delete("id = 2")
    table.refresh().compact()
    found = ours(table)
    assert flink.sql(ORDER).rows == found
    assert [row[2] for row in found[:5]] == [b"0123456789", b"234", b"234", None, b"234"]
    flink.sql("CALL sys.compact(`table` => 'default.t')")
    assert ours(table) == flink.sql(ORDER).rows == found


def test_compaction_of_blob_files(flink: FlinkPaimon, pypaimon: PyPaimon, tmp_path: Path) -> None:
    """`blob-compaction.enabled`: what one engine merged, the others read and merge again; each picks the same files."""
    flink.use(tmp_path)
    pypaimon.use(tmp_path)
    warehouse = bucketlake.open(tmp_path)
    made = {**OPTIONS, "blob-compaction.enabled": "true", "compaction.min.file-num": "100"}
    twins = [warehouse.create_table(name, SCHEMA, options=made) for name in ("t", "twin")]
    for table in twins:
        table.write_arrow(some(*range(1, 30)))
        table.refresh().update({"pic": b"new"}, "id = 3 or id = 4")
        table.refresh().write_arrow(some(*range(30, 40)))
    before = ours(twins[0])
    for name, table in zip(("t", "twin"), twins, strict=True):
        flink.sql(f"ALTER TABLE {name} SET ('blob.target-file-size' = '1 mb')")
        assert len(files(table)) > 4
    flink.sql("CALL sys.compact(`table` => 'default.t')")
    twins[1].refresh().compact()
    assert files(twins[0]) == files(twins[1]) == [(0, 29), (29, 10)]
    for name, table in zip(("t", "twin"), twins, strict=True):
        assert ours(table) == before == flink.sql(ORDER.replace(" t ", f" {name} ")).rows
        assert rows(pypaimon.read("default", name)) == before
    twins[0].refresh().update({"pic": None}, "id = 5")
    twins[0].refresh().compact()
    twins[1].refresh().update({"pic": None}, "id = 5")
    flink.sql("CALL sys.compact(`table` => 'default.twin')")
    assert files(twins[0]) == files(twins[1]) == [(0, 29), (29, 10)]
    assert ours(twins[0]) == ours(twins[1]) == flink.sql(ORDER).rows
    assert not twins[1].refresh().fsck(level="rows").findings


def files(table: Table) -> list[tuple[int | None, int]]:
    """The rows of blob files."""
    found = [file.file for file in table.refresh().files() if is_blob(file.path)]
    return sorted((file.first_row_id, file.row_count) for file in found)


KEYED = {"primary-key": "id", "bucket": "2", "blob-field": "pic,parts,named", "blob.target-file-size": "300 b"}
COLUMNS = ["id", "name", "pic", "parts", "named"]


def keyed(*ids: int, sign: bytes = b"v") -> pa.Table:
    kinds = {
        "id": pa.int32(),
        "name": pa.string(),
        "pic": pa.binary(),
        "parts": pa.list_(pa.binary()),
        "named": pa.map_(pa.string(), pa.binary()),
    }
    values = [None if number % 5 == 0 else sign * (number * 7) for number in ids]
    columns = [
        list(ids),
        [f"n{number}" for number in ids],
        values,
        [None if number % 3 == 0 else [value, None, b""] for number, value in zip(ids, values, strict=True)],
        [None if number % 4 == 0 else {"a": value, "b": b"x"} for number, value in zip(ids, values, strict=True)],
    ]
    return pa.table(dict(zip(kinds, columns, strict=True)), pa.schema(list(kinds.items())))


@pytest.mark.slow
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_tables_with_a_primary_key(flink: FlinkPaimon, tmp_path: Path, vectors: str) -> None:
    """Values in packs, descriptors in the rows: new ones, updates, deletes and compactions by both."""
    flink.use(tmp_path)
    made = {key: value for key, value in KEYED.items() if key not in ("primary-key", "blob-field")}
    options = ",".join(f"'{key}'='{value}'" for key, value in ({**made, "deletion-vectors.enabled": vectors}).items())
    flink.sql(
        "CREATE TABLE k (id INT, name STRING, pic BYTES COMMENT '__BLOB_FIELD', parts ARRAY<BYTES> COMMENT "
        f"'__BLOB_FIELD', named MAP<STRING, BYTES> COMMENT '__BLOB_FIELD', PRIMARY KEY (id) NOT ENFORCED) WITH ({options})"
    )
    catalog = bucketlake.open(tmp_path)

    def same() -> list[tuple[object, ...]]:
        found = rows(catalog.table("k").to_arrow(columns=COLUMNS))
        told = flink.sql("SELECT id, name, pic, parts[1], CARDINALITY(parts), named['a'] FROM k ORDER BY id").rows
        expected = []
        for key, name, pic, parts, named in found:
            listed = (None, None) if parts is None else (parts[0], len(parts))
            expected.append((key, name, pic, *listed, dict(named or ()).get("a")))
        assert told == expected
        return found

    flink.sql(
        "INSERT INTO k (id, name, pic) VALUES (1, 'n1', X'0102'), (2, 'n2', CAST(NULL AS BYTES)), (51, 'n3', X'')"
    )
    made = [(1, "n1", b"\1\2", None, None), (2, "n2", None, None, None), (51, "n3", b"", None, None)]
    assert same() == made
    catalog.table("k").write_arrow(keyed(*range(2, 40)))
    assert same() == [made[0], *rows(keyed(*range(2, 40))), made[2]]
    catalog.table("k").write_arrow(keyed(*range(30, 50), sign=b"w"))
    catalog.table("k").delete("id in (1, 5, 44)")
    before = same()
    assert len(before) == 47
    flink.sql("CALL sys.compact(`table` => 'default.k')")
    assert same() == before
    catalog.table("k").write_arrow(keyed(7, 8, sign=b"z"))
    before = same()
    catalog.table("k").compact(full=True)
    assert same() == before
    flink.sql("INSERT INTO k SELECT id + 100, name, pic, parts, named FROM k WHERE id < 10")
    assert len(same()) == len(before) + sum(row[0] < 10 for row in before)
    assert not catalog.table("k").fsck(level="rows").findings
