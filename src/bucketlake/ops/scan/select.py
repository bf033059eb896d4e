"""Which snapshot a batch read sees, by the `scan.*` options, or what came between two, by `incremental-*`.

Spec: docs/spec/commit.md#choosing-a-snapshot, docs/spec/incremental.md#choosing-the-span
"""

from __future__ import annotations

from datetime import datetime, timezone

from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.file_names import number_of
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.ops.table.auto_tags import earlier_tags, tag_time
from bucketlake.ops.table.remedies import tag_remedy
from bucketlake.ops.table.store import Store
from bucketlake.options.options import TableOptions
from bucketlake.schema.validation import check_scan_mode
from bucketlake.types.wall_clock import epoch_of
from bucketlake.values import dataclass

TRAVEL_KEYS = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.watermark",
    "scan.timestamp",
    "scan.timestamp-millis",
)
INCREMENTAL_KEYS = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
WATERMARK_PREFIX = "watermark-"
_ONE_PLACE = (
    "give one; AS OF is scan.version or scan.timestamp-millis, and a session may set others (spark.paimon.scan.…)"
)


@dataclass(frozen=True, slots=True)
class Span:
    """What came after snapshot `start`, up to and including snapshot `end`. `mode`: "delta", "changelog" or "diff";
    `before`: for "diff", the older snapshot (of a tag, perhaps one that has expired as a snapshot). `buckets`: for
    "diff", the table's bucket number at either end."""

    start: int
    end: int
    mode: str
    before: Snapshot | None = None
    buckets: tuple[int, int] | None = None

    @property
    def rescaled(self) -> bool:
        """Whether a key may lie in different buckets at both ends, so that they are not compared bucket by bucket."""
        return self.buckets is not None and self.buckets[0] != self.buckets[1]


@dataclass(frozen=True, slots=True)
class Selection:
    """A snapshot (None: the table has none, or there is nothing to read); for reads by file creation time, the earliest
    time in epoch milliseconds that a file must have; for incremental reads, what they span up to the snapshot."""

    snapshot: Snapshot | None
    created_since: int | None = None
    span: Span | None = None


def select_snapshot(store: Store) -> Selection:
    """The snapshot that the store's `scan.mode` and time travel options choose, or the span that `incremental-between`,
    `incremental-between-timestamp` or `incremental-to-auto-tag` does; without any, the newest snapshot.

    Errors: NotFoundError for a snapshot, tag or table that is not there, ConflictError for a table that was made anew
    since this handle was opened, InvalidError for options that contradict each other or a time before the first
    snapshot, UnsupportedError for modes that need more than one snapshot.
    """
    found = _selected(store, versioned(store))
    store.check_holds(found.snapshot)
    return found


def versioned(store: Store) -> TableOptions:
    """The store's options, `scan.version` said by the option that it stands for: a tag's name, else a watermark, else a
    snapshot's id. It takes the place of that option, which the session may have set, as with Apache Paimon.

    Errors: NotFoundError for a text that is none of these, InvalidError where a `scan.mode` asks for another option.
    """
    options = store.options
    if not options.is_set("scan.version"):
        return options
    version = str(options.get("scan.version"))
    mark = version.removeprefix(WATERMARK_PREFIX)
    if store.find_tag(version) is not None:
        meant = {"scan.tag-name": version}
    elif mark != version and _whole(mark) is not None:
        meant = {"scan.watermark": mark}
    elif version.isdecimal() and _whole(version.lstrip("0") or "0") is not None:
        meant = {"scan.snapshot-id": version}
    else:
        raise NotFoundError(
            f"Cannot find a time travel version for {version}: Tag '{version}' doesn't exist",
            table=store.paths.root,
            remedy=tag_remedy(version, store.tag_names()),
        )
    options = options.with_({"scan.version": None, **meant})
    check_scan_mode(options)
    return options


def _selected(store: Store, options: TableOptions) -> Selection:
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
    if mode == "incremental":
        return _incremental(store, options)
    raise UnsupportedError(f"Unknown startup mode {mode}", option="scan.mode", remedy="read one snapshot")


def _mode(options: TableOptions) -> str:
    mode: str = options.get("scan.mode") or "default"
    if mode == "full":
        return "latest-full"
    if mode != "default":
        return mode
    given = one_place(options)
    if options.is_set("scan.timestamp-millis") or options.is_set("scan.timestamp"):
        return "from-timestamp"
    if given:
        return "from-snapshot"
    if options.is_set("scan.file-creation-time-millis"):
        return "from-file-creation-time"
    if options.is_set("scan.creation-time-millis"):
        return "from-creation-timestamp"
    if any(options.is_set(key) for key in INCREMENTAL_KEYS):
        return "incremental"
    return "latest-full"


