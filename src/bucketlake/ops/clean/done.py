"""Partitions that are done: who is told, and when.

    mark_partitions_done(store, specs)       CALL sys.mark_partition_done: now
    after_write(store, partitions, mark)     what a write does: by the end of its input, or by idle time

`partition.mark-done-action` says how, any of these with commas between them:

    success-file      <partition>/_SUCCESS, see ops.refs.success
    http-report       POST { "params", "table", "path", "partition" } to `partition.mark-done-action.http.url`
    mark-event        an event of the catalog; a file system has nobody to tell
    done-partition, custom        need a metastore, or a Java class: refused

Spec: docs/spec/tags.md#done
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timezone
from functools import partial
from typing import Any

from bucketlake.env import http
from bucketlake.errors import InvalidError, StorageError, UnsupportedError
from bucketlake.file_names import table_of_folder
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.refs.success import write_success
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.entries import created_millis
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partition_times import partition_time
from bucketlake.ops.table.partitions import spec_texts
from bucketlake.ops.table.store import Store
from bucketlake.options.options import MARK_DONE, TableOptions
from bucketlake.types.wall_clock import epoch_of
from bucketlake.values import dataclass

Action = Callable[[str], None]
"""Tells of one partition, by its path without a slash at the end."""

Wrote = Sequence[CommitMessage] | Snapshot
"""What a write was: its messages, or the snapshot that it made."""
URL = "partition.mark-done-action.http.url"
PARAMS = "partition.mark-done-action.http.params"


# ---------------------------------------------------------------------------------------------- how


def actions_of(store: Store) -> list[Action]:
    """What `partition.mark-done-action` asks for, in its order. InvalidError for others than there are, or without
    what they need; UnsupportedError for those that need a metastore or a Java class."""
    names = [part.strip().lower() for part in (store.options.text("partition.mark-done-action") or "").split(",")]
    unknown = sorted(set(names) - set(MARK_DONE))
    if unknown:
        raise InvalidError("no such way to mark partitions done", actions=unknown, known=list(MARK_DONE))
    return [action for name in dict.fromkeys(names) if (action := _action(store, name)) is not None]


def _action(store: Store, name: str) -> Action | None:
    if name == "success-file":
        return lambda path: write_success(store, store.paths.partition_success(path))
    if name == "http-report":
        return _reporter(store)
    if name == "mark-event":
        if not store.options.get("metastore.partitioned-table"):
            raise InvalidError("Table should enable metastore.partitioned-table", action=name)
        return None
    if name == "done-partition":
        raise UnsupportedError(
            "Cannot mark done partition for table without metastore.",
            action=name,
            remedy="'partition.mark-done-action' = 'success-file'",
        )
    raise UnsupportedError(
        "a Java class cannot be called to mark partitions done",
        action=name,
        option="partition.mark-done-action.custom.class",
        remedy="'partition.mark-done-action' = 'success-file' or 'http-report'",
    )


def _reporter(store: Store) -> Action:
    url = (store.options.text(URL) or "").strip()
    if not url:
        raise InvalidError(f"Parameter {URL} must be non-empty when you use `http-report` partition mark done action.")

    def report(path: str) -> None:
        told = {"params": store.options.text(PARAMS), "table": table_of_folder(store.paths.root)}
        body = json.dumps({**told, "path": store.paths.root, "partition": f"{path}/"}).encode()
        status, answer = http.post(url, body, {"Content-Type": "application/json"})
        if not 200 <= status < 300:
            raise StorageError("Response is not successful", action="http-report", partition=path, status=status)
        if not answer.strip():
            raise StorageError("ResponseBody is null or empty.", action="http-report", partition=path)
        result = _result(answer)
        if result.upper() != "SUCCESS":
            raise StorageError(
                f"The http-report action's response attribute `result` should be 'SUCCESS' but is '{result}'.",
                partition=path,
            )

    return report


def _result(answer: bytes) -> str:
    try:
        found: Any = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise StorageError("the answer is not JSON", action="http-report", start=repr(answer[:80])) from error
    value = found.get("result") if isinstance(found, dict) else None
    return "null" if value is None else str(value)[:200]


def mark_partitions_done(store: Store, specs: Sequence[Mapping[str, object]]) -> None:
    """Say of partitions, each named by all its columns, that they are done. Nobody is told before all is checked.

    Errors: InvalidError (specs, options), UnsupportedError (actions), StorageError (who could not be told).
    """
    if not store.schema.partition_keys:
        raise InvalidError("Table should be a partitioned table to mark partitions done.", table=store.paths.root)
    actions = actions_of(store)
    _tell([store.paths.partition_path(store.paths.partition_bytes(spec_texts(store, spec))) for spec in specs], actions)


def _tell(paths: Sequence[str], actions: Sequence[Action]) -> None:
    for path in paths:
        for action in actions:
            action(path)


# ---------------------------------------------------------------------------------------------- when


@dataclass(frozen=True, slots=True)
class IdleRule:
    """When a partition is done that nobody writes to: `idle` after its last write and after its own time's end, all in
    milliseconds. `by_watermark`: watermarks are the clock, and partitions' times are UTC."""

    idle: int
    interval: int
    by_watermark: bool = False

    @classmethod
    def of(cls, options: TableOptions) -> IdleRule | None:
        """As a table's options say; None unless both spans of time are set."""
        idle, interval = options.get("partition.idle-time-to-done"), options.get("partition.time-interval")
        if idle is None or interval is None:
            return None
        return cls(idle, interval, options.get("partition.mark-done-action.mode") == "watermark")

    def is_done(self, start: datetime, written: int, now: int) -> bool:
        """Whether the partition of a time is done. `written`: when it was last written to."""
        end = epoch_of(start.replace(tzinfo=timezone.utc) if self.by_watermark else start) + self.interval
        return now - max(written, end) > self.idle


