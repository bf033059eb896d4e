"""Which task writes which rows: wherever they are where few tasks meet few groups, else by their owner, one shuffle.

One object a bucket mode; the driver asks it before the tasks start:

    mode               what it finds out                            a row's owner by
    unaware            how many partitions                          partition, where there are many
    fixed              how many partitions                          partition and bucket, dealt out by weight
    postpone           rows a partition, where numbers are wanted   partition and bucket; pending rows: nobody
    dynamic            buckets of a first load                      range of hashes at first, then share of keys
    cross-partition    the index of keys                            range of key hashes

Spec: docs/spec/writing.md#planning
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.ops.buckets.assigner import assigners_of
from bucketlake.ops.buckets.postpone import counts_rows, writes_pending
from bucketlake.ops.buckets.write_plan import MOST_LOAD, overload, owners, tasks_for
from bucketlake.ops.key_index.cache import open_index
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.postpone_write import with_numbers
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.spark import actions
from bucketlake.spark.types import quoted
from bucketlake.spark.write.bucketing import bucket_column, range_column, share_column
from bucketlake.spark.write.counting import count_rows, evaluated_once, numbered_column
from bucketlake.spark.write.dealt import Owners
from bucketlake.spark.write.first_load import first_load, is_cheap
from bucketlake.spark.write.key_index import build_index
from bucketlake.spark.write.parquet_rows import Source
from bucketlake.values import dataclass

FEW_FILES = 64  # tasks x buckets below which a shuffle costs more than it saves
FEW_FILES_OF_PARTITIONS = 128  # tasks x partitions x buckets, the same in partitioned tables
FEW_RUNS = 4  # files of one bucket from as many tasks: less than what is compacted at once
LARGE_FILE_ROWS = 200_000  # files of so many rows are read as fast as larger ones
MOST_OWNERS = 10_000  # buckets whose owners are listed in the plan
_COUNTED = 2_000_000  # more partitions than a write may have: the count stops there


@dataclass(frozen=True)
class _Plan:
    """A write's rows and what is known of them. `template`: the task that all are made from; `partitions`, `rows`: how
    many they go to and are, None where that is not known; `codes`: hashes of counted partitions."""

    frame: DataFrame
    template: WriteTask
    partitions: int | None = None
    rows: int | None = None
    codes: Mapping[bytes, int] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        return self.template.tasks - 1  # the last one is the driver


@dataclass(frozen=True, slots=True)
class Given:
    """What rows are. `kinds`: name of a further column with row kinds; `overwrite`: what is there goes away; `once`:
    they may be evaluated once only, as those of a stream's batch, whose plan does not show what they cost; `source`:
    what they were made of, where no value has changed since but by casts to the table's types."""

    kinds: str | None = None
    overwrite: bool = False
    once: bool = False
    source: Source | None = None


