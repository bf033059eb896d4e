"""A streaming DataFrame into a table: every micro-batch is one commit, written once however often it comes.

Spec: docs/spec/streaming.md#batches, docs/streaming.md#writing
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from bucketlake.env.object_store import open_env
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.compact.maintain import must_compact
from bucketlake.ops.scan.scan import delta_entries
from bucketlake.ops.stream.batches import BatchName, written_once
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode
from bucketlake.spark.maintain import compaction
from bucketlake.spark.stream.lane import Lane
from bucketlake.spark.write import writer
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table

MODES = ("append", "update", "complete")


@dataclass(frozen=True, slots=True)
class BatchDone:
    """What became of a micro-batch. `snapshot`: None where it had no rows; `again`: it was committed before, by a run
    that died. `rows`, `files`: what the snapshot added; `behind`: batches whose compaction is still to come."""

    query: str
    batch: int
    snapshot: Snapshot | None
    again: bool
    rows: int
    files: int
    millis: int
    behind: int


@dataclass(frozen=True, slots=True)
class Written:
    """How the batches of one query are written. `mode`: Spark's output mode; `kinds`: as `writer.WriteRequest`."""

    mode: str = "append"
    kinds: str | None = None
    told: Callable[[BatchDone], None] | None = None


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
    Errors: as `committed`, and those of a write.
    """
    store = table.for_writing().store
    whole = how.mode == "complete"
    request = writer.WriteRequest(
        "overwrite" if whole else "append",
        kinds=how.kinds,
        dynamic=False if whole else None,
        evolves=True,
        later=None if lane is None or _waits(store) else lane.add,
    )
    begun: list[BatchName] = []

    def write(name: BatchName) -> Snapshot | None:
        begun.append(name)
        return writer.write(frame.sparkSession, table, frame, replace(request, batch=name))

    snapshot = written_once(store, batch, write)
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
    name: str
    checkpoint: str
    how: Written
    spark: Any = None  # the session that started the query; None beside a Connect server
    _query: str = ""
    _batches: int = 0
    _lane: Lane | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "name": self.name, "checkpoint": self.checkpoint, "how": self.how}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Write one batch."""
        clock = self.table.store.env.clock
        started = clock.now_millis()
        query, watermark = self._running()
        batch = BatchName(query, number, self._fingerprint(number), watermark)
        lane = self._lane = self._lane or Lane(_depth(self.table))
        newest = self.table.latest_snapshot()
        snapshot = write_batch(self.table, frame, batch, self.how, lane)
        self._merge_small_files(frame, lane)
        if self.how.told is not None:
            again = snapshot is not None and newest is not None and snapshot.id <= newest.id
            added = [] if snapshot is None else delta_entries(self.table.store, snapshot)
            self.how.told(
                BatchDone(
                    query,
                    number,
                    snapshot,
                    again,
                    sum(entry.file.row_count for entry in added),
                    len(added),
                    clock.now_millis() - started,
                    lane.behind,
                )
            )

    def _merge_small_files(self, frame: DataFrame, lane: Lane) -> None:
        """Append tables without buckets: merge small files, whenever as many batches came as files are worth it."""
        schema, options = self.table.schema, self.table.options
        if schema.bucket_mode is not BucketMode.UNAWARE or options.get("write-only"):
            return
        self._batches += 1
        if self._batches >= int(options.get("compaction.min.file-num")):
            self._batches, spark = 0, frame.sparkSession
            lane.add(lambda: compaction.compact(spark, self.table, compaction.Request(full=False)))

    def _running(self) -> tuple[str, int | None]:
        """The id of the query that runs this, which its checkpoint keeps, and its watermark, if the session knows."""
        active = () if self.spark is None else self.spark.streams.active
        running = next((query for query in active if query.name == self.name), None)
        if running is not None:
            self._query = str(running.id)
        elif not self._query:
            self._query = str(json.loads(self._noted("metadata"))["id"])
        return self._query, None if running is None else _watermark(running)

    def _noted(self, name: str) -> bytes:
        """A file of the checkpoint. UnsupportedError where it cannot be read."""
        try:
            env, root = open_env(self.checkpoint, {})
            return env.storage.read(f"{root}/{name}")
        except Exception as error:
            raise UnsupportedError(
                "the checkpoint cannot be read here, and says which query this is",
                checkpoint=self.checkpoint,
                reason=str(error),
                remedy="on Spark Connect, use a checkpoint in a file system or object store that the server can read",
            ) from error

    def _fingerprint(self, number: int) -> str:
        """Of what the batch reads, as the checkpoint notes it before the batch runs; "" where it cannot be read."""
        with suppress(UnsupportedError):
            return hashlib.sha256(self._noted(f"offsets/{number}")).hexdigest()[:32]
        return ""


def _depth(table: Table) -> int:
    """How many batches may wait for their compaction: as many as sorted runs may pile up above what starts one."""
    trigger = int(table.options.get("num-sorted-run.compaction-trigger"))
    stop = table.options.get("num-sorted-run.stop-trigger")
    return (trigger + 3 if stop is None else int(stop)) - trigger


def _watermark(query: Any) -> int | None:
    """Epoch milliseconds of a query's event time as of its last batch."""
    progress = query.lastProgress
    text = None if progress is None else dict(progress.get("eventTime") or {}).get("watermark")
    if not text:
        return None
    millis = int(datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() * 1000)
    return millis if millis > 0 else None
