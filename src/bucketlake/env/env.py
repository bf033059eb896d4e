"""Every effect: files, clock, identifiers, randomness, sleep. Nothing else in the package touches them.

An `Env` is picklable and travels to Spark's tasks. Paths are strings: absolute local paths, or URIs
(`s3://…`, `gs://…`, `az://…`, `memory://…`) that one `Storage` serves. Tests swap the storage or the clock.
"""

from __future__ import annotations

import os
import time
from dataclasses import field, replace
from typing import Any, Protocol

from bucketlake.env.clients import spelled_as
from bucketlake.env.keeper import Keeper
from bucketlake.env.local import LocalStorage
from bucketlake.env.storage import Storage
from bucketlake.lazy import np, npt, random, shutil, tempfile, uuid
from bucketlake.values import dataclass

_LARGE_ARRAY = 16 << 20  # bytes of an array that is better kept in a file


def new_scratch_folder(within: str | None = None) -> str:
    """A fresh folder on this machine's disk for what does not outlive the task; remove it by `delete_tree`.

    It lies in the folder `within`, else in the first of Spark's local folders where the process is an executor's, else
    in the system's own.
    """
    return tempfile.mkdtemp(prefix="bucketlake-", dir=within or _scratch())


def program(name: str) -> str | None:
    """The path of the program that a shell would run by this name, None without one."""
    return shutil.which(name)


def _scratch() -> str | None:
    local = os.environ.get("SPARK_LOCAL_DIRS") or os.environ.get("LOCAL_DIRS") or ""
    folder = local.split(",")[0].strip()
    return folder if folder and os.path.isdir(folder) else None


def scratch_array(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of no particular values; a large one in a nameless file on this machine's disk, so that the system can
    put it there when memory is short. It goes with the last reference."""
    kind = np.dtype(dtype)
    if count * kind.itemsize < _LARGE_ARRAY:
        return np.empty(count, kind)
    with tempfile.TemporaryFile(prefix="bucketlake-", dir=_scratch()) as file:
        return np.memmap(file, kind, "w+", shape=(count,))


class Clock(Protocol):
    """Time and chance."""

    def now_millis(self) -> int:
        """Epoch milliseconds."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def new_uuid(self) -> str:
        """A fresh random identifier in the usual 36-character form."""

    def jitter(self) -> float:
        """A random number in [0, 1)."""


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's own time and randomness."""

    def now_millis(self) -> int:
        """See Clock."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """See Clock."""
        time.sleep(seconds)

    def new_uuid(self) -> str:
        """See Clock."""
        return str(uuid.uuid4())

    def jitter(self) -> float:
        """See Clock."""
        return random.random()


@dataclass(frozen=True, slots=True)
class Env:
    """The storage of one warehouse or table, and the clock. Picklable.

    `external`: folders beside a table's own that the session lets its files lie in, where the table declares them too.
    `keeper`: the say that a table's catalog has over what is published; None: the storage alone decides.
    """

    storage: Storage = field(default_factory=LocalStorage)
    clock: Clock = field(default_factory=SystemClock)
    external: tuple[str, ...] = ()
    keeper: Keeper | None = field(default=None, compare=False, repr=False)

    def of_table(self, root: str) -> Env:
        """The same for one table: its own folder, and what the session allows outside, are all that it reaches.

        Storages without `within` (tests wrap them) are taken as they are.
        """
        within = getattr(type(self.storage), "within", None)
        if within is None:
            return self
        return replace(
            self, storage=within(self.storage, (root, *(spelled_as(root, place) for place in self.external)))
        )
