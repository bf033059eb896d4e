"""Tables that read what they lack from another branch: which branch gives a partition, and what stays this one's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import InvalidError
from bucketlake.schema.change import AddColumn, RemoveOption, SetOption
from bucketlake.types.model import INT

SCHEMA = pa.schema([("pt", pa.int32()), ("k", pa.int32()), ("v", pa.string())])


class _Tables:
    """A table `db.t`, partitioned by pt, and its branch `b`, which has a primary key."""

    def __init__(self, folder: Path, key: str = "scan.fallback-branch") -> None:
        self.catalog = bucketlake.open(str(folder))
        self.catalog.create_database("db")
        table = self.catalog.create_table("db.t", SCHEMA, ["pt"])
        table.create_branch("b")
        self.catalog.table("db.t$branch_b").alter(SetOption("primary-key", "pt,k"), SetOption("bucket", "2"))
        table.refresh().alter(SetOption(key, "b"))

    def write(self, name: str, *rows: tuple[int, int, str], **options: Any) -> None:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, item.type) for column, item in zip(columns, SCHEMA, strict=True)]
        self.catalog.table(name).write_arrow(pa.Table.from_arrays(arrays, schema=SCHEMA), **options)

    def rows(self, name: str = "db.t", **options: Any) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in self.catalog.table(name).to_arrow(**options).to_pylist())


def test_a_partition_comes_from_one_branch_as_a_whole(tmp_path: Path) -> None:
    tables = _Tables(tmp_path)
    tables.write("db.t", (1, 10, "apple"), (1, 20, "banana"))
    tables.write("db.t$branch_b", (1, 20, "cat"), (1, 30, "dog"))
    main = [(1, 10, "apple"), (1, 20, "banana")]
    assert tables.rows() == main
    tables.write("db.t$branch_b", (2, 10, "tiger"), (2, 20, "wolf"))
    tables.write("db.t$branch_b", (2, 10, "lion"))
    assert tables.rows() == [*main, (2, 10, "lion"), (2, 20, "wolf")]
    assert tables.rows(where="pt = 2") == [(2, 10, "lion"), (2, 20, "wolf")]
    assert tables.rows(where="k = 30") == []  # partition 1 is this branch's, whatever is asked of its rows
    assert tables.rows(where="pt = 2 AND v = 'wolf'", columns=["k"]) == [(20,)]
    assert len(tables.rows(limit=3)) == 3
    assert {tuple(one.values()) for one in tables.catalog.table("db.t").partitions()} == {("1",), ("2",)}
    assert [row[:2] for row in tables.rows("db.t$partitions")] == [("pt=1", 2), ("pt=2", 3)]
    assert tables.rows("db.t$audit_log", where="pt = 2") == [("+I", 2, 10, "lion"), ("+I", 2, 20, "wolf")]
    assert len(list(tables.catalog.table("db.t").to_batches())) >= 2


def test_a_primary_branch_comes_first(tmp_path: Path) -> None:
    tables = _Tables(tmp_path, "scan.primary-branch")
    tables.write("db.t", (1, 10, "apple"), (3, 1, "fig"))
    assert tables.rows() == [(1, 10, "apple"), (3, 1, "fig")]  # the other has nothing yet
    tables.write("db.t$branch_b", (1, 20, "cat"), (2, 30, "dog"))
    assert tables.rows() == [(1, 20, "cat"), (2, 30, "dog"), (3, 1, "fig")]
    assert tables.rows("db.t$branch_b") == [(1, 20, "cat"), (2, 30, "dog")]


def test_writes_and_changes_are_of_this_branch(tmp_path: Path) -> None:
    tables = _Tables(tmp_path)
    tables.write("db.t$branch_b", (2, 10, "tiger"))
    table = tables.catalog.table("db.t")
    assert table.delete("k = 10") is None
    assert table.update({"v": "x"}, "k = 10") is None
    assert tables.rows() == [(2, 10, "tiger")]
    tables.write("db.t", (2, 11, "own"))
    assert tables.rows() == [(2, 11, "own")]
    assert tables.rows("db.t$branch_b") == [(2, 10, "tiger")]
    tables.catalog.table("db.t").truncate()
    assert tables.rows() == [(2, 10, "tiger")]
    assert [f.partition for f in tables.catalog.table("db.t").files()] == [{"pt": "2"}]


def test_time_travel_sees_the_other_branch_as_it_was(tmp_path: Path) -> None:
    tables = _Tables(tmp_path)
    tables.write("db.t", (1, 1, "a"))
    tables.write("db.t$branch_b", (2, 1, "b"))
    second = tables.catalog.table("db.t$branch_b").latest_snapshot()
    tables.write("db.t", (1, 2, "a"))
    tables.write("db.t$branch_b", (2, 2, "b"))
    assert tables.rows(scan_snapshot_id=1) == [(1, 1, "a")]  # before the branch had a row
    assert tables.rows(scan_snapshot_id=2) == [(1, 1, "a"), (1, 2, "a"), (2, 1, "b")]
    assert second is not None
    assert tables.rows(scan_timestamp_millis=second.time_millis) == [(1, 1, "a"), (2, 1, "b")]
    tables.catalog.table("db.t").create_tag("now")
    tables.catalog.table("db.t$branch_b").create_tag("now", snapshot_id=1)
    assert tables.rows(scan_tag_name="now") == [(1, 1, "a"), (1, 2, "a"), (2, 1, "b")]
    assert tables.rows(incremental_between="1,2") == [(1, 2, "a")]


def test_columns_of_both_branches_are_the_same(tmp_path: Path) -> None:
    tables = _Tables(tmp_path)
    tables.write("db.t", (1, 10, "apple"))
    tables.write("db.t$branch_b", (2, 10, "cat"))
    branch = tables.catalog.table("db.t$branch_b")
    branch.alter(AddColumn("v2", INT))
    with pytest.raises(InvalidError, match="Branch main and b does not have the same row type"):
        tables.rows()
    tables.catalog.table("db.t").alter(AddColumn("v2", INT))
    assert tables.rows() == [(1, 10, "apple", None), (2, 10, "cat", None)]
    tables.catalog.table("db.t").alter(RemoveOption("scan.fallback-branch"))
    assert tables.rows() == [(1, 10, "apple", None)]


def test_a_branch_that_is_not_there_cannot_be_set(tmp_path: Path) -> None:
    tables = _Tables(tmp_path)
    missing = "Cannot set 'scan.fallback-branch' = 'no' because the branch 'no' does not exist"
    with pytest.raises(InvalidError, match=missing):
        tables.catalog.table("db.t").alter(SetOption("scan.fallback-branch", "no"))
    with pytest.raises(InvalidError, match=missing):
        tables.catalog.create_table("db.u", SCHEMA, options={"scan.fallback-branch": "no"})
    with pytest.raises(InvalidError, match="Unset 'scan.fallback-branch' first"):
        tables.catalog.table("db.t").delete_branch("b")
    with pytest.raises(InvalidError, match="Cannot rename branch 'b'"):
        tables.catalog.table("db.t").rename_branch("b", "c")
    assert tables.catalog.table("db.t").options.text("scan.fallback-branch") == "b"


def test_a_table_without_partitions_is_one_partition(tmp_path: Path) -> None:
    catalog = bucketlake.open(str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    table.create_branch("b")
    table.refresh().alter(SetOption("scan.fallback-branch", "b"))
    catalog.table("db.t$branch_b").write_arrow({"id": [1, 2]})
    assert catalog.table("db.t").to_arrow()["id"].to_pylist() == [1, 2]
    catalog.table("db.t").write_arrow({"id": [3]})
    assert catalog.table("db.t").to_arrow()["id"].to_pylist() == [3]


def _keyed(folder: Path, options: dict[str, str]) -> bucketlake.Catalog:
    """A table `db.t` with a primary key and these options, and its branch `b`, an append table."""
    catalog = bucketlake.open(str(folder))
    catalog.create_database("db")
    fields = [pa.field("pt", pa.int32(), nullable=False), pa.field("k", pa.int32(), nullable=False)]
    table = catalog.create_table("db.t", pa.schema([*fields, SCHEMA.field("v")]), ["pt"], ["pt", "k"], options)
    table.create_branch("b")
    table.refresh().alter(SetOption("scan.fallback-branch", "b"))
    return catalog


@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"},
        {"bucket": "1", "merge-engine": "first-row", "write-only": "true"},
        {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
    ],
)
def test_a_partition_whose_rows_no_read_sees_yet_is_the_other_branchs(tmp_path: Path, options: dict[str, str]) -> None:
    catalog = _keyed(tmp_path, options)
    rows = pa.table({"pt": [1, 2], "k": [1, 1], "v": ["side", "side"]}, catalog.table("db.t").arrow_schema)
    catalog.table("db.t$branch_b").write_arrow(rows)
    catalog.table("db.t$branch_b").with_options({"write-only": "false"}).compact(full=True)
    own = [row | {"pt": row["pt"] + 1, "v": "own"} for row in rows.to_pylist()]
    catalog.table("db.t").write_arrow(pa.Table.from_pylist(own, rows.schema))

    def seen() -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in catalog.table("db.t").to_arrow().to_pylist())

    assert seen() == [(1, 1, "side"), (2, 1, "side")]
    assert [one["pt"] for one in catalog.table("db.t").partitions()] == ["1", "2", "3"]
    counts = {row["partition"]: row["file_count"] for row in catalog.table("db.t$partitions").to_arrow().to_pylist()}
    assert counts == {"pt=1": 1, "pt=2": 1, "pt=3": 1}
    catalog.table("db.t").with_options({"write-only": "false"}).compact(full=True)
    assert seen() == [(1, 1, "side"), (2, 1, "own"), (3, 1, "own")]
