"""Rows that were read, changed, and are to be committed to a primary-key table: may they still be, on a newer base?

A DELETE or UPDATE writes whole rows, made of what it has read. Another commit since then may have changed these very
rows; applied after it, the change would undo it, or bring back what it removed.

    RowsRead(store, snapshot).check(messages, view)       raises ConflictError where that is so
    MergeRead(store, snapshot).check(messages, view)      the same for a MERGE that adds rows to an append table
    write_changes(store, read, kind, commit)              reads, writes and commits until it is not

    commit since the read                       conflicts
    OVERWRITE (overwrite, drop, delete, …)      where it touches a partition of the change
    APPEND (insert, delete, update)             where it has a row of a key of the change
    COMPACT, ANALYZE, rescale                   never: they change no row

Costs nothing where nobody else commits; reads key columns only where key ranges meet.
Spec: docs/conflicts.md#row-level-changes-of-primary-key-tables
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa

from bucketlake.errors import ConflictError, CorruptError
from bucketlake.format.index.index_manifest import DELETION_VECTORS, HASH
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.lsm.key_run import KeyRun, Keys
from bucketlake.lsm.levels import key_range_of
from bucketlake.ops.commit.commit import Check
from bucketlake.ops.commit.conflicts import name_of
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.key_index.key_scan import file_rows, key_fields, written_keys
from bucketlake.ops.scan.line import line
from bucketlake.ops.scan.scan import EntryFilter, delta_entries
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import ROWS_STAY_PROPERTY
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.known import check_known
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.retry import has_moved
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.postpone_write import for_changes, write_counted
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.schema.schema import KIND_FIELD, BucketMode
from bucketlake.values import dataclass

COMPARED_ROWS = 4_000_000  # of other commits; more are taken for a conflict where key ranges meet
SHOWN_FILES = 5


class Empty(Enum):
    """What a change has read that began before the first snapshot."""

    TABLE = "empty"


EMPTY: Final = Empty.TABLE
Read = Snapshot | Empty


@dataclass(slots=True)
class RowsRead:
    """What was read: the rows of `snapshot` (None: of the empty table), or of a later one. Remembers up to where it has
    looked. `adds`: `messages` may have rows of keys that were not read."""

    store: Store
    snapshot: Snapshot | None
    adds: bool = True

    def check(self, messages: Sequence[CommitMessage], view: View) -> None:
        """Raise ConflictError if a commit since the read, up to the view's, changed rows of `messages`; CorruptError
        if a hash index lacks keys of rows that were read."""
        self._check_line(messages, view)
        if not self.adds:
            self._check_index(messages)
        self.adds = True  # a rebase makes index files anew

    def _check_line(self, messages: Sequence[CommitMessage], view: View) -> None:
        base, newest = self.snapshot, view.snapshot
        if newest is None or not self._concerns(messages):
            return
        before: Snapshot | None = None
        if base is not None:
            if (base.id, base.uuid) == (newest.id, newest.uuid):
                return
            before = self.store.find_snapshot(base.id)
            if newest.id <= base.id or (before is not None and before.uuid != base.uuid):
                raise self._conflict("the table was rolled back since the rows were read", newest, ())
        steps = line(self.store, base.id if base is not None else 0, newest)
        if steps is None:
            raise self._conflict("commits since the rows were read have expired or were rolled back", newest, ())
        for step in steps:
            self._check_step(messages, before, step)
            before = step
        self.snapshot = newest

    def _check_index(self, messages: Sequence[CommitMessage]) -> None:
        """All keys lie in the table: an index that took one for new has lost it, and sent it to another bucket."""
        for message in messages:
            if any(file.index_type == HASH for file in message.new_index_files):
                raise CorruptError(
                    "a hash index lacks keys of rows that are there: they would be doubled",
                    table=self.store.paths.root,
                    index_manifest=message.index_base,
                    partition=self.store.paths.partition_texts(message.partition),
                    remedy="rewrite the partition with INSERT OVERWRITE, which builds its index anew",
                )

    def _concerns(self, messages: Sequence[CommitMessage]) -> bool:
        return bool(messages)

    def _check_step(self, messages: Sequence[CommitMessage], before: Snapshot | None, step: Snapshot) -> None:
        # A rollback copies the properties of the snapshot that it goes back to.
        stay = (step.properties or {}).get(ROWS_STAY_PROPERTY) == step.commit_user
        if stay or step.commit_kind in (CommitKind.COMPACT, CommitKind.ANALYZE):
            return
        partitions = frozenset(message.partition for message in messages)
        what = "another commit changed rows that were read"
        if step.commit_kind is not CommitKind.APPEND:
            entries = delta_entries(self.store, step, EntryFilter(partitions=partitions))
            if entries or partitions & self._marked(before, step):
                raise self._conflict(what, step, [entry.file for entry in entries])
            return
        anywhere = self.store.schema.bucket_mode is BucketMode.KEY_DYNAMIC
        entries = delta_entries(self.store, step, EntryFilter(partitions=None if anywhere else partitions))
        added = [entry for entry in entries if entry.kind == FileKind.ADD]
        theirs, ours = self._meeting(added, messages)
        if theirs and (sum(e.file.row_count for e in theirs) > COMPARED_ROWS or self._share_keys(theirs, ours)):
            raise self._conflict(what, step, [entry.file for entry in theirs])

    def _marked(self, before: Snapshot | None, step: Snapshot) -> frozenset[bytes]:
        """The partitions whose deletion vectors a commit changed."""
        if before is not None and before.index_manifest == step.index_manifest:
            return frozenset()
        old = {} if before is None else {e.file.file_name: e for e in self.store.index_manifest(before)}
        new = {e.file.file_name: e for e in self.store.index_manifest(step)}
        changed = [entry for name, entry in {**old, **new}.items() if (name in old) != (name in new)]
        return frozenset(entry.partition for entry in changed if entry.file.index_type == DELETION_VECTORS)

    def _meeting(
        self, added: Sequence[ManifestEntry], messages: Sequence[CommitMessage]
    ) -> tuple[list[ManifestEntry], list[tuple[BucketKey, DataFile]]]:
        """Those of their files and of ours whose key ranges meet in one place; pending rows have no range."""
        key_range, mode = key_range_of(self.store.schema.key_fields), self.store.schema.bucket_mode
        own: dict[object, list[tuple[BucketKey, DataFile]]] = {}
        for message in messages:
            place = (message.partition, message.bucket)
            own.setdefault(_where(place, mode), []).extend((place, file) for file in message.new_files)
        theirs: list[ManifestEntry] = []
        ours: dict[str, tuple[BucketKey, DataFile]] = {}
        for entry in added:
            for place, file in own.get(_where(bucket_key(entry), mode), ()):
                if entry.bucket >= 0 and place[1] >= 0:
                    (low, high), (first, last) = key_range(entry.file), key_range(file)
                    if last < low or high < first:
                        continue
                ours[file.file_name] = (place, file)
                if not theirs or theirs[-1] is not entry:
                    theirs.append(entry)
        return theirs, list(ours.values())

    def _share_keys(self, theirs: Iterable[ManifestEntry], ours: Iterable[tuple[BucketKey, DataFile]]) -> bool:
        """Whether a key is in both, read from the files."""
        parts = [written_keys(self.store, bucket_key(entry), [entry.file]) for entry in theirs]
        keys = Keys.all_of([Keys.none(key_fields(self.store)), *parts])
        once = keys.take(keys.distinct()[1])
        run = KeyRun.of(once, np.zeros(len(once), np.int32))
        return any(
            bool((run.rows_of(Keys.of(rows, key_fields(self.store))) >= 0).any())
            for place, file in ours
            for rows in file_rows(self.store, place, file)
        )

    def _conflict(self, what: str, step: Snapshot, files: Sequence[DataFile]) -> ConflictError:
        return ConflictError(
            what,
            table=self.store.paths.root,
            read=self.snapshot.id if self.snapshot else None,
            base=name_of(step),
            files=[file.file_name for file in files[:SHOWN_FILES]],
            remedy="read the table again and repeat the change",
        )


@dataclass(slots=True)
class MergeRead(RowsRead):
    """What a MERGE into an append table has read: rows that it adds because no row matched. Other rows that come
    meanwhile come after it; but another MERGE, and what changes or removes rows, would have to be seen."""

    def _check_step(self, messages: Sequence[CommitMessage], before: Snapshot | None, step: Snapshot) -> None:
        stay = (step.properties or {}).get(ROWS_STAY_PROPERTY) == step.commit_user
        if stay or step.commit_kind in (CommitKind.COMPACT, CommitKind.ANALYZE):
            return
        if step.commit_kind is CommitKind.APPEND and step.operation != "MERGE":
            return
        raise self._conflict("another commit changed rows that a MERGE looked at", step, ())


@dataclass(slots=True)
class TableRead(RowsRead):
    """What an overwrite has read whose rows are made of the table's: all of it."""

    def _concerns(self, messages: Sequence[CommitMessage]) -> bool:
        return True  # one without rows removes what is there

    def _check_step(self, messages: Sequence[CommitMessage], before: Snapshot | None, step: Snapshot) -> None:
        stay = (step.properties or {}).get(ROWS_STAY_PROPERTY) == step.commit_user
        if not stay and step.commit_kind not in (CommitKind.COMPACT, CommitKind.ANALYZE):
            raise self._conflict("another commit changed the table that an overwrite has read", step, ())


