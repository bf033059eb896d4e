"""Bytes of hash index files."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from bucketlake.errors import CorruptError
from bucketlake.format.index.hash_index import ascending, decode_hashes, encode_hashes, is_ascending

hashes = st.lists(st.integers(-(2**31), 2**31 - 1))


def array(values: list[int]) -> np.ndarray:
    return np.array(values, np.int32)


def test_hashes_are_big_endian_integers() -> None:
    assert encode_hashes(array([1, -1, -(2**31), 0x01020304])).hex() == "00000001ffffffff8000000001020304"
    assert encode_hashes(array([])) == b""


@given(hashes)
def test_decoding_gives_what_was_encoded_in_its_order(values: list[int]) -> None:
    data = encode_hashes(array(values))
    assert decode_hashes(data, rows=len(values)).tolist() == values
    assert decode_hashes(data).dtype == np.int32


@pytest.mark.parametrize(("data", "rows"), [(b"\0\0\0", None), (b"\0" * 8, 1), (b"\0" * 8, 3), (b"", 1)])
def test_another_length_is_corrupt_and_named(data: bytes, rows: int | None) -> None:
    with pytest.raises(CorruptError, match="index-7"):
        decode_hashes(data, "index-7", rows)


@given(hashes)
def test_ascending_is_the_sorted_set(values: list[int]) -> None:
    found = ascending(array(values))
    assert found.tolist() == sorted(set(values))
    assert is_ascending(found)
    assert ascending(found) is found
