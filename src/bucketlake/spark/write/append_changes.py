"""What a change of an append table writes: files without the rows that go, and the rows that come, by Spark's tasks.

    rewriter(spark)                                    how `ops.change.append_rows` rewrites files
    write_rows(spark, store, snapshot, frame, local)   new rows, as of the snapshot that the change is planned on
    write_given(spark, store, snapshot, rows)          the same, of rows that are in the driver already

Files that are small together are rewritten in the driver: a job would take longer. Files that a failed job has written
are orphans, as with any write.

Spec: docs/spec/row_changes.md#append-tables
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.change.append_rows import Rewrite, rewrite_part, rewritten_here
from bucketlake.ops.change.touched import Touched
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.spark.arrow_rows import collected
from bucketlake.spark.cluster import ensure_package, pack, parallelism, run_values, unpickled
from bucketlake.spark.conform import conform
from bucketlake.spark.instants import rules
from bucketlake.spark.read import reader
from bucketlake.spark.write import tasks
from bucketlake.values import dataclass

PARTS_A_TASK = 4  # tasks a core, where there are so many files


@dataclass(frozen=True, slots=True)
class Part:
    """A group of files that becomes new files; travels to tasks."""

    number: int
    files: tuple[Touched, ...]

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(touched.size for touched in self.files)

    @property
    def row_count(self) -> int:
        """Rows to read."""
        return sum(touched.row_count for touched in self.files)


@dataclass(frozen=True)
class _Rewriting:
    """The task: parts in, their number and new files out."""

    store: Store

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, list[DataFile]]]:
        for parts in unpickled(batches):
            for part in parts:
                yield part.number, rewrite_part(self.store, part.files)


def rewriter(spark: SparkSession) -> Rewrite:
    """Rewrites in tasks what is not small."""

    def rewrite(store: Store, groups: Sequence[Sequence[Touched]]) -> list[list[DataFile]]:
        parts = [Part(number, tuple(group)) for number, group in enumerate(groups)]
        few = sum(part.row_count for part in parts) <= reader.SMALL_ROWS
        if few and sum(part.size for part in parts) <= reader.SMALL_BYTES:
            return rewritten_here(store, groups)
        ensure_package(spark)
        found = dict(run_values(spark, pack(parts, parallelism(spark) * PARTS_A_TASK), _Rewriting(store)))
        return [found[part.number] for part in parts]

    return rewrite


def write_rows(
    spark: SparkSession, store: Store, snapshot: Snapshot | None, frame: DataFrame, local: bool
) -> list[CommitMessage]:
    """Write the rows of a frame with the table's columns; nothing is visible. `local`: the driver does, for few."""
    rows = conform(frame, store.schema.fields, rules=rules(spark, store.options))
    if local:
        return write_given(spark, store, snapshot, collected(rows))
    return tasks.write_in_tasks(spark, store, rows, _template(spark, store, snapshot))


def write_given(spark: SparkSession, store: Store, snapshot: Snapshot | None, rows: pa.Table) -> list[CommitMessage]:
    """As `write_rows`, of rows in the driver that are as `conform` makes them."""
    batches = [batch for batch in rows.to_batches() if batch.num_rows]
    return tasks.write_in_driver(store, batches, _template(spark, store, snapshot)) if batches else []


def _template(spark: SparkSession, store: Store, snapshot: Snapshot | None) -> WriteTask:
    return prepare_write(store, snapshot, tasks.task_count(spark) + 1, new_commit_user(store))
