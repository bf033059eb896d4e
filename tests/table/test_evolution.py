"""Files written under older schemas, read as the newest, and the other way round by time travel."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import ConflictError, InvalidError, Table
from bucketlake.schema.change import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SetOption,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdatePosition,
)
from bucketlake.schema.evolution import read_mapping
from bucketlake.types.model import BIGINT, INT, STRING, DataField, decimal_type
from bucketlake.types.parse import parse_type_text

SCHEMA = pa.schema([pa.field("k", pa.int32()), pa.field("v", pa.int32()), pa.field("s", pa.string())])
FORMATS = ["parquet", "orc", "avro"]


def new_table(folder: Path, keyed: bool, format: str = "parquet", **options: Any) -> Table:
    bucket = {"bucket": "1"} if keyed else {"bucket": "-1"}
    return bucketlake.open(folder).create_table(
        "t", SCHEMA, primary_keys=["k"] if keyed else [], options={**bucket, "file.format": format, **options}
    )


def rows(table: Table, **arguments: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow(**arguments).to_pylist()), key=repr)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("keyed", [True, False])
def test_columns_are_matched_by_id(tmp_path: Path, keyed: bool, format: str) -> None:
    table = new_table(tmp_path, keyed, format)
    table.write_arrow(pa.table({"k": [1, 2], "v": [10, 20], "s": ["a", "b"]}))
    table = table.alter(RenameColumn("v", "w"), AddColumn("n", INT), DropColumn("s"))
    assert rows(table) == [(1, 10, None), (2, 20, None)]
    table = table.alter(AddColumn("s", STRING))  # the same name is another column
    table.write_arrow(pa.table({"k": [2, 3], "w": [21, 30], "n": [1, 2], "s": ["x", "y"]}))
    newest = [(2, 21, 1, "x"), (3, 30, 2, "y")]
    assert rows(table) == sorted([(1, 10, None, None), *([] if keyed else [(2, 20, None, None)]), *newest], key=repr)
    assert rows(table, where="w > 20") == newest
    assert rows(table, where="s IS NULL AND w = 10", columns=["w", "k"]) == [(10, 1)]
    assert rows(table, scan_snapshot_id=1) == [(1, 10, "a"), (2, 20, "b")]
    assert rows(table, scan_snapshot_id=1, where="s = 'a'") == [(1, 10, "a")]


@pytest.mark.parametrize("keyed", [True, False])
def test_types_are_widened_and_narrowed_on_reading(tmp_path: Path, keyed: bool) -> None:
    table = new_table(tmp_path, keyed)
    table.write_arrow(pa.table({"k": [1, 2], "v": [10, None], "s": ["7", None]}))
    table = table.alter(UpdateColumnType("v", BIGINT), UpdateColumnType("s", decimal_type(10, 2)))
    table.write_arrow(pa.table({"k": [3], "v": [2**40], "s": pa.array([Decimal("1.50")], pa.decimal128(10, 2))}))
    assert rows(table) == [(1, 10, Decimal("7.00")), (2, None, None), (3, 2**40, Decimal("1.50"))]
    assert rows(table, where="s >= 7") == [(1, 10, Decimal("7.00"))]
    assert rows(table, where="v > 5 AND v < 100") == [(1, 10, Decimal("7.00"))]
    assert table.to_arrow().schema.field("v").type == pa.int64()


def test_key_and_partition_columns_are_renamed(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.string())])
    table = catalog.create_table("t", schema, primary_keys=["k"], options={"bucket": "2"})
    table.write_arrow(pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]}))
    table = table.alter(RenameColumn("k", "id"))
    table.write_arrow(pa.table({"id": [2, 4], "v": ["B", "D"]}))
    assert rows(table) == [(1, "a"), (2, "B"), (3, "c"), (4, "D")]
    assert rows(table, where="id = 2") == [(2, "B")]
    assert rows(table, where="id IN (1, 4)", columns=["id"]) == [(1,), (4,)]


@pytest.mark.parametrize("format", FORMATS)
def test_nested_members_are_matched_by_id(tmp_path: Path, format: str) -> None:
    schema = pa.schema(
        [pa.field("k", pa.int32()), pa.field("r", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())]))]
    )
    catalog = bucketlake.open(tmp_path)
    options = {"bucket": "1", "file.format": format}
    table = catalog.create_table("t", schema, primary_keys=["k"], options=options)
    table.write_arrow(pa.table({"k": [1, 2], "r": [{"a": 1, "b": "x"}, None]}, schema=schema))
    table = table.alter(
        RenameColumn(("r", "a"), "c"), AddColumn(("r", "n"), parse_type_text("DATE")), DropColumn(("r", "b"))
    )
    new = pa.table({"k": [3], "r": [{"c": 3, "n": datetime.date(2024, 1, 2)}]}, schema=table.arrow_schema)
    table.write_arrow(new)
    assert rows(table) == [
        (1, {"c": 1, "n": None}),
        (2, None),
        (3, {"c": 3, "n": datetime.date(2024, 1, 2)}),
    ]


def test_moved_columns_and_dropped_not_null(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int32()), pa.field("v", pa.int32(), nullable=False)])
    table = bucketlake.open(tmp_path).create_table("t", schema, options={"bucket": "-1"})
    table.write_arrow(pa.table({"k": [1], "v": [10]}, schema=schema))
    table = table.alter(UpdateColumnNullability("v", True), UpdatePosition("v", True, None))
    table.write_arrow(pa.table({"v": pa.array([None], pa.int32()), "k": pa.array([2], pa.int32())}))
    assert rows(table) == [(10, 1), (None, 2)]


@pytest.mark.parametrize("keyed", [True, False])
def test_format_may_change(tmp_path: Path, keyed: bool) -> None:
    table = new_table(tmp_path, keyed)
    for number, format in enumerate(FORMATS):
        table = table.alter(SetOption("file.format", format))
        table.write_arrow(pa.table({"k": [number], "v": [number], "s": [format]}))
    assert rows(table, columns=["s"]) == [("avro",), ("orc",), ("parquet",)]
    assert rows(table, where="v = 1", columns=["s"]) == [("orc",)]


def test_older_handle_keeps_its_view(tmp_path: Path) -> None:
    old = new_table(tmp_path, keyed=False)
    new = old.alter(AddColumn("n", INT))
    new.write_arrow(pa.table({"k": [1], "v": [1], "s": ["x"], "n": [5]}))
    assert rows(old) == [(1, 1, "x")]
    old.write_arrow(pa.table({"k": [2], "v": [2], "s": ["y"]}))
    assert rows(new) == [(1, 1, "x", 5), (2, 2, "y", None)]


@pytest.mark.parametrize("keyed", [True, False])
def test_a_branch_that_took_mains_place_is_read_by_its_own_schemas(tmp_path: Path, keyed: bool) -> None:
    """Its later schemas have the numbers of those that main had, which the handle knows."""
    old = new_table(tmp_path, keyed)
    old.alter(AddColumn("w", INT))
    old = old.refresh()
    old.write_arrow([{"k": 1, "v": 1, "s": "x", "w": 10}])
    old.create_tag("one")
    old.create_branch("b", "one")
    main = old.alter(RenameColumn(("v",), "renamed"))
    main.write_arrow([{"k": 2, "renamed": 2, "s": "x", "w": 20}])
    assert rows(old) == [(1, 1, "x", 10), (2, 2, "x", 20)]
    branch = bucketlake.open(tmp_path).table("t$branch_b")
    branch = branch.alter(RenameColumn(("v",), "other"), RenameColumn(("w",), "renamed"))
    branch.write_arrow([{"k": 3, "other": 3, "s": "x", "renamed": 30}])
    main.refresh().fast_forward("b")
    assert rows(old) == [(1, 1, "x", 10), (3, 3, "x", 30)]
    old.write_arrow([{"k": 4, "v": 4, "s": "x", "w": 40}])
    old.compact(full=True)
    assert rows(old) == rows(old.refresh()) == [(1, 1, "x", 10), (3, 3, "x", 30), (4, 4, "x", 40)]


@pytest.mark.parametrize("keyed", [True, False])
def test_an_older_handle_does_not_bend_values_of_newer_types(tmp_path: Path, keyed: bool) -> None:
    """Types that hold every value of the newer one are read as before; the others are refused by name."""
    old = new_table(tmp_path, keyed)
    new = old.alter(UpdateColumnType("v", BIGINT))
    new.write_arrow(pa.table({"k": [1], "v": [2**32 + 7], "s": ["x"]}))
    for where in (None, "v = 7", "v > 100"):
        with pytest.raises(
            ConflictError, match=r"another type since.*column=v, stored=BIGINT, known=INT.*open the table"
        ):
            rows(old, where=where)
    assert rows(old, columns=["k", "s"]) == [(1, "x")]
    narrowed = new.alter(UpdateColumnType("v", INT))
    narrowed.write_arrow(pa.table({"k": [2], "v": pa.array([8], pa.int32()), "s": ["y"]}))
    assert rows(new) == [(1, 2**32 + 7, "x"), (2, 8, "y")]


@pytest.mark.parametrize(
    ("newer", "known", "kept"),
    [
        ("INT", "BIGINT", True),
        ("DECIMAL(10,2)", "DECIMAL(12,4)", True),
        ("DECIMAL(12,2)", "DECIMAL(12,4)", False),
        ("VARCHAR(9)", "STRING", True),
        ("STRING", "VARCHAR(9)", False),
        ("DOUBLE", "FLOAT", False),
        ("BIGINT", "DOUBLE", False),
        ("TIMESTAMP(9)", "TIMESTAMP(3)", False),
        ("ROW<a INT, b STRING>", "ROW<a BIGINT>", True),
        ("ROW<a BIGINT>", "ROW<a INT>", False),
        ("ARRAY<MAP<STRING, FLOAT>>", "ARRAY<MAP<STRING, DOUBLE>>", True),
        ("ARRAY<DOUBLE>", "ARRAY<FLOAT>", False),
    ],
)
def test_which_newer_types_are_read_as_older_ones(newer: str, known: str, kept: bool) -> None:
    stored, wanted = (DataField(1, "v", parse_type_text(text)) for text in (newer, known))
    assert read_mapping([stored], [wanted])[0].cast
    if kept:
        assert read_mapping([stored], [wanted], newer=True)[0].cast
        return
    with pytest.raises(ConflictError, match="column=v"):
        read_mapping([stored], [wanted], newer=True)


def test_cast_that_loses_is_refused_when_altering(tmp_path: Path) -> None:
    table = new_table(tmp_path, keyed=True)
    with pytest.raises(InvalidError, match="cannot be converted"):
        table.alter(UpdateColumnType("s", parse_type_text("ARRAY<INT>")))
    assert table.refresh().schema.id == 0


def test_dynamic_options_are_not_stored_by_an_alteration(tmp_path: Path) -> None:
    table = new_table(tmp_path, keyed=False).with_options(write_buffer_size="1 mb")
    altered = table.alter(AddColumn("n", INT))
    assert "write-buffer-size" not in altered.schema.options


def test_the_past_of_renamed_columns_is_merged_as_it_was(tmp_path: Path) -> None:
    """Options name columns by the names that they have today; those of the past are the snapshot's schema's."""
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "sequence.field": "s"}
    table = new_table(tmp_path, True, **{"write-only": "true"}, **options)
    for v, s in ((1, "a"), (2, "b")):
        table.write_arrow(pa.table({"k": [1], "v": [v], "s": [s]}))
    table = table.alter(RenameColumn("v", "w"), RenameColumn("s", "q"), AddColumn("v", INT))
    table = table.alter(SetOption("fields.v.aggregate-function", "max"))
    table.write_arrow(pa.table({"k": [1], "w": [4], "q": ["c"], "v": [9]}))
    assert rows(table) == [(1, 7, "c", 9)]
    assert rows(table, scan_snapshot_id=2) == [(1, 3, "b")]


def test_the_past_before_deletion_vectors(tmp_path: Path) -> None:
    """Level 0 counted then, and files of several levels had to be merged."""
    options = {"deletion-vectors.modifiable": "true", "num-sorted-run.compaction-trigger": "2"}
    table = new_table(tmp_path, True, **{"write-only": "true"}, **options)
    states = []
    for v in range(4):
        table.write_arrow(pa.table({"k": [1, v + 2], "v": [v, v], "s": ["x", "x"]}), write_only=v != 1)
        states.append((table.latest_snapshot(), rows(table)))
    table.compact()
    table = table.alter(SetOption("deletion-vectors.enabled", "true"))
    table.write_arrow(pa.table({"k": [1], "v": [9], "s": ["y"]}), write_only=False)
    states.append((table.latest_snapshot(), rows(table)))
    for switched in ("true", "false"):
        table = table.alter(SetOption("deletion-vectors.enabled", switched))
        for snapshot, expected in states:
            assert snapshot is not None
            assert rows(table, scan_snapshot_id=snapshot.id) == expected


def test_columns_that_change_names_do_not_stop_an_older_handle(tmp_path: Path) -> None:
    old = new_table(tmp_path, False, **{"bucket": "2", "bucket-key": "v"})
    old.write_arrow(pa.table({"k": [1], "v": [1], "s": ["x"]}))
    new = old.alter(RenameColumn("v", "t"), RenameColumn("s", "v"), RenameColumn("t", "s"))
    old.write_arrow(pa.table({"k": [2], "v": [2], "s": ["y"]}))
    assert rows(new, where="s = 2") == [(2, 2, "y")]
    assert new.schema.options["bucket-key"] == "s"
