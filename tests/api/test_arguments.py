"""Arguments of another type are refused by what they should have been, before anything is done; calls of other
libraries' names say what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from bucketlake import Catalog, InvalidError, LakeTable, Table

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table("db.t", SCHEMA)
    made.write_arrow([{"k": 2, "v": "b"}, {"k": 1, "v": "a"}])
    return made


CALLS: dict[str, tuple[Callable[[Catalog, Any], object], str]] = {
    "version": (lambda _, table: table.rollback_to_as_latest(int), "argument=version.*snapshot's id"),
    "tagged": (lambda _, table: table.create_tag("x", int), "argument=snapshot_id.*whole number"),
    "found": (lambda _, table: table.repair(found="k01"), "argument=found.*fsck"),
    "findings": (lambda _, table: table.repair(found=[1]), "argument=found.*fsck"),
    "text": (lambda _, table: table.remove_orphan_files(threads="x"), "threads=x.*whole number"),
    "none": (lambda _, table: table.remove_orphan_files(threads=0), "threads=0.*whole number"),
    "missing": (lambda _, table: table.remove_unexisting_files(threads="x"), "threads=x.*whole number"),
    "tasks": (lambda _, table: LakeTable(None, table).remove_orphan_files(threads="x", distributed=True), "threads=x"),
    "draft": (lambda catalog, _: catalog.migrate_folder("x", "db.m", draft=5), "argument=draft.*Draft"),
    "folder": (lambda catalog, _: catalog.migrate_folder(5, "db.m"), "argument=folder.*path"),
    "source": (lambda catalog, _: catalog.clone_table("db.t", "db.c"), r"argument=source.*catalog\.table"),
    "how": (lambda catalog, table: catalog.clone_table(table, "db.c", how="where"), "argument=how.*Cloning"),
    "order": (lambda _, table: table.compact(order_by=5), "argument=order_by.*list"),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_argument_of_another_type_is_named(catalog: Catalog, table: Table, call: str) -> None:
    done, told = CALLS[call]
    with pytest.raises(InvalidError, match=told):
        done(catalog, table)
    assert len(table.snapshots()) == 1 and table.tags() == {} and catalog.tables() == ["db.t"]


def test_sizes_beyond_every_batch(table: Table) -> None:
    assert [batch.num_rows for batch in table.scan_batches(batch_size=2**70)] == [2]


def test_columns_of_an_order_may_come_from_a_generator(table: Table) -> None:
    made = table.compact(order_by=(name for name in ("k",)))
    assert made is not None and table.to_arrow().column("k").to_pylist() == [1, 2]


def test_other_words_for_changes_of_a_schema(table: Table) -> None:
    for name in ("add_column", "drop_column", "rename_column", "set_options"):
        for owner in (table, LakeTable(None, table)):
            with pytest.raises(AttributeError, match=rf"write table\.alter\({name.split('_')[0].title()}"):
                getattr(owner, name)
