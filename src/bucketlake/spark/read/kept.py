"""Frames of small tables that a lake keeps while the same rows are asked for: a dimension that every query joins is
read once. What a task would be sent to read rows says which rows they are: files never change.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from bucketlake.env.storage import Storage
from bucketlake.ops.table.cache import Cache
from bucketlake.ops.table.decoded import identity
from bucketlake.spark.arrow_rows import framed
from bucketlake.spark.cluster import is_connect

MOST_BYTES = 1 << 20  # of a frame, as Arrow has its rows: Spark's take several times as much
ALL_BYTES = 8 << 20  # of all frames
MOST_COLUMNS = 200  # each costs a call to Spark, whether it is read or not
_MOST_ASKED = 64 << 10  # bytes of what is asked for
_AGE = 1000  # calls


class KeptFrames:
    """The frames of one session that were read last."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.cache = Cache(ALL_BYTES, _AGE)

    def frame(self, storage: Storage, asked: Any, rows: Callable[[], pa.Table], schema: T.StructType) -> DataFrame:
        """The frame of rows that follow from `asked`, of files of a storage. Its columns are no other frame's: two of
        the same rows can be joined."""
        told = b"" if is_connect(self.spark) or len(schema) > MOST_COLUMNS else _told(asked)
        if not told or len(told) > _MOST_ASKED:
            return framed(self.spark, rows(), schema)
        key = (identity(storage), told)
        known = self.cache.get(key)
        if known is None:
            data = rows()
            known = framed(self.spark, data, schema)
            if data.nbytes > MOST_BYTES:
                return known
            self.cache.put(key, data.nbytes + len(told), known)
        return known.toDF(*schema.names)


def _told(asked: Any) -> bytes:
    """What a task would be sent; nothing where it cannot be sent."""
    try:
        return pickle.dumps(asked)
    except (pickle.PicklingError, TypeError, AttributeError):
        return b""
