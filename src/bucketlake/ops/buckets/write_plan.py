"""How many tasks write, and which task owns which bucket: pure functions of counts.

    load = partitions x buckets / tasks        how many groups, and so open files, a task has; to stay under 100

Spec: docs/spec/writing.md#planning
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

MOST_LOAD = 100  # partitions x buckets / tasks
MOST_TASKS = 2048


def tasks_for(partitions: int, buckets: int, parallelism: int) -> int:
    """How many tasks write rows of so many partitions: as many as run at once, more where each would have over 100
    groups, up to 2,048."""
    return max(parallelism, min(MOST_TASKS, -(-partitions * buckets // MOST_LOAD)))


def overload(partitions: int, buckets: int, tasks: int) -> str | None:
    """What to say of a write that gave each task more groups than it should have, None if it did not."""
    load = partitions * buckets / max(tasks, 1)
    if load <= MOST_LOAD:
        return None
    return (
        f"{partitions:,} partitions x {buckets:,} buckets / {tasks:,} writer tasks = {load:,.0f} files a task, over "
        f"{MOST_LOAD}: small files and slow commits. Write fewer partitions at once, give the table fewer buckets, or "
        "the session more cores"
    )


def owners(weights: Sequence[int], tasks: int) -> list[int]:
    """The task that writes each bucket, so that all tasks have about the same weight: the heaviest bucket first, each
    to the task that has least. `weights`: by bucket, such as its rows; all equal: bucket modulo tasks."""
    if len(set(weights)) <= 1:
        return [bucket % tasks for bucket in range(len(weights))]
    free = [(0, task) for task in range(tasks)]
    result = [0] * len(weights)
    for bucket in sorted(range(len(weights)), key=lambda bucket: -weights[bucket]):
        weight, task = heapq.heappop(free)
        result[bucket] = task
        heapq.heappush(free, (weight + max(weights[bucket], 1), task))
    return result
