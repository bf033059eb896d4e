"""Compacting manifests: a snapshot of the same files, told by fewer manifests without deletions.

Spec: docs/spec/commit.md#merging-manifests
"""

from __future__ import annotations

from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.manifest_order import overlapping
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.store import Store

_ALWAYS = {"manifest.full-compaction-threshold-size": "0 b", "manifest.merge-min-count": "1"}


def compact_manifests(store: Store) -> Snapshot | None:
    """Rewrite the manifests of the newest snapshot as far as they are small, delete or are out of order; the COMPACT
    snapshot, under the schema of the one before, None where there is nothing to do. Writers go on; errors: those of a
    commit."""
    newest = store.latest_snapshot()
    if newest is None:
        return None
    target = store.options.get("manifest.target-file-size")
    manifests = store.data_manifests(newest)
    small = sum(manifest.file_size < target for manifest in manifests)
    deletes = any(manifest.num_deleted_files for manifest in manifests)
    if small <= 1 and not deletes and not overlapping(store, manifests):
        return None
    user = f"compact-manifest-{store.env.clock.new_uuid()}"
    name = CommitName(0, user, BATCH_COMMIT_IDENTIFIER, CommitKind.COMPACT)
    return Publisher(store.with_options(_ALWAYS)).publish(Request(name, lambda view: Changes(), keeps_schema=True))
