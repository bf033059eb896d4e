"""Rows put in order in bounded memory: sorted whole where they fit, else as sorted runs on local disk that are merged.

    in_order(batches, order, store) -> batches              rows in the canonical layout
    incoming_in_order(batches, order, store) -> batches     rows as a caller gives them

Spec: docs/spec/clustering.md#sorting
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from bucketlake.ops.cluster.order import SortOrder
from bucketlake.ops.rows.incoming import Incoming
from bucketlake.ops.rows.spill import Spill, pieces
from bucketlake.ops.table.memory import joined
from bucketlake.ops.table.store import Store

_PIECE = 4 << 20  # bytes of what is given out at once
_MOST = 1 << 30  # string columns of one buffer must stay below 2 GiB, the reach of 32-bit offsets


def in_order(batches: Iterable[pa.RecordBatch], order: SortOrder, store: Store) -> Iterator[pa.RecordBatch]:
    """All rows of batches in the canonical layout, in the order; equal ones as they came, where all fit into
    `write-buffer-size`."""
    options = store.options
    budget = min(int(options.get("write-buffer-size")), _MOST)
    spill = Spill.of(options)
    waiting: list[pa.RecordBatch] = []
    size = 0
    try:
        for batch in batches:
            for piece in pieces(batch, budget):
                if size + piece.nbytes > budget and waiting:
                    spill.write([(0, _sorted(waiting, order))])
                    size = 0
                waiting.append(piece)
                size += piece.nbytes
        if not spill.files:
            yield from _sorted(waiting, order)
            return
        if waiting:
            spill.write([(0, _sorted(waiting, order))])
        yield from _merged(spill.runs(0), order)
    finally:
        spill.clear()


def incoming_in_order(batches: Iterable[pa.RecordBatch], order: SortOrder, store: Store) -> Iterator[pa.RecordBatch]:
    """Rows on their way into an append table in the order. InvalidError for rows that do not fit it."""
    incoming = Incoming(store.schema)
    yield from in_order((incoming.rows(batch) for batch in batches), order, store)


def _sorted(parts: list[pa.RecordBatch], order: SortOrder) -> Iterator[pa.RecordBatch]:
    """The parts, which leave their list, as one sorted run."""
    if not parts:
        return
    rows = joined(parts)
    places = np.argsort(order.ranks(rows), kind="stable")
    step = max(1, int(rows.num_rows * _PIECE / max(rows.nbytes, 1)))
    for start in range(0, len(places), step):
        yield rows.take(pa.array(places[start : start + step]))


def _merged(runs: list[Iterator[pa.RecordBatch]], order: SortOrder) -> Iterator[pa.RecordBatch]:
    """Sorted runs as one: what is not above the least last row of the runs' blocks goes out, block after block."""
    blocks = [(block, run) for run in runs if (block := next(run, None)) is not None]
    while blocks:
        whole = joined([block for block, _ in blocks])
        ranks = order.ranks(whole)
        ends = np.cumsum([block.num_rows for block, _ in blocks])
        bound = ranks[ends - 1].min()
        chosen = np.flatnonzero(ranks <= bound)
        yield whole.take(pa.array(chosen[np.argsort(ranks[chosen], kind="stable")]))
        following = []
        for (block, run), end in zip(blocks, ends, strict=True):
            start = end - block.num_rows
            left: pa.RecordBatch | None = block.slice(int(np.searchsorted(ranks[start:end], bound, "right")))
            if left is not None and not left.num_rows:
                left = next(run, None)
            if left is not None:
                following.append((left, run))
        blocks = following
