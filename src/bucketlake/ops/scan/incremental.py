"""Planning an incremental read, of what came between two snapshots: splits of changes, or of two states to compare.

    plan_read(store, scan) -> Plan          the plan of any batch read; one snapshot's is `ops.scan.scan.plan`
    difference(store, before, after)        the splits of what differs between two snapshots

Delta and changelog splits hold whole files whose rows count as they are, with their kinds, oldest first. Diff splits
hold two lists of files, those that only the newer and those that only the older snapshot has.

Spec: docs/spec/incremental.md
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.lsm.levels import file_ranges
from bucketlake.ops.rows.column_files import refuse_changes
from bucketlake.ops.scan.pruning import Pruner
from bucketlake.ops.scan.scan import (
    EntryFilter,
    Plan,
    Scan,
    changelog_entries,
    check_apart,
    delta_entries,
    entry_filter,
    keyed_entries,
    plan,
)
from bucketlake.ops.scan.select import Span, select_snapshot
from bucketlake.ops.scan.splits import Section, append_groups, as_told, deletion_files, overlapping, pack, split_of
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.known import of_one_before
from bucketlake.ops.table.messages import BucketVectors, Split
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

__all__ = ["difference", "plan_read", "rescaled"]


def plan_read(store: Store, scan: Scan | None = None) -> Plan:
    """What a batch read opens: one snapshot's files, or what the options say came between two.

    Errors: as `select_snapshot` and `plan`; NotFoundError for a snapshot within the span that has expired; InvalidError
    where a snapshot's delta takes files away, so that it does not tell what changed, or its rows are of the table that
    REPLACE TABLE put this one in the place of.
    Spec: docs/spec/incremental.md
    """
    scan = scan or Scan()
    selection = scan.selection or select_snapshot(store)
    if selection.span is None or selection.snapshot is None:
        return plan(store, replace(scan, selection=selection))
    refuse_changes(store.schema, "changes between snapshots")
    # Deltas and changelogs lie in level 0, which batch reads of some tables skip.
    wanted = replace(entry_filter(store, scan), min_level=0)
    pruner = Pruner(store, scan.where)
    if selection.span.before is not None:
        _require_same_buckets(store, selection.span)
        old, new = (_Side.of(store, s, wanted, pruner) for s in (selection.span.before, selection.snapshot))
        _require_same_table(store, new.snapshot, new.entries)
        if store.schema.primary_keys:  # else what went is no part of the answer
            _require_same_table(store, old.snapshot, old.entries)
        return _diff(store, old, new, pruner)
    return _changes(store, selection.snapshot, selection.span, wanted, pruner)


def _require_same_buckets(store: Store, span: Span) -> None:
    if span.rescaled and span.buckets is not None:
        raise InvalidError(
            f"The bucket number of two snapshots are different ({span.buckets[0]}, {span.buckets[1]}), which is not "
            "supported in incremental diff query.",
            table=store.paths.root,
            remedy="ask in SQL: paimon_incremental_query",
        )


def _require_same_table(store: Store, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> None:
    if entries and of_one_before(store, snapshot):
        raise InvalidError(
            "the table was replaced since: rows of the snapshot have none of its columns",
            table=store.paths.root,
            snapshot=snapshot.id,
            remedy="begin with a snapshot after REPLACE TABLE; VERSION AS OF reads those before, each by itself",
        )


# ---------------------------------------------------------------------------------------------- delta and changelog


def _changes(store: Store, end: Snapshot, span: Span, wanted: EntryFilter, pruner: Pruner) -> Plan:
    def of(snapshot_id: int) -> list[ManifestEntry]:
        return _told(store, store.snapshot(snapshot_id), span.mode, wanted)

    entries = [entry for found in parallel(of, range(span.start + 1, span.end + 1)) for entry in found]
    kept = pruner.by_value(pruner.by_key(entries))
    place = {id(entry): number for number, entry in enumerate(kept)}
    splits = []
    for group in _groups(store, kept):
        ordered = sorted(group, key=lambda entry: place[id(entry)])
        splits.append(replace(split_of(store, end.id, ordered, raw=True), changes=True))
    return Plan(end, tuple(kept), tuple(splits))


def _told(store: Store, snapshot: Snapshot, mode: str, wanted: EntryFilter) -> list[ManifestEntry]:
    """The files that tell a snapshot's changes, oldest first."""
    if mode == "changelog":
        tells, entries_of = snapshot.commit_kind is not CommitKind.OVERWRITE, changelog_entries
    else:
        tells, entries_of = snapshot.commit_kind is CommitKind.APPEND, delta_entries
    found = entries_of(store, snapshot, wanted, keyed=True) if tells else []
    gone = next((entry for entry in found if entry.kind is FileKind.DELETE), None)
    if gone is not None:
        raise InvalidError(
            "Delta or changelog should only have ADD files.",
            snapshot=snapshot.id,
            file=gone.file.file_name,
            remedy="use 'incremental-between-scan-mode' = 'diff'",
        )
    _require_same_table(store, snapshot, found)
    check_apart(store, snapshot, found)
    if not store.schema.primary_keys:
        return sorted(found, key=lambda entry: entry.file.min_sequence_number)
    return [entry for entries in _by_bucket(found).values() for entry in as_told(entries)]


