"""The first load of dynamic partitions: keys are counted, and then a row's bucket is a function of its hash alone.

No assigner has to see all rows of a share, so that nothing is shuffled where few tasks meet few buckets. Counting reads
the key columns a second time: done where rows are read and projected only, by what Spark's plan says.

Spec: docs/spec/hash_index.md#the-first-load
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.ops.buckets.assigner import BucketRule, first_load_count
from bucketlake.ops.rows.assign import partition_codes
from bucketlake.ops.table.messages import WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.spark import actions
from bucketlake.spark.types import quoted
from bucketlake.types.model import canonical_batch

MOST_PARTITIONS = 10_000
_ERROR = 0.02  # of the estimate of distinct keys, one standard deviation
_MARGIN = 1 + 4 * _ERROR
_CHEAP = re.compile(
    r"(\(\d+\) )?(Project|Filter|ColumnarToRow|FileScan|BatchScan|Range|LocalTableScan|Union|Coalesce|Scan ExistingRDD"
    r"|AdaptiveSparkPlan)\b"
)
_NODE = re.compile(r"^[ :+\-]*(?:\*\(\d+\) |\* )?(?=\S)")


def first_load(
    spark: SparkSession, store: Store, frame: DataFrame, template: WriteTask
) -> tuple[dict[bytes, int], int | None]:
    """How many buckets each partition of the rows gets, by its bytes, and how many rows there are; nothing where one of
    them has a bucket already, or where counting would cost too much. `frame`: the table's columns in their Spark
    types."""
    schema = store.schema
    if (template.index_base is not None or template.sequence_start) and not schema.partition_keys:
        return {}, None
    if not is_cheap(spark, frame):
        return {}, None
    keys = [F.col(quoted(name)) for name in schema.trimmed_primary_keys]
    counted = frame.groupBy(*[F.col(quoted(name)) for name in schema.partition_keys]).agg(
        F.count(F.lit(1)).alias("__rows"), F.approx_count_distinct(F.xxhash64(*keys), _ERROR).alias("__keys")
    )
    found = actions.to_arrow(counted.limit(MOST_PARTITIONS + 1))
    if not 0 < found.num_rows <= MOST_PARTITIONS:
        return {}, None
    batch = found.combine_chunks().to_batches()[0]
    codes, partitions = partition_codes(canonical_batch(batch, schema.partition_fields), schema.partition_fields)
    known = {partition for partition, _ in template.sequence_start}
    if known & set(partitions):
        return {}, None
    rule = BucketRule.of(store.options)
    least = store.options.get("dynamic-bucket.initial-buckets") or 1
    counts = zip(codes.tolist(), batch.column("__rows").to_pylist(), batch.column("__keys").to_pylist(), strict=True)
    found_rows = int(sum(batch.column("__rows").to_pylist()))
    return {
        partitions[code]: max(first_load_count(min(rows, round(keys * _MARGIN)), rule), min(least, rule.most or least))
        for code, rows, keys in counts
    }, found_rows


def is_cheap(spark: SparkSession, frame: DataFrame) -> bool:
    """Whether a frame's rows are only read and projected, so that evaluating a few columns twice costs little."""
    text = str(spark.sql("EXPLAIN SELECT * FROM {rows}", rows=frame).collect()[0][0])
    nodes = [_NODE.sub("", line) for line in text.splitlines() if line.strip() and not line.startswith("==")]
    return bool(nodes) and all(_CHEAP.match(node) for node in nodes)
