"""How the units of a job are run: in this thread, in several threads, or by whatever starts them elsewhere.

    Task(store, work, unit)          one unit of one table; what becomes of it is `work(store, unit)`
    Runner = (tasks) -> Running      starts tasks and gives what tells of them
    inline, here                     the runners of this process: one unit after the other, several at a time
    all_of(tasks, run)               the messages of all of them, or none

Spec: docs/spec/maintenance.md#units
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from bucketlake.ops.progress import Stopped, stopping
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

__all__ = ["Done", "Flow", "Inline", "Runner", "Running", "Task", "Work", "all_of", "here", "inline", "run_task"]

THREADS = min(4, os.cpu_count() or 1)
Work = Callable[[Store, Any], list[CommitMessage]]
"""What becomes of a unit; where it raises, the files that it wrote are gone. Picklable."""


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of one table. `job`: which of the jobs that run together it belongs to."""

    store: Store
    work: Work
    unit: Any
    job: int = 0

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.unit.size)


@dataclass(frozen=True, slots=True)
class Done:
    """What became of the task of a place: messages, or an error."""

    place: int
    messages: tuple[CommitMessage, ...] = ()
    error: BaseException | None = None


class Running(Protocol):
    """Tasks on their way."""

    def wait(self, seconds: float | None) -> list[Done] | None:
        """What has been done since, at least one after at most so long; [] where nothing was, None after the last."""

    def skip(self, unwanted: Callable[[Task], bool]) -> None:
        """Do not begin tasks that are not wanted any more."""

    def stop(self) -> list[Done]:
        """End as soon as possible: begin nothing, break off what can be; what was done and not told yet."""


Runner = Callable[[Sequence[Task]], Running]


def run_task(place: int, task: Task) -> Done:
    """Run one task here. Interrupts are raised."""
    try:
        return Done(place, tuple(task.work(task.store, task.unit)))
    except Exception as error:
        return Done(place, error=error)


class Inline:
    """One task after the other, in the thread that waits: deterministic, as simulations need it."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._left = list(enumerate(tasks))

    def wait(self, seconds: float | None) -> list[Done] | None:
        """See Running."""
        if not self._left:
            return None
        return [run_task(*self._left.pop(0))]

    def skip(self, unwanted: Callable[[Task], bool]) -> None:
        """See Running."""
        self._left = [(place, task) for place, task in self._left if not unwanted(task)]

    def stop(self) -> list[Done]:
        """See Running."""
        self._left = []
        return []


inline: Runner = Inline


@dataclass(frozen=True, slots=True)
class Call:
    """Some tasks that are run by one call, by their places."""

    tasks: dict[int, Task]
    run: Callable[[], Sequence[Done]]


class Flow:
    """Calls that run in threads, so many at a time; each tells what became of its tasks. `cancel`: breaks off calls
    that have begun."""

    def __init__(self, calls: Sequence[Call], threads: int, cancel: Callable[[], object] = lambda: None) -> None:
        self._told: queue.SimpleQueue[list[Done]] = queue.SimpleQueue()
        self._event = threading.Event()
        self._cancel = cancel
        self._pool = ThreadPoolExecutor(max(1, min(threads, len(calls))), "bucketlake-units")
        self._futures: list[tuple[Future[None], Call]] = []
        self._open = len(calls)
        try:
            self._futures = [(self._pool.submit(self._run, call), call) for call in calls]
        except BaseException:
            self.stop()
            raise
        self._pool.shutdown(wait=False)

    def _run(self, call: Call) -> None:
        with stopping(self._event):
            try:
                done = list(call.run())
            except BaseException as error:
                done = [Done(place, error=error) for place in call.tasks]
        self._told.put(done)

    def wait(self, seconds: float | None) -> list[Done] | None:
        """See Running."""
        if self._open == 0:
            return None
        try:
            found = self._told.get(timeout=seconds)
        except queue.Empty:
            return []
        self._open -= 1
        return found

    def skip(self, unwanted: Callable[[Task], bool]) -> None:
        """See Running."""
        for future, call in self._futures:
            unbegun = not future.cancelled() and all(unwanted(task) for task in call.tasks.values())
            if unbegun and future.cancel():
                self._told.put([])

    def stop(self) -> list[Done]:
        """See Running."""
        self._event.set()
        begun = [future for future, _ in self._futures if not future.cancel()]
        if not all(future.done() for future in begun):
            self._cancel()
        self._pool.shutdown(wait=True)
        self._open = 0
        found: list[Done] = []
        while not self._told.empty():
            found += self._told.get()
        return [done for done in found if not isinstance(done.error, Stopped)]


def here(tasks: Sequence[Task]) -> Flow:
    """The tasks in threads of this process, each by itself."""
    calls = [Call({place: task}, partial(_one, place, task)) for place, task in enumerate(tasks)]
    return Flow(calls, THREADS)


def _one(place: int, task: Task) -> list[Done]:
    return [run_task(place, task)]


def all_of(
    tasks: Sequence[Task], run: Runner = here, told: Callable[[Task], object] = lambda task: None
) -> list[CommitMessage]:
    """The messages of all tasks, in the tasks' order; `told` hears of each that is done.

    Where one fails, or the wait is interrupted, by `told` too, the others end as soon as possible, what all of them
    wrote is removed, and the error is raised.
    """
    if not tasks:
        return []
    running = run(tasks)
    done: dict[int, Done] = {}
    try:
        while (found := running.wait(None)) is not None:
            done.update((one.place, one) for one in found)
            for one in found:
                if one.error is not None:
                    raise one.error
                told(tasks[one.place])
    except BaseException:
        done.update((one.place, one) for one in running.stop())
        with suppress(Exception):  # what stays is an orphan
            discard(tasks[0].store, (message for one in done.values() for message in one.messages))
        raise
    return [message for place in sorted(done) for message in done[place].messages]
