"""Units of maintenance in this process: several at a time, and all of them or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store

U = TypeVar("U")
THREADS = min(4, os.cpu_count() or 1)


def run_units(
    store: Store, units: Sequence[U], work: Callable[[Store, U], Iterable[CommitMessage | None]]
) -> list[CommitMessage]:
    """The messages of all units, in order. Where one fails the files of the others are removed, once all have ended,
    and its error is raised; its own are `work`'s to remove."""
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(work, store, unit) for unit in units]
    failed = next((error for future in futures if (error := future.exception()) is not None), None)
    done = [message for future in futures if future.exception() is None for message in future.result()]
    made = [message for message in done if message is not None]
    if failed is not None:
        discard(store, made)
        raise failed
    return made
