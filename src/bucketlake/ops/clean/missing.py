"""What is told to be there and is not: data files and manifests of the newest snapshot, and the oldest snapshot.

For tables that lost files to something else than this package. Rows of files that are gone are lost; this lets the
table be read again without them.

Spec: docs/spec/tags.md#repair
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.format.metadata.manifest import ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import deletion, entry_key, record_count
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass


def remove_missing_files(store: Store, dry_run: bool = False, threads: int | None = None) -> list[str]:
    """Take data files that are not there out of the newest snapshot; their paths. `dry_run`: only say which.

    Errors: those of a commit; ConflictError where a deletion vector speaks of one.
    """
    newest = store.latest_snapshot()
    if newest is None:
        return []
    entries = live_entries(store, newest)
    paths = [_path(store, entry) for entry in entries]
    there = parallel(lambda path: store.env.storage.info(path) is not None, paths, threads)
    gone = {entry_key(entry): path for entry, path, found in zip(entries, paths, there, strict=True) if not found}
    if gone and not dry_run:

        def plan(view: View) -> Changes:
            return Changes(tuple(deletion(entry) for entry in view.entries(None) if entry_key(entry) in gone))

        user = f"remove-unexisting-files-{store.env.clock.new_uuid()}"
        name = CommitName(0, user, BATCH_COMMIT_IDENTIFIER, CommitKind.OVERWRITE)
        Publisher(store).publish(Request(name, plan, mends=True))
    return sorted(gone.values())


def _path(store: Store, entry: ManifestEntry) -> str:
    return store.paths.file_path(store.paths.bucket_dir(entry.partition, entry.bucket), entry.file)


@dataclass(frozen=True)
class _Rest(Store):
    """A table whose newest snapshot tells of the manifests that are there alone."""

    def data_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """See Store: without those that are gone."""
        found = Store.data_manifests(self, snapshot)
        there = parallel(lambda one: self.env.storage.info(self.paths.manifest(one.file_name)) is not None, found)
        return tuple(one for one, is_there in zip(found, there, strict=True) if is_there)

    def latest_snapshot(self) -> Snapshot | None:
        """See Store: with as many rows as are told of."""
        newest = Store.latest_snapshot(self)
        if newest is None:
            return None
        return replace(newest, total_record_count=record_count(live_entries(self, newest)))


def remove_missing_manifests(store: Store) -> list[str]:
    """Take manifests that are not there out of the newest snapshot; their names. Files that they alone told of are lost
    with their rows; what they said to be deleted and another manifest adds is back, of which a warning tells.

    Errors: those of a commit; NotFoundError where a manifest list itself is gone.
    """
    rest = _Rest(store.env, store.paths, store.schema, store.options)
    newest = store.latest_snapshot()
    if newest is None:
        return []
    kept = {one.file_name for one in rest.data_manifests(newest)}
    gone = [one for one in store.data_manifests(newest) if one.file_name not in kept]
    if not gone:
        return []
    back = sum(one.num_deleted_files for one in gone)
    if back:
        warnings.warn(
            f"{store.paths.root}: lost manifests deleted {back} files: rows of those that are still told of are back",
            stacklevel=2,
        )
    name = CommitName(0, f"Repair-table-{store.env.clock.new_uuid()}", BATCH_COMMIT_IDENTIFIER, CommitKind.OVERWRITE)
    Publisher(rest).publish(Request(name, lambda view: Changes(), mends=True))
    return [one.file_name for one in gone]


def repair_earliest(store: Store, snapshot_id: int) -> int:
    """Let the history begin with a snapshot that follows a gap; the id that it began with. InvalidError, NotFoundError.

    Nothing is removed: what lies before the gap is passed over from then on.
    """
    ids = store.snapshot_ids()
    if not ids:
        raise NotFoundError("Cannot repair earliest snapshot for an empty table.", table=store.paths.root)
    hint = store.hint(store.paths.earliest_hint)
    previous, latest = hint if hint is not None and hint in ids else ids[0], ids[-1]
    if snapshot_id < previous:
        raise InvalidError(f"Snapshot {snapshot_id} must not be earlier than current earliest snapshot {previous}.")
    if snapshot_id > latest:
        raise InvalidError(f"Snapshot {snapshot_id} must not be later than latest snapshot {latest}.")
    missing = sorted(set(range(snapshot_id, latest + 1)) - set(ids))
    if missing:
        raise InvalidError(f"Snapshot {missing[0]} does not exist.", table=store.paths.root)
    if snapshot_id != previous and snapshot_id - 1 in ids:
        raise InvalidError(f"Snapshot {snapshot_id} does not immediately follow a snapshot gap.")
    store.env.storage.write(store.paths.earliest_hint, str(snapshot_id).encode())
    return previous
