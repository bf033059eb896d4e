"""`sys.bucket(n, key, …)`, `sys.mod_bucket`, `sys.hive_bucket`: the bucket of a key, as functions of a session.

They take any columns and give what a table with so many buckets and this bucket key would: the same hash.

Spec: docs/sql/functions.md#bucket
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bucketlake.errors import InvalidError
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.lazy import pc
from bucketlake.spark.cluster import ensure_package
from bucketlake.types.model import DataField, canonical_batch, from_arrow_type

KINDS = {"bucket": "default", "mod_bucket": "mod", "hive_bucket": "hive"}  # function → bucket-function.type


def ensure_functions(spark: SparkSession, names: frozenset[str]) -> None:
    """Make the functions known to a session, as `sys.<name>` in one quoted name."""
    ensure_package(spark)
    for name in sorted(names):
        spark.udf.register(f"sys.{name}", _function(KINDS[name]))


def buckets(kind: str, number: pa.Array, keys: list[pa.Array]) -> pa.Array:
    """The bucket of each key among `number` buckets. InvalidError for what is no number of buckets, or no key."""
    if number.type != pa.int32():
        raise InvalidError("bucket number field must be integer type", type=str(number.type))
    if number.null_count or (len(number) and pc.min(number).as_py() < 1):
        raise InvalidError("a bucket number must be positive")
    fields = [DataField(place, f"key{place}", from_arrow_type(key.type)) for place, key in enumerate(keys)]
    if not fields:
        raise InvalidError("a bucket function needs the columns of a bucket key", remedy="write sys.bucket(n, column)")
    batch = canonical_batch(pa.RecordBatch.from_arrays(keys, names=[item.name for item in fields]), fields)
    counts = np.asarray(number)
    result = np.zeros(len(counts), np.int32)
    for count in np.unique(counts).tolist():  # mostly one
        own = np.flatnonzero(counts == count)
        rows = batch if len(own) == len(counts) else batch.take(pa.array(own))
        result[own] = assign_buckets(rows, fields, count, kind)
    return pa.array(result, pa.int32())


def _function(kind: str):  # type: ignore[no-untyped-def]
    @F.arrow_udf("int")  # type: ignore[untyped-decorator]
    def computed(number: pa.Array, *keys: pa.Array) -> pa.Array:
        return buckets(kind, number, list(keys))

    return computed
