"""`connect`: a warehouse and a Spark session, which together are a lake."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bucketlake.catalog import DEFAULT_DATABASE, Catalog, open_catalog, parse_name
from bucketlake.errors import UnsupportedError
from bucketlake.spark.cluster import memory_bytes, use_this_python
from bucketlake.spark.daemon import daemon_settings
from bucketlake.spark.datasource import register
from bucketlake.spark.java import ensure_java
from bucketlake.spark.table import LakeTable

SqlRunner = Callable[["Lake", str, Any], DataFrame]
GIB = 1 << 30


class Lake:
    """The tables of one warehouse, through one Spark session. `current_database` resolves unqualified names."""

    def __init__(self, spark: SparkSession, catalog: Catalog, runner: SqlRunner | None = None) -> None:
        self.spark = spark
        self.catalog = catalog
        self.current_database = DEFAULT_DATABASE
        self._runner = runner

    def table(self, name: str, options: Mapping[str, Any] | None = None) -> LakeTable:
        """A table by `db.t` or `t`; `options` hold for this handle only. NotFoundError if there is none."""
        found = parse_name(name, self.current_database)
        return LakeTable(self.spark, self.catalog.table(found.text, options))

    def sql(self, text: str, args: Any = None) -> DataFrame:
        """Run one statement: Spark SQL over the lake's tables, Spark's own and temp views, and the table language."""
        if self._runner is None:
            raise UnsupportedError("this lake was made without SQL", remedy="make it by bucketlake.connect()")
        return self._runner(self, text, args)

    def __repr__(self) -> str:
        return f"Lake({self.catalog.warehouse!r})"


def connect(
    warehouse: str | PathLike[str],
    *,
    spark: SparkSession | None = None,
    runner: SqlRunner | None = None,
    options: Mapping[str, Any] | None = None,
) -> Lake:
    """A lake over a warehouse folder or URI. `options`: as for `open` (storage, table defaults).

    Spark is the session given, else the active one, else the one that SPARK_REMOTE names, else a local one made for
    the purpose. No configuration of a session that exists is changed.
    """
    catalog = open_catalog(warehouse, options)
    session = spark or SparkSession.getActiveSession() or new_session()
    register(session)
    return Lake(session, catalog, runner)


def new_session(**settings: str) -> SparkSession:
    """A Spark session for a machine of its own: all cores, half of the memory up to 16 GiB, no UI, fast Python workers.

    With SPARK_REMOTE or SPARK_CONNECT_MODE_ENABLED set: a session of that server. `settings` overlay the defaults.
    """
    use_this_python()
    builder = SparkSession.builder.appName("bucketlake")
    if not (os.environ.get("SPARK_REMOTE") or os.environ.get("MASTER") or os.environ.get("SPARK_MASTER")):
        ensure_java()
        chosen = {**_local_settings(), **settings}
        here = re.fullmatch(r"local(\[.*\])?", chosen["spark.master"])
        for key, value in {**(daemon_settings() if here else {}), **chosen}.items():
            builder = builder.config(key, value)
    return builder.getOrCreate()


def _local_settings() -> dict[str, str]:
    cores = os.cpu_count() or 1
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": f"{_driver_memory() >> 20}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(max(8, 2 * cores)),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _driver_memory() -> int:
    """Bytes: half of the machine, at least 1 GiB, at most 16."""
    return max(GIB, min(16 * GIB, memory_bytes() // 2))
