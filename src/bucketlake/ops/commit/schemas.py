"""The schema that a snapshot is published under, and whether files of an older one may be committed under it.

Spec: docs/spec/commit.md#publishing
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.errors import ConflictError
from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.scan.key_types import check_added
from bucketlake.ops.table.store import Store
from bucketlake.schema.change import relaid
from bucketlake.schema.schema import TableSchema, is_replaced


def newest_for(store: Store, name: CommitName, entries: Sequence[ManifestEntry]) -> TableSchema:
    """The newest schema of the table, by which a commit's entries lie where they should. Raises: ConflictError."""
    newest = store.latest_schema()
    if newest.id == store.schema.id:
        return newest
    if is_replaced(store.schema, newest, strictly=True):
        raise ConflictError(
            "the table was replaced meanwhile",
            commit=name,
            schema=newest.id,
            remedy="open it again, and write anew",
        )
    changed = relaid(store.stored_schema(), newest)
    if changed is not None:
        raise ConflictError(
            "the table was altered meanwhile, and these files do not lie as it wants now",
            commit=name,
            schema=newest.id,
            changed=changed,
            remedy="open it again, and write anew",
        )
    check_added(store, newest, entries)
    return newest
