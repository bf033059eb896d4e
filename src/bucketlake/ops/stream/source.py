"""A table read as a stream: where it starts, how far a batch goes, and which splits it holds. No Spark.

    source = Source.of(store, view)
    start = source.origin()                     by scan.mode, consumer-id and the other scan.* options
    end = source.following(start, Limits.of(store.options))
    source.batch(start, end)                    groups of splits: each is read by one task, in order
    source.progress(end)                        the consumer, if there is one, stands there

What lies between two positions never changes. Every key's versions, and the rows of a bucket of an append table that
has buckets, are in one group, in the order in which they were committed.

Spec: docs/spec/streaming.md
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import field, replace

from bucketlake.errors import ConflictError, CorruptError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.ops.clean.consumers import Place, advance_consumer, place_of_consumer
from bucketlake.ops.scan.select import INCREMENTAL_KEYS, Selection, epoch_of_text
from bucketlake.ops.stream.limits import Limits, Taken
from bucketlake.ops.stream.position import Position
from bucketlake.ops.stream.units import IGNORE_EXPIRED, MAY_WAIT, NO_MORE, Follow, changed, held, pruned, rescaled_in
from bucketlake.ops.stream.untold import PRODUCER
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.values import dataclass

REFRESHES = 4  # of a consumer that stands still, before it counts as idle
KEPT_PLANS = 8  # of snapshots that a batch has ended in, or may go on with


@dataclass
class Source:
    """One reader of a table's stream. `where`: leaves out files that hold no matching rows; `known`: as `of`."""

    store: Store
    follow: Follow
    where: Predicate | None = None
    known: int | None = None
    _plans: dict[tuple[int, bool, str, int | None], list[Split]] = field(default_factory=dict)
    _last_batch: int = 0  # when; none yet: the first waits for nothing
    _kept: Position | None = None  # where the consumer stands, by what was written last
    _kept_at: int = 0  # when that was, epoch milliseconds

    @classmethod
    def of(cls, store: Store, where: Predicate | None = None, known: int | None = None) -> Source:
        """The stream of a table by its options. `known`: the newest snapshot when the stream was asked for, 0 for none;
        what came since belongs to it, also where it begins later."""
        return cls(store, Follow.of(store), where, known)

    # ---- where it starts

    def origin(self) -> Position:
        """Where a new stream starts; a consumer that is there goes on where it stands."""
        name = self.store.options.get("consumer-id")
        known = None if name is None or self._starts_anew else place_of_consumer(self.store, name)
        found = self._resumed(known) if known is not None else self._by_mode()
        if name is not None and known is None:
            self.progress(found)  # what it reads first must not expire before it has
        return replace(found, made=self._made())

    @property
    def _starts_anew(self) -> bool:
        return bool(self.store.options.get("consumer.ignore-progress"))

    def _by_mode(self) -> Position:
        mode = _mode(self.store)
        latest = self.store.latest_snapshot()
        if mode == "from-timestamp":
            return self._since(_timestamp(self.store)) or self._first()
        if mode == "from-snapshot":
            return self._at(int(self.store.options.get("scan.snapshot-id")))
        if mode == "from-snapshot-full":
            return self._all_of(self.store.snapshot(int(self.store.options.get("scan.snapshot-id"))))
        if mode == "from-creation-timestamp":
            since = self._since(int(self.store.options.get("scan.creation-time-millis")))
            if since is not None:
                return since
        if latest is None:
            return Position(1)
        known = self._known()
        if mode == "latest":  # with what it changed, as in Apache Paimon on Spark; on Flink behind it
            return self._at((known or latest).id)
        if mode == "compacted-full":
            compacted = (s for s in self.store.snapshots(newest_first=True) if s.commit_kind is CommitKind.COMPACT)
            return self._all_of(next(compacted, latest))
        if known is not None and not self.known:  # all rows of an empty table are none
            return self._at(known.id)
        return self._all_of(known or latest)

    def _known(self) -> Snapshot | None:
        """The snapshot that was the newest when the stream was asked for, the first after none; None if it is gone."""
        return None if self.known is None else self.store.find_snapshot(self.known or 1)

    def _since(self, millis: int) -> Position | None:
        """The first changes committed at a time or later; None where nothing tells of what was before."""
        before = self.store.snapshot_at(millis - 1)
        if before is not None:
            return self._at(before.id + 1)
        kept = self._kept_changelogs()
        later = bisect_left(kept, millis, key=lambda number: self._changes(number).time_millis)
        return Position(kept[later - 1] + 1) if later else None

    def _first(self) -> Position:
        """The first changes that are left."""
        kept, earliest = self._kept_changelogs(), self.store.earliest_snapshot()
        if kept:
            return Position(kept[0])
        return Position(1) if earliest is None else self._at(earliest.id)

    def _kept_changelogs(self) -> Sequence[int]:
        """The changelogs that lead to the earliest snapshot."""
        ends, earliest = self.store.changelog_ends(), self.store.earliest_snapshot()
        if ends is None or earliest is None or ends[1] + 1 < earliest.id:
            return ()
        return range(ends[0], earliest.id)

    def _at(self, snapshot: int) -> Position:
        before = self.store.find_snapshot(snapshot - 1)
        return Position(snapshot, seen="" if before is None else before.delta_manifest_list)

    def _resumed(self, place: Place) -> Position:
        """Where a consumer stands. InvalidError where the history that it has read is no more."""
        number, index, full = place.following, place.index, place.full
        if place.seen:
            at = Position(number, index, full, place.seen, producer=place.producer, created=place.created)
            self._check_history(at, _ANEW)
            return at
        newest = self.store.latest_snapshot_id() or 0
        if number > newest + 1:  # Apache Paimon notes no more than the number
            raise InvalidError(
                "a consumer stands beyond the newest snapshot: the table was rolled back or made anew",
                table=self.store.paths.root,
                next=number,
                newest=newest,
                remedy=_ANEW,
            )
        if not index and not full:
            return self._at(number)
        seen = self.store.snapshot(number).delta_manifest_list
        return Position(number, index, full, seen, producer=place.producer, created=place.created)

    def _all_of(self, snapshot: Snapshot) -> Position:
        producer = str(self.store.options.get(PRODUCER))
        seen, created = snapshot.delta_manifest_list, self._created or 0
        return Position(snapshot.id, full=True, seen=seen, producer=producer, created=created)

    # ---- how far a batch goes

    def following(self, start: Position, limits: Limits | None = None, until: int | None = None) -> Position:
        """Where a batch ends that starts here; `start` itself where there is nothing yet. `until`: no snapshot after
        this one. Without `limits`: everything that is there.

        Errors: NotFoundError where the next snapshot has expired; InvalidError where the history that was read is no
        more.
        """
        start = self._checked(start)
        end = self._ending(start, limits, until)
        return start if end.place == start.place else replace(end, made=start.made or self._made())

    def _ending(self, start: Position, limits: Limits | None, until: int | None) -> Position:
        newest, filled = self._newest(start, until), False
        if limits is not None and limits.bounds:
            end, filled = self._within(start, newest, limits)
        elif start.full:
            end = self._past(start)
        else:
            end = start if newest is None or newest.id < start.snapshot else _behind(newest)
        if limits is not None and limits.min_rows is not None and self._too_few(start, end, limits, filled):
            return start
        return end

    def newest(self) -> int:
        """The newest snapshot that a stream reads now; 0 without one."""
        found = self._newest(Position(1), None)
        return 0 if found is None else found.id

    def _within(self, start: Position, newest: Snapshot | None, limits: Limits) -> tuple[Position, bool]:
        """As far as the limits allow, and whether it is they that end the batch; not from the rows of a snapshot on to
        the changes of the next: a key's rows would be read beside its changes."""
        taken, at = Taken(limits), start
        while at.full or (newest is not None and at.snapshot <= newest.id):
            units = self._units(at)
            if at.index > len(units):
                raise self._beyond(at, len(units))
            for index in range(at.index, len(units)):
                if not taken.take(units[index]):
                    return self._inside(at, index), True
            whole, at = at.full, self._past(at)
            if whole:
                break
        return at, False

    def _too_few(self, start: Position, end: Position, limits: Limits, filled: bool) -> bool:
        """Whether a batch waits for more rows: not for longer than it may after the one before, nor where no more would
        go into it."""
        if start.place == end.place:
            return False
        now = self.store.env.clock.now_millis()
        rows = sum(unit.row_count for unit in self._between(start, end))
        waits = not filled and rows < (limits.min_rows or 0) and now - self._last_batch < (limits.max_delay or 0)
        self._last_batch = self._last_batch if waits else now
        return waits

    def _newest(self, start: Position, until: int | None) -> Snapshot | None:
        """The newest snapshot that may be read."""
        found = self.store.latest_snapshot()
        delay = self.store.options.get("streaming.read.snapshot.delay")
        if found is not None and delay is not None:
            found = self.store.snapshot_at(self.store.env.clock.now_millis() - int(delay))
        if found is not None and until is not None and found.id > until:
            found = self.store.find_snapshot(until)
        bound = self.store.options.get("scan.bounded.watermark")
        if found is not None and bound is not None:
            found = self._below(found, start, int(bound))
        return found

    def _below(self, newest: Snapshot, start: Position, bound: int) -> Snapshot | None:
        """The newest snapshot before the first whose watermark is beyond a bound."""
        for number in range(start.last, newest.id + 1):
            found = self.store.find_snapshot(number)
            if found is not None and found.watermark is not None and found.watermark > bound:
                return self.store.find_snapshot(number - 1)
        return newest

    # ---- what a batch holds

    def batch(self, start: Position, end: Position) -> list[tuple[Split, ...]]:
        """The splits between two positions, in groups that are each read in order.

        Errors: as `following`.
        """
        if start.place >= end.place:
            return []
        schema = self.store.schema
        rows_alone = start.full and end.place <= Position(start.snapshot + 1).place
        ordered = not rows_alone if schema.primary_keys else schema.bucket > 0
        start = self._checked(start)
        self._check_history(replace(end, made=0))  # the start has told that it is the same table
        units = self._between(start, end)
        moved = rescaled_in(units) if ordered and schema.bucket_mode in MAY_WAIT else set()
        # Rows that wait for their bucket, and those that came into one: of one partition, versions of one key.
        moved |= {unit.partition for unit in units if ordered and unit.bucket == POSTPONE_BUCKET}
        whole = ordered and self._moves_keys(start, end)
        groups: dict[object, list[Split]] = {}
        for unit in pruned(self.store, units, self.where):
            together = whole or unit.partition in moved
            key = (unit.partition, None if together else unit.bucket) if ordered else len(groups)
            groups.setdefault(key, []).append(unit)
        return [tuple(found) for found in groups.values()]

    def _between(self, start: Position, end: Position) -> list[Split]:
        found: list[Split] = []
        at = start
        while at.place < end.place:
            units = self._units(at)
            same = (at.snapshot, at.full) == (end.snapshot, end.full)
            if max(at.index, end.index if same else 0) > len(units):
                raise self._beyond(end if same else at, len(units))
            found += units[at.index : end.index if same else None]
            at = end if same else self._past(at)
        return found

    def _moves_keys(self, start: Position, end: Position) -> bool:
        """Whether a key may leave its bucket between two positions, without a rescale: it comes back into a partition
        by a new assignment, behind an overwrite or, in a cross-partition table, from another partition; or it waits
        again for a bucket, behind an overwrite of rows that had theirs."""
        mode = self.store.schema.bucket_mode
        if mode in (BucketMode.KEY_DYNAMIC, BucketMode.UNAWARE):
            return mode is BucketMode.KEY_DYNAMIC
        numbers = range(start.snapshot, end.last + 1)
        return any(self._reassigns(self._changes(number)) for number in numbers)

    def _reassigns(self, snapshot: Snapshot) -> bool:
        """Whether a key may come back in another bucket behind a snapshot, by the buckets that the table had then."""
        mode = self.store.schema_of(snapshot.schema_id).bucket_mode
        return snapshot.commit_kind is CommitKind.OVERWRITE and mode in (BucketMode.DYNAMIC, BucketMode.POSTPONE)

    def _units(self, at: Position) -> list[Split]:
        key = (at.snapshot, at.full, at.producer, at.created)
        if key not in self._plans:
            if at.full:
                store = self.store.with_options({PRODUCER: at.producer}) if at.producer else self.store
                created = self._created if at.created is None else at.created or None
                units = held(store, Selection(store.snapshot(at.snapshot), created))
            else:
                units = changed(self.store, self._changes(at.snapshot), self.follow)
            while len(self._plans) >= KEPT_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = units
        return self._plans[key]

    @property
    def _created(self) -> int | None:
        """The earliest time of a file that a stream by the time of its files starts with."""
        key = _OF_FILES.get(_mode(self.store))
        return None if key is None else int(self.store.options.get(key))

    def _changes(self, number: int) -> Snapshot:
        found = self.store.find_changes(number)
        if found is None:
            raise self._expired(number)
        return found

    # ---- histories that expire or roll back

    def _checked(self, at: Position) -> Position:
        """The position, if what was read before it is still what the table went on from."""
        self._check_history(at)
        self._check_schema()
        latest = self.store.latest_snapshot_id() or 0
        gone = at.snapshot <= latest and self.store.find_changes(at.snapshot) is None
        if gone and not self.store.options.get(IGNORE_EXPIRED):
            raise self._expired(at.snapshot)
        if gone:
            earliest, first = self.store.earliest_snapshot(), self._first()
            if earliest is not None:
                return first if first.snapshot > at.snapshot else self._at(earliest.id)
        return at

    def _check_history(self, at: Position, remedy: str = NO_MORE) -> None:
        """Raise InvalidError where the table does not have what was read before a position, NotFoundError where there
        is no table. `remedy`: after a rollback."""
        latest = self.store.latest_snapshot_id() or 0
        waits = latest == at.last and not at.full  # for what is not there yet: most looks are such, and read nothing
        made = self._made() if at.made and not waits else 0
        if made and made != at.made:
            raise InvalidError(
                "the table that the stream reads was dropped, and another one has its name",
                table=self.store.paths.root,
                remedy="read the other one under another checkpoint",
            )
        last = self.store.find_snapshot(at.last)
        if at.seen and last is not None and last.delta_manifest_list != at.seen:
            raise InvalidError(
                "the table was rolled back behind what the stream has read, and went on otherwise",
                table=self.store.paths.root,
                snapshot=at.last,
                remedy=remedy,
            )
        if not latest and not self.store.env.storage.list(self.store.paths.schema_dir):
            raise NotFoundError(
                "the table that the stream reads is not there any more",
                table=self.store.paths.root,
                remedy="read it under its new name, or the one that took its place, under another checkpoint",
            )
        if at.seen and latest < at.last:
            raise InvalidError(
                "the table was rolled back behind what the stream has read",
                table=self.store.paths.root,
                read=at.last,
                newest=latest,
                remedy=remedy,
            )

    def _check_schema(self) -> None:
        """Raise ConflictError where the schema that the stream reads by is none of the table's: a fast-forward may have
        put another one into its place, by which files of that number are written since."""
        try:
            self.store.check_here()
        except (ConflictError, NotFoundError) as error:
            raise ConflictError(
                "the schema that the stream reads by is not the table's any more",
                table=self.store.paths.root,
                schema=self.store.schema.id,
                remedy="start the query again: under the same checkpoint where a branch was fast-forwarded, under "
                "another where the table was dropped and made anew",
            ) from error

    def _made(self) -> int:
        """When the table was created, as is written now: not what this handle remembers. 0 where that is not known."""
        path = self.store.paths.schema(0)
        try:
            return TableSchema.decode(self.store.env.storage.read(path), path, 0).time_millis
        except NotFoundError:
            return 0

    def _beyond(self, at: Position, units: int) -> CorruptError:
        return CorruptError(
            "an offset of a stream is beyond what its snapshot has",
            table=self.store.paths.root,
            snapshot=at.snapshot,
            index=at.index,
            units=units,
            remedy=f"read with the options that the stream began with, restore its checkpoint, or {NO_MORE}",
        )

    def _expired(self, number: int) -> NotFoundError:
        earliest = self.store.earliest_snapshot()
        consumer = self.store.options.is_set("consumer-id")  # another checkpoint alone would begin where it stands
        more = f" and by {_CONSUMER_ANEW}; a consumer" if consumer else "; a 'consumer-id'"
        return NotFoundError(
            f"The snapshot with id {number} has expired: the stream cannot go on without what it changed",
            table=self.store.paths.root,
            earliest=None if earliest is None else earliest.id,
            newest=self.store.latest_snapshot_id(),
            remedy=f"set '{IGNORE_EXPIRED}' = 'true' to go on with the earliest that is left, or {NO_MORE}{more} keeps "
            "what one stream needs, as long as it is there",
        )

    def _past(self, at: Position) -> Position:
        """Behind all units of the snapshot that a position is in."""
        found = self.store.find_snapshot(at.snapshot)
        return Position(at.snapshot + 1) if found is None else _behind(found)

    def _inside(self, at: Position, index: int) -> Position:
        found = self.store.find_snapshot(at.snapshot)
        if index == 0 and not at.full:
            return at
        seen = "" if found is None else found.delta_manifest_list
        if not at.full:
            return Position(at.snapshot, index, seen=seen)
        return Position(at.snapshot, index, True, seen, producer=at.producer, created=at.created)

    # ---- consumers

    def progress(self, at: Position) -> None:
        """Let the stream's consumer, if it has one, keep what comes from here on. Where idle consumers are dropped, one
        that stands still is written again now and then: a table that is quiet for long has streams that live."""
        name, idle = (self.store.options.get(key) for key in ("consumer-id", "consumer.expiration-time"))
        if name is None:
            return
        now = self.store.env.clock.now_millis()
        if at == self._kept and (idle is None or now - self._kept_at < idle // REFRESHES):
            return
        place = Place(at.snapshot, at.index, at.full, at.producer, at.seen, self.follow.overwrites, at.created)
        advance_consumer(self.store, name, place)
        self._kept, self._kept_at = at, now


_CONSUMER_ANEW = "CALL sys.reset_consumer, or 'consumer.ignore-progress' = 'true'"
_ANEW = f"start anew, from what is there: {_CONSUMER_ANEW}"
_OF_FILES = {
    "from-file-creation-time": "scan.file-creation-time-millis",
    "from-creation-timestamp": "scan.creation-time-millis",
}
_OF_BATCHES = (*INCREMENTAL_KEYS, "scan.tag-name", "scan.watermark", "scan.version")


def _behind(snapshot: Snapshot) -> Position:
    return Position(snapshot.id + 1, seen=snapshot.delta_manifest_list)


def _mode(store: Store) -> str:
    """How a stream starts. InvalidError, UnsupportedError for what only batch reads can do."""
    options = store.options
    batch = [key for key in _OF_BATCHES if options.is_set(key)]
    mode: str = options.get("scan.mode") or "default"
    if batch or mode == "incremental":
        spans = mode == "incremental" or batch[0] in INCREMENTAL_KEYS
        raise UnsupportedError(
            "Cannot read incremental in streaming mode" if spans else "a stream cannot start there",
            option=batch[0] if batch else "scan.mode=incremental",
            remedy="use scan.snapshot-id, scan.timestamp or scan.mode",
        )
    times = [key for key in ("scan.timestamp", "scan.timestamp-millis") if options.is_set(key)]
    if mode == "default":
        by_key = {
            "scan.snapshot-id": "from-snapshot",
            "scan.file-creation-time-millis": "from-file-creation-time",
            "scan.creation-time-millis": "from-creation-timestamp",
        }
        given = [by_key[key] for key in by_key if options.is_set(key)] + ["from-timestamp"] * bool(times)
        if len(given) > 1:
            raise InvalidError("a stream starts at one place", given=given)
        return given[0] if given else "latest-full"
    needed = {
        "from-snapshot": ("scan.snapshot-id",),
        "from-snapshot-full": ("scan.snapshot-id",),
        "from-file-creation-time": ("scan.file-creation-time-millis",),
        "from-creation-timestamp": ("scan.creation-time-millis",),
        "from-timestamp": ("scan.timestamp-millis", "scan.timestamp"),
    }.get(mode, ())
    if needed and not any(options.is_set(key) for key in needed):
        raise InvalidError(f"{needed[0]} must be set when startupMode is {mode.upper().replace('-', '_')}.")
    return "latest-full" if mode == "full" else mode


def check_start(store: Store) -> None:
    """InvalidError, UnsupportedError where the options name no place that a stream can start at."""
    name = store.options.get("consumer-id")
    if name is not None:
        store.paths.consumer(name)
    if _mode(store) == "from-timestamp":
        _timestamp(store)


def _timestamp(store: Store) -> int:
    millis = store.options.get("scan.timestamp-millis")
    return int(millis) if millis is not None else epoch_of_text(str(store.options.get("scan.timestamp")))
