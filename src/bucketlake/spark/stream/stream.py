"""Streams from and into one table.

Spec: docs/streaming.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bucketlake.errors import InvalidError, check_types, names_listed
from bucketlake.file_names import text_of
from bucketlake.ops.stream.limits import Limits
from bucketlake.ops.stream.source import check_start
from bucketlake.options.options import option_keys, option_text
from bucketlake.schema.schema import column_names
from bucketlake.spark.cluster import is_connect
from bucketlake.spark.datasource import (
    NEWEST_KNOWN,
    OWN_OPTIONS,
    READ_CHANGELOG,
    as_changes,
    check_followed,
    exact_condition,
    source_of,
)
from bucketlake.spark.instants import as_shown, tells_otherwise
from bucketlake.spark.raised import interrupts_stay, told_by
from bucketlake.spark.stream.batch_done import KEPT, BatchDone
from bucketlake.spark.stream.checkpoint import Query, check_query, check_trigger
from bucketlake.spark.stream.sink import Sink, Written, check_mode
from bucketlake.spark.types import quoted
from bucketlake.spark.write.writer import WriteRequest, check_columns
from bucketlake.types.instants import LEGACY_TIMESTAMPS
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table


class TableQuery(StreamingQuery):  # type: ignore[misc]
    """What a type checker knows of a query that writes a table: it is Spark's own, with `batches`, what became of the
    newest ones, None on Spark Connect. What ended it is told as an error of ours that is Spark's as well."""

    batches: deque[BatchDone] | None


def read(
    spark: SparkSession,
    table: Table,
    columns: Sequence[str] | None,
    where: str | None,
    scan_options: Mapping[str, Any],
) -> DataFrame:
    """A streaming DataFrame of the table's rows and changes."""
    columns = None if columns is None else names_listed(columns)
    check_types((str, type(None)), 'write it as SQL: where="id > 3"', where=where)
    options = {key: option_text(value) for key, value in option_keys(scan_options).items() if value is not None}
    table = table.with_options({key: options.pop(key) for key in (LEGACY_TIMESTAMPS,) if key in options})
    asked = table.with_options({key: value for key, value in options.items() if key.lower() not in OWN_OPTIONS})
    _check(as_changes(asked, options.get(READ_CHANGELOG)), columns, where)
    apart = tells_otherwise(table.schema)  # a condition is about rows as they are shown
    if columns is not None and not apart:
        options["columns"] = text_of(columns)
    if where is not None and not apart:
        options["where"] = where
    # The process that looks where a stream begins starts after the query: what is written meanwhile belongs to it.
    options[NEWEST_KNOWN] = str(table.store.latest_snapshot_id() or 0)
    frame = spark.readStream.format(source_of(spark, table)).options(**options).load()
    if not apart:
        return frame
    rows = as_shown(frame, table.options)
    rows = rows if where is None else rows.where(where)
    return rows if columns is None else rows.select(*map(quoted, columns))


def _check(table: Table, columns: Sequence[str] | None, where: str | None) -> None:
    """What Spark would hear of only when the query runs, among the frames of its own process."""
    check_followed(table)
    Limits.of(table.options)
    check_start(table.store)
    column_names(table.schema, columns)
    if not tells_otherwise(table.schema):
        exact_condition(table, where)


@dataclass(frozen=True, slots=True)
class Streaming:
    """How a query writes. `checkpoint`: the folder that keeps its progress, its own; `mode`: Spark's output mode;
    `trigger`: as `DataStreamWriter.trigger` takes it ({"processingTime": "5 seconds"}, {"availableNow": True}, …);
    `name`: of the query, unique among those that run; `told`: called after each batch."""

    checkpoint: str
    mode: str = "append"
    trigger: Mapping[str, Any] | None = None
    name: str | None = None
    told: Callable[[BatchDone], None] | None = None


def write(spark: SparkSession, table: Table, frame: DataFrame, how: Streaming) -> TableQuery:
    """Start a query that writes a streaming DataFrame into the table. What it cannot do is refused before it starts."""
    check_query(how.checkpoint, on_batch=how.told)
    check_trigger(how.trigger)
    if not getattr(frame, "isStreaming", False):
        raise InvalidError("not a streaming DataFrame", table=table.name, remedy="use write()")
    table = table.for_writing()
    how = replace(how, mode=str(how.mode).lower())  # as Spark takes it
    check_mode(table, how.mode)
    check_columns(spark, table, frame, WriteRequest("overwrite" if how.mode == "complete" else "append"))
    name = how.name or f"{table.name} {table.store.env.clock.new_uuid()[:8]}"
    batches: deque[BatchDone] | None = None if is_connect(spark) else deque(maxlen=KEPT)
    query_of = Query(name, str(how.checkpoint), spark, table.store.env)
    query_of.folder.check()
    sink = Sink(table, query_of, Written(how.mode, told=how.told), batches)
    stream = frame.writeStream.queryName(name).outputMode(how.mode).option("checkpointLocation", str(how.checkpoint))
    if how.trigger is not None:
        stream = stream.trigger(**how.trigger)
    with interrupts_stay():
        query = cast("TableQuery", told_by(stream.foreachBatch(sink).start()))
    query.batches = batches  # on Spark Connect they are done beside the server
    return query
