"""Expiring snapshots, and changelogs that outlive them: which ones, in which order, and after which commits.

    expire_snapshots(store, config=None) -> ExpireResult          CALL sys.expire_snapshots
    expire_changelogs(store, config=None, everything=False)        CALL sys.expire_changelogs
    after_commit(store, snapshot)                                  what every commit does at its end

The names of snapshots go first, oldest first, then tags are looked up once more, then files go. So a snapshot that can
be found can be read, whenever an expiry dies, and a tag made meanwhile either finds its snapshot gone or is honoured.

Spec: docs/spec/expiry.md
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot, encode_snapshot
from bucketlake.ops.clean.background import run_beside
from bucketlake.ops.clean.consumers import needed_by_consumers
from bucketlake.ops.clean.done import Wrote, after_write, marks_done, written_partitions
from bucketlake.ops.clean.partitions import expire_partitions, looks_for_old_partitions
from bucketlake.ops.clean.removal import (
    Removal,
    Span,
    changelogs_removal,
    delete_name,
    remove,
    snapshots_removal,
    take_names,
)
from bucketlake.ops.commit.loads import before_expiry
from bucketlake.ops.commit.strays import is_open, remove_from_gone, strays, unsettled
from bucketlake.ops.commit.telling import tell_expired
from bucketlake.ops.progress import Meter, OnProgress
from bucketlake.ops.refs.upkeep import tag_commit
from bucketlake.ops.table.decoded import CACHE
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.publishing import write_hint
from bucketlake.ops.table.store import FIRST_SNAPSHOT_ID, Store
from bucketlake.options.options import TableOptions
from bucketlake.paths import MAIN
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

__all__ = [
    "ExpireConfig",
    "ExpireResult",
    "Limits",
    "after_change",
    "after_commit",
    "expire_changelogs",
    "expire_snapshots",
]

ROUND = 64  # snapshots that go together: a death leaves the files of so many as orphans
ROUNDS = 16  # each looks at every snapshot: of many a share goes together, lest that grows with their square
ROUND_FILES = 100_000  # files removed by the commits of one round
ATTEMPTS = 5
NO_LIMIT = 2**31 - 1
_ALONE = {"scan.manifest.parallelism": "1", "file-operation.thread-num": "1"}  # see background: no threads


@dataclass(frozen=True, slots=True)
class Limits:
    """What a call says in place of the table's options; None: as these say. `older_than`: epoch milliseconds."""

    retain_max: int | None = None
    retain_min: int | None = None
    older_than: int | None = None
    max_deletes: int | None = None

    def __post_init__(self) -> None:
        for name in ("retain_max", "retain_min", "max_deletes"):
            value: Any = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise InvalidError(f"{name} must be a whole number", given=value)


@dataclass(frozen=True, slots=True)
class Retention:
    """At most the newest `most` stay, at least the newest `fewest`, and between these what was not committed before
    `before` (epoch milliseconds)."""

    most: int
    fewest: int
    before: int

    def __post_init__(self) -> None:
        if self.fewest < 1:
            raise InvalidError("retainMin must be at least 1.", given=self.fewest, remedy="keep one snapshot")
        if self.most < self.fewest:
            raise InvalidError(
                f"retainMax ({self.most}) must not be less than retainMin ({self.fewest}).",
                remedy="keep fewer at least (retain_min, else snapshot.num-retained.min), or more at most",
            )


