"""EXPLAIN over lake tables: Spark's plan, and what is read of each table: partitions, files and bytes of all there are,
and which files have to be merged.

Spec: docs/spec/pushdown.md#explain
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bucketlake.amounts import size_text
from bucketlake.ops.scan.fallback import shown_branches
from bucketlake.ops.scan.scan import EntryFilter, live_entries
from bucketlake.ops.system.model import SystemTable
from bucketlake.spark import faults
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bucketlake.ops.scan.select import Selection
    from bucketlake.predicate.tree import Predicate
    from bucketlake.table import Table


@dataclass(frozen=True, slots=True)
class Read:
    """One use of a table by a query: what `Table.as_of` selected, the columns (None: all) and the condition that are
    enough of it."""

    name: str
    table: Table
    selection: Selection
    columns: tuple[str, ...] | None
    predicate: Predicate | None


def with_tables(spark: SparkSession, plan: DataFrame, reads: Sequence[Read]) -> DataFrame:
    """The rows of an EXPLAIN, with what is read of lake tables behind them, and without names that nobody gave."""
    if plan.columns != ["plan"]:
        return plan
    text = "\n".join(str(row[0]) for row in plan.collect())
    different = {(read.name, read.columns, repr(read.predicate), repr(read.selection)): read for read in reads}
    told = [line for read in different.values() for line in _told(read)]
    text = faults.without_made_names(text)
    if told:
        text = f"{text.rstrip()}\n\n== Lake Tables ==\n" + "\n".join(told) + "\n"
    return spark.createDataFrame([(text,)], "plan string")


def _told(read: Read) -> list[str]:
    table = read.table
    columns = "all" if read.columns is None else ", ".join(read.columns) or "none"
    if isinstance(table.view, SystemTable):
        return [f"{read.name}: metadata, columns {columns}"]
    found = table.planned(read.predicate, read.selection)
    shown = shown_branches(table.store, read.selection)
    every = [
        entry
        for store, snapshot, some in shown
        for entry in live_entries(store, snapshot, EntryFilter(partitions=some))
    ]
    parts = found.parts(table.store)
    entries = [entry for _, part in parts for entry in part.entries]
    merged = [split for _, part in parts for split in part.splits if not split.raw]
    snapshot = "no snapshot" if found.snapshot is None else f"snapshot {found.snapshot.id}"
    lines = [f"{read.name}: {snapshot}, columns {columns}"]
    if table.schema.partition_keys:
        lines.append(f"  partitions: {len({e.partition for e in entries})} of {len({e.partition for e in every})}")
    lines.append(f"  files: {len(entries)} of {len(every)}")
    sizes = [sum(entry.file.file_size for entry in some) for some in (entries, every)]
    lines.append(f"  size: {size_text(sizes[0])} of {size_text(sizes[1])}")
    if merged:
        files = sum(len(split.files) + sum(len(part.files) for part in split.parts) for split in merged)
        lines.append(f"  merged: {files} files in {len(merged)} splits")
    return lines
