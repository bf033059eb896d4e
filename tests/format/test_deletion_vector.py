"""Index files of deletion vectors: bytes of Paimon, round trips, and files that are damaged."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64
from tests import corpus

import bucketlake
from bucketlake.errors import CorruptError, InvalidError
from bucketlake.format.index.deletion_vector import decode_vector, encode_vectors, positions_of, vector_of
from bucketlake.format.index.index_manifest import DeletionVectorRange

SMALL = st.sets(st.integers(0, 200_000), max_size=300)
LARGE = st.sets(st.integers(0, 5 << 32) | st.integers(0, 100), max_size=50)
RUNS = st.builds(lambda a, n: set(range(a, a + n)), st.integers(0, 1 << 20), st.integers(0, 5000))


def vector(positions: set[int], bits64: bool) -> BitMap | BitMap64:
    return vector_of(np.array(sorted(positions), np.int64), bits64=bits64)


def test_bytes_of_32_bits() -> None:
    data, ranges = encode_vectors({"data-1": vector({1, 2, 300}, False)})
    bitmap = bytes(BitMap([1, 2, 300]).serialize())
    body = struct.pack(">i", 1581511376) + bitmap
    assert data == b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    assert ranges == (DeletionVectorRange("data-1", 1, len(body), 3),)


def test_bytes_of_64_bits_have_every_key_up_to_the_last() -> None:
    data, ranges = encode_vectors({"data-1": vector({7, (2 << 32) + 5}, True)})
    parts = [struct.pack("<i", key) + bytes(BitMap(low).serialize()) for key, low in enumerate([[7], [], [5]])]
    body = struct.pack("<iq", 1681511377, 3) + b"".join(parts)
    assert data == b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    assert ranges == (DeletionVectorRange("data-1", 1, len(body) + 8, 2),)


@given(st.dictionaries(st.sampled_from("abcd"), SMALL | RUNS), st.dictionaries(st.sampled_from("wxyz"), SMALL | LARGE))
def test_what_is_encoded_is_decoded(small: dict[str, set[int]], large: dict[str, set[int]]) -> None:
    vectors = {name: vector(found, False) for name, found in small.items()}
    vectors |= {name: vector(found, True) for name, found in large.items()}
    data, ranges = encode_vectors(vectors)
    assert data[0] == 1
    assert [part.data_file_name for part in ranges] == list(vectors)
    for part in ranges:
        found = decode_vector(data, part, "index-1")
        wanted = {**small, **large}[part.data_file_name]
        assert positions_of(found).tolist() == sorted(wanted)
        assert isinstance(found, BitMap64) == (part.data_file_name in large)
        assert part.cardinality == len(wanted)


@pytest.mark.parametrize("name", ["dv_pk", "dv_pk_bitmap64", "index_dir"])
def test_index_files_that_paimon_wrote_are_written_byte_for_byte(name: str, tmp_path: Path) -> None:
    store = bucketlake.open(corpus.unpack(tmp_path)).table(f"corpus.{name}").store
    seen = 0
    for snapshot in store.snapshots():
        for entry in store.index_manifest(snapshot):
            path = Path(store.paths.index_path(entry.partition, entry.bucket, entry.file))
            data = path.read_bytes()
            assert len(data) == entry.file.file_size
            if entry.file.index_type == "DELETION_VECTORS":
                ranges = entry.file.dv_ranges or ()
                found = {part.data_file_name: decode_vector(data, part, str(path)) for part in ranges}
                assert encode_vectors(found) == (data, ranges)
                assert all(isinstance(one, BitMap64) == (name == "dv_pk_bitmap64") for one in found.values())
                seen += len(found)
    assert seen or name == "index_dir"


@pytest.mark.parametrize("bits64", [False, True])
def test_every_damaged_byte_is_noticed_and_named(bits64: bool) -> None:
    data, (part,) = encode_vectors({"data-1": vector(set(range(0, 3000, 7)), bits64)})
    for at in range(1, len(data)):
        damaged = data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]
        with pytest.raises(CorruptError) as caught:
            decode_vector(damaged, part, "index-1")
        assert (caught.value.details["path"], caught.value.details["data_file"]) == ("index-1", "data-1")


@pytest.mark.parametrize("bits64", [False, True])
def test_an_index_file_that_ends_early_is_refused(bits64: bool) -> None:
    data, (part,) = encode_vectors({"data-1": vector({1, 5}, bits64)})
    for end in range(len(data)):
        with pytest.raises(CorruptError):
            decode_vector(data[:end], part, "index-1")
    decode_vector(data + b"more", part, "index-1")


def test_ranges_that_lie_are_refused() -> None:
    data, (part,) = encode_vectors({"data-1": vector({1, 5}, False)})
    for lie in (
        replace(part, offset=0),
        replace(part, offset=2),
        replace(part, length=part.length + 1),
        replace(part, length=-1),
        replace(part, cardinality=3),
    ):
        with pytest.raises(CorruptError):
            decode_vector(data, lie, "index-1")
    assert len(decode_vector(data, replace(part, cardinality=None), "index-1")) == 2


def test_a_bitmap_that_is_none_is_refused_even_with_a_right_checksum() -> None:
    for magic in (struct.pack(">i", 1581511376), struct.pack("<i", 1681511377)):
        for bitmap in (b"", b"\xff" * 40):
            body = magic + bitmap
            data = b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
            length = len(body) + (8 if magic[0] != 0x5E else 0)
            with pytest.raises(CorruptError, match="bitmap cannot be read"):
                decode_vector(data, DeletionVectorRange("data-1", 1, length, None), "index-1")


def test_positions_beyond_the_layout_are_refused() -> None:
    with pytest.raises(InvalidError, match="bitmap64"):
        vector({1 << 31}, False)
    with pytest.raises(InvalidError):
        vector_of(np.array([-1]), bits64=True)
    assert positions_of(vector({1 << 31}, True)).tolist() == [1 << 31]
