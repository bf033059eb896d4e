"""What is put in order: files of one partition, or of one bucket, as of a snapshot. Metadata only.

    plan_units(store, snapshot, pick, partitions) -> [ClusterUnit]
    everything(files) -> Pick                                   sort compaction: all files of a partition

Spec: docs/spec/clustering.md#units
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.rebase.numbers import numbered
from bucketlake.ops.rows.deletions import vector_entries
from bucketlake.ops.rows.units import compacted, split_of, vectors_of_others
from bucketlake.ops.scan.scan import check_apart, live_entries
from bucketlake.ops.scan.splits import deletion_files
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.messages import CommitMessage, DeletionFile, Split
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Picked:
    """Files to put in order. `level`: where the new ones lie, by a compaction; None: they replace the old ones as an
    overwrite does."""

    files: tuple[DataFile, ...]
    level: int | None = None


Pick = Callable[[bytes, Sequence[DataFile]], Picked | None]
"""Which files of a bucket of this partition to put in order, None for none."""


@dataclass(frozen=True, slots=True)
class ClusterUnit:
    """Files of one bucket that become new files in order. `deletions`: where their deletion vectors lie, by file name;
    `indexes`: the index files that hold these vectors. Small, picklable."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    level: int | None
    snapshot_id: int
    deletions: dict[str, DeletionFile] = field(default_factory=dict)
    indexes: tuple[IndexFile, ...] = ()

    @property
    def place(self) -> BucketKey:
        """Its bucket."""
        return self.partition, self.bucket

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows of the files, deleted ones included."""
        return sum(file.row_count for file in self.files)

    @property
    def live_rows(self) -> int | None:
        """Rows that are not deleted; None where a deletion vector does not say how many it names."""
        gone = [place.range.cardinality for place in self.deletions.values()]
        return None if None in gone else self.row_count - sum(number or 0 for number in gone)

    def split(self, store: Store, files: Sequence[DataFile] | None = None) -> Split:
        """The files, or these of them, to be read."""
        return split_of(store, self, self.files if files is None else files, self.deletions)

    def message(self, store: Store, files: Sequence[DataFile]) -> CommitMessage:
        """What to commit once the rows lie in `files`. Writes the vectors of other files that shared an index file with
        these; numbers the rows from the least number that they had."""
        new = numbered(files, min(file.min_sequence_number for file in self.files))
        kept = vectors_of_others(store, self)
        if self.level is None:
            return CommitMessage(
                *self.place,
                self.total_buckets,
                new_files=tuple(new),
                deleted_files=self.files,
                new_index_files=tuple(kept),
                deleted_index_files=self.indexes,
            )
        return compacted(self, [replace(file, level=self.level) for file in new], kept)


def everything(partition: bytes, files: Sequence[DataFile]) -> Picked | None:
    """All files of a partition, to be replaced."""
    return Picked(tuple(files)) if files else None


def plan_units(
    store: Store,
    snapshot: Snapshot | None,
    pick: Pick,
    partitions: PartitionFilter | None = None,
    buckets: frozenset[BucketKey] | None = None,
) -> list[ClusterUnit]:
    """The units of an append table as of a snapshot, partition by partition. `partitions`, `buckets`: of these only."""
    if snapshot is None:
        return []
    found: dict[BucketKey, list[ManifestEntry]] = {}
    every = live_entries(store, snapshot)
    check_apart(store, snapshot, every)
    for entry in every:
        key = bucket_key(entry)
        if (partitions is None or partitions(entry.partition)) and (buckets is None or key in buckets):
            found.setdefault(key, []).append(entry)
    indexes = store.index_manifest(snapshot)
    places = deletion_files(store, indexes)
    units: list[ClusterUnit] = []
    for key, entries in found.items():
        ordered = sorted((entry.file for entry in entries), key=lambda file: file.min_sequence_number)
        picked = pick(key[0], ordered)
        if picked is not None and picked.files:
            own = vector_entries(indexes, *key)
            units.append(_unit(entries[0], picked, snapshot.id, places.get(key, {}), own))
    return units


def _unit(
    like: ManifestEntry,
    picked: Picked,
    snapshot_id: int,
    places: Mapping[str, DeletionFile],
    own: Sequence[IndexEntry],
) -> ClusterUnit:
    names = {file.file_name for file in picked.files}
    touched = [e.file for e in own if any(part.data_file_name in names for part in e.file.dv_ranges or ())]
    return ClusterUnit(
        like.partition,
        like.bucket,
        like.total_buckets,
        picked.files,
        picked.level,
        snapshot_id,
        {name: places[name] for name in sorted(names) if name in places},
        tuple(touched),
    )
