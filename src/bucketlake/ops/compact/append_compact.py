"""Compaction of append tables: which small files are worth one rewrite, the rewrite, the commit.

    plan_append(store, snapshot, full, partitions) -> [AppendUnit]      from metadata alone
    compact_files(store, unit) -> CommitMessage                         rows of the files, one after the other, into new
    compact_append(store, wanted, run) -> Snapshot | None               plan → run → commit, planned anew where it lost

Rows that deletion vectors name are left out of the rewrite, and their vectors dropped.
Spec: docs/spec/append_compaction.md
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from bucketlake.format.index.index_manifest import DELETION_VECTORS, IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileKind, FileSource, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.commit.units import run_units
from bucketlake.ops.compact.job import Compacting, Job, run_job
from bucketlake.ops.compact.running import Runner, Work, here
from bucketlake.ops.rebase.numbers import numbered
from bucketlake.ops.rows.carried import carried
from bucketlake.ops.rows.roll import TARGET_APPEND, Roller, Rolling
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.rows.units import compacted, split_of, vectors_of_others
from bucketlake.ops.scan.scan import check_apart, chosen_entries
from bucketlake.ops.scan.splits import deletion_files
from bucketlake.ops.table.entries import BucketKey, bucket_key, by_bucket
from bucketlake.ops.table.known import knowing
from bucketlake.ops.table.made import all_or_nothing
from bucketlake.ops.table.messages import BucketVectors, CommitMessage, DeletionFile
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.options.options import TableOptions
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

FULL_MIN_FILES = 3
Run = Callable[[Store, Sequence[Any]], list[CommitMessage]]


@dataclass(frozen=True, slots=True)
class AppendRule:
    """The options that decide. Sizes in bytes; `small`: below this a file is worth merging; `deleted_share`: above it a
    file is rewritten whatever its size; `limit`: most files looked at in one plan; `always`: full takes every file."""

    target: int
    small: int
    open_cost: int
    min_files: int
    deleted_share: float
    limit: int
    always: bool = False

    @classmethod
    def of(cls, options: TableOptions) -> AppendRule:
        """The rule of a table."""
        target = int(options.get("target-file-size") or TARGET_APPEND)
        return cls(
            target=target,
            small=int(target * options.get("compaction.small-file-ratio")),
            open_cost=options.get("source.split.open-file-cost"),
            min_files=options.get("compaction.min.file-num"),
            deleted_share=options.get("compaction.delete-ratio-threshold"),
            limit=options.get("compaction.file-num-limit"),
            always=bool(options.get("compaction.force-rewrite-all-files")),
        )


@dataclass(frozen=True, slots=True)
class AppendUnit:
    """Files of one bucket to be rewritten as one, in this order; with `parts`, so many of them each as one.
    `deletions`: where their deletion vectors lie, by file name; `indexes`: the index files that hold these vectors,
    which are replaced. Small, picklable."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    deletions: dict[str, DeletionFile] = field(default_factory=dict)
    indexes: tuple[IndexFile, ...] = ()
    snapshot_id: int = 0
    parts: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows of the files."""
        return sum(file.row_count for file in self.files)

    @property
    def groups(self) -> Iterator[tuple[DataFile, ...]]:
        """The files that become one each time."""
        start = 0
        for count in self.parts or (len(self.files),):
            yield self.files[start : start + count]
            start += count


# ---------------------------------------------------------------------------------------------- picking, pure


def pick_unaware(files: Sequence[DataFile], vectors: Mapping[str, str], rule: AppendRule) -> list[list[DataFile]]:
    """Bins of small files of one partition of a table without buckets, each to become about one file.

    `vectors`: data file name → index file that holds its deletion vector. Files are packed smallest first until a bin
    holds twice the target; a last bin counts with `min_files` files. Files with vectors go together with all others of
    their index file, and always.
    Spec: docs/spec/append_compaction.md#unaware
    """
    plain = [file for file in files if file.file_name not in vectors]
    groups: dict[str, list[DataFile]] = {}
    for file in files:
        if file.file_name in vectors:
            groups.setdefault(vectors[file.file_name], []).append(file)
    by_size = sorted(groups.values(), key=lambda group: sum(file.file_size for file in group))
    full, rest = _bins(by_size, rule)
    bins = full + ([rest] if rest else [])
    full, rest = _bins([[file] for file in sorted(plain, key=lambda file: file.file_size)], rule)
    bins += full + ([rest] if len(rest) >= max(rule.min_files, 1) else [])
    return [files for files in bins if len(files) > 1 or files[0].file_name in vectors]


def _bins(groups: Iterable[list[DataFile]], rule: AppendRule) -> tuple[list[list[DataFile]], list[DataFile]]:
    """Full bins and what is left over."""
    bins: list[list[DataFile]] = []
    current: list[DataFile] = []
    weight = 0
    for group in groups:
        current += group
        weight += sum(file.file_size + rule.open_cost for file in group)
        if len(current) > 1 and weight >= 2 * rule.target:
            bins.append(current)
            current, weight = [], 0
    return bins, current


def pick_bucketed(
    files: Sequence[DataFile], vectors: Mapping[str, str], rule: AppendRule, full: bool
) -> list[list[DataFile]]:
    """Runs of files of one bucket that lie side by side in the order of their sequence numbers.

    `full`: everything after the large files at the start, if most of it is small; else, and where that is nothing,
    windows of `min_files` files within twice the target size, one behind the other.
    Spec: docs/spec/append_compaction.md#bucketed
    """
    ordered = sorted(files, key=_in_order)
    if full and (rest := _whole(ordered, vectors, rule)):
        return rest
    picked: list[list[DataFile]] = []
    window: list[DataFile] = []
    fewest = max(rule.min_files, 2) if full else rule.min_files
    for file in ordered:
        window.append(file)
        if len(window) >= fewest:
            picked.append(window)
            window = []
        elif sum(one.file_size for one in window) >= 2 * rule.target:
            window = window[1:]
    return picked


def _whole(ordered: list[DataFile], vectors: Mapping[str, str], rule: AppendRule) -> list[list[DataFile]]:
    if rule.always:
        return [ordered] if ordered else []
    start = 0
    while start < len(ordered) and _is_done(ordered[start], vectors, rule):
        start += 1
    rest = ordered[start:]
    small = sum(file.file_size < rule.small for file in rest)
    if any(file.file_name in vectors for file in rest):
        return [rest]
    return [rest] if len(rest) >= FULL_MIN_FILES and small > len(rest) - small else []


def _is_done(file: DataFile, vectors: Mapping[str, str], rule: AppendRule) -> bool:
    return file.file_size >= rule.small and file.file_name not in vectors


def _in_order(file: DataFile) -> tuple[int, int, int, str]:
    return file.min_sequence_number, file.max_sequence_number, file.creation_time or 0, file.file_name


# ---------------------------------------------------------------------------------------------- planning


def plan_append(
    store: Store,
    snapshot: Snapshot | None,
    full: bool = True,
    partitions: PartitionFilter | None = None,
    buckets: frozenset[BucketKey] | None = None,
) -> list[AppendUnit]:
    """What to rewrite in an append table as of a snapshot, from metadata alone, largest first.

    `full` matters to tables with buckets only. `partitions`, `buckets`: only these.
    Spec: docs/spec/append_compaction.md
    """
    if snapshot is None:
        return []
    rule = AppendRule.of(store.options)
    unaware = store.schema.bucket_mode is BucketMode.UNAWARE
    vectors = Vectors.of(store, snapshot)

    def wanted(entry: ManifestEntry) -> bool:
        chosen = buckets is None or bucket_key(entry) in buckets
        chosen = chosen and (partitions is None or partitions(entry.partition))
        return chosen and (not unaware or is_worth(entry, vectors, rule))

    every = chosen_entries(store, snapshot, wanted)
    check_apart(store, snapshot, every)
    found = by_bucket(every)
    units: list[AppendUnit] = []
    left = rule.limit
    for key, entries in found.items():
        holders = vectors.holders(key)
        files = [entry.file for entry in entries]
        if unaware:
            picked = pick_unaware(files[:left], holders, rule)
            left -= len(files[:left])
        else:
            picked = pick_bucketed(files, holders, rule, full)
        made = [unit_of(entries[0], group, vectors) for group in picked]
        units += made if unaware else _together(made)
    return sorted(units, key=lambda unit: unit.size, reverse=True)


@dataclass(frozen=True, slots=True)
class Vectors:
    """The deletion vectors of a snapshot, by bucket: index files that hold some, and where each file's vector lies."""

    snapshot_id: int
    indexes: Mapping[BucketKey, Sequence[IndexEntry]]
    places: BucketVectors

    @classmethod
    def of(cls, store: Store, snapshot: Snapshot) -> Vectors:
        """Those of a snapshot."""
        indexes: dict[BucketKey, list[IndexEntry]] = {}
        for entry in store.index_manifest(snapshot):
            if entry.kind == FileKind.ADD and entry.file.index_type == DELETION_VECTORS:
                indexes.setdefault((entry.partition, entry.bucket), []).append(entry)
        return cls(snapshot.id, indexes, deletion_files(store, [e for own in indexes.values() for e in own]))

    def of_bucket(self, key: BucketKey) -> Mapping[str, DeletionFile]:
        """Where the vectors of a bucket's files lie."""
        return self.places.get(key, {})

    def holders(self, key: BucketKey) -> dict[str, str]:
        """Data file name → index file that holds its vector."""
        own = self.indexes.get(key, ())
        return {part.data_file_name: entry.file.file_name for entry in own for part in entry.file.dv_ranges or ()}


