"""Pending rows of a postpone table into their real buckets: plan → units → level-0 files → one COMPACT snapshot.

    PendingUnit                                                   some pending files of a partition, in their order
    units_pending(store, snapshot, partitions, parallelism)       all that is pending, from metadata only
    place_rows(store, unit) -> list[CommitMessage]                one task's work
    place_pending(store, plan, run) -> Snapshot | None            all of it, by partition, again where others came first

The rows of a unit get the sequence numbers that follow those of the bucket and of the pending rows before them, so
units need no order among each other. The merge of what they write is `ops.compact.bucket`'s affair, as after any write.

Spec: docs/spec/postpone.md#compaction
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from bucketlake.errors import ConflictError
from bucketlake.format.metadata.manifest import DataFile, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.ops.buckets.postpone import buckets_for_compaction, ordered_by_partition, real_totals
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.outcome import Outcome
from bucketlake.ops.commit.partial import Partly
from bucketlake.ops.compact.job import Group, Job, run_job
from bucketlake.ops.compact.pending_whole import Pending, placed_whole
from bucketlake.ops.compact.running import Runner, Work, here
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.rows.residues import Residue, Share, fitting, may_meet, residue_of
from bucketlake.ops.scan.partition_choice import both
from bucketlake.ops.scan.scan import EntryFilter, keyed_entries
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.entries import max_sequences
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import sequence_floor
from bucketlake.ops.write.write import write_batches
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.values import dataclass

UNIT_BYTES = 16 << 20  # of pending files that are worth a task
FILE_BYTES = 4 << 20  # that each group of files should bring a bucket
MOST_SHARES = 4  # how often pending files are read rather than buckets given several runs


@dataclass(frozen=True, slots=True)
class PendingUnit:
    """Pending files of one partition, in their order, whose rows go to the real buckets of one share.

    `starts`: the next sequence number of each bucket that has files, `first` of the others; `before`: rows of the
    partition's pending files before these. `share`: (k, n), the buckets whose number modulo n is k. `size`,
    `row_count`: bytes and rows of the files that the unit writes, about.
    """

    partition: bytes
    total_buckets: int
    files: tuple[DataFile, ...]
    starts: dict[int, int] = field(default_factory=dict)
    first: int = 0
    before: int = 0
    share: Share = (0, 1)
    size: int = 0
    row_count: int = 0

    def first_number(self, bucket: int) -> int:
        """The sequence number of the first of its rows in a bucket."""
        return self.starts.get(bucket, self.first) + self.before


def units_pending(
    store: Store, snapshot: Snapshot, partitions: PartitionFilter | None = None, parallelism: int = 1
) -> list[PendingUnit]:
    """What is pending in a snapshot, in the partitions that `partitions` is true for, as units for so many tasks."""
    only = EntryFilter(buckets=frozenset([POSTPONE_BUCKET]))
    pending = [e for e in keyed_entries(store, snapshot, only) if partitions is None or partitions(e.partition)]
    if not pending:
        return []
    ordered = ordered_by_partition(store, snapshot, pending)
    real = keyed_entries(store, snapshot, EntryFilter(partitions=frozenset(ordered), min_bucket=0))
    totals, whole = real_totals(real), sum(entry.file.file_size for entry in pending)
    first, starts = sequence_floor(store, snapshot), _next_numbers(real)
    units: list[PendingUnit] = []
    for partition, files in ordered.items():
        rows, size = sum(file.row_count for file in files), sum(file.file_size for file in files)
        total = totals.get(partition) or buckets_for_compaction(store.options, rows, parallelism)
        tasks = min(-(-parallelism * size // max(whole, 1)), max(1, size // UNIT_BYTES))
        found = {file.file_name: residue_of(store, file) for file in files}
        own = fitting(total, size // UNIT_BYTES, list(found.values()))
        shares = own * max(1, min(total // own, tasks // own, MOST_SHARES))
        groups = max(1, min(tasks // shares, size // (total * FILE_BYTES)))
        before = 0
        for group in _grouped(files, groups):
            place = PendingUnit(partition, total, tuple(group), starts.get(partition, {}), first, before)
            units += _shares(place, shares, found)
            before += sum(file.row_count for file in group)
    return units


def _shares(whole: PendingUnit, count: int, found: Mapping[str, Residue | None]) -> Iterator[PendingUnit]:
    """The unit, cut by buckets; those that find none of its files are left out. `found`: by file name."""
    total = whole.total_buckets
    chosen = [
        [file for file in whole.files if may_meet(found[file.file_name], total, (own, count))] for own in range(count)
    ]
    readers = Counter(file.file_name for files in chosen for file in files)
    for own, files in enumerate(chosen):
        if files:
            size = sum(file.file_size // readers[file.file_name] for file in files)
            rows = sum(file.row_count // readers[file.file_name] for file in files)
            yield replace(whole, files=tuple(files), share=(own, count), size=size, row_count=rows)


def _next_numbers(entries: Iterable[ManifestEntry]) -> dict[bytes, dict[int, int]]:
    found: dict[bytes, dict[int, int]] = {}
    for (partition, bucket), highest in max_sequences(entries).items():
        found.setdefault(partition, {})[bucket] = highest + 1
    return found


def _grouped(files: Sequence[DataFile], count: int) -> list[list[DataFile]]:
    """At most `count` groups of consecutive files, of about the same bytes."""
    target = -(-sum(file.file_size for file in files) // count)
    groups: list[list[DataFile]] = [[]]
    filled = 0
    for file in files:
        if groups[-1] and filled + file.file_size // 2 > target and len(groups) < count:
            groups.append([])
            filled = 0
        groups[-1].append(file)
        filled += file.file_size
    return groups


def place_rows(store: Store, unit: PendingUnit) -> list[CommitMessage]:
    """Write a unit's rows as sorted level-0 files of their buckets; one message a bucket. The pending files stay: the
    commit takes them away.

    Memory: `write-buffer-size` and a few blocks. Errors as `write_batches`; then the files written are removed.
    """
    whole = placed_whole(store, Pending(unit.partition, unit.total_buckets, unit.files, unit.share), unit.first_number)
    if whole is not None:
        return whole
    start = {(unit.partition, bucket): number + unit.before for bucket, number in unit.starts.items()}
    task = WriteTask(
        "",
        sequence_start=start,
        total_buckets={unit.partition: unit.total_buckets},
        first_sequence=unit.first + unit.before,
    )
    return write_batches(store, _rows(store, unit), task, KIND_FIELD.name)


def _rows(store: Store, unit: PendingUnit) -> Iterator[pa.RecordBatch]:
    """The unit's rows in their order, with their kinds."""
    schema = store.schema
    folder = store.paths.bucket_dir(unit.partition, POSTPONE_BUCKET)
    names = [*schema.field_names, KIND_FIELD.name]
    fields, function = schema.select(schema.bucket_keys), store.options.get("bucket-function.type")
    own, shares = unit.share
    for file in unit.files:
        residue = residue_of(store, file)
        for batch in read_key_values(store, folder, file):
            rows = batch.select(names)
            if shares > 1:
                buckets = np.asarray(assign_buckets(rows, fields, unit.total_buckets, function), np.int64)
                if residue is not None:
                    residue.check(buckets, unit.total_buckets, file)
                mine = buckets % shares == own
                rows = rows if mine.all() else rows.filter(pa.array(mine))
            yield rows


