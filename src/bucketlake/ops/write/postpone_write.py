"""Batch writes to postpone tables: partitions without real buckets get their number from the rows to come, and row
changes go where they apply after the rows that they speak of.

Spec: docs/spec/postpone.md#writing
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import chain

import pyarrow as pa

from bucketlake.ops.buckets.postpone import (
    Amount,
    amounts,
    buckets_for_write,
    counts_rows,
    reads_pending,
    writes_pending,
)
from bucketlake.ops.rows.incoming import Incoming
from bucketlake.ops.rows.spill import Spill
from bucketlake.ops.scan.scan import EntryFilter, live_entries
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.write import write_batches
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.values import dataclass

PENDING = EntryFilter(buckets=frozenset([POSTPONE_BUCKET]))


def write_counted(
    store: Store,
    batches: Iterable[pa.RecordBatch],
    task: WriteTask,
    kinds: str | None = None,
    overwrite: bool = False,
) -> list[CommitMessage]:
    """As `write_batches`, for all rows of a write: where new partitions of a postpone table need a bucket number, the
    rows are counted first; over `write-buffer-size` they wait on local disk. `overwrite`: rows pending there go away.
    """
    if not counts_rows(store.schema, task.total_buckets):
        return write_batches(store, batches, task, kinds)
    with _counted(store, batches, kinds) as counted:
        task = with_numbers(store, task, counted.found, overwrite)
        return write_batches(store, counted.rows(), task, KIND_FIELD.name)


def with_numbers(store: Store, task: WriteTask, incoming: Mapping[bytes, Amount], overwrite: bool = False) -> WriteTask:
    """The task with a bucket number for each partition of the rows that has none yet."""
    new = frozenset(incoming.keys() - task.total_buckets.keys())
    if not new:
        return task
    waiting = {} if overwrite else pending_rows(store, new)
    chosen = {
        partition: buckets_for_write(store.options, incoming[partition], waiting.get(partition, 0)) for partition in new
    }
    return replace(task, total_buckets={**task.total_buckets, **chosen})


def pending_rows(store: Store, partitions: frozenset[bytes] | None = None) -> dict[bytes, int]:
    """How many rows are pending in each partition that has pending files."""

    def once() -> dict[bytes, int]:
        found: dict[bytes, int] = {}
        snapshot = store.latest_snapshot()
        wanted = replace(PENDING, partitions=partitions)
        for entry in () if snapshot is None else live_entries(store, snapshot, wanted):
            found[entry.partition] = found.get(entry.partition, 0) + entry.file.row_count
        return found

    return on_newest(store, once)


def for_changes(store: Store, task: WriteTask) -> WriteTask:
    """The task of a DELETE or UPDATE: where reads see pending rows, changes in partitions that have such rows are
    pending as well, since pending rows apply after those of real buckets."""
    if not reads_pending(store) or writes_pending(store.schema):
        return task
    waiting = dict.fromkeys(pending_rows(store), POSTPONE_BUCKET)
    return replace(task, total_buckets={**task.total_buckets, **waiting})


@dataclass(slots=True)
class _Counted:
    """Rows put aside in their order: the first on disk, the last in memory. `found`: how many, by partition."""

    spill: Spill
    budget: int
    found: dict[bytes, Amount] = field(default_factory=dict)
    _kept: list[pa.RecordBatch] = field(default_factory=list)
    _bytes: int = 0

    def take(self, batch: pa.RecordBatch) -> None:
        self._kept.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self.budget:
            self.spill.write([(0, self._kept)])
            self._kept.clear()
            self._bytes = 0

    def rows(self) -> Iterator[pa.RecordBatch]:
        return chain(chain.from_iterable(self.spill.runs(0)), self._kept)


@contextmanager
def _counted(store: Store, batches: Iterable[pa.RecordBatch], kinds: str | None) -> Iterator[_Counted]:
    incoming, options = Incoming(store.schema, kinds), store.options
    spill = Spill.of(options)
    counted = _Counted(spill, options.get("write-buffer-size"))
    try:
        for batch in batches:
            rows = incoming.rows(batch)
            for partition, amount in amounts(store.schema, rows).items():
                counted.found[partition] = counted.found.get(partition, Amount()) + amount
            counted.take(rows)
        yield counted
    finally:
        spill.clear()
