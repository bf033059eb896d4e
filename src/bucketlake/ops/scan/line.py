"""The commits between two snapshots, where each is certain to stand on the one before.

Ids that follow each other do not prove it: a writer that slept through a rollback may have put its snapshot above it,
and others another history into the gap below.

Spec: docs/conflicts.md#rollbacks
"""

from __future__ import annotations

from collections.abc import Iterable

from bucketlake.format.metadata.manifest import FileKind, ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.table.entries import fold
from bucketlake.ops.table.store import Store

Place = tuple[bytes, int, int, str]


def line(store: Store, after: int, newest: Snapshot) -> list[Snapshot] | None:
    """The snapshots above the id `after` (0: all) up to `newest`, ascending; None where these do not tell what has
    changed since: one of them has expired, or was not made on the one before it, the one with this id included."""
    before = store.find_snapshot(after) if after else None
    found: list[Snapshot] = []
    for number in range(after + 1, newest.id + 1):
        step = newest if number == newest.id else store.find_snapshot(number)
        if step is None or (before is not None and not follows(store, before, step)):
            return None
        found.append(step)
        before = step
    return found


def follows(store: Store, left: Snapshot, right: Snapshot) -> bool:
    """Whether `right` was made on `left`: it began with this one's manifests, or, where they were merged, with the same
    files."""
    if right.id != left.id + 1:
        return False
    theirs, ours = store.manifest_list(right.base_manifest_list), store.data_manifests(left)
    both = {manifest.file_name for manifest in theirs} & {manifest.file_name for manifest in ours}
    one, other = ([m for m in manifests if m.file_name not in both] for manifests in (theirs, ours))
    return (not one and not other) or _net(store, one) == _net(store, other)


def live_places(store: Store, manifests: Iterable[ManifestFile]) -> frozenset[Place]:
    """Where the live files of some manifests are."""
    return frozenset(place for kind, place in _net(store, manifests) if kind == FileKind.ADD)


def file_place(entry: ManifestEntry) -> Place:
    """Where a file is: partition, bucket, level and name."""
    return entry.partition, entry.bucket, entry.file.level, entry.file.file_name


def _net(store: Store, manifests: Iterable[ManifestFile]) -> frozenset[tuple[FileKind, Place]]:
    """What is left of manifests' entries where files that came and went are left out."""
    entries = fold(entry for part in store.manifests(list(manifests)) for entry in part)
    return frozenset((entry.kind, file_place(entry)) for entry in entries.values())
