"""A table as a streaming source of Spark: offsets, batches, and the rows of each task as Arrow.

Spec: docs/spec/streaming.md, docs/streaming.md#read-a-stream
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.ops.scan.system_tables import RowView, read_view
from bucketlake.ops.stream.limits import Limits
from bucketlake.ops.stream.position import Position
from bucketlake.ops.stream.source import Source
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.options.options import TableOptions
from bucketlake.predicate.tree import Predicate
from bucketlake.spark.arrow_rows import spark_batch
from bucketlake.spark.cluster import pack
from bucketlake.spark.raised import brief
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

try:  # PySpark 4.2 and newer: sources are told where a batch starts and how much it may hold
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:
    ReadAllAvailable = ReadMaxFiles = None

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Unknown to this PySpark."""


START = {"version": 1, "start": True}
"""The offset of a stream that has not begun: its first batch says where it began."""
ORIGIN = "origin"
UNKNOWN_TASKS = 64
"""How many tasks a batch may have, whatever its size, where nobody knows how many run at once."""


@dataclass(frozen=True)
class Rows:
    """What of each split is read, and as which view."""

    store: Store
    view: RowView | None
    fields: tuple[DataField, ...]
    where: Predicate | None


@dataclass
class SplitGroup(InputPartition):  # type: ignore[misc]
    """Splits that one task reads in order."""

    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class _InOrder:
    """Splits that stay together: the how manieth of the batch, and what reading them costs, in bytes."""

    place: int
    splits: tuple[Split, ...]
    size: int


def tasks_of(
    groups: Sequence[tuple[Split, ...]], options: TableOptions, at_once: int | None = None
) -> list[SplitGroup]:
    """The tasks of one batch: groups whole, in their order, in tasks of about the same size.

    A task costs its start: there are as many as run `at_once`, or a multiple of that where they would be larger than
    splits of batches are (`source.split.target-size`; a file counts for `source.split.open-file-cost` at least).
    """
    opened, wide = (int(options.get(f"source.split.{key}")) for key in ("open-file-cost", "target-size"))
    costs = [sum(max(split.size, opened * len(split.files)) for split in group) for group in groups]
    least = at_once or UNKNOWN_TASKS
    rounds = max(1, -(-sum(costs) // (wide * least)))
    items = [_InOrder(place, *found) for place, found in enumerate(zip(groups, costs, strict=True))]
    ordered = [sorted(task, key=lambda item: item.place) for task in pack(items, rounds * least) if task]
    return [SplitGroup(tuple(split for item in task for split in item.splits)) for task in ordered]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Follows one table. Lives in the process that Spark keeps for the query; `read` runs in tasks."""

    def __init__(self, rows: Rows, at_once: int | None = None, known: int | None = None) -> None:
        self._rows, self._at_once = rows, at_once
        self._source = Source.of(rows.store, rows.where, known)
        self._limits = Limits.of(rows.store.options)
        self._until: int | None = None
        self._committed: Mapping[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query starts."""
        return dict(START)

    def getDefaultReadLimit(self) -> Any:
        """Whether the options limit a batch: which limits, the source knows itself."""
        limited = self._limits.bounds or self._limits.min_rows is not None
        return ReadMaxFiles(self._limits.max_files or 2**31 - 1) if limited else ReadAllAvailable()

    @brief
    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than what is there now."""
        self._until = self._source.newest()

    @brief
    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """How far the next batch goes."""
        if start is None:
            return self._newest_offset()
        self.commit(start)  # Spark asks once that is written; of a query's last batch it says nothing else
        wanted = None if isinstance(limit, ReadAllAvailable) else self._limits
        if wanted is not None and self._until is not None:
            wanted = Limits(wanted.max_files, wanted.max_bytes, wanted.max_rows)  # what is there is all there will be
        if ORIGIN in start or "start" not in start:
            at = Position.of(start)
            end = on_newest(self._rows.store, lambda: self._source.following(at, wanted, self._until))
            return dict(start) if end.place == at.place else end.as_offset()
        origin = self._source.origin()
        end = on_newest(self._rows.store, lambda: self._source.following(origin, wanted, self._until))
        return {**end.as_offset(), ORIGIN: origin.as_offset()}

    def _newest_offset(self) -> dict[str, Any]:
        """As `latestOffset`, where Spark does not say where the batch starts."""
        if self._limits.bounds or self._limits.min_rows is not None:
            raise UnsupportedError("limits of a batch need PySpark 4.2", remedy="leave out read.stream.*, or upgrade")
        if self._committed is not None:
            self.commit(self._committed)  # a stream that waits is not idle
        origin = self._source.origin()
        end = self._source.following(origin)
        if origin.full and end.snapshot <= self._source.newest():
            end = self._source.following(end)
        return {**end.as_offset(), ORIGIN: origin.as_offset()}

    @brief
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """What the tasks of one batch read."""
        begin = Position.of(end.get(ORIGIN) or {}) if "start" in start else Position.of(start)
        until = Position.of(end)
        groups = on_newest(self._rows.store, lambda: self._source.batch(begin, until))
        return tasks_of(groups, self._rows.store.options, self._at_once)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        if not isinstance(partition, SplitGroup):
            raise InvalidError("not a part of this stream", part=str(partition)[:200])
        rows, names = self._rows, [item.name for item in self._rows.fields]
        with brief:
            for split in partition.splits:
                for batch in read_view(rows.store, rows.view, split, names, rows.where):
                    yield spark_batch(batch, rows.fields)

    @brief
    def commit(self, end: Mapping[str, Any]) -> None:
        """What lies before `end` is not read again."""
        if "start" not in end:
            self._source.progress(Position.of(end))
            self._committed = end