def check_of(store: Store, read: Read | None, whole: bool, operation: str | None = None) -> Check | None:
    """What a commit is asked whose rows are made of what was read: nothing, after rows of its keys, or after any."""
    if read is None:
        return None
    adds = whole or operation not in ("UPDATE", "DELETE")
    return (TableRead if whole else RowsRead)(store, None if read is EMPTY else read, adds).check


def made_anew(store: Store, prepared: Callable[[Read], Callable[[], None]]) -> None:
    """Replace a table's rows by rows that are made of them. `prepared`: reads them as of now and gives what remains to
    be done, which asks `check_of` about that snapshot; all of it is done again where others changed the table."""

    def once(attempt: Attempt) -> None:
        base = attempt.on(store.latest_snapshot())
        write = prepared(EMPTY if base is None else base)
        if has_moved(store, base):
            raise ConflictError("another commit came while an overwrite read its table", table=store.paths.root)
        write()

    Attempts(store).run(once)


def _where(place: BucketKey, mode: BucketMode) -> object:
    """What two files must share to hold rows of one key: the bucket, the partition, or nothing."""
    if mode is BucketMode.KEY_DYNAMIC:
        return None
    return place if mode is BucketMode.FIXED else place[0]


Commit = Callable[[Sequence[CommitMessage], str, "Snapshot | None"], "Snapshot | None"]
"""Publishes messages as a user, of rows read from a snapshot or a later one."""


def write_changes(
    store: Store, read: Callable[[], Iterable[pa.RecordBatch]], kind: int, commit: Commit
) -> tuple[Snapshot | None, list[CommitMessage]]:
    """Write the rows that `read` finds as of now, each as a row of this kind, and commit them; all of it again where
    the commit says that others changed them meanwhile, a bounded number of times. The snapshot, and the messages."""

    def once(attempt: Attempt) -> tuple[Snapshot | None, list[CommitMessage]]:
        base, user = attempt.on(store.latest_snapshot()), new_commit_user(store)
        if base is None:
            return None, []
        check_known(store, base)
        task = for_changes(store, prepare_write(store, base, commit_user=user))
        messages = write_counted(store, (_of_kind(batch, kind) for batch in read()), task, KIND_FIELD.name)
        return commit(messages, user, base), messages

    return Attempts(store).run(once)


def _of_kind(batch: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    return batch.append_column(KIND_FIELD.name, pa.array(np.full(batch.num_rows, kind, np.int8)))
