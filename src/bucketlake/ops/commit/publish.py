"""The optimistic loop: read the base, plan, check, write manifests, publish `snapshot-<n+1>` if the name is free.

A lost race is rebased: planned and checked again on the new base, after a bounded, jittered pause, reusing the delta's
manifests. A lost answer is resolved by the uuid in the snapshot that took the name. Files written for an attempt that
certainly lost are removed; where it cannot be known nothing is.

Spec: docs/spec/commit.md#publishing
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from bucketlake.env.storage import Buffered
from bucketlake.errors import (
    CommitError,
    CommitUnknownError,
    CorruptError,
    NotFoundError,
    NotWrittenError,
    StorageError,
)
from bucketlake.file_names import lies_in
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot, encode_snapshot
from bucketlake.ops.commit.chain import Guard, NothingLeftError
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.draft import Drafts, Request, Scratch
from bucketlake.ops.commit.outcome import Outcome, owned
from bucketlake.ops.commit.partition_changes import partition_changes
from bucketlake.ops.commit.strays import Standing, is_open, remove_from_gone, standing, take_back
from bucketlake.ops.commit.telling import tell_committed, tell_failed
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import entry_name
from bucketlake.ops.table.parallel import at_once
from bucketlake.ops.table.publishing import is_managed, publish
from bucketlake.ops.table.retry import has_moved
from bucketlake.ops.table.store import FIRST_SNAPSHOT_ID, Store

_BASE_GONE = "a rollback or an expiry took away the snapshot that the commit stands on"

__all__ = ["Publisher", "Request", "is_commit"]


class Publisher:
    """Publishes snapshots of one table for one user; each call is one optimistic loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._guard = Guard.of(store)
        self._drafts = Drafts(store, self._guard)

    def publish(self, request: Request, outcome: Outcome | None = None) -> Snapshot:
        """Publish, rebasing as often as `commit.max-retries` and `commit.timeout` allow. `outcome`: of the commit that
        this is part of, which is told what becomes of it.

        Errors: ConflictError, InvalidError (bucket number), CommitError (retries used up), CommitUnknownError,
        StorageError; after all but CommitUnknownError the table is as it was and what was written is removed.
        """
        scratch, own = Scratch(), Outcome(outcome)
        started = self._store.env.clock.now_millis()
        try:
            with owned(own, lambda: self._delete(scratch.all())):
                snapshot = self._loop(request, scratch, own, started)
        except NothingLeftError:
            raise
        except Exception as error:
            tell_failed(self._store, request.name, error, started)
            raise
        if self._guard is not None:
            self._guard.after(snapshot, request.mends or request.rows_stay, _dropped_beside)
        return snapshot

    def _loop(self, request: Request, scratch: Scratch, outcome: Outcome, started: int) -> Snapshot:
        limit, timeout = self._store.options.get("commit.max-retries"), self._store.options.get("commit.timeout")
        previous: Snapshot | None = None
        retries = 0
        while True:
            base = self._store.latest_snapshot()
            if retries and (found := self._found(request.name, previous, base)) is not None:
                outcome.publish(ours=False)
                self._delete(scratch.all())
                return found
            try:
                snapshot = self._drafts.draft(request, base, scratch, merge=retries == 0)
            except NotFoundError:
                if retries >= limit or base is None or not has_moved(self._store, base):
                    self._store.check_here()  # a table that was dropped or renamed is told as that
                    raise
                scratch.stale += scratch.once
                scratch.once = []
                previous, retries = base, retries + 1  # the base has expired meanwhile
                continue
            self._sync(scratch, base_list=snapshot.base_manifest_list)
            if self._put(snapshot, request.name, outcome, base, scratch.changes or Changes()):
                if not is_managed(self._store):
                    self._confirm(base, snapshot, scratch.changes or Changes(), request.name)
                    self._hint(snapshot)
                    looks = partial(self._check_hint, snapshot), partial(self._stay_in_table, snapshot, request.name)
                    at_once(self._store.waits, *looks)
                    self._store.note_held(snapshot)
                self._delete(scratch.stale)
                tell_committed(self._store, snapshot, scratch.changes or Changes(), started, retries)
                return snapshot
            scratch.stale += scratch.once
            scratch.once = []
            self._delete(scratch.stale)
            scratch.stale = []
            elapsed = self._store.env.clock.now_millis() - started
            if retries >= limit or (timeout is not None and elapsed > timeout):
                raise CommitError(
                    f"Commit failed after {elapsed} millis with {retries} retries, "
                    "there maybe exist commit conflicts between multiple jobs.",
                    commit=request.name,
                    remedy="raise commit.max-retries or commit.timeout, or commit less often",
                )
            self._pause(retries)
            previous, retries = base, retries + 1

    def _found(self, name: CommitName, previous: Snapshot | None, base: Snapshot | None) -> Snapshot | None:
        """Our commit among the snapshots since the last attempt, published by another run of the same job. Batch
        identifiers are all alike and say nothing."""
        if name.identifier == BATCH_COMMIT_IDENTIFIER:
            return None
        first = FIRST_SNAPSHOT_ID if previous is None else previous.id + 1
        for snapshot_id in range(first, (base.id if base else 0) + 1):
            found = self._store.find_snapshot(snapshot_id)
            if found is not None and is_commit(found, name):
                return found
        return None

    def _sync(self, scratch: Scratch, base_list: str) -> None:
        """Where the storage buffers: make durable what the snapshot is about to name, new files and their folders, each
        once. A snapshot that survives a power failure can be read.

        Spec: docs/spec/commit.md#durability
        """
        storage, paths = self._store.env.storage, self._store.paths
        if not isinstance(storage, Buffered) or scratch.changes is None:
            return
        changes = scratch.changes
        kept = {entry_name(entry) for entry in changes.table if entry.kind == FileKind.DELETE}
        made: list[str] = []
        whole = [paths.manifest(base_list)]
        for entry in (*changes.table, *changes.changelog):
            if entry.kind == FileKind.ADD and entry_name(entry) not in kept:
                folder = paths.bucket_dir(entry.partition, entry.bucket)
                made.append(paths.file_path(folder, entry.file))
                whole += [paths.extra_path(folder, entry.file, name) for name in entry.file.extra_files]
        for index in changes.indexes:
            if index.kind == FileKind.ADD:
                whole.append(paths.index_path(index.partition, index.bucket, index.file))
        new = [path for path in dict.fromkeys(made) if path not in scratch.synced]
        for root in (paths.root, *(place.rpartition("/")[0] for place in paths.external_roots)):
            written, named = ([path for path in some if lies_in(path, root)] for some in (new, whole))
            if root == paths.root or written or named:
                storage.sync(written, named, root)
        scratch.synced.update(new)

    def _put(
        self, snapshot: Snapshot, name: CommitName, outcome: Outcome, base: Snapshot | None, changes: Changes
    ) -> bool:
        """Whether the name is ours now. A failing store is asked again with the same bytes until it answers.

        Raises CorruptError for a file of that name that no commit ever gets past, CommitError where the table's catalog
        refuses the commit."""
        path, data = self._store.paths.snapshot(snapshot.id), encode_snapshot(snapshot)
        before, statistics = None if base is None else base.uuid, partial(partition_changes, self._store, changes)
        limit = self._store.options.get("commit.max-retries")
        outcome.begin(commit=replace(name, snapshot=snapshot.id), uuid=snapshot.uuid)
        certain = True  # that no attempt so far was published
        for asked in range(limit + 1):
            try:
                if publish(self._store, path, data, before, statistics):
                    outcome.publish()
                    return True
                found = self._store.find_snapshot(snapshot.id)
            except CorruptError:
                outcome.lose()  # ours would be whole
                raise
            except CommitError as error:
                if asked:  # an earlier answer was lost
                    raise _unknown(snapshot, name) from error
                outcome.lose()
                raise
            except StorageError as error:
                certain = certain and isinstance(error, NotWrittenError)
                if asked == limit and certain:
                    outcome.lose()
                    raise
                if asked == limit:
                    raise _unknown(snapshot, name) from error
                self._pause(asked, error.details.get("retry_after"))
                continue
            if found is None and asked:
                raise _unknown(snapshot, name)  # it may have been ours, and expired since
            if found is not None and found.uuid == snapshot.uuid:
                outcome.publish()
                return True
            outcome.lose()
            return False
        raise _unknown(snapshot, name)

    def _confirm(self, base: Snapshot | None, snapshot: Snapshot, changes: Changes, name: CommitName) -> None:
        """A name that expired is free again: if the base is gone, make sure that later snapshots stand on ours. One
        that was certainly published into the past is taken back. Raises CommitUnknownError alone."""
        for tried in range(self._store.options.get("commit.max-retries") + 1):
            try:
                if base is None or self._is_there(base):
                    return
                self._stay_in_table(snapshot, name)
                found = standing(self._store, snapshot, changes.table)
            except NotFoundError:
                continue  # something expired while it was looked at
            except StorageError:
                self._pause(tried)
                continue
            except CorruptError as error:
                raise _unknown(snapshot, name) from error
            if found is Standing.LIVES:
                return
            if found is Standing.STRAY:
                self._take_back(snapshot, name)
            raise _unknown(snapshot, name, f"{_BASE_GONE}: whether the table holds what was published cannot be told")
        raise _unknown(snapshot, name)

    def _take_back(self, snapshot: Snapshot, name: CommitName) -> NoReturn:
        """Say that the snapshot is taken back once it is: others go on from it for as long as it stands there."""
        for tried in range(self._store.options.get("commit.max-retries") + 1):
            try:
                take_back(self._store, snapshot)
            except StorageError:
                self._pause(tried)
                continue
            raise _unknown(snapshot, name, f"{_BASE_GONE}, and what was published on it is taken back")
        raise _unknown(
            snapshot, name, f"{_BASE_GONE}, and the storage did not let what was published on it be taken back"
        )

    def _stay_in_table(self, snapshot: Snapshot, name: CommitName) -> None:
        """A table that was dropped or renamed meanwhile, or a branch, is not brought back, and one of its name that was
        made anew gets nothing: what was put there is taken away. Raises CommitUnknownError alone."""
        for tried in range(self._store.options.get("commit.max-retries") + 1):
            try:
                if is_open(self._store):
                    return
            except StorageError:
                self._pause(tried)
                continue
            except CorruptError as error:
                raise _unknown(snapshot, name) from error
            remove_from_gone(self._store, snapshot)
            break
        else:
            raise _unknown(snapshot, name)
        raise CommitUnknownError(
            "the table (or branch) was dropped, renamed or made anew while the snapshot was published",
            commit=replace(name, snapshot=snapshot.id),
            uuid=snapshot.uuid,
            path=self._store.paths.root,
            branch=self._store.branch_name,
            remedy="look where it is, and for a snapshot with this uuid, before committing again; no file was removed",
        )

    def _is_there(self, base: Snapshot) -> bool:
        """Whether the table still has a snapshot, and not another one of its id: a rollback frees ids for others."""
        found = self._store.find_snapshot(base.id)
        return found is not None and found.uuid == base.uuid

    def _hint(self, snapshot: Snapshot) -> None:
        """Best effort: readers do without."""
        storage, paths = self._store.env.storage, self._store.paths
        with suppress(Exception):
            storage.write(paths.latest_hint, str(snapshot.id).encode())
            self._store.note_hint(snapshot.id)
            if snapshot.id == FIRST_SNAPSHOT_ID:
                storage.write(paths.earliest_hint, str(snapshot.id).encode())

    def _check_hint(self, snapshot: Snapshot) -> None:
        """A rollback may have taken the snapshot away meanwhile: then no hint may name it, since Apache Paimon goes by
        that. A rollback that does so from here on writes the hint after it. Best effort."""
        with suppress(Exception):
            if not self._store.has_snapshot(snapshot.id):
                self._store.env.storage.delete(self._store.paths.latest_hint)

    def _pause(self, retries: int, wanted: Any = None) -> None:
        """`wanted`: for how many seconds a server asks, at least; never longer than `commit.max-retry-wait`."""
        shortest = self._store.options.get("commit.min-retry-wait")
        longest = self._store.options.get("commit.max-retry-wait")
        wait = min(max(shortest * 2 ** min(retries, 30), 1000 * (wanted or 0)), longest)
        self._store.env.clock.sleep((wait + wait * 0.2 * self._store.env.clock.jitter()) / 1000)

    def _delete(self, names: Sequence[str]) -> None:
        """Best effort: what stays is an orphan."""
        for name in names:
            with suppress(Exception):
                self._store.env.storage.delete(self._store.paths.manifest(name))


def is_commit(snapshot: Snapshot, name: CommitName) -> bool:
    """Whether a snapshot is this user's commit of this identifier and kind."""
    return (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) == (
        name.user,
        name.identifier,
        name.kind,
    )


def _unknown(
    snapshot: Snapshot, name: CommitName, what: str = "the storage did not say whether the snapshot was published"
) -> CommitUnknownError:
    return CommitUnknownError(
        what,
        commit=replace(name, snapshot=snapshot.id),
        uuid=snapshot.uuid,
        remedy="look for a snapshot with this uuid before committing again; no file was removed",
    )


def _dropped_beside(store: Store, plan: Callable[[View], Changes], follows: frozenset[bytes]) -> None:
    name = CommitName(0, store.env.clock.new_uuid(), BATCH_COMMIT_IDENTIFIER, CommitKind.OVERWRITE)
    Publisher(store).publish(Request(name, plan, operation="TRUNCATE", follows=follows))
