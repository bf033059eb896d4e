"""Every way out gives the rows of `to_arrow`, and every condition of a library what the library makes of all rows."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketlake
from bucketlake import InvalidError, NotFoundError, Table, UnsupportedError
from bucketlake.frames import outputs

from .tables import EVERY, UTC, every

c = pl.col
ROWS = 600  # of `every`
MOMENT = dt.datetime(2020, 1, 10, 5)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return every(bucketlake.open(tmp_path_factory.mktemp("frames")))


def ids(rows: Any) -> list[int]:
    return sorted(pa.table(rows).column("id").to_pylist())


CONDITIONS = [
    c.id == 2,
    pl.lit(2) == c.id,
    c.id > 2.5,
    c.id.is_in([1, 3, 1000]),
    ~c.id.is_in([1, 3]),
    c.s.is_in(["s1", None]),
    ~c.s.is_in(["s1", "s2"]),
    c.s.is_in(["s1", None], nulls_equal=True),
    c.i8.is_in([1, 2]),
    c.s.is_null(),
    c.s.is_not_null() & (c.id != 2),
    ~(c.id == 1),
    ~((c.f > 20) | (c.s == "s9")),
    c.f.is_nan(),
    c.f > 100.5,
    ~(c.f > 100.5),
    c.f <= 0,
    c.f == 0,
    c.f != 0,
    c.f == float("nan"),
    c.f4 >= 590.0,
    c.f4 == 0.1,
    c.i8 == 300,
    c.i8 < 2,
    c.i16 >= 590,
    c.d >= dt.date(2020, 2, 15),
    c.d > dt.datetime(2020, 2, 15),
    c.ts == MOMENT,
    c.ts < MOMENT,
    c.ns < MOMENT,
    c.tz > MOMENT.replace(tzinfo=UTC),
    c.tz.is_between(MOMENT.replace(tzinfo=UTC), dt.datetime(2020, 1, 12, tzinfo=UTC), closed="left"),
    c.dec == Decimal("1.25"),
    c.dec > Decimal("140.001"),
    c.b,
    ~c.b,
    c.b == True,  # noqa: E712
    c.s.str.starts_with("s59"),
    c.s.str.ends_with("9"),
    c.s.str.contains("5."),
    (c.id == 1) | (c.s == "s8"),
    (c.id == 1) | (c.s.str.to_uppercase() == "S8"),
    (c.id > 590) & (c.s.str.to_uppercase() == "S599"),
    c.id.is_between(1, 3, closed="none"),
    c.id.eq_missing(1),
    c.s.eq_missing(None),
    c.tm > dt.time(22),
    c.tm == dt.time(5, 5, 0, 1000),
    c.bi == b"a",
    c.bi >= b"\xf0",
    c.st.struct.field("a") == 5,
    c.l.list.get(0) == 8,
    c.part == "a",
    (c.part == "a") & (c.id % 3 == 0),
    c.id == c.i16,
    c.id == c.id.max(),
    pl.lit(True),
    pl.lit(False),
    pl.lit(None).cast(pl.Boolean),
    c.i32 + 1 == 5001,
    c.id.cast(pl.String) == "17",
]


def test_polars_conditions(table: Table) -> None:
    lazy = table.to_polars()
    whole = lazy.collect()
    assert whole.height == ROWS
    wrong = []
    for number, condition in enumerate(CONDITIONS):
        columns = EVERY.names if number % 5 == 0 else ["id"]
        found, expected = lazy.filter(condition).select(columns).collect(), whole.filter(condition).select(columns)
        if not found.sort("id").equals(expected.sort("id")):
            wrong.append(f"{number}: {condition}")
    assert not wrong


def test_polars_limits_come_where_the_query_has_them(table: Table) -> None:
    lazy = table.to_polars()
    first = lazy.head(7).collect()
    assert lazy.head(7).filter(c.id == first.item(3, "id")).collect().height == 1
    assert lazy.head(7).filter(c.id == -1).collect().height == 0
    assert lazy.filter(c.id < 10).head(4).collect().height == 4
    assert lazy.select(pl.len()).collect().item() == ROWS
    assert table.to_polars(limit=5).filter(c.id.is_in(first["id"].head(5).implode())).collect().height == 5
    assert table.to_polars(limit=5).head(3).collect().height == 3
    assert lazy.head(0).collect().schema == lazy.collect_schema()
    joined = lazy.join(lazy.filter(c.id < 20), on="id").select("id", "s_right")
    assert joined.collect(engine="streaming").height == 20
    assert lazy.sql("SELECT count(*) FROM self WHERE id IN (1, 2) AND ts > '2020-01-01 01:30:00'").collect().item() == 1


SQL = [
    "id = 2",
    "2 < id",
    "id in (1, 3, 5, 70)",
    "id in (1, 3, null)",
    "id not in (1, 2)",
    "s is null",
    "s is not null and id <> 2",
    "not (id = 1)",
    "not (id = 1 or s = 's2')",
    "f > 100.5",
    "f <= 100.5",
    "f < 5",
    "f <> 5",
    "f = 0",
    "not (f <= 50)",
    "f = 'nan'",
    "f4 < 3",
    "i8 = 300",
    "i8 < 2",
    "i16 = 17.0",
    "d >= '2020-02-15'",
    "ts = '2020-01-10 05:00:00'",
    "ns < '2020-01-01 00:30:00'",
    "tz > '2020-01-20 00:00:00+00'",
    "dec = 1.25",
    "dec > 140.001",
    "b",
    "not b",
    "b is distinct from true",
    "s like 's59%'",
    "s >= 's58' and s < 's59'",
    "id = 1 or s = 's8'",
    "id between 5 and 9 and upper(s) = 'S8'",
    "tm > '22:00:00'",
    "bi = 'a'",
    "st.a = 5",
    "l[1] = 8",
    "m['k'] = 8",
    "part = 'a' and id < 50",
    "id = (select max(id) from lake)",
    "id in (select i from range(5) r(i))",
    "false",
    "id is null",
]


def test_duckdb_conditions(table: Table) -> None:
    connection = duckdb.connect()
    table.to_duckdb(connection).create_view("lake")
    connection.register("whole", table.to_arrow())
    wrong = []
    for number, condition in enumerate(SQL):
        query = f"SELECT {'id' if number % 5 else '*'} FROM {{}} WHERE {condition} ORDER BY id"
        found, expected = (connection.sql(query.format(name)).fetchall() for name in ("lake", "whole"))
        if str(found) != str(expected):  # NaN equals itself as text
            wrong.append(condition)
    assert not wrong
    assert connection.sql("SELECT count(*), sum(lake.st.a) FROM lake JOIN whole w USING (id)").fetchall()[0][0] == ROWS
    assert table.to_duckdb(connection, where="id > 597").fetchall()
    assert table.to_duckdb(connection, limit=7).filter("id >= 0").aggregate("count(*)").fetchall() == [(7,)]


FIELD = pc.field
EXPRESSIONS = [
    FIELD("f") > 20,
    ~(FIELD("f") > 20),
    ~(FIELD("f") <= 20),
    (FIELD("f") != 0) | FIELD("s").is_null(),
    FIELD("f").is_null(nan_is_null=True),
    ~FIELD("s").isin(["s1", "s2"]),
    FIELD("s").isin(["s1", None]),
    ~(FIELD("id").isin([1]) & (FIELD("id") > 0)),
    pc.starts_with(FIELD("s"), "s1"),
    FIELD("st", "a") == 5,
    ~FIELD("b"),
    pc.scalar(True) & (FIELD("id") == 3),
    FIELD("id") == FIELD("i16"),
    pc.scalar(5) > FIELD("id"),
    ~((FIELD("id") > 5) & (FIELD("f") < 8)),
    FIELD("id") + 1 == 5,
    pc.if_else(FIELD("id").is_valid(), FIELD("id") < 4, False),
    FIELD("dec").cast(pa.float64()) > 100,
]


def test_a_dataset_filters_as_arrow_does(table: Table) -> None:
    dataset, rows = table.to_dataset(), table.to_arrow()
    wrong = [str(e) for e in EXPRESSIONS if ids(dataset.to_table(["id"], filter=e)) != ids(rows.filter(e))]
    assert not wrong
    assert dataset.to_table(columns=["s", "id"], filter=FIELD("dec") > Decimal(100)).column_names == ["s", "id"]
    assert dataset.to_table(columns={"twice": FIELD("id") * 2}, filter=FIELD("id") < 2)["twice"].to_pylist() == [0, 2]
    assert dataset.filter(FIELD("id") < 9).filter(FIELD("id") > 3).count_rows() == 5
    assert pickle.loads(pickle.dumps(dataset)).head(3).num_rows == 3
    assert pl.scan_pyarrow_dataset(dataset).filter(c.id < 4).collect().height == 4
    for refused in (dataset.get_fragments, lambda: dataset.sort_by("id"), lambda: dataset.take([1])):
        with pytest.raises(UnsupportedError, match="cannot be taken apart"):
            refused()


def test_every_way_gives_the_same_rows(table: Table) -> None:
    where = "id < 120 AND part = 'a'"
    expected = table.to_arrow(where).sort_by("id")

    def same(rows: Any) -> bool:
        found = pa.table(rows).select(expected.column_names).sort_by("id")
        return str(found.to_pylist()) == str(expected.to_pylist())  # NaN equals itself as text

    assert same(table.to_reader(where))
    assert same(table.scan(where))
    assert same(pa.Table.from_batches(list(table.scan_batches(where, batch_size=11))))
    assert max(batch.num_rows for batch in table.scan_batches(where, batch_size=11)) == 11
    assert same(pa.concat_tables(split.to_arrow() for split in table.splits(where)))
    read = [batch for split in table.plan(where).splits for batch in table.read_split(split, where=where)]
    assert same(pa.Table.from_batches(read))
    assert same(table.to_polars(where).collect().to_arrow().cast(expected.schema))
    assert len(table.to_duckdb(duckdb.connect(), where).fetchall()) == 60
    assert pa.table(table).num_rows == pl.DataFrame(table).height == ROWS
    frames = dd.from_map(
        lambda split: split.to_pandas(arrow_types=True),
        table.splits(where),
        meta=table.to_pandas(limit=0, arrow_types=True),
    )
    assert sorted(frames.compute(scheduler="synchronous").id) == expected["id"].to_pylist()


def test_pandas_keeps_every_value(table: Table) -> None:
    frame = table.to_pandas().set_index("id").sort_index()
    assert (str(frame.i32.dtype), str(frame.b.dtype), str(frame.f.dtype)) == ("Int32", "boolean", "float64")
    assert frame.i32[3] is pd.NA and frame.i32[4] == 4000
    assert (
        math.isnan(frame.f[5]) and frame.dec[5] == Decimal("1.25") and frame.ts[5] == pd.Timestamp("2020-01-01 05:00")
    )
    exact = table.to_pandas(arrow_types=True)
    assert pa.Table.from_pandas(exact, preserve_index=False).schema.types == EVERY.types
    assert list(table.to_pandas(where="id < 0").columns) == EVERY.names


def test_a_frame_stays_with_its_snapshot(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    ways = (table.to_polars(), table.to_duckdb(duckdb.connect()), table.scan())
    table.write_arrow([{"id": 1}])
    assert (ways[0].collect().height, len(ways[1].fetchall()), ways[2].to_arrow().num_rows) == (0, 0, 0)
    before = table.to_polars()
    table.write_arrow([{"id": 2}], mode="overwrite")
    assert before.collect()["id"].to_list() == [1]
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(NotFoundError):
        before.collect()
    assert table.to_polars(scan_snapshot_id=2).collect()["id"].to_list() == [2]


def test_empty_tables_and_no_columns(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", EVERY, primary_keys=["id"])
    assert table.to_polars().filter(c.id > 1).collect().shape == (0, len(EVERY))
    assert table.to_duckdb(duckdb.connect()).fetchall() == []
    assert table.to_pandas().shape == (0, len(EVERY))
    assert table.to_reader().read_all().schema.types == EVERY.types
    assert list(table.scan_batches()) == [] and table.splits() == [] and table.to_dataset().count_rows() == 0
    assert pl.DataFrame(table).shape == (0, len(EVERY))
    table.write_arrow([{"id": 1}, {"id": 2}])
    assert table.to_dataset().count_rows() == 2
    assert table.to_reader(columns=[]).read_all().num_rows == 2


def test_system_tables_are_tables(table: Table, tmp_path: Path) -> None:
    catalog = bucketlake.open(str(Path(table.path).parents[1]))
    for name, rows in (("snapshots", 2), ("files", 4), ("audit_log", ROWS), ("ro", 0), ("options", 2)):
        system = catalog.table(f"db.every${name}")
        assert system.to_polars().collect().height == rows
        assert system.to_duckdb(duckdb.connect()).aggregate("count(*)").fetchall() == [(rows,)]
        assert pa.table(system).num_rows == len(system.to_pandas()) == rows
    log = catalog.table("db.every$audit_log")
    assert log.to_polars().filter((c.rowkind == "+I") & (c.id < 3)).collect().height == 3
    assert sum(split.to_arrow().num_rows for split in log.splits("id < 3")) == 3
    snapshots = catalog.table("db.every$snapshots")
    assert snapshots.to_polars().filter(c.snapshot_id > 1).collect().height == 1
    with pytest.raises(InvalidError, match="no splits"):
        snapshots.splits()


def test_what_is_wrong_is_named(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for call in (table.to_polars, table.to_duckdb, table.to_pandas, table.scan, table.to_dataset, table.splits):
        with pytest.raises(InvalidError, match="did you mean 'id'"):
            call(columns=["ID1"])
        with pytest.raises(InvalidError, match="no such column"):
            call(where="idd = 1")
        with pytest.raises(NotFoundError, match="snapshot"):
            call(scan_snapshot_id=99)
    with pytest.raises(InvalidError, match="list of names"):
        table.scan(columns="id")
    for limit in (-1, 1.5, True):
        with pytest.raises(InvalidError, match="limit"):
            table.scan(limit=limit)
    with pytest.raises(InvalidError, match="batch_size"):
        table.scan_batches(batch_size=0)
    with pytest.raises(InvalidError, match="splits with a limit"):
        table.scan(limit=3).splits()
    with pytest.raises(InvalidError, match="more than once"):
        table.to_polars(columns=["id", "id"])
    monkeypatch.setattr(outputs, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    for call, extra in ((table.to_pandas, "pandas"), (table.to_duckdb, "duckdb")):
        with pytest.raises(UnsupportedError, match=rf"pip install 'bucketlake\[{extra}\]'"):
            call()


def test_names_that_duckdb_cannot_tell_apart(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    odd = ["a", "A", 'say "hi"', "call", "x'y\nfield_ref: 'a", "été"]
    table = catalog.create_table("db.t", pa.schema([(name, pa.int64()) for name in odd]))
    table.write_arrow(pa.table({name: [number, 10] for number, name in enumerate(odd)}))
    with pytest.raises(InvalidError, match="tell apart"):
        table.to_duckdb()
    for number, name in enumerate(odd):
        assert table.to_polars().filter(c(name) == number).collect().height == 1
        assert table.to_dataset().to_table(filter=FIELD(name) == number).num_rows == 1
        quoted = name.replace('"', '""')
        relation = table.to_duckdb(duckdb.connect(), columns=[name])
        assert relation.filter(f'"{quoted}" = {number}').fetchall() == [(number,)]