def is_worth(entry: ManifestEntry, vectors: Vectors, rule: AppendRule) -> bool:
    """Whether a file of a table without buckets is small, or has too many deleted rows."""
    file = entry.file
    if file.file_size < rule.small:
        return True
    found = vectors.of_bucket(bucket_key(entry)).get(file.file_name)
    if found is None:
        return False
    count = found.range.cardinality
    return count is None or count > file.row_count * rule.deleted_share


def unit_of(like: ManifestEntry, group: Sequence[DataFile], vectors: Vectors) -> AppendUnit:
    """Files of the bucket of `like` as one unit."""
    names = {file.file_name for file in group}
    own, where = vectors.indexes.get(bucket_key(like), ()), vectors.of_bucket(bucket_key(like))
    touched = [e.file for e in own if any(part.data_file_name in names for part in e.file.dv_ranges or ())]
    return AppendUnit(
        like.partition,
        like.bucket,
        like.total_buckets,
        tuple(sorted(group, key=_in_order)),
        {name: where[name] for name in names if name in where},
        tuple(touched),
        vectors.snapshot_id,
    )


def _together(units: list[AppendUnit]) -> list[AppendUnit]:
    """The windows of one bucket, with those that replace its one index file as one unit: two could not be committed."""
    marked = [unit for unit in units if unit.indexes]
    if len(marked) < 2:
        return units
    joined = replace(
        marked[0],
        files=tuple(file for unit in marked for file in unit.files),
        deletions={name: place for unit in marked for name, place in unit.deletions.items()},
        indexes=tuple({index.file_name: index for unit in marked for index in unit.indexes}.values()),
        parts=tuple(len(unit.files) for unit in marked),
    )
    return [joined, *(unit for unit in units if not unit.indexes)]


