"""What a snapshot holds or changed, as units of which a batch of a stream takes some: in an order that follows from the
snapshot alone, whatever options, conditions and split sizes the reader has now.

Spec: docs/spec/streaming.md#units
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bucketlake.errors import ConflictError, NotFoundError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.lsm.levels import key_range_of
from bucketlake.ops.buckets.postpone import ordered_by_partition
from bucketlake.ops.rows.column_files import refuse_changes
from bucketlake.ops.scan.incremental import difference, rescaled
from bucketlake.ops.scan.pruning import Pruner
from bucketlake.ops.scan.scan import (
    EntryFilter,
    Scan,
    changelog_entries,
    check_apart,
    delta_entries,
    entry_filter,
    live_entries,
    plan,
)
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.scan.splits import age, as_told, overlapping, split_of
from bucketlake.ops.stream.untold import PRODUCER, left_untold, waiting_below
from bucketlake.ops.table.entries import by_bucket
from bucketlake.ops.table.known import of_one_before
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

FINEST = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
"""With these no two sections or files are packed into one split."""
SHARED = {"source.split.target-size": "128 mb", "source.split.open-file-cost": "1 b"}
"""For pending rows: each split of a partition that has some reads those of other buckets, too."""
_PENDING = "postpone.merge-on-read"
_PENDING_TOO: dict[str, str | None] = {**SHARED, "scan.mode": None, _PENDING: "true", "bucket": str(POSTPONE_BUCKET)}
_WAITING = frozenset({POSTPONE_BUCKET})
MAY_WAIT = (BucketMode.FIXED, BucketMode.POSTPONE)
"""What tables with pending rows are, or were before ALTER."""
IGNORE_EXPIRED = "read.stream.ignore-expired"
NO_MORE = "start anew, from what is there, under another checkpoint"


@dataclass(frozen=True, slots=True)
class Follow:
    """Which snapshots tell changes, and by which files."""

    changelog: bool  # by changelog files, else by the files that appends added
    overwrites: bool = False  # overwrites tell what they took away and put in its place
    appended: bool = False  # overwrites of append tables tell what they added

    @classmethod
    def of(cls, store: Store) -> Follow:
        """What a table's options say."""
        options, keyed = store.options, bool(store.schema.primary_keys)
        overwrites = bool(options.get("streaming-read-overwrite"))
        appended = bool(options.get("streaming-read-append-overwrite"))
        return cls(options.get(PRODUCER) != "none", overwrites and keyed, appended and not keyed)


def held(store: Store, selection: Selection) -> list[Split]:
    """The units of all rows of one snapshot that no later snapshot tells: what waits for the compaction that tells its
    changes is left out, and what was told as it was appended is not, whatever batch reads see of it."""
    refuse_changes(store.schema, "streams")
    producer = store.options.get(PRODUCER)
    options: dict[str, str | None] = {**FINEST, "scan.mode": None, _PENDING: "false"}
    # By what the snapshot has: ALTER may have given the table other buckets since the stream began in it.
    if producer == "none" and _has_pending(store, selection.snapshot):
        options = _PENDING_TOO
    least = waiting_below(store.options) if store.schema.primary_keys else None
    scan = Scan(selection=selection, min_level=least)
    return sorted(plan(store.with_options(options), scan).splits, key=_place)


def changed(store: Store, snapshot: Snapshot, follow: Follow) -> list[Split]:
    """The units of what a snapshot changed, in each bucket in the order in which it came; first of what nothing else
    tells, since ALTER gave the table another changelog producer."""
    refuse_changes(store.schema, "streams")
    return [*_units(store, snapshot, left_untold(store, snapshot)), *_changed(store, snapshot, follow)]


