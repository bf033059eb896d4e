"""As test_maintenance, by the public API, tables whose columns are blobs, vectors and shredded maps: rows are deleted and
updated by conditions and partitions are replaced while all the others are at the table, whose store lists what is gone for
a while. In the end a check of the table finds nothing."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.profile import SOAK, later, seeds
from tests.sim.actors import ROLES
from tests.sim.at_once import Run, Serial, schema_of
from tests.sim.late import LateLists
from tests.sim.rich import KINDS, Rich, RichWorld, Told, create
from tests.sim.tables import make_store
from tests.sim.world import Kind, TimedStorage

from bucketlake.env.storage import FileInfo
from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError
from bucketlake.ops.compact import running
from bucketlake.table import Table

WRITES = ("append", "append", "delete", "update", "update")
RICH: dict[str, tuple[tuple[str, ...], int]] = {
    **ROLES,
    "w0": (WRITES, 5),
    "w1": ((*WRITES, "replace", "replace", "drop"), 5),
    "u": (("update", "delete"), 5),
    "x": (("rescale", "sort", "cluster", "materialize", "renumber"), 4),
    "i": (("index", "index", "unindex", "analyze", "alter"), 4),
    "t": (("tag", "tag", "retag", "copy", "branch", "branch"), 5),
}


class TimedLate(LateLists):
    """Files have times, and are listed for a while after they went."""

    def __init__(self, seed: int, timed: TimedStorage) -> None:
        super().__init__(seed)
        self.files = timed.files
        self.timed = timed

    def put_if_absent(self, path: str, data: bytes) -> bool:
        put = self.timed.put_if_absent(path, data)
        if put:
            self._gone.pop(path, None)
        return put

    def info(self, path: str) -> FileInfo | None:
        found = super().info(path)
        return None if found is None else self._dated(found)

    def list(self, path: str) -> list[FileInfo]:
        return [self._dated(info) for info in super().list(path)]

    def walk(self, path: str) -> Any:
        return iter([self._dated(info) for info in super().walk(path)])

    def _dated(self, info: FileInfo) -> FileInfo:
        return replace(info, modified_millis=self.timed.files.times.get(info.path, 0))


class Pool(Serial):
    """One that is shut down by a call."""

    def shutdown(self, wait: bool = True) -> None:
        """Nothing runs."""


@dataclass
class RichRun(Run):
    """One seed. `late`: what is gone is listed for a while; `busy`: writers compact."""

    late: bool = False
    busy: bool = False
    world: RichWorld = field(init=False)

    def __post_init__(self) -> None:
        kind, self.kind = self.kind, Kind("any", -1, ())
        super().__post_init__()
        self.kind, self.world, self.files = kind, RichWorld(kind), self.inner
        self.inner.files.clear()
        options = {**schema_of(Kind("any", kind.bucket, kind.keys)).options, **kind.options}
        if kind.bucket > 0 and not kind.keys:
            options["bucket-key"] = "k"
        if self.busy:
            kept = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
            options = {key: value for key, value in options.items() if key != "write-only"} | kept
        self.store = create(self.files, self.clock, kind, options)
        if self.late:
            self.inner = TimedLate(self.seed, self.files)  # type: ignore[assignment]

    def check(self, where: str) -> None:
        """As it is, whatever is listed."""
        shown, self.inner = self.inner, self.files
        try:
            super().check(where)
        finally:
            self.inner = shown

    def check_clones(self, where: str) -> None:
        """Of tables that have some."""
        if "blob" not in self.kind.name:
            super().check_clones(where)

    def check_followers(self) -> None:
        """See Run: by cells."""
        store = make_store(self.files, self.clock, self.store.schema)
        newest = store.latest_snapshot()
        for actor in self.team:
            if isinstance(actor.follower, Told) and newest is not None:
                actor.follower.store = store
                with suppress(NotFoundError, InvalidError):
                    actor.follower.step()
                    wanted = actor.follower.wanted(newest.uuid or "")
                    assert actor.follower.state == wanted, f"{actor.name} has read {actor.follower.state}, not {wanted}"

    def go(self) -> Counter[str]:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what was given up behind a commit
            patch.setattr(running, "ThreadPoolExecutor", Pool)
            done = super().go()
            store = make_store(self.files, self.clock, self.store.schema)
            found = Table(store.with_schema(store.latest_schema()), "t").fsck(level="rows").findings
            spared = ("orphan", "hint-", "snapshot-zombie", "branch-dead")  # what a death among removals leaves
            left = [str(one) for one in found if not one.code.startswith(spared)]
            assert not left or self.revived, f"fsck: {left}"
        return done


def run(seed: int) -> Counter[str]:
    kind = KINDS[seed % len(KINDS)]
    turn = seed // len(KINDS)
    faults = (0.0, 0.003, 0.01)[turn % 3]
    rolls_back = turn // 3 % 2 == 1
    late, busy = turn // 6 % 2 == 1, turn % 2 == 1
    said = f"seed {seed}, {kind.name}, faults {faults}, back {rolls_back}, late {late}, busy {busy}"
    try:
        return RichRun(seed, kind, faults, rolls_back, Rich, RICH, late, busy).go()
    except (AssertionError, BucketlakeError, LookupError) as error:
        raise AssertionError(f"{said}: {error}") from error


@pytest.mark.parametrize("seed", later([seed * (1 if SOAK else 37) for seed in seeds(6, 1000)], 2))
def test_nobody_loses_a_row(seed: int) -> None:
    assert run(seed)["update"]
