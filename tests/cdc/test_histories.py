"""Random histories of a source table, told in every format, cut into batches that come again and die half-way: the
lake's table is as the source's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.profile import examples

import bucketlake
from bucketlake.cdc import sink as sinks
from bucketlake.spark.session import Lake

from .feeds import Feed, debezium

Row = dict[str, Any]
_KEYS = st.integers(0, 6)
_STEPS = st.one_of(
    st.tuples(st.just("put"), _KEYS, st.integers(-3, 3)),
    st.tuples(st.just("put"), _KEYS, st.integers(-3, 3)),
    st.tuples(st.just("drop"), _KEYS, st.none()),
    st.tuples(st.just("move"), _KEYS, _KEYS),
    st.tuples(st.just("alter"), st.none(), st.none()),
)
_COUNT = [0]


def _changes(steps: list[Any]) -> tuple[dict[int, Row], list[tuple[str, Row | None, Row | None]]]:
    """What a history leaves, and its changes: kind, row before, row after."""
    rows: dict[int, Row] = {}
    columns = ["id", "v"]
    told: list[tuple[str, Row | None, Row | None]] = []
    for kind, key, value in steps:
        if kind == "alter":
            columns.append(f"c{len(columns)}")
        elif kind == "put":
            new: Row = {name: str(value) for name in columns} | {"id": str(key)}
            told.append(("u" if key in rows else "c", rows.get(key), new))
            rows[key] = new
        elif kind == "drop" and key in rows:
            told.append(("d", rows.pop(key), None))
        elif kind == "move" and key in rows and value not in rows:
            old = rows.pop(key)
            rows[value] = {**old, "id": str(value)}
            told.append(("u", old, rows[value]))
    return rows, told


def _debezium(kind: str, before: Row | None, after: Row | None) -> Any:
    return debezium(kind, before, after, pkNames=["id"])


def _canal(kind: str, before: Row | None, after: Row | None) -> Any:
    word = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[kind]
    old = None if before is None or after is None else [_old(before, after)]
    return {
        "database": "s",
        "table": "t",
        "type": word,
        "data": [after or before],
        "old": old,
        "pkNames": ["id"],
        "isDdl": False,
    }


def _maxwell(kind: str, before: Row | None, after: Row | None) -> Any:
    word = {"c": "insert", "u": "update", "d": "delete"}[kind]
    old = {} if before is None or after is None else {"old": _old(before, after)}
    return {"database": "s", "table": "t", "type": word, "data": after or before, "primary_key_columns": ["id"], **old}


def _ogg(kind: str, before: Row | None, after: Row | None) -> Any:
    return {
        "table": "s.t",
        "op_type": {"c": "I", "u": "U", "d": "D"}[kind],
        "before": before,
        "after": after,
        "primary_keys": ["id"],
    }


def _dms(kind: str, before: Row | None, after: Row | None) -> Any:
    word = {"c": "insert", "u": "update", "d": "delete"}[kind]
    data = dict(after or before or {})
    if before is not None and after is not None:
        data |= {f"BI_{name}": value for name, value in _old(before, after).items()}
    return {"data": data, "metadata": {"operation": word, "record-type": "data", "schema-name": "s", "table-name": "t"}}


def _old(before: Row, after: Row) -> Row:
    """The values that an update changed; a column that is new had none."""
    return {name: before.get(name) for name in after if before.get(name) != after[name]}


_FORMATS = {
    "debezium-json": _debezium,
    "canal-json": _canal,
    "maxwell-json": _maxwell,
    "ogg-json": _ogg,
    "aws-dms-json": _dms,
}
_OPTIONS = st.sampled_from([{"bucket": "2"}, {"bucket": "-1"}, {"bucket": "1", "changelog-producer": "input"}])


@pytest.mark.spark
@settings(max_examples=examples(1, soak=60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(_STEPS, min_size=8, max_size=40),
    cuts=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    fates=st.lists(st.sampled_from(["once", "again", "dies"]), min_size=4, max_size=4),
    format=st.sampled_from(sorted(_FORMATS)),
    options=_OPTIONS,
)
def test_the_lake_follows_its_source(
    classic_lake: tuple[Lake, Path],
    steps: list[Any],
    cuts: list[int],
    fates: list[str],
    format: str,
    options: dict[str, str],
) -> None:
    lake, folder = classic_lake
    _COUNT[0] += 1
    table = f"db.t{_COUNT[0]}"
    rows, changes = _changes([("put", 0, 0), *steps])
    events = [_FORMATS[format](*change) for change in changes]
    feed = Feed(lake, format, table, folder, primary_keys="id", table_options=options)
    for fate, cut in zip(fates, [*cuts, len(events)], strict=False):
        batch, events = events[:cut], events[cut:]
        if batch:
            _give(feed, batch, fate)
    found = lake.table(table).read().collect()
    columns = [item.name for item in lake.table(table).schema.fields]
    expected = {key: tuple(row.get(name) for name in columns) for key, row in rows.items()}
    assert {int(row["id"]): tuple(row) for row in found} == expected
    assert len(found) == len(rows)


def _give(feed: Feed, batch: list[Any], fate: str) -> None:
    frame = feed.frame(batch)
    if fate == "dies":  # before the rows' commit, with the schema changed
        write = sinks.write_batch
        sinks.write_batch = _dying
        try:
            with pytest.raises(KeyboardInterrupt):
                feed.sink()(frame, feed.number)
        finally:
            sinks.write_batch = write
    for _ in range(2 if fate == "again" else 1):
        feed.sink()(frame, feed.number)
    feed.number += 1


def _dying(*_: Any) -> Any:
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def classic_lake(classic_session: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Path]:
    folder = tmp_path_factory.mktemp("histories")
    lake = bucketlake.connect(str(folder / "warehouse"), spark=classic_session)
    lake.catalog.create_database("db")
    return lake, folder
