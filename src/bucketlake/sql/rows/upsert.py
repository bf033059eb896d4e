"""Rows that are added to an append table with `upsert-key`: those whose key is there update its row, others are new.

A MERGE by equal keys, null equal to null. With `sequence.field` the latest of the rows that come with a key counts, and
updates only a row that is not later in any of these columns.

Source: `RewriteUpsertTable` of Apache Paimon 2.0.
Spec: docs/sql/insert.md#upsert-keys
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from bucketlake.ops.write.prepare import UPSERT_KEY
from bucketlake.spark.conform import conform
from bucketlake.spark.instants import rules
from bucketlake.spark.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.format.metadata.snapshot import Snapshot
    from bucketlake.spark.table import LakeTable

_PLACE = "__bucketlake_place"


def upserts(table: LakeTable) -> bool:
    """Whether rows that are added may update others."""
    return bool(table.options.names(UPSERT_KEY))


def upserted(table: LakeTable, frame: DataFrame) -> Snapshot | None:
    """Add rows, matched to the table's columns by name; the snapshot. Errors: those of MERGE INTO: without a sequence
    field, of several rows that match one."""
    keys, sequence = table.options.names(UPSERT_KEY), table.options.names("sequence.field")
    rows = conform(frame, table.schema.fields, rules=rules(table.spark, table.options))
    if sequence:
        newest = Window.partitionBy(*map(_column, keys)).orderBy(*(_column(name).desc() for name in sequence))
        rows = rows.withColumn(_PLACE, F.row_number().over(newest)).where(F.col(_PLACE) == 1).drop(_PLACE)
    same = " AND ".join(f"t.{quoted(name)} <=> source.{quoted(name)}" for name in keys)
    later = " AND ".join(f"t.{quoted(name)} <= source.{quoted(name)}" for name in sequence) or None
    merge = table.with_options({UPSERT_KEY: None}).merge(rows, same, "t")
    return merge.whenMatched(later).updateAll().whenNotMatched().insertAll().merge()


def _column(name: str) -> Column:
    return F.col(quoted(name))
