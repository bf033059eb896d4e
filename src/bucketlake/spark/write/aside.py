"""Rows that tasks of one machine put aside on its disk for each other: a shuffle of Arrow batches, without Spark's.

    scratch(spark)                     the folder that they share, while a write lasts
    Aside, asides_of(spill, sizes)     what a task put aside for another, by the other's number
    gathered(results, count)           what each of the others is to take, in the order of those that put it aside

Spec: docs/spec/writing.md#on-one-machine
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os.path import isdir

from pyspark.sql import SparkSession

from bucketlake.env.env import new_scratch_folder
from bucketlake.env.local import LocalStorage
from bucketlake.lazy import pa
from bucketlake.ops.rows.spill import Spill, read_batches
from bucketlake.values import dataclass


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
        LocalStorage().delete_tree(folder)


def asides_of(spill: Spill, sizes: Sequence[Mapping[int, int]]) -> Iterator[Aside]:
    """All that a spill holds. `sizes`: bytes in memory of each flush, by number."""
    for (path, groups), found in zip(spill.places(), sizes, strict=True):
        for number, batches in groups.items():
            yield Aside(number, path, tuple(batches), found[number])


def gathered(results: Iterable[object], count: int) -> list[list[Aside]]:
    """What lies aside for each of `count` tasks."""
    found: list[list[Aside]] = [[] for _ in range(count)]
    for result in results:
        if isinstance(result, Aside):
            found[result.number].append(result)
    return found
