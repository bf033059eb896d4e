"""Streams of tables whose store lists for long what is gone: each change is told once, or the stream says what it lacks;
a table that is dropped and made again is another one.
"""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import product

import pytest
from tests.ops.streams import KEYED, SCHEMA, Reader
from tests.profile import first, seeds
from tests.sim.clock import FakeClock
from tests.sim.late import MOST, LateLists
from tests.sim.test_late_lists import DAYS, rows_of

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import AlreadyExistsError, BucketlakeError, InvalidError, NotFoundError
from bucketlake.ops.table.store import clear_cache
from bucketlake.table import Table

KINDS = {"append": {}, **{name: KEYED[name] for name in ("none", "lookup", "dynamic", "vectors", "postpone")}}
FEW = {"num-sorted-run.compaction-trigger": "3", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"}


class Streamed:
    """A table, what it must hold, and a stream of it with a consumer (`kept`) or without."""

    def __init__(self, kind: str, seed: int, kept: bool) -> None:
        self.kind, self.kept, self.chance = kind, kept, random.Random(f"{kind} {seed} {kept}")
        self.files, self.clock = LateLists(seed), FakeClock(seed)
        self.rows: dict[int, int] = {}
        self.told = 0
        self.make()

    def make(self) -> None:
        """A new table, and a stream that begins with it."""
        keys = [] if self.kind == "append" else ["k"]
        for _ in range(2 * MOST):
            try:
                Catalog(Env(self.files, self.clock), "/wh").create_table("t", SCHEMA, (), keys, FEW | KINDS[self.kind])
                break
            except (AlreadyExistsError, InvalidError):
                continue  # the table before is still listed
        self.rows, self.reader = {}, self.begun()

    def begun(self) -> Reader:
        """A stream that begins with all rows."""
        return Reader(self.table(), **({"consumer-id": "c"} if self.kept else {}))

    def table(self) -> Table:
        """As another process has it."""
        if self.chance.random() < 0.5:
            clear_cache()
        return Catalog(Env(self.files, self.clock), "/wh").table("t")

    def step(self, number: int) -> None:
        what = self.chance.choice(["write"] * 5 + ["read"] * 4 + ["compact", "expire", "expire", "clean", "again"])
        if what == "write":
            key = number if self.kind == "append" else self.chance.randrange(6)
            self.table().write_arrow([{"k": key, "v": number}])
            self.rows[key] = number
        elif what == "read":
            self.read()
        elif what == "compact":
            self.table().compact(full=self.chance.random() < 0.5)
        elif what == "expire":
            self.table().expire_snapshots(retain_max=1, retain_min=1)
        elif what == "clean":
            self.clock.millis += DAYS
            self.table().remove_orphan_files()
        elif self.chance.random() < 0.3:
            Catalog(Env(self.files, self.clock), "/wh").drop_table("t")
            old, told = self.reader, len(self.reader.told)
            self.make()
            self.table().write_arrow([{"k": 77, "v": number}])
            self.rows[77] = number
            old.table = self.table().with_options({"consumer-id": "c"} if self.kept else {})
            with suppress(BucketlakeError):
                old.read_all()
            # what it tells is of the new table alone: a stream that had read nothing goes on with it
            assert old.told[told:] in ([], [("+I", 77, number)])

    def read(self) -> None:
        """Read what there is; the rows told are those of the table."""
        self.reader.table = self.table().with_options({"consumer-id": "c"} if self.kept else {})
        try:
            self.reader.read_all()
        except (NotFoundError, InvalidError):
            assert not self.kept, "what a consumer has not read stays"
            self.reader = self.begun()
            self.reader.read_all()
        self.told += 1
        found = self.reader.state
        assert sorted(found.items()) == sorted(self.rows.items())
        if self.kind != "postpone":  # pending rows are told before they are read
            assert rows_of(self.table().to_arrow()) == sorted(self.rows.items())


@pytest.mark.parametrize(("kind", "kept"), first(list(product(KINDS, (True, False))), 6))
@pytest.mark.filterwarnings("ignore")
def test_streams_of_a_store_that_lists_what_is_gone(kind: str, kept: bool) -> None:
    for seed in seeds(1, 40):
        one = Streamed(kind, seed, kept)
        for number in range(40):
            one.step(number)
        one.read()
