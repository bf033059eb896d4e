"""Compaction of one bucket: pick → upgrade or rewrite → changelog → roll → message.

    CompactUnit                                      one bucket's files to look at; small, picklable, from metadata only
    units_due(store, snapshot, buckets=None, …)      which buckets have something to compact
    compact_bucket(store, unit) -> CommitMessage | None

Spec: docs/spec/compaction.md, docs/spec/changelog.md
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bucketlake.format.index.index_manifest import DELETION_VECTORS, IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.compaction import CompactionPick, CompactionRule, Moment, pick
from bucketlake.lsm.levels import Levels, key_range_of
from bucketlake.ops.buckets.dynamic import hash_files, key_check
from bucketlake.ops.compact.clustered import ClusteredBucket, ClusteredRewrite, picked_clustered
from bucketlake.ops.compact.keyed_indexes import IndexChange, kept_indexes, remove_indexes
from bucketlake.ops.rewrite.rewrite import Bucket, Outcome, Rewrite
from bucketlake.ops.rows.deletions import load_vectors, write_vectors
from bucketlake.ops.rows.keyed_index import is_keyed
from bucketlake.ops.rows.record_expiry import RowExpiry
from bucketlake.ops.scan.scan import EntryFilter, keyed_entries
from bucketlake.ops.table.entries import BucketKey, beside, bucket_key, by_bucket
from bucketlake.ops.table.made import all_or_nothing
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_from_epoch
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

__all__ = ["CompactUnit", "Planner", "compact_bucket", "units_due"]


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """All live files of one bucket as of `snapshot_id`, and what is to be done with them.

    `pick`: the files to compact, among `files`, and the level they go to; the others are there to be looked up.
    `vectors`: the index file that holds the bucket's deletion vectors. `tells`: False where changes are not told (the
    rows were written by an overwrite). `hashes`: the bucket's hash index, which its keys are compared with where all of
    them are read; `indexes`: the files of the bucket's indexes,
    which are kept with it, None where they are left to a later compaction.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    pick: CompactionPick
    vectors: IndexFile | None = None
    snapshot_id: int = 0
    tells: bool = True
    hashes: IndexFile | None = None
    indexes: tuple[IndexFile, ...] | None = None

    @property
    def size(self) -> int:
        """Bytes of the files that are compacted."""
        return sum(file.file_size for file in self.pick.files)

    @property
    def row_count(self) -> int:
        """Rows of the files that are compacted."""
        return sum(file.row_count for file in self.pick.files)


def units_due(
    store: Store,
    snapshot: Snapshot,
    buckets: Collection[BucketKey] | None = None,
    *,
    full: bool = False,
    partitions: PartitionFilter | None = None,
) -> list[CompactUnit]:
    """The buckets of a snapshot that have something to compact, from metadata alone; largest first.

    `buckets`: only these (partition bytes, bucket); `partitions`: only partitions that it is true for. `full`: all that
    is not wholly in the top level already; otherwise what the table's policy picks now. Append tables have none.
    `write-only` is not looked at: whether to compact at all is the caller's question.
    Spec: docs/spec/compaction.md#planning
    """
    if not store.schema.primary_keys:
        return []
    entries = _entries(store, snapshot, buckets, partitions)
    vectors = {
        (entry.partition, entry.bucket): entry.file
        for entry in store.index_manifest(snapshot)
        if entry.file.index_type == DELETION_VECTORS
    }
    dynamic = store.schema.bucket_mode is BucketMode.DYNAMIC
    hashes = hash_files(store.index_manifest(snapshot)) if dynamic else {}
    groups = by_bucket(entries)
    indexes: dict[BucketKey, list[IndexFile]] = {}
    for item in store.index_manifest(snapshot):
        if is_keyed(item.file):
            indexes.setdefault((item.partition, item.bucket), []).append(item.file)
    planner = Planner(store, full)
    units = []
    for (partition, bucket), group in groups.items():
        index = vectors.get((partition, bucket))
        files = tuple(entry.file for entry in group)
        found = planner.pick(files, index)
        if found is not None:
            total = group[0].total_buckets
            known = hashes.get(partition, {}).get(bucket)
            own = tuple(indexes.get((partition, bucket), ()))
            unit = CompactUnit(partition, bucket, total, files, found, index, snapshot.id, hashes=known, indexes=own)
            units.append(unit)
    return sorted(units, key=lambda unit: unit.size, reverse=True)


