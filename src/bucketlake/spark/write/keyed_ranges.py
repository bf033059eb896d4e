"""A large partition of a table with dynamic buckets put in order by many tasks: each has a range of the order, and
buckets of its own.

    in_ranges(spark, store, unit, order) -> messages, None where one task does it as well

A key's bucket is found by a hash of 32 bits, so that all keys of one hash have to lie in one bucket: those that share
one (n² / 2^33 hashes among n keys) are counted first, and all rows of such a hash go to the range of the least of them.
Task k of n fills the buckets k, k + n, k + 2n, …

Spec: docs/spec/clustering.md#dynamic-buckets
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.errors import BucketlakeError, CorruptError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.ops.buckets.assigner import MOST_BUCKETS, BucketRule
from bucketlake.ops.cluster.keyed import KeyedUnit
from bucketlake.ops.cluster.order import SortOrder
from bucketlake.ops.cluster.ranges import Bounds, bounds_of
from bucketlake.ops.rows.roll import TARGET_APPEND
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.spark import actions
from bucketlake.spark.cluster import ensure_package, parallelism
from bucketlake.spark.read import reader
from bucketlake.spark.types import quoted
from bucketlake.spark.write import ordered
from bucketlake.spark.write.bucketing import hash_column
from bucketlake.spark.write.layout import Layout, layout_of
from bucketlake.spark.write.ordered import OrderedWrite, sample, written
from bucketlake.values import dataclass

MOST_ROWS = 200_000_000  # some five million hashes are shared then, 40 MB that every task gets
_PLACE, _KEY, _HASH = "__bucketlake_place", "__bucketlake_key", "__bucketlake_hash"

Hashes = npt.NDArray[np.int32]


def is_large(unit: KeyedUnit) -> bool:
    """Whether several tasks are worth while, and can know which keys share a hash."""
    return unit.size > 2 * ordered.LEAST_RANGE and unit.row_count <= MOST_ROWS


@dataclass(frozen=True)
class _Places:
    """Which range a row belongs to. `hashes`: those of several keys, ascending, and the range of each."""

    layout: Layout
    bounds: Bounds
    hashes: Hashes
    ranges: Hashes

    def __call__(self, columns: list[pa.Array], own: pa.Array) -> pa.Array:
        groups, keys = self.layout.keys(columns)
        found = self.bounds.place([*groups, *keys])
        if len(self.hashes):
            hashes = own.to_numpy(zero_copy_only=False)
            places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            found = np.where(self.hashes[places] == hashes, self.ranges[places], found)
        return pa.array(found, pa.int32())


@dataclass(frozen=True)
class _RangeWrite(OrderedWrite):
    """The task that writes one range, into buckets that no other task fills."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[CommitMessage] | BucketlakeError]:
        context = TaskContext.get()
        owner = context.partitionId() if context is not None else 0
        yield from OrderedWrite(self.store, replace(self.template, owner=owner))(batches)


def in_ranges(spark: SparkSession, store: Store, unit: KeyedUnit, order: SortOrder) -> list[CommitMessage] | None:
    """Put a partition's rows in order by ranges; None where they are one range. On an error no file stays.

    Raises CorruptError where other rows were written than were read, and as `written`.
    """
    ensure_package(spark)
    layout, rule = layout_of(store, order), BucketRule.of(store.options)
    entries = [
        ManifestEntry(FileKind.ADD, split.partition, split.bucket, split.total_buckets, file)
        for split in unit.splits
        for file in split.files
    ]
    frame = reader.rows_of(spark, store, Plan(None, tuple(entries), unit.splits))
    target = store.options.get("target-file-size") or TARGET_APPEND
    count = ordered.range_count(unit.size, target, parallelism(spark), ordered.MOST_BUCKET)
    count = min(count, rule.most or MOST_BUCKETS)
    if count < 2:
        return None
    drawn = sample(spark, store, frame, layout)
    bounds = bounds_of(drawn.samples, count)
    if bounds.ranges < 2:
        return None
    none = np.zeros(0, np.int32)
    hashed = frame.withColumn(_HASH, hash_column(store.schema))
    placed = _placed(hashed, _Places(layout, bounds, none, none))
    shared = placed.groupBy(_HASH).agg(F.count(F.lit(1)).alias("n"), F.min(_PLACE).alias("range")).where("n > 1")
    found = actions.to_arrow(shared.select(_HASH, "range")).sort_by(_HASH)
    hashes, ranges = (found.column(name).to_numpy().astype(np.int32) for name in (_HASH, "range"))
    rows = _in_order(_placed(hashed, _Places(layout, bounds, hashes, ranges)), layout, bounds.ranges, frame.columns)
    template = WriteTask(new_commit_user(store), changelog=False, assigners=bounds.ranges)
    messages = written(store, rows, _RangeWrite(store, template))
    total = sum(file.row_count for message in messages for file in message.new_files)
    if total != drawn.rows:
        discard(store, messages)
        raise CorruptError(
            "rows that were put in order are not those of their files",
            path=store.paths.root,
            partition=store.paths.partition_texts(unit.partition),
            rows=drawn.rows,
            found=total,
            remedy="nothing was changed; CALL sys.fsck says what is wrong",
        )
    return messages


def _placed(frame: DataFrame, places: _Places) -> DataFrame:
    @F.arrow_udf("int")  # type: ignore[untyped-decorator]
    def place(own: pa.Array, *columns: pa.Array) -> pa.Array:
        return places(list(columns), own)

    columns = [F.col(quoted(item.name)) for item in places.layout.wanted]
    return frame.withColumn(_PLACE, place(F.col(_HASH), *columns))


def _in_order(frame: DataFrame, layout: Layout, ranges: int, names: list[str]) -> DataFrame:
    """The rows range by range in as many partitions, each in order."""
    keys: list[Column] = [F.col(quoted(name)) for name in layout.order.columns]
    if layout.order.is_curve:
        frame, keys = frame.withColumn(_KEY, _curve_key(layout)), [F.col(_KEY)]
    moved = frame.repartitionById(ranges, F.col(_PLACE)).sortWithinPartitions(*keys)
    return moved.select(*[F.col(quoted(name)) for name in names])


def _curve_key(layout: Layout) -> Column:
    @F.arrow_udf("binary")  # type: ignore[untyped-decorator]
    def key(*columns: pa.Array) -> pa.Array:
        return layout.keys(list(columns))[1][0]

    return key(*[F.col(quoted(item.name)) for item in layout.wanted])
