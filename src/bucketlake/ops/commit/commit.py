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
from typing import Protocol

from bucketlake.errors import BucketlakeError, ConflictError, InvalidError
from bucketlake.format.index.index_manifest import DELETION_VECTORS, IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.lsm.compaction import CompactionRule
from bucketlake.lsm.levels import key_range_of
from bucketlake.ops.commit.conflicts import CommitName, shift_metadata, shifts
from bucketlake.ops.commit.outcome import Outcome, owned
from bucketlake.ops.commit.publish import Changes, Publisher, Request, View, is_commit
from bucketlake.ops.table.entries import BucketKey, bucket_key, deletion
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter, spec_filter
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

Renumber = Callable[[CommitMessage, int], CommitMessage]
"""Rewrites a message's new files so that the smallest sequence number is the one given, all shifted alike; returns the
message with the new files, and leaves the old files where they are."""


class Reassign(Protocol):
    """Moves rows of keys that other commits put into another bucket of a dynamic table, or another place of a
    cross-partition table; what it writes has new names. `replaced`: the partitions that the write replaces whole."""

    def __call__(
        self, messages: Sequence[CommitMessage], view: View, replaced: PartitionFilter | None = None, /
    ) -> tuple[CommitMessage, ...]:
        """The messages as they stand on the base that `view` shows."""


Check = Callable[[Sequence[CommitMessage], View], None]
"""Raises ConflictError where messages cannot be committed to a base, for what they were made of."""

Rehash = Callable[[Sequence[CommitMessage], View], tuple[CommitMessage, ...]]
"""Moves rows of partitions that were rescaled meanwhile into the buckets that these have now; new names likewise."""


@dataclass(frozen=True, slots=True)
class CommitProperties:
    """What a snapshot says besides its files. `operation`: one of Paimon's (WRITE, DELETE, TRUNCATE, …)."""

    properties: Mapping[str, str] | None = None
    watermark: int | None = None
    operation: str | None = None


