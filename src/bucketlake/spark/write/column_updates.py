"""Changes of tables whose columns lie in several files, as Spark finds them: new values by row id become files, in the
driver where they are few, else in tasks, each of which has a range of row ids.

    rows_with_ids(spark, table, plan, needed, extra)      rows of a plan with `MINE`, their id
    write_found(spark, store, groups, names, frame, few)  what a frame of these columns and `MINE` changes
    named_rows(frame, groups, few)                        the rows of groups that a frame names

Spec: docs/spec/row_tracking.md#writing-columns
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.format.index.deletion_vector import Vector, either
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import pc
from bucketlake.ops.change.column_updates import (
    ROW_ID,
    Changed,
    Found,
    RowsNamed,
    by_group,
    delete_ids,
    named_columns,
    refuse_deletes,
    refuse_moves,
    until_done,
    used_columns,
    write_columns,
)
from bucketlake.ops.clean.expire import after_change
from bucketlake.ops.commit.outcome import Attempt
from bucketlake.ops.commit.units import run_units
from bucketlake.ops.rows.column_roll import first_id, groups_of
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage, Split
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.schema import TableSchema
from bucketlake.spark import actions, instants
from bucketlake.spark.arrow_rows import collected
from bucketlake.spark.assignment import Rules
from bucketlake.spark.beside import NOTHING, Beside
from bucketlake.spark.cluster import ensure_package, is_answer, messages_of, parallelism, run_tasks
from bucketlake.spark.conform import conform
from bucketlake.spark.read import hidden
from bucketlake.spark.read.reader import SMALL_BYTES, SMALL_ROWS
from bucketlake.spark.types import quoted
from bucketlake.spark.write.kept import decided
from bucketlake.spark.write.narrow import narrowed, widened
from bucketlake.table import Table
from bucketlake.types.model import DataField, canonical_batch
from bucketlake.values import dataclass

MINE = "__bucketlake_row_id"
RANGES_A_CORE = 4
MOST_RANGES = 200


def is_small(groups: Sequence[Split]) -> bool:
    """Whether the driver reads these groups by itself."""
    rows = sum(group.files[0].row_count for group in groups)
    return rows <= SMALL_ROWS and sum(group.size for group in groups) <= SMALL_BYTES


def rows_with_ids(
    spark: SparkSession, table: Table, plan: Plan, needed: Collection[str], extra: Sequence[str] = ()
) -> DataFrame:
    """At least the rows of a plan: the columns `needed`, the table's others without their values, the metadata columns
    `extra`, and `MINE`."""
    fields = table.schema.fields
    names = tuple(dict.fromkeys([*extra, ROW_ID]))
    read = tuple(item.name for item in fields if item.name in needed)
    frame = hidden.frame(spark, table, plan, hidden.Wanted(read, names))
    columns = [
        F.col(quoted(item.name)) if item.name in needed else F.lit(None).cast(kind.dataType).alias(item.name)
        for item, kind in zip(fields, instants.shown_schema(fields, table.options).fields, strict=True)
    ]
    return frame.select(*columns, *map(F.col, extra), F.col(ROW_ID).alias(MINE))


def named_rows(frame: DataFrame, groups: Sequence[Split], few: bool) -> list[Found]:
    """The rows of groups that a frame of `MINE` names. One Spark action; what travels are bitmaps, unless the rows are
    few."""
    if few:
        return by_group(groups, actions.to_arrow(frame).column(MINE).to_numpy())
    named = RowsNamed.of(groups)
    task = _Naming(replace(named, groups=()))
    found: dict[int, Vector] = {}
    for part in run_tasks(frame, task):
        for number, hits in part.items():
            known = found.get(number)
            found[number] = hits if known is None else either(known, hits)
    return [(named.groups[number], hits) for number, hits in sorted(found.items())]


@dataclass(frozen=True)
class _Naming:
    """The task of `named_rows`."""

    named: RowsNamed

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[dict[int, Vector]]:
        found: dict[int, Vector] = {}
        for batch in batches:
            for number, hits in self.named.places(batch.column(0).to_numpy()).items():
                known = found.get(number)
                found[number] = hits if known is None else either(known, hits)
        yield found


def _among(schema: TableSchema, names: Sequence[str]) -> tuple[DataField, ...]:
    """The columns of these names, in the schema's order."""
    wanted = frozenset(names)
    return tuple(item for item in schema.fields if item.name in wanted)