# ---------------------------------------------------------------------------------------------- rewriting


def compact_files(store: Store, unit: AppendUnit) -> CommitMessage:
    """Rewrite the files of a unit; the message to commit (compact side only). On an error nothing that it wrote stays.

    New files are numbered from the smallest sequence number of the old ones; rows with ids keep these and their
    numbers. Raises NotFoundError or CorruptError for
    files that are gone or damaged.
    Spec: docs/spec/append_compaction.md#rewriting
    """
    rollers: list[Roller] = []
    after: list[DataFile] = []
    rows = tracked(store)
    with all_or_nothing(rollers):
        for files in unit.groups:
            rollers.append(Roller(rows, unit.partition, unit.bucket, Rolling(source=FileSource.COMPACT)))
            for batch in carried(rows, split_of(store, unit, files, unit.deletions)):
                rollers[-1].write(batch)
            after += numbered(rollers[-1].close(), files[0].min_sequence_number)
        kept = vectors_of_others(store, unit)
    return compacted(unit, after, kept)


# ---------------------------------------------------------------------------------------------- committing


def after_write(store: Store, messages: Sequence[CommitMessage], run: Run | None = None) -> Snapshot | None:
    """What a writer of an append table does once its rows are committed: in tables with buckets, merge the small files
    of the buckets that it wrote. The COMPACT snapshot, None where nothing was due, others' commits came first or the
    storage does not say whether it was published."""
    buckets = frozenset((message.partition, message.bucket) for message in messages if message.new_files)
    if store.schema.bucket_mode is BucketMode.UNAWARE or not buckets:
        return None
    try:
        if any(store.options.get(key) for key in ("write-only", "clustering.incremental")):
            return None  # merging files would undo the order that clustering gave them
        return _at_once(store, AppendPlan(full=False, buckets=buckets), run or merge_here)
    except Exception as error:  # nothing may read as if the rows were not
        warnings.warn(f"rows are committed, compaction was given up: {error}", stacklevel=2)
        return None


