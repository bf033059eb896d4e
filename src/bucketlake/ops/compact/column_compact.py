"""Compaction of tables whose columns lie in several files (`data-evolution.enabled`): files with columns of the same
rows, and groups that lie side by side in their row ids, become one file.

    compact_columns(store, unit)      the files of a unit as others
    ColumnPlan                        the job

Every row keeps its id, for it is counted; deleted rows stay in the file, and in the vector of the new one.

Spec: docs/spec/row_tracking.md#compacting-columns
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bucketlake.format.index.deletion_vector import positions_of
from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.compact.append_compact import AppendRule, Vectors
from bucketlake.ops.compact.blob_compact import with_blobs
from bucketlake.ops.compact.column_units import ColumnUnit, Group, bins, column_units, groups_in
from bucketlake.ops.compact.job import Compacting
from bucketlake.ops.compact.running import Work
from bucketlake.ops.rows.blob_merge import merge_blobs
from bucketlake.ops.rows.column_files import rows_files
from bucketlake.ops.rows.column_roll import ColumnRoller, newest_schema_of
from bucketlake.ops.rows.deletions import load_vectors, new_vector, write_vectors
from bucketlake.ops.rows.described import as_stored
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.units import compacted, split_of, vector_entries_of
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.made import all_or_nothing, remove_files
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass


def compact_columns(store: Store, unit: ColumnUnit) -> list[CommitMessage]:
    """Merge the files of a unit; the message to commit. On an error nothing that it wrote stays."""
    store = newest_schema_of(store, unit.files)
    after: list[DataFile] = []
    try:
        for groups in unit.bins:
            after.append(_merged(store, unit, groups))
        rows = tuple(after)
        for files in unit.blobs:
            after.append(merge_blobs(store, unit, files))
        vectors = _moved(store, unit, rows)
    except BaseException:
        remove_files(store, unit.partition, unit.bucket, after)
        raise
    return [compacted(unit, after, vectors)]


def _merged(store: Store, unit: ColumnUnit, groups: Sequence[Group]) -> DataFile:
    """One file with the columns of the rows of groups that lie in no blob files, deleted rows too."""
    files = [file for group in groups for file in group]
    roller = ColumnRoller(store, unit.partition, None, FileSource.COMPACT)
    with all_or_nothing([roller]):
        split = split_of(store, unit, files, {}, raw=False)
        for batch in read_split(as_stored(store), split, store.schema.without_blobs.field_names):
            roller.write(batch)
        numbers = (min(f.min_sequence_number for f in files), max(f.max_sequence_number for f in files))
        first = files[0].first_row_id
        assert first is not None  # groups are made by it
        return roller.close(first, numbers)


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
        rule, found = AppendRule.of(store.options), groups_in(store, base, self.partitions, only)
        units = column_units(
            found,
            Vectors.of(store, base),
            lambda groups, _: bins([tuple(rows_files(group)) for group in groups], rule),
        )
        return with_blobs(store, units, found) if store.options.get("blob-compaction.enabled") else units
