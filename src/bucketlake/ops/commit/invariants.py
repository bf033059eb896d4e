"""What holds of every snapshot: asked before it is published, of the one place where that is done.

Spec: docs/spec/commit.md#invariants
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.errors import CorruptError
from bucketlake.format.metadata.manifest import SEQUENCE, FileKind, ManifestFile
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot, unreadable
from bucketlake.format.row.layout import ARITY_BYTES
from bucketlake.ops.commit.manifests import WrittenList
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.store import FIRST_SNAPSHOT_ID, Store

SHOWN = 10  # files that an error names


def check_invariants(
    store: Store,
    base: Snapshot | None,
    snapshot: Snapshot,
    base_list: WrittenList,
    delta: WrittenList,
    changes: Changes,
) -> None:
    """Raise CorruptError if a snapshot about to be published contradicts itself or its base, or the schema its base.

    Spec: docs/spec/commit.md#invariants
    """
    added = sum(1 for entry in changes.table if entry.kind == FileKind.ADD)
    old = () if base is None else store.data_manifests(base)
    _check_partitions(store, base_list.manifests)
    failures = {
        "ids are contiguous": snapshot.id != (base.id + 1 if base else FIRST_SNAPSHOT_ID),
        "total = base + delta": snapshot.total_record_count
        != (base.total_record_count if base else 0) + snapshot.delta_record_count,
        "delta manifests hold the delta": (added, len(changes.table) - added)
        != (sum(m.num_added_files for m in delta.manifests), sum(m.num_deleted_files for m in delta.manifests)),
        "merging keeps the files": _net(base_list.manifests) != _net(old),
        "sequence numbers are in range": any(e.file.max_sequence_number > SEQUENCE[1] for e in changes.table),
        "an append deletes nothing": snapshot.commit_kind is CommitKind.APPEND and added != len(changes.table),
        "the watermark never falls": bool(base and base.watermark is not None)
        and (snapshot.watermark is None or base is None or snapshot.watermark < (base.watermark or 0)),
    }
    broken = [rule for rule, failed in failures.items() if failed] + [f"{n} is in range" for n in unreadable(snapshot)]
    if broken:
        raise CorruptError(
            "refused to publish a contradictory snapshot",
            table=store.paths.root,
            snapshot=snapshot.id,
            broken=broken,
            base=None if base is None else store.paths.snapshot(base.id),
            files=[e.file.file_name for e in changes.table if e.file.max_sequence_number > SEQUENCE[1]][:SHOWN],
            remedy="CALL sys.fsck tells what is wrong with the base, on which the numbers stand",
        )


def _check_partitions(store: Store, base: Sequence[ManifestFile]) -> None:
    """Raise CorruptError where the base's files have other partition columns than the schema has: it has lost some, or
    got them, and nobody could read what both say."""
    expected = len(store.schema.partition_keys)
    for manifest in base:
        found = int.from_bytes(manifest.partition_stats.min_values[:ARITY_BYTES], "big")
        if found not in (0, expected):  # 0 where a writer keeps no bounds
            raise CorruptError(
                "the table's files have another number of partition columns than its schema",
                path=store.paths.schema(store.schema.id),
                found=found,
                partition_keys=list(store.schema.partition_keys),
                remedy="restore the schema's file; nobody can change the partition columns of a table that has rows",
            )


def _net(manifests: Sequence[ManifestFile]) -> int:
    return sum(m.num_added_files - m.num_deleted_files for m in manifests)
