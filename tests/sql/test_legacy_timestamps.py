"""Sessions that take TIMESTAMP for Spark's own (`legacy-timestamp-mapping.enabled`): rows, conditions, changes.

What is right is said by a view of the rows as the option shows them, and by the rows that are stored.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tests.profile import later
from tests.sql.legacy_timestamps import KEY, PARIS, TIMES, at, filled, legacy, rows, stored

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.merge import held
from bucketlake.spark.read import hidden, reader
from bucketlake.spark.session import Lake
from bucketlake.spark.write import tasks
from bucketlake.types.model import type_text

pytestmark = pytest.mark.spark


def test_upstreams_own_case(classic: Lake) -> None:
    lake = classic
    for file_format in ("orc", "parquet", "avro"):
        with legacy(lake, "Asia/Shanghai"):
            lake.sql(
                f"CREATE TABLE t (reported_time TIMESTAMP) USING paimon TBLPROPERTIES ('file.format' = '{file_format}')"
            )
            lake.sql("INSERT INTO t VALUES (TIMESTAMP '2026-06-30 23:47:51')")
            assert lake.read_table("t").schema["reported_time"].dataType == T.TimestampType()
            assert rows(
                lake, "SELECT from_unixtime(unix_timestamp(reported_time) + 24 * 3600, 'yyyy-MM-dd HH:mm:ss') FROM t"
            ) == [("2026-07-01 23:47:51",)]
        assert type_text(lake.catalog.table("t").schema.field("reported_time").type) == "TIMESTAMP(6)"
        assert stored(lake, "t") == [(at("2026-06-30 23:47:51"),)]
        lake.sql("DROP TABLE t")


def test_it_is_read_and_forgotten_with_the_session(lake: Lake) -> None:
    filled(lake)
    plain = rows(lake, "SELECT * FROM t")
    assert lake.sql("SELECT * FROM t").schema["ts"].dataType == T.TimestampNTZType()
    lake.sql("SET spark.sql.session.timeZone = Europe/Paris")
    lake.sql(f"SET spark.paimon.{KEY} = true")
    try:
        for frame in (lake.sql("SELECT * FROM t"), lake.read_table("t"), lake.table("t").read()):
            assert frame.schema["ts"].dataType == T.TimestampType()
            assert frame.schema["s"].dataType["a"].dataType == T.TimestampType()
            assert frame.schema["z"].dataType == T.TimestampType()
        shown = rows(lake, "SELECT id, CAST(ts AS STRING), CAST(s.a AS STRING), unix_micros(ts), unix_micros(z) FROM t")
        for number, text in enumerate(TIMES):
            micros = lake.spark.sql(f"SELECT unix_micros(TIMESTAMP '{text}')").collect()[0][0]
            assert shown[number] == (number, text, text, micros, 1704067200000000)
        assert shown[-1] == (99, None, None, None, None)
    finally:
        lake.sql(f"RESET spark.paimon.{KEY}")
        lake.sql("SET spark.sql.session.timeZone = UTC")
    assert rows(lake, "SELECT * FROM t") == plain
    assert lake.table("t").read().schema["ts"].dataType == T.TimestampNTZType()


def test_a_call_says_it_for_itself(classic: Lake) -> None:
    lake = classic
    filled(lake)
    wanted = T.TimestampType()
    assert lake.sql(f"SELECT ts FROM t /*+ OPTIONS('{KEY}' = 'true') */").schema["ts"].dataType == wanted
    assert lake.table("t", {KEY: True}).read().schema["ts"].dataType == wanted
    assert lake.table("t").read(legacy_timestamp_mapping_enabled=True).schema["ts"].dataType == wanted
    assert lake.read_table("t", legacy_timestamp_mapping_enabled=True).schema["ts"].dataType == wanted
    with legacy(lake):
        assert (
            lake.read_table("t", legacy_timestamp_mapping_enabled=False).schema["ts"].dataType == T.TimestampNTZType()
        )
        assert lake.table("t").refresh().read().schema["ts"].dataType == wanted


CONDITIONS = (
    "ts = TIMESTAMP '2024-01-01 00:00:00'",
    "ts = TIMESTAMP_NTZ '2024-10-27 02:30:00.123456'",
    "ts = '2024-01-01 00:00:00'",
    "ts <> '2024-01-01'",
    "ts > TIMESTAMP '2024-01-01 00:00:00+00:00'",
    "ts >= '1893-05-06 07:08:09'",
    "ts < '1893-05-06T07:08:09Z'",
    "ts BETWEEN TIMESTAMP '2024-03-31 03:30:00' AND TIMESTAMP '2024-06-30 23:30:00'",
    "ts IN (TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '1583-01-01 12:00:00.5', NULL)",
    "NOT (ts < TIMESTAMP '2024-06-01 00:00:00' OR id = 99)",
    "ts IS NULL",
    "ts IS NOT NULL AND id > 2",
    "ts <=> NULL",
    "date(ts) = DATE '2024-03-31'",
    "hour(ts) = 2",
    "unix_seconds(ts) < 0",
    "s.a = ts AND s.b < 3",
    "s.a > '2024-01-01 00:00:00+05:00'",
    "ts = z - INTERVAL 1 HOUR",
    "date_format(ts, 'yyyy') = '2024' AND ts > z",
)


@pytest.mark.parametrize("kind", later(["by time", "append", "partitioned", "keyed"], 1))
def test_conditions_say_what_they_say_over_a_view(classic: Lake, kind: str) -> None:
    lake = classic
    keys = {"keyed": "id", "by time": "ts"}.get(kind)
    filled(
        lake,
        properties=f"TBLPROPERTIES ('primary-key' = '{keys}', 'bucket' = '2')" if keys else "",
        partitioned=kind == "partitioned",
    )
    for zone in (PARIS, "UTC"):
        with legacy(lake, zone):
            lake.sql("SELECT * FROM t").createOrReplaceTempView("whole")
            held = lake.spark.createDataFrame(lake.spark.table("whole").collect(), lake.spark.table("whole").schema)
            held.createOrReplaceTempView("v")
            for condition in CONDITIONS:
                found, wanted = (rows(lake, f"SELECT id, ts, s FROM {name} WHERE {condition}") for name in ("t", "v"))
                assert found == wanted, (zone, condition)
                read = lake.table("t").read(columns=["id"], where=condition).collect()
                assert sorted(row[0] for row in read) == sorted(row[0] for row in wanted), (zone, condition)


def test_metadata_answers_nothing_of_these_columns(classic: Lake) -> None:
    lake = classic
    filled(lake, partitioned=True)
    for query in (
        "SELECT min(ts), max(ts), count(*) FROM {}",
        "SELECT ts, count(*) FROM {} GROUP BY ts",
        "SELECT count(*) FROM {} WHERE ts > TIMESTAMP '2024-01-01 00:00:00'",
        "SELECT ts, id FROM {} ORDER BY ts DESC LIMIT 2",
        "SELECT count(DISTINCT ts) FROM {}",
    ):
        with legacy(lake):
            whole = lake.sql("SELECT * FROM t")
            lake.spark.createDataFrame(whole.collect(), whole.schema).createOrReplaceTempView("v")
            assert rows(lake, query.format("t")) == rows(lake, query.format("v")), query
    with legacy(lake):
        assert ("ts=1583-01-01 12%3A00%3A00.5",) in rows(lake, "SHOW PARTITIONS t")
        assert rows(lake, "SELECT __paimon_partition.ts = ts FROM t WHERE id = 0") == [(True,)]


def test_a_local_time_that_clocks_skip(classic: Lake) -> None:
    """It is shown as Spark casts it, and rows that hold one are not written again as something else."""
    lake = classic
    for keyed in ("", "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"):
        lake.sql(f"CREATE TABLE t (id BIGINT, ts TIMESTAMP_NTZ, n INT) {keyed}")
        lake.sql(
            "INSERT INTO t VALUES (1, TIMESTAMP_NTZ '2024-03-31 02:30:00', 0), (2, TIMESTAMP_NTZ '2024-01-01 00:00:00', 0)"
        )
        before = stored(lake, "t")
        with legacy(lake):
            assert rows(lake, "SELECT CAST(ts AS STRING) FROM t WHERE ts = '2024-03-31 03:30:00'") == [
                ("2024-03-31 03:30:00",)
            ]
            for change in (
                "UPDATE t SET n = n + 1 WHERE id = 1 AND n + 0 = 0",
                "MERGE INTO t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 1",
            ):
                with pytest.raises(UnsupportedError, match="skips"):
                    lake.sql(change)
            assert stored(lake, "t") == before
            lake.sql("UPDATE t SET n = 0 WHERE id = 1")  # the driver writes the other columns as they are stored
            assert stored(lake, "t") == before
            lake.sql("CALL sys.copy('t', 'copied')")
            assert stored(lake, "copied") == before
            lake.sql("DROP TABLE copied")
            if not keyed:
                lake.sql("DELETE FROM t WHERE ts = '2024-03-31 03:30:00'")
                assert stored(lake, "t") == before[1:]
        lake.sql("DROP TABLE t")


@pytest.mark.parametrize("zone", later([PARIS, "America/New_York", "UTC"], 1))
def test_what_is_written_is_the_local_time(classic: Lake, zone: str) -> None:
    lake = classic
    schema = (
        "id BIGINT, ts TIMESTAMP_NTZ, a ARRAY<TIMESTAMP_NTZ>, m MAP<STRING, TIMESTAMP_NTZ>, s STRUCT<x: TIMESTAMP_NTZ>"
    )
    lake.sql(f"CREATE TABLE t ({schema})")
    with legacy(lake, zone):
        lake.sql(
            "INSERT INTO t VALUES (1, TIMESTAMP '1893-05-06 07:08:09', array(TIMESTAMP '2024-10-27 02:30:00', NULL), "
            "map('k', TIMESTAMP '2024-06-30 23:30:00'), named_struct('x', TIMESTAMP '1583-01-01 12:00:00.5'))"
        )
        lake.sql("INSERT INTO t (id, ts) VALUES (2, '2024-06-30 12:00:00+00:00'), (4, NULL)")
        lake.sql("INSERT INTO t (id, ts) VALUES (3, DATE '2024-06-30')")
        one = lake.table("t").read(where="id = 1")
        lake.table("t").write(one.withColumn("id", F.lit(5).cast("bigint")))
        lake.write_table(one.withColumn("id", F.lit(6).cast("bigint")), "t")
        lake.write_table(one.withColumn("id", F.lit(7).cast("bigint")), "t", by_position=True)
        lake.sql("INSERT INTO t SELECT 8L, ts, a, m, s FROM t WHERE id = 1")
        lake.sql("INSERT INTO t BY NAME SELECT 9L AS id, TIMESTAMP_NTZ '2024-03-31 02:30:00' AS ts")
    hours = {"UTC": 12, PARIS: 14, "America/New_York": 8}
    one_row = (
        at("1893-05-06 07:08:09"),
        [at("2024-10-27 02:30:00"), None],
        [("k", at("2024-06-30 23:30:00"))],
        {"x": at("1583-01-01 12:00:00.5")},
    )
    found = {row[0]: row[1:] for row in stored(lake, "t")}
    for number in (1, 5, 6, 7, 8):
        assert found[number] == one_row, number
    assert found[2][0] == dt.datetime(2024, 6, 30, hours[zone])
    assert (found[3][0], found[4][0]) == (at("2024-06-30 00:00:00"), None)
    assert found[9][0] == at("2024-03-31 02:30:00")  # a local time that is given is kept


CHANGES: tuple[str, ...] = (
    "DELETE FROM t WHERE ts = TIMESTAMP '2024-01-01 00:00:00'",
    "DELETE FROM t WHERE ts < TIMESTAMP '1900-01-01 00:00:00+00:00' OR hour(ts) = 23",
    "DELETE FROM t WHERE ts IN (SELECT max(ts) FROM t)",
    "UPDATE t SET n = n + 100 WHERE ts >= TIMESTAMP '2024-03-31 01:30:00+00:00'",
    "UPDATE t SET other = ts + INTERVAL 1 DAY, s.a = TIMESTAMP '2024-06-30 10:00:00+00:00' WHERE n < 3",
    "UPDATE t SET other = '2024-06-30 12:00:00+00:00'",
    "MERGE INTO t USING src s ON t.ts = s.ts WHEN MATCHED AND s.n = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET other = s.ts"
    ", n = unix_seconds(t.ts) % 100 WHEN NOT MATCHED THEN INSERT (ts, n, other, s) VALUES (s.ts, s.n, s.ts + INTERVAL 2 HOURS, NULL)",
    "MERGE INTO t USING src s ON t.n = s.n WHEN MATCHED THEN UPDATE SET other = s.ts, s = named_struct('a', s.ts, 'b', 1)",
    "MERGE INTO t USING src s ON t.n = s.n AND t.ts < s.ts WHEN NOT MATCHED BY SOURCE AND t.ts > TIMESTAMP '2024-01-01 00:00:00' THEN DELETE",
)


SUFFIXES = {
    "append": "",
    "time key": "TBLPROPERTIES ('primary-key' = 'ts', 'bucket' = '2')",
    "number key": "TBLPROPERTIES ('primary-key' = 'n', 'bucket' = '2')",
    "partitioned": "PARTITIONED BY (ts) TBLPROPERTIES ('primary-key' = 'ts,n', 'bucket' = '1')",
    "evolution": (
        "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', "
        "'deletion-vectors.enabled' = 'true')"
    ),
}


def changed(lake: Lake, change: str, word: str, suffix: str) -> list[tuple[Any, ...]]:
    """What a table whose columns are of a type holds after a statement, or the error's name."""
    lake.sql(f"CREATE TABLE t (ts {word}, n BIGINT, other {word}, s STRUCT<a: {word}, b: INT>) {suffix}")
    try:
        values = ", ".join(
            f"(TIMESTAMP '{text}', {n}, TIMESTAMP '{text}', named_struct('a', TIMESTAMP '{text}', 'b', {n}))"
            for n, text in enumerate(TIMES)
        )
        lake.sql(f"INSERT INTO t VALUES {values}")
        lake.sql(change)
        return rows(lake, "SELECT * FROM t")
    except (InvalidError, UnsupportedError) as error:
        return [(type(error).__name__,)]
    finally:
        lake.sql("DROP TABLE t")


