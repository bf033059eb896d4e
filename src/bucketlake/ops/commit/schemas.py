"""The schema that a snapshot is published under, and whether files of an older one may be committed under it.

Spec: docs/spec/commit.md#publishing
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.errors import ConflictError, InvalidError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.changelog import settles
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.scan.key_types import check_added
from bucketlake.ops.scan.scan import EntryFilter, live_entries
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.store import Store
from bucketlake.options.merge import COMPUTING
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.option_changes import relaid
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.schema.versions import is_replaced

DECIDE_MERGES = ("changelog-producer", "deletion-vectors.enabled", "force-lookup")
"""Options that say whether compaction looks up what was before a row."""


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
    stored = store.stored_schema()
    changed = relaid(stored, newest)
    if changed is not None:
        raise ConflictError(
            "the table was altered meanwhile, and these files do not lie as it wants now",
            commit=name,
            schema=newest.id,
            changed=changed,
            remedy="open it again, and write anew",
        )
    compacted = any(one.kind is FileKind.ADD and one.file.level > 0 for one in entries)
    if compacted and merges_otherwise(stored, newest):
        raise ConflictError(
            "the table was altered meanwhile, and rows of compacted files are merged otherwise now",
            commit=name,
            schema=newest.id,
            remedy="open it again, and compact anew",
        )
    check_added(store, newest, entries)
    return newest


def merges_otherwise(past: TableSchema, current: TableSchema) -> bool:
    """Whether rows of several levels above 0 mean something else under another schema of a table: engines that compute
    count those of the lowest level alone where compaction looks up what was before, and where deletion vectors are
    switched on, every row there counts.

    Spec: docs/spec/changelog.md#settled-rows
    """
    if not current.primary_keys:
        return False
    before, after = past.table_options, current.table_options
    if after.get("deletion-vectors.enabled") and not before.get("deletion-vectors.enabled"):
        return True
    return after.get("merge-engine") in COMPUTING and settles(before) != settles(after)


def refuse_other_merges(
    store: Store, snapshot: Snapshot, schemas: tuple[TableSchema, TableSchema], remedy: str
) -> None:
    """InvalidError where a snapshot, of the first schema, has buckets with files in several levels above 0 whose rows
    the second would merge otherwise: what holds all that was before it once more with that, or in part only."""
    past, current = schemas
    if not merges_otherwise(past, current):
        return
    levels: dict[BucketKey, set[int]] = {}
    for entry in live_entries(store, snapshot):
        levels.setdefault(bucket_key(entry), set()).add(entry.file.level)
    if any(len(found - {0}) > 1 for found in levels.values()):
        changed = [key for key in DECIDE_MERGES if past.options.get(key) != current.options.get(key)]
        raise InvalidError(
            f"Cannot change '{', '.join(changed)}' where buckets have files in several levels: their rows would be "
            "merged otherwise than they were written.",
            table=store.paths.root,
            snapshot=snapshot.id,
            remedy=remedy,
        )


def refuse_leaving_pending(
    store: Store, snapshot: Snapshot, schemas: tuple[TableSchema, TableSchema], remedy: str
) -> None:
    """InvalidError where a snapshot, of the first schema, has pending rows, and the second is of another bucket mode,
    under which they would never be seen."""
    past, current = (schema.bucket_mode is BucketMode.POSTPONE for schema in schemas)
    if past and not current and live_entries(store, snapshot, EntryFilter(buckets=frozenset({POSTPONE_BUCKET}))):
        raise InvalidError(
            "Cannot change bucket while rows are pending in the postpone bucket.",
            table=store.paths.root,
            snapshot=snapshot.id,
            remedy=remedy,
        )
