"""Sort compaction and clustering by Spark's tasks: rows are read natively, go to the task of their range and are
written there; buckets, and parts that are sorted by themselves, are one task each. What is small the driver does.

    compact(spark, table, Clustering) -> Snapshot | None
    sorter(spark, job) -> Run           how `ops.cluster.job` puts units in order with this session

Spec: docs/spec/clustering.md#tasks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, UnsupportedError
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import pc
from bucketlake.ops.clean.expire import after_commit
from bucketlake.ops.cluster import keyed
from bucketlake.ops.cluster.incremental import is_incremental
from bucketlake.ops.cluster.job import (
    Job,
    Run,
    parts_of,
    sort_files,
    sort_here,
    sort_parts_here,
)
from bucketlake.ops.cluster.job import put_in_order as sort_files_in_order
from bucketlake.ops.cluster.order import SortOrder
from bucketlake.ops.cluster.plan import ClusterUnit
from bucketlake.ops.cluster.ranges import bounds_of
from bucketlake.ops.cluster.request import OrderRequest, clustering_job
from bucketlake.ops.progress import OnProgress
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.roll import TARGET_APPEND, Roller
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.table.made import MadeFiles, Writer, all_or_nothing, discard
from bucketlake.ops.table.messages import CommitMessage, Split, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.schema.schema import BucketMode
from bucketlake.spark.arrow_rows import spark_batch
from bucketlake.spark.cluster import (
    ensure_package,
    is_answer,
    made_of,
    messages_of,
    pack,
    parallelism,
    roomy,
    run_values,
    runs_here,
    unpickled,
)
from bucketlake.spark.maintain.compaction import Request, partition_filter
from bucketlake.spark.maintain.jobs import DRIVER_BYTES
from bucketlake.spark.read import reader
from bucketlake.spark.types import MICROSECONDS, spark_schema
from bucketlake.spark.write.keyed_ranges import in_ranges, is_large
from bucketlake.spark.write.layout import Layout, layout_of
from bucketlake.spark.write.local_ranges import Ranges, of_splits, piece_count, write_ranges
from bucketlake.spark.write.ordered import (
    OrderedWrite,
    magnification,
    range_count,
    ranged,
    sample,
    written,
)
from bucketlake.types.model import DataField, DataType, Root, arrow_type
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table

MOST_DRAWN = 1 << 20  # rows of a sample


@dataclass(frozen=True, slots=True)
class Clustering:
    """A compaction that puts rows in order. `order`: as asked for; `full`: of tables that are clustered incrementally,
    all files (None: what is due); `request`: in which partitions."""

    order: OrderRequest
    full: bool | None
    request: Request
    progress: OnProgress | None = None

    def is_asked(self, table: Table) -> bool:
        """Whether this is what a compaction of the table is."""
        return self.order.is_asked or bool(self.order.columns) or is_incremental(table.store)


def compact(spark: SparkSession, table: Table, asked: Clustering) -> Snapshot | None:
    """Put the rows of an append table in order; the last snapshot, None where there was nothing to do.

    Errors: InvalidError (columns, strategy, partitions), UnsupportedError (types, bucket mode), ConflictError.
    """
    store = table.for_changing().store
    if asked.request.idle is not None and asked.order.is_asked:
        raise InvalidError("sort compact do not support 'partition_idle_time'.")
    if asked.request.buckets is not None:
        raise InvalidError("Specifying buckets is not supported for sort compact.", buckets=asked.request.buckets)
    wanted = partition_filter(spark, store, asked.request)
    job = clustering_job(store, asked.order, asked.full, wanted, asked.progress)
    if job is None:
        return None
    magnification(store)
    return after_commit(store, put_in_order(spark, store, job), dedicated=True)


def put_in_order(spark: SparkSession, store: Store, job: Job) -> Snapshot | None:
    """Run a job with this session; the last snapshot, None where there was nothing to do."""
    if store.schema.primary_keys:
        return keyed.put_in_order(store, job, partition_sorter(spark))
    return sort_files_in_order(store, job, sorter(spark, job))


def sorter(spark: SparkSession, job: Job) -> Run:
    """How units of this job are put in order with this session."""

    def run(store: Store, units: Sequence[ClusterUnit], order: SortOrder) -> list[CommitMessage]:
        magnification(store)
        store = tracked(store)
        small = sum(unit.size for unit in units) <= DRIVER_BYTES
        if small:
            return (sort_parts_here if job.local else sort_here)(store, units, order)
        apart = job.local or store.schema.bucket_mode is not BucketMode.UNAWARE
        if apart or not _is_held(store):
            return _apart(spark, store, units, order, job.local)
        return _in_ranges(spark, store, units, order)

    return run


def _is_held(store: Store) -> bool:
    """Whether Spark has a type for every column."""
    try:
        spark_schema(store.schema.fields)
    except UnsupportedError:
        return False
    return True


# ---------------------------------------------------------------------------------------------- ranges


def _in_ranges(
    spark: SparkSession, store: Store, units: Sequence[ClusterUnit], order: SortOrder
) -> list[CommitMessage]:
    """The rows of all units sorted together, partition by partition."""
    ensure_package(spark)
    tasks = parallelism(spark)
    splits = [unit.split(store, part) for unit in units for part in parts_of(store, unit, tasks)]
    frame, layout, fields = _rows(spark, store, units, splits, order)
    target = store.options.get("target-file-size") or TARGET_APPEND
    count = range_count(sum(unit.size for unit in units), target, tasks)
    wanted = min(max(count, tasks) * magnification(store), MOST_DRAWN)
    rows = sum(unit.row_count for unit in units)
    drawn = sample(spark, store, frame, layout, min(1.0, wanted / max(rows, 1)))
    template = WriteTask(new_commit_user(store))
    if runs_here(spark) and fields == layout_of(store, order).fields:
        bounds = bounds_of(drawn.samples, piece_count(store, count, drawn.weight / max(drawn.rows, 1) * rows))
        messages = write_ranges(spark, store, of_splits(spark, store, splits), Ranges(layout, bounds, count), template)
    else:
        bounds = bounds_of(drawn.samples, count)
        messages = written(store, ranged(frame, layout, bounds), _CarriedWrite(store, template, fields))
    try:
        return _gathered(store, units, messages)
    except BaseException:
        discard(store, messages)
        raise


def _gathered(store: Store, units: Sequence[ClusterUnit], messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """What to commit for each unit, once it is certain that all rows are there."""
    files: dict[tuple[bytes, int], list[DataFile]] = {unit.place: [] for unit in units}
    strangers = [message for message in messages if (message.partition, message.bucket) not in files]
    for message in messages:
        files.setdefault((message.partition, message.bucket), []).extend(message.new_files)
    for unit in units:
        found, known = sum(file.row_count for file in files[unit.place]), unit.live_rows
        if strangers or (known is not None and known != found):
            raise CorruptError(
                "rows that were put in order are not those of their files",
                path=store.paths.bucket_dir(*unit.place),
                rows=known,
                found=found,
                remedy="nothing was changed; read the files and compare them with their manifests",
            )
    return [unit.message(store, files[unit.place]) for unit in units]


def _rows(
    spark: SparkSession, store: Store, units: Sequence[ClusterUnit], splits: Sequence[Split], order: SortOrder
) -> tuple[DataFrame, Layout, tuple[DataField, ...]]:
    """The live rows of units, which are those of the splits, how they are to lie, and the fields as which they
    travel."""
    own = tuple(store.schema.fields)
    fields = tuple(replace(item, type=_carrier(item.type)) for item in own)
    layout = layout_of(store, order)
    if fields == own:
        entries = [
            ManifestEntry(FileKind.ADD, *unit.place, unit.total_buckets, file) for unit in units for file in unit.files
        ]
        return reader.rows_of(spark, store, Plan(None, tuple(entries), tuple(splits))), layout, fields
    frame = made_of(spark, pack(splits, parallelism(spark) * 4), _Carrying(store, fields), spark_schema(fields))
    names = {item.name: item for item in fields}
    carried = replace(order, fields=tuple(names[item.name] for item in order.fields))
    return frame, Layout(fields, tuple(names[item.name] for item in layout.groups), carried), fields


def _carrier(t: DataType) -> DataType:
    """The type as which values travel: Spark's timestamps have microseconds, finer ones go as numbers."""
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and (t.precision or 0) > MICROSECONDS:
        return DataType(Root.BIGINT, nullable=t.nullable)
    if t.key is None and t.element is None and not t.fields:
        return t
    return replace(
        t,
        key=None if t.key is None else _carrier(t.key),
        element=None if t.element is None else _carrier(t.element),
        fields=tuple(replace(item, type=_carrier(item.type)) for item in t.fields),
    )


