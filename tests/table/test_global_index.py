"""Global indexes of tables whose columns lie in several files: fewer files are read, and the rows are the same."""

from __future__ import annotations

import contextlib
import random
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import later, seeds
from tests.sim.clock import FakeClock
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    Killed,
    MapStorage,
)

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, UnsupportedError
from bucketlake.format.index import bitmap_index
from bucketlake.ops.compact import materialize
from bucketlake.ops.compact.reassign import Moves
from bucketlake.ops.global_index import build
from bucketlake.ops.rows import global_index
from bucketlake.ops.scan.select import select_snapshot
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import DropColumn, RenameColumn, SetOption, UpdateColumnType
from bucketlake.table import Table, open_table
from bucketlake.types.model import BIGINT

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "compaction.min.file-num": "2"}
VECTORS = {"deletion-vectors.enabled": "true"}
ACTION = "global-index.column-update-action"
SCHEMA = pa.schema([("id", pa.int32()), ("b", pa.string()), ("p", pa.int32())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = bucketlake.open(tmp_path)
    made.create_database("db")
    return made


def create(catalog: Catalog, by: tuple[str, ...] = (), name: str = "db.t", **options: str) -> Table:
    return catalog.create_table(name, SCHEMA, partition_keys=by, options={**EVOLVING, **VECTORS, **options})


def insert(table: Table, *ids: int, p: int = 0) -> None:
    table.write_arrow(pa.table({"id": ids, "b": [f"b{i}" for i in ids], "p": [p] * len(ids)}, SCHEMA))


def files(table: Table, where: str) -> int:
    return len(table.planned(table.predicate(where), select_snapshot(table.store)).entries)


def ids(table: Table, where: str) -> list[int]:
    return sorted(table.to_arrow(where, columns=["id"]).column(0).to_pylist())


def indexes(table: Table) -> list[Any]:
    snapshot = select_snapshot(table.store).snapshot
    return [e for e in table.store.index_manifest(snapshot) if e.file.index_type in global_index.KINDS]


def scattered(table: Table) -> None:
    """Four files over which the values are scattered, so that statistics leave none out."""
    for first in range(4):
        insert(table, *range(first, 40, 4))


def test_files_without_the_value_are_not_read(catalog: Catalog) -> None:
    table = create(catalog)
    scattered(table)
    assert table.create_global_index("id") == 1
    snapshot = table.latest_snapshot()
    assert snapshot is not None and snapshot.commit_kind.value == "APPEND" and snapshot.delta_record_count == 0
    assert files(table, "id = 7") == 1 and ids(table, "id = 7") == [7]
    assert files(table, "id IN (4, 8, 9)") == 2 and ids(table, "id IN (4, 8, 9)") == [4, 8, 9]
    assert files(table, "id = 7 AND b = 'b7'") == 1 and files(table, "b = 'b7'") > 1
    assert files(table, "id IS NULL") == 0 and ids(table, "id = 7 OR id = 8") == [7, 8]
    assert files(table.with_options({"global-index.enabled": "false"}), "id = 7") == 4
    insert(table, 7, 100)
    assert files(table, "id = 7") == 2 and ids(table, "id = 7") == [7, 7]
    assert table.create_global_index("id") == 1 and table.create_global_index("id") == 0
    assert files(table, "id = 100") == 1 and len(indexes(table)) == 2
    assert table.drop_global_index("id", dry_run=True) == 2 and len(indexes(table)) == 2
    assert table.drop_global_index("id") == 2 and table.drop_global_index("id") == 0
    assert files(table, "id = 100") == 1 and files(table, "id = 7") == 5
    assert not table.refresh().fsck(level="rows").findings


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_ranges_and_what_is_not(catalog: Catalog, kind: str) -> None:
    table = create(catalog)
    scattered(table)
    insert(table, *[6] * 10)
    table.write_arrow(pa.table({"id": pa.nulls(5, pa.int32()), "b": ["z"] * 5, "p": [0] * 5}, SCHEMA))
    for column in ("id", "b"):
        table.create_global_index(column, kind)
    for where, read in {
        "id BETWEEN 5 AND 6": 3,
        "id > 4 AND id < 6": 1,
        "id >= 13 AND id <= 13": 1,
        "id > 37": 2,
        "id >= 4 AND id < 4": 0,
        "id < 1 OR id > 38": 2,
        "id <> 6": 4,
        "id NOT IN (6, 7)": 4,
        "NOT id <=> 6": 5,
        "id IS NOT NULL": 5,
        "b LIKE 'b11%'": 1,
        "b LIKE 'b2_%'": 4,
        "startswith(b, 'b39')": 1,
        "NOT startswith(b, 'b')": 1,
        "b > 'b37' AND b < 'b39'": 1,
        "b <> 'z' AND id IS NULL": 0,
        "id = 5 OR b = 'b7'": 2,
        "id = 5 OR b = 'b7' OR id = 9": 2,
        "(id = 5 AND p = 0) OR b = 'b7'": 2,
        "id = 5 AND (b = 'b7' OR id = 10)": 0,
        "(id = 5 OR p = 0) AND b = 'b7'": 1,
        "id NOT IN (6, NULL)": 0,
    }.items():
        assert files(table, where) == read, where
        plain = table.with_options({"global-index.enabled": "false"})
        found, expected = (one.to_arrow(where).column(0).to_pylist() for one in (table, plain))
        assert sorted(found, key=str) == sorted(expected, key=str), where


def test_what_names_most_rows_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an index lies says how much would be read: no block of those is."""
    monkeypatch.setattr(global_index, "FEW_BYTES", 0)
    monkeypatch.setattr(global_index, "ONE_BLOCK", 0)
    monkeypatch.setattr(global_index, "SHARE", 1)
    storage, table, _ = rivalled(lambda other: None)
    insert(table, *range(4000))
    table.create_global_index("id", btree_index_block_size="1 kb")
    table.create_global_index("b", "bitmap")
    watched = FaultStorage(storage)
    table = of(watched)
    plain = table.with_options({"global-index.enabled": "false"})
    for where, blocks in (("id BETWEEN 10 AND 3000", 0), ("id BETWEEN 10 AND 20", 1), ("b < 'b9'", 0)):
        clear_cache()
        before = len(watched.calls)
        assert files(table, where) == files(plain, where)
        asked = [path for operation, path in watched.calls[before:] if operation == "read" and "/index/" in path]
        assert len(asked) == 2 + blocks, (where, asked)


def test_what_is_read_of_an_index_for_ranges_is_an_option(catalog: Catalog) -> None:
    table = create(catalog)
    scattered(table)
    table.create_global_index("id")
    table.create_global_index("b", "bitmap")
    for column, key, first, last in (("id", "btree-index", "13", "14"), ("b", "bitmap-index", "'b13'", "'b14'")):
        off = table.with_options({f"{key}.fallback-scan-max-size": "0 b"})
        point, several = f"{column} = {first}", f"{column} BETWEEN {first} AND {last}"
        assert files(table, point) == files(off, point) == 1
        assert files(table, several) == 2 and files(off, several) == 4


@pytest.mark.parametrize("codec", ["zstd", "lz4", "LZO"])
def test_compressed_blocks(catalog: Catalog, codec: str) -> None:
    table = create(catalog)
    for first in (0, 1):
        insert(table, *range(first, 2000, 2))
    table.create_global_index("b")
    plain = indexes(table)[0].file.file_size
    table.drop_global_index("b")
    table.create_global_index("b", btree_index_compression=codec)
    small = indexes(table)[0].file.file_size
    assert small < plain if codec != "LZO" else small == plain
    assert files(table, "b = 'b77'") == 1 and ids(table, "b = 'b77'") == [77]
    assert table.create_global_index("b", "bitmap", bitmap_index_compression=codec) == 1
    assert table.drop_global_index("b") == 1 and ids(table, "b IN ('b77', 'b78')") == [77, 78]
    assert files(table, "b = 'b77'") == 1


def test_files_of_as_many_rows_as_are_asked_for(catalog: Catalog) -> None:
    table = create(catalog)
    for first in range(0, 100, 10):
        insert(table, *range(first, first + 10))
    assert table.create_global_index("b", sorted_index_records_per_range=25) == 5
    assert [entry.file.row_count for entry in indexes(table)] == [20] * 5
    assert all(ids(table, f"b = 'b{i}'") == [i] and files(table, f"b = 'b{i}'") == 1 for i in range(0, 100, 7))


def test_a_file_of_many_rows_is_indexed_by_several(catalog: Catalog) -> None:
    table = create(catalog)
    insert(table, *range(60), *range(60))
    table.delete("id >= 50")
    assert table.create_global_index("id", sorted_index_records_per_range=40) == 3
    assert sorted(entry.file.row_count for entry in indexes(table)) == [20, 40, 40]
    assert ids(table, "id IN (3, 39, 40, 49, 50)") == [3, 3, 39, 39, 40, 40, 49, 49]
    assert files(table, "id = 50") == 0 and table.create_global_index("id") == 0


def test_partitions(catalog: Catalog) -> None:
    table = create(catalog, by=("p",))
    for p in (1, 2):
        insert(table, 1, 3, 5, p=p)
        insert(table, 0, 2, 6, p=p)
    assert table.create_global_index("id", partitions=[{"p": 1}]) == 1
    assert (
        files(table, "id = 2 AND p = 1") == 1 and files(table, "id = 2 AND p = 2") == 2 and files(table, "id = 2") == 3
    )
    assert table.create_global_index("id") == 1 and files(table, "id = 2") == 2
    assert table.drop_global_index("id", partitions=[{"p": 2}]) == 1 and files(table, "id = 2") == 3
    with pytest.raises(UnsupportedError, match="globally indexed columns"):
        table.update({"id": 9}, "p = 1 AND id = 1")
    table.update({"id": 9}, "p = 2 AND id = 1")  # its partition has none
    assert ids(table, "id = 9") == [9]
    table.write_arrow(pa.table({"id": [2], "b": ["new"], "p": [1]}, SCHEMA), mode="overwrite", partition={"p": 1})
    assert not indexes(table) and ids(table, "id = 2 AND p = 1") == [2]


def test_updates_of_an_indexed_column(catalog: Catalog) -> None:
    table = create(catalog)
    scattered(table)
    table.create_global_index("id")
    table.create_global_index("b")
    before = table.latest_snapshot()
    with pytest.raises(UnsupportedError, match="sys.drop_global_index"):
        table.update({"id": 99}, "id = 7")
    assert table.refresh().latest_snapshot() == before
    table.update({"p": 1}, "id = 7")
    assert ids(table, "id = 7") == [7] and files(table, "id = 7") == 2  # the file of p alone belongs to the rows
    table.update({"id": 99}, "id = 7", **{ACTION: "DROP_PARTITION_INDEX"})
    assert [entry.file.global_index["_INDEX_FIELD_ID"] for entry in indexes(table)] == [1]
    assert ids(table, "id = 99") == [99] and ids(table, "id = 7") == []
    assert table.create_global_index("id") == 1
    assert ids(table, "id = 99") == [99] and files(table, "id = 8") == 1


@pytest.mark.parametrize("later", ["nothing", "compaction", "another update", "another option"])
def test_values_that_an_index_does_not_know_are_found(catalog: Catalog, later: str) -> None:
    """With IGNORE an index is out of date: other engines then miss rows, here they are read."""
    table = create(catalog)
    scattered(table)
    table.create_global_index("id")
    table.update({"id": 99}, "id = 7", **{ACTION: "IGNORE"})
    if later == "compaction":
        table.compact()
    elif later == "another update":
        table.update({"p": 3}, "b = 'b7'")
    elif later == "another option":
        table.alter(SetOption(ACTION, "DROP_PARTITION_INDEX"))
    assert len(indexes(table)) == 1
    assert ids(table, "id = 99") == [99] and ids(table, "id = 7") == [] and ids(table, "id = 8") == [8]


def test_deleted_rows_and_compactions(catalog: Catalog) -> None:
    table = create(catalog)
    scattered(table)
    table.delete("id = 7")
    table.create_global_index("id")
    table.delete("id = 8")
    assert ids(table, "id IN (7, 8, 9)") == [9]
    table.compact()
    assert ids(table, "id IN (7, 8, 9)") == [9] and ids(table, "id = 99") == [] and files(table, "id = 99") == 0
    table.materialize_deletion_vectors()
    assert not indexes(table) and ids(table, "id IN (7, 8, 9)") == [9]
    assert table.create_global_index("id") == 1 and ids(table, "id IN (7, 8, 9)") == [9]


@pytest.mark.parametrize("by_compaction", [False, True])
def test_rows_that_get_new_ids_take_the_indexes_of_their_partition_along(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, by_compaction: bool
) -> None:
    """An index that another program has built after the compaction was planned goes, too."""
    table = create(catalog, by=("p",))
    for p in (0, 1):
        insert(table, 1, 2, 3, p=p)
        insert(table, 4, 5, 6, p=p)
    assert table.create_global_index("id") == 2
    table.delete("p = 0 AND id = 2")
    vectors, others = materialize.vectors_of_others, iter([catalog.table("db.t")])

    def meanwhile(*args: Any) -> Any:
        for other in others:
            assert other.create_global_index("b") == 2
        return vectors(*args)

    monkeypatch.setattr(materialize, "vectors_of_others", meanwhile)
    if by_compaction:
        table.with_options({"data-evolution.compaction.rewrite-row-ids": "true"}).compact()
    else:
        table.materialize_deletion_vectors()
    left = indexes(table.refresh())
    assert len(left) == 2 and len({entry.partition for entry in left}) == 1
    assert ids(table, "id IN (2, 3) AND p = 0") == [3] and ids(table, "id IN (2, 3) AND p = 1") == [2, 3]
    assert table.create_global_index("id") == 2, "rows that kept their ids, and those with new ones"


@pytest.mark.parametrize("how", ["call", "compaction"])
def test_new_ids_of_rows_beside_deleted_ones_end_the_indexes_of_their_partitions(catalog: Catalog, how: str) -> None:
    options = {"data-evolution.compaction.rewrite-row-ids": "true"} if how == "compaction" else {}
    table = create(catalog, by=("p",), **options)
    for p in (1, 2):
        insert(table, 1, 3, 5, p=p)
        insert(table, 0, 2, 6, p=p)
    for column, kind in (("id", "btree"), ("b", "bitmap")):
        assert table.create_global_index(column, kind) == 2
    table.delete("id = 3 AND p = 1")
    table.materialize_deletion_vectors() if how == "call" else table.compact()
    table = table.refresh()
    assert len(indexes(table)) == 2, "those of the other partition stay"
    assert files(table, "id = 2 AND p = 2") == 1
    assert ids(table, "id IN (2, 3)") == [2, 2, 3] and ids(table, "b = 'b3'") == [3]
    assert table.create_global_index("id") > 0 and ids(table, "id = 6") == [6, 6] and files(table, "id = 6") == 2
    assert not table.refresh().fsck(level="rows").findings


def test_indexes_follow_ids_that_are_given_out_anew(catalog: Catalog) -> None:
    table = create(catalog, by=("p",))
    for first in range(0, 12, 2):
        insert(table, first, first + 1, p=first // 2 % 2)
    table.create_global_index("id", partitions=[{"p": 0}])
    table.create_global_index("b", "bitmap")
    insert(table, 50, 51, p=0)
    table.create_tag("before")
    before = {entry.file.file_name for entry in indexes(table)}
    where = {"id = 4": 1, "b = 'b4'": 1, "b = 'b7'": 1, "id = 50": 1, "b IN ('b0', 'b9')": 2}
    read = {text: files(table, text) for text in where}
    assert table.reassign_row_ids().snapshot is not None
    table = table.refresh()
    assert {entry.file.file_name for entry in indexes(table)} == before
    for text, rows in where.items():
        assert len(ids(table, text)) == rows and files(table, text) == read[text], text
    assert table.create_global_index("id") > 0 and table.create_global_index("b", "bitmap") == 1
    assert all(files(table, f"id = {i}") == 1 and ids(table, f"b = 'b{i}'") == [i] for i in range(12))
    assert ids(table.with_options(scan_tag_name="before"), "id = 4") == [4]
    table.delete_tag("before")
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert ids(table, "id = 4") == [4] and not table.refresh().fsck(level="rows").findings


def test_indexes_whose_ids_do_not_stay_together_go(catalog: Catalog) -> None:
    """An index of rows that are put apart, and one that covers others' ids beside them, as Paimon drops them."""
    moves = Moves(((0, 10), (10, 20), (30, 40), (40, 50)), (100, 110, 200, 300))
    for span, new in {
        (0, 10): 100,
        (5, 15): 105,
        (10, 20): 110,
        (0, 21): None,
        (30, 50): None,
        (45, 50): 305,
        (20, 30): None,
        (25, 35): None,
    }.items():
        assert moves.of(span) == new
        assert moves.meet(span) == (span != (20, 30))


def test_columns_that_change(catalog: Catalog) -> None:
    table = create(catalog)
    scattered(table)
    table.create_global_index("id")
    table = table.alter(RenameColumn("id", "number"))
    assert files(table, "number = 7") == 1
    table = table.alter(UpdateColumnType("number", BIGINT))
    assert files(table, "number = 7") == 4, "keys of another type say nothing"
    assert table.refresh().to_arrow("number = 7").num_rows == 1
    assert table.drop_global_index("number") == 1
    table = table.alter(DropColumn("number"))
    with pytest.raises(InvalidError, match="Column 'number' does not exist"):
        table.create_global_index("number")


def test_history(catalog: Catalog) -> None:
    """An index is that of a snapshot: time travel, tags, rollbacks and expiry."""
    table = create(catalog)
    scattered(table)
    table.create_tag("plain")
    table.create_global_index("id")
    table.create_tag("indexed")
    table.drop_global_index("id")
    insert(table, 7)
    assert ids(table.with_options(scan_tag_name="indexed"), "id = 7") == [7]
    (name,) = [e.file for e in indexes(table.with_options(scan_tag_name="indexed"))] or [None]
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert ids(table.with_options(scan_tag_name="indexed"), "id = 7") == [7]
    table.rollback_to("indexed")
    assert files(table, "id = 7") == 1 and ids(table, "id = 7") == [7]
    assert name is None or not table.refresh().fsck(level="rows").findings
    table.delete_tag("indexed")
    table.drop_global_index("id")
    table.expire_snapshots(retain_max=1, retain_min=1)
    found = [item.path for item in table.store.env.storage.walk(f"{table.path}/index") if "btree" in item.path]
    assert not found


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        ({"column": "x"}, InvalidError, "Column 'x' does not exist"),
        ({"column": " "}, InvalidError, "At least one column"),
        ({"column": "id,b"}, InvalidError, "does not support multi-column index"),
        ({"column": "id,id"}, InvalidError, "Duplicate index columns"),
        ({"column": "id", "index_type": "full-text"}, UnsupportedError, "type 'full-text'"),
        ({"column": "id", "btree_index_compression": "snappy"}, InvalidError, "unknown compression of a btree index"),
        ({"column": "id", "index_type": "tree"}, UnsupportedError, "unknown type of a global index: 'tree'"),
        ({"column": "p"}, InvalidError, "a partition column"),
        ({"column": "id", "partitions": [{"q": 1}]}, InvalidError, "q"),
    ],
)
def test_what_is_refused(catalog: Catalog, call: dict[str, Any], error: type[BucketlakeError], said: str) -> None:
    table = create(catalog, by=("p",))
    insert(table, 1)
    with pytest.raises(error, match=said):
        table.create_global_index(**call)


