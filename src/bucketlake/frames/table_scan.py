"""Rows of a table as of one snapshot, described and not yet read: by splits, batches, or all at once.

    TableScan     which columns, which rows, at most how many, of which snapshot; any library's door
    TableSplit    a part of them that one task reads by itself, in whatever process

Batches come split by split in bounded memory: raw files block by block, overlapping ones merged section by section.

Spec: docs/without-spark.md, docs/spec/reading.md
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from bucketlake.errors import InvalidError
from bucketlake.lazy import lazy, pa, pl
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.scan.system_tables import RowView, read_view, view_schema
from bucketlake.ops.system.model import SystemTable
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import Predicate, conjunction
from bucketlake.schema.schema import TableSchema, column_names
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.values import dataclass

if TYPE_CHECKING:
    import duckdb
    import pandas

    from bucketlake.frames import outputs
    from bucketlake.ops.rows import read as reading
else:
    outputs = lazy("bucketlake.frames.outputs")
    reading = lazy("bucketlake.ops.rows.read")


def threads() -> int:
    """How many threads read or write a table at once."""
    cores: int = pa.cpu_count()
    return max(2, min(cores, 16))


class Readable(ABC):
    """What a scan needs of a handle on a table."""

    store: Store
    name: str
    view: RowView | SystemTable | None

    @property
    @abstractmethod
    def schema(self) -> TableSchema:
        """The columns."""

    @abstractmethod
    def as_of(self, options: Mapping[str, Any] | None = None, **more: Any) -> tuple[Any, Selection]:
        """The handle as a read with these options sees it, and the snapshot or span that it reads."""

    @abstractmethod
    def predicate(self, where: str | Predicate | None) -> Predicate | None:
        """A condition as a predicate that can be evaluated here."""

    @abstractmethod
    def scanned(self, predicate: Predicate | None, selection: Selection) -> Plan:
        """What a read opens of what was selected."""


@dataclass(frozen=True)
class TableSplit:
    """A part of a table's rows that is read by itself, in any process that reaches the table's storage: picklable.

    `columns`, `where`: of the scan that it comes from. The storage's options travel with it."""

    store: Store = field(repr=False)
    view: RowView | None
    split: Split
    columns: tuple[str, ...]
    where: Predicate | None = None

    @property
    def row_count(self) -> int:
        """Rows stored in its files, superseded ones included: not fewer than it gives."""
        return self.split.row_count

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return self.split.size

    @property
    def schema(self) -> pa.Schema:
        """The columns that it gives."""
        return arrow_schema(view_schema(self.store, self.view).select(list(self.columns)))

    def scan_batches(self, batch_size: int | None = None) -> Iterator[pa.RecordBatch]:
        """Its rows in bounded memory; at most `batch_size` rows a batch."""
        batches = read_view(self.store, self.view, self.split, self.columns, self.where)
        return sliced(batches, batch_size)

    def to_reader(self, batch_size: int | None = None) -> pa.RecordBatchReader:
        """As `scan_batches`, with the schema."""
        return pa.RecordBatchReader.from_batches(self.schema, self.scan_batches(batch_size))

    def to_arrow(self) -> pa.Table:
        """Its rows."""
        return pa.Table.from_batches(list(self.scan_batches()), self.schema)

    def to_pandas(self, arrow_types: bool = False) -> pandas.DataFrame:
        """Its rows as a pandas DataFrame; see `TableScan.to_pandas`."""
        return outputs.to_pandas(self.to_arrow(), arrow_types)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Its rows as an Arrow C stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class TableScan:
    """Rows of a table: some columns, those that a condition is true for, at most so many, as of one snapshot.

    Nothing is read before it is asked for, and then anew each time; the snapshot stays the one that was the newest when
    the scan was made (system tables over metadata show what is there when they are read). Taken by whatever takes
    `__arrow_c_stream__`."""

    table: Readable = field(repr=False)
    selection: Selection
    columns: tuple[str, ...]
    where: Predicate | None = None
    limit: int | None = None
    plan: Plan | None = field(default=None, repr=False, compare=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow."""
        return arrow_schema(self.table.schema.select(list(self.columns)))

    @property
    def fields(self) -> dict[str, DataField]:
        """All columns that a condition may name."""
        return {item.name: item for item in self.table.schema.fields}

    # ---- other scans

    def planned(self) -> TableScan:
        """The same with its plan made now. NotFoundError where the snapshot has expired."""
        if isinstance(self.table.view, SystemTable) or self.plan is not None:
            return self
        return replace(self, plan=self.table.scanned(self.where, self.selection))

    def narrowed(
        self, columns: Sequence[str] | None = None, where: Predicate | None = None, limit: int | None = None
    ) -> TableScan:
        """Fewer of these rows: of columns, matching rows, at most so many. With a limit of its own, or one here, no
        condition can be laid over: which rows come first is decided without it, and the caller filters them."""
        names = self.columns if columns is None else tuple(column_names(self.table.schema, columns))
        if limit is None and self.limit is None:
            return replace(self, columns=names, where=conjunction([self.where, where]), plan=None)
        most = min(one for one in (limit, self.limit) if one is not None)
        return replace(self, columns=names, limit=most)

    # ---- rows

    def splits(self) -> list[TableSplit]:
        """The rows in parts that tasks read by themselves, each once. InvalidError with a limit, which concerns all
        parts together, and for a system table over metadata."""
        if self.limit is not None:
            raise InvalidError("splits with a limit", limit=self.limit, remedy="leave the limit to what reads them")
        if isinstance(self.table.view, SystemTable):
            raise InvalidError("a system table of metadata has no splits", table=self.table.name)
        return self._splits()

    def _splits(self) -> list[TableSplit]:
        plan = self.planned().plan
        view = self.table.view if isinstance(self.table.view, RowView) else None
        places = [] if plan is None else plan.splits_of(self.table.store)
        return [TableSplit(store, view, split, self.columns, self.where) for store, split in places]

    def scan_batches(self, batch_size: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, split after split, in bounded memory; at most `batch_size` rows a batch, by default as the files
        give them. Planned now, read as batches are taken; files that are not needed for the limit are not opened."""
        view = self.table.view
        if isinstance(view, SystemTable):
            rows = iter(view.reader(self.table.store, self.columns, self.where, self.limit))
        else:
            rows = (batch for split in self._splits() for batch in split.scan_batches())
            rows = rows if self.limit is None else limited(rows, self.limit)
        return sliced(rows, batch_size)

    def to_reader(self, batch_size: int | None = None) -> pa.RecordBatchReader:
        """As `scan_batches`, with the schema."""
        return pa.RecordBatchReader.from_batches(self.schema, self.scan_batches(batch_size))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows as an Arrow C stream: a capsule of the Arrow PyCapsule interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """The rows at once, splits read by several threads; with a limit one after the other, as far as needed."""
        if self.limit is not None or isinstance(self.table.view, SystemTable):
            rows = self.scan_batches()
            return (
                reading.first_rows(rows, self.schema, self.limit)
                if self.limit is not None
                else self.to_reader().read_all()
            )
        parts = parallel(lambda split: list(split.scan_batches()), self._splits(), threads())
        return pa.Table.from_batches([batch for part in parts for batch in part], self.schema)

    def to_pandas(self, arrow_types: bool = False) -> pandas.DataFrame:
        """The rows as a pandas DataFrame. Columns of whole numbers or truth values that hold nulls get pandas' nullable
        types, so that no value becomes a float. `arrow_types`: every column keeps its Arrow type.
        UnsupportedError without pandas, and for values that pandas has no counterpart for."""
        return outputs.to_pandas(self.to_arrow(), arrow_types)

    def to_polars(self) -> pl.LazyFrame:
        """The rows as a polars LazyFrame: columns, conditions and limits of its query leave out columns, files and row
        groups. UnsupportedError without polars' plugin interface. Spec: docs/without-spark.md#polars"""
        return outputs.to_polars(self)

    def to_duckdb(self, connection: Any = None) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of a DuckDB connection (None: the module's own): columns and conditions of its query
        leave out columns, files and row groups. UnsupportedError without duckdb. Spec: docs/without-spark.md#duckdb"""
        return outputs.to_duckdb(self, connection)

    def to_dataset(self) -> Any:
        """The rows as a pyarrow Dataset, for what takes one: filters and columns leave out files as above.
        Spec: docs/without-spark.md#arrow"""
        return outputs.to_dataset(self)


def limited(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """The first `most` rows; no batch is taken that is not needed for them."""
    left = most
    while left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch.slice(0, min(left, batch.num_rows))
        left -= batch.num_rows


def sliced(batches: Iterator[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """The same rows, at most so many a batch. InvalidError for a size that is none."""
    if rows is None:
        return batches
    whole("batch_size", rows, 1)
    most = min(rows, sys.maxsize)  # what Arrow counts with
    return (batch.slice(start, most) for batch in batches for start in range(0, batch.num_rows, most))


def whole(name: str, value: Any, least: int) -> None:
    """InvalidError unless the argument is a whole number, not below `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidError(f"{name} must be a whole number of at least {least}", **{name: value})
