"""Planning an incremental read, of what came between two snapshots: splits of changes, or of two states to compare.

    plan_read(store, scan) -> Plan          the plan of any batch read; one snapshot's is `ops.scan.plan`

Delta and changelog splits hold whole files whose rows count as they are, with their kinds, oldest first. Diff splits
hold two lists of files, those that only the newer and those that only the older snapshot has.

Spec: docs/spec/incremental.md
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bucketlake.errors import InvalidError
from bucketlake.format.manifest import FileKind, ManifestEntry
from bucketlake.format.snapshot import CommitKind, Snapshot
from bucketlake.ops.conflicts import key_range_of
from bucketlake.ops.entries import BucketKey, bucket_key
from bucketlake.ops.messages import Split
from bucketlake.ops.pruning import Pruner
from bucketlake.ops.scan import (
    EntryFilter,
    Plan,
    Scan,
    changelog_entries,
    delta_entries,
    entry_filter,
    live_entries,
    plan,
)
from bucketlake.ops.select import Span, select_snapshot
from bucketlake.ops.splits import Section, append_groups, deletion_files, overlapping, pack, split_of
from bucketlake.ops.store import Store, parallel

__all__ = ["plan_read"]


def plan_read(store: Store, scan: Scan | None = None) -> Plan:
    """What a batch read opens: one snapshot's files, or what the options say came between two.

    Errors: as `select_snapshot` and `plan`; NotFoundError for a snapshot within the span that has expired; InvalidError
    where a snapshot's delta takes files away, so that it does not tell what changed.
    Spec: docs/spec/incremental.md
    """
    scan = scan or Scan()
    selection = scan.selection or select_snapshot(store)
    if selection.span is None or selection.snapshot is None:
        return plan(store, replace(scan, selection=selection))
    # Deltas and changelogs lie in level 0, which batch reads of some tables skip.
    wanted = replace(entry_filter(store, scan), min_level=0)
    pruner = Pruner(store, scan.where)
    if selection.span.mode == "diff":
        return _diff(store, selection.snapshot, selection.span, wanted, pruner)
    return _changes(store, selection.snapshot, selection.span, wanted, pruner)


# ---------------------------------------------------------------------------------------------- delta and changelog


def _changes(store: Store, end: Snapshot, span: Span, wanted: EntryFilter, pruner: Pruner) -> Plan:
    def of(snapshot_id: int) -> list[ManifestEntry]:
        return _told(store, store.snapshot(snapshot_id), span.mode, wanted)

    entries = [entry for found in parallel(of, range(span.start + 1, span.end + 1)) for entry in found]
    kept = pruner.by_value(pruner.by_key(entries))
    place = {id(entry): number for number, entry in enumerate(kept)}
    splits = []
    for group in _groups(store, kept):
        ordered = sorted(group, key=lambda entry: place[id(entry)])
        splits.append(replace(split_of(store, end.id, ordered, raw=True), changes=True))
    return Plan(end, tuple(kept), tuple(splits))


def _told(store: Store, snapshot: Snapshot, mode: str, wanted: EntryFilter) -> list[ManifestEntry]:
    """The files that tell a snapshot's changes, oldest first."""
    if mode == "changelog":
        found = [] if snapshot.commit_kind is CommitKind.OVERWRITE else changelog_entries(store, snapshot, wanted)
    else:
        found = delta_entries(store, snapshot, wanted) if snapshot.commit_kind is CommitKind.APPEND else []
    gone = next((entry for entry in found if entry.kind is FileKind.DELETE), None)
    if gone is not None:
        raise InvalidError(
            "Delta or changelog should only have ADD files.",
            snapshot=snapshot.id,
            file=gone.file.file_name,
            remedy="use 'incremental-between-scan-mode' = 'diff'",
        )
    return sorted(found, key=lambda entry: entry.file.min_sequence_number)


def _groups(store: Store, entries: Sequence[ManifestEntry]) -> list[Section]:
    """The files of each split: all versions of a key in one."""
    buckets = _by_bucket(entries)
    if not store.schema.primary_keys:
        return [group for group, _ in append_groups(store, buckets.values())]
    key_range = key_range_of(store.schema.key_fields)
    return [
        [entry for section in packed for entry in section]
        for found in buckets.values()
        for packed in pack(store, overlapping(found, key_range))
    ]


def _by_bucket(entries: Iterable[ManifestEntry]) -> dict[BucketKey, Section]:
    buckets: dict[BucketKey, Section] = {}
    for entry in entries:
        buckets.setdefault(bucket_key(entry), []).append(entry)
    return buckets


# ---------------------------------------------------------------------------------------------- diff


def _diff(store: Store, end: Snapshot, span: Span, wanted: EntryFilter, pruner: Pruner) -> Plan:
    before = [] if span.before is None else pruner.by_key(live_entries(store, span.before, wanted))
    after = pruner.by_key(live_entries(store, end, wanted))
    known = {_identity(entry) for entry in before} & {_identity(entry) for entry in after}
    before = [entry for entry in before if _identity(entry) not in known]
    after = [entry for entry in after if _identity(entry) not in known]
    vectors = deletion_files(store, store.index_manifest(end))
    if not store.schema.primary_keys:
        after = pruner.by_value(after)
        splits = [
            split_of(store, end.id, group, True, vectors.get(group[0].partition))
            for group, _ in append_groups(store, _by_bucket(after).values())
        ]
        return Plan(end, tuple(after), tuple(splits))
    old = deletion_files(store, store.index_manifest(span.before))
    newer = {id(entry) for entry in after}
    splits = []
    for group in _groups(store, [*before, *after]):
        partition = group[0].partition
        left = split_of(store, span.start, group, False, old.get(partition))
        right = split_of(store, end.id, group, False, vectors.get(partition))
        splits.append(_split(left, right, [id(entry) in newer for entry in group]))
    return Plan(end, (*before, *after), tuple(splits))


def _split(left: Split, right: Split, newer: Sequence[bool]) -> Split:
    """The files of a group dealt out to the two sides."""
    old = tuple(file for file, new in zip(left.files, newer, strict=True) if not new)
    return replace(
        right,
        files=tuple(file for file, new in zip(right.files, newer, strict=True) if new),
        before=replace(left, files=old),
    )


def _identity(entry: ManifestEntry) -> tuple[object, ...]:
    """A file at its place; an upgraded file is another."""
    return (*bucket_key(entry), entry.total_buckets, entry.file.level, entry.file.file_name)
