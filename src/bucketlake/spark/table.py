"""One table of a lake: rows as DataFrames, everything else as plain Python values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession

from bucketlake.catalogs.names import last_part
from bucketlake.errors import InvalidError, UnsupportedError, check_flags, check_threads, no_attribute
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.frames.table_scan import whole
from bucketlake.ops.check.fsck import Run
from bucketlake.ops.clean.orphans import OrphanFiles
from bucketlake.ops.cluster.request import OrderRequest
from bucketlake.ops.compact.reindex import Reindexed
from bucketlake.ops.compact.running import Runner
from bucketlake.ops.lookup.request import On
from bucketlake.ops.progress import OnProgress
from bucketlake.ops.rescale.advise import BucketAdvice
from bucketlake.ops.scan.partition_choice import PartitionSpecs
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.stream.batches import BatchName
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.table_file import TableFile
from bucketlake.options.options import TableOptions
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.change import SchemaChange
from bucketlake.schema.schema import TableSchema
from bucketlake.shown import OF_OTHERS
from bucketlake.spark import changes, instants, sort_compaction
from bucketlake.spark.column_text import condition_text
from bucketlake.spark.datasource import READ_CHANGELOG, as_changes
from bucketlake.spark.handed import frame_of
from bucketlake.spark.maintain import checks, compaction, jobs, orphans
from bucketlake.spark.merge.builder import VALUES, Expression, MergeBuilder
from bucketlake.spark.raised import in_one_process, told_as_ours
from bucketlake.spark.read import reader
from bucketlake.spark.settings import require_running
from bucketlake.spark.stream import stream
from bucketlake.spark.stream.batch_done import BatchDone
from bucketlake.spark.stream.lookup import LookupStage, looked_up
from bucketlake.spark.stream.process import Processing, StreamProcess, Trigger, process
from bucketlake.spark.stream.sink import Written, write_batch
from bucketlake.spark.stream.stream import TableQuery
from bucketlake.spark.write import writer
from bucketlake.streams import Streams
from bucketlake.table import Table
from bucketlake.values import dataclass

Merger = Callable[["LakeTable", MergeBuilder], Snapshot | None]


MOST_LIMIT = (1 << 31) - 1  # rows that DataFrame.limit takes
_NAMES = {**OF_OTHERS, "append": "table.write(frame)", "upsert": "table.write(frame), which upserts"}


@dataclass(frozen=True)
class LakeTable(Streams):
    """A handle on one table: the schema and options as it was opened. Immutable. `merger`: runs what `merge` says."""

    spark: SparkSession
    table: Table
    merger: Merger | None = None

    # ---- what it is

    @property
    def name(self) -> str:
        """`db.t`."""
        return self.table.name

    @property
    def path(self) -> str:
        """The table's folder."""
        return self.table.path

    @property
    def schema(self) -> TableSchema:
        """The schema that reads and writes of this handle use."""
        return self.table.schema

    @property
    def options(self) -> TableOptions:
        """Effective options."""
        return self.table.options

    def with_options(self, options: Mapping[str, Any] | None = None, **more: Any) -> LakeTable:
        """The table with dynamic options laid over."""
        return replace(self, table=self.table.with_options(options, **more))

    def refresh(self) -> LakeTable:
        """The table with its newest schema."""
        return replace(self, table=instants.told(self.spark, self.table.refresh(), {}))

    @property
    def _running(self) -> SparkSession:
        """The session, for calls that need it; InvalidError where it was stopped."""
        require_running(self.spark)
        return self.spark

    # ---- rows

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | Column | None = None,
        limit: int | None = None,
        **scan_options: Any,
    ) -> DataFrame:
        """The rows of one snapshot, as of this call. `where`: a SQL condition, or a Column that can be said as SQL; it
        also prunes partitions, buckets and files. `limit`: at most so many rows, any; files not needed for them are not
        opened. `scan_options`: `scan.*` and other dynamic options, and `read_changelog=True` for a column `rowkind` and
        deleted rows too, as the system table `$audit_log` has them.
        """
        if limit is not None:
            whole("limit", limit, 0)
            if limit > MOST_LIMIT:
                raise InvalidError("Spark takes no such limit", limit=limit, most=MOST_LIMIT, remedy="leave it out")
        table = _as_changes(self.table, scan_options)
        frame = reader.read(self._running, table, columns, condition_text(where), scan_options, limit)
        return frame if limit is None else frame.limit(limit)

    def read_stream(
        self, columns: Sequence[str] | None = None, where: str | None = None, **scan_options: Any
    ) -> DataFrame:
        """The table as a streaming DataFrame: its rows as of now, then the changes of every later snapshot.

        `scan_options`: where it starts (`scan_mode="latest"`, `scan_snapshot_id=7`, …), `read_changelog=True` for a
        column `rowkind` and deletes too, `read_stream_maxFilesPerTrigger` and its kin for the size of a batch,
        `consumer_id` to keep snapshots that are still to be read. `columns`, `where`: as `read`.
        Spec: docs/streaming.md#read-a-stream
        """
        return stream.read(self._running, self.table, columns, where, scan_options)

    def write(
        self,
        frame: Any,
        mode: str = "append",
        partition: Mapping[str, Any] | None = None,
        progress: Callable[[str], None] | None = None,
        **options: Any,
    ) -> Snapshot | None:
        """Write a DataFrame's rows, or those of this process (pandas, polars, Arrow, dicts), as one commit and return
        the new snapshot (of the compaction, where one followed), None where there was nothing to commit.

        Columns are matched by name, those of rows in them too; missing ones are null or their default. Primary-key
        tables upsert. `mode`: "append", or "overwrite", which replaces the `partition` given (column → value), else, in
        a partitioned table, the partitions that the rows are in, or all of them with
        `dynamic-partition-overwrite=false`. Where the session sets `spark.sql.sources.partitionOverwriteMode`, that
        decides instead of the table's option, and with `dynamic` just those partitions of a `partition` that names some
        of the columns are replaced that the rows are in. `progress` is told each step.
        """
        self.table.store.check_holds(None)  # before rows are asked for
        rows = frame_of(self.spark, frame)
        dynamic = None
        if mode == "overwrite":
            dynamic = writer.overwrites_dynamically(self.spark, self.table, partition, options)
        request = writer.WriteRequest(mode, partition, progress, dynamic=dynamic, evolves=True)
        with told_as_ours():
            return writer.write(self.spark, self.table.with_options(options), rows, request)

    def write_stream(
        self,
        frame: DataFrame,
        checkpoint: str,
        mode: str = "append",
        trigger: Mapping[str, Any] | None = None,
        on_batch: Callable[[BatchDone], None] | None = None,
        **options: Any,
    ) -> TableQuery:
        """Write a streaming DataFrame: every micro-batch is one commit, once, whatever dies and is started again.

        `checkpoint`: the query's own folder. `mode`: "append", "update" (tables with a primary key), "complete" (every
        batch replaces all rows). `trigger`: as Spark's `trigger` takes it: {"processingTime": "5 seconds"}. `on_batch`
        is given what became of each batch; `.batches` of the query holds the newest. `options`: as `write`, and
        `query_name`. Compaction runs beside the query,
        where rows are seen without.
        Spec: docs/streaming.md#write-a-stream
        """
        on_batch = on_batch or options.pop("told", None)
        how = stream.Streaming(checkpoint, mode, trigger, options.pop("query_name", None), on_batch)
        return stream.write(self._running, self.table.with_options(options), frame, how)

    def process_stream(
        self,
        body: Callable[[DataFrame, int], object],
        checkpoint: str,
        trigger: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> StreamProcess:
        """Give the table's rows as of now, then what later snapshots change, to `body(df, batch_id)`, batch by batch.

        As `read_stream` with a `foreachBatch`, but that each batch is an ordinary DataFrame over the files: appended
        files are Spark's own scan. A batch whose `body` failed or died comes again with the same rows and number:
        `write_batch(df, process.id, batch_id)` writes it once. `checkpoint`, `trigger`: as `write_stream`. `options`:
        `columns`, `where`, `on_batch`, and those of `read_stream`.
        Spec: docs/streaming.md#process-batches
        """
        own = {name: options.pop(name) for name in ("columns", "where", "on_batch") if name in options}
        table = _as_changes(self.table, options).with_options(options)
        return process(self._running, table, Processing(body, checkpoint, Trigger.of(trigger), **own))

    def write_batch(self, frame: DataFrame, query: str, batch_id: int, **options: Any) -> Snapshot | None:
        """Write what `foreachBatch` gives as one commit of batch `batch_id` of `query`, a name that stays the same for
        as long as the query's checkpoint; a batch that is there already is left as it is, but evaluated: the query's
        state goes on. The snapshot, None without rows. `watermark` among the options: of the snapshot, epoch
        milliseconds."""
        batch = BatchName(query, batch_id, watermark=options.pop("watermark", None), first=True)
        return write_batch(self.table.with_options(options), frame, batch, Written(), None)

    def lookup(
        self,
        rows: Any,
        on: On = None,
        columns: Sequence[str] | None = None,
        how: str = "left",
        **options: Any,
    ) -> Any:
        """As `Table.lookup`; of a DataFrame, which may be a stream, a DataFrame: its tasks look the rows up, each batch
        in the snapshot that is the newest then.

        Spec: docs/streaming.md#look-up-rows
        """
        if isinstance(rows, DataFrame):
            return looked_up(rows, self.lookup_udf(on, columns, how, **options))
        return super().lookup(rows, on, columns, how, **options)

    def lookup_udf(
        self, on: On = None, columns: Sequence[str] | None = None, how: str = "left", **options: Any
    ) -> LookupStage:
        """A function for `mapInArrow` that does what `lookup` does, in the workers; `.schema(df.schema)` gives the
        schema of what comes out."""
        store, request = self._asks(on, columns, how, options)
        instants.refuse_stored(store.schema, "lookups of DataFrames")
        return LookupStage(store, request)

    def delete(self, where: str | Predicate | Column, **options: Any) -> Snapshot | None:
        """Delete the matching rows as of now; None where there are none.

        `where`: any condition that Spark can evaluate, "true" for all rows; of Columns those that can be said as SQL.
        Errors: InvalidError, UnsupportedError (merge engine), and those of `write`.
        Spec: docs/spec/row_changes.md#delete
        """
        with told_as_ours():
            return changes.delete(self._running, self.table.with_options(options), condition_text(where))

    def update(
        self, assignments: Mapping[str, Any], where: str | Predicate | Column | None = None, **options: Any
    ) -> Snapshot | None:
        """Set columns of the matching rows. `assignments`: column → SQL expression or Column over the row as it was, or
        a constant (a number, date, moment, bytes, None; a text is SQL: "'Oslo'"); `where`: as for `delete`.

        Columns of the primary key cannot be set; a partition column that is not one of them moves the row.
        Spec: docs/spec/row_changes.md#update
        """
        with told_as_ours(VALUES):
            return changes.update(self._running, self.table.with_options(options), assignments, where)

    def merge(
        self, source: Any, on: Expression, alias: str | None = None, source_alias: str = "source"
    ) -> MergeBuilder:
        """A MERGE of a DataFrame's rows, or those of this process, into this table, to be said by clauses and done by
        `.merge()`.

        `on`: which rows match, SQL text or a Column. Columns are qualified by `alias`, by default the table's last
        name, and `source_alias`: `t.merge(df, "t.id = source.id").whenMatched().updateAll().merge()`.
        Spec: docs/sql/merge.md#dataframes
        """
        if self.merger is None:
            raise UnsupportedError(
                "this handle was made without SQL", remedy="take the table from bucketlake.connect()"
            )
        run = partial(self.merger, self)
        return MergeBuilder(frame_of(self.spark, source), on, alias or last_part(self.name), source_alias, run)

    def compact(
        self,
        partitions: PartitionSpecs | None = None,
        where: str | Predicate | None = None,
        order_by: str | Sequence[str] | None = None,
        full: bool | None = None,
        idle: str | None = None,
        on_progress: OnProgress | None = None,
        **options: Any,
    ) -> Snapshot | None:
        """Compact the table as of now; the COMPACT snapshot, None where there was nothing to do.

        `partitions`: specs, or text such as "dt=2024-01-01;dt=2024-01-02", all or some partition columns; or `where`: a
        condition over partition columns. `full`: all files of a bucket into one sorted run (the default, but for
        tables that are clustered incrementally), else what the table's policy picks; append tables: small files into
        larger ones. `idle`: only partitions that no file came to for so long ("1 d"). `order_by`: the rows of an append
        table in the order of these columns ("a,b" or a list), by `order_strategy` order (the default), zorder or
        hilbert; an OVERWRITE snapshot. What is finished is committed on the way, and before Ctrl-C, or an error of
        `on_progress`, ends the call. `buckets`: of a table with a fixed number, these ("0-3,7").
        Spec: docs/sql/procedures.md#compact, docs/spec/clustering.md
        """
        check_flags(full=full is not None and full)
        order = OrderRequest(order_by, options.pop("order_strategy", None))
        request = compaction.Request(partitions, where, full is not False, idle, options.pop("buckets", None))
        table = self.table.with_options(options)
        clustered = sort_compaction.Clustering(order, full, request, on_progress)
        if clustered.is_asked(table):
            return sort_compaction.compact(self._running, table, clustered)
        return compaction.compact(self._running, table, request, on_progress)

    def materialize_deletion_vectors(
        self,
        partitions: PartitionSpecs | None = None,
        where: str | Predicate | None = None,
        on_progress: OnProgress | None = None,
    ) -> Snapshot | None:
        """As `Table.materialize_deletion_vectors`; by tasks if the files are large."""
        request = compaction.Request(partitions, where, deleted=True)
        return compaction.compact(self._running, self.table, request, on_progress)

    def _runner(self) -> Runner:
        return jobs.runner(self._running)

    def rescale(
        self,
        bucket_num: int | None = None,
        partitions: PartitionSpecs | None = None,
        where: str | Predicate | None = None,
        on_progress: OnProgress | None = None,
        **options: Any,
    ) -> Snapshot | None:
        """Put the rows of partitions into another number of buckets while others read and write; the OVERWRITE
        snapshot, None where the partitions hold nothing.

        `bucket_num`: the option `bucket` by default, which itself is not changed; `partitions`, `where`: as `compact`.
        It is one commit: Ctrl-C, or an error of `on_progress`, before it leaves the table as it was.
        Spec: docs/sql/procedures.md#rescale
        """
        request = compaction.Request(partitions, where)
        return compaction.rescale(self._running, self.table.with_options(options), bucket_num, request, on_progress)

    def rewrite_file_index(self, where: str | None = None) -> Reindexed:
        """As `Table.rewrite_file_index`; by tasks if the files are large."""
        return compaction.rewrite_file_index(self._running, self.table, where)

    def advise_buckets(self) -> list[BucketAdvice]:
        """What every partition holds and how many buckets it should have, as `Table.advise_buckets` gives it."""
        return self.table.advise_buckets()

    def truncate(self) -> Snapshot | None:
        """Remove all rows."""
        return self.table.truncate()

    def drop_partitions(self, partitions: PartitionSpecs) -> Snapshot | None:
        """Remove all rows of partitions; None where none of them is there. A specification may name some partition
        columns only."""
        return self.table.drop_partitions(partitions)

    # ---- what is not needed any more

    def remove_orphan_files(
        self,
        older_than: str | datetime | None = None,
        dry_run: bool = False,
        threads: int | None = None,
        distributed: bool = False,
        on_progress: OnProgress | None = None,
    ) -> OrphanFiles:
        """Remove files that nothing refers to: see `bucketlake.Table.remove_orphan_files`. `distributed`: Spark's tasks
        list and remove, for tables of very many files."""
        check_flags(dry_run=dry_run, distributed=distributed)
        check_threads(threads)
        if distributed:
            cleaning = orphans.Cleaning(older_than, dry_run, threads, on_progress)
            return orphans.remove_orphan_files(self._running, self.table, cleaning)
        return self.table.remove_orphan_files(older_than, dry_run, threads, on_progress)

    def _history(self, writing: bool = False) -> Store:
        return self.table._history(writing)

    def _checks(self) -> Run:
        return checks.run_units(self._running)

    def _called(self) -> str:
        return self.name

    def _shown(self) -> tuple[TableSchema, Store | None]:
        return self.table._shown()

    def _branch_store(self, name: str) -> Store:
        return self.table._branch_store(name)

    # ---- look

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that have not expired, oldest first."""
        return self.table.snapshots()

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot, None if nothing was committed."""
        return self.table.latest_snapshot()

    def files(self, where: str | Predicate | None = None, **options: Any) -> list[TableFile]:
        """The live files that may hold matching rows."""
        return self.table.files(where, **options)

    def partitions(self) -> list[dict[str, str]]:
        """The partitions that have files, as column → text as SHOW PARTITIONS prints it."""
        return self.table.partitions()

    def plan(self, where: str | Predicate | None = None, columns: Sequence[str] | None = None, **options: Any) -> Plan:
        """Which splits a read would take, pruned by partition, bucket and statistics."""
        return self.table.plan(where, columns, **options)

    def alter(self, *changes: SchemaChange) -> LakeTable:
        """Publish the next schema; the table as it is then."""
        return replace(self, table=instants.told(self.spark, self.table.alter(*changes), {}))

    __repr__ = Streams.__repr__

    def __reduce__(self) -> Any:
        raise in_one_process("LakeTable", "its .table")

    def __copy__(self) -> LakeTable:
        return replace(self)

    if not TYPE_CHECKING:  # a checker must know which names there are

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, {"table.read()": DataFrame, "table.table": Table}, _NAMES)


def _as_changes(table: Table, options: dict[str, Any]) -> Table:
    """The table as `read.changelog` shows it, which is taken out of the options. InvalidError for a system table."""
    for key in ("read_changelog", READ_CHANGELOG):
        table = as_changes(table, options.pop(key, None))
    return table
