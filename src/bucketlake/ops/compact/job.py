"""A job of many units: planned, run, committed in batches as they finish, planned anew where others came first.

    Plan                     what a kind of job does: plans units, works on one, publishes finished ones
    Job(store, plan, …)      one table's job; run_jobs(jobs, run) runs several together
    Limits.of(options)       how much is finished before it is committed: bytes, time

What is finished is committed whenever it is large enough or old enough, beside whatever others commit; units that
others came before are planned anew on the newest snapshot, a bounded number of times. An interrupt (Ctrl-C, or what
`on_progress` raises) ends the job within seconds, with what is finished committed; a process that dies leaves the files
of uncommitted units, which are orphans, and the next job begins with what is left.

Spec: docs/spec/maintenance.md
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, Protocol

from bucketlake.errors import ConflictError, NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.outcome import SHORTEST_PAUSE, Outcome
from bucketlake.ops.commit.partial import Partly, publish_standing
from bucketlake.ops.compact.running import Done, Runner, Running, Task, Work, here
from bucketlake.ops.progress import Meter, OnProgress
from bucketlake.ops.table.known import knowing
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.retry import ATTEMPTS, has_moved
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.options.options import TableOptions
from bucketlake.values import dataclass

__all__ = ["Job", "Limits", "Plan", "run_job", "run_jobs"]

Places = frozenset[Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is finished is committed at `bytes` of it, or `millis` after the first of it was finished."""

    bytes: int
    millis: int

    @classmethod
    def of(cls, options: TableOptions) -> Limits:
        """As the table says."""
        return cls(options.get("compaction.commit-size"), options.get("compaction.commit-interval"))


class Plan(Protocol):
    """What a kind of job does. `whole`: its commits stand or fall as a whole, so that where one is lost its groups are
    tried by themselves; else `publish` says which were lost."""

    @property
    def whole(self) -> bool:
        """See above."""

    @property
    def work(self) -> Work:
        """What becomes of a unit."""

    def units(self, store: Store, base: Snapshot, only: Places | None) -> Sequence[Any]:
        """What is to do on a snapshot, of these places only (None: of all): units with `size` and `row_count`."""

    def place(self, unit: Any) -> Hashable:
        """What is planned anew where this unit was lost."""

    def group(self, unit: Any) -> Hashable:
        """Units of one group are committed together, once all of them are finished."""

    def publish(self, store: Store, user: str, groups: Sequence[Group], outcome: Outcome) -> Partly:
        """Commit groups, as many as stand."""


class Compacting:
    """The parts of a plan whose units stand for themselves."""

    whole = False

    def place(self, unit: Any) -> Hashable:
        """See Plan: its bucket."""
        return unit.partition, unit.bucket

    def group(self, unit: Any) -> Hashable:
        """See Plan: each by itself."""
        return id(unit)

    def publish(self, store: Store, user: str, groups: Sequence[Group], outcome: Outcome) -> Partly:
        """See Plan."""
        return publish_standing(store, user, [group.messages for group in groups], outcome)


@dataclass(slots=True)
class Group:
    """Units that are committed together, and what has become of them. `left`: how many are not finished."""

    units: list[Any]
    left: int
    messages: list[CommitMessage] = field(default_factory=list)
    broken: bool = False

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(unit.size for unit in self.units)


