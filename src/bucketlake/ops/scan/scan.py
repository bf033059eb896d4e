"""Planning a read: the snapshot's manifests → pruned → folded into live files → pruned by statistics → splits.

Spec: docs/spec/commit.md#planning
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from bucketlake.errors import CorruptError, InvalidError, NotFoundError
from bucketlake.format.index.index_manifest import DeletionVectorRange, IndexEntry
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.format.row.layout import ARITY_BYTES
from bucketlake.ops.buckets.postpone import reads_pending
from bucketlake.ops.rows.column_files import holds_columns, refuse_changes, row_span
from bucketlake.ops.scan.key_types import check_keys
from bucketlake.ops.scan.left_vectors import LeftOver
from bucketlake.ops.scan.pruning import BucketChooser, Pruner, manifests_may_match
from bucketlake.ops.scan.select import Selection, select_snapshot
from bucketlake.ops.scan.splits import make_splits, pending_splits
from bucketlake.ops.table.entries import BucketKey, created_millis, fold
from bucketlake.ops.table.known import refuse_replaced
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.partition_stats import may_hold
from bucketlake.ops.table.partitions import matching
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.predicate.tree import Predicate, restrict
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

ENOUGH_ROWS = 10_000  # for an average
READ_TOGETHER = 16  # manifests
MERGE_ON_READ = "deletion-vectors.merge-on-read"


@dataclass(frozen=True)
class EntryFilter:
    """Which entries to read; every part narrows. `partition`: predicate over partition columns; `partitions`: exact;
    `choose_buckets`: total buckets → the buckets that count (None: all)."""

    partition: Predicate | None = None
    partitions: frozenset[bytes] | None = None
    buckets: frozenset[int] | None = None
    choose_buckets: Callable[[int], frozenset[int] | None] | None = None
    min_bucket: int | None = None
    min_level: int = 0
    level: int | None = None

    def prune(self, store: Store, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Those of the manifests that may have such entries."""
        kept = [manifest for manifest in manifests if self._may_hold(store, manifest)]
        if self.partition is None or not kept:
            return kept
        hits = manifests_may_match(store, self.partition, kept).tolist()
        return [manifest for manifest, hit in zip(kept, hits, strict=True) if hit]

    def _may_hold(self, store: Store, manifest: ManifestFile) -> bool:
        low, high, top = manifest.min_bucket, manifest.max_bucket, manifest.max_level
        wanted = () if self.buckets is None or low is None or high is None else self.buckets
        if wanted and not any((low or 0) <= bucket <= (high or 0) for bucket in wanted):
            return False
        if self.min_bucket is not None and high is not None and high < self.min_bucket:
            return False
        if top is not None and top < max(self.min_level, self.level or 0):
            return False
        types = [field.type for field in store.schema.partition_fields]
        return self.partitions is None or may_hold(manifest, self.partitions, types)

    def apply(self, store: Store, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
        """Those of the entries that pass, in order."""
        kept = [e for e in entries if e.file.level >= self.min_level] if self.min_level else list(entries)
        if self.level is not None:
            kept = [e for e in kept if e.file.level == self.level]
        if self.partitions is not None:
            kept = [e for e in kept if e.partition in self.partitions]
        if self.partition is not None:
            hits = matching(store, self.partition, (e.partition for e in kept))
            kept = [e for e in kept if e.partition in hits]
        if self.buckets is not None:
            kept = [e for e in kept if e.bucket in self.buckets]
        if self.min_bucket is not None:
            kept = [e for e in kept if e.bucket >= self.min_bucket]
        if self.choose_buckets is not None:
            chosen = {total: self.choose_buckets(total) for total in {e.total_buckets for e in kept}}
            kept = [e for e in kept if (wanted := chosen[e.total_buckets]) is None or e.bucket in wanted]
        return kept


ALL = EntryFilter()


@dataclass(frozen=True)
class Scan:
    """What a read asks for. `where`: the rows wanted, used to leave out files (rows are filtered by the reader);
    `selection`: None chooses by the `scan.*` options of the store; `level`: only files of this level; `min_level`: of
    this one and above, whatever batch reads see."""

    where: Predicate | None = None
    selection: Selection | None = None
    partitions: frozenset[bytes] | None = None
    buckets: frozenset[int] | None = None
    level: int | None = None
    min_level: int | None = None


@dataclass(frozen=True)
class Plan:
    """What to read: live files that may hold matching rows, and the same files packed into splits. `beside`: what is
    read of another branch, with its store."""

    snapshot: Snapshot | None
    entries: tuple[ManifestEntry, ...]
    splits: tuple[Split, ...]
    beside: tuple[tuple[Store, Plan], ...] = ()

    def __repr__(self) -> str:
        """What people look for: `entries` and `splits` may be millions."""
        snapshot = None if self.snapshot is None else self.snapshot.id
        parts = f"{len(self.entries)} files, {len(self.splits)} splits" + (", more beside" if self.beside else "")
        return f"Plan(snapshot={snapshot}, {parts}, row_count={self.row_count}, size={self.size})"

    @property
    def row_count(self) -> int:
        """Rows stored in the files, superseded ones included."""
        own = sum(entry.file.row_count for entry in self.entries)
        return own + sum(other.row_count for _, other in self.beside)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(entry.file.file_size for entry in self.entries) + sum(other.size for _, other in self.beside)

    def parts(self, store: Store) -> list[tuple[Store, Plan]]:
        """The plan by branch: each with the store to read it with, `store` for the table's own."""
        return [(store, replace(self, beside=()) if self.beside else self), *self.beside]

    def splits_of(self, store: Store) -> list[tuple[Store, Split]]:
        """All splits, each with the store to read it with."""
        return [(place, split) for place, part in self.parts(store) for split in part.splits]


def plan(store: Store, scan: Scan | None = None) -> Plan:
    """Choose the snapshot, find its live files, leave out what cannot match, pack the rest.

    Primary-key tables: level 0 and pending postpone files are left out where batch reads do not see them. With
    `postpone.merge-on-read`, partitions that have pending files are read whole: docs/spec/postpone.md#reading.
    Errors: as `select_snapshot`; ConflictError where the table was replaced since the handle was opened; CorruptError
    for manifests that contradict each other.
    Spec: docs/spec/commit.md#planning
    """
    scan = scan or Scan()
    selection = scan.selection or select_snapshot(store)
    snapshot = selection.snapshot
    if snapshot is None:
        return Plan(None, (), ())
    refuse_replaced(store, snapshot)
    wanted = entry_filter(store, scan)
    found = keyed_entries(store, snapshot, wanted)
    check_vectors(store, snapshot, found)
    check_apart(store, snapshot, found)
    entries = _created_since(store, found, selection)
    pruner = Pruner(store, scan.where)
    pending: list[ManifestEntry] = []
    if reads_pending(store):
        only = replace(wanted, buckets=frozenset([POSTPONE_BUCKET]), min_bucket=None)
        pending = _created_since(store, keyed_entries(store, snapshot, only), selection)
    merged, apart = pending_splits(store, snapshot, pending, entries)
    splits, kept = make_splits(store, snapshot, pruner.by_key(apart), pruner)
    taken = {id(entry) for entry in apart}
    kept += [*(entry for entry in entries if id(entry) not in taken), *pending]
    return Plan(snapshot, tuple(kept), (*splits, *merged))


def check_vectors(
    store: Store, snapshot: Snapshot, entries: Sequence[ManifestEntry], *, before_change: bool = False
) -> None:
    """Refuse deletion vectors of files that a bucket does not have, but for those that are left over: rows would come
    back unnoticed.

    `entries`: the live files that are asked for. A vector under another place that names one of these files is looked
    up there. `before_change`: what is left over may go, so it must name no other file of the table either.
    Raises: CorruptError naming the index manifest.
    """
    unaware = store.schema.bucket_mode is BucketMode.UNAWARE
    indexes = [e for e in store.index_manifest(snapshot) if e.file.dv_ranges]
    if not indexes:
        return

    names: dict[BucketKey, set[str]] = {}
    for entry in entries:
        names.setdefault((entry.partition, 0 if unaware else entry.bucket), set()).add(entry.file.file_name)
    everywhere = frozenset[str]().union(*names.values())
    found: list[tuple[IndexEntry, DeletionVectorRange]] = []
    for index in indexes:
        known = names.get((index.partition, index.bucket))
        for part in index.file.dv_ranges or ():
            name = part.data_file_name
            if name not in known if known is not None else name in everywhere:
                found.append((index, part))
    if not found:
        return
    # Some only because files of some levels were left out, or of places that were not asked for.
    places = EntryFilter(partitions=frozenset(index.partition for index, _ in found))
    there = live_entries(store, snapshot, ALL if before_change else places)
    wrong = next(dangling(store, snapshot, indexes, found, there, everywhere), None)
    if wrong is not None:
        raise CorruptError(
            "an index manifest has the deletion vector of a file that is not there",
            path=store.paths.manifest(snapshot.index_manifest or ""),
            data_file=wrong[1].data_file_name,
            bucket=wrong[0].bucket,
            remedy="see `bucketlake fsck`; Apache Paimon before 2.0 may have left it: `bucketlake repair` drops it",
        )


def check_apart(store: Store, snapshot: Snapshot, entries: Iterable[ManifestEntry]) -> None:
    """Refuse what an append table's schema does not say of its files, because it has lost it: each would be read, or
    rewritten, as rows of its own. Files that hold columns of one another's rows, without `data-evolution.enabled`;
    files by key, whose rows are merged and may be deletes, without a primary key. `entries`: files that are asked for.

    Raises: CorruptError naming the schema.
    """
    if store.schema.primary_keys:
        return
    entries = list(entries)
    keyed = next((entry.file for entry in entries if any(entry.file.min_key[:ARITY_BYTES])), None)
    if keyed is not None:
        raise CorruptError(
            "files hold versions of rows by key, in a table whose schema has no primary key",
            path=store.paths.schema(store.schema.id),
            data_file=keyed.file_name,
            remedy="restore the schema's file; nobody can take the key away from a table that has rows",
        )
    if store.schema.data_evolution:
        return
    some = {entry.partition for entry in entries if holds_columns(entry.file)}
    if not some:
        return
    there = live_entries(store, snapshot, EntryFilter(partitions=frozenset(some)))
    spans = sorted((row_span(e.file), e.file.file_name) for e in there if e.file.first_row_id is not None)
    for (before, _), (after, name) in pairwise(spans):
        if after[0] < before[1]:
            raise CorruptError(
                "files hold columns of the same rows, in a table whose schema has no 'data-evolution.enabled'",
                path=store.paths.schema(store.schema.id),
                data_file=name,
                rows=after,
                remedy="restore the schema's file; nobody can alter this option, so it was set when the table was made",
            )


def dangling(
    store: Store,
    snapshot: Snapshot,
    indexes: Sequence[IndexEntry],
    vectors: Iterable[tuple[IndexEntry, DeletionVectorRange]],
    live: Iterable[ManifestEntry],
    elsewhere: Set[str] = frozenset(),
) -> Iterator[tuple[IndexEntry, DeletionVectorRange]]:
    """Those of these vectors that are not of a live file and not left over. `live`: all files of their partitions;
    `elsewhere`: names of other files that are live.

    Spec: docs/spec/deletion_vector.md#left-over
    """
    unaware = store.schema.bucket_mode is BucketMode.UNAWARE
    files: dict[BucketKey, dict[str, DataFile]] = {}
    for entry in live:
        key = (entry.partition, 0 if unaware else entry.bucket)
        files.setdefault(key, {})[entry.file.file_name] = entry.file
    rule = LeftOver(indexes) if store.schema.primary_keys else None  # Paimon leaves none in tables without a key
    for index, part in vectors:
        own = files.get((index.partition, index.bucket), {})
        if part.data_file_name in own:
            continue
        named = part.data_file_name in elsewhere or any(part.data_file_name in group for group in files.values())
        place = (index.partition, index.bucket, part)
        if rule is None or named or not rule.is_possible(*place):
            yield index, part
        elif not (rule.is_sure(*place, list(own.values())) or _was_there(store, snapshot, *place)):
            yield index, part  # it cannot be known


def _was_there(store: Store, snapshot: Snapshot, partition: bytes, bucket: int, part: DeletionVectorRange) -> bool:
    """Whether a manifest of this snapshot, or of one that it follows, tells that the bucket had a vector's file."""
    narrow = EntryFilter(partitions=frozenset([partition]), buckets=frozenset([bucket]))
    older = (past for past in store.snapshots(newest_first=True) if past.id < snapshot.id)
    for past in chain([snapshot], older):
        try:
            entries = _read(store, store.data_manifests(past), narrow)
        except (NotFoundError, CorruptError):  # expired meanwhile, or no witness
            continue
        if any(entry.file.file_name == part.data_file_name for entry in entries):
            return True
    return False


def entry_filter(store: Store, scan: Scan) -> EntryFilter:
    """Which entries of a snapshot a batch read looks at."""
    schema, options = store.schema, store.options
    partition = (
        restrict(scan.where, schema.partition_keys) if scan.where is not None and schema.partition_keys else None
    )
    buckets = scan.buckets
    if options.is_set("scan.bucket"):
        if schema.bucket_mode is BucketMode.POSTPONE:
            raise InvalidError("scan.bucket cannot be used with postpone bucket tables", remedy="filter by columns")
        only = frozenset([int(options.get("scan.bucket"))])
        buckets = only if buckets is None else buckets & only
    chooser = BucketChooser.of(store, scan.where)
    return EntryFilter(
        partition=partition,
        partitions=scan.partitions,
        buckets=buckets,
        choose_buckets=chooser.buckets if chooser is not None else None,
        min_bucket=0 if schema.primary_keys else None,
        min_level=(1 if skips_level_0(store) else 0) if scan.min_level is None else scan.min_level,
        level=scan.level,
    )


def skips_level_0(store: Store) -> bool:
    """Whether batch reads do not see level 0: first-row tables and tables with deletion vectors, unless they see rows
    that are newer still, pending ones."""
    options = store.options
    if not store.schema.primary_keys or reads_pending(store):
        return False
    vectors = options.get("deletion-vectors.enabled") and not options.get(MERGE_ON_READ)
    return bool(vectors) or options.get("merge-engine") == "first-row"


def newest_rows(store: Store) -> Mapping[str, Any]:
    """Dynamic options for what changes rows: with them a read sees the newest version of every row, those included that
    batch reads do not see before a compaction. None are needed where reads see them anyway.

    Spec: docs/conflicts.md#row-level-changes-of-primary-key-tables
    """
    return {MERGE_ON_READ: "true"} if skips_level_0(store) else {}


def _created_since(store: Store, entries: list[ManifestEntry], selection: Selection) -> list[ManifestEntry]:
    """The entries of files that are as young as the read wants them."""
    since = selection.created_since
    if since is not None:
        refuse_changes(store.schema, "reads by the age of files")
    return entries if since is None else [entry for entry in entries if created_millis(entry) >= since]


def live_entries(store: Store, snapshot: Snapshot, wanted: EntryFilter = ALL) -> list[ManifestEntry]:
    """The files of a snapshot after folding all adds and deletes, in the order of their manifests.

    Raises CorruptError where a delete has no add, or a file is added twice.
    """
    return _live(snapshot, _read(store, store.data_manifests(snapshot), wanted))


def base_entries(store: Store, snapshot: Snapshot) -> list[ManifestEntry]:
    """The files that were live before a snapshot, which itself may have expired since: as `live_entries` of that."""
    return _live(snapshot, _read(store, store.base_manifests(snapshot), ALL))


def keyed_entries(store: Store, snapshot: Snapshot, wanted: EntryFilter = ALL) -> list[ManifestEntry]:
    """As `live_entries`, for what finds rows by their keys: by bucket, by bounds, in order.

    Raises UnsupportedError for files whose keys had another type that puts them elsewhere: see `check_keys`.
    """
    return _live(snapshot, _read(store, store.data_manifests(snapshot), wanted, keyed=True))


def chosen_entries(store: Store, snapshot: Snapshot, chosen: Callable[[ManifestEntry], bool]) -> list[ManifestEntry]:
    """As `live_entries`, the files that `chosen` is true for, whether an entry adds or deletes: manifests are read a
    few at a time, and nothing else is kept in memory."""
    manifests = store.data_manifests(snapshot)
    parts = (manifests[start : start + READ_TOGETHER] for start in range(0, len(manifests), READ_TOGETHER))
    return _live(snapshot, (e for part in parts for read in store.manifests(part) for e in read if chosen(e)))


def _live(snapshot: Snapshot, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    folded = fold(entries).values()
    dangling = next((entry for entry in folded if entry.kind == FileKind.DELETE), None)
    if dangling is not None:
        raise CorruptError(
            "a manifest deletes a file that was never added",
            snapshot=snapshot.id,
            bucket=dangling.bucket,
            file=dangling.file.file_name,
        )
    return list(folded)


def delta_entries(
    store: Store, snapshot: Snapshot, wanted: EntryFilter = ALL, *, keyed: bool = False
) -> list[ManifestEntry]:
    """What a snapshot itself adds and deletes, folded; a delete of an older file stays. `keyed`: as `keyed_entries`."""
    return list(fold(_read(store, store.delta_manifests(snapshot), wanted, keyed)).values())


def changelog_entries(
    store: Store, snapshot: Snapshot, wanted: EntryFilter = ALL, *, keyed: bool = False
) -> list[ManifestEntry]:
    """The changelog files of a snapshot. `keyed`: see `keyed_entries`."""
    return _read(store, store.changelog_manifests(snapshot), wanted, keyed)


def _read(
    store: Store, manifests: Sequence[ManifestFile], wanted: EntryFilter, keyed: bool = False
) -> list[ManifestEntry]:
    with store.fitting():
        pruned = manifests if wanted is ALL else wanted.prune(store, manifests)
    parts = store.manifests(pruned)
    if keyed:
        check_keys(store, pruned, parts)
    entries = [entry for part in parts for entry in part]
    return entries if wanted is ALL else wanted.apply(store, entries)


def row_width(store: Store) -> float | None:
    """Bytes that a row takes in the files that the newest snapshot added; None where these are few rows."""
    snapshot = store.latest_snapshot()
    added = [] if snapshot is None else [entry.file for entry in delta_entries(store, snapshot)]
    rows = sum(file.row_count for file in added)
    return sum(file.file_size for file in added) / rows if rows >= ENOUGH_ROWS else None
