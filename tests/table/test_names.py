"""Names of tables and databases that need quotes: each is made, listed, renamed and dropped under the name that it was
given; folders whose name no table has break nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import Catalog, Table
from bucketlake.catalogs.names import parts_of, written

SCHEMA = pa.schema([("v", pa.int32())])
NAMES = ["a.b", ".a", "a`b", "`", "a.`b", "with space", "a'b", 'a"b', "{t0}", "é", "\u202ea"]


def rows(table: Table) -> list[int]:
    return table.to_arrow().column("v").to_pylist()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_what_it_was_given_as(tmp_path: Path, name: str) -> None:
    catalog = bucketlake.open(tmp_path)
    full = written(name, name)
    assert parts_of(full) == [name, name]
    catalog.create_database(name)
    table = catalog.create_table(full, SCHEMA)
    table.write_arrow(pa.table({"v": pa.array([1], pa.int32())}))
    assert (tmp_path / f"{name}.db" / name / "schema").is_dir()
    assert catalog.list_tables(name) == [name]
    assert [rows(catalog.table(one)) for one in catalog.tables()] == [[1]]
    assert catalog.table(written(name, f"{name}$snapshots")).to_arrow().num_rows == 1
    table.create_branch("side")
    assert rows(catalog.table(written(name, f"{name}$branch_side"))) == []
    catalog.rename_table(full, written(name, "other"))
    catalog.rename_table(written(name, "other"), full)
    assert rows(catalog.table(table.name)) == [1]
    catalog.drop_table(full)
    assert catalog.tables() == []


def test_folders_of_other_names_are_no_tables(tmp_path: Path) -> None:
    """One of them in a warehouse, and nothing that looks at all tables would come to an end."""
    catalog: Catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    catalog.create_table("db.t", SCHEMA)
    for name in (" ", "$", "t$files", "a\\b", "a\nb"):
        shutil.copytree(tmp_path / "db.db" / "t", tmp_path / "db.db" / name)
    shutil.copytree(tmp_path / "db.db", tmp_path / "d\nb.db")
    assert catalog.tables() == ["db.t"]
    assert catalog.table("sys.tables").to_arrow().column("table_name").to_pylist() == ["t"]
    catalog.drop_table("db.t")
    with pytest.raises(bucketlake.InvalidError, match="not empty"):
        catalog.drop_database("db")
