"""Ctrl-C while a statement runs: its Spark jobs are cancelled, by another thread, until the statement has ended.

Fetching rows waits in the driver for Spark's job even where it was interrupted, and a statement may be between two
jobs: the thread that waits cannot cancel, and once may be too early. So the first Ctrl-C is enough. Tags of jobs belong
to the thread that set them, and another one cannot cancel by them: all that the session runs is cancelled, which is
this statement, as the session is the shell's own. What libraries log of their interruption, traces of many lines, is
not shown.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from bucketlake.cli.ending import interrupt

__all__ = ["cancelled_with_us"]

AGAIN = 0.2  # seconds until jobs that came since are cancelled, too


@contextmanager
def cancelled_with_us(spark: Any) -> Iterator[None]:
    """In the block Ctrl-C cancels what the session runs, and is raised whatever else the block makes of it."""
    cancelling = _Cancelling(spark)
    try:
        with cancelling:
            yield
    except (KeyboardInterrupt, SystemExit):
        cancelling.once()
        raise
    except Exception as error:
        if cancelling.was_struck:
            raise interrupt() from error
        raise
    finally:
        if cancelling.was_struck:
            logging.disable(logging.NOTSET)


class _Cancelling:
    """Takes Ctrl-C over in the main thread, while it is entered."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._over = threading.Event()
        self._before: Any = None
        self.was_struck = False

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if callable(self._before):  # else the caller ignores Ctrl-C
                signal.signal(signal.SIGINT, self._struck)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)

    def _struck(self, number: int, frame: FrameType | None) -> None:
        if not self.was_struck:
            self.was_struck = True
            logging.disable()
            threading.Thread(target=self._until_over, daemon=True).start()
        self._before(number, frame)
        raise KeyboardInterrupt

    def _until_over(self) -> None:
        self.once()
        while not self._over.wait(AGAIN):
            self.once()

    def once(self) -> None:
        """Cancel what runs now."""
        with suppress(Exception):  # what is not to be cancelled ends by itself
            self._spark.interruptAll()
