"""Which bucket a key of a dynamic table gets, against a plain model of the rules."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.profile import examples

from bucketlake.errors import InvalidError
from bucketlake.ops.buckets import assigner
from bucketlake.ops.buckets.assigner import (
    BucketRule,
    PartitionBuckets,
    assigners_of,
    fill,
    first_load_buckets,
    first_load_count,
    run_of,
    spread,
)
from bucketlake.options.options import TableOptions

LOW, HIGH = -(2**31), 2**31 - 1
few = st.one_of(st.integers(-12, 12), st.sampled_from([LOW, LOW + 1, HIGH]))
batches = st.lists(st.lists(few, max_size=20), max_size=6)
rules = st.builds(BucketRule, st.integers(1, 5), st.none(), st.integers(1, 4))


def array(values: list[int]) -> np.ndarray:
    return np.array(values, np.int32)


def model(known: dict[int, int], rule: BucketRule, arrivals: list[list[int]]) -> dict[int, int]:
    """Hash -> bucket, one hash after the other, as Paimon's assigners do it one row after the other."""
    found, counts = dict(known), Counter(known.values())
    for value in (value for batch in arrivals for value in batch):
        if value in found:
            continue
        owner = abs(value) % rule.assigners
        own = [b for b in sorted(counts) if b % rule.assigners == owner and counts[b] < rule.target]
        bucket = own[0] if own else next(b for b in range(owner, 10_000, rule.assigners) if b not in counts)
        found[value] = bucket
        counts[bucket] += 1
    return found


def assigned(known: dict[int, int], rule: BucketRule, arrivals: list[list[int]]) -> dict[int, int]:
    run, torn = run_of((b, array([h for h, at in known.items() if at == b])) for b in sorted(set(known.values())))
    assert not len(torn)
    table = PartitionBuckets(rule, dict(Counter(known.values())))
    table.load(range(rule.assigners), run)
    found = dict(known)
    for batch in arrivals:
        result = table.assign(array(batch)).tolist()
        assert len(result) == len(batch)
        for value, bucket in zip(batch, result, strict=True):
            assert found.setdefault(value, bucket) == bucket, "one hash, one bucket"
    new = {value: bucket for value, bucket in found.items() if value not in known}
    for bucket in {*new.values(), 10_000}:
        assert table.added(bucket).tolist() == sorted(value for value, at in new.items() if at == bucket)
    return found


@given(st.dictionaries(few, st.integers(0, 6)), rules, batches)
@settings(max_examples=examples(100, 2400), deadline=None)
def test_batches_are_assigned_as_single_rows_would_be_batch_by_batch(
    known: dict[int, int], rule: BucketRule, arrivals: list[list[int]]
) -> None:
    found = assigned(known, rule, arrivals)
    expected = model(known, rule, arrivals)
    assert found == expected


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 20), min_size=1), st.integers(1, 200))
def test_spreading_levels_the_buckets(counts: dict[int, int], new: int) -> None:
    shares = spread(counts, new)
    assert sum(shares.values()) == new
    assert all(share > 0 for share in shares.values())
    after = {bucket: count + shares.get(bucket, 0) for bucket, count in counts.items()}
    level = max(after[bucket] for bucket in shares)
    assert all(after[bucket] >= level - 1 for bucket in counts)


def test_beyond_the_most_buckets_those_there_are_take_the_rest() -> None:
    rule = BucketRule(target=2, most=3)
    assert fill({}, 6, rule) == {0: 2, 1: 2, 2: 2}
    assert fill({0: 2, 1: 2, 2: 1}, 8, rule) == {2: 3, 0: 3, 1: 2}
    assert fill({5: 9}, 5, rule) == {0: 2, 1: 2, 2: 1}, "a bucket above a limit that was lowered stays"
    assert sum(fill({0: 10, 1: 0}, 3, BucketRule(1, 2)).values()) == 3


