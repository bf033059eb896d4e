"""Rows of parquet files on their way to the tasks of their owners, by way of this machine's disk.

    Owners                                       whose rows are whose, as tasks see it
    dealt(spark, store, shares, owners, action)  reads, deals out and runs the action in the owners' tasks

The rows of an owner come in the files' order.

Spec: docs/spec/writing.md#on-one-machine
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

from bucketlake.errors import BucketlakeError
from bucketlake.format.row.binary_row import encode_rows
from bucketlake.format.row.hashing import assign_buckets, hash_rows
from bucketlake.ops.table.store import Store
from bucketlake.spark.cluster import Action, messages_of, run_values, unpickled
from bucketlake.spark.write.aside import Aside, Flush, gathered, put_aside, scratch
from bucketlake.spark.write.parquet_rows import Share
from bucketlake.types.model import DataField, canonical_batch
from bucketlake.values import dataclass

_WAITING = 64 << 20  # bytes that a task keeps before it puts them aside
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Owners:
    """Which task owns a row; travels to the tasks. By `keys`, a row gets one of `count` numbers: a bucket by the
    `function`, or without one a range of key hashes. Number n is the task `tasks_of[n]`; else, with the hash of the
    partition columns `groups` added, n mod `tasks`."""

    keys: tuple[DataField, ...]
    count: int
    tasks: int
    function: str | None = None
    groups: tuple[DataField, ...] = ()
    tasks_of: tuple[int, ...] = ()

    def __call__(self, rows: pa.RecordBatch) -> Numbers:
        """The task of each row. Nulls get one too: whoever writes the rows refuses them by column name."""
        keys = [replace(key, type=key.type.with_nullable(True)) for key in self.keys]
        batch = canonical_batch(rows, keys)
        if self.function is None:
            numbers = ((_hashes(batch, keys) + (1 << 31)) * self.count) >> 32
        else:
            numbers = assign_buckets(batch, keys, self.count, self.function).astype(np.int64)
        if self.tasks_of:
            listed: Numbers = np.asarray(self.tasks_of, np.int64)[numbers]
            return listed
        if self.groups:
            groups = [replace(group, type=group.type.with_nullable(True)) for group in self.groups]
            numbers = numbers + _hashes(canonical_batch(rows, groups), groups)
        return np.asarray(numbers % self.tasks, np.int64)


def _hashes(batch: pa.RecordBatch, fields: Sequence[DataField]) -> Numbers:
    hashes: Numbers = hash_rows(encode_rows(batch.columns, [item.type for item in fields])).astype(np.int64)
    return hashes


@dataclass(frozen=True)
class _Dealing:
    """The task that reads its shares and puts the rows aside for their owners."""

    store: Store
    owners: Owners
    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Aside | BucketlakeError]:
        return put_aside(self.store, self.folder, self._flushes(batches))

    def _flushes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Flush]:
        waiting: dict[int, list[pa.RecordBatch]] = {}
        size = 0
        for rows in (rows for share in unpickled(batches) for rows in share.batches()):
            for number, own in self._own(rows):
                waiting.setdefault(number, []).append(own)
            size += rows.nbytes
            if size > _WAITING:
                yield _flush(waiting)
                waiting, size = {}, 0
        if waiting:
            yield _flush(waiting)

    def _own(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each owner, in their order."""
        owners = self.owners(rows)
        order = np.argsort(owners, kind="stable")
        rows = rows.take(pa.array(order))
        numbers, starts = np.unique(owners[order], return_index=True)
        for number, start, end in zip(
            numbers.tolist(), starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True
        ):
            yield number, rows.slice(start, end - start)


def _flush(waiting: Mapping[int, list[pa.RecordBatch]]) -> Flush:
    return waiting.items(), {number: sum(rows.nbytes for rows in found) for number, found in waiting.items()}


@dataclass(frozen=True)
class _Taking:
    """An action of tasks over the rows that lie aside for them."""

    action: Action

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[object]:
        asides = chain.from_iterable(unpickled(batches))
        return iter(self.action(rows for aside in asides for rows in aside.rows()))


def dealt(spark: SparkSession, store: Store, shares: Sequence[Share], owners: Owners, action: Action) -> list[object]:
    """What the action answers in the owners' tasks, over their rows; the task of owner k is the k-th. Errors in the
    files as those of `Share.batches`."""
    with scratch() as folder:
        results = run_values(spark, shares, _Dealing(store, owners, folder))
        messages_of(store, results)  # raises the error of a task
        return run_values(spark, gathered(results, owners.tasks), _Taking(action))
