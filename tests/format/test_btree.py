"""B-tree index files: what is written is found, whatever the keys; damaged files are errors of ours, or say what is so."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.errors import BucketlakeError, UnsupportedError
from bucketlake.format.guard import decoding
from bucketlake.format.index.btree import (
    BTreeFile,
    Recorded,
    check_indexed,
    encode_btree,
    encoded_keys,
    place_of,
    varints,
)
from bucketlake.types.model import DataType, arrow_type, parse_type

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(1 << 15), (1 << 15) - 1),
    "INT": st.integers(-(1 << 31), (1 << 31) - 1),
    "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(18, 3)": st.decimals(-(10**14), 10**14, places=3),
    "STRING": st.text(max_size=8),
    "DATE": st.dates(),
    "TIME(3)": st.integers(0, 86_399_999).map(
        lambda ms: (dt.datetime(2000, 1, 1) + dt.timedelta(milliseconds=ms)).time()
    ),
    "TIMESTAMP(3)": st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(6)": st.datetimes(),
}


def written(values: list[Any], kind: DataType, block_size: int) -> tuple[bytes, Recorded, dict[Any, list[int]]]:
    """A file of the rows 0, 1, … with these values, and which place each of them has."""
    rows: dict[Any, list[int]] = {}
    keys: dict[Any, Any] = {}
    for row, value in enumerate(values):
        place = None
        if value is not None:
            key = encoded_keys(pa.array([value], arrow_type(kind)), kind)
            place = place_of(key[0].as_py(), kind)
            keys[place] = key
        rows.setdefault(place, []).append(row)
    nulls = rows.get(None, [])
    places = sorted(keys)
    found = pa.concat_arrays([keys[place] for place in places]) if places else pa.array([], pa.large_binary())
    ids = np.array([row for place in places for row in rows[place]], np.int64)
    starts = np.cumsum([0, *(len(rows[place]) for place in places)])[:-1].astype(np.int64)
    data, recorded = encode_btree(found, starts, ids, np.array(nulls, np.int64), 7, block_size)
    return data, Recorded.of(recorded), rows


def opened(data: bytes, rows: int, kind: DataType) -> BTreeFile:
    return BTreeFile(lambda at, length: data[at : at + length], len(data), rows, kind)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_rows_are_found_by_their_values(kind: str, data: st.DataObject) -> None:
    t = parse_type(kind)
    values = data.draw(st.lists(st.none() | KINDS[kind], min_size=1, max_size=60))
    content, recorded, rows = written(values, t, data.draw(st.sampled_from([1, 30, 200, 64 << 10])))
    places = sorted(place for place in rows if place is not None)
    assert recorded.has_nulls == (None in rows) and recorded.snapshot == 7
    file = opened(content, len(values), t)
    asked = data.draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    nulls = data.draw(st.booleans())
    expected = [row for place in (*asked, *([None] if nulls else [])) for row in rows.get(place, [])]
    assert sorted(file.find(sorted(asked), nulls).tolist()) == sorted(expected)
    absent = data.draw(KINDS[kind])
    place = place_of(encoded_keys(pa.array([absent], arrow_type(t)), t)[0].as_py(), t)
    assert file.find([place], False).tolist() == rows.get(place, [])
    assert recorded.may_hold(place, t) or place not in rows


def test_keys_are_ordered_as_values_are() -> None:
    for kind, values in {
        "DOUBLE": [float("-inf"), -1.5, -0.0, 0.0, 5e-324, 1.0, float("inf"), float("nan")],
        "DECIMAL(5, 2)": [Decimal("-3.20"), Decimal("0.00"), Decimal("1.10")],
        "STRING": ["", "a", "aa", "b", "ä", "\U00010000"],
        "TIMESTAMP(6)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1970, 1, 1, 0, 0, 0, 1)],
    }.items():
        t = parse_type(kind)
        places = [place_of(key, t) for key in encoded_keys(pa.array(values, arrow_type(t)), t).to_pylist()]
        assert places == sorted(places) and len(set(places)) == len(places)


@given(st.lists(st.integers(0, (1 << 63) - 1)))
def test_varints(numbers: list[int]) -> None:
    for number, data in zip(numbers, varints(np.array(numbers, np.int64)).to_pylist(), strict=True):
        assert sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(data)) == number
        assert [byte >> 7 for byte in data] == [1] * (len(data) - 1) + [0]


def test_damaged_files_are_errors_or_say_what_is_so() -> None:
    t = parse_type("STRING")
    content, _, rows = written([None if k % 5 == 0 else f"v{k % 7}" for k in range(40)], t, 40)
    wanted = sorted(place for place in rows if place is not None)
    whole = sorted(row for own in rows.values() for row in own)
    wrong = 0
    for at in range(len(content)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[at] ^= flip
            try:
                with decoding("damaged", "a file"):
                    found = opened(bytes(damaged), 40, t).find(wanted, True)
            except BucketlakeError:
                wrong += 1
                continue
            assert sorted(found.tolist()) == whole, at
    assert wrong > 2 * len(content)
    for end in range(0, len(content), 7):
        with pytest.raises(BucketlakeError), decoding("damaged", "a file"):
            opened(content[:end], 40, t).find(wanted, True)


@pytest.mark.parametrize("kind", ["BYTES", "ARRAY<INT>", "DECIMAL(38, 0)", "BINARY(3)"])
def test_types_without_keys(kind: str) -> None:
    with pytest.raises(UnsupportedError, match="is not supported by global index now"):
        check_indexed(parse_type(kind))
