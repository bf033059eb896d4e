"""Random statements in sequences over every kind of table, done by Spark's tasks although the rows are few, against rows in
plain Python; and so where first attempts of tasks die at any place.

`BUCKETLAKE_HISTORIES` says how many a kind, `BUCKETLAKE_STEPS` how long, `BUCKETLAKE_SEED` where they start.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql.classic.dataframe import DataFrame
from tests.profile import first, later, number
from tests.queries.run import QUICK, settings
from tests.statements.history import Kind, played

from bucketlake.spark.read import filtered
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

HISTORIES = number("BUCKETLAKE_HISTORIES", 1, 100)
SEED = number("BUCKETLAKE_SEED", 0, 0)
STEPS = number("BUCKETLAKE_STEPS", 4, 10)
THRESHOLDS = (
    *("SMALL_ROWS", "SMALL_BYTES", "DRIVER_ROWS", "DRIVER_BYTES", "FEW_ROWS", "FEW_BYTES", "FEW_FILES"),
    *("FEW_FILES_OF_PARTITIONS", "FEW_RUNS", "FEW_KEYS", "LARGE_MERGE_ROWS", "LOOKUP_ROWS"),
)

VECTORS = {"deletion-vectors.enabled": "true"}
TRACKED = {"row-tracking.enabled": "true"}
CLUSTERED = {**VECTORS, "pk-clustering-override": "true", "clustering.columns": "v"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true", "compaction.min.file-num": "2"}
BOTH = ("k", "p")
FIXED = {"bucket": "2"}
KINDS = {
    "append vectors": Kind(VECTORS),
    "keyed vectors": Kind({**FIXED, **VECTORS}, BOTH),
    "append": Kind({}),
    "bucketed": Kind({**FIXED, "bucket-key": "k"}),
    "tracked": Kind(TRACKED),
    "tracked vectors": Kind({**TRACKED, **VECTORS}),
    "evolving": Kind(EVOLVING, without=("delete",)),
    "evolving vectors": Kind({**EVOLVING, **VECTORS}),
    "keyed": Kind(FIXED, BOTH),
    "lookup": Kind({**FIXED, "changelog-producer": "lookup"}, BOTH),
    "input": Kind({**FIXED, "changelog-producer": "input"}, BOTH),
    "full-compaction": Kind({**FIXED, "changelog-producer": "full-compaction"}, BOTH),
    "clustered": Kind({**FIXED, **CLUSTERED}, BOTH),
    "indexed": Kind({**FIXED, **VECTORS, "pk-btree.index.columns": "v"}, BOTH),
    "dynamic clustered": Kind({"bucket": "-1", **CLUSTERED}, BOTH),
    "dynamic": Kind({"bucket": "-1"}, BOTH),
    "dynamic vectors": Kind({"bucket": "-1", **VECTORS}, BOTH),
    "cross-partition": Kind({"bucket": "-1"}, ("k",), (True,)),
    "postpone": Kind({"bucket": "-2"}, BOTH),
    "partial": Kind({**FIXED, "merge-engine": "partial-update"}, BOTH),
    "partial removes": Kind(
        {**FIXED, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, BOTH
    ),
    "aggregation": Kind(
        {**FIXED, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        BOTH,
        without=("update", "merge"),
    ),
    "first-row": Kind({**FIXED, "merge-engine": "first-row"}, BOTH, without=("update", "merge")),
}


@pytest.fixture
def tasks(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A session in which nothing is small enough for the driver."""
    for name, module in list(sys.modules.items()):
        if name.startswith("bucketlake."):
            for threshold in THRESHOLDS:
                if hasattr(module, threshold):
                    monkeypatch.setattr(module, threshold, 0)
    filtered.forget()
    with settings(classic.spark, {**QUICK, "spark.sql.ansi.enabled": "true", "spark.sql.shuffle.partitions": "2"}):
        yield classic


@pytest.mark.parametrize("kind", later(list(KINDS), 2))
def test_statements_by_tasks(tasks: Lake, kind: str) -> None:
    for seed in range(SEED, SEED + HISTORIES):
        played(tasks, KINDS[kind], f"{kind} {seed}", STEPS)
        tasks.sql("DROP TABLE db.t")


# ---- tasks that die

_CHANGES = ("os.rename", "os.link", "os.remove", "os.mkdir")
Action = Callable[[Iterator[Any]], Iterator[Any]]


def dying(action: Action, folder: str, marks: str, seed: str) -> Action:
    """A task's work, of which every second first attempt, and those of the work numbered 0, die and leave a mark: before
    one of the first answers or changes of files, or at the end."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        chance = Random(f"{seed} {context.partitionId()}")
        if context.attemptNumber() or (chance.random() < 0.5 and not seed.endswith(" 0")):
            yield from action(batches)
            return
        left = [chance.randrange(4)]

        def die() -> None:
            os.mkdir(f"{marks}/{os.getpid()}")
            os.kill(os.getpid(), signal.SIGKILL)

        def step() -> None:
            left[0] -= 1
            if left[0] == -1:
                die()

        def look(event: str, arguments: tuple[Any, ...]) -> None:
            writes = event == "open" and int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if (writes or event in _CHANGES) and str(arguments[0]).startswith(folder):
                step()

        if chance.random() < 0.5:
            sys.addaudithook(look)
        for answer in action(batches):
            step()
            yield answer
        die()

    return task


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(list(KINDS), 6))
def test_statements_by_tasks_that_die(tasks: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """What an attempt leaves that died is never read, and nothing that the next one needs is gone."""
    mapped, folder, marks = DataFrame.mapInArrow, tasks.catalog.warehouse, tmp_path / "marks"
    marks.mkdir()
    for seed in range(SEED, SEED + HISTORIES):
        numbers = count()

        def wrapped(self: Any, action: Action, *how: Any, **more: Any) -> Any:
            return mapped(self, dying(action, folder, str(marks), f"{seed} {next(numbers)}"), *how, **more)

        with monkeypatch.context() as during:
            during.setattr(DataFrame, "mapInArrow", wrapped)
            played(tasks, KINDS[kind], f"dying {kind} {seed}", STEPS)
        tasks.sql("DROP TABLE db.t")
    assert list(marks.iterdir())
