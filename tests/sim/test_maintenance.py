"""One table and everybody at it: writers (appends, deletes, merges, loads of files), compactors, a sorter, a rescaler,
expirers of snapshots, changelogs and partitions, a tagger, clones, a stream's reader, rollbacks of both kinds and an
orphan cleaner, interleaved at every storage call by a seed, with faults, kills, interrupts and jumps of the clock.

Each snapshot's rows follow from those of the snapshot that it was made on and from what its commit means. Every snapshot
and tag that is left must hold just these rows, before and after a last compaction and a last cleaning: no row is lost,
none comes back, no live file is deleted.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import SOAK, number, often
from tests.sim.beside import CLONES, MERGED, Follower, clone, load_files, merge_rows
from tests.sim.clock import FakeClock
from tests.sim.schedule import Local, Scheduler
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    Killed,
    MapStorage,
    NotingStorage,
    Raised,
)
from tests.sim.tables import ROOT, create_table, make_store, partition

from bucketlake.env.storage import FileInfo
from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.ops import progress
from bucketlake.ops.change.append_rows import delete_rows, update_rows
from bucketlake.ops.clean.expire import ExpireConfig, Limits, expire_changelogs, expire_snapshots
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.clean.partitions import expire_partitions
from bucketlake.ops.clone.clone import CloneRequest
from bucketlake.ops.cluster.request import OrderRequest, clustering_job, perform
from bucketlake.ops.commit import draft, units
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.strays import strays
from bucketlake.ops.compact.compaction import Compaction, compaction_job
from bucketlake.ops.compact.coordinator import CoordinatedPlan, Coordinator
from bucketlake.ops.compact.job import Job, run_job
from bucketlake.ops.compact.manifest_compact import compact_manifests
from bucketlake.ops.compact.postpone_compact import PendingPlan
from bucketlake.ops.compact.reformat import reformat
from bucketlake.ops.compact.running import inline
from bucketlake.ops.progress import Progress
from bucketlake.ops.refs.rollback import AS_LATEST, find_version, rollback, rollback_as_latest
from bucketlake.ops.refs.tags import create_tag, delete_tag, expire_tags, plain_snapshot, rename_tag, replace_tag
from bucketlake.ops.rescale.rescale import RescaleRequest, rescale
from bucketlake.ops.scan.partition_choice import chosen_partitions
from bucketlake.ops.table import store as stores
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.store import Store, clear_cache
from bucketlake.ops.write.postpone_write import write_counted
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.schema.schema import KIND_FIELD, BucketMode, TableSchema
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, INT, DataField, arrow_schema

DAY = 86_400_000
SLACK = DAY // 2  # by which the clock may jump while a partition is written
PARTITIONS = {partition(1): 1, partition(2): 2}
DAYS = {part: 1_699_660_800_000 + (part - 1) * DAY for part in (1, 2)}  # 2023-11-11 and the day after
FIELDS = (
    DataField(0, "pt", INT.with_nullable(False)),
    DataField(1, "k", BIGINT.with_nullable(False)),
    DataField(2, "a", INT),
    DataField(3, "b", INT),
)
FIRST = number("BUCKETLAKE_SIM_FIRST", 0, 0)
SEEDS = [FIRST + place * (1 if SOAK else 37) for place in range(number("BUCKETLAKE_SIM_SEEDS", 20, 10_000))]
Key = tuple[int, int]
Rows = Mapping[Key, tuple[int | None, int | None]]

CLUSTERED = {"clustering.columns": "b,a", "clustering.incremental": "true", "num-sorted-run.compaction-trigger": "2"}
VECTORS = {"deletion-vectors.enabled": "true"}
SEEN = {**VECTORS, "deletion-vectors.merge-on-read": "true"}
SUMS = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "max"}
PENDING = {"postpone.batch-write-fixed-bucket": "false", "postpone.merge-on-read": "true"}


@dataclass(frozen=True)
class Kind:
    """A kind of table. `late`: rows are seen once they are compacted only; `told`: a stream reads them "at once", or
    "late"."""

    name: str
    bucket: int
    keys: tuple[str, ...] = ("pt", "k")
    options: Mapping[str, str] = field(default_factory=dict)
    late: bool = False
    told: str = ""

    @property
    def engine(self) -> str:
        return self.options.get("merge-engine", "deduplicate") if self.keys else "append"


LONG = {"changelog.num-retained.max": "30", "changelog.num-retained.min": "3", "changelog.time-retained": "30 d"}
TOLD = {**LONG, "streaming-read-overwrite": "true"}

KINDS = (
    Kind("fixed", 2, options=TOLD, told="at once"),
    Kind("fixed, vectors", 2, options=SEEN),
    Kind("fixed, vectors seen late", 1, options=VECTORS, late=True),
    Kind("fixed, lookup", 2, options={"changelog-producer": "lookup", **LONG}, told="late"),
    Kind("fixed, full-compaction", 1, options={"changelog-producer": "full-compaction", **LONG}, told="late"),
    Kind("fixed, partial-update", 2, options={"merge-engine": "partial-update"}),
    Kind("fixed, aggregation", 2, options=SUMS),
    Kind("fixed, first-row", 2, options={"merge-engine": "first-row"}, late=True),
    Kind("dynamic", -1),
    Kind("dynamic, aggregation", -1, options=SUMS),
    Kind("across partitions", -1, ("k",)),
    Kind("postpone", -2, options=PENDING),
    Kind("append", -1, ()),
    Kind("append, vectors", -1, (), VECTORS),
    Kind("append, clustered", -1, (), {**VECTORS, **CLUSTERED}),
    Kind("append, buckets", 2, (), {"bucket-key": "k"}),
    Kind("append, buckets, vectors", 2, (), {"bucket-key": "k", **VECTORS}),
)


class Stamped(dict[str, bytes]):
    """Files that know when they were written."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock, self.times = clock, dict[str, int]()

    def __setitem__(self, path: str, data: bytes) -> None:
        self.times[path] = self.clock.millis
        super().__setitem__(path, data)


