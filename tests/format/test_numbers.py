"""Sets of whole numbers: as Python's sets have it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.format.index.deletion_vector import apart, either, positions_of, vector_of
from bucketlake.format.numbers import distinct, is_among, members, without

EDGES = [-(1 << 63), -1, 0, 1, (1 << 31) - 1, (1 << 63) - 1]
NUMBERS = st.lists(st.one_of(st.sampled_from(EDGES), st.integers(-5, 20)), max_size=12)
POSITIONS = st.tuples(st.sets(st.integers(0, 70000), max_size=9), st.booleans())


@given(NUMBERS, NUMBERS)
def test_sets_of_numbers(left: list[int], right: list[int]) -> None:
    a, b = np.array(left, np.int64), np.array(right, np.int64)
    assert distinct([a]).tolist() == sorted({*left})
    assert distinct([a, b]).tolist() == sorted({*left, *right})
    assert is_among(a, b).tolist() == [number in right for number in left]
    assert members(distinct([b]), a).tolist() == [number in right for number in left]
    assert without(a, b).tolist() == [number for number in left if number not in right]


def test_types_stay_and_none_is_none() -> None:
    narrow = np.array([3, 1, 3], np.int32)
    assert distinct([narrow]).dtype == without(narrow, narrow[:1]).dtype == np.int32
    assert not len(distinct([]))


@given(POSITIONS, POSITIONS)
def test_vectors_of_either_layout(left: tuple[set[int], bool], right: tuple[set[int], bool]) -> None:
    (a, wide), (b, also) = left, right
    one, other = (vector_of(np.array(sorted(each), np.int64), bits64=bits) for each, bits in ((a, wide), (b, also)))
    assert positions_of(either(one, other)).tolist() == sorted(a | b)
    assert positions_of(apart(one, other)).tolist() == sorted(a - b)


def test_vectors_beyond_32_bits() -> None:
    far = 1 << 33
    one, other = vector_of(np.array([1, far]), bits64=True), vector_of(np.array([1, 2]), bits64=False)
    assert positions_of(either(one, other)).tolist() == [1, 2, far]
    assert positions_of(apart(one, other)).tolist() == [far]
