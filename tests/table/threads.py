"""Actions in threads that start at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def together(*actions: Callable[[], Any]) -> None:
    """Run all; the first failure is raised."""
    barrier = threading.Barrier(len(actions))
    failures: list[BaseException] = []

    def run(action: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            action()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
