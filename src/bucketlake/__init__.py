"""Bucketlake: Apache Paimon's table storage in Python, on stock PySpark or on none.

lake = bucketlake.connect("/data/warehouse")      # with Spark: lake.sql(...), lake.table("db.t")
catalog = bucketlake.open("/data/warehouse")      # without: catalog.table("db.t").to_arrow()
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from bucketlake.catalog import Catalog
from bucketlake.catalog import open_catalog as open
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CommitError,
    CommitUnknownError,
    ConflictError,
    CorruptError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.schema.schema import TableSchema
from bucketlake.table import Table, TableFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable

__version__ = "0.1.0"


def connect(
    warehouse: str | PathLike[str],
    spark: SparkSession | None = None,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Lake:
    """The warehouse on Spark: `spark`, else the active session, else a tuned local one.

    `options`: as for `open`. Needs the extra `bucketlake[spark]`.
    """
    from bucketlake.spark.session import connect as connect_spark
    from bucketlake.sql import FRONT

    return connect_spark(warehouse, spark=spark, front=FRONT, options={**(options or {}), **more})


def register(spark: SparkSession) -> None:
    """Make `format("bucketlake")` known to a session; `connect` does so by itself."""
    from bucketlake.spark.datasource import register as register_source

    register_source(spark)


def __getattr__(name: str) -> Any:
    """`Lake` and `LakeTable`, without importing Spark before they are asked for."""
    if name == "Lake":
        from bucketlake.spark.session import Lake

        return Lake
    if name == "LakeTable":
        from bucketlake.spark.table import LakeTable

        return LakeTable
    raise AttributeError(f"module 'bucketlake' has no attribute {name!r}")


__all__ = [
    "AlreadyExistsError",
    "BucketlakeError",
    "Catalog",
    "CommitError",
    "CommitUnknownError",
    "ConflictError",
    "CorruptError",
    "InvalidError",
    "Lake",
    "LakeTable",
    "NotFoundError",
    "Snapshot",
    "StorageError",
    "Table",
    "TableFile",
    "TableSchema",
    "UnsupportedError",
    "connect",
    "open",
    "register",
]
