"""Turning commit messages into snapshots: append, compact, overwrite, truncate, drop partitions.

A commit is up to two snapshots, as in Paimon: what was written (APPEND, or OVERWRITE where it deletes files or adds
deletion vectors), then what was compacted (COMPACT).

Spec: docs/spec/commit.md, docs/conflicts.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise

from bucketlake.errors import ConflictError, InvalidError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.lsm.changelog import settles
from bucketlake.lsm.compaction import CompactionRule
from bucketlake.lsm.levels import key_range_of
from bucketlake.ops.commit.chain import NothingLeftError
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.outcome import Outcome, owned
from bucketlake.ops.commit.publish import Publisher, Request, is_commit
from bucketlake.ops.rebase.modes import Moves, moves_of
from bucketlake.ops.rebase.rebase import Rebase
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import (
    Changes,
    added,
    append_changes,
    changes_of,
    compact_changes,
    compacts,
    overwrites,
    saw,
)
from bucketlake.ops.table.entries import by_bucket, deletion
from bucketlake.ops.table.known import check_columns
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partition_times import time_partitions
from bucketlake.ops.table.partitions import PartitionFilter, spec_filter
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

Check = Callable[[Sequence[CommitMessage], View], None]
"""Raises ConflictError where messages cannot be committed to a base, for what they were made of."""


@dataclass(frozen=True, slots=True)
class CommitProperties:
    """What a snapshot says besides its files. `operation`: one of Paimon's (WRITE, DELETE, TRUNCATE, …).
    `taken_row_ids`: row ids below are those of the rows that come, which bring them from another table."""

    properties: Mapping[str, str] | None = None
    watermark: int | None = None
    operation: str | None = None
    taken_row_ids: int = 0


class Commit:
    """Commits to one table as one user. Not for several threads at once; any number of these may run anywhere.

    `check` is asked on every base before `commit`, `move`, `overwrite` or `truncate` plans on it. `moves`: how rows
    move where the base has moved, that of the table's bucket mode if not given.
    """

    def __init__(
        self, store: Store, commit_user: str, *, check: Check | None = None, moves: Moves | None = None
    ) -> None:
        self._store = store
        self._check = check
        self._user = commit_user
        self._moves = moves or moves_of(store)
        self._publisher = Publisher(store)
        self._outcome = Outcome()

    # ---- writing

    def commit(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        *,
        notes: CommitProperties | None = None,
        allow_empty: bool = False,
        outcome: Outcome | None = None,
    ) -> Snapshot | None:
        """Publish messages; the newest snapshot published, None where there was nothing to do.

        A streaming identifier (below 2^63-1) that this user committed before is not committed again: the existing
        snapshot is returned. On failure the messages' files stay; `outcome` is told whether `abort` may remove them.
        A compaction that comes with writes gives way silently: to conflicting commits, and in batch commits to any
        failure once the writes are published. Alone it raises.
        Errors: ConflictError, InvalidError (bucket number), CommitError, CommitUnknownError, StorageError.
        Spec: docs/spec/commit.md#kinds
        """
        notes, self._outcome = notes or CommitProperties(), outcome or Outcome()
        check_columns(self._store, messages)
        time_partitions(self._store, {message.partition for message in messages if message.new_files})
        rebase = Rebase(self._store, messages, self._moves)
        published: Snapshot | None = None
        options = self._store.options
        allow_empty = (
            allow_empty
            or bool(options.get("commit.force-create-snapshot"))
            or options.get("snapshot.ignore-empty-commit") is False
        )
        writes = any(append_changes(message) for message in messages)
        if writes or (allow_empty and not any(compacts(message) for message in messages)):
            kind = CommitKind.OVERWRITE if any(overwrites(message) for message in messages) else CommitKind.APPEND
            published = self._rebased(kind, identifier, rebase, notes, self._check)
        compacting = [message for message in rebase.messages if compacts(message)]
        if compacting:
            published = self._compact(compacting, identifier, notes, published)
        return published

    def move(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        *,
        notes: CommitProperties | None = None,
        outcome: Outcome | None = None,
    ) -> Snapshot:
        """Publish one COMPACT snapshot in which rows change their bucket: `deleted_files` of some messages hold what
        `new_files` of others hold anew, at level 0. These are renumbered as a write's, so that they follow all that was
        committed before. Errors as `commit`; ConflictError where a deleted file is not live any more.
        Spec: docs/spec/postpone.md#compaction
        """
        self._outcome = outcome or Outcome()
        check_columns(self._store, messages)
        rebase = Rebase(self._store, messages, self._moves, relocates=False)
        return self._rebased(CommitKind.COMPACT, identifier, rebase, notes or CommitProperties(), self._check)

    def _rebased(
        self,
        kind: CommitKind,
        identifier: int,
        rebase: Rebase,
        notes: CommitProperties,
        check: Check | None = None,
    ) -> Snapshot:
        """Publish what a rebase plans, and remove the files that are superfluous afterwards."""

        def plan(view: View) -> Changes:
            if check is not None:
                check(rebase.messages, view)
            return rebase.plan(view)

        with self._rebasing(rebase) as own:
            return self._once(kind, identifier, plan, notes, own)

    @contextmanager
    def _rebasing(self, rebase: Rebase) -> Iterator[Outcome]:
        """Owns what a rebase writes while the block publishes it."""
        own = Outcome(self._outcome)
        with owned(own, rebase.discard_rewritten):
            yield own
        with suppress(Exception):  # it is published: what stays is an orphan
            if own.ours:
                rebase.discard_replaced()
            else:  # another run of this job has published it, maybe with the very files that were replaced here
                rebase.discard_rewritten()

    def _compact(
        self,
        messages: Sequence[CommitMessage],
        identifier: int,
        notes: CommitProperties,
        published: Snapshot | None,
    ) -> Snapshot:
        changes, own = changes_of(compact_changes(message) for message in messages), Outcome(self._outcome)

        def plan(view: View) -> Changes:
            _check_beside(messages, view)
            return changes

        try:
            return self._once(CommitKind.COMPACT, identifier, plan, notes, own)
        except Exception as error:
            final = isinstance(error, ConflictError)
            if published is None or not (final or identifier == BATCH_COMMIT_IDENTIFIER):
                raise
            if own.free:
                with suppress(Exception):
                    self.abort([_only_compaction(message) for message in messages])
            return published

    def _once(
        self,
        kind: CommitKind,
        identifier: int,
        plan: Callable[[View], Changes],
        notes: CommitProperties,
        outcome: Outcome,
    ) -> Snapshot:
        found = self.find_committed(identifier, kind)
        if found is not None:
            outcome.publish(ours=False)
            return found
        return self._publisher.publish(
            Request(
                CommitName(0, self._user, identifier, kind),
                plan,
                watermark=notes.watermark,
                properties=dict(notes.properties or {}),
                operation=notes.operation,
                taken_row_ids=notes.taken_row_ids,
            ),
            outcome,
        )

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        spec: Mapping[str, object] | None = None,
        *,
        dynamic: bool = False,
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        notes: CommitProperties | None = None,
        outcome: Outcome | None = None,
    ) -> Snapshot | None:
        """Replace partitions by the messages' new files, as they are at the moment of publishing: files committed
        since the messages were written go too.

        `dynamic`: the partitions that the new files lie in, and nothing (None) without new files. Otherwise the
        partitions that `spec` (all or some partition columns) names, or the whole table. Changelog files are not
        committed. Errors as `commit`, InvalidError for files outside of `spec`.
        Spec: docs/spec/commit.md#overwrite
        """
        notes, self._outcome = notes or CommitProperties(), outcome or Outcome()
        new = added(messages)
        time_partitions(self._store, {entry.partition for entry in new.table})
        published: Snapshot | None = None
        target: PartitionFilter | None
        if dynamic and self._store.schema.partition_keys:
            touched = frozenset(entry.partition for entry in new.table)
            target = touched.__contains__
        else:
            touched = None
            target = spec_filter(self._store, [spec]) if spec else None
            outside = [e for e in new.table if target is not None and not target(e.partition)]
            if outside:
                what = "a partition is overwritten, and a row does not belong to this partition"
                raise InvalidError(what, spec=spec, remedy=self._named_by_default(spec or {}))
        compacting = [message for message in messages if compacts(message)]
        rebase = Rebase(self._store, messages, self._moves)

        def changes(view: View) -> Changes:
            if self._check is not None:
                self._check(messages, view)
            made = new if target is None or not rebase.settles else added(rebase.settle(view, target))
            if compacting:
                return made
            inside = [e for e in made.table if target is None or target(e.partition)]
            outside = [e for e in made.table if target is not None and not target(e.partition)]
            return replace(made, table=(*_upgraded(self._store, tuple(inside)), *outside))

        if touched is None or touched:
            with self._rebasing(rebase) as own:
                plan = self._replacing(target, touched, changes)
                published = self._once(CommitKind.OVERWRITE, identifier, plan, notes, own)
        if compacting:
            published = self._compact(compacting, identifier, notes, published)
        return published

    def _named_by_default(self, spec: Mapping[str, object]) -> str | None:
        """What to say instead of a null for which a column's default is written, as for every null."""
        fields = [self._store.schema.field(name) for name, value in spec.items() if value is None]
        return next((f"name the default of {f.name} instead: {f.default}" for f in fields if f.default), None)

    def truncate(self, identifier: int = BATCH_COMMIT_IDENTIFIER, *, notes: CommitProperties | None = None) -> Snapshot:
        """Delete all rows, with a new snapshot."""
        notes = notes or CommitProperties(operation="TRUNCATE")

        def changes(view: View) -> Changes:
            if self._check is not None:
                self._check((), view)
            return Changes()

        plan = self._replacing(None, None, changes)
        return self._once(CommitKind.OVERWRITE, identifier, plan, notes, Outcome())

    def drop_partitions(
        self,
        specs: Sequence[Mapping[str, object]],
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        *,
        notes: CommitProperties | None = None,
    ) -> Snapshot | None:
        """Delete the partitions that match any of the (full or partial) specs, with a new snapshot; None where none is
        there."""
        notes = notes or CommitProperties(operation="TRUNCATE")
        if not specs:
            raise InvalidError("Partitions list cannot be empty.")
        if not all(specs):
            raise InvalidError("a partition specification names no column", remedy="truncate to remove all rows")
        target = spec_filter(self._store, specs)
        plan = self._replacing(target, None, lambda view: Changes())

        def dropping(view: View) -> Changes:
            changes = plan(view)
            if not changes.table and not changes.indexes:
                raise NothingLeftError
            return changes

        with suppress(NothingLeftError):
            return self._once(CommitKind.OVERWRITE, identifier, dropping, notes, Outcome())
        return None

    def _replacing(
        self,
        target: PartitionFilter | None,
        partitions: frozenset[bytes] | None,
        changes: Callable[[View], Changes],
    ) -> Callable[[View], Changes]:
        """The plan of an overwrite: everything out that `target` is true for, `changes` in."""

        def plan(view: View) -> Changes:
            new = changes(view)
            old = [e for e in view.entries(partitions) if target is None or target(e.partition)]
            stale = [e for e in view.indexes if target is None or target(e.partition)]
            gone = tuple(replace(e, kind=FileKind.DELETE) for e in stale)
            return Changes(tuple(deletion(e) for e in old) + new.table, (), gone + new.indexes)

        return plan

    def abort(self, messages: Iterable[CommitMessage]) -> None:
        """See `discard`."""
        discard(self._store, messages)

    # ---- idempotence

    def find_committed(self, identifier: int, kind: CommitKind) -> Snapshot | None:
        """This user's snapshot with the identifier and kind, None if there is none; batch identifiers have none."""
        if identifier == BATCH_COMMIT_IDENTIFIER:
            return None
        name = CommitName(0, self._user, identifier, kind)
        for snapshot in self._store.snapshots(newest_first=True):
            if is_commit(snapshot, name):
                return snapshot
            if snapshot.commit_user == self._user and snapshot.commit_identifier < identifier:
                return None
        return None


