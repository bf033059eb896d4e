"""Rows in order by the tasks of one machine: what a task sorted lies on the machine's disk until that of its range
takes it.

    of_splits(…), of_shares(…), of_frame(…) -> Rows             what there is to sort
    write_ranges(spark, store, rows, ranges, template) -> messages, in the order of the ranges

Every task sorts what it reads, a buffer at a time, cuts that at the bounds and puts it aside; then the task of a range
sorts what all have put aside of it, piece by piece, and writes. Rows go through no shuffle and no sort of Spark's,
which cost several times as much.

Spec: docs/spec/clustering.md#on-one-machine
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from bucketlake.errors import BucketlakeError
from bucketlake.ops.cluster.order import ranks_of
from bucketlake.ops.cluster.ranges import Bounds
from bucketlake.ops.cluster.rows import MOST_SORTED, merged_runs, sorted_run, taken
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.spill import pieces
from bucketlake.ops.scan.scan import row_width
from bucketlake.ops.table.memory import joined
from bucketlake.ops.table.messages import CommitMessage, Split, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.write import write_batches
from bucketlake.spark.cluster import (
    Action,
    is_answer,
    messages_of,
    pack,
    parallelism,
    roomy,
    run_tasks,
    run_values,
    unpickled,
)
from bucketlake.spark.write.aside import Aside, Flush, gathered, put_aside, scratch
from bucketlake.spark.write.layout import Layout
from bucketlake.spark.write.narrow import narrowed, unmeasured_batches, widened
from bucketlake.spark.write.parquet_rows import Share
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

_SORTED = 128 << 20  # bytes that are sorted together: memory that is used again, where more is new each time


@dataclass(frozen=True)
class Rows:
    """What there is to sort. `run`: runs an action in the tasks that have it; `read`: makes rows, with the table's
    columns, of what such a task is given. `read` travels to the tasks."""

    run: Callable[[Action], list[Any]]
    read: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def of_splits(spark: SparkSession, store: Store, splits: Sequence[Split]) -> Rows:
    """The live rows of splits of the table."""
    return Rows(partial(run_values, spark, pack(splits, parallelism(spark))), partial(_of_splits, store))


def of_shares(spark: SparkSession, shares: Sequence[Share]) -> Rows:
    """The rows of parquet files, which tasks read."""
    return Rows(partial(run_values, spark, shares), _of_shares)


def of_frame(store: Store, frame: DataFrame) -> Rows:
    """Rows that Spark hands over, in the table's columns and Spark types."""
    fields = store.schema.fields

    def run(action: Action) -> list[Any]:
        with unmeasured_batches(frame, fields, row_width(store)):
            return run_tasks(narrowed(frame, fields), action)

    return Rows(run, partial(_of_frame, tuple(fields)))


def _of_splits(store: Store, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (rows for split in chain.from_iterable(unpickled(batches)) for rows in read_split(store, split))


def _of_shares(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (rows for share in unpickled(batches) for rows in share.batches())


def _of_frame(fields: Sequence[DataField], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (widened(batch, fields) for batch in batches)


@dataclass(frozen=True)
class Cutting:
    """The task that sorts its rows and puts them aside by range; travels to the tasks."""

    store: Store
    read: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    layout: Layout
    bounds: Bounds
    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Aside | BucketlakeError]:
        """What lies aside, or the error in the rows."""
        store = roomy(self.store)
        yield from put_aside(store, self.folder, map(self._cut, self._buffers(store, self.read(batches))))

    def _buffers(self, store: Store, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """The rows, as many at a time as are sorted together."""
        budget = min(int(store.options.get("write-buffer-size")), _SORTED)
        waiting: list[pa.RecordBatch] = []
        size = 0
        for piece in (piece for batch in batches for piece in pieces(batch, budget)):
            if waiting and size + piece.nbytes > budget:
                yield waiting
                size = 0
            waiting.append(piece)
            size += piece.nbytes
        if waiting:
            yield waiting

    def _cut(self, parts: list[pa.RecordBatch]) -> Flush:
        """The rows of parts, which leave their list, sorted within their ranges."""
        rows = joined(parts)
        keys = self.layout.keys_of(rows)
        ranges = self.bounds.place(keys)
        order = np.lexsort((ranks_of(keys), ranges))
        numbers, starts, counts = np.unique(ranges[order], return_index=True, return_counts=True)
        width = rows.nbytes / max(rows.num_rows, 1)
        cuts = list(zip(numbers.tolist(), starts.tolist(), counts.tolist(), strict=True))
        groups = ((number, taken(rows, order[start : start + count])) for number, start, count in cuts)
        return groups, {number: int(count * width) for number, _, count in cuts}


@dataclass(frozen=True)
class Gathering:
    """The task that writes a range; travels to the tasks."""

    store: Store
    template: WriteTask
    layout: Layout

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[CommitMessage] | BucketlakeError]:
        """The messages of its files, or the error in its rows."""
        context = TaskContext.get()
        task = replace(self.template, task=context.partitionId() if context is not None else 0)
        store = roomy(self.store)
        try:
            for pieces_of_range in unpickled(batches):
                rows = (batch for asides in pieces_of_range for batch in self._rows(store, asides))
                yield write_batches(store, rows, task)
        except BucketlakeError as error:
            if not is_answer(error):
                raise
            yield error

    def _rows(self, store: Store, asides: Sequence[Aside]) -> Iterator[pa.RecordBatch]:
        """The rows of a piece in order: sorted at once where they fit into a write buffer, else run by run."""
        runs = [aside.rows() for aside in asides]
        budget = min(int(store.options.get("write-buffer-size")), MOST_SORTED)
        if len(runs) > 1 and sum(aside.size for aside in asides) <= budget:
            return sorted_run(list(chain.from_iterable(runs)), self.layout.ranks)
        return merged_runs(runs, self.layout.ranks) if len(runs) > 1 else chain.from_iterable(runs)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Where rows go: a task has each of `count` ranges, which are cut into pieces at the `bounds`."""

    layout: Layout
    bounds: Bounds
    count: int


def piece_count(store: Store, ranges: int, size: float) -> int:
    """How many pieces ranges of `size` bytes in memory together are cut into, each of which a task sorts at once: to
    merge many runs costs much more."""
    budget = min(int(roomy(store).options.get("write-buffer-size")), MOST_SORTED) // 2
    return ranges * max(1, math.ceil(size / (ranges * max(budget, 1))))


def write_ranges(
    spark: SparkSession, store: Store, rows: Rows, ranges: Ranges, template: WriteTask
) -> list[CommitMessage]:
    """Write rows range by range; the messages of the files in their order. The session runs on this machine. Errors as
    reading and writing files; then no file remains but those of killed tasks."""
    with scratch() as folder:
        results = rows.run(Cutting(store, rows.read, ranges.layout, ranges.bounds, folder))
        messages_of(store, results)  # raises the error of a task
        filled = [found for found in gathered(results, ranges.bounds.ranges) if found]
        each = math.ceil(len(filled) / max(ranges.count, 1)) or 1
        taken_by = [filled[at : at + each] for at in range(0, len(filled), each)]
        return messages_of(store, run_values(spark, taken_by, Gathering(store, template, ranges.layout)))
