"""Which source files COPY INTO has loaded into a table, and that each is loaded once.

    copy-into/history/load-<16 hex digits of the path's SHA-256>-<when>    {"filePath", "fileSize", "lastModified", …}
    copy-into/intents/load-<uuid>    {"version": 1, "commitUser", "branch", "base", "files": [{"filePath", …}]}

The history is as Paimon's Spark connector keeps it: a record a file, written after the rows were committed. What it
cannot tell, whether a load that left no record was committed, the intents tell, which that connector does not read:

- A load writes its intent before it commits, and commits under the user that the intent names, which nobody else has.
  After the commit come the records, then the intent goes. So whatever was committed is in an intent or in the history,
  at every moment, for those who look at intents first.
- A snapshot of an intent's user after its `base` (the newest one when it was written): the files were loaded. Whoever
  finds that writes the records that are missing, and removes the intent.
- None, and all snapshots since are there: they were not loaded so far. The intent stays, as its writer may be alive.
- None, and some have expired: nobody can tell, and CommitUnknownError says so. Our own expiry looks before it removes
  snapshots (`before_expiry`), so that only another engine's leads here.
- An intent all of whose files are in the history says nothing more, and goes.

Two loads of one file: each looks for the other's on every base on which it is about to publish. Of two that have
written their intents one publishes first, and the other finds it: it gives up its files and starts over without them.
With FORCE a load looks for none, but is found. Loads to two branches are told apart by their history alone.

Spec: docs/sql/copy-into.md#repeated-loads
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import Any, TypeVar

from bucketlake.env.storage import Buffered
from bucketlake.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptError,
    NotFoundError,
    StorageError,
)
from bucketlake.format.guard import decoding, integer, json_object, text
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.paths import MAIN
from bucketlake.values import dataclass

VERSION = 1
ATTEMPTS = 8
_LOOKS = 3  # at intents whose snapshots expire under the look

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to load from: its whole path, bytes, and when it was modified, in epoch milliseconds."""

    path: str
    size: int
    modified_millis: int

    @property
    def name(self) -> str:
        """Its last name."""
        return self.path.rsplit("/", 1)[-1]


class LoadedMeanwhile(ConflictError):
    """Another load has committed some of the files, or the table was rolled back: look again which are to be loaded."""


def loaded(store: Store, files: Sequence[SourceFile]) -> set[SourceFile]:
    """Those of the files that were loaded as they are now. Records that cannot be read count for nothing.

    Errors: CommitUnknownError where that cannot be told of one, CorruptError for an intent that cannot be read: what it
    names may have been loaded.
    """
    look = _look(store, files)
    for _ in range(_LOOKS - 1):  # an expiry of ours may have moved an intent on meanwhile
        if look.unknown is not None:
            look = _look(store, files)
    if look.unknown is not None:
        raise _unknown(store, look.unknown)
    for intent, snapshot_id in look.done:
        _settle(store, intent, look.recorded, snapshot_id)
    for intent in look.superfluous:
        store.env.storage.delete(intent.path)
    return look.loaded


def without_loaded(once: Callable[[], T]) -> T:
    """What `once` makes, which looks what is to be loaded and loads it; again where another load comes first."""
    for _ in range(ATTEMPTS - 1):
        with suppress(LoadedMeanwhile):
            return once()
    return once()


def record_loaded(store: Store, files: Sequence[tuple[SourceFile, int]], snapshot_id: int) -> None:
    """Remember that files were loaded, each with the rows that came from it."""
    now = store.env.clock.now_millis()

    def write(item: tuple[SourceFile, int]) -> None:
        file, rows = item
        record = {**_told(file), "loadedAt": now, "snapshotId": snapshot_id, "rowsLoaded": rows}
        path = f"{store.paths.load_history_dir}/load-{_hash(file.path)}-{now}"
        store.env.storage.write(path, json.dumps(record).encode())

    parallel(write, files)