def as_stored(frame: DataFrame, schema: TableSchema, names: Sequence[str], rules: Rules) -> DataFrame:
    """New values of these columns as they are stored, and `MINE`: CHAR is padded, and a null is none of a default."""
    fields = [replace(item, default=None) for item in _among(schema, names)]
    return conform(frame.select(*map(quoted, [item.name for item in fields]), MINE), fields, (MINE,), rules)


def write_found(
    spark: SparkSession, store: Store, groups: Sequence[Split], names: Sequence[str], frame: DataFrame, few: bool
) -> list[CommitMessage]:
    """Write the columns `names` of the groups that rows of a frame, of these columns and `MINE`, change. Where it
    raises, no file stays but those of killed tasks.

    Raises InvalidError where two rows have one id.
    """
    stage = ColumnStage.of(store, groups, names)
    rows = frame.select(*map(quoted, [item.name for item in stage.fields]), MINE)
    if few:
        return stage.write_here(collected(rows))
    ensure_package(spark)
    bounds = stage.bounds(min(MOST_RANGES, parallelism(spark) * RANGES_A_CORE))
    placed = rows.repartitionById(len(bounds) + 1, _range_of(bounds)).sortWithinPartitions(MINE)
    return messages_of(store, run_tasks(narrowed(placed, stage.fields), stage))


def _range_of(bounds: Sequence[int]) -> Column:
    """Which range a row id is in: how many bounds are not above it."""
    parts: list[Column] = [F.when(F.col(MINE) >= bound, 1).otherwise(0) for bound in bounds]
    return reduce(lambda left, right: left + right, parts, F.lit(0))


@dataclass(frozen=True)
class ColumnStage:
    """Writes new values, sorted by row id, group by group; travels to tasks."""

    store: Store
    fields: tuple[DataField, ...]
    groups: tuple[Split, ...]

    @classmethod
    def of(cls, store: Store, groups: Sequence[Split], names: Sequence[str]) -> ColumnStage:
        """For these columns of groups."""
        return cls(store, _among(store.schema, names), tuple(sorted(groups, key=first_id)))

    def write_here(self, data: pa.Table) -> list[CommitMessage]:
        """Write rows in this process, several groups at a time; on an error no file stays."""
        data = data.take(pc.sort_indices(data.column(MINE))).combine_chunks()
        shares = self.shares(data.to_batches())
        return run_units(self.store, shares, lambda store, share: [self.write(*share)])

    def bounds(self, count: int) -> list[int]:
        """First row ids of groups that cut these into at most `count` ranges of about the same number of rows."""
        rows = np.cumsum([group.files[0].row_count for group in self.groups])
        wanted = rows[-1] * np.arange(1, count) / count if len(rows) else np.zeros(0)
        places = np.unique(np.searchsorted(rows, wanted, side="right"))
        return [first_id(self.groups[place]) for place in places.tolist() if 0 < place < len(self.groups)]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[CommitMessage | BucketlakeError]:
        """The task: the messages of its groups, or the error in its rows; then its files are gone."""
        made: list[CommitMessage] = []
        stream = _Stream(widened(batch, self.fields) for batch in batches if batch.num_rows)
        try:
            for group in self._named(stream):
                message = self.write(group, stream.below(first_id(group) + group.files[0].row_count))
                made += [] if message is None else [message]
        except BaseException as error:
            discard(self.store, made)
            if not is_answer(error):
                raise
            yield error
            return
        yield from made

    def write(self, group: Split, batches: Iterable[pa.RecordBatch]) -> CommitMessage | None:
        """A group's file; batches of the columns and `MINE`."""
        names = [item.name for item in self.fields]
        return write_columns(self.store, group, names, map(self._patch, batches))

    def shares(self, batches: Iterable[pa.RecordBatch]) -> list[tuple[Split, list[pa.RecordBatch]]]:
        """Rows in the driver by group."""
        stream = _Stream(batch for batch in batches if batch.num_rows)
        return [
            (group, list(stream.below(first_id(group) + group.files[0].row_count))) for group in self._named(stream)
        ]

    def _named(self, stream: _Stream) -> Iterator[Split]:
        """The groups that the rows left are of, one after the other, as they are taken."""
        starts = np.array([first_id(group) for group in self.groups], np.int64)
        while (head := stream.first) is not None:
            place = int(np.searchsorted(starts, head, side="right")) - 1
            if place < 0 or head >= starts[place] + self.groups[place].files[0].row_count:
                raise InvalidError("row ids that the table does not have", id=head)
            yield self.groups[place]

    def _patch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = canonical_batch(batch, self.fields)
        return rows.append_column(pa.field(ROW_ID, pa.int64()), batch.column(MINE))


