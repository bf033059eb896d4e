"""Bucketlake: Apache Paimon's table storage in Python, on stock PySpark or on none.

lake = bucketlake.connect("/data/warehouse")      # with Spark: lake.sql(...), lake.table("db.t")
catalog = bucketlake.open("/data/warehouse")      # without: catalog.table("db.t").to_arrow()
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bucketlake.catalog import Catalog
    from bucketlake.catalog import open_catalog as open
    from bucketlake.format.metadata.snapshot import Snapshot
    from bucketlake.ops.table.table_file import TableFile
    from bucketlake.schema.schema import TableSchema
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable
    from bucketlake.table import Table

__version__ = "0.1.0"

# Loaded when first asked for: Python workers of Spark import this package for a part of it.
_LATE = {
    "Catalog": ("bucketlake.catalog", "Catalog"),
    "Lake": ("bucketlake.spark.session", "Lake"),
    "LakeTable": ("bucketlake.spark.table", "LakeTable"),
    "Snapshot": ("bucketlake.format.metadata.snapshot", "Snapshot"),
    "Table": ("bucketlake.table", "Table"),
    "TableFile": ("bucketlake.ops.table.table_file", "TableFile"),
    "TableSchema": ("bucketlake.schema.schema", "TableSchema"),
    "open": ("bucketlake.catalog", "open_catalog"),
}


def connect(
    warehouse: str | PathLike[str],
    spark: SparkSession | None = None,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Lake:
    """The warehouse on Spark: `spark`, else the active session, else a tuned local one.

    `options`: as for `open`. Needs the extra `bucketlake[spark]`.
    """
    session, sql = import_module("bucketlake.spark.session"), import_module("bucketlake.sql")
    lake: Lake = session.connect(warehouse, spark=spark, front=sql.FRONT, options={**(options or {}), **more})
    return lake


def register(spark: SparkSession) -> None:
    """Make `format("bucketlake")` known to a session; `connect` does so by itself."""
    import_module("bucketlake.spark.datasource").register(spark)


def __getattr__(name: str) -> Any:
    """The public names that are not here yet."""
    if name not in _LATE:
        raise AttributeError(f"module 'bucketlake' has no attribute {name!r}")
    module, attribute = _LATE[name]
    found = globals()[name] = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
