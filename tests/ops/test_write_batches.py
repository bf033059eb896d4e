"""What one write task makes of batches: files, sequence numbers, spills, and what it removes when it fails."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.profile import examples

from bucketlake import Catalog, InvalidError, Table, UnsupportedError
from bucketlake.ops.rebase.numbers import renumber
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.string()), pa.field("pt", pa.int32())])


def keyed(catalog: Catalog, **options: Any) -> Table:
    return catalog.create_table("t", SCHEMA.remove(2), primary_keys=["k"], options={"bucket": "1", **options})


def batch(*keys: int, value: str = "x") -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(keys, pa.int64()), "v": [f"{value}{i}" for i in range(len(keys))]})


def stored(table: Table, message: CommitMessage) -> list[tuple[Any, ...]]:
    """(key, sequence, kind, value) of every row of a message's files, in file order."""
    folder = table.store.paths.bucket_dir(message.partition, message.bucket)
    found = []
    for file in message.new_files:
        for part in read_key_values(table.store, folder, file):
            found += [(r["_KEY_k"], r["_SEQUENCE_NUMBER"], r["_VALUE_KIND"], r["v"]) for r in part.to_pylist()]
    return found


def test_rows_are_numbered_in_order_of_arrival_and_the_newest_stays(catalog: Catalog) -> None:
    table = keyed(catalog)
    task = prepare_write(table.store, None, commit_user="u")
    (message,) = write_batches(table.store, [batch(3, 1, 3), batch(2, 1, value="y")], task)
    assert stored(table, message) == [(1, 4, 0, "y1"), (2, 3, 0, "y0"), (3, 2, 0, "x2")]
    (file,) = message.new_files
    assert (file.level, file.row_count, file.delete_row_count) == (0, 3, 0)
    assert (file.min_sequence_number, file.max_sequence_number) == (2, 4)


def test_tasks_of_one_write_never_give_the_same_number(catalog: Catalog) -> None:
    table = keyed(catalog)
    table.write_arrow(pa.Table.from_batches([batch(1, 2, 3)]))
    template = prepare_write(table.store, table.latest_snapshot(), tasks=3, commit_user="u")
    numbers = []
    for number in range(3):
        task = replace(template, task=number)
        (message,) = write_batches(table.store, [batch(*range(number, 30))], task)
        numbers += [row[1] for row in stored(table, message)]
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) == 3


def test_row_kinds_come_from_their_column(catalog: Catalog) -> None:
    table = keyed(catalog)
    rows = batch(1, 2, 3, 4).append_column("op", pa.array([0, 1, 2, 3], pa.int8()))
    (message,) = write_batches(table.store, [rows], prepare_write(table.store, None), kinds="op")
    assert [row[2] for row in stored(table, message)] == [0, 1, 2, 3]
    assert message.new_files[0].delete_row_count == 2
    table.commit([message], "u")
    assert sorted(table.to_arrow().column("k").to_pylist()) == [1, 3]
    bad = batch(1).append_column("op", pa.array([7], pa.int8()))
    with pytest.raises(InvalidError, match="not a row kind"):
        write_batches(table.store, [bad], prepare_write(table.store, None), kinds="op")