def one_place(options: TableOptions) -> list[str]:
    """The option that says which snapshot is meant, if one does.

    Errors: without a `scan.mode`, InvalidError for several of them, and for one beside a span's, or two spans: each
    would be the answer to another question, and none of them says that it comes first.
    """
    given = [key for key in TRAVEL_KEYS if options.is_set(key)]
    if (options.get("scan.mode") or "default") != "default":
        return given
    named = [*given, *(["scan.version"] if options.is_set("scan.version") else [])]
    if len(named) > 1:
        raise InvalidError(
            f"Only one of the following parameters may be set : [{', '.join(TRAVEL_KEYS)}]",
            given=named,
            remedy=_ONE_PLACE,
        )
    spans = [key for key in INCREMENTAL_KEYS if options.is_set(key)]
    if named and spans:
        raise InvalidError(f"[{','.join(spans)}] must be null when you set [{named[0]}]", remedy=_ONE_PLACE)
    if len(spans) > 1:
        raise InvalidError(
            f"must set only one key in [{','.join(INCREMENTAL_KEYS)}] when you use incremental for scan.mode",
            given=spans,
            remedy=_ONE_PLACE,
        )
    return given


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
    raise InvalidError("scan.mode from-snapshot needs one of", options=list(TRAVEL_KEYS[:3]))


def _by_id(store: Store, options: TableOptions, mode: str) -> Snapshot:
    return store.snapshot(_required(options, "scan.snapshot-id", mode))


def time_of(options: TableOptions) -> int | None:
    """The time to read at, in epoch milliseconds; None where none is given."""
    millis, text = options.get("scan.timestamp-millis"), options.get("scan.timestamp")
    if millis is not None:
        return int(millis)
    return None if text is None else epoch_of_text(text)


def _since(earliest: Snapshot | None) -> str | None:
    if earliest is None:
        return None
    shown = datetime.fromtimestamp(earliest.time_millis / 1000, timezone.utc).isoformat(" ", "milliseconds")
    return f"ask for a time from {shown} on"


def _at_time(store: Store, options: TableOptions) -> Snapshot:
    millis = time_of(options)
    if millis is None:
        raise InvalidError("scan.mode from-timestamp needs scan.timestamp or scan.timestamp-millis")
    found = store.snapshot_at(millis)
    if found is None:
        earliest = store.earliest_snapshot()
        raise InvalidError(
            f"There is currently no snapshot earlier than or equal to timestamp [{millis}], the earliest snapshot's "
            f"timestamp is [{earliest.time_millis if earliest else 'null'}]",
            remedy=_since(earliest),
        )
    return found


def epoch_of_text(text: str) -> int:
    """Epoch milliseconds of a timestamp in the machine's time zone: `yyyy-MM-dd[ HH:mm[:ss[.SSS]]]`."""
    try:
        return epoch_of(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError) as error:
        raise InvalidError("not a timestamp", value=text, remedy="write yyyy-MM-dd HH:mm:ss.SSS") from error


def epoch_millis(moment: str | datetime | None) -> int | None:
    """Epoch milliseconds of a moment; texts, and what has no time zone, are in the machine's. None for None."""
    if moment is None:
        return None
    if not isinstance(moment, (str, datetime)):
        kind = type(moment).__name__
        raise InvalidError("not a moment", value=str(moment), type=kind, remedy="give a datetime, or its text")
    return epoch_of_text(moment) if isinstance(moment, str) else epoch_of(moment)


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


# ---------------------------------------------------------------------------------------------- incremental


def _incremental(store: Store, options: TableOptions) -> Selection:
    if options.is_set("incremental-between"):
        return _between_names(store, options)
    if options.is_set("incremental-between-timestamp"):
        return _between_times(store, options)
    if options.is_set("incremental-to-auto-tag"):
        return _to_auto_tag(store, options)
    raise UnsupportedError("Unknown incremental read mode.", remedy="set incremental-between")


def _span_mode(options: TableOptions) -> str:
    mode: str = options.get("incremental-between-scan-mode")
    if mode != "auto":
        return mode
    return "delta" if options.get("changelog-producer") == "none" else "changelog"


def _ends(options: TableOptions, key: str, what: str) -> tuple[str, str]:
    text = str(options.get(key))
    parts = text.split(",")
    if len(parts) != 2:
        raise InvalidError(
            f"The {key} must specific start(exclusive) and end {what}. But is: {text}",
            remedy=f"write '{key}' = '<start>,<end>'",
        )
    return parts[0].strip(), parts[1].strip()


