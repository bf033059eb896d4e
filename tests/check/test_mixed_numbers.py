"""Partitions whose files count different numbers of buckets, as Apache Paimon leaves them where `bucket` was altered and
rows were inserted into buckets that had no file yet: a key lies in two, and both engines show it twice."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.check.forged import live, path_of, settle

import bucketlake
from bucketlake.errors import InvalidError
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import SetOption
from bucketlake.table import Table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
ENGINES = {
    "sum": ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, 36),
    "newest": ({}, 7),
    "oldest": ({"merge-engine": "first-row"}, 0),
    "vectors": ({"deletion-vectors.enabled": "true"}, 7),
}


def put(table: Table, low: int, high: int, value: int) -> None:
    rows = {"k": list(range(low, high)), "v": [value] * (high - low)}
    table.write_arrow(pa.table(rows, schema=SCHEMA))


def read(table: Table) -> list[tuple[int, int]]:
    clear_cache()
    return sorted((row["k"], row["v"]) for row in table.refresh().to_arrow().to_pylist())


def mixed(folder: Path, options: dict[str, str]) -> Table:
    """Keys 0 to 9 written many times into two buckets, then 0 to 4 once more into some of five."""
    catalog = bucketlake.open(folder)
    old = catalog.create_table("t", SCHEMA, primary_keys=["k"], options={"bucket": "2", **options})
    new = catalog.create_table("u", SCHEMA, primary_keys=["k"], options={"bucket": "5", **options})
    for value in (*range(8), 1):  # sequence numbers of the old buckets are the higher ones
        put(old, 0, 10, value)
    put(new, 0, 5, 7)
    for table in (old, new):
        table.compact()
    moved = [entry for entry in live(new) if entry.bucket > 1]
    for entry in moved:
        path_of(old, entry).parent.mkdir(exist_ok=True)
        shutil.copy(path_of(new, entry), path_of(old, entry))
    settle(old, [*live(old), *moved])
    return old.alter(SetOption("bucket", "5"))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_repair_merges_what_a_rescale_refuses(tmp_path: Path, engine: str) -> None:
    options, merged = ENGINES[engine]
    table = mixed(tmp_path, options)
    before = read(table)
    keys = [key for key, _ in before]
    twice = {key for key in keys if keys.count(key) == 2}
    assert twice and len(keys) == 10 + len(twice)
    files = {file.path for file in table.files()}
    with pytest.raises(InvalidError, match=r"different numbers of buckets: 2, 5.*repair_table"):
        table.rescale(5)
    assert {file.path for file in table.refresh().files()} == files
    table.repair(table.fsck(), dry_run=False)
    once = {key: value for key, value in before if key not in twice}
    assert read(table) == sorted({**once, **dict.fromkeys(twice, merged)}.items())
    assert not table.refresh().fsck("rows").errors
    put(table.refresh(), 0, 10, 1)
    table.refresh().rescale(3)
    assert len(read(table)) == 10


def test_a_number_where_buckets_follow_the_keys(tmp_path: Path) -> None:
    """Files of a dynamic table have none; one that says a number keeps writers from its partition."""
    table = bucketlake.open(tmp_path).create_table("t", SCHEMA, primary_keys=["k"], options={"bucket": "-1"})
    put(table, 0, 5, 1)
    found = read(table)
    settle(table, [replace(entry, total_buckets=4) for entry in live(table)])
    with pytest.raises(InvalidError, match="previous bucket num is 4"):
        put(table.refresh(), 3, 8, 2)
    report = table.refresh().fsck()
    assert [one.code for one in report.findings] == ["bucket-number"]
    table.refresh().repair(report, dry_run=False)
    assert read(table) == found
    put(table.refresh(), 3, 8, 2)
    assert not table.refresh().fsck("rows").findings
