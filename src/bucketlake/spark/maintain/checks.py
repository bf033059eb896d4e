"""Checking tables by Spark tasks: units of the deep levels are spread by their bytes, few bytes are looked at here.

Spec: docs/maintenance.md#fsck
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from bucketlake.ops.check.fsck import Run, run_here
from bucketlake.spark.maintain.jobs import DRIVER_BYTES
from bucketlake.spark.maintain.orphans import run_each


def run_units(spark: SparkSession) -> Run:
    """How `ops.check.fsck` looks at units with this session."""

    def run(action: Callable[[Any], Any], units: Sequence[Any]) -> list[Any]:
        small = sum(unit.size for unit in units) <= DRIVER_BYTES
        return run_here(action, units) if small else run_each(spark)(action, units)

    return run
