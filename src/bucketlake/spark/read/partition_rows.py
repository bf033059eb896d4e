"""Live partitions as rows of a frame, and which of them a condition over their columns finds, whatever Spark can
evaluate.

Spec: docs/sql/procedures.md#partitions
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bucketlake.ops.change.row_changes import live_partitions
from bucketlake.ops.scan.partition_choice import by_condition, check_columns
from bucketlake.ops.table.partitions import PartitionFilter, partition_columns, partition_values
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import Predicate, is_exact, to_spark_sql
from bucketlake.spark import actions, instants
from bucketlake.spark.arrow_rows import arrow_layout, framed, spark_batch
from bucketlake.spark.raised import told_as_ours
from bucketlake.spark.settings import condition_of
from bucketlake.spark.types import spark_schema

if TYPE_CHECKING:
    from bucketlake.table import Table

PARTITION = "__bucketlake_partition"


def partitions_frame(spark: SparkSession, table: Table) -> tuple[list[dict[str, Any]], DataFrame]:
    """The live partitions, and a frame of their columns as a read shows them: what a condition over these alone is
    decided on. PARTITION says which one a row is: shown, CHAR values are padded."""
    store = table.store
    found = live_partitions(store)
    keys = store.schema.partition_keys
    values = [dict(zip(keys, partition_values(store, partition), strict=True)) for partition in found]
    return values, _as_read(spark, store, found)


def frame_of_partitions(spark: SparkSession, store: Store, partitions: Sequence[bytes]) -> DataFrame:
    """The partition columns as they are stored, a row a partition, and each one's place as PARTITION."""
    fields = store.schema.partition_fields
    columns = partition_columns(store, partitions)
    batch = spark_batch(pa.RecordBatch.from_arrays(columns, names=[item.name for item in fields]), fields)
    layout = arrow_layout(fields).append(pa.field(PARTITION, pa.int64()))
    rows = pa.Table.from_arrays([*batch.columns, pa.array(range(len(partitions)), pa.int64())], schema=layout)
    return framed(spark, rows, spark_schema(fields).add(PARTITION, "long"))


def _as_read(spark: SparkSession, store: Store, partitions: Sequence[bytes]) -> DataFrame:
    frame = frame_of_partitions(spark, store, partitions)
    return instants.shown(frame, store.schema.partition_fields, store.options)


def partitions_where(spark: SparkSession, store: Store, where: str | Predicate) -> PartitionFilter:
    """Partitions that satisfy a condition over partition columns: decided from metadata where the condition compares
    columns with constants of their types, else by Spark, all live partitions at once.

    Errors: InvalidError where it speaks of other columns, is no condition, or of a table without partitions; Spark's,
    where it is asked.
    """
    predicate = condition_of(spark, where, store.schema.fields) if isinstance(where, str) else where
    if is_exact(predicate):
        return by_condition(store, predicate)
    check_columns(store, predicate)
    text = where if isinstance(where, str) else to_spark_sql(where)
    known: dict[bytes, bool] = {}

    def decide(partitions: Sequence[bytes]) -> None:
        with told_as_ours():
            rows = actions.rows(_as_read(spark, store, partitions).where(text).select(PARTITION))
        found = {row[0] for row in rows}
        known.update((partition, place in found) for place, partition in enumerate(partitions))

    def matches(partition: bytes) -> bool:
        if partition not in known:  # of a commit since
            decide([partition])
        return known[partition]

    decide(live_partitions(store))
    return matches
