"""Rows in order by the tasks of one machine: what a task sorted lies on the machine's disk until that of its range
takes it.

    write_ranges(spark, store, splits, layout, bounds) -> messages, in the order of the ranges

Every task sorts what it reads, a write buffer at a time, cuts that at the bounds and puts it aside; then the task of a
range merges what all have put aside of it, and writes. Rows never become Spark's, which costs it several times as much.

Spec: docs/spec/clustering.md#on-one-machine
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from bucketlake.env.env import new_scratch_folder
from bucketlake.env.local import LocalStorage
from bucketlake.errors import BucketlakeError
from bucketlake.ops.cluster.order import ranks_of
from bucketlake.ops.cluster.ranges import Bounds
from bucketlake.ops.cluster.rows import MOST_SORTED, merged_runs, sorted_run, taken
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.spill import Spill, pieces, read_batches
from bucketlake.ops.table.memory import joined
from bucketlake.ops.table.messages import CommitMessage, Split, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.write import write_batches
from bucketlake.spark.cluster import is_answer, messages_of, pack, parallelism, roomy, run_values, unpickled
from bucketlake.spark.write.ordered import Layout
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Aside:
    """A sorted run of one range that a task put aside. `size`: bytes in memory."""

    range: int
    path: str
    batches: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Cutting:
    """The task that sorts the rows of its splits and puts them aside by range; travels to the tasks."""

    store: Store
    layout: Layout
    bounds: Bounds
    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Aside | BucketlakeError]:
        """What lies aside, or the error in the rows."""
        store = roomy(self.store)
        spill = replace(Spill.of(store.options), within=self.folder)
        sizes: list[dict[int, int]] = []
        try:
            for parts in self._buffers(store, batches):
                found: dict[int, int] = {}
                spill.write(self._cut(parts, found))
                sizes.append(found)
        except BucketlakeError as error:
            if not is_answer(error):
                raise
            yield error
            return
        for (path, groups), found in zip(spill.places(), sizes, strict=True):
            for number, numbers in groups.items():
                yield Aside(number, path, tuple(numbers), found[number])

    def _buffers(self, store: Store, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """The rows of the splits, as many at a time as a write buffer holds."""
        budget = min(int(store.options.get("write-buffer-size")), MOST_SORTED)
        waiting: list[pa.RecordBatch] = []
        size = 0
        for split in chain.from_iterable(unpickled(batches)):
            for batch in read_split(store, split):
                for piece in pieces(batch, budget):
                    if waiting and size + piece.nbytes > budget:
                        yield waiting
                        size = 0
                    waiting.append(piece)
                    size += piece.nbytes
        if waiting:
            yield waiting

    def _cut(
        self, parts: list[pa.RecordBatch], sizes: dict[int, int]
    ) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
        """The rows of parts, which leave their list, sorted within their ranges, and how many bytes each range has."""
        rows = joined(parts)
        keys = self.layout.keys_of(rows)
        ranges = self.bounds.place(keys)
        order = np.lexsort((ranks_of(keys), ranges))
        counts = np.bincount(ranges, minlength=self.bounds.ranges)
        width = rows.nbytes / max(rows.num_rows, 1)
        end = 0
        for number, count in enumerate(counts.tolist()):
            if count:
                sizes[number] = int(count * width)
                yield number, taken(rows, order[end : end + count])
            end += count


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
            for asides in unpickled(batches):
                yield write_batches(store, self._rows(store, asides), task)
        except BucketlakeError as error:
            if not is_answer(error):
                raise
            yield error

    def _rows(self, store: Store, asides: Sequence[Aside]) -> Iterator[pa.RecordBatch]:
        """The rows of a range in order: sorted at once where they fit into a write buffer, else run by run."""
        runs = [read_batches(aside.path, aside.batches) for aside in asides]
        budget = min(int(store.options.get("write-buffer-size")), MOST_SORTED)
        if len(runs) > 1 and sum(aside.size for aside in asides) <= budget:
            return sorted_run(list(chain.from_iterable(runs)), self.layout.ranks)
        return merged_runs(runs, self.layout.ranks) if len(runs) > 1 else chain.from_iterable(runs)


def write_ranges(
    spark: SparkSession, store: Store, splits: Sequence[Split], layout: Layout, bounds: Bounds, template: WriteTask
) -> list[CommitMessage]:
    """Write the rows of splits range by range; the messages of the files in their order. The session runs on this
    machine. Errors as reading and writing files; then no file remains but those of killed tasks."""
    local = spark.sparkContext.getConf().get("spark.local.dir", "") or ""
    folder = new_scratch_folder(local.split(",")[0].strip() or None)
    try:
        packed = pack(splits, parallelism(spark))
        results = run_values(spark, packed, Cutting(store, layout, bounds, folder))
        messages_of(store, results)  # raises the error of a task
        asides: list[list[Aside]] = [[] for _ in range(bounds.ranges)]
        for aside in results:
            asides[aside.range].append(aside)
        filled = [found for found in asides if found]
        return messages_of(store, run_values(spark, filled, Gathering(store, template, layout)))
    finally:
        LocalStorage().delete_tree(folder)
