"""Row ids given out anew, partition by partition, where rows of several partitions took turns to get theirs
(`data-evolution.enabled`): manifests are rewritten, no data file is. Global indexes follow the ids, or go.

    runs_to_move(ranges, keep)        pure: which rows of a partition get new ids
    reassign_row_ids(store, chosen)   the COMPACT snapshot in which they have them

What others had read of these rows before is evaluated anew where it is committed: groups of files are known by the id
of their first row.

Spec: docs/spec/row_tracking.md#ids-given-out-anew
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.index.index_manifest import IndexEntry
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.ops.commit.conflicts import CommitName, row_range
from bucketlake.ops.commit.manifests import write_manifests
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.commit.row_ids import free_row_id
from bucketlake.ops.rows.global_index import range_of
from bucketlake.ops.scan.scan import EntryFilter, live_entries
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.partitions import PartitionFilter, partition_values
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import ROW_ID_FIELD
from bucketlake.values import dataclass

KEEP = "data-evolution.reassign.skip-contiguous-row-count"
Range = tuple[int, int]
"""Row ids: the first, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Reassigned:
    """What became of it. `snapshot`: None where nothing was to be done, `reason` says why. `previous`: the snapshot
    before; `first`, `next`: the next free row id before and after."""

    previous: int
    first: int
    next: int
    snapshot: int | None = None
    files: int = 0
    rows: int = 0
    reason: str = ""


class _Nothing(Exception):
    """No partition's ids are scattered."""


@dataclass(frozen=True, slots=True)
class Moves:
    """New first ids of ranges of one partition, ascending by the old ones."""

    old: tuple[Range, ...]
    new: tuple[int, ...]

    def of(self, found: Range) -> int | None:
        """The new first id of a range that lies in these, and stays in one piece; None for others."""
        at = self._last(found[0])
        if at < 0 or found[0] >= self.old[at][1]:
            return None
        new, end = self.new[at] + found[0] - self.old[at][0], self.old[at][1]
        while end < found[1]:
            at += 1
            if at == len(self.old) or self.old[at][0] != end or self.new[at] != new + end - found[0]:
                return None
            end = self.old[at][1]
        return new

    def meet(self, found: Range) -> bool:
        """Whether some id of a range is another now."""
        at = self._last(found[1] - 1)
        return at >= 0 and found[0] < self.old[at][1]

    def _last(self, id: int) -> int:
        """The last range that does not begin behind an id; -1: none."""
        return bisect_right(self.old, id, key=lambda span: span[0]) - 1


def runs_to_move(ranges: Sequence[Range], keep: int) -> list[Range]:
    """The ranges of a partition whose rows get new ids, none where all lie side by side. `ranges`: disjoint, ascending;
    those that lie side by side with more than `keep` rows in all keep theirs (0: none does)."""
    runs: list[list[Range]] = []
    for span in ranges:
        if runs and runs[-1][-1][1] == span[0]:
            runs[-1].append(span)
        else:
            runs.append([span])
    left = [run for run in runs if not keep or run[-1][1] - run[0][0] <= keep]
    return [span for run in left for span in run] if len(left) > 1 else []


def reassign_row_ids(store: Store, chosen: PartitionFilter | None = None) -> Reassigned:
    """Give the rows of partitions ids that lie side by side, from the next free one on. `chosen`: of these only.

    Errors: InvalidError for tables without row ids or columns in several files, UnsupportedError for files that hold
    ids themselves; those of a commit.
    """
    for key, has in (
        ("row-tracking.enabled", store.schema.tracks_rows),
        ("data-evolution.enabled", store.schema.data_evolution),
    ):
        if not has:
            raise InvalidError(f"Table must enable '{key}=true' before reassigning row IDs.", table=store.paths.root)
    newest = store.latest_snapshot()
    if newest is None:
        raise InvalidError("Cannot reassign row IDs for an empty table.", table=store.paths.root)
    taken = free_row_id(store, newest)
    if not store.schema.partition_keys:
        return Reassigned(newest.id, taken, taken, reason="table is not partitioned")
    work = _Renumbering(store, chosen)
    name = CommitName(0, f"reassign-row-id-{store.env.clock.new_uuid()}", BATCH_COMMIT_IDENTIFIER, CommitKind.COMPACT)
    try:
        done = Publisher(store).publish(Request(name, work.plan))
    except _Nothing:
        newest = store.latest_snapshot() or newest
        taken = free_row_id(store, newest)
        return Reassigned(newest.id, taken, taken, reason="no partition requires row-id reassignment")
    return Reassigned(done.id - 1, work.first, work.next, done.id, work.files, work.rows)


