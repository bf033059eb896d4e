"""Metadata columns of a table's rows: `__paimon_file_path`, `__paimon_row_index`, `__paimon_partition`,
`__paimon_bucket`. They are no columns of the table: who names none of them sees none.

A row has a file and a place only where no merge makes it: path and index are refused for buckets that a read merges.

Spec: docs/sql/system-tables.md#metadata-columns
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import UnsupportedError
from bucketlake.format.index.deletion_vector import positions_of
from bucketlake.ops.rows.column_files import narrowed
from bucketlake.ops.rows.deletions import load_deletions
from bucketlake.ops.rows.described import followed
from bucketlake.ops.rows.read import exact_part, read_rows, read_split
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.scan.splits import are_settled, without_deletes
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.partitions import partition_columns
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import Predicate, columns_of
from bucketlake.schema.schema import TRACKING, TableSchema
from bucketlake.spark.arrow_rows import arrow_layout, framed, spark_batch
from bucketlake.spark.cluster import ensure_package, pack, parallelism, rows_made, unpickled
from bucketlake.spark.instants import shown, shown_schema
from bucketlake.spark.read.united import united
from bucketlake.spark.types import quoted, spark_schema
from bucketlake.table import Table
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

FILE_PATH, ROW_INDEX = "__paimon_file_path", "__paimon_row_index"
PARTITION, BUCKET = "__paimon_partition", "__paimon_bucket"
PLACES = (FILE_PATH, ROW_INDEX, PARTITION, BUCKET)
COLUMNS = (*PLACES, *TRACKING)
_MERGED = (
    "There need be FileRecordIterator when metadata columns are required. "
    "Only append table or deletion vector table support querying metadata columns."
)
_OF_MERGED = "compact the table first, or ask for __paimon_partition and __paimon_bucket only"
SMALL_ROWS = 100_000  # stored rows that the driver reads by itself
SMALL_BYTES = 8 << 20
TASK_BYTES = 128 << 20


def hidden_type(name: str, schema: TableSchema) -> T.DataType:
    """The type of a metadata column of a table."""
    if name == PARTITION:
        return spark_schema(schema.partition_fields)
    kinds = {FILE_PATH: T.StringType(), ROW_INDEX: T.LongType(), BUCKET: T.IntegerType()}
    return T.LongType() if name in TRACKING else kinds[name]


def offered(schema: TableSchema) -> tuple[str, ...]:
    """The metadata columns that a table has and none of whose own columns is called so."""
    own = {name.lower() for name in schema.field_names}
    return tuple(name for name in (COLUMNS if schema.tracks_rows else PLACES) if name.lower() not in own)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is enough of a table: columns (None: all), metadata columns behind them, rows for which `predicate` may be
    true. `elsewhere`: these may be another table's that the statement names; a place that merged rows have not is an
    error of the rows then, where it is asked for."""

    columns: tuple[str, ...] | None
    hidden: tuple[str, ...]
    predicate: Predicate | None = None
    elsewhere: bool = False


def hidden_fields(names: Sequence[str], schema: TableSchema) -> list[T.StructField]:
    """Metadata columns of a table as Spark has them."""
    partition = shown_schema(schema.partition_fields, schema.table_options)
    return [T.StructField(name, partition if name == PARTITION else hidden_type(name, schema)) for name in names]


def of_columns(columns: Sequence[str] | None, schema: TableSchema) -> tuple[str, ...]:
    """The metadata columns among those asked for, which are none of the table's."""
    known = offered(schema) if columns else ()
    return tuple(name for name in columns or () if name in known)


def read(spark: SparkSession, table: Table, selection: Selection, wanted: Wanted) -> DataFrame:
    """At least the rows that are wanted of what `Table.as_of` selected, with just these columns. Errors: as `frame`."""
    return frame(spark, table, table.scanned(wanted.predicate, selection), wanted)


def frame(spark: SparkSession, table: Table, plan: Plan, wanted: Wanted) -> DataFrame:
    """At least the rows of a plan that are wanted, with just these columns.

    Errors: UnsupportedError for a file's path or a row's place where rows are merged.
    """
    parts = plan.parts(table.store)
    frames = [_of_branch(spark, replace(table, store=place), part, wanted) for place, part in parts]
    return shown(united(frames), table.schema.fields, table.options)