class TimedStorage(MapStorage):
    """Files have times; `published` is told of snapshots."""

    def __init__(self, clock: FakeClock, published: Callable[[str, bytes], None]) -> None:
        self.files: Stamped = Stamped(clock)
        self._published = published

    def put_if_absent(self, path: str, data: bytes) -> bool:
        done = super().put_if_absent(path, data)
        if done and "/snapshot/snapshot-" in path:
            self._published(path, data)
        return done

    def _timed(self, info: FileInfo) -> FileInfo:
        return replace(info, modified_millis=self.files.times.get(info.path, 0))

    def info(self, path: str) -> FileInfo | None:
        found = super().info(path)
        return None if found is None else self._timed(found)

    def list(self, path: str) -> list[FileInfo]:
        return [self._timed(info) for info in super().list(path)]

    def walk(self, path: str) -> Iterator[FileInfo]:
        return (self._timed(info) for info in list(super().walk(path)))


class JumpingClock(FakeClock):
    """Now and then it jumps, ahead by minutes, or back."""

    def __init__(self, seed: int, on_sleep: Callable[[], None], back: bool = True) -> None:
        super().__init__(seed, on_sleep)
        self.jumps = random.Random(seed + 7)
        self.ways = [1_000, 60_000, 600_000, *([-1_000, -120_000] if back else [])]

    def now_millis(self) -> int:
        if self.jumps.random() < 0.01:
            self.millis += self.jumps.choice(self.ways)
        return super().now_millis()


HERE = Local()


