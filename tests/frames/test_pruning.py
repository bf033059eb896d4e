"""What a query of polars, DuckDB or pyarrow leaves out: the data files that are opened, and their columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketlake
from bucketlake import Table
from bucketlake.frames.arrow_filter import expression_columns, of_arrow
from bucketlake.predicate.tree import Compare

from .tables import connected, opened

c = pl.col
COLUMNS = pa.schema(
    [
        ("day", pa.date32()),
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("f", pa.float64()),
    ]
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Two days, each of three files whose ids do not overlap."""
    catalog = bucketlake.open(tmp_path_factory.mktemp("pruning"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, partition_keys=["day"], options={"write-only": "true"})
    for start in (0, 100, 200):
        days = [dt.date(2024, 1, 1 + n % 2) for n in range(100)]
        numbers = range(start, start + 100)
        table.write_arrow(
            {
                "day": days,
                "id": list(numbers),
                "name": [f"n{n:03}" for n in numbers],
                "price": [Decimal(n) for n in numbers],
                "f": [float(n) for n in numbers],
            }
        )
    assert len(table.files()) == 6
    return table


POLARS: list[tuple[Any, int]] = [
    (c.id == 5, 2),
    (c.id.is_in([5, 250]), 4),
    (c.id.is_between(150, 160), 2),
    ((c.id > 250) & (c.day == dt.date(2024, 1, 1)), 1),
    (c.day == dt.date(2024, 1, 1), 3),
    ((c.id > 250) & (c.name.str.to_uppercase() == "N260"), 2),
    ((c.id < 10) | (c.id > 290), 4),
    (~(c.id < 200), 2),
    (c.name.str.starts_with("n2"), 2),
    (c.price < 50, 2),
    (c.f > 250.0, 6),  # no file is known to be without NaN
    (c.f < 50.0, 2),
    (c.id.is_null(), 0),
    (c.name.str.to_uppercase() == "N260", 6),
]


def test_polars(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = table.to_polars()
    for condition, files in POLARS:
        with opened(monkeypatch) as paths:
            lazy.filter(condition).collect()
        assert len(paths) == files, str(condition)
    with opened(monkeypatch) as paths:
        lazy.select("name").filter(c.name == "n001").collect()
        assert {path.partition(": ")[2] for path in paths} == {"name"}
    with opened(monkeypatch) as paths:
        assert lazy.head(3).collect().height == 3
    assert len(paths) == 1


SQL = [
    ("id = 5", 2),
    ("id in (5, 250)", 4),
    ("id between 150 and 160", 2),
    ("id > 250 and day = '2024-01-01'", 1),
    ("day = '2024-01-02'", 3),
    ("id < 10 or id > 290", 4),
    ("name >= 'n250'", 2),
    ("lower(name) = 'n260' and id > 250", 2),
    ("lower(name) = 'n260'", 6),
]


def test_duckdb(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    relation = table.to_duckdb(connected())
    for condition, files in SQL:
        with opened(monkeypatch) as paths:
            relation.filter(condition).fetchall()
        assert len(paths) == files, condition
    with opened(monkeypatch) as paths:
        relation.filter("id < 3").aggregate("max(name)").fetchall()
    assert {path.partition(": ")[2] for path in paths} == {"id,name"}


def test_other_ways(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[tuple[Callable[[], Any], int]] = [
        (lambda: table.to_dataset().to_table(filter=pc.field("id") < 5), 2),
        (lambda: pl.scan_pyarrow_dataset(table.to_dataset()).filter(c.id < 5).collect(), 2),
        (lambda: pa.table(table.scan("id < 5 AND day = DATE '2024-01-01'")), 1),
        (lambda: table.to_reader(limit=3).read_all(), 1),
        (lambda: next(table.scan_batches()), 1),
        (lambda: [split.to_arrow() for split in table.splits("id < 5")], 2),
        (lambda: table.scan("id < 5"), 0),
        (lambda: table.to_arrow(limit=0), 0),
    ]
    for number, (way, files) in enumerate(ways):
        with opened(monkeypatch) as paths:
            way()
        assert len(paths) == files, number


def test_what_is_read_of_an_expression(table: Table) -> None:
    fields = table.scan().fields
    text = "call: 'end' \"field_ref\" \n\0 é"
    assert of_arrow(pc.field("name") == text, fields) == Compare("name", "=", text)
    assert of_arrow(pc.scalar(5) <= pc.field("id"), fields) == Compare("id", ">=", 5)
    assert expression_columns((pc.field("st", "id") == 1) & (pc.field("f") + pc.field("id") > 3)) == ["st", "f", "id"]
    deep = pc.field("id") == 0
    for number in range(3000):
        deep = deep | (pc.field("id") == number)
    assert of_arrow(deep, fields) is None or table.to_dataset().to_table(filter=pc.field("id") < 3).num_rows == 3
    for odd in (None, 3, "id", object()):
        assert of_arrow(odd, fields) is None and expression_columns(odd) is None


def test_merged_files_are_pruned_by_key_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    keys = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    table = catalog.create_table("db.t", keys, primary_keys=["id"], options={"bucket": "2", "write-only": "true"})
    for value in (1, 2):
        table.write_arrow({"id": list(range(100)), "v": [value] * 100})
    lazy = table.to_polars()
    with opened(monkeypatch) as paths:
        assert lazy.filter(c.id == 7).collect().rows() == [(7, 2)]
        assert len(paths) == 1  # the newest file of one bucket: nothing newer says otherwise
    assert lazy.filter(c.v == 1).collect().height == 0  # superseded values do not come back
    assert table.to_duckdb(connected()).filter("v = 1").fetchall() == []