def _of_branch(spark: SparkSession, table: Table, plan: Plan, wanted: Wanted) -> DataFrame:
    schema = table.schema
    if not schema.tracks_rows and any(name in TRACKING for name in wanted.hidden):
        raise UnsupportedError(
            "a branch that takes part in this read has no row tracking", table=table.name, columns=list(TRACKING)
        )
    exact = None if wanted.predicate is None else exact_part(wanted.predicate)
    asked = schema.field_names if wanted.columns is None else wanted.columns
    needed = frozenset([*asked, *wanted.hidden]).union(() if exact is None else columns_of(exact))
    splits = tuple(part for split in plan.splits for part in narrowed(table.store, split, needed))
    places = tuple(name for name in wanted.hidden if name not in TRACKING)
    placed = FILE_PATH in places or ROW_INDEX in places
    missing: tuple[str, ...] = ()
    if placed and _are_merged(table, splits):
        if not wanted.elsewhere:
            raise UnsupportedError(_MERGED, table=table.name, remedy=_OF_MERGED)
        missing = tuple(name for name in places if name in (FILE_PATH, ROW_INDEX))
        places, placed = tuple(name for name in places if name not in missing), False
    store = tracked(table.store) if any(name in TRACKING for name in wanted.hidden) else table.store
    fields = tuple(item for item in store.schema.fields if item.name in needed)
    scan = _Scan(store, fields, places, None if placed else exact, placed)
    more = [T.StructField(name, hidden_type(name, schema)) for name in places]
    layout = T.StructType([*spark_schema(fields).fields, *more])
    count, size = sum(split.row_count for split in splits), sum(split.size for split in splits)
    if count <= SMALL_ROWS and size <= SMALL_BYTES and not followed(store, needed):
        found = parallel(lambda split: list(scan.batches(split)), splits)
        data = pa.Table.from_batches([batch for part in found for batch in part], scan.layout)
        rows = framed(spark, data, layout)
        if missing:
            rows = rows.coalesce(1)  # of local rows Spark evaluates all columns, those nobody asks for too
    else:
        ensure_package(spark)
        tasks = max(parallelism(spark), size // TASK_BYTES)
        rows = rows_made(spark, pack(splits, tasks), scan, layout, count)
    for name in missing:
        told = F.raise_error(F.lit(f"{_MERGED} [table={table.name}]: {_OF_MERGED}"))
        rows = rows.withColumn(name, told.cast(hidden_type(name, schema)))
    names = [*asked, *wanted.hidden]
    return rows if rows.columns == names else rows.select(*[quoted(name) for name in names])


def _are_merged(table: Table, splits: Sequence[Split]) -> bool:
    """As Apache Paimon: the rows of a primary-key table have a place where deletion vectors say which are superseded,
    in buckets of one file, and in those that one level holds whole."""
    store = table.store
    buckets: dict[tuple[bytes, int], list[Split]] = {}
    for split in splits:
        buckets.setdefault((split.partition, split.bucket), []).append(split)
    for found in buckets.values():
        files = [file for split in found for file in split.files]
        raw = all(split.raw and split.before is None and not split.parts for split in found)
        if store.schema.primary_keys:
            raw = raw and are_settled(store, files) and all(without_deletes(file) for file in files)
        if not raw:
            return True
    return False


def partition_kind(store: Store) -> pa.DataType:
    """The layout of `PARTITION` in DataFrames."""
    return pa.struct(list(arrow_layout(store.schema.partition_fields)))


def partition_row(store: Store, partition: bytes) -> pa.Scalar:
    """A partition as its row."""
    fields = store.schema.partition_fields
    if not fields:
        return pa.scalar({}, partition_kind(store))
    columns = partition_columns(store, [partition])
    rows = spark_batch(pa.RecordBatch.from_arrays(columns, names=[item.name for item in fields]), fields)
    return pa.StructArray.from_arrays(rows.columns, fields=list(partition_kind(store)))[0]


@dataclass(frozen=True)
class _Scan:
    """Reads splits with what is known of each row; travels to tasks. `placed`: file by file, with rows' places."""

    store: Store
    fields: tuple[DataField, ...]
    hidden: tuple[str, ...]
    predicate: Predicate | None
    placed: bool

    @property
    def layout(self) -> pa.Schema:
        """The layout of the batches."""
        layout = arrow_layout(self.fields)
        for name in self.hidden:
            layout = layout.append(pa.field(name, self._kind(name)))
        return layout

    def _kind(self, name: str) -> pa.DataType:
        if name == PARTITION:
            return partition_kind(self.store)
        return {FILE_PATH: pa.string(), ROW_INDEX: pa.int64(), BUCKET: pa.int32()}[name]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task of `mapInArrow`: splits in, their rows out."""
        for splits in unpickled(batches):
            for split in splits:
                yield from self.batches(split)

    def batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split in the layout of DataFrames."""
        known = {
            PARTITION: partition_row(self.store, split.partition) if PARTITION in self.hidden else None,
            BUCKET: split.bucket,
        }
        if not self.placed:
            names = [item.name for item in self.fields]
            for batch in read_split(self.store, split, names, self.predicate):
                yield self._shown(batch, known, None)
            return
        vectors = load_deletions(self.store, split.deletions) if split.deletions else {}
        for file in split.files:
            known[FILE_PATH] = self.store.paths.file_path(split.bucket_path, file)
            dead = np.zeros(file.row_count, np.bool_)
            if file.file_name in vectors:
                dead[positions_of(vectors[file.file_name])] = True
            places, start = np.flatnonzero(~dead), 0
            for batch in read_rows(self.store, split, file, dead, self.fields):
                yield self._shown(batch, known, places[start : start + batch.num_rows])
                start += batch.num_rows

    def _shown(self, batch: pa.RecordBatch, known: dict[str, Any], places: Any) -> pa.RecordBatch:
        rows = spark_batch(batch, self.fields)
        layout = self.layout
        arrays = list(rows.columns)
        for name in self.hidden:
            kind = layout.field(name).type
            if name == ROW_INDEX:
                arrays.append(pa.array(places, kind))
            elif name == PARTITION:
                arrays.append(pa.repeat(known[name], rows.num_rows))
            else:
                arrays.append(pa.repeat(pa.scalar(known[name], kind), rows.num_rows))
        return pa.RecordBatch.from_arrays(arrays, schema=layout)
