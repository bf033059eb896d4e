"""Events of tables as frozen values, and who hears of them: whoever subscribed in this process.

    subscribe(callback, *kinds) -> stop     callback(event), in the thread in which it happened, until stop()
    emit(make)                              make() is called only where somebody listens

What a callback raises is a warning: nothing that is told of can be undone by those who are told.

Spec: docs/events.md
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import suppress

from bucketlake.file_names import table_of_folder
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened. `table`: the table's folder or URI; `branch`: of it. Times: epoch milliseconds."""

    table: str
    branch: str
    time_millis: int

    @property
    def name(self) -> str:
        """`db.t` where the folder lies as a catalog lays it, else the folder's name."""
        return table_of_folder(self.table)


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """A snapshot was published here. `kind`: APPEND, OVERWRITE, COMPACT, ANALYZE; `operation`: Paimon's word for what
    was done. Files, bytes and rows are those of data files that came and went; files that only changed their level are
    neither. `total_rows`: stored in the snapshot, superseded ones included. `columns`: names and types.
    `millis`: from the first look at the base until it was published; `retries`: how often another commit came first."""

    snapshot_id: int
    uuid: str | None
    schema_id: int
    kind: str
    operation: str | None
    user: str
    identifier: int
    added_files: int
    added_bytes: int
    added_rows: int
    removed_files: int
    removed_bytes: int
    removed_rows: int
    changelog_rows: int
    total_rows: int
    partitions: int
    watermark: int | None
    millis: int
    retries: int
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WriteCommitted(Committed):
    """Rows came, changed or went."""


@dataclass(frozen=True, slots=True)
class CompactionCommitted(Committed):
    """Files were rewritten, and rows are as they were: a compaction, a rescale, a clustering."""


@dataclass(frozen=True, slots=True)
class CommitFailed(Event):
    """A commit was not published, or nobody knows. `error`: the class of what was raised; `reason`: its text."""

    kind: str
    user: str
    error: str
    reason: str
    millis: int


@dataclass(frozen=True, slots=True)
class SnapshotsExpired(Event):
    """Snapshots, changelogs that had outlived theirs, and files went."""

    snapshots: int
    changelogs: int
    files: int


@dataclass(frozen=True, slots=True)
class BatchCommitted(Event):
    """A micro-batch of a stream is done. `snapshot_id`: None where it had no rows; `again`: it had been committed
    before, by a run that died; `behind`: batches whose compaction is still to come."""

    query: str
    batch: int
    snapshot_id: int | None
    again: bool
    rows: int
    files: int
    millis: int
    behind: int = 0


Callback = Callable[[Event], object]
_lock = threading.Lock()
_subscribers: tuple[tuple[Callback, tuple[type[Event], ...]], ...] = ()


def subscribe(callback: Callback, *kinds: type[Event]) -> Callable[[], None]:
    """Have `callback` called with every event of these kinds (of all without any), in the thread in which it happened
    and before that thread goes on. What is returned ends it; calling it again does nothing."""
    global _subscribers
    entry = (callback, kinds or (Event,))
    with _lock:
        _subscribers = (*_subscribers, entry)

    def stop() -> None:
        global _subscribers
        with _lock:
            _subscribers = tuple(one for one in _subscribers if one is not entry)

    return stop


def listening(kind: type[Event] = Event) -> bool:
    """Whether somebody hears of events of a kind."""
    return any(issubclass(kind, each) or issubclass(each, kind) for _, kinds in _subscribers for each in kinds)


def emit(make: Callable[[], Event]) -> None:
    """Tell the subscribers what `make` gives; it is not called where there are none. Exceptions become warnings, of
    `make` as well as of callbacks; interrupts pass."""
    subscribers = _subscribers
    if not subscribers:
        return
    try:
        event = make()
    except Exception as error:
        _warn("an event could not be told", error)
        return
    for callback, kinds in subscribers:
        if isinstance(event, kinds):
            try:
                callback(event)
            except Exception as error:
                _warn(f"a subscriber of events failed with {type(event).__name__}", error)


def _warn(what: str, error: Exception) -> None:
    with suppress(Exception):  # warnings may be errors
        warnings.warn(f"{what}: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=3)
