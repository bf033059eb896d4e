"""What a table's handle offers without Spark: its rows for every library that takes them.

Spec: docs/without-spark.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bucketlake.errors import InvalidError, check_types
from bucketlake.frames.table_scan import Readable, TableScan, TableSplit, whole
from bucketlake.lazy import lazy, pa, pl
from bucketlake.ops.scan import fallback
from bucketlake.ops.scan.system_tables import RowView
from bucketlake.ops.system.model import SystemTable
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.retry import on_newest
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.schema import column_names

if TYPE_CHECKING:
    import duckdb
    import pandas

    from bucketlake.ops.rows import read as reading
else:
    reading = lazy("bucketlake.ops.rows.read")

Where = str | Predicate | None
Columns = Sequence[str] | None


class Frames(Readable):
    """Methods of a handle that give rows. `where`: a SQL condition; `columns`: all by default; `options`: `scan.*` and
    other dynamic options, also as Python names (`scan_snapshot_id=3`)."""

    def scan(self, where: Where = None, columns: Columns = None, limit: int | None = None, **options: Any) -> TableScan:
        """The matching rows of one snapshot, not yet read: anything that takes `__arrow_c_stream__` reads it, and its
        methods are those of this handle. Errors: InvalidError, UnsupportedError, NotFoundError.
        Spec: docs/without-spark.md#scans
        """
        if limit is not None:
            whole("limit", limit, 0)
        table, selection = self.as_of(options)
        names = column_names(table.schema, columns)
        return TableScan(table, selection, tuple(names), table.predicate(where), limit)

    def _now(self, make: Callable[[], TableScan]) -> TableScan:
        """A scan that is read bit by bit: planned, on another snapshot where the first expires meanwhile."""
        return on_newest(self.store, lambda: make().planned())

    def to_arrow(
        self, where: Where = None, columns: Columns = None, limit: int | None = None, **options: Any
    ) -> pa.Table:
        """The matching rows, in no particular order. `where`: a SQL condition. `options`: `scan.*` and others.

        Splits are read by several threads; with `limit` one after the other, until there are enough rows. If the
        snapshot expires meanwhile, the newest one is read from the beginning.
        """
        return on_newest(self.store, lambda: self.scan(where, columns, limit, **options).to_arrow())

    def to_batches(self, where: Where = None, columns: Columns = None, **options: Any) -> Iterator[pa.RecordBatch]:
        """As `to_arrow`, batch by batch, one split after the other, in bounded memory."""
        return self.scan_batches(where, columns, **options)

    def scan_batches(
        self,
        where: Where = None,
        columns: Columns = None,
        limit: int | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The matching rows in bounded memory, whatever the table's size: one split after the other, overlapping files
        merged section by section. `batch_size`: at most so many rows a batch."""
        return self._now(lambda: self.scan(where, columns, limit, **options)).scan_batches(batch_size)

    def to_reader(
        self,
        where: Where = None,
        columns: Columns = None,
        limit: int | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> pa.RecordBatchReader:
        """As `scan_batches`, as a reader with a schema."""
        return self._now(lambda: self.scan(where, columns, limit, **options)).to_reader(batch_size)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All rows as an Arrow C stream, in bounded memory: polars, DuckDB and others take the handle itself."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(
        self,
        where: Where = None,
        columns: Columns = None,
        limit: int | None = None,
        arrow_types: bool = False,
        **options: Any,
    ) -> pandas.DataFrame:
        """As `to_arrow`, as a pandas DataFrame. Whole numbers and truth values with nulls get pandas' nullable types,
        so that no value becomes a float. `arrow_types`: every column keeps its Arrow type. UnsupportedError without
        pandas, and for values that pandas has no counterpart for."""
        return on_newest(self.store, lambda: self.scan(where, columns, limit, **options).to_pandas(arrow_types))

    def to_polars(
        self, where: Where = None, columns: Columns = None, limit: int | None = None, **options: Any
    ) -> pl.LazyFrame:
        """The rows of this snapshot as a polars LazyFrame: columns, conditions and limits of its query leave out
        columns, files and row groups. Spec: docs/without-spark.md#polars"""
        return self.scan(where, columns, limit, **options).to_polars()

    def to_duckdb(
        self,
        connection: Any = None,
        where: Where = None,
        columns: Columns = None,
        limit: int | None = None,
        **options: Any,
    ) -> duckdb.DuckDBPyRelation:
        """The rows of this snapshot as a relation of a DuckDB connection (None: the module's own): columns and
        conditions of its query leave out columns, files and row groups. UnsupportedError without duckdb.
        Spec: docs/without-spark.md#duckdb"""
        return self.scan(where, columns, limit, **options).to_duckdb(connection)

    def to_dataset(self, where: Where = None, columns: Columns = None, limit: int | None = None, **options: Any) -> Any:
        """The rows of this snapshot as a pyarrow Dataset. Spec: docs/without-spark.md#arrow"""
        return self.scan(where, columns, limit, **options).to_dataset()

    def splits(self, where: Where = None, columns: Columns = None, **options: Any) -> list[TableSplit]:
        """The matching rows in picklable parts that tasks of any program read by themselves.
        Spec: docs/without-spark.md#splits"""
        return self._now(lambda: self.scan(where, columns, **options)).splits()

    def read_split(
        self, split: Split | TableSplit, columns: Columns = None, where: Where = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one split of `splits()`, or of `plan().splits`, in bounded memory. Of `splits()` the columns and
        the condition stand; else these here count.

        InvalidError for a plan's split where the table is read with another branch, whose splits look alike."""
        if isinstance(split, TableSplit):
            return split.scan_batches()
        check_types(Split, "give one of table.splits(), or of table.plan().splits", split=split)
        if isinstance(self.view, SystemTable) or not fallback.is_alone(self.store):
            raise InvalidError("a split of a plan tells no branch", table=self.name, remedy="use those of splits()")
        names = tuple(column_names(self.schema, columns))
        view = self.view if isinstance(self.view, RowView) else None
        return TableSplit(self.store, view, split, names, self.predicate(where)).scan_batches()
