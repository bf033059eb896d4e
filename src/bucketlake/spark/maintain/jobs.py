"""Units of jobs as Spark tasks: balanced by size, several Spark jobs one behind the other, so that results flow back.

Each Spark job is one `collect` of as many tasks as run at once; two are under way, so that the tasks of the next fill
the slots that the last ones of the first leave. What a job brought is told at once, and may be committed while the next
runs. Few bytes are worked through in the driver. Stopping interrupts what runs, by a tag.

Spec: docs/spec/maintenance.md#spark
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from bucketlake.errors import BucketlakeError
from bucketlake.ops.compact.running import Call, Done, Flow, Runner, Task, Work, here
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.memory import large_buffers
from bucketlake.ops.table.store import Store
from bucketlake.spark.cluster import ensure_package, is_answer, parallelism, run_values, unpickled
from bucketlake.values import dataclass

__all__ = ["DRIVER_BYTES", "balanced", "runner"]

DRIVER_BYTES = 16 << 20  # what the driver works through by itself
TASK_BYTES = 16 << 20  # that are worth a task
WAVES = 8  # tasks for each that runs at once: results flow, and the last ones are small
EVEN = 1.3  # times the mean: not much larger
SOON = 1.05  # times the least time: soon enough
UNDER_WAY = 2  # Spark jobs

T = TypeVar("T")


def runner(spark: SparkSession) -> Runner:
    """How jobs run their units with this session."""

    def run(tasks: Sequence[Task]) -> Flow:
        if sum(task.size for task in tasks) <= DRIVER_BYTES:
            return here(tasks)
        ensure_package(spark)
        tag = f"bucketlake-{tasks[0].store.env.clock.new_uuid()}"
        limit = min(task.store.options.get("compaction.commit-size") for task in tasks)
        waves = max(WAVES, -(-sum(task.size for task in tasks) // limit))
        groups = balanced(list(enumerate(tasks)), parallelism(spark), lambda item: item[1].size, waves)
        return Flow(_calls(spark, tag, groups), UNDER_WAY, lambda: _interrupt(spark, tag))

    return run


def balanced(items: Sequence[T], slots: int, size: Callable[[T], int], waves: int = WAVES) -> list[list[T]]:
    """Items in groups for tasks, largest group first, up to `waves` for each of the slots: where the items allow it,
    none is much larger than others, and of such groupings the one whose last group is done first."""
    total = sum(size(item) for item in items)
    most = max(min(len(items), slots * waves, max(slots, total // TASK_BYTES)), 1)
    ideal = max(total / slots, *(size(item) for item in items), 1)
    best: list[list[T]] = []
    found = (True, float("inf"))
    for count in range(most, max(most - 2 * slots, most // 2, 0), -1):
        groups = sorted(_packed(items, count, size), key=lambda group: sum(map(size, group)), reverse=True)
        sizes = [sum(map(size, group)) for group in groups]
        own = sizes[0] * len(sizes) > EVEN * sum(sizes), _end(sizes, slots) / ideal
        if own < found:
            best, found = groups, own
        if found < (False, SOON):
            break
    return best


def _end(sizes: Sequence[int], slots: int) -> int:
    """When the last group is done, each taken by the first slot that is free."""
    free = [0] * min(slots, len(sizes) or 1)
    for own in sizes:
        heapq.heapreplace(free, free[0] + own)
    return max(free)


def _packed(items: Sequence[T], count: int, size: Callable[[T], int]) -> list[list[T]]:
    """So many groups, each item with the group that is the lightest so far, largest items first."""
    groups: list[list[T]] = [[] for _ in range(count)]
    heap = [(0, place) for place in range(count)]
    for item in sorted(items, key=size, reverse=True):
        weight, place = heap[0]
        groups[place].append(item)
        heapq.heapreplace(heap, (weight + size(item) + 1, place))
    return [group for group in groups if group]


Placed = tuple[int, Task]


def _calls(spark: SparkSession, tag: str, groups: Sequence[list[Placed]]) -> list[Call]:
    """A Spark job for as many groups as run at once."""
    slots = max(parallelism(spark), 1)
    chunks = [groups[start : start + slots] for start in range(0, len(groups), slots)]
    return [Call(dict(chain.from_iterable(chunk)), partial(_run, spark, tag, chunk)) for chunk in chunks]


def _run(spark: SparkSession, tag: str, groups: Sequence[list[Placed]]) -> list[Done]:
    spark.addTag(tag)
    try:
        return run_values(spark, [_shipped(group) for group in groups], run_units)
    finally:
        with suppress(Exception):
            spark.removeTag(tag)


def _interrupt(spark: SparkSession, tag: str) -> None:
    with suppress(Exception):  # what cannot be broken off ends by itself
        spark.interruptTag(tag)


@dataclass(frozen=True, slots=True)
class _Shipment:
    """What a task gets: each table and its work once, and units with their places and which table they are of."""

    tables: list[tuple[Store, Work]]
    units: list[tuple[int, int, Any]]


def _shipped(group: Sequence[Placed]) -> _Shipment:
    tables: dict[int, int] = {}
    shipment = _Shipment([], [])
    for place, task in group:
        if task.job not in tables:
            tables[task.job] = len(shipment.tables)
            shipment.tables.append((task.store, task.work))
        shipment.units.append((place, tables[task.job], task.unit))
    return shipment


def run_units(batches: Iterator[pa.RecordBatch]) -> Iterator[Done]:
    """What every task does: the messages of its units, or their errors. Where the storage fails, or something that is
    not ours, the task's own files are removed, and Spark tries again."""
    done: list[Done] = []
    stores: dict[int, Store] = {}
    try:
        with large_buffers():
            for shipment in unpickled(batches):
                for place, table, unit in shipment.units:
                    store, work = shipment.tables[table]
                    stores[place] = store
                    try:
                        done.append(Done(place, tuple(work(store, unit))))
                    except BucketlakeError as error:
                        if not is_answer(error):
                            raise
                        done.append(Done(place, error=error))
    except BaseException:
        for one in done:
            discard(stores[one.place], one.messages)
        raise
    yield from done
