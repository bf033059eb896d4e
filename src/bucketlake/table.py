"""One table without Spark: read it as Arrow, write Arrow to it, look at its snapshots and files, change its schema.

Spec: docs/spec/table.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from bucketlake.env import Env
from bucketlake.errors import BucketlakeError, CommitUnknownError, ConflictError, InvalidError, NotFoundError
from bucketlake.format.manifest import DataFile
from bucketlake.format.snapshot import Snapshot
from bucketlake.ops.commit import Commit
from bucketlake.ops.messages import CommitMessage, Split, WriteTask
from bucketlake.ops.read import read_split
from bucketlake.ops.scan import Plan, Scan
from bucketlake.ops.store import Store
from bucketlake.ops.write import discard, prepare_write, write_batches
from bucketlake.options import OPTIONS, TableOptions
from bucketlake.paths import TablePaths
from bucketlake.predicate import And, Predicate, parse_where
from bucketlake.schema import SchemaChange, TableSchema, apply, refuse_undelivered
from bucketlake.types import arrow_schema

WRITE_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class TableFile:
    """One live data file, as `Table.files` lists it. `partition`: column → text as in the path."""

    partition: dict[str, str]
    bucket: int
    total_buckets: int
    level: int
    path: str
    row_count: int
    size: int
    file: DataFile


@dataclass(frozen=True)
class Table:
    """A handle on one table: its schema as it was opened, its options with dynamic ones laid over. Immutable."""

    store: Store
    name: str

    # ---- what it is

    @property
    def schema(self) -> TableSchema:
        """The schema that reads and writes of this handle use."""
        return self.store.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of `to_arrow` without projection."""
        return arrow_schema(self.schema.fields)

    @property
    def options(self) -> TableOptions:
        """Effective options."""
        return self.store.options

    @property
    def path(self) -> str:
        """The table's folder."""
        return self.store.paths.root

    def with_options(self, options: Mapping[str, Any] | None = None, **more: Any) -> Table:
        """The table with dynamic options; a key may also be written as a Python name (`scan_snapshot_id`).

        Raises InvalidError for unknown Python names and for keys that are fixed at creation, if they differ.
        """

    def refresh(self) -> Table:
        """The table with its newest schema."""

    # ---- look

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that have not expired, oldest first."""

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot, None if nothing was committed."""

    def files(self, where: str | Predicate | None = None, **options: Any) -> list[TableFile]:
        """The live files that may hold matching rows."""

    def partitions(self) -> list[dict[str, str]]:
        """The partitions that have files, as column → text, sorted."""

    def plan(self, where: str | Predicate | None = None, columns: Sequence[str] | None = None, **options: Any) -> Plan:
        """Which splits a read would take, pruned by partition, bucket and statistics."""

    # ---- read

    def to_arrow(
        self,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        **options: Any,
    ) -> pa.Table:
        """The matching rows, in no particular order. `where`: a SQL condition. `options`: `scan.*` and others."""

    def to_batches(
        self, where: str | Predicate | None = None, columns: Sequence[str] | None = None, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        """As `to_arrow`, batch by batch, one split after the other."""

    # ---- write

    def write_arrow(
        self,
        data: pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[pa.RecordBatch],
        mode: str = "append",
        partition: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Snapshot | None:
        """Write rows and commit them. The snapshot, or None where there was nothing to commit."""

    def delete(self, where: str | Predicate, **options: Any) -> Snapshot | None:
        """Delete the matching rows of a primary-key table."""

    def truncate(self) -> Snapshot | None:
        """Remove all rows."""

    def drop_partitions(self, partitions: Sequence[Mapping[str, Any]]) -> Snapshot | None:
        """Remove all rows of the partitions; a specification may name some partition columns only."""

    def alter(self, *changes: SchemaChange) -> Table:
        """Publish the next schema; the table as it is then."""
