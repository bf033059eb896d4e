"""The files of the key index: layers against a plain dict, what is read of them, and what happens if they are lost."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.profile import examples
from tests.sim.storage import FaultStorage

import bucketlake
from bucketlake.errors import CorruptError
from bucketlake.format.index.key_index import HASHES, KeyIndexFile, Layer, decode_key_index, encode_key_index
from bucketlake.lsm.key_run import ABSENT, GONE, DealtKeys, KeyIndex, KeyRun, Keys, ascending
from bucketlake.ops.key_index import cache, cross_partition, key_layers, key_scan
from bucketlake.ops.key_index.cache import IndexReader, cached_index, open_index, shares
from bucketlake.ops.key_index.key_layers import LayerReader, write_layer_file
from bucketlake.ops.key_index.key_scan import key_fields
from bucketlake.table import Table

SOME_HASHES = [0, 1, 2, 3, 1 << 31, HASHES - 2, HASHES - 1]


def create(folder: Path | str, kind: pa.DataType) -> Table:
    schema = pa.schema([pa.field("k", kind, False), pa.field("pt", pa.int32())])
    return bucketlake.open(str(folder)).create_table("t", schema, ["pt"], ["k"], {"bucket": "-1"})


def keys_of(values: list[tuple[int, int]], whole: bool) -> Keys:
    """Keys of (hash, number), the number as it is or as a text of that length."""
    numbers = [number for _, number in values]
    kept = pa.array(numbers, pa.int64()) if whole else pa.array([b"x" * n for n in numbers], pa.large_binary())
    return Keys(np.array([value for value, _ in values], np.uint32), kept)


pairs = st.tuples(st.sampled_from(SOME_HASHES), st.integers(0, 20))


def test_rows_by_their_hashes() -> None:
    rng = np.random.default_rng(7)
    for hashes in (np.zeros(0, np.uint32), rng.integers(0, 9, 300), rng.integers(0, HASHES, 70_000), SOME_HASHES * 3):
        given = np.asarray(hashes, np.uint32)
        assert ascending(given).tolist() == np.argsort(given, kind="stable").tolist()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("span", [(0, HASHES), (5, HASHES - 3), (1 << 31, (1 << 31) + 7)])
@pytest.mark.parametrize("count", [1, 3, 256])
def test_dealt_keys_are_in_the_share_of_their_hash(whole: bool, span: tuple[int, int], count: int) -> None:
    rng, (low, high) = np.random.default_rng(count), span
    hashes = np.concatenate([[low, high - 1, low], rng.integers(low, high, 500)]).astype(np.uint32)
    keys = keys_of([(int(value), place) for place, value in enumerate(hashes)], whole)
    dealt = DealtKeys.of(keys, np.arange(len(keys), dtype=np.int32), span, count)
    before, seen = -1, []
    for number in range(count):
        own, places = dealt.share(number)
        assert own.hashes.tolist() == hashes[places].tolist()
        assert own.values.to_pylist() == keys.values.take(pa.array(places)).to_pylist()
        assert places.tolist() == sorted(places.tolist()), "in their order"
        if len(own):
            assert own.hashes.min() > before
            before = int(own.hashes.max())
        seen += places.tolist()
    assert sorted(seen) == list(range(len(keys)))


@pytest.mark.parametrize("whole", [True, False])
def test_a_layer_has_its_keys_in_whatever_blocks(whole: bool) -> None:
    @settings(max_examples=examples(30, 1200), deadline=None)
    @given(
        st.dictionaries(pairs, st.integers(GONE + 2, 9), max_size=40),
        st.lists(st.integers(0, 40), max_size=3),
        st.lists(st.lists(pairs, max_size=5), max_size=4),
        st.sampled_from([1, 2, 3, 5, 40]),
        st.sampled_from([1, 3]),
    )
    def run(state: Any, cuts: list[int], looks: Any, block: int, files: int) -> None:
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(key_layers, "BLOCK_ROWS", block)
            patch.setattr(key_layers, "WRITTEN_BLOCKS", 2)
            patch.setattr(key_layers, "READ_BYTES", 64)
            store = create(folder, pa.int64() if whole else pa.string()).store
            items = list(state)
            run = KeyRun.of(keys_of(items, whole), np.array(list(state.values()), np.int32))
            written = []
            for low, high in shares(files):
                part = run.span(low, high)
                edges = [0, *sorted(min(cut, len(part)) for cut in cuts), len(part)]
                pieces = [part.part(a, b) for a, b in pairwise(edges)]
                written.append(write_layer_file(store, pieces, (low, high)))
            reader = LayerReader(store, Layer(tuple(written)))
            for wanted in [*looks, items, [(9, 9)]]:
                wanted = sorted(set(wanted))
                found = reader.find(keys_of(wanted, whole)).tolist()
                assert found == [state.get(item, ABSENT) for item in wanted]
            for low, high in [(0, HASHES), (1, 3), (2, HASHES - 1), (HASHES - 1, HASHES), (5, 6)]:
                span = reader.span(low, high)
                expected = {item: place for item, place in state.items() if low <= item[0] < high}
                values = span.keys.values.to_pylist()
                numbers = values if whole else [len(value) for value in values]
                assert span.keys.hashes.tolist() == sorted(span.keys.hashes.tolist())
                rows = list(zip(span.keys.hashes.tolist(), numbers, strict=True))
                assert dict(zip(rows, span.places.tolist(), strict=True)) == expected
                assert len(rows) == len(expected)

    run()


def many(table: Table, count: int) -> pa.RecordBatch:
    numbers = np.arange(count, dtype=np.int64)
    table.write_arrow(pa.table({"k": numbers, "pt": (numbers % 3).astype(np.int32)}))
    return pa.RecordBatch.from_pydict({"k": pa.array(numbers)})


class Counting(FaultStorage):
    """Counts the bytes that ranges of files give."""

    got = 0

    def read_ranges(self, path: str, ranges: Any) -> list[bytes]:
        found = super().read_ranges(path, ranges)
        self.got += sum(map(len, found))
        return found


def indexed(table: Table) -> KeyIndex:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    index = open_index(table.store, snapshot)
    assert index is not None
    return index


def found_by(reader: IndexReader, keys: Keys) -> list[int]:
    """The partition of each key, in which bucket 0 holds them all."""
    order = np.argsort(keys.hashes, kind="stable")
    places = np.empty(len(keys), np.int32)
    places[order] = reader.find(keys.take(order))
    texts = [int(reader.store.paths.partition_texts(p)["pt"]) for p, _ in reader.numbers.places]
    return [texts[place] if place >= 0 else place for place in places.tolist()]


def test_few_keys_are_found_by_reading_little(tmp_path: Path) -> None:
    table = create(tmp_path, pa.int64())
    keys = Keys.of(many(table, 200_000), key_fields(table.store))
    index = indexed(table)
    storage = Counting(table.store.env.storage)
    reader = IndexReader(replace(table.store, env=replace(table.store.env, storage=storage)), index)
    some = np.arange(7, 200_000, 40_000)
    assert found_by(reader, keys.take(some)) == (some % 3).tolist()
    file = index.file.layers[0].files[0]
    assert storage.got <= file.directory_bytes + 2 * 16 * key_layers.BLOCK_ROWS * len(some)
    before = storage.got
    assert found_by(reader, keys.take(some)) == (some % 3).tolist()
    assert storage.got == before, "what was read is kept"
    assert found_by(reader, keys) == (np.arange(200_000) % 3).tolist()
    assert storage.got == file.directory + file.directory_bytes, "every block once"
    calls = len(storage.calls)
    assert found_by(reader, keys) == (np.arange(200_000) % 3).tolist()
    assert len(storage.calls) == calls


@pytest.mark.parametrize("pass_rows", [1, 1 << 20])
@pytest.mark.parametrize("damage", ["first block", "last block", "directory", "cut", "gone"])
def test_what_is_lost_is_read_from_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, pass_rows: int
) -> None:
    table = create(tmp_path, pa.int64())
    keys = Keys.of(many(table, 3_000), key_fields(table.store))
    index = indexed(table)
    file = index.file.layers[0].files[0]
    path = Path(table.store.paths.key_index(file.name))
    data = bytearray(path.read_bytes())
    for name, place in (("first block", 5), ("last block", file.directory - 1), ("directory", file.directory + 3)):
        if damage == name:
            data[place] ^= 1
    path.write_bytes(data[:-1] if damage == "cut" else data)
    if damage == "gone":
        path.unlink()
    monkeypatch.setattr(cache, "PASS_ROWS", pass_rows)
    reader = IndexReader(table.store, index)
    order = np.argsort(keys.hashes)
    for rows in (order[:5], order[-5:], order[1000:2000], order[2::7], order):
        assert found_by(reader, keys.take(rows)) == (rows % 3).tolist()
    other = Keys.of(pa.RecordBatch.from_pydict({"k": pa.array(range(-50, 0), pa.int64())}), key_fields(table.store))
    assert found_by(reader, other) == [ABSENT] * 50


@pytest.mark.parametrize("share_rows", [1, 50, 1 << 20])
def test_an_index_built_and_folded_in_passes_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share_rows: int
) -> None:
    monkeypatch.setattr(key_scan, "SHARE_ROWS", share_rows)
    monkeypatch.setattr(cache, "FOLD_ROWS", 700)
    table = create(tmp_path, pa.int64())
    keys = Keys.of(many(table, 5_000), key_fields(table.store))
    monkeypatch.setattr(cache, "PASS_ROWS", 700)
    monkeypatch.setattr(cache, "RECENT_ROWS", 0)
    assert found_by(IndexReader(table.store, indexed(table)), keys) == (np.arange(5_000) % 3).tolist()
    moved = np.arange(0, 5_000, 2)
    table.write_arrow(pa.table({"k": moved, "pt": np.full(len(moved), 1, np.int32)}))
    expected = np.arange(5_000) % 3
    expected[moved] = 1
    index = indexed(table)
    assert len(index.file.layers) == 2
    assert found_by(IndexReader(table.store, index), keys) == expected.tolist()
    table.write_arrow(pa.table({"k": moved, "pt": np.full(len(moved), 2, np.int32)}))
    expected[moved] = 2
    index = indexed(table)
    assert len(index.file.layers) == 1, "folded"
    assert sum(index.file.counts) == index.file.layers[0].rows == 5_000
    assert found_by(IndexReader(table.store, index), keys) == expected.tolist()


def test_a_list_of_another_version_is_not_used(tmp_path: Path) -> None:
    file = KeyIndexFile("", 1, "", 0, None, (), (), ())
    text = encode_key_index(file)
    assert decode_key_index(text, "x") == file
    with pytest.raises(CorruptError):
        decode_key_index(text.replace(b'"snapshot":1', b'"snapshot":2'), "x")
    table = create(tmp_path, pa.int64())
    many(table, 10)
    indexed(table)
    snapshot = table.latest_snapshot()
    assert snapshot is not None and cached_index(table.store, snapshot) is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bucketlake.format.index.key_index.VERSION", 99)
        assert cached_index(table.store, snapshot) is None
        assert open_index(table.store, snapshot) is not None


def test_few_keys_of_a_large_table_leave_a_cache_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(tmp_path, pa.int64())
    many(table, 20)
    row = pa.table({"k": [3], "pt": pa.array([2], pa.int32())})
    table.write_arrow(row)
    assert not list(Path(table.store.paths.key_index_dir).glob("*")), "looked up in the table"
    monkeypatch.setattr(cross_partition, "FEW_ROWS", 10)
    table.write_arrow(row)
    assert list(Path(table.store.paths.key_index_dir).glob("index-*"))
    assert {row["k"]: row["pt"] for row in table.to_arrow().to_pylist()} == {k: k % 3 for k in range(20)} | {3: 2}


def test_layers_of_writers_that_died_are_removed_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(tmp_path, pa.int64())
    many(table, 20)
    folder = Path(table.store.paths.key_index_dir)
    folder.mkdir()
    for name, age in (("layer-old", 3 * 86_400), ("layer-new", 60)):
        (folder / name).write_bytes(b"x")
        written = table.store.env.clock.now_millis() / 1000 - age
        os.utime(folder / name, (written, written))
    index = indexed(table)
    kept = {path.name for path in folder.glob("layer-*")}
    assert kept == {"layer-new", index.file.layers[0].files[0].name}
