"""Compaction of several tables: one after the other, or units of all of them by the same Spark jobs.

Spec: docs/spec/maintenance.md#tables
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.clean.expire import after_commit
from bucketlake.ops.cluster.incremental import is_incremental
from bucketlake.ops.compact.job import Job, run_jobs
from bucketlake.spark.maintain.compaction import Request, prepared
from bucketlake.spark.maintain.jobs import runner

if TYPE_CHECKING:
    from bucketlake.spark.table import LakeTable


def compact_tables(
    spark: SparkSession,
    names: Sequence[str],
    opened: Callable[[str], LakeTable],
    combined: bool = False,
    full: bool | None = None,
    idle: str | None = None,
) -> dict[str, Exception]:
    """Compact tables as `LakeTable.compact` does; what went wrong, by name: one that fails stops no other. `combined`:
    their units together, largest first, each table with commits of its own; those that are put in order by themselves.
    Interrupts are raised, with what is finished committed."""
    failed: dict[str, Exception] = {}
    jobs: dict[str, tuple[Job, Snapshot | None]] = {}
    for name in names:
        try:
            found = opened(name)
            if combined and not is_incremental(found.table.store):
                jobs[name] = prepared(spark, found.table, Request(full=full is not False, idle=idle))
            else:
                found.compact(full=full, idle=idle)
        except Exception as error:
            failed[name] = error
    run_jobs([job for job, _ in jobs.values()], runner(spark))
    for name, (job, placed) in jobs.items():
        try:
            after_commit(job.store, job.finish() or placed, dedicated=True)
        except Exception as error:
            failed[name] = error
    return failed
