"""Compaction units as Spark tasks: each reads, merges and writes its bucket's files in a Python worker, no row passes
the JVM, and messages come back by one collect. Few bytes are compacted in the driver.

Spec: docs/spec/writing.md#compaction-tasks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession

from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.clean.expire import after_commit
from bucketlake.ops.clean.partitions import worth_compacting
from bucketlake.ops.compact import append_compact, maintain
from bucketlake.ops.compact.append_compact import AppendUnit, rewritten
from bucketlake.ops.compact.bucket import CompactUnit
from bucketlake.ops.compact.compaction import Compaction, compaction_job, parse_buckets, removal_before
from bucketlake.ops.compact.job import Job, run_job
from bucketlake.ops.compact.maintain import compacted
from bucketlake.ops.compact.postpone_compact import PendingPlan, PendingUnit, place_rows
from bucketlake.ops.compact.reindex import Action, Done, Reindexed, reindex, run_here
from bucketlake.ops.progress import OnProgress
from bucketlake.ops.rescale import rescale as rescaling
from bucketlake.ops.scan.partition_choice import PartitionSpecs, both, chosen_partitions, idle, parse_specs
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.memory import large_buffers
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.options.options import parse_duration
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.schema import BucketMode
from bucketlake.spark.cluster import (
    ensure_package,
    is_answer,
    messages_of,
    pack,
    parallelism,
    roomy,
    run_values,
    unpickled,
)
from bucketlake.spark.maintain import jobs
from bucketlake.spark.maintain.jobs import runner
from bucketlake.spark.maintain.orphans import run_each
from bucketlake.spark.read.partition_rows import partitions_where
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table

Unit = CompactUnit | AppendUnit


def run_units(spark: SparkSession) -> Callable[[Store, Sequence[CompactUnit]], list[CommitMessage]]:
    """How `ops.compact.maintain` compacts buckets of primary-key tables with this session."""

    def run(store: Store, units: Sequence[CompactUnit]) -> list[CommitMessage]:
        if sum(unit.size for unit in units) <= jobs.DRIVER_BYTES:
            return maintain.compact_here(store, units)
        return _in_tasks(spark, store, units)

    return run


def run_append(spark: SparkSession) -> Callable[[Store, Sequence[AppendUnit]], list[CommitMessage]]:
    """How `ops.compact.append_compact` rewrites files with this session."""

    def run(store: Store, units: Sequence[AppendUnit]) -> list[CommitMessage]:
        if sum(unit.size for unit in units) <= jobs.DRIVER_BYTES:
            return append_compact.merge_here(store, units)
        return _in_tasks(spark, store, units)

    return run


@dataclass(frozen=True)
class CompactStage:
    """What every task does with its units; travels to the tasks."""

    store: Store

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[CommitMessage | BucketlakeError]:
        """The messages of the units, or the error of one: then the task's own files are gone."""
        done: list[CommitMessage] = []
        try:
            with large_buffers():
                for unit in chain.from_iterable(unpickled(batches)):
                    done += _merged(self.store, unit)
        except BaseException as error:
            discard(self.store, done)
            if not is_answer(error):
                raise
            yield error
            return
        yield from done


def _merged(store: Store, unit: Unit) -> list[CommitMessage]:
    """What becomes of one unit of any kind."""
    return rewritten(store, unit) if isinstance(unit, AppendUnit) else compacted(store, unit)


def _in_tasks(spark: SparkSession, store: Store, units: Sequence[Unit]) -> list[CommitMessage]:
    """Run units as tasks; where one fails, the messages of the others are undone and its error is raised."""
    ensure_package(spark)
    return messages_of(store, run_values(spark, pack(units, parallelism(spark)), CompactStage(store)))


def after_write(
    spark: SparkSession, store: Store, snapshot: Snapshot, messages: Sequence[CommitMessage]
) -> Snapshot | None:
    """Compact what a write has made due, unless the table is `write-only`; the COMPACT snapshot, if any.

    Append tables: only with buckets; small files of others wait for CALL sys.compact. Errors as `ops.compact.maintain`.
    """
    if store.schema.primary_keys:
        return maintain.after_write(store, snapshot, messages, run_units(spark))
    return append_compact.after_write(store, messages, run_append(spark))


def after_no_change(spark: SparkSession, store: Store) -> Snapshot | None:
    """What follows a change of a primary-key table's rows that found none, see `ops.compact.maintain`."""
    return maintain.after_no_change(store, run_units(spark))


