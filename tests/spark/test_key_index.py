"""The key index of a large table, built by Spark's tasks, answers as the one that the driver builds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext
from tests.profile import later

from bucketlake import Table
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.key_run import KeyIndex, Keys
from bucketlake.ops.key_index.cache import IndexReader, build, cached_index
from bucketlake.ops.key_index.key_scan import key_fields
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.spark.session import Lake
from bucketlake.spark.write import key_index, writer
from bucketlake.spark.write.key_index import LayerWriting

pytestmark = pytest.mark.spark
ROWS = 5_000


def rows(start: int, stop: int, shift: int = 0) -> pa.Table:
    numbers = np.arange(start, stop, dtype=np.int64)
    texts = [f"key-{number}" for number in numbers]
    return pa.table({"id": numbers, "name": texts, "pt": ((numbers + shift) % 5).astype(np.int32)})


def create(lake: Lake, keys: list[str], **options: str) -> Table:
    texts = {"bucket": "-1", "dynamic-bucket.target-row-num": "300", **options}
    table = lake.catalog.create_table("db.t", rows(0, 1).schema, ["pt"], keys, texts)
    table.write_arrow(rows(0, ROWS))
    table.write_arrow(rows(ROWS // 2, ROWS + 500, shift=1))
    return table.refresh()


def latest(table: Table) -> Snapshot:
    found = table.latest_snapshot()
    assert found is not None
    return found


def answers(table: Table, index: KeyIndex) -> list[object]:
    """The place of every key, and of some that are not there."""
    keys = Keys.of(rows(-100, ROWS + 1000).combine_chunks().to_batches()[0], key_fields(table.store))
    reader = IndexReader(table.store, index)
    return [reader.numbers.places[place] if place >= 0 else place for place in reader.find(keys).tolist()]


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "DRIVER_ROWS", 100)
    monkeypatch.setattr(key_index, "TASK_ROWS", 1_000)


@pytest.mark.parametrize("keys", later([["name", "id"], ["id"]], 1))
def test_tasks_build_what_the_driver_builds(lake: Lake, keys: list[str]) -> None:
    table = create(lake, keys)
    snapshot = latest(table)
    here = build(table.store, snapshot)
    there = key_index.build_index(lake.spark, table.store, snapshot)
    assert len(there.file.layers[0].files) > 3
    assert there.complete and there.counts == here.counts
    found = answers(table, there)
    assert found == answers(table, here)
    assert found[:100] == [-1] * 100 and -1 not in found[100 : 100 + ROWS]
    path = Path(table.store.paths.key_index(there.file.layers[0].files[1].name))
    path.write_bytes(path.read_bytes()[:-3])
    assert answers(table, there) == found, "a file that is lost"


def test_a_write_uses_it_and_cleans_up_after_it(lake: Lake) -> None:
    table = create(lake, ["id"])
    for shift in (2, 3, 4):
        numbers = lake.spark.range(0, ROWS, 1, 4)
        texts, parts = "concat('key-', id) AS name", f"CAST((id + {shift}) % 5 AS INT) AS pt"
        lake.table("db.t").write(numbers.selectExpr("id", texts, parts))
        if shift == 2:
            assert len(list(Path(table.store.paths.key_index_dir).glob("layer-*"))) > 3, "built by tasks"
    index = cached_index(table.store, latest(table))
    assert index is not None and sum(index.file.counts) == ROWS + 500
    found = lake.table("db.t").read().toArrow().to_pylist()
    expected = {number: (number + 4) % 5 for number in range(ROWS)} | {n: (n + 1) % 5 for n in range(ROWS, ROWS + 500)}
    assert {row["id"]: row["pt"] for row in found} == expected
    assert len(found) == len(expected)
    texts = table.store.paths.partition_texts
    places = [place for place in answers(table, index)[100:] if isinstance(place, tuple)]
    assert [int(texts(partition)["pt"]) for partition, _ in places] == list(expected.values())
    folder = Path(table.store.paths.key_index_dir)
    named = {file.name for layer in index.file.layers for file in layer.files}
    assert named <= {path.name for path in folder.glob("layer-*")}
    assert len(list(folder.glob("index-*"))) <= 2


def test_tasks_that_run_again_leave_files_that_nothing_names(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(lake, ["id"])

    class Dying(LayerWriting):
        def __call__(self, batches: Any) -> Any:
            found = list(LayerWriting.__call__(self, batches))
            context = TaskContext.get()
            if context is not None and context.attemptNumber() == 0:
                raise RuntimeError("this executor is gone")
            return iter(found)

    monkeypatch.setattr(key_index, "LayerWriting", Dying)
    there = key_index.build_index(lake.spark, table.store, latest(table))
    assert answers(table, there) == answers(table, build(table.store, latest(table)))
    files = there.file.layers[0].files
    assert sum(file.rows for file in files) == ROWS + 500
    assert len(list(Path(table.store.paths.key_index_dir).glob("layer-*"))) == 2 * len(files) + 1


def test_rows_in_the_driver_use_it_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(lake, ["id"])
    monkeypatch.setattr(writer, "FEW_KEYS", 10)
    lake.table("db.t").write(lake.spark.createDataFrame(rows(0, 11, shift=2)))
    assert len(list(Path(table.store.paths.key_index_dir).glob("layer-*"))) > 3
    found = lake.table("db.t").read().toArrow().to_pylist()
    assert len(found) == ROWS + 500
    assert all(row["pt"] == (row["id"] + 2) % 5 for row in found if row["id"] < 11)


def test_a_key_in_two_places_is_warned_of_and_old_files_are_left_out(lake: Lake) -> None:
    table = create(lake, ["id"], **{"cross-partition-upsert.index-ttl": "1 d"})
    user = new_commit_user(table.store)
    task = replace(prepare_write(table.store, latest(table), commit_user=user), key_base=None)
    table.commit(write_batches(table.store, rows(0, 7, shift=3).to_batches(), task), user)
    snapshot = latest(table)
    with pytest.warns(UserWarning, match="7 keys of .* lie in two partitions"):
        index = key_index.build_index(lake.spark, table.store, snapshot)
    assert not index.complete and sum(index.file.counts) == ROWS + 500
    with pytest.warns(UserWarning, match="7 keys of .* lie in two partitions"):
        assert answers(table, index) == answers(table, build(table.store, snapshot))
