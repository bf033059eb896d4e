"""Payloads of ARRAY<BLOB> and MAP<K, BLOB>: against the grammar, made value by value, and what hostile ones are."""

from __future__ import annotations

import itertools
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.format.test_blob import STORAGE, by_hand, put, varint

from bucketlake.errors import BucketlakeError, CorruptError, UnsupportedError
from bucketlake.format.data import blob, varints
from bucketlake.format.data.blob_elements import Rows, refuse_keys
from bucketlake.types.model import DataType, Root, arrow_type

BLOB = DataType(Root.BLOB)
ARRAY = DataType(Root.ARRAY, element=BLOB)
WIDTHS = {Root.TINYINT: "<b", Root.SMALLINT: "<h", Root.INT: "<i", Root.BIGINT: "<q"}


def mapped(key: Root) -> DataType:
    text = DataType(key, nullable=False, length=2147483647) if key in (Root.CHAR, Root.VARCHAR) else None
    return DataType(Root.MAP, key=text or DataType(key, nullable=False), element=BLOB)


TEXT = mapped(Root.VARCHAR)
ARRAYS = [[b"Hello", None, b"YE"], None, [], [b""], [None], [b"x" * 70_000, b"y"], [b"a"] * 300, None, [b"", b""]]
MAPS = [
    [("a", b"Hello"), ("b", None), ("", b"")],
    None,
    [],
    [("ü", b"x" * 70_000)],
    [(f"k{n}", b"v") for n in range(99)],
]


def index(lengths: list[int]) -> bytes:
    return b"".join(varint(new - old) for old, new in zip([0, *lengths], lengths, strict=False))


