"""A whole other change between any two calls of a change of a chain table or of one of its branches: what each branch and
the table show is what one after the other makes; where one commits to both branches, each of them. Where such a change
fails half-way, what it wrote stays hidden: the table shows what the other makes alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from tests.profile import later, seeds
from tests.sim.storage import FaultStorage, MapStorage
from tests.sim.test_chain_faults import CHANGES, DELTA, WHOLE, ago, faults, made, rows, state, through

from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError
from bucketlake.schema.change import SetOption

BOTH: dict[str, Callable[[Catalog], Any]] = {
    **CHANGES,
    "upsert": lambda c: c.table(DELTA).write_arrow(rows((ago(10), 2, 99), (ago(20), 5, 99))),
    "new delta": lambda c: c.table(DELTA).write_arrow(rows((ago(5), 1, 97), (ago(5), 6, 97))),
    "between": lambda c: c.table(DELTA).write_arrow(rows((ago(15), 1, 96))),
    "old delta": lambda c: c.table(DELTA).write_arrow(rows((ago(70), 7, 95))),
    "delete": lambda c: c.table(DELTA).delete("k = 2"),
    "update": lambda c: c.table(DELTA).update({"s": 98}, f"dt = '{ago(10)}'"),
    "drop delta": lambda c: c.table(DELTA).drop_partitions([{"dt": ago(10)}]),
    "drop whole": lambda c: c.table(WHOLE).drop_partitions([{"dt": ago(90)}]),
    "whole": lambda c: c.table(WHOLE).write_arrow(rows((ago(12), 9, 94))),
    "whole again": lambda c: c.table(WHOLE).write_arrow(rows((ago(20), 9, 94))),
    "replace whole": lambda c: c.table(WHOLE).write_arrow(rows((ago(20), 8, 93)), mode="overwrite"),
    "compact delta": lambda c: c.table(DELTA).compact(full=True),
    "compact whole": lambda c: c.table(WHOLE).compact(full=True),
    "expire delta": lambda c: c.table(DELTA).expire_snapshots(retain_max=1, retain_min=1),
    "expire whole": lambda c: c.table(WHOLE).expire_snapshots(retain_max=1, retain_min=1),
    "orphans": lambda c: c.table("t").remove_orphan_files(older_than="2100-01-01 00:00:00"),
    "tag": lambda c: c.table(DELTA).create_tag("v"),
    "manifests": lambda c: c.table(DELTA).compact_manifests(),
    "rollback": lambda c: c.table(DELTA).rollback_to_as_latest(2),
    "option": lambda c: c.table(DELTA).alter(SetOption("snapshot.num-retained.max", "70")),
    "drop 60": lambda c: c.table(WHOLE).drop_partitions([{"dt": ago(60)}]),
    "main": lambda c: c.table("t").write_arrow(rows((ago(3), 1, 92))),
}
TWO = {"overwrite", "expire", "rollback", "drop delta"}  # commits to both branches
POINTS = 10
State = list[list[tuple[Any, ...]]]


@cache
def first_files() -> dict[str, bytes]:
    return made().files


def copied() -> MapStorage:
    storage = MapStorage()
    storage.files = dict(first_files())
    return storage


def done(change: Callable[[Catalog], Any], storage: Any) -> bool:
    """Whether a change succeeds."""
    try:
        change(through(storage))
    except BucketlakeError:
        return False
    return True


def in_turn(*changes: Callable[[Catalog], Any]) -> State:
    storage = copied()
    for change in changes:
        done(change, storage)
    return state(storage)


@pytest.mark.parametrize("seed", later([*seeds(8, 3000)], 1))
def test_what_comes_out_is_what_one_after_the_other_makes(seed: int) -> None:
    chance = Random(seed)
    first, second = chance.choice(list(BOTH)), chance.choice(list(BOTH))
    check(f"seed {seed}", first, second, lambda calls: chance.sample(range(calls), min(POINTS, calls)))


PAIRS = [("expire", "overwrite"), ("overwrite", "expire"), ("expire", "drop 60"), ("compact", "drop delta")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_changes_of_both_branches_beside_one_another(first: str, second: str) -> None:
    """What takes away the partition that an expiry builds on, and deltas that were just compacted."""
    check("both", first, second, lambda calls: range(1, calls, 4))


def check(name: str, first: str, second: str, points: Callable[[int], Sequence[int]]) -> None:
    """One change, and another at each of the points of its calls."""
    change, other = BOTH[first], BOTH[second]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was given up behind a commit
        plain = FaultStorage(copied())
        if not done(change, plain) or not done(other, copied()):
            return
        alone, beside = in_turn(change), in_turn(other)
        serial = [in_turn(change, other), in_turn(other, change)]
        for at in sorted(points(len(plain.calls))):
            storage = copied()
            begun: list[int] = []
            went: list[bool] = []

            def meanwhile(k: int, operation: str, path: str, storage: MapStorage = storage, at: int = at) -> None:
                if k == at and not begun:
                    begun.append(k)
                    went.append(done(other, storage))
                    through(storage)

            ended = done(change, FaultStorage(storage, meanwhile))
            said = f"{name}: {first} and at call {at}, {plain.calls[at]}, {second}; {ended}, {went}"
            try:
                now = state(storage)
            except BucketlakeError as error:
                raise AssertionError(f"{said}: {error}") from error
            wanted = [*serial, *([] if ended else [beside]), *([] if went == [True] else [alone])]
            hidden = not ended and now[1:] == beside[1:]
            if now not in wanted and not hidden:
                for place, branch in enumerate(("delta", "whole")):
                    assert now[place] in [one[place] for one in wanted], f"{said}\n{branch} {now}\nwanted {wanted}"
                assert {first, second} & TWO, f"{said}\nnow {now}\nwanted {wanted}"
            assert not faults(storage), f"{said} {faults(storage)}"