def _check_beside(messages: Sequence[CommitMessage], view: View) -> None:
    """Refuse what looked old rows up, where the files that they were looked up in are not those of the base.

    Another program's writer may compact what it has just written, beside files of level 0 that it does not know: no
    file that is compacted here goes then, and yet newer rows of its keys lie above level 0.
    """
    if not settles(view.store.options):
        return
    looked = {(message.partition, message.bucket): message for message in messages}
    live = by_bucket(view.entries(frozenset(partition for partition, _ in looked)))
    for key, message in looked.items():
        if not saw(message, live.get(key, ())):
            raise ConflictError(
                "another compaction changed the files in which this one looked old rows up",
                partition=view.store.paths.partition_texts(message.partition),
                bucket=message.bucket,
                remedy="compact again",
            )


def _upgraded(store: Store, entries: tuple[ManifestEntry, ...]) -> tuple[ManifestEntry, ...]:
    """With `overwrite-upgrade`, buckets whose new files overlap nothing go to the top level at once."""
    if not store.schema.primary_keys or store.schema.clustered or not store.options.get("overwrite-upgrade"):
        return entries
    if any(entry.file.level > 0 or entry.bucket < 0 for entry in entries):
        return entries
    key_range, options = key_range_of(store.schema.key_fields), store.options
    top = CompactionRule.of(options).num_levels - 1
    buckets = by_bucket(entries)
    result: list[ManifestEntry] = []
    for group in buckets.values():
        ranges = sorted(key_range(e.file) for e in group)
        apart = all(left[1] < right[0] for left, right in pairwise(ranges))
        result += [replace(e, file=replace(e.file, level=top)) for e in group] if apart else group
    return tuple(result)


def _only_compaction(message: CommitMessage) -> CommitMessage:
    return replace(
        message, new_files=(), deleted_files=(), changelog_files=(), new_index_files=(), deleted_index_files=()
    )
