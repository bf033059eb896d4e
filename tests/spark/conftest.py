"""Spark sessions of three kinds, each started once: classic local, Spark Connect, executors in other processes.

A process holds one classic session at a time, so the local cluster runs in a process of its own (`cluster_python`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bucketlake.spark.session import new_session

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("spark-warehouse")
    session = new_session(**SETTINGS, **{"spark.sql.warehouse.dir": str(warehouse)})
    yield session
    session.stop()
