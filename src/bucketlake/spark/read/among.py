"""The few rows of a table that have one of few keys, read by Python: key columns of files that can hold some, and other
columns only where there are such rows.

    of_keys(spark, store, plan, keys, columns)        rows of a primary-key table, merged; keys are whole
    with_places(spark, store, files, among, fields)   rows of an append table with their file's number and position

Both give None where the rows are more than the driver takes: Spark finds them then. Small files are read in the
driver, others in tasks.

Spec: docs/spec/row_changes.md#rows-of-known-keys
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from bucketlake.ops.lookup.asked import asked
from bucketlake.ops.rows.among import Among
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.spark.arrow_rows import arrow_layout, spark_batch
from bucketlake.spark.cluster import ensure_package, pack, parallelism, run_values, unpickled
from bucketlake.spark.read.native import ROW_INDEX
from bucketlake.spark.read.placed import FILE
from bucketlake.spark.read.row_places import FILES_A_TASK, Chosen
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.values import dataclass

MOST_ROWS = 1 << 16  # that are given
MOST_BYTES = 32 << 20
DRIVER_ROWS = 2_000_000  # stored rows whose keys the driver looks through by itself
DRIVER_BYTES = 64 << 20
COLLECTED_BYTES = 256 << 20  # what all tasks together may send back


class _Part(Protocol):
    @property
    def size(self) -> int: ...

    @property
    def row_count(self) -> int: ...


P = TypeVar("P", bound=_Part)


def of_keys(
    spark: SparkSession, store: Store, plan: Plan, keys: pa.RecordBatch, columns: Sequence[str]
) -> pa.Table | None:
    """The live rows of a plan that have one of these distinct keys, as columns of the table in its layout.

    `keys`: the columns of the primary key under their names, in the table's layout, without nulls."""
    wanted = list(columns)
    parts = asked(store, plan, keys)
    return _gathered(spark, parts, lambda part: part.rows(wanted), arrow_schema(store.schema.select(wanted)))


@dataclass(frozen=True, slots=True)
class _Placed:
    """One file and its number."""

    number: int
    chosen: Chosen

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.chosen.file.file_size

    @property
    def row_count(self) -> int:
        """Rows of the file."""
        return self.chosen.file.row_count


def with_places(
    spark: SparkSession, store: Store, files: Sequence[Chosen], among: Among, fields: Sequence[DataField]
) -> pa.Table | None:
    """Those of the rows chosen that have one of the values, as `row_places.rows_with_places` gives them, of these
    columns."""
    layout = arrow_layout(fields)
    for name in (FILE, ROW_INDEX):
        layout = layout.append(pa.field(name, pa.int64()))

    def read(part: _Placed) -> Iterator[pa.RecordBatch]:
        chosen = part.chosen
        for positions, batch in among.rows(store, chosen.split, chosen.file, chosen.left_out(), fields):
            number = pa.repeat(pa.scalar(part.number, pa.int64()), batch.num_rows)
            columns = [*spark_batch(batch, fields).columns, number, pa.array(positions)]
            yield pa.RecordBatch.from_arrays(columns, schema=layout)

    return _gathered(spark, [_Placed(*item) for item in enumerate(files)], read, layout)


def _gathered(
    spark: SparkSession, parts: Sequence[P], read: Callable[[P], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> pa.Table | None:
    """What is read of all parts; None where it is more than the driver takes."""
    if sum(part.row_count for part in parts) <= DRIVER_ROWS and sum(part.size for part in parts) <= DRIVER_BYTES:
        found = parallel(lambda part: _within(read(part), MOST_BYTES), parts, parallelism(spark))
    else:
        ensure_package(spark)
        groups = pack(parts, parallelism(spark) * FILES_A_TASK)
        most = min(MOST_BYTES, COLLECTED_BYTES // len(groups))

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch] | None]:
            own = (part for some in unpickled(batches) for part in some)
            yield _within((batch for part in own for batch in read(part)), most)

        found = run_values(spark, groups, task)
    known = [batches for batches in found if batches is not None]
    rows = pa.Table.from_batches([batch for batches in known for batch in batches], schema)
    return rows if len(known) == len(found) and rows.num_rows <= MOST_ROWS and rows.nbytes <= MOST_BYTES else None


def _within(batches: Iterator[pa.RecordBatch], most: int) -> list[pa.RecordBatch] | None:
    """The batches, None where they hold more rows or bytes than are taken."""
    found: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        found.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows > MOST_ROWS or size > most:
            return None
    return found
