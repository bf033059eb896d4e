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
_MODULES = ("cdc", "errors", "events", "schema")  # that callers import from


def connect(
    warehouse: str | PathLike[str],
    spark: SparkSession | None = None,
    options: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    settings: Mapping[str, str] | None = None,
    **more: Any,
) -> Lake:
    """The warehouse on Spark: `spark`, else the active session, else a tuned local one, of these Spark `settings`.

    `options`: as for `open`. A session made here is quiet; `verbose=True` leaves Spark's own logging and says in a line
    what was made. Needs the extra `bucketlake[spark]`.
    """
    given = {"options": {**(options or {}), **more}, "verbose": verbose, "settings": settings}
    lake: Lake = _spark("bucketlake.spark.session").connect(
        warehouse, spark=spark, front=_spark("bucketlake.sql").FRONT, **given
    )
    return lake


def attach(
    spark: SparkSession,
    warehouse: str | PathLike[str],
    catalog: str = "lake",
    current: bool = True,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Lake:
    """Let a session's own calls reach the tables of a warehouse: `spark.sql`, `spark.table`, `spark.read.table`,
    `df.write.saveAsTable` and `insertInto`, `df.writeTo`, `spark.catalog`. Undone by `detach`.

    `catalog`: the name that may stand before `db.t`. `current`: names without one mean lake tables first, as in
    `lake.sql`; else Spark's alone, until `USE lake`. `options`: as for `open`. Errors: InvalidError (`catalog`).
    Spec: docs/attach.md
    """
    lake = connect(warehouse, spark=spark, options={**(options or {}), **more})
    _spark("bucketlake.sql.attached").attach(lake, catalog, current)
    return lake


def detach(spark: SparkSession) -> bool:
    """Undo the last `attach` of a session that was not undone; False if there is none."""
    done: bool = _spark("bucketlake.sql.attached").detach(spark)
    return done


def register(spark: SparkSession) -> None:
    """Make `format("bucketlake")` known to a session; `connect` does so by itself."""
    _spark("bucketlake.spark.datasource").register(spark)


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext bucketlake`: the magics `%lake` and `%%lake`."""
    _spark("bucketlake.notebook").load(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """`%unload_ext bucketlake`."""
    _spark("bucketlake.notebook").unload(ipython)


def _spark(module: str) -> Any:
    """A module that needs PySpark. UnsupportedError says what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pandas"):
            raise
        raise UnsupportedError(
            "this needs Spark", missing=error.name, remedy="pip install 'bucketlake[spark]'; bucketlake.open needs none"
        ) from error


def __getattr__(name: str) -> Any:
    """The public names that are not here yet."""
    if name not in _LATE:
        raise AttributeError(f"module 'bucketlake' has no attribute {name!r}")
    module, attribute = _LATE[name]
    found = globals()[name] = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    """What completion offers: not what this module imports for itself."""
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})


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
    "attach",
    "connect",
    "detach",
    "open",
    "register",
]
