"""Partitions of a chain table that are too old: whole segments, a snapshot partition with the deltas up to the next.

The newest snapshot partition that is too old stays, and what is behind it: reads build on it. Deltas go first, so that
no reader, and no expiry that dies on the way, leaves any without what they build on.

Spec: docs/spec/chain_table.md#expiry
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from bucketlake.format.row.order import Rank
from bucketlake.ops.commit.chain import EXPIRY, NothingLeftError, dropping
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.progress import Meter
from bucketlake.ops.scan.chain import by_group, opened, places, told_chain
from bucketlake.ops.scan.fallback import partitions_of
from bucketlake.ops.scan.scan import Scan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.partition_times import partition_time
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

Group = tuple[Rank, ...]


@dataclass(frozen=True, slots=True)
class _Due:
    """What is too old of one group. `anchor`: the snapshot partition that must be there for it to go; `snapshots`,
    `deltas`: by their branch, oldest first."""

    anchor: bytes
    snapshots: tuple[bytes, ...]
    deltas: tuple[bytes, ...]


def expire_chain(store: Store, limit: datetime, meter: Meter) -> list[dict[str, str]]:
    """Drop segments whose times are before `limit`, of each group at most `partition.expiration-max-num`; what went, as
    column → text: of the delta branch, then of the snapshot branch.

    Errors: InvalidError (strategy, branches, an order of values that is not that of times), those of a commit.
    """
    strategy = store.options.get("partition.expiration-strategy")
    if strategy != "values-time":
        raise InvalidError("Chain table only supports 'values-time' partition expiration strategy.", found=strategy)
    chain = told_chain(store)
    if chain is None:
        raise InvalidError(
            "the branches of the chain table are not named",
            table=store.paths.root,
            remedy="set scan.fallback-snapshot-branch and scan.fallback-delta-branch",
        )
    snapshots, deltas = opened(store, chain.snapshot), opened(store, chain.delta)
    due = _due(store, _partitions(snapshots), _partitions(deltas), limit)
    anchors = {one.anchor for one in due}
    doomed = [partition for one in due for partition in reversed(one.deltas)]
    meter.expect(len(doomed) + sum(len(one.snapshots) for one in due), 0, 0)
    gone: list[bytes] = []
    for part in _batches(store, doomed):
        gone += _drop(deltas, part, lambda view: anchors <= _partitions(snapshots), meter)
    whole = [partition for one in due for partition in one.snapshots]
    for part in _batches(store, whole):
        _drop(snapshots, part, lambda view: anchors <= {e.partition for e in view.entries(None)}, meter)
    left = _partitions(snapshots)
    told = [*sorted(gone, key=doomed.index, reverse=True), *(one for one in whole if one not in left)]
    return [store.paths.partition_texts(partition) for partition in told]


def _due(store: Store, whole: Collection[bytes], changes: Collection[bytes], limit: datetime) -> list[_Due]:
    most = store.options.get("partition.expiration-max-num")
    times = {partition: partition_time(store, partition) for partition in {*whole, *changes}}
    deltas = by_group(places(store, changes))
    found = []
    for group, members in by_group(places(store, whole)).items():
        old = [one for _, one in members if _before(times, one, limit)]
        _check_order(store, members, times)
        count = min(len(old) - 1, most)
        if count < 1:
            continue
        edge = times[old[count]]
        assert edge is not None
        own = tuple(one for _, one in deltas.get(group, []) if _before(times, one, edge))
        found.append(_Due(old[count], tuple(old[:count]), own))
    return found


def _before(times: Mapping[bytes, datetime | None], partition: bytes, limit: datetime) -> bool:
    time = times[partition]
    return time is not None and time < limit


def _check_order(store: Store, members: Iterable[tuple[Group, bytes]], times: Mapping[bytes, datetime | None]) -> None:
    """What is the newest by values must be so by times: it is what reads build on."""
    known = [time for _, one in members if (time := times[one]) is not None]
    if any(later <= earlier for earlier, later in pairwise(known)):
        raise InvalidError(
            "partitions of a chain are not in the order of the times that their values stand for",
            table=store.paths.root,
            remedy="set 'partition.timestamp-pattern' and 'partition.timestamp-formatter' by the values",
        )


def _batches(store: Store, partitions: Sequence[bytes]) -> list[Sequence[bytes]]:
    size = store.options.get("partition.expiration-batch-size") or 0
    size = size if size > 0 else len(partitions) or 1
    return [partitions[start : start + size] for start in range(0, len(partitions), size)]


def _partitions(store: Store) -> frozenset[bytes]:
    return partitions_of(store, Scan(selection=Selection(store.latest_snapshot())))


def _drop(store: Store, wanted: Sequence[bytes], holds: Callable[[View], bool], meter: Meter) -> frozenset[bytes]:
    """Drop those of the partitions that are there when the commit is made, while the condition holds."""
    chosen, files = frozenset(wanted), tuple[ManifestEntry, ...]()

    def plan(view: View) -> Changes:
        nonlocal files
        files = view.entries(chosen) if holds(view) else ()
        return dropping(chosen if files else frozenset(), view)

    user = EXPIRY + store.env.clock.new_uuid()
    name = CommitName(0, user, BATCH_COMMIT_IDENTIFIER, CommitKind.OVERWRITE)
    with suppress(NothingLeftError):
        Publisher(store).publish(Request(name, plan))
        rows, size = sum(e.file.row_count for e in files), sum(e.file.file_size for e in files)
        dropped = frozenset(entry.partition for entry in files)
        meter.add(len(dropped), rows, size)
        meter.commit()
        return dropped
    return frozenset()
