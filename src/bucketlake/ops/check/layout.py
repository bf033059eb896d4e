"""The live files of one snapshot as its manifests tell of them: buckets, levels, keys, numbers, indexes.

Spec: docs/maintenance.md#metadata
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from bucketlake.errors import BucketlakeError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.index.index_manifest import DELETION_VECTORS, DeletionVectorRange, IndexEntry
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.lsm.levels import key_range_of
from bucketlake.ops.buckets.dynamic import hash_files
from bucketlake.ops.check.findings import Finding, Place, shown
from bucketlake.ops.check.reach import Reach, partition_text
from bucketlake.ops.check.roots import SNAPSHOT, Root, attempted
from bucketlake.ops.rows.row_ids import holds_ids
from bucketlake.ops.scan.scan import dangling
from bucketlake.ops.table.entries import BucketKey, EntryKey, bucket_key, by_bucket, entry_key, fold
from bucketlake.ops.table.store import Store
from bucketlake.paths import MAIN, POSTPONE_BUCKET
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """What is live in a snapshot, as far as it can be read."""

    snapshot: Snapshot | None
    entries: tuple[ManifestEntry, ...] = ()
    indexes: tuple[IndexEntry, ...] = ()

    def buckets(self) -> dict[BucketKey, list[ManifestEntry]]:
        """The files by bucket."""
        return by_bucket(self.entries)


def layout_of(reach: Reach, root: Root, names: Iterable[str]) -> Layout:
    """The live files of a root; manifests that cannot be read are left out, contradictions become findings."""
    live: dict[EntryKey, ManifestEntry] = {}
    twice: list[ManifestEntry] = []
    dangling: list[ManifestEntry] = []
    deleted: set[EntryKey] = set()
    for name in names:
        if reach.parts.get(name) is None:
            continue
        for entry in reach.store.manifest(name):
            key = entry_key(entry)
            known = key in live
            if entry.kind == FileKind.ADD:
                if known:
                    twice.append(entry)
                live[key] = entry
            elif known:
                del live[key]
                deleted.add(key)
            else:
                dangling.append(entry)
    number, label = root.snapshot.id, root.label
    for entry in twice:
        reach.findings.add(
            "manifest-twice", f"level {entry.file.level}", reach.place(entry, snapshot=number, holder=label)
        )
    for entry in dangling:
        reach.findings.add(
            "manifest-dangling", f"level {entry.file.level}", reach.place(entry, snapshot=number, holder=label)
        )
    for entry in (live[key] for key in deleted & live.keys()):
        reach.findings.add(
            "manifest-hides", f"level {entry.file.level}", reach.place(entry, snapshot=number, holder=label)
        )
    indexes = reach.indexes.get(root.snapshot.index_manifest or "") or ()
    return Layout(root.snapshot, tuple(live.values()), indexes)


def check_layout(reach: Reach, layout: Layout, whole: bool = True) -> None:
    """Findings for everything that metadata alone shows of a snapshot's live files. `whole`: of all partitions."""
    store, findings = reach.store, reach.findings
    _check_schemas(reach, layout)
    if whole:
        _check_totals(reach, layout)
    if store.schema.tracks_rows:
        _check_row_ids(reach, layout)
    _check_numbers(reach, layout)
    buckets = layout.buckets()
    for group in buckets.values():
        for entry in group:
            if entry.file.min_sequence_number > entry.file.max_sequence_number:
                low, high = entry.file.min_sequence_number, entry.file.max_sequence_number
                findings.add("sequence-range", f"from {low} to {high}", reach.place(entry))
        if store.schema.primary_keys:
            _check_levels(reach, group)
    if store.schema.bucket_mode is BucketMode.DYNAMIC:
        _check_hashes(reach, layout, buckets)
    _check_vectors(reach, layout, buckets)


def _check_schemas(reach: Reach, layout: Layout) -> None:
    store = reach.store
    first: dict[int, ManifestEntry] = {}
    for entry in layout.entries:
        first.setdefault(entry.file.schema_id, entry)
    known = {finding.place.file for code in ("schema-broken", "schema-missing") for finding in _kept(reach, code)}
    for schema_id, entry in sorted(first.items()):
        path = store.paths.schema(schema_id)
        if path not in known and store.env.storage.info(path) is None:
            place = Place(path, snapshot=layout.snapshot.id if layout.snapshot else None)
            reach.findings.add("schema-missing", f"{entry.file.file_name} was written with it", place)


def _kept(reach: Reach, code: str) -> Sequence[Finding]:
    return reach.findings.kept.get(code, ())


