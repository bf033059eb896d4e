"""One leader among many: a lease in the warehouse, by put-if-absent alone.

    <warehouse>/.bucketlake/maintenance/lease-<n>       {"holder": …, "until": epoch millis}

The highest number counts, until its time is over. Who wants to hold or to keep it puts the next number: of several one
succeeds. Numbers only rise. Leadership saves work and nothing else: what two leaders do at a time is as safe as what
any two maintainers do, so a clock that is wrong, or a leader that slept through its time, does no harm.

Spec: docs/spec/maintenance.md#lease
"""

from __future__ import annotations

import json

from bucketlake.env.env import Env
from bucketlake.errors import CorruptError, NotFoundError
from bucketlake.file_names import number_of
from bucketlake.format.guard import LARGEST_LONG, decoding, json_object
from bucketlake.values import dataclass

FOLDER = ".bucketlake/maintenance"
_PREFIX = "lease-"
_LONGEST = 10  # times as long as ours another's may last: what ends later is of a wrong clock, and nobody's


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as it is written."""

    number: int
    holder: str
    until: int


class Lease:
    """The lease of a warehouse, as one process sees it. `millis`: for how long it is taken each time."""

    def __init__(self, env: Env, warehouse: str, holder: str, millis: int) -> None:
        self._storage, self._clock = env.storage, env.clock
        self._folder = f"{warehouse.rstrip('/')}/{FOLDER}"
        self.holder, self._millis = holder, millis
        self._mine: Held | None = None

    def current(self) -> Held | None:
        """Who holds it, or held it last; None: nobody ever did."""
        numbers = self._numbers()
        while numbers:
            number = numbers.pop()
            path = self._path(number)
            try:
                data = self._storage.read(path)
                with decoding("not a lease", path):
                    found = json_object(data)
                    return Held(number, str(found["holder"]), int(found["until"]))
            except NotFoundError:  # the next one is there: look again
                numbers = numbers or self._numbers()
            except CorruptError:  # whatever this is, nobody holds the lease by it
                return Held(number, "", 0)
        return None

    def hold(self) -> bool:
        """Take or keep the lease; whether it is ours. A lease that has most of its time left is not written anew.
        Errors: StorageError, CorruptError."""
        now = self._clock.now_millis()
        mine = self._mine
        if mine is not None and self._millis // 2 < mine.until - now <= self._millis:
            return True
        found = self.current()
        longest = _LONGEST * self._millis
        if found is not None and found.holder != self.holder and 0 < found.until - now <= longest:
            self._mine = None
            return False
        number = 1 if found is None else found.number + 1
        if found is not None and number > LARGEST_LONG:
            what = "no number is left behind that of a lease"
            raise CorruptError(what, path=self._path(found.number), remedy="remove the file: no maintainer wrote it")
        wanted = Held(number, self.holder, now + self._millis)
        text = json.dumps({"holder": wanted.holder, "until": wanted.until})
        if not self._storage.put_if_absent(self._path(number), text.encode()):
            again = self.current()
            won = again is not None and again.holder == self.holder and again.number == number  # an answer was lost
            self._mine = again if won else None
            return won
        self._mine = wanted
        for old in self._numbers():
            if old < number:
                self._storage.delete(self._path(old))
        return True

    def release(self) -> None:
        """Let others have it at once, if it is still ours."""
        found = self.current()
        if self._mine is not None and found is not None and found.holder == self.holder and found.number < LARGEST_LONG:
            text = json.dumps({"holder": self.holder, "until": 0})
            self._storage.put_if_absent(self._path(found.number + 1), text.encode())
            self._storage.delete(self._path(found.number))
        self._mine = None

    def _numbers(self) -> list[int]:
        names = (info.name.removeprefix(_PREFIX) for info in self._storage.list(self._folder) if not info.is_dir)
        return sorted(number for name in names if (number := number_of(name)) is not None)

    def _path(self, number: int) -> str:
        return f"{self._folder}/{_PREFIX}{number}"


class Alone:
    """Stands for a lease where the warehouse has no folder to keep one in: this maintainer leads, whoever else does.
    What two leaders do at a time is safe, and work done twice."""

    def __init__(self, holder: str) -> None:
        self.holder = holder

    def hold(self) -> bool:
        """Always."""
        return True

    def release(self) -> None:
        """Nothing to give back."""
