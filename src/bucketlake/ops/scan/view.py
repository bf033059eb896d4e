"""A base snapshot as a commit sees it: its live files, read once for each set of partitions."""

from __future__ import annotations

from dataclasses import field

from bucketlake.format.index.index_manifest import IndexEntry
from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.scan.scan import EntryFilter, live_entries
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass


@dataclass
class View:
    """A base snapshot (None: an empty table) and what a commit reads of it."""

    store: Store
    snapshot: Snapshot | None
    _read: dict[frozenset[bytes] | None, tuple[ManifestEntry, ...]] = field(default_factory=dict)

    def entries(self, partitions: frozenset[bytes] | None) -> tuple[ManifestEntry, ...]:
        """Live files of some partitions, None: of all."""
        if self.snapshot is None or (partitions is not None and not partitions):
            return ()
        if partitions not in self._read:
            self._read[partitions] = tuple(live_entries(self.store, self.snapshot, EntryFilter(partitions=partitions)))
        return self._read[partitions]

    @property
    def indexes(self) -> tuple[IndexEntry, ...]:
        """Live index files of the table."""
        return self.store.index_manifest(self.snapshot)
