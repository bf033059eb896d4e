"""Partitions that are marked done by idle time while a query goes on, whether batches come or not.

One thread a query looks now and then; it ends with the query, or with the process. What a process that died was waiting
for is taken up by the next.

Spec: docs/spec/tags.md#done
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from threading import Event, Thread

from bucketlake.ops.clean.done import mark_idle, remember_unmarked
from bucketlake.ops.table.store import Store

LEAST, MOST = 1.0, 60.0  # seconds between two looks


class IdleMarks:
    """Marks partitions of a table as long as `goes_on`."""

    def __init__(self, store: Store, goes_on: Callable[[], bool]) -> None:
        idle = int(store.options.get("partition.idle-time-to-done"))
        self._store, self._goes_on = store, goes_on
        self._pause = min(MOST, max(LEAST, idle / 4000))
        self._stop = Event()

    def start(self) -> None:
        """Look from now on."""
        Thread(target=self._run, name="bucketlake-idle", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def _run(self) -> None:
        self.look(remember_unmarked)
        while not self._stop.wait(self._pause) and self._goes_on():
            self.look(mark_idle)

    def look(self, action: Callable[[Store], None]) -> None:
        """Do something about partitions; what fails is a warning, and due again."""
        try:
            action(self._store)
        except Exception as error:
            warnings.warn(f"partitions were not marked done: {error}", stacklevel=2)