def _changed(store: Store, snapshot: Snapshot, follow: Follow) -> list[Split]:
    follow = _as_committed(store, snapshot, follow)
    told = snapshot.commit_kind is CommitKind.OVERWRITE and follow.overwrites
    before = _before_overwrite(store, snapshot) if told else None
    if before is not None:
        _check_same_table(store, before)
        pending = None if follow.changelog else _replaced_pending(store, before, snapshot)
        replaced = difference(store.with_options(FINEST), before, snapshot) if pending is None else pending
        units = sorted(replaced, key=_place)
        # Where a row's old bucket may come after its new one, what is gone comes first.
        apart = assigns(store) or pending is not None
        moved = {unit.partition for unit in units} if apart else rescaled_in(units)
        return sorted(units, key=lambda unit: (unit.partition, unit.partition in moved and bool(unit.files)))
    # The first snapshot of all took nothing away, nor does one of which that is not known: what it added is told.
    found = _told(store, snapshot, Follow(changelog=False, appended=True) if told else follow)
    wanted = replace(entry_filter(store, Scan()), min_level=0, level=None)
    if not follow.changelog:
        wanted = replace(wanted, min_bucket=None)  # pending rows are told as they come: their compaction tells nothing
    kept = wanted.apply(store, found)
    return _units(store, snapshot, kept)


def _before_overwrite(store: Store, snapshot: Snapshot) -> Snapshot | None:
    """The snapshot that tells what an overwrite took away; None where there was none, or the reader does without.
    NotFoundError."""
    before = store.find_snapshot(snapshot.id - 1) if snapshot.id > 1 else None
    if before is None and snapshot.id > 1 and not store.options.get(IGNORE_EXPIRED):
        raise NotFoundError(
            "the snapshot before an overwrite has expired: the stream cannot tell what went",
            table=store.paths.root,
            overwrite=snapshot.id,
            remedy=f"set '{IGNORE_EXPIRED}' = 'true' to be told what came alone, or {NO_MORE}; "
            "a 'consumer-id' keeps what a stream needs",
        )
    return before


def _units(store: Store, snapshot: Snapshot, kept: Sequence[ManifestEntry]) -> list[Split]:
    """The units of files whose rows a snapshot tells."""
    if kept:
        _check_same_table(store, snapshot)
        check_apart(store, snapshot, kept)
    waiting = [entry for entry in kept if entry.bucket == POSTPONE_BUCKET]
    real = [entry for entry in kept if entry.bucket != POSTPONE_BUCKET]
    groups = [*_groups(store, real), *_pending_groups(store, snapshot, waiting)]  # pending rows lie above all others
    return [split_of_changes(store, snapshot, group) for group in groups]


def _as_committed(store: Store, snapshot: Snapshot, follow: Follow) -> Follow:
    """How a snapshot tells its changes, which the table's changelog producer was asked when it was committed: by ALTER
    it may have another one since. What a reader sets of its own stays."""
    if snapshot.schema_id == store.schema.id:
        return follow
    changelog = store.schema_of(snapshot.schema_id).table_options.get(PRODUCER) != "none"
    if changelog == follow.changelog or PRODUCER in store.dynamic_options():
        return follow
    return replace(follow, changelog=changelog)


def _check_same_table(store: Store, snapshot: Snapshot) -> None:
    """Raise ConflictError where REPLACE TABLE came between a snapshot and the schema that it is read under."""
    if not of_one_before(store, snapshot):
        return
    raise ConflictError(
        "the table was replaced since the stream was here: the snapshot's rows are of the one before",
        table=store.paths.root,
        snapshot=snapshot.id,
        remedy=NO_MORE,
    )


def _replaced_pending(store: Store, before: Snapshot, after: Snapshot) -> list[Split] | None:
    """Of an overwrite in whose partitions rows are pending, which were told as they came and lie above those of real
    buckets: all rows that the partitions had, and all that they have. None where no rows are pending."""
    places = frozenset(entry.partition for entry in delta_entries(store, after))
    if not any(_has_pending(store, one, places) for one in (before, after)):
        return None
    reading = store.with_options(_PENDING_TOO)
    scans = (Scan(selection=Selection(one), min_level=0) for one in (before, after))
    gone, came = ([split for split in plan(reading, scan).splits if split.partition in places] for scan in scans)
    return [*(replace(split, files=(), parts=(), before=split) for split in gone), *came]


