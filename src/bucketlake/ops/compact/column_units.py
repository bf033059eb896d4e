"""Units of work on tables whose columns lie in several files (`data-evolution.enabled`), from metadata alone.

    ColumnUnit                        groups of files that become one, and blob files that do
    bins(groups, rule)                pure: which groups become one file
    groups_in(store, snapshot, …)     the groups of each bucket
    column_units(groups, …)           units of a snapshot, by a rule

Spec: docs/spec/row_tracking.md#compacting-columns
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain

from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.compact.append_compact import AppendRule, Vectors
from bucketlake.ops.rows.column_files import row_groups
from bucketlake.ops.scan.scan import chosen_entries
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

Group = tuple[DataFile, ...]
"""Files with columns of the same rows, newest first; where rows move, behind them their blob files."""
Bins = Sequence[tuple[Group, ...]]
Choose = Callable[[list[Group], Collection[str]], Bins]
"""Which of a bucket's groups, by ascending row id, become one file each time; told the files that have vectors."""


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """Groups of one partition that are committed together: each of `bins` becomes one file, and each of `blobs`, blob
    files of one column. `indexes`: the index files with deletion vectors of their files."""

    partition: bytes
    bucket: int
    total_buckets: int
    bins: tuple[tuple[Group, ...], ...]
    snapshot_id: int
    indexes: tuple[IndexFile, ...] = ()
    blobs: tuple[tuple[DataFile, ...], ...] = ()

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files that go."""
        rows = (file for groups in self.bins for group in groups for file in group)
        return (*rows, *chain.from_iterable(self.blobs))

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.file_size for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows to read."""
        blobs = sum(file.row_count for files in self.blobs for file in files)
        return blobs + sum(group[0].row_count for groups in self.bins for group in groups)


def bins(groups: Sequence[Group], rule: AppendRule, fewest: int | None = None) -> list[tuple[Group, ...]]:
    """Groups, by ascending row id, that lie side by side and are no larger together than a file shall be, where they
    have enough files, or `fewest`. A group that is larger by itself is a bin of its own."""
    found: list[list[Group]] = []
    end, filled = -1, 0
    for group in groups:
        size = sum(max(file.file_size, rule.open_cost) for file in group)
        first = group[0].first_row_id
        assert first is not None  # groups are made by it
        if not found or first != end or filled + size > rule.target:
            found.append([])
            filled = 0
        found[-1].append(group)
        end, filled = first + group[0].row_count, filled + size
    fewest = max(rule.min_files, 2) if fewest is None else fewest
    return [tuple(own) for own in found if sum(len(group) for group in own) >= fewest]


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a snapshot by bucket, each by ascending row id, with their blob files; bucket numbers."""

    snapshot_id: int
    of: Mapping[BucketKey, Sequence[Group]]
    totals: Mapping[BucketKey, int]


def groups_in(
    store: Store,
    snapshot: Snapshot,
    partitions: PartitionFilter | None = None,
    only: frozenset[BucketKey] | None = None,
) -> Groups:
    """The groups of some partitions and buckets, all by default."""
    found: dict[BucketKey, list[DataFile]] = {}
    totals: dict[BucketKey, int] = {}
    for entry in chosen_entries(
        store,
        snapshot,
        lambda entry: (
            (only is None or bucket_key(entry) in only) and (partitions is None or partitions(entry.partition))
        ),
    ):
        found.setdefault(bucket_key(entry), []).append(entry.file)
        totals[bucket_key(entry)] = entry.total_buckets
    groups = {key: [tuple(group) for group in row_groups(files)] for key, files in found.items()}
    return Groups(snapshot.id, groups, totals)


def column_units(found: Groups, vectors: Vectors, choose: Choose) -> list[ColumnUnit]:
    """What to write anew, largest first. Bins whose deletion vectors lie in one index file are one unit. `vectors`: of
    the snapshot."""
    units = []
    for key, groups in found.of.items():
        holders, own = vectors.holders(key), {e.file.file_name: e.file for e in vectors.indexes.get(key, ())}
        for together, names in _sharing(choose(list(groups), holders), holders):
            indexes = tuple(own[name] for name in sorted(names))
            units.append(ColumnUnit(*key, found.totals[key], together, found.snapshot_id, indexes))
    return sorted(units, key=lambda unit: unit.size, reverse=True)


def _sharing(merged: Bins, holders: dict[str, str]) -> list[tuple[tuple[tuple[Group, ...], ...], set[str]]]:
    """Bins with the index files of their vectors; those that share one together. `holders`: data file → index file."""
    found: list[tuple[tuple[tuple[Group, ...], ...], set[str]]] = []
    for groups in merged:
        names = {holders[file.file_name] for group in groups for file in group if file.file_name in holders}
        same = [item for item in found if item[1] & names]
        found = [item for item in found if not item[1] & names]
        whole = tuple(chain.from_iterable(item[0] for item in same))
        found.append(((*whole, groups), names.union(*(item[1] for item in same))))
    return found