@dataclass
class World:
    """What every commit meant: rows by the snapshot's uuid, and who was made on whom."""

    kind: Kind
    rows: dict[str, Rows] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    rolled_back: bool = False
    moved: bool = False  # rows were given other ids
    doubtful: set[str] = field(
        default_factory=set
    )  # put where a rollback had just freed the name, and what stands on it
    written: dict[str, Mapping[int, int]] = field(default_factory=dict)  # when each partition got rows

    def note(self, name: Any, base: Snapshot | None, made: Snapshot, changes: Changes, now: int) -> None:
        before: Any = {} if base is None else self.rows[base.uuid or ""]
        times = {} if base is None else self.written[base.uuid or ""]
        self.parents[made.uuid or ""] = None if base is None else base.uuid
        what = getattr(HERE, "what", None)
        self.moved = self.moved or (what is not None and what[0] == "move")
        if name.kind is not CommitKind.COMPACT and what is not None:
            operation, told = what
            if operation == "restore":
                self.rows[made.uuid or ""], self.written[made.uuid or ""] = self.rows[told], self.written[told]
                if not self.doubtful.isdisjoint({told, base and base.uuid}):
                    self.doubtful.add(made.uuid or "")
                return
            if operation in ("expire", "clone"):
                told = self._told(operation, told, changes.table, times, made)
            elif operation in ("append", "replace", "merge"):
                times = {**times, **{key[0]: now for key in told}}
            elif operation == "delete":  # a partition is as old as the files that are left
                times = {**times, **{PARTITIONS[e.partition]: 0 for e in changes.table if e.kind == FileKind.DELETE}}
            before = self.after(before, operation, told)
        self.rows[made.uuid or ""], self.written[made.uuid or ""] = before, times
        if base is not None and base.uuid in self.doubtful:
            self.doubtful.add(made.uuid or "")

    def _told(
        self, operation: str, told: Any, table: Sequence[ManifestEntry], times: Mapping[int, int], made: Snapshot
    ) -> Any:
        """What an operation means whose partitions are known with its commit alone."""
        parts = {PARTITIONS[entry.partition] for entry in table}
        if operation == "expire":
            oldest, by_values = told
            late = [part for part in parts if (DAYS[part] if by_values else times.get(part, 0)) > oldest + SLACK]
            assert not late, f"partitions {late} are not that old"
            return parts
        rows = self.rows[told]
        assert {key[0] for key in rows} <= parts, f"the clone lacks partitions: {parts}"
        if told in self.doubtful:
            self.doubtful.add(made.uuid or "")
        # A partition that only gains files lost the keys that have come to others, or had no rows.
        return {PARTITIONS[entry.partition] for entry in table if entry.kind == FileKind.DELETE}, rows

    def after(self, state: Any, operation: str, what: Any) -> Any:
        """The rows after a commit."""
        return meaning(self.kind, state, operation, what)

    def check(self, store: Store, found: Snapshot, where: str, **travel: Any) -> None:
        if found.uuid in self.doubtful:
            return  # a writer that slept through a rollback is told that it is unknown what became of its commit
        try:
            rows = Table(store, "t").to_arrow(**travel).to_pylist()
        except NotFoundError as error:
            raise AssertionError(f"{where}: {error}") from error
        seen = Counter((row["pt"], row["k"], row["a"], row["b"]) for row in rows)
        wanted = Counter((*key, *values) for key, values in self.rows[found.uuid or ""].items())
        assert seen == wanted, f"{where}: lost {wanted - seen}, too many {seen - wanted}"

    def line(self, newest: Snapshot | None) -> set[str]:
        """The snapshots that this one stands on."""
        at = None if newest is None else newest.uuid
        found: set[str] = set()
        while at is not None:
            found.add(at)
            at = self.parents[at]
        return found


def meaning(kind: Kind, state: Rows, operation: str, what: Any) -> Rows:
    """The rows after a commit."""
    if operation == "delete":
        return {key: row for key, row in state.items() if key not in what and key[1] not in what}
    if operation == "update":
        keys, column, value = what
        new = {
            key: (value, row[1]) if column == "a" else (row[0], value) for key, row in state.items() if key[1] in keys
        }
        return {**state, **new}
    if operation == "replace":
        parts = {key[0] for key in what}
        return {key: row for key, row in state.items() if key[0] not in parts} | what
    if operation == "drop":
        return {key: row for key, row in state.items() if key[0] != what}
    if operation == "expire":
        return {key: row for key, row in state.items() if key[0] not in what}
    if operation == "clone":
        parts, rows = what
        came = {key[1] for key in rows} if kind.keys == ("k",) else ()
        return {**{key: row for key, row in state.items() if key[0] not in parts and key[1] not in came}, **rows}
    if operation == "merge":
        return {**state, **what}
    if operation != "append":
        return state
    if kind.keys == ("k",):  # a key has one row, wherever it was
        new = {key[1] for key in what}
        return {key: row for key, row in state.items() if key[1] not in new} | what
    if kind.engine == "first-row":
        return {**what, **state}
    if kind.engine in ("deduplicate", "append"):
        return {**state, **what}
    merged = dict(state)
    for key, (a, b) in what.items():
        old = merged.get(key, (None, None))
        if kind.engine == "partial-update":
            merged[key] = (old[0] if a is None else a, old[1] if b is None else b)
        else:
            sums = [value for value in (old[0], a) if value is not None]
            most = [value for value in (old[1], b) if value is not None]
            merged[key] = (sum(sums) if sums else None, max(most) if most else None)
    return merged


