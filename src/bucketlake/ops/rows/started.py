"""Batches of several files, each file asked for before its turn: on an object store a small file costs a request that
waits, whatever its size.

    started(parts, count) -> Iterator[Iterator[RecordBatch]]      parts that are read one after the other
    begun_ahead(files, rows)    -> rows(file), of files of which several are read by turns, as a merge does
    pays(files)                 whether these are so small that their first batches are no load

Spec: docs/spec/reading.md#object-stores
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

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


@contextmanager
def begun_ahead(
    files: Sequence[DataFile], rows: Callable[[DataFile], Batches]
) -> Iterator[Callable[[DataFile], Batches]]:
    """`rows`, with the first batches of up to `AT_ONCE` files asked for by threads before they are wanted; `files`: all
    of them, in about the order in which somebody comes to them."""
    waiting = OrderedDict((file.file_name, file) for file in files)
    begun: dict[str, Batches] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def begin(file: DataFile) -> None:
            part = rows(file)
            begun[file.file_name] = _begun(pool.submit(next, part, None), part)

        def read(file: DataFile) -> Batches:
            if file.file_name not in begun:
                waiting.pop(file.file_name, None)
                begin(file)
            own = begun.pop(file.file_name)
            while waiting and len(begun) < AT_ONCE:
                begin(waiting.popitem(last=False)[1])
            yield from own

        try:
            yield read
        finally:
            pool.shutdown(cancel_futures=True)


def _begun(head: Future[pa.RecordBatch | None], rest: Batches) -> Batches:
    first = head.result()
    if first is not None:
        yield first
        yield from rest
