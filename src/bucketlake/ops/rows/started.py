"""Batches of several files, each file asked for before its turn: on an object store a small file costs a request that
waits, whatever its size.

    started(parts, count) -> Iterator[Iterator[RecordBatch]]
    pays(files)                 whether these are so small that their first batches are no load

Spec: docs/spec/reading.md#object-stores
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from bucketlake.format.metadata.manifest import DataFile

AT_ONCE = 8
SMALL_FILE = 1 << 20  # bytes

Batches = Iterator[pa.RecordBatch]


def pays(files: Sequence[DataFile]) -> bool:
    """Whether files are several, and small."""
    return len(files) > 1 and all(file.file_size <= SMALL_FILE for file in files)


def started(parts: Iterable[Batches], count: int = AT_ONCE) -> Iterator[Batches]:
    """The parts in their order, each with its first batch asked for by a thread: up to `count` of them before they are
    wanted. What a part raises is raised where it is read."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting: deque[Batches] = deque()
        for part in parts:
            waiting.append(_begun(pool.submit(next, part, None), part))
            if len(waiting) >= count:
                yield waiting.popleft()
        yield from waiting


def _begun(head: Future[pa.RecordBatch | None], rest: Batches) -> Batches:
    first = head.result()
    if first is not None:
        yield first
        yield from rest
