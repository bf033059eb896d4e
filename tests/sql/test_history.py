"""Tags, branches, going back and upkeep through lake.sql: the statements of Paimon's own Spark tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bucketlake
from bucketlake.errors import AlreadyExistsError, BucketlakeError, InvalidError, NotFoundError, UnsupportedError

pytestmark = pytest.mark.spark
Rows = list[tuple[Any, ...]]


def rows(lake: bucketlake.Lake, text: str) -> Rows:
    return [tuple(row) for row in lake.sql(text).collect()]


@pytest.fixture
def db(classic: bucketlake.Lake) -> bucketlake.Lake:
    classic.current_database = "db"
    return classic


def keyed(lake: bucketlake.Lake, *values: str, options: str = "") -> None:
    lake.sql(f"CREATE TABLE t (a INT, b STRING) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '3'{options})")
    for value in values:
        lake.sql(f"INSERT INTO t VALUES {value}")


@pytest.mark.parametrize(
    "past", ["t /*+ OPTIONS('scan.snapshot-id'='1') */", "t x/*+OPTIONS('scan.snapshot-id'='1')*/"]
)
def test_the_past_is_read_where_it_is_the_last_word_of_a_part(db: bucketlake.Lake, past: str) -> None:
    """An OPTIONS hint before a closing bracket, or before the semicolon of a script's statement, was not taken for a
    part of it: MERGE and the script wrote what the table is now."""
    run = db.sql
    for statement in ("CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"):
        run(statement)
    run("CREATE TABLE d (a INT)")
    merge = "MERGE INTO d USING {} s ON s.a = d.a WHEN NOT MATCHED THEN INSERT *"
    run(merge.format(f"(SELECT * FROM {past})"))
    run("WITH c AS (SELECT 3 AS a) " + merge.format(f"(SELECT a + 10 AS a FROM c UNION ALL SELECT a + 20 FROM {past})"))
    run(
        f"BEGIN INSERT INTO d SELECT a + 30 FROM {past}; IF true THEN INSERT INTO d SELECT a + 40 FROM {past}; END IF; END"
    )
    run(f"BEGIN FOR r AS SELECT a FROM {past} DO INSERT INTO d VALUES (r.a + 50); END FOR; END")
    assert sorted(rows(db, "SELECT a FROM d")) == [(1,), (13,), (21,), (31,), (41,), (51,)]
    run("DECLARE OR REPLACE VARIABLE newest INT")
    run(f"SET VARIABLE newest = (SELECT max(a) FROM {past})")  # behind an alias: an AttributeError
    assert rows(db, "SELECT newest") == [(1,)]
    run("DROP TEMPORARY VARIABLE newest")


# ---------------------------------------------------------------------------------------------- tags


def test_tags_by_ddl(lake: bucketlake.Lake) -> None:
    lake.current_database = "db"
    keyed(lake, "(1, 'a')", "(2, 'b')")
    shown = lake.sql("SHOW TAGS t")
    assert shown.columns == ["tag"] and shown.collect() == []
    lake.sql("alter table t create tag `2024-10-12`")
    lake.sql("alter table t create tag `2024-10-11` as of version 1 RETAIN 2 DAYS")
    lake.sql("ALTER TABLE paimon.db.t CREATE TAG 20241013 AS OF VERSION 2 RETAIN 3 HOURS;")
    assert rows(lake, "show tags t") == [("2024-10-11",), ("2024-10-12",), ("20241013",)]
    held = lake.table("t").tags()
    assert [held[name].id for name in ("2024-10-12", "2024-10-11", "20241013")] == [2, 1, 2]
    assert [held[name].unknown.get("tagTimeRetained") for name in held] == [172800.0, None, 10800.0]
    with pytest.raises(AlreadyExistsError, match=r"Tag 2024-10-12 is exists\."):
        lake.sql("ALTER TABLE t CREATE TAG `2024-10-12`")
    lake.sql("ALTER TABLE t CREATE TAG IF NOT EXISTS `2024-10-12` AS OF VERSION 1 RETAIN 1 HOURS")
    assert lake.table("t").tags()["2024-10-12"] == held["2024-10-12"]
    lake.sql("ALTER TABLE t REPLACE TAG `2024-10-12` AS OF VERSION 1 RETAIN 1 MINUTES")
    lake.sql("ALTER TABLE t CREATE OR REPLACE TAG new AS OF VERSION 1")
    lake.sql("ALTER TABLE t RENAME TAG new TO `newer`")
    assert lake.table("t").tags()["2024-10-12"].id == 1
    assert rows(lake, "SELECT * FROM t VERSION AS OF 'newer'") == [(1, "a")]
    lake.sql("ALTER TABLE t DELETE TAG `2024-10-12, 2024-10-11`")
    lake.sql("ALTER TABLE t DELETE TAG IF EXISTS gone, newer")
    lake.sql("ALTER TABLE t DELETE TAG gone")
    assert rows(lake, "SHOW TAGS t") == [("20241013",)]
    for wrong in ("CREATE TAG", "CREATE TAG x RETAIN 1 WEEKS", "CREATE TAG x AS OF VERSION y", "RENAME TAG a b"):
        with pytest.raises(InvalidError):
            lake.sql(f"ALTER TABLE t {wrong}")
    with pytest.raises(NotFoundError, match="given snapshot #9 doesn't exist"):
        lake.sql("ALTER TABLE t CREATE TAG x AS OF VERSION 9")
    with pytest.raises(NotFoundError):
        lake.sql("ALTER TABLE t RENAME TAG x TO y")


def test_tags_by_procedures(db: bucketlake.Lake) -> None:
    keyed(db, "(1, 'a')", "(2, 'b')", "(2, 'b2')")
    for text in (
        "create_tag(table => 'db.t', tag => 'one', time_retained => '5 d', snapshot => 2)",
        "create_tag('t', 'two')",
        "create_tag('t', 'three', 1, '1 h')",
        "rename_tag(table => 't', tag => 'two', target_tag => 'zwei')",
        "replace_tag(table => 'db.t', tag => 'one', snapshot => 1, time_retained => '2 d')",
        "delete_tag(table => 'db.t', tag => 'three, gone')",
        "delete_tag(table => 'db.t', tag => 'gone')",
        "create_tag('t', 'a,b')",
        "delete_tag('t', 'a,b')",  # the tag of this name
        "create_tag('t', 'a,b')",
    ):
        assert rows(db, f"CALL paimon.sys.{text}") == [(True,)]
    db.sql("ALTER TABLE t DELETE TAG `a,b`")
    held = db.table("t").tags()
    assert [(name, tag.id) for name, tag in held.items()] == [("one", 1), ("zwei", 3)]
    assert held["one"].unknown["tagTimeRetained"] == 172800.0
    for text, error in (
        ("create_tag(table => 't', tag => 'one', snapshot => 1)", AlreadyExistsError),
        ("replace_tag(table => 't', tag => 'gone')", NotFoundError),
        ("create_tag(table => 't', tag => 'a/b')", InvalidError),
    ):
        with pytest.raises(error):
            db.sql(f"CALL sys.{text}")
    assert rows(db, "CALL sys.expire_tags(table => 't')") == [("No expired tags.",)]
    assert rows(db, "CALL sys.expire_tags(table => 't', older_than => '2999-01-01 00:00:00')") == [("one",), ("zwei",)]
    assert rows(db, "SHOW TAGS t") == []


def test_tags_from_times(db: bucketlake.Lake) -> None:
    keyed(db, "(1, 'a')", "(2, 'a')")
    first, second = db.table("t").snapshots()
    call = "CALL sys.create_tag_from_timestamp(`table` => 'db.t', tag => '{}', `timestamp` => {})"
    assert rows(db, call.format("x", first.time_millis - 1)) == [("x", 1, first.time_millis, "null")]
    assert rows(db, "CALL sys.expire_snapshots(table => 't', retain_max => 1, retain_min => 1)") == [(1,)]
    assert rows(db, call.format("y", first.time_millis)) == [("y", 1, first.time_millis, "null")]
    assert rows(db, call.format("z", first.time_millis + 1)) == [("z", 2, second.time_millis, "null")]
    assert db.sql(call.format("w", 1)).columns == ["tagName", "snapshot", "commit_time", "watermark"]
    with pytest.raises(NotFoundError, match="whose commit-time later than"):
        db.sql(call.format("v", 2**63 - 1))
    assert rows(db, "SELECT * FROM t VERSION AS OF 'y'") == [(1, "a")]


def test_tags_that_commits_make(db: bucketlake.Lake) -> None:
    keyed(db, "(1, 'a')", options=", 'tag.automatic-creation' = 'batch', 'tag.batch.customized-name' = 'haha'")
    assert rows(db, "SHOW TAGS t") == [("haha",)]
    db.sql("INSERT INTO t VALUES (2, 'b')")
    assert {name: tag.id for name, tag in db.table("t").tags().items()} == {"haha": 2}
    db.sql(
        "INSERT INTO t /*+ OPTIONS('tag.batch.customized-name' = 'b2', 'tag.num-retained-max' = '1') */ VALUES (3, 'c')"
    )
    assert rows(db, "SHOW TAGS t") == [("b2",)]
    db.sql(
        "ALTER TABLE t SET TBLPROPERTIES ('tag.automatic-creation' = 'process-time', 'tag.creation-period' = 'daily', "
        "'tag.creation-delay' = '10 m', 'tag.num-retained-max' = '90', 'sink.process-time-zone' = 'UTC')"
    )
    db.sql("CALL sys.trigger_tag_automatic_creation(table => 'db.t')")
    yesterday = rows(
        db, "SELECT date_format(date_sub(to_date(to_utc_timestamp(now(), current_timezone())), 1), 'yyyy-MM-dd')"
    )
    assert rows(db, "SHOW TAGS t") == [*yesterday, ("b2",)]


# ---------------------------------------------------------------------------------------------- branches


def test_branches(lake: bucketlake.Lake) -> None:
    lake.current_database = "db"
    keyed(lake, "(1, 'a')", "(2, 'b')", "(2, 'b2')")
    lake.sql("CALL sys.create_tag(table => 'db.t', tag => 'at2', snapshot => 2)")
    assert rows(lake, "CALL sys.create_branch(table => 'db.t', branch => 'b', tag => 'at2')") == [(True,)]
    assert sorted(rows(lake, "SELECT * FROM `t$branch_b`")) == [(1, "a"), (2, "b")]
    lake.sql("INSERT INTO `t$branch_b` VALUES (3, 'c')")
    lake.sql("CALL sys.create_tag(table => 'db.`t$branch_b`', tag => 'at3', snapshot => 3)")
    lake.sql("CALL sys.create_branch(table => 'db.`t$branch_b`', branch => 'b2', tag => 'at3')")
    assert sorted(rows(lake, "SELECT * FROM `t$branch_b2`")) == [(1, "a"), (2, "b"), (3, "c")]
    lake.sql("ALTER TABLE `t$branch_b` ADD COLUMNS (c INT)")
    lake.sql("INSERT INTO `t$branch_b` VALUES (1, 'cherry', 100), (4, 'wolf', 400)")
    assert rows(lake, "SELECT * FROM `t$branch_b` WHERE a = 1") == [(1, "cherry", 100)]
    assert sorted(rows(lake, "SELECT * FROM t")) == [(1, "a"), (2, "b2")]
    lake.sql("CALL sys.create_branch('db.t', 'empty')")
    lake.sql("CALL sys.create_branch('db.t', 'empty', NULL, 'true')")
    assert rows(lake, "SELECT * FROM `t$branch_empty`") == []
    assert lake.table("t").branches() == ["b", "b2", "empty"]
    lake.sql("CALL sys.rename_branch(table => 't', from_branch => 'b2', to_branch => 'b3')")
    assert len(rows(lake, "SELECT * FROM `t$branch_b3`")) == 3
    for text in (
        "create_branch('db.t', 'empty')",
        "create_branch('db.t', 'main')",
        "create_branch('db.t', '123')",
        "create_branch('db.t', 'x', 'gone')",
        "rename_branch('db.t', 'gone', 'x')",
        "rename_branch('db.t', 'b', 'b3')",
        "delete_branch('db.t', 'gone')",
        "fast_forward('db.t', 'empty')",
        "merge_branch('db.t', 'b')",
    ):
        with pytest.raises(BucketlakeError):
            lake.sql(f"CALL sys.{text}")
    with pytest.raises(NotFoundError, match="gone"):
        lake.sql("CALL sys.delete_branch(table => 't', branch => 'b3,gone')")
    lake.sql("CALL sys.create_branch('t', 'x,y')")
    assert lake.table("t").branches() == ["b", "b3", "empty", "x,y"]
    for names in ("x,y", "b3, empty,b3"):
        lake.sql(f"CALL sys.delete_branch(table => 't', branch => '{names}')")
    assert lake.table("t").branches() == ["b"]
    with pytest.raises(BucketlakeError):
        lake.sql("SELECT * FROM `t$branch_b3`")


def test_fast_forward_and_merge(db: bucketlake.Lake) -> None:
    db.sql("CREATE TABLE t (id STRING, name STRING) TBLPROPERTIES ('primary-key' = 'id')")
    for value in ("('1', 'a')", "('2', 'b')", "('3', 'c')", "('4', 'd')"):
        db.sql(f"INSERT INTO t VALUES {value}")
    db.sql("CALL sys.create_tag(table => 'db.t', tag => 'at2', snapshot => 2)")
    db.sql("CALL sys.create_branch(table => 'db.t', branch => 'b', tag => 'at2')")
    assert rows(db, "CALL sys.fast_forward(table => 'db.t', branch => 'b')") == [(True,)]
    db.sql("INSERT INTO t VALUES ('5', 'e')")
    db.sql("INSERT INTO t VALUES ('6', 'f')")
    assert sorted(rows(db, "SELECT * FROM t")) == [("1", "a"), ("2", "b"), ("5", "e"), ("6", "f")]
    db.sql("CALL sys.fast_forward(table => 'db.t', branch => 'b')")
    assert sorted(rows(db, "SELECT * FROM t")) == [("1", "a"), ("2", "b")]
    db.sql("CREATE TABLE m (id INT, name STRING) TBLPROPERTIES ('branch-merge.enabled' = 'true')")
    db.sql("INSERT INTO m VALUES (1, 'a')")
    db.sql("CALL sys.create_tag(table => 'm', tag => 'tag1')")
    db.sql("CALL sys.create_branch('m', 'x', 'tag1')")
    db.sql("CALL sys.create_branch('m', 'y', 'tag1')")
    db.sql("INSERT INTO `m$branch_x` VALUES (2, 'b')")
    for _ in range(2):
        assert rows(db, "CALL sys.merge_branch(table => 'm', source_branch => 'x')") == [(True,)]
        db.sql("CALL sys.merge_branch(table => 'm', source_branch => 'x', target_branch => 'y')")
        assert sorted(rows(db, "SELECT * FROM m")) == sorted(rows(db, "SELECT * FROM `m$branch_y`"))
        assert sorted(rows(db, "SELECT * FROM m")) == [(1, "a"), (2, "b")]
    with pytest.raises(NotFoundError):
        db.sql("CALL sys.merge_branch(table => 'm', source_branch => 'nonexistent')")


# ---------------------------------------------------------------------------------------------- going back


def test_rollbacks(lake: bucketlake.Lake) -> None:
    lake.current_database = "db"
    keyed(lake, "(1, 'a')", "(2, 'b')", "(3, 'c')", "(4, 'd')", "(5, 'e')")
    times = [snapshot.time_millis for snapshot in lake.table("t").snapshots()]
    lake.sql("CALL sys.create_tag(table => 'db.t', tag => '20250122', snapshot => 1)")
    lake.sql("CALL sys.create_tag(table => 'db.t', tag => 'late')")
    shown = lake.sql("CALL sys.rollback(table => 'db.t', version => '4')")
    assert shown.columns == ["previous_snapshot_id", "current_snapshot_id"] and shown.collect() == [(5, 4)]
    assert rows(lake, "SHOW TAGS t") == [("20250122",)]
    for wrong in ("version => '20250122', tag => '20250122'", "tag => '20250122', snapshot => 1", "snapshot => 9"):
        with pytest.raises(BucketlakeError):
            lake.sql(f"CALL sys.rollback(table => 'db.t', {wrong})")
    assert rows(lake, f"CALL sys.rollback_to_timestamp(table => 't', timestamp => {times[2]})") == [(4, 3)]
    assert len(rows(lake, "SELECT * FROM t")) == 3
    assert rows(lake, "CALL sys.rollback_to_as_latest(table => 't', snapshot_id => 1)") == [(3, 1, 4)]
    assert rows(lake, "SELECT * FROM t") == [(1, "a")]
    assert rows(lake, "CALL sys.rollback(table => 't', snapshot => 2)") == [(4, 2)]
    assert len(rows(lake, "SELECT * FROM t")) == 2
    assert rows(lake, "CALL sys.rollback(table => 't', tag => '20250122')") == [(2, 1)]
    assert rows(lake, "SELECT * FROM t") == [(1, "a")]
    lake.sql("INSERT INTO t VALUES (7, 'g')")
    assert sorted(rows(lake, "SELECT * FROM t")) == [(1, "a"), (7, "g")]
    with pytest.raises(NotFoundError):
        lake.sql("CALL sys.rollback_to_watermark(table => 't', watermark => 1)")


def test_rollback_of_a_delete(db: bucketlake.Lake) -> None:
    db.sql("CREATE TABLE t (id INT)")
    with pytest.raises(NotFoundError, match="can not rollback"):
        db.sql("CALL sys.rollback(table => 't', version => '1')")
    db.sql("INSERT INTO t VALUES (1), (2), (3), (4)")
    db.sql("DELETE FROM t WHERE id = 1")
    db.sql("CALL sys.rollback(table => 't', version => '1')")
    assert len(rows(db, "SELECT * FROM t")) == 4
    db.sql("DELETE FROM t WHERE id = 1")
    assert sorted(rows(db, "SELECT * FROM t")) == [(2,), (3,), (4,)]


# ---------------------------------------------------------------------------------------------- upkeep


def test_old_partitions_go(db: bucketlake.Lake) -> None:
    db.sql(
        "CREATE TABLE t (k STRING, pt STRING, hm STRING) PARTITIONED BY (pt, hm) "
        "TBLPROPERTIES ('primary-key' = 'k,pt,hm', 'bucket' = '1', 'partition.expiration-max-num' = '3')"
    )
    call = (
        "CALL sys.expire_partitions(table => 'db.t', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd'{})"
    )
    assert rows(db, call.format("")) == [("No expired partitions.",)]
    db.sql(
        "INSERT INTO t VALUES ('a', '2024-06-02', '02:00'), ('b', '2024-06-02', '01:00'), ('d', '2024-06-03', '01:00'), "
        "('c', '2024-06-01', '01:00'), ('x', 'odd', '00:00'), ('never', '9999-09-09', '99:99')"
    )
    assert rows(db, call.format(", max_expires => 1")) == [("pt=2024-06-01, hm=01:00",)]
    exact = "CALL sys.expire_partitions('t', '1 d', 'yyyy-MM-dd HH:mm', '$pt $hm', 'values-time', 1)"
    assert rows(db, exact) == [("pt=2024-06-02, hm=01:00",)]
    by_options = (
        "CALL sys.expire_partitions(table => 't', options => 'partition.expiration-time = 1d, "
        "partition.expiration-batch-size = 1, partition.timestamp-formatter = yyyy-MM-dd')"
    )
    assert rows(db, by_options) == [("pt=2024-06-02, hm=02:00",), ("pt=2024-06-03, hm=01:00",)]
    assert sorted(rows(db, "SELECT k FROM t")) == [("never",), ("x",)]
    update = "CALL sys.expire_partitions(table => 't', expiration_time => '{}', expire_strategy => 'update-time')"
    assert rows(db, update.format("1 d")) == [("No expired partitions.",)]
    for wrong in ("expire_strategy => 'x', expiration_time => '1 d'", "timestamp_formatter => 'yyyy'"):
        with pytest.raises(InvalidError):
            db.sql(f"CALL sys.expire_partitions(table => 't', {wrong})")
    assert rows(db, "CALL sys.drop_partition('t', 'pt=odd')") == [("Success",)]
    assert rows(db, "SELECT k FROM t") == [("never",)]


def test_compaction_passes_old_partitions_over(db: bucketlake.Lake) -> None:
    db.sql(
        "CREATE TABLE t (id INT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'id, dt', 'bucket' = '1', "
        "'write-only' = 'true', 'partition.expiration-time' = '7 d', 'partition.timestamp-formatter' = 'yyyyMMdd')"
    )
    for number in (1, 2):
        db.sql(f"INSERT INTO t VALUES ({number}, '20200101'), ({number}, '29990101')")
    skip = "CALL sys.compact(table => 't', options => 'compaction.skip-expired-partitions=true')"
    db.sql(skip)
    assert sorted(file.partition["dt"] for file in db.table("t").files()) == ["20200101", "20200101", "29990101"]
    db.sql("ALTER TABLE t SET TBLPROPERTIES ('end-input.check-partition-expire' = 'true', 'write-only' = 'false')")
    db.sql("INSERT INTO t VALUES (3, '29990101')")
    assert sorted(rows(db, "SELECT * FROM t")) == [(number, "29990101") for number in (1, 2, 3)]


def test_done_partitions_and_consumers(db: bucketlake.Lake) -> None:
    db.sql("CREATE TABLE t (id INT, day STRING) PARTITIONED BY (day)")
    db.sql("INSERT INTO t VALUES (1, '2024-07-13'), (2, '2024-07-14')")
    call = "CALL sys.mark_partition_done(table => 'db.t', partitions => 'day=2024-07-13;day=2024-07-14')"
    assert rows(db, call) == [(True,)]
    folder = Path(db.table("t").path)
    assert (folder / "day=2024-07-13" / "_SUCCESS").exists() and (folder / "day=2024-07-14" / "_SUCCESS").exists()
    db.sql("ALTER TABLE t SET TBLPROPERTIES ('partition.end-input-to-done' = 'true')")
    db.sql("INSERT INTO t VALUES (3, '2024-07-15'), (4, '2024-07-16')")
    db.sql("UPDATE t SET id = 5 WHERE day = '2024-07-15'")
    marked = json.loads((folder / "day=2024-07-15" / "_SUCCESS").read_text())
    assert marked["modificationTime"] > marked["creationTime"] and (folder / "day=2024-07-16" / "_SUCCESS").exists()
    with pytest.raises(UnsupportedError, match=r"partition\.mark-done-action"):
        db.sql("ALTER TABLE t SET TBLPROPERTIES ('partition.mark-done-action' = 'success-file,custom')")
    db.sql("CALL sys.reset_consumer(table => 't', consumerId => 'one', nextSnapshotId => 1)")
    db.sql("CALL sys.reset_consumer(`table` => 't', consumer_id => 'two', next_snapshot_id => 1)")
    assert db.table("t").consumers() == {"one": 1, "two": 1}
    with pytest.raises(NotFoundError):
        db.sql("CALL sys.reset_consumer('t', 'one', 9)")
    db.sql("CALL sys.clear_consumers(table => 't', includingConsumers => '', excludingConsumers => 'o.*')")
    assert db.table("t").consumers() == {"one": 1}
    db.sql("CALL sys.reset_consumer('t', 'one')")
    assert db.table("t").consumers() == {}


def test_manifests_missing_files_and_purge(db: bucketlake.Lake) -> None:
    db.sql(
        "CREATE TABLE t (id INT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES ('bucket' = '-1', 'write-only' = 'true')"
    )
    assert rows(db, "CALL sys.remove_unexisting_files(table => 't')") == []
    for _ in range(3):
        db.sql("INSERT OVERWRITE t VALUES (5, 'a'), (6, 'b')")
    store = db.table("t").table.store

    def deleted() -> int:
        newest = store.latest_snapshot()
        assert newest is not None
        return sum(manifest.num_deleted_files for manifest in store.data_manifests(newest))

    before = deleted()
    assert before > 0
    assert rows(db, "CALL sys.compact_manifest(table => 't', dry_run => true, manifest_sort_enabled => true)") == [
        (True,)
    ]
    assert deleted() == before
    assert rows(db, "CALL sys.compact_manifest(table => 't')") == [(True,)]
    assert deleted() == 0 and len(rows(db, "SELECT * FROM t")) == 2
    [lost] = [file.path for file in db.table("t").files("dt = 'a'")]
    Path(lost).unlink()
    assert rows(db, "CALL sys.remove_unexisting_files(table => 't', dry_run => true)") == [(lost,)]
    assert rows(db, "CALL sys.remove_unexisting_files(table => 't')") == [(lost,)]
    assert rows(db, "SELECT * FROM t") == [(6, "b")]
    assert rows(db, "CALL sys.purge_files(table => 'db.t')") == [("Success",)]
    assert rows(db, "SELECT * FROM t") == [] and len(db.table("t").snapshots()) == 1
    db.sql("INSERT INTO t VALUES (1, 'z')")
    assert rows(db, "SELECT * FROM t") == [(1, "z")]


def test_whole_databases(db: bucketlake.Lake) -> None:
    for name in ("one.t1", "one.t2", "two.t3"):
        db.sql(f"CREATE DATABASE IF NOT EXISTS {name.split('.')[0]}")
        db.sql(
            f"CREATE TABLE {name} (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true')"
        )
        db.sql(f"INSERT INTO {name} VALUES (1)")
        db.sql(f"INSERT INTO {name} VALUES (2)")

    def kinds() -> list[str]:
        newest = [db.table(name).latest_snapshot() for name in ("one.t1", "one.t2", "two.t3")]
        return [snapshot.commit_kind.value for snapshot in newest if snapshot is not None]

    done = rows(db, "CALL sys.compact_database(including_databases => 'one', excluding_tables => '.*t2')")
    assert done == [("Compact database finished. Success: 1, Failed: 0",)]
    assert kinds() == ["COMPACT", "APPEND", "APPEND"]
    assert rows(db, "CALL sys.compact_database()")[0][0].endswith("Success: 3, Failed: 0")
    assert kinds() == ["COMPACT"] * 3


def test_rows_are_copied_and_files_indexed(db: bucketlake.Lake) -> None:
    db.sql("CREATE TABLE t (k INT, v STRING, dt STRING, hh INT) PARTITIONED BY (dt, hh)")
    db.sql("INSERT INTO t VALUES (1, 'a', '2025-08-17', 5), (2, 'b', '2025-10-06', 0)")
    for _ in range(2):
        assert rows(db, "CALL sys.copy(source_table => 't', target_table => 'other')") == [(True,)]
        assert sorted(rows(db, "SELECT * FROM other")) == sorted(rows(db, "SELECT * FROM t"))
    db.sql("""CALL sys.copy(source_table => "t", target_table => 'some', where => "dt = '2025-08-17' and hh = 5")""")
    assert rows(db, "SELECT * FROM some") == [(1, "a", "2025-08-17", 5)]
    db.sql("CREATE TABLE wide (k INT, v STRING, dt STRING, hh INT, v2 STRING) PARTITIONED BY (dt, hh)")
    db.sql("INSERT INTO wide VALUES (3, 'c', '2025-08-17', 5, 'c1'), (4, 'd', '2025-08-17', 6, 'd1')")
    db.sql("CALL sys.copy(source_table => 't', target_table => 'wide')")
    assert sorted(rows(db, "SELECT k, v2 FROM wide")) == [(1, None), (2, None), (4, "d1")]
    db.sql("CREATE TABLE narrow (k INT, v2 STRING, dt STRING, hh INT) PARTITIONED BY (dt, hh)")
    for wrong in ("target_table => 'narrow'", "target_table => 'x', where => 'k = 1'"):
        with pytest.raises(InvalidError):
            db.sql(f"CALL sys.copy(source_table => 't', {wrong})")
    index = "CALL sys.rewrite_file_index(table => 't'{})"
    before = db.table("t").latest_snapshot()
    assert rows(db, index.format("")) == [(0, 0)] and db.table("t").latest_snapshot() == before
    db.sql("ALTER TABLE t SET TBLPROPERTIES ('file-index.bloom-filter.columns' = 'k,v')")
    assert rows(db, index.format("")) == [(2, 2)]
    assert rows(db, index.format(""", where => "dt='2025-08-17'\"""")) == [(1, 1)]
    assert len(db.table("t").files()) == 2 and db.table("t").files("v = 'zz'") == []
    assert rows(db, "SELECT k FROM t WHERE v = 'a'") == [(1,)]


def test_the_oldest_snapshot_is_repaired(db: bucketlake.Lake) -> None:
    db.sql("CREATE TABLE t (k INT)")
    folder = Path(db.table("t").path) / "snapshot"
    folder.mkdir()
    for name, text in (("snapshot-1", ""), ("snapshot-5", ""), ("EARLIEST", "1"), ("LATEST", "5")):
        (folder / name).write_text(text)
    assert rows(db, "CALL sys.repair_earliest_snapshot(table => 'db.t', snapshot_id => 5)") == [(1, 5)]
    assert (folder / "EARLIEST").read_text() == "5"
