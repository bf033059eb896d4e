"""How far a long operation is: a small value, handed to the caller's `on_progress` in the driver as units are done.

    Progress                            rows, bytes, units done and to come, commits, seconds, time left; one picture
    Meter(operation, table, …)          counts, and tells `on_progress` of each change; of_table(…), ending()
    Bar(stream)                         an `on_progress` that draws one line of text where the stream is a terminal
    stopping(event), refuse_stopped()   how threads at work end soon after the one that waits for them was interrupted

What `on_progress` raises, KeyboardInterrupt too, stops the operation as Ctrl-C does: what is finished stays.

Spec: docs/spec/maintenance.md#progress
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

from bucketlake.amounts import size_text, span_text
from bucketlake.env.env import Clock
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation is. Totals are 0 where they are not known; `rows` and `bytes` are those that were worked
    through. `lost`: units that others came before, to be tried again or left. `done`: nothing follows."""

    operation: str
    table: str
    units: int = 0
    total_units: int = 0
    rows: int = 0
    total_rows: int = 0
    bytes: int = 0
    total_bytes: int = 0
    commits: int = 0
    lost: int = 0
    seconds: float = 0.0
    done: bool = False

    @property
    def share(self) -> float | None:
        """The part that is done, 0 to 1, by bytes where they are known, else by units; None: nobody knows."""
        if self.done:
            return 1.0
        for part, whole in ((self.bytes, self.total_bytes), (self.units, self.total_units)):
            if whole > 0:
                return min(part / whole, 1.0)
        return None

    @property
    def seconds_left(self) -> float | None:
        """Time that the rest takes at the speed so far, None while there is none."""
        share = self.share
        return None if not share else self.seconds * (1 - share) / share

    def __str__(self) -> str:
        of = f" of {self.total_units:,}" if self.total_units else ""
        parts = [f"{self.operation} {self.table}:", f"{self.units:,}{of} units"]
        if self.rows or self.total_rows:
            parts.append(f"{self.rows:,} rows")
        if self.bytes or self.total_bytes:
            parts.append(size_text(self.bytes))
        if self.commits:
            parts.append(f"{self.commits} commit{'s' if self.commits > 1 else ''}")
        left = self.seconds_left
        parts.append(f"{span_text(self.seconds)}" + (f", {span_text(left)} left" if left and not self.done else ""))
        return f"{parts[0]} {', '.join(parts[1:])}"


OnProgress = Callable[[Progress], None]


class Meter:
    """Counts for one operation. Without `on_progress` it does not even look at the clock. For one thread."""

    def __init__(self, operation: str, table: str, clock: Clock, on_progress: OnProgress | None = None) -> None:
        self.now = Progress(operation, table)
        self._clock, self._tell = clock, on_progress
        self._started = 0 if on_progress is None else clock.now_millis()

    @classmethod
    def of_table(cls, operation: str, root: str, clock: Clock, on_progress: OnProgress | None = None) -> Meter:
        """A meter for the table of a folder, under its name as far as the folder says it."""
        database, _, table = root.rpartition("/")
        return cls(operation, f"{database.rpartition('/')[2].removesuffix('.db')}.{table}", clock, on_progress)

    @property
    def is_watched(self) -> bool:
        """Whether anybody is told: estimates are worth their price then."""
        return self._tell is not None

    @contextmanager
    def ending(self) -> Iterator[None]:
        """At the end of the block nothing follows, also where it fails; nothing is told where it is interrupted."""
        try:
            yield
        except Exception:
            with suppress(Exception):
                self.finish()
            raise
        self.finish()

    def expect(self, units: int = 0, rows: int = 0, bytes: int = 0) -> None:
        """More is to do than was known."""
        now = self.now
        self._set(
            total_units=now.total_units + units, total_rows=now.total_rows + rows, total_bytes=now.total_bytes + bytes
        )

    def add(self, units: int = 1, rows: int = 0, bytes: int = 0) -> None:
        """So much more is done."""
        now = self.now
        self._set(units=now.units + units, rows=now.rows + rows, bytes=now.bytes + bytes)

    def commit(self) -> None:
        """A commit was published."""
        self._set(commits=self.now.commits + 1)

    def lose(self, units: int = 1) -> None:
        """Others came before units."""
        self._set(lost=self.now.lost + units)

    def finish(self) -> Progress:
        """Nothing follows."""
        self._set(done=True)
        return self.now

    def _set(self, **changed: int | bool) -> None:
        self.now = replace(self.now, **changed)  # type: ignore[arg-type]
        if self._tell is not None:
            self.now = replace(self.now, seconds=(self._clock.now_millis() - self._started) / 1000)
            self._tell(self.now)


class Stopped(BaseException):
    """The operation that this thread works for was stopped; what it was writing is to be removed."""


_here = threading.local()


@contextmanager
def stopping(event: threading.Event) -> Iterator[None]:
    """In the block, this thread's work ends with Stopped soon after the event is set."""
    before = getattr(_here, "event", None)
    _here.event = event
    try:
        yield
    finally:
        _here.event = before


def refuse_stopped() -> None:
    """Raise Stopped where this thread's work is to end. Called between batches of rows: it costs nothing."""
    event: threading.Event | None = getattr(_here, "event", None)
    if event is not None and event.is_set():
        raise Stopped


class Stream(Protocol):
    """What a bar writes to: sys.stderr."""

    def write(self, text: str, /) -> object:
        """Write a text."""

    def flush(self) -> object:
        """Show it."""

    def isatty(self) -> bool:
        """Whether somebody looks."""


class Bar:
    """An `on_progress` that draws one line, over itself, ten times a second at most; nothing on a stream that is no
    terminal, unless `always`."""

    WIDTH = 24

    def __init__(self, stream: Stream, always: bool = False) -> None:
        self._stream = stream
        self._shown = always or stream.isatty()
        self._last: float | None = None
        self._length = 0

    def __call__(self, progress: Progress) -> None:
        """Draw."""
        if not self._shown or (not progress.done and self._last is not None and progress.seconds - self._last < 0.1):
            return
        self._last = None if progress.done else progress.seconds
        share = progress.share or 0.0
        filled = int(share * self.WIDTH)
        line = f"[{'#' * filled}{'.' * (self.WIDTH - filled)}] {share:4.0%} {progress}"
        self._stream.write("\r" + line.ljust(self._length) + ("\n" if progress.done else ""))
        self._stream.flush()
        self._length = 0 if progress.done else len(line)
