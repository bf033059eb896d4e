"""Files written anew by Spark's tasks: see `ops.compact.reformat`.

Spec: docs/spec/rewrite.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from bucketlake.errors import BucketlakeError
from bucketlake.ops.compact.reformat import Reformatted, ReformatUnit, Run, reformat, rewrite_here, rewrite_unit
from bucketlake.ops.scan.partition_choice import both, chosen_partitions, parse_specs
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.spark.cluster import is_answer
from bucketlake.spark.maintain.jobs import DRIVER_BYTES
from bucketlake.spark.maintain.orphans import run_each
from bucketlake.spark.read.partition_rows import partitions_where
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table


@dataclass(frozen=True, slots=True)
class _RewriteUnit:
    """What a task does with a unit. Travels to the tasks."""

    store: Store

    def __call__(self, unit: ReformatUnit) -> CommitMessage | tuple[BucketlakeError]:
        """The unit's message; an error is a result, so that what other tasks wrote is known and removed."""
        try:
            return rewrite_unit(self.store, unit)
        except BucketlakeError as error:
            if not is_answer(error):
                raise
            return (error,)


def run_rewriting(spark: SparkSession) -> Run:
    """How units are rewritten with this session: few bytes in the driver."""

    def run(store: Store, units: Sequence[ReformatUnit]) -> list[CommitMessage]:
        if sum(unit.size for unit in units) <= DRIVER_BYTES:
            return rewrite_here(store, units)
        results = run_each(spark)(_RewriteUnit(store), units)
        messages = [one for one in results if isinstance(one, CommitMessage)]
        failed = next((one for one in results if not isinstance(one, CommitMessage)), None)
        if failed is not None:
            discard(store, messages)
            raise failed[0]
        return messages

    return run


def rewrite(
    spark: SparkSession,
    table: Table,
    partitions: str | None,
    where: str | None,
    every: bool,
    options: Mapping[str, str],
) -> Reformatted:
    """As `Table.rewrite`, by tasks if the files are large. `partitions`: specs, as procedures take them."""
    store = table.for_changing().with_options(options).for_writing().store
    named = chosen_partitions(store, None if partitions is None else parse_specs(partitions), None)
    chosen = both(named, None if where is None else partitions_where(spark, store, where))
    return reformat(store, chosen, every=every, run=run_rewriting(spark))
