"""Rows that deletion vectors name, gone for good from tables whose columns lie in several files
(`data-evolution.enabled`): what is left of their groups is written anew, and gets new ids.

    materialize(store, unit)     what is left of groups with deleted rows
    MaterializePlan              the job

A compaction of such a table keeps all ids, and so deleted rows; this one does not.

Spec: docs/spec/row_tracking.md#deleted-rows-for-good
"""

from __future__ import annotations

from collections.abc import Collection

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.compact.append_compact import AppendRule, Vectors
from bucketlake.ops.compact.column_compact import ColumnPlan
from bucketlake.ops.compact.column_units import Bins, ColumnUnit, Group, bins, column_units, groups_in
from bucketlake.ops.compact.running import Work
from bucketlake.ops.rows.column_files import anchor_of
from bucketlake.ops.rows.column_roll import newest_schema_of
from bucketlake.ops.rows.described import AS_DESCRIPTOR, as_stored
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.roll import NEW_FILES, Roller
from bucketlake.ops.rows.units import compacted, split_of, vector_entries_of, vectors_of_others
from bucketlake.ops.scan.splits import deletion_files
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.made import all_or_nothing
from bucketlake.ops.table.messages import CommitMessage
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


def materialize(store: Store, unit: ColumnUnit) -> list[CommitMessage]:
    """Write what is left of a unit's groups; the message to commit. On an error nothing that it wrote stays."""
    store = newest_schema_of(store, unit.files).with_options({AS_DESCRIPTOR: "false"})
    deletions = deletion_files(store, vector_entries_of(unit)).get((unit.partition, unit.bucket), {})
    rollers: list[Roller] = []
    after: list[DataFile] = []
    with all_or_nothing(rollers):
        for groups in unit.bins:
            rollers.append(Roller(store, unit.partition, unit.bucket, NEW_FILES))
            files = [file for group in groups for file in group]
            for batch in read_split(as_stored(store), split_of(store, unit, files, deletions, raw=False)):
                rollers[-1].write(batch)
            after += rollers[-1].close()
        vectors = vectors_of_others(store, unit)
    return [compacted(unit, after, vectors)]


@dataclass(frozen=True)
class MaterializePlan(ColumnPlan):
    """What it does, as a job: groups that have deleted rows, neighbours up to the size of a file together.
    `partitions`: of these only."""

    work: Work = materialize

    def units(self, store: Store, base: Snapshot, only: frozenset[BucketKey] | None) -> list[ColumnUnit]:
        """See Plan."""
        rule, vectors = AppendRule.of(store.options), Vectors.of(store, base)
        marked = frozenset(vectors.indexes)

        def with_deleted(groups: list[Group], holders: Collection[str]) -> Bins:
            return bins([group for group in groups if anchor_of(group).file_name in holders], rule, fewest=1)

        chosen = marked if only is None else marked & only
        return column_units(groups_in(store, base, self.partitions, chosen), vectors, with_deleted)
