"""Changelog files that Flink merges before it commits (`precommit-compact`): their rows, checks, expiry."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.peers.flink import FlinkPaimon

import bucketlake
from bucketlake.ops.clean.orphans import remove_orphans

pytestmark = pytest.mark.peer

OPTIONS = "'bucket'='3', 'changelog-producer'='lookup', 'precommit-compact'='true', 'snapshot.num-retained.min'='1'"
TOLD = [
    ("+I", 1, "a"),
    ("+I", 2, "b"),
    ("+I", 3, "c"),
    ("+I", 4, "d"),
    ("+U", 1, "x"),
    ("+U", 4, "y"),
    ("-U", 1, "a"),
    ("-U", 4, "d"),
]


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_their_changes_are_read_and_expire(flink: FlinkPaimon, tmp_path: Path, form: str) -> None:
    catalog = bucketlake.open(tmp_path)
    flink.use(tmp_path)
    flink.sql(f"CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v STRING) WITH ({OPTIONS}, 'file.format'='{form}')")
    flink.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    flink.sql("INSERT INTO t VALUES (1, 'x'), (4, 'y')")
    table = catalog.table("t")
    assert list(Path(table.path).rglob(f"compacted-changelog-*.cc-{form}"))
    between = {"incremental-between": "0,4", "incremental-between-scan-mode": "changelog"}
    changes = catalog.table("t$audit_log").to_arrow(**between).to_pylist()
    assert sorted((row["rowkind"], row["k"], row["v"]) for row in changes) == TOLD
    assert table.fsck("rows").findings == ()
    assert remove_orphans(table.store, 1 << 60).paths == ()
    with pytest.warns(UserWarning, match="precommit-compact"):
        table.write_arrow(table.to_arrow())
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert not list(Path(table.path).rglob("compacted-changelog-*"))
    assert sorted(flink.sql("SELECT * FROM t").rows) == [(1, "x"), (2, "b"), (3, "c"), (4, "y")]
