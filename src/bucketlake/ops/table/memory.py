"""Where Arrow takes large buffers from while rows are gathered and encoded, and when they go back."""

from __future__ import annotations

import threading
from collections.abc import Iterator, MutableSequence
from contextlib import contextmanager

import pyarrow as pa

_RESERVE = 32 << 20  # freed bytes that the allocator may keep while rows are joined

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


def give_back() -> None:
    """Return to the system what the allocator holds in reserve: a full buffer just went, and what is made next has
    other sizes."""
    pa.system_memory_pool().release_unused()


def joined(parts: MutableSequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The parts, which leave their list, as one batch; each column's parts go before the next column is joined, so that
    beside the rows one column at a time is there twice (where the parts' columns have memory of their own)."""
    if len(parts) == 1:
        return parts.pop()
    schema = parts[0].schema
    columns = [[part.column(position) for part in parts] for position in range(len(schema))]
    parts.clear()
    columns.reverse()
    whole: list[pa.Array] = []
    gone = 0
    for _ in range(len(schema)):
        whole.append(pa.concat_arrays(columns.pop()))
        gone += whole[-1].nbytes
        if gone >= _RESERVE:
            give_back()
            gone = 0
    return pa.RecordBatch.from_arrays(whole, schema=schema)