class _Stream:
    """Batches in the order of `MINE`, taken up to an id."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._head: Any = next(batches, None)

    @property
    def first(self) -> int | None:
        """The id of the next row."""
        return None if self._head is None else int(self._head.column(MINE)[0].as_py())

    def below(self, end: int) -> Iterator[pa.RecordBatch]:
        """What is left of lower ids."""
        while self._head is not None:
            count = int(np.searchsorted(self._head.column(MINE).to_numpy(), end))
            head = self._head
            if count < head.num_rows:
                self._head = head.slice(count)
                if count:
                    yield head.slice(0, count)
                return
            self._head = next(self._batches, None)
            yield head


def plan_at(table: Table, base: Snapshot, prune: Predicate | None) -> Plan:
    """What is read of a snapshot."""
    return table.scanned(prune, Selection(base))


@dataclass(frozen=True)
class ColumnChange:
    """UPDATE and DELETE. `prune`: what is known of the rows, to leave out files; `texts`: all that is evaluated over
    rows (what is no text may read any column); `beside`: what these look at.

    Each is at most one commit, evaluated and written anew where others changed meanwhile what it has read.
    """

    spark: SparkSession
    table: Table
    prune: Predicate | None
    texts: tuple[object, ...]
    beside: Beside = NOTHING

    def update(self, project: Callable[[DataFrame], DataFrame], columns: Sequence[str]) -> Snapshot | None:
        """`project`: rows with `MINE` to those that change, with new values of the columns, and `MINE`."""
        schema = self.table.schema
        refuse_moves(schema, columns)

        def write(base: Snapshot, groups: Sequence[Split], frame: DataFrame, attempt: Attempt) -> Changed:
            store, names = self.table.store, [item.name for item in _among(schema, columns)]
            rows = as_stored(project(frame), schema, names, instants.rules(self.spark, self.table.options))
            if is_small(groups):
                data = collected(rows)
                found = by_group(groups, data.column(MINE).to_numpy())
                attempt.made(ColumnStage.of(store, groups, names).write_here(data))
                return Changed(attempt.messages, [group for group, _ in found])
            kept = decided(rows)  # what names groups and what is written are the same
            found = named_rows(kept.select(MINE), groups, few=False)
            touched = [group for group, _ in found]
            if touched:
                attempt.made(write_found(self.spark, store, touched, names, kept, few=False))
            return Changed(attempt.messages, touched)

        return self._done(write, set(columns), "UPDATE")

    def delete(self, choose: Callable[[DataFrame], DataFrame]) -> Snapshot | None:
        """`choose`: rows with `MINE` to that column of those that go."""
        refuse_deletes(self.table.schema)

        def write(base: Snapshot, groups: Sequence[Split], frame: DataFrame, attempt: Attempt) -> Changed:
            found = named_rows(choose(frame), groups, is_small(groups))
            for message in delete_ids(self.table.store, base, found):
                attempt.made([message])
            return Changed(attempt.messages, [group for group, _ in found])

        return self._done(write, set(), "DELETE")

    def _done(
        self,
        write: Callable[[Snapshot, Sequence[Split], DataFrame, Attempt], Changed],
        columns: set[str],
        operation: str,
    ) -> Snapshot | None:
        store, schema = self.table.store, self.table.schema
        blobs = {item.name for item in schema.blob_fields}  # which nobody needs to be set
        needed = (columns - blobs) | named_columns(schema, self.texts)
        used = used_columns(schema, needed | columns)

        def once(base: Snapshot | None, attempt: Attempt) -> Changed:
            if base is None:
                return Changed(())
            plan = plan_at(self.table, base, self.prune)
            groups = groups_of(plan.splits)
            if not groups:
                return Changed(())
            rows = rows_with_ids(self.spark, self.table, plan, needed, self.beside.extra)
            changed = write(base, groups, rows, attempt)
            self.beside.check(store, base)
            return changed

        return after_change(store, until_done(store, once, used, operation, columns))
