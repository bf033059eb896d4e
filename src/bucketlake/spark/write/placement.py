"""Which task writes which rows: wherever they are where few tasks meet few groups, else by their owner, one shuffle.

Spec: docs/spec/writing.md#planning
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.ops.buckets.postpone import writes_pending
from bucketlake.ops.buckets.write_plan import MOST_LOAD, overload, owners, tasks_for
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.spark.types import quoted
from bucketlake.spark.write.bucketing import bucket_column, range_column, share_column
from bucketlake.spark.write.counting import numbered_column
from bucketlake.spark.write.first_load import is_cheap

FEW_FILES = 64  # tasks x buckets below which a shuffle costs more than it saves
FEW_FILES_OF_PARTITIONS = 128  # tasks x partitions x buckets, the same in partitioned tables
FEW_RUNS = 4  # files of one bucket from as many tasks: less than what is compacted at once
LARGE_FILE_ROWS = 200_000  # files of so many rows are read as fast as larger ones
MOST_OWNERS = 10_000  # buckets whose owners are listed in the plan
MANY_PARTITIONS = MOST_LOAD + 1  # of an append table: its rows are shuffled
_COUNTED = 2_000_000  # more partitions than a write may have: the count stops there


def count_partitions(
    spark: SparkSession, schema: TableSchema, frame: DataFrame, template: WriteTask, once: bool = False
) -> int | None:
    """Into how many partitions the rows go: 1 without partition columns; those that live, where these are enough for a
    shuffle, which makes no more files than there are groups; else counted where that costs little; else None. `once`:
    the rows may not be evaluated here."""
    if not schema.partition_keys:
        return 1
    live = len({partition for partition, _ in template.sequence_start})
    if live * max(schema.bucket, 1) * (template.tasks - 1) > FEW_FILES_OF_PARTITIONS:
        return live
    if once or not is_cheap(spark, frame):
        return None
    columns = [F.col(quoted(name)) for name in schema.partition_keys]
    return int(frame.select(*columns).distinct().limit(_COUNTED).count())


def planned(schema: TableSchema, template: WriteTask, partitions: int | None) -> WriteTask:
    """The task with as many others beside it as a write to so many partitions wants."""
    if partitions is None or schema.bucket_mode not in (BucketMode.FIXED, BucketMode.UNAWARE):
        return template
    return replace(template, tasks=tasks_for(partitions, max(schema.bucket, 1), template.tasks - 1) + 1)


def placed(
    frame: DataFrame,
    schema: TableSchema,
    template: WriteTask,
    codes: dict[bytes, int],
    partitions: int | None = None,
    rows: int | None = None,
) -> DataFrame:
    """The rows with the task that writes them. `codes`: hashes of counted partitions of postpone tables; `partitions`:
    as `count_partitions` says; `rows`: how many there are, where it is known."""
    tasks = template.tasks - 1
    if _shuffles_for_nothing(schema, template, len(codes) or partitions, rows):
        return frame.coalesce(tasks)
    return frame.repartitionById(tasks, _owner(schema, template, codes))


def warn_of_load(messages: Iterable[CommitMessage], tasks: int) -> None:
    """Warn of a write that gave every task too many partitions and buckets."""
    found = list(messages)
    partitions = len({message.partition for message in found})
    buckets = max((message.total_buckets for message in found), default=1)
    if buckets < 1:  # dynamic: those that there are
        counts: dict[bytes, set[int]] = {}
        for message in found:
            counts.setdefault(message.partition, set()).add(message.bucket)
        buckets = max((len(numbers) for numbers in counts.values()), default=1)
    text = overload(partitions, buckets, tasks)
    if text is not None:
        warnings.warn(text, stacklevel=2)


def _shuffles_for_nothing(schema: TableSchema, template: WriteTask, partitions: int | None, rows: int | None) -> bool:
    tasks, mode = template.tasks - 1, schema.bucket_mode
    if writes_pending(schema) or tasks == 1:
        return True
    if mode is BucketMode.UNAWARE:
        return partitions is None or partitions <= MOST_LOAD
    if mode is BucketMode.KEY_DYNAMIC or partitions is None:
        return False
    if mode is BucketMode.DYNAMIC:
        groups = sum(template.first_load.values())
    elif mode is BucketMode.POSTPONE:
        groups = partitions * max((1, *template.total_buckets.values()))
    else:
        groups = partitions * schema.bucket
    if groups and rows and tasks <= FEW_RUNS and rows >= tasks * groups * LARGE_FILE_ROWS:
        return True
    return 0 < tasks * groups <= (FEW_FILES_OF_PARTITIONS if schema.partition_keys else FEW_FILES)


def _owner(schema: TableSchema, template: WriteTask, codes: dict[bytes, int]) -> Column:
    """The task that owns a row's partition and bucket, or with dynamic buckets its share of the partition's keys:
    those of a partition go to consecutive tasks. A first load: the task that owns the range of hashes; cross-partition
    tables the same, whatever the partition."""
    tasks = template.tasks - 1
    if schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        return range_column(schema, tasks, schema.primary_keys)
    if template.first_load:
        owner = range_column(schema, tasks)
    elif schema.bucket_mode is BucketMode.DYNAMIC:
        owner = share_column(schema, template.assigners)
    elif schema.bucket_mode is BucketMode.POSTPONE:
        owner = numbered_column(schema, template.total_buckets, codes)
    elif schema.bucket_mode is BucketMode.UNAWARE:
        owner = F.lit(0)
    else:
        owner = bucket_column(schema, schema.bucket)
        if not schema.partition_keys and template.sequence_start and schema.bucket <= MOST_OWNERS:
            return _weighted(owner, schema, template)
    if schema.partition_keys:
        owner = F.hash(*[F.col(quoted(name)) for name in schema.partition_keys]).cast("long") + owner
    return F.pmod(owner, F.lit(tasks)).cast("int")


def _weighted(bucket: Column, schema: TableSchema, template: WriteTask) -> Column:
    """Buckets dealt out by weight: sequence numbers say how many rows each was written so far."""
    written = {number: start - template.first_sequence for (_, number), start in template.sequence_start.items()}
    tasks = owners([written.get(number, 0) for number in range(schema.bucket)], template.tasks - 1)
    listed = F.expr(f"array({', '.join(map(str, tasks))})")
    return F.element_at(listed, bucket + 1)
