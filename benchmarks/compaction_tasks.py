"""How evenly a compaction's buckets go to Spark's tasks: `python -m benchmarks.compaction_tasks`.

The very grouping of `spark.maintain.jobs` for 64 buckets, whose bytes are drawn, a task's time taken as its bytes (a
full compaction reads and writes what it takes, at one speed). Prints by spread and slots: the slowest task over the
mean of all (the mark is 1.3), and the end of the last task over what is left when all slots always work.
"""

from __future__ import annotations

import heapq
import random
import statistics
from collections.abc import Callable, Sequence

from bucketlake.spark.maintain.jobs import balanced

BUCKETS, SEEDS, MEAN = 64, 200, 128 << 20
SPREADS: dict[str, Callable[[random.Random], float]] = {
    "hashed keys (2 % apart)": lambda chance: chance.gauss(1, 0.02),
    "a factor of two apart": lambda chance: chance.uniform(2 / 3, 4 / 3),
    "log-normal, sigma 0.5": lambda chance: chance.lognormvariate(0, 0.5),
    "log-normal, sigma 1 (the largest some ten times the median)": lambda chance: chance.lognormvariate(0, 1),
}


def ended(groups: Sequence[int], slots: int) -> float:
    """When the last group is done, each taken by the first slot that is free."""
    free = [0.0] * slots
    for size in groups:
        heapq.heapreplace(free, free[0] + size)
    return max(free)


def main() -> None:
    """Draw, group, print a table."""
    print("| bytes of 64 buckets | slots | tasks | slowest task / mean | over 1.3 | end / perfect |")
    print("|---|---|---|---|---|---|")
    for name, draw in SPREADS.items():
        for slots in (2, 4, 8, 16):
            counts, uneven, ends = [], [], []
            for seed in range(SEEDS):
                chance = random.Random(seed)
                sizes = [int(max(draw(chance), 0.01) * MEAN) for _ in range(BUCKETS)]
                groups = [sum(group) for group in balanced(sizes, slots, lambda size: size)]
                counts.append(len(groups))
                uneven.append(max(groups) / statistics.mean(groups))
                ends.append(ended(groups, slots) / max(sum(sizes) / slots, max(sizes)))
            worst, missed = max(uneven), sum(one > 1.3 for one in uneven) / SEEDS
            print(
                f"| {name} | {slots} | {statistics.median(counts):.0f} | {statistics.median(uneven):.2f} "
                f"(to {worst:.2f}) | {missed:.0%} | {statistics.median(ends):.2f} (to {max(ends):.2f}) |"
            )


if __name__ == "__main__":
    main()
