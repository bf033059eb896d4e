"""The maintainer with Spark: units of compactions and of clustering as its tasks.

Spec: docs/spec/maintenance.md#service
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bucketlake.maintenance.rules import Event, Rule, rules_of
from bucketlake.maintenance.service import Service, maintain
from bucketlake.spark.maintain.compaction import placed
from bucketlake.spark.maintain.jobs import runner
from bucketlake.spark.sort_compaction import put_in_order

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


def maintain_lake(
    lake: Lake, rules: Sequence[Rule | Mapping[str, Any]] | None, once: bool, more: Mapping[str, Any]
) -> list[Event]:
    """As `Lake.maintain`. `more`: fields of a `Service`."""
    service = replace(Service(rules_of(rules)), **{name: value for name, value in more.items() if value is not None})
    prepare, cluster = partial(placed, lake.spark), partial(put_in_order, lake.spark)
    return maintain(lake.catalog, replace(service, run=runner(lake.spark), prepare=prepare, cluster=cluster), once)
