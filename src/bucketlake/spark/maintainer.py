"""The maintainer with Spark: units of compactions and of clustering as its tasks.

Spec: docs/spec/maintenance.md#service
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from bucketlake.catalog import Catalog
from bucketlake.maintenance.rules import Event, Rule, rules_of
from bucketlake.maintenance.service import Service, maintain
from bucketlake.spark.maintain.compaction import placed
from bucketlake.spark.maintain.jobs import runner
from bucketlake.spark.sort_compaction import put_in_order


def maintain_lake(
    spark: SparkSession,
    catalog: Catalog,
    rules: Sequence[Rule | Mapping[str, Any]] | None,
    once: bool,
    more: Mapping[str, Any],
) -> list[Event]:
    """As `Lake.maintain`. `more`: fields of a `Service`."""
    service = replace(Service(rules_of(rules)), **{name: value for name, value in more.items() if value is not None})
    prepare, cluster = partial(placed, spark), partial(put_in_order, spark)
    return maintain(catalog, replace(service, run=runner(spark), prepare=prepare, cluster=cluster), once)
