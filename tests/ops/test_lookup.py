"""Rows looked up by key are those that a read has, for every merge engine, bucket mode and type of key, while the table
goes on; what is decoded stays within its bounds and is forgotten with its files."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import seeds

import bucketlake
from bucketlake.errors import InvalidError
from bucketlake.ops.lookup.lookup import lookup_of
from bucketlake.ops.lookup.request import LookupRequest
from bucketlake.schema.change import AddColumn, RenameColumn
from bucketlake.table import Table
from bucketlake.types.model import BIGINT

ROWS = pa.schema(
    [pa.field("k", pa.int64(), False), pa.field("pt", pa.int32(), False), ("v", pa.int64()), ("w", pa.string())]
)
FEW = {"num-sorted-run.compaction-trigger": "3"}
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]] = {
    "fixed": (("k",), (), {"bucket": "3"}),
    "partitioned": (("k", "pt"), ("pt",), {"bucket": "2"}),
    "dynamic": (("k", "pt"), ("pt",), {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}),
    "cross-partition": (("k",), ("pt",), {"bucket": "-1"}),
    "postpone": (
        ("k",),
        (),
        {"bucket": "-2", "postpone.merge-on-read": "true", "postpone.batch-write-fixed-bucket": "false"},
    ),
    "partial-update": (("k",), (), {"bucket": "2", "merge-engine": "partial-update"}),
    "aggregation": (("k",), (), {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}),
    "first-row": (("k",), (), {"bucket": "2", "merge-engine": "first-row"}),
    "deletion-vectors": (("k",), (), {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "sequence": (("k",), (), {"bucket": "2", "sequence.field": "v"}),
    "avro": (("k",), (), {"bucket": "2", "file.format": "avro"}),
    "orc": (("k",), (), {"bucket": "2", "file.format": "orc"}),
    "thin": (("k",), (), {"bucket": "2", "data-file.thin-mode": "true"}),
}


def make(tmp_path: Path, schema: pa.Schema, keys: tuple[str, ...], options: dict[str, str], parts: Any = ()) -> Table:
    catalog = bucketlake.open(str(tmp_path / "wh"))
    catalog.create_database("db", ignore_if_exists=True)
    return catalog.create_table("db.t", schema, parts, keys, {**FEW, **options})


def check(table: Table, chance: random.Random, keys: tuple[str, ...]) -> None:
    """A lookup of keys that are there, keys that are not, and nulls, against what a read has."""
    held = {tuple(row[name] for name in keys): row for row in table.to_arrow().to_pylist()}
    asked: list[dict[str, Any]] = [{"k": chance.randrange(80), "pt": chance.randrange(3)} for _ in range(40)]
    asked += [dict(zip(keys, key, strict=True)) for key in held] + [{"k": None, "pt": 1}, {"k": 1, "pt": 1}]
    given = pa.table({"n": range(len(asked)), **{name: [row.get(name) for row in asked] for name in keys}})
    rest = [name for name in ROWS.names if name not in keys]
    found = table.lookup(given)
    assert found.schema.names == ["n", *keys, *rest]
    for row, one in zip(asked, found.to_pylist(), strict=True):
        there = held.get(tuple(row.get(name) for name in keys), {})
        assert {name: one[name] for name in rest} == {name: there.get(name) for name in rest}, row
    inner = table.lookup(given, columns=["w"], how="inner", prefix="its_")
    wanted = [n for n, row in enumerate(asked) if tuple(row.get(name) for name in keys) in held]
    assert inner.column("n").to_pylist() == wanted and inner.schema.names[-1] == "its_w"


@pytest.mark.parametrize("name", list(CASES))
def test_a_lookup_is_what_a_read_has(name: str, tmp_path: Path) -> None:
    keys, parts, options = CASES[name]
    chance = random.Random(name)
    table = make(tmp_path, ROWS, keys, options, parts)
    check(table, chance, keys)
    for number in range(seeds(3, 12).stop):
        count = chance.randrange(1, 60)
        ks = chance.sample(range(60), count)
        rows = {
            "k": ks,
            "pt": [k % 2 for k in ks],
            "v": [number] * count,
            "w": [chance.choice(["a", None]) for _ in ks],
        }
        table.write_arrow(pa.table(rows, schema=ROWS))
        if name not in ("first-row", "aggregation", "partial-update") and number % 2:
            table.delete(f"k < {chance.randrange(20)}")
        check(table, chance, keys)
    table.compact()
    check(table, chance, keys)


KEYS = {
    "int": (pa.int32(), [1, -5, 7, None]),
    "text": (pa.string(), ["a", "", "ü" * 40, None]),
    "bytes": (pa.binary(), [b"a", b"\0", b"", None]),
    "decimal": (pa.decimal128(30, 2), [Decimal("1.50"), Decimal("-2.00"), Decimal("12345678901234567890.12"), None]),
    "date": (pa.date32(), [dt.date(2024, 1, 1), dt.date(1950, 3, 4), dt.date(2400, 1, 1), None]),
    "time": (
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 1, 2, 3, 4, 5), dt.datetime(1950, 1, 1), dt.datetime(3000, 1, 1), None],
    ),
    "zoned": (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, n, tzinfo=dt.timezone.utc) for n in (1, 2, 3)] + [None]),
    "double": (pa.float64(), [1.5, -0.25, float("inf"), None]),
    "bool": (pa.bool_(), [True, False, None, None]),
}


@pytest.mark.parametrize("name", list(KEYS))
def test_keys_of_every_type(name: str, tmp_path: Path) -> None:
    kind, values = KEYS[name]
    schema = pa.schema([pa.field("a", kind, False), pa.field("b", pa.int32(), False), ("v", pa.int64())])
    for keys, folder in ((("a", "b"), "two"), (("a",), "one")):
        table = make(tmp_path / folder, schema, keys, {"bucket": "2"})
        table.write_arrow(pa.table({"a": values[:2], "b": [1, 1], "v": [10, 20]}, schema=schema))
        table.write_arrow(pa.table({"a": values[1:2], "b": [1], "v": [21]}, schema=schema))
        asked = pa.table({"a": pa.array(values, kind), "b": pa.array([1] * 4, pa.int64())})
        assert table.lookup(asked.select(list(keys)), columns=["v"]).column("v").to_pylist() == [10, 21, None, None]


def test_other_names_and_kinds_of_rows(tmp_path: Path) -> None:
    table = make(tmp_path, ROWS, ("k",), {"bucket": "1"})
    table.write_arrow(pa.table({"k": [1, 2], "pt": [0, 0], "v": [5, 6], "w": ["a", "b"]}, schema=ROWS))
    rows = [{"id": 2, "v": "mine"}, {"id": 9, "v": "mine"}]
    found = table.lookup(rows, on={"id": "k"}, columns=["k", "v"], prefix="t_")
    assert found.to_pylist() == [
        {"id": 2, "v": "mine", "t_k": 2, "t_v": 6},
        {"id": 9, "v": "mine", "t_k": None, "t_v": None},
    ]
    assert table.lookup({"k": [1, 1]}, columns=["w"]).column("w").to_pylist() == ["a", "a"]
    assert table.lookup(pa.table({"k": pa.array([], pa.int64())}), columns=["w"]).num_rows == 0
    assert table.lookup({"k": [1]}, columns=["w"], scan_snapshot_id=1).num_rows == 1


def test_what_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path, ROWS, ("k", "pt"), {"bucket": "1"})
    with pytest.raises(InvalidError, match="whole primary key.*missing=.*pt"):
        table.lookup({"k": [1]}, on="k")
    with pytest.raises(InvalidError, match="names already"):
        table.lookup({"k": [1], "pt": [1], "v": [1]})
    with pytest.raises(InvalidError, match="rows lack columns"):
        table.lookup({"k": [1]})
    with pytest.raises(InvalidError, match="no such column"):
        table.lookup({"k": [1], "pt": [1]}, columns=["x"])
    with pytest.raises(InvalidError, match="no such way"):
        table.lookup({"k": [1], "pt": [1]}, how="outer")
    with pytest.raises(InvalidError, match="k"):
        table.lookup({"k": ["one"], "pt": [1]})


def test_by_other_columns(tmp_path: Path) -> None:
    table = make(tmp_path, ROWS, ("k", "pt"), {"bucket": "2"})
    rows = {"k": [1, 1, 2, 3], "pt": [0, 1, 0, 0], "v": [5, 6, 7, None], "w": ["a", "b", "a", None]}
    table.write_arrow(pa.table(rows, schema=ROWS))
    found = table.lookup({"k": [1, 4, None]}, on="k", columns=["v"], scan=True).to_pylist()
    assert sorted((row["k"] or 0, row["v"] or 0) for row in found) == [(0, 0), (1, 5), (1, 6), (4, 0)]
    found = table.lookup({"w": ["a", "b", "z"]}, on="w", columns=["k"], how="inner", scan=True).to_pylist()
    assert sorted((row["w"], row["k"]) for row in found) == [("a", 1), ("a", 2), ("b", 1)]


def test_the_cache_follows_snapshots_and_stays_within_its_bound(tmp_path: Path) -> None:
    table = make(tmp_path, ROWS, ("k",), {"bucket": "1"})
    count = 20_000
    rows = {"k": range(count), "pt": [0] * count, "v": range(count), "w": ["x"] * count}
    table.write_arrow(pa.table(rows, schema=ROWS))
    request = LookupRequest.of(table.schema, columns=["v"])
    lookup = lookup_of(table.store, request)
    assert lookup.find(pa.table({"k": [7, 8]})).column("v").to_pylist() == [7, 8]
    first = lookup.cache.bytes
    assert 0 < first <= request.cache_bytes and len(lookup.cache) == 1
    table.write_arrow(pa.table({"k": [7], "pt": [0], "v": [70], "w": ["y"]}, schema=ROWS))
    assert lookup.find(pa.table({"k": [7, 8]})).column("v").to_pylist() == [70, 8]
    table.compact()
    assert lookup.find(pa.table({"k": [7, 8]})).column("v").to_pylist() == [70, 8]
    assert len(lookup.cache) == 1, "parts of files that are gone are forgotten"
    small = LookupRequest.of(table.schema, columns=["v"], cache_bytes=1000)
    assert table.lookup({"k": [8]}, columns=["v"], cache_bytes=1000).column("v").to_pylist() == [8]
    assert lookup_of(table.store, small).cache.bytes == 0
    many = table.lookup({"k": list(range(-10, count, 3))}, columns=["v"])
    assert many.column("v").null_count == 4 and many.num_rows == len(range(-10, count, 3))


@pytest.mark.parametrize("scan_snapshot_id", [None, 1])
def test_a_table_that_was_made_anew_is_another_one(tmp_path: Path, scan_snapshot_id: int | None) -> None:
    """Its rows are looked up, although one of the same name, schema number and snapshots was looked up before."""
    options = {} if scan_snapshot_id is None else {"scan_snapshot_id": scan_snapshot_id}
    for turn in range(3):
        table = make(tmp_path, ROWS, ("k",), {"bucket": "1"})
        table.write_arrow(pa.table({"k": [1, 2], "pt": [0, 0], "v": [turn, 6], "w": ["a", "b"]}, schema=ROWS))
        assert table.lookup({"k": [1]}, columns=["v"], **options).column("v").to_pylist() == [turn]
        bucketlake.open(str(tmp_path / "wh")).drop_table("db.t")


def test_columns_that_changed_since(tmp_path: Path) -> None:
    table = make(tmp_path, ROWS, ("k",), {"bucket": "1"})
    table.write_arrow(pa.table({"k": [1], "pt": [0], "v": [5], "w": ["a"]}, schema=ROWS))
    table = table.alter(AddColumn("x", BIGINT), RenameColumn(("w",), "u"))
    found = table.lookup({"k": [1]}).to_pylist()
    assert found == [{"k": 1, "pt": 0, "v": 5, "u": "a", "x": None}]
