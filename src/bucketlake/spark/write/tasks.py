"""Writing by Python tasks: rows go to `mapInArrow`, messages come back by one collect.

Without a shuffle every task writes its own file of every bucket that it meets, from sequence ranges that cannot meet
those of the others; with one, the task that owns a bucket writes it. A task with few rows sends them back instead of
files, and the driver writes those of all such tasks together: a small commit makes few files.

Spec: docs/spec/writing.md#tasks
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from bucketlake.errors import BucketlakeError
from bucketlake.ops.buckets.dynamic import joined
from bucketlake.ops.scan.scan import row_width
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.postpone_write import write_counted
from bucketlake.ops.write.write import write_batches
from bucketlake.spark.cluster import ensure_package, is_answer, messages_of, parallelism, roomy, run_tasks, run_values
from bucketlake.spark.write.dealt import dealt
from bucketlake.spark.write.narrow import narrowed, unmeasured_batches, widened
from bucketlake.spark.write.parquet_rows import ReadThen, shares_of
from bucketlake.spark.write.placement import GIVEN, Given, placed, warn_of_load
from bucketlake.values import dataclass

SMALL_ROWS = 20_000  # rows that a task sends back rather than writes
SMALL_BYTES = 4 << 20
COLLECTED_BYTES = 64 << 20  # what all tasks together may send back


@dataclass(frozen=True)
class Rows:
    """Rows that a task left to the driver: an Arrow stream."""

    data: bytes


@dataclass(frozen=True)
class WriteStage:
    """What every task of one write does; travels to the tasks. `tasks`: how many there are at most; `kinds`: the column
    of row kinds."""

    store: Store
    template: WriteTask
    tasks: int
    kinds: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Rows | BucketlakeError | list[CommitMessage]]:
        """One task: its rows or the messages of its files, or the error in its rows."""
        incoming = (widened(batch, self.store.schema.fields) for batch in batches)
        head, more = self._head(incoming)
        if not more:
            if head:
                yield Rows(_stream(head))
            return
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        task = replace(self.template, task=number)
        try:
            yield write_batches(roomy(self.store), chain(head, incoming), task, self.kinds)
        except BucketlakeError as error:
            if not is_answer(error):
                raise
            yield error

    def _head(self, batches: Iterator[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], bool]:
        """The first batches, and whether they are too many to send back."""
        head: list[pa.RecordBatch] = []
        rows = size = 0
        limit = min(SMALL_BYTES, COLLECTED_BYTES // self.tasks)
        for batch in batches:
            if batch.num_rows:
                head.append(batch)
                rows += batch.num_rows
                size += batch.nbytes
            if rows > SMALL_ROWS or size > limit:
                return head, True
        return head, False


def task_count(spark: SparkSession) -> int:
    """How many tasks a write runs at most; sequence numbers are dealt out for one more, the driver."""
    return max(parallelism(spark), 1)


def write_in_tasks(
    spark: SparkSession,
    store: Store,
    frame: DataFrame,
    template: WriteTask,
    given: Given = GIVEN,
) -> list[CommitMessage]:
    """Write the frame's rows, in the table's columns and Spark types; the messages of the files.

    `template` is for `task_count` + 1 tasks. Errors as `write_batches`; then no files remain but those of killed tasks.
    """
    ensure_package(spark)
    whole = template.assigners
    with placed(spark, store, frame, template, given) as rows:
        template, fields = rows.template, store.schema.fields
        stage = WriteStage(store, template, template.tasks - 1, given.kinds)
        told = given.source is not None and (rows.stay or rows.owners is not None)
        shares = shares_of(spark, store, given.source, stage.tasks) if told and given.source is not None else None
        if shares is not None and rows.owners is not None:
            results = dealt(spark, store, shares, rows.owners, stage)
        elif shares is not None:
            results = run_values(spark, shares, ReadThen(stage))
        else:
            with unmeasured_batches(frame, fields, row_width(store)):
                results = run_tasks(narrowed(rows.frame, fields), stage)
    messages = messages_of(store, results)
    try:
        left = [batch for result in results if isinstance(result, Rows) for batch in pa.ipc.open_stream(result.data)]
        if not messages:  # all rows are here: no share of theirs is assigned elsewhere
            template = replace(template, assigners=whole, first_load={})
        warn_of_load(messages, template.tasks - 1)
        messages = messages + write_in_driver(store, left, template, given.kinds, given.overwrite)
        return joined(store, messages) if template.first_load else messages
    except BaseException:
        discard(store, messages)
        raise


def write_in_driver(
    store: Store,
    batches: list[pa.RecordBatch],
    template: WriteTask,
    kinds: str | None = None,
    overwrite: bool = False,
) -> list[CommitMessage]:
    """Write rows here, numbered as the last task's."""
    if not batches:
        return []
    return write_counted(store, batches, replace(template, task=template.tasks - 1), kinds, overwrite)


def _stream(batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
