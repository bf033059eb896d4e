"""Which names of a statement become lake tables, and what stands in their place, without Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.predicate.tree import Compare
from bucketlake.spark.read import reader
from bucketlake.spark.read.reader import Need
from bucketlake.spark.session import Lake
from bucketlake.sql.query import query
from bucketlake.sql.rows import insert_forms
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor


class _Conf:
    getAll: ClassVar[dict[str, str]] = {}

    def get(self, key: str, *default: str) -> str:
        return default[0] if default else "UTC"


class _Session:
    conf = _Conf()


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    catalog = bucketlake.open(str(tmp_path))
    catalog.create_database("db")
    for name in ("t", "u"):
        catalog.create_table(f"db.{name}", pa.schema([("id", pa.int64()), ("n", pa.int32()), ("s", pa.string())]))
    monkeypatch.setattr(names, "is_temp_view", lambda lake, name: False)
    monkeypatch.setattr(query, "pruned", lambda spark, table, selection, need, *_: (table.name, need))
    found = Lake(_Session(), catalog)  # type: ignore[arg-type]
    found.current_database = "db"
    return found


def bound(lake: Lake, statement: str) -> str:
    text, frames, _ = query.bind(lake, statement)
    return text.format(**{name: f"<{frame[0][3:]}>" for name, frame in frames.items()}) if frames else text  # type: ignore[index]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT * FROM t", "SELECT * FROM <t> AS `t`"),
        ("SELECT /*+ BROADCAST(t) */ t.id FROM t, u x", "SELECT /*+ BROADCAST(t) */ t.id FROM <t> AS `t`, <u> x"),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS) LIMIT 1", "SELECT * FROM <t> TABLESAMPLE (5 ROWS) AS `t` LIMIT 1"),
        (
            "SELECT * FROM t TABLESAMPLE BERNOULLI (9 PERCENT) REPEATABLE (7) JOIN u TABLESAMPLE system (2 ROWS) y",
            "SELECT * FROM <t> TABLESAMPLE BERNOULLI (9 PERCENT) REPEATABLE (7) AS `t` JOIN <u> TABLESAMPLE system (2 ROWS) y",
        ),
        (
            "SELECT t.id FROM t JOIN u EXACT NEAREST 2 BY DISTANCE abs(t.id - u.id)",
            "SELECT t.id FROM <t> AS `t` JOIN <u> AS `u` EXACT NEAREST 2 BY DISTANCE abs(t.id - u.id)",
        ),
        (
            "SELECT t.id FROM t LEFT JOIN u approx nearest BY SIMILARITY u.n QUALIFY true",
            "SELECT t.id FROM <t> AS `t` LEFT JOIN <u> AS `u` approx nearest BY SIMILARITY u.n QUALIFY true",
        ),
        (
            "SELECT t.id FROM t ASOF JOIN u MATCH_CONDITION (t.id >= u.id)",
            "SELECT t.id FROM <t> AS `t` ASOF JOIN <u> AS `u` MATCH_CONDITION (t.id >= u.id)",
        ),
        (
            "SELECT t.id, c:a FROM t QUALIFY count(*) OVER (ORDER BY t.id) = 1",
            "SELECT t.id, c:a FROM <t> AS `t` QUALIFY count(*) OVER (ORDER BY t.id) = 1",
        ),
        ("SELECT t.id FROM t BIN BY (RANGE n)", "SELECT t.id FROM <t> AS `t` BIN BY (RANGE n)"),
        ("SELECT exact.id FROM t exact JOIN u approx", "SELECT exact.id FROM <t> exact JOIN <u> approx"),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS) x", "SELECT * FROM <t> TABLESAMPLE (5 ROWS) x"),
        (
            "SELECT * FROM t TABLESAMPLE (9 PERCENT) REPEATABLE (7)",
            "SELECT * FROM <t> TABLESAMPLE (9 PERCENT) REPEATABLE (7) AS `t`",
        ),
        ("FROM t |> WHERE id = 1", "FROM <t> AS `t` |> WHERE id = 1"),
        ("FROM t AS x |> LIMIT 1", "FROM <t> AS x |> LIMIT 1"),
        ("FROM t TABLESAMPLE (3 ROWS) z |> LIMIT 1", "FROM <t> TABLESAMPLE (3 ROWS) z |> LIMIT 1"),
        ("FROM t TABLESAMPLE (3 ROWS) |> LIMIT 1", "FROM <t> TABLESAMPLE (3 ROWS) AS `t` |> LIMIT 1"),
        (
            "FROM t TABLESAMPLE (3 PERCENT) REPEATABLE (1) AS z, u |> LIMIT 1",
            "FROM <t> TABLESAMPLE (3 PERCENT) REPEATABLE (1) AS z, <u> AS `u` |> LIMIT 1",
        ),
        ("FROM t x |> JOIN u ON x.id = u.id", "FROM <t> x |> JOIN <u> AS `u` ON x.id = u.id"),
        ("FROM t, u y |> LIMIT 1", "FROM <t> AS `t`, <u> y |> LIMIT 1"),
        (
            "SELECT c FROM (FROM t |> AGGREGATE count(*) AS c) x JOIN u z ON c = z.id",
            "SELECT c FROM (FROM <t> AS `t` |> AGGREGATE count(*) AS c) x JOIN <u> z ON c = z.id",
        ),
        ("WITH t AS (FROM u |> LIMIT 1) FROM t |> LIMIT 1", "WITH t AS (FROM <u> AS `u` |> LIMIT 1) FROM t |> LIMIT 1"),
        (
            "WITH t(a) AS (FROM u |> LIMIT 1) SELECT a FROM t",
            "WITH t(a) AS (FROM <u> AS `u` |> LIMIT 1) SELECT a FROM t",
        ),
        (
            "WITH t AS (SELECT id FROM t) SELECT /*+ BROADCAST(t) */ id FROM t",
            "WITH t AS (SELECT id FROM <t> AS `t`) SELECT /*+ BROADCAST(t) */ id FROM t",
        ),
        ("SELECT * FROM IDENTIFIER('t')", "SELECT * FROM IDENTIFIER('t')"),
        ("SELECT '{x}' FROM t", "SELECT '{x}' FROM <t> AS `t`"),
    ],
)
def test_what_stands_in_place_of_a_table(lake: Lake, statement: str, expected: str) -> None:
    assert bound(lake, statement) == expected


def needs(lake: Lake, statement: str) -> list[Need]:
    return [frame[1] for frame in query.bind(lake, statement)[1].values()]  # type: ignore[misc]


def test_uses_of_a_table_are_pruned_one_by_one(lake: Lake) -> None:
    first, second = needs(lake, "SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.n = 1 AND b.s = 'x''y'")
    assert first.columns == second.columns == ("id", "n", "s")
    assert (str(first.predicate), str(second.predicate)) == (
        "Compare(column='n', op='=', literal=1)",
        "Compare(column='s', op='=', literal=\"x'y\")",
    )
    assert needs(lake, "SELECT id FROM t LIMIT 3") == [Need(("id",), None, 3)]
    assert needs(lake, "EXPLAIN FORMATTED SELECT id FROM t LIMIT 3") == [Need(("id",), None, 3)]


def test_uses_of_a_small_table_that_is_named_often_are_read_once(lake: Lake) -> None:
    table = lake.catalog.table("db.t")
    table.write_arrow(pa.Table.from_pylist([{"id": 1, "n": 2, "s": "x"}], table.arrow_schema))
    arms = [f"SELECT id FROM t WHERE n = {number}" for number in range(6)]
    assert len(needs(lake, " UNION ALL ".join(arms[:4]))) == 4
    assert needs(lake, " UNION ALL ".join(arms)) == [Need(("id", "n"))]
    assert needs(lake, " UNION ALL ".join([*arms, "SELECT s FROM u"])) == [
        Need(("id", "n", "s")),
        Need(("id", "n", "s")),
    ]
    assert needs(lake, " UNION ALL ".join([*arms, "(SELECT * FROM t LIMIT 1)"])) == [Need()]
    assert len(needs(lake, " UNION ALL ".join([*arms, "SELECT id FROM t VERSION AS OF 1 WHERE n = 7"]))) == 2


def test_time_travel_prunes_by_the_schema_of_its_time(lake: Lake) -> None:
    table = lake.catalog.table("db.t")
    table.write_arrow(pa.Table.from_pylist([{"id": 1, "n": 2, "s": "x"}], table.arrow_schema))
    lake.catalog.table("db.t").alter(bucketlake.schema.RenameColumn("n", "m"))
    table = lake.catalog.table("db.t")
    table.write_arrow(pa.Table.from_pylist([{"id": 1, "m": 2, "s": "x"}], table.arrow_schema))
    assert needs(lake, "SELECT n FROM t VERSION AS OF 1 WHERE n = 2")[0].columns == ("n",)
    assert needs(lake, "SELECT m FROM t WHERE m = 2")[0].columns == ("m",)


def test_every_use_of_a_table_reads_one_snapshot(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.catalog.table("db.t")
    seen: list[Any] = []

    def pruned(spark: Any, table: Any, selection: Any, need: Need, *_: Any) -> Any:
        row = pa.Table.from_pylist([{"id": 1, "n": 2, "s": "x"}], table.arrow_schema)
        lake.catalog.table("db.t").write_arrow(row)  # another writer, meanwhile
        seen.append(selection.snapshot)
        return table.name, need

    table.write_arrow(pa.Table.from_pylist([{"id": 1, "n": 2, "s": "x"}], table.arrow_schema))
    monkeypatch.setattr(query, "pruned", pruned)
    query.bind(lake, "SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.n = 1")
    assert [snapshot.id for snapshot in seen] == [1, 1]


def test_a_hint_that_follows_nothing(lake: Lake) -> None:
    with pytest.raises(InvalidError, match="follows no lake table"):
        query.bind(lake, "SELECT /*+ OPTIONS('a'='b') */ id FROM t")


def test_comments_are_no_hints_and_may_stand_before_some(lake: Lake) -> None:
    """A hint that was commented out was refused ("follows no lake table"), and taken for INSERT's own; one behind a
    comment was refused."""
    table = lake.catalog.table("db.t")
    table.write_arrow(pa.Table.from_pylist([{"id": 1, "n": 2, "s": "x"}], table.arrow_schema))
    gone = "/*+ OPTIONS('scan.snapshot-id'='7') */"
    for statement in (
        f"SELECT * FROM t -- {gone}\nWHERE id > 0",
        f"SELECT * FROM t /* no hint: /* {gone[2:]} */ WHERE id > 0",
        f"SELECT '{gone.replace(chr(39), '')}' FROM t --{gone}",
    ):
        assert statement.replace("FROM t", "FROM <t> AS `t`") == bound(lake, statement)
    for between in ("-- now\n", "/* now */ ", "/* a /* b */ c */", "--+\n/**/"):
        with pytest.raises(BucketlakeError, match="snapshot"):
            bound(lake, f"SELECT * FROM t {between}{gone} WHERE id > 0")
        with pytest.raises(BucketlakeError, match="snapshot"):
            bound(lake, f"SELECT * FROM t AS x {between}{gone}")
        with pytest.raises(BucketlakeError, match="snapshot"):
            bound(lake, f"SELECT * FROM t {between}VERSION AS OF 7 {between}")
    parsed = insert_forms.parse(Cursor(f"INSERT INTO t -- {gone}\nSELECT * FROM u"))
    assert "scan.snapshot-id" not in repr(parsed)


def test_times_of_day_are_in_the_zone_of_the_session_even_where_it_is_not_set(lake: Lake) -> None:
    class Conf:
        getAll: ClassVar[dict[str, str]] = {}

        def get(self, key: str, *default: str) -> str:  # as Spark answers: the machine's zone, or the default given
            return default[0] if default else "Asia/Tokyo"

    kinds = pa.schema([("at", pa.timestamp("us", "UTC"))])
    table = lake.catalog.create_table("db.zoned", kinds)
    spark: Any = SimpleNamespace(conf=Conf())
    found = reader.predicate_of(spark, table, "at = '2020-01-01 09:00:00'")
    assert found == Compare("at", "=", dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc))


def test_what_came_between_two_snapshots_is_not_cut_short(lake: Lake) -> None:
    hint = "/*+ OPTIONS('incremental-between'='1,2') */"
    table = lake.catalog.table("db.t")
    for _ in range(2):
        table.write_arrow(pa.Table.from_pylist([{"id": 1, "n": 2, "s": "x"}], table.arrow_schema))
    assert needs(lake, f"SELECT id FROM t {hint} LIMIT 1") == [Need(("id",), None, None)]
