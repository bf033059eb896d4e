"""Batches that a streaming query writes: each is one commit, and one that comes again is recognised.

    stream/stream-<query>   { "version": 1, "batch": 7, "base": 41, "fingerprint": "…", "done": false, "run": "…" }

A snapshot says which query and batch made it. As snapshots expire, what was begun last is noted before anything of it
is published: a batch that comes again and whose snapshot may have expired is refused rather than doubled.

Spec: docs/spec/streaming.md#batches
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from bucketlake.errors import CommitUnknownError, ConflictError, InvalidError, NotFoundError
from bucketlake.format.guard import decoding, json_object
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

VERSION = 1


@dataclass(frozen=True, slots=True)
class BatchName:
    """A batch of a query. `fingerprint`: of what it reads, "" where that is not known; `watermark`: epoch milliseconds
    of the query's event time; `first`: the query may begin at any number, as nothing is known of its checkpoint;
    `base`: the newest snapshot when it was begun, 0 without one; `run`: who began it, "" before anybody has."""

    query: str
    number: int
    fingerprint: str = ""
    watermark: int | None = None
    first: bool = False
    base: int = 0
    run: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.number, int) or self.number < 0:
            raise InvalidError("a batch has a number from 0 on", batch=self.number)
        if self.watermark is not None and (isinstance(self.watermark, bool) or not isinstance(self.watermark, int)):
            remedy = "give milliseconds since 1970, as a whole number"
            raise InvalidError("not a watermark", watermark=repr(self.watermark)[:200], remedy=remedy)


@dataclass(frozen=True, slots=True)
class _Begun:
    """What a query's file says: the batch that was begun last, on which snapshot (0: none), by whom ("": not known)."""

    batch: int
    base: int
    fingerprint: str
    done: bool
    run: str


def committed(store: Store, batch: BatchName) -> Snapshot | bool:
    """The snapshot that a batch has made, True where it made none, False where it is still to be written.

    Errors: InvalidError where the query's checkpoint is older than what it has written, or newer than what the table
    has of it, another's, or gives other rows under the same number; CommitUnknownError where the snapshot that tells
    has expired.
    """
    begun, last = _begun(store, batch.query), _newest_of(store, batch.query)
    newest = max(begun.batch if begun is not None else -1, last.commit_identifier if last is not None else -1)
    if newest > batch.number:
        raise InvalidError(
            "the query's checkpoint is older than what the query has written: its rows would be doubled",
            table=store.paths.root,
            query=batch.query,
            batch=batch.number,
            written=newest,
            remedy="go on with the newest checkpoint, one run at a time, or start a query with a new one",
        )
    if newest < 0 and batch.number > 0 and not batch.first:
        raise InvalidError(
            "the checkpoint is of a query that has not written to this table",
            table=store.paths.root,
            query=batch.query,
            batch=batch.number,
            remedy="use a checkpoint of its own for each table",
        )
    if newest < batch.number - 1 and not batch.first:
        raise InvalidError(
            "the table lacks batches that the query's checkpoint says are written: their rows would be missing",
            table=store.paths.root,
            query=batch.query,
            batch=batch.number,
            written=newest,
            remedy="a branch, or a table put back from an older copy, goes on with the checkpoint of that time; or "
            "start a query with a new one",
        )
    if newest < batch.number:
        return False
    done = last if last is not None and last.commit_identifier == batch.number else None
    if begun is not None and begun.batch == batch.number:
        _same_rows(store, batch, begun, done is not None or begun.done)
    if done is not None:
        return done
    if begun is not None and begun.done:
        return True
    _refuse_unknown(store, batch, begun)
    return False


def written_once(store: Store, batch: BatchName, write: Callable[[BatchName], Snapshot | None]) -> Snapshot | None:
    """What a batch has made, by this call or an earlier one: its snapshot, None where it has no rows. `write` commits
    its rows under the name that it is given.

    Errors: as `committed`, and those of `write`.
    """
    before = on_newest(store, lambda: committed(store, batch))
    if before is not False:
        return None if before is True else before
    begun = replace(batch, base=store.latest_snapshot_id() or 0, run=store.env.clock.new_uuid())
    _note(store, begun, done=False)
    snapshot = write(begun)
    if snapshot is None:  # nothing else would tell that it is done
        Once(store, begun).stands()
        _note(store, begun, done=True)
    return snapshot


