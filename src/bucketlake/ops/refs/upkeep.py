"""Tags that make themselves, by `tag.automatic-creation`: after commits, and when they are asked for.

    run_auto_tags(store)      process-time, watermark: a tag for every period that is over
    tag_batch(store)          batch: the newest snapshot under one name
    drop_old_tags(store)      tags whose life is over go

Spec: docs/spec/tags.md#automatic
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.refs.tags import create_tag, delete_tag, expire_tags, replace_tag
from bucketlake.ops.table.auto_tags import previous_tag_time, tag_name, tag_period, tag_time
from bucketlake.ops.table.store import FIRST_SNAPSHOT_ID, Store

MODE = "tag.automatic-creation"
BATCH_PREFIX = "batch-write-"


def tag_commit(store: Store, upkeep: bool, write: bool = True) -> None:
    """What a commit does about tags. `upkeep`: it is this writer's to look after the table; `write`: rows were written,
    or changed."""
    mode = store.options.get(MODE)
    if mode == "batch":
        if write:
            tag_batch(store)
    elif mode != "none" and upkeep:
        run_auto_tags(store)
    if upkeep:
        drop_old_tags(store)


def run_auto_tags(store: Store) -> None:
    """Make the automatic tags that are due, by the snapshots since the last one, and drop those beyond
    `tag.num-retained-max`."""
    if store.options.get(MODE) in ("process-time", "watermark"):
        delay = timedelta(milliseconds=store.options.get("tag.creation-delay"))
        if delay >= tag_period(store.options):
            raise InvalidError("tag.creation-delay must be shorter than the period of tags", delay=str(delay))
        _tag_periods(store, delay)


def drop_old_tags(store: Store) -> list[str]:
    """Unless `tag.time-expire-enabled` is false, drop all tags whose life is over; their names."""
    if not store.options.get("tag.time-expire-enabled"):
        return []
    return expire_tags(store)


def _tag_periods(store: Store, delay: timedelta) -> None:
    options = store.options
    known = {time: name for name in store.tag_names() if (time := tag_time(name, options)) is not None}
    following: datetime | None = None
    number = FIRST_SNAPSHOT_ID
    if known:
        last = max(known)
        if last > datetime.max - 2 * tag_period(options):
            return  # no tag is due before the calendar ends
        tag = store.find_tag(known[last])
        following = last + tag_period(options)
        number = tag.id + 1 if tag is not None else number
    for snapshot in _snapshots_from(store, number):
        time = _time_of(store, snapshot)
        if time is None or not (following is None or time - delay >= following + tag_period(options)):
            continue
        this = previous_tag_time(time, options)
        if options.get("tag.automatic-completion") and following is not None:
            this = following
        if _tag(store, tag_name(this, options), snapshot):
            _keep_newest(store)
        following = this + tag_period(options)


def _snapshots_from(store: Store, number: int) -> list[Snapshot]:
    return store.snapshots_after(number - 1)


def _tag(store: Store, name: str, snapshot: Snapshot) -> bool:
    """Make an automatic tag; False where its snapshot expired meanwhile."""
    try:
        create_tag(store, name, snapshot.id, store.options.get("tag.default-time-retained"), if_absent=True)
    except NotFoundError:
        return False
    return True


def _keep_newest(store: Store) -> None:
    most = store.options.get("tag.num-retained-max")
    if most is None:
        return
    tags = [(tag.id, name) for name, tag in store.tags().items() if tag_time(name, store.options) is not None]
    for _, name in sorted(tags)[: max(len(tags) - most, 0)]:
        delete_tag(store, name)


def _time_of(store: Store, snapshot: Snapshot) -> datetime | None:
    """The time that a snapshot stands for: of its commit, or its watermark, in the zone of the table's option. None
    where it has no watermark, or one of no year from 2 to 9998: Flink ends bounded streams with the greatest of all."""
    if store.options.get(MODE) == "watermark":
        mark = snapshot.watermark
        if mark is None or mark == -(1 << 63):
            return None
        zone = _zone(store, "sink.watermark-time-zone")
        try:
            time = _at(mark, zone)
        except (OverflowError, ValueError):
            return None
        return time if 1 < time.year < 9999 else None  # where a period, or a delay, more or less still is a time
    return _at(snapshot.time_millis, _zone(store, "sink.process-time-zone"))


def _at(millis: int, zone: tzinfo | None) -> datetime:
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=millis)
    return moment.astimezone(zone).replace(tzinfo=None)


def _zone(store: Store, key: str) -> tzinfo | None:
    """The zone that an option names; None: this machine's."""
    name = store.options.text(key)
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidError("no such time zone", option=key, value=name) from error


# ---------------------------------------------------------------------------------------------- batch


def tag_batch(store: Store) -> None:
    """Tag the newest snapshot as `tag.batch.customized-name` or by its day, in the place of an older tag of that name;
    then drop the oldest tags of any name beyond `tag.num-retained-max`."""
    newest = store.latest_snapshot()
    if newest is None:
        return
    day = _at(newest.time_millis, _zone(store, "sink.process-time-zone"))
    name = store.options.get("tag.batch.customized-name") or f"{BATCH_PREFIX}{day:%Y-%m-%d}"
    lifetime = store.options.get("tag.default-time-retained")
    if not create_tag(store, name, newest.id, lifetime, if_absent=True):
        replace_tag(store, name, newest.id, lifetime)
    most = store.options.get("tag.num-retained-max")
    if most is None:
        return
    tags = [(tag.id, _written(store, name), name) for name, tag in store.tags().items()]
    for _, _, old in sorted(tags)[: max(len(tags) - most, 0)]:
        delete_tag(store, old)


def _written(store: Store, name: str) -> int:
    info = store.env.storage.info(store.paths.tag(name))
    return 0 if info is None else info.modified_millis
