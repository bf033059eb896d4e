"""A conditional put that fails, and takes effect later: in the midst of the same change, of the next one, or after both. It
is refused then where its name was taken meanwhile. What is said to be done is done once, and nothing that is there lacks
files."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import pytest
from tests.profile import later, seeds
from tests.sim.storage import FaultStorage, MapStorage
from tests.sim.test_interrupted import CHANGES, KINDS, copied, faults, seen, state, through
from tests.sim.test_meanwhile import BOTH, done, in_turn

from bucketlake.errors import BucketlakeError, StorageError

NEXT = {
    "write": BOTH["replace rows"],
    "update": BOTH["update"],
    "compact": CHANGES["compact"],
    "expire": CHANGES["expire"],
    "option": BOTH["option"],
    "delete": CHANGES["delete"],
}
ROUNDS = 6


class LatePuts(FaultStorage):
    """One put fails and is held back for so many calls."""

    def __init__(self, inner: MapStorage, held: int, calls: int) -> None:
        super().__init__(inner)
        self._held, self._left = held, calls
        self.late: tuple[str, bytes] | None = None
        self.landed: bool | None = None

    def _call(self, operation: str, path: str, *rest: Any) -> Any:
        if self.late is not None:
            self._left -= 1
            if self._left < 0:
                self.land()
        if operation == "put_if_absent":
            self._held -= 1
            if self._held == -1:
                self.late = path, rest[0]
                raise StorageError("no answer", path=path, operation=operation)
        return super()._call(operation, path, *rest)

    def land(self) -> None:
        """It takes effect now, if its name is free."""
        if self.late is not None:
            self.landed = self.inner.put_if_absent(*self.late)
            self.late = None


def rows(found: Any) -> Any:
    return None if found is None else found[""]


@pytest.mark.parametrize("seed", later([*seeds(12, 20_000)], 3))
def test_a_put_that_takes_effect_late(seed: int) -> None:
    chance = Random(f"late puts {seed}")
    kind, first, second = chance.choice(list(KINDS)), chance.choice(list(CHANGES)), chance.choice(list(NEXT))
    change, following = CHANGES[first], NEXT[second]
    plain = FaultStorage(copied(kind))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was given up behind a commit
        if not done(change, plain) or not done(following, copied(kind)):
            return  # not of this kind of table
        puts = sum(call == "put_if_absent" for call, _ in plain.calls)
        alone = in_turn(kind, change)
        known = [in_turn(kind), alone, in_turn(kind, following), in_turn(kind, change, following)]
        known.append(in_turn(kind, following, change))
        for _ in range(ROUNDS if puts else 0):
            inner, held = copied(kind), chance.randrange(puts)
            storage = LatePuts(inner, held, int(chance.expovariate(1 / 40)))
            ended = done(change, storage)
            between = rows(state(inner)) if inner.files else None
            went = done(following, storage)
            said = f"seed {seed}: {kind}, {first} with put {held} late, then {second}: {ended}, {went}"
            assert not ended or between in (rows(alone),), f"{said}\nnow {between}\nwanted {rows(alone)}"
            storage.land()
            through(inner)
            said += f", landed {storage.landed}"
            try:
                now = state(inner)
            except BucketlakeError as error:
                raise AssertionError(f"{said}: {error}") from error
            assert rows(now) in [rows(one) for one in known], f"{said}\nnow {rows(now)}\nknown {list(map(rows, known))}"
            if ended and went:
                assert rows(now) == rows(known[3]), said
            assert not faults(inner), f"{said} {faults(inner)}"
            table = through(inner).table("t")
            before = seen(table)
            table.write_arrow([{"k": 99, "p": 1}])
            assert sorted(map(repr, seen(table))) == sorted(map(repr, [*before, (99, None, 1)])), said