class Loading:
    """One load of files, each with the rows that come from it, committed by `Table.commit` under its own user:

        with Loading(store, user, files) as loading:
            … write the rows
            loading.begin()
            loading.finish(table.commit(messages, loading))

    Where the block raises, the intent goes if the load certainly was not committed. `again`: files that were loaded
    before are loaded again.
    """

    def __init__(
        self, store: Store, user: str, files: Sequence[tuple[SourceFile, int]], *, again: bool = False
    ) -> None:
        self.user = user
        self._store, self._again = store, again
        path = f"{store.paths.load_intents_dir}/load-{store.env.clock.new_uuid()}"
        self._intent = _Intent(path, user, store.branch_name, 0, tuple(files))
        self._begun = False

    def begin(self) -> None:
        """Say what is about to be committed, durably: after that, a death is no secret."""
        self._intent = self._intent.on(self._store.latest_snapshot_id() or 0)
        self._begun = True
        _write_intent(self._store, self._intent)

    def check(self, messages: Sequence[CommitMessage], view: View) -> None:
        """Raises LoadedMeanwhile where a base has what this load would double, or lies before what it began on."""
        if (view.snapshot.id if view.snapshot is not None else 0) < self._intent.base:
            raise LoadedMeanwhile("the table was rolled back while files were loaded", table=self._store.paths.root)
        if self._again:
            return
        files = [file for file, _ in self._intent.files]
        look = _look(self._store, files, but=self._intent.path)
        if look.loaded or look.unknown is not None:
            raise LoadedMeanwhile(
                "another load has committed the same files meanwhile",
                table=self._store.paths.root,
                file=min((file.path for file in look.loaded), default=None),
                remedy="load them again: what is there is skipped",
            )

    def finish(self, snapshot: Snapshot | None) -> None:
        """Remember what was loaded. The storage may fail: the intent stays then, and tells the same."""
        number = 0 if snapshot is None else snapshot.id
        try:
            record_loaded(self._store, self._intent.files, number)
            self._store.env.storage.delete(self._intent.path)
        except StorageError as error:
            if snapshot is None:
                raise
            warnings.warn(f"the load is committed, but not in the history yet: {error}", stacklevel=2)

    def __enter__(self) -> Loading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._begun or not isinstance(error, Exception) or isinstance(error, CommitUnknownError):
            return
        with suppress(Exception):  # what stays is resolved by the next load
            fate = _fate(self._store, self._intent)
            if isinstance(fate, Snapshot):  # what failed came after the commit
                _settle(self._store, self._intent, set(), fate.id)
            elif fate is _Fate.NOT_YET:  # nor ever: its commit has ended
                self._store.env.storage.delete(self._intent.path)


def before_expiry(store: Store, gone: Sequence[Snapshot]) -> None:
    """To be called before the names of snapshots go, ascending: of loads that were committed by one of them the history
    is written, and intents of others need them no more."""
    first, last = gone[0].id, gone[-1].id
    for path in _intent_paths(store):
        try:
            intent = _intent_of(store, path)
        except CorruptError:
            continue  # the next load says so
        if intent is None or intent.branch != store.branch_name or intent.base >= last:
            continue
        snapshot = next((one for one in gone if intent.made(one)), None)
        if snapshot is not None:
            _settle(store, intent, set(), snapshot.id)
        elif first <= intent.base + 1 and len(gone) == last - first + 1:
            _write_intent(store, intent.on(last))


# ---------------------------------------------------------------------------------------------- intents


@dataclass(frozen=True, slots=True)
class _Intent:
    """What a load says before it commits. `stated`: somebody who looked wrote that it was committed."""

    path: str
    user: str
    branch: str
    base: int
    files: tuple[tuple[SourceFile, int], ...]
    stated: bool = False

    def on(self, base: int) -> _Intent:
        """The same, of another base."""
        return _Intent(self.path, self.user, self.branch, base, self.files, self.stated)

    def made(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is the load's."""
        rows = snapshot.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE)
        return rows and snapshot.commit_user == self.user and snapshot.id > self.base


class _Fate(Enum):
    NOT_YET = "not committed so far"
    STATED = "committed, as somebody wrote"
    UNKNOWN = "the snapshots that tell have expired"


@dataclass(frozen=True, slots=True)
class _Look:
    """What intents and history say of some files. `done`: intents that were committed, by which snapshot (0: not
    known); `superfluous`: those whose files are all in the history; `unknown`: one of which nobody can tell."""

    loaded: set[SourceFile]
    recorded: set[SourceFile]
    done: tuple[tuple[_Intent, int], ...]
    superfluous: tuple[_Intent, ...]
    unknown: _Intent | None


def _look(store: Store, files: Sequence[SourceFile], but: str = "") -> _Look:
    """`but`: the path of an intent that is passed over."""
    paths = [path for path in _intent_paths(store) if path != but]
    intents = [intent for intent in parallel(lambda path: _intent_of(store, path), paths) if intent is not None]
    named = {file for intent in intents for file, _ in intent.files}
    recorded = _recorded(store, named.union(files))  # after the intents: they go when records are there
    found = recorded.intersection(files)
    done: list[tuple[_Intent, int]] = []
    superfluous: list[_Intent] = []
    unknown: _Intent | None = None
    for intent in intents:
        own = {file for file, _ in intent.files}
        if own <= recorded:
            superfluous.append(intent)
            continue
        asked = own.intersection(files) - recorded
        fate = _fate(store, intent) if asked else _Fate.NOT_YET
        if isinstance(fate, Snapshot) or fate is _Fate.STATED:
            done.append((intent, fate.id if isinstance(fate, Snapshot) else 0))
            found |= asked
        elif fate is _Fate.UNKNOWN:
            unknown = intent
    return _Look(found, recorded, tuple(done), tuple(superfluous), unknown)


