"""One COMPACT snapshot of several independent compactions: those that others came before are left out of it.

    publish_standing(store, user, groups, outcome) -> Partly(snapshot, lost, reason)

The groups are looked at again on every base that the commit is tried on, all together first, and each by itself only
where they cannot stand together: one that lost takes no other with it.

Spec: docs/spec/maintenance.md#commits
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import accumulate

from bucketlake.errors import ConflictError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.lsm.levels import file_ranges
from bucketlake.ops.commit.conflicts import Base, CommitName, Rules, check, name_of, row_range
from bucketlake.ops.commit.outcome import Outcome
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes, changes_of, compact_changes
from bucketlake.ops.table.entries import bucket_key, entry_name
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Partly:
    """What became of groups: the snapshot, None where none of them stood, the places of those left out, and why."""

    snapshot: Snapshot | None
    lost: tuple[int, ...] = ()
    reason: ConflictError | None = None


class _Nothing(Exception):
    """No group stands; nothing is written."""


@dataclass(slots=True)
class _Standing:
    """Plans the groups that stand on a base."""

    store: Store
    rules: Rules
    name: CommitName
    groups: Sequence[Changes]
    lost: set[int] = field(default_factory=set)
    reason: ConflictError | None = None

    def plan(self, view: View) -> Changes:
        """Those that stand; _Nothing where none does."""
        self.lost, self.reason = set(), None
        whole = changes_of(self.groups)
        base = self._base(view, whole)
        try:
            check(self.rules, base, self.name, whole.table, whole.indexes)
            return self._without_stale(view, whole)
        except ConflictError as error:
            self.reason = error
        entries = _Places(() if base is None else base.entries, self.rules.column_files)
        for place, group in enumerate(self.groups):
            own = None if base is None else replace(base, entries=entries.of(group))
            try:
                check(self.rules, own, self.name, group.table, group.indexes)
            except ConflictError as error:
                self.lost.add(place)
                self.reason = error
        kept = [group for place, group in enumerate(self.groups) if place not in self.lost]
        if not kept:
            raise _Nothing
        return self._without_stale(view, changes_of(kept))

    def _without_stale(self, view: View, changes: Changes) -> Changes:
        """With the global indexes gone, whoever built them meanwhile, of partitions whose rows get new ids: they find
        rows by the old ones."""
        moved = _renumbered(changes) if self.rules.column_files else frozenset()
        stale = [e for e in view.indexes if e.partition in moved and e.file.global_index is not None] if moved else []
        gone = tuple(replace(entry, kind=FileKind.DELETE) for entry in stale)
        return replace(changes, indexes=(*changes.indexes, *gone))

    def _base(self, view: View, changes: Changes) -> Base | None:
        newest = view.snapshot
        if newest is None:
            return None
        return Base(name_of(newest), view.entries(changes.partitions), view.indexes)


def _renumbered(changes: Changes) -> frozenset[bytes]:
    """The partitions with files that go whose rows get new ids, or none that stays."""
    rows = [entry for entry in changes.table if not is_blob(entry.file.file_name)]
    gone = {entry.partition for entry in rows if entry.kind == FileKind.DELETE}
    come = [entry for entry in rows if entry.kind == FileKind.ADD]
    new = {entry.partition for entry in come if row_range(entry.file) is None}
    return frozenset(gone & new | gone - {entry.partition for entry in come})


class _Places:
    """The live files that may speak against a group: those of its buckets that it takes away or marks, all of them
    where levels must not overlap, those with its rows where columns lie in several files, and one that tells the
    partition's number of buckets."""

    def __init__(self, entries: Sequence[ManifestEntry], column_files: bool) -> None:
        ranged = [(*span, entry) for entry in entries if column_files and (span := row_range(entry.file)) is not None]
        self._ranged = sorted(ranged, key=lambda item: item[:2])
        self._ends = list(accumulate((end for _, end, _ in self._ranged), max))
        self._named = {entry_name(entry): entry for entry in entries}
        self._buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
        self._numbers: dict[bytes, dict[int, ManifestEntry]] = {}
        for entry in entries:
            self._numbers.setdefault(entry.partition, {}).setdefault(entry.total_buckets, entry)
            if entry.file.level > 0:
                self._buckets.setdefault(bucket_key(entry), []).append(entry)

    def of(self, group: Changes) -> tuple[ManifestEntry, ...]:
        """The files that a check of a group must see."""
        names = {entry_name(entry) for entry in group.table}
        marked = [(e, part) for e in group.indexes for part in e.file.dv_ranges or ()]
        names |= {(entry.partition, entry.bucket, part.data_file_name) for entry, part in marked}
        found = [self._named[name] for name in names if name in self._named]
        for key in {bucket_key(entry) for entry in group.table if entry.kind == FileKind.ADD and entry.file.level > 0}:
            found += self._buckets.get(key, [])
        if self._ranged:
            spans = {row_range(entry.file) for entry in group.table}
            found += [entry for span in spans if span is not None for entry in self._meeting(span)]
        for partition in group.partitions:
            found += self._numbers.get(partition, {}).values()
        return tuple({entry_name(entry): entry for entry in found}.values())

    def _meeting(self, span: tuple[int, int]) -> list[ManifestEntry]:
        """The files that have rows of a range. Blob files have some of the rows of others."""
        start = bisect_right(self._ends, span[0])
        last = bisect_left(self._ranged, span[1], key=lambda item: item[0])
        return [entry for _, end, entry in self._ranged[start:last] if end > span[0]]


def publish_standing(
    store: Store, user: str, groups: Sequence[Sequence[CommitMessage]], outcome: Outcome | None = None
) -> Partly:
    """Publish the compactions of the groups that still stand; each group stands or falls as a whole.

    The messages' files stay in any case: those of lost groups, and those of all where this raises and `outcome` is
    free, are the caller's to remove. Errors: as `Publisher.publish`; no ConflictError for what a group meets.
    """
    unaware = store.schema.bucket_mode is BucketMode.UNAWARE
    keys = file_ranges(store.schema) if store.schema.primary_keys else None
    rules = Rules(keys, unaware, store.schema.data_evolution)
    name = CommitName(0, user, BATCH_COMMIT_IDENTIFIER, CommitKind.COMPACT)
    changes = [changes_of(compact_changes(message) for message in group) for group in groups]
    standing = _Standing(store, rules, name, changes)
    try:
        snapshot = Publisher(store).publish(Request(name, standing.plan), outcome)
    except _Nothing:
        return Partly(None, tuple(range(len(groups))), standing.reason)
    return Partly(snapshot, tuple(sorted(standing.lost)), standing.reason)
