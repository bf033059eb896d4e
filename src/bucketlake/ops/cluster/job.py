"""Sort compaction and clustering as a job: plan → put in order → commit, partitions by partitions, anew where it lost.

    put_in_order(store, Job(order, pick), run=sort_here) -> Snapshot | None
    sort_here(store, units, order) -> messages                  in this process

A commit takes away exactly the files that were read. Rows that others append meanwhile stay; where others deleted rows
of those files, or replaced them, the partition is read again.

Spec: docs/spec/clustering.md#committing
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from bucketlake.errors import ConflictError
from bucketlake.format.index.index_manifest import DELETION_VECTORS
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.cluster.order import SortOrder
from bucketlake.ops.cluster.plan import ClusterUnit, Pick, everything, plan_units
from bucketlake.ops.cluster.rows import in_order
from bucketlake.ops.commit.commit import Commit, CommitProperties
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.commit.units import run_units
from bucketlake.ops.progress import Meter, OnProgress
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.roll import Roller
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.changes import ROWS_STAY_PROPERTY
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.known import knowing_order
from bucketlake.ops.table.made import all_or_nothing
from bucketlake.ops.table.memory import large_buffers
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.values import dataclass


class _Sized(Protocol):
    @property
    def size(self) -> int: ...

    @property
    def row_count(self) -> int: ...


U = TypeVar("U", bound=_Sized)
ATTEMPTS = 20
BATCH_BYTES = 64 << 30  # partitions of so many bytes are committed together
Run = Callable[[Store, Sequence[ClusterUnit], SortOrder], list[CommitMessage]]
"""Puts the rows of units in order and gives their messages; where it raises, the files that it wrote are gone."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to put in order. `pick`: which files of a bucket; `partitions`: of these only; `local`: parts of the files
    each by themselves; `progress` is told after every commit."""

    order: SortOrder
    pick: Pick = everything
    partitions: PartitionFilter | None = None
    local: bool = False
    progress: OnProgress | None = None


def put_in_order(store: Store, job: Job, run: Run | None = None) -> Snapshot | None:
    """Put the files that the job picks in order; the last snapshot, None where there was nothing to do. What has been
    committed stays when a later commit fails.

    Errors: ConflictError where others keep changing the files, and what a commit raises.
    """
    work = run or (sort_parts_here if job.local else sort_here)
    first = plan_units(store, store.latest_snapshot(), job.pick, job.partitions)
    return in_batches(store, job, first, lambda batch: _commit(store, job, frozenset(u.place for u in batch), work))


def in_batches(
    store: Store, job: Job, units: Sequence[U], commit: Callable[[list[U]], Snapshot | None]
) -> Snapshot | None:
    """Commit units, those together that `batches_of` says, and tell of each; the last snapshot."""
    meter = Meter("put in order", store.paths.root, store.env.clock, job.progress)
    meter.expect(len(units), sum(unit.row_count for unit in units), sum(unit.size for unit in units))
    done: Snapshot | None = None
    for batch in batches_of(units):
        found = commit(batch)
        if found is not None:
            meter.commit()
            done = found
        meter.add(len(batch), sum(unit.row_count for unit in batch), sum(unit.size for unit in batch))
    meter.finish()
    return done


def batches_of(units: Sequence[U]) -> Iterator[list[U]]:
    """Units that are committed together, in their order."""
    batch: list[U] = []
    size = 0
    for unit in units:
        if batch and size + unit.size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(unit)
        size += unit.size
    if batch:
        yield batch


def _commit(store: Store, job: Job, buckets: frozenset[BucketKey], run: Run) -> Snapshot | None:
    """One commit of the units of these buckets, planned anew where others came between."""
    user = new_commit_user(store)
    commit = Commit(store, user)

    def once(attempt: Attempt) -> Snapshot | None:
        base = attempt.on(store.latest_snapshot())
        known = knowing_order(store, base, job.order.fields)
        kept = frozenset((message.partition, message.bucket) for message in attempt.messages)
        units = plan_units(known, base, job.pick, buckets=buckets - kept)
        messages = attempt.made(run(known, units, job.order) if units else [])
        notes = CommitProperties({ROWS_STAY_PROPERTY: user}) if any(m.deleted_files for m in messages) else None
        return commit.commit(messages, notes=notes, outcome=attempt.outcome) if messages else None

    attempts = Attempts(store, commit.abort, ATTEMPTS, rescue=lambda messages: standing(store, messages))
    try:
        return attempts.run(once)
    except ConflictError as error:
        raise ConflictError(
            "other commits kept changing the files that are put in order",
            path=store.paths.root,
            attempts=ATTEMPTS,
            remedy="repeat it, partition by partition, while fewer rows are deleted",
        ) from error


def standing(store: Store, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """The messages whose old files are all live, with the rows that they had when they were read."""
    newest = store.latest_snapshot()
    if newest is None:
        return []
    live = {(e.partition, e.bucket, e.file.level, e.file.file_name) for e in live_entries(store, newest)}
    vectors = [entry for entry in store.index_manifest(newest) if entry.file.index_type == DELETION_VECTORS]
    indexes = {(e.partition, e.bucket, e.file.file_name) for e in vectors}
    marked = {
        (e.partition, e.bucket, part.data_file_name): e.file.file_name
        for e in vectors
        for part in e.file.dv_ranges or ()
    }

    def stands(message: CommitMessage) -> bool:
        place = (message.partition, message.bucket)
        old = (*message.deleted_files, *message.compact_before)
        known = {index.file_name for index in (*message.deleted_index_files, *message.compact_deleted_index_files)}
        if any((*place, file.level, file.file_name) not in live for file in old):
            return False
        if any((*place, name) not in indexes for name in known):
            return False
        return all(marked.get((*place, file.file_name)) in {None, *known} for file in old)

    return [message for message in messages if stands(message)]


# ---------------------------------------------------------------------------------------------- in this process


def sort_here(store: Store, units: Sequence[ClusterUnit], order: SortOrder) -> list[CommitMessage]:
    """Put units in order in this process, several at a time."""
    return run_units(store, units, lambda store, unit: [sort_unit(store, unit, [unit.files], order)])


def sort_parts_here(store: Store, units: Sequence[ClusterUnit], order: SortOrder) -> list[CommitMessage]:
    """Put parts of units in order, each by itself, in this process."""
    return run_units(store, units, lambda store, unit: [sort_unit(store, unit, parts_of(store, unit, 2), order)])


def parts_of(store: Store, unit: ClusterUnit, tasks: int) -> list[tuple[DataFile, ...]]:
    """The files of a unit in parts for so many tasks at least, none larger than a split if it has several files."""
    cost, most = (int(store.options.get(f"source.split.{name}")) for name in ("open-file-cost", "target-size"))
    weights = [max(file.file_size, cost) for file in unit.files]
    limit = max(cost, min(most, -(-sum(weights) // max(tasks, 1))))
    parts: list[list[DataFile]] = []
    filled = 0
    for file, weight in zip(unit.files, weights, strict=True):
        if not parts or filled + weight > limit:
            parts.append([])
            filled = 0
        parts[-1].append(file)
        filled += weight
    return [tuple(part) for part in parts]


def sort_unit(store: Store, unit: ClusterUnit, parts: Sequence[Sequence[DataFile]], order: SortOrder) -> CommitMessage:
    """What to commit for a unit whose files, in these parts, are each put in order; on an error no file stays."""
    made: list[DataFile] = []
    rollers: list[Roller] = []
    store = tracked(store)
    with all_or_nothing(rollers):
        for part in parts:
            rollers.append(Roller(store, unit.partition, unit.bucket))
            made += sort_files(store, unit, part, order, rollers[-1])
        return unit.message(store, made)


def sort_files(
    store: Store, unit: ClusterUnit, files: Sequence[DataFile], order: SortOrder, roller: Roller
) -> list[DataFile]:
    """The live rows of some of a unit's files in order, in new files."""
    with large_buffers():
        for batch in in_order(read_split(store, unit.split(store, files)), order, store):
            roller.write(batch)
        return roller.close()