class _Renumbering:
    """A snapshot of the same files in which rows have other ids. `files`, `rows`: how many do."""

    def __init__(self, store: Store, chosen: PartitionFilter | None) -> None:
        self._store, self._chosen = store, chosen
        self._moves: dict[bytes, Moves] = {}
        self._blobs: dict[bytes, list[Range]] = {}
        self.first = self.next = self.files = self.rows = 0

    def plan(self, view: View) -> Changes:
        """No data file changes; _Nothing where no id does."""
        assert view.snapshot is not None  # there was one, and snapshots stay
        self.first = self.next = free_row_id(self._store, view.snapshot)
        self._moves, self.files, self.rows = {}, 0, 0
        spans = self._spans(view.snapshot)
        for partition in sorted(spans, key=lambda stored: self._order(stored, spans[stored])):
            moved = runs_to_move(sorted(set(spans[partition])), self._store.options.get(KEEP))
            if not moved:
                continue
            new = []
            for first, end in moved:
                new.append(self.next)
                self.next += end - first
            self._moves[partition] = Moves(tuple(moved), tuple(new))
            files = (*spans[partition], *self._blobs.get(partition, ()))
            self.files += sum(self._moves[partition].of(span) is not None for span in files)
        self.rows = self.next - self.first
        if not self._moves:
            raise _Nothing
        return Changes(indexes=self._indexes(view.indexes), retold=self._retold, taken_row_ids=self.next)

    def _spans(self, snapshot: Snapshot) -> dict[bytes, list[Range]]:
        """The ids of every live file, by partition; those of blob files, which lie within, are put aside."""
        found: dict[bytes, list[Range]] = {}
        self._blobs = {}
        for entry in live_entries(self._store, snapshot, EntryFilter()):
            span = row_range(entry.file)
            if span is None or (self._chosen is not None and not self._chosen(entry.partition)):
                continue
            if ROW_ID_FIELD.name in (entry.file.write_cols or ()):
                raise UnsupportedError(
                    "Cannot reassign row IDs for a file that physically stores the row-id field.",
                    file=entry.file.file_name,
                )
            kept = self._blobs if is_blob(entry.file.file_name) else found
            kept.setdefault(entry.partition, []).append(span)
        return found

    def _indexes(self, entries: Sequence[IndexEntry]) -> tuple[IndexEntry, ...]:
        """Global indexes whose ids lie side by side as before are those of the new ids, others go."""
        gone, come = [], []
        for entry in entries:
            known, moves = entry.file.global_index, self._moves.get(entry.partition)
            if known is None or moves is None or not moves.meet(range_of(entry.file)):
                continue
            gone.append(replace(entry, kind=FileKind.DELETE))
            first, end = range_of(entry.file)
            new = moves.of((first, end))
            if new is not None:
                told = {**known, "_ROW_RANGE_START": new, "_ROW_RANGE_END": new + end - first - 1}
                come.append(replace(entry, file=replace(entry.file, global_index=told)))
        return (*gone, *come)

    def _order(self, partition: bytes, spans: Sequence[Range]) -> tuple[object, ...]:
        values = partition_values(self._store, partition)
        return (*((value is not None, value if value is not None else 0) for value in values), min(spans))

    def _retold(self, manifest: ManifestFile) -> Sequence[ManifestFile]:
        (entries,) = self._store.manifests([manifest])
        moved = [self._moved(entry) for entry in entries]
        if all(new is old for new, old in zip(moved, entries, strict=True)):
            return [manifest]
        return write_manifests(self._store, moved)

    def _moved(self, entry: ManifestEntry) -> ManifestEntry:
        span, moves = row_range(entry.file), self._moves.get(entry.partition)
        first = None if span is None or moves is None else moves.of(span)
        return entry if first is None else replace(entry, file=replace(entry.file, first_row_id=first))
