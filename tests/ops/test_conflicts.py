"""The operation x operation matrix of docs/conflicts.md, executed; and what the errors say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage
from tests.sim.tables import (
    Moved,
    check_table,
    commit_of,
    create_table,
    data_file,
    live_names,
    message,
    partition,
    table_schema,
)

from bucketlake.errors import ConflictError
from bucketlake.format.index.index_manifest import DeletionVectorRange, IndexFile
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.scan.scan import live_entries

PAGE = Path(__file__).parents[2] / "docs" / "conflicts.md"
BASE1 = data_file("base1", sequences=(0, 9))
BASE2 = data_file("base2", sequences=(10, 19))
OTHER = data_file("other", sequences=(0, 9))  # in bucket 1


def vectors(name: str, *files: str) -> IndexFile:
    ranges = tuple(DeletionVectorRange(file, 1, 20, 1) for file in files)
    return IndexFile("DELETION_VECTORS", name, 21, len(files), dv_ranges=ranges)


def base_store() -> Any:
    store = create_table(MapStorage(), FakeClock(), table_schema())
    commit_of(store, "base").commit([message(BASE1, BASE2), message(OTHER, bucket=1)])
    return store


def append(store: Any, user: str) -> Any:
    commit = Commit(store, user, moves=Moved(rehash))
    return commit.commit([message(data_file(user, sequences=(20, 24)))])


def rehash(messages: Any, view: Any) -> Any:
    """What ops.rebase.rescaled does to data files, done to metadata."""
    totals = {e.partition: e.total_buckets for e in view.entries(frozenset(m.partition for m in messages))}
    return tuple(replace(m, total_buckets=totals.get(m.partition, m.total_buckets)) for m in messages)


def compact(store: Any, user: str) -> Any:
    after = data_file(user, sequences=(0, 19), level=5)
    return commit_of(store, user).commit([message(compact_before=(BASE1, BASE2), compact_after=(after,))])


def rewrite(store: Any, user: str) -> Any:
    return commit_of(store, user).commit([message(data_file(user, sequences=(3, 3)), deleted_files=(BASE1,))])


def add_vectors(store: Any, user: str) -> Any:
    return commit_of(store, user).commit([message(new_index_files=(vectors(f"index-{user}", "base1"),))])


def overwrite(store: Any, user: str) -> Any:
    return commit_of(store, user).overwrite([message(data_file(user))], {"pt": 1})


def drop(store: Any, user: str) -> Any:
    return commit_of(store, user).drop_partitions([{"pt": 1}])


def rescale(store: Any, user: str) -> Any:
    new = [message(data_file(f"{user}{bucket}"), bucket=bucket, total=4) for bucket in range(4)]
    new[0] = replace(new[0], deleted_files=())
    old = [
        message(deleted_files=(BASE1, BASE2), total=2),
        message(deleted_files=(OTHER,), bucket=1, total=2),
    ]
    return commit_of(store, user).commit([*old, *new])


OPERATIONS: dict[str, Callable[[Any, str], Any]] = {
    "append": append,
    "compact": compact,
    "rewrite": rewrite,
    "vectors": add_vectors,
    "overwrite": overwrite,
    "drop": drop,
    "rescale": rescale,
}


def matrix() -> list[tuple[str, str, str]]:
    rows = [line.strip("| \n").split("|") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    head = [cell.strip() for cell in rows[0]][1:]
    cells = [[cell.strip() for cell in row] for row in rows[2:]]
    return [(row[0], second, outcome) for row in cells for second, outcome in zip(head, row[1:], strict=True)]


def test_the_page_covers_every_pair() -> None:
    assert {(first, second) for first, second, _ in matrix()} == {(a, b) for a in OPERATIONS for b in OPERATIONS}


@pytest.mark.parametrize(("first", "second", "outcome"), matrix())
def test_pair(first: str, second: str, outcome: str) -> None:
    store = base_store()
    OPERATIONS[first](store, "one")
    before = live_names(store)
    if outcome == "conflict":
        with pytest.raises(ConflictError) as caught:
            OPERATIONS[second](store, "two")
        text = str(caught.value)
        assert "by two" in text and "by one" in text, text
        assert live_names(store) == before
        assert store.latest_snapshot().id == 2
    else:
        snapshot = OPERATIONS[second](store, "two")
        if first == second == "drop":  # the second finds nothing left
            assert snapshot is None and store.latest_snapshot().id == 2
        else:
            assert snapshot.id == 3 and snapshot.commit_user == "two"
    check_table(store)


@pytest.mark.parametrize("second", OPERATIONS)
@pytest.mark.parametrize("first", ["append", "overwrite", "compact", "rewrite", "rescale"])
def test_other_partitions_do_not_matter(first: str, second: str) -> None:
    store = base_store()
    part = partition(2)
    other = [data_file("p1"), data_file("p2", sequences=(10, 19))]
    commit_of(store, "base").commit([message(*other, part=part)])
    writer = commit_of(store, "one")
    if first == "append":
        writer.commit([message(data_file("p3", sequences=(20, 20)), part=part)])
    elif first == "overwrite":
        writer.overwrite([message(data_file("p3"), part=part)], {"pt": 2})
    elif first == "compact":
        after = data_file("p3", level=5)
        writer.commit([message(part=part, compact_before=tuple(other), compact_after=(after,))])
    elif first == "rewrite":
        writer.commit([message(data_file("p3", sequences=(3, 3)), part=part, deleted_files=(other[0],))])
    else:
        writer.commit(
            [message(part=part, deleted_files=tuple(other)), message(data_file("p3"), part=part, bucket=3, total=4)]
        )
    assert OPERATIONS[second](store, "two").commit_user == "two"
    check_table(store)


def test_a_later_append_wins_over_an_earlier_one_of_the_same_base() -> None:
    store = base_store()
    append(store, "one")
    append(store, "two")
    ranges = {
        e.file.file_name: (e.file.min_sequence_number, e.file.max_sequence_number)
        for e in live_entries(store, store.latest_snapshot())
        if e.bucket == 0
    }
    assert ranges["one"] == (20, 24)
    assert ranges["two'"] == (25, 29)


def test_interleaved_ranges_of_one_commit_are_shifted_together() -> None:
    store = base_store()
    append(store, "one")
    tasks = [message(data_file(f"t{k}", sequences=(20 + k, 30 + k))) for k in range(3)]
    commit_of(store, "two").commit(tasks)
    ranges = {e.file.file_name: e.file.min_sequence_number for e in live_entries(store, store.latest_snapshot())}
    assert [ranges[f"t{k}'"] for k in range(3)] == [25, 26, 27]


def test_bucket_number_error_says_what_to_do() -> None:
    store = base_store()
    with pytest.raises(ConflictError) as caught:
        commit_of(store).commit([message(data_file("x"), bucket=3, total=8)])
    text = str(caught.value)
    assert "new bucket num 8, but the previous bucket num is 2" in text
    assert "INSERT OVERWRITE" in text and "rescale" in text


def test_two_bucket_numbers_in_one_commit_are_refused() -> None:
    store = create_table(MapStorage(), FakeClock(), table_schema())
    with pytest.raises(ConflictError, match="bucket num"):
        commit_of(store).commit([message(data_file("a"), total=2), message(data_file("b"), total=4)])
    assert store.latest_snapshot() is None


def test_overlapping_keys_above_level_0_conflict_and_name_the_files() -> None:
    store = base_store()
    commit_of(store, "one").commit([message(compact_before=(BASE1,), compact_after=(replace(BASE1, level=3),))])
    with pytest.raises(ConflictError) as caught:
        commit_of(store, "two").commit([message(compact_before=(BASE2,), compact_after=(replace(BASE2, level=3),))])
    assert "base1" in str(caught.value) and "base2" in str(caught.value)
    assert "LSM conflicts" in str(caught.value)


def test_disjoint_keys_of_one_level_are_fine() -> None:
    store = create_table(MapStorage(), FakeClock(), table_schema())
    low, high = data_file("low", keys=(0, 9)), data_file("high", keys=(10, 19), sequences=(10, 19))
    commit_of(store).commit([message(low, high)])
    for file in (low, high):
        commit_of(store).commit([message(compact_before=(file,), compact_after=(replace(file, level=5),))])
    assert store.latest_snapshot().commit_kind is CommitKind.COMPACT


def test_adding_and_deleting_the_same_file_is_a_conflict() -> None:
    store = base_store()
    with pytest.raises(ConflictError):
        commit_of(store).commit([message(BASE1)])
    with pytest.raises(ConflictError, match="gone"):
        commit_of(store).commit([message(deleted_files=(data_file("gone"),))])


def test_a_compaction_that_knows_the_vectors_may_take_the_file() -> None:
    store = base_store()
    add_vectors(store, "one")
    after = data_file("c", sequences=(0, 19), level=5)
    done = commit_of(store, "two").commit(
        [
            message(
                compact_before=(BASE1, BASE2),
                compact_after=(after,),
                compact_deleted_index_files=(vectors("index-one", "base1"),),
            )
        ]
    )
    assert done.index_manifest is not None
    assert store.index_manifest(done) == ()


def test_an_upgrade_keeps_its_vectors() -> None:
    store = base_store()
    add_vectors(store, "one")
    upgraded = replace(BASE1, level=5)
    done = commit_of(store, "two").commit([message(compact_before=(BASE1,), compact_after=(upgraded,))])
    assert [entry.file.file_name for entry in store.index_manifest(done)] == ["index-one"]


def test_append_tables_renumber_without_touching_files() -> None:
    store = create_table(MapStorage(), FakeClock(), table_schema(keyed=False))
    for user in ("one", "two"):
        commit_of(store, user).commit([message(data_file(user, sequences=(0, 4)))])
    ranges = [(e.file.file_name, e.file.min_sequence_number) for e in live_entries(store, store.latest_snapshot())]
    assert ranges == [("one", 0), ("two", 5)]