def test_assigners_keep_to_their_own_buckets() -> None:
    for owner in range(3):
        assert all(bucket % 3 == owner for bucket in fill({0: 1, 4: 1}, 20, BucketRule(2, None, 3), owner))
    assert fill({0: 1, 4: 1}, 3, BucketRule(2, None, 3), 1) == {4: 1, 1: 2}
    one = PartitionBuckets(BucketRule(2, None, 3, owner=1))
    assert one.assign(array(list(range(9)))).tolist() == [1, 1, 4, 4, 7, 7, 10, 10, 13], (
        "one task has a range of its own"
    )


def test_no_bucket_number_left_is_an_error_with_the_remedy() -> None:
    with pytest.raises(InvalidError, match="Too more bucket 32766, you should increase target bucket row number 1"):
        fill({}, 32768, BucketRule(1))
    assert fill({}, 32767, BucketRule(1))[32766] == 1


@pytest.mark.parametrize(
    ("options", "tasks", "expected"),
    [
        ({}, 1, 1),
        ({}, 8, 8),
        ({"dynamic-bucket.assigner-parallelism": "3"}, 8, 3),
        ({"dynamic-bucket.initial-buckets": "5", "dynamic-bucket.assigner-parallelism": "3"}, 8, 5),
        ({"dynamic-bucket.max-buckets": "2"}, 8, 2),
        ({"dynamic-bucket.max-buckets": "2", "dynamic-bucket.initial-buckets": "5"}, 1, 2),
    ],
)
def test_shares_follow_the_options(options: dict[str, str], tasks: int, expected: int) -> None:
    assert assigners_of(TableOptions(options), tasks) == expected


@pytest.mark.parametrize("option", ["dynamic-bucket.max-buckets", "dynamic-bucket.target-row-num"])
def test_limits_that_are_none_are_refused(option: str) -> None:
    with pytest.raises(InvalidError, match=option):
        BucketRule.of(TableOptions({option: "0"}))


@given(st.lists(st.lists(st.integers(LOW, HIGH)), max_size=5), st.booleans())
def test_files_become_one_run(files: list[list[int]], sliced: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assigner, "_LEAST_SLICE", 0 if sliced else 1 << 16)
        run, torn = run_of((3 * number, array(values)) for number, values in enumerate(files))
    places: dict[int, set[int]] = {}
    for number, values in enumerate(files):
        for value in values:
            places.setdefault(value, set()).add(3 * number)
    assert dict(zip(run.hashes.tolist(), run.buckets.tolist(), strict=True)) == {h: min(b) for h, b in places.items()}
    assert run.hashes.tolist() == sorted(places)
    assert sorted(torn.tolist()) == sorted(h for h, b in places.items() if len(b) > 1)


def test_only_shares_whose_rows_arrive_need_to_be_loaded() -> None:
    table = PartitionBuckets(BucketRule(10, None, 4), {0: 1})
    assert table.missing(array([4, -8, 5])) == {0, 1}
    table.load({0, 1}, run_of([(0, array([4]))])[0])
    assert table.missing(array([-4, 9])) == set()
    assert table.missing(array([2])) == {2}
    assert table.assign(array([4, 5, 8])).tolist() == [0, 1, 0]


@pytest.mark.parametrize(("keys", "target"), [(10, 2), (1_000_000, 20_000), (300_000, 1000), (5, 2_000_000)])
def test_first_load_keeps_to_the_target(keys: int, target: int) -> None:
    rule = BucketRule(target)
    hashes = np.random.default_rng(7).integers(LOW, HIGH, keys, dtype=np.int64, endpoint=True).astype(np.int32)
    count = first_load_count(keys, rule)
    sizes = np.bincount(first_load_buckets(hashes, count))
    assert sizes.max() <= target
    assert count >= keys / target
    assert target < 100 or count <= 1.2 * keys / target + 1
    assert np.count_nonzero(sizes) >= min(5, -(-keys // target))
    assert first_load_count(keys, BucketRule(target, 3)) <= 3


def test_first_load_covers_the_whole_range() -> None:
    ends = array([LOW, -1, 0, HIGH])
    assert first_load_buckets(ends, 1).tolist() == [0, 0, 0, 0]
    assert first_load_buckets(ends, 7).tolist() == [0, 3, 3, 6]
    assert first_load_buckets(ends, 32767).max() == 32766
