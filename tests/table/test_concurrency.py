"""Writers that run at the same time, and writers that fail."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from tests.table.threads import together

import bucketlake
from bucketlake import Catalog, StorageError, Table
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.ops.scan.scan import delta_entries, live_entries
from bucketlake.table import open_table

SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64())])


@pytest.mark.parametrize("write_only", ["true", "false"])
def test_writers_of_one_bucket_keep_every_key_once(catalog: Catalog, write_only: str) -> None:
    options = {"bucket": "1", "write-only": write_only}
    table = catalog.create_table("t", SCHEMA, primary_keys=["k"], options=options)

    def writer(number: int) -> Any:
        def write() -> None:
            for turn in range(4):
                keys = list(range(turn, 40, 2))
                table.write_arrow(pa.table({"k": keys, "v": [number * 100 + turn] * len(keys)}))

        return write

    together(*[writer(number) for number in range(3)])
    found = table.to_arrow().to_pylist()
    assert sorted(row["k"] for row in found) == list(range(40))
    snapshots = table.snapshots()
    assert [snapshot.id for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    writes = [snapshot for snapshot in snapshots if snapshot.commit_kind is CommitKind.APPEND]
    assert len(writes) == 12
    assert (len(writes) == len(snapshots)) == (write_only == "true")
    ranges = sorted(
        (entry.file.min_sequence_number, entry.file.max_sequence_number)
        for snapshot in writes
        for entry in delta_entries(table.store, snapshot)
    )
    assert all(left[1] < right[0] for left, right in pairwise(ranges)), ranges


def test_last_commit_wins_whatever_was_numbered_first(catalog: Catalog) -> None:
    table = catalog.create_table("t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    early, late = _prepared(table, 1), _prepared(table, 2)
    late()
    early()
    assert table.to_arrow().to_pylist() == [{"k": 7, "v": 1}]


def _prepared(table: Table, value: int) -> Any:
    """A write of k = 7 up to its commit."""
    from bucketlake.ops.write.prepare import new_commit_user, prepare_write
    from bucketlake.ops.write.write import write_batches

    user = new_commit_user(table.store)
    task = prepare_write(table.store, table.latest_snapshot(), commit_user=user)
    messages = write_batches(table.store, pa.table({"k": [7, 7], "v": [-1, value]}).to_batches(), task)
    return lambda: table.commit(messages, user)


@pytest.mark.parametrize(
    "options", [{"bucket": "-1"}, {"bucket": "1", "bucket-key": "k", "write-only": "true"}], ids=["unaware", "bucketed"]
)
def test_concurrent_appends_lose_nothing(catalog: Catalog, options: dict[str, str]) -> None:
    table = catalog.create_table("t", SCHEMA, options=options)

    def writer(number: int) -> Any:
        def write() -> None:
            for turn in range(3):
                table.write_arrow(pa.table({"k": [number], "v": [turn]}))

        return write

    together(*[writer(number) for number in range(4)])
    found = sorted((row["k"], row["v"]) for row in table.to_arrow().to_pylist())
    assert found == [(number, turn) for number in range(4) for turn in range(3)]
    if "bucket-key" in options:
        snapshot = table.latest_snapshot()
        assert snapshot is not None
        ranges = sorted(
            (e.file.min_sequence_number, e.file.max_sequence_number) for e in live_entries(table.store, snapshot)
        )
        assert ranges == [(number, number) for number in range(12)]


def test_concurrent_creation_gives_one_table(catalog: Catalog) -> None:
    made: list[str] = []

    def create() -> None:
        with contextlib.suppress(bucketlake.AlreadyExistsError):
            made.append(catalog.create_table("t", SCHEMA).name)

    together(*[create] * 4)
    assert made == ["default.t"]


@dataclass(frozen=True, slots=True)
class FailingStorage(LocalStorage):
    """Fails to open the data file of this number, and all later ones."""

    allowed: int
    opened: list[str]

    def open_output(self, path: str) -> BinaryIO:
        if "/data-" in path:
            self.opened.append(path)
            if len(self.opened) > self.allowed:
                raise StorageError("disk is full", path=path)
        return LocalStorage.open_output(self, path)


def data_files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("data-*")}


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_failed_write_leaves_the_table_as_it_was(tmp_path: Path, keyed: bool, allowed: int) -> None:
    catalog = bucketlake.open(tmp_path)
    options = {"bucket": "4", "bucket-key": "k", "write-buffer-size": "1 kb", "target-file-size": "1 kb"}
    table = catalog.create_table("t", SCHEMA, primary_keys=["k"] if keyed else [], options=options)
    table.write_arrow(pa.table({"k": [1], "v": [1]}))
    before = data_files(tmp_path)
    broken = open_table(table.path, Env(FailingStorage(allowed, [])), name="t")
    many = pa.table({"k": range(500), "v": range(500)})
    with pytest.raises(StorageError, match="disk is full"):
        broken.write_arrow(many)
    assert data_files(tmp_path) == before
    assert [snapshot.id for snapshot in table.snapshots()] == [1]
    assert table.to_arrow().to_pylist() == [{"k": 1, "v": 1}]
    table.write_arrow(many)
    assert table.to_arrow().num_rows == 500 + (0 if keyed else 1)


def test_rows_that_fail_half_way_leave_nothing(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("t", SCHEMA, options={"bucket": "-1", "write-buffer-size": "1 kb"})

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"k": range(1000), "v": range(1000)})
        raise RuntimeError("source is gone")

    with pytest.raises(RuntimeError, match="source is gone"):
        table.write_arrow(batches())
    assert data_files(tmp_path) == set()
    assert table.latest_snapshot() is None


def test_conflicting_commit_removes_its_files(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    table.write_arrow(pa.table({"k": [1], "v": [1]}))
    from bucketlake.ops.table.messages import CommitMessage

    snapshot = table.latest_snapshot()
    assert snapshot is not None
    entry = live_entries(table.store, snapshot)[0]
    write = _prepared(table, 5)
    table.truncate()
    gone = CommitMessage(entry.partition, entry.bucket, 1, deleted_files=(entry.file,))
    with pytest.raises(bucketlake.ConflictError):
        table.commit([gone], "someone")
    write()
    assert table.to_arrow().to_pylist() == [{"k": 7, "v": 5}]
