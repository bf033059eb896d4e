"""Rows of Arrow as Spark takes them and gives them: layouts, batches of tasks, what the driver collects.

Spec: docs/spec/types.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import RLock

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.format.data.layout import map_leaves
from bucketlake.lazy import pc
from bucketlake.spark.actions import to_arrow
from bucketlake.spark.types import MICROSECONDS, as_nullable, table_type
from bucketlake.types.arrow import filled_table, variant_type
from bucketlake.types.model import LISTS, DataField, DataType, Root, arrow_type

BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_LOCAL_BYTES = "spark.sql.execution.arrow.localRelationThreshold"
SPREAD_BYTES = 256 << 10  # bytes of rows from which on a job costs less
_MOST_PARTS = 1000
_limited = RLock()


def framed(spark: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """A frame of rows in the driver, of any types and any number of batches."""
    if not rows.num_rows:
        return spark.createDataFrame([], schema)
    return arrow_frame(spark, filled_table(_uncut(_without_gaps(rows))), schema)


def spread(spark: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """As `framed`, where expressions are worked out over the rows: by tasks where they are many, in no order.

    Filters and projections of rows in its plan Spark's optimizer works out itself, interpreted, one row after the
    other. Of rows beside its plan it knows no size: this is not for joins.
    """
    if rows.nbytes < SPREAD_BYTES:
        return framed(spark, rows, schema)
    if ".connect." in type(spark).__module__:  # there are none beside a plan
        return framed(spark, rows, schema).coalesce(_MOST_PARTS)
    with _limited:
        own = spark.conf.get(_LOCAL_BYTES, None)
        spark.conf.set(_LOCAL_BYTES, "0")
        try:
            return framed(spark, rows, schema)
        finally:
            if own is None:
                spark.conf.unset(_LOCAL_BYTES)
            else:
                spark.conf.set(_LOCAL_BYTES, own)


def arrow_frame(spark: SparkSession, rows: pa.Table, schema: T.StructType | str | None = None) -> DataFrame:
    """The frame that PySpark makes of the table, also where the session sets no limit of a batch's rows: PySpark's own
    call takes zero and less, which Spark means by that, for the length of a batch."""
    try:
        return spark.createDataFrame(rows, schema)
    except ValueError:
        with _limited:  # what a thread sets, no other takes for the user's
            limit = spark.conf.get(BATCH_ROWS)
            if int(limit or 1) > 0:
                raise
            spark.conf.set(BATCH_ROWS, max(rows.num_rows, 1))
            try:
                return spark.createDataFrame(rows, schema)
            finally:
                spark.conf.set(BATCH_ROWS, limit)


def _without_gaps(rows: pa.Table) -> pa.Table:
    """The rows in batches that hold some: PySpark takes one without rows, behind others, for the end of all."""
    batches = rows.to_batches()
    if all(batch.num_rows for batch in batches):
        return rows
    return pa.Table.from_batches([batch for batch in batches if batch.num_rows], rows.schema)


def _uncut(rows: pa.Table) -> pa.Table:
    """The rows with nested columns of their own: PySpark takes no lists and maps that are a part of others, where some
    are null."""
    for place, item in enumerate(rows.schema):
        chunks = rows.column(place).chunks
        if pa.types.is_nested(item.type) and any(chunk.offset for chunk in chunks):
            own = [chunk.take(pa.array(np.arange(len(chunk)))) for chunk in chunks]
            rows = rows.set_column(place, item, pa.chunked_array(own, item.type))
    return rows


def mapped(
    frame: DataFrame, action: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: T.StructType | str
) -> DataFrame:
    """The frame through `mapInArrow`, its columns under their own names in every batch: PySpark reads names as paths,
    and Spark gives what `df.select("ID")` lists the name that it has below."""
    names = frame.columns

    def named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return action(batch.rename_columns(names) for batch in batches)

    if any("." in name or "`" in name for name in names):
        frame = frame.toDF(*[f"c{place}" for place in range(len(names))])
    return frame.mapInArrow(named, schema)


def collected(frame: DataFrame) -> pa.Table:
    """The frame's rows in the driver, with nothing inside a column NOT NULL. VARIANT comes as its parts: PySpark's own
    way fails for those that are null."""
    frame = _loosened(frame)
    parted = T.StructType([T.StructField(f.name, _parted(f.dataType), True) for f in frame.schema.fields])
    if parted == as_nullable(frame.schema):
        return to_arrow(frame)
    rows = to_arrow(mapped(frame, _unmarked, parted))
    kinds = [table_type(item.dataType, item.name) for item in frame.schema.fields]
    columns = [
        pa.chunked_array([map_leaves(chunk, kind, _marked) for chunk in column.chunks]) if column.num_chunks else column
        for column, kind in zip(rows.columns, kinds, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=rows.schema.names)


def _loosened(frame: DataFrame) -> DataFrame:
    """The frame with nothing inside its columns NOT NULL: PySpark takes no null of such a type."""
    fields = frame.schema.fields
    kinds = [as_nullable(item.dataType) for item in fields]
    if all(kind == item.dataType for kind, item in zip(kinds, fields, strict=True)):
        return frame
    places = [f"c{place}" for place in range(len(fields))]  # names may repeat
    columns = [F.col(place).cast(kind) for place, kind in zip(places, kinds, strict=True)]
    return frame.toDF(*places).select(*columns).toDF(*[item.name for item in fields])


def _marked(array: pa.Array, t: DataType) -> pa.Array:
    if t.root is not Root.VARIANT:
        return array
    parts = [pc.fill_null(array.field(item.name), b"") for item in variant_type().fields]
    return pa.StructArray.from_arrays(parts, fields=list(variant_type().fields), mask=array.is_null())


_PARTS = T.StructType([T.StructField("value", T.BinaryType(), True), T.StructField("metadata", T.BinaryType(), True)])


def _parted(kind: T.DataType) -> T.DataType:
    """The type with the binary parts of VARIANT in its place, and nothing inside NOT NULL."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _parted(f.dataType), True, f.metadata) for f in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_parted(kind.elementType), True)
    if isinstance(kind, T.MapType):
        return T.MapType(_parted(kind.keyType), _parted(kind.valueType), True)
    return _PARTS if isinstance(kind, T.VariantType) else kind


