"""Plan → compact → commit, planned anew where another commit came between.

    Run = Callable[[Store, Sequence[CompactUnit]], list[CommitMessage]]     how units become messages
    compact_here(store, units) -> list[CommitMessage]                        in this process, several buckets at a time
    compact(store, wanted=Wanted(), run=here) -> Snapshot | None         what is asked for: CALL sys.compact, as a job
    after_write(store, snapshot, messages, run=compact_here) -> Snapshot | None  the hook behind every committed write
    after_no_change(store, run=compact_here) -> Snapshot | None          the same behind a change that found no rows

Spec: docs/spec/compaction.md#committing
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile

from bucketlake.errors import CommitError, CommitUnknownError, InvalidError, UnsupportedError
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.lsm.compaction import CompactionRule, full_is_due
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.commit.publish import is_commit
from bucketlake.ops.commit.units import run_units
from bucketlake.ops.compact.bucket import CompactUnit, compact_bucket, units_due
from bucketlake.ops.compact.job import Compacting, Job, run_job
from bucketlake.ops.compact.running import Runner, Work, here
from bucketlake.ops.scan.scan import MERGE_ON_READ, EntryFilter, delta_entries, live_entries, skips_level_0
from bucketlake.ops.table.changes import saw
from bucketlake.ops.table.entries import BucketKey, bucket_key, by_bucket
from bucketlake.ops.table.known import knowing
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

__all__ = ["Run", "Wanted", "after_no_change", "after_write", "compact", "compact_here"]

Run = Callable[[Store, Sequence[CompactUnit]], list[CommitMessage]]
"""Compacts units and gives their messages; where it raises, the files that it wrote are gone."""

Due = Callable[[Snapshot], list[CompactUnit]]


def compact_here(store: Store, units: Sequence[CompactUnit]) -> list[CommitMessage]:
    """Compact in this process, several buckets at a time. On an error the files of all units are removed."""
    return run_units(store, units, compacted)


def compacted(store: Store, unit: CompactUnit) -> list[CommitMessage]:
    """`compact_bucket` as the work of a job."""
    message = compact_bucket(store, unit)
    return [] if message is None else [message]


@dataclass(frozen=True)
class Wanted(Compacting):
    """What to compact of a primary-key table, as a job. `full`: everything into the top level; else what the policy
    picks. `partitions`: of these only (None: all); `buckets`: of each, those of these numbers only."""

    full: bool = True
    partitions: PartitionFilter | None = None
    buckets: frozenset[int] | None = None
    work: Work = compacted

    def units(self, store: Store, base: Snapshot, only: frozenset[BucketKey] | None) -> list[CompactUnit]:
        """See Plan."""
        due = units_due(store, base, only, full=self.full, partitions=self.partitions)
        return due if self.buckets is None else [unit for unit in due if unit.bucket in self.buckets]


def compact(store: Store, wanted: Wanted | None = None, run: Runner = here) -> Snapshot | None:
    """Compact what is wanted and commit it, in parts as they finish; the newest COMPACT snapshot, None where there was
    nothing to do.

    What another commit takes away is planned anew on the newest snapshot, a bounded number of times; then
    ConflictError. `write-only` does not matter: this is the dedicated compaction.
    Raises UnsupportedError for append tables.
    """
    if not store.schema.primary_keys:
        raise UnsupportedError("append tables are compacted by ops.append_compact", path=store.paths.root)
    return run_job(Job.of(store, wanted or Wanted()), run)


def after_write(
    store: Store, snapshot: Snapshot, messages: Sequence[CommitMessage], run: Run = compact_here
) -> Snapshot | None:
    """What a writer does once the rows of `messages` are committed as `snapshot`: compact the buckets that are due, of
    those that the snapshot has rows in: a rebased commit may have put them elsewhere than its messages say. What
    changed rows in their newest version compacts all that waits to be seen, see `after_no_change`.

    The COMPACT snapshot, by the same user and identifier, or None: `write-only`, a postpone table (compaction is a job
    of its own), nothing due, or the compaction lost to other commits too often, or the storage does not say whether it
    was published, and was given up with a warning (the
    rows are safe in level 0). CommitError instead where rows or changes stay unseen until compaction, or
    `commit.force-compact` asks for it.
    Spec: docs/spec/compaction.md#committing
    """
    try:
        return _due_after(store, snapshot, messages, run)
    except Exception as error:  # the rows are committed: nothing may read as if they were not
        landed = _landed(store, snapshot) if isinstance(error, CommitUnknownError) else None
        if landed is not None:
            return landed
        if _hides(store):
            raise CommitError(
                "the rows are committed, but not known to be compacted, and are not seen before",
                table=store.paths.root,
                snapshot=snapshot.id,
                reason=str(error),
                remedy="CALL sys.compact on the table",
            ) from error
        warnings.warn(f"rows are committed, compaction was given up: {error}", stacklevel=2)
        return None


def _due_after(store: Store, snapshot: Snapshot, messages: Sequence[CommitMessage], run: Run) -> Snapshot | None:
    if not any(message.new_files for message in messages) or not _compacts(store):
        return None
    rule = CompactionRule.of(store.options)
    full = full_is_due(rule, snapshot.commit_identifier)
    tells = snapshot.commit_kind is not CommitKind.OVERWRITE

    store = knowing(store, snapshot)
    wrote = [snapshot, *(_waiting(store, snapshot, rule) if full else ())]
    entries = (entry for one in wrote for entry in delta_entries(store, one))
    buckets = {bucket_key(entry) for entry in entries if entry.kind is FileKind.ADD} | _unseen(store, snapshot)

    def due(newest: Snapshot) -> list[CompactUnit]:
        return [replace(unit, tells=tells) for unit in units_due(store, newest, buckets, full=full)]

    commit = Commit(store, snapshot.commit_user)
    return _Maintenance(store, commit, snapshot.commit_identifier, run).until_done(snapshot, due)


def _hides(store: Store) -> bool:
    """Whether rows may be unseen until compaction: also where an option that says so cannot be read."""
    try:
        return must_compact(store)
    except InvalidError:
        return True


def after_no_change(store: Store, run: Run = compact_here) -> Snapshot | None:
    """What follows a change of rows in their newest version (`newest_rows`) that found nothing to change: perhaps it
    was done before, by a process that died before its compaction, and readers do not see it yet. So all that waits is
    compacted; the COMPACT snapshot, None where nothing waits or the table is `write-only`. Errors: as `compact`, and as
    `Store.check_holds`: a table that is gone has no rows, and no change of it is done."""
    newest = store.latest_snapshot()
    store.check_holds(newest)
    if newest is None or not _compacts(store):
        return None
    waiting = _unseen(store, newest)
    if not waiting:
        return None

    def due(base: Snapshot) -> list[CompactUnit]:
        return units_due(store, base, waiting)

    commit = Commit(store, new_commit_user(store))
    return _Maintenance(knowing(store, newest), commit, BATCH_COMMIT_IDENTIFIER, run).until_done(newest, due)


def _compacts(store: Store) -> bool:
    """Whether writes compact what they make due; pending rows of a postpone table are a job of their own."""
    schema = store.schema
    pending = schema.bucket_mode is BucketMode.POSTPONE
    return bool(schema.primary_keys) and not pending and not store.options.get("write-only")


def _unseen(store: Store, snapshot: Snapshot) -> set[BucketKey]:
    """The buckets with rows in level 0, which this handle sees and other readers do not."""
    if not skips_level_0(_as_readers(store)) or skips_level_0(store):
        return set()
    return {bucket_key(entry) for entry in live_entries(store, snapshot, EntryFilter(min_bucket=0, level=0))}


def _as_readers(store: Store) -> Store:
    """The table as readers see it who are not told to see the newest version of rows."""
    told = store.options.get(MERGE_ON_READ) and MERGE_ON_READ in store.dynamic_options()
    return store.with_options({MERGE_ON_READ: None}) if told else store


def _waiting(store: Store, due: Snapshot, rule: CompactionRule) -> Iterator[Snapshot]:
    """What a stream has written between `due`, which is compacted in full, and the last of its batches that was."""
    if due.commit_identifier == BATCH_COMMIT_IDENTIFIER or rule.delta_commits in (None, 1):
        return
    for found in store.snapshots(newest_first=True):
        if found.commit_user == due.commit_user and found.id < due.id:
            if full_is_due(rule, found.commit_identifier):
                return
            if found.commit_kind is not CommitKind.COMPACT:
                yield found
            if found.commit_identifier == 0:
                return


def _landed(store: Store, written: Snapshot) -> Snapshot | None:
    """The COMPACT snapshot that follows a write under its own name; None: there is none, or the storage fails."""
    name = CommitName(0, written.commit_user, written.commit_identifier, CommitKind.COMPACT)
    with suppress(Exception):
        later = takewhile(lambda found: found.id > written.id, store.snapshots(newest_first=True))
        return next((found for found in later if is_commit(found, name)), None)
    return None


def must_compact(store: Store) -> bool:
    """Whether rows or changes stay unseen until they are compacted, or the table wants every commit compacted; by what
    its readers see, whatever this handle is told to."""
    store = _as_readers(store)
    options = store.options
    waits = options.get("changelog-producer") in ("lookup", "full-compaction") and options.get("lookup-wait")
    return skips_level_0(store) or bool(waits) or bool(options.get("commit.force-compact"))


@dataclass(slots=True)
class _Maintenance:
    """One round after the other until nothing is left or too many were lost."""

    store: Store
    commit: Commit
    identifier: int
    run: Run

    def until_done(self, base: Snapshot, due: Due) -> Snapshot | None:
        """Compact what is due on `base`, and what was lost on newer snapshots."""

        def once(attempt: Attempt) -> Snapshot | None:
            newest = attempt.on(self.store.latest_snapshot() if attempts.lost else base)
            if newest is None:
                return None
            self.store = knowing(self.store, newest)
            kept = {(message.partition, message.bucket) for message in attempt.messages}
            units = [unit for unit in due(newest) if (unit.partition, unit.bucket) not in kept]
            messages = attempt.made(self.run(self.store, units) if units else [])
            return self.commit.commit(messages, self.identifier, outcome=attempt.outcome) if messages else None

        attempts = Attempts(self.store, self.commit.abort, rescue=self._standing)
        return attempts.run(once)

    def _standing(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """The messages whose files are all still there."""
        newest = self.store.latest_snapshot()
        if newest is None:
            return []
        live = by_bucket(live_entries(self.store, newest))
        files = {(*place, entry.file.level, entry.file.file_name) for place, found in live.items() for entry in found}
        indexes = {(e.partition, e.bucket, e.file.file_name) for e in self.store.index_manifest(newest)}

        def stands(message: CommitMessage) -> bool:
            place = (message.partition, message.bucket)
            read = {(*place, file.level, file.file_name) for file in message.compact_before}
            replaced = {(*place, file.file_name) for file in message.compact_deleted_index_files}
            if message.compact_new_index_files or not (read <= files and replaced <= indexes):
                return False
            return saw(message, live.get(place, ()))

        return [message for message in messages if stands(message)]
