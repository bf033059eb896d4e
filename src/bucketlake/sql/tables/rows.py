"""The small results of statements, as DataFrames that need no job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from bucketlake.spark.arrow_rows import arrow_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

_TYPES = {"string": pa.string(), "boolean": pa.bool_(), "bigint": pa.int64()}


def frame(lake: Lake, schema: str, rows: Sequence[tuple[object, ...]]) -> DataFrame:
    """The rows as a local relation. `schema`: `name type, …` of strings, booleans and bigints."""
    columns = [part.split() for part in schema.split(", ")]
    layout = pa.schema([(name, _TYPES[kind]) for name, kind in columns])
    if not rows:
        return lake.spark.createDataFrame([], schema)
    arrays = [pa.array([row[i] for row in rows], layout.field(i).type) for i in range(len(columns))]
    return arrow_frame(lake.spark, pa.Table.from_arrays(arrays, schema=layout), schema)