def test_tables_that_have_none(catalog: Catalog) -> None:
    table = catalog.create_table("db.u", SCHEMA)
    with pytest.raises(InvalidError, match=r"must enable 'row-tracking.enabled=true'"):
        table.create_global_index("id")
    table = catalog.create_table("db.v", SCHEMA, options={"row-tracking.enabled": "true"})
    with pytest.raises(UnsupportedError, match=r"data-evolution.enabled"):
        table.create_global_index("id")
    empty = create(catalog)
    assert empty.create_global_index("id") == 0 and empty.drop_global_index("id") == 0


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_a_damaged_index_is_named(catalog: Catalog, kind: str) -> None:
    table = create(catalog)
    scattered(table)
    table.create_global_index("id", kind)
    (entry,) = indexes(table)
    path = table.store.paths.index_path(entry.partition, entry.bucket, entry.file)
    table.store.env.storage.write(path, b"x" * entry.file.file_size)
    with pytest.raises(CorruptError, match=r"global-index\.enabled") as caught:
        table.refresh().to_arrow("id = 7")
    assert caught.value.details["path"] == path
    assert ids(table.with_options({"global-index.enabled": "false"}), "id = 7") == [7]


# ---------------------------------------------------------------------------------------------- other programs


def of(storage: Any, seed: int = 1) -> Table:
    return open_table("memory://wh/default.db/t", Env(storage, FakeClock(seed)))


