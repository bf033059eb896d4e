"""What commits and expiries tell those who listen (`bucketlake.events`); nothing is made where nobody does.

Spec: docs/events.md
"""

from __future__ import annotations

from bucketlake.events.bus import CommitFailed, Committed, CompactionCommitted, SnapshotsExpired, WriteCommitted, emit
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.table.changes import ROWS_STAY_PROPERTY, Changes
from bucketlake.ops.table.entries import entry_name, record_count
from bucketlake.ops.table.store import Store
from bucketlake.types.model import type_text


def tell_committed(store: Store, snapshot: Snapshot, changes: Changes, started: int, retries: int) -> None:
    """A snapshot was published by this very call. `started`: when its loop began, in epoch milliseconds."""
    emit(lambda: _committed(store, snapshot, changes, started, retries))


def tell_failed(store: Store, name: CommitName, error: Exception, started: int) -> None:
    """A commit raised instead of being published."""

    def failed() -> CommitFailed:
        now = store.env.clock.now_millis()
        kind, reason = name.kind.value, str(error)
        return CommitFailed(
            store.paths.root, store.branch_name, now, kind, name.user, type(error).__name__, reason, now - started
        )

    emit(failed)


def tell_expired(store: Store, snapshots: int, changelogs: int, files: int) -> None:
    """Snapshots, changelogs and files went."""
    if snapshots or changelogs:
        emit(
            lambda: SnapshotsExpired(
                store.paths.root, store.branch_name, store.env.clock.now_millis(), snapshots, changelogs, files
            )
        )


def _committed(store: Store, snapshot: Snapshot, changes: Changes, started: int, retries: int) -> Committed:
    stays = ROWS_STAY_PROPERTY in (snapshot.properties or {})
    kind = snapshot.commit_kind
    event: type[Committed] = CompactionCommitted if kind is CommitKind.COMPACT or stays else WriteCommitted
    if kind is CommitKind.ANALYZE:
        event = Committed
    added, removed = (_only(changes, one) for one in (FileKind.ADD, FileKind.DELETE))
    return event(
        table=store.paths.root,
        branch=store.branch_name,
        time_millis=snapshot.time_millis,
        snapshot_id=snapshot.id,
        uuid=snapshot.uuid,
        schema_id=snapshot.schema_id,
        kind=kind.value,
        operation=snapshot.operation,
        user=snapshot.commit_user,
        identifier=snapshot.commit_identifier,
        added_files=len(added),
        added_bytes=sum(entry.file.file_size for entry in added),
        added_rows=sum(entry.file.row_count for entry in added),
        removed_files=len(removed),
        removed_bytes=sum(entry.file.file_size for entry in removed),
        removed_rows=sum(entry.file.row_count for entry in removed),
        changelog_rows=record_count(changes.changelog),
        total_rows=snapshot.total_record_count,
        partitions=len(changes.partitions),
        watermark=snapshot.watermark,
        millis=max(0, snapshot.time_millis - started),
        retries=retries,
        columns=tuple((item.name, type_text(item.type)) for item in store.schema.fields),
    )


def _only(changes: Changes, kind: FileKind) -> list[ManifestEntry]:
    """The entries of a kind, but for files that only changed their level."""
    both = {entry_name(entry) for entry in changes.table if entry.kind != kind}
    return [entry for entry in changes.table if entry.kind == kind and entry_name(entry) not in both]
