"""Who is at work on a table: streaming queries by what they note before each batch, consumers, the newest commits."""

from __future__ import annotations

from bucketlake.errors import BucketlakeError
from bucketlake.format.guard import json_object
from bucketlake.ops.table.store import Store
from bucketlake.report.facts import Activity, StreamState
from bucketlake.report.history import consumers, cut, newest, stream_of

LOOKED_AT = 100  # snapshots
MOST_STREAMS = 100
NOTE_BYTES = 4_096
PREFIX = "stream-"


def activity(store: Store) -> Activity:
    """Streams and consumers of this branch as far as the table tells. Errors: StorageError, CorruptError."""
    snapshots, _ = newest(store, LOOKED_AT)
    last = snapshots[-1] if snapshots else None
    folder = store.paths.stream("x").rpartition("/")[0]
    notes = [info for info in store.env.storage.list(folder) if info.name.startswith(PREFIX) and not info.is_dir]
    notes.sort(key=lambda info: (-(info.modified_millis or 0), info.name))
    streams = []
    for info in notes[:MOST_STREAMS]:
        query = info.name.removeprefix(PREFIX)
        own = [one for one in snapshots if one.commit_user == query and stream_of(one) is not None]
        batch, done = _note(store, info.path)
        streams.append(
            StreamState(
                query=cut(query),
                batch=batch,
                done=done or (bool(own) and own[-1].commit_identifier == batch),
                snapshot=own[-1].id if own else None,
                time=own[-1].time_millis if own else info.modified_millis or None,
                commits=len(own),
                rows=sum(one.delta_record_count for one in own),
            )
        )
    now = store.env.clock.now_millis()
    return Activity(
        now=now,
        snapshot=None if last is None else last.id,
        time=None if last is None else last.time_millis,
        streams=streams,
        consumers=consumers(store),
        recent=sum(now - one.time_millis < 60_000 for one in snapshots),
        left_out=max(0, len(notes) - MOST_STREAMS),
    )


def _note(store: Store, path: str) -> tuple[int | None, bool]:
    """(the batch begun last, whether it is said to be done); nothing is known from a note that is damaged or gone."""
    try:
        found = json_object(store.env.storage.read(path, 0, NOTE_BYTES))
    except (BucketlakeError, ValueError, RecursionError):
        return None, False
    batch = found.get("batch")
    return (batch if isinstance(batch, int) and not isinstance(batch, bool) else None), found.get("done") is True
