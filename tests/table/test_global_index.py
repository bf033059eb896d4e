"""Global indexes of tables whose columns lie in several files: fewer files are read, and the rows are the same."""

from __future__ import annotations

import contextlib
import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import SOAK
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
from bucketlake.format.index.btree import BTREE
from bucketlake.ops.compact import materialize
from bucketlake.ops.global_index import build
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
    return [e for e in table.store.index_manifest(snapshot) if e.file.index_type == BTREE]


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
    assert indexes(table) == [] and ids(table, "id IN (7, 8, 9)") == [9]
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
        ({"column": "id", "index_type": "bitmap"}, UnsupportedError, "type 'bitmap'"),
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


def test_a_damaged_index_is_named(catalog: Catalog) -> None:
    table = create(catalog)
    scattered(table)
    table.create_global_index("id")
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


@pytest.mark.parametrize("fault", [FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE, KILL_AFTER])
@pytest.mark.parametrize("action", ["create", "drop"])
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


@pytest.mark.parametrize("seed", range(200 if SOAK else 12))
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
        *[lambda: table.create_global_index(chance.choice(["id", "b"]))] * 2,
        *[lambda: change("id"), lambda: change("b")] * 2,
        lambda: table.drop_global_index(chance.choice(["id", "b"])),
        lambda: table.delete(f"id = {chance.randint(0, 9)}"),
        lambda: table.compact(),
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
