"""SIGTERM and SIGHUP end a command as Ctrl-C does: in order, with what is finished kept, and a status that says so.

Commands that go on until they are told to stop (`watch`, `cdc`) take SIGTERM for that themselves.
"""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def end_in_order() -> None:
    """From now on, in a process of the command's own, the first of these signals raises SystemExit in the main thread.
    A second one ends the process at once. What the caller ignores, as nohup does, stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _ended)


def _ended(number: int, frame: FrameType | None) -> None:
    for each in SIGNALS:
        if signal.getsignal(each) is _ended:
            signal.signal(each, signal.SIG_DFL)
    raise SystemExit(128 + number)
