"""Partitions of a chain table written whole into its snapshot branch: what reads would merge is merged once.

    compact_chain(store, partition, overwrite)    -> what was committed, None where there was nothing to do

Spec: docs/spec/chain_table.md#compaction
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from bucketlake.errors import ConflictError, InvalidError
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.ops.change.row_conflicts import EMPTY, check_of
from bucketlake.ops.commit.chain import NothingLeftError, dropping
from bucketlake.ops.commit.commit import Commit, CommitProperties
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.compact.running import Runner, Task, all_of, here
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.scan.chain import chain_of, links, opened, plan_chain
from bucketlake.ops.scan.fallback import beside, partitions_of
from bucketlake.ops.scan.partition_choice import by_specs
from bucketlake.ops.scan.scan import EntryFilter, Plan, Scan, delta_entries, live_entries
from bucketlake.ops.scan.select import select_snapshot
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import entry_key
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage, Split, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class ChainUnit:
    """The rows of one bucket of a partition: splits with the stores to read them with, and how they are written."""

    splits: tuple[tuple[Store, Split], ...]
    task: WriteTask

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(split.size for _, split in self.splits)


@dataclass(frozen=True)
class ChainRows:
    """What is written. `parts`: plans with the stores to read them with; `merged`: the partitions of deltas in them,
    `seen`: the delta branch as it was looked at; `base`: the snapshot branch then; `partition`: what rows replace,
    `dynamic`: just the partitions that rows are in; None: they replace nothing."""

    snapshots: Store
    deltas: Store
    parts: tuple[tuple[Store, Plan], ...]
    merged: frozenset[bytes]
    seen: Snapshot | None
    base: Snapshot | None
    partition: Mapping[str, str] | None = None
    dynamic: bool | None = None

    def units(self, task: WriteTask) -> list[ChainUnit]:
        """The rows bucket by bucket: one writer has all of a bucket, in the order of its keys."""
        buckets: dict[tuple[bytes, int], list[tuple[Store, Split]]] = {}
        for store, plan in self.parts:
            for split in plan.splits:
                buckets.setdefault((split.partition, split.bucket), []).append((store, split))
        return [ChainUnit(tuple(splits), task) for splits in buckets.values()]

    def check(self) -> None:
        """ConflictError where deltas came to the partitions, or left them, since they were looked at: rows that lack
        them would hide them."""
        now = self.deltas.latest_snapshot()
        if (now and now.id) == (self.seen and self.seen.id):
            return
        if _keys(self.deltas, now, self.merged) != _keys(self.deltas, self.seen, self.merged):
            raise ConflictError(
                "deltas of the partition were written while it was compacted",
                table=self.deltas.paths.root,
                remedy="compact it again",
            )

    def overwritten(self, messages: Sequence[CommitMessage]) -> bool:
        """Whether an overwrite came to deltas of the partitions that were written, since they were looked at. It drops
        whole partitions that hide its own, but does not see one that is committed a moment later."""
        written = {message.partition for message in messages}
        since = self.deltas.snapshots_after(self.seen.id if self.seen else 0)
        changes = (one for one in since if one.commit_kind is CommitKind.OVERWRITE)
        return any(entry.partition in written for one in changes for entry in delta_entries(self.deltas, one))


Done = tuple[Store, Snapshot | None, list[CommitMessage]]
"""The snapshot branch, what was committed to it, and of which messages."""


def compact_chain(store: Store, partition: Mapping[str, str], overwrite: bool, run: Runner = here) -> Done | None:
    """Write partitions of the delta branch, merged, into the snapshot branch, as one commit; again where others changed
    either branch meanwhile, a bounded number of times. None where there was nothing to write. What an overwrite of the
    deltas did not see is taken back, and made anew.

    Errors: as `chain_rows`; ConflictError.
    """

    def once(attempt: Attempt) -> tuple[ChainRows, Done] | None:
        rows = chain_rows(store, partition, overwrite)
        if rows is None:
            return None
        attempt.on(rows.base)
        place, user = rows.snapshots, new_commit_user(rows.snapshots)
        replaces = rows.dynamic is not None
        task = prepare_write(place, rows.base, commit_user=user, overwrite=replaces)
        messages = attempt.made(all_of([Task(place, _write, unit) for unit in rows.units(task)], run))
        rows.check()
        commit = Commit(place, user, check=check_of(place, rows.base or EMPTY, whole=True))
        notes = CommitProperties(operation="OVERWRITE" if replaces else "WRITE")
        if rows.dynamic is None:
            done = commit.commit(messages, notes=notes, outcome=attempt.outcome)
        else:
            done = commit.overwrite(
                messages, rows.partition, dynamic=rows.dynamic, notes=notes, outcome=attempt.outcome
            )
        return rows, (place, done, messages)

    while (found := Attempts(store, lambda messages: _discard(store, messages)).run(once)) is not None:
        rows, done = found
        if not rows.overwritten(done[2]):
            return done
        _take_back(done[0], done[2])
    return None


def _write(store: Store, unit: ChainUnit) -> list[CommitMessage]:
    batches = (batch for place, split in unit.splits for batch in read_split(place, split))
    return write_batches(store, batches, unit.task)


def _take_back(store: Store, messages: Sequence[CommitMessage]) -> None:
    """Drop what was committed, as far as it is still there."""
    written = {file.file_name for message in messages for file in (*message.new_files, *message.compact_after)}
    partitions = frozenset(message.partition for message in messages)

    def plan(view: View) -> Changes:
        found = view.entries(partitions)
        ours = frozenset(entry.partition for entry in found if entry.file.file_name in written)
        return dropping(ours, view)

    name = CommitName(0, new_commit_user(store), BATCH_COMMIT_IDENTIFIER, CommitKind.OVERWRITE)
    with suppress(NothingLeftError):
        Publisher(store).publish(Request(name, plan, operation="TRUNCATE"))


def _discard(store: Store, messages: Sequence[CommitMessage]) -> None:
    chain = chain_of(store)
    if chain is not None:
        discard(opened(store, chain.snapshot), messages)


def chain_rows(store: Store, partition: Mapping[str, str], overwrite: bool) -> ChainRows | None:
    """What `compact_chain_table` writes: the partitions of the delta branch that a specification (some partition
    columns or all) names. None where there are none, or where the snapshot branch has such a partition and `overwrite`
    is false.

    Errors: InvalidError (no chain table, columns, values), and those of a read.
    """
    chain = chain_of(store)
    if chain is None:
        if not store.options.get("chain-table.enabled"):
            raise InvalidError("compact_chain_table only supports chain table", table=store.paths.root)
        raise InvalidError(
            f"Table {store.paths.root} is not a chain table",
            remedy="name the main branch, and set scan.fallback-snapshot-branch and scan.fallback-delta-branch",
        )
    wanted = by_specs(store, [partition])
    selection = select_snapshot(store)
    (snapshots, whole), (deltas, changes) = (beside(store, selection, name) for name in (chain.snapshot, chain.delta))
    earlier, later = (
        partitions_of(place, Scan(selection=chosen)) for place, chosen in ((snapshots, whole), (deltas, changes))
    )
    there = any(wanted(one) for one in earlier)
    asked = frozenset(one for one in later if wanted(one))
    if not asked or (there and not overwrite):
        return None
    found = links(deltas, asked, earlier, later)
    parts = plan_chain((snapshots, Scan(selection=whole)), (deltas, Scan(selection=changes)), found)
    named = set(partition) == set(store.schema.partition_keys)
    rows = ChainRows(
        opened(store, chain.snapshot),
        deltas,
        tuple(zip((snapshots, deltas), parts, strict=True)),
        frozenset(delta for link in found for delta in link.deltas),
        changes.snapshot,
        whole.snapshot,
    )
    return replace(rows, partition=partition if named else None, dynamic=not named) if there else rows


def _keys(store: Store, snapshot: Snapshot | None, partitions: frozenset[bytes]) -> frozenset[object]:
    if snapshot is None:
        return frozenset()
    return frozenset(map(entry_key, live_entries(store, snapshot, EntryFilter(partitions=partitions))))