@dataclass(frozen=True)
class PendingPlan:
    """What placing pending rows does, as a job: the units of a partition are committed together, since they take away
    its pending files. `parallelism`: tasks that run at once."""

    partitions: PartitionFilter | None = None
    parallelism: int = 1
    work: Work = place_rows
    whole: bool = True

    def units(self, store: Store, base: Snapshot, only: frozenset[bytes] | None) -> list[PendingUnit]:
        """See Plan."""
        wanted = self.partitions if only is None else both(self.partitions, only.__contains__)
        return units_pending(store, base, wanted, self.parallelism)

    def place(self, unit: PendingUnit) -> bytes:
        """See Plan: its partition."""
        return unit.partition

    def group(self, unit: PendingUnit) -> bytes:
        """See Plan: its partition."""
        return unit.partition

    def publish(self, store: Store, user: str, groups: Sequence[Group], outcome: Outcome) -> Partly:
        """See Plan."""
        messages = [message for group in groups for message in group.messages]
        gone = _removals([unit for group in groups for unit in group.units])
        check = partial(_check_first, store)
        return Partly(Commit(store, user, check=check).move([*messages, *gone], outcome=outcome))


def place_pending(store: Store, plan: PendingPlan | None = None, run: Runner = here) -> Snapshot | None:
    """Move what is pending now into real buckets and commit it, in parts as partitions are finished; the newest COMPACT
    snapshot, None where nothing is pending.

    Takes away exactly the pending files that were read: what others commit meanwhile stays pending. Where another
    compaction took them, or another commit gave a partition another bucket number, it is planned anew, a bounded
    number of times; then ConflictError.
    """
    return run_job(Job.of(store, plan or PendingPlan(), "place pending rows"), run)


def _check_first(store: Store, messages: Sequence[CommitMessage], view: View) -> None:
    """Raise ConflictError where a pending file stays that comes before one which is taken away: its rows would be newer
    than those that follow it. Appends come after all that was read; a rollback may bring one back."""
    taken = {
        (message.partition, file.file_name)
        for message in messages
        if message.bucket == POSTPONE_BUCKET
        for file in message.deleted_files
    }
    partitions = frozenset(partition for partition, _ in taken)
    pending = [entry for entry in view.entries(partitions) if entry.bucket == POSTPONE_BUCKET]
    if view.snapshot is None or all((entry.partition, entry.file.file_name) in taken for entry in pending):
        return
    for partition, files in ordered_by_partition(store, view.snapshot, pending).items():
        goes = [(partition, file.file_name) in taken for file in files]
        if any(later and not earlier for earlier, later in pairwise(goes)):
            raise ConflictError(
                "pending rows were brought back before those that a compaction moves",
                table=store.paths.root,
                base=view.snapshot.id,
                file=files[goes.index(False)].file_name,
                remedy="compact again",
            )


def _removals(units: Sequence[PendingUnit]) -> list[CommitMessage]:
    """What takes the units' pending files away, each once."""
    files: dict[bytes, dict[str, DataFile]] = {}
    for unit in units:
        files.setdefault(unit.partition, {}).update((file.file_name, file) for file in unit.files)
    return [
        CommitMessage(partition, POSTPONE_BUCKET, POSTPONE_BUCKET, deleted_files=tuple(found.values()))
        for partition, found in files.items()
    ]
