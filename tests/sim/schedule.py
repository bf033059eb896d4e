"""Threads that take turns: one runs at a time, and at every storage call the seed says who goes on."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Task:
    name: str
    action: Callable[[], Any]
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    done: bool = False
    result: Any = None
    error: BaseException | None = None


class Scheduler:
    """`spawn` actions, then `run` interleaves them at their `pause` points. The same seed gives the same order."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._tasks: list[Task] = []
        self._back = threading.Semaphore(0)
        self._local = threading.local()
        self.trace: list[str] = []

    def spawn(self, name: str, action: Callable[[], Any]) -> Task:
        task = Task(name, action)
        self._tasks.append(task)
        return task

    def pause(self) -> None:
        """Called by a task: let the seed choose who is next. Elsewhere it does nothing."""
        task = getattr(self._local, "task", None)
        if task is not None:
            self._back.release()
            task.go.acquire()

    def run(self) -> None:
        """Run all tasks to their end. What they raise is kept in `task.error`."""
        threads = [threading.Thread(target=self._body, args=(task,), daemon=True) for task in self._tasks]
        for thread in threads:
            thread.start()
        while waiting := [task for task in self._tasks if not task.done]:
            task = self._random.choice(waiting)
            self.trace.append(task.name)
            task.go.release()
            self._back.acquire()
        for thread in threads:
            thread.join()

    def _body(self, task: Task) -> None:
        self._local.task = task
        task.go.acquire()
        try:
            task.result = task.action()
        except BaseException as error:
            task.error = error
        finally:
            task.done = True
            self._back.release()
