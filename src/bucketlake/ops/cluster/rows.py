"""Rows put in order in bounded memory: sorted whole where they fit, else as sorted runs on local disk that are merged.

    in_order(batches, order, store) -> batches              rows in the canonical layout
    incoming_in_order(batches, order, store) -> batches     rows as a caller gives them
    sorted_run(parts, ranks), merged_runs(runs, ranks)      the two steps, for rows that are put aside elsewhere

Spec: docs/spec/clustering.md#sorting
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.ops.cluster.order import Ranks, SortOrder
from bucketlake.ops.rows.incoming import Incoming
from bucketlake.ops.rows.spill import Spill, pieces
from bucketlake.ops.table.memory import joined
from bucketlake.ops.table.store import Store

_PIECE = 4 << 20  # bytes of what is given out at once
MOST_SORTED = 1 << 30  # string columns of one buffer must stay below 2 GiB, the reach of 32-bit offsets
Ranking = Callable[[pa.RecordBatch], Ranks]


def in_order(batches: Iterable[pa.RecordBatch], order: SortOrder, store: Store) -> Iterator[pa.RecordBatch]:
    """All rows of batches in the canonical layout, in the order; equal ones as they came, where all fit into
    `write-buffer-size`."""
    options = store.options
    budget = min(int(options.get("write-buffer-size")), MOST_SORTED)
    spill = Spill.of(options)
    waiting: list[pa.RecordBatch] = []
    size = 0
    try:
        for batch in batches:
            for piece in pieces(batch, budget):
                if size + piece.nbytes > budget and waiting:
                    spill.write([(0, sorted_run(waiting, order.ranks))])
                    size = 0
                waiting.append(piece)
                size += piece.nbytes
        if not spill.files:
            yield from sorted_run(waiting, order.ranks)
            return
        if waiting:
            spill.write([(0, sorted_run(waiting, order.ranks))])
        yield from merged_runs(spill.runs(0), order.ranks)
    finally:
        spill.clear()


def incoming_in_order(batches: Iterable[pa.RecordBatch], order: SortOrder, store: Store) -> Iterator[pa.RecordBatch]:
    """Rows on their way into an append table in the order. InvalidError for rows that do not fit it."""
    incoming = Incoming(store.schema)
    yield from in_order((incoming.rows(batch) for batch in batches), order, store)


def sorted_run(parts: list[pa.RecordBatch], ranks: Ranking) -> Iterator[pa.RecordBatch]:
    """The parts, which leave their list, as one sorted run, by the ranks of all their rows."""
    if not parts:
        return
    rows = joined(parts)
    yield from taken(rows, np.argsort(ranks(rows), kind="stable"))


def taken(rows: pa.RecordBatch, places: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """The rows at these places, in small batches."""
    step = max(1, int(rows.num_rows * _PIECE / max(rows.nbytes, 1)))
    for start in range(0, len(places), step):
        yield rows.take(pa.array(places[start : start + step]))


def merged_runs(runs: Sequence[Iterator[pa.RecordBatch]], ranks: Ranking) -> Iterator[pa.RecordBatch]:
    """Sorted runs as one: what is not above the least last row of the runs' blocks goes out, block after block."""
    blocks = [(block, run) for run in runs if (block := next(run, None)) is not None]
    while blocks:
        whole = joined([block for block, _ in blocks])
        found = ranks(whole)
        ends = np.cumsum([block.num_rows for block, _ in blocks])
        bound = found[ends - 1].min()
        chosen = np.flatnonzero(found <= bound)
        yield whole.take(pa.array(chosen[np.argsort(found[chosen], kind="stable")]))
        following = []
        for (block, run), end in zip(blocks, ends, strict=True):
            start = end - block.num_rows
            left: pa.RecordBatch | None = block.slice(int(np.searchsorted(found[start:end], bound, "right")))
            if left is not None and not left.num_rows:
                left = next(run, None)
            if left is not None:
                following.append((left, run))
        blocks = following