def rivalled(rival: Any, **options: str) -> tuple[MapStorage, Table, list[int]]:
    """A table on a storage, and a handle on it beside which another program does something before its first commit."""
    storage = MapStorage()
    catalog = Catalog(Env(storage, FakeClock()), "memory://wh")
    table = create(catalog, name="default.t", **options)
    scattered(table)
    fired: list[int] = []

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and "/snapshot/" in path and not fired:
            fired.append(k)
            rival(of(storage, 2))

    return storage, of(FaultStorage(storage, plan), 3), fired


def test_a_column_that_changes_while_it_is_indexed_is_indexed_as_it_is_then() -> None:
    storage, table, fired = rivalled(lambda other: other.update({"id": 99}, "id = 7"))
    assert table.create_global_index("id") == 1 and fired
    table = of(storage)
    assert ids(table, "id = 99") == [99] and ids(table, "id = 7") == [] and files(table, "id = 8") == 1


def test_an_index_that_comes_while_its_column_changes() -> None:
    storage, table, fired = rivalled(lambda other: other.create_global_index("id"))
    with pytest.raises(UnsupportedError, match="globally indexed"):
        table.update({"id": 99}, "id = 7")
    assert fired and ids(of(storage), "id = 7") == [7]
    storage, table, fired = rivalled(lambda other: other.create_global_index("id"))
    table.update({"id": 99}, "id = 7", **{ACTION: "DROP_PARTITION_INDEX"})
    assert fired and ids(of(storage), "id = 99") == [99] and not indexes(of(storage))