class Commit:
    """Commits to one table as one user. Not for several threads at once; any number of these may run anywhere.

    `renumber` is needed by primary-key tables with concurrent writers: without it a commit whose sequence numbers were
    taken meanwhile raises ConflictError. `reassign` is needed by tables with dynamic buckets in the same way, `rehash`
    by those with a bucket number, where a partition may be rescaled. `check` is asked on every base before `commit`
    plans on it.
    """

    def __init__(
        self,
        store: Store,
        commit_user: str,
        *,
        renumber: Renumber | None = None,
        reassign: Reassign | None = None,
        rehash: Rehash | None = None,
        check: Check | None = None,
    ) -> None:
        self._store = store
        self._check = check
        self._user = commit_user
        self._renumber = renumber
        dynamic = store.schema.bucket_mode.name in ("DYNAMIC", "KEY_DYNAMIC")
        self._reassign = reassign if dynamic else None
        self._rehash = None if dynamic else rehash
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
        rebase = _Rebase(self._store, messages, self._renumber, self._reassign, self._rehash)
        published: Snapshot | None = None
        options = self._store.options
        allow_empty = (
            allow_empty
            or bool(options.get("commit.force-create-snapshot"))
            or options.get("snapshot.ignore-empty-commit") is False
        )
        writes = any(_append_changes(message) for message in messages)
        if writes or (allow_empty and not any(_compacts(message) for message in messages)):
            kind = CommitKind.OVERWRITE if any(_overwrites(message) for message in messages) else CommitKind.APPEND
            published = self._rebased(kind, identifier, rebase, notes, self._check)
        compacting = [message for message in rebase.messages if _compacts(message)]
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
        rebase = _Rebase(self._store, messages, self._renumber, None)
        return self._rebased(CommitKind.COMPACT, identifier, rebase, notes or CommitProperties())

    def _rebased(
        self,
        kind: CommitKind,
        identifier: int,
        rebase: _Rebase,
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
    def _rebasing(self, rebase: _Rebase) -> Iterator[Outcome]:
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
        changes, own = _changes(_compact_changes(message) for message in messages), Outcome(self._outcome)
        try:
            return self._once(CommitKind.COMPACT, identifier, lambda view: changes, notes, own)
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
        new = _added(messages)
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
                raise InvalidError("the new files do not belong to the partition that is overwritten", spec=spec)
        compacting = [message for message in messages if _compacts(message)]
        rebase = _Rebase(self._store, messages, None, self._reassign)

        def changes(view: View) -> Changes:
            made = new if target is None or not rebase.settles else _added(rebase.settle(view, target))
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

    def truncate(self, identifier: int = BATCH_COMMIT_IDENTIFIER, *, notes: CommitProperties | None = None) -> Snapshot:
        """Delete all rows, with a new snapshot."""
        notes = notes or CommitProperties(operation="TRUNCATE")
        plan = self._replacing(None, None, lambda view: Changes())
        return self._once(CommitKind.OVERWRITE, identifier, plan, notes, Outcome())

    def drop_partitions(
        self,
        specs: Sequence[Mapping[str, object]],
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        *,
        notes: CommitProperties | None = None,
    ) -> Snapshot:
        """Delete the partitions that match any of the (full or partial) specs, with a new snapshot."""
        if not specs:
            raise InvalidError("Partitions list cannot be empty.")
        if not all(specs):
            raise InvalidError("a partition specification names no column", remedy="truncate to remove all rows")
        target = spec_filter(self._store, specs)
        plan = self._replacing(target, None, lambda view: Changes())
        return self._once(CommitKind.OVERWRITE, identifier, plan, notes or CommitProperties(), Outcome())

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
        """Remove the files that messages wrote, best effort. Only for messages that were not committed."""
        for message in messages:
            for file in _made(message):
                _delete_made(self._store, message, file)

    # ---- idempotence

    def filter_committed(self, identifiers: Sequence[int]) -> list[int]:
        """Those of the ascending identifiers that this user has not committed."""
        if list(identifiers) != sorted(set(identifiers)):
            raise InvalidError("identifiers must be sorted and distinct", identifiers=list(identifiers))
        if not identifiers:
            return []
        for snapshot in self._store.snapshots(newest_first=True):
            if snapshot.commit_user == self._user:
                return [identifier for identifier in identifiers if identifier > snapshot.commit_identifier]
        return list(identifiers)

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


class _Rebase:
    """The write side of a commit on changing bases: moves rows whose keys lie in another bucket by now, and renumbers
    where a bucket's sequence numbers were taken."""

    def __init__(
        self,
        store: Store,
        messages: Sequence[CommitMessage],
        renumber: Renumber | None,
        reassign: Reassign | None,
        rehash: Rehash | None = None,
    ) -> None:
        self.messages = self._given = tuple(messages)
        self._store = store
        self._renumber = renumber
        self._reassign = reassign
        self._rehash = rehash
        self._replaced: list[tuple[CommitMessage, DataFile | IndexFile]] = []
        self._rewritten: list[tuple[CommitMessage, DataFile | IndexFile]] = []
        numbered = store.schema.bucket_mode.name != "UNAWARE" and not store.options.get("sequence.snapshot-ordering")
        self._numbered = numbered

    def plan(self, view: View) -> Changes:
        """The changes on this base."""
        relocate = self._reassign or self._rehash
        if relocate is not None:
            self._adopt(relocate(self.messages, view))
        changes = _changes(_append_changes(message) for message in self.messages)
        if not self._numbered or view.snapshot is None or not any(message.new_files for message in self.messages):
            return self._without_duplicates(view, changes)
        moves = shifts(self.messages, view.entries(changes.partitions))
        if moves:
            self.messages = tuple(self._moved(message, moves, view) for message in self.messages)
            changes = _changes(_append_changes(message) for message in self.messages)
        return self._without_duplicates(view, changes)

    @property
    def settles(self) -> bool:
        """Whether an overwrite of partitions has to look at the others: keys lie in one partition of the table."""
        return self._reassign is not None and self._store.schema.cross_partition

    def settle(self, view: View, replaced: PartitionFilter) -> tuple[CommitMessage, ...]:
        """The messages of an overwrite on this base, made anew from the caller's."""
        assert self._reassign is not None
        self.messages = self._given
        self._adopt(self._reassign(self._given, view, replaced))
        return self.messages

    def _adopt(self, messages: tuple[CommitMessage, ...]) -> None:
        """Go on with these messages, and know which files they replace."""
        before = {(m.partition, m.bucket, file.file_name): (m, file) for m in self.messages for file in _made(m)}
        after = {(m.partition, m.bucket, file.file_name): (m, file) for m in messages for file in _made(m)}
        self._replaced += [item for key, item in before.items() if key not in after]
        self._rewritten += [item for key, item in after.items() if key not in before]
        self.messages = messages

    def _moved(self, message: CommitMessage, moves: Mapping[BucketKey, int], view: View) -> CommitMessage:
        delta = moves.get((message.partition, message.bucket), 0)
        if not delta or not message.new_files or message.deleted_files:
            return message
        if not self._store.schema.primary_keys:
            return shift_metadata(message, delta)
        first = min(file.min_sequence_number for file in message.new_files) + delta
        if self._renumber is None:
            raise ConflictError(
                "the sequence numbers of this write were taken by another commit",
                bucket=message.bucket,
                base=view.snapshot.id if view.snapshot else None,
                files=[file.file_name for file in message.new_files],
                remedy="write the rows again, or give the commit a renumber function",
            )
        moved = self._renumber(message, first)
        self._replaced += [(message, file) for file in message.new_files]
        self._rewritten += [(moved, file) for file in moved.new_files]
        own = {file.file_name for file in message.new_files}
        if any(file.file_name in own for file in message.compact_before):
            kept = {file.file_name for file in message.compact_before}
            gone = [f for f in (*message.compact_after, *message.compact_changelog) if f.file_name not in kept]
            self._replaced += [(message, file) for file in gone]
            moved = moved.writes_only()
        return moved

    def _without_duplicates(self, view: View, changes: Changes) -> Changes:
        if not self._store.options.get("commit.discard-duplicate-files"):
            return changes
        live = {(e.partition, e.bucket, e.file.file_name) for e in view.entries(changes.partitions)}
        table = tuple(
            e
            for e in changes.table
            if e.kind == FileKind.DELETE or (e.partition, e.bucket, e.file.file_name) not in live
        )
        return replace(changes, table=table)

    def discard_replaced(self) -> None:
        """After publishing: remove the files that rebasing replaced, the caller's own among them."""
        published = {(m.partition, m.bucket, file.file_name) for m in self.messages for file in _made(m)}
        for message, file in (*self._replaced, *self._rewritten):
            if (message.partition, message.bucket, file.file_name) not in published:
                _delete_made(self._store, message, file)

    def discard_rewritten(self) -> None:
        """After a failure: remove what rebasing wrote; the caller's files stay."""
        for message, file in self._rewritten:
            _delete_made(self._store, message, file)


# ---- messages to changes


def _added(messages: Iterable[CommitMessage]) -> Changes:
    """What an overwrite brings."""
    new = _changes(_append_changes(message) for message in messages)
    return replace(new, table=tuple(e for e in new.table if e.kind == FileKind.ADD), changelog=())


def _append_changes(message: CommitMessage) -> Changes | None:
    table = _entries(message, message.new_files, message.deleted_files)
    changelog = _entries(message, message.changelog_files, ())
    indexes = _index_entries(message, message.new_index_files, message.deleted_index_files)
    return Changes(table, changelog, indexes) if table or changelog or indexes else None


def _compact_changes(message: CommitMessage) -> Changes | None:
    table = _entries(message, message.compact_after, message.compact_before, deletes_first=True)
    changelog = _entries(message, message.compact_changelog, ())
    indexes = _index_entries(message, message.compact_new_index_files, message.compact_deleted_index_files)
    return Changes(table, changelog, indexes) if table or changelog or indexes else None


def _compacts(message: CommitMessage) -> bool:
    return _compact_changes(message) is not None


def _overwrites(message: CommitMessage) -> bool:
    vectors = (f.index_type == DELETION_VECTORS for f in (*message.new_index_files, *message.deleted_index_files))
    return bool(message.deleted_files) or any(vectors)


def _entries(
    message: CommitMessage, added: Sequence[DataFile], deleted: Sequence[DataFile], deletes_first: bool = False
) -> tuple[ManifestEntry, ...]:
    place = (message.partition, message.bucket, message.total_buckets)
    adds = tuple(ManifestEntry(FileKind.ADD, *place, file) for file in added)
    deletes = tuple(ManifestEntry(FileKind.DELETE, *place, file) for file in deleted)
    return deletes + adds if deletes_first else adds + deletes


def _index_entries(
    message: CommitMessage, added: Sequence[IndexFile], deleted: Sequence[IndexFile]
) -> tuple[IndexEntry, ...]:
    place = (message.partition, message.bucket)
    return tuple(IndexEntry(FileKind.DELETE, *place, file) for file in deleted) + tuple(
        IndexEntry(FileKind.ADD, *place, file) for file in added
    )


def _changes(parts: Iterable[Changes | None]) -> Changes:
    known = [part for part in parts if part is not None]
    return Changes(
        tuple(entry for part in known for entry in part.table),
        tuple(entry for part in known for entry in part.changelog),
        tuple(entry for part in known for entry in part.indexes),
    )


def _only_compaction(message: CommitMessage) -> CommitMessage:
    return replace(
        message, new_files=(), deleted_files=(), changelog_files=(), new_index_files=(), deleted_index_files=()
    )


def _upgraded(store: Store, entries: tuple[ManifestEntry, ...]) -> tuple[ManifestEntry, ...]:
    """With `overwrite-upgrade`, buckets whose new files overlap nothing go to the top level at once."""
    if not store.schema.primary_keys or not store.options.get("overwrite-upgrade"):
        return entries
    if any(entry.file.level > 0 or entry.bucket < 0 for entry in entries):
        return entries
    key_range, options = key_range_of(store.schema.key_fields), store.options
    top = CompactionRule.of(options).num_levels - 1
    buckets: dict[BucketKey, list[ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault(bucket_key(entry), []).append(entry)
    result: list[ManifestEntry] = []
    for group in buckets.values():
        ranges = sorted(key_range(e.file) for e in group)
        apart = all(left[1] < right[0] for left, right in pairwise(ranges))
        result += [replace(e, file=replace(e.file, level=top)) for e in group] if apart else group
    return tuple(result)


def _made(message: CommitMessage) -> list[DataFile | IndexFile]:
    """The files that a message's writer wrote."""
    data = (*message.new_files, *message.changelog_files, *message.compact_after, *message.compact_changelog)
    kept = {file.file_name for file in (*message.deleted_files, *message.compact_before)}
    kept -= {file.file_name for file in message.new_files}
    made = [file for file in data if file.file_name not in kept]
    return [*made, *message.new_index_files, *message.compact_new_index_files]


def _delete_made(store: Store, message: CommitMessage, file: DataFile | IndexFile) -> None:
    if isinstance(file, IndexFile):
        _delete_index(store, message, file)
    else:
        _delete_files(store, message, [file])


def _delete_files(store: Store, message: CommitMessage, files: Iterable[DataFile]) -> None:
    folder = store.paths.bucket_dir(message.partition, message.bucket)
    for file in files:
        try:
            store.env.storage.delete(store.paths.file_path(folder, file))
            for name in file.extra_files:
                store.env.storage.delete(store.paths.extra_path(folder, file, name))
        except BucketlakeError:
            continue


def _delete_index(store: Store, message: CommitMessage, index: IndexFile) -> None:
    try:
        store.env.storage.delete(store.paths.index_path(message.partition, message.bucket, index))
    except BucketlakeError:
        return
