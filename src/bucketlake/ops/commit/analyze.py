"""Publishing statistics: a file, and an ANALYZE snapshot that names it and changes no rows.

Spec: docs/spec/statistics.md
"""

from __future__ import annotations

from bucketlake.env.storage import Buffered
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.format.metadata.statistics import TableStatistics, decode_statistics, encode_statistics
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.outcome import Outcome, owned
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.store import Store


def commit_statistics(store: Store, commit_user: str, statistics: TableStatistics) -> Snapshot:
    """Publish statistics of a snapshot, which may be older than the newest: they say which one they were taken of.

    Errors: ConflictError where the table was replaced, CommitError, CommitUnknownError, StorageError; the file is
    removed again unless a snapshot may name it.
    """
    name = f"stat-{store.env.clock.new_uuid()}-0"
    path, storage = store.paths.statistics(name), store.env.storage
    outcome = Outcome()
    with owned(outcome, lambda: storage.delete(path)):
        storage.write(path, encode_statistics(statistics))
        if isinstance(storage, Buffered):
            storage.sync([], [path], store.paths.root)
        commit = CommitName(0, commit_user, BATCH_COMMIT_IDENTIFIER, CommitKind.ANALYZE)
        request = Request(commit, lambda view: Changes(), statistics=name)
        return Publisher(store).publish(request, outcome)


def statistics_of(store: Store, snapshot: Snapshot | None) -> TableStatistics | None:
    """The statistics that a snapshot names, None if it names none."""
    if snapshot is None or snapshot.statistics is None:
        return None
    path = store.paths.statistics(snapshot.statistics)
    return decode_statistics(store.env.storage.read(path), path)