@dataclass(slots=True)
class Pending:
    """Partitions of one table that this process has written to and that are not done yet, with their last writes."""

    written: dict[bytes, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, partitions: Collection[bytes], now: int) -> None:
        """Remember writes."""
        with self.lock:
            self.written.update(dict.fromkeys(partitions, now))

    def remember(self, partition: bytes, written: int) -> None:
        """Wait for a partition, unless it is waited for already."""
        with self.lock:
            self.written.setdefault(partition, written)

    def take_done(self, rule: IdleRule, start_of: Callable[[bytes], datetime | None], now: int) -> list[bytes]:
        """The partitions that are done, which are forgotten here, as are those whose values stand for no time."""
        found = []
        with self.lock:
            for partition, written in list(self.written.items()):
                start = start_of(partition)
                if start is None or rule.is_done(start, written, now):
                    del self.written[partition]
                    found += [] if start is None else [partition]
        return found

    def put_back(self, partitions: Sequence[bytes]) -> None:
        """Those that could not be told of are due again after the next commit."""
        with self.lock:
            for partition in partitions:
                self.written.setdefault(partition, 0)


_PENDING: dict[Hashable, Pending] = {}  # by `Store.place`


def marks_done(store: Store) -> bool:
    """Whether writes of a table have to do with marking at all."""
    options = store.options
    marked = options.get("partition.end-input-to-done") or IdleRule.of(options) is not None
    return bool(marked and store.schema.partition_keys)


def marks_idle(store: Store) -> bool:
    """Whether partitions of a table are done once idle by this machine's clock, without a commit."""
    rule = IdleRule.of(store.options)
    return rule is not None and not rule.by_watermark and bool(store.schema.partition_keys)


def mark_idle(store: Store) -> None:
    """Mark the partitions that this process has written to and that are idle now. Errors as `mark_partitions_done`."""
    rule = IdleRule.of(store.options)
    if rule is not None and marks_idle(store):
        _mark_idle(store, rule, (), store.env.clock.now_millis())


def remember_unmarked(store: Store) -> None:
    """Take up where a process that died left off: partitions that are not idle yet, and those without a success file
    where such files are written, are waited for with the time of their newest file."""
    rule, snapshot = IdleRule.of(store.options), store.latest_snapshot()
    if rule is None or snapshot is None or not marks_idle(store):
        return
    written: dict[bytes, int] = {}
    for entry in live_entries(store, snapshot):
        made = created_millis(entry)
        written[entry.partition] = max(made, written.get(entry.partition, 0))
    now, by_file = (
        store.env.clock.now_millis(),
        "success-file" in (store.options.text("partition.mark-done-action") or ""),
    )
    pending = _pending_of(store)
    for partition, millis in written.items():
        start = partition_time(store, partition)
        if start is None:
            continue
        path = store.paths.partition_success(store.paths.partition_path(partition))
        due = rule.is_done(start, millis, now)
        if not due or (by_file and store.env.storage.info(path) is None):
            pending.remember(partition, millis)


def _pending_of(store: Store) -> Pending:
    return _PENDING.setdefault(store.place, Pending())


def written_partitions(store: Store, wrote: Wrote) -> set[bytes]:
    """The partitions that a write touched."""
    if not isinstance(wrote, Snapshot):
        return {message.partition for message in wrote}
    before = store.find_snapshot(wrote.id - 1)
    known = {entry.file.file_name for entry in store.index_manifest(before)}
    indexes = {entry.partition for entry in store.index_manifest(wrote) if entry.file.file_name not in known}
    return indexes | {entry.partition for part in store.manifests(store.delta_manifests(wrote)) for entry in part}


def after_write(store: Store, partitions: Collection[bytes], watermark: int | None) -> None:
    """What a commit that wrote to partitions does about marking. `watermark`: the snapshot's.

    With `partition.end-input-to-done` they are done now; else, with `partition.idle-time-to-done`, when a later commit
    of this process finds them idle. Errors as `mark_partitions_done`.
    """
    options = store.options
    if options.get("partition.end-input-to-done"):
        _tell(sorted({store.paths.partition_path(partition) for partition in partitions}), actions_of(store))
        return
    rule = IdleRule.of(options)
    if rule is not None:
        now = watermark if rule.by_watermark else store.env.clock.now_millis()
        if now is not None:
            _mark_idle(store, rule, partitions, now)


def _mark_idle(store: Store, rule: IdleRule, partitions: Collection[bytes], now: int) -> None:
    pending = _pending_of(store)
    pending.write(partitions, now)
    actions = actions_of(store)
    due = pending.take_done(rule, partial(partition_time, store), now)
    try:
        while due:
            _tell([store.paths.partition_path(due[0])], actions)
            due = due[1:]
    finally:
        pending.put_back(due)
