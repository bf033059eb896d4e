"""Incremental clustering: which files of an append table are put in order next, and at which level they lie then.

    picks(store, full, partitions) -> Pick

Files of level 0 are in no order and each a run of its own; those of a higher level were put in order together and are
one run. Runs are picked as Paimon's universal compaction picks them, so that both may cluster one table in turns.

Spec: docs/spec/clustering.md#incremental
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.compaction import CompactionRule, Moment, pick
from bucketlake.lsm.keys import Bound
from bucketlake.lsm.levels import Levels, SortedRun
from bucketlake.ops.cluster.order import clustering_columns
from bucketlake.ops.cluster.plan import Pick, Picked
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.entries import created_millis
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_from_epoch
from bucketlake.schema.schema import BucketMode


def is_incremental(store: Store) -> bool:
    """Whether a table is clustered bit by bit, instead of being compacted."""
    return bool(store.options.get("clustering.incremental")) and not store.schema.primary_keys


def picks(store: Store, full: bool, partitions: PartitionFilter | None) -> tuple[Pick, PartitionFilter | None]:
    """Which files to put in order in these partitions (None: all), and in which partitions to look: old ones join where
    `clustering.history-partition.idle-to-full-sort` is set and partitions were named. `full`: all files, unless they
    are in order.

    Errors: InvalidError where no column is named to cluster by, UnsupportedError for tables with ordered buckets.
    """
    columns = clustering_columns(store.options)
    if not columns:
        raise InvalidError("order column could not be empty", option="clustering.columns")
    if store.schema.bucket_mode is not BucketMode.UNAWARE and store.options.get("bucket-append-ordered"):
        raise UnsupportedError(
            "rows of buckets are to keep their order",
            option="bucket-append-ordered",
            remedy="'bucket-append-ordered' = 'false' to cluster them",
        )
    rule = _rule(store)
    moment = Moment(local_from_epoch(store.env.clock.now_millis()))
    past = _history(store, store.latest_snapshot(), rule.num_levels - 1, partitions)

    def picked(partition: bytes, files: Sequence[DataFile]) -> Picked | None:
        levels = _levels(files, rule.num_levels)
        if not full and partition not in past:
            found = pick(levels, rule, moment)
            return None if found is None else Picked(found.files, found.output_level)
        runs = levels.sorted_runs()
        if len(runs) == 1 and runs[0][0] == levels.max_level and _same_order(store, runs[0][1], columns):
            return None
        return Picked(tuple(levels.files()), levels.max_level)

    if partitions is None or not past:
        return picked, partitions
    named = partitions
    return picked, lambda partition: partition in past or named(partition)


def _rule(store: Store) -> CompactionRule:
    """What of the options decides here: sizes and numbers of runs alone."""
    known = CompactionRule.of(store.options)
    return CompactionRule(
        size_amplification=known.size_amplification,
        size_ratio=known.size_ratio,
        run_trigger=known.run_trigger,
        num_levels=known.num_levels,
    )


def _levels(files: Sequence[DataFile], count: int) -> Levels:
    """Files by level; those of one level may overlap."""
    count = max(count, 1 + max((file.level for file in files), default=0))
    runs = [SortedRun(tuple(file for file in files if file.level == level)) for level in range(1, count)]
    return Levels(tuple(file for file in files if file.level == 0), tuple(runs), _no_keys)


def _no_keys(_: DataFile) -> tuple[Bound, Bound]:
    return (), ()


def _same_order(store: Store, run: SortedRun, columns: Sequence[str]) -> bool:
    """Whether the files were put in order by these columns, as their schema has it."""
    return clustering_columns(store.schema_of(run.files[0].schema_id).table_options) == list(columns)


def _history(store: Store, snapshot: Snapshot | None, top: int, named: PartitionFilter | None) -> frozenset[bytes]:
    """Partitions beside those named that no file came to for long and that are not in order yet, the oldest first, as
    many as `clustering.history-partition.limit`."""
    idle = store.options.get("clustering.history-partition.idle-to-full-sort")
    unaware = store.schema.bucket_mode is BucketMode.UNAWARE
    if idle is None or named is None or snapshot is None or not store.schema.partition_keys or not unaware:
        return frozenset()
    newest: dict[bytes, int] = {}
    for entry in live_entries(store, snapshot):
        if entry.file.level < top:
            created = created_millis(entry)
            newest[entry.partition] = max(newest.get(entry.partition, created), created)
    before = store.env.clock.now_millis() - int(idle)
    old = sorted((at, partition) for partition, at in newest.items() if at < before and not named(partition))
    return frozenset(partition for _, partition in old[: int(store.options.get("clustering.history-partition.limit"))])
