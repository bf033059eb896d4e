"""Files written anew in another format: rows, vectors and what others commit meanwhile survive."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.ops.test_clone import KINDS, SCHEMA, batch, rows
from tests.profile import SOAK, first
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, KILL_BEFORE, FaultStorage, Killed, fault_at

from bucketlake import Catalog, Table
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.errors import BucketlakeError, ConflictError, InvalidError, UnsupportedError
from bucketlake.ops.compact import reformat as reformatting
from bucketlake.ops.compact.reformat import reformat, rewrite_here
from bucketlake.ops.table.store import Store

ORC = {"file.format": "orc"}


def make(catalog: Catalog, kind: str, name: str = "db.t") -> Table:
    """Rows at several levels, superseded and deleted ones among them."""
    keys, options = KINDS[kind]
    table = catalog.create_table(name, SCHEMA, ["p"], list(keys), {**options, "num-sorted-run.compaction-trigger": "9"})
    table.write_arrow(batch(0, 30))
    table.compact()
    table.write_arrow(batch(20, 40, "y"))
    if kind == "postpone":
        table.compact()
        table.write_arrow(batch(50, 53), **{"postpone.batch-write-fixed-bucket": "false"})
    else:
        table.delete("k IN (5, 25)")
    return table


def shape(table: Table) -> list[tuple[Any, ...]]:
    """What must not change of every file."""
    return sorted(
        (
            *(f.partition["p"], f.bucket, f.file.level, f.file.row_count, f.file.min_key, f.file.max_key),
            *(f.file.min_sequence_number, f.file.max_sequence_number, f.file.delete_row_count, f.file.creation_time),
        )
        for f in table.files(**{"scan.mode": "latest-full"})
    )


def formats(table: Table) -> set[str]:
    return {f.path.rsplit(".", 1)[-1] for f in table.files() if f.bucket >= 0}


@pytest.mark.parametrize("kind", first(list(KINDS), 5))
def test_rows_levels_and_vectors_stay(catalog: Catalog, kind: str) -> None:
    table = make(catalog, kind)
    expected, before = rows(table), shape(table)
    done = table.rewrite(options=ORC)
    assert done.files == len([f for f in table.files() if f.bucket >= 0])
    assert formats(table) == {"orc"}
    assert rows(table) == expected
    assert shape(table) == before
    assert done.snapshot is not None and done.snapshot.commit_kind.value == "COMPACT"
    assert table.rewrite(options=ORC).files == 0
    assert rows(table, scan_snapshot_id=done.snapshot.id - 1) == expected
    table.write_arrow(batch(38, 60, "z"))
    table.delete("k = 30")
    table.with_options({"compaction.min.file-num": "1"}).compact(full=True)
    table.expire_snapshots(1, 1)
    left = {row[1] for row in rows(table)}
    assert left == ({row[1] for row in expected} | set(range(38, 60))) - {30}


def test_compression_and_row_groups(catalog: Catalog) -> None:
    table = make(catalog, "append")
    expected = rows(table)
    assert table.rewrite().files == 0
    assert table.rewrite(options={"file.compression": "snappy"}).files == len(table.files())
    assert table.rewrite(options={"file.compression": "snappy"}).files == 0
    metadata = [pq.ParquetFile(f.path).metadata for f in table.files()]
    assert {one.row_group(0).column(0).compression for one in metadata} == {"SNAPPY"}
    assert table.rewrite("p = 1", every=True).files == len(table.files(where="p = 1"))
    assert rows(table) == expected
    with pytest.raises(InvalidError, match="Only partition predicate"):
        table.rewrite("k = 1")
    with pytest.raises(UnsupportedError):
        table.rewrite(options={"file.format": "lance"})


@pytest.mark.parametrize(
    "kind", first(["append vectors", "append", "append buckets", "vectors", "fixed", "dynamic", "cross"], 2)
)
def test_what_others_commit_meanwhile_survives(catalog: Catalog, kind: str) -> None:
    table = make(catalog, kind)
    twin = make(catalog, kind, "db.twin")
    store, done = table.store.with_options(ORC), []

    def meanwhile(one: Table) -> None:
        one.write_arrow(batch(28, 44, "late"))
        one.delete("k IN (1, 2, 33)")
        if len(done) == 2:
            one.with_options({"compaction.min.file-num": "1"}).compact(full=True)

    def run(store: Store, units: Any) -> Any:
        messages = rewrite_here(store, units)
        if len(done) < 2:
            done.append(True)
            meanwhile(table)
        return messages

    reformat(store, run=run)
    done.clear()
    for _ in range(2):
        done.append(True)
        meanwhile(twin)
    assert rows(table) == rows(twin)
    table.rewrite(options=ORC)
    assert formats(table) == {"orc"}
    assert rows(table) == rows(twin)


def test_what_was_committed_stays_where_a_later_batch_fails(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reformatting, "BATCH_BYTES", 1)
    monkeypatch.setattr(reformatting, "UNIT_BYTES", 1)
    table = make(catalog, "fixed")
    expected, runs = rows(table), []

    def run(store: Store, units: Any) -> Any:
        runs.append(units)
        if len(runs) > 2:
            raise KeyboardInterrupt
        return rewrite_here(store, units)

    with pytest.raises(KeyboardInterrupt):
        reformat(table.store.with_options(ORC), run=run)
    assert formats(table) == {"orc", "parquet"}
    assert rows(table) == expected
    left = len([f for f in table.files() if f.path.endswith("parquet")])
    assert table.rewrite(options=ORC).files == left
    assert rows(table) == expected


def test_a_rewrite_that_always_loses_says_so(catalog: Catalog) -> None:
    table = make(catalog, "fixed")

    def run(store: Store, units: Any) -> Any:
        messages = rewrite_here(store, units)
        with suppress(ConflictError):
            table.rewrite(every=True)
        return messages

    expected = rows(table)
    reformat(table.store.with_options(ORC), run=run)  # its files are gone: nothing is left of it to do
    assert rows(table) == expected


@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER])
def test_a_fault_at_any_step_changes_no_row(catalog: Catalog, fault: str) -> None:
    table = make(catalog, "vectors")
    expected = rows(table)

    def faulty(storage: FaultStorage) -> Store:
        store = table.store.with_options(ORC)
        return replace(store, env=Env(storage, store.env.clock))

    count = FaultStorage(LocalStorage())
    reformat(faulty(count))
    step = 1 if SOAK else 41
    start = 11 * [KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER].index(fault) % step
    for call in range(start, len(count.calls), step):
        table.rewrite(every=True)
        with suppress(Killed, BucketlakeError):
            reformat(faulty(FaultStorage(LocalStorage(), fault_at(call, fault))), every=True)
        assert rows(table) == expected, call
