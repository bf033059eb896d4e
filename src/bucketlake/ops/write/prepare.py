"""What a write plans before its tasks start, and how its rows find their bucket: one object a bucket mode.

    mode               the driver plans …                                         a task's assigner
    unaware            nothing                                                    bucket 0
    fixed              sequence numbers; partitions with another bucket number    hash of the bucket key
    postpone           bucket numbers of partitions that have real buckets        pending, or hash of the bucket key
    dynamic            as fixed, and the hash index to look keys up in            the index, else a bucket with room
    cross-partition    as fixed, and the snapshot to look keys up in              the place where the key lies

Spec: docs/spec/writing.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bucketlake.errors import UnsupportedError
from bucketlake.format.data.blob_elements import refuse_keys
from bucketlake.format.data.datafile import check_form
from bucketlake.format.data.file_format import file_format
from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.buckets.assigner import assigners_of
from bucketlake.ops.buckets.dynamic import dynamic_assigner
from bucketlake.ops.buckets.postpone import real_totals, writes_pending
from bucketlake.ops.key_index.cross_partition import cross_partition_assigner
from bucketlake.ops.rows.assign import Assigner, bucket_mismatch
from bucketlake.ops.rows.places import check_places
from bucketlake.ops.scan.scan import EntryFilter, live_entries
from bucketlake.ops.table.changes import MAX_SEQUENCE_PROPERTY
from bucketlake.ops.table.entries import BucketKey, bucket_key, max_sequences
from bucketlake.ops.table.known import refuse_replaced
from bucketlake.ops.table.messages import WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

UPSERT_KEY = "upsert-key"


def refuse_plain_append(store: Store) -> None:
    """UnsupportedError for rows that would only be added where they may have to update others."""
    if store.options.names(UPSERT_KEY):
        raise UnsupportedError(
            f"rows of a table with '{UPSERT_KEY}' are not added this way",
            table=store.paths.root,
            remedy="INSERT INTO by lake.sql, or lake.write_table: rows with a key that is there update its row",
        )


def prepare_write(
    store: Store,
    snapshot: Snapshot | None,
    tasks: int = 1,
    commit_user: str = "",
    overwrite: bool = False,
    partitions: frozenset[bytes] | None = None,
) -> WriteTask:
    """The task that all tasks of a write are made from (`replace(task, task=k)`), as of `snapshot`.

    Holds the next sequence number of every (partition, bucket) and which partitions must not be written because their
    files have another bucket number than the table, or with `bucket.auto` that number. `overwrite`: what is there goes
    away, so neither counts. `partitions`: where rows will go, if known; then only their manifests are read, and another
    bucket number raises InvalidError at once.
    Spec: docs/spec/writing.md
    """
    refuse_replaced(store, snapshot)
    check_places(store)
    for item in store.schema.blob_fields:
        refuse_keys(item.type)
    _check_later_files(store)
    template = WriteTask(commit_user or new_commit_user(store), tasks=tasks, changelog=not overwrite)
    return writes_of(store).prepared(template, snapshot, overwrite, partitions)


def _check_later_files(store: Store) -> None:
    """Errors of files that a compaction or a changelog of these rows would be refused as: of formats and codecs of
    other levels, which the write itself does not meet."""
    options = store.options
    if not store.schema.primary_keys:
        return
    levels = {*(options.get("file.format.per.level") or {}), *(options.get("file.compression.per.level") or {})}
    forms = [file_format(options, int(level)) for level in sorted(levels) if level.isdigit()]
    if levels:
        forms.append(file_format(options, -1))  # of levels without an entry
    if options.get("changelog-producer") != "none":
        forms.append(file_format(options, changelog=True))
    first = file_format(options)
    for number, form in enumerate(forms):
        if form != first and form not in forms[:number]:
            check_form(form, store.schema.fields)


@dataclass(frozen=True, slots=True)
class Unaware:
    """All rows in bucket 0; their order says nothing."""

    store: Store

    @property
    def total(self) -> int:
        """What manifest entries record as bucket number where the table alone decides."""
        return -1

    def prepared(
        self, template: WriteTask, snapshot: Snapshot | None, overwrite: bool, partitions: frozenset[bytes] | None
    ) -> WriteTask:
        """The template as of a snapshot, as `prepare_write`."""
        return template

    def assigner(self, task: WriteTask) -> Assigner:
        """What gives a task's rows their bucket."""
        return Assigner(self.store, self.total, task.total_buckets, task.refused)


class Fixed(Unaware):
    """A bucket follows from the hash of the bucket key."""

    @property
    def total(self) -> int:
        """As the option says."""
        return self.store.schema.bucket

    def prepared(
        self, template: WriteTask, snapshot: Snapshot | None, overwrite: bool, partitions: frozenset[bytes] | None
    ) -> WriteTask:
        """The template as of a snapshot, as `prepare_write`."""
        if snapshot is None:
            return template
        floor = sequence_floor(self.store, snapshot)
        if overwrite:
            return replace(template, first_sequence=floor)
        start: dict[tuple[bytes, int], int] = {}
        differs: dict[bytes, int] = {}
        entries = live_entries(self.store, snapshot, EntryFilter(partitions=partitions))
        template = replace(template, key_samples=self._key_samples(entries))
        for entry in entries:
            key = (entry.partition, entry.bucket)
            start[key] = max(start.get(key, floor), entry.file.max_sequence_number + 1)
            if entry.total_buckets != self.total:
                differs[entry.partition] = entry.total_buckets
        if self.store.options.get("bucket.auto"):
            return replace(template, sequence_start=start, first_sequence=floor, total_buckets=differs)
        if differs and (partitions is not None or not self.store.schema.partition_keys):
            partition, found = next(iter(differs.items()))
            raise bucket_mismatch(self.store, partition, found, self.total)
        return replace(template, sequence_start=start, first_sequence=floor, refused=differs)

    def _key_samples(self, entries: Sequence[ManifestEntry]) -> dict[BucketKey, bytes]:
        """A key of each bucket where an index says which bucket a key is in; none elsewhere."""
        return {}