def _entries(
    store: Store, snapshot: Snapshot, buckets: Collection[BucketKey] | None, partitions: PartitionFilter | None
) -> Iterable[ManifestEntry]:
    """The live files of the buckets wanted; manifests of other partitions are not read where they are known."""
    if buckets is None:
        entries = keyed_entries(store, snapshot, EntryFilter(min_bucket=0))
    else:
        wanted = frozenset(buckets)
        narrow = EntryFilter(
            partitions=frozenset(partition for partition, _ in wanted),
            buckets=frozenset(bucket for _, bucket in wanted),
            min_bucket=0,
        )
        entries = [entry for entry in keyed_entries(store, snapshot, narrow) if bucket_key(entry) in wanted]
    return entries if partitions is None else [entry for entry in entries if partitions(entry.partition)]


class Planner:
    """Asks the table's policy about buckets, all as of one moment."""

    def __init__(self, store: Store, full: bool) -> None:
        self._full = full
        self._rule = CompactionRule.of(store.options)
        self._key_range = key_range_of(store.schema.key_fields)
        self._moment = Moment(local_from_epoch(store.env.clock.now_millis()))
        expiry = RowExpiry.of(store)
        self._expired = {} if expiry is None else {"expired": expiry.concerns}
        self._store = store

    def pick(self, files: tuple[DataFile, ...], index: IndexFile | None) -> CompactionPick | None:
        """What to compact of a bucket now."""
        marked = {part.data_file_name for part in (index.dv_ranges or ())} if index is not None else set()
        if self._store.schema.clustered:
            return picked_clustered(self._store, files, full=self._full, marked=marked)
        levels = Levels.of(files, self._key_range, self._rule.num_levels)
        return pick(levels, self._rule, self._moment, full=self._full, marked=marked, **self._expired)


def compact_bucket(store: Store, unit: CompactUnit) -> CommitMessage | None:
    """Compact one bucket; the message to commit (compact side only), or None where nothing changes.

    Memory: a few blocks a run, whatever the bucket's size. On any error the files written are removed.
    Errors: NotFoundError or CorruptError for files that are gone or damaged, what the merge engine raises.
    Spec: docs/spec/compaction.md
    """
    entry = None if unit.vectors is None else IndexEntry(FileKind.ADD, unit.partition, unit.bucket, unit.vectors)
    vectors = {} if entry is None else load_vectors(store, [entry])
    names = {file.file_name for file in unit.files}
    vectors = {
        name: vector for name, vector in vectors.items() if name in names
    }  # others are left over: see the commit
    index = "" if entry is None else store.paths.index_path(unit.partition, unit.bucket, entry.file)
    whole = len(unit.pick.files) == len(unit.files)  # others read few of a bucket's keys: a third more work for little
    check = key_check(store, unit.partition, unit.bucket, unit.hashes) if whole and unit.hashes is not None else None
    if store.schema.clustered:
        bucket = ClusteredBucket(unit.partition, unit.bucket, unit.files, vectors, index, check)
        clustered = ClusteredRewrite(store, bucket)
        with all_or_nothing([clustered]):
            return _message(store, unit, clustered.run(unit.pick))
    rule = CompactionRule.of(store.options)
    levels = Levels.of(unit.files, key_range_of(store.schema.key_fields), rule.num_levels)
    rewrite = Rewrite(store, Bucket(unit.partition, unit.bucket, levels, vectors, index, unit.tells, check), rule)
    with all_or_nothing([rewrite]):
        return _message(store, unit, rewrite.run(unit.pick))


def _message(store: Store, unit: CompactUnit, done: Outcome) -> CommitMessage | None:
    if not done.before and not done.after:
        return None
    gone = {file.file_name for file in done.before}
    files = [*(file for file in unit.files if file.file_name not in gone), *done.after]
    place = (unit.partition, unit.bucket)
    kept = IndexChange()
    if unit.indexes is not None:
        kept = kept_indexes(store, place, files, unit.indexes, unit.snapshot_id)
    added, removed = kept.added, kept.removed
    if done.vectors is not None:
        try:
            added += tuple(write_vectors(store, unit.partition, unit.bucket, done.vectors))
        except BaseException:
            remove_indexes(store, place, kept.added)
            raise
        removed += () if unit.vectors is None else (unit.vectors,)
    return CommitMessage(
        unit.partition,
        unit.bucket,
        unit.total_buckets,
        compact_before=tuple(done.before),
        compact_after=tuple(done.after),
        compact_changelog=tuple(done.changelog),
        compact_new_index_files=added,
        compact_deleted_index_files=removed,
        compact_beside=beside(unit.files, done.before),
    )
