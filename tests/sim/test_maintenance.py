"""One table and everybody at it: writers (appends, deletes, merges, loads of files), compactors, a sorter, a rescaler,
expirers of snapshots, changelogs and partitions, a tagger, clones, a stream's reader, rollbacks of both kinds and an
orphan cleaner, interleaved at every storage call by a seed, with faults, kills, interrupts and jumps of the clock.

Each snapshot's rows follow from those of the snapshot that it was made on and from what its commit means. Every snapshot
and tag that is left must hold just these rows, before and after a last compaction and a last cleaning: no row is lost,
none comes back, no live file is deleted.
"""

from __future__ import annotations

from collections import Counter

from tests.profile import SOAK, number, often
from tests.sim.actors import ROLES
from tests.sim.at_once import Run
from tests.sim.world import (
    KINDS,
)

from bucketlake.errors import BucketlakeError

FIRST = number("BUCKETLAKE_SIM_FIRST", 0, 0)
SEEDS = [FIRST + place * (1 if SOAK else 37) for place in range(number("BUCKETLAKE_SIM_SEEDS", 6, 10_000))]


def run(seed: int) -> Counter[str]:
    """One seed decides the kind of table, too."""
    kind = KINDS[seed % len(KINDS)]
    faults = (0.0, 0.003, 0.01)[seed // len(KINDS) % 3]
    rolls_back = seed // (3 * len(KINDS)) % 2 == 1
    try:
        return Run(seed, kind, faults, rolls_back).go() + Counter({kind.name: 1})
    except (AssertionError, BucketlakeError, LookupError) as error:
        raise AssertionError(f"seed {seed}, {kind.name}, faults {faults}, back {rolls_back}: {error}") from error


def test_nobody_loses_a_row() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        seen += run(seed)
    assert min(seen[action] for actions, _ in ROLES.values() for action in actions) > often(100), seen
