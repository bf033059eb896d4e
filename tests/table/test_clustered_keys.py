"""Keyed tables whose files lie in the order of other columns: random histories against a dict, and what they refuse."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bucketlake
from bucketlake import Table
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import RenameColumn, SetOption, UpdateColumnType
from bucketlake.types.model import BIGINT

SCHEMA = pa.schema([("k", pa.int64()), ("city", pa.string()), ("v", pa.int32())])
CITIES = ("a", "b", "Ω", None, "z" * 40)
OPTIONS = {
    "pk-clustering-override": "true",
    "clustering.columns": "city",
    "deletion-vectors.enabled": "true",
    "bucket": "1",
}
FIRST = {"merge-engine": "first-row", "deletion-vectors.enabled": "false"}
KINDS: tuple[dict[str, str], ...] = (
    {},
    {"write-only": "true", "clustering.columns": "v", "changelog-producer": "input"},
    {"bucket": "2", "target-file-size": "2 kb", "clustering.columns": "city,v", "file.format": "orc"},
    {"bucket": "-1", "data-file.thin-mode": "true", "write-buffer-size": "1 kb"},
    {"bucket": "-2", "deletion-vectors.bitmap64": "true"},
    {**FIRST},
    {**FIRST, "write-only": "true", "clustering.columns": "v,city", "file.format": "avro"},
)
POSTPONED = 4
Rows = dict[int, tuple[Any, Any]]


def made(path: Path, **options: str) -> Table:
    catalog = bucketlake.open(path)
    catalog.create_database("d")
    return catalog.create_table("d.t", SCHEMA, primary_keys=["k"], options={**OPTIONS, **options})


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def held(table: Table, **asked: Any) -> Rows:
    found = table.to_arrow(**asked).to_pylist()
    rows = {row["k"]: (row["city"], row["v"]) for row in found}
    assert len(rows) == len(found)
    return rows


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_histories_equal_a_dict(tmp_path: Path, kind: int) -> None:
    chosen, table = random.Random(kind), made(tmp_path, **KINDS[kind])
    first, model = "merge-engine" in KINDS[kind], Rows()
    for _ in range(9):
        step = chosen.choice(("write", "write", "write", "delete", "compact", "full"))
        if step == "write":
            keys = [chosen.randrange(60) for _ in range(chosen.randrange(1, 50))]
            rows = [(k, chosen.choice(CITIES), chosen.choice((None, *range(40)))) for k in keys]
            table.write_arrow(arrow(rows))
            for k, *values in rows:
                model[k] = model.get(k, tuple(values)) if first else tuple(values)
        elif step == "delete" and not first:
            low = chosen.randrange(60)
            table.delete(f"k BETWEEN {low} AND {low + 7}")
            model = {k: row for k, row in model.items() if not low <= k <= low + 7}
        elif step in ("compact", "full"):
            table.compact(full=step == "full")
        if not first and kind != POSTPONED:
            assert held(table, **{"deletion-vectors.merge-on-read": "true"}) == model
        table.compact()
        assert held(table) == model
        assert held(table, where="city = 'a' AND v > 3") == {
            k: row for k, row in model.items() if row[0] == "a" and row[1] is not None and row[1] > 3
        }
        asked = chosen.randrange(60)
        assert held(table, where=f"k = {asked}") == {k: row for k, row in model.items() if k == asked}
    assert table.fsck("rows").findings == ()


def test_rows_lie_in_the_order_of_those_columns(tmp_path: Path) -> None:
    table = made(tmp_path, **{"target-file-size": "2 kb", "clustering.columns": "city,v"})
    table.write_arrow(arrow([(k, f"c{k * 7 % 50:02}", k % 13) for k in range(4000)]))
    files = table.files()
    assert len(files) > 2
    bounds = {}
    for file in files:
        rows = pq.read_table(file.path).select(["city", "v"]).to_pylist()
        pairs = [(row["city"], row["v"]) for row in rows]
        assert pairs == sorted(pairs)
        bounds[file.path.rsplit("/", 1)[-1]] = pairs[0], pairs[-1]
    ordered = sorted(bounds.values())
    assert all(one[1] <= two[0] for one, two in pairwise(ordered))
    told = bucketlake.open(tmp_path).table("d.t$files").to_arrow().to_pylist()
    for row in told:
        low, high = bounds[row["file_path"].rsplit("/", 1)[-1]]
        assert (row["min_key"], row["max_key"]) == (f"[{low[0]}, {low[1]}]", f"[{high[0]}, {high[1]}]")
    assert len(table.files(where="city = 'c07'")) < len(files)
    assert held(table, where="city = 'c07'") == {k: ("c07", k % 13) for k in range(4000) if k * 7 % 50 == 7}


def test_what_is_in_order_is_left_alone(tmp_path: Path) -> None:
    """Also where one file ends with the value that the next begins with."""
    table = made(tmp_path, **{"target-file-size": "1 kb"})
    table.write_arrow(arrow([(k, "abc"[k % 3], k) for k in range(4000)]))
    table.compact(full=True)
    files, snapshot = {file.path for file in table.files()}, table.latest_snapshot()
    assert len(files) > 4 and snapshot is not None
    for full in (False, True):
        table.compact(full=full)
    assert {file.path for file in table.files()} == files and table.refresh().latest_snapshot() == snapshot


def test_keys_find_their_buckets_beside_files_in_another_order(tmp_path: Path) -> None:
    """The bounds of those files are of other columns: no sample of the keys that the hash index must have."""
    table = made(tmp_path, bucket="-1")
    for start in (0, 20):
        table.write_arrow(arrow([(k, f"c{k % 7}", k) for k in range(start, start + 40)]))
        table.compact()
    table.delete("k < 10")
    assert sorted(held(table)) == list(range(10, 60)) and table.fsck("rows").findings == ()


def test_other_columns_are_taken_by_the_next_compaction(tmp_path: Path) -> None:
    table = made(tmp_path)
    for start in (0, 50):
        table.write_arrow(arrow([(k, f"c{k % 7}", -k) for k in range(start, start + 50)]))
    table = table.alter(SetOption("clustering.columns", "v"))
    table.write_arrow(arrow([(7, "x", 900)]))
    table.compact(full=True)
    rows = pq.read_table(table.files()[0].path).column("v").to_pylist()
    assert len(table.files()) == 1 and rows == sorted(rows)
    table = table.alter(RenameColumn("v", "w"), UpdateColumnType("w", BIGINT))
    table.write_arrow(pa.table({"k": pa.array([8]), "city": ["y"], "w": pa.array([1 << 40])}))
    table.compact(full=True)
    rows = pq.read_table(table.files()[0].path).column("w").to_pylist()
    assert len(rows) == 100 and rows == sorted(rows) and table.fsck("rows").findings == ()


def test_other_columns_are_no_option_of_a_call(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write_arrow(arrow([(1, "a", 1)]))
    for columns in ("v", "city,v"):
        with pytest.raises(InvalidError, match="no option of a call"):
            table.with_options({"clustering.columns": columns})
    assert held(table.with_options({"clustering.columns": "city"})) == {1: ("a", 1)}
    table = table.alter(SetOption("clustering.columns", "city,v"))
    table.write_arrow(arrow([(2, "b", 2)]))
    clear_cache()
    assert held(bucketlake.open(tmp_path).table("d.t")) == {1: ("a", 1), 2: ("b", 2)}


def test_older_rows_are_found_where_they_lie(tmp_path: Path) -> None:
    """Small groups alone are merged with new rows; the others keep their files and lose rows by deletion vectors."""
    table = made(tmp_path, **{"target-file-size": "2 kb"})
    table.write_arrow(arrow([(k, f"c{k:04}", k) for k in range(3000)]))
    before = {file.path for file in table.files()}
    table.write_arrow(arrow([(k, "zz", -k) for k in range(0, 3000, 10)]))
    stayed = before & {file.path for file in table.files()}
    assert len(stayed) > 2
    assert held(table) == {k: ("zz", -k) if k % 10 == 0 else (f"c{k:04}", k) for k in range(3000)}
    assert table.lookup({"k": [10, 11, 5000]}, columns=["v"]).column("v").to_pylist() == [-10, 11, None]
    told = table.to_arrow(**{"incremental-between": "2,4", "incremental-between-scan-mode": "diff"})
    assert sorted(told.column("k").to_pylist()) == list(range(0, 3000, 10))


def test_partitions_that_are_no_part_of_the_key(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("d")
    options = {**OPTIONS, "bucket": "-1"}
    table = catalog.create_table("d.t", SCHEMA, ["city"], ["k"], {**options, "clustering.columns": "v"})
    table.write_arrow(arrow([(k, "ab"[k % 2], k) for k in range(40)]))
    table.write_arrow(arrow([(k, "ab"[k % 2 == 0], -k) for k in range(10, 20)]))
    assert held(table) == {k: ("ab"[(k % 2) ^ (10 <= k < 20)], -k if 10 <= k < 20 else k) for k in range(40)}


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"clustering.columns": ""}, InvalidError, "clustering.columns"),
        ({"clustering.columns": "nope"}, InvalidError, "nope"),
        ({"deletion-vectors.enabled": "false"}, UnsupportedError, "deletion-vectors disabled"),
        ({"merge-engine": "partial-update"}, UnsupportedError, "merge engine: partial-update"),
        ({"sequence.field": "v"}, UnsupportedError, "sequence field"),
        ({"changelog-producer": "lookup"}, UnsupportedError, "changelog producer: lookup"),
        ({"record-level.expire-time": "1 d", "record-level.time-field": "v"}, UnsupportedError, "record level expire"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    tmp_path: Path, options: dict[str, str], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        made(tmp_path, **options)
    assert not (tmp_path / "d.db" / "t").exists()


def test_what_needs_the_order_of_keys_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write_arrow(arrow([(1, "a", 1)]))
    with pytest.raises(UnsupportedError, match="pk-clustering-override"):
        table.rescale(4)
    assert held(table) == {1: ("a", 1)}
