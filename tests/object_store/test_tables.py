"""Rows into tables and back: every kind of table, merge reads, overwrites, partitions, time travel."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.object_store.conftest import S3, rows
from tests.profile import first, pairs

import bucketlake
from bucketlake import Catalog, NotFoundError, Table
from bucketlake.env.local import LocalStorage
from bucketlake.errors import InvalidError, StorageError
from bucketlake.format.data import descriptor

SCHEMA = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "keyed": (["p", "k"], {"bucket": "2"}),
    "bucketed": ([], {"bucket": "2", "bucket-key": "k"}),
    "unaware": ([], {"bucket": "-1"}),
}


def made(catalog: Catalog, kind: str, partitioned: bool = True, **more: str) -> Table:
    keys, options = KINDS[kind]
    return catalog.create_table("t", SCHEMA, ["p"] if partitioned else [], keys, {**options, **more})


def data(*found: tuple[str, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip("pkv", row, strict=True)) for row in found], SCHEMA)


@pytest.mark.parametrize(("form", "kind"), first(pairs(["parquet", "orc", "avro"], list(KINDS)), 3))
def test_write_read_overwrite(catalog: Catalog, kind: str, form: str) -> None:
    table = made(catalog, kind, **{"file.format": form})
    table.write_arrow(data(("a", 1, 1), ("a", 2, 2), ("b/ü", 1, 3)))
    table.write_arrow(data(("a", 1, 4), ("c", 9, 5)))
    kept = [] if kind == "keyed" else [("a", 1, 1)]
    assert rows(table) == sorted([*kept, ("a", 1, 4), ("a", 2, 2), ("b/ü", 1, 3), ("c", 9, 5)])
    assert table.partitions() == [{"p": "a"}, {"p": "b/ü"}, {"p": "c"}]
    assert rows(table, where="p = 'b/ü' AND k = 1", columns=["v"]) == [(3,)]
    assert rows(table, limit=1) != []

    table.write_arrow(data(("a", 7, 7)), mode="overwrite")  # dynamic: only the partition that it has
    assert rows(table) == [("a", 7, 7), ("b/ü", 1, 3), ("c", 9, 5)]
    table.write_arrow(data(("b/ü", 8, 8)), mode="overwrite", partition={"p": "b/ü"})
    assert rows(table) == [("a", 7, 7), ("b/ü", 8, 8), ("c", 9, 5)]
    table.drop_partitions([{"p": "c"}])
    assert rows(table) == [("a", 7, 7), ("b/ü", 8, 8)]
    table.truncate()
    assert rows(table) == []

    assert rows(table, scan_snapshot_id=1) == [("a", 1, 1), ("a", 2, 2), ("b/ü", 1, 3)]
    assert rows(table, scan_snapshot_id=3) == [("a", 7, 7), ("b/ü", 1, 3), ("c", 9, 5)]
    second = table.snapshots()[1].time_millis
    assert rows(table, scan_timestamp_millis=second) == rows(table, scan_snapshot_id=2)
    with pytest.raises(NotFoundError, match="out of available"):
        table.to_arrow(scan_snapshot_id=99)
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("kind", list(KINDS))
def test_tables_without_partitions(catalog: Catalog, kind: str) -> None:
    keys, options = KINDS[kind]
    table = catalog.create_table("t", SCHEMA, [], keys, options)
    table.write_arrow(data(("a", 1, 1), ("b", 1, 2)))
    table.write_arrow(data(("c", 3, 3)), mode="overwrite")
    assert rows(table) == [("c", 3, 3)]


def test_deletes_and_merges_of_many_files(catalog: Catalog) -> None:
    table = made(catalog, "keyed", **{"target-file-size": "8 kb", "write-buffer-size": "64 kb", "write-only": "true"})
    expected: dict[tuple[str, int], int] = {}
    for turn in range(4):
        wanted = [("pq"[k % 2], k, turn * 10_000 + k) for k in range(turn * 100, 3000, turn + 1)]
        table.write_arrow(data(*wanted))
        expected.update({(p, k): v for p, k, v in wanted})
    table.delete("k >= 100 AND k < 200")
    alive = sorted((p, k, v) for (p, k), v in expected.items() if not 100 <= k < 200)
    assert rows(table) == alive
    assert sum(batch.num_rows for batch in table.to_batches()) == len(alive)
    assert len(table.files()) > 8


@pytest.mark.parametrize("lost", [0, 1])
def test_files_of_several_parts(catalog: Catalog, s3: S3, lost: int) -> None:
    """A file larger than one request's part is a multipart upload; the answer to its last request may be lost."""
    table = catalog.create_table("t", pa.schema([("b", pa.binary())]), options={"file.compression": "none"})
    blob = [os.urandom(1 << 20) for _ in range(20)]
    s3.fail(("?complete", "lose", lost))
    table.write_arrow(pa.table({"b": blob}))
    (found,) = table.files()
    key = found.path.removeprefix("s3://lake/")
    assert s3.client.head_object(Bucket="lake", Key=key)["ETag"].strip('"').endswith("-3")
    assert sorted(table.to_arrow()["b"].to_pylist()) == sorted(blob)


