"""What is made of a snapshot, made anew where the snapshot expires under it: another writer may remove its files at any
time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bucketlake.errors import NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.table.store import Store

T = TypeVar("T")
ATTEMPTS = 8


def has_moved(store: Store, base: Snapshot | None) -> bool:
    """Whether the newest snapshot is not this one any more."""
    return _differ(store.latest_snapshot(), base)


def _differ(left: Snapshot | None, right: Snapshot | None) -> bool:
    ids = [None if one is None else (one.id, one.uuid) for one in (left, right)]
    return ids[0] != ids[1]


def on_newest(table: Store | Callable[[], Store], plan: Callable[[], T]) -> T:
    """What `plan` makes of the newest snapshot, which it looks up by itself; made anew where files vanish because the
    snapshot has expired meanwhile, a bounded number of times. NotFoundError for what is missing without that. `table`:
    its store, or what opens it, called where something is missing."""
    failed: Snapshot | None = None
    for number in range(ATTEMPTS):
        try:
            return plan()
        except NotFoundError as error:
            store = table if isinstance(table, Store) else table()
            newest = store.latest_snapshot()
            if number and not _differ(newest, failed):
                raise
            failed, lost = newest, error
    raise NotFoundError(
        "snapshots expire faster than they can be planned on",
        path=store.paths.root,
        attempts=ATTEMPTS,
        reason=str(lost),
        remedy="keep them for longer: snapshot.num-retained.min, snapshot.time-retained",
    ) from lost
