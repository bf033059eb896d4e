"""Pending rows dealt out by the residues of their bucket hashes: who reads which file, and that no row is lost to a
name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.profile import examples
from tests.sim.tables import data_file

import bucketlake
from bucketlake.errors import CorruptError
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.ops.buckets import dealt
from bucketlake.ops.buckets.postpone import modulus_for
from bucketlake.ops.compact import postpone_compact
from bucketlake.ops.compact.postpone_compact import PendingPlan, place_pending, units_pending
from bucketlake.ops.rows.residues import MODULUS, Residue, fitting, may_meet, residue_of, residues
from bucketlake.ops.rows.roll import Roller
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.table import Table
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

PENDING = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}


@pytest.fixture(autouse=True)
def as_if_many() -> Iterator[None]:
    with patch.object(dealt, "DEALT_BYTES", 1), patch.object(postpone_compact, "UNIT_BYTES", 1):
        yield


def create(folder: Path, kind: pa.DataType | None = None, **options: str) -> Table:
    catalog = bucketlake.open(folder)
    catalog.create_database("db", ignore_if_exists=True)
    schema = pa.schema([("k", kind or pa.int64()), ("v", pa.int64())])
    texts = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table("db.t", schema, primary_keys=["k"], options={**PENDING, **texts})


def rows(keys: range, value: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [value] * len(keys)})


def pending(table: Table) -> list[Any]:
    store = table.refresh().store
    return [entry.file for entry in live_entries(store, store.latest_snapshot()) if entry.bucket == -2]


def seen(table: Table, **options: str) -> dict[int, int]:
    return {row["k"]: row["v"] for row in table.refresh().to_arrow(**options).to_pylist()}


def test_each_task_of_a_compaction_reads_files_of_its_own(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__default_bucket_num="8")
    table.write_arrow(rows(range(100), 0))
    table.write_arrow(rows(range(50, 150), 1))
    files = pending(table)
    assert len(files) == 2 * MODULUS
    assert {residue_of(table.store, file) for file in files} == {Residue(number, 8) for number in range(8)}
    units = units_pending(table.store, table.latest_snapshot(), parallelism=2)
    assert [unit.share for unit in units] == [(number, 8) for number in range(8)]
    assert all(len(unit.files) == 2 for unit in units)
    assert sum(unit.row_count for unit in units) == 200
    assert sum(unit.size for unit in units) == sum(file.file_size for file in files)
    table.compact()
    assert seen(table) == {**dict.fromkeys(range(100), 0), **dict.fromkeys(range(50, 150), 1)}


@pytest.mark.parametrize(
    ("options", "parallelism", "modulus"),
    [
        ({}, 0, 8),
        ({}, 1, 1),
        ({}, 12, 12),
        ({}, 17, 8),
        ({"postpone__default_bucket_num": "3"}, 12, 3),
        ({"postpone__default_bucket_num": "100"}, 12, 8),
        ({"postpone__target_row_num_per_bucket": "50"}, 12, 8),
    ],
)
def test_rows_are_dealt_out_by_the_buckets_to_come(
    tmp_path: Path, options: dict[str, str], parallelism: int, modulus: int
) -> None:
    table = create(tmp_path, **options)
    assert modulus_for(table.store.options, parallelism) == modulus
    task = replace(prepare_write(table.store, None), parallelism=parallelism)
    table.commit(write_batches(table.store, rows(range(300), 0).to_batches(), task), "me")
    named = {residue_of(table.store, file) for file in pending(table)}
    assert named == ({None} if modulus == 1 else {Residue(number, modulus) for number in range(modulus)})


def test_a_write_that_fails_leaves_none_of_its_files(tmp_path: Path) -> None:
    table, closed = create(tmp_path), []
    close = Roller.close

    def dies(roller: Roller) -> Any:
        if len(closed) == 3:
            raise OSError("no space left on device")
        closed.append(close(roller))
        return closed[-1]

    with patch.object(Roller, "close", dies), pytest.raises(OSError, match="no space"):
        table.write_arrow(rows(range(100), 0))
    assert sum(map(len, closed)) == 3
    assert not list(Path(table.path).rglob("*.parquet"))
    table.write_arrow(rows(range(100), 0))
    assert len(pending(table)) == MODULUS


def test_few_rows_and_many_partitions_are_not_dealt_out(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    schema = pa.schema([("p", pa.int64()), ("k", pa.int64())])
    options = {**PENDING, "write-buffer-size": "64 kb", "write-max-writers-to-spill": "100"}
    table = catalog.create_table("db.t", schema, ["p"], ["p", "k"], options)
    with patch.object(dealt, "DEALT_BYTES", 64 << 10):
        table.write_arrow(pa.table({"p": [n % 50 for n in range(20_000)], "k": list(range(20_000))}))
    assert len(pending(table)) == 50
    assert not [file for file in pending(table) if "-w-r" in file.file_name]
    table.compact()
    assert table.refresh().to_arrow().num_rows == 20_000


@settings(max_examples=examples(20, 400), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(0, 18)), min_size=1, max_size=4),
    st.integers(1, 13),
    st.integers(1, 9),
    st.sampled_from(["default", "mod", "hive"]),
    st.sampled_from(["parquet", "orc", "avro"]),
)
def test_any_number_of_buckets_and_tasks_finds_every_row(
    tmp_path_factory: pytest.TempPathFactory, writes: Any, total: int, tasks: int, function: str, form: str
) -> None:
    """`writes`: first key, how many, how many buckets were thought of when they were dealt out; 0: they were not."""
    options = {"postpone__default_bucket_num": str(total), "bucket_function__type": function, "file__format": form}
    table = create(tmp_path_factory.mktemp("wh"), **options)
    expected: dict[int, int] = {}
    for version, (start, count, thought) in enumerate(writes):
        with patch.object(dealt, "DEALT_BYTES", 1 if thought else 1 << 30):
            thinking = {"postpone_default_bucket_num": str(thought)} if thought else {}
            table.write_arrow(rows(range(start - 30, start - 30 + count), version), **thinking)
        expected |= dict.fromkeys(range(start - 30, start - 30 + count), version)
    for size in ("4 kb", "1 gb"):
        merging = {"postpone_merge_on_read": "true", "source_split_target_size": size}
        assert seen(table, **merging) == expected
    units = units_pending(table.store, table.latest_snapshot(), parallelism=tasks)
    assert {file.file_name for unit in units for file in unit.files} == {file.file_name for file in pending(table)}
    place_pending(table.store, PendingPlan(parallelism=tasks))
    assert not pending(table)
    assert seen(table) == expected


@given(st.integers(1, 64), st.integers(1, 64), st.data())
def test_a_share_misses_no_residue_that_its_buckets_have(total: int, shares: int, data: st.DataObject) -> None:
    shares = min(shares, total)
    keys = np.array(data.draw(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=20)), np.int64)
    batch = pa.RecordBatch.from_arrays([pa.array(keys)], names=["k"])
    fields = [DataField(0, "k", parse_type_text("BIGINT NOT NULL"))]
    modulus = data.draw(st.integers(1, 20))
    buckets, numbers = assign_buckets(batch, fields, total), assign_buckets(batch, fields, modulus)
    for bucket, number in zip(buckets.tolist(), numbers.tolist(), strict=True):
        assert may_meet(Residue(number, modulus), total, (bucket % shares, shares))
        Residue(number, modulus).check(np.array([bucket]), total, data_file("data-u-x-s-0-w-r1of8-a-0.parquet"))
    own = fitting(total, shares, [Residue(0, modulus)])
    assert own <= shares and gcd(total, modulus) % own == 0
    assert fitting(total, shares, [Residue(0, modulus), None]) == 1


def test_a_name_that_lies_is_told(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__default_bucket_num="4")
    with patch.object(
        dealt, "residues", lambda schema, batch, modulus: (residues(schema, batch, modulus) + 1) % modulus
    ):
        table.write_arrow(rows(range(100), 0))
    with pytest.raises(CorruptError, match="rows of other buckets than its name says") as told:
        table.compact()
    assert any(file.file_name in str(told.value) for file in pending(table))
    table = create(tmp_path / "real", postpone__target_row_num_per_bucket="20")
    table.write_arrow(rows(range(80), 0), postpone_batch_write_fixed_bucket="true")
    with patch.object(
        dealt, "residues", lambda schema, batch, modulus: (residues(schema, batch, modulus) + 1) % modulus
    ):
        table.write_arrow(rows(range(80), 1))
    merging = {"postpone_merge_on_read": "true", "source_split_target_size": "2 kb"}
    assert {split.share[1] for split in table.refresh().plan(**merging).splits} == {4}
    with pytest.raises(CorruptError, match="rows of other buckets than its name says"):
        seen(table, **merging)


@pytest.mark.parametrize(
    "mark", ["r8of8-", "r9of8-", "r1of0-", "r0of0-", "r-1of8-", "r1of-8-", "r99999of99999-", "r1of8"]
)
def test_marks_that_nobody_writes_say_nothing(tmp_path: Path, mark: str) -> None:
    table = create(tmp_path)
    file = data_file(f"data-u-bucketlake-s-0-w-{mark}a-0.parquet")
    assert residue_of(table.store, file) is None


def test_marks_of_other_bucket_keys_say_nothing(tmp_path: Path) -> None:
    table = create(tmp_path)
    file = replace(data_file("data-u-bucketlake-s-0-w-r1of8-a-0.parquet"), schema_id=0)
    assert residue_of(table.store, file) == Residue(1, 8)
    fields = [replace(item, type=parse_type_text("INT NOT NULL")) for item in table.schema.fields]
    other = table.store.with_schema(replace(table.schema, id=1, fields=tuple(fields)))
    assert residue_of(other, file) is None
