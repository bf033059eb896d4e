"""Apache Paimon reads tables that were repaired here: rows moved to their buckets, levels made one run, an index built."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.check.forged import file_of, hash_index, indexes, key_values, live, read, settle, some, table_of, with_file
from tests.peers.flink import FlinkPaimon

from bucketlake.table import Table

pytestmark = pytest.mark.peer


def _wrong_buckets(folder: Path) -> Table:
    table = table_of(folder, bucket="2")
    table.write_arrow(some(0, 10))
    table.compact()
    wrong = [file_of(table, entry, key_values(table, [(k, 50, 0, "new") for k in range(4)])) for entry in live(table)]
    settle(table, [*live(table), *wrong])
    return table


def _overlapping(folder: Path) -> Table:
    table = table_of(folder, bucket="1")
    table.write_arrow(some(0, 10))
    table.write_arrow(some(5, 12, "b"))
    settle(table, [with_file(entry, level=5) for entry in live(table)])
    return table


def _index_lacks(folder: Path) -> Table:
    table = table_of(folder, bucket="-1", **{"dynamic-bucket.target-row-num": "5"})
    table.write_arrow(some(0, 10))
    first = live(table)[0]
    others = [entry for entry in indexes(table) if entry.bucket != first.bucket]
    settle(table, index=[*others, hash_index(table, first, np.array([5], np.int32))])
    return table


@pytest.mark.slow
@pytest.mark.parametrize("make", [_wrong_buckets, _overlapping, _index_lacks])
def test_paimon_reads_and_writes_a_repaired_table(flink: FlinkPaimon, make: object, tmp_path: Path) -> None:
    assert callable(make)
    table: Table = make(tmp_path)
    assert table.fsck("keys").errors
    table.repair(dry_run=False)
    flink.use(tmp_path)
    assert sorted(flink.sql("SELECT p, k, v FROM `t`").rows) == read(table)
    flink.sql("INSERT INTO `t` VALUES ('x', CAST(3 AS BIGINT), 'theirs'), ('x', CAST(99 AS BIGINT), 'theirs')")
    found = read(table)
    assert sorted(flink.sql("SELECT p, k, v FROM `t`").rows) == found
    assert [row for row in found if row[2] == "theirs"] == [("x", 3, "theirs"), ("x", 99, "theirs")]
    assert not table.refresh().fsck("rows").errors
