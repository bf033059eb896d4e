"""Compaction of several tables: one after the other, or units of all of them by the same Spark jobs.

Spec: docs/spec/maintenance.md#tables
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.clean.expire import after_commit
from bucketlake.ops.compact.job import Job, run_jobs
from bucketlake.ops.progress import OnProgress
from bucketlake.spark.maintain.compaction import Request, compact, prepared
from bucketlake.spark.maintain.jobs import runner

if TYPE_CHECKING:
    from bucketlake.table import Table


def compact_tables(
    spark: SparkSession,
    names: Sequence[str],
    opened: Callable[[str], Table],
    request: Request,
    combined: bool = False,
    on_progress: OnProgress | None = None,
) -> dict[str, Exception]:
    """Compact tables; what went wrong, by name: one that fails stops no other. `combined`: their units together,
    largest first, each table with commits of its own. Interrupts are raised, with what is finished committed."""
    failed: dict[str, Exception] = {}
    jobs: dict[str, tuple[Job, Snapshot | None]] = {}
    for name in names:
        try:
            if combined:
                jobs[name] = prepared(spark, opened(name), request, on_progress)
            else:
                compact(spark, opened(name), request, on_progress)
        except Exception as error:
            failed[name] = error
    run_jobs([job for job, _ in jobs.values()], runner(spark))
    for name, (job, placed) in jobs.items():
        try:
            after_commit(job.store, job.finish() or placed, dedicated=True)
        except Exception as error:
            failed[name] = error
    return failed
