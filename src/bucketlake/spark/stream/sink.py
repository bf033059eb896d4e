"""A streaming DataFrame into a table: every micro-batch is one commit, written once however often it comes.

Spec: docs/spec/streaming.md#batches, docs/streaming.md#write-a-stream
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.events.bus import BatchCommitted, listening
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.compaction import CompactionRule
from bucketlake.ops.clean.done import marks_idle
from bucketlake.ops.compact.maintain import must_compact
from bucketlake.ops.stream.batches import BatchName, written_once
from bucketlake.ops.table.known import check_kept
from bucketlake.ops.table.store import Store
from bucketlake.schema.merging import Merging
from bucketlake.schema.schema import BucketMode
from bucketlake.spark.maintain import compaction
from bucketlake.spark.raised import brief_in_batch
from bucketlake.spark.stream.batch_done import BatchDone, Steps, added_by, tell_batch
from bucketlake.spark.stream.checkpoint import Query
from bucketlake.spark.stream.idle import IdleMarks
from bucketlake.spark.stream.lane import Lane
from bucketlake.spark.write import writer
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table

MODES = ("append", "update", "complete")


@dataclass(frozen=True, slots=True)
class Written:
    """How the batches of one query are written. `mode`: Spark's output mode; `kinds`: as `writer.WriteRequest`;
    `keeps_state`: asked where a batch comes again, None: it may."""

    mode: str = "append"
    kinds: str | None = None
    told: Callable[[BatchDone], None] | None = None
    steps: Steps | None = None  # of one batch
    keeps_state: Callable[[], bool] | None = None


def check_mode(table: Table, mode: str) -> None:
    """Refuse output modes that the table cannot take."""
    if mode not in MODES:
        raise InvalidError("no such output mode", mode=mode, modes=list(MODES))
    if mode == "update" and not table.schema.primary_keys:
        raise UnsupportedError(
            "output mode update needs a primary key: a row that changes would be doubled",
            table=table.name,
            remedy="use a table with a primary key, or mode append",
        )


def write_batch(table: Table, frame: DataFrame, batch: BatchName, how: Written, lane: Lane | None) -> Snapshot | None:
    """Write a micro-batch as one commit, or recognise that it is; the snapshot, None where it had no rows.

    `lane`: compaction, tags and expiry are done there where rows are seen without; None: before this returns.
    Errors: as `committed`, those of a write, and InvalidError where columns of the frame were dropped since the table
    was opened: a query goes on for as long as it may, and would be refused so where it starts again.
    """
    store = table.for_writing().store
    whole = how.mode == "complete"
    request = writer.WriteRequest(
        "overwrite" if whole else "append",
        kinds=how.kinds,
        dynamic=False if whole else None,
        evolves=True,
        later=None if lane is None or _waits(store) else lane.add,
        progress=how.steps,
    )
    begun: list[BatchName] = []
    evolves = Merging.of(table.options) is not None

    def write(name: BatchName) -> Snapshot | None:
        begun.append(name)
        if not evolves:  # what rows bring more is added to the table, what was dropped as well
            check_kept(store, frame.columns)
        return writer.write(frame.sparkSession, table, frame, replace(request, batch=name))

    snapshot = written_once(store, batch, write)
    if not begun and (how.keeps_state is None or how.keeps_state()):
        # What the query's operators keep (groups, joins, duplicates) goes on with every batch, its rows wanted or not.
        frame.write.format("noop").mode("append").save()
    if snapshot is not None and not begun and must_compact(store) and not store.options.get("write-only"):
        # The run that committed it may have died before its rows could be seen.
        compaction.compact(frame.sparkSession, table, compaction.Request(full=False))
    return snapshot


def _waits(store: Store) -> bool:
    """Whether a batch has to wait for its compaction: rows are not seen before, or the table takes one writer's commits
    only."""
    return must_compact(store) or store.options.get("commit.strict-mode.last-safe-snapshot") is not None


@dataclass
class Sink:
    """What `foreachBatch` calls. Picklable: on Spark Connect it runs beside the server, with a session of its own."""

    table: Table
    query: Query
    how: Written
    batches: deque[BatchDone] | None = None  # takes what became of each; None beside a Connect server
    _batches: int = 0
    _lane: Lane | None = field(default=None, repr=False)
    _idle: IdleMarks | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "query": replace(self.query, spark=None), "how": self.how}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Write one batch."""
        with brief_in_batch():
            self._write(frame, number)

    def _write(self, frame: DataFrame, number: int) -> None:
        store, lane = self.table.store, self._lane or Lane(_depth(self.table), self.table.store.env.clock)
        self._lane = lane
        steps, batch = Steps(store.env.clock), self.query.batch(number)
        newest = self.table.latest_snapshot()
        how = replace(self.how, steps=steps, keeps_state=self.query.folder.keeps_state)
        snapshot = write_batch(self.table, frame, batch, how, lane)
        self._merge_small_files(frame, lane)
        self._mark_done()
        if self.how.told is None and self.batches is None and not listening(BatchCommitted):
            return
        base = 0 if newest is None else newest.id
        again = snapshot is not None and snapshot.id <= base
        rows, files, runs = (0, 0, 0) if snapshot is None else added_by(store, snapshot)
        done = BatchDone(
            batch.query,
            number,
            snapshot,
            again,
            rows,
            files,
            steps.millis,
            lane.behind,
            lag_millis=lane.lag_millis,
            planning_millis=steps.between("", "writing"),
            writing_millis=steps.between("writing", "committing"),
            commit_millis=steps.between("committing", "committed"),
            runs=runs,
            conflicts=0 if snapshot is None or again else snapshot.id - base - 1,
            watermark=batch.watermark,
        )
        tell_batch(store, done)
        if self.batches is not None:
            self.batches.append(done)
        if self.how.told is not None:
            self.how.told(done)

    def _mark_done(self) -> None:
        """Let partitions that nobody writes to be marked done while the query goes on, batches or not."""
        if self._idle is None and marks_idle(self.table.store):
            self._idle = IdleMarks(self.table.store, self.query.goes_on)
            self._idle.start()

    def _merge_small_files(self, frame: DataFrame, lane: Lane) -> None:
        """Append tables without buckets: merge small files, whenever as many batches came as files are worth it."""
        schema, options = self.table.schema, self.table.options
        if schema.bucket_mode is not BucketMode.UNAWARE or options.get("write-only"):
            return
        self._batches += 1
        if self._batches >= int(options.get("compaction.min.file-num")):
            self._batches, spark = 0, frame.sparkSession
            lane.add(lambda: compaction.compact(spark, self.table, compaction.Request(full=False)))


def _depth(table: Table) -> int:
    """How many batches may wait for their compaction: as many as sorted runs may pile up above what starts one."""
    rule = CompactionRule.of(table.options)
    return rule.stop_trigger - rule.run_trigger