def sized(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def array_payload(row: list[bytes | None]) -> bytes:
    lengths = index([sized(value) for value in row])
    head = struct.pack("<iBi", 1094861634, 1, len(row))
    return head + b"".join(value or b"" for value in row) + lengths + struct.pack("<i", len(lengths))


def map_payload(row: list[tuple[Any, bytes | None]], key: Root = Root.VARCHAR) -> bytes:
    keys = [k.encode() if isinstance(k, str) else struct.pack(WIDTHS[key], k) for k, _ in row]
    first, second = index([len(k) for k in keys]), index([sized(value) for _, value in row])
    head = struct.pack("<iBi", 1296188226, 1, len(row))
    body = b"".join(keys) + b"".join(value or b"" for _, value in row) + first + second
    return head + body + struct.pack("<ii", len(first), len(second))


def payload(row: Any, kind: DataType) -> bytes | None:
    if row is None:
        return None
    return array_payload(row) if kind.root is Root.ARRAY else map_payload(row, kind.key.root)  # type: ignore[union-attr]


def read(path: str, kind: DataType, rows: int | None = None) -> list[Any]:
    return [row for _, part in blob.read_values(STORAGE, path, None, rows, kind) for row in part.to_pylist()]


def numbered(key: Root) -> list[Any]:
    bits = 8 * struct.calcsize(WIDTHS[key])
    return [[(-(1 << bits - 1), b"low"), ((1 << bits - 1) - 1, None), (0, b"")], [], [(7, b"seven")]]


CASES = [
    (ARRAY, ARRAYS),
    (ARRAY, []),
    (ARRAY, [None, None]),
    (ARRAY, [[]]),
    (ARRAY, [[b"v"] * (n % 4) for n in range(3000)]),
    (TEXT, MAPS),
    (mapped(Root.CHAR), MAPS),
    *((mapped(key), numbered(key)) for key in WIDTHS),
]


@pytest.mark.parametrize(("kind", "rows"), CASES)
def test_payloads_are_as_the_grammar_says(tmp_path: Path, kind: DataType, rows: list[Any]) -> None:
    """At once and row by row, and read again."""
    beside = [[b"before"]] if kind is ARRAY else [[(rows[0][0][0], b"before")]]
    values = pa.array([*beside, *rows, *beside], arrow_type(kind)).slice(1, len(rows))
    found = Rows.of(values, kind)
    data, lengths = blob.encoded(*found.parts(0, len(rows)))
    whole = by_hand([payload(row, kind) for row in rows])
    assert bytes(data) + blob.ending(lengths) == whole
    for place, row in enumerate(rows):
        if row is not None:
            span = slice(found.bounds[place], found.bounds[place + 1])
            inside = bytes(found.data[found.starts[span.start] : found.starts[span.stop]])
            assert bytes(found.front(place)) + inside + found.back(place, found.lengths[span]) == payload(row, kind)
    halves = [blob.encoded(*found.parts(*part)) for part in ((0, len(rows) // 2), (len(rows) // 2, len(rows)))]
    assert b"".join(bytes(part) for part, _ in halves) == bytes(data)
    assert read(put(tmp_path / "f", whole), kind, len(rows)) == rows


def test_nulls_with_bytes_below_them() -> None:
    """Arrow may hold anything where a null is."""
    offsets = pa.py_buffer(np.array([0, 3, 6, 9], np.int32))
    valid = pa.py_buffer(bytes([0b101]))
    values = pa.Array.from_buffers(pa.binary(), 3, [valid, offsets, pa.py_buffer(b"abcdefghi")])
    rows = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), values, type=arrow_type(ARRAY))
    (data, _), expected = blob.encoded(*Rows.of(rows, ARRAY).parts(0, 2)), [[b"abc"], [None, b"ghi"]]
    assert bytes(data) == by_hand([array_payload(row) for row in expected])[: len(data)]


def test_keys_that_no_file_can_hold() -> None:
    for root in (Root.BOOLEAN, Root.BLOB, Root.VARBINARY, Root.DATE):
        with pytest.raises(UnsupportedError, match="Unsupported key type for MAP<X, BLOB>"):
            refuse_keys(DataType(Root.MAP, key=DataType(root), element=BLOB))
    for kind in (ARRAY, BLOB, TEXT):
        refuse_keys(kind)


HEAD, MAP_HEAD = struct.pack("<iBi", 1094861634, 1, 1), struct.pack("<iBi", 1296188226, 1, 1)


def size(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


@pytest.mark.parametrize(
    ("data", "kind", "found"),
    [
        (b"", ARRAY, CorruptError),
        (HEAD + b"123", ARRAY, CorruptError),
        (map_payload([]), ARRAY, CorruptError),
        (array_payload([]), TEXT, CorruptError),
        (struct.pack("<iBi", 1094861634, 2, 0) + size(0), ARRAY, UnsupportedError),
        (struct.pack("<iBi", 1094861634, 1, -1) + size(0), ARRAY, CorruptError),
        (struct.pack("<iBi", 1094861634, 1, (1 << 31) - 1) + size(0), ARRAY, CorruptError),
        (HEAD + size(0), ARRAY, CorruptError),
        (HEAD + size(-1), ARRAY, CorruptError),
        (HEAD + size(1), ARRAY, CorruptError),
        (HEAD + size((1 << 31) - 1), ARRAY, CorruptError),
        (HEAD + varint(0) * 2 + size(2), ARRAY, CorruptError),
        (HEAD + varint(1) + size(1), ARRAY, CorruptError),
        (HEAD + b"a" + varint(0) + size(1), ARRAY, CorruptError),
        (HEAD + b"a" + varint(-1) + size(1), ARRAY, CorruptError),
        (HEAD + varint(-2) + size(1), ARRAY, CorruptError),
        (HEAD + b"\x80" + size(1), ARRAY, CorruptError),
        (HEAD + b"\xff" * 10 + b"\1" + size(11), ARRAY, CorruptError),
        (
            struct.pack("<iBi", 1094861634, 1, 3) + index([1 << 62] * 3) + size(len(index([1 << 62] * 3))),
            ARRAY,
            CorruptError,
        ),
        (struct.pack("<iBi", 1094861634, 1, 2) + index([5, -5]) + size(2), ARRAY, CorruptError),
        (MAP_HEAD + size(0, 0), TEXT, CorruptError),
        (MAP_HEAD + b"a" + varint(1) + varint(-1) + size(1, 2), TEXT, CorruptError),
        (MAP_HEAD + b"a" + varint(1) + varint(-1) + size(-1, 3), TEXT, CorruptError),
        (MAP_HEAD + b"a" + varint(1) * 2 + size(2, 0), TEXT, CorruptError),
        (MAP_HEAD + b"a" + varint(2) + varint(-1) + size(1, 1), TEXT, CorruptError),
        (MAP_HEAD + varint(-1) + varint(-1) + size(1, 1), TEXT, UnsupportedError),
        (MAP_HEAD + varint(-2) + varint(-1) + size(1, 1), TEXT, CorruptError),
        (MAP_HEAD + b"\xff" + varint(1) + varint(-1) + size(1, 1), TEXT, CorruptError),
        (MAP_HEAD + b"a" + varint(1) + varint(-1) + size(1, 1), mapped(Root.INT), CorruptError),
    ],
)
def test_what_is_no_array_or_map(tmp_path: Path, data: bytes, kind: DataType, found: type[Exception]) -> None:
    path = put(tmp_path / "f", by_hand([data]))
    with pytest.raises(found) as raised:
        read(path, kind)
    assert raised.value.details["path"] == path  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kind", "rows"), [(ARRAY, ARRAYS[:5]), (TEXT, MAPS[:3])])
def test_any_changed_byte_of_a_payload(tmp_path: Path, kind: DataType, rows: list[Any]) -> None:
    """Sums that fit it: an error, or other values of as many rows; never a failure of a library."""
    chance, kept = random.Random(11), [payload(row, kind) for row in rows]
    for _ in range(600):
        row = chance.choice([place for place, data in enumerate(kept) if data])
        data = bytearray(kept[row] or b"")
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        changed = [bytes(data) if place == row else one for place, one in enumerate(kept)]
        path = put(tmp_path / "f", by_hand(changed))
        try:
            assert len(read(path, kind, len(rows))) == len(rows)
        except BucketlakeError as error:
            assert error.details["path"] == path


@pytest.mark.parametrize("seed", range(5))
def test_sequences_of_numbers(seed: int) -> None:
    chance = np.random.default_rng(seed)
    counts = chance.integers(0, 5, 200)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    numbers = chance.integers(-(1 << 63), (1 << 63) - 1, bounds[-1]) >> chance.integers(0, 63, bounds[-1])
    data, sizes = varints.packed(numbers, bounds)
    alone = [varints.packed(numbers[a:b], np.array([0, b - a]))[0] for a, b in itertools.pairwise(bounds)]
    assert data == b"".join(alone)
    assert sizes.tolist() == [len(one) for one in alone]
    found, per = varints.unpacked(np.frombuffer(data, np.uint8), sizes)
    assert found.tolist() == numbers.tolist()
    assert per.tolist() == counts.tolist()


OF_PAIMON = [
    (
        ARRAY,
        [[b"Hello", None, b""], None, []],
        "cf114e5842434241010300000048656c6c6f0a0b02030000002500000000000000a21b1c7a"
        "cf114e58424342410100000000000000001d000000000000009bd491574a4b3c0300000001",
    ),
    (
        TEXT,
        [[("a", b"Hello"), ("ü", None)], [], None],
        "cf114e584243424d010200000061c3bc48656c6c6f02020a0b02000000020000002d00000000000000e666d9bf"
        "cf114e584243424d0100000000000000000000000021000000000000008360591e5a17430300000001",
    ),
    (
        mapped(Root.SMALLINT),
        [[(-2, b"YE")], None, [(258, b"")]],
        "cf114e584243424d0101000000feff59450404010000000100000027000000000000009c2ed37e"
        "cf114e584243424d0101000000020104000100000001000000250000000000000039b467974e4f4c0300000001",
    ),
]


@pytest.mark.parametrize(("kind", "rows", "data"), OF_PAIMON)
def test_files_of_paimon(tmp_path: Path, kind: DataType, rows: list[Any], data: str) -> None:
    """As Apache Paimon 2.0.0 on Flink wrote them, byte for byte."""
    records, lengths = blob.encoded(*Rows.of(pa.array(rows, arrow_type(kind)), kind).parts(0, len(rows)))
    assert bytes(records) + blob.ending(lengths) == bytes.fromhex(data)
    assert read(put(tmp_path / "f", bytes.fromhex(data)), kind, 3) == rows
