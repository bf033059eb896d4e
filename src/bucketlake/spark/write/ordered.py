"""Rows of a DataFrame in order: keys are sampled, rows go to the task of their range, which sorts and writes them.

    write_in_order(spark, store, frame, template, order) -> messages     a write that clusters
    ranged(frame, layout, bounds) -> DataFrame                           rows by range, each in order

Only keys travel to Python for this, and whole rows once, to be written.

Spec: docs/spec/clustering.md#ranges
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.ops.cluster.order import SortOrder
from bucketlake.ops.cluster.ranges import Bounds, Sample, bounds_of, mixed
from bucketlake.ops.rebase.numbers import numbered
from bucketlake.ops.rows.roll import TARGET_APPEND
from bucketlake.ops.scan.scan import row_width
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.write import write_batches
from bucketlake.spark.cluster import ensure_package, is_answer, messages_of, parallelism, roomy, run_tasks, runs_here
from bucketlake.spark.types import quoted
from bucketlake.spark.write.counting import evaluated_once
from bucketlake.spark.write.layout import Layout, layout_of
from bucketlake.spark.write.local_ranges import Ranges, of_frame, of_shares, piece_count, write_ranges
from bucketlake.spark.write.narrow import narrowed, unmeasured_batches, widened
from bucketlake.spark.write.parquet_rows import shares_of
from bucketlake.spark.write.placement import GIVEN, Given
from bucketlake.types.model import Root
from bucketlake.values import dataclass

LEAST_RANGE = 32 << 20  # bytes below which a range is not worth a task
MOST_RANGE = 240 << 20  # as much as Spark sorts without spilling in a task, and as fits into a file of the usual size
MOST_OF_ROWS = 1 << 30  # the same where rows are weighed, which lie in no files yet
MOST_BUCKET = 1 << 30  # where a range becomes a bucket
LEAST_MAGNIFICATION = 20
_PLACE = "__bucketlake_place"
_WEIGHT = "__bucketlake_weight"
_FIXED = 8  # bytes that a value of fixed width counts
_TEXTS = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)
_SEED = 7


def magnification(store: Store) -> int:
    """`sort-compaction.local-sample.magnification`; InvalidError where that is too small to tell ranges apart."""
    key = "sort-compaction.local-sample.magnification"
    found = int(store.options.get(key))
    if found < LEAST_MAGNIFICATION:
        raise InvalidError(
            f"the config '{key}={found}' should not be set too small,greater than or equal to {LEAST_MAGNIFICATION} "
            "is needed."
        )
    return found


def range_count(size: int, target: int, tasks: int, most: int = MOST_RANGE) -> int:
    """Into how many ranges rows of `size` bytes go: as many as there are tasks, if none becomes tiny; more where tasks
    would sort more than `most` bytes each."""
    if size <= max(target, LEAST_RANGE) // 2 or size <= LEAST_RANGE:
        return 1
    few = min(tasks, -(-size // LEAST_RANGE))
    many = -(-size // most)
    return max(few, -(-many // tasks) * tasks if many > few else few)


# ---------------------------------------------------------------------------------------------- sampling


@dataclass(frozen=True)
class _Sampling:
    """The task of a sample: at most `most` rows of its share, and how many it saw. Rows are drawn by numbers that look
    like chance and are the same if the task is run again."""

    layout: Layout
    most: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, float, bytes]]:
        kept: list[tuple[np.ndarray, pa.RecordBatch]] = []
        seen, weight, waiting = 0, 0.0, 0
        for batch in batches:
            weights = batch.column(batch.num_columns - 1).cast(pa.float64()).to_numpy(zero_copy_only=False)
            groups, keys = self.layout.keys(batch.columns[:-1])
            columns = [*groups, *keys, pa.array(weights)]
            drawn = mixed(np.arange(seen, seen + batch.num_rows, dtype=np.uint64))
            kept.append((drawn, pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])))
            seen, weight, waiting = seen + batch.num_rows, weight + float(weights.sum()), waiting + batch.num_rows
            if waiting > 4 * self.most:
                kept = [self._least(kept)]
                waiting = len(kept[0][0])
        if seen:
            sink = pa.BufferOutputStream()
            rows = self._least(kept)[1]
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_batch(rows)
            yield seen, weight, bytes(sink.getvalue())

    def _least(self, parts: list[tuple[np.ndarray, pa.RecordBatch]]) -> tuple[np.ndarray, pa.RecordBatch]:
        drawn = np.concatenate([numbers for numbers, _ in parts])
        rows = pa.concat_batches([batch for _, batch in parts])
        if len(drawn) <= self.most:
            return drawn, rows
        chosen = np.sort(np.argpartition(drawn, self.most)[: self.most])
        return drawn[chosen], rows.take(pa.array(chosen))


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a sample says: `rows` and `weight` that were seen, and the samples."""

    rows: int
    weight: float
    samples: tuple[Sample, ...]


def sample(spark: SparkSession, store: Store, frame: DataFrame, layout: Layout, share: float = 1.0) -> Drawn:
    """Draw rows of a frame. `share`: of these only, where their number is known to be large."""
    most = parallelism(spark) * magnification(store)
    columns = [F.col(quoted(item.name)) for item in layout.wanted]
    keys = frame.select(*columns, _weight(store, layout).alias(_WEIGHT))
    if share < 1.0:
        keys = keys.sample(False, share, _SEED)
    seen, weight = 0, 0.0
    samples = []
    for count, total, data in run_tasks(keys, _Sampling(layout, most)):
        rows = pa.ipc.open_stream(data).read_all().combine_chunks().to_batches()[0]
        own = rows.column(rows.num_columns - 1).to_numpy(zero_copy_only=False)
        samples.append(Sample(tuple(rows.columns[:-1]), own * (count / len(own))))
        seen, weight = seen + count, weight + total
    return Drawn(seen, weight, tuple(samples))


