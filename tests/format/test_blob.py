"""Bytes of blob files and descriptors: against the grammar, and what hostile ones are."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bucketlake.env.local import LocalStorage
from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, UnsupportedError
from bucketlake.format.data import blob, descriptor

STORAGE = LocalStorage()
VALUES = [b"", b"abc", None, b"\0" * 300, None, b"x" * 70_000, b""]


def by_hand(values: list[bytes | None], whole: bool = True) -> bytes:
    """A blob file, made one value after the other; `whole`: the length is in the checksum, as Java has it."""
    data, lengths = b"", []
    for value in values:
        if value is None:
            lengths.append(-1)
            continue
        body, length = struct.pack("<i", 1481511375) + value, struct.pack("<q", len(value) + 16)
        data += body + length + struct.pack("<I", zlib.crc32(body + length if whole else body))
        lengths.append(len(value) + 16)
    index = b"".join(varint(new - old) for old, new in zip([0, *lengths], lengths, strict=False))
    return data + index + struct.pack("<iB", len(index), 1)


def varint(number: int) -> bytes:
    number = ((number << 1) ^ (number >> 63)) & ((1 << 64) - 1)
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def put(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def read(path: str, rows: int | None = None) -> list[bytes | None]:
    return [value for _, part in blob.read_values(STORAGE, path, None, rows) for value in part.to_pylist()]


@pytest.mark.parametrize(
    "values", [VALUES, [], [None], [b""] * 3, [bytes([n]) * n for n in range(200)], [None, b"a"] * 50_000]
)
def test_files_are_as_the_grammar_says(tmp_path: Path, values: list[bytes | None]) -> None:
    array = pa.array([b"before", *values, b"behind"], pa.binary()).slice(1, len(values))
    data, lengths = blob.encoded(array)
    assert bytes(data) + blob.ending(lengths) == by_hand(values)
    path = put(tmp_path / "f", by_hand(values))
    assert read(path, len(values)) == values
    assert read(put(tmp_path / "g", by_hand(values, whole=False))) == values


def test_placeholders_are_null_where_a_file_is_read_alone(tmp_path: Path) -> None:
    data, lengths = blob.encoded(pa.array([b"a", None], pa.binary()))
    path = put(tmp_path / "f", bytes(data) + blob.ending(np.append(lengths, [-2, -2])))
    assert blob.read_lengths(STORAGE, path, None, 4).tolist() == [17, -1, -2, -2]
    assert read(path) == [b"a", None, None, None]


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -64, -65, 1 << 31, (1 << 62) + 1, -(1 << 62), 2**63 - 1])
def test_numbers_of_the_index(number: int) -> None:
    assert blob.ending(np.array([number], np.int64))[:-5] == varint(number)


def test_a_value_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with path.open("wb") as out:
        record = blob.Record(out)
        for piece in (b"ab", b"", b"c"):
            record.write(piece)
        out.write(blob.ending(np.array([record.close()])))
    assert path.read_bytes() == by_hand([b"abc"])


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", CorruptError),
        (b"\0\0\0\0", CorruptError),
        (struct.pack("<iB", 0, 2), UnsupportedError),
        (struct.pack("<iB", -1, 1), CorruptError),
        (struct.pack("<iB", 7, 1), CorruptError),
        (varint(15) + struct.pack("<iB", 1, 1), CorruptError),
        (varint(-3) + struct.pack("<iB", 1, 1), CorruptError),
        (varint(17) + struct.pack("<iB", 1, 1), CorruptError),
        (b"\x80" + struct.pack("<iB", 1, 1), CorruptError),
        (b"\xff" * 10 + b"\1" + struct.pack("<iB", 11, 1), CorruptError),
        (b"\0" * 16 + varint(16) + struct.pack("<iB", 1, 1), CorruptError),
        (by_hand([b"abc"])[:-1] + b"\2", UnsupportedError),
        (b"x" + by_hand([b"abc"]), CorruptError),
    ],
)
def test_what_is_no_blob_file(tmp_path: Path, data: bytes, found: type[Exception]) -> None:
    with pytest.raises(found):
        read(put(tmp_path / "f", data))


def test_any_changed_byte_is_found(tmp_path: Path) -> None:
    whole, chance = by_hand([b"abc", None, b"d" * 40]), random.Random(7)
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << chance.randrange(8)
        with pytest.raises(BucketlakeError):
            assert read(put(tmp_path / "f", bytes(data)), 3) != [b"abc", None, b"d" * 40]
    with pytest.raises(CorruptError, match="a different number of values"):
        read(put(tmp_path / "f", whole), 4)
    with pytest.raises(CorruptError, match="recorded"):
        blob.read_lengths(STORAGE, str(tmp_path / "f"), len(whole) + 1, 3)


def test_descriptors() -> None:
    one = b"\2CSEDBOLB" + struct.pack("<i", 6) + b"file:x" + struct.pack("<qq", 5, -1)
    made = descriptor.describe("file:x", np.array([5, 1 << 40]), np.array([-1, 0]))
    assert made[0].as_py() == one
    uris, offsets, lengths = descriptor.parsed(made)
    assert (uris.to_pylist(), offsets.tolist(), lengths.tolist()) == (["file:x"] * 2, [5, 1 << 40], [-1, 0])
    values = pa.array([None, b"", b"\2CSEDBOL", made[0].as_py(), b"CSEDBOLB\2"], pa.binary())
    assert descriptor.holds(values).tolist() == [False, False, False, True, False]
    assert descriptor.holds(values.slice(3, 1)).tolist() == [True]
    texts = descriptor.shown(descriptor.of_files(pa.array(["/a b", None, "s3://b/ü"])))
    assert texts.to_pylist() == [
        "BlobDescriptor{version=2, uri='/a b', offset=0, length=-1}",
        None,
        "BlobDescriptor{version=2, uri='s3://b/ü', offset=0, length=-1}",
    ]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"\2CSEDBOLB", InvalidError),
        (b"\2CSEDBOLB" + struct.pack("<i", -1) + bytes(16), InvalidError),
        (b"\2CSEDBOLB" + struct.pack("<i", 2) + b"ab" + struct.pack("<qq", -1, 4), InvalidError),
        (b"\2CSEDBOLB" + struct.pack("<i", 2) + b"ab" + struct.pack("<qq", 0, -2), InvalidError),
        (b"\2CSEDBOLB" + struct.pack("<i", 2) + b"\xff\xfe" + bytes(16), InvalidError),
        (b"\2CSEDBOLB" + struct.pack("<i", 1 << 30) + b"ab" + bytes(16), InvalidError),
        (b"\1CSEDBOLB" + bytes(20), UnsupportedError),
        (b"\1WEIVBOLB" + bytes(20), UnsupportedError),
    ],
)
def test_what_is_no_descriptor(value: bytes, found: type[Exception]) -> None:
    with pytest.raises(found):
        assert descriptor.holds(pa.array([value])).all()
        descriptor.parsed(pa.array([value]))


def test_values_of_other_types_are_no_descriptors() -> None:
    """Functions of SQL take whatever is given: it was Arrow's error about a cast."""
    for call in (descriptor.of_files, descriptor.shown):
        with pytest.raises(InvalidError, match=r"not a (path|blob descriptor) \[type=int64\]"):
            call(pa.array([5]))
