"""Events of every format as rows of a table: kinds, values, order, bad events. One Spark session."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bucketlake.errors import InvalidError
from bucketlake.spark.session import Lake

from .feeds import Feed, debezium


def _canal(kind: str, data: list[Any] | None, old: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    types = {"id": "int(11)", "v": "varchar(10)", "e": "enum('x','y')", "s": "set('p','q','r')", "b": "tinyint(1)"}
    told = {"database": "shop", "table": "t", "isDdl": False, "mysqlType": types, "pkNames": ["id"], "es": 7, "sql": ""}
    return {**told, "type": kind, "data": data, "old": old, **more}


@pytest.mark.slow
def test_canal(classic: Lake, tmp_path: Path) -> None:
    feed = Feed(classic, "canal-json", "db.t", tmp_path)
    row = {"id": "1", "v": "a", "e": "2", "s": "5", "b": "1"}
    done = feed.give(
        [
            _canal("INSERT", [row, {**row, "id": "2"}, {**row, "id": "3"}]),
            _canal("UPDATE", [{**row, "v": "b"}, {**row, "id": "9"}], [{"v": "a"}, {"id": "2"}]),
            _canal("DELETE", [{**row, "id": "3"}]),
            _canal("UPDATE", [{**row, "v": "much too long a text"}], [{"v": "a"}]),
            _canal("ALTER", None, isDdl=True, sql="ALTER TABLE t RENAME COLUMN v TO w"),
            _canal("TIDB_WATERMARK", None),
            _canal("FLY", [row]),
            _canal("INSERT", [{**row, "id": None}]),
        ]
    )
    assert feed.rows("db.t") == [(1, "b", "y", ["p", "r"], True), (9, "a", "y", ["p", "r"], True)]
    assert [item.name for item in classic.table("db.t").schema.fields] == ["id", "w", "e", "s", "b"]
    assert (done.dead_letters, done.tables[0].rows) == (3, {"insert": 3, "update": 2, "delete": 1})
    reasons = feed.rows("(SELECT `offset`, reason FROM db.t_dead_letters)")
    assert [(offset, reason.partition(":")[0]) for offset, reason in reasons] == [
        *((3, "column w"), (6, "unknown operation 'FLY'"), (7, "no value for column id")),
    ]


@pytest.mark.soak
def test_maxwell_without_types(classic: Lake, tmp_path: Path) -> None:
    maxwell = Feed(classic, "maxwell-json", "db.m", tmp_path)
    about = {"database": "shop", "table": "m", "ts": 1, "primary_key_columns": ["id"]}
    maxwell.give(
        [
            {**about, "type": "insert", "data": {"id": 1, "v": 1.10, "w": None}},
            {**about, "type": "bootstrap-insert", "data": {"id": 2, "v": True, "w": {"k": [1.50, "x"]}}},
            {**about, "type": "update", "data": {"id": 3, "v": 9, "w": "x"}, "old": {"id": 1, "v": 1.10, "w": None}},
            {**about, "type": "delete", "data": {"id": 7}},
        ]
    )
    assert maxwell.rows("db.m") == [("2", "true", '{"k":[1.5,"x"]}'), ("3", "9", "x")]


@pytest.mark.soak
def test_ogg_and_dms(classic: Lake, tmp_path: Path) -> None:
    ogg = Feed(classic, "ogg-json", "db.o", tmp_path, metadata_columns="database_name,op_ts,offset")
    told = {"table": "S.O", "primary_keys": ["id"], "op_ts": "2020-05-13 17:32:10.904000"}
    old, new = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}
    ogg.give(
        [
            {**told, "op_type": "I", "after": old},
            {**told, "op_type": "U", "before": old, "after": new},
            {**told, "op_type": "I", "after": {"id": 2, "v": "gone"}},
            {**told, "op_type": "D", "before": {"id": 2, "v": "gone"}},
        ]
    )
    [(key, value, database, time, offset)] = ogg.rows(
        "(SELECT id, v, database_name, unix_millis(op_ts), `offset` FROM db.o)"
    )
    assert (key, value, database, time, offset) == ("1", "b", "S", 1589391130904, 1)
    dms = Feed(classic, "aws-dms-json", "db.d", tmp_path, primary_keys="id")

    def event(operation: str, data: Any, kind: str = "data") -> Any:
        return {
            "data": data,
            "metadata": {"operation": operation, "record-type": kind, "schema-name": "s", "table-name": "d"},
        }

    dms.give(
        [
            event("create-table", None, "control"),
            event("load", {"id": 1, "v": "a"}),
            event("insert", {"id": 2, "v": "b"}),
            event("update", {"id": 4, "v": "c", "BI_id": 2}),
            event("delete", {"id": 1, "v": "a"}),
        ]
    )
    assert dms.rows("db.d") == [("4", "c")]


_FIELDS = [
    ["id", "int32"],
    ["d", "int32", "io.debezium.time.Date"],
    ["ts", "int64", "io.debezium.time.MicroTimestamp"],
    ["z", "string", "io.debezium.time.ZonedTimestamp"],
    ["t", "int64", "io.debezium.time.MicroTime"],
    ["n", "bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "2", "connect.decimal.precision": "20"}],
    ["bits", "bytes", "io.debezium.data.Bits", {"length": "9"}],
    ["x", "bytes"],
    ["r", "float64"],
]
_ROW = {
    "id": 1, "d": -1, "ts": -1, "z": "2020-05-13T17:32:10.9+02:00", "t": 3_723_004_000, "n": "AfQ=", "bits": "AQI=",
    "x": "/wA=", "r": 0.1,
}  # fmt: skip


def test_debezium_with_its_schema(classic: Lake, tmp_path: Path) -> None:
    feed = Feed(classic, "debezium-json", "db.t", tmp_path, primary_keys="id")
    rows = [
        {**_ROW, "id": 1},
        {**_ROW, "id": 2, "n": "/wo="},
        {**_ROW, "id": 3, "n": 1234},
        {**_ROW, "id": 4, "n": "1234"},
        {**_ROW, "id": 5, "n": -0.25, "d": None},
        {**_ROW, "id": 6, "n": "AmLy5KxlzjyZ"},
        {**_ROW, "id": 7, "n": "f/////////8="},
        {**_ROW, "id": 8, "n": "/wAAAAAAAAAA"},
        {**_ROW, "id": 9, "n": "f/////////////8="},
    ]
    done = feed.give([debezium("r", None, row, fields=_FIELDS) for row in rows])
    assert done.dead_letters == 1
    found = feed.rows("db.t")
    assert found[0] == (
        1, dt.date(1969, 12, 31), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2020, 5, 13, 15, 32, 10, 900000),
        3_723_004, Decimal("5.00"), bytearray(b"\x02\x01"), bytearray(b"\xff\x00"), 0.1,
    )  # fmt: skip
    codes = {3: "1234", 5: "AmLy5KxlzjyZ", 6: "f/////////8=", 7: "/wAAAAAAAAAA"}
    digits = {
        place: Decimal(int.from_bytes(base64.b64decode(code), "big", signed=True)) / 100
        for place, code in codes.items()
    }
    digits |= {0: Decimal("5.00"), 1: Decimal("-2.46"), 2: Decimal("1234.00"), 4: Decimal("-0.25")}
    assert [row[5] for row in found] == [digits[place] for place in range(8)]


def test_debezium_without_schema(classic: Lake, tmp_path: Path) -> None:
    feed = Feed(classic, "debezium-json", "db.t", tmp_path)
    a, b = {"id": 1, "v": "a", "big": 12345678901234567890.123456789}, {"id": 1, "v": "b", "big": 1e400}
    text = '{"op":"c","after":{"id":1,"v":"a","big":12345678901234567890.123456789},"source":{"db":"s","table":"t"}}'
    done = feed.give(
        [
            ({"id": 1}, text),
            ({"schema": {}, "payload": {"id": 2}}, debezium("c", None, {**a, "id": 2})),
            ({"id": 2}, debezium("u", None, {"id": 2, "v": "__debezium_unavailable_value", "big": 0})),
            (
                {"id": 2},
                debezium("u", {"id": 2, "v": "kept"}, {"id": 2, "v": "__debezium_unavailable_value", "big": 0}),
            ),
            ({"id": 3}, debezium("c", None, {**b, "id": 3, "big": "x"})),
            ({"id": 3}, debezium("d", {"id": 3}, None)),
            ({"id": 3}, None),
            ({}, {"ts_ms": 7}),
            debezium("m", None, None),
            '{"op":"c"} {"op":"c"}',
            "[]",
            '{"op":"c","after":{"id":1}',
            debezium("c", None, None),
            debezium("d", None, None),
        ]
    )
    assert feed.rows("db.t") == [("1", "a", "12345678901234567890.123456789"), ("2", "kept", "0")]
    assert classic.table("db.t").schema.primary_keys == ("id",)
    reasons = feed.rows("(SELECT `offset`, reason FROM db.t_dead_letters)")
    assert [row[1].partition(" (")[0] for row in reasons] == [
        "a value that the database did not hand on", *["not a JSON object"] * 3,
        "no row after the change", "a delete without the row before it",
    ]  # fmt: skip
    assert done.dead_letters == 6


@pytest.mark.soak
def test_plain_json_and_computed_columns(classic: Lake, tmp_path: Path) -> None:
    computed = [
        "day=date_format(at, yyyyMMdd)", "y=year(at)", "m=minute(s, 3)", "h=hour(n)", "sub=substring(v, 1, 3)",
        "up=upper(sub)", "tr=truncate(v, 2)", "low=lower(up)", "c=cast(7, INT)", "trimmed=trim(v)",
    ]  # fmt: skip
    feed = Feed(
        classic, "json", "db.j", tmp_path, computed_columns=computed, partition_keys="day", metadata_columns="topic"
    )
    event = {"at": "2024-05-22 09:50:40", "s": "3723004", "n": 3600, "v": "abcde"}
    done = feed.give([event, {**event, "at": "noon"}, {**event, "v": "a"}])
    assert feed.rows("(SELECT day, y, m, sub, up, tr, low, c, trimmed, topic FROM db.j)") == [
        ("20240522", 2024, 2, "bc", "BC", "ab", "bc", 7, "abcde", "t"),
    ]
    assert done.dead_letters == 2
    assert classic.table("db.j").partitions() == [{"day": "20240522"}]


@pytest.mark.soak
def test_a_row_that_moves_leaves_where_it_was(classic: Lake, tmp_path: Path) -> None:
    how = {
        "primary_keys": ["id", "day"],
        "partition_keys": "day",
        "computed_columns": "day=date_format(at, yyyy-MM-dd)",
    }
    options = {"bucket": 2, "changelog-producer": "input"}
    feed = Feed(classic, "debezium-json", "db.p", tmp_path, table_options=options, **how)
    a, b = {"id": 1, "at": "2024-01-01"}, {"id": 1, "at": "2024-01-02"}
    feed.give([debezium("c", None, a), debezium("u", a, b), debezium("u", b, {**b, "v": 1})])
    done = feed.give([debezium("u", None, a), debezium("d", {"id": 1}, None)])
    assert feed.rows("(SELECT * FROM db.p)") == [("1", "2024-01-02", "1", "2024-01-02")]
    assert done.dead_letters == 2
    changes = classic.table("db.p$audit_log").read(incremental_between="0,1", incremental_between_scan_mode="changelog")
    assert {(row.rowkind, row.day) for row in changes.collect()} == {
        *{("+I", "2024-01-01"), ("-D", "2024-01-01"), ("+I", "2024-01-02"), ("-U", "2024-01-02"), ("+U", "2024-01-02")}
    }


def test_events_of_a_key_apply_in_order(classic: Lake, tmp_path: Path) -> None:
    feed = Feed(classic, "debezium-json", "db.o", tmp_path, primary_keys="id", table_options={"bucket": 3})
    events: list[Any] = []
    for turn in range(40):
        for key in range(25):
            events.append(
                debezium("u" if turn else "c", {"id": key, "v": turn - 1} if turn else None, {"id": key, "v": turn})
            )
    feed.give(events)
    assert feed.rows("(SELECT DISTINCT v FROM db.o)") == [("39",)]


@pytest.mark.soak
def test_a_bad_event_stops_the_query_where_that_is_asked(classic: Lake, tmp_path: Path) -> None:
    feed = Feed(classic, "json", "db.s", tmp_path, on_error="stop")
    with pytest.raises(InvalidError, match=r"not a JSON object.*offset=1"):
        feed.give([{"a": 1}, "x"])
    assert classic.table("db.s").latest_snapshot() is None


def test_an_event_that_names_a_column_twice_is_a_dead_letter(classic: Lake, tmp_path: Path) -> None:
    feed = Feed(classic, "debezium-json", "db.twice", tmp_path, primary_keys="id")
    double = '{"id": 2, "v": "a", "v": "b"}'
    done = feed.give(
        [
            debezium("c", None, {"id": 1, "v": "a"}),
            f'{{"op": "c", "before": null, "after": {double}}}',
            f'{{"op": "u", "before": {double}, "after": {double}}}',
            debezium("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}),
        ]
    )
    assert (done.dead_letters, feed.rows("db.twice")) == (2, [("1", "b")])
    assert feed.rows("(SELECT DISTINCT reason FROM db.twice_dead_letters)") == [("it names a column twice",)]