def test_lists_whose_answer_ends_too_soon(catalog: Catalog, s3: S3) -> None:
    table = made(catalog, "keyed")
    table.write_arrow(data(("a", 1, 1)))
    storage, known = table.store.env.storage, s3.keys(table.path)
    s3.fail(("?list", "cut", 1))
    assert {one.path for one in storage.walk(table.path)} == {f"{table.path}/{key}" for key in known}
    for call in (storage.list, storage.info):
        s3.fail(("?list", "cut", 1))
        assert call(f"{table.path}/schema")
    s3.fail(("?list", "cut", 2))
    with pytest.raises(StorageError, match="cannot list"):
        storage.list(table.path)


def test_files_that_are_not_there_and_an_answer_that_ends_too_soon(catalog: Catalog, s3: S3) -> None:
    table = made(catalog, "keyed")
    table.write_arrow(data(("a", 1, 1)))
    s3.fail(("?get", "cut", 1))
    with pytest.raises(NotFoundError):
        table.store.env.storage.read(f"{table.path}/snapshot/snapshot-2")


def test_spellings_of_one_place(catalog: Catalog, s3: S3) -> None:
    made(catalog, "keyed").write_arrow(data(("a", 1, 1)))
    place = catalog.warehouse.removeprefix("s3://")
    hadoop = {
        "fs.s3a.endpoint": s3.endpoint.removeprefix("http://"),
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": "a",
        "fs.s3a.secret.key": "b",
    }
    other = bucketlake.open(f"s3a://{place}/", hadoop)
    other.table("t").write_arrow(data(("a", 2, 2)))
    assert rows(catalog.table("t")) == rows(other.table("t")) == [("a", 1, 1), ("a", 2, 2)]


def test_credentials_of_the_environment(catalog: Catalog, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    catalog.create_database("shop")
    found = bucketlake.open(catalog.warehouse, {"s3.endpoint": s3.endpoint})
    assert found.list_databases() == ["default", "shop"]


def test_an_environment_that_changes_is_read_again(catalog: Catalog, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook the keys come after the first try."""
    catalog.create_database("shop")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"{s3.endpoint}/elsewhere")
    with pytest.raises(StorageError):
        bucketlake.open(catalog.warehouse)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    assert bucketlake.open(catalog.warehouse).list_databases() == ["default", "shop"]


def test_a_place_without_an_account_says_which_option_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidError, match=r"Account must be specified\].*azure\.account-name") as found:
        bucketlake.open("az://lake/wh")
    assert "\n" not in str(found.value)


def test_options_of_the_storage_are_not_the_tables(catalog: Catalog) -> None:
    table = made(catalog, "keyed")
    text = table.store.env.storage.read(table.store.paths.schema(0)).decode()
    assert "s3." not in text


def test_file_uris_are_local(tmp_path: Any) -> None:
    catalog = bucketlake.open(f"file://{tmp_path}/wh")
    assert isinstance(catalog.env.storage, LocalStorage)
    table = made(catalog, "keyed")
    table.write_arrow(data(("a", 1, 1)))
    assert table.path == f"{tmp_path}/wh/default.db/t"
    assert rows(bucketlake.open(tmp_path / "wh").table("t")) == [("a", 1, 1)]


@pytest.mark.parametrize("null", [False, True])
def test_a_descriptor_of_an_object_that_is_not_there(null: bool, catalog: Catalog) -> None:
    """It is no empty value: told, and nothing written, or null where the table says so."""
    schema = pa.schema([("k", pa.int64()), ("pic", pa.binary())])
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-field": "pic"}
    passing = {"blob-write-null-on-missing-file": "true"} if null else {}
    table = catalog.create_table("t", schema, options={**options, **passing})
    (pic,) = descriptor.describe(f"{table.path}/gone", np.array([0]), np.array([-1])).to_pylist()
    given = pa.table({"k": [1], "pic": [pic]}, schema=schema)
    if null:
        with pytest.warns(UserWarning, match="null for a blob"):
            table.write_arrow(given)
        assert rows(table.refresh()) == [(1, None)]
        return
    with pytest.raises(NotFoundError):
        table.write_arrow(given)
    assert table.refresh().to_arrow().num_rows == 0


def test_blobs(catalog: Catalog, s3: S3) -> None:
    """Values, arrays and maps of them in files of several parts; descriptors name objects, and are followed."""
    schema = pa.schema(
        [
            ("k", pa.int64()),
            ("pic", pa.binary()),
            ("pics", pa.list_(pa.binary())),
            ("parts", pa.map_(pa.string(), pa.binary())),
        ]
    )
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-field": "pic,pics,parts"}
    table = catalog.create_table("t", schema, options=options)
    large = [os.urandom(3 << 20) for _ in range(6)]
    given = [
        (1, large[0], [large[1], None, b""], [("a", large[2]), ("n", None)]),
        (2, None, None, None),
        (3, b"", [], []),
        (4, b"small", [large[3], b"x", large[4]], [("b", b"y"), ("c", large[5])]),
    ]
    table.write_arrow(pa.table(list(zip(*given, strict=True)), schema))
    assert rows(table.refresh()) == given
    described = table.with_options({"blob-as-descriptor": "true"}).to_arrow(where="k = 4")
    (value,) = described["pics"].to_pylist()
    assert [b"s3://lake/" in one for one in value] == [True] * 3
    table.refresh().write_arrow(described.set_column(0, schema.field("k"), pa.array([5])))
    table.refresh().update({"pics": [b"new", None]}, "k = 1")
    assert rows(table.refresh(), where="k IN (1, 5)") == [
        (*given[0][:2], [b"new", None], given[0][3]),
        (5, *given[3][1:]),
    ]
    assert not table.refresh().fsck(level="rows").findings
