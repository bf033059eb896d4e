"""A table read in batches by a function of the user's, each batch a DataFrame over the files themselves.

Spark's streaming sources in Python hand rows over one process to another; a batch DataFrame does not have to: appended
files are Spark's own scan. The loop, its offsets and its checkpoint are ours, and run beside the session that asked,
on Spark Connect too.

Spec: docs/streaming.md#process-batches
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bucketlake.env.object_store import open_beside
from bucketlake.errors import InvalidError
from bucketlake.ops.scan.chain import refuse_stream
from bucketlake.ops.scan.system_tables import RowView, read_view
from bucketlake.ops.stream.journal import Begun, Journal
from bucketlake.ops.stream.limits import Limits
from bucketlake.ops.stream.source import Source
from bucketlake.ops.system.model import SystemTable
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.options.options import parse_duration
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.schema import column_names
from bucketlake.spark.arrow_rows import arrow_layout, framed, spark_batch
from bucketlake.spark.cluster import ensure_package, pack, parallelism, rows_made, unpickled
from bucketlake.spark.instants import shown
from bucketlake.spark.read.reader import Need, are_few, named, of_splits, predicate_of
from bucketlake.spark.stream.checkpoint import check_query, check_trigger
from bucketlake.spark.types import quoted, spark_schema
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table

Body = Callable[[DataFrame, int], object]
KEPT = 1000  # of what became of batches
PAUSE = 1.0  # seconds between two looks for new snapshots, where the trigger says nothing


@dataclass(frozen=True, slots=True)
class BatchRead:
    """What became of a batch: the last snapshot that it reached into, files and stored rows, and milliseconds: until
    the function had its DataFrame, and all in all."""

    batch: int
    snapshot: int
    files: int
    rows: int
    planning_millis: int
    millis: int


@dataclass(frozen=True, slots=True)
class Trigger:
    """When batches run: `millis` apart at least, None: as soon as there is something; `once`: one batch;
    `available`: what is there, then the end."""

    millis: int | None = None
    once: bool = False
    available: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Trigger:
        """As Spark's `trigger` takes it. InvalidError for what it is not."""
        check_trigger(given)
        known = {"processingTime", "availableNow", "once"}
        if given is None:
            return cls()
        if len(given) != 1 or not set(given) <= known:
            raise InvalidError("no such trigger", trigger=dict(given), remedy=f"one of {sorted(known)}")
        span = given.get("processingTime")
        if span is None and True not in given.values():
            raise InvalidError("a trigger that is off", trigger=dict(given), remedy="leave it out, or say True")
        return cls(
            None if span is None else parse_duration(str(span)), bool(given.get("once")), "availableNow" in given
        )


