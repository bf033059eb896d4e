"""Rows that tasks of one machine put aside on its disk for each other: a shuffle of Arrow batches, without Spark's.

    scratch()                          the folder that they share, while a write lasts
    put_aside(store, folder, flushes)  a task's part: an Aside for each of the others, by their numbers
    gathered(results, count)           what each of the others is to take, in the order of those that put it aside

Spec: docs/spec/writing.md#on-one-machine
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from os.path import isdir

from pyspark import SparkFiles

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
def scratch() -> Iterator[str]:
    """A folder on this machine's disk for tasks that run here; gone afterwards.

    It lies among the files that Spark keeps for the session, below `spark.local.dir` where that is set: Spark's JVM
    removes these as it ends, also after this process was killed.
    """
    own = SparkFiles.getRootDirectory()
    folder = new_scratch_folder(own if isdir(own) else None)
    try:
        yield folder
    finally:
        with suppress(OSError, StorageError):
            LocalStorage().delete_tree(folder)


def put_aside(store: Store, folder: str, flushes: Iterable[Flush]) -> Iterator[Aside | BucketlakeError]:
    """A task's part: puts all flushes into the folder and tells what lies there, or the error in their rows."""
    spill = replace(Spill.of(store.options), within=folder)
    sizes: list[Mapping[int, int]] = []
    try:
        for groups, size in flushes:
            spill.write(groups)
            sizes.append(size)
    except BaseException as error:
        spill.clear()  # a disk that is full has room again for the next try
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