@dataclass(frozen=True)
class _Carrying:
    """The task that reads splits and gives their rows in the fields as which they travel."""

    store: Store
    fields: tuple[DataField, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for splits in unpickled(batches):
            for split in splits:
                yield from self._of(split)

    def _of(self, split: Split) -> Iterator[pa.RecordBatch]:
        for batch in read_split(self.store, split):
            yield spark_batch(_as_fields(batch, self.store.schema.fields, self.fields), self.fields)


@dataclass(frozen=True)
class _CarriedWrite(OrderedWrite):
    """An ordered write of rows that travelled as these fields."""

    fields: tuple[DataField, ...]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with times in place of numbers."""
        return _as_fields(super().rows(batch), self.fields, self.store.schema.fields)


def _as_fields(batch: pa.RecordBatch, given: Sequence[DataField], wanted: Sequence[DataField]) -> pa.RecordBatch:
    """The rows with numbers in place of times, or times in place of these numbers."""
    columns = [
        column if before.type == after.type else pc.cast(column, arrow_type(after.type), safe=False)
        for column, before, after in zip(batch.columns, given, wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


# ---------------------------------------------------------------------------------------------- apart


@dataclass(frozen=True, slots=True)
class _Part:
    """Files of one unit that are sorted by themselves; travels to a task."""

    unit: ClusterUnit
    number: int
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True)
class _Sorting:
    """The task: parts in, their numbers and new files out, or an error: then its own files are gone."""

    store: Store
    order: SortOrder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[_Part, list[DataFile]] | BucketlakeError]:
        done: list[tuple[_Part, list[DataFile]]] = []
        writers: list[Writer] = []
        try:
            with all_or_nothing(writers):
                for part in chain.from_iterable(unpickled(batches)):
                    roller = Roller(self.store, part.unit.partition, part.unit.bucket)
                    writers.append(roller)
                    files = sort_files(roomy(self.store), part.unit, part.files, self.order, roller)
                    writers[-1] = _made(self.store, part.unit, files)
                    done.append((part, files))
        except BucketlakeError as error:
            if not is_answer(error):
                raise
            yield error
            return
        yield from done


def _made(store: Store, unit: ClusterUnit, files: Sequence[DataFile]) -> MadeFiles:
    made = MadeFiles(store)
    made.add(unit.partition, unit.bucket, files)
    return made


def _apart(
    spark: SparkSession, store: Store, units: Sequence[ClusterUnit], order: SortOrder, local: bool
) -> list[CommitMessage]:
    """Units, or with `local` parts of them, each sorted by a task of its own."""
    ensure_package(spark)
    tasks = parallelism(spark)
    parts = [
        _Part(unit, number, part)
        for unit in units
        for number, part in enumerate(parts_of(store, unit, tasks) if local else [unit.files])
    ]
    results = run_values(spark, pack(parts, tasks * 4), _Sorting(store, order))
    done = [result for result in results if not isinstance(result, BucketlakeError)]
    made: dict[tuple[bytes, int], list[DataFile]] = {unit.place: [] for unit in units}
    for part, files in sorted(done, key=lambda item: item[0].number):
        made[part.unit.place] += files
    with all_or_nothing([_made(store, unit, made[unit.place]) for unit in units]):
        for result in results:
            if isinstance(result, BucketlakeError):
                raise result
        return [unit.message(store, made[unit.place]) for unit in units]


# ---------------------------------------------------------------------------------------------- partitions of keys


@dataclass(frozen=True)
class _Partitions:
    """The task: partitions of a primary-key table in, their messages out, or an error: then its own files are gone."""

    store: Store
    order: SortOrder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[CommitMessage | BucketlakeError]:
        done: list[CommitMessage] = []
        try:
            for unit in chain.from_iterable(unpickled(batches)):
                done += keyed.sort_partition(roomy(self.store), unit, self.order)
        except BaseException as error:
            discard(self.store, done)
            if not is_answer(error):
                raise
            yield error
            return
        yield from done


def _travels(store: Store) -> bool:
    """Whether rows can go through Spark as they are."""
    return _is_held(store) and all(_carrier(item.type) == item.type for item in store.schema.fields)


def _whole(
    spark: SparkSession, store: Store, units: Sequence[keyed.KeyedUnit], order: SortOrder
) -> list[CommitMessage]:
    """Partitions, each by one task."""
    if not units:
        return []
    ensure_package(spark)
    return messages_of(store, run_values(spark, pack(units, parallelism(spark) * 4), _Partitions(store, order)))


def partition_sorter(spark: SparkSession) -> keyed.KeyedRun:
    """How `ops.cluster.keyed` puts partitions in order with this session: large ones by ranges, others by one task."""

    def run(store: Store, units: Sequence[keyed.KeyedUnit], order: SortOrder) -> list[CommitMessage]:
        if sum(unit.size for unit in units) <= DRIVER_BYTES:
            return keyed.sort_here(store, units, order)
        messages: list[CommitMessage] = []
        try:
            rest = []
            for unit in units:
                done = in_ranges(spark, store, unit, order) if is_large(unit) and _travels(store) else None
                messages += done or []
                rest += [unit] if done is None else []
            return messages + _whole(spark, store, rest, order)
        except BaseException:
            discard(store, messages)
            raise

    return run
