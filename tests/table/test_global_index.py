"""Global indexes of tables whose columns lie in several files: fewer files are read, and the rows are the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.sim.storage import (
    FaultStorage,
)
from tests.table.indexed import (
    ACTION,
    SCHEMA,
    create,
    files,
    ids,
    indexes,
    insert,
    of,
    rivalled,
    scattered,
)

from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, UnsupportedError
from bucketlake.ops.compact import materialize
from bucketlake.ops.compact.reassign import Moves
from bucketlake.ops.rows import global_index
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import DropColumn, RenameColumn, SetOption, UpdateColumnType
from bucketlake.types.model import BIGINT


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