@dataclass(frozen=True, slots=True)
class ExpireConfig:
    """`limit`: the most that expire at once. `decoupled`: changelogs outlive their snapshots; `consumers_hold`: a
    snapshot that a consumer has not read stays. `clean_folders`: empty folders go."""

    snapshots: Retention
    changelogs: Retention
    limit: int = NO_LIMIT
    consumers_hold: bool = True
    clean_folders: bool = False

    @property
    def decoupled(self) -> bool:
        """Whether changelogs outlive their snapshots: any of their limits is the wider one."""
        ours, theirs = self.snapshots, self.changelogs
        return theirs.most > ours.most or theirs.fewest > ours.fewest or theirs.before < ours.before

    @classmethod
    def of(cls, store: Store, limits: Limits | None = None) -> ExpireConfig:
        """As the table's options say, as of now; `limits` in place of those on snapshots.

        Raises InvalidError for limits that contradict each other.
        """
        options, given = store.options, limits or Limits()
        now = store.env.clock.now_millis()
        ours = Retention(
            _first(given.retain_max, options.get("snapshot.num-retained.max")),
            _first(given.retain_min, options.get("snapshot.num-retained.min")),
            _first(given.older_than, now - options.get("snapshot.time-retained")),
        )
        limit = _first(given.max_deletes, options.get("snapshot.expire.limit"))
        return cls._with(options, ours, _changelog_retention(options, ours, now), limit)

    @classmethod
    def of_changelogs(cls, store: Store, limits: Limits) -> ExpireConfig:
        """As `of`, `limits` in place of the options on changelogs."""
        usual = cls.of(store)
        theirs = Retention(
            _first(limits.retain_max, usual.changelogs.most),
            _first(limits.retain_min, usual.changelogs.fewest),
            _first(limits.older_than, usual.changelogs.before),
        )
        return cls._with(store.options, usual.snapshots, theirs, _first(limits.max_deletes, usual.limit))

    @classmethod
    def _with(cls, options: TableOptions, ours: Retention, theirs: Retention, limit: int) -> ExpireConfig:
        folders = bool(options.get("snapshot.clean-empty-directories"))
        found = cls(ours, theirs, limit, True, folders)
        only_changelogs = found.decoupled and bool(options.get("consumer.changelog-only"))
        return cls(ours, theirs, limit, not only_changelogs, folders)


def _first(given: int | None, usual: int) -> int:
    return usual if given is None else given


def _changelog_retention(options: TableOptions, ours: Retention, now: int) -> Retention:
    most, fewest = options.get("changelog.num-retained.max"), options.get("changelog.num-retained.min")
    kept = options.get("changelog.time-retained")
    before = ours.before if kept is None else now - kept
    return Retention(_first(most, ours.most), _first(fewest, ours.fewest), before)


@dataclass(frozen=True, slots=True)
class ExpireResult:
    """How many snapshots, changelogs without snapshot, and files went."""

    snapshots: int = 0
    changelogs: int = 0
    files: int = 0

    def __add__(self, other: ExpireResult) -> ExpireResult:
        return ExpireResult(
            self.snapshots + other.snapshots, self.changelogs + other.changelogs, self.files + other.files
        )


# ---------------------------------------------------------------------------------------------- snapshots


def expire_snapshots(
    store: Store, config: ExpireConfig | None = None, on_progress: OnProgress | None = None
) -> ExpireResult:
    """Remove snapshots beyond the limits, and the files that only they need; `config`: the table's by default.

    Never removes what a snapshot left, a tag, a branch, a consumer or a changelog that outlives its snapshot needs. Any
    number of expiries, writers and readers may run beside it: what another one removes first is passed over.
    `on_progress` is told of snapshots as units, in rounds; what it raises leaves the rest to the next expiry.
    Errors: InvalidError, StorageError, CorruptError; NotFoundError where files of what is left are missing.
    Spec: docs/spec/expiry.md#snapshots
    """
    config = config or ExpireConfig.of(store)
    meter = Meter.of_table("expire snapshots", store.paths.root, store.env.clock, on_progress)
    with meter.ending():
        if meter.is_watched:
            meter.expect(_due(store, config))
        rounds = _rounds(config.limit, lambda left: _snapshot_round(store, config, left))
        done = _followed(store, rounds, meter)
        _remove_strays(store)
    return done


