"""Who is at a table: writers, compactors, a sorter, a rescaler, expirers, taggers, listeners, rollbacks, a cleaner."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
from tests.sim.beside import CLONES, MERGED, Follower, clone, load_files, merge_rows
from tests.sim.storage import (
    Killed,
)
from tests.sim.world import (
    DAY,
    FIELDS,
    HERE,
    Key,
    Rows,
    World,
)

from bucketlake.errors import BucketlakeError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.change.append_rows import delete_rows, update_rows
from bucketlake.ops.clean.expire import ExpireConfig, Limits, expire_changelogs, expire_snapshots
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.clean.partitions import expire_partitions
from bucketlake.ops.clone.clone import CloneRequest
from bucketlake.ops.cluster.request import OrderRequest, clustering_job, perform
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.compact.compaction import Compaction, compaction_job
from bucketlake.ops.compact.coordinator import CoordinatedPlan, Coordinator
from bucketlake.ops.compact.job import Job, run_job
from bucketlake.ops.compact.manifest_compact import compact_manifests
from bucketlake.ops.compact.postpone_compact import PendingPlan
from bucketlake.ops.compact.reformat import reformat
from bucketlake.ops.compact.running import inline
from bucketlake.ops.progress import Progress
from bucketlake.ops.refs.rollback import find_version, rollback, rollback_as_latest
from bucketlake.ops.refs.tags import create_tag, delete_tag, expire_tags, plain_snapshot, rename_tag, replace_tag
from bucketlake.ops.rescale.rescale import RescaleRequest, rescale
from bucketlake.ops.scan.partition_choice import chosen_partitions
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.postpone_write import write_counted
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.schema.schema import KIND_FIELD, BucketMode
from bucketlake.table import Table
from bucketlake.types.model import arrow_schema


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
                keys = set(self.random.sample(known, min(2, len(known))))
                column, value = self.random.choice("ab"), self.random.randint(0, 99)
                HERE.what = ("update", (keys, column, value))
                text = " OR ".join(f"(pt = {part} AND k = {key})" for part, key in sorted(keys))
                update_rows(self.store, Table(self.store, "t").predicate(text), {column: value})

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
