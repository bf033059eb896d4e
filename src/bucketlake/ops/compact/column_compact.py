"""Compaction of tables whose columns lie in several files (`data-evolution.enabled`): files with columns of the same
rows, and groups that lie side by side in their row ids, become one file.

    bins(groups, rule)                pure: which groups become one file
    column_units(store, …, choose)    units of a snapshot, by a rule
    ColumnPlan                        the job

Every row keeps its id, for it is counted; deleted rows stay in the file, and in the vector of the new one.

Spec: docs/spec/row_tracking.md#compacting-columns
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain

import numpy as np

from bucketlake.format.index.deletion_vector import positions_of
from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.compact.append_compact import AppendRule, Vectors
from bucketlake.ops.compact.job import Compacting
from bucketlake.ops.compact.running import Work
from bucketlake.ops.rows.column_files import row_groups, rows_files
from bucketlake.ops.rows.column_roll import ColumnRoller, newest_schema_of
from bucketlake.ops.rows.deletions import load_vectors, new_vector, write_vectors
from bucketlake.ops.rows.described import as_stored
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.units import compacted, split_of, vector_entries_of
from bucketlake.ops.scan.scan import chosen_entries
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.made import remove_files
from bucketlake.ops.table.messages import CommitMessage
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
    """Groups of one partition that are committed together: each of `bins` becomes one file. `indexes`: the index files
    with deletion vectors of their files."""

    partition: bytes
    bucket: int
    total_buckets: int
    bins: tuple[tuple[Group, ...], ...]
    snapshot_id: int
    indexes: tuple[IndexFile, ...] = ()

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files that go."""
        return tuple(file for groups in self.bins for group in groups for file in group)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.file_size for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows to read."""
        return sum(group[0].row_count for groups in self.bins for group in groups)


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


def column_units(
    store: Store,
    snapshot: Snapshot,
    vectors: Vectors,
    choose: Choose,
    partitions: PartitionFilter | None = None,
    only: frozenset[BucketKey] | None = None,
) -> list[ColumnUnit]:
    """What to write anew as of a snapshot, from metadata alone, largest first. Bins whose deletion vectors lie in one
    index file are one unit. `vectors`: of the snapshot."""
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
    units = []
    for key, files in found.items():
        holders, own = vectors.holders(key), {e.file.file_name: e.file for e in vectors.indexes.get(key, ())}
        chosen = choose([tuple(group) for group in row_groups(files)], holders)
        for together, names in _sharing(chosen, holders):
            indexes = tuple(own[name] for name in sorted(names))
            units.append(ColumnUnit(*key, totals[key], together, snapshot.id, indexes))
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


def compact_columns(store: Store, unit: ColumnUnit) -> list[CommitMessage]:
    """Merge the files of a unit; the message to commit. On an error nothing that it wrote stays."""
    store = newest_schema_of(store, unit.files)
    after: list[DataFile] = []
    try:
        for groups in unit.bins:
            after.append(_merged(store, unit, groups))
        vectors = _moved(store, unit, after)
    except BaseException:
        remove_files(store, unit.partition, unit.bucket, after)
        raise
    return [compacted(unit, after, vectors)]


def _merged(store: Store, unit: ColumnUnit, groups: Sequence[Group]) -> DataFile:
    """One file with all columns of the rows of groups, deleted ones too; blob files stay as they are."""
    files = [file for group in groups for file in group]
    roller = ColumnRoller(store, unit.partition, None, FileSource.COMPACT)
    try:
        split = split_of(store, unit, files, {}, raw=False)
        for batch in read_split(as_stored(store), split, store.schema.without_blobs.field_names):
            roller.write(batch)
        numbers = (min(f.min_sequence_number for f in files), max(f.max_sequence_number for f in files))
        first = files[0].first_row_id
        assert first is not None  # groups are made by it
        return roller.close(first, numbers)
    except BaseException:
        roller.abort()
        raise


def _moved(store: Store, unit: ColumnUnit, after: Sequence[DataFile]) -> list[IndexFile]:
    """The vectors of the unit's index files, those of its own rows as vectors of the new files."""
    if not unit.indexes:
        return []
    vectors = load_vectors(store, vector_entries_of(unit))
    for groups, file in zip(unit.bins, after, strict=True):
        assert file.first_row_id is not None
        parts = []
        for group in groups:
            found = vectors.pop(group[-1].file_name, None)
            for stale in group[:-1]:
                vectors.pop(stale.file_name, None)
            if found is not None and group[0].first_row_id is not None:
                parts.append(positions_of(found) + np.int64(group[0].first_row_id - file.first_row_id))
        if parts:
            vectors[file.file_name] = new_vector(store, np.concatenate(parts))
    return write_vectors(store, unit.partition, unit.bucket, vectors)


@dataclass(frozen=True)
class ColumnPlan(Compacting):
    """What a compaction of such a table does, as a job. `partitions`: of these only."""

    partitions: PartitionFilter | None = None
    work: Work = compact_columns

    def units(self, store: Store, base: Snapshot, only: frozenset[BucketKey] | None) -> list[ColumnUnit]:
        """See Plan."""
        rule = AppendRule.of(store.options)
        return column_units(
            store,
            base,
            Vectors.of(store, base),
            lambda groups, _: bins([tuple(rows_files(group)) for group in groups], rule),
            self.partitions,
            only,
        )
