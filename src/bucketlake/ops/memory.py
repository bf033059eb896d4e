"""Where Arrow takes large buffers from while rows are gathered and encoded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

_LOCK = threading.Lock()
_users = 0
_usual: pa.MemoryPool | None = None


@contextmanager
def large_buffers() -> Iterator[None]:
    """Take Arrow's buffers from the system's allocator while this lasts, whatever pool the process uses.

    A write fills hundreds of megabytes once and gives them back. The pool that pyarrow prefers is slow to hand out
    memory that it did not hold before: a quarter of a write's time went into it.
    """
    global _users, _usual
    with _LOCK:
        _users += 1
        if _users == 1:  # writers in several threads overlap: the first changes the pool, the last gives it back
            _usual = pa.default_memory_pool()
            pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        with _LOCK:
            _users -= 1
            if _users == 0 and _usual is not None:
                pa.set_memory_pool(_usual)
