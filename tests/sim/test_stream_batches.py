"""Batches of a streaming query: whatever dies, gets no answer or expires between two runs, each batch's rows are there
once, or it is refused by name."""

from __future__ import annotations

import contextlib
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import SOAK
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, KILL_BEFORE, FaultStorage, Killed, MapStorage
from tests.sim.tables import create_table, make_store, table_schema

from bucketlake.errors import BucketlakeError, CommitUnknownError, ConflictError, InvalidError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.stream.batches import BatchName, written_once
from bucketlake.ops.table.store import clear_cache
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.table import Table

ROWS = pa.schema([("pt", pa.int32()), ("k", pa.int64()), ("v", pa.string())])
SCHEMA = table_schema(keyed=False, partitioned=False, bucket=-1)


PROCESSES = count()


def table_on(storage: Any) -> Table:
    """A process of its own."""
    return Table(make_store(storage, FakeClock(next(PROCESSES)), SCHEMA), "db.t")


def write(table: Table, number: int, value: str | None = None, **name: Any) -> Snapshot | None:
    """One batch of query `q`, of two rows; of none where `value` is ""."""

    def rows(batch: BatchName) -> Snapshot | None:
        made = pa.record_batch({"pt": [1, 1], "k": [number, number], "v": [value or "a", "b"]}, schema=ROWS)
        task = prepare_write(table.store, table.latest_snapshot(), commit_user=batch.query)
        messages = write_batches(table.store, [] if value == "" else [made], task)
        return table.commit(messages, batch)

    return written_once(table.store, BatchName("q", number, **name), rows)


def numbers(table: Table) -> list[int]:
    return sorted(row["k"] for row in table.to_arrow().to_pylist())


def ready() -> MapStorage:
    clear_cache()
    storage = MapStorage()
    create_table(storage, FakeClock(), SCHEMA)
    write(table_on(storage), 0)
    return storage


def calls() -> int:
    storage = FaultStorage(ready())
    write(table_on(storage), 1)
    return len(storage.calls)


@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER])
def test_a_batch_that_comes_again_after_a_fault_is_there_once(fault: str) -> None:
    for place in range(0, calls(), 1 if SOAK else 2):
        storage = ready()
        broken = FaultStorage(storage, lambda k, operation, path, at=place: fault if k == at else None)
        with contextlib.suppress(Killed, BucketlakeError):
            write(table_on(broken), 1)
        clear_cache()
        write(table_on(storage), 1)
        write(table_on(storage), 2)
        assert numbers(table_on(storage)) == [0, 0, 1, 1, 2, 2], f"fault at call {place}"


@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER])
def test_it_is_there_once_or_refused_where_its_snapshot_may_have_expired(fault: str) -> None:
    refused = 0
    for place in range(0, calls(), 1 if SOAK else 2):
        storage = ready()
        broken = FaultStorage(storage, lambda k, operation, path, at=place: fault if k == at else None)
        with contextlib.suppress(Killed):
            write(table_on(broken), 1)
        clear_cache()
        table = table_on(storage)
        for _ in range(3):  # others go on, and what tells of the batch goes
            table.write_arrow(pa.table({"pt": [1], "k": [9], "v": ["x"]}, schema=ROWS))
        table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
        try:
            write(table_on(storage), 1)
        except CommitUnknownError as error:
            assert "cannot be told" in str(error)
            refused += 1
            assert [k for k in numbers(table) if k == 1] in ([], [1, 1])
        else:
            assert [k for k in numbers(table) if k == 1] == [1, 1], f"fault at call {place}"
    assert refused


def test_a_table_put_back_from_a_copy_is_told_from_its_checkpoint() -> None:
    """Batches between the copy and the checkpoint would be missing."""
    storage = ready()
    copy = MapStorage()
    copy.files.update(storage.files)
    for number in (1, 2):
        write(table_on(storage), number)
    clear_cache()
    with pytest.raises(InvalidError, match=r"lacks batches .*batch=3, written=0"):
        write(table_on(copy), 3)
    write(table_on(copy), 1)
    write(table_on(copy), 2, "")
    write(table_on(copy), 3)
    assert numbers(table_on(copy)) == [0, 0, 1, 1, 3, 3]
    write(table_on(copy), 7, first=True)  # a function of the user's may leave batches out


