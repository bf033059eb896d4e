"""How many tasks write, and which bucket each owns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.ops.buckets.write_plan import MOST_LOAD, MOST_TASKS, overload, owners, tasks_for


@given(st.integers(1, 5000), st.integers(1, 64), st.integers(1, 256))
def test_tasks_have_at_most_a_hundred_groups(partitions: int, buckets: int, parallelism: int) -> None:
    tasks = tasks_for(partitions, buckets, parallelism)
    assert tasks >= parallelism
    assert partitions * buckets / tasks <= MOST_LOAD or tasks == MOST_TASKS
    if partitions * buckets <= MOST_LOAD * parallelism:
        assert tasks == parallelism
    assert (overload(partitions, buckets, tasks) is None) == (partitions * buckets <= MOST_LOAD * tasks)


def test_the_warning_has_the_three_numbers() -> None:
    text = overload(2000, 8, 4) or ""
    assert "2,000 partitions x 8 buckets / 4 writer tasks = 4,000" in text
    assert "fewer buckets" in text


@given(st.integers(1, 400), st.integers(1, 70))
def test_equal_buckets_are_dealt_out_in_turn(buckets: int, tasks: int) -> None:
    assert owners([5] * buckets, tasks) == [bucket % tasks for bucket in range(buckets)]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300), st.integers(1, 64))
def test_every_bucket_has_one_owner_and_none_has_much_more_than_its_share(weights: list[int], tasks: int) -> None:
    found = owners(weights, tasks)
    assert len(found) == len(weights)
    assert set(found) <= set(range(tasks))
    loads = np.bincount(found, weights=weights, minlength=tasks)
    assert loads.max() <= sum(weights) / tasks + max(weights) + len(weights)


def test_skewed_buckets_are_spread_evenly() -> None:
    """1,000 buckets on 64 tasks: the slowest task within 1.3 of the mean, or it has one bucket that is larger alone."""
    chance = np.random.default_rng(7)
    for sigma in (0.5, 1.0, 1.5):
        weights = (chance.lognormal(0, sigma, 1000) * 1e6).astype(int).tolist()
        loads = np.bincount(owners(weights, 64), weights=weights, minlength=64)
        assert loads.max() < max(1.3 * loads.mean(), max(weights) + 1)
        assert sigma > 1 or loads.max() < 1.3 * loads.mean()