@dataclass(frozen=True, slots=True)
class Once:
    """Refuses to publish a batch that another run of the query has begun since, and one on a base on which it is
    published already: a snapshot alone tells nothing once it has expired."""

    store: Store
    batch: BatchName

    def check(self, messages: Sequence[CommitMessage], view: View) -> None:
        """ConflictError where this run is overtaken, or the base, or one since the batch was begun, is this batch."""
        self.stands()
        newest = view.snapshot.id if view.snapshot is not None else 0
        for number in range(self.batch.base + 1, newest + 1):
            found = self.store.find_snapshot(number)
            if found is not None and (found.commit_user, found.commit_identifier) == (
                self.batch.query,
                self.batch.number,
            ):
                raise self._overtaken("committed", number)

    def stands(self) -> None:
        """Raise ConflictError where another run has begun the batch, or a later one, since this one has."""
        begun = _begun(self.store, self.batch.query) if self.batch.run else None
        if self.batch.run and (begun is None or begun.run != self.batch.run):
            raise self._overtaken("begun", None)

    def _overtaken(self, what: str, snapshot: int | None) -> ConflictError:
        return ConflictError(
            f"another run of the query has {what} this batch, or a later one, meanwhile",
            table=self.store.paths.root,
            query=self.batch.query,
            batch=self.batch.number,
            snapshot=snapshot,
            remedy="run a query once at a time",
        )


def _same_rows(store: Store, batch: BatchName, begun: _Begun, done: bool) -> None:
    if done and batch.fingerprint and begun.fingerprint and batch.fingerprint != begun.fingerprint:
        raise InvalidError(
            "the batch was written before, with other rows: the query's checkpoint is older than what it has written",
            table=store.paths.root,
            query=batch.query,
            batch=batch.number,
            remedy="go on with the newest checkpoint, or start a query with a new one",
        )


def _refuse_unknown(store: Store, batch: BatchName, begun: _Begun | None) -> None:
    earliest = store.earliest_snapshot()
    if begun is None or earliest is None or earliest.id <= begun.base + 1:
        return
    raise CommitUnknownError(
        "whether a batch was committed cannot be told: the snapshots since it was begun have expired",
        table=store.paths.root,
        query=batch.query,
        batch=batch.number,
        begun_on=begun.base,
        earliest=earliest.id,
        remedy=f"look whether its rows are there; then delete {store.paths.stream(batch.query)} and start a new query",
    )


def _newest_of(store: Store, query: str) -> Snapshot | None:
    """The newest snapshot of a query's own rows."""
    for snapshot in store.snapshots(newest_first=True):
        if snapshot.commit_user == query and snapshot.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE):
            return snapshot
    return None


def _begun(store: Store, query: str) -> _Begun | None:
    path = store.paths.stream(query)
    try:
        data = store.env.storage.read(path)
    except NotFoundError:
        return None
    with decoding("not what is known of a stream", path):
        found = json_object(data)
        batch, base = found.get("batch"), found.get("base")
        if found.get("version") != VERSION or not isinstance(batch, int) or not isinstance(base, int):
            raise ValueError(f"version {found.get('version')!r:.20}, batch {batch!r:.20}")
        texts = {name: str(found.get(name) or "") for name in ("fingerprint", "run")}
        return _Begun(batch, base, done=found.get("done") is True, **texts)


def _note(store: Store, batch: BatchName, done: bool) -> None:
    told = {
        "version": VERSION,
        "batch": batch.number,
        "base": batch.base,
        "fingerprint": batch.fingerprint,
        "done": done,
        "run": batch.run,
    }
    store.env.storage.write(store.paths.stream(batch.query), json.dumps(told).encode())