@dataclass
class Actor:
    """One process; a kill ends it, an interrupt only what it is doing."""

    name: str
    store: Store
    world: World
    random: random.Random
    serial: list[int]
    done: Counter[str] = field(default_factory=Counter)
    acknowledged: list[Snapshot] = field(default_factory=list)
    coordinator: Coordinator | None = None
    follower: Follower | None = None

    def loop(self, actions: tuple[str, ...], times: int) -> None:
        for step in range(times):
            action = self.random.choice(actions)
            HERE.what = None
            try:
                getattr(self, action)(f"{self.name}.{step}")
                self.done[action] += 1
            except (BucketlakeError, KeyboardInterrupt) as error:
                self.done[type(error).__name__] += 1
            except Killed:
                self.done["Killed"] += 1
                return

    # ---- rows

    def append(self, user: str) -> None:
        rows: dict[Key, tuple[int | None, int | None]] = {}
        for _ in range(self.random.randint(1, 6)):
            if self.world.kind.engine == "append":
                self.serial[0] += 1
                key = self.random.randint(1, 2), self.serial[0]
            else:
                key = self.random.randint(1, 2), self.random.randint(0, 15)
            rows[key] = tuple(self.random.choice([None, self.random.randint(0, 99)]) for _ in "ab")  # type: ignore[assignment]
        if self.world.kind.keys == ("k",):
            rows = dict({key[1]: (key, row) for key, row in rows.items()}.values())
        HERE.what = ("append", rows)
        self._write(user, rows, 0)

    def delete(self, user: str) -> None:
        if self.world.kind.engine == "append":
            newest = self.store.latest_snapshot()
            known = sorted(self.world.rows[newest.uuid or ""]) if newest is not None else []
            if known:  # rows that are there: those that another puts there meanwhile would stay
                chosen = self.random.sample(known, min(2, len(known)))
                HERE.what = ("delete", set(chosen))
                where = " OR ".join(f"pt = {part} AND k = {key}" for part, key in chosen)
                delete_rows(self.store, Table(self.store, "t").predicate(where))
        elif self.world.kind.engine == "deduplicate":
            keys = {self.random.randint(0, 15) for _ in range(3)}
            HERE.what = ("delete", keys)
            parts = (1,) if self.world.kind.keys == ("k",) else (1, 2)
            self._write(user, {(part, key): (None, None) for part in parts for key in keys}, 3)

    def update(self, user: str) -> None:
        """Rows get a new value where they are; those that another puts there before the commit get it, too."""
        if self.world.kind.engine == "append":
            newest = self.store.latest_snapshot()
            known = sorted(self.world.rows[newest.uuid or ""]) if newest is not None else []
            if known:
                keys = {key for _, key in self.random.sample(known, min(2, len(known)))}
                column, value = self.random.choice("ab"), self.random.randint(0, 99)
                HERE.what = ("update", (keys, column, value))
                where = Table(self.store, "t").predicate(f"k IN ({', '.join(map(str, sorted(keys)))})")
                update_rows(self.store, where, {column: value})

    def _write(self, user: str, rows: Rows, kind: int) -> None:
        columns = [[key[0] for key in rows], [key[1] for key in rows], *zip(*rows.values(), strict=True)]
        schema = arrow_schema(FIELDS)
        arrays = [pa.array(list(column), item.type) for column, item in zip(columns, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        kinds = None
        if self.world.kind.keys:
            batch, kinds = (
                batch.append_column(KIND_FIELD.name, pa.array([kind] * len(rows), pa.int8())),
                KIND_FIELD.name,
            )
        task = prepare_write(self.store, self.store.latest_snapshot(), commit_user=user)
        messages = write_counted(self.store, [batch], task, kinds)
        done = Table(self.store, "t").commit(messages, user)
        if done is not None:
            self.acknowledged.append(done)

    def drop(self, user: str) -> None:
        if self.world.kind.told == "late":
            return  # streams that are told by changelogs are not told of it
        part = self.random.randint(1, 2)
        HERE.what = ("drop", part)
        Commit(self.store, user).drop_partitions([{"pt": part}])

    def merge(self, user: str) -> None:
        """A MERGE into an append table: rows of few keys are updated where they are there, and else added."""
        if self.world.kind.engine != "append":
            return
        part, value = self.random.randint(1, 2), self.random.randint(0, 99)
        keys = {MERGED + number for number in self.random.sample(range(4), 2)}
        merge_rows(self.store, part, keys, value, lambda rows: setattr(HERE, "what", ("merge", rows)))

    def load(self, user: str) -> None:
        """COPY INTO of two files of few, a row each, loaded once at most while nothing is rolled back."""
        if self.world.kind.engine == "append":
            wanted = self.random.sample(range(4), 2)
            load_files(self.store, wanted, lambda rows: setattr(HERE, "what", ("append", rows)))

    # ---- maintenance

    def age(self, user: str) -> None:
        """Partitions that are too old by the time that they stand for, or by their last write."""
        if self.world.kind.told == "late":
            return
        by_values = self.random.random() < 0.5
        keep = self.random.choice([1, 3]) if by_values else 1
        oldest = self.store.env.clock.now_millis() - keep * DAY
        HERE.what = ("expire", (oldest, by_values))
        expire_partitions(
            self.store.with_options(
                {
                    "partition.expiration-time": f"{keep} d",
                    "partition.expiration-strategy": "values-time" if by_values else "update-time",
                    "partition.timestamp-pattern": "2023-11-1$pt",
                    "partition.timestamp-formatter": "yyyy-MM-dd",
                    "partition.expiration-batch-size": self.random.choice(["1", "10"]),
                }
            )
        )

    def compact(self, user: str) -> None:
        """A job, often with a commit for each unit, sometimes with a Ctrl-C after some."""
        size = self.random.choice(["1 b", "2 kb", "8 gb"])
        store = self.store.with_options({"compaction.commit-size": size})
        stop = self.random.choice([0, 1, 2, 1000])

        def tell(progress: Progress) -> None:
            if progress.units > stop:
                raise KeyboardInterrupt

        if store.schema.bucket_mode is BucketMode.POSTPONE:
            run_job(Job.of(store, PendingPlan(), on_progress=tell), inline)
        run_job(compaction_job(store, Compaction(self.random.random() < 0.7), tell), inline)

    def follow(self, user: str) -> None:
        """The coordinator of tables without buckets, which remembers; other tables are compacted by their policy."""
        if self.store.schema.bucket_mode is not BucketMode.UNAWARE:
            run_job(compaction_job(self.store, Compaction(False)), inline)
            return
        self.coordinator = self.coordinator or Coordinator(self.store)
        try:
            run_job(Job.of(self.store, CoordinatedPlan(self.coordinator)), inline)
        except BaseException:
            self.coordinator.forget()
            raise

    def sort(self, user: str) -> None:
        """Rows of tables without buckets, and of dynamic ones, in the order of a column or along a curve."""
        bit_by_bit = self.store.options.get("clustering.incremental")
        if bit_by_bit or self.store.schema.bucket_mode not in (BucketMode.UNAWARE, BucketMode.DYNAMIC):
            return
        HERE.what = ("sort", None)
        order = self.random.choice([OrderRequest("a", "order"), OrderRequest("a,k", "zorder")])
        job = clustering_job(self.store, order, None, None)
        if job is not None and self.store.latest_snapshot() is not None:
            perform(self.store, job)

    def cluster(self, user: str) -> None:
        """What is due in tables that are clustered bit by bit."""
        job = clustering_job(self.store, OrderRequest(), self.random.random() < 0.3, None)
        if job is not None and self.store.latest_snapshot() is not None:
            perform(self.store, job)

    def rescale(self, user: str) -> None:
        if self.store.schema.bucket_mode is not BucketMode.FIXED or self.store.latest_snapshot() is None:
            return
        HERE.what = ("rescale", None)
        wanted = RescaleRequest(self.random.choice([1, 2, 3, 4]) if self.world.kind.keys else 2)
        rescale(self.store, wanted, run=inline)

    def expire(self, user: str) -> None:
        """Pending rows whose snapshots have expired go by the time of their files, which jumps: these are kept."""
        most, least = (self.random.randint(2, 5), 1) if self.world.kind.bucket != -2 else (200, 200)
        config = ExpireConfig.of(self.store, Limits(retain_max=most, retain_min=least))
        expire_snapshots(self.store, config)
        if config.decoupled:
            expire_changelogs(self.store, config)

    def tag(self, user: str) -> None:
        name = f"tag{self.random.randint(0, 2)}"
        if self.random.random() < 0.4:
            delete_tag(self.store, name)
        else:
            ids = self.store.snapshot_ids()
            create_tag(self.store, name, self.random.choice(ids) if ids else 1, if_absent=True)

    def retag(self, user: str) -> None:
        """A tag that is there holds another snapshot, or gets another name."""
        names = [name for name in self.store.tags() if name.startswith("tag")]
        if not names:
            return
        name, ids = self.random.choice(names), self.store.snapshot_ids()
        free = [other for other in ("tag0", "tag1", "tag2") if other not in names]
        if free and self.random.random() < 0.5:
            rename_tag(self.store, name, free[0])
        else:
            replace_tag(self.store, name, self.random.choice(ids) if ids else 1)

    def manifests(self, user: str) -> None:
        compact_manifests(self.store.with_options({"manifest.target-file-size": self.random.choice(["1 kb", "8 mb"])}))

    def reformat(self, user: str) -> None:
        """Files in another format, or all of them anew."""
        store = self.store.with_options({"file.format": self.random.choice(["parquet", "avro"])})
        reformat(store, chosen_partitions(store, None, None), every=self.random.random() < 0.5)

    def copy(self, user: str) -> None:
        """Clone a snapshot or a tag, to a new table or over the partitions of one that is there."""
        held = [*self.store.tags().values(), *(one for one in [self.store.latest_snapshot()] if one is not None)]
        if held:
            source = plain_snapshot(self.random.choice(held))
            HERE.what = ("clone", source.uuid)
            clone(self.store, self.random.choice(CLONES), CloneRequest(source))

    def listen(self, user: str) -> None:
        """A batch of a stream, of tables that tell their changes."""
        if self.world.kind.told:
            self.follower = self.follower or Follower(self.store)
            read = self.follower.step()
            if read is not None and not self.world.rolled_back and self.world.kind.told == "at once":
                assert self.follower.state == self.world.rows[read], f"a stream has not what {read} has"

    def back(self, user: str) -> None:
        tagged = [tag.id for tag in self.store.tags().values()]
        target = find_version(self.store, self.random.choice([*self.store.snapshot_ids()[-3:], *tagged] or [1]))
        self.world.rolled_back = True
        rollback(self.store, target)

    def restore(self, user: str) -> None:
        """An old state as a new snapshot."""
        if self.world.kind.told != "late":
            tagged = [tag.id for tag in self.store.tags().values()]
            target = find_version(self.store, self.random.choice([*self.store.snapshot_ids()[-4:], *tagged] or [1]))
            HERE.what = ("restore", target.uuid)
            rollback_as_latest(self.store, target)

    def clean(self, user: str) -> None:
        """Tags whose life is over, and as `sys.remove_orphan_files` what is older than a day."""
        expire_tags(self.store)
        remove_orphans(self.store, self.store.env.clock.now_millis() - DAY, threads=1)


WRITES = ("append", "append", "append", "delete")
ROLES: dict[str, tuple[tuple[str, ...], int]] = {
    "w0": ((*WRITES, "update", "merge", "load"), 5),
    "w1": ((*WRITES, "update", "drop", "age", "merge", "load"), 5),
    "c0": (("compact",), 4),
    "c1": (("follow", "compact"), 4),
    "x": (("rescale", "sort", "cluster"), 4),
    "e": (("expire",), 3),
    "t": (("tag", "tag", "retag", "copy"), 4),
    "m": (("manifests", "reformat"), 3),
    "s": (("listen",), 3),
    "k": (("restore",), 2),
    "o": (("clean",), 2),
}


class Serial:
    """A pool of no threads."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    map = staticmethod(map)

    def submit(self, action: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(action(*arguments))
        except BaseException as error:
            done.set_exception(error)
        return done


@contextmanager
def watched(world: World) -> Iterator[None]:
    """Tell the world of every snapshot that is about to be put, and let nothing run in threads of its own."""
    real = draft.Drafts._snapshot

    def spy(self: Any, request: Any, name: Any, base: Any, *rest: Any) -> Snapshot:
        made = real(self, request, name, base, *rest)
        world.note(name, base, made, rest[0], self._store.env.clock.millis)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft.Drafts, "_snapshot", spy)
        patch.setattr(stores, "futures", SimpleNamespace(ThreadPoolExecutor=Serial))
        patch.setattr(units, "ThreadPoolExecutor", Serial)
        patch.setattr(progress, "_here", Local())
        yield


def schema_of(kind: Kind) -> TableSchema:
    texts = {
        "bucket": str(kind.bucket),
        "scan.manifest.parallelism": "1",
        "file-operation.thread-num": "1",
        "commit.max-retries": "300",
        "manifest.merge-min-count": "3",
        "write-only": "true",
        "compaction.min.file-num": "2",
        **({"bucket.auto": "true"} if kind.bucket > 0 and kind.keys else {}),
        **kind.options,
    }
    return TableSchema.create(FIELDS, ("pt",), kind.keys, texts)


@dataclass
class Run:
    """One seed: a table, its world, and who is at it."""

    seed: int
    kind: Kind
    faults: float
    rolls_back: bool
    actor: type[Actor] = Actor
    roles: Mapping[str, tuple[tuple[str, ...], int]] = field(default_factory=lambda: ROLES)

    def __post_init__(self) -> None:
        clear_cache()
        self.world = World(self.kind)
        self.scheduler = Scheduler(self.seed)
        # Pending rows of several snapshots that a rollback took away go by their files' times: docs/conflicts.md.
        back = not (self.rolls_back and self.kind.bucket == -2)
        self.clock = JumpingClock(self.seed, lambda: self.scheduler.pause(), back)
        self.inner = TimedStorage(self.clock, self.published)
        self.store = create_table(self.inner, self.clock, schema_of(self.kind))
        self.chance = random.Random(self.seed + 1)
        self.revived: set[int] = set()
        self.highest = 0
        self.team: list[Actor] = []
        self.serial = [0]
        self.whole: dict[tuple[str, str], dict[Any, Any]] = {}  # what was read, and what the reads of that day met

    def published(self, path: str, data: bytes) -> None:
        """A snapshot was put; its name may have been free again, after an expiry or a rollback."""
        if not path.startswith(f"{ROOT}/snapshot/"):
            return
        wanted = int(path.rsplit("-", 1)[1])
        if wanted <= self.highest:
            self.revived.add(wanted)
            if self.world.rolled_back:
                self.world.doubtful.add(json.loads(data)["uuid"])
        self.highest = max(self.highest, wanted)

    def plan(self, k: int, operation: str, path: str) -> str | Raised | None:
        self.scheduler.pause()
        if self.chance.random() >= self.faults:
            return None
        interrupts = [Raised(KeyboardInterrupt), Raised(KeyboardInterrupt, after=True)]
        return self.chance.choices([FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE, KILL_AFTER, *interrupts], [6, 3, 1, 1, 1, 1])[
            0
        ]

    def round(self, roles: Mapping[str, tuple[tuple[str, ...], int]]) -> None:
        self.scheduler = Scheduler(self.seed + len(self.team))
        for place, (name, (actions, times)) in enumerate(roles.items()):
            store = make_store(FaultStorage(self.inner, self.plan), self.clock, self.store.schema)
            chance = random.Random(self.seed * 100 + place + len(self.team) * 1000)
            actor = self.actor(f"{name}-{len(self.team)}", store, self.world, chance, self.serial)
            self.team.append(actor)
            self.scheduler.spawn(name, lambda actor=actor, actions=actions, times=times: actor.loop(actions, times))  # type: ignore[misc]
        self.scheduler.run()
        for task in self.scheduler._tasks:
            if task.error is not None:
                raise AssertionError(f"{task.name}: {task.error!r}") from task.error

    def check(self, where: str) -> None:
        """Every snapshot and tag. One whose files are all as they were when it was read needs not be read again."""
        clear_cache()
        noting = NotingStorage(self.inner)
        store, noted = (make_store(one, self.clock, self.store.schema) for one in (self.inner, noting))
        still = {place: noting.is_as_met(met) for place, met in {id(met): met for met in self.whole.values()}.items()}

        def read(found: Snapshot, name: str, **travel: Any) -> None:
            what = found.uuid or "", name
            if what not in self.whole or not still[id(self.whole[what])]:
                self.world.check(noted, found, f"{where}, {name}", **travel)
                self.whole[what] = noting.met

        ids = store.snapshot_ids()
        below = {*strays(ids), *self.revived}
        for found in ids if not self.kind.late else ids[-1:] if where == "compacted" else ():
            if found not in below or found == ids[-1]:
                read(store.snapshot(found), f"snapshot {found}", scan_snapshot_id=found)
        for name, tag in store.tags().items() if not self.kind.late else ():
            read(tag, f"tag {name}", scan_tag_name=name)
        self.check_clones(where)
        if not self.world.rolled_back:
            line = self.world.line(store.latest_snapshot())
            lost = [one.id for actor in self.team for one in actor.acknowledged if one.uuid not in line]
            assert not lost, f"{where}: acknowledged commits are gone: {lost}"

    def check_clones(self, where: str) -> None:
        """The newest snapshot of each clone."""
        for root in CLONES if not self.kind.late else ():
            own = make_store(self.inner, self.clock, self.store.schema, root)
            if self.inner.list(own.paths.schema_dir) and (newest := own.latest_snapshot()) is not None:
                self.world.check(own.with_schema(own.latest_schema()), newest, f"{where}, {root}")

    def check_followers(self) -> None:
        """What streams' readers have in the end, of tables that were never rolled back."""
        newest = make_store(self.inner, self.clock, self.store.schema).latest_snapshot()
        for actor in self.team:
            if actor.follower is not None and newest is not None:
                actor.follower.store = make_store(self.inner, self.clock, self.store.schema)
                with suppress(NotFoundError, InvalidError):
                    actor.follower.step()
                    wanted = self.world.rows[newest.uuid or ""]
                    assert actor.follower.state == wanted, f"{actor.name} has read {actor.follower.state}, not {wanted}"

    def go(self) -> Counter[str]:
        HERE.what = None
        with watched(self.world):
            roles = {**self.roles, **({"r": (("back",), 2)} if self.rolls_back else {})}
            self.round({name: role for name, role in roles.items() if name != "o"})
            self.check("after the first day")
            self.clock.millis += 3 * DAY
            self.round(roles)
            self.check("after the second day")
            HERE.what = None
            store = make_store(self.inner, self.clock, self.store.schema)
            kept = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
            Table(store, "t").compact(bucket_auto=False, **(kept if self.kind.bucket == -2 else {}))  # see Actor.expire
            self.check("compacted")
            if self.kind.told and not self.world.rolled_back:
                self.check_followers()
            self.clock.millis += 9 * DAY
            expire_tags(store)  # what rollbacks that died left
            assert all(name.startswith(("tag", AS_LATEST)) for name in store.tags()), f"whose are {store.tag_names()}?"
            if not self.revived:
                remove_orphans(store, 1 << 60, threads=1)
                self.check("cleaned")
        return sum((actor.done for actor in self.team), Counter())


def run(seed: int) -> Counter[str]:
    """One seed decides the kind of table, too."""
    kind = KINDS[seed % len(KINDS)]
    faults = (0.0, 0.003, 0.01)[seed // len(KINDS) % 3]
    rolls_back = seed // (3 * len(KINDS)) % 2 == 1
    try:
        return Run(seed, kind, faults, rolls_back).go() + Counter({kind.name: 1})
    except (AssertionError, BucketlakeError, LookupError) as error:
        raise AssertionError(f"seed {seed}, {kind.name}, faults {faults}, back {rolls_back}: {error}") from error


def test_nobody_loses_a_row() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        seen += run(seed)
    assert min(seen[action] for actions, _ in ROLES.values() for action in actions) > often(100), seen