class StreamProcess:
    """Batches of a table given to a function, one after the other, in a thread."""

    def __init__(self, spark: SparkSession, table: Table, how: Processing) -> None:
        self._spark, self._how = spark, how
        self._table, self._source, self._limits = table, _source(spark, table, how), Limits.of(table.options)
        env, folder = open_beside(table.store.env, str(how.checkpoint))
        self._journal = Journal(env, folder, table.path)
        self.id = self._journal.id
        self.batches: deque[BatchRead] = deque(maxlen=KEPT)
        self._until = self._source.newest() if how.trigger.available else None
        # Where it begins is settled once: `latest` asked again would always be behind what came meanwhile.
        self._origin = None if self._journal.position is not None else self._source.origin()
        self._stop = Event()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="bucketlake-process", daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:
        """Whether it runs."""
        return self._thread.is_alive()

    @property
    def exception(self) -> BaseException | None:
        """What ended it; None while it runs and where nothing failed."""
        return self._error

    def stop(self) -> None:
        """End it behind the batch that runs; waits for that."""
        self._stop.set()
        self._thread.join()

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait until it ends, at most so many seconds; whether it has. What ended it is raised."""
        self._thread.join(timeout)
        if self._error is not None and not self.isActive:
            raise self._error
        return not self.isActive

    def _run(self) -> None:
        clock, trigger = self._table.store.env.clock, self._how.trigger
        try:
            while not self._stop.is_set():
                began = clock.now_millis()
                more = self._step()
                if trigger.once or (trigger.available and not more):
                    return
                pause = 0.0 if more else PAUSE
                if trigger.millis is not None:
                    pause = (began + trigger.millis - clock.now_millis()) / 1000
                self._stop.wait(max(pause, 0.0))
        except BaseException as error:
            self._error = error

    def _step(self) -> bool:
        """Process the batch that comes next, or comes again; False where there is none."""
        clock = self._table.store.env.clock
        began = clock.now_millis()
        batch = self._journal.pending() or self._following()
        if batch is None:
            return False
        groups = on_newest(self._table.store, lambda: self._source.batch(batch.start, batch.end))
        frame = self._frame(groups)
        planned = clock.now_millis()
        self._how.body(frame, batch.number)
        self._journal.finish(batch)
        self._source.progress(batch.end)
        files = [file for group in groups for split in group for file in split.files]
        rows, ended = sum(file.row_count for file in files), clock.now_millis()
        done = BatchRead(batch.number, batch.end.last, len(files), rows, planned - began, ended - began)
        self.batches.append(done)
        if self._how.on_batch is not None:
            self._how.on_batch(done)
        return True

    def _following(self) -> Begun | None:
        start = self._journal.position or self._origin or self._source.origin()
        end = on_newest(self._table.store, lambda: self._source.following(start, self._limits, self._until))
        if end.place == start.place:
            self._source.progress(start)
            return None
        return self._journal.begin(start, end)

    # ---- the rows of a batch

    def _frame(self, groups: Sequence[tuple[Split, ...]]) -> DataFrame:
        names, where = column_names(self._table.schema, self._how.columns), self._source.where
        read = list(dict.fromkeys([*names, *sorted(named(self._spark, self._table, self._how.where))]))
        changes = any(split.changes for group in groups for split in group)
        if changes and self._table.store.schema.primary_keys:
            frame = _in_order(self._spark, self._table, groups, read, where)
        else:
            splits = [split for group in groups for split in group]
            frame = of_splits(self._spark, self._table, splits, Need(tuple(read), where))
        if self._how.where is not None:
            frame = frame.where(self._how.where)
        return frame if frame.columns == names else frame.select(*map(quoted, names))


@dataclass(frozen=True)
class Processing:
    """How a table is processed: the function, its checkpoint, and what of the table it gets."""

    body: Body
    checkpoint: str
    trigger: Trigger = Trigger()
    columns: Sequence[str] | None = None
    where: str | None = None
    on_batch: Callable[[BatchRead], None] | None = None


def process(spark: SparkSession, table: Table, how: Processing) -> StreamProcess:
    """Start giving a table's rows, then its changes, to a function. What cannot be read so is refused before."""
    check_query(how.checkpoint, on_batch=how.on_batch)
    if not callable(how.body):
        remedy = "give a function of a batch's rows and number"
        raise InvalidError("not a function", argument="body", given=type(how.body).__name__, remedy=remedy)
    if isinstance(table.view, SystemTable):
        raise InvalidError("metadata is not read as a stream", table=table.name)
    if table.options.is_set("scan.fallback-branch"):
        raise InvalidError("a table with a fallback branch is not read as a stream", table=table.name)
    refuse_stream(table.store)
    column_names(table.schema, how.columns)
    if isinstance(table.view, RowView):
        table = replace(table, view=replace(table.view, follows=True))
    return StreamProcess(spark, table, how)


def _source(spark: SparkSession, table: Table, how: Processing) -> Source:
    return Source.of(table.store, predicate_of(spark, table, how.where))


@dataclass(frozen=True)
class _Groups:
    """Reads groups of splits in order; travels to tasks."""

    store: Store
    view: RowView | None
    fields: tuple[DataField, ...]
    where: Predicate | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Groups in, their rows out."""
        for groups in unpickled(batches):
            for group in groups:
                yield from self.rows(group.splits)

    def rows(self, splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
        """The rows of splits, in their order."""
        names = [item.name for item in self.fields]
        for split in splits:
            for batch in read_view(self.store, self.view, split, names, self.where):
                yield spark_batch(batch, self.fields)


@dataclass(frozen=True)
class _Group:
    splits: tuple[Split, ...]

    @property
    def size(self) -> int:
        return sum(split.size for split in self.splits)


def _in_order(
    spark: SparkSession,
    table: Table,
    groups: Sequence[tuple[Split, ...]],
    names: Sequence[str],
    where: Predicate | None,
) -> DataFrame:
    """Changes of keys: each group is in one task, in order. Few are read here: in one partition, which no task of
    Python's has to be started for."""
    fields = tuple(table.schema.field(name) for name in names)
    view = table.view if isinstance(table.view, RowView) else None
    reading = _Groups(table.store, view, fields, where)
    splits = [split for group in groups for split in group]
    if are_few(splits):
        rows = pa.Table.from_batches(reading.rows(splits), arrow_layout(fields))
        return shown(framed(spark, rows, spark_schema(fields)), fields, table.options).coalesce(1)
    ensure_package(spark)
    shares = pack([_Group(group) for group in groups], parallelism(spark))
    count = sum(split.row_count for split in splits)
    return shown(rows_made(spark, shares, reading, spark_schema(fields), count), fields, table.options)
