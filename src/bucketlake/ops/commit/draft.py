"""One attempt at a snapshot: planned and checked on a base, its manifests written; nothing is published.

The next attempt, on another base, uses what it can of the manifests again (`Scratch`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from bucketlake.errors import (
    ConflictError,
    CorruptError,
    NotFoundError,
)
from bucketlake.format.guard import decoding, json_object
from bucketlake.format.metadata.manifest import FileKind, FileSource, ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.format.metadata.stats import EMPTY_STATS
from bucketlake.lsm.levels import file_ranges
from bucketlake.ops.buckets.postpone import after
from bucketlake.ops.commit.chain import Guard
from bucketlake.ops.commit.conflicts import Base, CommitName, Rules, check, name_of
from bucketlake.ops.commit.invariants import check_invariants
from bucketlake.ops.commit.manifests import (
    WrittenList,
    came_back,
    combine_indexes,
    encoded_indexes,
    encoded_list,
    listed,
    merge_manifests,
    replace_run,
    write_files,
)
from bucketlake.ops.commit.row_ids import free_row_id, next_row_id, with_row_ids
from bucketlake.ops.commit.schemas import newest_for
from bucketlake.ops.scan.scan import check_vectors, delta_entries
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import MAX_SEQUENCE_PROPERTY, ROWS_STAY_PROPERTY, Changes
from bucketlake.ops.table.entries import record_count
from bucketlake.ops.table.store import FIRST_SNAPSHOT_ID, Store
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """One snapshot to publish. `plan` gives the changes on a base and is called again on every new base; what it raises
    ends the commit. `name.snapshot` is filled in by the attempt."""

    name: CommitName
    plan: Callable[[View], Changes]
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    operation: str | None = None
    statistics: str | None = None  # name of the file that an ANALYZE brings
    taken_row_ids: int = 0  # by rows whose files bring their ids
    keeps_schema: bool = False  # of the base: no file comes that another may have been written under
    mends: bool = False  # takes out what is lost
    restores: bool = False  # what is there then is what another snapshot holds
    follows: frozenset[bytes] = frozenset()  # partitions that the overwrite wrote whose whole ones this drops

    @property
    def rows_stay(self) -> bool:
        """Whether rows only move."""
        return ROWS_STAY_PROPERTY in self.properties


@dataclass(slots=True)
class Scratch:
    """Files written for this commit and by no snapshot referenced, and what of them the next attempt may use."""

    changes: Changes | None = None
    delta: WrittenList | None = None
    changelog: WrittenList | None = None
    index: str | None = None  # the attempt's index manifest
    before: tuple[ManifestFile, ...] = ()
    after: tuple[ManifestFile, ...] | None = None
    once: list[str] = field(default_factory=list)  # of this attempt alone
    stale: list[str] = field(default_factory=list)  # of earlier attempts, of no more use
    synced: set[str] = field(default_factory=set)  # paths that are durable

    def reusable(self) -> list[str]:
        """Names of files that the next attempt could use."""
        names = []
        for written in (self.delta, self.changelog):
            if written is not None:
                names += [written.name, *(m.file_name for m in written.manifests)]
        return names + self.merged()

    def all(self) -> list[str]:
        """Names of all files written so far."""
        return [*self.once, *self.stale, *self.reusable()]

    def merged(self) -> list[str]:
        """Manifests that merging produced."""
        known = {m.file_name for m in self.before}
        return [m.file_name for m in self.after or () if m.file_name not in known]


class Drafts:
    """Attempts of one table's commits."""

    def __init__(self, store: Store, guard: Guard | None) -> None:
        schema, unaware = store.schema, store.schema.bucket_mode == BucketMode.UNAWARE
        self._store = store
        self._unaware = unaware
        self._tracked = schema.tracks_rows
        key_range = file_ranges(schema) if schema.primary_keys else None
        self._rules = Rules(key_range, unaware, schema.data_evolution)
        self._drop_stats = bool(store.options.get("manifest.delete-file-drop-stats"))
        self._guard = guard
        self._safe: int | None = store.options.get("commit.strict-mode.last-safe-snapshot")

    def draft(self, request: Request, base: Snapshot | None, scratch: Scratch, merge: bool) -> Snapshot:
        """What would stand on a base, its manifests written. `merge`: small manifests of the base become one."""
        view = View(self._store, base)
        changes = request.plan(view)
        if (guard := self._guard) is not None:
            stays = request.rows_stay or (request.mends and guard.is_delta)
            guard.check(view, request.name.kind, changes, stays, request.follows)
        name = replace(request.name, snapshot=base.id + 1 if base else FIRST_SNAPSHOT_ID)
        if self._must_check(name.kind, changes):
            entries = view.entries(changes.partitions)
            checked = None if base is None else Base(name_of(base), entries, view.indexes)
            rules = replace(self._rules, column_files=self._rules.column_files and not request.restores)
            check(rules, checked, name, changes.table, changes.indexes)
        if base is not None and (name.kind is CommitKind.COMPACT or request.rows_stay) and not request.mends:
            self._check_vectors(base, view, changes)
        self._check_strictly(name, changes)
        changes = self._stamped(changes, name, base)
        base_list = self._write(view, changes, scratch, merge, request.mends)
        return self._snapshot(request, name, base, changes, scratch, base_list)

    def _check_vectors(self, base: Snapshot, view: View, changes: Changes) -> None:
        """Rows that were written anew are those that no vector names: with one that speaks of nothing, too many."""
        if any(entry.kind == FileKind.DELETE for entry in changes.table):
            check_vectors(self._store, base, view.entries(changes.partitions), before_change=True)

    def _must_check(self, kind: CommitKind, changes: Changes) -> bool:
        only_adds = all(entry.kind == FileKind.ADD for entry in changes.table)
        if self._rules.column_files and any(entry.file.first_row_id is not None for entry in changes.table):
            return True  # columns of rows that must be there
        return not (self._unaware and kind is CommitKind.APPEND and only_adds and not changes.indexes)

    def _check_strictly(self, name: CommitName, changes: Changes) -> None:
        """With `commit.strict-mode.last-safe-snapshot`, other users may not have compacted or overwritten the same
        partitions since (nor appended to them, for an overwrite); -1 begins with the first commit."""
        if self._safe is None:
            return
        first = name.snapshot if self._safe < 0 else self._safe + 1
        for snapshot_id in range(first, name.snapshot):
            other = self._store.snapshot(snapshot_id)
            appended = other.commit_kind is CommitKind.APPEND
            if other.commit_user == name.user or (appended and name.kind is not CommitKind.OVERWRITE):
                continue
            theirs = delta_entries(self._store, other)
            if changes.partitions & {entry.partition for entry in theirs if entry.bucket >= 0 or not appended}:
                raise ConflictError(
                    "another user changed the same partition, and commit.strict-mode.last-safe-snapshot is set",
                    commit=name,
                    other=name_of(other),
                )
        self._safe = name.snapshot - 1

    def _stamped(self, changes: Changes, name: CommitName, base: Snapshot | None) -> Changes:
        """With `sequence.snapshot-ordering`, files of a write carry the snapshot's id as their sequence range; those
        of rows that a rescale moved keep theirs. With `row-tracking.enabled`, new rows get their ids. Pending files
        of postpone tables come after those of the snapshots before."""
        if self._store.schema.bucket_mode is BucketMode.POSTPONE:
            return replace(changes, table=after(base, changes.table, self._store.env.clock.now_millis()))
        if self._tracked:
            free = free_row_id(self._store, base)
            grouped = bool(self._store.options.get("row-tracking.partition-group-on-commit"))
            return replace(changes, table=with_row_ids(changes.table, name.snapshot, free, grouped))
        if name.kind is CommitKind.COMPACT or not self._store.options.get("sequence.snapshot-ordering"):
            return changes
        number = name.snapshot
        stamped = tuple(
            replace(e, file=replace(e.file, min_sequence_number=number, max_sequence_number=number))
            if e.kind == FileKind.ADD and e.file.file_source is not FileSource.COMPACT
            else e
            for e in changes.table
        )
        return replace(changes, table=stamped)

    def _write(self, view: View, changes: Changes, scratch: Scratch, merge: bool, mends: bool) -> WrittenList:
        """Write what the snapshot will name, all at once where each file is a request that waits; gives the manifest
        list of the base."""
        base_list, data = encoded_list(self._store, self._base(view.snapshot, changes, scratch, merge))
        delta, changelog, files = self._delta(changes, scratch)
        reusable = [name for name, _ in files]
        index, indexes = self._indexes(view, changes, mends)
        files = [*files, (base_list.name, data), *indexes]
        scratch.once += [name for name, _ in files]
        write_files(self._store, files)
        scratch.once = [name for name in scratch.once if name not in reusable]
        scratch.delta, scratch.changelog, scratch.index, scratch.changes = delta, changelog, index, changes
        return base_list

    def _delta(
        self, changes: Changes, scratch: Scratch
    ) -> tuple[WrittenList, WrittenList | None, list[tuple[str, bytes]]]:
        """The lists of the table's changes and of its changelog, and their files: none where an attempt before has
        written the same."""
        known = scratch.changes
        if known is not None and (known.table, known.changelog) == (changes.table, changes.changelog):
            assert scratch.delta is not None
            return scratch.delta, scratch.changelog, []
        stale = [w for w in (scratch.delta, scratch.changelog) if w is not None]
        scratch.stale += [name for w in stale for name in (w.name, *(m.file_name for m in w.manifests))]
        scratch.delta = scratch.changelog = scratch.changes = None
        table = [_without_stats(e) for e in changes.table] if self._drop_stats else changes.table
        delta, files = listed(self._store, table)
        if not changes.changelog:
            return delta, None, files
        changelog, more = listed(self._store, changes.changelog)
        return delta, changelog, files + more

    def _base(self, base: Snapshot | None, changes: Changes, scratch: Scratch, merge: bool) -> tuple[ManifestFile, ...]:
        """The manifests of all that was before, small ones merged or told anew."""
        current = () if base is None else self._store.data_manifests(base)
        retold = changes.retold or came_back(self._store, current, changes.table)
        if retold is not None:
            scratch.stale += scratch.merged()
            scratch.before, scratch.after = current, ()
            for manifest in current:
                scratch.after = (*scratch.after, *retold(manifest))
            return scratch.after
        if merge:
            scratch.before, scratch.after = current, merge_manifests(self._store, current)
            return scratch.after
        if scratch.after is None:
            return current
        replaced = replace_run(current, scratch.before, scratch.after)
        if replaced is None:
            scratch.stale += scratch.merged()
            scratch.after = None
            return current
        return replaced

    def _indexes(self, view: View, changes: Changes, mends: bool) -> tuple[str | None, list[tuple[str, bytes]]]:
        """The snapshot's index manifest, and its file if it is a new one. One that it takes over must be there: a
        damaged name is not handed on."""
        previous = None if view.snapshot is None else view.snapshot.index_manifest
        if changes.indexes:
            combined = combine_indexes(view.indexes, changes.indexes, unaware=self._unaware)
            name, data = encoded_indexes(self._store, combined)
            return name, [(name, data)]
        if previous is not None and not mends:
            self._store.check_index_manifest(previous)
        return previous, []

    def _snapshot(
        self,
        request: Request,
        name: CommitName,
        base: Snapshot | None,
        changes: Changes,
        scratch: Scratch,
        base_list: WrittenList,
    ) -> Snapshot:
        assert scratch.delta is not None
        delta_count = record_count(changes.table)
        newest = newest_for(self._store, name, changes.table)
        schema_id = base.schema_id if base is not None and request.keeps_schema else newest.id
        marks = [mark for mark in (request.watermark, base.watermark if base else None) if mark is not None]
        taken = max(free_row_id(self._store, base), request.taken_row_ids, changes.taken_row_ids)
        snapshot = Snapshot(
            id=name.snapshot,
            schema_id=schema_id,
            base_manifest_list=base_list.name,
            base_manifest_list_size=base_list.size,
            delta_manifest_list=scratch.delta.name,
            delta_manifest_list_size=scratch.delta.size,
            changelog_manifest_list=scratch.changelog.name if scratch.changelog else None,
            changelog_manifest_list_size=scratch.changelog.size if scratch.changelog else None,
            changelog_record_count=record_count(changes.changelog) if changes.changelog else None,
            index_manifest=scratch.index,
            commit_user=name.user,
            commit_identifier=name.identifier,
            commit_kind=name.kind,
            time_millis=self._store.env.clock.now_millis(),
            total_record_count=(base.total_record_count if base else 0) + delta_count,
            delta_record_count=delta_count,
            watermark=max(marks, default=None),
            statistics=self._statistics(base, schema_id, request.statistics),
            properties=self._properties(request, base, changes, base_list) or None,
            next_row_id=next_row_id(changes.table if self._tracked else (), taken),
            operation=request.operation,
            uuid=self._store.env.clock.new_uuid(),
        )
        check_invariants(self._store, base, snapshot, base_list, scratch.delta, changes)
        return snapshot

    def _properties(
        self, request: Request, base: Snapshot | None, changes: Changes, base_list: WrittenList
    ) -> dict[str, str]:
        properties = dict(request.properties)
        if self._store.options.get("write.sequence-number-init-mode") != "snapshot":
            return properties
        known = (base.properties or {}).get(MAX_SEQUENCE_PROPERTY) if base else None
        highest = [e.file.max_sequence_number for e in changes.table if e.kind == FileKind.ADD]
        if known is not None:
            highest.append(int(known))
        elif base is not None:
            parts = self._store.manifests(base_list.manifests)
            highest += [e.file.max_sequence_number for part in parts for e in part if e.kind == FileKind.ADD]
        if highest:
            properties[MAX_SEQUENCE_PROPERTY] = str(max(highest))
        return properties

    def _statistics(self, base: Snapshot | None, schema_id: int, given: str | None) -> str | None:
        """The statistics that the snapshot names: its own, else those of its base while they hold for its schema."""
        if given is not None or base is None or base.statistics is None:
            return given
        path = self._store.paths.statistics(base.statistics)
        try:
            data = self._store.env.storage.read(path)
            with decoding("not statistics of a table", path):
                return base.statistics if json_object(data).get("schemaId") == schema_id else None
        except (NotFoundError, CorruptError) as error:  # only plans were better with them: no reason to write no more
            warnings.warn(f"the next snapshot has no statistics: {error}; ANALYZE TABLE makes new ones", stacklevel=2)
            return None


def _without_stats(entry: ManifestEntry) -> ManifestEntry:
    """A delete needs no statistics."""
    if entry.kind == FileKind.ADD:
        return entry
    return replace(entry, file=replace(entry.file, value_stats=EMPTY_STATS, value_stats_cols=()))
