"""File indexes, byte by byte: what Paimon wrote, known hashes, serialized bitmaps, damage."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap
from tests import corpus

import bucketlake
from bucketlake.errors import CorruptError
from bucketlake.format.file_index.bloom import hash_values, xxhash64
from bucketlake.format.file_index.container import MAGIC, FileIndex, FileIndexBuilder, encode_file_index
from bucketlake.format.roaring import serialize_bitmap, serialize_bitmaps
from bucketlake.predicate.tree import Compare, IsNull
from bucketlake.schema.file_indexes import index_specs
from bucketlake.types.model import DataField, DataType
from bucketlake.types.parse import parse_type_text

XXH64 = {
    "": 0xEF46DB3751D8E999,
    "a": 0xD24EC4F1A98C6E5B,
    "abc": 0x44BC2CF5AD770999,
    "Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}


def kind(text: str) -> DataType:
    return parse_type_text(text)


def opened(data: bytes, fields: list[DataField], rows: int = 10) -> FileIndex:
    return FileIndex(lambda start, length: data[start : start + length], fields, rows, "an index")


# ---- bitmaps


@st.composite
def position_groups(draw: st.DrawFn) -> list[list[int]]:
    one = st.integers(0, 300_000) | st.integers(65_530, 65_545) | st.integers(0, 12)
    groups: list[list[int]] = []
    for _ in range(draw(st.integers(0, 6))):
        found = set(draw(st.lists(one, max_size=30)))
        for start in draw(st.lists(st.integers(0, 200_000), max_size=2)):
            step = draw(st.integers(1, 3))
            found |= set(range(start, start + draw(st.integers(0, 9000)), step))
        groups.append(sorted(found))
    return groups


@given(position_groups())
def test_bitmaps_are_those_of_the_library(groups: list[list[int]]) -> None:
    positions = np.array([at for group in groups for at in group], np.int64)
    starts = np.append(0, np.cumsum([len(group) for group in groups])).astype(np.int64)
    data, offsets = serialize_bitmaps(positions, starts)
    for number, group in enumerate(groups):
        known = BitMap(group)
        known.run_optimize()
        assert data[offsets[number] : offsets[number + 1]].tobytes() == known.serialize()
    assert offsets[-1] == len(data)


@pytest.mark.parametrize(
    "rows",
    [[], [0], [1, 2, 3], range(4096), range(0, 8192, 2), range(0, 8194, 2), range(70_000), range(0, 2_200_000, 5)],
    ids=str,
)
def test_bitmaps_at_the_edges_of_containers(rows: list[int]) -> None:
    known = BitMap(rows)
    known.run_optimize()
    assert serialize_bitmap(np.array(rows, np.int64)) == known.serialize()


# ---- hashes


def test_known_hashes() -> None:
    data = [text.encode() for text in XXH64]
    bounds = np.append(0, np.cumsum([len(one) for one in data])).astype(np.int64)
    assert xxhash64(np.frombuffer(b"".join(data), np.uint8), bounds).tolist() == list(XXH64.values())


def java_wang(key: int) -> int:
    """The number hash of the specification with Java's arithmetic, one value at a time."""

    def wrap(value: int) -> int:
        value &= (1 << 64) - 1
        return value - (1 << 64) if value >> 63 else value

    key = wrap(~key + (key << 21))
    key = wrap(key ^ (key >> 24))
    key = wrap(key + (key << 3) + (key << 8))
    key = wrap(key ^ (key >> 14))
    key = wrap(key + (key << 2) + (key << 4))
    key = wrap(key ^ (key >> 28))
    return wrap(key + (key << 31))


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.none(), max_size=20))
def test_numbers_hash_as_one_by_one(values: list[int | None]) -> None:
    found = hash_values(pa.array(values, pa.int64()), kind("BIGINT"))
    assert found.tolist() == [java_wang(value) for value in values if value is not None]


def test_floating_point_hashes_its_bits_as_a_signed_number() -> None:
    values = [1.5, -1.5, 0.0, -0.0, float("nan"), float("inf")]
    found = hash_values(pa.array(values, pa.float32()), kind("FLOAT"))
    assert found.tolist() == [java_wang(struct.unpack("<i", struct.pack("<f", value))[0]) for value in values]
    found = hash_values(pa.array(values, pa.float64()), kind("DOUBLE"))
    assert found.tolist() == [java_wang(struct.unpack("<q", struct.pack("<d", value))[0]) for value in values]


# ---- Paimon's own


