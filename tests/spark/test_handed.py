"""Rows of the caller's process where DataFrames go, and DataFrames of another session."""

from __future__ import annotations

import datetime as dt
from collections import namedtuple
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import Row

import bucketlake
from bucketlake import InvalidError, UnsupportedError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
DAY = dt.datetime(2020, 1, 1)
GIVEN: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame({"id": [1, 2], "s": ["a", None]}, index=[7, 8]),
    "polars": lambda: pl.DataFrame({"id": [1, 2], "s": pl.Series(["a", None], dtype=pl.Categorical)}),
    "lazy": lambda: pl.LazyFrame({"id": [1, 2], "s": ["a", None]}),
    "arrow": lambda: pa.table({"id": pa.array([1, 2], pa.uint8()), "s": pa.array(["a", None], pa.string_view())}),
    "reader": lambda: pa.table({"id": [1, 2], "s": ["a", None]}).to_reader(),
    "columns": lambda: {"id": [1, 2], "s": ["a", None]},
    "rows of Spark": lambda: [Row(id=1, s="a"), Row(id=2, s=None)],
    "rows": lambda: [{"id": 1, "s": "a"}, {"id": 2}],
    "batches": lambda: (pa.record_batch({"id": [one], "s": [text]}) for one, text in ((1, "a"), (2, None))),
}


def rows(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.table(name).read().collect())


@pytest.mark.parametrize("kind", GIVEN)
def test_rows_of_this_process(classic: Lake, kind: str) -> None:
    """They make a table, come to one, and are merged, under the rules of DataFrames: names by the session's case."""
    classic.write_table(GIVEN[kind](), "db.made", primary_key="id", bucket=1)
    assert rows(classic, "db.made") == [(1, "a"), (2, None)]
    if kind in ("pandas", "rows", "rows of Spark"):
        classic.sql("CREATE TABLE db.t (ID INT, S STRING, d DECIMAL(4, 1))")
        classic.table("db.t").write(GIVEN[kind]())
        assert rows(classic, "db.t") == [(1, "a", None), (2, None, None)]
        merge = classic.table("db.made").merge(GIVEN[kind](), "made.id = source.id")
        merge.whenMatched("source.id = 2").delete().merge()
        assert rows(classic, "db.made") == [(1, "a")]


def test_what_is_no_rows_is_told(classic: Lake) -> None:
    row = namedtuple("row", "id")(1)
    classic.sql("CREATE TABLE db.t (id INT, t TIMESTAMP)")
    with pytest.raises(InvalidError, match=r"the rows come first: write_table\(rows, 'db.table'\)"):
        classic.write_table("db.t", [{"id": 1}])  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match=r"row\._asdict"):
        classic.write_table([row], "db.t")
    with pytest.raises(InvalidError, match=r"row\.asDict\(True\); lake.write_table"):
        classic.catalog.table("db.t").write_arrow([Row(id=1)])
    classic.sql("INSERT INTO db.t VALUES (1, TIMESTAMP'2024-01-01 12:00:00')")
    before = classic.table("db.t").read().collect()
    classic.write_table(before, "db.t")  # times without a zone, in the session's
    assert classic.table("db.t").read().collect() == [*before, *before]


def test_no_row_is_lost_behind_chunks_without_rows(classic: Lake) -> None:
    """PySpark takes a batch without rows for the end; scans with a filter, and `concat_tables`, leave such chunks."""
    numbers = pa.chunked_array([[1, 2], [], [3], [], [4, 5]], pa.int64())
    rows = pa.table({"a": numbers, "l": pa.chunked_array([[[1]] * 3, [[2]] * 2], pa.list_(pa.int64()))})
    classic.sql("CREATE TABLE db.gaps (a BIGINT, l ARRAY<BIGINT>) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1')")
    table = classic.table("db.gaps")
    for write in (
        lambda: table.write(rows),
        lambda: classic.write_table(rows, "db.gaps"),
        lambda: classic.sql("INSERT INTO db.gaps SELECT * FROM {rows}", rows=rows),
        lambda: table.merge(rows, "gaps.a = source.a").whenNotMatched().insertAll().merge(),
    ):
        classic.sql("TRUNCATE TABLE db.gaps")
        write()
        assert sorted(row.a for row in table.read().collect()) == [1, 2, 3, 4, 5]
    assert classic.sql("SELECT count(*) AS n, sum(size(l)) AS s FROM {rows}", rows=rows).collect() == [(5, 5)]


