"""Decimals cross to Python as doubles and come back digit for digit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.spark.session import Lake
from bucketlake.spark.write.narrow import narrowed, widened
from bucketlake.types.model import DataField, DataType, Root

SHAPES = [(1, 0), (9, 4), (15, 0), (15, 2), (15, 7), (15, 15)]


@pytest.mark.parametrize(("precision", "scale"), SHAPES)
@given(data=st.data())
def test_every_decimal_of_15_digits_comes_back(precision: int, scale: int, data: st.DataObject) -> None:
    limit = 10**precision - 1
    digits = data.draw(st.lists(st.one_of(st.none(), st.integers(-limit, limit)), min_size=1, max_size=50))
    kind = pa.decimal128(precision, scale)
    expected = pa.array([None if d is None else Decimal(d).scaleb(-scale) for d in digits], kind)
    doubles = pa.array([None if d is None else float(Decimal(d).scaleb(-scale)) for d in digits], pa.float64())
    field = DataField(0, "d", DataType(Root.DECIMAL, precision=precision, scale=scale))
    found = widened(pa.RecordBatch.from_arrays([doubles], ["d"]), [field]).column("d")
    found.validate(full=True)
    assert found.equals(expected)


def test_slices_and_longer_decimals() -> None:
    short = DataField(0, "short", DataType(Root.DECIMAL, precision=15, scale=2))
    long = DataField(1, "long", DataType(Root.DECIMAL, precision=16, scale=2))
    values = pa.array([Decimal("1.00"), Decimal("2.00"), None], pa.decimal128(16, 2))
    batch = pa.RecordBatch.from_arrays([pa.array([9.99, 0.01, None]), values], ["short", "long"]).slice(1)
    found = widened(batch, [short, long])
    assert found.column("short").to_pylist() == [Decimal("0.01"), None]
    assert found.column("long").to_pylist() == [Decimal("2.00"), None]


def test_many_rows_at_the_edge_of_what_doubles_hold() -> None:
    digits = np.arange(10**15 - 50_000, 10**15)
    doubles = pa.array(digits / 100.0)
    field = DataField(0, "d", DataType(Root.DECIMAL, precision=15, scale=2))
    found = widened(pa.RecordBatch.from_arrays([doubles], ["d"]), [field]).column("d")
    expected = pa.array(digits).cast(pa.decimal128(19, 0)).to_pylist()
    assert [int(value.scaleb(2)) for value in found.to_pylist()] == [int(value) for value in expected]


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_frames_on_their_way(lake: Lake, nested: bool, ansi: str) -> None:
    spark = lake.spark
    schema = "`a.b` decimal(9,2) not null, `x``y` string, `ß z` decimal(15,15), long decimal(16,2), t timestamp"
    row = (Decimal("-0.10"), None, Decimal("0.000000000000001"), Decimal("1.23"), dt.datetime(2024, 2, 29, 1))
    frame = spark.createDataFrame([(*row, (1,)) if nested else row], schema + (", n struct<m: int>" if nested else ""))
    short = [
        DataField(place, name, DataType(Root.DECIMAL, precision=precision, scale=scale))
        for place, (name, precision, scale) in enumerate([("a.b", 9, 2), ("ß z", 15, 15), ("long", 16, 2)])
    ]
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        found = narrowed(frame, short)
        rows = found.toArrow()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert found.columns == frame.columns
    assert [found.schema[name].dataType.simpleString() for name in ("a.b", "ß z", "long")] == [
        "double",
        "double",
        "decimal(16,2)",
    ]
    (batch,) = rows.to_batches()
    assert widened(batch, short).to_pylist() == frame.toArrow().to_pylist()
