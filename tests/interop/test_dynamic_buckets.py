"""Bucketlake and Apache Paimon on Flink write tables with dynamic buckets in turns: each key stays in one bucket."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.interop.cases import Case, Maker
from tests.interop.catalogue import KV, kv
from tests.interop.engines import DATABASE, listed_here, listing, read_by_flink
from tests.interop.values import arrow_rows, canonical
from tests.peers.flink import FlinkPaimon

import bucketlake
from bucketlake import Table
from bucketlake.format.index.hash_index import decode_hashes, encode_hashes
from bucketlake.ops.buckets.dynamic import hash_files, key_hashes
from bucketlake.types.model import canonical_batch

pytestmark = pytest.mark.peer
TYPED = {
    "s": "STRING",
    "d": "DECIMAL(20, 4)",
    "t": "TIMESTAMP(3)",
    "i": "INT",
    "b": "BOOLEAN",
    "pt": "STRING",
    "v": "INT",
}


def index_of(table: Table) -> dict[tuple[str, int], list[int]]:
    """Partition path and bucket -> the hashes of its index file, as stored; bytes are what encoding gives again."""
    store = table.store
    found = {}
    for partition, files in hash_files(store.index_manifest(store.latest_snapshot())).items():
        for bucket, file in files.items():
            data = Path(store.paths.index_path(partition, bucket, file)).read_bytes()
            assert len(data) == file.file_size
            hashes = decode_hashes(data, rows=file.row_count)
            assert encode_hashes(hashes) == data
            assert len(set(hashes.tolist())) == len(hashes)
            found[store.paths.partition_path(partition), bucket] = hashes.tolist()
    return found


def check(table: Table) -> dict[tuple[str, int], int]:
    """All rows of a key lie in the one bucket whose index has its hash. Partition path and hash -> bucket."""
    table = table.refresh()
    places: dict[tuple[str, int], int] = {}
    for (path, bucket), hashes in index_of(table).items():
        for value in hashes:
            assert (path, value) not in places, "a hash in two buckets"
            places[path, value] = bucket
    keys = table.schema.select(table.schema.trimmed_primary_keys)
    for file in table.files():
        assert file.total_buckets == -1
        rows = pq.ParquetFile(file.path).read(columns=[item.name for item in keys])
        path = "/".join(f"{name}={text}" for name, text in file.partition.items())
        for batch in rows.to_batches():
            for value in key_hashes(canonical_batch(batch, keys), keys).tolist():
                assert places[path, value] == file.bucket
    return places


@pytest.mark.slow
def test_each_key_stays_in_its_bucket_whoever_writes(flink: FlinkPaimon, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database(DATABASE)
    flink.use(tmp_path)
    options = {"dynamic-bucket.target-row-num": "5", "write-only": "true"}
    maker = Maker(Case("turns", "", KV, lambda maker: None, keys=["k"], options=options).create(catalog, DATABASE))
    name = maker.table.name

    def ours(rows: list[tuple[int, str]]) -> None:
        maker.table = maker.table.refresh()
        maker.write(*rows)

    def theirs(rows: list[tuple[int, str]]) -> None:
        flink.sql(f"INSERT INTO {name} VALUES " + ", ".join(f"({key}, '{value}')" for key, value in rows))
        maker._put(rows)

    def agree(before: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        now = check(maker.table)
        assert {key: now[key] for key in before} == before
        table = maker.table.refresh()
        assert canonical(arrow_rows(table.to_arrow(), table.schema.fields)) == maker.expected()
        assert read_by_flink(flink, [table])[name] == maker.expected()
        assert listing(flink, [name])[name] == listed_here(table)
        return now

    ours(kv(0, 12, "ours"))
    places = agree({})
    theirs(kv(6, 30, "theirs"))
    places = agree(places)
    ours(kv(0, 40, "ours again"))
    places = agree(places)
    theirs(kv(20, 55, "theirs again"))
    places = agree(places)
    sizes = [len(hashes) for hashes in index_of(maker.table.refresh()).values()]
    assert sorted(sizes) == [5] * 11
    flink.sql(f"DELETE FROM {name} WHERE k IN (1, 21, 41)")
    maker._remove(lambda row: row["k"] in (1, 21, 41))
    maker.table = maker.table.refresh()
    maker.delete("k in (2, 22, 42)", lambda row: row["k"] in (2, 22, 42))
    places = agree(places)
    ours(kv(1, 3, "back"))
    theirs(kv(41, 43, "back"))
    places = agree(places)
    flink.sql(f"CALL sys.compact(`table` => '{name}')")
    places = agree(places)
    ours(kv(0, 60, "after"))
    theirs(kv(50, 70, "after"))
    agree(places)


def test_either_overwrites_and_the_other_goes_on(flink: FlinkPaimon, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database(DATABASE)
    flink.use(tmp_path)
    columns, options = {"pt": "STRING", "k": "BIGINT", "v": "STRING"}, {"dynamic-bucket.target-row-num": "2"}
    case = Case("overwrites", "", columns, lambda maker: None, ["pt"], ["pt", "k"], options)
    maker = Maker(case.create(catalog, DATABASE))
    name = maker.table.name
    maker.write(*[(pt, k, "ours") for pt in "ab" for k in range(6)])
    check(maker.table)
    flink.sql(f"INSERT OVERWRITE {name} PARTITION (pt = 'a') VALUES (1, 'whole'), (9, 'whole'), (10, 'whole')")
    maker._remove(lambda row: row["pt"] == "a")
    maker._put([("a", k, "whole") for k in (1, 9, 10)])
    places = check(maker.table)
    assert len([path for path, _ in places if path == "pt=a"]) == 3
    maker.table = maker.table.refresh()
    maker.write(*[("a", k, "ours again") for k in range(4)])
    check(maker.table)
    maker.overwrite(*[("b", k, "ours whole") for k in range(3)])
    flink.sql(f"INSERT INTO {name} VALUES ('b', 0, 'theirs'), ('b', 7, 'theirs'), ('c', 1, 'theirs')")
    maker._put([("b", 0, "theirs"), ("b", 7, "theirs"), ("c", 1, "theirs")])
    check(maker.table)
    flink.sql(f"ALTER TABLE {name} DROP PARTITION (pt = 'b')")
    maker._remove(lambda row: row["pt"] == "b")
    maker.table = maker.table.refresh()
    maker.write(("b", 2, "last"), ("c", 1, "last"))
    check(maker.table)
    table = maker.table.refresh()
    assert canonical(arrow_rows(table.to_arrow(), table.schema.fields)) == maker.expected()
    assert read_by_flink(flink, [table])[name] == maker.expected()


def test_hashes_of_keys_of_many_types(flink: FlinkPaimon, tmp_path: Path) -> None:
    """Keys that Flink wrote are found again: nothing is added to its index, and its buckets are kept."""
    catalog = bucketlake.open(tmp_path)
    catalog.create_database(DATABASE)
    flink.use(tmp_path)
    options = {"dynamic-bucket.target-row-num": "3", "write-only": "true"}
    keys = ["s", "d", "t", "i", "b", "pt"]
    table = Case("typed", "", TYPED, lambda maker: None, ["pt"], keys, options).create(catalog, DATABASE)
    rows = ", ".join(
        f"('{'ü' * n}long enough not to be inlined {n}', CAST({n}.5 - 7 AS DECIMAL(20, 4)),"
        f" TIMESTAMP '2024-02-29 12:00:0{n}.123', {n - 4}, {str(n % 2 == 0).upper()}, 'p{n % 2}', {n})"
        for n in range(9)
    )
    flink.sql(f"INSERT INTO {table.name} VALUES {rows}")
    places = check(table)
    index = index_of(table.refresh())
    assert len(places) == 9
    table = table.refresh()
    table.write_arrow(table.to_arrow())
    assert check(table) == places
    assert index_of(table.refresh()) == index, "not even rewritten"
