"""Tags that hold what batch reads read: `scan.plan-auto-tag-for-read.time-retained`.

    protect(store, plan)    a tag `batch-read-<snapshot>-<8 hex digits>` holds the plan's snapshot
    release(store, plan)    a read is done: with the last of them the tag goes

A process makes one tag for the reads of a snapshot that start within a tenth of the option's time, and lets it live for
that much longer. Tags of reads that nobody says the end of (Spark runs them when it likes) go with the process, or when
their time is over.

Spec: docs/spec/tags.md#tags-of-reads
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from collections.abc import Hashable
from contextlib import suppress

from bucketlake.errors import ConflictError, StorageError
from bucketlake.ops.refs.tags import create_tag, delete_tag
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

OPTION = "scan.plan-auto-tag-for-read.time-retained"
PREFIX = "batch-read-"
_Key = tuple[Hashable, int]  # the branch, the snapshot


@dataclass(slots=True)
class _Held:
    """A tag of this process. `reads`: that are not done; `until`: epoch milliseconds up to which it takes new ones."""

    store: Store
    name: str
    until: int
    reads: int = 0


_held: dict[_Key, list[_Held]] = {}  # the newest last
_lock = threading.Lock()
_owner = os.getpid()


def protect(store: Store, plan: Plan) -> None:
    """Let a tag hold the snapshot of a plan, where the table wants that. Where there can be none the read goes on, with
    a warning.

    Errors: NotFoundError where the snapshot expires meanwhile.
    """
    lifetime = store.options.get(OPTION)
    if lifetime is None or plan.snapshot is None:
        return
    with _lock:
        _forget_parents()
        own = _held.setdefault(_key(store, plan.snapshot.id), [])
        now = store.env.clock.now_millis()
        if not own or own[-1].until <= now:
            name = f"{PREFIX}{plan.snapshot.id}-{store.env.clock.new_uuid()[:8]}"
            try:
                create_tag(store, name, plan.snapshot.id, lifetime + lifetime // 10)
            except (ConflictError, StorageError) as error:
                warnings.warn(f"the read is not protected from expiry: {error}", stacklevel=4)
                return
            own.append(_Held(store, name, now + lifetime // 10))
        own[-1].reads += 1


def release(store: Store, plan: Plan) -> None:
    """A read of a plan that `protect` was asked for is done."""
    if store.options.get(OPTION) is None or plan.snapshot is None:
        return
    key = _key(store, plan.snapshot.id)
    with _lock:
        _forget_parents()
        own = _held.get(key, [])
        found = next((tag for tag in reversed(own) if tag.reads), None)
        if found is None:
            return
        found.reads -= 1
        if found.reads:
            return
        own.remove(found)
    _drop(found)


def _key(store: Store, snapshot: int) -> _Key:
    return store.place, snapshot


def _forget_parents() -> None:
    """A forked process has no tags of its own yet."""
    global _owner
    if _owner != os.getpid():
        _held.clear()
        _owner = os.getpid()


def _drop(tag: _Held) -> None:
    with suppress(Exception):  # its time ends it
        delete_tag(tag.store, tag.name)


@atexit.register
def _leave() -> None:
    with _lock:
        _forget_parents()
        left = [tag for tags in _held.values() for tag in tags]
        _held.clear()
    for tag in left:
        _drop(tag)
