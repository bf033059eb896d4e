"""Bitmaps of live rows say the same as a merged read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.errors import UnsupportedError
from bucketlake.lsm.engines.engines import Deduplicate, Groups, Merged
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.live_rows import Bitmap, live_rows
from bucketlake.lsm.merge import BlockSize

from .model import KINDS, Row, batch_of, examples, fields_of, merged, runs_of, sliced

BIG = [KINDS["bigint"]]
KEY_COLUMNS = ["_KEY_k0", "_SEQUENCE_NUMBER", "_VALUE_KIND"]


@examples
@given(
    data=st.data(),
    name=st.sampled_from(["bigint", "string", "decimal38"]),
    size=st.integers(1, 20),
    ignore=st.booleans(),
)
def test_live_rows_are_those_that_a_read_gives(data: st.DataObject, name: str, size: int, ignore: bool) -> None:
    kinds = [KINDS[name]]
    runs = data.draw(runs_of(kinds))
    cuts = st.lists(st.integers(0, 40), max_size=8)
    batches = [sliced(batch_of(kinds, run).select(KEY_COLUMNS), data.draw(cuts)) for run in runs]
    found = live_rows(batches, KeyOrder(fields_of(kinds)), Deduplicate(ignore), block=BlockSize(rows=size))
    assert [bitmap.rows for bitmap in found] == [len(run) for run in runs]
    live = {
        row.id for run, bitmap in zip(runs, found, strict=True) for row, kept in zip(run, bitmap.mask(), strict=True)
        if kept
    }  # fmt: skip
    assert live == set(merged(kinds, runs, ignore, drop_deletes=True))
    assert sum(bitmap.count() for bitmap in found) == len(live)


def test_bit_i_of_word_i_over_64_is_row_i() -> None:
    rows = [Row((i,), 0, 3 if i % 3 == 0 else 0, i) for i in range(200)]
    (bitmap,) = live_rows([[batch_of(BIG, rows)]], KeyOrder(fields_of(BIG)))
    assert bitmap.bits.dtype == np.uint64
    assert len(bitmap.bits) == 4
    for i in range(256):
        assert bool(int(bitmap.bits[i >> 6]) >> (i & 63) & 1) == (i < 200 and i % 3 != 0)


@examples
@given(bits=st.lists(st.booleans(), max_size=300), ends=st.tuples(st.integers(0, 300), st.integers(0, 300)))
def test_parts_and_inverse(bits: list[bool], ends: tuple[int, int]) -> None:
    octets = np.packbits(np.array(bits, np.bool_), bitorder="little")
    padded = np.zeros(-(-len(octets) // 8) * 8, np.uint8)
    padded[: len(octets)] = octets
    bitmap = Bitmap(padded.view(np.uint64), len(bits))
    start, stop = sorted(min(end, len(bits)) for end in ends)
    assert bitmap.mask().tolist() == bits
    assert bitmap.mask(start, stop).tolist() == bits[start:stop]
    assert bitmap.part(start, stop).mask().tolist() == bits[start:stop]
    assert bitmap.part(start, stop).rows == stop - start


def test_no_runs_no_bitmaps_and_empty_runs_empty_bitmaps() -> None:
    order = KeyOrder(fields_of(BIG))
    assert live_rows([], order) == []
    (empty,) = live_rows([[]], order)
    assert (empty.rows, empty.count(), empty.mask().tolist()) == (0, 0, [])


class Computing:
    computes: ClassVar[bool] = True

    def requires(self, columns: Sequence[str]) -> tuple[str, ...]:
        return ()

    def merge(self, groups: Groups) -> Merged:
        return Merged(groups.lasts(), {"id": pa.array([0] * groups.rows)})


def test_engines_that_compute_rows_have_no_live_rows() -> None:
    with pytest.raises(UnsupportedError, match="Computing"):
        live_rows([[batch_of(BIG, [Row((1,), 0, 0, 1)])]], KeyOrder(fields_of(BIG)), Computing())
