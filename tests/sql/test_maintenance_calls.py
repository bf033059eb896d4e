"""CALL sys.expire_snapshots, expire_changelogs and remove_orphan_files: arguments, results, what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import bucketlake
from bucketlake.errors import InvalidError, NotFoundError

pytestmark = pytest.mark.spark
OLD = (10**9, 10**9)


def filled(lake: bucketlake.Lake, options: str = "") -> bucketlake.LakeTable:
    lake.sql(f"CREATE TABLE db.t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1'{options})")
    for value in range(4):
        lake.sql(f"INSERT INTO db.t VALUES (1, {value})")
    return lake.table("db.t")


def ids(table: bucketlake.LakeTable) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots()]


def test_expire_snapshots(lake: bucketlake.Lake) -> None:
    table = filled(lake)
    calls = {
        "CALL sys.expire_snapshots('db.t')": 0,
        "CALL sys.expire_snapshots('db.t', 3, 1, NULL, 0)": 0,
        "CALL paimon.sys.expire_snapshots(`table` => 'db.t', retain_max => 3, retain_min => 1)": 1,
        "CALL sys.expire_snapshots(table => 'db.t', retain_max => 1, options => 'snapshot.num-retained.min=1', "
        "max_deletes => 1)": 1,
        "CALL sys.expire_snapshots('db.t', '', 1, '2999-01-01 00:00:00')": 1,
    }
    for statement, count in calls.items():
        shown = lake.sql(statement)
        assert shown.columns == ["deleted_snapshots_count"]
        assert [row[0] for row in shown.collect()] == [count], statement
    assert ids(table) == [4]
    assert [tuple(row) for row in lake.sql("SELECT * FROM db.t").collect()] == [(1, 3)]


def test_commits_through_spark_expire(lake: bucketlake.Lake) -> None:
    limits = "'snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '2'"
    table = filled(lake, f", 'num-sorted-run.compaction-trigger' = '100', {limits}")
    assert ids(table) == [3, 4]
    lake.sql("UPDATE db.t SET v = 9 WHERE id = 1")
    assert ids(table) == [4, 5]
    lake.sql("CALL sys.compact('db.t')")
    assert ids(table) == [5, 6]


def test_expire_changelogs(lake: bucketlake.Lake) -> None:
    kept = ", 'changelog-producer' = 'input', 'changelog.num-retained.max' = '100', 'changelog.num-retained.min' = '50'"
    table = filled(lake, f"{kept}, 'snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '1'")
    store = table.table.store
    assert ids(table) == [4] and store.changelog_ids() == [1, 2, 3]
    shown = lake.sql("CALL sys.expire_changelogs('db.t', 3, 1)")
    assert (shown.columns, shown.collect()[0][0]) == (["deleted_changelogs_count"], 1)
    assert store.changelog_ids() == [2, 3]
    lake.sql("CALL sys.expire_changelogs(table => 'db.t', delete_all => true)")
    assert store.changelog_ids() == [] and ids(table) == [4]


def test_remove_orphan_files(lake: bucketlake.Lake) -> None:
    table = filled(lake)
    lake.sql("CREATE TABLE db.u (id INT)")
    strays = [Path(lake.table(f"db.{name}").path) / "manifest" / "manifest-x-0" for name in "tu"]
    for stray in strays:
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"123")
        os.utime(stray, OLD)
    calls = {
        "CALL sys.remove_orphan_files('db.t', '2001-01-01')": (0, 0),
        "CALL sys.remove_orphan_files(`table` => 'db.*', dry_run => true, mode => 'local')": (2, 6),
        "CALL sys.remove_orphan_files('db.t', '', false, 2, 'DISTRIBUTED')": (1, 3),
        "CALL sys.remove_orphan_files(table => 'db.*', older_than => '2002-01-01 00:00:00')": (1, 3),
    }
    for statement, expected in calls.items():
        shown = lake.sql(statement)
        assert shown.columns == ["deletedFileCount", "deletedFileTotalLenInBytes"]
        assert tuple(shown.collect()[0]) == expected, statement
    assert not any(stray.exists() for stray in strays) and ids(table) == [1, 2, 3, 4]


REFUSED = [
    ("CALL sys.expire_snapshots('db.gone')", NotFoundError, "gone"),
    ("CALL sys.expire_snapshots('db.t', 1, 2)", InvalidError, "must not be less than retainMin"),
    ("CALL sys.expire_snapshots('db.t', 1, 0)", InvalidError, "at least 1"),
    ("CALL sys.expire_snapshots('db.t', 'many')", InvalidError, "not a whole number"),
    ("CALL sys.expire_snapshots('db.t', 1, 1, 'soon')", InvalidError, "not a timestamp"),
    ("CALL sys.expire_changelogs(table => 'db.t', delete_all => 'all')", InvalidError, "neither true nor false"),
    ("CALL sys.remove_orphan_files('db.t', '2999-01-01')", InvalidError, "olderThan must be less than now"),
    ("CALL sys.remove_orphan_files(table => 'db.t', mode => 'remote')", InvalidError, "Unknown mode: remote"),
    ("CALL sys.remove_orphan_files(table => 'db.t', dry_run => 'x')", InvalidError, "neither true nor false"),
]


@pytest.mark.parametrize(("statement", "error", "message"), REFUSED)
def test_what_is_refused(classic: bucketlake.Lake, statement: str, error: type[Exception], message: str) -> None:
    classic.sql("CREATE TABLE db.t (id INT)")
    with pytest.raises(error, match=message):
        classic.sql(statement)
