"""A past with damaged files: the history, or what is kept of changes, begins behind them.

Nothing expires, and no orphan goes, while a file that says what is needed cannot be read. Where no copy of it is left,
all up to it is given up: names go oldest first, as in an expiry, the files that they alone led to become orphans.

    begin_behind(store, broken)                what a snapshot's file no longer tells, and all before it
    begin_changelogs_behind(store, broken)     the same of changelogs

Spec: docs/maintenance.md#repair
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from bucketlake.errors import CorruptError, NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.clean.removal import delete_name, take_names
from bucketlake.ops.commit.loads import before_expiry
from bucketlake.ops.commit.strays import unsettled
from bucketlake.ops.refs.rollback import is_damaged
from bucketlake.ops.table.publishing import write_hint
from bucketlake.ops.table.store import Store


def begin_behind(store: Store, broken: int) -> bool:
    """Let the history begin with the first snapshot behind a damaged one that can be read. False, and nothing done,
    where it can be read by now, or a rollback is under way.

    Errors: NotFoundError where none behind it can be read, StorageError; done again, it goes on.
    """
    if not is_damaged(store.find_snapshot, broken) or unsettled(store) is not None:
        return False
    ids = store.snapshot_ids()
    kept = next((number for number in ids if number > broken and _read(store.find_snapshot, number) is not None), None)
    if kept is None:
        raise NotFoundError(
            "no snapshot behind a damaged one can be read",
            path=store.paths.snapshot(broken),
            remedy="mend the newest one first (newest-broken), or restore one from a copy",
        )
    gone = [number for number in ids if number < kept]
    told = [one for number in gone if (one := _read(store.find_snapshot, number)) is not None]
    if told:
        before_expiry(store, told)
    held = [(number, data) for number in gone if (data := _stored(store, number)) is not None]
    if take_names(store, held, kept) < len(held) or not store.has_snapshot(kept):
        return False
    write_hint(store, store.paths.earliest_hint, kept)
    return True


def begin_changelogs_behind(store: Store, broken: int) -> bool:
    """Let what is kept of changes begin behind a changelog whose file is damaged. False, and nothing done, where it can
    be read by now. Errors: as `begin_behind`."""
    if not is_damaged(store.find_changelog, broken):
        return False
    ids = store.changelog_ids()
    for number in ids:
        if number <= broken:
            delete_name(store, store.paths.changelog(number))
    left = next((number for number in ids if number > broken), None)
    if left is not None:
        write_hint(store, store.paths.changelog_earliest_hint, left)
        return True
    for path in (store.paths.changelog_earliest_hint, store.paths.changelog_latest_hint):
        delete_name(store, path)
    return True


def _stored(store: Store, number: int) -> bytes | None:
    """What a snapshot's file holds, None where it has gone by now."""
    with suppress(NotFoundError):
        return store.env.storage.read(store.paths.snapshot(number))
    return None


def _read(find: Callable[[int], Snapshot | None], number: int) -> Snapshot | None:
    try:
        return find(number)
    except CorruptError:
        return None
