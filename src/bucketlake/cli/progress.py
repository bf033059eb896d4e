"""How far a long command is: one line on a terminal, with rate and time left, gone when the command is done.

    Drawn(called)                 an `on_progress`: draws over itself, ten times a second at most
    working(console, what)        for what tells nothing: how long it has taken, once a second

Where standard error is no terminal, nothing is drawn.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO

from bucketlake.amounts import size_text, span_text
from bucketlake.cli.text import clean, count, cut, is_terminal, look_of
from bucketlake.ops.progress import Progress

__all__ = ["Drawn", "working"]

WIDTH = 20
CLEAR = "\r\x1b[K"


class Drawn:
    """An `on_progress` that draws one line on a terminal. `total_rows` may be an estimate: it stops short of 100 %.
    `called`: another name for the operation."""

    def __init__(self, called: str = "", stream: IO[str] | None = None) -> None:
        self._called = called
        self._stream = sys.stderr if stream is None else stream
        self._shown = is_terminal(self._stream)
        self._last: float | None = None

    def __call__(self, progress: Progress) -> None:
        """Draw, or take the line away at the end."""
        if not self._shown:
            return
        if progress.done:
            self.clear()
        elif self._last is None or progress.seconds - self._last >= 0.1:
            self._last = progress.seconds
            width = look_of(self._stream).width or 80
            told = replace(progress, operation=self._called) if self._called else progress
            self._stream.write(CLEAR + cut(clean(line(told)), width - 1))
            self._stream.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown and self._last is not None:
            self._stream.write(CLEAR)
            self._stream.flush()
        self._last = None


def line(progress: Progress) -> str:
    """How far it is, how fast, how long it will take."""
    share = progress.share
    if share is None and progress.total_rows:
        share = min(progress.rows / progress.total_rows, 0.99)
    filled = int((share or 0.0) * WIDTH)
    bar = "" if share is None else f"[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%} "
    parts = [f"{bar}{progress.operation} {progress.table}"]
    if progress.total_units:
        parts.append(f"{progress.units:,} of {progress.total_units:,}")
    if progress.rows:
        parts.append(count(progress.rows, "row"))
    if progress.seconds > 0 and (progress.bytes or progress.rows):
        fast = progress.bytes / progress.seconds
        parts.append(f"{size_text(fast)}/s" if progress.bytes else f"{progress.rows / progress.seconds:,.0f} rows/s")
    if progress.commits:
        parts.append(count(progress.commits, "commit"))
    left = progress.seconds * (1 - share) / share if share else None
    parts.append(span_text(progress.seconds) if left is None else f"{span_text(left)} left")
    return ", ".join(parts)


@contextmanager
def working(what: str) -> Iterator[None]:
    """In the block, a terminal shows what is done and for how long."""
    stream = sys.stderr
    if not is_terminal(stream):
        yield
        return
    ended = threading.Event()

    def tell() -> None:
        seconds = 0
        while not ended.wait(1.0):
            seconds += 1
            stream.write(CLEAR + cut(clean(f"{what}: {span_text(seconds)}"), (look_of(stream).width or 80) - 1))
            stream.flush()

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        stream.write(CLEAR)
        stream.flush()