def _groups(store: Store, entries: Sequence[ManifestEntry]) -> list[Section]:
    """The files of each split: all versions of a key in one."""
    buckets = _by_bucket(entries)
    if not store.schema.primary_keys:
        return [group for group, _ in append_groups(store, buckets.values())]
    key_range = file_ranges(store.schema)
    return [
        [entry for section in packed for entry in section]
        for found in buckets.values()
        for packed in pack(store, overlapping(found, key_range))
    ]


def _by_bucket(entries: Iterable[ManifestEntry]) -> dict[BucketKey, Section]:
    buckets: dict[BucketKey, Section] = {}
    for entry in entries:
        buckets.setdefault(bucket_key(entry), []).append(entry)
    return buckets


# ---------------------------------------------------------------------------------------------- diff


@dataclass(frozen=True, slots=True)
class _Side:
    """The files of one of two snapshots, and where their deletion vectors lie. `every`: those of no wanted key, too."""

    snapshot: Snapshot
    entries: list[ManifestEntry]
    vectors: BucketVectors
    every: list[ManifestEntry]

    @classmethod
    def of(cls, store: Store, snapshot: Snapshot, wanted: EntryFilter, pruner: Pruner) -> _Side:
        vectors = deletion_files(store, store.index_manifest(snapshot))
        every = keyed_entries(store, snapshot, wanted)
        return cls(snapshot, pruner.by_key(every), vectors, every)

    def without(self, other: _Side, *, by_vectors: bool) -> _Side:
        """Less the files that the other side has too; with `by_vectors`, with the same rows deleted."""
        known = {other._identity(entry, by_vectors) for entry in other.entries}
        kept = [entry for entry in self.entries if self._identity(entry, by_vectors) not in known]
        return replace(self, entries=kept)

    def gone(self, other: _Side) -> set[BucketKey]:
        """The buckets with files that the other side has not, whatever keys are wanted."""
        known = {other._identity(entry, True) for entry in other.every}
        return {bucket_key(entry) for entry in self.every if self._identity(entry, True) not in known}

    def _identity(self, entry: ManifestEntry, by_vectors: bool) -> Hashable:
        """A file at its place; an upgraded file is another."""
        vector = self.vectors.get(bucket_key(entry), {}).get(entry.file.file_name) if by_vectors else None
        return (bucket_key(entry), entry.total_buckets, entry.file.level, entry.file.file_name, vector)

    def split(self, store: Store, group: Section, raw: bool) -> Split:
        return split_of(store, self.snapshot.id, group, raw, self.vectors)


def difference(store: Store, before: Snapshot, after: Snapshot) -> tuple[Split, ...]:
    """How the rows of two snapshots differ. Unlike reads in mode diff it looks into files that both have, where their
    keys meet those of others: a key whose newest row went may have an older one there. Where a row may have gone to any
    bucket (`_moved`), all rows that were there, and all that are."""
    wanted, pruner = replace(entry_filter(store, Scan()), min_level=0), Pruner(store, None)
    old, new = (_Side.of(store, snapshot, wanted, pruner) for snapshot in (before, after))
    return _diff(store, old, new, pruner, told=True).splits


def rescaled(found: Iterable[tuple[bytes, int]]) -> set[bytes]:
    """The partitions that come with several numbers of buckets."""
    totals: dict[bytes, set[int]] = {}
    for partition, total in found:
        totals.setdefault(partition, set()).add(total)
    return {partition for partition, numbers in totals.items() if len(numbers) > 1}


def _has_overwrite(store: Store, before: Snapshot, after: Snapshot) -> bool:
    """Whether files may have gone without others that hold their rows, so that older versions in files that both
    snapshots have count again. What has expired in between is not known."""
    between = [number for number in store.snapshot_ids() if before.id < number <= after.id]
    return any(
        found is not None and found.commit_kind is CommitKind.OVERWRITE
        for found in parallel(store.find_snapshot, between)
    )


