"""Rows of DataFrames, of streams too, looked up in a table where their tasks run.

Each worker keeps a cache of its own, which the next batches find. What it looks into is the newest snapshot as of each
batch of rows.

Spec: docs/streaming.md#look-up-rows
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from bucketlake.ops.lookup.lookup import lookup_of
from bucketlake.ops.lookup.request import LookupRequest
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.spark.arrow_rows import mapped, spark_batch
from bucketlake.spark.cluster import ensure_package
from bucketlake.spark.types import spark_schema
from bucketlake.values import dataclass

ROWS = 1 << 17  # that are looked up at a time


@dataclass(frozen=True, slots=True)
class LookupStage:
    """The function of `mapInArrow` that looks rows up; picklable. `schema` gives what comes of it."""

    store: Store
    request: LookupRequest

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, the same rows with the table's columns out."""
        for rows in _together(batches):
            found = self._found(rows)
            own, fields = rows.num_columns, self.request.fields(self.store.schema)
            for batch in found.to_batches():
                added = spark_batch(batch.select(range(own, own + len(fields))), fields)
                columns = [*batch.columns[:own], *added.columns]
                yield pa.RecordBatch.from_arrays(columns, schema=pa.schema([*rows.schema, *added.schema]))

    def _found(self, rows: pa.Table) -> pa.Table:
        return on_newest(self.store, lambda: lookup_of(self.store, self.request).find(rows))

    def schema(self, given: T.StructType) -> T.StructType:
        """The schema of what comes of rows with this one. InvalidError for columns that are missing or taken."""
        names = pa.schema([pa.field(item.name, pa.null()) for item in given.fields])
        self.request.result(self.store.schema, names)
        return T.StructType([*given.fields, *spark_schema(self.request.fields(self.store.schema)).fields])


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches, small ones together."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def looked_up(frame: DataFrame, stage: LookupStage) -> DataFrame:
    """The rows of a DataFrame, which may be a stream, with columns of a table behind their own."""
    ensure_package(frame.sparkSession)
    return mapped(frame, stage, stage.schema(frame.schema))
