"""The coordinator of append compaction: bins as Paimon's coordinator makes them, what is remembered and forgotten."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage
from tests.sim.tables import appended, commit_of, create_table, partition, table_schema

from bucketlake.format.index.index_manifest import DELETION_VECTORS, DeletionVectorRange, IndexFile
from bucketlake.ops.clean.expire import ExpireConfig, Limits, expire_snapshots
from bucketlake.ops.compact import append_compact
from bucketlake.ops.compact.coordinator import COMPACT_AGE, REMOVE_AGE, CoordinatedPlan, Coordinator
from bucketlake.ops.compact.job import Job, run_job
from bucketlake.ops.compact.running import inline
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store, clear_cache

TARGET = 256 << 20
OPTIONS = {"compaction.min.file-num": "3"}


@pytest.fixture
def names() -> Iterator[int]:
    return itertools.count()


def store_of(**options: str) -> Store:
    clear_cache()
    schema = table_schema(keyed=False, bucket=-1, options={**OPTIONS, **options})
    return create_table(MapStorage(), FakeClock(1), schema)


def append(store: Store, names: Iterator[int], count: int, size: int, part: int = 1, **more: Any) -> list[Any]:
    files = [appended(f"f{next(names)}", sequences=(0, 99), file_size=size) for _ in range(count)]
    made = CommitMessage(partition(part), 0, -1, new_files=tuple(files), **more)
    commit_of(store, f"w{next(names)}").commit([made])
    return files


@pytest.mark.parametrize(
    ("count", "size", "bins"),
    [(200, 0, 2), (100, TARGET, 0), (100, TARGET // 3 + 1, 17), (100, TARGET // 10 * 8, 0), (1000, TARGET // 10, 56)]
    + [(1050, TARGET // 5, 105), (1089, TARGET // 5, 109)],
)
def test_bins_as_upstream_makes_them(names: Iterator[int], count: int, size: int, bins: int) -> None:
    store = store_of()
    append(store, names, count, size)
    assert len(Coordinator(store).look()) == bins
    plan = append_compact.plan_append(store, store.latest_snapshot())
    assert len(plan) == bins


def vectors(files: list[Any], deleted: int, each: bool) -> tuple[IndexFile, ...]:
    """Index files with a vector for each file: one file, or one each."""
    ranges = [DeletionVectorRange(file.file_name, 1 + 40 * i, 40, deleted) for i, file in enumerate(files)]
    groups = [[one] for one in ranges] if each else [ranges]
    return tuple(
        IndexFile(DELETION_VECTORS, f"index-{group[0].data_file_name}", 1 << 20, len(group), tuple(group))
        for group in groups
    )


@pytest.mark.parametrize(
    ("deleted", "size", "count", "units"), [(21, TARGET, 1, 1), (11, TARGET, 1, 0), (21, 1, 100, 1)]
)
def test_deleted_rows_count(names: Iterator[int], deleted: int, size: int, count: int, units: int) -> None:
    store = store_of(**{"deletion-vectors.enabled": "true"})
    files = append(store, names, count, size)
    append(store, names, 1, TARGET)
    made = CommitMessage(partition(1), 0, -1, new_index_files=vectors(files, deleted, each=True))
    commit_of(store).commit([made])
    found = Coordinator(store).look()
    assert len(found) == units and all(len(unit.files) == count == len(unit.indexes) for unit in found)


def test_few_files_are_merged_when_nothing_comes(names: Iterator[int]) -> None:
    store = store_of()
    append(store, names, 2, 0)
    coordinator = Coordinator(store)
    for _ in range(COMPACT_AGE):
        assert coordinator.look() == [] and len(coordinator.partitions) == 1
    (unit,) = coordinator.look()
    assert len(unit.files) == 2 and not coordinator.partitions


def test_a_lone_file_is_forgotten(names: Iterator[int]) -> None:
    store = store_of()
    append(store, names, 1, 0)
    coordinator = Coordinator(store)
    for look in range(REMOVE_AGE):
        assert coordinator.look() == [] and coordinator.partitions[partition(1)].age == look + 1
    append(store, names, 1, 0)
    coordinator.look()
    assert coordinator.partitions[partition(1)].age == 1 and len(coordinator.partitions[partition(1)].files) == 2
    append(store, names, 1, TARGET, part=2)
    coordinator.look()
    assert len(coordinator.partitions) == 1, "large files are not remembered"
    lone = store_of()
    append(lone, names, 1, 0)
    other = Coordinator(lone)
    for _ in range(REMOVE_AGE + 1):
        other.look()
    assert not other.partitions


def test_what_comes_later_is_read_from_deltas(names: Iterator[int], monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of()
    first = append(store, names, 2, 0)
    coordinator = Coordinator(store)
    coordinator.look()
    monkeypatch.setattr("bucketlake.ops.compact.coordinator.chosen_entries", lambda *_: pytest.fail("read again"))
    second = append(store, names, 1, 0)
    (unit,) = coordinator.look()
    assert {file.file_name for file in unit.files} == {file.file_name for file in first + second}
    assert not coordinator.partitions


def test_what_others_took_away_is_not_planned(names: Iterator[int]) -> None:
    store = store_of()
    files = append(store, names, 2, 0)
    coordinator = Coordinator(store)
    coordinator.look()
    commit_of(store, "d").commit([CommitMessage(partition(1), 0, -1, deleted_files=(files[0],))])
    append(store, names, 1, 0)
    assert coordinator.look() == []
    append(store, names, 1, 0)
    assert len(coordinator.look()[0].files) == 3


def test_expired_snapshots_and_limits_begin_anew(names: Iterator[int]) -> None:
    store = store_of(**{"compaction.file-num-limit": "4"})
    append(store, names, 1, 0)
    coordinator = Coordinator(store)
    coordinator.look()
    for _ in range(5):
        append(store, names, 1, 0)
    expire_snapshots(store, ExpireConfig.of(store, Limits(retain_max=1, retain_min=1)))
    clear_cache()
    assert [len(unit.files) for unit in coordinator.look()] == [4]
    assert [len(unit.files) for unit in coordinator.look()] == [4], "nobody compacted them"


def test_lost_units_are_looked_for_again(names: Iterator[int]) -> None:
    store = store_of()
    files = append(store, names, 4, 0)
    coordinator = Coordinator(store)
    done: list[Any] = []

    def work(of: Store, unit: Any) -> list[CommitMessage]:
        done.append(unit)
        if len(done) == 1:
            commit_of(store, "d").commit([CommitMessage(partition(1), 0, -1, deleted_files=(files[0],))])
        after = appended(f"c{len(done)}", file_size=TARGET)
        return [CommitMessage(unit.partition, 0, -1, compact_before=unit.files, compact_after=(after,))]

    assert run_job(Job.of(store, CoordinatedPlan(coordinator, work)), inline) is not None
    assert [len(unit.files) for unit in done] == [4, 3]
    assert coordinator.look() == []
