"""A scan as a pyarrow Dataset: what DuckDB, Acero or polars push into it leaves out columns, files and row groups.

Loaded when a dataset is first asked for. Only what a scanner does is offered; the rest of a Dataset, which is about
its files, is refused by name.

Spec: docs/without-spark.md#arrow
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as pads

from bucketlake.errors import UnsupportedError
from bucketlake.frames.arrow_filter import expression_columns, of_arrow
from bucketlake.lazy import pc
from bucketlake.predicate.tree import Predicate
from bucketlake.types.model import DataField


class Scan(Protocol):
    """What other libraries ask of rows that are not read yet: `TableScan` says what each gives."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    @property
    def fields(self) -> dict[str, DataField]:
        """All columns that a condition may name."""

    def narrowed(
        self, columns: Sequence[str] | None = None, where: Predicate | None = None, limit: int | None = None
    ) -> Scan:
        """Fewer of these rows."""

    def scan_batches(self, batch_size: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in bounded memory."""

    def to_reader(self, batch_size: int | None = None) -> pa.RecordBatchReader:
        """The rows, with the schema."""


class ScannedDataset(pads.Dataset):  # type: ignore[misc]
    """The rows of a scan; every scanner reads them anew."""

    def __init__(self, scan: Scan, condition: Any = None) -> None:
        self._scan, self._condition = scan, condition

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._scan.schema

    def scanner(self, columns: Any = None, filter: Any = None, **how: Any) -> pads.Scanner:
        """A scanner over the rows: only the columns that it names are read, and only files and row groups that can
        hold rows that the filter is true for, as far as it is understood; the rest of it is applied to the rows.
        `how`: as of pyarrow's `Scanner.from_batches`."""
        both = [part for part in (self._condition, filter) if part is not None]
        condition = both[0] & both[1] if len(both) > 1 else both[0] if both else None
        part = self._scan.narrowed(
            self._columns(columns, condition), None if condition is None else of_arrow(condition, self._scan.fields)
        )
        reader = part.to_reader()
        how.pop("fragment_scan_options", None)
        return pads.Scanner.from_batches(reader, columns=columns, filter=condition, **how)

    def _columns(self, columns: Any, condition: Any) -> list[str] | None:
        """The columns to read; None: all of the scan's."""
        named = [] if condition is None else expression_columns(condition)
        if columns is None or named is None:
            return None
        parts: list[str] = []
        for one in columns.values() if isinstance(columns, Mapping) else columns:
            names = [one] if isinstance(one, str) else expression_columns(one)
            if names is None:
                return None
            parts += names
        wanted = {*parts, *named}
        return [name for name in self._scan.columns if name in wanted] or list(self._scan.columns[:1])

    def filter(self, expression: Any) -> ScannedDataset:
        """The rows that an expression is true for."""
        both = expression if self._condition is None else self._condition & expression
        return ScannedDataset(self._scan, both)

    def __reduce__(self) -> Any:
        """A dataset pickles as its scan."""
        return ScannedDataset, (self._scan, self._condition)

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise UnsupportedError(
            "this dataset is scanned, and cannot be taken apart or joined",
            remedy="use scanner(), to_table(), to_batches(), head(), count_rows() or filter()",
        )

    get_fragments = replace_schema = sort_by = join = join_asof = take = _get_fragments = _refused

    @property
    def partition_expression(self) -> Any:
        """Nothing is known of all rows together."""
        return pc.scalar(True)
