"""SIGTERM and SIGHUP end a command as Ctrl-C does: in order, with what is finished kept, and a status that says so.

Commands that go on until they are told to stop (`watch`, `cdc`) take SIGTERM for that themselves.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_came: list[int] = []


def end_in_order() -> None:
    """From now on, in a process of the command's own, the first of these signals raises SystemExit in the main thread.
    A second one ends the process at once. What the caller ignores, as nohup does, stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _ended)


def interrupt() -> BaseException:
    """What an error is to be taken for that an interrupt led to: the end of the process, or Ctrl-C."""
    return SystemExit(128 + _came[0]) if _came else KeyboardInterrupt()


def _ended(number: int, frame: FrameType | None) -> None:
    for each in SIGNALS:
        if signal.getsignal(each) is _ended:
            signal.signal(each, signal.SIG_DFL)
    _came.append(number)
    on_interrupt = signal.getsignal(signal.SIGINT)
    if callable(on_interrupt):
        with suppress(KeyboardInterrupt):
            on_interrupt(signal.SIGINT, frame)  # Spark's cancels its jobs, which the main thread may wait for
    raise interrupt()
