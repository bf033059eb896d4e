"""Queries over a star schema in tables of every kind against Spark over tables of its own with the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from tests.profile import seeds
from tests.queries import star
from tests.queries.run import QUICK, settings

from bucketlake import BucketlakeError, Table
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake
from bucketlake.sql.query import joined, query

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROUNDS = [("false", "UTC", True), ("true", "America/St_Johns", False)]  # ANSI mode, zone, whether the driver reads
OWN = "spark_catalog.star"


@pytest.fixture(scope="module")
def own(classic_session: Any) -> Iterator[None]:
    """Spark's own tables, with CHAR as it has them."""
    classic_session.sql(f"CREATE DATABASE {OWN}")
    for name, rows in star.rows().items():
        classic_session.sql(f"CREATE TABLE {OWN}.{name} ({star.DDL[name]}) USING parquet")
        frame = classic_session.createDataFrame(rows, classic_session.table(f"{OWN}.{name}").schema)
        frame.coalesce(1).write.insertInto(f"{OWN}.{name}")
    yield
    classic_session.sql(f"DROP DATABASE {OWN} CASCADE")


def load(lake: Lake, name: str, kind: str, rows: pa.Table, chance: Random) -> None:
    """A table of a kind, written in several commits; where there are versions, some rows have an older one."""
    key, part, bucket = star.PLACES[name]
    layout = star.KINDS[kind].format(key=key, part=part, bucket=bucket)
    lake.sql(f"CREATE TABLE db.{name} ({star.DDL[name]}) {layout}")
    table = lake.catalog.table(f"db.{name}")
    if table.schema.primary_keys and kind not in ("partial", "first"):
        table.write_arrow(_older(table, rows, chance))
    for start in range(0, rows.num_rows, max(1, rows.num_rows // 4)):
        table.write_arrow(rows.slice(start, max(1, rows.num_rows // 4)))
    if kind == "first":
        table.write_arrow(_older(table, rows, chance))
    if kind == "postponed":
        lake.sql(f"CALL sys.compact(table => 'db.{name}')")
    if kind == "indexed":
        lake.sql(
            f"CALL sys.create_global_index(table => 'db.{name}', index_column => '{bucket}', index_type => 'btree')"
        )


def _older(table: Table, rows: pa.Table, chance: Random) -> pa.Table:
    half = rows.num_rows // 2
    taken = rows.take(sorted(chance.sample(range(rows.num_rows), half)))
    keys = table.schema.primary_keys
    return pa.table({name: (taken if name in keys else rows.slice(0, half))[name] for name in rows.column_names})


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_queries(own: None, classic: Lake, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    ansi, zone, small = ROUNDS[seed % len(ROUNDS)]
    monkeypatch.setattr(joined, "WORTH_ROWS", 0)
    monkeypatch.setattr(query, "WORTH_ROWS", 0)
    if not small:
        monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    spark, chance, wrong = classic.spark, Random(seed), []
    for name, rows in star.rows().items():
        kind = chance.choice([kind for kind in star.KINDS if name != "customer" or kind not in ("parts", "both")])
        schema = classic.spark.table(f"{OWN}.{name}").toArrow().schema
        load(classic, name, kind, pa.Table.from_pylist(rows, schema), chance)
    with settings(spark, {**QUICK, "spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone}):
        classic.sql("USE db")
        for name, text in star.QUERIES.items():
            spark.sql(f"USE {OWN}")
            expected = outcome(spark.sql, text)
            found = outcome(classic.sql, text)
            if "LIMIT" not in text and isinstance(expected, tuple) and isinstance(found, tuple):
                expected, found = ((shape, Counter(rows)) for shape, rows in (expected, found))
            if found != expected:
                wrong.append(f"{name}: {text}\n  Spark {expected}\n  lake {found}"[:2000])
        spark.sql("USE spark_catalog.default")
    assert not wrong, "\n".join(wrong)


def outcome(run: Any, text: str) -> Any:
    """Columns and rows, or that there are none."""
    try:
        frame = run(text)
        return str(frame.schema.simpleString()), [str([_told(value) for value in row]) for row in frame.collect()]
    except (PySparkException, BucketlakeError) as error:
        return f"refused: {type(error).__name__}"


def _told(value: Any) -> str:
    """A value; of sums of floats the digits that do not hang on the rows' order, and one zero."""
    return f"{value or 0.0:.9g}" if isinstance(value, float) else repr(value)
