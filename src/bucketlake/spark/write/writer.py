"""A DataFrame into a table: choose the way, write files, commit.

Rows that are in the driver already are written here, all else by Python tasks.

Spec: docs/spec/writing.md
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.change.row_conflicts import Read
from bucketlake.ops.clean.expire import after_commit
from bucketlake.ops.cluster.order import write_order
from bucketlake.ops.cluster.rows import incoming_in_order
from bucketlake.ops.commit.loads import Loading
from bucketlake.ops.key_index.cross_partition import FEW_KEYS
from bucketlake.ops.scan.key_types import merged_schema
from bucketlake.ops.stream.batches import BatchName
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.partitions import require_partition_columns
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.postpone_write import for_changes
from bucketlake.ops.write.prepare import new_commit_user, prepare_write, refuse_plain_append
from bucketlake.options.options import option_keys
from bucketlake.predicate.numbers import Beyond
from bucketlake.predicate.times import stamp_of, zone_of
from bucketlake.schema.merging import Merging
from bucketlake.schema.schema import KIND_FIELD, BucketMode, TableSchema
from bucketlake.spark import instants
from bucketlake.spark.arrow_rows import collected
from bucketlake.spark.assignment import Rules, typed
from bucketlake.spark.cluster import parallelism
from bucketlake.spark.conform import chars_are_text, conform, literal
from bucketlake.spark.maintain.compaction import after_write
from bucketlake.spark.types import spark_type
from bucketlake.spark.write import tasks
from bucketlake.spark.write.ordered import write_in_order
from bucketlake.spark.write.parquet_rows import Source
from bucketlake.spark.write.placement import Given, indexed
from bucketlake.spark.write.replacing import DYNAMIC_OVERWRITE
from bucketlake.types.model import DataField, Root
from bucketlake.types.spaced import padded
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table

CHANGES = ("DELETE", "UPDATE", "MERGE")  # operations on rows that were read


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """How to write. `mode`: "append" or "overwrite"; `partition`: what an overwrite replaces, and the values of its
    columns where the rows lack them; `progress` is told each step. `kinds`: name of a further column with row kinds (0
    +I, 1 -U, 2 +U, 3 -D, or these texts), for primary-key tables, by default `_VALUE_KIND` where there is such a
    column; `operation`: what the snapshot says it is."""

    mode: str = "append"
    partition: Mapping[str, Any] | None = None
    progress: Callable[[str], None] | None = None
    kinds: str | None = None
    operation: str = "WRITE"
    read: Read | None = None  # the rows are changes of rows that this snapshot had
    local: bool = False  # the rows stand in the plan itself: they are few, and the driver may write them
    dynamic: bool | None = None  # an overwrite of just the partitions that rows are in; None: the table's option says
    evolves: bool = False  # columns were matched by name: option write.merge-schema may add some to the table
    batch: BatchName | None = None  # of a stream: written under this name, once
    loading: Loading | None = None  # of COPY INTO: files that the rows come from, committed once
    later: Callable[[Callable[[], object]], None] | None = None  # takes what follows the commit, to be called later
    before_commit: Callable[[], None] | None = None  # called when the files are written; its errors undo the write
    source: Source | None = None  # what the rows were made of by names, places and casts alone; by default themselves

    def tell(self, step: str) -> None:
        """Report a step."""
        if self.progress is not None:
            self.progress(step)


OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


def overwrites_dynamically(
    spark: SparkSession, table: Table, partition: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> bool | None:
    """Whether an overwrite replaces just the partitions that its rows are in: what the write's own options say, else
    the session where it says anything; None: neither does. A partition that is named whole is replaced as such."""
    keys = table.schema.partition_keys
    if not keys or set(partition or ()) == set(keys):
        return False
    given = {key: value for key, value in option_keys(options).items() if value is not None}
    if DYNAMIC_OVERWRITE in given and partition is None:
        return None  # the option is the table's then, and holds
    if DYNAMIC_OVERWRITE in given:
        return str(given[DYNAMIC_OVERWRITE]).lower() == "true"
    mode = spark.conf.get(OVERWRITE_MODE, None)
    return None if mode is None else str(mode).upper() == "DYNAMIC"


def write(spark: SparkSession, table: Table, frame: DataFrame | pa.Table, request: WriteRequest) -> Snapshot | None:
    """Write the rows and commit them; the new snapshot, or None where there was nothing to commit. `frame`: rows of any
    kind, or those that the driver has as `conform` makes them, with the request's `kinds`.

    Errors: InvalidError (mode, columns, rows), UnsupportedError, ConflictError, CommitError, CommitUnknownError. On
    failure the table is as it was.
    """
    if request.mode not in ("append", "overwrite"):
        remedy = "use 'append', which upserts where there is a primary key, or 'overwrite'"
        raise InvalidError("unknown write mode", mode=request.mode, remedy=remedy)
    table = table.for_writing()
    request = replace(request, partition=_stated(spark, request.partition, table.schema))
    if isinstance(frame, pa.Table):
        rows, local, kinds = frame, True, request.kinds
    else:
        request = replace(request, source=request.source or Source(frame, tuple(frame.columns)))
        table, rows, kinds = _conformed(spark, table, frame, request)
        local = request.local or frame.isLocal()
    store = table.store
    user = _commit_user(store, request)
    count, overwrite = tasks.task_count(spark) + 1, request.mode == "overwrite"
    prepared = partial(prepare_write, store, tasks=count, commit_user=user, overwrite=overwrite)
    template = replace(on_newest(store, lambda: prepared(store.latest_snapshot())), parallelism=parallelism(spark))
    if request.operation in CHANGES:
        template = for_changes(store, template)
    request.tell(f"writing to {table.name}")
    messages = _written(spark, store, rows, template, replace(request, local=local, kinds=kinds))
    try:
        if request.before_commit is not None:
            request.before_commit()
        if request.loading is not None:
            request.loading.begin()
    except BaseException:
        discard(store, messages)
        raise
    written = sum(file.row_count for message in messages for file in message.new_files)
    request.tell(f"committing {written:,} rows in {sum(len(m.new_files) for m in messages):,} files")
    mode = request.mode
    if mode == "overwrite" and request.dynamic is not None:
        mode = "overwrite dynamic" if request.dynamic else "overwrite static"
    name = request.batch or request.loading or user
    snapshot = table.commit(messages, name, mode, request.partition, request.operation, request.read)
    request.tell("nothing to commit" if snapshot is None else f"committed snapshot {snapshot.id}")
    if snapshot is None:
        return None
    if request.later is not None:
        # Later commits of the query come first: its own numbers must go on rising.
        made = replace(snapshot, commit_user=new_commit_user(store))
        request.later(lambda: _upkeep(spark, store, made, messages, request))
        return snapshot
    return _upkeep(spark, store, snapshot, messages, request)


def _commit_user(store: Store, request: WriteRequest) -> str:
    if request.batch is not None:
        return request.batch.query
    return new_commit_user(store) if request.loading is None else request.loading.user


def check_columns(spark: SparkSession, table: Table, frame: DataFrame, request: WriteRequest) -> None:
    """InvalidError for columns that the table does not take, before there are rows; with `write.merge-schema` the rows
    decide."""
    if Merging.of(table.options) is None:
        _conformed(spark, table, frame, request)


def _conformed(
    spark: SparkSession, table: Table, frame: DataFrame, request: WriteRequest
) -> tuple[Table, DataFrame, str | None]:
    """The rows as the table takes them, the table with the columns that they bring, and their column of row kinds."""
    kinds = request.kinds
    if kinds is None and table.schema.primary_keys and KIND_FIELD.name in frame.columns:
        kinds = KIND_FIELD.name
    extra = () if kinds is None else (kinds,)
    filled, rules = _filled(frame, request.partition or {}, table.schema), instants.rules(spark, table.options)
    if request.evolves and Merging.of(table.options) is not None:
        rules = replace(rules, fill=True)
        table = evolved(table, filled, rules, extra)
    if request.mode == "append" and kinds is None:
        refuse_plain_append(table.store)
    return table, conform(filled, table.store.schema.fields, extra, rules), kinds


def _upkeep(
    spark: SparkSession, store: Store, snapshot: Snapshot, messages: Sequence[CommitMessage], request: WriteRequest
) -> Snapshot | None:
    """What follows a commit: compaction, tags, expiry; the newest snapshot that it made."""
    compacted = after_write(spark, store, snapshot, messages)
    if compacted is not None:
        request.tell(f"compacted, snapshot {compacted.id}")
    return after_commit(store, compacted or snapshot, wrote=messages)


def evolved(table: Table, frame: DataFrame, rules: Rules, extra: Sequence[str] = ()) -> Table:
    """The table with a schema that holds the frame's columns (`write.merge-schema`), `extra` apart; nothing is changed
    where a value of the frame could not be assigned to it then."""
    arriving = T.StructType([field for field in frame.schema.fields if field.name not in extra])
    told = typed(arriving, instants.shown_schema(table.schema.fields, table.options), rules)
    given = instants.made_fields(told, table.options, table.schema.fields)
    found = Merging.of(table.options, rules.sensitive)
    future = None if found is None else merged_schema(table.store, given, found, table.name)
    if future is not None:
        conform(frame, future.fields, extra, rules)
    return table.evolved(given, rules.sensitive)


def _written(
    spark: SparkSession, store: Store, rows: DataFrame | pa.Table, template: WriteTask, request: WriteRequest
) -> list[CommitMessage]:
    given = rows if isinstance(rows, pa.Table) else collected(rows) if request.local else None
    batches = [] if given is None else [batch for batch in given.to_batches() if batch.num_rows]
    overwrite, order = request.mode == "overwrite", write_order(store.schema, store.options)
    if order is not None and request.local:
        return tasks.write_in_driver(store, list(incoming_in_order(batches, order, store)), template)
    once = request.batch is not None
    how = Given(request.kinds, overwrite, once, None if once or request.kinds else request.source)
    if order is not None and not isinstance(rows, pa.Table):
        return write_in_order(spark, store, rows, template, order, how)
    if given is not None or isinstance(rows, pa.Table):
        if store.schema.bucket_mode is BucketMode.KEY_DYNAMIC and sum(batch.num_rows for batch in batches) > FEW_KEYS:
            template = indexed(spark, store, template)
        return tasks.write_in_driver(store, batches, template, request.kinds, overwrite)
    return tasks.write_in_tasks(spark, store, rows, template, how)


def _stated(spark: SparkSession, partition: Mapping[str, Any] | None, schema: TableSchema) -> Mapping[str, Any] | None:
    """The values of CHAR(n) columns as `conform` stores them, and those of columns with local time zone as the instants
    that Spark takes them for: these name the partition that the rows come to."""
    require_partition_columns(partition or {}, schema.partition_keys)
    pads = not chars_are_text(spark)
    return partition and {name: _as_stored(spark, value, schema.field(name), pads) for name, value in partition.items()}


def _as_stored(spark: SparkSession, value: Any, field: DataField, pads: bool) -> Any:
    if field.type.root is Root.CHAR and pads:
        return padded(value, field.type)
    if field.type.root is not Root.TIMESTAMP_LTZ:
        return value
    zone = None  # of this process, which is PySpark's for values of Python
    if isinstance(value, str):
        zone = zone_of(str(spark.conf.get("spark.sql.session.timeZone")))
        with suppress(Beyond):  # the name of a folder, or none of a time
            value = stamp_of(value)
    if not isinstance(value, dt.datetime) or value.tzinfo is not None:
        return value
    return value.replace(tzinfo=zone).astimezone(dt.timezone.utc)


def _filled(frame: DataFrame, partition: Mapping[str, Any], schema: TableSchema) -> DataFrame:
    """The frame with the columns that `partition` fixes, where it lacks them."""
    require_partition_columns(partition, schema.partition_keys)
    given = {name.lower() for name in frame.columns}
    for name, value in partition.items():
        if name.lower() not in given:
            frame = frame.withColumn(name, literal(value, spark_type(schema.field(name).type)))
    return frame
