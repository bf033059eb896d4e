"""Consumers: who reads a table as a stream, and which snapshot each reads next.

    consumer/consumer-<id>     { "nextSnapshot" : <id> }         and "index", "full", "producer", "created" inside of a
                               snapshot, "seen" behind one, "overwrites" where these are told too

Spec: docs/spec/tags.md#consumers
"""

from __future__ import annotations

import re
from typing import Any

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.format.guard import decoding, integer, json_object
from bucketlake.format.metadata.consumer import CONSUMER_REMEDY
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.ops.table.overwritten import read_overwritten
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import pretty_json
from bucketlake.values import dataclass


class Consumer(int):
    """The snapshot that a consumer reads next, as a number, and what it has not read: `snapshots`, the `rows` that they
    added or told, and for how long the oldest of them has been there (`millis`; 0 where all is read). `missing`: of
    these snapshots, how many have expired; their rows are not counted."""

    snapshots: int
    rows: int
    millis: int
    missing: int

    def __new__(cls, following: int, snapshots: int = 0, rows: int = 0, millis: int = 0, missing: int = 0) -> Consumer:
        """The lag of a consumer that reads this snapshot next."""
        made = super().__new__(cls, following)
        made.snapshots, made.rows, made.millis, made.missing = snapshots, rows, millis, missing
        return made

    @property
    def next_snapshot(self) -> int:
        """The snapshot that is read next."""
        return int(self)

    def __repr__(self) -> str:
        return f"Consumer({int(self)}, snapshots={self.snapshots}, rows={self.rows}, millis={self.millis})"


def consumer_lags(store: Store) -> dict[str, Consumer]:
    """Each consumer by name, and how far it is behind."""
    found = store.consumers()
    if not found:
        return {}
    newest, first = store.latest_snapshot_id() or 0, min(found.values())
    there = {snapshot.id: snapshot for snapshot in store.snapshots_after(first - 1)}
    now = store.env.clock.now_millis()
    return {name: _lag(store, following, newest, there, now) for name, following in found.items()}


def _lag(store: Store, following: int, newest: int, there: dict[int, Snapshot], now: int) -> Consumer:
    unread = [there[number] for number in range(following, newest + 1) if number in there]
    behind = max(newest + 1 - following, 0)
    if not behind:
        return Consumer(following)
    rows = sum(_told(store, snapshot) for snapshot in unread)
    millis = max(now - unread[0].time_millis, 0) if unread else 0
    return Consumer(following, behind, rows, millis, behind - len(unread))


def _told(store: Store, snapshot: Snapshot) -> int:
    """The rows that a stream gets of a snapshot."""
    if store.options.get("changelog-producer") != "none":
        return snapshot.changelog_record_count or 0
    return max(snapshot.delta_record_count, 0) if snapshot.commit_kind is CommitKind.APPEND else 0


def reset_consumer(store: Store, name: str, following: int | None) -> None:
    """Let a consumer read a snapshot next, which must be there (NotFoundError); None: forget the consumer. Where the
    snapshot expires before the consumer is there, which keeps it, the consumer stands where it stood."""
    path = store.paths.consumer(name)
    if following is None:
        store.env.storage.delete(path)
        return
    store.snapshot(following)
    before = _bytes_of(store, path)
    advance_consumer(store, name, Place(following, overwrites=bool(store.options.get("streaming-read-overwrite"))))
    if not store.has_snapshot(following):
        if before is None:
            store.env.storage.delete(path)
        else:
            store.env.storage.write(path, before)
        what = "the snapshot expires while a consumer is put there"
        raise NotFoundError(what, table=store.paths.root, consumer=name, snapshot=following)


def _bytes_of(store: Store, path: str) -> bytes | None:
    try:
        return read_overwritten(store.env, path)
    except NotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a consumer stands: the snapshot that it reads next, which may be still to come. `index`, `full`: it is
    inside of what the snapshot changed, or holds, the latter by a changelog producer and of files made since `created`
    (epoch milliseconds, 0: all, None: not said). `seen`: the delta manifest list of the snapshot that was read last, ""
    where that is not known. `overwrites`: what these change is read, too, which the snapshot before each tells."""

    following: int
    index: int = 0
    full: bool = False
    producer: str = ""
    seen: str = ""
    overwrites: bool = False
    created: int | None = None


def needed_by_consumers(store: Store) -> list[int]:
    """The first snapshot that each consumer needs: the one that it reads next, or the one before, which tells of it.
    CorruptError for a file that does not say where its consumer stands."""
    places = [place_of_consumer(store, name) for name in store.consumer_names()]
    return [place.following - _needs_before(store, place) for place in places if place is not None]


def _needs_before(store: Store, place: Place) -> bool:
    """Whether what a consumer reads next is told by the snapshot before: what an overwrite took away, and rows that
    waited for a compaction which tells them, where ALTER made it one that does not."""
    if place.full:
        return False
    following, before = store.find_snapshot(place.following), store.find_snapshot(place.following - 1)
    if following is None or before is None:
        return False
    if following.commit_kind is CommitKind.OVERWRITE:
        return place.overwrites
    told, tells = (store.schema_of(one.schema_id).table_options for one in (before, following))
    return bool(told.get("changelog-producer") != tells.get("changelog-producer"))


def advance_consumer(store: Store, name: str, place: Place) -> None:
    """Let a consumer stand at a place: older snapshots may expire."""
    found: dict[str, Any] = {"nextSnapshot": place.following}
    if place.index or place.full:
        found |= {"index": place.index, "full": place.full}
    if place.full and place.producer:
        found["producer"] = place.producer
    if place.full and place.created is not None:
        found["created"] = place.created
    if place.seen:
        found["seen"] = place.seen
    if place.overwrites:
        found["overwrites"] = True
    store.env.storage.write(store.paths.consumer(name), pretty_json(found).encode())


def place_of_consumer(store: Store, name: str) -> Place | None:
    """What `advance_consumer` was told; None without such a consumer. CorruptError."""
    path = store.paths.consumer(name)
    try:
        data = read_overwritten(store.env, path)
    except NotFoundError:
        return None
    with decoding("not a consumer", path, CONSUMER_REMEDY):
        found = json_object(data)
        following: Any
        following, index, full = found.get("nextSnapshot"), found.get("index", 0), found.get("full", False)
        if not integer(following) or not integer(index) or index < 0 or not isinstance(full, bool):
            raise ValueError(f"nextSnapshot is {following!r:.100}, index {index!r:.100}, full {full!r:.100}")
        producer, seen = found.get("producer", ""), found.get("seen", "")
        if not isinstance(producer, str) or not isinstance(seen, str):
            raise ValueError(f"producer is {producer!r:.100}, seen {seen!r:.100}")
        created = found.get("created")
        if created is not None and (not integer(created) or created < 0):
            raise ValueError(f"created is {created!r:.100}")
        return Place(int(following), index, full, producer, seen, found.get("overwrites") is True, created)


def clear_consumers(store: Store, including: str | None = None, excluding: str | None = None) -> list[str]:
    """Forget the consumers whose whole name matches `including` (all by default) and not `excluding`, regular
    expressions; their names. InvalidError for what is no expression."""
    wanted, unwanted = _pattern(including or ".*"), None if excluding is None else _pattern(excluding)
    gone = [
        name
        for name in store.consumer_names()
        if wanted.fullmatch(name) and not (unwanted is not None and unwanted.fullmatch(name))
    ]
    for name in gone:
        store.env.storage.delete(store.paths.consumer(name))
    return gone


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidError("not a regular expression", text=text, reason=str(error)) from error
