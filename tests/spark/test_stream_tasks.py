"""Which tasks read a batch of a stream: small files packed, order kept. No session."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.ops.stream.source import Source
from bucketlake.ops.table.messages import Split
from bucketlake.spark.read.stream_reader import UNKNOWN_TASKS, tasks_of
from bucketlake.table import Table

COMMITS = 6


def empty(tmp_path: Path, options: dict[str, str]) -> Table:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    return catalog.create_table("db.t", pa.schema({"k": pa.int64(), "v": pa.int64()}), options=options)


def written(tmp_path: Path, options: dict[str, str]) -> Table:
    table = empty(tmp_path, options)
    for number in range(COMMITS):
        table.write_arrow(pa.table({"k": [number, number + 1], "v": [number, number]}))
    return table


def groups_of(table: Table) -> list[tuple[Split, ...]]:
    source = Source.of(table.store)
    start = source.origin()
    return source.batch(start, source.following(start))


def names(splits: tuple[Split, ...]) -> list[str]:
    return [file.file_name for split in splits for file in split.files]


def test_small_files_are_read_by_as_many_tasks_as_run_at_once(tmp_path: Path) -> None:
    table = written(tmp_path, {})
    groups = groups_of(table)
    order = [name for group in groups for name in names(group)]
    assert len(groups) == COMMITS
    for at_once, tasks in ((1, 1), (2, 2), (4, 4), (100, COMMITS), (None, COMMITS)):
        found = [names(task.splits) for task in tasks_of(groups, table.store.options, at_once)]
        assert len(found) == tasks
        assert sorted(name for task in found for name in task) == sorted(order)
        assert all(task == sorted(task, key=order.index) for task in found)


@pytest.mark.parametrize(("target", "opened", "tasks"), [("1 b", "1 b", 6), ("8 mb", "4 mb", 4), ("1 gb", "1 b", 2)])
def test_a_task_is_no_larger_than_a_split_of_a_batch(tmp_path: Path, target: str, opened: str, tasks: int) -> None:
    options = {"source.split.target-size": target, "source.split.open-file-cost": opened}
    table = written(tmp_path, options)
    assert len(tasks_of(groups_of(table), table.store.options, 2)) == tasks


def test_what_has_an_order_stays_in_one_task(tmp_path: Path) -> None:
    table = written(tmp_path, {"bucket": "3", "bucket-key": "k"})
    groups = groups_of(table)
    assert 1 < len(groups) <= 3
    (one,) = tasks_of(groups, table.store.options, 1)
    assert one.splits == tuple(split for group in groups for split in group)
    two = [set(names(task.splits)) for task in tasks_of(groups, table.store.options, 2)]
    assert len(two) == 2
    assert all(sum(not task.isdisjoint(names(group)) for task in two) == 1 for group in groups)


def test_no_rows_are_no_task(tmp_path: Path) -> None:
    table = empty(tmp_path, {})
    assert tasks_of([], table.store.options, 2) == []


def test_where_nobody_knows_how_many_run_at_once(tmp_path: Path) -> None:
    table = written(tmp_path, {})
    many = groups_of(table) * UNKNOWN_TASKS
    assert len(tasks_of(many, table.store.options)) == UNKNOWN_TASKS
