"""Rows in no order of keys → sorted runs by bucket, in bounded memory.

    PendingRuns.of(order, engine, options)     takes rows in the order in which they apply, with their buckets

Spec: docs/spec/postpone.md#reading, docs/spec/clustering.md#keyed-tables
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np
import pyarrow as pa

from bucketlake.lsm.engines.engines import MergeEngine
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.merge import sorted_pieces
from bucketlake.ops.rows.assign import Codes, slices
from bucketlake.ops.rows.spill import Spill
from bucketlake.ops.table.memory import joined
from bucketlake.options.options import TableOptions
from bucketlake.values import dataclass

_MOST = 1 << 30  # bytes of rows sorted at once: string columns must stay below 2 GiB


@dataclass(slots=True)
class PendingRuns:
    """Takes batches of key-value rows that are numbered in their order; then `runs` gives each bucket's rows as sorted
    runs, oldest first. Over `budget` bytes they wait on local disk until `clear`."""

    order: KeyOrder
    engine: MergeEngine
    budget: int
    spill: Spill
    _buffer: list[tuple[pa.RecordBatch, Codes]] = field(default_factory=list)
    _bytes: int = 0
    _last: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)

    @classmethod
    def of(cls, order: KeyOrder, engine: MergeEngine, options: TableOptions) -> PendingRuns:
        """With the memory of a table's writers."""
        return cls(order, engine, min(int(options.get("write-buffer-size")), _MOST), Spill.of(options))

    def take(self, batch: pa.RecordBatch, buckets: Codes | None = None) -> None:
        """Take the rows of one batch. `buckets`: of each row, 0 by default; -1 for rows that do not count."""
        if buckets is None:
            buckets = np.zeros(batch.num_rows, np.int64)
        if (buckets < 0).any():
            kept = buckets >= 0
            batch, buckets = batch.filter(pa.array(kept)), buckets[kept]
        if batch.num_rows == 0:
            return
        self._buffer.append((batch, buckets))
        self._bytes += batch.nbytes
        if self._bytes >= self.budget:
            self.spill.write(self._sorted())

    def close(self) -> set[int]:
        """Sort what is left; the buckets that have rows."""
        self._last = {bucket: list(pieces) for bucket, pieces in self._sorted()}
        return self.spill.groups() | self._last.keys()

    def runs(self, bucket: int) -> list[Iterator[pa.RecordBatch]]:
        """A bucket's sorted runs, oldest first; at most one row a key in each."""
        last = self._last.get(bucket)
        return self.spill.runs(bucket) + ([] if last is None else [iter(last)])

    def clear(self) -> None:
        """Forget all rows and remove what lies on disk."""
        self._buffer.clear()
        self._last.clear()
        self.spill.clear()

    def _sorted(self) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
        """What is buffered, by bucket, sorted and merged, in pieces; the buffer is empty afterwards."""
        if not self._buffer:
            return
        buckets = np.concatenate([part for _, part in self._buffer])
        parts = [batch for batch, _ in self._buffer]
        self._buffer.clear()
        rows = joined(parts)
        self._bytes = 0
        order, found = slices(buckets)
        for bucket, start, end in found:
            within = None if end - start == len(buckets) else order[start:end]
            yield bucket, sorted_pieces(rows, self.order, self.engine, within=within)
