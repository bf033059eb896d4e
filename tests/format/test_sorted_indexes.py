"""Files of btree and bitmap indexes: what is written is found, whatever the keys, the blocks and what is asked; damaged
files are errors of ours, or say what is so."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from bucketlake.errors import BucketlakeError, UnsupportedError
from bucketlake.format.guard import decoding
from bucketlake.format.index import bitmap_index
from bucketlake.format.index.bitmap_index import BitmapFile, encode_bitmap
from bucketlake.format.index.blocks import Parts, Unselective, block_of, body_of, ids_of_bitmap
from bucketlake.format.index.btree import Blocks, BTreeFile, encode_btree
from bucketlake.format.index.sorted_keys import Recorded, check_indexed, encoded_keys, place_of, varints
from bucketlake.format.index.spans import EVERY, Span, Within, intersected, of_prefix, opposite, united
from bucketlake.types.model import DataType, arrow_type
from bucketlake.types.parse import parse_type

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(1 << 15), (1 << 15) - 1),
    "INT": st.integers(-(1 << 31), (1 << 31) - 1),
    "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(18, 3)": st.decimals(-(10**14), 10**14, places=3),
    "DECIMAL(38, 3)": st.decimals(-(10**34), 10**34, places=3),
    "DECIMAL(20, 0)": st.integers(-300, 300).map(Decimal),
    "STRING": st.text(max_size=8),
    "DATE": st.dates(),
    "TIME(3)": st.integers(0, 86_399_999).map(
        lambda ms: (dt.datetime(2000, 1, 1) + dt.timedelta(milliseconds=ms)).time()
    ),
    "TIMESTAMP(3)": st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(6)": st.datetimes(),
}
Rows = dict[Any, list[int]]
File = BTreeFile | BitmapFile


def place(value: Any, kind: DataType) -> Any:
    return place_of(encoded_keys(pa.array([value], arrow_type(kind)), kind)[0].as_py(), kind)


def written(index: str, values: list[Any], kind: DataType, blocks: Blocks) -> tuple[bytes, Recorded, Rows]:
    """A file of the rows 0, 1, … with these values, and which rows each place has."""
    rows: Rows = {}
    keys: dict[Any, Any] = {}
    for row, value in enumerate(values):
        found = None
        if value is not None:
            found = place(value, kind)
            keys[found] = encoded_keys(pa.array([value], arrow_type(kind)), kind)
        rows.setdefault(found, []).append(row)
    places = sorted(keys)
    stored = pa.concat_arrays([keys[one] for one in places]) if places else pa.array([], pa.large_binary())
    ids = np.array([row for one in places for row in rows[one]], np.int64)
    starts = np.cumsum([0, *(len(rows[one]) for one in places)])[:-1].astype(np.int64)
    encode = encode_btree if index == "btree" else encode_bitmap
    data, recorded = encode(stored, starts, ids, np.array(rows.get(None, []), np.int64), 7, blocks)
    return data, Recorded.of(recorded), rows


def opened(index: str, data: bytes, rows: int, kind: DataType, summed: bool = True) -> File:
    parts = Parts(lambda at, length: data[at : at + length], len(data))
    return BTreeFile(parts, rows, kind) if index == "btree" else BitmapFile(parts, rows, kind, summed)


def found(file: File, spans: Any, nulls: bool = False, most: int = 1 << 62) -> list[int]:
    return sorted(id for some in file.find(spans, nulls, most) for id in some.tolist())


def rows_in(rows: Rows, spans: Any, nulls: bool = False) -> list[int]:
    asked = [one for one in rows if one is not None and any(span.holds(one) for span in spans)]
    return sorted(row for one in (*asked, *([None] if nulls else [])) for row in rows.get(one, []))


def drawn(data: st.DataObject, values: st.SearchStrategy[Any], kind: DataType) -> tuple[Span, ...]:
    """Points and spans of values, or what lies beside them."""
    places = [place(value, kind) for value in data.draw(st.lists(values, max_size=8))]
    spans = [Span.point(one) for one in places[::2]]
    for low, high in zip(sorted(places)[::2], sorted(places)[1::2], strict=False):
        spans.append(Span(low, high, data.draw(st.booleans())))
    if places and data.draw(st.booleans()):
        spans.append(data.draw(st.sampled_from([Span(None, min(places)), Span(max(places))])))
    made = united(spans)
    return opposite(made) if data.draw(st.booleans()) else made


@pytest.mark.parametrize("index", ["btree", "bitmap"])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_rows_are_found_by_their_values(index: str, kind: str, data: st.DataObject) -> None:
    t = parse_type(kind)
    values = data.draw(st.lists(st.none() | KINDS[kind], min_size=1, max_size=60))
    size, codec = (
        data.draw(st.sampled_from([1, 30, 200, 64 << 10])),
        data.draw(st.sampled_from(["none", "zstd", "lz4"])),
    )
    content, recorded, rows = written(index, values, t, Blocks(size, codec))
    assert recorded.has_nulls == (None in rows) and recorded.snapshot == 7
    file = opened(index, content, len(values), t)
    known = [value for value in values if value is not None]
    spans = drawn(data, st.sampled_from(known) | KINDS[kind] if known else KINDS[kind], t)
    nulls = data.draw(st.booleans()) and None in rows
    assert found(file, spans, nulls) == rows_in(rows, spans, nulls)
    assert found(file, EVERY) == rows_in(rows, EVERY)
    met = recorded.met(spans, t)
    assert rows_in(rows, met) == rows_in(rows, spans)


@given(st.data())
def test_spans_are_sets_of_places(data: st.DataObject) -> None:
    for kind, values, every in (
        ("INT", st.integers(-6, 6), range(-9, 10)),
        (
            "STRING",
            st.text("ab\x00", max_size=2),
            [a + b for a in ("", "\x00", "a", "b") for b in ("", "\x00", "a", "b", "c")],
        ),
    ):
        t = parse_type(kind)
        places = [place(value, t) for value in every]
        left, right = drawn(data, values, t), drawn(data, values, t)

        def held(spans: Any, places: list[Any] = places) -> list[bool]:
            return [any(span.holds(one) for span in spans) for one in places]

        assert held(united([*left, *right])) == [a or b for a, b in zip(held(left), held(right), strict=True)]
        assert held(intersected(left, right)) == [a and b for a, b in zip(held(left), held(right), strict=True)]
        assert held(opposite(left)) == [not a for a in held(left)] and held(opposite(opposite(left))) == held(left)
        assert [Within(left).holds(one) for one in places] == held(left)
        for low, high in itertools.pairwise(places):
            if low < high and any(left_held for left_held in held(left, [low])):
                assert Within(left).meets(low, high)


def test_prefixes() -> None:
    for prefix in (b"", b"a", b"a\xff", b"\xff", b"\xff\xff"):
        for text in (b"", b"a", b"a\xff", b"a\xff\xff", b"ab", b"b", b"\xff", b"\xff\xff\xff", b"a\xfe"):
            assert of_prefix(prefix).holds(text) == text.startswith(prefix), (prefix, text)


def test_keys_are_ordered_as_values_are() -> None:
    for kind, values in {
        "DOUBLE": [float("-inf"), -1.5, -0.0, 0.0, 5e-324, 1.0, float("inf"), float("nan")],
        "DECIMAL(5, 2)": [Decimal("-3.20"), Decimal("0.00"), Decimal("1.10")],
        "DECIMAL(38, 0)": [Decimal(n) for n in (-(10**38) + 1, -(1 << 64), -129, -128, -1, 0, 127, 128, 1 << 120)],
        "STRING": ["", "a", "aa", "b", "ä", "\U00010000"],
        "TIMESTAMP(6)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1970, 1, 1, 0, 0, 0, 1)],
    }.items():
        t = parse_type(kind)
        places = [place_of(key, t) for key in encoded_keys(pa.array(values, arrow_type(t)), t).to_pylist()]
        assert places == sorted(places) and len(set(places)) == len(places)


def test_long_decimals_take_as_few_bytes_as_hold_them() -> None:
    t = parse_type("DECIMAL(38, 0)")
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, 256, 1 << 31, -(1 << 31), -(1 << 31) - 1, 10**38 - 1, 1 - 10**38]
    keys = encoded_keys(pa.array([Decimal(n) for n in numbers], arrow_type(t)), t).to_pylist()
    for number, key in zip(numbers, keys, strict=True):
        size = next(size for size in range(1, 17) if -(1 << (8 * size - 1)) <= number < 1 << (8 * size - 1))
        assert key == number.to_bytes(size, "big", signed=True)


@given(st.lists(st.integers(0, (1 << 63) - 1)))
def test_varints(numbers: list[int]) -> None:
    for number, data in zip(numbers, varints(np.array(numbers, np.int64)).to_pylist(), strict=True):
        assert sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(data)) == number
        assert [byte >> 7 for byte in data] == [1] * (len(data) - 1) + [0]


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
def test_blocks(codec: str) -> None:
    for body in (b"", b"a", bytes(1000), np.random.default_rng(1).bytes(500)):
        block = block_of(body, codec)
        assert bytes(body_of(block)) == body and len(block) <= len(body) + 5
    assert len(block_of(bytes(1000), codec)) < (1006 if codec == "none" else 50)


@given(st.lists(st.integers(0, 1 << 34) | st.integers(0, 1000), max_size=50))
def test_bitmaps_of_64_bits(ids: list[int]) -> None:
    data = BitMap64(ids).serialize()
    assert [i for some in ids_of_bitmap(data, 1 << 35) for i in some.tolist()] == sorted(set(ids))


def test_a_large_bitmap_is_given_in_parts() -> None:
    data = BitMap64(range(5, 5_000_000)).serialize()
    sizes = [len(some) for some in ids_of_bitmap(data, 5_000_000)]
    assert sum(sizes) == 4_999_995 and max(sizes) <= 1 << 20


@pytest.mark.parametrize("index", ["btree", "bitmap"])
def test_few_blocks_are_read(index: str) -> None:
    t = parse_type("INT")
    values = list(range(20_000))
    content, _, _ = written(index, values, t, Blocks(4 << 10))
    read: list[int] = []

    def counted(at: int, length: int) -> bytes:
        read.append(length)
        return content[at : at + length]

    parts = Parts(counted, len(content))
    file: File = BTreeFile(parts, 20_000, t) if index == "btree" else BitmapFile(parts, 20_000, t, True)
    for spans, most in (((Span.point(777),), 20_000), ((Span(100, 200),), 30_000)):
        read.clear()
        assert found(file, spans) == [one for one in values if spans[0].holds(one)]
        assert len(read) < 8 and sum(read) < most
    read.clear()
    with pytest.raises(Unselective):
        found(file, (Span(100, 15_000),), most=20_000)
    assert sum(read) < 20_000, "that it is too much is known before"


@pytest.mark.parametrize("alone", [0, 1 << 20])
@pytest.mark.parametrize("dictionary", [1, 40, 16 << 10])
def test_keys_in_the_order_of_their_bytes(dictionary: int, alone: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pypaimon writes them; every key of others' files is found whatever their order."""
    monkeypatch.setattr(bitmap_index, "ALONE", alone)
    t = parse_type("INT")
    values = [None if k % 9 == 0 else (k * 37) % 1000 - 300 for k in range(2000)]
    content, _, rows = written("bitmap", values, t, Blocks(dictionary))
    keys = {place_of(key, t): key for key in encoded_keys(pa.array(sorted(set(rows) - {None})), t).to_pylist()}
    by_bytes = sorted(keys, key=lambda one: keys[one])
    stored = pa.array([keys[one] for one in by_bytes], pa.large_binary())
    ids = np.array([row for one in by_bytes for row in rows[one]], np.int64)
    starts = np.cumsum([0, *(len(rows[one]) for one in by_bytes)])[:-1].astype(np.int64)
    other, _ = encode_bitmap(stored, starts, ids, np.array(rows[None], np.int64), 7, Blocks(dictionary))
    for spans in ((Span.point(7),), (Span(-50, 300),), (Span(None, -290), Span(650))):
        for data in (content, other):
            assert found(opened("bitmap", data, len(values), t, summed=False), spans) == rows_in(rows, spans)


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
@pytest.mark.parametrize("index", ["btree", "bitmap"])
def test_damaged_files_are_errors_or_say_what_is_so(index: str, codec: str) -> None:
    t = parse_type("STRING")
    content, _, rows = written(
        index, [None if k % 5 == 0 else f"{'v' * 20}{k % 7}" for k in range(40)], t, Blocks(60, codec)
    )
    places = sorted(one for one in rows if one is not None)
    asked = [tuple(Span.point(one) for one in places), (Span(places[1], places[3]),), EVERY]
    wrong = 0
    for at in range(len(content)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[at] ^= flip
            for spans in asked:
                try:
                    with decoding("damaged", "a file"):
                        got = found(opened(index, bytes(damaged), 40, t), spans, True)
                except BucketlakeError:
                    wrong += 1
                    continue
                assert got == rows_in(rows, spans, True), at
    assert wrong > 3 * len(content)
    for end in range(0, len(content), 7):
        with pytest.raises(BucketlakeError), decoding("damaged", "a file"):
            found(opened(index, content[:end], 40, t), asked[0], True)


@pytest.mark.parametrize("kind", ["BYTES", "ARRAY<INT>", "BINARY(3)"])
def test_types_without_keys(kind: str) -> None:
    with pytest.raises(UnsupportedError, match="is not supported by global index now"):
        check_indexed(parse_type(kind))
