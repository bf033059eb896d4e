"""N committers on one table, interleaved at every storage call by a seed, checked against a model.

The model: a snapshot is what its commit meant, applied to the state before. Every operation that succeeded is one (or
two) snapshots, every one that failed is none.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.profile import often, seeds
from tests.sim.clock import FakeClock
from tests.sim.schedule import Scheduler
from tests.sim.storage import FaultStorage, MapStorage
from tests.sim.tables import (
    check_table,
    commit_of,
    create_table,
    data_file,
    live_names,
    make_store,
    message,
    orphans,
    partition,
    table_schema,
)

from bucketlake.errors import CommitError, ConflictError, InvalidError
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.store import clear_cache

SEEDS = seeds(100, 2000)
OPERATIONS = ("append", "append", "append", "compact", "overwrite", "delete", "drop")


@dataclass
class Writer:
    """One process: plans an operation on the snapshot that it sees, then commits. Remembers what it did."""

    name: str
    store: Any
    random: random.Random
    log: list[tuple[str, Any, Any]] = field(default_factory=list)

    def run(self) -> None:
        for step in range(self.random.randint(2, 4)):
            operation = self.random.choice(OPERATIONS)
            try:
                getattr(self, operation)(f"{self.name}.{step}", commit_of(self.store, self.name))
            except (ConflictError, InvalidError) as error:
                self.log.append((operation, None, error))

    def entries(self) -> list[Any]:
        snapshot = self.store.latest_snapshot()
        return [] if snapshot is None else live_entries(self.store, snapshot)

    def append(self, step: str, commit: Commit) -> None:
        part, bucket = partition(self.random.randint(1, 2)), self.random.randint(0, 1)
        mine = [e for e in self.entries() if (e.partition, e.bucket) == (part, bucket)]
        start = max((e.file.max_sequence_number for e in mine), default=-1) + 1
        new = data_file(step, sequences=(start, start + self.random.randint(0, 5)))
        self.log.append(("append", commit.commit([message(new, part=part, bucket=bucket)]), {step}))

    def compact(self, step: str, commit: Commit) -> None:
        part, bucket = partition(self.random.randint(1, 2)), self.random.randint(0, 1)
        before = [e.file for e in self.entries() if (e.partition, e.bucket) == (part, bucket)]
        if before:
            low, high = min(f.min_sequence_number for f in before), max(f.max_sequence_number for f in before)
            rows = sum(f.row_count for f in before)
            after = data_file(step, sequences=(low, high), level=5, row_count=rows)
            done = commit.commit(
                [message(part=part, bucket=bucket, compact_before=tuple(before), compact_after=(after,))]
            )
            self.log.append(("compact", done, ({f.file_name for f in before}, {step})))

    def overwrite(self, step: str, commit: Commit) -> None:
        part = self.random.randint(1, 2)
        new = data_file(step, sequences=(0, 3))
        done = commit.overwrite([message(new, part=partition(part), bucket=1)], {"pt": part})
        self.log.append(("overwrite", done, (partition(part), step)))

    def delete(self, step: str, commit: Commit) -> None:
        """A rewrite of one file, as row-level updates do."""
        entries = self.entries()
        if entries:
            old = self.random.choice(entries)
            number = old.file.max_sequence_number
            new = data_file(step, sequences=(number, number), level=old.file.level)
            done = commit.commit([message(new, part=old.partition, bucket=old.bucket, deleted_files=(old.file,))])
            self.log.append(("delete", done, (old.file.file_name, step)))

    def drop(self, step: str, commit: Commit) -> None:
        part = self.random.randint(1, 2)
        self.log.append(("drop", commit.drop_partitions([{"pt": part}]), partition(part)))


def simulate(seed: int, writers: int = 3) -> tuple[Any, MapStorage, list[Writer], Scheduler]:
    clear_cache()
    inner, scheduler = MapStorage(), Scheduler(seed)
    clock = FakeClock(seed, on_sleep=scheduler.pause)
    schema = table_schema(options={"commit.max-retries": "200", "manifest.merge-min-count": "3"})
    store = create_table(inner, clock, schema)
    team = []
    for number in range(writers):
        storage = FaultStorage(inner, lambda k, operation, path: scheduler.pause())
        writer = Writer(f"w{number}", make_store(storage, clock, schema), random.Random(seed * 100 + number))
        team.append(writer)
        scheduler.spawn(writer.name, writer.run)
    scheduler.run()
    return store, inner, team, scheduler


def replay(store: Any, team: list[Writer]) -> set[str]:
    """The live files that the successful operations, in the order of their snapshots, should leave."""
    done = sorted((entry for writer in team for entry in writer.log if entry[1] is not None), key=lambda e: e[1].id)
    live: dict[str, bytes] = {}
    for operation, snapshot, what in done:
        delta = {e.file.file_name: e.partition for e in live_entries(store, snapshot)}
        added = {name: part for name, part in delta.items() if name not in live}
        if operation == "append":
            assert {name.rstrip("'") for name in added} == what
            live |= added
        elif operation == "compact":
            before, after = what
            assert before <= set(live) and set(added) == after
            live = {n: p for n, p in live.items() if n not in before} | added
        elif operation == "overwrite":
            live = {n: p for n, p in live.items() if p != what[0]} | {what[1]: what[0]}
        elif operation == "delete":
            assert what[0] in live
            part = live.pop(what[0])
            live[what[1]] = part
        else:
            live = {n: p for n, p in live.items() if p != what}
        assert set(delta) == set(live), f"snapshot {snapshot.id} after {operation}"
    return set(live)


def test_interleaved_committers_agree_with_the_model() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        try:
            store, inner, team, scheduler = simulate(seed)
            for operation, snapshot, what in (entry for writer in team for entry in writer.log):
                seen[f"{operation} {'done' if snapshot else type(what).__name__}"] += 1
            seen["renumbered"] += sum(name.endswith("'") for name in live_names(store))
            seen["rebased"] += store.env.clock.slept > 0
            for task in scheduler._tasks:
                assert task.error is None, f"{task.name}: {task.error!r}"
            check_table(store)
            assert replay(store, team) == live_names(store)
            snapshots = sorted(s.id for writer in team for _, s, _ in writer.log if s is not None)
            assert snapshots == store.snapshot_ids(), "each success is one snapshot"
            assert not orphans(store, inner.files), "losers clean up"
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}", pytrace=True)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert min(seen[f"{operation} done"] for operation in OPERATIONS) > often(20), seen
    assert seen["compact ConflictError"] > often(5), seen
    assert seen["delete ConflictError"] > often(5), seen
    assert seen["renumbered"] > often(20), seen
    assert seen["rebased"] > often(100), seen


def test_the_same_seed_gives_the_same_run() -> None:
    runs = [simulate(7) for _ in range(2)]
    assert runs[0][3].trace == runs[1][3].trace
    assert list(runs[0][1].files) == list(runs[1][1].files)


def test_contention_beyond_the_retries_is_an_error_that_leaves_nothing() -> None:
    clear_cache()
    inner, clock = MapStorage(), FakeClock()
    schema = table_schema(options={"commit.max-retries": "3"})
    store = create_table(inner, clock, schema)
    other = commit_of(store, "other")

    def win(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent":
            other.commit([message(data_file(f"o{k}", sequences=(k * 100, k * 100)), bucket=1)])

    loser = commit_of(make_store(FaultStorage(inner, win), clock, schema), "loser")
    with pytest.raises(CommitError, match="with 3 retries"):
        loser.commit([message(data_file("mine"))])
    assert "mine" not in live_names(store)
    assert not orphans(store, inner.files)
    assert clock.slept > 0