@dataclass(slots=True)
class Job:
    """One table's job. `snapshot`: the newest that it committed; `failed`: why it was given up; `left`: places of units
    that were lost, and not tried again."""

    store: Store
    plan: Plan
    meter: Meter
    user: str = ""
    limits: Limits = field(default_factory=lambda: Limits(1 << 62, 1 << 62))
    snapshot: Snapshot | None = None
    failed: Exception | None = None
    left: set[Any] = field(default_factory=set)
    reason: Exception | None = None
    base: Snapshot | None = None
    planned: bool = False
    groups: dict[Hashable, Group] = field(default_factory=dict)
    ready: list[Group] = field(default_factory=list)
    since: int = 0

    @classmethod
    def of(cls, store: Store, plan: Plan, name: str = "compact", on_progress: OnProgress | None = None) -> Job:
        """A job by the table's own limits."""
        meter = Meter.of_table(name, store.paths.root, store.env.clock, on_progress)
        return cls(store, plan, meter, new_commit_user(store), Limits.of(store.options))

    # ---- planning

    def tasks(self, job: int) -> list[Task]:
        """What is to do in the next round: everything, then what was lost; empty once nothing is."""
        only = frozenset(self.left) if self.planned else None
        if self.failed is not None or (only is not None and not only):
            return []
        try:
            units = self._units(only)
        except Exception as error:
            self.failed = error
            return []
        self.planned, self.left, self.groups = True, set(), {}
        for unit in units:
            group = self.groups.setdefault(self.plan.group(unit), Group([], 0))
            group.units.append(unit)
            group.left += 1
        if only is None:
            self.meter.expect(len(units), sum(unit.row_count for unit in units), sum(unit.size for unit in units))
        return [Task(self.store, self.plan.work, unit, job) for unit in units]

    def _units(self, only: Places | None) -> Sequence[Any]:
        for again in (True, True, False):
            self.base = self.store.latest_snapshot()
            self.store.check_holds(self.base)
            self.store = knowing(self.store, self.base)
            try:
                return [] if self.base is None else self.plan.units(self.store, self.base, only)
            except NotFoundError:
                if not again or not has_moved(self.store, self.base):
                    raise  # else it expired under the plan
        return []

    # ---- what is done

    def take(self, unit: Any, done: Done) -> None:
        """What has become of one unit."""
        group = self.groups[self.plan.group(unit)]
        group.left -= 1
        group.messages += done.messages
        if done.error is not None:
            group.broken = True
            self._note(unit, done.error)
        if not group.left and group.broken:
            self._drop([group])
        elif not group.left and group.messages:
            self.since = self.since if self.ready else self._now()
            self.ready.append(group)
        if done.error is None:
            self.meter.add(1, unit.row_count, unit.size)

    def _note(self, unit: Any, error: BaseException) -> None:
        """A unit failed: others came first, or the job cannot go on."""
        if not isinstance(error, Exception):
            return
        gone = isinstance(error, NotFoundError) and has_moved(self.store, self.base)
        if gone or type(error) is ConflictError:
            self.reason = error
            self.left.add(self.plan.place(unit))
        else:
            self.failed = self.failed or error

    def _lose(self, units: Iterable[Any]) -> None:
        places = [self.plan.place(unit) for unit in units]
        self.left.update(places)
        if places:
            self.meter.lose(len(places))

    def _drop(self, groups: Iterable[Group]) -> None:
        with suppress(Exception):  # what stays is an orphan
            Commit(self.store, self.user).abort(message for group in groups for message in group.messages)

    # ---- committing

    def flush_due(self) -> float | None:
        """Commit what is finished if it is enough; seconds until it will have been long enough, None: nothing waits."""
        if not self.ready:
            return None
        left = self.since + self.limits.millis - self._now()
        if left <= 0 or sum(group.size for group in self.ready) >= self.limits.bytes:
            self.flush()
            return None
        return left / 1000

    def flush(self) -> None:
        """Commit what is finished. Where that fails the job has failed; an interrupt that comes before anything was
        sent leaves it to be committed once more."""
        waiting = [self.ready] if self.ready else []
        self.ready = []
        while waiting:
            groups = waiting.pop()
            try:
                waiting += self._publish(groups)
            except BaseException:
                self.ready = [group for part in [*waiting, self.ready] for group in part]
                raise

    def _publish(self, groups: list[Group]) -> list[list[Group]]:
        """Commit groups; parts of them to be tried by themselves."""
        outcome = Outcome()
        try:
            done = self.plan.publish(self.store, self.user, groups, outcome)
        except Exception as error:
            if not outcome.free:  # no file of theirs may go
                self.failed = self.failed or outcome.unknown(error)
                return []
            if type(error) is not ConflictError or not self.plan.whole:
                self.failed = self.failed or error
                self._drop(groups)
                return []
            middle = len(groups) // 2
            if middle:
                return [groups[:middle], groups[middle:]]
            done = Partly(None, (0,), error)
        except BaseException:
            if outcome.free:
                self.ready += groups
            raise
        lost = [groups[place] for place in done.lost]
        self._drop(lost)
        self.reason = done.reason or self.reason
        self.snapshot = done.snapshot or self.snapshot
        self._lose(unit for group in lost for unit in group.units)
        if done.snapshot is not None:
            self.meter.commit()
        return []

    def discard(self) -> None:
        """Remove what is written of groups that will not be whole any more, or whose commit was broken off again."""
        self._drop([*(group for group in self.groups.values() if group.left), *self.ready])
        self.groups, self.ready = {}, []

    def finish(self) -> Snapshot | None:
        """The newest snapshot; raises why the job failed, or that others always came first."""
        self.meter.finish()
        if self.failed is not None:
            raise self.failed
        if self.left and self.snapshot is None:
            raise self.reason or ConflictError("other commits kept coming first", path=self.store.paths.root)
        if self.left:
            warnings.warn(
                f"{self.store.paths.root}: other commits kept coming before {len(self.left)} units, which were left: "
                f"{self.reason}",
                stacklevel=3,
            )
        return self.snapshot

    def _now(self) -> int:
        return self.store.env.clock.now_millis()


