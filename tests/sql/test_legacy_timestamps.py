"""Sessions that take TIMESTAMP for Spark's own (`legacy-timestamp-mapping.enabled`): rows, types, changes, definitions.

What is right is said by a view of the rows as the option shows them, and by the rows that are stored.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tests.profile import later

import bucketlake
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.schema.change import AddColumn
from bucketlake.spark.merge import held
from bucketlake.spark.read import hidden, reader
from bucketlake.spark.session import Lake
from bucketlake.spark.write import tasks
from bucketlake.types.model import type_text
from bucketlake.types.parse import parse_type_text

pytestmark = pytest.mark.spark

KEY = "legacy-timestamp-mapping.enabled"
PARIS = "Europe/Paris"  # 2024-03-31 02:30 is skipped there, 2024-10-27 02:30 comes twice, +00:09:21 before 1911
TIMES = (
    "2024-01-01 00:00:00",
    "2024-10-27 02:30:00.123456",
    "1893-05-06 07:08:09",
    "1583-01-01 12:00:00.5",
    "2024-03-31 03:30:00",
    "2024-06-30 23:30:00",
)


@contextmanager
def legacy(lake: Lake, zone: str = PARIS, **more: str) -> Iterator[None]:
    """The option set, in a session of this zone."""
    settings = {
        f"spark.paimon.{KEY}": "true",
        "spark.sql.session.timeZone": zone,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    before = {key: lake.spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        lake.spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            lake.spark.conf.unset(key) if old is None else lake.spark.conf.set(key, old)


def stored(lake: Lake, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows as they lie in the table: local times."""
    rows = lake.catalog.table(table).to_arrow(columns=list(columns) or None).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(text).collect()), key=repr)


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def filled(lake: Lake, table: str = "t", properties: str = "", partitioned: bool = False) -> None:
    """A table of ids and local times, written without the option, and a view `v` of what it shows with it."""
    by = "PARTITIONED BY (ts)" if partitioned else ""
    lake.sql(
        f"CREATE TABLE {table} (id BIGINT, ts TIMESTAMP_NTZ, s STRUCT<a: TIMESTAMP_NTZ, b: INT>, z TIMESTAMP_LTZ) {by} {properties}"
    )
    values = ", ".join(
        f"({number}, TIMESTAMP_NTZ '{text}', named_struct('a', TIMESTAMP_NTZ '{text}', 'b', {number}), TIMESTAMP '2024-01-01 00:00:00+00:00')"
        for number, text in enumerate(TIMES)
    )
    nothing = "" if partitioned or "primary-key" in properties else ", (99, NULL, NULL, NULL)"
    lake.sql(f"INSERT INTO {table} VALUES {values}{nothing}")


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
                "UPDATE t SET n = 1 WHERE id = 1",
                "MERGE INTO t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 1",
            ):
                with pytest.raises(UnsupportedError, match="skips"):
                    lake.sql(change)
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


