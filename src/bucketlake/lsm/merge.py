"""Merging sorted runs of one bucket, vectorised and in bounded memory.

    sort_and_merge(rows: RecordBatch, order: KeyOrder, engine, *, drop_deletes=False) -> RecordBatch
    sorted_pieces(rows, order, engine, *, within=None) -> Iterator[RecordBatch]       the same, never whole
    merge_runs(runs: Sequence[Iterable[RecordBatch]], order, engine, *, drop_deletes=False, ordered=True,
               block=BlockSize()) -> Iterator[RecordBatch]
    slices(runs, order, block) -> Iterator[list[list[RecordBatch]]]     what both merges go through
    BlockSize(rows=65536, bytes=32 MiB)

Runs are given oldest first: level 0 files by ascending sequence numbers after the higher levels. That order only
matters for rows of equal key and equal sequence, where the row of the later run counts as the newer.

Batches need the key columns of `order`, its sequence columns, `_SEQUENCE_NUMBER` and `_VALUE_KIND`, canonical Arrow
layout, one schema in all runs, and are sorted by `order` within each run; other columns are carried along, and may be
encoded (`types/encoded.py`) in some batches and not in others.

Spec: docs/spec/merge.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.lazy import pc
from bucketlake.lsm.engines.engines import Groups, Merged, MergeEngine, is_retract
from bucketlake.lsm.keys import Bound, KeyOrder, KeyView
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.types.encoded import concatenated
from bucketlake.values import dataclass

__all__ = ["BlockSize", "decided", "merge_runs", "slices", "sort_and_merge", "sorted_pieces"]

Indices = npt.NDArray[np.int64]


PIECE_BYTES = 16 << 20  # what is gathered at a time where the whole need not be at once
SLICE_BYTES = 256 << 20  # of all runs together: also keeps string columns of a slice below what 32-bit offsets reach


@dataclass(frozen=True, slots=True)
class BlockSize:
    """How much of each run is held at once: a block is full at `rows` rows or `bytes` bytes, whichever comes first.

    Memory of a merge: two to three blocks a run, whatever the runs' length; many runs get smaller blocks, so that all
    blocks stay within 256 MiB. A key with more rows than a block takes what its rows take.
    Raises InvalidError for sizes below 1.
    """

    rows: int = 1 << 16
    bytes: int = 32 << 20

    def __post_init__(self) -> None:
        if self.rows < 1 or self.bytes < 1:
            raise InvalidError("empty block", rows=self.rows, bytes=self.bytes, remedy="use sizes of 1 or more")

    def shared(self, runs: int) -> BlockSize:
        """The block size where so many runs are merged at once."""
        return replace(self, bytes=max(1, min(self.bytes, SLICE_BYTES // max(1, runs))))


DEFAULT_BLOCK = BlockSize()


def sort_and_merge(
    rows: pa.RecordBatch,
    order: KeyOrder,
    engine: MergeEngine,
    *,
    drop_deletes: bool = False,
    within: Indices | None = None,
) -> pa.RecordBatch:
    """Rows in any order as one sorted run: at most one row a key, as the engine decides. What a flush writes.

    `within`: numbers of the rows that count, in the order in which they came; all by default. Each column is gathered
    once, whatever part of the rows that is.
    Raises InvalidError naming a key column that holds nulls.
    Spec: docs/spec/merge.md#flush
    """
    return _gathered(rows, _sorted(rows, order, engine, drop_deletes, within))


def sorted_pieces(
    rows: pa.RecordBatch, order: KeyOrder, engine: MergeEngine, *, within: Indices | None = None
) -> Iterator[pa.RecordBatch]:
    """What `sort_and_merge` gives, as consecutive batches of about 16 MiB: the rows and their copy are never in memory
    both whole. Decided when the first is asked for."""
    merged = _sorted(rows, order, engine, False, within)
    count = rows.num_rows if merged.rows is None else len(merged.rows)
    step = max(1, PIECE_BYTES * max(rows.num_rows, 1) // max(rows.nbytes, 1))
    if count <= step:
        yield _gathered(rows, merged)
        return
    for start in range(0, count, step):
        picks = None if merged.rows is None else merged.rows[start : start + step]
        part = Merged(picks, {name: column.slice(start, step) for name, column in merged.columns.items()})
        yield _gathered(rows.slice(start, step) if picks is None else rows, part)


def _sorted(
    rows: pa.RecordBatch, order: KeyOrder, engine: MergeEngine, drop_deletes: bool, within: Indices | None
) -> Merged:
    """What becomes of rows in any order; picks are places in `rows`."""
    if within is None:
        return decided(Groups(*order.sort(rows), rows.num_rows, rows.column), engine, drop_deletes)
    places = pa.array(within)
    keys = pc.take(rows.select(order.columns), places)

    def column(name: str) -> pa.Array:
        return keys.column(name) if name in keys.schema.names else pc.take(rows.column(name), places)

    merged = decided(Groups(*order.sort(keys), keys.num_rows, column), engine, drop_deletes)
    picks = within if merged.rows is None else within[merged.rows]
    return Merged(picks, merged.columns)


def merge_runs(
    runs: Sequence[Iterable[pa.RecordBatch]],
    order: KeyOrder,
    engine: MergeEngine,
    *,
    drop_deletes: bool = False,
    ordered: bool = True,
    block: BlockSize = DEFAULT_BLOCK,
) -> Iterator[pa.RecordBatch]:
    """The merged rows of sorted runs (oldest first), in key order, as batches that are never empty.

    `drop_deletes`: leave out results of kind -U and -D: for reads and the last level. `ordered=False`: a scan that
    needs no key order; cheaper where the engine only picks rows. Parts of the key range that one run alone has pass
    through without a copy.
    Raises InvalidError naming a key column that holds nulls.
    Spec: docs/spec/merge.md#slices
    """
    for parts in slices(runs, order, block):
        yield from _merged_slice(parts, order, engine, drop_deletes, ordered)


def slices(
    runs: Sequence[Iterable[pa.RecordBatch]], order: KeyOrder, block: BlockSize = DEFAULT_BLOCK
) -> Iterator[list[list[pa.RecordBatch]]]:
    """Cut sorted runs at common keys: per slice and run the run's next rows, possibly none.

    Ensures: no key is in two slices, slices ascend by key, none is empty.
    """
    windows = [_Window(run, order, block.shared(len(runs))) for run in runs]
    while True:
        for window in windows:
            window.fill()
        ends = [window.last() for window in windows if window.rows and not window.exhausted]
        if not ends and not any(window.rows for window in windows):
            return
        cut = min(ends) if ends else None
        if cut is not None:
            for window in windows:
                window.reach_past(cut)
        yield [window.take(cut) for window in windows]


class _Window:
    """The part of one run that is in memory: a few batches, none of them over a block."""

    __slots__ = ("_batches", "_block", "_bytes", "_order", "_source", "_start", "exhausted", "rows")

    def __init__(self, run: Iterable[pa.RecordBatch], order: KeyOrder, block: BlockSize) -> None:
        self._source = _pieces(run, block)
        self._order = order
        self._block = block
        self._batches: deque[tuple[pa.RecordBatch, KeyView, int]] = deque()
        self._start = 0  # rows of the first batch that are gone
        self._bytes = 0
        self.rows = 0
        self.exhausted = False

    def fill(self) -> None:
        """Read on until the block is full or the run is exhausted."""
        while not self.exhausted and self.rows < self._block.rows and self._bytes < self._block.bytes:
            self._load()

    def last(self) -> Bound:
        """The greatest key in memory."""
        batch, view, _ = self._batches[-1]
        return view.at(batch.num_rows - 1)

    def reach_past(self, cut: Bound) -> None:
        """Read on while rows with the key of the cut may follow."""
        while self.rows and not self.exhausted and self.last() == cut:
            self._load()

    def take(self, cut: Bound | None) -> list[pa.RecordBatch]:
        """Remove and return the rows up to and including the cut; all for None."""
        taken: list[pa.RecordBatch] = []
        while self._batches:
            batch, view, size = self._batches[0]
            stop = batch.num_rows if cut is None else view.upper(cut, self._start)
            if stop > self._start:
                taken.append(batch.slice(self._start, stop - self._start))
                self.rows -= stop - self._start
            if stop < batch.num_rows:
                self._start = stop
                break
            self._batches.popleft()
            self._bytes -= size
            self._start = 0
        return taken

    def _load(self) -> None:
        batch = next(self._source, None)
        if batch is None:
            self.exhausted = True
            return
        size = batch.nbytes
        self._batches.append((batch, self._order.view(batch), size))
        self._bytes += size
        self.rows += batch.num_rows


def _pieces(run: Iterable[pa.RecordBatch], block: BlockSize) -> Iterator[pa.RecordBatch]:
    """The batches of a run, empty ones left out, cut where they are larger than a block."""
    for batch in run:
        count = batch.num_rows
        parts = max(-(-count // block.rows), -(-batch.nbytes // block.bytes), 1)
        step = max(1, -(-count // parts))
        for start in range(0, count, step):
            yield batch if step >= count else batch.slice(start, step)


def _merged_slice(
    parts: list[list[pa.RecordBatch]], order: KeyOrder, engine: MergeEngine, drop_deletes: bool, ordered: bool
) -> Iterator[pa.RecordBatch]:
    batches = [batch for part in parts for batch in part]
    if sum(1 for part in parts if part) == 1 and _is_strict(batches, order):
        merged = [_apply(batch, (None, None), engine, drop_deletes) for batch in batches]
    elif ordered or engine.computes or len(batches) == 1:
        rows = batches[0] if len(batches) == 1 else concatenated(batches)
        merged = [_apply(rows, order.sort(rows), engine, drop_deletes)]
    else:
        merged = _filtered(batches, order, engine, drop_deletes)
    yield from (batch for batch in merged if batch.num_rows)


def _is_strict(batches: list[pa.RecordBatch], order: KeyOrder) -> bool:
    """Whether the keys of consecutive batches of one run are distinct and ascending."""
    if not all(order.is_strict(batch) for batch in batches):
        return False
    views = [order.view(batch) for batch in batches]
    return all(a.at(a.rows - 1) < b.at(0) for a, b in pairwise(views))


def _apply(
    rows: pa.RecordBatch, ordered: tuple[Indices | None, Indices | None], engine: MergeEngine, drop_deletes: bool
) -> pa.RecordBatch:
    """One slice through the engine, each column gathered once."""
    return _gathered(rows, decided(Groups(*ordered, rows.num_rows, rows.column), engine, drop_deletes))


def _filtered(
    batches: list[pa.RecordBatch], order: KeyOrder, engine: MergeEngine, drop_deletes: bool
) -> list[pa.RecordBatch]:
    """What stays of each batch of a slice, in its own order, by an engine that only picks rows."""
    keys = pa.concat_batches([batch.select(order.columns) for batch in batches])

    def column(name: str) -> pa.Array:
        return pa.concat_arrays([batch.column(name) for batch in batches])

    merged = decided(Groups(*order.sort(keys), keys.num_rows, column), engine, drop_deletes)
    if merged.rows is None or len(merged.rows) == keys.num_rows:
        return batches
    live = np.zeros(keys.num_rows, np.bool_)
    live[merged.rows] = True
    ends = np.cumsum([batch.num_rows for batch in batches])
    masks = np.split(live, ends[:-1])
    return [batch.filter(pa.array(mask)) for batch, mask in zip(batches, masks, strict=True)]


def decided(groups: Groups, engine: MergeEngine, drop_deletes: bool) -> Merged:
    """The engine's answer, without results of kind -U and -D if deletes are dropped."""
    merged = engine.merge(groups)
    if not drop_deletes:
        return merged
    computed = merged.columns.get(KIND_FIELD.name)
    retract = is_retract(groups.kinds() if computed is None else computed.to_numpy())
    if not retract.any():
        return merged
    if computed is None and merged.rows is not None:
        retract = retract[merged.rows]
    keep = ~retract
    rows = np.flatnonzero(keep) if merged.rows is None else merged.rows[keep]
    return Merged(rows, {name: column.filter(pa.array(keep)) for name, column in merged.columns.items()})


def _gathered(rows: pa.RecordBatch, merged: Merged) -> pa.RecordBatch:
    """The rows that stay, with the columns that the engine computed."""
    picks = merged.rows
    if picks is not None and len(picks) and not 0 <= picks.min() <= picks.max() < rows.num_rows:
        raise IndexError("a merge engine picked rows that are not there")  # checked once, not in every column
    if not merged.columns:
        return rows if picks is None else pc.take(rows, pa.array(picks), boundscheck=False)
    columns = []
    for name in rows.schema.names:
        kept = merged.columns.get(name)
        if kept is None:
            column = rows.column(name)
            kept = column if picks is None else pc.take(column, pa.array(picks), boundscheck=False)
        columns.append(kept)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