def run_job(job: Job, run: Runner = here) -> Snapshot | None:
    """Run one job to its end; the newest snapshot that it committed, None where there was nothing to do.

    Errors: what a unit or a commit raised, once all that was finished is committed; ConflictError where others came
    first before everything. Interrupts are raised after a last commit.
    """
    run_jobs([job], run)
    return job.finish()


def run_jobs(jobs: Sequence[Job], run: Runner = here) -> None:
    """Run the jobs of several tables together, their units largest first. One that fails stops no other: look at
    `failed`, or call `finish`. Interrupts are raised after a last commit."""
    for attempt in range(ATTEMPTS):
        tasks = [task for place, job in enumerate(jobs) for task in job.tasks(place)]
        if not tasks:
            return
        if attempt:
            clock = jobs[0].store.env.clock
            clock.sleep(SHORTEST_PAUSE * 2 ** min(attempt - 1, 6) * (1 + clock.jitter()))
        tasks.sort(key=lambda task: task.size, reverse=True)
        _round(jobs, tasks, run)


def _round(jobs: Sequence[Job], tasks: Sequence[Task], run: Runner) -> None:
    running = run(tasks)
    try:
        _follow(jobs, tasks, running)
        for job in jobs:
            job.flush()
            if job.failed is not None:
                job.discard()
    except BaseException as interrupt:
        _end(jobs, tasks, running, interrupt)
        raise


def _follow(jobs: Sequence[Job], tasks: Sequence[Task], running: Running) -> None:
    wait: float | None = None
    while (found := running.wait(wait)) is not None:
        for done in found:
            if done.error is not None and not isinstance(done.error, Exception):
                raise done.error
            task = tasks[done.place]
            jobs[task.job].take(task.unit, done)
        waits = [job.flush_due() for job in jobs]
        wait = min((one for one in waits if one is not None), default=None)
        if any(job.failed for job in jobs):
            running.skip(lambda task: jobs[task.job].failed is not None)


def _end(jobs: Sequence[Job], tasks: Sequence[Task], running: Running, interrupt: BaseException) -> None:
    """Stop what runs, and commit what is finished."""
    for done in running.stop():
        task = tasks[done.place]
        if done.error is None or isinstance(done.error, Exception):
            with suppress(Exception):
                _quietly(jobs[task.job]).take(task.unit, done)
    for job in jobs:
        try:
            _quietly(job).flush()
        finally:
            job.discard()
        if job.failed is not None:
            getattr(interrupt, "add_note", str)(f"{job.store.paths.root}: {job.failed}")  # Python 3.11


def _quietly(job: Job) -> Job:
    """The job, telling nobody any more."""
    job.meter = Meter(job.meter.now.operation, job.meter.now.table, job.store.env.clock)
    return job
