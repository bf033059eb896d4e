"""How many rows of a write go to each partition of a postpone table: it decides the bucket numbers of new partitions.

Counting evaluates the frame a second time. Where that is more than reading and projecting, its rows are kept meanwhile.

Spec: docs/spec/postpone.md#bucket-numbers
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.ops.buckets.postpone import Amount, fixed_row_size, is_nested, is_text
from bucketlake.ops.rows.assign import EMPTY_PARTITION, partition_codes
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import TableSchema
from bucketlake.spark import actions
from bucketlake.spark.types import quoted
from bucketlake.spark.write.bucketing import bucket_column, varying_bucket_column
from bucketlake.spark.write.first_load import is_cheap
from bucketlake.spark.write.kept import shaped
from bucketlake.types.model import canonical_batch
from bucketlake.values import dataclass

_INLINE = 7


@dataclass(frozen=True, slots=True)
class Counted:
    """By partition bytes: its rows and their bytes, and the hash that Spark gives its columns."""

    amounts: dict[bytes, Amount]
    codes: dict[bytes, int]


@contextmanager
def evaluated_once(spark: SparkSession, frame: DataFrame, once: bool = False) -> Iterator[DataFrame]:
    """The frame for several actions: its rows are kept in between where it is costly to evaluate, or `once`: always.
    Nothing but the files' shape may follow from the first action: a lost executor evaluates its rows anew."""
    if not once and is_cheap(spark, frame):
        yield frame
        return
    with shaped(frame) as kept:
        yield kept


def count_rows(store: Store, frame: DataFrame) -> Counted:
    """Count a frame's rows by partition; with their bytes where the table's options ask for these."""
    schema = store.schema
    sized = not store.options.is_set("postpone.target-row-num-per-bucket")
    size = _row_size(schema) if sized else F.lit(0).cast("long")
    keys = [F.col(quoted(name)) for name in schema.partition_keys]
    totals = [F.count(F.lit(1)).alias("__rows"), F.coalesce(F.sum(size), F.lit(0)).cast("long").alias("__bytes")]
    if not keys:
        row = actions.rows(frame.agg(*totals))[0]
        return Counted({EMPTY_PARTITION: Amount(int(row[0]), int(row[1]))} if row[0] else {}, {})
    totalled = frame.groupBy(*keys, partition_hash(schema).alias("__code")).agg(*totals)
    grouped = actions.to_arrow(totalled).combine_chunks()
    found: dict[bytes, Amount] = {}
    codes: dict[bytes, int] = {}
    for batch in grouped.to_batches():
        places, partitions = partition_codes(canonical_batch(batch, schema.partition_fields), schema.partition_fields)
        columns = [batch.column(name).to_pylist() for name in ("__rows", "__bytes", "__code")]
        for place, rows, size_, code in zip(places.tolist(), *columns, strict=True):
            partition = partitions[place]
            found[partition] = found.get(partition, Amount()) + Amount(rows, size_)
            codes[partition] = code
    return Counted(found, codes)


def partition_hash(schema: TableSchema) -> Column:
    """A hash (int) of the partition columns."""
    return F.hash(*[F.col(quoted(name)) for name in schema.partition_keys])


def numbered_column(schema: TableSchema, totals: Mapping[bytes, int], codes: Mapping[bytes, int]) -> Column:
    """The bucket (int) of each row where partitions differ in their bucket number. `codes`: the partitions' hashes;
    rows of others, and rows whose keys Spark cannot hash, get the bucket of the most usual, or largest, number: they
    find the right one when they are written, wherever they are."""
    numbers = {partition: max(totals.get(partition, 1), 1) for partition in codes} or {
        partition: max(total, 1) for partition, total in totals.items()
    }
    if not numbers:
        return F.lit(0)
    (usual, _), *others = Counter(numbers.values()).most_common()
    if not others or not codes:
        return bucket_column(schema, max(numbers.values()))
    number: Column = F.lit(usual)
    code = partition_hash(schema)
    for total, _ in others:
        members = [codes[partition] for partition, own in numbers.items() if own == total]
        number = F.when(code.isin(members), F.lit(total)).otherwise(number)
    return varying_bucket_column(schema, number, max(numbers.values()))


def _row_size(schema: TableSchema) -> Column:
    size = F.lit(fixed_row_size(schema)).cast("long")
    for item in schema.fields:
        column = F.col(quoted(item.name))
        if is_text(item.type):
            length = F.coalesce(F.octet_length(column), F.lit(0)).cast("long")
            size = size + F.when(length > _INLINE, F.floor((length + 7) / 8).cast("long") * 8).otherwise(F.lit(0))
        elif is_nested(item.type):
            size = size + F.coalesce(F.octet_length(F.to_json(F.struct(column))), F.lit(0)).cast("long")
    return size