def _remove_strays(store: Store) -> None:
    """Take away snapshots that a writer published after they had expired: they lie below a gap, and below the hint."""
    earliest = store.hint(store.paths.earliest_hint)
    if earliest is not None:
        for number in strays(store.snapshot_ids()):
            if number < earliest:
                delete_name(store, store.paths.snapshot(number))


def _followed(store: Store, rounds: Iterator[ExpireResult], meter: Meter) -> ExpireResult:
    """All that went; those who listen are told of it, also where the rest is left."""
    done = ExpireResult()
    try:
        for one in rounds:
            done = done + one
            meter.add(one.snapshots + one.changelogs)
    except NotFoundError as error:
        dead = _dead_tag(store)
        if dead is None:
            raise
        raise NotFoundError(
            f"Tag '{dead}' leads to files that are not there: what it needs cannot be told, and nothing expires",
            table=store.paths.root,
            reason=str(error),
            remedy="CALL sys.delete_tag, unless somebody brings the files back; its maker may have died while its "
            "snapshot expired",
        ) from error
    finally:
        tell_expired(store, done.snapshots, done.changelogs, done.files)
    return done


def _dead_tag(store: Store) -> str | None:
    """The name of a tag whose manifests are gone, None without one."""
    for name, tag in store.tags().items():
        try:
            store.data_manifests(tag)
            store.index_manifest(tag)
        except NotFoundError:
            if store.find_tag(name) is not None:
                return name
    return None


def _rounds(limit: int, once: Callable[[int], tuple[ExpireResult, int] | None]) -> Iterator[ExpireResult]:
    """Call `once(left)` until it has no more to do; what vanishes meanwhile is looked up anew."""
    left, lost = limit, 0
    while left > 0:
        try:
            found = once(left)
        except NotFoundError:
            lost += 1
            if lost >= ATTEMPTS:
                raise
            continue
        if found is None:
            return
        left -= found[1]
        yield found[0]


def _snapshot_round(store: Store, config: ExpireConfig, left: int) -> tuple[ExpireResult, int] | None:
    """Expire the next snapshots; what went, and how many ids that took. None where nothing is due."""
    latest, earliest = store.latest_snapshot(), store.earliest_snapshot()
    if latest is None or earliest is None or unsettled(store) is not None:
        return None
    first, last = _window(store, config, (earliest.id, latest.id), left)
    stop = min(last, earliest.id + _most_at_once(earliest.id, latest.id))
    if stop <= earliest.id:
        if store.hint(store.paths.earliest_hint) is None:
            _hint_first(store, earliest)
        return None
    found = _existing(store, range(earliest.id, stop + 1), store.find_snapshot)
    end = _due_until(found, first, stop, config.snapshots.before)
    end = _within(store, found, end)
    kept = found.get(end) or _next_existing(store.snapshot_ids(), end, store.find_snapshot)
    gone = tuple(snapshot for number, snapshot in sorted(found.items()) if number < end)
    if kept is None or not gone:
        return None
    span = Span(gone, kept, config.decoupled, _produces(store))
    return _expire(store, config, span), end - earliest.id