def test_definitions_are_sparks(classic: Lake) -> None:
    lake = classic
    with legacy(lake):
        lake.sql(
            "CREATE TABLE t (id BIGINT, ts TIMESTAMP, s STRUCT<a: TIMESTAMP, b: ARRAY<TIMESTAMP>>, n TIMESTAMP_NTZ, p TIMESTAMP(3), "
            "z TIMESTAMP WITH LOCAL TIME ZONE)"
        )
        lake.sql("ALTER TABLE t ADD COLUMNS (m MAP<STRING, TIMESTAMP>, y TIMESTAMP_LTZ, d DATE)")
        lake.sql("ALTER TABLE t ALTER COLUMN d TYPE TIMESTAMP")
        types = {item.name: type_text(item.type) for item in lake.catalog.table("t").schema.fields}
        assert types == {
            "id": "BIGINT",
            "ts": "TIMESTAMP(6)",
            "s": "ROW<`a` TIMESTAMP(6), `b` ARRAY<TIMESTAMP(6)>>",
            "n": "TIMESTAMP(6)",
            "p": "TIMESTAMP(3)",
            "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            "m": "MAP<STRING NOT NULL, TIMESTAMP(6)>",
            "y": "TIMESTAMP(6)",
            "d": "TIMESTAMP(6)",
        }
        described = {row[0]: row[1] for row in lake.sql("DESCRIBE t").collect()}
        assert {described[name] for name in ("ts", "n", "p", "z", "y", "d")} == {"timestamp"}
        assert described["s"] == "struct<a:timestamp,b:array<timestamp>>"
        assert ("data_type", "timestamp") in rows(lake, "DESCRIBE t ts")
        again = lake.sql("SHOW CREATE TABLE t").collect()[0][0]
        assert KEY not in again + str(lake.sql("SHOW TBLPROPERTIES t").collect()) + str(
            lake.sql("DESC EXTENDED t").collect()
        )
        head = again.split("USING")[0].replace(".`t`", ".`u`").replace(".t (", ".u (")
        lake.sql(f"{head} USING paimon")
        lake.sql("CREATE TABLE w LIKE t")
        for name in ("u", "w"):
            assert {f.name: type_text(f.type) for f in lake.catalog.table(name).schema.fields} == types
    assert {row[0]: row[1] for row in lake.sql("DESCRIBE t").collect()}["ts"] == "timestamp_ntz"
    lake.sql("ALTER TABLE t ADD COLUMN k TIMESTAMP")
    assert type_text(lake.catalog.table("t").schema.field("k").type) == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert KEY not in str([lake.catalog.table(name).schema.options for name in ("t", "u", "w")])


def test_tables_are_made_of_queries_and_frames(classic: Lake) -> None:
    lake = classic
    local = parse_type_text("TIMESTAMP", "flink")
    with legacy(lake):
        query = "SELECT 1 AS id, TIMESTAMP '1893-05-06 07:08:09' AS ts, named_struct('a', TIMESTAMP '2024-06-30 22:00:00+00:00') AS s"
        frame = lake.sql(query)
        lake.sql(f"CREATE TABLE a AS {query}")
        lake.sql(f"CREATE OR REPLACE TABLE a AS {query}")
        lake.write_table(frame, "b")
        lake.write_table(frame, "c", "create_or_replace")
        lake.sql("CREATE TABLE d AS SELECT * FROM a")
    lake.write_table(lake.spark.sql("SELECT 1 AS id, TIMESTAMP_LTZ '2024-01-01 00:00:00' AS ts"), "plain")
    with legacy(lake):
        lake.write_table(frame, "e", legacy_timestamp_mapping_enabled=True)
        lake.write_table(frame, "f", legacy_timestamp_mapping_enabled=False)
        assert lake.catalog.table("f").schema.field("ts").type.root.value == "TIMESTAMP WITH LOCAL TIME ZONE"
    for name in "abcde":
        assert lake.catalog.table(name).schema.field("ts").type == local, name
        assert stored(lake, name) == [(1, at("1893-05-06 07:08:09"), {"a": at("2024-07-01 00:00:00")})], name
    assert lake.catalog.table("plain").schema.field("ts").type != local
    assert lake.catalog.table("f").schema.field("ts").type != local