def test_types_of_rows_of_this_process(classic: Lake) -> None:
    given = pa.table(
        {
            "n": pa.array([None], pa.null()),
            "u": pa.array([1], pa.uint64()),
            "d": [Decimal("1.5")],
            "at": pa.array([DAY], pa.timestamp("ns")),
            "zoned": pa.array([DAY], pa.timestamp("us", "Asia/Tokyo")),
            "l": [[{"x": 1}, None]],
        }
    )
    classic.write_table(given.drop(["n"]), "db.t", comment="c")
    kinds = ["decimal(20,0)", "decimal(2,1)", "timestamp_ntz", "timestamp", "array<struct<x:bigint>>"]
    assert [kind for _, kind in classic.table("db.t").read().dtypes] == kinds
    classic.sql("ALTER TABLE db.t ADD COLUMN n STRING")
    classic.table("db.t").write(given)
    assert classic.table("db.t").read(where="n IS NULL").count() == 2
    found = classic.sql("SELECT count(*) FROM {one} JOIN {two} USING (u)", one=given, two=given.to_pandas())
    assert found.collect()[0][0] == 1


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "tuples": (lambda: [(1, 2)], InvalidError, "give an Arrow table"),
    "nothing": (list, InvalidError, "whose columns nobody knows"),
    "text": (lambda: "rows.csv", InvalidError, "cannot write this.*spark.read"),
    "twice": (lambda: pa.table([[1], [2]], names=["id", "id"]), InvalidError, r"more than once \[columns=\['id'\]"),
    "other parts": (
        lambda: iter([pl.DataFrame({"id": [1]}), pl.DataFrame({"id": [1], "x": [1]})]),
        InvalidError,
        "parts of other columns",
    ),
    "duration": (lambda: pl.DataFrame({"id": [dt.timedelta(1)]}), UnsupportedError, "column=id.*cast the column"),
    "time of day": (lambda: {"id": [dt.time(1)]}, UnsupportedError, "column=id.*write_arrow"),
    "nanoseconds": (lambda: pa.table({"id": pa.array([1], pa.timestamp("ns"))}), UnsupportedError, "column=id.*round"),
    "nested nanoseconds": (
        lambda: pa.table({"id": pa.array([[1]], pa.list_(pa.timestamp("ns")))}),
        UnsupportedError,
        "column=id.*round",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_data_frame_holds(classic: Lake, case: str) -> None:
    make, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        classic.write_table(make(), "db.made")
    assert classic.tables() == []


def test_sessions_beside_each_other(classic: Lake) -> None:
    """A new session of one that has a lake has its own: its settings and views, and takes frames of the other."""
    classic.sql("CREATE TABLE db.t (id INT, v INT)")
    other = bucketlake.connect(classic.catalog.warehouse, spark=classic.spark.newSession())
    other.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    frame = classic.spark.range(2).selectExpr("cast(id AS INT) id", "1 v")
    other.sql("INSERT INTO db.t SELECT * FROM {frame}", frame=frame)
    other.sql("CREATE TEMPORARY VIEW seen AS SELECT * FROM db.t")
    found = other.sql(
        "SELECT sum(t.v), cast(timestamp_seconds(0) AS STRING) FROM {frame} JOIN db.t USING (id)", frame=frame
    )
    assert tuple(found.collect()[0]) == (2, "1970-01-01 09:00:00")
    assert other.table("db.t").read().count() == other.sql("TABLE seen").count() == 2
    with pytest.raises(bucketlake.NotFoundError, match="seen"):
        classic.sql("SELECT * FROM seen")
    by_name = [lake.spark.read.format("bucketlake").option("table", "db.t").load().count() for lake in (other, classic)]
    assert by_name == [2, 2]
    assert (
        classic.spark.sql("SHOW TABLES IN global_temp").where("NOT isTemporary OR tableName LIKE 'handed%'").count()
        == 0
    )


@pytest.mark.parametrize("made", [True, False], ids=["made", "dropped too early"])
def test_ctrl_c_leaves_no_view(classic: Lake, monkeypatch: pytest.MonkeyPatch, made: bool) -> None:
    """Ctrl-C while a statement's view is made: Spark may have made it, or do so once it was asked to drop it."""
    classic.sql("CREATE TABLE db.t (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    frame = classic.spark.range(1).selectExpr("cast(id AS INT) id")
    late, before = [], classic.spark.sql("SHOW VIEWS").collect()
    names = ("createTempView", "createOrReplaceTempView")
    real = {name: getattr(type(frame), name) for name in names}

    def interrupted(name: str) -> Callable[[Any, str], None]:
        def create(self: Any, view: str) -> None:
            (real[name](self, view) if made else late.append((self, name, view)))
            raise KeyboardInterrupt

        return create

    query = "SELECT id + 0 AS id FROM db.t"  # a plainer one makes no view
    for statement in (query, "INSERT INTO db.t SELECT * FROM {frame}"):
        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(type(frame), name, interrupted(name))
            with pytest.raises(KeyboardInterrupt):
                classic.sql(statement, **({"frame": frame} if "{" in statement else {}))
        for one, name, view in late:
            real[name](one, view)
        late.clear()
        assert classic.sql(query).collect() == []
        assert classic.spark.sql("SHOW VIEWS").collect() == before