def _between_names(store: Store, options: TableOptions) -> Selection:
    left, right = _ends(options, "incremental-between", "snapshot")
    start, end = store.find_tag(left), store.find_tag(right)
    if start is not None and end is not None:
        if options.get("incremental-between-tag-to-snapshot"):
            return _by_ids(store, start.id, end.id, _span_mode(options))
        if end.id < start.id:
            raise InvalidError(
                f"Tag end {right} with snapshot id {end.id} should be >= tag start {left} with snapshot id {start.id}"
            )
        return _diff(store, start, end)
    first, last = _whole(left), _whole(right)
    if first is None or last is None:
        names = [name for name, tag, id_ in ((left, start, first), (right, end, last)) if tag is None and id_ is None]
        remedy = f"no tag is '{names[0]}': {tag_remedy(names[0], store.tag_names())}" if names else None
        raise InvalidError(
            f"Didn't find two tags for start '{left}' and end '{right}', and they are not two snapshot Ids. Please set "
            "two tags or two snapshot Ids.",
            remedy=remedy,
        )
    if last < first:
        raise InvalidError(f"Ending snapshotId should >= starting snapshotId {first}.", end=last)
    mode = _span_mode(options)
    if first == last or store.latest_snapshot() is None:
        return Selection(None)
    if mode == "diff":
        return _diff(store, store.snapshot(first), store.snapshot(last))
    return _by_ids(store, first, last, mode)


def _by_ids(store: Store, start: int, end: int, mode: str) -> Selection:
    earliest, latest = store.earliest_snapshot(), store.latest_snapshot()
    if earliest is None or latest is None:
        return Selection(None)
    if start < earliest.id - 1 or end > latest.id:
        raise InvalidError(
            f"The specified scan snapshotId range [{start}, {end}] is out of available snapshotId range "
            f"[{earliest.id}, {latest.id}].",
            table=store.paths.root,
        )
    if mode == "diff":
        raise InvalidError("Unsupported incremental scan mode DIFF", remedy="leave incremental-between-tag-to-snapshot")
    return Selection(store.snapshot(end), span=Span(start, end, mode)) if start < end else Selection(None)


def _between_times(store: Store, options: TableOptions) -> Selection:
    start, end = (_millis(text) for text in _ends(options, "incremental-between-timestamp", "timestamp"))
    earliest, latest = store.earliest_snapshot(), store.latest_snapshot()
    if earliest is None or latest is None:
        return Selection(None)
    if end < start:
        raise InvalidError(f"Ending timestamp {end} should be >= starting timestamp {start}.")
    if start == end or start > latest.time_millis or end < earliest.time_millis:
        return Selection(None)
    first, last = store.snapshot_at(start), store.snapshot_at(end) or latest
    mode = _span_mode(options)
    if mode == "diff":
        return _diff(store, first or earliest, last)
    before = earliest.id - 1 if first is None else first.id
    return Selection(last, span=Span(before, last.id, mode)) if before < last.id else Selection(None)


def _to_auto_tag(store: Store, options: TableOptions) -> Selection:
    """The difference from the automatic tag before to this one; nothing where either is not there."""
    name = str(options.get("incremental-to-auto-tag"))
    if tag_time(name, options) is None:
        raise InvalidError(
            f"Specified tag '{name}' is not an auto-created tag.",
            period=options.get("tag.creation-period"),
            formatter=options.get("tag.period-formatter"),
            remedy="name a tag as 'tag.creation-period' and 'tag.period-formatter' form its name",
        )
    end = store.find_tag(name)
    if end is None:
        return Selection(None)
    for earlier in earlier_tags(store, name, options):
        start = store.find_tag(earlier)
        if start is not None:
            return _diff(store, start, end)
    return Selection(None)


def _millis(text: str) -> int:
    number = _whole(text)
    return epoch_of_text(text) if number is None else number


def _whole(text: str) -> int | None:
    """The number that a text spells, with a sign or without; None for what is none of 64 bits."""
    number = number_of(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number


def _diff(store: Store, start: Snapshot, end: Snapshot) -> Selection:
    """Spec: docs/spec/incremental.md#diff"""
    if start.id == end.id:
        return Selection(None)
    buckets = store.schema_of(start.schema_id).bucket, store.schema_of(end.schema_id).bucket
    return Selection(end, span=Span(start.id, end.id, "diff", start, buckets))
