"""`spark.read.format("bucketlake").load(path)` and `df.write.format("bucketlake").mode(…).save(path)`.

Rows cross between the JVM and Python here, both ways: `Lake.table(…)` is the fast way in. Spark tells a Python source
neither the columns nor the filters of a query, so they are options: `columns` ("a,b", in backticks any name), `where`
(a SQL condition), and every dynamic option of the table (`scan.snapshot-id`, …). A table of the warehouse that was
connected last has a name too: options `table` ("t", "db.t") and `database`.

Spec: docs/spec/reading.md#data-source, docs/dataframes.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from bucketlake.catalog import DEFAULT_DATABASE, open_catalog, open_named, parse_name
from bucketlake.catalogs.names import Identifier, name_of_folder, written
from bucketlake.env.object_store import STORAGE_PREFIXES, open_env
from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.file_names import names_of
from bucketlake.ops.buckets.postpone import counts_rows
from bucketlake.ops.cluster.order import write_order
from bucketlake.ops.cluster.rows import incoming_in_order
from bucketlake.ops.scan.chain import refuse_stream
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.scan.select import one_place
from bucketlake.ops.scan.system_tables import AUDIT_LOG, RowView, read_view
from bucketlake.ops.stream.limits import LIMITS, Limits
from bucketlake.ops.system.model import SystemTable
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage, Split, WriteTask
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user, prepare_write, refuse_plain_append
from bucketlake.ops.write.staging import stage, staged, unstage
from bucketlake.ops.write.write import write_batches
from bucketlake.options.catalog import ALLOWED_EXTERNAL, metastore_of
from bucketlake.options.options import OPTIONS
from bucketlake.options.session import CATALOG_NAMES
from bucketlake.predicate.tree import Predicate, is_exact
from bucketlake.schema.merging import MERGE_SCHEMA, Merging
from bucketlake.schema.schema import BucketMode, column_names
from bucketlake.spark.arrow_rows import spark_batch
from bucketlake.spark.assignment import Rules, check_assignment, goes_by_place, matched, typed
from bucketlake.spark.cluster import ensure_package, parallelism
from bucketlake.spark.conform import require_columns
from bucketlake.spark.instants import refuse_stored
from bucketlake.spark.raised import brief
from bucketlake.spark.read.stream_reader import Rows, StreamReader
from bucketlake.spark.types import field_types, spark_schema, spark_type
from bucketlake.spark.write.assigned import assigned_batch, check_alone
from bucketlake.spark.write.replacing import DYNAMIC_OVERWRITE, replaced_partition
from bucketlake.table import Table
from bucketlake.types.instants import LEGACY_TIMESTAMPS
from bucketlake.types.model import DataField
from bucketlake.types.spaced import padded, spaced_batch
from bucketlake.values import dataclass

FORMAT = "bucketlake"
READ_CHANGELOG = "read.changelog"
NEWEST_KNOWN = "bucketlake.newest"  # the snapshot that was the newest one when a stream was asked for
OWN_OPTIONS = (
    *("path", "columns", "where", "replacewhere", "catalog", "database", "table", READ_CHANGELOG, NEWEST_KNOWN),
)
_NAME_IT = (
    'give its folder, .load("/warehouse/db.db/t") or .save(…); by name: lake.read_table and lake.write_table, or '
    "spark.table and saveAsTable once bucketlake.attach(spark, warehouse) was called"
)
_CASED = {key.lower(): key for key in OPTIONS if key != key.lower()}  # Spark hands option keys on in lower case
MOST_TASKS = 4096  # a source is not told how many tasks write: sequence numbers are dealt out for this many


def register(spark: SparkSession, warehouse: str | None = None, options: Mapping[str, Any] | None = None) -> None:
    """Make the format known to a session and the package to its executors. `warehouse`: where tables lie that are
    given by name, `options`: as for `open`."""
    ensure_package(spark)
    place = {"warehouse": warehouse, "catalog_options": dict(options or {})}
    _made_known(spark, BucketlakeSource if warehouse is None else type("LakeSource", (BucketlakeSource,), place))


def as_changes(table: Table, given: object) -> Table:
    """The table as `read.changelog` shows it, if that is true. InvalidError where it is neither true nor false, and for
    a system table."""
    told = str(given).lower()
    if given is None or told == "false":
        return table
    if told != "true":
        raise InvalidError("neither true nor false", option=READ_CHANGELOG, value=given, remedy="use true or false")
    if table.view is not None:
        raise InvalidError("read.changelog goes with a table, not with a system table", table=table.name)
    return replace(table, view=RowView(AUDIT_LOG))


def check_followed(table: Table) -> None:
    """UnsupportedError for what is not read as a stream."""
    if isinstance(table.view, SystemTable):
        raise UnsupportedError("metadata is not read as a stream", table=table.name)
    if table.options.is_set("scan.fallback-branch"):
        raise UnsupportedError(
            "a table with a fallback branch is not read as a stream",
            table=table.name,
            remedy="read one branch: t$branch_<name>, or without scan.fallback-branch",
        )
    refuse_stream(table.store)


def exact_condition(table: Table, text: str | None) -> Predicate | None:
    """A condition that rows are read by, as no one looks at them again. UnsupportedError where only Spark can."""
    where = table.predicate(text)
    if where is not None and not is_exact(where):
        raise UnsupportedError(
            "option `where` holds what only Spark can decide",
            where=text,
            remedy="put that part into .where() of the DataFrame",
        )
    return where


def source_of(spark: SparkSession, table: Table) -> str:
    """The name of a format that is this table, made known to a session: what opens it, credentials included, travels
    with the format and stands in no plan."""
    ensure_package(spark)
    name = f"{FORMAT}_{uuid5(NAMESPACE_URL, table.path).hex}"
    told = {"handle": table, "at_once": parallelism(spark), "name": classmethod(lambda cls: name)}
    _made_known(spark, type("TableSource", (BucketlakeSource,), told))
    return name


def _made_known(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a format with a session. Spark refuses a name that the active session knows and this one does not: then
    this one is active for as long as it takes."""
    try:
        spark.dataSource.register(source)
        return
    except AnalysisException as error:
        active = SparkSession.getActiveSession()
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS" or active is None:
            raise
    try:
        _activate(spark)
        spark.dataSource.register(source)
    finally:
        _activate(active)


