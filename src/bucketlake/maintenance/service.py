"""The maintainer: looks at tables by turns, does what is due, keeps the lease, ends when it is told.

    maintain(catalog, Service(…), once=False) -> [Event]

A pass goes over rules, in their order, and over the tables that each chooses. What fails is told, and due again after
the rule's time; it stops nothing else. The lease is kept while a long action runs; where it is lost the action ends
with what it has finished, and the maintainer waits for its turn.

Spec: docs/spec/maintenance.md#service
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Any

from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError, NotFoundError, is_interrupt
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.maintenance.lease import Alone, Lease
from bucketlake.maintenance.rules import DEFAULT_RULES, Event, Rule, Tell
from bucketlake.ops.clean.expire import after_commit
from bucketlake.ops.clean.partitions import worth_compacting
from bucketlake.ops.cluster.job import Job as ClusteringJob
from bucketlake.ops.cluster.request import OrderRequest, clustering_job, perform
from bucketlake.ops.compact.compaction import Compaction, compaction_job
from bucketlake.ops.compact.coordinator import CoordinatedPlan, Coordinator
from bucketlake.ops.compact.job import Job, run_job
from bucketlake.ops.compact.postpone_compact import PendingPlan
from bucketlake.ops.compact.running import Runner, here
from bucketlake.ops.progress import OnProgress, Progress
from bucketlake.ops.rescale.rescale import rescale_due
from bucketlake.ops.scan.partition_choice import both, idle
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.options.options import parse_duration
from bucketlake.schema.schema import BucketMode
from bucketlake.table import Table
from bucketlake.values import dataclass

__all__ = ["Service", "maintain"]

LONGEST_PAUSE = 10.0  # seconds
Prepare = Callable[[Store, "PartitionFilter | None", "OnProgress | None"], "Snapshot | None"]


class _Lost(BaseException):
    """The lease went to another one while an action ran."""


def prepare_here(store: Store, wanted: PartitionFilter | None, on_progress: OnProgress | None) -> Snapshot | None:
    """What comes before a compaction, in this process: pending rows, partitions whose number of buckets is off."""
    if store.schema.bucket_mode is BucketMode.POSTPONE:
        return run_job(Job.of(store, PendingPlan(wanted), "place pending rows", on_progress))
    return rescale_due(store, wanted, on_progress=on_progress) if store.schema.primary_keys else None


@dataclass(frozen=True)
class Service:
    """How to maintain. `run`, `prepare`, `cluster`: who runs units, what comes before a compaction, who puts rows in
    order where a table is clustered incrementally; `lease`: for how long the
    leadership is taken each time; `on_event`, `on_progress`: who is told; `stop`: asked between actions."""

    rules: tuple[Rule, ...] = DEFAULT_RULES
    lease: str = "5 min"
    run: Runner = here
    prepare: Prepare = prepare_here
    cluster: Callable[[Store, ClusteringJob], Snapshot | None] = perform
    on_event: Tell = lambda event: None
    on_progress: OnProgress | None = None
    stop: Callable[[], bool] = lambda: False


def maintain(catalog: Catalog, service: Service, once: bool = False) -> list[Event]:
    """Maintain the tables of a warehouse until it is told to stop: by `stop`, SIGTERM or Ctrl-C, or what `on_event` or
    `on_progress` raises as KeyboardInterrupt; then what is finished is committed, and the lease is given back.

    `once`: one pass over everything, or none where another one leads. The events of the last pass.
    """
    loop = _Loop(catalog, service)
    with _terminated():
        try:
            while True:
                loop.events = []
                pause = loop.turn()
                if once or service.stop():
                    break
                catalog.env.clock.sleep(pause)
        except BaseException as error:
            if not is_interrupt(error):
                raise
            with suppress(KeyboardInterrupt):
                loop.tell(Event("stopped"))
        finally:
            with suppress(BucketlakeError):
                loop.lease.release()
    return loop.events


@dataclass
class _Loop:
    """One maintainer. `done`: when a rule was last applied to a table, in milliseconds."""

    catalog: Catalog
    service: Service
    events: list[Event] = field(default_factory=list)
    done: dict[tuple[int, str], int] = field(default_factory=dict)
    coordinators: dict[str, tuple[Any, Coordinator]] = field(default_factory=dict)
    leads: bool | None = None

    def __post_init__(self) -> None:
        clock = self.catalog.env.clock
        millis = parse_duration(self.service.lease)
        holder = f"maintainer-{clock.new_uuid()}"
        if self.catalog.metastore.has_folder:
            self.lease: Lease | Alone = Lease(self.catalog.env, self.catalog.warehouse, holder, millis)
        else:
            self.lease = Alone(holder)

    def tell(self, event: Event) -> None:
        """Keep an event, and tell of it."""
        self.events.append(event)
        self.service.on_event(event)

    def turn(self) -> float:
        """Do what is due, if this one leads; seconds until something is."""
        if not self._holds():
            return min(LONGEST_PAUSE, parse_duration(self.service.lease) / 2000)
        try:
            names = self._tables()
            for place, rule in enumerate(self.service.rules):
                for name in filter(rule.chooses, names):
                    if self.service.stop():
                        return 0.0
                    self._apply(place, rule, name)
        except _Lost:
            self.tell(Event("lost"))
            self.leads = None
            return LONGEST_PAUSE
        now = self.catalog.env.clock.now_millis()
        times = [self.done[place, name] + self.service.rules[place].every_millis for place, name in self.done]
        return max(0.1, min([LONGEST_PAUSE, *((time - now) / 1000 for time in times)]))

    def _holds(self) -> bool:
        try:
            held = self.lease.hold()
        except BucketlakeError as error:
            self.tell(Event("failed", action="lease", error=error))
            return False
        if held != self.leads:
            self.tell(Event("leads" if held else "waits"))
            self.leads = held
        return held

    def _tables(self) -> list[str]:
        found: list[str] = []
        for database in self.catalog.list_databases():
            with suppress(NotFoundError):  # dropped meanwhile
                found += self.catalog.tables(database)
        return found

    def _apply(self, place: int, rule: Rule, name: str) -> None:
        clock = self.catalog.env.clock
        started = clock.now_millis()
        last = self.done.get((place, name))
        if last is not None and last <= started < last + rule.every_millis:
            return
        if not self._holds():
            raise _Lost
        try:
            found = self.catalog.table(name, rule.table_options)
            if rule.action == "compact":
                what = self._compact(found, rule)
            else:
                what = _ACTIONS[rule.action](found, self._progress)
            self.tell(Event("nothing" if not what else "did", name, rule.action, what or None))
        except Exception as error:  # one that fails stops no other
            if is_interrupt(error):
                raise KeyboardInterrupt from error
            self.tell(Event("failed", name, rule.action, error=error, seconds=(clock.now_millis() - started) / 1000))
        self.done[place, name] = clock.now_millis()

    # ---- compaction

    def _compact(self, table: Table, rule: Rule) -> int | None:
        """The snapshot's id."""
        store = table.for_changing().store
        chosen = worth_compacting(store)
        if rule.idle is not None:
            chosen = both(chosen, idle(store, store.latest_snapshot(), parse_duration(rule.idle)))
        ordered = clustering_job(store, OrderRequest(), rule.full or None, chosen)
        if ordered is not None:  # a table that is clustered incrementally
            done = after_commit(store, self.service.cluster(store, ordered), dedicated=True)
            return None if done is None else done.id
        placed = self.service.prepare(store, chosen, self._progress)
        remembers = store.schema.bucket_mode is BucketMode.UNAWARE and not rule.full and rule.idle is None
        if remembers:
            job = self._followed(table.name, store)
        else:
            job = compaction_job(store, Compaction(rule.full, chosen), self._progress)
        try:
            done = run_job(job, self.service.run)
        except BaseException:
            self.coordinators.pop(table.name, None)
            raise
        newest = after_commit(store, done or placed, dedicated=True)
        return None if newest is None else newest.id

    def _followed(self, name: str, store: Store) -> Job:
        """What the table's coordinator finds; it is new where the table is defined otherwise than when it was made."""
        shape = store.schema.encode()
        known = self.coordinators.get(name)
        if known is None or known[0] != shape:
            known = self.coordinators[name] = shape, Coordinator(store, worth_compacting(store))
        return Job.of(store, CoordinatedPlan(known[1]), "compact", self._progress)

    def _progress(self, progress: Progress) -> None:
        if not self._holds():
            raise _Lost
        if self.service.on_progress is not None:
            self.service.on_progress(progress)


def _partitions(table: Table, on_progress: OnProgress) -> int:
    if table.options.get("partition.expiration-time") is None or not table.schema.partition_keys:
        return 0
    return len(table.expire_partitions(on_progress=on_progress))


_ACTIONS: dict[str, Callable[[Table, OnProgress], int]] = {
    "expire_snapshots": lambda table, tell: table.expire_snapshots(on_progress=tell).snapshots,
    "expire_changelogs": lambda table, tell: table.expire_changelogs(on_progress=tell).changelogs,
    "expire_tags": lambda table, tell: len(table.expire_tags()),
    "expire_partitions": _partitions,
    "remove_orphan_files": lambda table, tell: table.remove_orphan_files(on_progress=tell).count,
}


@contextmanager
def _terminated() -> Iterator[None]:
    """In the block SIGTERM is a KeyboardInterrupt, in the main thread; elsewhere signals are not ours."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