def _diff(store: Store, old: _Side, new: _Side, pruner: Pruner, *, told: bool = False) -> Plan:
    """`told`: files of both sides are read on both, where others of their section differ, as always in buckets of which
    files have gone while an overwrite lies in between; and where rows may have moved, old and new files are not
    compared, but are splits of their own."""
    keyed = bool(store.schema.primary_keys)
    # Rows that left a file by its deletion vector alone are a difference, which append tables do not tell.
    before, after = old.without(new, by_vectors=keyed), new.without(old, by_vectors=keyed)
    if not keyed:
        check_apart(store, new.snapshot, after.entries)
        entries = pruner.by_value(after.entries)
        groups = [group for group, _ in append_groups(store, _by_bucket(entries).values())]
        return Plan(new.snapshot, tuple(entries), tuple(after.split(store, group, raw=True) for group in groups))
    older = [replace(entry, file=replace(entry.file)) for entry in before.entries]  # both may have the very same
    gone = set() if told else old.gone(new)
    back = gone if gone and _has_overwrite(store, old.snapshot, new.snapshot) else set()
    is_old, is_new = ({id(entry) for entry in entries} for entries in (older, after.entries))
    shared = [entry for entry in new.entries if id(entry) not in is_new]
    both = [entry for entry in shared if told or bucket_key(entry) in back]
    assigns = told or _assigned_anew(store, old.snapshot, new.snapshot)
    moved = _moved(store, (*old.entries, *new.entries), (*older, *after.entries) if assigns else ())
    splits = []
    for group in _groups(store, [entry for entry in (*older, *both, *after.entries) if entry.partition not in moved]):
        ids = [id(entry) for entry in group]
        if is_old.isdisjoint(ids) and is_new.isdisjoint(ids):
            continue
        left, right = (side.split(store, group, raw=False) for side in (before, after))
        left = replace(left, files=tuple(f for f, one in zip(left.files, ids, strict=True) if one not in is_new))
        files = tuple(f for f, one in zip(right.files, ids, strict=True) if one not in is_old)
        splits.append(replace(right, files=files, before=left))
    sides = ((before, older), (after, after.entries))
    splits += (_in_turn if told else _over_buckets)(store, sides, shared, moved)
    return Plan(new.snapshot, (*older, *after.entries), tuple(splits))


_Changed = tuple[tuple[_Side, Section], tuple[_Side, Section]]
"""The older and the newer side, each with the entries that the other has not."""


def _in_turn(store: Store, sides: _Changed, both: Section, moved: set[bytes]) -> Iterator[Split]:
    """Of partitions in which rows have moved: all rows that were there as gone, then all that are."""
    (before, older), (after, newer) = sides
    places = {bucket_key(entry) for entry in (*older, *newer) if entry.partition in moved}
    stay = [entry for entry in both if bucket_key(entry) in places]
    for entries, gone in ((older, True), (newer, False)):
        for group in _groups(store, [*(entry for entry in entries if entry.partition in moved), *stay]):
            left, right = (side.split(store, group, raw=False) for side in (before, after))
            yield replace(right, files=(), before=left) if gone else replace(right, before=replace(left, files=()))


def _over_buckets(store: Store, sides: _Changed, both: Section, moved: set[bytes]) -> Iterator[Split]:
    """Of partitions in which rows have moved: splits that compare all buckets of a range of keys at once, with files
    that both sides have: a delete says nothing of its key where another bucket has the key."""
    key_range = file_ranges(store.schema)
    changed = {id(entry) for _, entries in sides for entry in entries}
    partitions: dict[bytes, Section] = {}
    for entry in (*sides[0][1], *both, *sides[1][1]):
        if entry.partition in moved:
            partitions.setdefault(entry.partition, []).append(entry)
    for found in partitions.values():
        wanted = [one for one in overlapping(found, key_range) if not changed.isdisjoint(map(id, one))]
        for packed in pack(store, wanted):
            group = [entry for section in packed for entry in section]
            old, new = (
                _of_buckets(store, side, group, {id(entry) for entry in other[1]})
                for (side, _), other in zip(sides, reversed(sides), strict=True)
            )
            yield replace(new, before=old)


def _of_buckets(store: Store, side: _Side, group: Section, others: set[int]) -> Split:
    """What one side has of a group, bucket by bucket."""
    own = _by_bucket(entry for entry in group if id(entry) not in others)
    parts = tuple(side.split(store, entries, raw=False) for entries in own.values())
    return replace(side.split(store, group[:1], raw=False), files=(), deletions={}, parts=parts)


def _assigned_anew(store: Store, before: Snapshot, after: Snapshot) -> bool:
    """Whether keys may have been given other buckets than they had: behind an overwrite, or where one may have been
    among snapshots that have expired; in cross-partition tables also by coming back from another partition."""
    mode = store.schema.bucket_mode
    if mode is not BucketMode.DYNAMIC:
        return mode is BucketMode.KEY_DYNAMIC
    known = sum(before.id < number <= after.id for number in store.snapshot_ids())
    return known < after.id - before.id or _has_overwrite(store, before, after)


def _moved(store: Store, entries: Iterable[ManifestEntry], changed: Iterable[ManifestEntry]) -> set[bytes]:
    """The partitions in which a key may have another bucket since: those that were rescaled, and where buckets are
    assigned, those in which several have changed."""
    found = rescaled((entry.partition, entry.total_buckets) for entry in entries)
    if store.schema.bucket_mode not in (BucketMode.DYNAMIC, BucketMode.KEY_DYNAMIC):
        return found
    places: dict[bytes, set[int]] = {}
    for entry in changed:
        places.setdefault(entry.partition, set()).add(entry.bucket)
    return found | {partition for partition, buckets in places.items() if len(buckets) > 1}