class Dynamic(Fixed):
    """Keys are looked up in the hash index of their partition."""

    @property
    def total(self) -> int:
        """Buckets are not counted."""
        return -1

    def prepared(
        self, template: WriteTask, snapshot: Snapshot | None, overwrite: bool, partitions: frozenset[bytes] | None
    ) -> WriteTask:
        """The template as of a snapshot, as `prepare_write`."""
        template = replace(template, assigners=assigners_of(self.store.options))
        if snapshot is not None and not overwrite:
            template = replace(template, index_base=snapshot.index_manifest)
        return Fixed.prepared(self, template, snapshot, overwrite, partitions)

    def _key_samples(self, entries: Sequence[ManifestEntry]) -> dict[BucketKey, bytes]:
        """Of each bucket the greatest key of a file that has one, encoded as the table's keys are now."""
        alike: dict[tuple[int, int], bool] = {}
        found: dict[BucketKey, bytes] = {}
        keys = [(item.id, item.type) for item in self.store.schema.key_fields]
        for entry in entries:
            written = entry.file.schema_id, entry.file.level
            if written not in alike:
                bounds = self.store.schema_of(written[0]).bound_fields(written[1])  # of other columns, where clustered
                alike[written] = [(item.id, item.type) for item in bounds] == keys
            if alike[written]:
                found[bucket_key(entry)] = entry.file.max_key
        return found

    def assigner(self, task: WriteTask) -> Assigner:
        """What gives a task's rows their bucket."""
        return dynamic_assigner(self.store, task)


class CrossPartition(Dynamic):
    """A key lies in one partition of the table: rows may leave any. There is no hash index."""

    def prepared(
        self, template: WriteTask, snapshot: Snapshot | None, overwrite: bool, partitions: frozenset[bytes] | None
    ) -> WriteTask:
        """The template as of a snapshot, as `prepare_write`."""
        base = None if overwrite else 0 if snapshot is None else snapshot.id
        template = replace(template, assigners=assigners_of(self.store.options), key_base=base)
        return Fixed.prepared(self, template, snapshot, overwrite, None)

    def _key_samples(self, entries: Sequence[ManifestEntry]) -> dict[BucketKey, bytes]:
        return {}

    def assigner(self, task: WriteTask) -> Assigner:
        """What gives a task's rows their bucket."""
        return cross_partition_assigner(self.store, task)


class Postpone(Unaware):
    """Rows stay pending, or go to the real buckets that their partition has.

    Pending files are not looked at: the order of their rows is not told by sequence numbers.
    """

    @property
    def total(self) -> int:
        """-2 for pending rows; 1 for partitions that no number was chosen for."""
        return POSTPONE_BUCKET if writes_pending(self.store.schema) else 1

    def prepared(
        self, template: WriteTask, snapshot: Snapshot | None, overwrite: bool, partitions: frozenset[bytes] | None
    ) -> WriteTask:
        """The template as of a snapshot, as `prepare_write`; partitions keep their number, also when overwritten."""
        if snapshot is None:
            return template
        if writes_pending(self.store.schema):
            return replace(template, first_sequence=sequence_floor(self.store, snapshot))
        entries = live_entries(self.store, snapshot, EntryFilter(partitions=partitions, min_bucket=0))
        floor = sequence_floor(self.store, snapshot)
        template = replace(template, total_buckets=real_totals(entries), first_sequence=floor)
        if overwrite:
            return template
        return replace(template, sequence_start={place: last + 1 for place, last in max_sequences(entries).items()})


_MODES: dict[BucketMode, type[Unaware]] = {
    BucketMode.UNAWARE: Unaware,
    BucketMode.FIXED: Fixed,
    BucketMode.DYNAMIC: Dynamic,
    BucketMode.KEY_DYNAMIC: CrossPartition,
    BucketMode.POSTPONE: Postpone,
}


def writes_of(store: Store) -> Unaware:
    """How a table of this bucket mode is written."""
    return _MODES[store.schema.bucket_mode](store)


def sequence_floor(store: Store, snapshot: Snapshot) -> int:
    """The next number of a bucket without files: after all of the table's with `write.sequence-number-init-mode`
    snapshot, so that numbers also grow across overwrites."""
    if store.options.get("write.sequence-number-init-mode") != "snapshot":
        return 0
    return int((snapshot.properties or {}).get(MAX_SEQUENCE_PROPERTY, -1)) + 1


def new_commit_user(store: Store) -> str:
    """A fresh commit user, with `commit.user-prefix` in front where it is set."""
    prefix = store.options.get("commit.user-prefix")
    fresh = store.env.clock.new_uuid()
    return f"{prefix}_{fresh}" if prefix else fresh
