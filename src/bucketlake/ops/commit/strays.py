"""Snapshots that stand in the past and belong to no history: strays.

The name of an expired snapshot is free again, so that a writer that slept through its base's expiry can still take the
next one. What it published is below the history, the run of ids without a gap that ends at the newest snapshot, or at
its beginning without anything standing on it. No reader of the newest snapshot sees it, and its files may be gone.

    standing(store, snapshot, delta)       does the history stand on this snapshot?
    stands_on(store, left, right)          whether it can be seen from the lists that it does
    strays(store, ids)                     ids below the history
    unsettled(store)                       where writers are about to take back what they put above a rollback
    remove_stray(store, snapshot)          take one's name away, if it is still that one
    take_back(store, snapshot)             the same by its own writer, with what others have made on it
    is_open(store)                         whether the table (or branch) that was opened is still in its place
    remove_from_gone(store, snapshot)      take what was put into the place of one that is not away

Spec: docs/spec/expiry.md#strays
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from itertools import pairwise

from bucketlake.errors import BucketlakeError, ConflictError, CorruptError, NotFoundError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.scan.line import file_place, live_places
from bucketlake.ops.scan.scan import EntryFilter
from bucketlake.ops.table.entries import fold
from bucketlake.ops.table.store import Store

_LOOKED_AT = 8  # pairs of snapshots below a gap
SETTLED = 3_600_000  # milliseconds after which nobody takes a snapshot back


class Standing(Enum):
    """What the history says of a snapshot: it holds it, it certainly does not, it cannot be told."""

    LIVES = 1
    STRAY = 2
    UNKNOWN = 3


def standing(store: Store, snapshot: Snapshot, delta: Sequence[ManifestEntry]) -> Standing:
    """Whether the history stands on a snapshot whose base is gone. `delta`: what it adds and deletes.

    Expiry takes the oldest first: where the snapshot is still there, so is everything of its history that followed it;
    where its base is gone and an older one of the history is not, the base was rolled back.
    Errors: NotFoundError where something vanishes meanwhile, StorageError, CorruptError.
    """
    ids = set(store.snapshot_ids())
    own = store.find_snapshot(snapshot.id)
    if own is None or own.uuid != snapshot.uuid:  # expired, too
        later = store.find_snapshot(min((number for number in ids if number > snapshot.id), default=0))
        known = set() if later is None else {manifest.file_name for manifest in store.data_manifests(later)}
        added = {manifest.file_name for manifest in store.manifest_list(snapshot.delta_manifest_list)}
        return Standing.LIVES if added and added <= known else Standing.UNKNOWN
    if _is_rolled_back(store, snapshot, ids):
        return Standing.STRAY
    if not any(number > snapshot.id for number in ids):
        return Standing.LIVES
    following = store.find_snapshot(snapshot.id + 1)
    if following is None:
        return Standing.STRAY if snapshot.id + 1 not in ids else Standing.UNKNOWN
    if stands_on(store, snapshot, following):
        return Standing.LIVES
    partitions = frozenset(entry.partition for entry in delta)
    wanted = EntryFilter(partitions=partitions)
    manifests = wanted.prune(store, store.manifest_list(following.base_manifest_list))
    base = fold(wanted.apply(store, (entry for part in store.manifests(manifests) for entry in part)))
    live = {file_place(entry) for entry in base.values() if entry.kind == FileKind.ADD}
    fits = all((file_place(entry) in live) == (entry.kind == FileKind.ADD) for entry in fold(delta).values())
    return Standing.LIVES if fits else Standing.STRAY


def _is_rolled_back(store: Store, snapshot: Snapshot, ids: set[int]) -> bool:
    """Whether the oldest snapshot of the history is older than a base that is gone.

    Strays are older than the hint. While an expiry is under way the hint is behind; then two snapshots below, one of
    which stands on the other, are history, too: what a stray stood on is gone.
    """
    hint = store.hint(store.paths.earliest_hint)
    if hint is not None and hint in ids:
        return hint < snapshot.id
    below = sorted((number for number in ids if number < snapshot.id), reverse=True)[: _LOOKED_AT + 1]
    for right, left in pairwise(below):
        pair = store.find_snapshot(left), store.find_snapshot(right)
        if pair[0] is not None and pair[1] is not None and _was_made_on(store, pair[0], pair[1]):
            return True
    return False


def _was_made_on(store: Store, left: Snapshot, right: Snapshot) -> bool:
    """As `stands_on`, where merging has hidden it, too: what lived after the one is what the other began with."""
    if right.id != left.id + 1:
        return False
    if stands_on(store, left, right):
        return True
    live = live_places(store, store.data_manifests(left))
    return bool(live) and live == live_places(store, store.manifest_list(right.base_manifest_list))


def stands_on(store: Store, left: Snapshot, right: Snapshot) -> bool:
    """Whether the manifests show that `right` was made on `left`; False where merging has hidden it."""
    if right.id != left.id + 1:
        return False
    named = {manifest.file_name for manifest in store.manifest_list(right.base_manifest_list)}
    added = store.manifest_list(left.delta_manifest_list) or store.manifest_list(left.base_manifest_list)
    return {manifest.file_name for manifest in added} <= named


def strays(ids: Iterable[int]) -> list[int]:
    """Of ascending ids of snapshots those below the history."""
    known = list(ids)
    for place in range(len(known) - 1, 0, -1):
        if known[place - 1] != known[place] - 1:
            return known[:place]
    return []


def unsettled(store: Store) -> int | None:
    """The first of the newest snapshots' ids where these stand above a gap that a rollback has just made, else None:
    writers that slept through it put them, and are about to take them back, so that the history is what lies below.
    After `SETTLED` they are history."""
    ids, hint = store.snapshot_ids(), store.hint(store.paths.earliest_hint)
    below = strays(ids)
    if hint is None or hint not in below:
        return None
    first = ids[len(below)]
    above = store.find_snapshot(first)
    settled = above is not None and above.time_millis <= store.env.clock.now_millis() - SETTLED
    return None if settled else first


def remove_stray(store: Store, snapshot: Snapshot) -> None:
    """Take the name away, unless another snapshot has it by now. Its files are orphans. Errors: StorageError."""
    found = _readable(store, snapshot.id)
    if found is not None and found.uuid == snapshot.uuid:
        store.env.storage.delete(store.paths.snapshot(snapshot.id))


def take_back(store: Store, snapshot: Snapshot) -> None:
    """As `remove_stray`, by its writer. So go, from below, young snapshots that others have made on it: they came while
    a rollback ran, and go with it. Errors: StorageError; called again, it goes on."""
    since = store.env.clock.now_millis() - SETTLED
    at: Snapshot | None = snapshot
    while at is not None:
        remove_stray(store, at)
        following = _readable(store, at.id + 1)
        young = following is not None and min(at.time_millis, following.time_millis) > since
        at = following if young and following is not None and _can_be_seen(store, at, following) else None
    hint = store.hint(store.paths.latest_hint)
    if hint is not None and hint >= snapshot.id and not store.has_snapshot(hint):
        store.env.storage.delete(store.paths.latest_hint)  # Apache Paimon goes by it


def _readable(store: Store, number: int) -> Snapshot | None:
    try:
        return store.find_snapshot(number)
    except CorruptError:
        return None


def _can_be_seen(store: Store, left: Snapshot, right: Snapshot) -> bool:
    """As `_was_made_on`; False where manifests are gone or damaged, too."""
    try:
        return _was_made_on(store, left, right)
    except (NotFoundError, CorruptError):
        return False


def is_open(store: Store) -> bool:
    """Whether the table, or branch, that was opened is still in its place: neither dropped nor renamed, nor another one
    of its name. Errors: StorageError, CorruptError."""
    try:
        store.check_same()
    except (NotFoundError, ConflictError):
        return False
    return True


def remove_from_gone(store: Store, snapshot: Snapshot) -> None:
    """Take a snapshot's name and its hints away from where a table or branch was, and the folders if nothing else is in
    them; best effort. Its files are orphans."""
    with suppress(BucketlakeError):
        remove_stray(store, snapshot)
    paths, storage = store.paths, store.env.storage
    for path in (paths.latest_hint, paths.earliest_hint):
        with suppress(BucketlakeError):
            storage.delete(path)
    for folder in (paths.snapshot(snapshot.id).rpartition("/")[0], paths.meta_root):
        with suppress(BucketlakeError):
            storage.delete_empty(folder)
