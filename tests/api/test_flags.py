"""Arguments that are true or false are exactly that, in every call of the public API: "no" is no way to say no."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import Catalog, InvalidError, Lake, LakeTable, Table
from bucketlake.cdc.sync import How, HowDatabase
from bucketlake.maintenance.rules import Rule

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
OURS = {"for_changing", "evolved"}  # what calls of the package itself pass on
REQUIRED = {"name": "db.x", "source": "db.t", "target": "db.u", "schema": SCHEMA, "column": "v", "partition": {}}


def flags() -> Iterator[tuple[type, str, str, bool]]:
    """Every public method's arguments of type bool, and whether they may be None."""
    for owner in (Catalog, Lake, LakeTable, Table):
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            if name.startswith("_") or name in OURS:
                continue
            for one in inspect.signature(method).parameters.values():
                if one.annotation in ("bool", "bool | None"):
                    yield owner, name, one.name, one.default is None


@pytest.fixture
def owners(catalog: Catalog) -> dict[type, Any]:
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": 1})
    table.write_arrow([{"k": 1, "v": "a"}])
    return {Catalog: catalog, Table: table, LakeTable: LakeTable(None, table), Lake: Lake(None, catalog)}


def test_what_is_neither_true_nor_false_is_refused_before_anything_is_done(owners: dict[type, Any]) -> None:
    found = list(flags())
    assert len(found) > 25
    for owner, method, argument, optional in found:
        for value in ("no", "false", 0, 1, *(() if optional else (None,))):
            call = getattr(owners[owner], method)
            required = {
                one.name: REQUIRED.get(one.name)
                for one in inspect.signature(call).parameters.values()
                if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
            }
            with pytest.raises(InvalidError, match=f"neither True nor False.*{argument}=True"):
                call(**{**required, argument: value})
    table = owners[Table]
    assert len(table.snapshots()) == 1 and table.tags() == {} and table.branches() == []
    assert owners[Catalog].tables() == ["db.t"]


@pytest.mark.parametrize("made", [How, HowDatabase])
def test_arguments_of_change_data(made: type) -> None:
    with pytest.raises(InvalidError, match="neither True nor False.*case_sensitive=True"):
        made(case_sensitive="false")


def test_arguments_of_rules_and_of_connecting(catalog: Catalog) -> None:
    with pytest.raises(InvalidError, match="neither True nor False.*full=True"):
        Rule("compact", full="no")  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="neither True nor False.*verbose=True"):
        bucketlake.connect(catalog.warehouse, verbose="no")  # type: ignore[arg-type]


def test_partitions_are_not_named_by_the_option_of_new_tables(owners: dict[type, Any]) -> None:
    for owner in (Table, LakeTable):
        for given in ("v=a", {"v": "a"}):
            with pytest.raises(InvalidError, match="no argument of this call.*partition.*partitions=…"):
                owners[owner].compact(partition=given)


def test_the_folder_of_a_database_is_no_warehouse_and_says_so(owners: dict[type, Any]) -> None:
    catalog = owners[Catalog]
    for folder in (catalog.database_path("db"), catalog.table_path("db.t")):
        with pytest.warns(UserWarning, match=f"is {catalog.warehouse} meant"):
            assert bucketlake.open(folder).tables() == []
