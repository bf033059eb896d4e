"""Partitions that are too old.

    expire_partitions(store)            drops what `partition.expiration-*` says is too old

Which partitions are too old is decided again on every base that the commit is tried on: one that is written meanwhile
is not dropped by the time of its last write.

Spec: docs/spec/tags.md#partitions
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from bucketlake.ops.clean.chain_partitions import expire_chain
from bucketlake.ops.commit.chain import EXPIRY, NothingLeftError
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.progress import Meter, OnProgress
from bucketlake.ops.scan.chain import told_chain
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import deletion
from bucketlake.ops.table.partition_times import partition_time
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_from_epoch, local_to_epoch
from bucketlake.types.wall_clock import epoch_of

VALUES_TIME, UPDATE_TIME = "values-time", "update-time"


def expire_partitions(store: Store, on_progress: OnProgress | None = None) -> list[dict[str, str]]:
    """Drop partitions older than `partition.expiration-time`, the smallest first, at most
    `partition.expiration-max-num`, `partition.expiration-batch-size` a commit; what was dropped, as column → text. Of a
    chain table: `expire_chain`.

    `on_progress` is told of partitions as units after each commit; what it raises leaves the rest.
    Errors: InvalidError (no such time, no partitions, unknown strategy or pattern), and those of a commit.
    """
    keep = store.options.get("partition.expiration-time")
    if keep is None or not store.schema.partition_keys:
        raise InvalidError("Both the partition expiration time and partition field can not be null.")
    most = store.options.get("partition.expiration-max-num")
    if keep <= 0 or most < 0:
        raise InvalidError(
            "all partitions would go, or fewer than none",
            expiration_time=keep,
            max_expires=most,
            remedy="a positive 'partition.expiration-time', or DROP PARTITION",
        )
    latest = store.latest_snapshot()
    meter = Meter.of_table("expire partitions", store.paths.root, store.env.clock, on_progress)
    if store.options.get("chain-table.enabled"):
        with meter.ending():
            return expire_chain(store, _limit(store, keep), meter)
    if latest is None:
        return []
    with meter.ending():
        return _expired(store, View(store, latest), _limit(store, keep), meter)


def _expired(store: Store, view: View, limit: datetime, meter: Meter) -> list[dict[str, str]]:
    """Drop what is too old as of a snapshot, and still is."""
    most = store.options.get("partition.expiration-max-num")
    chosen = _too_old(store, view, limit)
    texts = {partition: store.paths.partition_texts(partition) for partition in chosen}
    ordered = sorted(texts, key=lambda partition: ",".join(texts[partition].values()))
    ordered = ordered[:most]
    size = store.options.get("partition.expiration-batch-size") or 0
    size = size if size > 0 else len(ordered) or 1
    if meter.is_watched:
        due = set(ordered)
        meter.expect(len(ordered), *_rows_and_bytes(entry for entry in view.entries(None) if entry.partition in due))
    gone: set[bytes] = set()
    for start in range(0, len(ordered), size):
        gone |= _drop(store, frozenset(ordered[start : start + size]), limit, meter)
    return [texts[partition] for partition in ordered if partition in gone]


_LOOKED: dict[Hashable, int] = {}  # when this process last looked, by `Store.place`


def looks_for_old_partitions(store: Store) -> bool:
    """Whether a commit has to look for partitions that are too old: if `end-input.check-partition-expire` says so, and
    in a process that goes on committing each time that `partition.expiration-check-interval` has passed."""
    options = store.options
    if options.get("partition.expiration-time") is None or not store.schema.partition_keys:
        return False
    if options.get("chain-table.enabled") and told_chain(store) is None:
        return False  # its branches are still to be named
    interval = options.get("partition.expiration-check-interval")
    if not interval or options.get("end-input.check-partition-expire"):
        return True
    now = store.env.clock.now_millis()
    if now <= _LOOKED.setdefault(store.place, now) + interval:
        return False
    _LOOKED[store.place] = now
    return True


def worth_compacting(store: Store) -> PartitionFilter | None:
    """With `compaction.skip-expired-partitions`, partitions that are not too old by their values; None: all are."""
    options = store.options
    keep = options.get("partition.expiration-time")
    if not options.get("compaction.skip-expired-partitions") or keep is None or not store.schema.partition_keys:
        return None
    if options.get("partition.expiration-strategy") != VALUES_TIME:
        return None
    limit = _limit(store, keep)
    return lambda partition: not _is_before(store, partition, limit)


def _limit(store: Store, keep: int) -> datetime:
    """The wall clock of this machine, less `keep` milliseconds: hours that clocks were put forward or back count, as in
    Apache Paimon. Before the calendar begins: its begin, and nothing is older."""
    now = datetime(1970, 1, 1) + timedelta(milliseconds=local_from_epoch(store.env.clock.now_millis()))
    try:
        return now - timedelta(milliseconds=keep)
    except OverflowError:
        return datetime.min


def _is_before(store: Store, partition: bytes, limit: datetime) -> bool:
    time = partition_time(store, partition)
    return time is not None and time < limit


def _rows_and_bytes(entries: Iterable[ManifestEntry]) -> tuple[int, int]:
    sizes = [(entry.file.row_count, entry.file.file_size) for entry in entries]
    return sum(rows for rows, _ in sizes), sum(size for _, size in sizes)


def _drop(store: Store, wanted: frozenset[bytes], limit: datetime, meter: Meter) -> frozenset[bytes]:
    """Drop those of the partitions that are still too old when the commit is made."""
    dropped: frozenset[bytes] = frozenset()
    files: Sequence[ManifestEntry] = ()

    def plan(view: View) -> Changes:
        nonlocal dropped, files
        dropped = wanted & _too_old(store, view, limit)
        if not dropped:
            raise NothingLeftError  # another job has dropped the partitions, or they were written to
        indexes = [replace(e, kind=FileKind.DELETE) for e in view.indexes if e.partition in dropped]
        files = [e for e in view.entries(None) if e.partition in dropped]
        return Changes(tuple(deletion(e) for e in files), (), tuple(indexes))

    user = EXPIRY + store.env.clock.new_uuid()
    name = CommitName(0, user, BATCH_COMMIT_IDENTIFIER, CommitKind.OVERWRITE)
    with suppress(NothingLeftError):
        Publisher(store).publish(Request(name, plan))
        meter.add(len(dropped), *_rows_and_bytes(files))
        meter.commit()
    return dropped


def _too_old(store: Store, view: View, limit: datetime) -> frozenset[bytes]:
    strategy = store.options.get("partition.expiration-strategy")
    if strategy == UPDATE_TIME:
        newest: dict[bytes, int] = {}
        for entry in view.entries(None):
            created = entry.file.creation_time or 0
            newest[entry.partition] = max(newest.get(entry.partition, created), created)
        oldest = epoch_of(limit)
        return frozenset(partition for partition, created in newest.items() if local_to_epoch(created) < oldest)
    if strategy != VALUES_TIME:
        raise InvalidError(f"Unknown partitionExpireStrategy: {strategy}", known=[VALUES_TIME, UPDATE_TIME])
    partitions = {entry.partition for entry in view.entries(None)}
    return frozenset(partition for partition in partitions if _is_before(store, partition, limit))
