"""Rows of append tables with their places, so that any condition of Spark's can say which of them go.

Spec: docs/spec/row_changes.md#append-tables
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.change.append_rows import Find, Positions, path_of
from bucketlake.ops.rows.read import read_rows
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.spark.cluster import ensure_package, parallelism, spread, unpickled
from bucketlake.spark.read import native, placed, reader
from bucketlake.spark.read.native import ROW_INDEX
from bucketlake.spark.read.placed import FILE
from bucketlake.spark.types import arrow_layout, spark_batch, spark_schema
from bucketlake.values import dataclass

FILES_A_TASK = 4  # tasks a core
Choose = Callable[[DataFrame], DataFrame]
"""Rows of the table with `FILE` and `ROW_INDEX` to these two columns of the rows wanted."""
Numbered = tuple[int, Split, DataFile]


def finder(spark: SparkSession, choose: Choose) -> Find:
    """How `ops.change.append_rows` finds rows by a condition that Spark evaluates: positions, ascending, by path."""

    def find(store: Store, splits: Sequence[Split]) -> dict[str, Positions]:
        files = [(split, file) for split in splits for file in split.files]
        if not files:
            return {}
        chosen = choose(rows_with_places(spark, store, files))
        found = chosen.groupBy(FILE).agg(F.array_sort(F.collect_list(ROW_INDEX)).alias(ROW_INDEX)).toArrow()
        lists = found.column(ROW_INDEX).combine_chunks()
        paths = [path_of(store, *files[number]) for number in found.column(FILE).to_pylist()]
        return {path: lists[at].values.to_numpy(zero_copy_only=False) for at, path in enumerate(paths)}

    return find


def rows_with_places(spark: SparkSession, store: Store, files: Sequence[tuple[Split, DataFile]]) -> DataFrame:
    """Every row of these files of raw splits, deleted ones too, with the file's number (by place) and its position in
    the file."""
    fields = store.schema.fields
    items = [(number, split, file) for number, (split, file) in enumerate(files)]
    if sum(file.row_count for _, file in files) <= reader.SMALL_ROWS:
        batches = list(PlaceScan(store).batches(items))
        schema = _schema(store)
        if not batches:
            return spark.createDataFrame([], schema)
        return spark.createDataFrame(pa.Table.from_batches(batches), schema)
    scanned: list[native.FileAt] = []
    numbers: list[int] = []
    others: list[Numbered] = []
    for number, split, file in items:
        found = native.FileAt(path_of(store, split, file), file, split.partition)
        if found.format == "parquet" and native.is_native(store, found, fields):
            scanned.append(found)
            numbers.append(number)
        else:
            others.append((number, split, file))
    frames = []
    if scanned:
        given = {FILE: pa.array(numbers, pa.int64())}
        frames.append(placed.scan_with_positions(spark, store, scanned, fields, given).select(*_schema(store).names))
    if others:
        ensure_package(spark)
        count = max(1, min(len(others), parallelism(spark) * FILES_A_TASK))
        groups = [others[number::count] for number in range(count)]
        frames.append(spread(spark, groups).mapInArrow(PlaceScan(store), _schema(store)))
    return frames[0] if len(frames) == 1 else frames[0].union(frames[1])


def _schema(store: Store) -> T.StructType:
    places = [T.StructField(FILE, T.LongType()), T.StructField(ROW_INDEX, T.LongType())]
    return T.StructType([*spark_schema(store.schema.fields).fields, *places])


@dataclass(frozen=True)
class PlaceScan:
    """Reads whole files with the places of their rows; travels to tasks."""

    store: Store

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task of `mapInArrow`: files in, their rows out."""
        for files in unpickled(batches):
            yield from self.batches(files)

    def batches(self, files: Sequence[Numbered]) -> Iterator[pa.RecordBatch]:
        """The rows of these files in the layout of DataFrames, file and position behind the columns."""
        fields = self.store.schema.fields
        layout = arrow_layout(fields)
        for name in (FILE, ROW_INDEX):
            layout = layout.append(pa.field(name, pa.int64()))
        for number, split, file in files:
            start = 0
            for batch in read_rows(self.store, split, file, np.zeros(file.row_count, np.bool_)):
                rows = spark_batch(batch, fields)
                places = [
                    pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows),
                    pa.array(np.arange(start, start + rows.num_rows, dtype=np.int64)),
                ]
                start += rows.num_rows
                yield pa.RecordBatch.from_arrays([*rows.columns, *places], schema=layout)
