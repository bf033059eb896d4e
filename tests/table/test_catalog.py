"""Databases and tables of a filesystem warehouse, and the errors of names that are wrong."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FaultStorage

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    ConflictError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)
from bucketlake.schema.change import AddColumn, RenameColumn, SetOption
from bucketlake.types.model import INT, STRING, DataField
from bucketlake.types.parse import parse_type_text

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return bucketlake.open(tmp_path / "warehouse")


def test_default_database_is_there_and_takes_tables(catalog: Catalog, tmp_path: Path) -> None:
    assert catalog.list_databases() == ["default"]
    assert catalog.list_tables() == []
    catalog.create_table("t", SCHEMA, options={"bucket": "-1"})
    assert catalog.list_tables("default") == ["t"]
    assert (tmp_path / "warehouse" / "default.db" / "t" / "schema" / "schema-0").is_file()


def test_databases_are_created_listed_and_dropped(catalog: Catalog) -> None:
    catalog.create_database("sales")
    assert catalog.list_databases() == ["default", "sales"]
    with pytest.raises(
        AlreadyExistsError, match=r"database=sales\]: .*IF NOT EXISTS \(in Python ignore_if_exists=True\)"
    ):
        catalog.create_database("sales")
    catalog.create_database("sales", ignore_if_exists=True)
    catalog.create_table("sales.t", SCHEMA)
    with pytest.raises(InvalidError, match="not empty"):
        catalog.drop_database("sales")
    catalog.drop_database("sales", cascade=True)
    assert catalog.list_databases() == ["default"]
    with pytest.raises(NotFoundError, match="no such database"):
        catalog.drop_database("sales")
    catalog.drop_database("sales", ignore_if_missing=True)


def test_a_database_is_dropped_with_what_it_has_only_if_that_is_said(catalog: Catalog, tmp_path: Path) -> None:
    """Files of a table that another job is about to publish, or of nobody; a table that came since it was looked."""
    catalog.create_database("sales")
    folder = tmp_path / "warehouse" / "sales.db"
    written = folder / "t" / "bucket-0" / "data-1.parquet"
    written.parent.mkdir(parents=True)
    written.write_bytes(b"rows")
    with pytest.raises(InvalidError, match=r"not empty.*data-1\.parquet"):
        catalog.drop_database("sales")
    assert written.exists()
    written.unlink()
    catalog.create_table("sales.t", SCHEMA)
    with pytest.raises(InvalidError, match=r"not empty.*schema-0"):
        catalog.metastore.drop_database("sales", cascade=False)
    assert catalog.list_tables("sales") == ["t"]
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "empty").mkdir(parents=True)
    (folder / "link").symlink_to(elsewhere)
    catalog.drop_table("sales.t")
    with pytest.raises(InvalidError, match="not empty"):
        catalog.metastore.drop_database("sales", cascade=False)
    catalog.drop_database("sales", cascade=True)
    assert not folder.exists() and (elsewhere / "empty").exists()


def test_filesystem_catalog_stores_no_database_properties(catalog: Catalog) -> None:
    with pytest.warns(UserWarning, match="stores no properties"):
        catalog.create_database("d", properties={"owner": "me"})
    assert catalog.database_properties("d") == {}
    with pytest.raises(UnsupportedError, match="Alter database"):
        catalog.alter_database("d", {"owner": "me"})
    with pytest.raises(UnsupportedError, match="location"):
        catalog.create_database("e", properties={"location": "/x"})


def test_schema_file_is_what_was_asked_for(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_table(
        "default.t", SCHEMA, primary_keys=["k"], options={"bucket": 4, "file.format": "orc"}, comment="a table"
    )
    tree = json.loads((tmp_path / "warehouse/default.db/t/schema/schema-0").read_text())
    assert tree["fields"][0] == {"id": 0, "name": "k", "type": "BIGINT NOT NULL"}
    assert (tree["primaryKeys"], tree["comment"]) == (["k"], "a table")
    assert tree["options"] == {"bucket": "4", "file.format": "orc"}
    assert tree["timeMillis"] > 1_600_000_000_000


def test_a_table_that_was_dropped_is_no_empty_one(catalog: Catalog) -> None:
    for partitions in ([], ["pt"]):
        table = catalog.create_table("t", pa.schema([("k", pa.int32()), ("pt", pa.string())]), partitions)
        assert table.to_arrow().num_rows == 0
        table.write_arrow({"k": [1], "pt": ["a"]})
        catalog.drop_table("t")
        asked = [table.partitions] if partitions else []
        for read in (table.to_arrow, table.files, table.plan, lambda: list(table.scan_batches()), *asked):
            with pytest.raises(NotFoundError, match="no such table.*dropped or renamed"):
                read()


def test_an_unknown_branch_names_those_that_there_are(catalog: Catalog) -> None:
    table = catalog.create_table("t", pa.schema([("k", pa.int32())]))
    table.create_branch("quarter")
    for name, said in (("quater", "did you mean 'quarter'"), ("x", "branches: quarter")):
        with pytest.raises(NotFoundError, match=f"no such branch.*{said}"):
            catalog.table(f"t$branch_{name}")


def test_tables_are_created_once_and_dropped(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_table("t", SCHEMA)
    with pytest.raises(AlreadyExistsError, match=r"default\.t"):
        catalog.create_table("default.t", SCHEMA)
    assert catalog.create_table("t", SCHEMA, ignore_if_exists=True).name == "default.t"
    catalog.drop_table("t")
    assert not catalog.table_exists("t")
    assert not (tmp_path / "warehouse/default.db/t").exists()
    with pytest.raises(NotFoundError, match="no such table"):
        catalog.drop_table("t")
    catalog.drop_table("t", ignore_if_missing=True)


def test_rename_moves_the_data_along(catalog: Catalog) -> None:
    catalog.create_database("other")
    table = catalog.create_table("t", SCHEMA, options={"bucket": "-1"})
    table.write_arrow(pa.table({"k": [1], "v": ["x"]}))
    catalog.create_table("taken", SCHEMA)
    with pytest.raises(AlreadyExistsError, match="taken"):
        catalog.rename_table("t", "taken")
    with pytest.raises(NotFoundError, match="no such database"):
        catalog.rename_table("t", "nowhere.t")
    catalog.rename_table("t", "other.u")
    assert catalog.table("other.u").to_arrow().to_pylist() == [{"k": 1, "v": "x"}]
    with pytest.raises(NotFoundError):
        catalog.rename_table("t", "v")
    catalog.rename_table("t", "v", ignore_if_missing=True)


@pytest.mark.parametrize("left", ["", "manifest", "snapshot"])
def test_a_name_whose_folder_holds_no_more_than_hints_is_free(catalog: Catalog, tmp_path: Path, left: str) -> None:
    """An expiry, or a writer, whose table was renamed meanwhile makes its folders again."""
    catalog.create_table("t", SCHEMA)
    folder = tmp_path / "warehouse" / "default.db" / "u"
    (folder / left).mkdir(parents=True)
    if left == "snapshot":
        (folder / "snapshot/EARLIEST").write_text("1")
    catalog.rename_table("t", "u")
    assert catalog.list_tables() == ["u"]
    data = tmp_path / "warehouse" / "default.db" / "t" / "bucket-0" / "data-1.parquet"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"rows")
    with pytest.raises(AlreadyExistsError, match=r"other files lie where.*default.db/t\]: look what they are"):
        catalog.rename_table("u", "t")
    assert data.exists() and catalog.list_tables() == ["u"]


def test_alter_publishes_the_next_schema(catalog: Catalog) -> None:
    catalog.create_table("t", SCHEMA)
    altered = catalog.alter_table("t", AddColumn("n", INT), SetOption("snapshot.num-retained.min", "5"))
    assert altered is not None
    assert altered.schema.id == 1
    assert [field.name for field in catalog.table("t").schema.fields] == ["k", "v", "n"]
    assert catalog.table("t").options.get("snapshot.num-retained.min") == 5
    with pytest.raises(NotFoundError):
        catalog.alter_table("nothing", RenameColumn("v", "w"))
    assert catalog.alter_table("nothing", RenameColumn("v", "w"), ignore_if_missing=True) is None


def test_alter_on_two_handles_keeps_both_changes(catalog: Catalog) -> None:
    first = catalog.create_table("t", SCHEMA)
    second = catalog.table("t")
    first.alter(AddColumn("a", INT))
    assert second.alter(AddColumn("b", STRING)).schema.field_names == ("k", "v", "a", "b")


def test_default_options_of_the_catalog_reach_new_tables(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path, {"table-default.file.format": "avro"})
    assert catalog.create_table("t", SCHEMA).options.get("file.format") == "avro"
    explicit = catalog.create_table("u", SCHEMA, options={"file.format": "orc"})
    assert explicit.options.get("file.format") == "orc"


@pytest.mark.parametrize("name", ["", ".", "a.b.c", "a.", ".t", "a/b", "default.x/y", "default.", "..", "default..t"])
def test_names_that_are_none(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidError, match="not a"):
        catalog.table(name)


def test_a_folder_is_no_name(catalog: Catalog) -> None:
    with pytest.raises(InvalidError, match="folder where a table's name belongs.*write 'sales.orders'.*'/data/wh'"):
        catalog.table("/data/wh/sales.db/orders/")


def test_backticks_and_missing_names(catalog: Catalog) -> None:
    catalog.create_table("orders", SCHEMA)
    assert catalog.table("`default`.`orders`").name == "default.orders"
    with pytest.raises(NotFoundError, match="did you mean 'orders'"):
        catalog.table("ordrs")
    with pytest.raises(NotFoundError, match=r"no such database \[database=defualt.*did you mean 'default'"):
        catalog.table("defualt.orders")


def test_a_system_table_behind_a_dot(catalog: Catalog) -> None:
    catalog.create_table("orders", SCHEMA)
    for name in ("orders.files", "orders.Files", "orders.file"):
        with pytest.raises(NotFoundError, match=r"did you mean 'default\.orders\$files'\?"):
            catalog.table(name)
    with pytest.raises(NotFoundError, match="create it first"):
        catalog.table("orders.shop")
    with pytest.raises(InvalidError, match=r"a system table, `default\.orders\$files`"):
        catalog.table("default.orders.files")


def test_a_missing_name_that_another_database_has(catalog: Catalog) -> None:
    catalog.create_database("shop")
    catalog.create_table("shop.orders", SCHEMA)
    for call in (catalog.table, catalog.drop_table):
        with pytest.raises(NotFoundError, match=r"table=default\.orders\]: did you mean 'shop\.orders'"):
            call("orders")


def test_a_missing_name_where_nothing_is(tmp_path: Path) -> None:
    """A mistyped warehouse is a new one, until something is made in it."""
    with pytest.raises(NotFoundError, match=r"nothing is in the warehouse \S*/warehuose yet: look at its path"):
        bucketlake.open(tmp_path / "warehuose").table("orders")
    for inside in ("shop.db", "shop.db/orders"):
        with pytest.raises(NotFoundError, match=rf"is {tmp_path} meant\?"):
            bucketlake.open(tmp_path / inside).table("orders")
    with pytest.raises(InvalidError, match="a warehouse is a folder or a URI.*spark=spark"):
        bucketlake.open(object())  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_system_names_are_no_data_tables(catalog: Catalog) -> None:
    catalog.create_table("t", SCHEMA)
    with pytest.raises(NotFoundError, match=r"t\$filed.*did you mean '\$files'"):
        catalog.table("t$filed")
    with pytest.raises(NotFoundError, match="branch=b"):
        catalog.table("t$branch_b")
    with pytest.raises(InvalidError, match="Cannot 'create' for system table"):
        catalog.create_table("t$files", SCHEMA)
    with pytest.raises(InvalidError, match="Cannot 'drop' for system table"):
        catalog.drop_table("t$snapshots")
    with pytest.raises(InvalidError, match="system database"):
        catalog.create_database("sys")


def test_folders_that_are_no_tables_are_not_listed(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_database("d")
    (tmp_path / "warehouse/d.db/stray").mkdir()
    (tmp_path / "warehouse/d.db/file.txt").write_text("x")
    (tmp_path / "warehouse/no-database").mkdir()
    assert catalog.list_tables("d") == []
    assert catalog.list_databases() == ["d", "default"]
    with pytest.raises(NotFoundError, match="no such table"):
        catalog.table("d.stray")


def test_warehouse_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(InvalidError, match="warehouse is a file"):
        bucketlake.open(tmp_path / "f")


def test_a_drafted_table_is_nobodys_until_it_is_published(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    fields = [DataField(0, "k", parse_type_text("INT"))]
    first, second = (catalog.draft_table("default.t", fields) for _ in range(2))
    assert not catalog.table_exists("default.t")
    assert catalog.list_tables() == []
    assert catalog.publish_table(first)
    assert not catalog.publish_table(second)
    with pytest.raises(AlreadyExistsError):
        catalog.draft_table("default.t", fields)
    assert catalog.withdraw_table(first)
    assert not catalog.table_exists("default.t")


@pytest.mark.parametrize("use", ["write", "alter"])
def test_a_table_that_others_use_is_not_withdrawn(tmp_path: Path, use: str) -> None:
    catalog = bucketlake.open(tmp_path)
    draft = catalog.draft_table("default.t", [DataField(0, "k", parse_type_text("INT"))])
    assert catalog.publish_table(draft)
    table = catalog.table("default.t")
    if use == "write":
        table.write_arrow(pa.table({"k": [1]}))
    else:
        table.alter(AddColumn("v", parse_type_text("INT")))
    assert not catalog.withdraw_table(draft)
    assert catalog.table_exists("default.t")


def test_a_handle_of_a_table_that_was_dropped_or_made_anew_refuses(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    rows, others = pa.table({"id": [1], "a": ["x"]}), pa.table({"other": ["y"], "id": ["z"]})
    catalog.create_table("t", rows.schema).write_arrow(rows)
    first, read = catalog.table("t"), catalog.table("t")
    assert read.to_arrow().num_rows == 1
    catalog.drop_table("t")
    for handle in (first, read):
        for action in (handle.to_arrow, handle.snapshots, handle.plan, partial(handle.write_arrow, unread_rows())):
            with pytest.raises(NotFoundError, match="dropped or renamed"):
                action()
        assert "dropped or renamed" in repr(handle)
    catalog.create_table("t", others.schema).write_arrow(others)
    for handle in (first, read):
        for action in (handle.to_arrow, handle.plan, partial(handle.write_arrow, unread_rows())):
            with pytest.raises(ConflictError, match="made anew"):
                action()
        assert "made anew" in repr(handle)
    assert catalog.table("t").to_arrow().num_rows == 1


def unread_rows() -> Iterator[pa.RecordBatch]:
    """Rows that nobody may ask for."""
    pytest.fail("rows were asked for")
    yield


@pytest.mark.parametrize("keys", [[], ["k"]], ids=["append", "keyed"])
@pytest.mark.parametrize("how", ["renamed", "dropped", "made anew"])
def test_a_change_of_a_table_that_is_gone_is_not_done(tmp_path: Path, keys: list[str], how: str) -> None:
    """Its handle finds no rows: that nothing was changed would say that no row matched."""
    catalog = bucketlake.open(tmp_path)
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
    made = catalog.create_table("t", schema, [], keys, {"bucket": "1" if keys else "-1"})
    made.write_arrow(pa.table({"k": [1], "v": [0]}, schema))
    handle = catalog.table("t")
    if how == "renamed":
        catalog.rename_table("t", "u")
    else:
        catalog.drop_table("t")
    if how == "made anew":
        catalog.create_table("t", schema, [], keys, {"bucket": "1" if keys else "-1"})
    for change in (lambda: handle.update({"v": 1}, "k = 1"), lambda: handle.delete("k = 1"), handle.latest_snapshot):
        with pytest.raises((NotFoundError, ConflictError), match="no such table|another table lies here"):
            change()


def test_writers_beside_a_drop_leave_a_name_that_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One commits, or fails to, before each folder that goes: the table is gone, and one of its name can be made, with
    no rows, or another be given the name."""
    rows = pa.table({"k": [1]})
    removed, counted = os.rmdir, 1
    while counted:
        catalog = bucketlake.open(tmp_path / str(counted))
        handle = catalog.create_table("t", rows.schema, options={"bucket": "-1"})
        handle.write_arrow(rows)
        handle.create_tag("one")
        seen = [0]

        def rmdir(*args: Any, at: int = counted, seen: list[int] = seen, table: Any = handle, **more: Any) -> None:
            seen[0] += 1
            if seen[0] == at:
                with contextlib.suppress(BucketlakeError):
                    table.write_arrow(rows)
            removed(*args, **more)

        monkeypatch.setattr(os, "rmdir", rmdir)
        catalog.drop_table("t")
        monkeypatch.setattr(os, "rmdir", removed)
        assert not catalog.table_exists("t")
        catalog.create_table("u", rows.schema)
        catalog.rename_table("u", "t")
        assert catalog.table("t").to_arrow().num_rows == 0
        counted = counted + 1 if seen[0] >= counted else 0


