"""Rows that deletion vectors name, gone for good from tables whose columns lie in several files
(`data-evolution.enabled`): what is left of their groups is written anew, and gets new ids.

    plan_deleted(store, snapshot)     units of a snapshot: groups with deleted rows
    MaterializePlan                   the job

A compaction of such a table keeps all ids, and so deleted rows; this one does not.

Spec: docs/spec/row_tracking.md#deleted-rows-for-good
"""

from __future__ import annotations

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileKind
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.compact.append_compact import AppendRule, Vectors
from bucketlake.ops.compact.column_compact import ColumnPlan, ColumnUnit, bins, sharing
from bucketlake.ops.compact.running import Work
from bucketlake.ops.rows.blob_files import AS_DESCRIPTOR
from bucketlake.ops.rows.column_files import anchor_of, row_groups
from bucketlake.ops.rows.column_roll import newest_schema_of
from bucketlake.ops.rows.deletions import load_vectors, write_vectors
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.roll import NEW_FILES, Roller
from bucketlake.ops.scan.scan import chosen_entries
from bucketlake.ops.scan.splits import deletion_files
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.messages import CommitMessage, Split
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass


def refuse_materializing(store: Store) -> None:
    """InvalidError, in Paimon's words, where a table has no such rows."""
    schema = store.schema
    if schema.bucket_mode is not BucketMode.UNAWARE or not schema.data_evolution:
        raise InvalidError(
            "Materializing deletion vectors only supports unaware-bucket data evolution tables.",
            table=store.paths.root,
            remedy="CALL sys.compact removes deleted rows of other tables",
        )
    if not store.options.get("deletion-vectors.enabled"):
        raise InvalidError(
            "Materializing deletion vectors requires deletion vectors to be enabled.", table=store.paths.root
        )


def plan_deleted(
    store: Store,
    snapshot: Snapshot,
    partitions: PartitionFilter | None = None,
    only: frozenset[BucketKey] | None = None,
) -> list[ColumnUnit]:
    """The groups of a snapshot that have deleted rows, neighbours up to the size of a file together, largest first.
    Those whose deletion vectors lie in one index file are one unit.

    Raises UnsupportedError where an engine has built a global index: it finds rows by their ids.
    """
    refuse_global_indexes(store, snapshot)
    vectors, rule = Vectors.of(store, snapshot), AppendRule.of(store.options)
    found: dict[BucketKey, list[DataFile]] = {}
    for entry in chosen_entries(
        store,
        snapshot,
        lambda entry: (
            bucket_key(entry) in vectors.indexes
            and (only is None or bucket_key(entry) in only)
            and (partitions is None or partitions(entry.partition))
        ),
    ):
        found.setdefault(bucket_key(entry), []).append(entry.file)
    units = []
    for key, files in found.items():
        holders, own = vectors.holders(key), {e.file.file_name: e.file for e in vectors.indexes[key]}
        groups = [tuple(group) for group in row_groups(files) if anchor_of(group).file_name in holders]
        for together, names in sharing(bins(groups, rule, fewest=1), holders):
            indexes = tuple(own[name] for name in sorted(names))
            units.append(ColumnUnit(*key, -1, together, snapshot.id, indexes))
    return sorted(units, key=lambda unit: unit.size, reverse=True)


def refuse_global_indexes(store: Store, snapshot: Snapshot) -> None:
    """UnsupportedError where others have built a global index: it finds rows by ids that would be others'."""
    known = next((e.file for e in store.index_manifest(snapshot) if e.file.global_index is not None), None)
    if known is not None:
        raise UnsupportedError(
            "new row ids in a table with a global index, which finds rows by the old ones",
            table=store.paths.root,
            index=known.file_name,
            remedy="drop the index with the engine that built it",
        )


def materialize(store: Store, unit: ColumnUnit) -> list[CommitMessage]:
    """Write what is left of a unit's groups; the message to commit. On an error nothing that it wrote stays."""
    store = newest_schema_of(store, unit.files).with_options({AS_DESCRIPTOR: "false"})
    rollers: list[Roller] = []
    after: list[DataFile] = []
    try:
        for groups in unit.bins:
            rollers.append(Roller(store, unit.partition, unit.bucket, NEW_FILES))
            for batch in read_split(store, _left(store, unit, [file for group in groups for file in group])):
                rollers[-1].write(batch)
            after += rollers[-1].close()
        vectors = _others(store, unit)
    except BaseException:
        for roller in rollers:
            roller.abort()
        raise
    message = CommitMessage(
        unit.partition,
        unit.bucket,
        unit.total_buckets,
        compact_before=unit.files,
        compact_after=tuple(after),
        compact_new_index_files=tuple(vectors),
        compact_deleted_index_files=unit.indexes,
    )
    return [message]


def _left(store: Store, unit: ColumnUnit, files: list[DataFile]) -> Split:
    entries = [IndexEntry(FileKind.ADD, unit.partition, unit.bucket, file) for file in unit.indexes]
    names = {file.file_name for file in files}
    places = deletion_files(store, entries).get((unit.partition, unit.bucket), {})
    return Split(
        snapshot_id=unit.snapshot_id,
        partition=unit.partition,
        bucket=unit.bucket,
        total_buckets=unit.total_buckets,
        bucket_path=store.paths.bucket_dir(unit.partition, unit.bucket),
        files=tuple(files),
        raw=False,
        deletions={name: place for name, place in places.items() if name in names},
    )


def _others(store: Store, unit: ColumnUnit) -> list[IndexFile]:
    """The vectors of the unit's index files that are of other groups."""
    gone = {file.file_name for file in unit.files}
    entries = [IndexEntry(FileKind.ADD, unit.partition, unit.bucket, file) for file in unit.indexes]
    kept = {name: vector for name, vector in load_vectors(store, entries).items() if name not in gone}
    return write_vectors(store, unit.partition, unit.bucket, kept)


@dataclass(frozen=True)
class MaterializePlan(ColumnPlan):
    """What it does, as a job. `partitions`: of these only."""

    work: Work = materialize

    def units(self, store: Store, base: Snapshot, only: frozenset[BucketKey] | None) -> list[ColumnUnit]:
        """See Plan."""
        return plan_deleted(store, base, self.partitions, only)