def _weight(store: Store, layout: Layout) -> Column:
    """What a row counts: its bytes, or one with `sort-compaction.range-strategy` quantity."""
    texts = [item for item in layout.fields if item.type.root in _TEXTS]
    fixed = F.lit(_FIXED * (len(layout.fields) - len(texts)) + 1)
    if store.options.get("sort-compaction.range-strategy") == "quantity" or not texts:
        return fixed.cast("long")
    lengths = [F.coalesce(F.octet_length(F.col(quoted(item.name))), F.lit(0)) for item in texts]
    total = fixed
    for length in lengths:
        total = total + length
    return total.cast("long")


# ---------------------------------------------------------------------------------------------- placing


def ranged(frame: DataFrame, layout: Layout, bounds: Bounds) -> DataFrame:
    """The rows of a frame with the layout's columns, range by range in as many partitions, each in order."""
    names = frame.columns
    columns = [F.col(quoted(item.name)) for item in layout.wanted]
    groups = [F.col(quoted(item.name)) for item in layout.groups]
    if layout.order.is_curve:
        placed = frame.withColumn(_PLACE, _curve_place(layout, bounds)(*columns))
        where, keys = F.col(f"{_PLACE}.range"), [F.col(f"{_PLACE}.lead"), F.col(f"{_PLACE}.key")]
    else:
        placed = frame.withColumn(_PLACE, _order_place(layout, bounds)(*columns) if bounds.ranges > 1 else F.lit(0))
        where, keys = F.col(_PLACE), [F.col(quoted(name)) for name in layout.order.columns]
    moved = placed.repartitionById(bounds.ranges, where)
    return moved.sortWithinPartitions(*groups, *keys).select(*[F.col(quoted(name)) for name in names])


def _curve_place(layout: Layout, bounds: Bounds):  # type: ignore[no-untyped-def]  # what arrow_udf makes
    @F.arrow_udf("range int, lead bigint, key binary")  # type: ignore[untyped-decorator]
    def place(*columns: pa.Array) -> pa.Array:
        groups, keys = layout.keys(columns)
        ranges = pa.array(bounds.place([*groups, *keys]))
        leads = pa.array(bounds.leads(keys[0]))
        return pa.StructArray.from_arrays([ranges, leads, keys[0]], names=["range", "lead", "key"])

    return place


def _order_place(layout: Layout, bounds: Bounds):  # type: ignore[no-untyped-def]
    @F.arrow_udf("int")  # type: ignore[untyped-decorator]
    def place(*columns: pa.Array) -> pa.Array:
        groups, keys = layout.keys(columns)
        return pa.array(bounds.place([*groups, *keys]))

    return place


# ---------------------------------------------------------------------------------------------- writing


@dataclass(frozen=True)
class OrderedWrite:
    """The task that writes rows in the order in which they come; travels to the tasks."""

    store: Store
    template: WriteTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[CommitMessage] | BucketlakeError]:
        """The messages of its files, or the error in its rows."""
        context = TaskContext.get()
        task = replace(self.template, task=context.partitionId() if context is not None else 0)
        try:
            yield write_batches(roomy(self.store), map(self.rows, batches), task)
        except BucketlakeError as error:
            if not is_answer(error):
                raise
            yield error

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as Spark hands them over, as the table's."""
        return widened(batch, self.store.schema.fields)


def written(store: Store, frame: DataFrame, stage: OrderedWrite) -> list[CommitMessage]:
    """The messages of all tasks in the order of their ranges; where one fails, the files of all are removed."""
    with unmeasured_batches(frame, store.schema.fields, row_width(store)):
        return messages_of(store, run_tasks(narrowed(frame, store.schema.fields), stage))


def write_in_order(
    spark: SparkSession, store: Store, frame: DataFrame, template: WriteTask, order: SortOrder, given: Given = GIVEN
) -> list[CommitMessage]:
    """Write a frame's rows, in the table's columns and Spark types, in order; the messages of the files. Errors as
    `tasks.write_in_tasks`."""
    ensure_package(spark)
    layout = layout_of(store, order)
    with evaluated_once(spark, frame, given.once) as rows:
        drawn = sample(spark, store, rows, layout)
        target = store.options.get("target-file-size") or TARGET_APPEND
        count = range_count(int(drawn.weight), target, parallelism(spark), MOST_OF_ROWS)
        here = count > 1 and runs_here(spark)
        bounds = bounds_of(drawn.samples, piece_count(store, count, drawn.weight) if here else count)
        if here and bounds.ranges > 1:
            shares = None if given.source is None else shares_of(spark, store, given.source, parallelism(spark))
            known = of_frame(store, rows) if shares is None else of_shares(spark, shares)
            messages = write_ranges(spark, store, known, Ranges(layout, bounds, count), template)
        else:
            messages = written(store, ranged(rows, layout, bounds), OrderedWrite(store, template))
    return in_sequence(messages)


def in_sequence(messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """The messages with the rows of each bucket counted on from one to the next: they are read in this order."""
    rows: dict[tuple[bytes, int], int] = {}
    result = []
    for message in messages:
        place = (message.partition, message.bucket)
        files = numbered(message.new_files, rows.get(place, 0))
        rows[place] = rows.get(place, 0) + sum(file.row_count for file in files)
        result.append(replace(message, new_files=tuple(files)))
    return result