def _activate(spark: SparkSession) -> None:
    spark.createDataFrame([], "nothing int")  # what PySpark's public calls do so by


class BucketlakeSource(DataSource):  # type: ignore[misc]
    """Spark's view of one table folder."""

    warehouse: str | None = None
    catalog_options: Mapping[str, Any] = MappingProxyType({})
    handle: Table | None = None
    at_once: int | None = None  # how many tasks the session runs, where that is known
    _loaded: Table | None = None  # as `schema` opened it: Spark hands this on to the process that plans

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    @brief
    def schema(self) -> T.StructType:
        """The table's columns, or those that option `columns` names, as of the snapshot that is read."""
        handle = self._loaded = self._table()
        one_place(handle.options)  # said here, for Spark asks a stream's reader only after `start` has returned
        if any(key.lower().startswith(LIMITS) for key in self.options):
            Limits.of(handle.options)
        try:
            table, _ = handle.as_of()
        except (InvalidError, NotFoundError, UnsupportedError):
            table = handle  # a stream may start where a batch cannot read, which `reader` refuses
        return spark_schema(self._fields(table))

    @brief
    def reader(self, schema: T.StructType) -> DataSourceReader:
        """A batch read of one snapshot."""
        handle = self._loaded or self._table()
        if isinstance(handle.view, SystemTable):
            return MetadataReader(handle, tuple(self._fields(handle)), self._where(handle))

        def once() -> tuple[Table, Predicate | None, Sequence[tuple[Store, Plan]]]:
            table, selection = handle.as_of()
            where = self._where(table)
            return table, where, table.scanned(where, selection).parts(table.store)

        table, where, parts = on_newest(handle.store, once)
        fields = self._fields(table)
        if [f.name for f in schema.fields] != [f.name for f in fields]:
            raise InvalidError(
                "a schema was given", remedy="leave .schema() out; choose columns by the option `columns`"
            )
        view = table.view if isinstance(table.view, RowView) else None
        return SplitReader([(Rows(store, view, tuple(fields), where), part.splits) for store, part in parts])

    @brief
    def streamReader(self, schema: T.StructType) -> StreamReader:
        """A stream of the table's rows, or of its changes where a view of them is read."""
        handle = self._loaded or self._table()
        check_followed(handle)
        fields = tuple(handle.schema.field(name) for name in schema.names)
        view = replace(handle.view, follows=True) if isinstance(handle.view, RowView) else None
        known = None if self.handle is None else self.options.get(NEWEST_KNOWN)
        rows = Rows(handle.store, view, fields, self._where(handle))
        return StreamReader(rows, self.at_once, None if known is None else int(known))

    @brief
    def writer(self, schema: T.StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A batch write as one commit."""
        table = self._table().for_writing()
        where = self.options.get("replaceWhere")
        if where is not None and not overwrite:
            raise InvalidError("replaceWhere goes with mode overwrite", table=table.name)
        partition = None if where is None else replaced_partition(where, table)
        if partition is not None:
            partition = {name: padded(value, table.schema.field(name).type) for name, value in partition.items()}
        if Merging.of(table.options) is not None:
            told = typed(schema, spark_schema(table.schema.fields), Rules())
            table = table.evolved(field_types(told)).with_options({MERGE_SCHEMA: False})
        if overwrite and DYNAMIC_OVERWRITE not in self.options:  # as Apache Paimon's connector, whatever the table says
            table = table.with_options({DYNAMIC_OVERWRITE: False})
        store = table.store
        if not overwrite:
            refuse_plain_append(store)
        user = new_commit_user(store)
        template = on_newest(store, lambda: prepare_write(store, store.latest_snapshot(), MOST_TASKS, user, overwrite))
        mode = "append" if not overwrite else "overwrite" if where is None else "overwrite static"
        assigns = store.schema.bucket_mode in (BucketMode.DYNAMIC, BucketMode.KEY_DYNAMIC)
        sources = _sources(schema, store.schema.fields)
        if assigns or counts_rows(store.schema, template.total_buckets):
            return StagingWriter(table, sources, template, mode, partition)
        return CommitWriter(table, sources, template, mode, partition)

    @brief
    def streamWriter(self, schema: T.StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Refused: Spark tells such a writer no name of its query, by which a batch that comes again is known."""
        remedy = "lake.table('db.t').write_stream(df, checkpoint=…), or bucketlake.attach the session first"
        raise UnsupportedError("streams are not written by this format", path=self.options.get("path"), remedy=remedy)

    def _table(self) -> Table:
        table = self._opened()
        if self.handle is None and LEGACY_TIMESTAMPS in self.options:  # this process knows no zone of the session's
            refuse_stored(table.schema, "format('bucketlake')")
        return as_changes(table, self.options.get(READ_CHANGELOG))

    def _opened(self) -> Table:
        path, name = self.options.get("path"), self._named()
        given = {_CASED.get(k, k): v for k, v in self.options.items() if k.lower() not in OWN_OPTIONS}
        if self.handle is not None:
            return self.handle.with_options(given)
        if name is not None and self.warehouse is not None:
            found = name
            if metastore_of(self.catalog_options) != "filesystem":
                raise UnsupportedError(
                    "Spark's own processes have no way into this catalog, and open its tables by their folders alone",
                    table=found.text,
                    remedy="lake.read_table and lake.write_table, or .load(path) of a table that is only read",
                )
            return open_catalog(self.warehouse, self.catalog_options).table(found.text, given)
        if not path:
            raise InvalidError("no table", remedy=_NAME_IT)
        storage = {key: value for key, value in given.items() if key.startswith((*STORAGE_PREFIXES, ALLOWED_EXTERNAL))}
        env, root = open_env(path, storage)
        dynamic = {key: value for key, value in given.items() if key not in storage}
        try:
            return open_named(root, env, dynamic)
        except NotFoundError as error:
            if "/" in path:
                raise
            remedy = f'a name is an option: .option("table", "{path}"), or lake.read_table and lake.write_table take it'
            raise NotFoundError(error.what, remedy=remedy, **error.details) from None

    def _named(self) -> Identifier | None:
        """The table that is meant by its name: with `catalog` whatever the path, whose parts stand for what is not
        said then; else where there is no path."""
        path, table, catalog = (self.options.get(key) for key in ("path", "table", "catalog"))
        if catalog is None:
            return parse_name(table, self.options.get("database") or DEFAULT_DATABASE) if table and not path else None
        if catalog.lower() not in CATALOG_NAMES:
            raise InvalidError("no such catalog", catalog=catalog, remedy=f"use {' or '.join(CATALOG_NAMES)}")
        placed = name_of_folder(path or "")
        database = self.options.get("database") or (placed.database if placed is not None else DEFAULT_DATABASE)
        table = table or (written(placed.object) if placed is not None else None)
        return None if table is None else parse_name(table, database)

    def _where(self, table: Table) -> Predicate | None:
        return exact_condition(table, self.options.get("where"))

    def _fields(self, table: Table) -> Sequence[DataField]:
        text = self.options.get("columns")
        return table.schema.select(column_names(table.schema, None if text is None else names_of(text)))


@dataclass
class SplitPartition(InputPartition):  # type: ignore[misc]
    """One split as Spark's unit of reading, and which branch it is of."""

    branch: int
    split: Split


class SplitReader(DataSourceReader):  # type: ignore[misc]
    """Reads splits as Arrow. No filters are pushed: Spark shares pushed state between scans of one source."""

    def __init__(self, branches: Sequence[tuple[Rows, Sequence[Split]]]) -> None:
        self._rows = [rows for rows, _ in branches]
        self._splits = [(branch, split) for branch, (_, splits) in enumerate(branches) for split in splits]

    def partitions(self) -> Sequence[InputPartition]:
        """One partition a split."""
        return [SplitPartition(branch, split) for branch, split in self._splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The live rows of one split."""
        if isinstance(partition, SplitPartition):
            rows = self._rows[partition.branch]
            names = [f.name for f in rows.fields]
            with brief:
                for batch in read_view(rows.store, rows.view, partition.split, names, rows.where):
                    yield spark_batch(batch, rows.fields)


class MetadataReader(DataSourceReader):  # type: ignore[misc]
    """Reads a system table of metadata, in one task."""

    def __init__(self, table: Table, fields: tuple[DataField, ...], where: Predicate | None) -> None:
        self._table, self._fields, self._where = table, fields, where

    def partitions(self) -> Sequence[InputPartition]:
        """One."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """All rows."""
        with brief:
            for batch in self._table.to_batches(self._where, [f.name for f in self._fields]):
                yield spark_batch(batch, self._fields)


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]
    """What one task wrote."""

    messages: list[CommitMessage]


class CommitWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes batches as data files, then commits what the tasks that counted have written."""

    def __init__(
        self,
        table: Table,
        sources: dict[str, str],
        template: WriteTask,
        mode: str,
        partition: Mapping[str, Any] | None = None,
    ) -> None:
        self._table, self._sources, self._template = table, sources, template
        self._mode, self._partition = mode, partition

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task's files; with `clustering.columns` its rows are in order."""
        (number, batches), store = self._incoming(iterator), self._table.store
        order = write_order(store.schema, store.options)
        rows = batches if order is None else incoming_in_order(batches, order, store)
        return Written(write_batches(store, rows, replace(self._template, task=number)))

    def _incoming(self, iterator: Iterator[pa.RecordBatch]) -> tuple[int, Iterator[pa.RecordBatch]]:
        """The task's number, and its rows in the table's columns."""
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        if number >= MOST_TASKS:
            raise InvalidError("too many write tasks", most=MOST_TASKS, remedy="coalesce the DataFrame")
        names, sources = list(self._sources), list(self._sources.values())
        fields = self._table.schema.fields
        own = (batch.select(sources).rename_columns(names) for batch in iterator)
        return number, (spaced_batch(assigned_batch(batch, fields), fields) for batch in own)

    @brief
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the files as one snapshot, then compact what is due."""
        written = _collected(messages)
        done = self._table.commit(written, self._template.commit_user, mode=self._mode, partition=self._partition)
        self._table.compacted(done, written)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of tasks that had finished, where another failed. Where all have, a commit was tried, and
        has removed what certainly lost: Spark calls this after a commit that may have landed, too."""
        if None in messages:
            discard(self._table.store, _collected(messages))


class StagingWriter(CommitWriter):
    """Puts rows aside in the tasks, and writes them to their buckets where it commits: one process, bounded memory."""

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task's rows, put aside."""
        number, batches = self._incoming(iterator)
        return Written(stage(self._table.store, batches, number, MOST_TASKS))

    @brief
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write the rows of all tasks as one snapshot, then compact what is due."""
        aside = _collected(messages)
        mode = "append" if self._mode == "append" else "overwrite"
        try:
            self._table.write_arrow(staged(self._table.store, aside), mode=mode, partition=self._partition)
        finally:
            unstage(self._table.store, aside)


def _collected(messages: Sequence[WriterCommitMessage | None]) -> list[CommitMessage]:
    return [message for written in messages if isinstance(written, Written) for message in written.messages]


def _sources(schema: T.StructType, fields: Sequence[DataField]) -> dict[str, str]:
    """The frame's column for each of the table's that is there, by name without regard to case; InvalidError for
    unknown and ambiguous ones, and for values that the column cannot take; by place where `goes_by_place`."""
    wanted = [item.name for item in fields]
    places = matched(wanted if goes_by_place(schema.names, wanted) else schema.names, wanted, Rules())
    require_columns(places, fields)
    for item in fields:
        if item.name in places:
            source, target = schema.fields[places[item.name]].dataType, spark_type(item.type)
            check_assignment(source, target, item.name)
            check_alone(source, target, item.name, Rules())
    return {name: schema.names[place] for name, place in places.items()}
