"""Rows on their way to Python: decimals as doubles, where these hold every value of the type, and batches that Spark
does not measure after every row.

Spark puts decimals into Arrow one big number at a time, which costs more than any other type. Up to 15 digits a double
names one decimal, and its digits come back by rounding.

Spec: docs/spec/writing.md#tasks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.spark.types import quoted
from bucketlake.types.model import LISTS, DataField, Root, arrow_type

BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
UNLIMITED = str((1 << 31) - 1)  # the one value for which Spark does not look at a batch's size
WIDE_ROW = 4 << 10  # bytes in a file
_EXACT_DIGITS = 15
_FLAT = {
    *(T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType),
    *(T.StringType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType),
}  # which `DataFrame.to` leaves as they are; it makes structs anew
_OF_ANY_SIZE = {Root.BINARY, Root.VARBINARY, Root.BLOB, Root.VARIANT, *LISTS, Root.MAP, Root.ROW, Root.MULTISET}


@contextmanager
def unmeasured_batches(frame: DataFrame, fields: Sequence[DataField], row_width: float | None) -> Iterator[None]:
    """While this lasts, batches of the frame's session end by their number of rows alone: adding up the sizes of all
    columns after every row takes more of Spark's time than any column. Not where the session's user set the limit, and
    not where rows may be wide. `row_width`: bytes that a row takes in the table's files, if known.
    """
    conf = frame.sparkSession.conf
    wide = (row_width or 0) > WIDE_ROW or any(item.type.root in _OF_ANY_SIZE for item in fields)
    if wide or conf.get(BATCH_BYTES, None) is not None:
        yield
        return
    conf.set(BATCH_BYTES, UNLIMITED)
    try:
        yield
    finally:
        if conf.get(BATCH_BYTES, None) == UNLIMITED:  # nobody set another meanwhile
            conf.unset(BATCH_BYTES)


def narrowed(frame: DataFrame, fields: Sequence[DataField]) -> DataFrame:
    """The frame with doubles in place of these columns' short decimals."""
    short = {item.name for item in fields if _is_short(item)}
    if not short:
        return frame
    held = frame.schema.fields
    if all(type(item.dataType) in _FLAT for item in held):  # in one call of Java: small writes wait for each
        double = T.DoubleType()
        return frame.to(
            T.StructType([T.StructField(f.name, double if f.name in short else f.dataType, f.nullable) for f in held])
        )
    columns: list[Column | str] = [
        F.col(quoted(name)).cast("double").alias(name) if name in short else quoted(name) for name in frame.columns
    ]
    return frame.select(*columns)


def widened(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """The decimals again, digit for digit."""
    for item in fields:
        place = batch.schema.get_field_index(item.name) if _is_short(item) else -1
        if place >= 0 and pa.types.is_float64(batch.schema.field(place).type):
            kind = arrow_type(item.type)
            column = _decimals(batch.column(place), kind)
            batch = batch.set_column(place, pa.field(item.name, kind, item.type.nullable), column)
    return batch


def _is_short(item: DataField) -> bool:
    return item.type.root is Root.DECIMAL and (item.type.precision or 0) <= _EXACT_DIGITS


def _decimals(column: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    digits = np.rint(values * 10.0**kind.scale).astype(np.int64)
    words = np.empty((len(digits), 2), np.int64)
    words[:, 0] = digits
    words[:, 1] = digits >> 63
    valid = None
    if column.null_count:
        valid = pa.py_buffer(np.packbits(column.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    return pa.Array.from_buffers(kind, len(digits), [valid, pa.py_buffer(words)], null_count=column.null_count)
