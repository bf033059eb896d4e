"""Merging runs in slices gives what a dict filled from the oldest row to the newest gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.errors import InvalidError
from bucketlake.lsm.engines.engines import Deduplicate, Groups, Merged
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.merge import BlockSize, merge_runs, slices, sort_and_merge
from bucketlake.types.model import BIGINT, DataField

from .model import KINDS, Kind, Row, batch_of, examples, fields_of, merged, ordered, runs_of, sliced

BIG = [KINDS["bigint"]]
ORDER = KeyOrder(fields_of(BIG))
SETS = st.one_of(
    st.just(BIG),
    st.sampled_from(list(KINDS.values())).map(lambda kind: [kind]),
    st.lists(st.sampled_from(list(KINDS.values())), min_size=2, max_size=3),
)
CUTS = st.lists(st.integers(0, 40), max_size=12)
BLOCKS = st.builds(BlockSize, rows=st.integers(1, 20), bytes=st.sampled_from([1, 200, 1 << 20]))


def ids(batches: list[pa.RecordBatch]) -> list[int]:
    assert all(batch.num_rows for batch in batches), "empty batches are left out"
    return [number for batch in batches for number in batch.column("id").to_pylist()]


def check_whole_rows(batches: list[pa.RecordBatch]) -> None:
    """Columns of one row stay together."""
    for batch in batches:
        for number, text in zip(batch.column("id").to_pylist(), batch.column("text").to_pylist(), strict=True):
            assert text == (None if number % 5 == 0 else f"row {number}")


@examples
@given(data=st.data(), kinds=SETS, block=BLOCKS, drop=st.booleans(), ignore=st.booleans())
def test_merge_equals_the_model(
    data: st.DataObject, kinds: list[Kind], block: BlockSize, drop: bool, ignore: bool
) -> None:
    runs = data.draw(runs_of(kinds))
    batches = [sliced(batch_of(kinds, run), data.draw(CUTS)) for run in runs]
    order = KeyOrder(fields_of(kinds))
    found = list(merge_runs(batches, order, Deduplicate(ignore), drop_deletes=drop, block=block))
    assert ids(found) == merged(kinds, runs, ignore, drop)
    check_whole_rows(found)


@examples
@given(data=st.data(), kinds=SETS, block=BLOCKS, drop=st.booleans(), ignore=st.booleans())
def test_a_merge_without_order_gives_the_same_rows(
    data: st.DataObject, kinds: list[Kind], block: BlockSize, drop: bool, ignore: bool
) -> None:
    runs = data.draw(runs_of(kinds))
    batches = [sliced(batch_of(kinds, run), data.draw(CUTS)) for run in runs]
    order = KeyOrder(fields_of(kinds))
    found = list(merge_runs(batches, order, Deduplicate(ignore), drop_deletes=drop, ordered=False, block=block))
    assert sorted(ids(found)) == sorted(merged(kinds, runs, ignore, drop))
    check_whole_rows(found)


@examples
@given(data=st.data(), kinds=SETS, block=BLOCKS)
def test_no_key_is_in_two_slices(data: st.DataObject, kinds: list[Kind], block: BlockSize) -> None:
    runs = data.draw(runs_of(kinds))
    rows = {row.id: row for run in runs for row in run}
    batches = [sliced(batch_of(kinds, run), data.draw(CUTS)) for run in runs]
    greatest = None
    seen: list[list[int]] = [[] for _ in runs]
    for parts in slices(batches, KeyOrder(fields_of(kinds)), block):
        numbers = [[n for batch in part for n in batch.column("id").to_pylist()] for part in parts]
        keys = sorted(ordered(kinds, rows[n].key) for part in numbers for n in part)
        assert keys
        assert greatest is None or greatest < keys[0]
        greatest = keys[-1]
        for run, part in zip(seen, numbers, strict=True):
            run.extend(part)
    assert seen == [[row.id for row in run] for run in runs]


@examples
@given(data=st.data(), kinds=SETS, drop=st.booleans(), ignore=st.booleans())
def test_a_flush_sorts_and_merges_arrivals(data: st.DataObject, kinds: list[Kind], drop: bool, ignore: bool) -> None:
    arrivals = data.draw(st.permutations([row for run in data.draw(runs_of(kinds, 15)) for row in run]))
    rows = [Row(row.key, i, row.kind, row.id) for i, row in enumerate(arrivals)]
    found = sort_and_merge(batch_of(kinds, rows), KeyOrder(fields_of(kinds)), Deduplicate(ignore), drop_deletes=drop)
    assert found.column("id").to_pylist() == merged(kinds, [rows], ignore, drop)


def rows_of(keys: list[int], sequence: int, first: int, kind: int = 0) -> list[Row]:
    return [Row((key,), sequence, kind, first + i) for i, key in enumerate(keys)]


def test_equal_sequences_fall_to_the_later_run() -> None:
    runs = [[batch_of(BIG, rows_of([1, 2], 5, 1))], [batch_of(BIG, rows_of([2, 3], 5, 11))]]
    assert ids(list(merge_runs(runs, ORDER, Deduplicate()))) == [1, 11, 12]
    assert ids(list(merge_runs(runs[::-1], ORDER, Deduplicate()))) == [1, 2, 12]


def test_the_greater_sequence_wins_whatever_the_order_of_runs() -> None:
    runs = [[batch_of(BIG, rows_of([1, 2], 9, 1))], [batch_of(BIG, rows_of([1, 2], 3, 11))]]
    assert ids(list(merge_runs(runs, ORDER, Deduplicate()))) == [1, 2]


def test_a_delete_hides_older_rows_and_stays_until_it_is_dropped() -> None:
    runs = [[batch_of(BIG, rows_of([1, 2], 1, 1))], [batch_of(BIG, rows_of([2], 2, 11, kind=3))]]
    assert ids(list(merge_runs(runs, ORDER, Deduplicate()))) == [1, 11]
    assert ids(list(merge_runs(runs, ORDER, Deduplicate(), drop_deletes=True))) == [1]
    assert ids(list(merge_runs(runs, ORDER, Deduplicate(ignore_delete=True), drop_deletes=True))) == [1, 2]


def test_a_user_sequence_decides_before_the_number() -> None:
    order = KeyOrder(fields_of(BIG), [DataField(5, "version", BIGINT)])
    old = batch_of(BIG, rows_of([1, 2, 3], 1, 1)).append_column("version", pa.array([9, None, 4]))
    new = batch_of(BIG, rows_of([1, 2, 3], 2, 11)).append_column("version", pa.array([8, None, None]))
    assert ids(list(merge_runs([[old], [new]], order, Deduplicate()))) == [1, 12, 3]


def test_one_key_with_more_rows_than_many_blocks() -> None:
    block = BlockSize(rows=4)
    many = [Row((7,), i, 0, i) for i in range(100)]
    other = [Row((6,), 0, 0, 200), Row((7,), 50, 0, 201), Row((8,), 0, 0, 202)]
    runs = [batch_of(BIG, many).slice(i, 3) for i in range(0, 100, 3)]
    assert ids(list(merge_runs([runs, [batch_of(BIG, other)]], ORDER, Deduplicate(), block=block))) == [200, 99, 202]
    assert ids(list(merge_runs([runs], ORDER, Deduplicate(), block=block))) == [99]


def test_no_runs_and_empty_runs_give_nothing() -> None:
    assert list(merge_runs([], ORDER, Deduplicate())) == []
    assert list(merge_runs([[], [batch_of(BIG, [])], []], ORDER, Deduplicate())) == []


def test_what_one_run_has_alone_passes_without_a_copy() -> None:
    low, high = batch_of(BIG, rows_of(list(range(100)), 1, 1)), batch_of(BIG, rows_of(list(range(200, 300)), 2, 200))
    found = list(merge_runs([[low], [high]], ORDER, Deduplicate(), drop_deletes=True, block=BlockSize(rows=10)))
    assert ids(found) == low.column("id").to_pylist() + high.column("id").to_pylist()
    assert {batch.column("id").buffers()[1].address for batch in found} == {
        low.column("id").buffers()[1].address,
        high.column("id").buffers()[1].address,
    }


def test_runs_are_read_only_as_far_as_needed() -> None:
    read = []

    def run() -> Iterator[pa.RecordBatch]:
        for start in range(0, 1000, 10):
            read.append(start)
            yield batch_of(BIG, rows_of(list(range(start, start + 10)), 1, start))

    rows = merge_runs([run(), [batch_of(BIG, rows_of([5, 995], 2, 5000))]], ORDER, Deduplicate(), block=BlockSize(10))
    assert next(rows).num_rows == 10
    assert len(read) <= 2


def test_null_keys_are_refused() -> None:
    batch = batch_of(BIG, rows_of([1, 2], 1, 1)).set_column(0, "_KEY_k0", pa.array([1, None]))
    with pytest.raises(InvalidError, match="column=k0"):
        sort_and_merge(batch, ORDER, Deduplicate())
    with pytest.raises(InvalidError, match="column=k0"):
        list(merge_runs([[batch]], ORDER, Deduplicate()))


def test_blocks_of_no_rows_are_refused() -> None:
    for sizes in ({"rows": 0}, {"bytes": 0}):
        with pytest.raises(InvalidError, match="empty block"):
            BlockSize(**sizes)


def test_many_runs_share_the_memory_of_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketlake.lsm.merge.SLICE_BYTES", 64_000)
    runs = [[batch_of(BIG, rows_of(list(range(run, 20_000, 50)), run, run * 1000))] for run in range(50)]
    sizes = [sum(batch.nbytes for part in parts for batch in part) for parts in slices(runs, ORDER)]
    assert max(sizes) < 2 * 64_000
    assert sum(batch.num_rows for batch in merge_runs(runs, ORDER, Deduplicate())) == 20_000


def test_values_of_any_type_and_the_schema_survive() -> None:
    fields = [
        pa.field("_KEY_k0", pa.int64(), nullable=False),
        pa.field("_SEQUENCE_NUMBER", pa.int64(), nullable=False),
        pa.field("_VALUE_KIND", pa.int8(), nullable=False),
        pa.field("list", pa.list_(pa.field("element", pa.string()))),
        pa.field("map", pa.map_(pa.string(), pa.int32())),
        pa.field("row", pa.struct([pa.field("a", pa.decimal128(38, 2)), pa.field("b", pa.timestamp("us", tz="UTC"))])),
        pa.field("flag", pa.bool_()),
    ]

    def value(key: int, run: int) -> dict[str, object]:
        fixed = {"_KEY_k0": key, "_SEQUENCE_NUMBER": run, "_VALUE_KIND": 0, "flag": key % 2 == 0}
        nested = {"list": [f"{run}", None] * (key % 3), "map": [("k", key)], "row": {"a": None, "b": None}}
        return fixed | (nested if key % 4 else {"list": None, "map": None, "row": None})

    rows = [[value(key, run) for key in range(run, 60, run + 1)] for run in range(3)]
    runs = [[pa.RecordBatch.from_pylist(part, schema=pa.schema(fields))] for part in rows]
    newest = {row["_KEY_k0"]: row for part in rows for row in part}
    for is_ordered in (True, False):
        found = list(merge_runs(runs, ORDER, Deduplicate(), ordered=is_ordered, block=BlockSize(rows=7)))
        assert all(batch.schema.equals(pa.schema(fields)) for batch in found)
        got = sorted((row for batch in found for row in batch.to_pylist()), key=lambda row: row["_KEY_k0"])
        assert got == [newest[key] for key in sorted(newest)]


@dataclass(frozen=True)
class Concatenating:
    """An engine that computes: texts of a group joined in order; a group that holds -D becomes a delete."""

    computes: ClassVar[bool] = True

    def requires(self, columns: Sequence[str]) -> tuple[str, ...]:
        return ()

    def merge(self, groups: Groups) -> Merged:
        order = np.arange(groups.rows) if groups.order is None else groups.order
        starts = np.arange(groups.rows) if groups.starts is None else groups.starts
        numbers = groups.column("id").to_numpy()[order]
        kinds = np.maximum.reduceat(groups.kinds()[order], starts)
        sums = np.add.reduceat(numbers, starts)
        lasts = groups.lasts()
        return Merged(lasts, {"id": pa.array(sums), "_VALUE_KIND": pa.array(kinds)})


@pytest.mark.parametrize("is_ordered", [True, False])
@examples
@given(data=st.data(), block=BLOCKS, drop=st.booleans())
def test_an_engine_may_compute_columns(is_ordered: bool, data: st.DataObject, block: BlockSize, drop: bool) -> None:
    runs = data.draw(runs_of(BIG))
    batches = [sliced(batch_of(BIG, run), data.draw(CUTS)) for run in runs]
    found = list(merge_runs(batches, ORDER, Concatenating(), drop_deletes=drop, ordered=is_ordered, block=block))
    groups: dict[int, list[Row]] = {}
    for run in runs:
        for row in run:
            groups.setdefault(row.key[0], []).append(row)
    results = [(sum(row.id for row in rows), max(row.kind for row in rows)) for _, rows in sorted(groups.items())]
    assert ids(found) == [total for total, kind in results if not (drop and kind in (1, 3))]


@pytest.mark.parametrize("name", ["bigint", "string"])
def test_memory_is_flat_in_the_length_of_runs(name: str) -> None:
    """Batches are made while they are asked for, so what Arrow holds is what the merge holds."""
    kinds = [KINDS[name]]
    order = KeyOrder(fields_of(kinds))
    pool = pa.default_memory_pool()
    block = BlockSize(rows=2048)

    def run(number: int, blocks: int) -> Iterator[pa.RecordBatch]:
        for part in range(blocks * 4):
            keys = pa.array(np.arange(512, dtype=np.int64) * 3 + part * 1536 + number)
            key = keys if name == "bigint" else pc.utf8_lpad(pc.cast(keys, pa.string()), 12, "0")
            fixed = {"_SEQUENCE_NUMBER": keys, "_VALUE_KIND": pa.array(np.zeros(512, np.int8))}
            yield pa.RecordBatch.from_pydict({"_KEY_k0": key, **fixed, "pay": pa.array(["x" * 200] * 512)})

    def peak(blocks: int) -> int:
        before, most = pool.bytes_allocated(), 0
        for batch in merge_runs([run(i % 2, blocks) for i in range(4)], order, Deduplicate(), block=block):
            most = max(most, pool.bytes_allocated() - before)
            del batch
        return most

    one_block_of_all_runs = 4 * block.rows * (200 + 40)
    assert peak(30) < 1.3 * peak(3)
    assert peak(30) < 3.5 * one_block_of_all_runs
