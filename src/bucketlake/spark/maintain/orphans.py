"""Cleaning orphan files by Spark tasks: folders are walked and files removed there, the driver decides.

Spec: docs/sql/procedures.md#remove_orphan_files
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from bucketlake.errors import BucketlakeError
from bucketlake.ops.clean.orphans import OrphanFiles, Run, oldest_kept, remove_orphans
from bucketlake.ops.progress import OnProgress
from bucketlake.ops.scan.select import epoch_millis
from bucketlake.spark.cluster import ensure_package, is_answer, parallelism, run_values, unpickled
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table

WAVES = 4  # groups of units for each task that runs at once: folders are not alike


@dataclass(frozen=True)
class Each:
    """What every task does: an action for each of its units. Travels to the tasks."""

    action: Callable[[Any], Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        """The results, or the error of one."""
        try:
            for unit in chain.from_iterable(unpickled(batches)):
                yield self.action(unit)
        except BucketlakeError as error:
            if not is_answer(error):
                raise
            yield error


def run_each(spark: SparkSession) -> Run:
    """How `ops.clean.orphans` runs its tasks with this session."""

    def run(action: Callable[[Any], Any], units: Sequence[Any]) -> list[Any]:
        if not units:
            return []
        ensure_package(spark)
        groups = min(len(units), WAVES * parallelism(spark))
        results = run_values(spark, [list(units[at::groups]) for at in range(groups)], Each(action))
        for result in results:
            if isinstance(result, BucketlakeError):
                raise result
        return results

    return run


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What `Table.remove_orphan_files` takes. `threads`: that delete in each task."""

    older_than: str | datetime | None = None
    dry_run: bool = False
    threads: int | None = None
    on_progress: OnProgress | None = None


def remove_orphan_files(spark: SparkSession, table: Table, cleaning: Cleaning) -> OrphanFiles:
    """As `Table.remove_orphan_files`, by tasks of the session."""
    store, run = table.for_writing().store, run_each(spark)
    before = oldest_kept(store, epoch_millis(cleaning.older_than))
    return remove_orphans(store, before, cleaning.dry_run, cleaning.threads, run, cleaning.on_progress)