def _most_at_once(first: int, last: int) -> int:
    """How many of the snapshots, or changelogs, between two ids go in a round."""
    return max(ROUND, (last - first) // ROUNDS)


def _window(store: Store, config: ExpireConfig, ends: tuple[int, int], left: int) -> tuple[int, int]:
    """The ids below which snapshots expire whatever their age, and below which they may. `ends`: of the oldest and the
    newest."""
    earliest, latest = ends
    first = max(latest - config.snapshots.most + 1, earliest)
    last = min(latest - config.snapshots.fewest + 1, earliest + left)
    if config.consumers_hold and last > earliest:
        last = min([last, *needed_by_consumers(store)])
    return first, last


def _due(store: Store, config: ExpireConfig) -> int:
    """How many ids are due, about: times are taken to ascend."""
    latest, earliest = store.latest_snapshot_id(), store.earliest_snapshot()
    if latest is None or earliest is None:
        return 0
    low, high = _window(store, config, (earliest.id, latest), config.limit)
    low = min(low, high)
    while low < high:
        middle = (low + high) // 2
        following = store.find_snapshot(middle + 1)
        if following is None or following.time_millis < config.snapshots.before:
            low = middle + 1
        else:
            high = middle
    return max(low - earliest.id, 0)


def _due_until(found: dict[int, Snapshot], first: int, stop: int, before: int) -> int:
    """The id before which snapshots expire: below `first` whatever their age, then while the next one is old."""
    for number in range(first, stop):
        following = found.get(number + 1)
        if following is not None and following.time_millis >= before:
            return number
    return stop


def _within(store: Store, found: dict[int, Snapshot], end: int) -> int:
    """The end of a round that removes a bounded number of files."""
    files = 0
    for number, snapshot in sorted(found.items())[1:]:
        if number >= end:
            break
        try:
            files += sum(m.num_deleted_files for m in store.delta_manifests(snapshot))
        except NotFoundError:
            continue
        if files > ROUND_FILES:
            return number
    return end


def _expire(store: Store, config: ExpireConfig, span: Span) -> ExpireResult:
    """Names first, then files: see the head of this module."""
    assert span.kept is not None
    marks = _marks(store, span.gone)
    removal = snapshots_removal(store, span, marks.tags)
    if span.decoupled:
        _write_changelogs(store, span.gone)
    before_expiry(store, span.gone)
    went = take_names(store, [(snapshot.id, snapshot) for snapshot in span.gone], span.kept.id)
    if went < len(span.gone):
        return ExpireResult(went)
    while (seen := _marks(store, span.gone)) != marks:  # new ones, and tags that were moved under their names
        marks = seen
        removal = snapshots_removal(store, span, marks.tags)
    kept = store.find_snapshot(span.kept.id)
    if kept is None or kept.uuid != span.kept.uuid:
        return ExpireResult(len(span.gone))  # it was taken back: what it dropped may be live again, and is left alone
    files = remove(store, removal, config.clean_folders)
    _hint_first(store, span.kept)
    return ExpireResult(len(span.gone), 0, files)


def _hint_first(store: Store, first: Snapshot) -> None:
    """Say in the hint where the history begins; where the table, or branch, was dropped meanwhile the hint would be all
    that lies there, and stand for a branch that cannot be opened."""
    write_hint(store, store.paths.earliest_hint, first.id)
    if not store.has_snapshot(first.id) and not is_open(store):
        remove_from_gone(store, first)


@dataclass(frozen=True, slots=True)
class _Marks:
    """All that may keep files of a snapshot alive: what tags hold, by name; of each other branch its oldest snapshot,
    what its tags hold, and which of those that go it has as well, since a fast-forward."""

    tagged: dict[str, Snapshot]
    branches: dict[str, tuple[Snapshot | None, dict[str, Snapshot], tuple[int, ...]]]

    @property
    def tags(self) -> list[Snapshot]:
        """What tags hold."""
        return list(self.tagged.values())


def _marks(store: Store, gone: Sequence[Snapshot]) -> _Marks:
    names = [name for name in (MAIN, *store.branches()) if name != store.branch_name]
    return _Marks(store.tags(), {name: _marks_of(store.on_branch(name), gone) for name in names})


def _marks_of(branch: Store, gone: Sequence[Snapshot]) -> tuple[Snapshot | None, dict[str, Snapshot], tuple[int, ...]]:
    first = branch.earliest_snapshot()
    asked = [] if first is None else [one for one in gone if one.id >= first.id]
    return first, branch.tags(), tuple(one.id for one in asked if branch.find_snapshot(one.id) == one)


def _write_changelogs(store: Store, snapshots: Sequence[Snapshot]) -> None:
    for snapshot in snapshots:
        store.env.storage.write(store.paths.changelog(snapshot.id), encode_snapshot(snapshot))
    write_hint(store, store.paths.changelog_latest_hint, snapshots[-1].id)
    if store.hint(store.paths.changelog_earliest_hint) is None and (ids := store.changelog_ids()):
        write_hint(store, store.paths.changelog_earliest_hint, ids[0])


def _produces(store: Store) -> bool:
    return bool(store.options.get("changelog-producer") != "none")


def _existing(store: Store, numbers: Sequence[int], find: Callable[[int], Snapshot | None]) -> dict[int, Snapshot]:
    found = parallel(find, numbers, store.manifest_threads)
    return {number: item for number, item in zip(numbers, found, strict=True) if item is not None}


def _next_existing(ids: Sequence[int], end: int, find: Callable[[int], Snapshot | None]) -> Snapshot | None:
    """The first that exists from an id on: there may be a gap."""
    for number in ids:
        if number >= end and (found := find(number)) is not None:
            return found
    return None


# ---------------------------------------------------------------------------------------------- changelogs


def expire_changelogs(
    store: Store,
    config: ExpireConfig | None = None,
    everything: bool = False,
    on_progress: OnProgress | None = None,
) -> ExpireResult:
    """Remove changelogs that have outlived their snapshots and are beyond the limits, with their files.

    `everything`: all of them, whatever the limits. By the limits the newest one always stays. Errors: as
    `expire_snapshots`.
    Spec: docs/spec/expiry.md#changelogs
    """
    config = config or ExpireConfig.of(store)
    limit = NO_LIMIT if everything else config.limit
    meter = Meter.of_table("expire changelogs", store.paths.root, store.env.clock, on_progress)
    with meter.ending():
        done = _followed(store, _rounds(limit, lambda left: _changelog_round(store, config, left, everything)), meter)
        if everything and store.changelog_ends() is None:
            for path in (store.paths.changelog_earliest_hint, store.paths.changelog_latest_hint):
                delete_name(store, path)
    return done


def _changelog_round(
    store: Store, config: ExpireConfig, left: int, everything: bool
) -> tuple[ExpireResult, int] | None:
    latest, earliest, ends = store.latest_snapshot(), store.earliest_snapshot(), store.changelog_ends()
    if latest is None or earliest is None or ends is None:
        return None
    begin, newest = ends
    theirs = config.changelogs
    first = max(latest.id - theirs.most + 1, begin)
    last = newest + 1 if everything else min(latest.id - theirs.fewest + 1, begin + left, newest)
    if not everything and last > begin:
        last = min([last, *needed_by_consumers(store)])
    last = min(last, earliest.id)  # an expiry that was given up left changelogs of snapshots that are still there
    stop = min(last, begin + _most_at_once(begin, latest.id))
    if stop <= begin:
        return None
    found = _existing(store, range(begin, stop + 1), store.find_changelog)
    old = [n for n in range(first, stop + 1) if n in found and found[n].time_millis >= theirs.before]
    end = stop if everything or not old else min(old[0], stop)
    kept = found.get(end) or _next_existing(store.changelog_ids(), end, store.find_changelog)
    gone = tuple(changelog for number, changelog in sorted(found.items()) if number < end)
    if not gone or (kept is None and not everything):
        return None
    span = Span(gone, kept, True, _produces(store))
    removal = changelogs_removal(store, span, earliest, tuple(store.tags().values()))
    return ExpireResult(0, len(gone), _expire_changelogs(store, gone, kept, removal, config)), end - begin


def _expire_changelogs(
    store: Store, gone: Sequence[Snapshot], kept: Snapshot | None, removal: Removal, config: ExpireConfig
) -> int:
    for changelog in gone:
        delete_name(store, store.paths.changelog(changelog.id))
    files = remove(store, removal, config.clean_folders)
    if kept is not None:
        write_hint(store, store.paths.changelog_earliest_hint, kept.id)
    return files


# ---------------------------------------------------------------------------------------------- after a commit


def after_commit(
    store: Store, snapshot: Snapshot | None, dedicated: bool = False, wrote: Wrote | None = None
) -> Snapshot | None:
    """Make the tags, expire what is due and mark partitions done after a commit made `snapshot` the newest; gives
    `snapshot` back. `wrote`: the messages of a write, or the snapshot that it made; None for other commits.

    Snapshots of `write-only` tables and of postpone tables expire where the commit is `dedicated` maintenance alone. A
    failure is a warning: the commit stands. Where nothing is due it costs a list of the tags and, but for young tables,
    a small read (two the first time); with `snapshot.expire.execution-mode` = async snapshots expire beside the caller.
    Spec: docs/spec/expiry.md#after-a-commit
    """
    if snapshot is not None:
        with _warned("what follows a commit was given up"):
            _follow(store, snapshot, dedicated, wrote)
    return snapshot


def _follow(store: Store, snapshot: Snapshot, dedicated: bool, wrote: Wrote | None) -> None:
    upkeep = dedicated or not store.options.get("write-only")
    with _warned("automatic tags were not made or dropped"):
        tag_commit(store, upkeep, wrote is not None)
    with _warned("partitions were not expired"):
        if upkeep and looks_for_old_partitions(store):
            expire_partitions(store)
    if upkeep and (dedicated or store.schema.bucket_mode is not BucketMode.POSTPONE):
        if store.options.get("snapshot.expire.execution-mode") == "async":
            alone = store.with_options(_ALONE)
            run_beside((store.paths.root, store.branch_name), lambda: _expire_due(alone, snapshot))
        else:
            _expire_due(store, snapshot)
    with _warned("partitions were not marked done"):
        if wrote is not None and marks_done(store):
            after_write(store, written_partitions(store, wrote), snapshot.watermark)


def after_change(store: Store, snapshot: Snapshot | None) -> Snapshot | None:
    """As `after_commit`, where the snapshot itself is what rows were written or changed by. Where nothing was changed,
    errors as `Store.check_holds`: a table that is gone has no rows, and no change of it is done."""
    if snapshot is None:
        store.check_holds(None)
    return after_commit(store, snapshot, wrote=snapshot)


@contextmanager
def _warned(what: str) -> Iterator[None]:
    """Failures as warnings: nothing may read as if the commit had failed."""
    try:
        yield
    except Exception as error:
        warnings.warn(f"committed, but {what}: {error}", stacklevel=4)


def _expire_due(store: Store, snapshot: Snapshot) -> None:
    with _warned("snapshots were not expired"):
        config = ExpireConfig.of(store)
        _expire_consumers(store)
        if _may_be_due(store, snapshot, config):
            expire_snapshots(store, config)
        if config.decoupled:
            expire_changelogs(store, config)


def _may_be_due(store: Store, newest: Snapshot, config: ExpireConfig) -> bool:
    """Whether it is worth looking closer, by the hint alone."""
    ours = config.snapshots
    if newest.id <= ours.fewest:
        return False
    hint = store.hint(store.paths.earliest_hint) or FIRST_SNAPSHOT_ID
    first = newest.id - ours.most + 1
    if hint < first:
        return True
    seen = (store.place, hint + 1, "time")
    made = CACHE.get(seen)
    if made is not None and made >= ours.before:
        return False  # one that a rollback put in its place is younger
    following = store.find_snapshot(hint + 1)
    if following is None:
        return True
    CACHE.put(seen, 1, following.time_millis)
    return following.time_millis < ours.before


def _expire_consumers(store: Store) -> None:
    """Drop consumers that have not moved for `consumer.expiration-time`."""
    idle = store.options.get("consumer.expiration-time")
    if idle is None:
        return
    before = store.env.clock.now_millis() - idle
    for info in store.env.storage.list(store.paths.consumer_dir):
        if info.name.startswith("consumer-") and not info.is_dir and info.modified_millis < before:
            store.env.storage.delete(info.path)
