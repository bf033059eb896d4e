"""Sort compaction of primary-key tables with dynamic buckets: a partition's rows in order, each bucket a stretch of it.

    put_in_order(store, Job(order), run=sort_here) -> Snapshot | None

Rows are merged, put in order and written as an overwrite would: keys get their buckets anew as they arrive, so that a
bucket has `dynamic-bucket.target-row-num` rows that follow each other, and the hash index says where each key went.
Inside a bucket files lie in the order of keys. The commit takes the place of a partition only while that is as it was
read; where others committed to it, it is read again.

Spec: docs/spec/clustering.md#dynamic-buckets
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from bucketlake.errors import ConflictError, UnsupportedError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.ops.cluster.job import ATTEMPTS, Job, in_batches
from bucketlake.ops.cluster.order import SortOrder
from bucketlake.ops.cluster.rows import in_order
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.commit.units import run_units
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.scan.scan import Scan, plan, skips_level_0
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import ROWS_STAY_PROPERTY, Changes, added
from bucketlake.ops.table.entries import deletion, entry_key
from bucketlake.ops.table.known import knowing_order
from bucketlake.ops.table.messages import CommitMessage, Split, WriteTask
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.ops.write.write import write_batches
from bucketlake.values import dataclass

State = frozenset[object]
"""What a partition holds: its live files and index files."""


@dataclass(frozen=True, slots=True)
class KeyedUnit:
    """A partition to be put in order: its splits. Small, picklable."""

    partition: bytes
    splits: tuple[Split, ...]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(split.size for split in self.splits)

    @property
    def row_count(self) -> int:
        """Rows of the files, superseded ones included."""
        return sum(split.row_count for split in self.splits)


KeyedRun = Callable[[Store, Sequence[KeyedUnit], SortOrder], list[CommitMessage]]
"""Puts the rows of partitions in order and gives their messages; where it raises, the files that it wrote are gone."""


def refuse(store: Store) -> None:
    """UnsupportedError where an overwrite would not tell of rows, or not see them."""
    options = store.options
    producer = options.get("changelog-producer")
    if producer in ("lookup", "full-compaction"):
        raise UnsupportedError(
            "a sort compaction would skip changes that the changelog has not told of yet",
            option="changelog-producer",
            value=producer,
            remedy="CALL sys.compact without an order",
        )
    if skips_level_0(store):
        raise UnsupportedError(
            "rows of this table are merged by compaction alone: it cannot be put in another order",
            option="deletion-vectors.enabled",
            merge_engine=options.get("merge-engine"),
            remedy="CALL sys.compact without an order",
        )
    if options.is_set("rowkind.field"):
        raise UnsupportedError("rows tell their kind by a column and would be applied anew", option="rowkind.field")


def put_in_order(store: Store, job: Job, run: KeyedRun | None = None) -> Snapshot | None:
    """Put the partitions of a job in order; the last snapshot, None where there was nothing to do.

    Errors: UnsupportedError, ConflictError where others keep writing to the partitions, and what a commit raises.
    """
    refuse(store)
    units = plan_units(store, store.latest_snapshot(), job.partitions)
    work = run or sort_here

    def commit(batch: list[KeyedUnit]) -> Snapshot | None:
        return _Batch(store, job.order, work).commit(frozenset(unit.partition for unit in batch))

    return in_batches(store, job, units, commit)


def plan_units(store: Store, snapshot: Snapshot | None, partitions: PartitionFilter | None) -> list[KeyedUnit]:
    """The partitions of a snapshot, all rows of each."""
    if snapshot is None:
        return []
    found: dict[bytes, list[Split]] = {}
    for split in plan(store, Scan(selection=Selection(snapshot))).splits:
        if partitions is None or partitions(split.partition):
            found.setdefault(split.partition, []).append(replace(split, replaced=True))
    return [KeyedUnit(partition, tuple(splits)) for partition, splits in found.items()]


def sort_here(store: Store, units: Sequence[KeyedUnit], order: SortOrder) -> list[CommitMessage]:
    """Put partitions in order in this process, several at a time."""
    return run_units(store, units, lambda store, unit: sort_partition(store, unit, order))


def sort_partition(store: Store, unit: KeyedUnit, order: SortOrder) -> list[CommitMessage]:
    """The rows of a partition in new files; on an error none stays."""
    rows = chain.from_iterable(read_split(store, split) for split in unit.splits)
    task = WriteTask(new_commit_user(store), changelog=False)
    return write_batches(store, in_order(rows, order, store), task)


class _Batch:
    """Partitions that are committed together."""

    def __init__(self, store: Store, order: SortOrder, run: KeyedRun) -> None:
        self._store, self._order, self._run = store, order, run
        self._user = new_commit_user(store)
        self._known: dict[bytes, State] = {}

    def commit(self, partitions: frozenset[bytes]) -> Snapshot | None:
        """One OVERWRITE of these partitions, those read again that others committed to meanwhile."""

        def once(attempt: Attempt) -> Snapshot | None:
            base = attempt.on(self._store.latest_snapshot())
            self._store = knowing_order(self._store, base, self._order.fields)
            kept = {message.partition for message in attempt.messages}
            view = View(self._store, base)
            wanted = partitions - kept
            units = plan_units(self._store, base, wanted.__contains__)
            self._known = {partition: self._known[partition] for partition in kept}
            self._known.update({unit.partition: _state(view, unit.partition) for unit in units})
            messages = attempt.made(self._run(self._store, units, self._order) if units else [])
            if not self._known:
                return None
            name = CommitName(0, self._user, BATCH_COMMIT_IDENTIFIER, CommitKind.OVERWRITE)
            request = Request(
                name, lambda view: self._changes(view, messages), properties={ROWS_STAY_PROPERTY: self._user}
            )
            return Publisher(self._store).publish(request, attempt.outcome)

        commit = Commit(self._store, self._user)
        attempts = Attempts(self._store, commit.abort, ATTEMPTS, rescue=self._standing)
        try:
            return attempts.run(once)
        except ConflictError as error:
            raise ConflictError(
                "other commits kept writing to the partitions that are put in order",
                path=self._store.paths.root,
                attempts=ATTEMPTS,
                remedy="repeat it, partition by partition, while nobody writes to them",
            ) from error

    def _changes(self, view: View, messages: Sequence[CommitMessage]) -> Changes:
        """Everything of the partitions out, everything in, if they are as they were read."""
        partitions = frozenset(self._known)
        moved = [partition for partition in partitions if _state(view, partition) != self._known[partition]]
        if moved:
            raise ConflictError(
                "another commit wrote to partitions that are put in order",
                partitions=[self._store.paths.partition_texts(partition) for partition in moved],
                base=None if view.snapshot is None else view.snapshot.id,
            )
        old = [deletion(entry) for partition in partitions for entry in _entries(view, partition)]
        stale = [replace(entry, kind=FileKind.DELETE) for entry in view.indexes if entry.partition in partitions]
        new = added(messages)
        return Changes((*old, *new.table), (), (*stale, *new.indexes))

    def _standing(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """The messages of partitions that are as they were read."""
        view = View(self._store, self._store.latest_snapshot())
        same = {partition for partition, state in self._known.items() if _state(view, partition) == state}
        return [message for message in messages if message.partition in same]


def _entries(view: View, partition: bytes) -> tuple[ManifestEntry, ...]:
    return view.entries(frozenset([partition]))


def _state(view: View, partition: bytes) -> State:
    indexes = [(e.bucket, e.file.file_name) for e in view.indexes if e.partition == partition]
    return frozenset([*(entry_key(entry) for entry in _entries(view, partition)), *indexes])
