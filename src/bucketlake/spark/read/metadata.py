"""System tables of metadata as DataFrames: made in the driver, as Arrow; what is large is made again by a task.

Spec: docs/sql/system-tables.md
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bucketlake.errors import InvalidError
from bucketlake.ops.rows.read import exact_part
from bucketlake.ops.system.model import SystemTable, pinned
from bucketlake.ops.table.retry import on_newest
from bucketlake.predicate.tree import Predicate, columns_of
from bucketlake.schema.schema import column_names
from bucketlake.spark.arrow_rows import arrow_layout, framed, spark_batch
from bucketlake.spark.cluster import ensure_package, made_of, unpickled
from bucketlake.spark.instants import as_shown
from bucketlake.spark.types import quoted, spark_schema
from bucketlake.table import Table
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

MOST_BYTES = 32 << 20  # that the driver hands over


def read(
    spark: SparkSession,
    table: Table,
    columns: Sequence[str] | None,
    where: Predicate | None,
    limit: int | None = None,
) -> DataFrame:
    """At least the rows for which `where` may be true, or `limit` rows; as of this call, with these columns."""
    view = table.view
    if not isinstance(view, SystemTable):
        raise TypeError(f"{table.name} is not a system table of metadata")
    exact = None if where is None else exact_part(where)
    wanted = column_names(table.schema, columns)
    asked = frozenset(wanted) if where is None else columns_of(where).union(wanted)
    names = [item.name for item in view.fields if item.name in asked]
    fields = table.schema.select(names)
    if view.travels:
        table = replace(table, store=pinned(table.store))
    scan = _Scan(table, tuple(fields), exact, limit)
    found = on_newest(table.store, lambda: _small(scan))
    schema = spark_schema(fields)
    if found is None and (view.travels or view.of_catalog) and _can_travel(scan):
        ensure_package(spark)
        frame = made_of(spark, [None], scan, schema)
    else:
        rows = pa.Table.from_batches(scan.batches() if found is None else found, arrow_layout(fields))
        frame = framed(spark, rows, schema)
    frame = as_shown(frame, table.options)
    return frame if names == wanted else frame.select(*[quoted(name) for name in wanted])


def _can_travel(scan: _Scan) -> bool:
    """Whether a task can make the rows: not of a catalog whose names are not in its folders."""
    try:
        pickle.dumps(scan.table.view)
    except InvalidError:
        return False
    return True


def _small(scan: _Scan) -> list[pa.RecordBatch] | None:
    """The rows, None where they are too large to be handed over."""
    found, size = [], 0
    for batch in scan.batches():
        size += batch.nbytes
        if size > MOST_BYTES:
            return None
        found.append(batch)
    return found


@dataclass(frozen=True)
class _Scan:
    """What is made of a system table; travels to tasks."""

    table: Table
    fields: tuple[DataField, ...]
    where: Predicate | None
    limit: int | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the layout of DataFrames."""
        view = self.table.view
        if isinstance(view, SystemTable):
            for batch in view.read(self.table.store, [item.name for item in self.fields], self.where, self.limit):
                yield spark_batch(batch, self.fields)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task of `mapInArrow`."""
        for _ in unpickled(batches):
            yield from self.batches()
