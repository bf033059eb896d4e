"""Rows that wait for a compaction which tells their changes, and those that none tells any more, since ALTER gave the
table another changelog producer.

Spec: docs/spec/streaming.md#units
"""

from __future__ import annotations

from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.lsm.compaction import CompactionRule
from bucketlake.ops.scan.scan import base_entries, delta_entries
from bucketlake.ops.table.store import Store
from bucketlake.options.options import TableOptions
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import is_replaced

PRODUCER = "changelog-producer"


def waiting_below(options: TableOptions) -> int:
    """The level below which rows wait for the compaction that tells them."""
    producer = options.get(PRODUCER)
    if producer == "full-compaction":
        return CompactionRule.of(options).num_levels - 1
    return 1 if producer == "lookup" else 0


def _waits(options: TableOptions, entry: ManifestEntry) -> bool:
    if entry.bucket == POSTPONE_BUCKET:  # told as they come only where compaction tells nothing
        return bool(options.get(PRODUCER) != "none")
    return entry.file.level < waiting_below(options)


def left_untold(store: Store, snapshot: Snapshot) -> list[ManifestEntry]:
    """The files that waited before a snapshot, the first under another changelog producer, and do not under that: their
    rows are told with it, or never."""
    if not snapshot.schema_id or not store.schema.primary_keys or PRODUCER in store.dynamic_options():
        return []
    now = store.schema_of(snapshot.schema_id)
    earlier = store.find_changes(snapshot.id - 1)
    past = _past(store, snapshot, now) if earlier is None else store.schema_of(earlier.schema_id)
    if past is None or _alike(past, now) or is_replaced(past, now):
        return []
    was, options = past.table_options, now.table_options
    found = [entry for entry in base_entries(store, snapshot) if _waits(was, entry) and not _waits(options, entry)]
    if snapshot.commit_kind is not CommitKind.OVERWRITE or not found:
        return found
    gone = {entry.file.file_name for entry in delta_entries(store, snapshot) if entry.kind is FileKind.DELETE}
    return [entry for entry in found if entry.file.file_name not in gone]


def _past(store: Store, snapshot: Snapshot, now: TableSchema) -> TableSchema | None:
    """The schema of the snapshot before, which has expired, as its newest file says: where that snapshot was of a newer
    one and has no file of it, what is told once more is what the keys have still."""
    if all(_alike(store.schema_of(number), now) for number in store.schema_ids() if number < now.id):
        return None
    written = [entry.file.schema_id for entry in base_entries(store, snapshot)]
    return store.schema_of(max(written)) if written else None


def _alike(one: TableSchema, other: TableSchema) -> bool:
    return bool(one.table_options.get(PRODUCER) == other.table_options.get(PRODUCER))
