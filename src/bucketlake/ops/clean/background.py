"""Work beside the committer: one thread of this process, and at most one waiting job a table.

    run_beside(key, job)      the job runs soon; where one of the same key waits already, that one does its work
    finish(seconds)           wait until nothing is left to do; whether that is so

The thread ends with the process: what waits then is left to the next commit, what runs is waited for, but not long.
Jobs may therefore end anywhere, and may start no other threads: the interpreter starts none while it shuts down.

Spec: docs/spec/expiry.md#after-a-commit
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import field

from bucketlake.values import dataclass

MOST_WAITING = 1000
AT_EXIT = 5.0  # seconds

Job = Callable[[], None]


@dataclass(slots=True)
class Background:
    """Jobs in the order of their keys' first wait. A job deals with its own errors."""

    waiting: OrderedDict[Hashable, Job] = field(default_factory=OrderedDict)
    busy: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self, key: Hashable, job: Job) -> bool:
        """Take a job, unless one of its key, or too many others, wait already; whether it, or that one, will run."""
        with self.changed:
            if key in self.waiting or len(self.waiting) >= MOST_WAITING:
                return key in self.waiting
            self.waiting[key] = job
            if not self.busy:
                self.busy = True
                threading.Thread(target=self._work, name="bucketlake-expiry", daemon=True).start()
        return True

    def _work(self) -> None:
        while (job := self._next()) is not None:
            with suppress(Exception):
                job()

    def _next(self) -> Job | None:
        with self.changed:
            if self.waiting:
                return self.waiting.popitem(last=False)[1]
            self.busy = False
            self.changed.notify_all()
            return None

    def finish(self, seconds: float) -> bool:
        """Wait until nothing is left to do, at most so long; whether that is so."""
        with self.changed:
            return self.changed.wait_for(lambda: not (self.busy or self.waiting), seconds)

    def close(self, seconds: float) -> bool:
        """Forget what waits, and wait for what runs."""
        with self.changed:
            self.waiting.clear()
        return self.finish(seconds)


_BACKGROUND = Background()
atexit.register(lambda: _BACKGROUND.close(AT_EXIT))


def _after_fork() -> None:
    """A child has no thread, and no jobs: they are the parent's."""
    global _BACKGROUND
    _BACKGROUND = Background()


os.register_at_fork(after_in_child=_after_fork)


def run_beside(key: Hashable, job: Job) -> bool:
    """Run a job soon, beside what calls; whether one of its key will run."""
    return _BACKGROUND.run(key, job)


def finish(seconds: float) -> bool:
    """Wait until nothing is left to do, at most so long; whether that is so."""
    return _BACKGROUND.finish(seconds)
