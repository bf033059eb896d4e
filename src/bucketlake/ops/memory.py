"""Where Arrow takes large buffers from while rows are gathered and encoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa


@contextmanager
def large_buffers() -> Iterator[None]:
    """Take Arrow's buffers from the system's allocator while this lasts, whatever pool the process uses.

    A write fills hundreds of megabytes once and gives them back. The pool that pyarrow prefers is slow to hand out
    memory that it did not hold before: a quarter of a write's time went into it.
    """
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)
