"""The same thing done to many items by threads, which wait for storage, or work where Python is not.

parallel(action, items, threads) -> list          all of them
at_once(waits, looks) -> list                     several looks, at once where they wait
ahead(action, items, threads) -> Iterator         as they are wanted, ever more at once
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from bucketlake.lazy import futures

MOST_AHEAD = 256  # items that are asked for at once
T = TypeVar("T")
R = TypeVar("R")


def parallel(action: Callable[[T], R], items: Sequence[T], threads: int | None = None) -> list[R]:
    """`[action(i) for i in items]` by several threads (`by_cores` of them by default), in order; the first failure is
    raised."""
    count = min(len(items), threads or by_cores())
    if count <= 1:
        return [action(item) for item in items]
    with futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(action, items))


def at_once(waits: bool, *looks: Callable[[], R]) -> list[R]:
    """What looks give that do not hang on each other, in order: by threads where each waits (`Store.waits`), else one
    after the other. The first failure in order is raised."""
    return parallel(lambda look: look(), looks, len(looks) if waits else 1)


def ahead(action: Callable[[T], R], items: Sequence[T], threads: int | None = None) -> Iterator[R]:
    """As `parallel`, lazily: one at first, and the longer somebody goes on the more at once."""
    start, count = 0, 1
    while start < len(items):
        yield from parallel(action, items[start : start + count], threads)
        start += count
        count = 1 if threads == 1 else min(2 * count, MOST_AHEAD)


def by_cores() -> int:
    """How many threads keep the machine busy that read and decode."""
    return min(32, 2 * (os.cpu_count() or 1))
