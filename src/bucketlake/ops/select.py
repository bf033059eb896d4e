"""Which snapshot a batch read sees, by the `scan.*` options.

Spec: docs/spec/commit.md#choosing-a-snapshot
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.format.snapshot import CommitKind, Snapshot
from bucketlake.ops.store import Store
from bucketlake.options import TableOptions

TRAVEL_KEYS = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.watermark",
    "scan.timestamp",
    "scan.timestamp-millis",
)
WATERMARK_PREFIX = "watermark-"


@dataclass(frozen=True, slots=True)
class Selection:
    """A snapshot (None: the table has none) and, for reads by file creation time, the earliest time in epoch
    milliseconds that a file must have."""

    snapshot: Snapshot | None
    created_since: int | None = None


def select_snapshot(store: Store, options: TableOptions | None = None) -> Selection:
    """The snapshot that `scan.mode` and the time travel options choose; without any, the newest.

    Errors: NotFoundError for a snapshot or tag that is not there, InvalidError for options that contradict each other
    or a time before the first snapshot, UnsupportedError for modes that need more than one snapshot.
    """
    options = store.options if options is None else options
    mode = _mode(options)
    if mode in ("latest-full", "latest"):
        return Selection(store.latest_snapshot())
    if mode == "compacted-full":
        return Selection(_newest_compacted(store))
    if mode == "from-timestamp":
        return Selection(_at_time(store, options))
    if mode == "from-snapshot":
        return Selection(_by_name(store, options))
    if mode == "from-snapshot-full":
        return Selection(_by_id(store, options, mode))
    if mode == "from-file-creation-time":
        return Selection(store.latest_snapshot(), _required(options, "scan.file-creation-time-millis", mode))
    if mode == "from-creation-timestamp":
        return _since_creation(store, _required(options, "scan.creation-time-millis", mode))
    raise UnsupportedError(f"Unknown startup mode {mode}", option="scan.mode", remedy="read one snapshot")


def _mode(options: TableOptions) -> str:
    mode: str = options.get("scan.mode") or "default"
    if mode == "full":
        return "latest-full"
    if mode != "default":
        return mode
    given = [key for key in TRAVEL_KEYS if options.is_set(key)]
    if len(given) > 1:
        raise InvalidError(f"Only one of the following parameters may be set : [{', '.join(TRAVEL_KEYS)}]", given=given)
    if options.is_set("scan.timestamp-millis") or options.is_set("scan.timestamp"):
        return "from-timestamp"
    if given or options.is_set("scan.version"):
        return "from-snapshot"
    if options.is_set("scan.file-creation-time-millis"):
        return "from-file-creation-time"
    if options.is_set("scan.creation-time-millis"):
        return "from-creation-timestamp"
    if options.is_set("incremental-between") or options.is_set("incremental-between-timestamp"):
        return "incremental"
    return "latest-full"


def _required(options: TableOptions, key: str, mode: str) -> int:
    value = options.get(key)
    if value is None:
        raise InvalidError(f"{key} must be set when startupMode is {mode.upper().replace('-', '_')}.")
    return int(value)


def _by_name(store: Store, options: TableOptions) -> Snapshot:
    if options.is_set("scan.snapshot-id"):
        return _by_id(store, options, "from-snapshot")
    if options.is_set("scan.watermark"):
        return _at_watermark(store, int(options.get("scan.watermark")))
    if options.is_set("scan.tag-name"):
        return store.tag(options.get("scan.tag-name"))
    if options.is_set("scan.version"):
        return _by_version(store, str(options.get("scan.version")))
    raise InvalidError("scan.mode from-snapshot needs one of", options=list(TRAVEL_KEYS[:3]))


def _by_id(store: Store, options: TableOptions, mode: str) -> Snapshot:
    return store.snapshot(_required(options, "scan.snapshot-id", mode))


def _by_version(store: Store, version: str) -> Snapshot:
    tag = store.find_tag(version)
    if tag is not None:
        return tag
    mark = version.removeprefix(WATERMARK_PREFIX)
    if mark != version and mark.lstrip("-").isdigit():
        return _at_watermark(store, int(mark))
    if version.isdigit():
        return store.snapshot(int(version))
    raise NotFoundError(f"Cannot find a time travel version for {version}", table=store.paths.root)


def _at_time(store: Store, options: TableOptions) -> Snapshot:
    millis = options.get("scan.timestamp-millis")
    if millis is None:
        text = options.get("scan.timestamp")
        if text is None:
            raise InvalidError("scan.mode from-timestamp needs scan.timestamp or scan.timestamp-millis")
        millis = local_millis(text)
    found = store.snapshot_at(int(millis))
    if found is None:
        earliest = store.earliest_snapshot()
        raise InvalidError(
            f"There is currently no snapshot earlier than or equal to timestamp [{millis}], the earliest snapshot's "
            f"timestamp is [{earliest.time_millis if earliest else 'null'}]"
        )
    return found


def local_millis(text: str) -> int:
    """Epoch milliseconds of a timestamp in the machine's time zone: `yyyy-MM-dd[ HH:mm[:ss[.SSS]]]`."""
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except ValueError as error:
        raise InvalidError("not a timestamp", value=text, remedy="write yyyy-MM-dd HH:mm:ss.SSS") from error


def epoch_millis(moment: str | datetime | None) -> int | None:
    """Epoch milliseconds of a moment; texts, and what has no time zone, are in the machine's. None for None."""
    if moment is None:
        return None
    return local_millis(moment) if isinstance(moment, str) else int(moment.timestamp() * 1000)


def _at_watermark(store: Store, watermark: int) -> Snapshot:
    for snapshot in store.snapshots():
        if snapshot.watermark is not None and snapshot.watermark >= watermark:
            return snapshot
    raise NotFoundError(f"There is currently no snapshot later than or equal to watermark[{watermark}]")


def _newest_compacted(store: Store) -> Snapshot | None:
    for snapshot in store.snapshots(newest_first=True):
        if snapshot.commit_kind is CommitKind.COMPACT:
            return snapshot
    return store.latest_snapshot()


def _since_creation(store: Store, millis: int) -> Selection:
    """The first snapshot at or after a time, if the one before it is known; else the newest's files from then on."""
    before = store.snapshot_at(millis - 1)
    following = None if before is None else store.find_snapshot(before.id + 1)
    if following is not None:
        return Selection(following)
    return Selection(store.latest_snapshot(), millis)
