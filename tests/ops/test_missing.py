"""Tables that lost manifests to something else: what is left can be read again."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import Table
from bucketlake.errors import NotFoundError
from bucketlake.ops.table.store import clear_cache

SCHEMA = pa.schema([("k", pa.int64())])


def make(folder: Path) -> Table:
    table = bucketlake.open(folder).create_table("t", SCHEMA)
    for k in range(4):
        table.write_arrow(pa.table({"k": [k, k + 10]}, schema=SCHEMA))
    return table


def keys(table: Table) -> list[int]:
    clear_cache()
    return sorted(table.to_arrow().column(0).to_pylist())


def lose(table: Table, number: int) -> str:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    name = table.store.data_manifests(snapshot)[number].file_name
    Path(table.store.paths.manifest(name)).unlink()
    clear_cache()
    return name


def test_what_is_left_can_be_read_and_written(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert table.remove_unexisting_manifests() == []
    names = [lose(table, 1), lose(table, 3)]
    with pytest.raises(NotFoundError):
        keys(table)
    assert table.remove_unexisting_manifests() == names
    assert keys(table) == [0, 2, 10, 12]
    newest = table.latest_snapshot()
    assert newest is not None and newest.total_record_count == 4
    table.write_arrow(pa.table({"k": [7]}, schema=SCHEMA))
    table.compact()
    assert keys(table) == [0, 2, 7, 10, 12]


def test_a_lost_deletion_is_warned_of(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.truncate()
    lose(table, -1)
    with pytest.warns(UserWarning, match="deleted 4 files"):
        table.remove_unexisting_manifests()
    assert len(keys(table)) == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.remove_unexisting_manifests() == []


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    assert bucketlake.open(tmp_path).create_table("t", SCHEMA).remove_unexisting_manifests() == []
