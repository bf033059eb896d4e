"""Unions of serialized bitmaps and sketches, against bytes that Java wrote."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64
from tests.profile import examples

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.lsm.aggregates import sketches
from bucketlake.lsm.aggregates.functions import aggregate
from bucketlake.lsm.aggregates.rbm64 import decode, encode
from bucketlake.lsm.aggregates.rows import AggregateOptions
from bucketlake.types.model import BYTES, DataField

from . import aggregate_golden as golden

datasketches = pytest.importorskip("datasketches")

FIELD = DataField(1, "f", BYTES)
WIDE_A = {1, 2, 3, 1 << 33, (1 << 64) - 1}
WIDE_B = {3, 5, 1 << 33, 7 << 40, *range(65536, 65636)}
WIDE_C = {
    *(i << 16 | i for i in range(300)),
    *(i << 24 | 5 for i in range(12)),
    *(i << 56 for i in range(40)),
    *range(0, 9000, 2),
}


def united(name: str, groups: list[list[bytes | None]]) -> list[bytes | None]:
    values = pa.array([value for group in groups for value in group], pa.binary())
    starts = np.cumsum([0, *(len(group) for group in groups)])[:-1].astype(np.int64)
    found: list[bytes | None] = (
        aggregate(name, FIELD, AggregateOptions()).apply(values, np.zeros(len(values), bool), starts).to_pylist()
    )
    return found


EXACT = {
    "rbm32": (golden.BITMAP_A, golden.BITMAP_B, golden.BITMAP_UNION),
    "hll_sketch": (golden.HLL_A, golden.HLL_B, golden.HLL_UNION),
}


@pytest.mark.parametrize("name", EXACT)
def test_unions_are_those_of_java(name: str) -> None:
    one, other, union = EXACT[name]
    assert united(name, [[one, other], [None], [None, one, None], [one, None, other]]) == [union, None, one, union]


def test_theta_unions() -> None:
    """All but what Java leaves in bytes 12 to 15, which it does not read."""
    (union,) = united("theta_sketch", [[golden.THETA_A, None, golden.THETA_B]])
    assert union is not None
    assert union[:12] + union[16:] == golden.THETA_UNION[:12] + golden.THETA_UNION[16:]
    assert united("theta_sketch", [[golden.THETA_A], [None]]) == [golden.THETA_A, None]


def test_large_sketches_are_estimated_well() -> None:
    hll, theta = [], []
    for first in (0, 10_000):
        one, other = datasketches.hll_sketch(12), datasketches.update_theta_sketch(12)
        for number in range(first, first + 20_000):
            one.update(number)
            other.update(number)
        hll.append(one.serialize_compact())
        theta.append(other.compact().serialize())
    (image,) = united("hll_sketch", [hll])
    assert datasketches.hll_sketch.deserialize(image).get_estimate() == pytest.approx(30_000, rel=0.05)
    (image,) = united("theta_sketch", [theta])
    assert datasketches.compact_theta_sketch.deserialize(image).get_estimate() == pytest.approx(30_000, rel=0.05)


@pytest.mark.parametrize(
    ("image", "values"), [(golden.WIDE_A, WIDE_A), (golden.WIDE_B, WIDE_B), (golden.WIDE_C, WIDE_C), (b"\0", set())]
)
def test_wide_bitmaps_of_java(image: bytes, values: set[int]) -> None:
    assert set(decode(image)) == values
    assert set(decode(encode(decode(image)))) == values


def test_a_wide_bitmap_of_java_byte_for_byte() -> None:
    bitmap = BitMap64(WIDE_A)
    bitmap.run_optimize()
    assert encode(bitmap) == golden.WIDE_A


def test_wide_unions() -> None:
    groups = [[golden.WIDE_A, golden.WIDE_B], [golden.WIDE_C], [golden.WIDE_C, None, golden.WIDE_A], [None]]
    one, same, other, none = united("rbm64", groups)
    assert one is not None
    assert other is not None
    assert set(decode(one)) == WIDE_A | WIDE_B
    assert same == golden.WIDE_C
    assert set(decode(other)) == WIDE_C | WIDE_A
    assert none is None


WIDE = (
    st.integers(0, 300)
    | st.integers(0, 1 << 20)
    | st.integers(0, (1 << 64) - 1)
    | st.integers(0, 600).map(lambda n: n << 48)
)


@given(numbers=st.lists(WIDE, max_size=400), start=WIDE, length=st.integers(0, 20_000), step=st.integers(1, 3))
@settings(max_examples=examples(25), deadline=None)
def test_wide_bitmaps_come_back(numbers: list[int], start: int, length: int, step: int) -> None:
    bitmap = BitMap64(numbers) | BitMap64(n for n in range(start, start + length, step) if n < 1 << 64)
    assert decode(encode(bitmap)) == bitmap
    bitmap.run_optimize()
    assert decode(encode(bitmap)) == bitmap


@pytest.mark.parametrize("name", ["rbm32", "rbm64", "hll_sketch", "theta_sketch"])
def test_bytes_of_something_else(name: str) -> None:
    with pytest.raises(InvalidError, match=f"field=f, function={name}"):
        united(name, [[b"\x07nonsense", b"\x07nonsense"]])


def test_a_bitmap_whose_parts_do_not_fit_is_named() -> None:
    """Numbers of containers that there are not were a KeyError; lengths below zero led back, two billion times."""
    image = encode(BitMap64([1]))
    assert image[1:9] == (1).to_bytes(8, "little") and image[27:31] == image[32:36] == (1).to_bytes(4, "little")
    number, least = (7).to_bytes(8, "little"), (-3).to_bytes(4, "little", signed=True)
    backwards = image[:32] + b"\xff\xff\xff\x7f" + image[36:38] + least + image[42:]
    for bad in (image[:19] + number + image[27:], backwards):
        with pytest.raises(InvalidError, match="field=f, function=rbm64"):
            united("rbm64", [[bad, image]])


@pytest.mark.parametrize("name", ["rbm32", "rbm64", "hll_sketch", "theta_sketch"])
def test_nothing_is_taken_back(name: str) -> None:
    one = aggregate(name, FIELD, AggregateOptions())
    image = BitMap([1]).serialize()
    with pytest.raises(InvalidError, match="does not support retraction"):
        one.apply(pa.array([image, image]), np.array([False, True]), np.array([0]))


@pytest.mark.parametrize("name", ["hll_sketch", "theta_sketch"])
def test_the_package_may_be_absent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="package=datasketches"):
        aggregate(name, FIELD, AggregateOptions())