def _check_totals(reach: Reach, layout: Layout) -> None:
    snapshot = layout.snapshot
    if snapshot is None:
        return
    rows = sum(entry.file.row_count for entry in layout.entries)
    complete = not any(reach.findings.kept.get(f"manifest{part}") for part in _DOUBTFUL)
    if complete and rows != snapshot.total_record_count:
        place = Place(reach.store.paths.snapshot(snapshot.id), snapshot=snapshot.id)
        cause = f"it says {snapshot.total_record_count} rows, its files have {rows}"
        reach.findings.add("snapshot-count", cause, place)


_DOUBTFUL = ("-missing", "-broken", "-twice", "-dangling", "-list-missing", "-list-broken")


def _check_row_ids(reach: Reach, layout: Layout) -> None:
    """Row ids: every file knows its rows', none are another file's, and those given out next are free."""
    spans: list[tuple[int, int, int, ManifestEntry]] = []
    for number, entry in enumerate(layout.entries):
        first = entry.file.first_row_id
        if first is not None:
            spans.append((first, first + entry.file.row_count, number, entry))
        elif reach.store.schema.data_evolution or not holds_ids(entry.file):
            reach.findings.add("row-ids-missing", "no first row id", reach.place(entry))
    spans.sort(key=lambda item: item[:3])
    blobs = [span for span in spans if is_blob(span[3].file.file_name)]
    spans = [span for span in spans if not is_blob(span[3].file.file_name)]
    for first, last, _, entry in blobs:
        at = bisect_right(spans, first, key=lambda span: span[0]) - 1
        if at < 0 or last > spans[at][1]:
            cause = f"its rows, from {first} to {last - 1}, are not all in one file"
            reach.findings.add("row-ids-shared", cause, reach.place(entry))
    same = reach.store.schema.data_evolution
    for one, two in pairwise(spans):
        if two[0] < one[1] and not (same and one[:2] == two[:2]):
            cause = f"ids from {two[0]} on are those of {one[3].file.file_name}, too"
            reach.findings.add("row-ids-shared", cause, reach.place(two[3]))
    end = max((span[1] for span in spans), default=0)
    if layout.snapshot is not None and end > (layout.snapshot.next_row_id or 0):
        place = Place(reach.store.paths.snapshot(layout.snapshot.id), snapshot=layout.snapshot.id)
        reach.findings.add("row-ids-free", f"{layout.snapshot.next_row_id} is next, {end - 1} is given", place)


def _check_numbers(reach: Reach, layout: Layout) -> None:
    """Numbers of buckets: one a partition, and every bucket below it; none where buckets follow the keys."""
    store, findings = reach.store, reach.findings
    mode, totals = store.schema.bucket_mode, dict[bytes, dict[int, ManifestEntry]]()
    follows = mode is BucketMode.DYNAMIC  # writers refuse such there
    for entry in layout.entries:
        if entry.total_buckets > 0 and follows:
            findings.add("bucket-number", f"{entry.total_buckets}, where buckets follow the keys", reach.place(entry))
        elif entry.total_buckets > 0:
            totals.setdefault(entry.partition, {}).setdefault(entry.total_buckets, entry)
        if not _is_bucket(mode, entry.bucket, entry.total_buckets):
            findings.add("bucket-outside", f"bucket {entry.bucket} of {entry.total_buckets}", reach.place(entry))
    for partition, numbers in totals.items():
        if len(numbers) > 1:
            cause = f"its files count {', '.join(str(n) for n in sorted(numbers))} buckets"
            text = partition_text(store, partition)
            findings.add("bucket-number", cause, Place(None, partition, text, holder=_holder(layout)))


def _holder(layout: Layout) -> str | None:
    return None if layout.snapshot is None else f"snapshot {layout.snapshot.id}"


def _is_bucket(mode: BucketMode, bucket: int, total: int) -> bool:
    if bucket == POSTPONE_BUCKET:
        return mode is BucketMode.POSTPONE
    if mode is BucketMode.UNAWARE:
        return bucket == 0
    return bucket >= 0 and (total <= 0 or bucket < total)


