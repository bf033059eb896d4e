"""What a batch of events decided (which events are rows, which are put aside) holds of what it writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import bucketlake
from bucketlake.cdc.sink import CdcSink, SyncDone
from bucketlake.spark.session import Lake
from bucketlake.spark.stream.checkpoint import Query

from .feeds import Feed, begun_by, debezium

_V = [["id", "int32"], ["v", "int32"]]
NEWS = [["n", "int32"]]


def _event(table: str, fields: list[Any] | None, op: str = "c", before: Any = None, **row: Any) -> Any:
    keys = {} if table == "log" else {"pkNames": ["id"]}
    return debezium(op, before, row or None, table, fields, **keys)


def _before() -> list[Any]:
    return [
        *(_event("a", _V, id=key, v=key) for key in (1, 2, 3)),
        _event("b", [["id", "int32"], ["name", "string"]], id=1, name="one"),
        *(_event("log", NEWS, n=n) for n in (1, 2)),
    ]


@pytest.fixture
def begun(classic: Lake, tmp_path: Path) -> tuple[Feed, Callable[[], Path]]:
    return begun_by(classic, tmp_path, _before())


def run(feed: Feed, folder: Path, frame: Any, number: int) -> SyncDone:
    """A batch by a query that has just been started."""
    catalog, told = bucketlake.open(str(folder / "warehouse")), []
    job = replace(feed.job, catalog=catalog, on_batch=told.append)
    CdcSink(job, Query("feed", str(folder / "checkpoint")))(frame, number)
    return told[-1]


def test_events_are_evaluated_once(begun: Any) -> None:
    """A source that gives other events each time that it is asked (chance, times, a file that is replaced) gives one
    batch those that it was asked for first: what is counted is what is written, and rows and letters are all events."""
    feed, copied = begun
    folder = copied()
    given = feed.frame([_event("log", NEWS, n="x" if n % 2 else n) for n in range(40)])
    broken = F.when(F.rand() < 0.5, F.lit("broken")).otherwise(F.col("value"))
    done = run(feed, folder, given.withColumn("value", broken), 1)
    catalog = bucketlake.open(str(folder / "warehouse"))
    rows = catalog.table("db.log").to_arrow().num_rows - 2
    letters = catalog.table("db.cdc_dead_letters").to_arrow()
    (told,) = [one for one in done.tables if one.table == "db.log"]
    assert (rows, letters.num_rows) == (told.rows["insert"], done.dead_letters)
    assert rows + letters.num_rows == done.events == 40
    assert len(set(letters.column("offset").to_pylist())) == letters.num_rows