GIVEN = Given()


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows in the tasks that write them, and these tasks' template; `stay`: any task may write any of the rows, else
    `owners`: which must, where tasks can tell."""

    frame: DataFrame
    template: WriteTask
    stay: bool
    owners: Owners | None = None


@contextmanager
def placed(
    spark: SparkSession, store: Store, frame: DataFrame, template: WriteTask, given: Given = GIVEN
) -> Iterator[Placed]:
    """The rows, in the tasks that write them; `template` is for one more, the driver."""
    placement = _PLACEMENTS[store.schema.bucket_mode](spark, store, given)
    with placement.planned(frame, template) as plan:
        if plan.tasks == 1 or placement.stays(plan):
            yield Placed(plan.frame.coalesce(plan.tasks), plan.template, stay=True)
        else:
            moved = plan.frame.repartitionById(plan.tasks, placement.owner(plan))
            yield Placed(moved, plan.template, stay=False, owners=placement.owners(plan))


def indexed(spark: SparkSession, store: Store, template: WriteTask) -> WriteTask:
    """The task with what is known of the keys of its base, so that tasks load their shares of it."""
    if not template.key_base:
        return template
    base = store.find_snapshot(template.key_base) or store.latest_snapshot()  # which may have expired by now
    if base is None:
        return template
    return replace(template, key_base=base.id, key_index=open_index(store, base, partial(build_index, spark)))


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


@dataclass(frozen=True)
class _Fixed:
    """A task owns buckets, of one partition each; without partitions they are dealt out by weight."""

    spark: SparkSession
    store: Store
    given: Given

    @property
    def schema(self) -> TableSchema:
        return self.store.schema

    @contextmanager
    def planned(self, frame: DataFrame, template: WriteTask) -> Iterator[_Plan]:
        """What is found out of the rows before they are written."""
        yield self._spread(frame, template)

    def stays(self, plan: _Plan) -> bool:
        """Whether each task writes the rows that it has: there are so few groups that a shuffle would cost more."""
        groups = self._groups(plan)
        if groups is None:
            return False
        if groups and plan.rows and plan.tasks <= FEW_RUNS and plan.rows >= plan.tasks * groups * LARGE_FILE_ROWS:
            return True
        return 0 < plan.tasks * groups <= (FEW_FILES_OF_PARTITIONS if self.schema.partition_keys else FEW_FILES)

    def owner(self, plan: _Plan) -> Column:
        """The number (int) of the task that writes a row."""
        if self._is_weighted(plan):
            return self._weighted(plan)
        return self._of_partition(bucket_column(self.schema, self.schema.bucket), plan)

    def owners(self, plan: _Plan) -> Owners | None:
        """As `owner`, for tasks that have the rows; None where these cannot tell."""
        keys = tuple(self.schema.select(self.schema.bucket_keys))
        function = str(self.schema.table_options.get("bucket-function.type"))
        if self._is_weighted(plan):
            listed = tuple(self._dealt(plan))
            return Owners(keys, self.schema.bucket, plan.tasks, function, tasks_of=listed)
        return Owners(keys, self.schema.bucket, plan.tasks, function, tuple(self.schema.partition_fields))

    def _groups(self, plan: _Plan) -> int | None:
        """Into how many files the rows of one task go, None where that is not known."""
        return None if plan.partitions is None else plan.partitions * self.schema.bucket

    def _spread(self, frame: DataFrame, template: WriteTask) -> _Plan:
        """The rows with as many tasks as their partitions want."""
        partitions = self._partitions(frame, template)
        if partitions is not None:
            tasks = tasks_for(partitions, max(self.schema.bucket, 1), template.tasks - 1)
            template = replace(template, tasks=tasks + 1)
        return _Plan(frame, template, partitions)

    def _partitions(self, frame: DataFrame, template: WriteTask) -> int | None:
        """Into how many partitions the rows go: 1 without partition columns; those that live, where these are enough
        for a shuffle, which makes no more files than there are groups; else counted where that costs little."""
        if not self.schema.partition_keys:
            return 1
        live = len({partition for partition, _ in template.sequence_start})
        if live * max(self.schema.bucket, 1) * (template.tasks - 1) > FEW_FILES_OF_PARTITIONS:
            return live
        if self.given.once or not is_cheap(self.spark, frame):
            return None
        columns = [F.col(quoted(name)) for name in self.schema.partition_keys]
        return actions.count(frame.select(*columns).distinct().limit(_COUNTED))

    def _of_partition(self, owner: Column, plan: _Plan) -> Column:
        """The task of a row's partition and bucket; those of a partition go to consecutive tasks."""
        if self.schema.partition_keys:
            owner = F.hash(*[F.col(quoted(name)) for name in self.schema.partition_keys]).cast("long") + owner
        return F.pmod(owner, F.lit(plan.tasks)).cast("int")

    def _is_weighted(self, plan: _Plan) -> bool:
        known = plan.template.sequence_start
        return not self.schema.partition_keys and bool(known) and self.schema.bucket <= MOST_OWNERS

    def _dealt(self, plan: _Plan) -> list[int]:
        """The task of each bucket, dealt out by weight: sequence numbers say how many rows each was written so far."""
        starts = plan.template.sequence_start.items()
        written = {number: start - plan.template.first_sequence for (_, number), start in starts}
        return owners([written.get(number, 0) for number in range(self.schema.bucket)], plan.tasks)

    def _weighted(self, plan: _Plan) -> Column:
        listed = F.expr(f"array({', '.join(map(str, self._dealt(plan)))})")
        return F.element_at(listed, bucket_column(self.schema, self.schema.bucket) + 1)