def test_paimons_own_indexes_are_read_and_made_anew(tmp_path: Path) -> None:
    """Embedded and beside their files: bloom filter, bitmap and bit-sliced, equal to the last byte."""
    table = bucketlake.open(corpus.unpack(tmp_path)).table(f"{corpus.DATABASE}.append_file_index")
    placed = set()
    for found in table.files():
        file = found.file
        embedded = file.embedded_index
        data = embedded or Path(found.path).with_name(file.extra_files[0]).read_bytes()
        placed.add(embedded is not None)
        schema = table.store.schema_of(file.schema_id)
        index = opened(data, list(schema.fields), file.row_count)
        rows = table.to_arrow().to_pylist()
        read = next(iter(pa.Table.from_batches(read_rows(table, file.file_name)).to_batches()))
        builder = FileIndexBuilder(index_specs(schema.options), schema.fields)
        builder.update(read)
        ours = opened(builder.finish(), list(schema.fields), file.row_count)
        assert ours.columns == index.columns == {"k", "v", "w"}
        for column, places in index.places.items():
            for name in places:
                assert ours.index(column, name) == index.index(column, name), (column, name)
        again = {column: {name: index.index(column, name) for name in found} for column, found in index.places.items()}
        assert encode_file_index(again) == data
        assert len(rows) == 18
    assert placed == {True, False}


def read_rows(table: bucketlake.Table, name: str) -> list[pa.RecordBatch]:
    path = next(found.path for found in table.files() if found.file.file_name == name)
    read = pq.ParquetFile(path).read()
    target = pa.schema([pa.field("k", pa.int32()), pa.field("v", pa.string()), pa.field("w", pa.int64())])
    return read.cast(target).combine_chunks().to_batches()


# ---- the container, and damage

FIELDS = [DataField(0, "a", parse_type_text("INT")), DataField(1, "ü𝄞", parse_type_text("STRING"))]


def built(**options: str) -> bytes:
    declared = {f"file-index.{key.replace('_', '-')}.columns": value for key, value in options.items()}
    builder = FileIndexBuilder(index_specs(declared), FIELDS)
    builder.update(pa.record_batch([pa.array([1, None, 3], pa.int32()), pa.array(["x", "y", None])], ["a", "ü𝄞"]))
    return builder.finish()


def test_head_begins_with_the_magic_and_names_are_javas() -> None:
    data = built(bitmap="a,ü𝄞")
    assert data[:12] == struct.pack(">qi", MAGIC, 1)
    assert "ü𝄞".encode("utf-16-be").decode("utf-16-be", "surrogatepass") in opened(data, FIELDS).columns
    assert b"\xed\xa0\xb4\xed\xb4\x9e" in data


def test_a_column_without_values_matches_nothing() -> None:
    index = opened(encode_file_index({"a": {"bloom-filter": None}}), FIELDS)
    assert index.matching(Compare("a", "=", 1)) == BitMap()
    assert index.matching(IsNull("a")) == BitMap(range(10))
    assert index.index("a", "bloom-filter") is None


def test_unknown_kinds_of_index_are_passed_over() -> None:
    index = opened(encode_file_index({"a": {"lumina": b"?"}}), FIELDS)
    assert index.matching(Compare("a", "=", 1)) is None


@pytest.mark.parametrize("name", ["bloom_filter", "bitmap", "range_bitmap", "bsi"])
def test_damage_is_named(name: str) -> None:
    whole = built(**{name: "a"})
    for end in (0, 7, 20, len(whole) - 40, len(whole) - 1):
        with pytest.raises(CorruptError, match="an index"):
            opened(whole[: max(end, 0)], FIELDS).matching(Compare("a", "=", 3))
    with pytest.raises(CorruptError, match="an index"):
        opened(b"\1" + whole[1:], FIELDS)


@pytest.mark.parametrize("name", ["bitmap", "range_bitmap", "bsi", "bloom_filter"])
@given(place=st.integers(0, 10_000), value=st.integers(0, 255))
def test_any_changed_byte_is_read_or_refused(name: str, place: int, value: int) -> None:
    data = bytearray(SMALL[name])
    data[place % len(data)] = value
    with suppress(CorruptError):
        opened(bytes(data), FIELDS).matching(Compare("a", "=", 3))


SMALL = {name: built(**{name: "a"}) for name in ("bitmap", "range_bitmap", "bsi")}
SMALL["bloom_filter"] = encode_file_index({"a": {"bloom-filter": struct.pack(">i", 3) + b"\xff\0\xff"}})
