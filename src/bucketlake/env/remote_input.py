"""A file that lies far away: each request waits before its first byte, and one connection alone is slow.

    class X(RemoteInput): _fetch(place, count)     X(size, end) is a seekable file
    ask_ahead(file, ranges)                        what will be read next of a file that may be such a one

Large ranges are fetched in parts at once, small ones as the first of a larger one; who reads on and on is fetched for
before he asks.

Spec: docs/spec/reading.md#object-stores
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import BinaryIO

from bucketlake.env.ranges import RangedInput
from bucketlake.values import dataclass

PART_BYTES = 4 << 20
NEAR_BYTES = 1 << 18  # what is read at least, and between ranges that are read as one
AHEAD_BYTES = 64 << 20  # of one file, asked for and not yet read
AT_ONCE = 8
ON = 4  # parts that are asked for where a file is read on

Ranges = Sequence[tuple[int, int]]


def ask_ahead(file: BinaryIO, ranges: Callable[[], Ranges]) -> None:
    """Say which ranges (place, count) of a file are read next, where that saves time. It changes nothing else."""
    if isinstance(file, RemoteInput):
        file.ahead(ranges())


@dataclass(slots=True)
class _Part:
    """Bytes that were asked for. `left`: how many of them nobody has read."""

    size: int
    data: Future[bytes]
    left: int


class RemoteInput(RangedInput):
    """`end`: the last bytes, which are known already."""

    def __init__(self, size: int, end: bytes) -> None:
        super().__init__(size)
        self._end, self._end_at = end, size - len(end)
        self._near, self._near_at = b"", 0  # what was read last for the sake of few bytes
        self._on = self._stride = 0  # where one reads who reads on, and how much he got last
        self._asked: dict[int, _Part] = {}  # by place, in order

    @abstractmethod
    def _fetch(self, place: int, count: int) -> bytes:
        """So many bytes from a place on, all of which are there. Threads call it."""

    def read(self, count: int | None = -1) -> bytes:
        """See io.RawIOBase; all that was asked for, unless the file ends before."""
        left = max(0, self._size - self._place)
        data = self._at(self._place, left if count is None or count < 0 else min(count, left))
        self._place += len(data)
        return data

    def close(self) -> None:
        """See io.RawIOBase."""
        if not self.closed:
            self.ahead(())
        super().close()

    def ahead(self, ranges: Ranges) -> None:
        """See `ask_ahead`. What was asked for before and is not among it is given up."""
        before, wanted = self._asked, list(_joined(ranges))
        self._asked = {}
        for start, part in before.items():
            if any(place < start + part.size and start < place + count for place, count in wanted):
                self._asked[start] = part
            else:
                part.data.cancel()
        room = AHEAD_BYTES - sum(part.size for part in self._asked.values())
        for start, size in [missing for one in wanted for missing in self._missing(*one)]:
            room -= size
            if room < 0:
                break
            self._asked[start] = _Part(size, _threads().submit(self._fetch, start, size), size)
        self._asked = dict(sorted(self._asked.items()))

    def _missing(self, place: int, count: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that nobody has asked for."""
        place, end = max(place, 0), min(place + count, self._end_at)
        for start, part in self._asked.items():
            yield from _parts(place, min(start, end) - place)
            place = max(place, start + part.size)
        yield from _parts(place, end - place)

    def _at(self, place: int, count: int) -> bytes:
        found: list[bytes] = []
        while count > 0 and (some := self._some(place, count)):
            found.append(some)
            place, count = place + len(some), count - len(some)
        return found[0] if len(found) == 1 else b"".join(found)

    def _some(self, place: int, count: int) -> bytes:
        """The first of so many bytes: as many as lie together."""
        if place >= self._end_at:
            return self._end[place - self._end_at :][:count]
        if self._near_at <= place < self._near_at + len(self._near):
            return self._near[place - self._near_at :][:count]
        starts = list(self._asked)
        later = bisect_right(starts, place)
        if later and place < starts[later - 1] + self._asked[starts[later - 1]].size:
            return self._asked_for(starts[later - 1], place, count)
        bound = min([self._end_at, *starts[later : later + 1]])
        count = min(count, bound - place)
        self._stride = min(2 * self._stride, PART_BYTES) if place == self._on else 0
        wanted = max(count, min(max(NEAR_BYTES, self._stride), bound - place))
        self._on, self._stride = place + wanted, wanted
        if wanted > PART_BYTES:
            parts = [_threads().submit(self._fetch, *part) for part in _parts(place, wanted)]
            return b"".join(part.result() for part in parts)
        if wanted == PART_BYTES > count:
            self.ahead([(self._on, ON * PART_BYTES)])
            self._on = min(self._on + ON * PART_BYTES, self._end_at)
        data = self._fetch(place, wanted)
        if wanted > count:
            self._near, self._near_at = data, place
        return data[:count]

    def _asked_for(self, start: int, place: int, count: int) -> bytes:
        part = self._asked[start]
        try:
            found = part.data.result()[place - start :][:count]
        except BaseException:
            self.ahead(())  # who reads again asks again
            raise
        part.left -= len(found)
        if part.left <= 0:  # no byte is read twice
            del self._asked[start]
        return found


def _joined(ranges: Ranges) -> Iterator[tuple[int, int]]:
    """The ranges in order, those that lie near one another as one."""
    start = end = -1
    for place, count in sorted(ranges):
        if start >= 0 and place - end <= NEAR_BYTES:
            end = max(end, place + count)
            continue
        if start >= 0:
            yield start, end - start
        start, end = place, place + count
    if start >= 0:
        yield start, end - start


def _parts(place: int, count: int) -> Iterator[tuple[int, int]]:
    for start in range(place, place + count, PART_BYTES):
        yield start, min(PART_BYTES, place + count - start)


@cache
def _threads() -> ThreadPoolExecutor:
    """Those that wait for answers, of all files of the process."""
    return ThreadPoolExecutor(AT_ONCE, "bucketlake-ahead")