@dataclass(frozen=True)
class _Unaware(_Fixed):
    """Rows stay where they are, unless their partitions are many or are asked to be written by one task each."""

    def stays(self, plan: _Plan) -> bool:
        if self.schema.partition_keys and self.store.options.get("partition.sink-strategy") == "hash":
            return False
        return plan.partitions is None or plan.partitions <= MOST_LOAD

    def owner(self, plan: _Plan) -> Column:
        return self._of_partition(F.lit(0), plan)

    def owners(self, plan: _Plan) -> None:
        return None


@dataclass(frozen=True)
class _Postpone(_Fixed):
    """Pending rows stay where they are; where rows go to real buckets, new partitions are counted first."""

    @contextmanager
    def planned(self, frame: DataFrame, template: WriteTask) -> Iterator[_Plan]:
        whole = None if self.schema.partition_keys else 1
        if not counts_rows(self.schema, template.total_buckets):
            yield _Plan(frame, template, whole)
            return
        with evaluated_once(self.spark, frame, self.given.once) as kept:
            counted = count_rows(self.store, kept)
            template = with_numbers(self.store, template, counted.amounts, self.given.overwrite)
            yield _Plan(kept, template, len(counted.codes) or whole, codes=counted.codes)

    def stays(self, plan: _Plan) -> bool:
        return writes_pending(self.schema) or super().stays(plan)

    def owner(self, plan: _Plan) -> Column:
        return self._of_partition(numbered_column(self.schema, plan.template.total_buckets, plan.codes), plan)

    def owners(self, plan: _Plan) -> None:
        return None

    def _groups(self, plan: _Plan) -> int | None:
        return None if plan.partitions is None else plan.partitions * max((1, *plan.template.total_buckets.values()))


@dataclass(frozen=True)
class _Dynamic(_Fixed):
    """A first load by ranges of hashes, which are buckets; else a task has its share of a partition's keys."""

    @contextmanager
    def planned(self, frame: DataFrame, template: WriteTask) -> Iterator[_Plan]:
        first, rows = ({}, None) if self.given.once else first_load(self.spark, self.store, frame, template)
        assigners = assigners_of(self.store.options, template.tasks - 1)
        yield _Plan(frame, replace(template, assigners=assigners, first_load=first), len(first), rows)

    def owner(self, plan: _Plan) -> Column:
        if plan.template.first_load:
            return self._of_partition(range_column(self.schema, plan.tasks), plan)
        return self._of_partition(share_column(self.schema, plan.template.assigners), plan)

    def owners(self, plan: _Plan) -> Owners:
        keys, groups = tuple(self.schema.select(self.schema.bucket_keys)), tuple(self.schema.partition_fields)
        if plan.template.first_load:
            return Owners(keys, plan.tasks, plan.tasks, groups=groups)
        return Owners(keys, plan.template.assigners, plan.tasks, "default", groups)

    def _groups(self, plan: _Plan) -> int | None:
        return sum(plan.template.first_load.values())


@dataclass(frozen=True)
class _CrossPartition(_Fixed):
    """A task has a range of key hashes, whatever the partition, and looks them up in its share of the index."""

    @contextmanager
    def planned(self, frame: DataFrame, template: WriteTask) -> Iterator[_Plan]:
        assigners = assigners_of(self.store.options, template.tasks - 1)
        yield _Plan(frame, indexed(self.spark, self.store, replace(template, assigners=assigners)))

    def owner(self, plan: _Plan) -> Column:
        return range_column(self.schema, plan.tasks, self.schema.primary_keys)

    def owners(self, plan: _Plan) -> Owners:
        return Owners(tuple(self.schema.select(self.schema.primary_keys)), plan.tasks, plan.tasks)


_PLACEMENTS: dict[BucketMode, type[_Fixed]] = {
    BucketMode.FIXED: _Fixed,
    BucketMode.UNAWARE: _Unaware,
    BucketMode.POSTPONE: _Postpone,
    BucketMode.DYNAMIC: _Dynamic,
    BucketMode.KEY_DYNAMIC: _CrossPartition,
}
