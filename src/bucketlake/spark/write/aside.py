"""Rows that tasks of one machine put aside on its disk for each other: a shuffle of Arrow batches, without Spark's.

    scratch(spark)                     the folder that they share, while a write lasts
    put_aside(store, folder, flushes)  a task's part: an Aside for each of the others, by their numbers
    gathered(results, count)           what each of the others is to take, in the order of those that put it aside

Spec: docs/spec/writing.md#on-one-machine
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from os.path import isdir

from pyspark.sql import SparkSession

from bucketlake.env.env import new_scratch_folder
from bucketlake.env.local import LocalStorage
from bucketlake.errors import BucketlakeError, StorageError
from bucketlake.lazy import pa
from bucketlake.ops.rows.spill import Spill, read_batches
from bucketlake.ops.table.store import Store
from bucketlake.spark.cluster import is_answer
from bucketlake.values import dataclass

# Batches by the number of the task that takes them, and bytes in memory by the same numbers.
Flush = tuple[Iterable[tuple[int, Iterable["pa.RecordBatch"]]], Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Aside:
    """Batches of one spill file for the task of this number. `size`: bytes in memory, about."""

    number: int
    path: str
    batches: tuple[int, ...]
    size: int

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The batches, one at a time."""
        return read_batches(self.path, self.batches)


@contextmanager
def scratch(spark: SparkSession) -> Iterator[str]:
    """A folder on this machine's disk, in Spark's local folder where one is set; gone afterwards."""
    local = str(spark.sparkContext.getConf().get("spark.local.dir", "")).split(",")[0].strip()
    folder = new_scratch_folder(local if isdir(local) else None)
    try:
        yield folder
    finally:
        with suppress(OSError, StorageError):  # tasks that were interrupted may still write into it
            LocalStorage().delete_tree(folder)


def put_aside(store: Store, folder: str, flushes: Iterable[Flush]) -> Iterator[Aside | BucketlakeError]:
    """A task's part: puts all flushes into the folder and tells what lies there, or the error in their rows."""
    spill = replace(Spill.of(store.options), within=folder)
    sizes: list[Mapping[int, int]] = []
    try:
        for groups, size in flushes:
            spill.write(groups)
            sizes.append(size)
    except BucketlakeError as error:
        if not is_answer(error):
            raise
        yield error
        return
    for (path, places), size in zip(spill.places(), sizes, strict=True):
        for number, batches in places.items():
            yield Aside(number, path, tuple(batches), size[number])


def gathered(results: Iterable[object], count: int) -> list[list[Aside]]:
    """What lies aside for each of `count` tasks."""
    found: list[list[Aside]] = [[] for _ in range(count)]
    for result in results:
        if isinstance(result, Aside):
            found[result.number].append(result)
    return found
