"""Compaction of append tables: what is picked, what the rewrite leaves, and that concurrent commits lose nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bucketlake
from bucketlake.errors import CorruptError, NotFoundError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.stats import EMPTY_STATS
from bucketlake.format.row.binary_row import EMPTY_ROW
from bucketlake.ops.compact.append_compact import (
    AppendPlan,
    AppendRule,
    AppendUnit,
    after_write,
    compact_append,
    merge_here,
    pick_bucketed,
    pick_unaware,
    plan_append,
    rewritten,
)
from bucketlake.ops.compact.running import inline
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.options.options import TableOptions
from bucketlake.table import Table

RULE = AppendRule(target=100, small=70, open_cost=4, min_files=5, deleted_share=0.2, limit=1000)


def file(name: str, size: int, first: int = 0, rows: int = 10) -> DataFile:
    return DataFile(
        file_name=name,
        file_size=size,
        row_count=rows,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=first,
        max_sequence_number=first + rows - 1,
        schema_id=0,
        level=0,
    )


def files(*sizes: int) -> list[DataFile]:
    return [file(f"f{place}", size, place * 10) for place, size in enumerate(sizes)]


def sizes(bins: list[list[DataFile]]) -> list[list[int]]:
    return [[one.file_size for one in found] for found in bins]


@pytest.mark.parametrize(
    ("given_sizes", "picked"),
    [
        ([], []),
        ([60], []),
        ([10, 10, 10, 10], []),  # fewer than min_files, and less than twice the target
        ([10, 10, 10, 10, 10], [[10, 10, 10, 10, 10]]),
        ([69, 69, 69], [[69, 69, 69]]),  # 3 x (69 + 4) reaches twice the target
        ([69] * 7, [[69, 69, 69], [69, 69, 69]]),  # what is left over is too few
        ([1, 69, 2, 69, 69], [[1, 2, 69, 69, 69]]),  # smallest first
    ],
)
def test_unaware_bins(given_sizes: list[int], picked: list[list[int]]) -> None:
    assert sizes(pick_unaware(files(*given_sizes), {}, RULE)) == picked


def test_unaware_files_with_vectors_go_always_and_with_all_of_their_index() -> None:
    found = files(10, 20, 30, 40)
    bins = pick_unaware(found, {"f0": "index-1", "f2": "index-1"}, RULE)
    assert sizes(bins) == [[10, 30]]
    assert sizes(pick_unaware(found[:1], {"f0": "index-1"}, RULE)) == [[10]]


@pytest.mark.parametrize(
    ("given_sizes", "full", "picked"),
    [
        ([10, 10, 10, 10], False, []),
        ([10, 10, 10, 10, 10, 10], False, [[10, 10, 10, 10, 10]]),
        ([190, 20, 10, 10, 10, 10], False, [[20, 10, 10, 10, 10]]),  # a window beyond twice the target moves on
        ([10, 10], True, []),
        ([10, 10, 10], True, [[10, 10, 10]]),
        ([90, 80, 10, 10, 90], True, [[10, 10, 90]]),
        ([80, 90, 10, 10, 10, 90], True, [[10, 10, 10, 90]]),  # large ones at the start stay
        ([90, 10, 90, 10], True, [[10, 90, 10]]),
        ([90, 10, 90, 90, 10], True, []),
    ],
)
def test_bucketed_runs(given_sizes: list[int], full: bool, picked: list[list[int]]) -> None:
    assert sizes(pick_bucketed(files(*given_sizes), {}, RULE, full)) == picked


def test_bucketed_full_with_vectors_takes_what_is_left() -> None:
    assert sizes(pick_bucketed(files(90, 90), {"f1": "index-1"}, RULE, True)) == [[90]]


@pytest.mark.parametrize("min_files", [1, 2])
def test_bucketed_full_takes_what_writes_would_merge(min_files: int) -> None:
    rule = AppendRule(100, 70, 4, min_files, 0.2, 1000)
    assert sizes(pick_bucketed(files(10, 10), {}, rule, True)) == [[10, 10]]
    assert sizes(pick_bucketed(files(10), {}, rule, True)) == []


def test_bucketed_full_takes_every_file_where_that_is_wanted() -> None:
    always = AppendRule(100, 70, 4, 5, 0.2, 1000, always=True)
    assert sizes(pick_bucketed(files(90, 90), {}, always, True)) == [[90, 90]]


@given(st.lists(st.integers(1, 200), max_size=30), st.integers(1, 6), st.booleans())
def test_picks_are_disjoint_and_contiguous(some: list[int], min_files: int, full: bool) -> None:
    rule = AppendRule(100, 70, 4, min_files, 0.2, 1000)
    everything = files(*some)
    for bins in (pick_unaware(everything, {}, rule), pick_bucketed(everything, {}, rule, full)):
        names = [one.file_name for found in bins for one in found]
        assert len(names) == len(set(names)) and all(bins)
    for found in pick_bucketed(everything, {}, rule, full):
        places = [everything.index(one) for one in found]
        assert places == list(range(places[0], places[0] + len(places)))


def test_the_rule_comes_from_the_options() -> None:
    rule = AppendRule.of(TableOptions({"target-file-size": "10 mb", "compaction.small-file-ratio": "0.5"}))
    assert (rule.target, rule.small, rule.min_files, rule.limit) == (10 << 20, 5 << 20, 5, 100000)


# ---- tables


SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string()), ("pt", pa.int32())])
Row = tuple[int, str, int]


def table(tmp_path: Path, **options: str) -> Table:
    catalog = bucketlake.open(tmp_path)
    return catalog.create_table("t", SCHEMA, ["pt"], [], {"write-only": "true", **options})


def put(made: Table, *rows: Row) -> None:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    made.write_arrow(pa.table(columns, names=SCHEMA.names))


def rows(made: Table) -> list[Row]:
    return sorted(tuple(row.values()) for row in made.to_arrow().to_pylist())


def test_small_files_of_a_table_without_buckets_become_one(tmp_path: Path) -> None:
    made = table(tmp_path, bucket="-1")
    for number in range(6):
        put(made, (number, "a", 1), (number, "b", 2))
    put(made, (9, "c", 3))
    before = rows(made)
    snapshot = compact_append(made.store)
    assert snapshot is not None and snapshot.commit_kind.value == "COMPACT"
    assert rows(made) == before
    assert [len([f for f in made.files() if f.partition["pt"] == pt]) for pt in "123"] == [1, 1, 1]
    assert compact_append(made.store) is None
    assert {f.file.file_source.name for f in made.files() if f.partition["pt"] == "1" and f.file.file_source} == {
        "COMPACT"
    }


def test_bucketed_files_keep_their_order(tmp_path: Path) -> None:
    made = table(tmp_path, bucket="1", **{"bucket-key": "id"})
    for number in range(7):
        put(made, (number, "a", 1), (number, "b", 1))
    assert compact_append(made.store, AppendPlan(full=False)) is not None
    found = [f.file for f in made.files()]
    assert [(f.min_sequence_number, f.max_sequence_number) for f in found] == [(0, 9), (10, 11), (12, 13)]
    assert compact_append(made.store, AppendPlan()) is not None
    assert [(f.file.min_sequence_number, f.file.row_count) for f in made.files()] == [(0, 14)]
    assert made.to_arrow().column("id").to_pylist() == [number for number in range(7) for _ in "ab"]


@pytest.mark.parametrize("options", [{"bucket": "-1"}, {"bucket": "1", "bucket-key": "id"}])
def test_deleted_rows_and_their_vectors_go(tmp_path: Path, options: dict[str, str]) -> None:
    made = table(tmp_path, **options, **{"deletion-vectors.enabled": "true"})
    for number in range(4):
        put(made, *[(number * 10 + place, "a", 1) for place in range(10)])
    put(made, (100, "x", 2), (101, "y", 2))
    made.delete("id IN (3, 15, 100)")
    before = rows(made)
    assert len(before) == 39
    assert compact_append(made.store) is not None
    assert rows(made) == before
    snapshot = made.latest_snapshot()
    assert [entry for entry in made.store.index_manifest(snapshot) if entry.file.index_type == "DELETION_VECTORS"] == []
    assert sum(f.file.row_count for f in made.files()) == 39


def test_vectors_of_other_files_stay(tmp_path: Path) -> None:
    made = table(tmp_path, bucket="1", **{"bucket-key": "id", "deletion-vectors.enabled": "true"})
    for number in range(7):
        put(made, *[(number * 10 + place, "a", 1) for place in range(10)])
    made.delete("id IN (3, 65)")
    before = rows(made)
    assert compact_append(made.store, AppendPlan(full=False)) is not None
    assert rows(made) == before
    snapshot = made.latest_snapshot()
    left = [part.data_file_name for e in made.store.index_manifest(snapshot) for part in e.file.dv_ranges or ()]
    assert len(left) == 1


def test_only_the_partitions_wanted(tmp_path: Path) -> None:
    made = table(tmp_path, bucket="-1")
    for number in range(6):
        put(made, (number, "a", 1), (number, "b", 2))
    wanted = {e.partition for e in made.plan("pt = 1").entries}
    assert compact_append(made.store, AppendPlan(partitions=wanted.__contains__)) is not None
    assert len([f for f in made.files() if f.partition["pt"] == "2"]) == 6


def test_a_delete_that_comes_first_is_planned_anew(tmp_path: Path) -> None:
    made = table(tmp_path, bucket="-1")
    for number in range(6):
        put(made, (number, "a", 1))
    late = []

    def slow(store: Store, unit: AppendUnit) -> list[CommitMessage]:
        messages = rewritten(store, unit)
        if not late:
            late.append(made.delete("id = 3"))
            put(made, (7, "late", 1))
        return messages

    assert compact_append(made.store, AppendPlan(work=slow), inline) is not None
    assert [row[0] for row in rows(made)] == [0, 1, 2, 4, 5, 7]
    assert len(made.files()) == 1
    on_disk = {path.name for path in tmp_path.rglob("data-*")}
    assert {f.file.file_name for f in made.files()} <= on_disk


def test_a_failing_unit_leaves_no_file(tmp_path: Path) -> None:
    made = table(tmp_path, bucket="-1")
    for number in range(6):
        put(made, (number, "a", 1), (number, "b", 2))
    units = plan_append(made.store, made.latest_snapshot())
    assert len(units) == 2
    gone = units[1].files[0].file_name
    next(tmp_path.rglob(gone)).unlink()
    before = {path.name for path in tmp_path.rglob("data-*")}
    with pytest.raises(NotFoundError):
        merge_here(made.store, units)
    assert {path.name for path in tmp_path.rglob("data-*")} == before


def test_the_hook_behind_writes(tmp_path: Path) -> None:
    made = table(tmp_path, bucket="1", **{"bucket-key": "id"})
    for number in range(5):
        put(made, (number, "a", 1))
    written = CommitMessage(made.plan().entries[0].partition, 0, 1, new_files=(made.files()[0].file,))
    assert after_write(made.store, [written]) is None  # write-only
    assert after_write(made.with_options({"write-only": "false"}).store, [written]) is not None
    assert len(made.files()) == 1


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "damaged"])
@pytest.mark.parametrize("way", ["compact", "sort", "rescale", "reformat"])
def test_what_reads_pass_over_is_not_rewritten_without(tmp_path: Path, way: str, lost: bool) -> None:
    """`scan.ignore-…` is for reads: a compaction that passed a file over took its rows out of the table for good."""
    options = {"write-only": "true", "scan.ignore-corrupt-files": "true", "scan.ignore-lost-files": "true"}
    buckets = {"bucket": "-1"} if way == "sort" else {"bucket": "1", "bucket-key": "k"}
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    table = bucketlake.open(tmp_path).create_table("default.t", schema, options={**options, **buckets})
    for start in (0, 10, 20):
        table.write_arrow(pa.table({"k": range(start, start + 10), "v": [start] * 10}, schema=schema))
    path = Path(table.files()[0].path)
    data = path.read_bytes()
    if lost:
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    with pytest.warns(UserWarning, match="left out"):
        assert table.to_arrow().num_rows == 20
    ways: dict[str, Callable[[], object]] = {
        "compact": lambda: table.compact(full=True),
        "sort": lambda: table.compact(order_by=["v"]),
        "rescale": lambda: table.rescale(2),
        "reformat": lambda: table.rewrite(options={"file.format": "orc"}),
    }
    with pytest.raises((CorruptError, NotFoundError)):
        ways[way]()
    path.write_bytes(data)
    assert table.refresh().to_arrow().num_rows == 30
