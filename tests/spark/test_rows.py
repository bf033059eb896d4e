"""What is written through DataFrames comes back, in every kind of table, and only where it should."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.profile import SOAK, first, later

from bucketlake.errors import InvalidError
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("pt", pa.string()), ("v", pa.int32()), ("s", pa.string())])


def _frame(lake: Lake, rows: list[tuple[object, ...]], columns: str = "id long, pt string, v int, s string"):
    return lake.spark.createDataFrame(rows, columns)


def _numbers(lake: Lake, count: int, value: int = 0, parts: int = 3):
    return lake.spark.range(count).selectExpr(
        "id", f"concat('p', id % {parts}) AS pt", f"cast(id + {value} AS int) AS v", "concat('text ', id) AS s"
    )


def _rows(frame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


TABLES = {
    "append": ((), (), {}),
    "append-partitioned": (("pt",), (), {}),
    "append-buckets": ((), (), {"bucket": "3", "bucket-key": "id"}),
    "keyed": ((), ("id",), {"bucket": "3"}),
    "keyed-partitioned": (("pt",), ("id", "pt"), {"bucket": "2"}),
    "keyed-many-buckets": ((), ("id",), {"bucket": "70"}),
}


@pytest.fixture(
    params=later(
        ["keyed-partitioned", "append", "keyed-many-buckets", "append-partitioned", "append-buckets", "keyed"], 2
    )
)
def table(request: pytest.FixtureRequest, lake: Lake):
    partitions, keys, options = TABLES[request.param]
    lake.catalog.create_table("db.t", SCHEMA, partitions, keys, options)
    return lake.table("db.t")


@pytest.fixture(params=first(list(TABLES), 2))
def some_table(request: pytest.FixtureRequest, lake: Lake):
    partitions, keys, options = TABLES[request.param]
    lake.catalog.create_table("db.t", SCHEMA, partitions, keys, options)
    return lake.table("db.t")


@pytest.mark.parametrize("count", [7, 60_000] if SOAK else [60_000])
def test_written_rows_come_back(lake: Lake, table, count: int) -> None:
    snapshot = table.write(_numbers(lake, count))
    assert snapshot is not None
    assert snapshot.total_record_count == count
    assert _rows(table.read()) == _rows(_numbers(lake, count))
    assert _rows(table.read(columns=["v"], where="id = 5")) == [(5,)]
    assert table.read(where="pt = 'p1'").count() == sum(1 for i in range(count) if i % 3 == 1)


def test_nothing_to_write_is_no_commit(lake: Lake, some_table) -> None:
    table = some_table
    assert table.write(_numbers(lake, 0)) is None
    assert table.read().count() == 0
    assert table.snapshots() == []


def test_local_rows_are_written_in_the_driver(lake: Lake, table) -> None:
    data = pa.table({"S": ["a", None], "v": [1, 2], "pt": ["x", "y"], "ID": pa.array([1, 2], pa.int64())})
    table.write(lake.spark.createDataFrame(data))
    assert _rows(table.read()) == [(1, "x", 1, "a"), (2, "y", 2, None)]


@pytest.mark.parametrize("count", later([100, 300_000], 1))
def test_upserts_replace_rows(lake: Lake, count: int) -> None:
    lake.catalog.create_table("db.k", SCHEMA, (), ("id",), {"bucket": "2"})
    table = lake.table("db.k")
    table.write(_numbers(lake, count))
    table.write(_numbers(lake, count).where("id % 3 = 0").selectExpr("id", "pt", "-1 AS v", "s"))
    table.write(_numbers(lake, count).where("id % 6 = 0").selectExpr("id", "pt", "-2 AS v", "s"))
    found = {row.v: row["count"] for row in table.read().where("v < 0").groupBy("v").count().collect()}
    assert found == {-2: -(-count // 6), -1: -(-count // 3) - -(-count // 6)}
    assert table.read().count() == count
    assert table.read().select("id").distinct().count() == count
    assert table.read(where="id = 12").collect()[0].v == -2


def test_deleted_rows_stay_away_from_native_scans(lake: Lake) -> None:
    lake.catalog.create_table("db.k", SCHEMA, (), ("id",), {"bucket": "2"})
    table = lake.table("db.k")
    table.write(_numbers(lake, 300_000))
    table.delete("id < 100000")
    assert table.read().count() == 200_000
    assert table.read().agg({"id": "min"}).collect()[0][0] == 100_000


def test_overwrite_whole_static_and_dynamic(lake: Lake) -> None:
    lake.catalog.create_table("db.p", SCHEMA, ("pt",), (), {})
    table = lake.table("db.p")
    table.write(_frame(lake, [(1, "a", 1, "x"), (2, "b", 2, "y"), (3, "c", 3, "z")]))
    table.write(_frame(lake, [(4, "a", 4, "x")]), mode="overwrite")
    assert _rows(table.read(columns=["id"])) == [(2,), (3,), (4,)]
    table.write(_frame(lake, [(5, 5, "q")], "id long, v int, s string"), mode="overwrite", partition={"pt": "b"})
    assert _rows(table.read(columns=["id", "pt"])) == [(3, "c"), (4, "a"), (5, "b")]
    with pytest.raises(InvalidError):
        table.write(_frame(lake, [(6, "a", 6, "x")]), mode="overwrite", partition={"pt": "b"})
    table.write(_frame(lake, [(7, "d", 7, "x")]), mode="overwrite", dynamic_partition_overwrite="false")
    assert _rows(table.read(columns=["id"])) == [(7,)]


def test_overwrite_with_rows_of_the_table_itself(lake: Lake, table) -> None:
    table.write(_numbers(lake, 1000))
    table.write(table.read(where="id < 500").selectExpr("id", "pt", "v + 1 AS v", "s"), mode="overwrite")
    assert _rows(table.read()) == _rows(_numbers(lake, 500, 1))


def test_older_snapshots_are_read(lake: Lake, some_table) -> None:
    table = some_table
    first = table.write(_numbers(lake, 10))
    table.write(_numbers(lake, 10).where("id < 3").selectExpr("id + 10 AS id", "pt", "v", "s"))
    assert table.read().count() == 13
    assert table.read(scan_snapshot_id=first.id).count() == 10
    assert table.read(**{"scan.snapshot-id": str(first.id)}).count() == 10


def test_a_session_keeps_its_configuration(lake: Lake, some_table) -> None:
    table = some_table
    before = dict(lake.spark.conf.getAll) if not callable(lake.spark.conf.getAll) else lake.spark.conf.getAll()
    table.write(_numbers(lake, 10))
    table.read().collect()
    after = dict(lake.spark.conf.getAll) if not callable(lake.spark.conf.getAll) else lake.spark.conf.getAll()
    assert before == after


ALL_TYPES = (
    "id long, b boolean, ti tinyint, si smallint, i int, f float, d double, dec decimal(9,2), wide decimal(38,10), "
    "s string, bin binary, day date, ts timestamp_ntz, ltz timestamp, arr array<int>, m map<string,int>, "
    "r struct<a:int,b:string>"
)


@pytest.mark.parametrize("file_format", first(["parquet", "avro", "orc"], 1))
def test_all_types_come_back(lake: Lake, file_format: str) -> None:
    from bucketlake.spark.types import field_types

    stamp = dt.datetime(2024, 2, 29, 12, 34, 56, 789_012)
    row = (1, True, -1, -2, -3, 1.5, -2.5, Decimal("1.25"), Decimal("12345678901234567890.0123456789"), "é…")
    row += (b"\x00\xff", dt.date(1969, 12, 31), stamp, stamp, [1, None, 3], {"k": None, "l": 2}, (7, "x"))
    frame = lake.spark.createDataFrame([row, (2, *[None] * 16)], ALL_TYPES)
    lake.catalog.create_table("db.all", field_types(frame.schema), options={"file.format": file_format})
    table = lake.table("db.all")
    table.write(frame)
    many = lake.spark.range(60_000).selectExpr("id + 10 AS id").join(frame.drop("id").limit(1))
    table.write(many)
    assert table.read(where="id < 10").orderBy("id").collect() == frame.orderBy("id").collect()
    found = table.read()
    assert found.schema.simpleString() == frame.schema.simpleString()
    assert found.where("b").select("s", "dec", "wide", "day", "ts", "ltz", "arr", "r").distinct().count() == 1
    assert found.count() == 60_002


def test_time_char_and_fine_timestamps(lake: Lake) -> None:
    from bucketlake.types.model import DataField, DataType, Root

    fields = [
        DataField(0, "id", DataType(Root.INT)),
        DataField(1, "t", DataType(Root.TIME, precision=3)),
        DataField(2, "c", DataType(Root.CHAR, length=3)),
        DataField(3, "ms", DataType(Root.TIMESTAMP, precision=3)),
        DataField(4, "ns", DataType(Root.TIMESTAMP, precision=9)),
    ]
    lake.catalog.create_table("db.fine", fields)
    table = lake.table("db.fine")
    stamp = dt.datetime(2024, 1, 1, 1, 2, 3, 456_789)
    rows = [(1, 3_723_004, "abc", stamp, stamp), (2, None, None, None, None)]
    table.write(lake.spark.createDataFrame(rows, "id int, t int, c string, ms timestamp_ntz, ns timestamp_ntz"))
    first, second = table.read().orderBy("id").collect()
    assert tuple(first) == (1, 3_723_004, "abc", stamp.replace(microsecond=456_000), stamp)
    assert tuple(second) == (2, None, None, None, None)
    with pytest.raises(Exception, match=r"too long|length|does not fit"):
        table.write(lake.spark.createDataFrame([(3, 1, "abcd", stamp, stamp)], table.read().schema))
    assert table.read().count() == 2


def test_a_partition_is_written_by_one_task_if_asked(classic: Lake) -> None:
    lake = classic
    for strategy, files in (("none", range(5, 9)), ("hash", range(4, 5))):
        options = f"'partition.sink-strategy' = '{strategy}', 'write-only' = 'true'"
        lake.sql(f"CREATE TABLE db.{strategy} (id BIGINT, p INT) PARTITIONED BY (p) TBLPROPERTIES ({options})")
        lake.sql(f"INSERT INTO db.{strategy} SELECT id, cast(id % 4 AS INT) FROM range(0, 300000, 1, 2)")
        assert len(lake.table(f"db.{strategy}").files()) in files, strategy
        assert lake.sql(f"SELECT count(*) FROM db.{strategy}").first()[0] == 300000


@pytest.mark.parametrize("kind", later(["TIMESTAMP", "DATE", "TIMESTAMP_NTZ"], 1))
@pytest.mark.parametrize("year", [1, 999, 2020])
def test_partitions_of_any_day(classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str, year: int) -> None:
    """Whatever its year, and in a session in another zone than the process, a partition is written, named and read by
    its value: as a constant beside the columns of its files, too."""
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    zone = classic.spark.conf.get("spark.sql.session.timeZone")
    classic.spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        classic.sql(f"CREATE TABLE db.t (k INT, p {kind}) PARTITIONED BY (p)")
        day = dt.datetime(year, 3, 1, 5, tzinfo=dt.timezone.utc if kind == "TIMESTAMP" else None)
        value = day.date() if kind == "DATE" else day
        for number, mode in enumerate(["append", "overwrite"]):
            rows = classic.spark.range(2).selectExpr(f"CAST(id AS INT) + {number} AS k")
            classic.table("db.t").write(rows, mode=mode, partition={"p": value})
        found = classic.sql("SELECT k, CAST(p AS STRING) AS p FROM db.t WHERE k >= 0").collect()
        told = {"DATE": "", "TIMESTAMP_NTZ": " 05:00:00", "TIMESTAMP": " 10:30:00"}[kind]
        if kind != "TIMESTAMP" or year == 2020:  # Kolkata's clocks were others before 1945
            assert _rows(classic.sql("SELECT k, CAST(p AS STRING) FROM db.t")) == [
                (k, f"{year:04}-03-01{told}") for k in (1, 2)
            ]
        assert sorted(row.k for row in found) == [1, 2]
        assert classic.catalog.table("db.t").to_arrow()["p"].to_pylist() == [value, value]
    finally:
        classic.spark.conf.set("spark.sql.session.timeZone", zone)


def test_partitions_of_several_values_keep_their_types(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside nulls, and behind deletes, where no file's statistics prove the value: a moment without a zone stays one,
    at an hour that the session's zone leaves out, too."""
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    zone = classic.spark.conf.get("spark.sql.session.timeZone")
    classic.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        classic.sql(
            "CREATE TABLE db.t (k INT, d DOUBLE, at TIMESTAMP_NTZ, day DATE, n DECIMAL(9,2)) PARTITIONED BY (d, at, day, n)"
            " TBLPROPERTIES ('deletion-vectors.enabled' = 'true')"
        )
        moments = [dt.datetime(2020, 3, 8, 2, 30), dt.datetime(1, 1, 2, 3)]
        rows = [(1, 0.5, moments[0], dt.date(1, 1, 1), Decimal("1.50")), (2, None, moments[1], None, None)]
        for row in [*rows, (3, *rows[0][1:]), (4, *rows[1][1:])]:
            made = classic.spark.createDataFrame([row], "k INT, d DOUBLE, at TIMESTAMP_NTZ, day DATE, n DECIMAL(9,2)")
            classic.table("db.t").write(made)
        for deleted in ((), (3, 4)):
            for key in deleted:
                classic.sql(f"DELETE FROM db.t WHERE k = {key}")
            found = classic.sql("SELECT * FROM db.t WHERE k < 3")
            assert [field.dataType.simpleString() for field in found.schema][1:] == [
                *("double", "timestamp_ntz", "date", "decimal(9,2)")
            ]
            assert sorted(map(tuple, found.collect())) == rows
            assert found.where("at < '2020-03-08 02:30:01'").count() == 2
    finally:
        classic.spark.conf.set("spark.sql.session.timeZone", zone)


def test_a_partition_is_named_by_a_time_as_spark_takes_it(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.z (id INT, p TIMESTAMP) PARTITIONED BY (p)")
    moment = dt.datetime(2025, 1, 1, 12, tzinfo=dt.timezone.utc)
    zone = classic.spark.conf.get("spark.sql.session.timeZone")
    one, table = classic.spark.createDataFrame([(1,)], "id int"), classic.table("db.z")
    try:
        classic.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        table.write(one, partition={"p": "2025-01-01 21:00:00"})  # the session's zone
        table.write(one, partition={"p": moment.astimezone().replace(tzinfo=None)})  # the process's
        table.write(one, mode="overwrite", partition={"p": moment})
        assert table.table.to_arrow()["p"].to_pylist() == [moment]
    finally:
        classic.spark.conf.set("spark.sql.session.timeZone", zone)
