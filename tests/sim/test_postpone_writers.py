"""Writers and compactors of one postpone table, interleaved at every storage call by a seed, with faults and kills.

The model goes from snapshot to snapshot: what was appended or deleted, pending or not; what a compaction moved. Every
snapshot must show the real rows by default, and the pending ones over them with `postpone.merge-on-read`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from tests.profile import often, seeds
from tests.sim import team
from tests.sim.storage import MapStorage
from tests.sim.test_dynamic_writers import FIELDS, Rows, batch

from bucketlake.format.metadata.manifest import FileKind
from bucketlake.ops.buckets import dealt
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.compact import pending_whole, postpone_compact
from bucketlake.ops.compact.postpone_compact import PendingPlan, place_pending
from bucketlake.ops.scan.scan import delta_entries, live_entries
from bucketlake.ops.table.store import clear_cache
from bucketlake.ops.write.postpone_write import write_counted
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table

OPERATIONS = ("pend",) * 4 + ("fix",) * 3 + ("delete", "overwrite", "drop")
SEEDS = seeds(11, 200)
OPTIONS = {
    "bucket": "-2",
    "scan.manifest.parallelism": "1",
    "postpone.target-row-num-per-bucket": "3",
    "commit.max-retries": "300",
}
Change = tuple[str, dict[tuple[int, int], int | None]]


@dataclass
class Worker(team.Writer):
    """A writer, or a compactor."""

    compacts: bool = False

    def act(self, user: str) -> None:
        if self.compacts:
            self.compact(user)
        else:
            self.write(user, self.random.choice(self.operations))

    def compact(self, user: str) -> None:
        if self.random.random() < 0.5:
            place_pending(self.table.store, PendingPlan(parallelism=self.random.randint(1, 4)))
        else:
            self.table.compact(partitions=self.random.choice([None, [{"pt": 1}]]))

    def write(self, user: str, operation: str) -> None:
        if operation == "drop":
            part = self.random.randint(1, 2)
            self.log[user] = ("drop", {(part, 0): None})
            Commit(self.table.store, user).drop_partitions([{"pt": part}])
            return
        count, chance = self.random.randint(1, 8), self.random
        rows: Rows = {(chance.randint(1, 2), chance.randint(0, 9)): chance.randint(0, 999) for _ in range(count)}
        kind = 3 if operation == "delete" else 0
        pending = operation == "pend" or self.random.random() < 0.5
        meaning = "overwrite" if operation == "overwrite" else "append"
        self.log[user] = (
            f"{meaning} {'pending' if pending else 'real'}",
            {k: None if kind else v for k, v in rows.items()},
        )
        table = self.table.with_options({"postpone.batch-write-fixed-bucket": str(not pending).lower()})
        whole = operation == "overwrite"
        task = prepare_write(table.store, table.store.latest_snapshot(), commit_user=user, overwrite=whole)
        messages = write_counted(table.store, [batch(rows, kind)], task, KIND_FIELD.name, whole)
        table.commit(messages, user, mode="overwrite" if whole else "append")


@dataclass
class Model:
    """Real rows, and pending rows by file name in the order of their commits."""

    real: dict[tuple[int, int], int | None] = field(default_factory=dict)
    pending: dict[str, dict[tuple[int, int], int | None]] = field(default_factory=dict)

    def seen(self, merging: bool) -> Counter[tuple[int, int, int]]:
        rows = dict(self.real)
        for more in self.pending.values() if merging else ():
            rows |= more
        return Counter((*key, value) for key, value in rows.items() if value is not None)

    def apply(self, change: Change, added: dict[str, int]) -> None:
        """`added`: the pending files of the commit, with their partitions."""
        kind, rows = change
        if kind == "drop" or kind.startswith("overwrite"):
            gone = {part for part, _ in rows}
            self.real = {key: value for key, value in self.real.items() if key[0] not in gone}
            kept = {name: {k: v for k, v in more.items() if k[0] not in gone} for name, more in self.pending.items()}
            self.pending = {name: more for name, more in kept.items() if more}
        if kind.endswith("real"):
            self.real |= rows
        if kind.endswith("pending"):
            for name, part in added.items():
                self.pending[name] = {key: value for key, value in rows.items() if key[0] == part}

    def place(self, names: set[str]) -> None:
        for name in [name for name in self.pending if name in names]:
            self.real |= self.pending.pop(name)


def simulate(seed: int, faults: float) -> tuple[Any, MapStorage, list[Worker]]:
    schema = create_schema(FIELDS, ("pt",), ("pt", "k"), OPTIONS)
    members = [partial(Worker, operations=OPERATIONS, compacts=number >= 2) for number in range(4)]
    return team.simulate(seed, schema, members, faults)


def check(store: Any, workers: list[Worker]) -> Counter[str]:
    clear_cache()
    log = {user: change for worker in workers for user, change in worker.log.items()}
    model, seen = Model(), Counter[str]()
    merging = Table(store, "t").with_options({"postpone.merge-on-read": "true"})
    for snapshot in store.snapshots():
        pending = [entry for entry in delta_entries(store, snapshot) if entry.bucket == -2]
        if snapshot.commit_user in log:
            added = {e.file.file_name: part_of(store, e.partition) for e in pending if e.kind == FileKind.ADD}
            model.apply(log[snapshot.commit_user], added)
            seen[log[snapshot.commit_user][0]] += 1
        else:
            assert snapshot.commit_kind.value == "COMPACT"
            assert all(entry.kind == FileKind.DELETE for entry in pending)
            model.place({entry.file.file_name for entry in pending})
            seen["placed" if pending else "compacted"] += 1
        assert rows_at(Table(store, "t"), snapshot.id) == model.seen(False), f"snapshot {snapshot.id}"
        assert rows_at(merging, snapshot.id) == model.seen(True), f"snapshot {snapshot.id} with pending rows"
        live = live_entries(store, snapshot)
        assert {entry.file.file_name for entry in live if entry.bucket == -2} == set(model.pending)
        totals = {(entry.partition, entry.total_buckets) for entry in live if entry.bucket >= 0}
        assert len(totals) == len({partition for partition, _ in totals}), "two bucket numbers in one partition"
    for worker in workers:
        seen.update(worker.failures)
    return seen


def part_of(store: Any, partition: bytes) -> int:
    return int(store.paths.partition_texts(partition)["pt"])


def rows_at(table: Table, snapshot: int) -> Counter[tuple[int, int, int]]:
    found = table.to_arrow(scan_snapshot_id=snapshot).to_pylist()
    return Counter((row["pt"], row["k"], row["v"]) for row in found)


@pytest.mark.parametrize("faults", [0.0, 0.02])
def test_writers_and_compactors_lose_and_double_nothing(faults: float) -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        many = 1 if seed % 2 else 1 << 30  # of every other world, rows are dealt out as if there were many
        try:
            with (
                patch.object(dealt, "DEALT_BYTES", many),
                patch.object(postpone_compact, "UNIT_BYTES", many),
                patch.object(pending_whole, "JOINED_BYTES", 1),  # files whose rows need no sorting are copied
            ):
                store, inner, workers = simulate(seed, faults)
            seen += check(store, workers)
            assert faults or not team.unreferenced(store, inner.files), "losers clean up"
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}", pytrace=True)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    expected = {"append pending", "append real", "overwrite pending", "overwrite real", "drop", "placed", "compacted"}
    assert faults or min(seen[kind] for kind in expected) > often(2), seen
    assert bool(seen["StorageError"]) == (faults > 0), seen
