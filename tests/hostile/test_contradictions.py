"""A base on which no snapshot can stand is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.check.forged import live, newest, path_of, put, rows, settle, some, table_of, with_file, write_list

from bucketlake import CorruptError
from bucketlake.format.metadata.manifest import SEQUENCE, FileKind
from bucketlake.ops.commit.manifests import write_manifests


def test_a_base_that_counts_as_many_rows_as_there_may_be_is_named(tmp_path: Path) -> None:
    table = table_of(tmp_path, (), bucket="-1")
    table.write_arrow(some(0, 10))
    settle(table, total_record_count=2**63 - 1)
    with pytest.raises(
        CorruptError, match=r"contradictory.*totalRecordCount.*base=.*/t/snapshot/snapshot-1\b.*sys.fsck"
    ):
        table.refresh().write_arrow(some(10, 20))


def test_files_whose_sequence_numbers_leave_the_range_are_named(tmp_path: Path) -> None:
    table = table_of(tmp_path, bucket="1")
    table.write_arrow(some(0, 10))
    settle(table, [with_file(entry, max_sequence_number=SEQUENCE[1]) for entry in live(table)])
    with pytest.raises(CorruptError, match=r"contradictory.*sequence.*base=.*/snapshot-1\b.*data-"):
        table.refresh().write_arrow(some(10, 20))


@pytest.mark.parametrize("kind", [FileKind.DELETE, FileKind.ADD])
def test_an_entry_of_a_partition_that_its_list_hides_ends_an_expiry(tmp_path: Path, kind: FileKind) -> None:
    """Which manifests tell of a file is decided by what the list says of them."""
    table = table_of(tmp_path, (), bucket="-1")
    table.write_arrow(some(0, 10, part="x"))
    table.write_arrow(some(0, 10, part="y"))
    (hidden,) = [entry for entry in live(table.refresh()) if b"y" in entry.partition]
    table.delete("p = 'x'")
    last, store = newest(table.refresh()), table.store
    (listed,) = store.manifest_list(last.delta_manifest_list)
    entries = [*store.manifest(listed), replace(hidden, kind=kind)]
    (forged,) = write_manifests(store, entries)
    delta = write_list(store, [replace(forged, partition_stats=listed.partition_stats)])
    put(table, replace(last, delta_manifest_list=delta.name, delta_manifest_list_size=delta.size))
    before = store.snapshot_ids()
    with pytest.raises(CorruptError, match=rf"{forged.file_name}.*p=y"):
        table.refresh().expire_snapshots(retain_max=1, retain_min=1)
    assert store.snapshot_ids() == before and path_of(table, hidden).exists()


def test_a_number_of_nulls_below_zero_is_not_known(tmp_path: Path) -> None:
    table = table_of(tmp_path, (), bucket="-1")
    table.write_arrow(rows(("x", 1, "a"), ("x", 2, None)))
    (one,) = live(table.refresh())
    settle(table, [with_file(one, value_stats=replace(one.file.value_stats, null_counts=(0, 0, -1)))])
    assert table.refresh().to_arrow("v IS NULL").column("k").to_pylist() == [2]
    assert table.refresh().to_arrow("v IS NOT NULL").column("k").to_pylist() == [1]


@pytest.mark.parametrize("lie", ["bounds", "nulls"])
def test_statistics_that_no_rows_have_are_not_known(tmp_path: Path, lie: str) -> None:
    """A least value above the greatest, more nulls than rows."""
    table = table_of(tmp_path, (), bucket="-1")
    table.write_arrow(some(0, 10))
    (one,) = live(table.refresh())
    stats = one.file.value_stats
    crossed = replace(stats, min_values=stats.max_values, max_values=stats.min_values)
    forged = crossed if lie == "bounds" else replace(stats, null_counts=(11, 11, 11))
    settle(table, [with_file(one, value_stats=forged)])
    assert table.refresh().to_arrow("k = 3").column("k").to_pylist() == [3]
    table.refresh().delete("k >= 8")
    assert table.refresh().to_arrow().num_rows == 8


def test_a_file_without_rows_is_looked_into(tmp_path: Path) -> None:
    """Nobody writes one: a condition does not leave it out."""
    table = table_of(tmp_path, (), bucket="-1")
    table.write_arrow(some(0, 10))
    (one,) = live(table.refresh())
    settle(table, [with_file(one, row_count=0)])
    with pytest.raises(CorruptError, match=one.file.file_name):
        table.refresh().to_arrow("k = 3")