def test_rows_are_indexed_once() -> None:
    storage, table, fired = rivalled(lambda other: other.create_global_index("id"))
    assert table.create_global_index("id") == 0 and fired
    assert len(indexes(of(storage))) == 1
    assert len([item for item in storage.walk("memory://wh") if "btree" in item.path]) == 1, (
        "what was written in vain is gone"
    )


@pytest.mark.parametrize("first", ["index", "ids"])
@pytest.mark.parametrize("change", ["materialize", "reassign"])
def test_ids_that_change_while_a_column_is_indexed(first: str, change: str) -> None:
    """Whichever is committed first, no index finds rows by ids that they have no more."""

    def index(table: Table) -> None:
        table.create_global_index("id")

    def renumber(table: Table) -> None:
        table.materialize_deletion_vectors() if change == "materialize" else table.reassign_row_ids()

    storage = MapStorage()
    table = create(Catalog(Env(storage, FakeClock()), "memory://wh"), by=("p",), name="default.t")
    for value in range(0, 12, 2):
        insert(table, value, value + 1, p=value // 2 % 2)
    table.delete("id = 3")
    fired: list[int] = []

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and "/snapshot/" in path and not fired:
            fired.append(k)
            (index if first == "index" else renumber)(of(storage, 2))

    (renumber if first == "index" else index)(of(FaultStorage(storage, plan), 3))
    table = of(storage, 4)
    assert fired and ids(table, "id >= 0") == [i for i in range(12) if i != 3]
    assert all(ids(table, f"id = {i}") == ([] if i == 3 else [i]) for i in range(12))
    table.create_global_index("id")
    assert all(ids(table, f"id = {i}") == [i] and files(table, f"id = {i}") == 1 for i in range(12) if i != 3)
    assert not table.fsck(level="rows").findings


def test_rows_that_come_or_go_meanwhile() -> None:
    storage, table, fired = rivalled(lambda other: (other.delete("id = 7"), insert(other, 8)))
    table.create_global_index("id")
    assert fired and ids(of(storage), "id IN (7, 8)") == [8, 8]
    storage, table, fired = rivalled(lambda other: other.compact())
    table.create_global_index("id")
    assert fired and ids(of(storage), "id IN (7, 8)") == [7, 8]
    storage, table, fired = rivalled(
        lambda other: other.write_arrow(pa.table({"id": [7], "b": ["x"], "p": [0]}, SCHEMA), mode="overwrite")
    )
    table.create_global_index("id")
    assert fired and ids(of(storage), "id IN (7, 8)") == [7]


FAULTS = [
    (action, fault) for fault in (KILL_AFTER, FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE) for action in ("create", "drop")
]


@pytest.mark.parametrize(("action", "fault"), later(FAULTS, 3))
def test_any_call_may_fail_or_be_the_last(fault: str, action: str) -> None:
    """The index is there whole or not at all, and who repeats the call gets what it was to do."""

    def made() -> MapStorage:
        storage = rivalled(lambda other: None)[0]
        if action == "drop":
            of(storage).create_global_index("id")
        return storage

    def act(table: Table) -> None:
        table.create_global_index("id") if action == "create" else table.drop_global_index("id")

    counting = FaultStorage(made())
    act(of(counting, 3))
    for call in range(len(counting.calls)):
        storage = made()
        broken = FaultStorage(storage, lambda k, operation, path, call=call: fault if k == call else None)  # type: ignore[misc]
        with contextlib.suppress(BucketlakeError, Killed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            act(of(broken, 3))
        clear_cache()
        table = of(storage, 4)
        assert len(indexes(table)) in (0, 1) and ids(table, "id IN (7, 8)") == [7, 8], (call, counting.calls[call])
        assert {finding.code for finding in table.fsck(level="rows").findings} <= {"orphan-file", "hint-latest"}
        act(table)
        assert len(indexes(of(storage, 5))) == (action == "create")


@pytest.mark.parametrize("seed", seeds(5, 200))
def test_against_a_table_without_indexes(catalog: Catalog, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(build, "MOST_ROWS", chance.choice([3, 10, 1 << 20]))
    table = create(catalog, by=chance.choice([(), ("p",)]))

    def some() -> dict[str, list[Any]]:
        count = chance.randint(1, 12)
        values = [chance.choice([None, *range(8)]) for _ in range(count)]
        return {
            "id": values,
            "b": [None if v is None else f"b{v % 3}" for v in values],
            "p": [chance.randint(0, 1)] * count,
        }

    def change(column: str) -> None:
        value = chance.randint(0, 9) if column != "b" else f"b{chance.randint(0, 4)}"
        action = chance.choice(["THROW_ERROR", "DROP_PARTITION_INDEX", "IGNORE"])
        try:
            table.update({column: value}, f"id = {chance.randint(0, 9)}", **{ACTION: action})
        except UnsupportedError:
            assert action == "THROW_ERROR" and indexes(table)

    steps: list[Any] = [
        *[lambda: table.write_arrow(pa.table(some(), SCHEMA))] * 3,
        *[lambda: table.create_global_index(chance.choice(["id", "b"]), chance.choice(["btree", "bitmap"]))] * 2,
        *[lambda: change("id"), lambda: change("b")] * 2,
        lambda: table.drop_global_index(chance.choice(["id", "b"]), chance.choice(["btree", "bitmap"])),
        lambda: table.delete(f"id = {chance.randint(0, 9)}"),
        lambda: table.compact(),
        lambda: table.materialize_deletion_vectors(),
        lambda: table.reassign_row_ids() if table.latest_snapshot() else None,
    ]
    for _ in range(30):
        chance.choice(steps)()
        table = table.refresh()
        every = table.to_arrow().to_pylist()
        for column, value in (("id", chance.randint(0, 9)), ("b", f"b{chance.randint(0, 4)}"), ("id", None)):
            text = f"{column} IS NULL" if value is None else f"{column} = {value!r}"
            expected = [row for row in every if row[column] == value]
            found = table.to_arrow(text).to_pylist()
            assert sorted(map(repr, found)) == sorted(map(repr, expected)), (seed, text)


WIDE = pa.schema(
    [("k", pa.int32()), ("n", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(38, 2)), ("f", pa.float64())]
)
VALUES: dict[str, list[Any]] = {
    "n": [None, -(1 << 40), -1, 0, 1, 2, 300, 70_000],
    "s": [None, "", "a", "ab", "abc", "b", "ä", "äx"],
    "d": [None, *(Decimal(n).scaleb(-2) for n in (-(10**20), -129, -1, 0, 127, 128, 10**19))],
    "f": [None, float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.5, -2.25],
}


def condition(chance: random.Random, depth: int = 2) -> str:
    if depth and chance.random() < 0.6:
        parts = [condition(chance, depth - 1) for _ in range(chance.randint(2, 3))]
        return "(" + chance.choice([" AND ", " OR "]).join(parts) + ")"
    column = chance.choice(list(VALUES))
    if column == "f":
        texts = ["CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "0.0", "-0.0", "1.5", "-2.25", "-0.5"]
    else:
        known = [value for value in VALUES[column] if value is not None]
        texts = [repr(value) if column == "s" else str(value) for value in known]
        texts += ["'aa'", "'c'"] if column == "s" else ["5", "-70000"]
    one, other = chance.choice(texts), chance.choice(texts)
    forms = [
        *[f"{column} {op} {one}" for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")],
        f"NOT {column} <=> {one}",
        f"{column} BETWEEN {one} AND {other}",
        f"{column} IN ({one}, {other})",
        f"{column} NOT IN ({one}, {other})",
        f"{column} NOT IN ({one}, NULL)",
        f"{column} IS NULL",
        f"{column} IS NOT NULL",
        "k < 50",
    ]
    if column == "s":
        forms += [f"s LIKE {text}" for text in ("'a%'", "'%b'", "'a_'", "'ab'", "'ä%x'")]
        forms += [f"NOT s LIKE {one}", f"startswith(s, {one})", f"NOT startswith(s, {one})", f"contains(s, {one})"]
    return chance.choice(forms)


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_conditions_of_every_form(catalog: Catalog, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(build, "MOST_ROWS", chance.choice([5, 40, 1 << 20]))
    monkeypatch.setattr(global_index, "ONE_BLOCK", chance.choice([0, 300, 1 << 20]))
    monkeypatch.setattr(bitmap_index, "ALONE", chance.choice([0, 1024]))
    monkeypatch.setattr(bitmap_index, "MOST_KEYS", chance.choice([2, 1024]))
    table = catalog.create_table("db.w", WIDE, options={**EVOLVING, **VECTORS})

    def some(first: int) -> pa.Table:
        few = {name: chance.sample(values, chance.randint(1, 4)) for name, values in VALUES.items()}
        count = chance.randint(1, 30)
        rows = {name: [chance.choice(values) for _ in range(count)] for name, values in few.items()}
        return pa.table({"k": list(range(first, first + count)), **rows}, WIDE)

    def index() -> None:
        column, kind = chance.choice(list(VALUES)), chance.choice(["btree", "bitmap"])
        options = {"btree_index_block_size": "40 b", "bitmap_index_dictionary_block_size": "40 b"}
        codec = chance.choice(["none", "zstd", "lz4"])
        options |= {"btree_index_compression": codec, "bitmap_index_compression": codec}
        table.create_global_index(column, kind, **options if chance.random() < 0.8 else {})

    for number in range(6):
        table.write_arrow(some(30 * number))
    for _ in range(4):
        index()
        if chance.random() < 0.3:
            table.write_arrow(some(1000))
        if chance.random() < 0.3:
            table.delete(f"k = {chance.randint(0, 200)}")
        if chance.random() < 0.3:
            table.update({"s": "ab"}, f"k = {chance.randint(0, 200)}", **{ACTION: "IGNORE"})
        table = table.refresh()
        plain = table.with_options({"global-index.enabled": "false"})
        for _ in range(8):
            where = condition(chance)
            expected, found = plain.to_arrow(where).to_pylist(), table.to_arrow(where).to_pylist()
            assert sorted(map(repr, found)) == sorted(map(repr, expected)), (seed, where)


def test_a_clone_reads_without_the_index(catalog: Catalog) -> None:
    """Its snapshots are counted anew, so that nobody knows which of its changes came after the index."""
    table = create(catalog)
    scattered(table)
    table.create_global_index("id")
    catalog.clone_table(table.refresh(), "db.copy")
    copy = catalog.table("db.copy")
    assert len(indexes(copy)) == 1 and ids(copy, "id = 8") == [8]
    copy.update({"id": 99}, "id = 8", **{ACTION: "IGNORE"})
    assert ids(copy, "id = 99") == [99] and ids(copy, "id = 8") == []
    assert copy.drop_global_index("id") == 1 and copy.create_global_index("id") == 1
    assert ids(copy, "id = 99") == [99] and files(copy, "id = 7") == 1
    assert not copy.refresh().fsck(level="rows").findings
