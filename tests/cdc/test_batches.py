"""Batches of events: many tables, schemas that follow, replays, crashes between two tables' commits, bad schemas."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bucketlake.cdc import sink as sinks
from bucketlake.cdc.sink import bind
from bucketlake.errors import InvalidError, NotFoundError, StorageError, UnsupportedError
from bucketlake.spark.session import Lake
from bucketlake.spark.stream.checkpoint import Checkpoint

from .feeds import Feed, debezium

_A = [["id", "int32"], ["v", "int32"]]
_B = [["id", "int32"], ["name", "string"]]


def _a(key: int, v: int, fields: list[Any] | None = None, **more: Any) -> Any:
    return debezium("c", None, {"id": key, "v": v, **more}, "a", fields or _A, pkNames=["id"])


def _b(key: int, name: str) -> Any:
    return debezium("c", None, {"id": key, "name": name}, "b", _B, pkNames=["id"])


@pytest.mark.slow
def test_many_tables_and_a_crash_between_two_commits(
    classic: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed(classic, "debezium-json", "db", tmp_path, table_prefix="ods_", excluding_tables="x.*")
    feed.give([_a(1, 1), _b(1, "one"), debezium("c", None, {"id": 1}, "x1", [["id", "int32"]])])
    assert classic.catalog.list_tables("db") == ["ods_a", "ods_b"]
    wide = [["id", "int32"], ["v", "int64"], ["w", "double"]]
    odd = [
        debezium("c", None, {"id": 1}, "../b"),
        {"op": "c", "after": {"id": 1}, "source": {"db": "shop"}},
        {"schema": {"fields": 5}, "payload": debezium("c", None, {"id": 1}, "a")},
    ]
    events = [_a(2, 1 << 40, wide, w=0.5), _b(2, "two"), "broken", *odd, _b(1, "1")]
    frame = feed.frame(events)
    write, calls = sinks.write_batch, []

    def dying(table: Any, *rest: Any) -> Any:
        calls.append(table.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return write(table, *rest)

    monkeypatch.setattr(sinks, "write_batch", dying)
    with pytest.raises(KeyboardInterrupt):
        feed.sink()(frame, 1)
    monkeypatch.setattr(sinks, "write_batch", write)
    assert calls == ["db.cdc_dead_letters", "db.ods_a", "db.ods_b"]
    feed.sink()(frame, 1)
    sink = feed.sink()
    sink.job = replace(sink.job, on_batch=None)
    with pytest.warns(UserWarning, match="4 of 7 events of batch 1 could not be written.*db.cdc_dead_letters"):
        sink(frame, 1)
    assert feed.rows("db.ods_a") == [(1, 1, None), (2, 1 << 40, 0.5)]
    assert feed.rows("db.ods_b") == [(1, "1"), (2, "two")]
    reasons = [row[0] for row in feed.rows("(SELECT reason FROM db.cdc_dead_letters)")]
    assert reasons == [*["it does not say which table it is of, or one that the lake cannot have"] * 2, *reasons[2:]]
    assert reasons[2:] == ["its schema cannot be read", "not a JSON object"]
    assert [len(classic.table(name).snapshots()) for name in ("db.ods_a", "db.ods_b")] == [2, 2]
    with pytest.raises(InvalidError, match="checkpoint is older"):
        feed.sink()(feed.frame([_a(3, 3)]), 0)


@pytest.mark.slow
def test_tables_that_are_written_at_the_same_time(
    classic: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed(classic, "debezium-json", "db", tmp_path, mode="divided", table_options={"bucket": "1"})
    names = ["t1", "t2", "t3"]

    def events(v: int) -> list[Any]:
        return [debezium("c", None, {"id": 1, "v": v}, name, _A, pkNames=["id"]) for name in names]

    done = feed.give(events(1))
    assert [one.table for one in done.tables] == [f"db.{name}" for name in names]
    write, frame = sinks.write_batch, feed.frame(events(2))

    def failing(table: Any, *rest: Any) -> Any:
        if table.name == "db.t3":
            raise StorageError("gone for a moment")
        return write(table, *rest)

    monkeypatch.setattr(sinks, "write_batch", failing)
    with pytest.raises(StorageError):
        feed.sink()(frame, 1)
    assert [feed.rows(f"db.{name}") for name in names] == [[(1, 1 if name == "t3" else 2)] for name in names]
    monkeypatch.setattr(sinks, "write_batch", write)
    feed.sink()(frame, 1)
    assert {tuple(feed.rows(f"db.{name}")) for name in names} == {((1, 2),)}
    assert {len(classic.table(f"db.{name}").snapshots()) for name in names} == {2}


def test_a_table_that_cannot_be_made_is_named(classic: Lake, tmp_path: Path) -> None:
    feed = Feed(classic, "debezium-json", "db", tmp_path, table_options={"bucket": "2"})  # it has no key
    with pytest.raises(InvalidError, match=r"bucket-key.*table=db\.t"):
        feed.give([debezium("c", None, {"id": 1, "v": 1}, fields=_A)])


@pytest.mark.soak
def test_a_schema_that_does_not_fit_stops_the_batch_before_anything(classic: Lake, tmp_path: Path) -> None:
    feed = Feed(classic, "debezium-json", "db", tmp_path)
    feed.give([_a(1, 1), _b(1, "one")])
    odd = [["id", "int32"], ["v", "string"], ["new", "string"]]
    with pytest.raises(UnsupportedError, match=r"table=db\.b, column=name, source=INT"):
        feed.give(
            [
                _a(2, 2, [*_A, ["new", "string"]]),
                debezium("c", None, {"id": 1, "name": 1}, "b", [["id", "int32"], ["name", "int32"]]),
            ]
        )
    with pytest.raises(UnsupportedError, match=r"table=db\.a, column=id, source=BIGINT"):
        feed.give([_a(2, 2, [["id", "int64"], ["v", "int32"]])])
    with pytest.raises(UnsupportedError, match="column=v"):
        feed.give([_a(2, 2, odd)])
    assert [item.name for item in classic.table("db.a").schema.fields] == ["id", "v"]
    assert feed.rows("db.a") == [(1, 1)]
    feed.give([_a(2, 2), _b(2, "two")])
    assert feed.rows("db.a") == [(1, 1), (2, 2)]


def test_a_table_that_is_there_says_what_untyped_events_are(classic: Lake, tmp_path: Path) -> None:
    classic.sql(
        "CREATE TABLE db.t (id INT, v DECIMAL(5,2), at TIMESTAMP_NTZ) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')"
    )
    feed = Feed(classic, "debezium-json", "db.t", tmp_path, table_options={"snapshot.num-retained.min": 3})
    done = feed.give(
        [
            debezium("c", None, {"id": 1, "v": 1.5, "at": "2024-01-02T03:04:05.5+01:00", "more": [1, 2]}),
            debezium("c", None, {"id": 2, "v": 1234.5, "at": None}),
            debezium("c", None, {"id": "x", "v": 1, "at": None}),
        ]
    )
    assert done.dead_letters == 2
    assert feed.rows("(SELECT id, CAST(v AS STRING), CAST(at AS STRING), more FROM db.t)") == [
        (1, "1.50", "2024-01-02 02:04:05.5", "[1,2]"),
    ]
    assert classic.table("db.t").schema.options["snapshot.num-retained.min"] == "3"
    with pytest.raises(InvalidError, match="other primary_keys"):
        Feed(classic, "debezium-json", "db.t", tmp_path, primary_keys="v")


@pytest.mark.soak
def test_truncations_and_renames(classic: Lake, tmp_path: Path) -> None:
    feed = Feed(classic, "debezium-json", "db", tmp_path)
    feed.give([_a(1, 1), _a(2, 2), _b(1, "one")])
    truncation = debezium("t", None, None, "a")
    done = feed.give([_a(3, 3), truncation, _a(4, 4)])
    assert (feed.rows("db.a"), feed.rows("db.b")) == ([(4, 4)], [(1, "one")])
    assert [item.truncated for item in done.tables] == [True]
    feed.give([truncation])
    assert feed.rows("db.a") == []
    with pytest.raises(InvalidError, match="truncate='ignore'"):
        both = feed.frame([truncation]).unionByName(feed.frame([_a(5, 5)], partition=1))
        feed.sink()(both, feed.number)
    ddl = {
        "ddl": "ALTER TABLE b RENAME COLUMN name TO title",
        "source": {"db": "shop", "table": "b"},
        "databaseName": "shop",
    }
    later = debezium("c", None, {"id": 2, "title": "two"}, "b", [["id", "int32"], ["title", "string"]])
    feed.give([_b(3, "three"), ddl, later])
    assert [item.name for item in classic.table("db.b").schema.fields] == ["id", "title"]
    assert feed.rows("db.b") == [(1, "one"), (2, "two"), (3, "three")]


def test_what_is_refused_before_anything_starts(classic: Lake, tmp_path: Path) -> None:
    for target, how, error, match in (
        ("db.t", {"primary_key": "id"}, TypeError, "primary_key"),
        ("db.t", {"on_error": "ignore"}, InvalidError, "dead-letter"),
        ("db.t", {"type_mapping": "to_text"}, InvalidError, "to-string"),
        ("db.t", {"metadata_columns": "file"}, InvalidError, "column=file"),
        ("db.t", {"table_options": {"rowkind.field": "k"}}, UnsupportedError, "rowkind.field"),
        ("db.t", {"table_options": {"primary-key": "id"}}, InvalidError, "give primary_keys"),
        ("db", {"mode": "both"}, InvalidError, "combined"),
        ("nowhere", {}, NotFoundError, "no such database"),
    ):
        with pytest.raises(error, match=match):
            Feed(classic, "debezium-json", target, tmp_path, **how)  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="which table"):
        Feed(classic, "json", "db", tmp_path)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    bind(Checkpoint(str(folder)), {"target": "db.t"}, began=False)
    bind(Checkpoint(str(folder)), {"target": "db.t"}, began=True)
    with pytest.raises(InvalidError, match="another synchronisation"):
        bind(Checkpoint(str(folder)), {"target": "db.u"}, began=True)
    with pytest.raises(InvalidError, match="another query"):
        bind(Checkpoint(str(tmp_path)), {"target": "db.u"}, began=True)