def _unmarked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        schema = pa.schema([pa.field(f.name, _relaxed(f.type)) for f in batch.schema])
        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def _relaxed(kind: pa.DataType) -> pa.DataType:
    """The Arrow type with nothing inside it NOT NULL and without marks."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _relaxed(f.type)) for f in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(_relaxed(kind.key_type), _relaxed(kind.item_type))
    return pa.list_(_relaxed(kind.value_type)) if pa.types.is_list(kind) else kind


def arrow_layout(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema in which rows go to Spark: microseconds, TIME as int milliseconds, all nullable."""
    return pa.schema([pa.field(item.name, _spark_arrow(item.type)) for item in fields])


def spark_batch(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """A batch of these columns from the canonical layout to that of `arrow_layout`."""
    schema = arrow_layout(fields)
    arrays = [
        column if column.type == target.type else pc.cast(_in_microseconds(column, item.type), target.type, safe=False)
        for column, target, item in zip(batch.columns, schema, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def spark_table(rows: pa.Table, fields: Sequence[DataField]) -> pa.Table:
    """A table of these columns from the canonical layout to that of `arrow_layout`."""
    return pa.Table.from_batches([spark_batch(batch, fields) for batch in rows.to_batches()], arrow_layout(fields))


def _in_microseconds(array: pa.Array, t: DataType) -> pa.Array:
    """Nanoseconds rounded down, as Paimon's connector hands them to Spark; a cast would round them towards 1970."""
    return map_leaves(array, t, _rounded_down) if is_finer(t) else array


def is_finer(t: DataType) -> bool:
    """Whether values are, or hold, times finer than a microsecond."""
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return (t.precision or 0) > MICROSECONDS
    return any(map(is_finer, t.parts))


def _rounded_down(array: pa.Array, t: DataType) -> pa.Array:
    if t.root not in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) or not is_finer(t):
        return array
    values = np.floor_divide(array.cast(pa.int64()).fill_null(0).to_numpy(), 1000)
    return pa.array(values, mask=np.asarray(array.is_null())).cast(pa.timestamp("us", array.type.tz))


def _spark_arrow(t: DataType) -> pa.DataType:
    if t.root is Root.TIME:
        return pa.int32()
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return pa.timestamp("us", tz="UTC" if t.root is Root.TIMESTAMP_LTZ else None)
    if t.root in LISTS and t.element:
        return pa.list_(pa.field("element", _spark_arrow(t.element), t.element.nullable))
    if t.root is Root.MAP and t.key and t.element:
        return pa.map_(_spark_arrow(t.key), pa.field("value", _spark_arrow(t.element), t.element.nullable))
    if t.root is Root.ROW:
        return pa.struct([pa.field(f.name, _spark_arrow(f.type), f.type.nullable) for f in t.fields])
    return arrow_type(t)