def test_a_table_that_is_made_while_one_of_its_name_goes_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made as soon as that is possible."""
    rows, made = pa.table({"k": [1]}), []
    catalog = bucketlake.open(tmp_path)
    catalog.create_table("t", rows.schema, options={"bucket": "-1"}).write_arrow(rows)
    real = LocalStorage.delete_all

    def delete_all(self: LocalStorage, paths: Any) -> int:
        done = real(self, paths)
        if not made and not catalog.table_exists("t"):
            made.append(catalog.create_table("t", rows.schema, options={"bucket": "-1"}))
            made[0].write_arrow(pa.table({"k": [7]}))
        return done

    monkeypatch.setattr(LocalStorage, "delete_all", delete_all)
    catalog.drop_table("t")
    assert made and catalog.table("t").to_arrow().to_pylist() == [{"k": 7}]


def test_looking_for_all_tables_looks_at_the_warehouse_once(tmp_path: Path) -> None:
    """Not once a database: a storage may hold thousands."""
    storage = FaultStorage(LocalStorage())
    catalog = Catalog(Env(storage, FakeClock()), str(tmp_path))
    for number in range(20):
        catalog.create_database(f"d{number}")
        catalog.create_table(f"d{number}.t", SCHEMA)
    storage.calls.clear()
    assert len(catalog.tables()) == 20
    assert storage.calls.count(("list", str(tmp_path))) == 1
    assert not catalog.database_exists("d1.db/t/../../d2")
    with pytest.raises(NotFoundError, match="no such database"):
        catalog.list_tables("d20")
