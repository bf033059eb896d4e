"""Tables whose snapshots Bucketlake and Apache Paimon expire in turns: each reads what the other has left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon
from tests.profile import first

import bucketlake
from bucketlake import Table
from bucketlake.env.local import LocalStorage
from bucketlake.format.metadata.snapshot import encode_snapshot
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.scan.scan import changelog_entries
from bucketlake.ops.table.store import clear_cache

pytestmark = pytest.mark.peer

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
NEVER = {"snapshot.num-retained.min": "100", "snapshot.num-retained.max": "200"}
MODES: dict[str, tuple[list[str], dict[str, str]]] = {
    "plain": (["k"], {"bucket": "2"}),
    "lookup": (["k"], {"bucket": "1", "changelog-producer": "lookup"}),
    "vectors": (["k"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "dynamic": (["k"], {"bucket": "-1"}),
    "append": ([], {"bucket": "-1"}),
}
LONGER = {"changelog.num-retained.max": "300", "changelog.num-retained.min": "150"}


def put(flink: FlinkPaimon, table: Table, name: str, turn: int) -> None:
    """One write by us, one by Paimon."""
    rows = [(k, turn) for k in range(turn, turn + 4)]
    table.write_arrow(pa.table([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], schema=SCHEMA))
    flink.sql(f"INSERT INTO `{name}` VALUES (CAST({turn} AS BIGINT), CAST({turn + 100} AS BIGINT))")


def theirs(flink: FlinkPaimon, name: str, **options: Any) -> list[tuple[Any, ...]]:
    listed = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    hint = f" /*+ OPTIONS({listed}) */" if listed else ""
    return sorted(flink.sql(f"SELECT k, v FROM `{name}`{hint}").rows)


def ours(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    clear_cache()
    return sorted(tuple(row.values()) for row in table.to_arrow(**options).to_pylist())


def compare(flink: FlinkPaimon, table: Table, name: str, expected: dict[int, Any], kept: int) -> None:
    ids = table.store.snapshot_ids()
    assert len(ids) == kept
    for number in ids:
        assert ours(table, scan_snapshot_id=number) == expected[number]
        assert theirs(flink, name, **{"scan.snapshot-id": number}) == expected[number], number
    assert ours(table, scan_tag_name="kept") == expected[2] == theirs(flink, name, **{"scan.tag-name": "kept"})


@pytest.mark.slow
@pytest.mark.parametrize("mode", first(["vectors", "dynamic", "plain", "append", "lookup"], 2))
def test_expired_in_turns(flink: FlinkPaimon, tmp_path: Path, mode: str) -> None:
    catalog = bucketlake.open(tmp_path)
    flink.use(catalog.warehouse)
    keys, options = MODES[mode]
    table = catalog.create_table(f"default.{mode}", SCHEMA, primary_keys=keys, options={**NEVER, **options})
    for turn in range(3):
        put(flink, table, mode, turn)
    expected = {s.id: ours(table, scan_snapshot_id=s.id) for s in table.snapshots()}
    store = table.store
    store.env.storage.write(store.paths.tag("kept"), encode_snapshot(store.snapshot(2)))
    table.expire_snapshots(retain_max=4, retain_min=1)
    compare(flink, table, mode, expected, 4)
    flink.sql(f"CALL sys.expire_snapshots(`table` => 'default.{mode}', retain_max => 2, retain_min => 1)")
    compare(flink, table, mode, expected, 2)
    put(flink, table, mode, 7)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert ours(table) == theirs(flink, mode)
    assert remove_orphans(store, 1 << 60, dry_run=True).paths == ()


def test_changelogs_of_both(flink: FlinkPaimon, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    flink.use(catalog.warehouse)
    keys, options = MODES["lookup"]
    table = catalog.create_table("default.t", SCHEMA, primary_keys=keys, options={**NEVER, **LONGER, **options})
    for turn in range(4):
        put(flink, table, "t", turn)
    store = table.store
    before = {s.id: changelog_entries(store, s) for s in table.snapshots()}
    middle, newest = sorted(before)[len(before) // 2], max(before)
    table.expire_snapshots(retain_max=newest - middle + 1, retain_min=1)
    ending = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    hints = ", ".join(f"'{key}'='{value}'" for key, value in ending.items())
    flink.sql(f"INSERT INTO `t` /*+ OPTIONS({hints}) */ VALUES (CAST(1 AS BIGINT), CAST(1 AS BIGINT))")
    clear_cache()
    ids = store.changelog_ids()
    assert ids[0] == 1 and ids[-1] >= newest
    for number in before:  # ours up to the middle, Paimon's from there on
        kept = store.find_changelog(number)
        assert kept is not None and changelog_entries(store, kept) == before[number]
    assert remove_orphans(store, 1 << 60, dry_run=True).paths == ()
    flink.sql("CALL sys.expire_changelogs(`table` => 'default.t', retain_max => 4, retain_min => 1)")
    left = store.changelog_ids()
    assert len(left) < len(ids) and store.changelog_ends() == (left[0], left[-1])
    assert table.expire_changelogs(everything=True).changelogs == len(left)
    assert ours(table) == theirs(flink, "t")


def test_orphans_of_both(flink: FlinkPaimon, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    flink.use(catalog.warehouse)
    table = catalog.create_table("default.t", SCHEMA, primary_keys=["k"], options={**NEVER, "bucket": "2"})
    for turn in range(2):
        put(flink, table, "t", turn)
    expected = ours(table)
    before = {info.path for info in LocalStorage().walk(table.path)}
    assert remove_orphans(table.store, 1 << 60).paths == ()
    strays = [Path(table.path) / "bucket-0" / f"data-gone-{number}.parquet" for number in range(2)]
    for stray in strays:
        stray.write_bytes(b"1")
        os.utime(stray, (10**9, 10**9))
    found = table.remove_orphan_files(dry_run=True)
    assert sorted(found.paths) == [str(stray) for stray in strays]
    rows = flink.sql("CALL sys.remove_orphan_files(`table` => 'default.t', mode => 'local')").rows
    assert str(rows[0][0]) == "2"
    assert {info.path for info in LocalStorage().walk(table.path)} == before
    assert ours(table) == expected == theirs(flink, "t")


def test_partitions_that_expired(flink: FlinkPaimon, tmp_path: Path) -> None:
    """Paimon's procedure commits under an empty name."""
    catalog = bucketlake.open(tmp_path)
    flink.use(catalog.warehouse)
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("dt", pa.string())])
    table = catalog.create_table("default.t", schema, ["dt"])
    days = ["2020-01-01", "2020-01-02", "2199-01-01"]
    table.write_arrow(pa.table({"k": [1, 2, 3], "dt": days}, schema=schema))
    given = "expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$dt'"
    flink.sql(f"CALL sys.expire_partitions(`table` => 'default.t', {given})")
    table = table.refresh()
    newest = table.latest_snapshot()
    assert newest is not None and newest.commit_user == ""
    assert table.to_arrow().to_pylist() == [{"k": 3, "dt": days[2]}]
    table.write_arrow(pa.table({"k": [4], "dt": days[2:]}, schema=schema))
    table.refresh().delete("k = 3")
    assert not table.refresh().fsck("rows").findings
    assert flink.sql("SELECT k, dt FROM t").rows == [(4, days[2])]
