"""Work that follows the batches of a stream in a lane of its own: a batch does not wait for it, unless it falls behind.

The lane is one thread that takes what is due in the order in which it came; work that fails is a warning. It ends with
the process: what it was doing then is done again by whoever comes next.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread

from bucketlake.env.env import Clock, SystemClock

Work = Callable[[], object]


class Lane:
    """Takes work and does it one after the other. `depth`: how much may wait before `add` does."""

    def __init__(self, depth: int, clock: Clock | None = None) -> None:
        self._depth, self._clock = max(1, depth), clock or SystemClock()
        self._waiting: deque[tuple[int, Work]] = deque()
        self._changed = Condition()
        self._thread: Thread | None = None

    def add(self, work: Work) -> None:
        """Put work at the end; waits as long as too much of it waits already."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < self._depth)
            self._waiting.append((self._clock.now_millis(), work))
            if self._thread is None:
                self._thread = Thread(target=self._run, name="bucketlake-lane", daemon=True)
                self._thread.start()

    @property
    def behind(self) -> int:
        """How much waits or is being done."""
        with self._changed:
            return len(self._waiting)

    @property
    def lag_millis(self) -> int:
        """Since when the oldest work waits or is being done; 0 without any."""
        with self._changed:
            return self._clock.now_millis() - self._waiting[0][0] if self._waiting else 0

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                work = self._waiting[0][1]
            try:
                work()
            except Exception as error:
                warnings.warn(f"the rows of a stream are committed, but its upkeep failed: {error}", stacklevel=1)
            with self._changed:
                self._waiting.popleft()
                self._changed.notify_all()