def test_append_tables_take_no_deletes(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("a", SCHEMA.remove(2), options={"bucket": "-1"})
    rows = batch(1, 2).append_column("op", pa.array([0, 3], pa.int8()))
    with pytest.raises(InvalidError, match="inserts only"):
        write_batches(table.store, [rows], prepare_write(table.store, None), kinds="op")
    assert not list(tmp_path.rglob("data-*"))


@pytest.mark.parametrize("options", [{"file.format": "orc"}, {"file.format.per.level": "5:orc"}])
@pytest.mark.parametrize("bucket", ["2", "-1", "-2"])
def test_padded_char_keys_are_refused_where_orc_takes_the_padding_off(
    catalog: Catalog, options: dict[str, str], bucket: str
) -> None:
    """Their hashes would be others once they are read: a hash index that lacks them, rescaled keys that are twice
    there."""
    fields = [DataField(0, "k", parse_type_text("CHAR(4) NOT NULL")), DataField(1, "c", parse_type_text("CHAR(4)"))]
    table = catalog.create_table("t", fields, primary_keys=["k"], options={"bucket": bucket, **options})
    table.write_arrow(pa.table({"k": ["ab", "abcd"], "c": ["x   ", "y"]}))
    with pytest.raises(UnsupportedError, match="does not keep the spaces at the end of CHAR keys .column=k, "):
        table.write_arrow(pa.table({"k": ["abcd", "ab  "], "c": ["z", "z"]}))
    assert len(table.snapshots()) == 1
    plain = catalog.create_table("p", fields[:1], primary_keys=["k"], options={"bucket": bucket})
    plain.write_arrow(pa.table({"k": ["ab  "]}))


@pytest.mark.parametrize("spillable", ["true", "false"])
@pytest.mark.parametrize("compression", ["zstd", "lz4", "none", None])
def test_small_buffers_give_the_same_rows(catalog: Catalog, spillable: str, compression: str | None) -> None:
    options = {
        "write-buffer-size": "2 kb",
        "write-buffer-spillable": spillable,
        "target-file-size": "4 kb",
    }
    if compression is not None:
        options["spill-compression"] = compression
    table = keyed(catalog, **options)
    generator = np.random.default_rng(1)
    batches = [batch(*generator.integers(0, 300, 97).tolist(), value=f"{i}-") for i in range(20)]
    table.write_arrow(pa.Table.from_batches(batches))
    expected: dict[int, str] = {}
    for part in batches:
        expected.update(zip(part.column("k").to_pylist(), part.column("v").to_pylist(), strict=True))
    assert {row["k"]: row["v"] for row in table.to_arrow().to_pylist()} == expected
    runs = [file.file for file in table.files()]
    if spillable == "true":  # the spilled runs were merged into one
        assert sum(file.row_count for file in runs) == len(expected)


def test_full_spill_disk_is_written_out(catalog: Catalog) -> None:
    options = {"write-buffer-size": "1 kb", "write-buffer-spill.max-disk-size": "1 b"}
    table = keyed(catalog, **options)
    table.write_arrow(pa.Table.from_batches([batch(*range(40)) for _ in range(5)]))
    assert len(table.files()) > 1
    assert table.to_arrow().num_rows == 40


def test_spill_files_are_gone_afterwards(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(scratch))
    table = keyed(catalog, **{"write-buffer-size": "1 kb"})
    seen: list[int] = []

    def batches() -> Any:
        for _ in range(5):
            yield batch(*range(50))
            seen.append(len(list(scratch.rglob("*.arrow"))))

    write_batches(table.store, batches(), prepare_write(table.store, None))
    assert max(seen) > 0
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("primary_keys", [["pt", "k"], []])
def test_very_many_partitions_in_one_task(catalog: Catalog, primary_keys: list[str]) -> None:
    options = {"bucket": "1", "bucket-key": "k", "write-buffer-size": "4 mb"}
    table = catalog.create_table("t", SCHEMA, ["pt"], primary_keys, options)
    partitions = examples(150, 2000)
    rows = 20 * partitions
    data = pa.table(
        {"k": np.arange(rows), "v": ["some text"] * rows, "pt": (np.arange(rows) * 7 % partitions).astype(np.int32)}
    )
    tracemalloc.start()
    held = pa.total_allocated_bytes()
    messages = write_batches(table.store, data.to_batches(4096), prepare_write(table.store, None))
    assert tracemalloc.get_traced_memory()[1] < partitions * 50 << 10
    tracemalloc.stop()
    assert pa.total_allocated_bytes() - held < partitions * 4 << 10
    assert len(messages) == partitions
    assert sum(file.row_count for message in messages for file in message.new_files) == rows
    assert max(len(message.new_files) for message in messages) <= 2


def test_arrival_order_survives_in_bucketed_append_tables(catalog: Catalog) -> None:
    options = {"bucket": "3", "bucket-key": "k", "write-buffer-size": "2 kb", "write-max-writers-to-spill": "1"}
    table = catalog.create_table("t", SCHEMA, options=options)
    order = np.arange(1000)
    keys = np.random.default_rng(2).integers(0, 50, 1000)
    table.write_arrow(pa.table({"k": keys, "v": [str(i) for i in order], "pt": order.astype(np.int32)}))
    for split in table.plan().splits:
        arrival = table.to_arrow(scan_bucket=split.bucket).column("pt").to_pylist()
        assert arrival == sorted(arrival)
    files = Counter(file.bucket for file in table.files())
    for bucket in files:
        ranges = [
            (f.file.min_sequence_number, f.file.max_sequence_number, f.file.row_count)
            for f in table.files()
            if f.bucket == bucket
        ]
        assert ranges[0][0] == 0
        assert all(right[0] == left[1] + 1 for left, right in pairwise(ranges))
        assert all(last - first + 1 == count for first, last, count in ranges)


def test_arrow_layouts_are_all_the_same(catalog: Catalog) -> None:
    table = keyed(catalog)
    plain = pa.array(["a", "b", None])
    for layout in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        table.write_arrow(pa.table({"v": plain.cast(layout), "k": pa.array([1, 2, 3], pa.int32())}))
        assert table.to_arrow().to_pylist() == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 3, "v": None}]


def test_renumbering_keeps_the_rows_and_their_order(catalog: Catalog) -> None:
    table = keyed(catalog)
    (message,) = write_batches(table.store, [batch(5, 6, 5)], prepare_write(table.store, None))
    moved = renumber(table.store, message, 1000)
    assert stored(table, moved) == [(5, 1001, 0, "x2"), (6, 1000, 0, "x1")]
    (old,), (new,) = message.new_files, moved.new_files
    assert new.file_name != old.file_name
    assert (new.min_sequence_number, new.max_sequence_number) == (1000, 1001)
    assert stored(table, message) == [(5, 2, 0, "x2"), (6, 1, 0, "x1")]


def test_thin_files_leave_the_keys_out(catalog: Catalog) -> None:
    table = keyed(catalog, **{"data-file.thin-mode": "true"})
    table.write_arrow(pa.Table.from_batches([batch(2, 1)]))
    table.write_arrow(pa.Table.from_batches([batch(2, value="y")]))
    assert sorted(tuple(r.values()) for r in table.to_arrow().to_pylist()) == [(1, "x1"), (2, "y0")]
    import pyarrow.parquet as pq

    assert pq.read_schema(table.files()[0].path).names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]


def test_a_partition_value_that_is_no_folders_name(catalog: Catalog) -> None:
    """Longer than the file system takes: trying again would not help, and nothing is left behind."""
    schema = pa.schema([("p", pa.string()), ("v", pa.int64())])
    table = catalog.create_table("parts", schema, partition_keys=["p"])
    table.write_arrow(pa.table({"p": ["ok"], "v": [1]}))
    with pytest.raises(InvalidError, match="longer than the file system takes .*bytes=302.*: take shorter names"):
        table.write_arrow(pa.table({"p": ["ok", "x" * 300], "v": [2, 3]}))
    assert table.to_arrow().num_rows == 1 and len(table.snapshots()) == 1
