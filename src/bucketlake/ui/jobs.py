"""Maintenance that the page starts: one job after the other in threads, each with its progress.

    jobs = Jobs(catalog); jobs.start("compact", {…}) -> id; jobs.listed(); jobs.stop(id)

A job that is stopped ends as Ctrl-C ends it: what is finished stays.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any

from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError
from bucketlake.ops.progress import OnProgress, Progress
from bucketlake.redaction import redact
from bucketlake.report.history import cut
from bucketlake.table import Table
from bucketlake.ui.look import Query, table_of
from bucketlake.values import dataclass

AT_ONCE = 1
REMEMBERED = 50
WAITING = 10


@dataclass(slots=True, eq=False)
class Work:
    """One job. `state`: waiting, running, done, failed, stopped."""

    number: int
    action: str
    table: str
    started: int
    state: str = "waiting"
    message: str = ""
    ended: int | None = None
    progress: Progress | None = None
    halted: threading.Event = field(default_factory=threading.Event)

    def told(self, progress: Progress) -> None:
        """Take what the operation says; end it where it was stopped."""
        self.progress = progress
        if self.halted.is_set():
            raise KeyboardInterrupt

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        seen = self.progress
        return {
            "number": self.number,
            "action": self.action,
            "table": self.table,
            "state": self.state,
            "message": self.message,
            "started": self.started,
            "ended": self.ended,
            "stopping": self.halted.is_set() and self.state == "running",
            "progress": None
            if seen is None
            else {
                "operation": seen.operation,
                "share": seen.share,
                "units": seen.units,
                "total_units": seen.total_units,
                "rows": seen.rows,
                "bytes": seen.bytes,
                "commits": seen.commits,
                "seconds": seen.seconds,
                "seconds_left": seen.seconds_left,
            },
        }


Action = Callable[[Table, Query, OnProgress], str]


def _compact(table: Table, query: Query, on_progress: OnProgress) -> str:
    full = {"true": True, "false": False}.get(query.text("full", "true"))
    if full is None:
        raise InvalidError("not a choice", parameter="full", remedy="use true or false")
    done = table.compact(full=full, on_progress=on_progress)
    return "There was nothing to compact." if done is None else f"Compacted: snapshot {done.id}."


def _expire(table: Table, query: Query, on_progress: OnProgress) -> str:
    keep = query.whole("retain_max", None, 1, 1 << 30)
    before = len(table.store.snapshot_ids())
    table.expire_snapshots(retain_max=keep, retain_min=min(keep, 1), on_progress=on_progress)
    gone = before - len(table.store.snapshot_ids())
    return f"{gone:,} snapshots went, with the files that only they needed." if gone else "There was nothing to expire."


def _tag(table: Table, query: Query, on_progress: OnProgress) -> str:
    name = query.text("name")
    number = query.number("snapshot", None, 1)
    table.create_tag(name, number)
    return f"The tag {cut(name, 100)} holds snapshot {table.tags()[name].id}."


ACTIONS: Mapping[str, Action] = {"compact": _compact, "expire": _expire, "tag": _tag}


class Jobs:
    """The jobs of this process, the newest first."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="bucketlake-ui")
        self._jobs: OrderedDict[int, Work] = OrderedDict()
        self._lock = threading.Lock()
        self._last = 0

    def start(self, action: str, given: Mapping[str, str]) -> int:
        """Put a job behind those that wait; its number. Errors: InvalidError, NotFoundError."""
        if action not in ACTIONS:
            raise InvalidError("no such job", action=cut(action, 40), remedy=f"one of {', '.join(ACTIONS)}")
        query = Query(given)
        table = table_of(self._catalog, query)
        with self._lock:
            if sum(job.state in ("waiting", "running") for job in self._jobs.values()) > WAITING:
                raise InvalidError("too many jobs wait already", waiting=WAITING, remedy="wait for one to end")
            self._last += 1
            job = Work(self._last, action, table.name, self._now())
            self._jobs[job.number] = job
            while len(self._jobs) > REMEMBERED:
                self._jobs.popitem(last=False)
        self._pool.submit(self._run, job, ACTIONS[action], table, query)
        return job.number

    def _now(self) -> int:
        return self._catalog.env.clock.now_millis()

    def _run(self, job: Work, action: Action, table: Table, query: Query) -> None:
        if job.halted.is_set():
            job.state, job.ended = "stopped", self._now()
            return
        job.state = "running"
        try:
            job.message = action(table.refresh(), query, job.told)
            job.state = "done"
        except KeyboardInterrupt:
            job.state, job.message = "stopped", "Stopped. What was finished stays."
        except BucketlakeError as error:
            job.state, job.message = "failed", cut(str(error), 1_000)
        except Exception as error:  # a job must not end without saying so
            job.state, job.message = "failed", cut(redact(f"{type(error).__name__}: {error}"), 1_000)
        finally:
            job.ended = self._now()

    def stop(self, number: int) -> None:
        """Let a job end soon. Errors: NotFoundError."""
        job = self._jobs.get(number)
        if job is None:
            raise NotFoundError("no such job", job=number)
        job.halted.set()

    def close(self) -> None:
        """Stop all, and wait for the one that runs."""
        for job in list(self._jobs.values()):
            job.halted.set()
        self._pool.shutdown(cancel_futures=True)

    def listed(self) -> list[dict[str, Any]]:
        """All that are remembered, the newest first."""
        with self._lock:
            return [job.to_dict() for job in reversed(self._jobs.values())]