def test_checkpoints_that_are_older_or_of_another_table() -> None:
    storage = ready()
    table = table_on(storage)
    with pytest.raises(InvalidError, match="has not written to this table"):
        written_once(table.store, BatchName("other", 3), lambda batch: None)
    assert written_once(table.store, BatchName("other", 3, first=True), lambda batch: None) is None
    for number in (1, 2):
        write(table, number, fingerprint=f"f{number}")
    with pytest.raises(InvalidError, match="older than what the query has written"):
        write(table, 1)
    with pytest.raises(InvalidError, match="other rows"):
        write(table, 2, fingerprint="another")
    assert write(table, 2, fingerprint="f2") == table.latest_snapshot()
    assert numbers(table) == [0, 0, 1, 1, 2, 2]


def test_batches_without_rows_are_known_too() -> None:
    storage = ready()
    table = table_on(storage)
    assert write(table, 1, "") is None
    for _ in range(2):
        table.write_arrow(pa.table({"pt": [1], "k": [9], "v": ["x"]}, schema=ROWS))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    assert write(table, 1, "") is None
    assert write(table, 2) is not None


def test_another_run_of_the_query_at_the_same_time_is_noticed() -> None:
    storage = ready()
    table = table_on(storage)

    def rows(batch: BatchName) -> Snapshot | None:
        write(table_on(storage), 1)  # the other run is through first
        made = pa.record_batch({"pt": [1], "k": [1], "v": ["a"]}, schema=ROWS)
        task = prepare_write(table.store, table.latest_snapshot(), commit_user=batch.query)
        return table.commit(write_batches(table.store, [made], task), batch)

    try:
        written_once(table.store, BatchName("q", 1), rows)
    except ConflictError as error:
        assert "another run" in str(error)
    assert numbers(table) == [0, 0, 1, 1]


@pytest.mark.parametrize("last", [1, 3])
@pytest.mark.parametrize("first", ["before", "behind"])
def test_another_run_is_noticed_where_what_it_made_has_expired(first: str, last: int) -> None:
    """A run that was taken for dead publishes its batch when the next run has made it, or later ones, and all snapshots of
    these have expired. `first`: which of the two has begun the batch first."""
    storage = ready()
    table = table_on(storage)

    def expired() -> None:
        for _ in range(3):
            table.write_arrow(pa.table({"pt": [1], "k": [9], "v": ["x"]}, schema=ROWS))
        table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")

    def behind(batch: BatchName) -> Snapshot | None:
        """The other run goes on while this one sleeps."""
        for number in range(1, last + 1):
            write(table_on(storage), number)
        expired()
        return made(batch)

    def made(batch: BatchName) -> Snapshot | None:
        rows = pa.record_batch({"pt": [1, 1], "k": [1, 1], "v": ["a", "b"]}, schema=ROWS)
        task = prepare_write(table.store, table.latest_snapshot(), commit_user=batch.query)
        return table.commit(write_batches(table.store, [rows], task), batch)

    def other(batch: BatchName) -> Snapshot | None:
        """Begins last, and is overtaken by the one that began first."""
        with contextlib.suppress(ConflictError):
            made(slept.pop())
        expired()
        return made(batch)

    slept: list[BatchName] = []

    def sleeps(batch: BatchName) -> Snapshot | None:
        slept.append(batch)
        written_once(table.store, BatchName("q", 1), other)
        return None

    with pytest.raises(ConflictError, match="another run"):
        written_once(table.store, BatchName("q", 1), behind if first == "before" else sleeps)
    assert numbers(table).count(1) == 2


def test_the_watermark_of_a_batch_is_the_snapshots() -> None:
    storage = ready()
    made = write(table_on(storage), 1, watermark=12345)
    assert made is not None and made.watermark == 12345
