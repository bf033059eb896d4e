"""What may be told of one table: `table.report`, from metadata alone, bounded, as plain values.

    table.report.timeline() .heat() .levels({"dt": "…"}, 0) .file_sizes() .files() .amplification()
    table.report.evolution() .settings() .overview() .activity() .changes(1, 2)

Spec: docs/page.md#the-facts-in-python
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bucketlake.errors import InvalidError
from bucketlake.ops.table.store import Store
from bucketlake.report import activity as at_work
from bucketlake.report import definition, history, places
from bucketlake.report.facts import (
    Activity,
    Amplification,
    BucketLevels,
    Evolution,
    FileChanges,
    FileSizes,
    Heat,
    Listing,
    Overview,
    Setting,
    Timeline,
)
from bucketlake.report.history import COMMITS
from bucketlake.report.places import Wanted
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class TableReport:
    """Facts about one table, or one branch of it: each call looks at its newest snapshot anew. Every fact has
    `to_dict()`."""

    store: Store
    name: str

    def overview(self) -> Overview:
        """The table at a glance: its columns and keys, its newest snapshot, how many files."""
        return definition.overview(self.store, self.name)

    def timeline(self, limit: int = COMMITS) -> Timeline:
        """The newest commits, oldest first, with tags, branches and consumers on them."""
        return history.timeline(self.store, limit)

    def amplification(self, limit: int = COMMITS) -> Amplification:
        """Write and space amplification over the newest snapshots, bytes by level."""
        return history.amplification(self.store, limit)

    def heat(self, snapshot: int | None = None) -> Heat:
        """Rows, bytes, files, runs and skew of partitions x buckets; of the newest snapshot, or another."""
        return places.heat(self.store, snapshot)

    def levels(
        self, partition: Mapping[str, Any] | str | None = None, bucket: int = 0, snapshot: int | None = None
    ) -> BucketLevels:
        """The files of one bucket by level, and where their keys lie. `partition`: column → value, or a
        `PartitionRow.key`; None for a table without partitions. Errors: InvalidError for a partition that is none."""
        return places.levels(self.store, self._partition(partition), bucket, snapshot)

    def file_sizes(self, snapshot: int | None = None) -> FileSizes:
        """A histogram of file sizes."""
        return places.file_sizes(self.store, snapshot)

    def files(self, wanted: Wanted | None = None, snapshot: int | None = None) -> Listing:
        """A stretch of the live files in some order, the largest first."""
        return places.files(self.store, wanted, snapshot)

    def changes(self, before: int, after: int) -> FileChanges:
        """What differs between the files of two snapshots."""
        return places.file_changes(self.store, before, after)

    def evolution(self) -> Evolution:
        """What each schema changed against the one before."""
        return definition.evolution(self.store)

    def settings(self) -> list[Setting]:
        """Every option: what holds, its default, whether they differ, what it is for."""
        return definition.settings(self.store)

    def activity(self) -> Activity:
        """Streaming queries that write the table, consumers that read it, and when it last changed."""
        return at_work.activity(self.store)

    def partition_key(self, text: str) -> bytes:
        """The partition that a `PartitionRow.key` names. Errors: InvalidError."""
        return places.partition_key(self.store, text)

    def _partition(self, partition: Mapping[str, Any] | str | None) -> bytes:
        paths = self.store.paths
        if isinstance(partition, str):
            return self.partition_key(partition)
        if partition is None and self.store.schema.partition_keys:
            raise InvalidError(
                "the table has partitions",
                table=self.name,
                partition_keys=list(self.store.schema.partition_keys),
                remedy="name one: levels({column: value}, bucket)",
            )
        return paths.partition_bytes({name: str(value) for name, value in (partition or {}).items()})
