"""Tables that were postpone tables once, and are others by ALTER: what waited for its bucket in earlier snapshots is
read, and told to streams, as it was then."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bucketlake.errors import InvalidError
from bucketlake.ops.stream.limits import Limits
from bucketlake.schema.change import SetOption
from bucketlake.table import Table

from .streams import SCHEMA, Reader, make

POSTPONE = {
    "bucket": "-2",
    "postpone.default-bucket-num": "2",
    "postpone.batch-write-fixed-bucket": "false",
    "postpone.merge-on-read": "true",
}


def write(table: Table, first: int, value: int = 0) -> None:
    rows = {"k": list(range(first, first + 5)), "v": [value] * 5}
    table.write_arrow(pa.table(rows, schema=SCHEMA), write_only=True)


def left(table: Table) -> Table:
    """The table as one with a fixed number of buckets."""
    table.compact()
    return table.alter(SetOption("bucket", "2"))


def keys(reader: Reader) -> list[int]:
    return sorted(key for _, key, _ in reader.told)


@pytest.mark.parametrize("begins", ["before", "with all rows of it"])
def test_a_stream_behind_is_told_what_waited(tmp_path: Path, begins: str) -> None:
    table = make(tmp_path, True, POSTPONE)
    write(table, 0)
    table.compact()
    reader = Reader(table, scan_mode="from-snapshot", scan_snapshot_id=1)
    reader.step(Limits(max_files=1))
    write(table, 10)
    write(table, 20)
    waited = table.latest_snapshot()
    assert waited is not None
    table = left(table)
    if begins == "before":
        reader.table = table
    else:
        reader = Reader(table, scan_mode="from-snapshot-full", scan_snapshot_id=waited.id)
    reader.read_all()
    assert keys(reader) == [*range(5), *range(10, 15), *range(20, 25)]


def test_an_overwrite_is_told_with_what_waited(tmp_path: Path) -> None:
    table = make(tmp_path, True, {**POSTPONE, "streaming-read-overwrite": "true"})
    write(table, 0)
    reader = Reader(table)
    reader.read_all()
    table.write_arrow(pa.table({"k": [3], "v": [1]}, schema=SCHEMA), mode="overwrite")
    reader.table = left(table)
    reader.read_all()
    assert reader.state == {3: 1}


@pytest.mark.parametrize("read", [1, 2, 3])
def test_a_stream_inside_of_a_snapshot_goes_on_there_where_buckets_are_postponed_since(
    tmp_path: Path, read: int
) -> None:
    table = make(tmp_path, True, {"bucket": "2", "num-sorted-run.compaction-trigger": "50"})
    for first in (0, 10, 20):
        write(table, first)
    reader = Reader(table)
    for _ in range(read):
        reader.step(Limits(max_files=1))
    reader.table = table.alter(SetOption("bucket", "-2"))
    reader.read_all()
    assert keys(reader) == [*range(5), *range(10, 15), *range(20, 25)]


def test_time_travel_sees_what_waited_then(tmp_path: Path) -> None:
    table = make(tmp_path, True, POSTPONE)
    write(table, 0)
    write(table, 2, value=1)
    then = table.to_arrow().sort_by("k")
    table = left(table)
    write(table, 50)
    assert table.to_arrow(scan_snapshot_id=2).sort_by("k") == then
    assert table.to_arrow().num_rows == 12


@pytest.mark.parametrize("as_latest", [False, True])
def test_no_rollback_to_rows_that_would_never_be_seen(tmp_path: Path, as_latest: bool) -> None:
    table = make(tmp_path, True, POSTPONE)
    write(table, 0)
    table = left(table)
    write(table, 10)
    back = table.rollback_to_as_latest if as_latest else table.rollback_to
    with pytest.raises(InvalidError, match="while rows are pending"):
        back(1)
    assert table.to_arrow().num_rows == 10
    table = table.alter(SetOption("bucket", "-2"))
    (table.rollback_to_as_latest if as_latest else table.rollback_to)(1)
    table = left(table)
    assert sorted(table.to_arrow()["k"].to_pylist()) == [*range(5)]
