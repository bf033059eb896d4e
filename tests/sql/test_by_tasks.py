"""Random statements in sequences over every kind of table, done by Spark's tasks although the rows are few, against rows in
plain Python.

`BUCKETLAKE_HISTORIES` says how many a kind, `BUCKETLAKE_STEPS` how long, `BUCKETLAKE_SEED` where they start.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.profile import later, number
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
