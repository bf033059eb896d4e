"""Rows that a caller has in this process, where a DataFrame is asked for: pandas, polars, Arrow, lists of dicts.

They become what `Table.write_arrow` makes of them, as far as DataFrames hold that: no times of day, no nanoseconds.
Spec: docs/dataframes.md#rows-of-this-process
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.ops.rows.given import arrow_input, batches_of
from bucketlake.spark.arrow_rows import framed, is_finer, spark_table
from bucketlake.spark.cluster import is_connect
from bucketlake.spark.settings import require_running
from bucketlake.spark.types import quoted, spark_schema
from bucketlake.types.model import DataField, Root, canonical_batch, from_arrow_type

_WITHOUT = "lake.catalog.table(…).write_arrow(rows) writes them as they are"


def frame_of(spark: SparkSession, rows: Any) -> DataFrame:
    """The DataFrame that is given, or one of this session over rows of this process, which its memory holds.

    Errors: InvalidError for what is neither, for columns that occur twice and for a DataFrame of a session that was
    stopped; UnsupportedError naming a column that no DataFrame holds.
    """
    if isinstance(rows, DataFrame):
        require_running(rows.sparkSession)
        return rows
    require_running(spark)
    if isinstance(rows, str):
        raise InvalidError("cannot write this", type="str", remedy="lake.spark.read.csv(path) and its like read files")
    if isinstance(rows, (list, tuple)) and rows and isinstance(rows[0], T.Row):  # whose times are the session's
        return spark.createDataFrame(list(rows))
    given = arrow_input(rows)
    batches = list(batches_of(given))
    known = getattr(given, "schema", None)
    schema = known if isinstance(known, pa.Schema) else batches[0].schema if batches else None
    if schema is None or not schema.names:
        raise InvalidError("no rows, whose columns nobody knows", remedy="give a DataFrame or an Arrow table")
    for batch in batches:
        if sorted(batch.schema.names) != sorted(schema.names):
            raise InvalidError("parts of other columns", columns=schema.names, found=batch.schema.names)
    return _framed(spark, schema, batches)


def given_to(spark: SparkSession, values: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """What stands beside a statement's text, each table or data frame among it as a DataFrame that the session finds:
    also one of another session, as those of `foreachBatch` are. `mark`: what no other call has."""
    names = {name: f"handed_{mark}_{place}" for place, name in enumerate(values)}
    return {k: _found_by(spark, frame_of(spark, v), names[k]) if _is_rows(v) else v for k, v in values.items()}


def _is_rows(value: Any) -> bool:
    arrow = isinstance(value, pa.RecordBatch) or hasattr(value, "__arrow_c_stream__")
    return isinstance(value, DataFrame) or arrow or type(value).__name__ in ("DataFrame", "LazyFrame")


def _found_by(spark: SparkSession, frame: DataFrame, name: str) -> DataFrame:
    if frame.sparkSession is spark or is_connect(spark):
        return frame
    frame.createGlobalTempView(name)  # the views that sessions share
    try:
        return spark.table(f"{spark.conf.get('spark.sql.globalTempDatabase', 'global_temp')}.{name}")
    finally:
        spark.catalog.dropGlobalTempView(name)


def _framed(spark: SparkSession, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> DataFrame:
    held = [item for item in schema if not pa.types.is_null(item.type)]
    fields = [_field(place, item) for place, item in enumerate(held)]
    layout = [canonical_batch(batch, fields) for batch in batches]
    for item in fields:
        if is_finer(item.type) and any(_loses(batch.column(item.name), item) for batch in layout):
            raise UnsupportedError(
                "nanoseconds, which DataFrames do not hold", column=item.name, remedy=f"round them; {_WITHOUT}"
            )
    if not held:
        frame = spark.range(sum(batch.num_rows for batch in batches))
    else:
        names = [item.name for item in held]
        rows = pa.Table.from_batches(layout) if layout else pa.table([[] for _ in names], names=names)
        frame = framed(spark, spark_table(rows, fields), spark_schema(fields))
    if len(held) == len(schema.names):
        return frame
    known = {item.name for item in held}  # the others hold nulls of no type, as in SQL
    return frame.select(*[F.col(quoted(n)) if n in known else F.lit(None).alias(n) for n in schema.names])


def _field(place: int, item: pa.Field) -> DataField:
    try:
        kind = from_arrow_type(item.type)
    except UnsupportedError as error:
        raise UnsupportedError(error.what, remedy="cast the column", **{**error.details, "column": item.name}) from None
    if kind.holds(Root.TIME):
        raise UnsupportedError("times of day, which DataFrames do not hold", column=item.name, remedy=_WITHOUT)
    return DataField(place, item.name, kind)


def _loses(column: pa.Array, item: DataField) -> bool:
    """Whether there are times finer than a microsecond."""
    told = spark_table(pa.table({item.name: column}), [item]).column(0)
    return bool(told.cast(column.type) != pa.chunked_array([column]))