def _check_levels(reach: Reach, group: Sequence[ManifestEntry]) -> None:
    """Key ranges: none upside down, and none that overlap in a level above 0."""
    if reach.store.schema.clustered:
        return  # in the order of other columns, and files of a level may overlap
    key_range = key_range_of(reach.store.schema.key_fields)
    levels: dict[int, list[tuple[object, object, int, ManifestEntry]]] = {}
    for number, entry in enumerate(group):
        if entry.bucket == POSTPONE_BUCKET:
            continue
        found = attempted(lambda e=entry: key_range(e.file))  # type: ignore[misc]
        if isinstance(found, BucketlakeError):
            reach.findings.add("key-range", shown(found), reach.place(entry))
        elif found[0] > found[1]:
            reach.findings.add("key-range", "the first key is greater than the last", reach.place(entry))
        elif entry.file.level > 0:
            levels.setdefault(entry.file.level, []).append((*found, number, entry))
    for level, ranged in levels.items():
        ranged.sort(key=lambda item: item[:3])
        for one, two in pairwise(ranged):
            if two[0] <= one[1]:  # type: ignore[operator]
                cause = f"level {level}: it overlaps {one[3].file.file_name}"
                reach.findings.add("level-overlap", cause, reach.place(two[3]))


# ---------------------------------------------------------------------------------------------- indexes


def _check_hashes(reach: Reach, layout: Layout, buckets: Mapping[BucketKey, Sequence[ManifestEntry]]) -> None:
    store, known = reach.store, hash_files(layout.indexes)
    for partition, bucket in buckets:
        if bucket >= 0 and bucket not in known.get(partition, {}):
            place = Place(None, partition, partition_text(store, partition), bucket, holder=_holder(layout))
            reach.findings.add("hash-index-missing", f"{len(buckets[partition, bucket])} files", place)
    seen: set[BucketKey] = set()
    for entry in layout.indexes:
        if entry.file.index_type != "HASH":
            continue
        key = (entry.partition, entry.bucket)
        if key in seen:
            place = Place(entry.file.file_name, *_where(store, entry), holder=_holder(layout))
            reach.findings.add("hash-index-twice", "another one is named before", place)
        seen.add(key)


def _where(store: Store, entry: IndexEntry) -> tuple[bytes, str | None, int]:
    return entry.partition, partition_text(store, entry.partition), entry.bucket


def _check_vectors(reach: Reach, layout: Layout, buckets: Mapping[BucketKey, Sequence[ManifestEntry]]) -> None:
    store = reach.store
    unaware = store.schema.bucket_mode is BucketMode.UNAWARE
    files: dict[BucketKey, dict[str, DataFile]] = {}
    for (partition, bucket), group in buckets.items():
        own = files.setdefault((partition, 0 if unaware else bucket), {})
        own.update((entry.file.file_name, entry.file) for entry in group)
    marked: set[tuple[BucketKey, str]] = set()
    absent: list[tuple[IndexEntry, DeletionVectorRange]] = []
    indexed: set[BucketKey] = set()
    for entry in layout.indexes:
        if entry.file.index_type != DELETION_VECTORS:
            continue
        key = (entry.partition, entry.bucket)
        place = Place(entry.file.file_name, *_where(store, entry), holder=_holder(layout))
        if not unaware and key in indexed:
            reach.findings.add("vector-twice", "the bucket has another file of vectors", place)
        indexed.add(key)
        for part in entry.file.dv_ranges or ():
            file = files.get(key, {}).get(part.data_file_name)
            if (key, part.data_file_name) in marked:
                reach.findings.add("vector-twice", f"{part.data_file_name} has another vector", place)
            elif file is None:
                absent.append((entry, part))
            elif part.cardinality is not None and part.cardinality > file.row_count:
                cause = f"{part.cardinality} of {file.row_count} rows of {part.data_file_name}"
                reach.findings.add("vector-rows", cause, place)
            marked.add((key, part.data_file_name))
    if absent:
        _check_absent(reach, layout, absent)


def _check_absent(reach: Reach, layout: Layout, absent: Sequence[tuple[IndexEntry, DeletionVectorRange]]) -> None:
    """Vectors of files that their buckets do not have."""
    assert layout.snapshot is not None  # it names the index files
    wrong = list(dangling(reach.store, layout.snapshot, layout.indexes, absent, layout.entries))
    for entry, part in absent:
        code = "vector-dangling" if (entry, part) in wrong else "vector-left"
        place = Place(entry.file.file_name, *_where(reach.store, entry), holder=_holder(layout))
        reach.findings.add(code, f"it marks rows of {part.data_file_name}", place)


# ---------------------------------------------------------------------------------------------- over time


