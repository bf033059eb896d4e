"""`spark.read.format("bucketlake").load(path)` and `df.write.format("bucketlake").mode(…).save(path)`.

Rows cross between the JVM and Python here, both ways: `Lake.table(…)` is the fast way in. Spark tells a Python source
neither the columns nor the filters of a query, so they are options: `columns` ("a,b"), `where` (a SQL condition), and
every dynamic option of the table (`scan.snapshot-id`, …).

Spec: docs/spec/reading.md#data-source
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from bucketlake.env.object_store import ALLOWED_EXTERNAL, STORAGE_PREFIXES, open_env
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.ops.buckets.postpone import counts_rows
from bucketlake.ops.commit.outcome import on_newest
from bucketlake.ops.rows.read import column_names, read_split
from bucketlake.ops.table.messages import CommitMessage, Split, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.predicate.tree import Predicate, is_exact
from bucketlake.schema.schema import BucketMode
from bucketlake.spark.assignment import Rules, check_assignment, matched
from bucketlake.spark.cluster import ensure_package
from bucketlake.spark.types import require_columns, spark_batch, spark_schema, spark_type
from bucketlake.spark.write.tasks import discard
from bucketlake.table import Table, open_table
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

FORMAT = "bucketlake"
OWN_OPTIONS = ("path", "columns", "where")
MOST_TASKS = 4096  # a source is not told how many tasks write: sequence numbers are dealt out for this many


def register(spark: SparkSession) -> None:
    """Make the format known to a session and the package to its executors."""
    ensure_package(spark)
    spark.dataSource.register(BucketlakeSource)


class BucketlakeSource(DataSource):  # type: ignore[misc]
    """Spark's view of one table folder."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> T.StructType:
        """The table's columns, or those that option `columns` names, as of the snapshot that is read."""
        table, _ = self._table().as_of()
        return spark_schema(self._fields(table))

    def reader(self, schema: T.StructType) -> DataSourceReader:
        """A batch read of one snapshot."""
        handle = self._table()

        def once() -> tuple[Table, Predicate | None, Sequence[Split]]:
            table, selection = handle.as_of()
            where = self._where(table)
            return table, where, table.planned(where, selection).splits

        table, where, splits = on_newest(handle.store, once)
        fields = self._fields(table)
        if [f.name for f in schema.fields] != [f.name for f in fields]:
            raise InvalidError(
                "a schema was given", remedy="leave .schema() out; choose columns by the option `columns`"
            )
        return SplitReader(table.store, tuple(fields), where, splits)

    def writer(self, schema: T.StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A batch write as one commit."""
        table = self._table().for_writing()
        store = table.store
        if store.schema.bucket_mode in (BucketMode.DYNAMIC, BucketMode.KEY_DYNAMIC):
            raise UnsupportedError(
                "Spark's own writer cannot bring the rows of a key to one task, which dynamic buckets need",
                table=table.name,
                remedy="write with lake.table(…).write(…) or INSERT through lake.sql, or use a fixed bucket number",
            )
        template = prepare_write(store, store.latest_snapshot(), MOST_TASKS, new_commit_user(store), overwrite)
        if counts_rows(store.schema, template.total_buckets):
            raise UnsupportedError(
                "Spark's own writer cannot count the rows, which the bucket number of new partitions needs",
                table=table.name,
                remedy="write with lake.table(…).write(…) or INSERT through lake.sql, or with option "
                "postpone.batch-write-fixed-bucket = false",
            )
        return CommitWriter(
            table,
            _sources(schema, store.schema.fields),
            template,
            "overwrite" if overwrite else "append",
        )

    def _table(self) -> Table:
        path = self.options.get("path")
        if not path:
            raise InvalidError("no table", remedy='name its folder: .load("/warehouse/db.db/t")')
        given = {key: value for key, value in self.options.items() if key not in OWN_OPTIONS}
        storage = {key: value for key, value in given.items() if key.startswith((*STORAGE_PREFIXES, ALLOWED_EXTERNAL))}
        env, root = open_env(path, storage)
        dynamic = {key: value for key, value in given.items() if key not in storage}
        return open_table(root, env, options=dynamic)

    def _where(self, table: Table) -> Predicate | None:
        where = table.predicate(self.options.get("where"))
        if where is not None and not is_exact(where):
            raise UnsupportedError(
                "option `where` holds what only Spark can decide",
                where=self.options.get("where"),
                remedy="put that part into .where() of the DataFrame",
            )
        return where

    def _fields(self, table: Table) -> Sequence[DataField]:
        text = self.options.get("columns")
        names = None if text is None else [name.strip() for name in text.split(",") if name.strip()]
        return table.schema.select(column_names(table.schema, names))


@dataclass
class SplitPartition(InputPartition):  # type: ignore[misc]
    """One split as Spark's unit of reading."""

    split: Split


class SplitReader(DataSourceReader):  # type: ignore[misc]
    """Reads splits as Arrow. No filters are pushed: Spark shares pushed state between scans of one source."""

    def __init__(
        self, store: Store, fields: tuple[DataField, ...], where: Predicate | None, splits: Sequence[Split]
    ) -> None:
        self._store, self._fields, self._where, self._splits = store, fields, where, splits

    def partitions(self) -> Sequence[InputPartition]:
        """One partition a split."""
        return [SplitPartition(split) for split in self._splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The live rows of one split."""
        if isinstance(partition, SplitPartition):
            for batch in read_split(self._store, partition.split, [f.name for f in self._fields], self._where):
                yield spark_batch(batch, self._fields)


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]
    """What one task wrote."""

    messages: list[CommitMessage]


class CommitWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes batches as data files, then commits what the tasks that counted have written."""

    def __init__(self, table: Table, sources: dict[str, str], template: WriteTask, mode: str) -> None:
        self._table, self._sources, self._template, self._mode = table, sources, template, mode

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task's files."""
        store = self._table.store
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        if number >= MOST_TASKS:
            raise InvalidError("too many write tasks", most=MOST_TASKS, remedy="coalesce the DataFrame")
        names, sources = list(self._sources), list(self._sources.values())
        batches = (batch.select(sources).rename_columns(names) for batch in iterator)
        return Written(write_batches(store, batches, replace(self._template, task=number)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the files as one snapshot, then compact what is due."""
        written = _collected(messages)
        self._table.compacted(self._table.commit(written, self._template.commit_user, mode=self._mode), written)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of tasks that had finished, where another failed. Where all have, a commit was tried, and
        has removed what certainly lost: Spark calls this after a commit that may have landed, too."""
        if None in messages:
            discard(self._table.store, _collected(messages))


def _collected(messages: Sequence[WriterCommitMessage | None]) -> list[CommitMessage]:
    return [message for written in messages if isinstance(written, Written) for message in written.messages]


def _sources(schema: T.StructType, fields: Sequence[DataField]) -> dict[str, str]:
    """The frame's column for each of the table's that is there, by name without regard to case; InvalidError for
    unknown and ambiguous ones, and for values that the column cannot take."""
    places = matched(schema.names, [item.name for item in fields], Rules())
    require_columns(places, fields)
    for item in fields:
        if item.name in places:
            check_assignment(schema.fields[places[item.name]].dataType, spark_type(item.type), item.name)
    return {name: schema.names[place] for name, place in places.items()}