def _fate(store: Store, intent: _Intent) -> Snapshot | _Fate:
    if intent.stated:
        return _Fate.STATED
    if intent.branch not in (MAIN, store.branch_name) and intent.branch not in store.branches():
        return _Fate.UNKNOWN
    store = store if intent.branch == store.branch_name else store.on_branch(intent.branch)
    newest = store.latest_snapshot_id() or 0  # before the list, which then lacks what has expired alone
    after = store.snapshots_after(intent.base)
    snapshot = next((one for one in after if intent.made(one)), None)
    if snapshot is not None:
        return snapshot
    there = sum(one.id <= newest for one in after)
    return _Fate.NOT_YET if there >= newest - intent.base else _Fate.UNKNOWN


def _settle(store: Store, intent: _Intent, recorded: set[SourceFile], snapshot_id: int) -> None:
    """Write the history of a load that was committed and has left it to others."""
    record_loaded(store, [(file, rows) for file, rows in intent.files if file not in recorded], snapshot_id)
    store.env.storage.delete(intent.path)


def _unknown(store: Store, intent: _Intent) -> CommitUnknownError:
    earliest = store.earliest_snapshot()
    return CommitUnknownError(
        "whether files were loaded cannot be told: snapshots since their load was begun have expired",
        table=store.paths.root,
        file=intent.files[0][0].path,
        files=len(intent.files),
        commit_user=intent.user,
        branch=intent.branch,
        begun_on=intent.base,
        earliest=None if earliest is None else earliest.id,
        remedy=f"look whether their rows are there: if not, delete {intent.path}; if they are, add "
        '"committed": true to its JSON; then load again',
    )


def _intent_paths(store: Store) -> list[str]:
    with suppress(NotFoundError):
        found = store.env.storage.list(store.paths.load_intents_dir)
        return [info.path for info in found if not info.is_dir and info.name.startswith("load-")]
    return []


def _intent_of(store: Store, path: str) -> _Intent | None:
    """None where it has gone meanwhile."""
    try:
        data = store.env.storage.read(path)
    except NotFoundError:
        return None
    remedy = "look whether the rows of the files that it names are there, then delete it; FORCE = TRUE does not read it"
    with decoding("not an intent of COPY INTO", path, remedy):
        found = json_object(data)
        user, branch, base, files = (found.get(key) for key in ("commitUser", "branch", "base", "files"))
        if found.get("version") != VERSION or not integer(base) or not isinstance(files, list) or not files:
            raise ValueError(f"version {found.get('version')!r:.20}, base {base!r:.20}")
        if not (text(user) and user and text(branch) and branch):
            raise ValueError(f"commit user {user!r:.40}, branch {branch!r:.40}")
        named = tuple((_file_of(one), int(one["rowsLoaded"])) for one in files)
        return _Intent(path, str(user), str(branch), int(str(base)), named, found.get("committed") is True)


def _write_intent(store: Store, intent: _Intent) -> None:
    told = {
        "version": VERSION,
        "commitUser": intent.user,
        "branch": intent.branch,
        "base": intent.base,
        "files": [{**_told(file), "rowsLoaded": rows} for file, rows in intent.files],
    }
    storage = store.env.storage
    storage.write(intent.path, json.dumps(told).encode())
    if isinstance(storage, Buffered):
        storage.sync((), (intent.path,), store.paths.root)


# ---------------------------------------------------------------------------------------------- history


def _recorded(store: Store, files: set[SourceFile]) -> set[SourceFile]:
    try:
        names = [info.path for info in store.env.storage.list(store.paths.load_history_dir)]
    except NotFoundError:
        return set()
    known = {_hash(file.path) for file in files}
    wanted = [path for path in names if _hash_of(path) in known]
    return {file for file in parallel(lambda path: _record(store, path), wanted) if file is not None} & files


def _record(store: Store, path: str) -> SourceFile | None:
    try:
        with decoding("not a record of COPY INTO", path):
            return _file_of(json_object(store.env.storage.read(path)))
    except (NotFoundError, CorruptError):
        return None


def _told(file: SourceFile) -> dict[str, Any]:
    return {"filePath": file.path, "fileSize": file.size, "lastModified": file.modified_millis}


def _file_of(found: Any) -> SourceFile:
    path = found["filePath"]
    if not text(path):
        raise ValueError(f"filePath is {path!r:.100}")
    return SourceFile(path, int(found["fileSize"]), int(found["lastModified"]))


def _hash(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:16]


def _hash_of(path: str) -> str:
    return path.rsplit("/", 1)[-1].removeprefix("load-").partition("-")[0]