def check_vectors_stay(reach: Reach) -> None:
    """Findings for commits that lost deletion vectors of files that stayed. An overwrite may take some away: a rollback
    that goes on as the newest snapshot does, and a repair."""
    roots = [root for root, _, _ in reach.roots if root.kind == SNAPSHOT and not root.stray]
    for before, after in pairwise(roots):
        follows = before.branch == after.branch and before.snapshot.id + 1 == after.snapshot.id
        if not follows or before.snapshot.index_manifest == after.snapshot.index_manifest:
            continue
        named = [root.snapshot.index_manifest for root in (before, after)]
        old, new = (() if name is None else reach.indexes.get(name) for name in named)
        if old is None or new is None or after.snapshot.commit_kind is CommitKind.OVERWRITE:
            continue
        lost = _lost(_marked(old), _marked(new))
        if lost:
            _tell_lost(reach, after, lost)


_Marked = dict[
    tuple[bytes, str], int | None
]  # by partition and data file: how many rows are deleted, where it is known


def _marked(entries: Sequence[IndexEntry]) -> _Marked:
    vectors = (entry for entry in entries if entry.file.index_type == DELETION_VECTORS)
    parts = ((entry.partition, part) for entry in vectors for part in entry.file.dv_ranges or ())
    return {(partition, part.data_file_name): part.cardinality for partition, part in parts}


def _lost(old: _Marked, new: _Marked) -> _Marked:
    """Of the vectors that there were, those that are gone, or have fewer rows."""

    def stays(key: tuple[bytes, str], count: int | None) -> bool:
        now = new.get(key)
        return key in new and (count is None or now is None or now >= count)

    return {key: count for key, count in old.items() if not stays(key, count)}


def _tell_lost(reach: Reach, root: Root, lost: _Marked) -> None:
    snapshot = root.snapshot
    delta = _entries(reach, snapshot.delta_manifest_list)
    gone = {(entry.partition, entry.file.file_name) for entry in delta if entry.kind == FileKind.DELETE}
    gone -= {(entry.partition, entry.file.file_name) for entry in delta if entry.kind == FileKind.ADD}
    lost = {key: count for key, count in lost.items() if key not in gone}
    if not lost:
        return
    live = fold([*_entries(reach, snapshot.base_manifest_list), *delta]).values()  # some vectors were of no file before
    for entry in live:
        key = (entry.partition, entry.file.file_name)
        if key in lost:
            cause = "its vector is gone, or has fewer rows" if lost[key] is None else f"of {lost[key]} deleted rows"
            reach.findings.add("vector-lost", cause, reach.place(entry, snapshot=snapshot.id, holder=root.label))


def check_sequences(reach: Reach) -> None:
    """Findings for appends to a bucket that are not numbered behind what it had. Postponed rows have no numbers yet;
    with `sequence.snapshot-ordering` the snapshot is the number."""
    store = reach.store
    if not store.schema.primary_keys or store.options.get("sequence.snapshot-ordering"):
        return
    roots = [root for root, _, _ in reach.roots if (root.kind, root.branch, root.stray) == (SNAPSHOT, MAIN, False)]
    highest: dict[BucketKey, dict[str, int]] = {}
    for number, root in enumerate(roots):
        base, delta = root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list
        if number == 0 or roots[number - 1].snapshot.id + 1 != root.snapshot.id:
            highest = {}
            _applied(highest, list(fold(_entries(reach, base)).values()))
        entries = _entries(reach, delta)
        if root.snapshot.commit_kind is CommitKind.APPEND:
            _tell_behind(reach, root, highest, entries)
        _applied(highest, entries)


def _entries(reach: Reach, name: str) -> list[ManifestEntry]:
    listed = reach.lists.get(name) or ()
    known = [item for item in listed if reach.parts.get(item.file_name) is not None]
    return [entry for item in known for entry in reach.store.manifest(item)]


def _applied(highest: dict[BucketKey, dict[str, int]], entries: Sequence[ManifestEntry]) -> None:
    for entry in (e for e in entries if e.kind != FileKind.ADD):
        highest.setdefault(bucket_key(entry), {}).pop(entry.file.file_name, None)
    for entry in (e for e in entries if e.kind == FileKind.ADD):
        highest.setdefault(bucket_key(entry), {})[entry.file.file_name] = entry.file.max_sequence_number


def _tell_behind(
    reach: Reach, root: Root, highest: Mapping[BucketKey, Mapping[str, int]], entries: Sequence[ManifestEntry]
) -> None:
    tops: dict[BucketKey, int] = {}
    for entry in entries:
        key = bucket_key(entry)
        if entry.bucket == POSTPONE_BUCKET or not highest.get(key):
            continue
        if key not in tops:
            tops[key] = max(highest[key].values())
        if entry.file.min_sequence_number <= tops[key]:
            cause = f"it begins at {entry.file.min_sequence_number}, the bucket had {tops[key]}"
            reach.findings.add("sequence-behind", cause, reach.place(entry, snapshot=root.snapshot.id))