def test_columns_that_writes_add(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE t (id BIGINT, z TIMESTAMP_LTZ, s STRUCT<a: TIMESTAMP_NTZ>)")
    with legacy(lake):
        frame = lake.spark.sql(
            "SELECT 1L AS id, TIMESTAMP '2024-01-01 00:00:00' AS z, named_struct('a', TIMESTAMP '2024-01-01 00:00:00', 'b', "
            "TIMESTAMP '2024-02-01 00:00:00') AS s, TIMESTAMP '2024-03-01 00:00:00' AS n"
        )
        lake.table("t").write(frame, write_merge_schema=True)
        frame.withColumn("id", F.lit(2).cast("bigint")).withColumnRenamed("n", "o").createOrReplaceTempView("src")
        lake.sql("MERGE WITH SCHEMA EVOLUTION INTO t USING src s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    types = {item.name: type_text(item.type) for item in lake.catalog.table("t").schema.fields}
    assert types["z"] == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert types["s"] == "ROW<`a` TIMESTAMP(6), `b` TIMESTAMP(6)>"
    assert (types["n"], types["o"]) == ("TIMESTAMP(6)", "TIMESTAMP(6)")
    member = {"a": at("2024-01-01 00:00:00"), "b": at("2024-02-01 00:00:00")}
    assert stored(lake, "t", "id", "s", "n", "o") == [
        (1, member, at("2024-03-01 00:00:00"), None),
        (2, member, None, at("2024-03-01 00:00:00")),
    ]


def test_other_ways_to_look_at_a_table(classic: Lake) -> None:
    lake = classic
    filled(lake, properties="TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'changelog-producer' = 'input')")
    lake.sql("INSERT INTO t (id, ts) VALUES (50, TIMESTAMP_NTZ '2024-06-30 23:30:00')")
    condition = "ts > TIMESTAMP '2024-06-30 21:00:00+00:00' AND ts < '2024-07-01'"
    with legacy(lake):
        wanted = [("2024-06-30 23:30:00",)] * 2
        assert rows(lake, f"SELECT CAST(ts AS STRING) FROM `t$audit_log` WHERE {condition}") == wanted
        lake.sql("CALL sys.compact('t')")
        assert rows(lake, f"SELECT CAST(ts AS STRING) FROM `t$ro` WHERE {condition}") == wanted
        assert lake.sql("SELECT ts FROM `t$binlog`").schema["ts"].dataType == T.ArrayType(T.TimestampType())
        found = rows(lake, f"SELECT CAST(ts AS STRING) FROM paimon_incremental_query('t', '1', '2') WHERE {condition}")
        assert found == wanted[:1]
        assert rows(lake, f"SELECT CAST(ts AS STRING) FROM t VERSION AS OF 1 WHERE {condition}") == wanted[:1]
        assert lake.sql("SELECT commit_time FROM `t$snapshots`").schema["commit_time"].dataType == T.TimestampType()
        assert rows(
            lake, "SELECT count(*) FROM `t$snapshots` WHERE commit_time > current_timestamp() - INTERVAL 1 DAY"
        ) == [(3,)]
        assert lake.table("t").read(read_changelog=True).schema["ts"].dataType == T.TimestampType()
        lake.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS ts")
        lake.sql("CREATE OR REPLACE TEMPORARY VIEW seen AS SELECT ts FROM t")
        assert lake.sql("SELECT * FROM seen").schema["ts"].dataType == T.TimestampType()
        lake.sql("CACHE TABLE t")
        assert rows(lake, f"SELECT CAST(ts AS STRING) FROM t WHERE {condition}") == wanted
        lake.sql("UNCACHE TABLE t")


def test_streams(classic: Lake, tmp_path: Any) -> None:
    lake = classic
    filled(lake)
    lake.sql("CREATE TABLE u (id BIGINT, ts TIMESTAMP_NTZ)")
    condition = "ts >= TIMESTAMP '2024-06-30 21:30:00+00:00' OR ts = '1893-05-06 07:08:09'"
    with legacy(lake):
        assert lake.table("t").read_stream(columns=["id"], where=condition).columns == ["id"]
        stream = lake.table("t").read_stream(columns=["id", "ts"], where=condition)
        assert stream.schema["ts"].dataType == T.TimestampType()
        lake.table("u").write_stream(stream, str(tmp_path / "c"), trigger={"availableNow": True}).awaitTermination()
        assert [row[0] for row in stored(lake, "u")] == [1, 2, 5]
        assert stored(lake, "u")[1:] == [(2, at("1893-05-06 07:08:09")), (5, at("2024-06-30 23:30:00"))]
        seen: list[Any] = []

        def body(frame: Any, number: int) -> None:
            seen.extend(row[0] for row in frame.collect())
            assert frame.columns == ["id"]

        lake.table("t").process_stream(
            body, str(tmp_path / "p"), trigger={"availableNow": True}, where=condition, columns=["id"]
        ).awaitTermination()
        assert sorted(seen) == [1, 2, 5]


def test_an_attached_session(classic: Lake) -> None:
    lake = classic
    filled(lake)
    spark = lake.spark
    bucketlake.attach(spark, lake.catalog.warehouse)
    try:
        with legacy(lake):
            assert spark.sql("SELECT ts FROM t").schema["ts"].dataType == T.TimestampType()
            assert spark.table("t").schema["ts"].dataType == T.TimestampType()
            assert spark.read.table("t").schema["ts"].dataType == T.TimestampType()
            assert {c.name: c.dataType for c in spark.catalog.listColumns("t")}["ts"] == "timestamp"
            spark.table("t").where("ts < '1900-01-01'").select("id", "ts").writeTo("made").using("paimon").create()
            spark.table("t").where("id = 0").select("id", "ts").writeTo("made").append()
        assert stored(lake, "made") == [(0, at(TIMES[0])), (2, at(TIMES[2])), (3, at(TIMES[3]))]
    finally:
        bucketlake.detach(spark)


def test_copy_into(classic: Lake, tmp_path: Any) -> None:
    lake = classic
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,2024-06-30 22:00:00+00:00\n2,1893-05-06 07:08:09\n3,\n")
    with legacy(lake):
        lake.sql("CREATE TABLE t (id BIGINT, ts TIMESTAMP)")
        lake.sql(f"COPY INTO t FROM '{tmp_path}/in' FILE_FORMAT = (TYPE = CSV)")
        assert stored(lake, "t") == [(1, at("2024-07-01 00:00:00")), (2, at("1893-05-06 07:08:09")), (3, None)]
        lake.sql(f"COPY INTO '{tmp_path}/out' FROM t FILE_FORMAT = (TYPE = PARQUET)")
        assert lake.spark.read.parquet(f"{tmp_path}/out").schema["ts"].dataType == T.TimestampType()
        lake.sql("CREATE TABLE u (id BIGINT, ts TIMESTAMP)")
        lake.sql(f"COPY INTO u FROM '{tmp_path}/out' FILE_FORMAT = (TYPE = PARQUET)")
    assert stored(lake, "u") == stored(lake, "t")


def test_what_cannot_honour_it_says_so(classic: Lake, tmp_path: Any) -> None:
    lake = classic
    filled(lake)
    filled(lake, "k", "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    path = lake.table("t").path
    frame = lake.spark.createDataFrame([(1,)], "id BIGINT")
    doors: list[Callable[[], Any]] = [
        lambda: lake.sql(f"CREATE TABLE u (id BIGINT) TBLPROPERTIES ('{KEY}' = 'true')"),
        lambda: lake.sql(f"ALTER TABLE t SET TBLPROPERTIES ('{KEY}' = 'true')"),
        lambda: lake.spark.read.format("bucketlake").option(KEY, "true").load(path).collect(),
        lambda: frame.write.format("bucketlake").mode("append").option(KEY, "true").save(path),
        lambda: lake.table("k", {KEY: True}).lookup(frame, on=["id"]).collect(),
    ]
    for door in doors:
        with pytest.raises(Exception, match=KEY):
            door()
    lake.spark.conf.set(f"spark.paimon.paimon.*.t.{KEY}", "true")
    try:
        with pytest.raises(UnsupportedError, match="of one table"):
            lake.sql("SELECT * FROM t")
    finally:
        lake.spark.conf.unset(f"spark.paimon.paimon.*.t.{KEY}")
    with legacy(lake), pytest.raises(InvalidError):
        lake.spark.conf.set(f"spark.paimon.{KEY}", "perhaps")
        lake.sql("SELECT * FROM t")
    assert lake.catalog.list_tables() == ["k", "t"]


def test_an_option_that_another_engine_stored_says_nothing(classic: Lake) -> None:
    lake = classic
    filled(lake)
    newest = Path(lake.table("t").path) / "schema" / "schema-0"
    told = json.loads(newest.read_text())
    newest.write_text(json.dumps({**told, "options": {**told["options"], KEY: "true"}}))
    lake = bucketlake.connect(lake.catalog.warehouse, spark=lake.spark)
    assert lake.catalog.table("t").schema.options.get(KEY) == "true"
    assert lake.sql("SELECT ts FROM t").schema["ts"].dataType == T.TimestampNTZType()
    assert lake.table("t").read().schema["ts"].dataType == T.TimestampNTZType()
    lake.table("t").alter(AddColumn(("more",), parse_type_text("INT")))
