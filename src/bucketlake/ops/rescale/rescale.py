"""Partitions into another number of buckets while writers go on: copy, replay, switch.

    rescale(store, RescaleRequest(bucket_num, partitions), run=here) -> Snapshot | None

1. copy: the files of a snapshot, merged, into the new buckets;
2. replay: what was appended since, file by file, until nothing is left;
3. switch: one OVERWRITE commit that takes away whatever files the partitions have then. Planning it replays what came
   last, so nothing that is committed before the switch is missed, and nobody waits for longer than a commit.

Compactions change no rows and are passed over: what they took in is still on disk, because snapshots keep it. Where a
partition was overwritten, or rows of its files were deleted, it is copied again.

Spec: docs/spec/rescale.md
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace

from bucketlake.errors import CommitError, ConflictError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.format.index.index_manifest import DELETION_VECTORS, IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.lsm.compaction import CompactionPick, CompactionRule
from bucketlake.ops.buckets.dynamic import remove_index
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.outcome import Attempts, Outcome, owned
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.compact.bucket import CompactUnit, Planner, compact_bucket
from bucketlake.ops.compact.maintain import Wanted
from bucketlake.ops.compact.maintain import compact as compact_table
from bucketlake.ops.compact.running import Runner, Task, all_of, here
from bucketlake.ops.progress import Meter, OnProgress
from bucketlake.ops.rebase.numbers import numbered
from bucketlake.ops.rescale.advise import numbers_due
from bucketlake.ops.rewrite.rebucket import MoveUnit, copy_units, move, replay_unit, sources_of
from bucketlake.ops.scan.line import line
from bucketlake.ops.scan.scan import EntryFilter, changelog_entries, delta_entries, keyed_entries, skips_level_0
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import ROWS_STAY_PROPERTY, Changes
from bucketlake.ops.table.entries import by_bucket, deletion, max_sequences
from bucketlake.ops.table.known import check_known, knows, renewed
from bucketlake.ops.table.made import remove_files
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.schema.clustering import refuse_clustered
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

__all__ = ["RescaleRequest", "rescale", "rescale_due"]

ATTEMPTS = 20
ROUNDS = 10  # replays before the switch; what is left then is replayed within it


@dataclass(frozen=True, slots=True)
class RescaleRequest:
    """What to rescale. `bucket_num`: the new number (None: that of the option `bucket`); `partitions`: of these only
    (None: all). `numbers`: by partition bytes, instead of both."""

    bucket_num: int | None = None
    partitions: PartitionFilter | None = None
    numbers: Mapping[bytes, int] | None = None

    def number_of(self, store: Store, partition: bytes) -> int | None:
        """The new number of a partition, None where it stays."""
        if self.numbers is not None:
            return self.numbers.get(partition)
        if self.partitions is not None and not self.partitions(partition):
            return None
        return store.schema.bucket if self.bucket_num is None else self.bucket_num


def rescale(
    store: Store, request: RescaleRequest, run: Runner = here, on_progress: OnProgress | None = None
) -> Snapshot | None:
    """Put the partitions' rows into the buckets of another number, as one OVERWRITE commit; None where they have none.

    Each new bucket becomes one sorted run, beside what was appended meanwhile. Rows stay as they are; no changelog is
    written. Pending files of postpone tables are left alone. Other writers go on: what they commit meanwhile is moved
    too, and a write that commits after the switch moves its own rows. The table's option `bucket` stays as it is. An
    interrupt, or what `on_progress` raises before the switch, gives it up.
    Errors: InvalidError (number, no snapshot, files of one partition that count different buckets), UnsupportedError
    (tables whose buckets have no number), ConflictError where others kept replacing the partitions, CommitError,
    CommitUnknownError; then the table is as it was, but for the last.
    Spec: docs/spec/rescale.md
    """
    _check(store, request)
    meter = Meter.of_table("rescale", store.paths.root, store.env.clock, on_progress)
    job = _Job(store, request, run, meter)
    outcome = Outcome()
    with meter.ending():
        with owned(outcome, lambda: job.discard(published=False)):
            published = job.published(outcome)
        with suppress(Exception):  # what stays is an orphan
            job.discard(published=published is not None)
        if published is not None:
            _show(store, job)
            meter.commit()
    return published


def rescale_due(
    store: Store,
    partitions: PartitionFilter | None = None,
    run: Runner = here,
    on_progress: OnProgress | None = None,
) -> Snapshot | None:
    """With `bucket.auto`: rescale those of the partitions whose number should change by a factor of two or more, as
    `advise` recommends; the snapshot, None where none should. Errors as `rescale`.

    Spec: docs/spec/rescale.md#automatic
    """
    if not store.options.get("bucket.auto"):
        return None
    numbers = {p: number for p, number in numbers_due(store).items() if partitions is None or partitions(p)}
    return rescale(store, RescaleRequest(numbers=numbers), run, on_progress) if numbers else None


def _check(store: Store, request: RescaleRequest) -> None:
    refuse_clustered(store.schema, "rescaling a table")
    mode, number = store.schema.bucket_mode, request.bucket_num
    if mode not in (BucketMode.FIXED, BucketMode.POSTPONE):
        raise UnsupportedError(
            "only tables whose buckets have a fixed number can be rescaled",
            path=store.paths.root,
            bucket=store.schema.bucket,
            remedy="dynamic buckets grow by themselves, tables without buckets have none",
        )
    if mode is BucketMode.POSTPONE and number is None and request.numbers is None:
        raise InvalidError(
            "When rescaling postpone bucket tables, you must provide the resulting bucket number.",
            path=store.paths.root,
        )
    for wanted in (*(() if number is None else (number,)), *(request.numbers or {}).values()):
        if not hasattr(wanted, "__index__"):  # NumPy's numbers have it, texts have not
            raise InvalidError("not a number of buckets", bucket_num=repr(wanted), remedy="give a whole number")
        if wanted < 1:
            raise InvalidError("The number of buckets needs to be greater than 0.", bucket_num=wanted)
        if wanted >= 1 << 31:
            raise InvalidError("the number of buckets is an INT", bucket_num=wanted, remedy="give a smaller one")
    if store.latest_snapshot_id() is None:
        raise InvalidError(f"Table {store.paths.root} has no snapshot, no need to rescale.")


class _Overtaken(Exception):
    """Partitions whose rows others changed, and which must be copied again."""

    def __init__(self, partitions: Iterable[bytes]) -> None:
        super().__init__()
        self.partitions = frozenset(partitions)


@dataclass(slots=True)
class _Bucket:
    """What a new bucket will hold. `settled`: files that need no look; `fresh`: (name of the file they come from, file
    of level 0); `vectors`: deletion vectors of settled files."""

    settled: list[DataFile] = field(default_factory=list)
    fresh: list[tuple[str, DataFile]] = field(default_factory=list)
    vectors: IndexFile | None = None
    rows: int = 0  # numbered so far, in append tables


@dataclass(slots=True)
class _Partition:
    """A partition on its way. `number`: of its new buckets; `highest`: the greatest sequence number that was moved out
    of each old bucket."""

    number: int
    buckets: dict[int, _Bucket] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)


class _Job:
    """One call: partitions that were copied, all caught up to the snapshot `seen`, and everything that was written."""

    def __init__(self, store: Store, request: RescaleRequest, run: Runner, meter: Meter) -> None:
        self._store, self._request, self._run, self._meter = store, request, run, meter
        self._keyed = bool(store.schema.primary_keys)
        self._producer = store.options.get("changelog-producer") if self._keyed else "none"
        self._top = CompactionRule.of(store.options).num_levels - 1 if self._keyed else 0
        self._settles = self._keyed and (skips_level_0(store) or self._producer == "lookup")
        self._seen: Snapshot | None = None
        self._complete = False  # nothing is missing as of `seen`
        self._made: list[CommitMessage] = []
        self.moving: dict[bytes, _Partition] = {}

    def published(self, outcome: Outcome) -> Snapshot | None:
        """Copy, replay, switch, again where others came between; None where there is nothing to move."""
        attempts = Attempts(self._store, lambda _: None, ATTEMPTS, again=(CommitError, _Overtaken))
        for attempt in attempts:
            self._forget(attempts.lost)
            with attempt:
                # Since what was caught up to before, files that were appended may have been compacted and expired.
                attempt.on(self._seen or self._store.latest_snapshot())
                return self._switch(attempt.within(outcome)) if self._prepare() else None
        raise ConflictError(
            "other commits kept replacing the partitions that are rescaled",
            path=self._store.paths.root,
            attempts=ATTEMPTS,
            remedy="rescale while nobody overwrites them or deletes rows of their files",
        ) from attempts.lost

    def discard(self, *, published: bool) -> None:
        """Remove what was written, but for what was published."""
        places = self._placed() if published else []
        kept = {file.file_name for _, _, _, bucket in places for file in _files(bucket)}
        kept |= {bucket.vectors.file_name for *_, bucket in places if bucket.vectors is not None}
        for message in self._made:
            made = [file for file in (*message.new_files, *message.compact_after) if file.file_name not in kept]
            remove_files(self._store, message.partition, message.bucket, made)
            for index in message.compact_new_index_files:
                if index.file_name not in kept:
                    remove_index(self._store, message.partition, message.bucket, index)

    def fresh(self) -> frozenset[bytes]:
        """Partitions with files of level 0 among those switched to."""
        return frozenset(partition for partition, _, _, bucket in self._placed() if bucket.fresh)

    def _forget(self, lost: Exception | None) -> None:
        """After a lost attempt: the partitions that must be copied again."""
        if isinstance(lost, _Overtaken):
            gone = lost.partitions
        elif isinstance(lost, NotFoundError):  # files of a snapshot that has expired
            gone = frozenset(self.moving)
        else:  # others won every race
            return
        self._complete = False
        for partition in gone:
            self.moving.pop(partition, None)

    def _placed(self) -> list[tuple[bytes, int, int, _Bucket]]:
        """(partition, number of buckets, bucket number, content) of all new buckets."""
        return [(p, state.number, b, bucket) for p, state in self.moving.items() for b, bucket in state.buckets.items()]

    # ---- copy

    def _prepare(self) -> bool:
        """Copy the partitions that are not yet there and catch up with the newest snapshot; whether there are any."""
        for _ in range(ROUNDS):
            newest = self._store.latest_snapshot()
            if newest is None:
                return False
            if not knows(self._store, newest):  # what was copied may lack columns
                self._store, self._complete = renewed(self._store), False
                self.moving.clear()
            known = self._seen
            if self._complete and known is not None and (known.id, known.uuid) == (newest.id, newest.uuid):
                break
            self._catch_up(newest)
            self._copy(newest)
        return bool(self.moving)

    def _copy(self, snapshot: Snapshot) -> None:
        """Move all rows that the missing partitions have in a snapshot."""
        missing: dict[bytes, list[ManifestEntry]] = {}
        for entry in keyed_entries(self._store, snapshot, EntryFilter(min_bucket=0)):
            if entry.partition not in self.moving:
                missing.setdefault(entry.partition, []).append(entry)
        vectors: dict[bytes, dict[int, IndexFile]] = {}
        for index in self._store.index_manifest(snapshot):
            if index.file.index_type == DELETION_VECTORS:
                vectors.setdefault(index.partition, {})[index.bucket] = index.file
        states: dict[bytes, _Partition] = {}
        units: list[MoveUnit] = []
        for partition, entries in missing.items():
            number = self._request.number_of(self._store, partition)
            if number is None:
                continue
            self._check_one_number(partition, entries)
            highest = {bucket: top for (_, bucket), top in max_sequences(entries).items()}
            states[partition] = _Partition(number, highest=highest)
            told = [entry for entry in entries if self._is_told(entry.file)]
            units += copy_units(partition, number, sources_of(told, vectors.get(partition, {})))
            waiting = sorted((entry for entry in entries if not self._is_told(entry.file)), key=_age)
            units += [replay_unit(entry, number) for entry in waiting]
        messages = self._moved(units)
        self.moving.update(states)
        self._take(messages)
        self._complete = True

    def _check_one_number(self, partition: bytes, entries: Sequence[ManifestEntry]) -> None:
        """Of files that count different buckets a key may lie in two: which version is newer, a repair decides."""
        numbers = sorted({max(entry.total_buckets, 1) for entry in entries})
        if len(numbers) > 1:
            raise InvalidError(
                f"files of one partition record different numbers of buckets: {', '.join(map(str, numbers))}",
                path=self._store.paths.root,
                partition=self._store.paths.partition_texts(partition),
                remedy="CALL sys.repair_table moves its rows to their buckets; then rescale",
            )

    def _is_told(self, file: DataFile) -> bool:
        """Whether a changelog has told of all rows of a file, if compaction is to write one: others are not merged
        with older rows, so that the next compaction tells of them."""
        if self._producer == "full-compaction":
            return file.level >= self._top
        return self._producer != "lookup" or file.level > 0

    # ---- replay

    def _catch_up(self, newest: Snapshot) -> None:
        """Move what was appended up to a snapshot. Raises _Overtaken for partitions that were changed otherwise."""
        check_known(self._store, newest)
        if self._seen is None or not self.moving:
            self._seen = newest
            return
        before = self._store.find_snapshot(self._seen.id)
        if before is None or before.uuid != self._seen.uuid or newest.id < before.id:
            raise _Overtaken(self.moving)  # rolled back, or expired
        steps = line(self._store, before.id, newest)
        if steps is None:
            raise _Overtaken(self.moving)
        units: list[MoveUnit] = []
        overtaken: set[bytes] = set()
        for snapshot in steps:
            entries = delta_entries(self._store, snapshot, EntryFilter(partitions=frozenset(self.moving)))
            overtaken |= self._changed(before, snapshot, entries)
            if snapshot.commit_kind is CommitKind.APPEND:
                units += self._replayed([e for e in entries if e.kind == FileKind.ADD and e.bucket >= 0])
            before = snapshot
        if overtaken:
            raise _Overtaken(overtaken)
        self._take(self._moved(units))
        self._seen = newest

    def _replayed(self, new: Sequence[ManifestEntry]) -> list[MoveUnit]:
        """The units of what one commit added, oldest rows first.

        A compaction that drops the newest row of a bucket, a delete, lets the next write take its sequence number:
        files are numbered after all that was moved before them.
        """
        groups = by_bucket(sorted(new, key=_age))
        units: list[MoveUnit] = []
        for (partition, bucket), entries in groups.items():
            state = self.moving[partition]
            shift = max(0, state.highest.get(bucket, -1) + 1 - entries[0].file.min_sequence_number)
            state.highest[bucket] = shift + max(entry.file.max_sequence_number for entry in entries)
            units += [replay_unit(entry, state.number, shift) for entry in entries]
        return units

    def _changed(self, before: Snapshot, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> set[bytes]:
        """The partitions whose rows a snapshot changed otherwise than by adding files, or of whose changes it told."""
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            return {entry.partition for entry in entries if entry.bucket >= 0} | self._marked(before, snapshot)
        if snapshot.commit_kind is not CommitKind.COMPACT:
            return self._marked(before, snapshot)
        pending = {entry.partition for entry in entries if entry.bucket < 0}
        if self._settles:  # what was only written anew has gone from level 0 by its name alone
            pending |= {e.partition for e in entries if e.kind == FileKind.ADD and e.bucket >= 0 and e.file.level == 0}
        if self._producer != "full-compaction":
            return pending
        wanted = EntryFilter(partitions=frozenset(self.moving))
        return pending | {entry.partition for entry in changelog_entries(self._store, snapshot, wanted)}

    def _marked(self, before: Snapshot, snapshot: Snapshot) -> set[bytes]:
        """The partitions whose index files differ."""
        if before.index_manifest == snapshot.index_manifest:
            return set()
        old, new = (self._store.index_manifest(one) for one in (before, snapshot))
        changed = {(e.partition, e.file.file_name) for e in old} ^ {(e.partition, e.file.file_name) for e in new}
        return {partition for partition, _ in changed if partition in self.moving}

    def _moved(self, units: Sequence[MoveUnit]) -> list[CommitMessage]:
        """Move the rows of units; their messages, in the units' order."""
        meter = self._meter
        if units:
            meter.expect(len(units), sum(unit.row_count for unit in units), sum(unit.size for unit in units))
        messages = all_of(
            [Task(self._store, move, unit) for unit in units],
            self._run,
            lambda task: meter.add(1, task.unit.row_count, task.unit.size),
        )
        self._made += messages
        return messages

    def _take(self, messages: Sequence[CommitMessage]) -> None:
        """Add moved files to their buckets."""
        for message in messages:
            bucket = self.moving[message.partition].buckets.setdefault(message.bucket, _Bucket())
            if not self._keyed:
                files = numbered(message.new_files, bucket.rows)
                bucket.rows += sum(file.row_count for file in files)
                bucket.settled += files
                continue
            source = message.compact_before[0].file_name
            for file in message.new_files:
                if file.level > 0:
                    bucket.settled.append(file)
                else:
                    bucket.fresh.append((source, file))

    # ---- switch

    def _switch(self, outcome: Outcome) -> Snapshot:
        user = new_commit_user(self._store)
        name = CommitName(0, user, BATCH_COMMIT_IDENTIFIER, CommitKind.OVERWRITE)
        request = Request(name, self._changes, properties={ROWS_STAY_PROPERTY: user})
        return Publisher(self._store).publish(request, outcome)

    def _changes(self, view: View) -> Changes:
        """Everything out, everything in, as of a base: what came last is moved first."""
        if view.snapshot is None:
            raise _Overtaken(self.moving)
        self._catch_up(view.snapshot)
        partitions = frozenset(self.moving)
        old = [entry for entry in view.entries(partitions) if entry.bucket >= 0]
        self._settle({entry.file.file_name for entry in old if entry.file.level == 0})
        added: list[ManifestEntry] = []
        indexes = [replace(e, kind=FileKind.DELETE) for e in view.indexes if e.partition in partitions]
        for partition, number, place, bucket in self._placed():
            added += [ManifestEntry(FileKind.ADD, partition, place, number, file) for file in _files(bucket)]
            if bucket.vectors is not None:
                indexes.append(IndexEntry(FileKind.ADD, partition, place, bucket.vectors))
        return Changes((*(deletion(entry) for entry in old), *added), (), tuple(indexes))

    def _settle(self, waiting: set[str]) -> None:
        """Compact moved files whose originals were compacted meanwhile, where that matters: their rows can be seen, and
        have been told of. `waiting`: names of files that are still in level 0."""
        if not self._settles:
            return
        for partition, number, place, bucket in self._placed():
            done = [file for source, file in bucket.fresh if source not in waiting]
            if done:
                unit = CompactUnit(partition, place, number, (*bucket.settled, *done), _NO_PICK, bucket.vectors)
                self._compact(bucket, unit)
                bucket.fresh = [(source, file) for source, file in bucket.fresh if source in waiting]

    def _compact(self, bucket: _Bucket, unit: CompactUnit) -> None:
        """Take the unit's files of level 0 into higher levels."""
        files, vectors = list(unit.files), unit.vectors
        for full in (False, True):
            found = Planner(self._store, full).pick(tuple(files), vectors)
            if found is None or all(file.level > 0 for file in files):
                continue
            now = replace(unit, files=tuple(files), vectors=vectors, pick=found, tells=False)
            message = compact_bucket(self._store, now)
            if message is not None:
                self._made.append(message)
                gone = {(file.file_name, file.level) for file in message.compact_before}
                files = [f for f in files if (f.file_name, f.level) not in gone] + list(message.compact_after)
                if message.compact_deleted_index_files or message.compact_new_index_files:
                    vectors = next(iter(message.compact_new_index_files), None)
        bucket.settled, bucket.vectors = files, vectors


_NO_PICK = CompactionPick((), 0, False)


def _files(bucket: _Bucket) -> list[DataFile]:
    return [*bucket.settled, *(file for _, file in bucket.fresh)]


def _age(entry: ManifestEntry) -> tuple[int, int, str]:
    """Append files by their order, others by their age."""
    return entry.file.min_sequence_number, entry.file.max_sequence_number, entry.file.file_name


def _show(store: Store, job: _Job) -> None:
    """Compact files of level 0 that batch reads do not see before."""
    fresh = job.fresh()
    if not fresh or not skips_level_0(store):
        return
    try:
        compact_table(store, Wanted(full=False, partitions=fresh.__contains__))
    except Exception as error:
        warnings.warn(f"the table is rescaled, compaction was given up: {error}", stacklevel=3)