def compare(lake: Lake, kind: str, changes: Sequence[str]) -> None:
    """The statements do what they do to a table of instants: columns WITH LOCAL TIME ZONE that hold those shown."""
    with legacy(lake):
        lake.spark.sql(
            "SELECT * FROM VALUES (TIMESTAMP '2024-01-01 00:00:00', 0), (TIMESTAMP '2024-06-30 23:30:00', 5), "
            "(TIMESTAMP '2000-01-01 00:00:00', 7) AS x(ts, n)"
        ).createOrReplaceTempView("src")
        for change in changes:
            if kind in ("number key", "partitioned"):  # whose keys no statement may change
                change = change.replace("n = n + 100", "other = ts").replace(", n = unix_seconds(t.ts) % 100", "")
            words = ("TIMESTAMP", "TIMESTAMP WITH LOCAL TIME ZONE")
            found, wanted = (changed(lake, change, word, SUFFIXES[kind]) for word in words)
            assert found == wanted, change
            assert len(found) > 1, (kind, change, found)


@pytest.mark.parametrize("kind", later([*SUFFIXES], 2))
def test_changes_do_what_they_do_in_a_table_of_instants(classic: Lake, kind: str) -> None:
    compare(classic, kind, CHANGES)


def test_rows_that_spark_reads_itself(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((reader, "SMALL_ROWS"), (hidden, "SMALL_ROWS"), (tasks, "SMALL_ROWS"), (held, "FEW_ROWS")):
        monkeypatch.setattr(module, name, 0)
    compare(classic, "append", (CHANGES[1], CHANGES[4]))
    compare(classic, "number key", (CHANGES[7],))
    filled(classic)
    with legacy(classic):
        shown = rows(classic, "SELECT id, CAST(ts AS STRING), CAST(s.a AS STRING) FROM t WHERE ts < '2024-06-01'")
        assert shown == [(number, text, text) for number, text in enumerate(TIMES) if text < "2024-06-01"]


def test_calls_of_a_handle_change_rows(classic: Lake) -> None:
    lake = classic
    for properties in ("", "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"):
        lake.sql(f"CREATE TABLE t (id BIGINT, ts TIMESTAMP_NTZ) {properties}")
        lake.sql(
            "INSERT INTO t VALUES (1, TIMESTAMP_NTZ '2024-01-01 00:00:00'), (2, TIMESTAMP_NTZ '2024-07-01 00:00:00'), (3, NULL)"
        )
        with legacy(lake):
            table = lake.table("t")
            table.delete("ts = TIMESTAMP '2023-12-31 23:00:00+00:00'")
            assert [row[0] for row in stored(lake, "t")] == [2, 3]
            table.update({"ts": "ts + INTERVAL 1 HOUR"}, "ts = '2024-06-30 22:00:00+00:00'")
            table.update({"ts": F.expr("TIMESTAMP '2024-06-30 22:00:00+00:00'")}, F.col("id") == 3)
            source = lake.spark.sql(
                "SELECT 2L AS id, TIMESTAMP '2024-06-30 22:00:00+00:00' AS ts UNION ALL SELECT 4L, NULL"
            )
            assert stored(lake, "t") == [(2, at("2024-07-01 01:00:00")), (3, at("2024-07-01 00:00:00"))]
            table.merge(source, "t.id = source.id").whenMatched().updateAll().whenNotMatched().insertAll().merge()
            table.delete(F.col("ts") < F.lit("2024-06-30 22:00:00+00:00").cast("timestamp"))
        assert stored(lake, "t") == [(2, at("2024-07-01 00:00:00")), (3, at("2024-07-01 00:00:00")), (4, None)]
        lake.sql("DROP TABLE t")


def test_overwrites_name_partitions_by_their_time(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE t (id BIGINT, ts TIMESTAMP_NTZ) PARTITIONED BY (ts)")
    with legacy(lake):
        lake.sql("INSERT INTO t VALUES (1, TIMESTAMP '2024-01-01 00:00:00'), (2, TIMESTAMP '2024-07-01 00:00:00')")
        lake.sql("INSERT OVERWRITE t PARTITION (ts = '2024-06-30 22:00:00+00:00') VALUES (3)")
        assert stored(lake, "t") == [(1, at("2024-01-01 00:00:00")), (3, at("2024-07-01 00:00:00"))]
        lake.sql(
            "INSERT INTO t REPLACE WHERE ts = TIMESTAMP '2024-01-01 00:00:00' VALUES (4, TIMESTAMP '2024-01-01 00:00:00')"
        )
        assert stored(lake, "t") == [(3, at("2024-07-01 00:00:00")), (4, at("2024-01-01 00:00:00"))]
        with pytest.raises((InvalidError, UnsupportedError)):
            lake.sql(
                "INSERT INTO t REPLACE WHERE ts = '2023-12-31 23:00:00+00:00' VALUES (5, TIMESTAMP '2024-01-01 00:00:00')"
            )
        assert rows(lake, "SHOW PARTITIONS t") == [("ts=2024-01-01 00%3A00%3A00",), ("ts=2024-07-01 00%3A00%3A00",)]
        lake.sql("ALTER TABLE t DROP PARTITION (ts = '2024-01-01 00:00:00')")
        assert stored(lake, "t") == [(3, at("2024-07-01 00:00:00"))]
    with legacy(lake, spark__sql__sources__partitionOverwriteMode="dynamic"):
        lake.sql("INSERT OVERWRITE t SELECT 6, ts FROM t UNION ALL SELECT 7, TIMESTAMP '1893-05-06 07:08:09'")
    assert stored(lake, "t") == [(6, at("2024-07-01 00:00:00")), (7, at("1893-05-06 07:08:09"))]
