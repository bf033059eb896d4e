"""A world of one table: kinds of tables, what every commit means for its rows, storage and clock that have times."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.sim.clock import FakeClock
from tests.sim.schedule import Local
from tests.sim.storage import (
    MapStorage,
)
from tests.sim.tables import partition

from bucketlake.env.storage import FileInfo
from bucketlake.errors import NotFoundError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.store import Store
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, INT, DataField

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
Key = tuple[int, int]
Rows = Mapping[Key, tuple[int | None, int | None]]

CLUSTERED = {"clustering.columns": "b,a", "clustering.incremental": "true", "num-sorted-run.compaction-trigger": "2"}
VECTORS = {"deletion-vectors.enabled": "true"}
SEEN = {**VECTORS, "deletion-vectors.merge-on-read": "true"}
ANOTHER_ORDER = {"pk-clustering-override": "true", "clustering.columns": "b,a", "target-file-size": "4 kb"}
INDEXED = {"pk-btree.index.columns": "a", "pk-bitmap.index.columns": "b", "num-sorted-run.compaction-trigger": "2"}
SUMS = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "max"}
BY_LEVEL = {"file.format.per.level": "0:avro,5:parquet", "num-sorted-run.compaction-trigger": "2"}
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
LOOKUP = {**LONG, "changelog-producer": "lookup"}
TOLD = {**LONG, "streaming-read-overwrite": "true"}

KINDS = (
    Kind("fixed", 2, options=TOLD, told="at once"),
    Kind("fixed, vectors", 2, options=SEEN),
    Kind("fixed, vectors seen late", 1, options=VECTORS, late=True),
    Kind("fixed, lookup", 2, options=LOOKUP, told="late"),
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
    Kind("fixed, clustered", 2, options={**SEEN, **ANOTHER_ORDER}),
    Kind("dynamic, clustered", -1, options={**SEEN, **ANOTHER_ORDER}),
    Kind("fixed, indexed", 2, options={**VECTORS, **INDEXED}, late=True),
    Kind("fixed, first-row, lookup", 2, options={"merge-engine": "first-row", **LOOKUP}, late=True, told="late"),
    Kind("fixed, partial-update, lookup", 2, options={"merge-engine": "partial-update", **LOOKUP}, told="late"),
    Kind("fixed, aggregation, lookup", 2, options={**SUMS, **LOOKUP}, told="late"),
    Kind("fixed, aggregation, vectors", 2, options={**SUMS, **SEEN}),
    Kind("fixed, lookup, vectors", 2, options={**LOOKUP, **SEEN}, told="late"),
    Kind("fixed, formats by level", 2, options=BY_LEVEL),
    Kind("dynamic, lookup", -1, options=LOOKUP, told="late"),
    Kind("dynamic, first-row", -1, options={"merge-engine": "first-row"}, late=True),
    Kind("across partitions, lookup", -1, ("k",), options=LOOKUP, told="late"),
    Kind("postpone, aggregation", -2, options={**PENDING, **SUMS}),
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
            if operation in ("update", "delete") and self.kind.engine == "append":
                told = self._found(operation, told)
            elif operation in ("expire", "clone"):
                told = self._told(operation, told, changes.table, times, made)
            elif operation in ("append", "replace", "merge"):
                times = {**times, **{key[0]: now for key in told}}
            if operation == "delete":  # a partition is as old as the files that are left
                times = {**times, **{PARTITIONS[e.partition]: 0 for e in changes.table if e.kind == FileKind.DELETE}}
            before = self.after(before, operation, told)
        self.rows[made.uuid or ""], self.written[made.uuid or ""] = before, times
        if base is not None and base.uuid in self.doubtful:
            self.doubtful.add(made.uuid or "")

    def _found(self, operation: str, told: Any) -> Any:
        """What a change of an append table means: rows that came, or came back, behind the snapshot that it was planned
        on are not changed."""
        planned_on = HERE.planned_on
        rows = {} if planned_on is None else self.rows[planned_on.uuid or ""]
        keys, *values = told if operation == "update" else (told,)
        found = {key for key in rows if key in keys or key[1] in keys}
        return (found, *values) if operation == "update" else found

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
        hit = {key: row for key, row in state.items() if key in keys or key[1] in keys}
        new = {key: (value, row[1]) if column == "a" else (row[0], value) for key, row in hit.items()}
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
