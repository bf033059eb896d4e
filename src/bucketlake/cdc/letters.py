"""Dead letters: events that cannot be written, in an append table with their reason and where they were found.

Spec: docs/cdc.md#bad-events
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bucketlake.catalog import Catalog
from bucketlake.errors import InvalidError
from bucketlake.types.model import BIGINT, INT, STRING, DataField, DataType, Root

if TYPE_CHECKING:
    from bucketlake.table import Table

_COLUMNS: dict[str, tuple[DataType, str]] = {
    "reason": (STRING, "why it was not written"),
    "target": (STRING, "the table that it was for, as far as it says"),
    "topic": (STRING, "of Kafka"),
    "partition": (INT, "of the topic"),
    "offset": (BIGINT, "in the partition"),
    "file": (STRING, "that it stood in"),
    "line": (BIGINT, "of the file, from 1 on"),
    "event": (STRING, "its text; base64 where it is none"),
    "query": (STRING, "id of the streaming query"),
    "batch": (BIGINT, "number of the micro-batch"),
    "time": (DataType(Root.TIMESTAMP_LTZ, precision=3), "when it was put aside"),
}


def letter_table(catalog: Catalog, name: str) -> Table:
    """The table of dead letters, made where there is none. InvalidError for a table that is something else."""
    if not catalog.table_exists(name):
        fields = [DataField(i, item, kind, text) for i, (item, (kind, text)) in enumerate(_COLUMNS.items())]
        catalog.create_table(name, fields, comment="events that were not written", ignore_if_exists=True)
    table = catalog.table(name)
    check_letters(table)
    return table


def check_letters(table: Table) -> None:
    """InvalidError for a table that is no table of dead letters."""
    missing = sorted(_COLUMNS.keys() - {item.name for item in table.schema.fields})
    if missing or table.schema.primary_keys:
        raise InvalidError(
            "not a table of dead letters", table=table.name, missing=missing, remedy="dead_letters=<another name>"
        )


def letters(bad: DataFrame, all_events: DataFrame, query: str, batch: int, files: bool) -> DataFrame:
    """Rows of dead letters. `bad`: events with `reason` and `target`; `all_events`: of the batch, by which lines are
    counted."""
    lined = _with_lines(bad, all_events) if files else bad.withColumn("line", F.lit(None).cast("bigint"))
    value = F.col("value")
    made: dict[str, Column] = {
        "event": F.when(F.is_valid_utf8(value), value).otherwise(F.base64(value.cast("binary"))),
        "query": F.lit(query),
        "batch": F.lit(batch).cast("bigint"),
        "time": F.current_timestamp(),
    }
    return lined.select(*[made.get(name, F.col(name)).alias(name) for name in _COLUMNS])


def _with_lines(bad: DataFrame, all_events: DataFrame) -> DataFrame:
    """With `line`: files are read in blocks, and the lines of a block are numbered in their order, from any number."""
    block = [F.col("at.time").alias("t"), F.col("at.file").alias("f"), F.col("at.block").alias("b")]
    lines = all_events.where(F.coalesce(F.col("item"), F.lit(0)) == 0)
    counted = lines.groupBy(*block).agg(F.min("at.line").alias("first"), F.count(F.lit(1)).alias("lines"))
    earlier = Window.partitionBy("t", "f").orderBy("b").rowsBetween(Window.unboundedPreceding, -1)
    starts = counted.withColumn("before", F.coalesce(F.sum("lines").over(earlier), F.lit(0)))
    same = (F.col("at.time") == F.col("t")) & (F.col("at.file") == F.col("f")) & (F.col("at.block") == F.col("b"))
    joined = bad.join(F.broadcast(starts), same)
    return joined.withColumn("line", (F.col("at.line") - F.col("first") + F.col("before") + 1).cast("bigint"))
