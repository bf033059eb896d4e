"""Tasks that take turns: one runs at a time, and at every storage call the seed says who goes on.

Each is a greenlet: to change from one to another takes microseconds and asks no operating system, which on a busy machine
lets a thread wait for its turn thousands of times a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from greenlet import getcurrent, greenlet


@dataclass
class Task:
    name: str
    action: Callable[[], Any]
    place: greenlet | None = None
    done: bool = False
    result: Any = None
    error: BaseException | None = None


class Local:
    """As `threading.local`, for each task of a scheduler, too."""

    def __getattr__(self, name: str) -> Any:
        return getattr(getcurrent(), f"local {id(self)} {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(getcurrent(), f"local {id(self)} {name}", value)


class Scheduler:
    """`spawn` actions, then `run` interleaves them at their `pause` points. The same seed gives the same order."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._tasks: list[Task] = []
        self._home: greenlet | None = None
        self.trace: list[str] = []

    def spawn(self, name: str, action: Callable[[], Any]) -> Task:
        task = Task(name, action)
        self._tasks.append(task)
        return task

    def pause(self) -> None:
        """Called by a task: let the seed choose who is next. Elsewhere, in threads of a task too, it does nothing."""
        if self._home is not None and getcurrent().parent is self._home:
            self._home.switch()

    def run(self) -> None:
        """Run all tasks to their end. What they raise is kept in `task.error`."""
        self._home = getcurrent()
        waiting = list(self._tasks)
        for task in waiting:
            task.place = greenlet(lambda task=task: self._body(task))
        while waiting:
            task = self._random.choice(waiting)
            self.trace.append(task.name)
            assert task.place is not None
            task.place.switch()
            if task.done:
                waiting.remove(task)
        self._home = None

    def finish(self) -> None:
        """Run all tasks to their end, which for none of them is an error."""
        self.run()
        for task in self._tasks:
            assert task.error is None, f"{task.name}: {task.error!r}"

    @staticmethod
    def _body(task: Task) -> None:
        try:
            task.result = task.action()
        except BaseException as error:
            task.error = error
        finally:
            task.done = True
