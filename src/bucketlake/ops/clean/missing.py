"""What is told to be there and is not: data files of the newest snapshot, and the oldest snapshot.

For tables that lost files to something else than this package. Rows of files that are gone are lost; this lets the
table be read again without them.

Spec: docs/spec/tags.md#repair
"""

from __future__ import annotations

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import deletion, entry_key
from bucketlake.ops.table.store import Store, parallel


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
        Publisher(store).publish(Request(name, plan))
    return sorted(gone.values())


def _path(store: Store, entry: ManifestEntry) -> str:
    return store.paths.file_path(store.paths.bucket_dir(entry.partition, entry.bucket), entry.file)


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