def _at_once(store: Store, plan: AppendPlan, run: Run) -> Snapshot | None:
    """All that is due by one commit, planned anew where another one came first."""
    commit = Commit(store, new_commit_user(store))

    def once(attempt: Attempt) -> Snapshot | None:
        base = attempt.on(store.latest_snapshot())
        known = knowing(store, base)
        units = [] if base is None else plan.units(known, base, None)
        messages = attempt.made(run(known, units) if units else [])
        return commit.commit(messages, outcome=attempt.outcome) if messages else None

    return Attempts(store, commit.abort).run(once)


def merge_here(store: Store, units: Sequence[AppendUnit]) -> list[CommitMessage]:
    """Rewrite in this process, several units at a time. On an error the files of all units are removed."""
    return run_units(store, units, rewritten)


def rewritten(store: Store, unit: AppendUnit) -> list[CommitMessage]:
    """`compact_files` as the work of a job."""
    return [compact_files(store, unit)]


@dataclass(frozen=True)
class AppendPlan(Compacting):
    """What a compaction of an append table does, as a job. `full`, `partitions`, `buckets`: as `plan_append`;
    `numbers`: of each partition, buckets of these numbers only."""

    full: bool = True
    partitions: PartitionFilter | None = None
    buckets: frozenset[BucketKey] | None = None
    numbers: frozenset[int] | None = None
    work: Work = rewritten

    def units(self, store: Store, base: Snapshot, only: frozenset[BucketKey] | None) -> list[AppendUnit]:
        """See Plan."""
        wanted = self.buckets if only is None or self.buckets is None else only & self.buckets
        units = plan_append(store, base, self.full, self.partitions, only if wanted is None else wanted)
        return units if self.numbers is None else [unit for unit in units if unit.bucket in self.numbers]


def compact_append(store: Store, plan: AppendPlan | None = None, run: Runner = here) -> Snapshot | None:
    """Compact an append table and commit it, in parts as they finish; the newest COMPACT snapshot, None where there was
    nothing to do.

    What another commit took away meanwhile is planned anew, a bounded number of times; then ConflictError.
    `write-only` does not matter: this is the dedicated compaction.
    """
    return run_job(Job.of(store, plan or AppendPlan()), run)