def _has_pending(store: Store, snapshot: Snapshot | None, partitions: frozenset[bytes] | None = None) -> bool:
    """Whether rows of a snapshot wait for their buckets, whatever buckets the table has by now."""
    if snapshot is None or store.schema.bucket_mode not in MAY_WAIT:
        return False
    return bool(live_entries(store, snapshot, EntryFilter(partitions=partitions, buckets=_WAITING)))


def assigns(store: Store) -> bool:
    """Whether a key's bucket is looked up rather than computed: once it is gone, it may come back in another one."""
    return store.schema.bucket_mode in (BucketMode.DYNAMIC, BucketMode.KEY_DYNAMIC)


def rescaled_in(units: Iterable[Split]) -> set[bytes]:
    """Partitions with units from before and after a rescale: a key's are in two buckets."""
    return rescaled((unit.partition, unit.total_buckets) for unit in units if unit.bucket >= 0)


def split_of_changes(store: Store, snapshot: Snapshot, group: Sequence[ManifestEntry]) -> Split:
    """One unit of changes."""
    return replace(split_of(store, snapshot.id, list(group), raw=True), changes=True)


def pruned(store: Store, units: Iterable[Split], where: Predicate | None) -> list[Split]:
    """Those of the units that may hold matching rows."""
    if where is None:
        return list(units)
    wanted = replace(entry_filter(store, Scan(where)), min_level=0, level=None, min_bucket=None)
    pruner, keyed = Pruner(store, where), bool(store.schema.primary_keys)

    def may_hold(unit: Split) -> bool:
        if unit.before is not None or unit.parts:
            return True
        entries = wanted.apply(store, _entries(unit))
        return bool(pruner.by_key(entries) if keyed else pruner.by_value(entries))

    return [unit for unit in units if may_hold(unit)]


def _entries(unit: Split) -> list[ManifestEntry]:
    return [ManifestEntry(FileKind.ADD, unit.partition, unit.bucket, unit.total_buckets, file) for file in unit.files]


def _place(unit: Split) -> tuple[object, ...]:
    files = unit.files or (unit.before.files if unit.before is not None else ())
    return (unit.partition, unit.bucket, *min(map(age, files), default=()))


def _told(store: Store, snapshot: Snapshot, follow: Follow) -> list[ManifestEntry]:
    """The files that tell a snapshot's changes."""
    if follow.changelog:
        return changelog_entries(store, snapshot) if snapshot.commit_kind is not CommitKind.OVERWRITE else []
    if snapshot.commit_kind not in (CommitKind.APPEND, CommitKind.OVERWRITE):
        return []
    found = delta_entries(store, snapshot)
    # Changed rows of an append table are files written anew: an overwrite in all but its name.
    overwrites = snapshot.commit_kind is CommitKind.OVERWRITE or any(e.kind is FileKind.DELETE for e in found)
    return [e for e in found if e.kind is FileKind.ADD] if follow.appended or not overwrites else []


def _pending_groups(store: Store, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> list[list[ManifestEntry]]:
    """Pending files, in the order in which they apply: those of a partition in one unit, as any key may be in each."""
    by_name = {(entry.partition, entry.file.file_name): entry for entry in entries}
    ordered = ordered_by_partition(store, snapshot, entries)
    return [[by_name[place, file.file_name] for file in ordered[place]] for place in sorted(ordered)]


def _groups(store: Store, entries: Iterable[ManifestEntry]) -> list[list[ManifestEntry]]:
    """The files of each unit: all versions of a key in one; bucket by bucket, oldest first."""
    buckets = by_bucket(sorted(entries, key=lambda e: (e.partition, e.bucket)))
    if not store.schema.primary_keys:
        return [[entry] for found in buckets.values() for entry in sorted(found, key=lambda e: age(e.file))]
    key_range = key_range_of(store.schema.key_fields)
    groups = []
    for found in buckets.values():
        place = {id(entry): number for number, entry in enumerate(as_told(found))}
        sections = [sorted(section, key=lambda e: place[id(e)]) for section in overlapping(found, key_range)]
        groups += sorted(sections, key=lambda section: place[id(section[0])])
    return groups