@dataclass(frozen=True, slots=True)
class Request:
    """What to compact. `partitions`: text as procedures take it, or specs; `where`: a condition over partition columns,
    not both. `full`: all into one run, else what the table's policy picks. `idle`: only partitions that no file came to
    for so long, such as "1 d". `buckets`: of these numbers only, such as "0-3,7". `deleted`: to be rid of rows that
    deletion vectors name, where a compaction keeps them."""

    partitions: PartitionSpecs | None = None
    where: str | Predicate | None = None
    full: bool = True
    idle: str | None = None
    buckets: str | None = None
    deleted: bool = False


def compact(
    spark: SparkSession, table: Table, request: Request, on_progress: OnProgress | None = None
) -> Snapshot | None:
    """Compact a table; the COMPACT snapshot, None where there was nothing to do. `write-only` does not matter.

    Errors: InvalidError (partitions, condition, buckets), UnsupportedError, ConflictError.
    """
    job, before = prepared(spark, table, request, on_progress)
    return after_commit(job.store, run_job(job, runner(spark)) or before, dedicated=True)


def prepared(
    spark: SparkSession, table: Table, request: Request, on_progress: OnProgress | None = None
) -> tuple[Job, Snapshot | None]:
    """The compaction that a request means, to be run; what comes before it is done: the snapshot of that, if any."""
    store = table.for_changing().store
    wanted = both(_filter(spark, store, request), worth_compacting(store))
    buckets = None
    if request.buckets is not None:
        fixed = store.schema.bucket_mode is BucketMode.FIXED
        buckets = parse_buckets(request.buckets, store.schema.bucket) if fixed else frozenset({0})
    job = compaction_job(store, Compaction(request.full, wanted, buckets, request.deleted), on_progress)
    return job, placed(spark, store, wanted, on_progress)


def placed(
    spark: SparkSession, store: Store, wanted: PartitionFilter | None, on_progress: OnProgress | None
) -> Snapshot | None:
    """What comes before a compaction: pending rows into their buckets, partitions into other numbers of buckets,
    deleted rows out of files whose rows may get other ids."""
    if store.schema.bucket_mode is BucketMode.POSTPONE:
        plan = PendingPlan(wanted, parallelism(spark), place_roomily)
        return run_job(Job.of(store, plan, "place pending rows", on_progress), runner(spark))
    if not store.schema.primary_keys:
        removal = removal_before(store, wanted, on_progress)
        return run_job(removal, runner(spark)) if removal else None
    return rescaling.rescale_due(store, wanted, runner(spark), on_progress)


def place_roomily(store: Store, unit: PendingUnit) -> list[CommitMessage]:
    """`place_rows` in a buffer as large as the task's machine allows."""
    return place_rows(roomy(store), unit)


def rescale(
    spark: SparkSession,
    table: Table,
    bucket_num: int | None,
    request: Request,
    on_progress: OnProgress | None = None,
) -> Snapshot | None:
    """Put partitions of a table into another number of buckets; the OVERWRITE snapshot, None where they hold nothing.
    Of the request `partitions` and `where` count.

    Errors: InvalidError (number, partitions, condition), UnsupportedError, ConflictError, CommitUnknownError.
    """
    store = table.for_changing().store
    wanted = rescaling.RescaleRequest(bucket_num, _filter(spark, store, request))
    return after_commit(store, rescaling.rescale(store, wanted, runner(spark), on_progress), dedicated=True)


def _filter(spark: SparkSession, store: Store, request: Request) -> PartitionFilter | None:
    given, where = request.partitions, request.where
    if given and where:
        raise InvalidError("partitions and where cannot be used together.")
    wanted = chosen_partitions(store, parse_specs(given) or None if isinstance(given, str) else given, None)
    if where:
        wanted = both(wanted, partitions_where(spark, store, where))
    if request.idle is not None:
        wanted = both(wanted, idle(store, store.latest_snapshot(), parse_duration(request.idle)))
    return wanted


def partition_filter(spark: SparkSession, store: Store, request: Request) -> PartitionFilter | None:
    """The partitions that a request is about, None for all. InvalidError for what names none."""
    return _filter(spark, store, request)


def rewrite_file_index(spark: SparkSession, table: Table, where: str | Predicate | None) -> Reindexed:
    """Build the file indexes that a table's options ask for, of all partitions or of those that a condition chooses."""
    store = table.for_changing().store
    return reindex(store, _filter(spark, store, Request(where=where)), run_indexing(spark))


def run_indexing(spark: SparkSession) -> Callable[[Action, Sequence[ManifestEntry]], list[Done]]:
    """How `ops.compact.reindex` indexes files with this session."""

    def run(action: Action, entries: Sequence[ManifestEntry]) -> list[Done]:
        small = sum(entry.file.file_size for entry in entries) <= jobs.DRIVER_BYTES
        return run_here(action, entries) if small else run_each(spark)(action, entries)

    return run
