"""Dates before 1582-10-15 in ORC files, which Spark's own reader takes for Julian ones, are what was written."""

from __future__ import annotations

import pytest

from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
EARLY = ["0001-01-01", "1500-03-01", "1582-10-10"]


@pytest.mark.parametrize("keyed", ["'primary-key' = 'v', 'bucket' = '1'", "'bucket' = '-1'"], ids=["keyed", "append"])
def test_early_dates(classic: Lake, monkeypatch: pytest.MonkeyPatch, keyed: str) -> None:
    lake = classic
    lake.sql("CREATE DATABASE IF NOT EXISTS db")
    lake.sql(f"CREATE TABLE db.t (d DATE, v INT NOT NULL) TBLPROPERTIES ({keyed}, 'file.format' = 'orc')")
    for number, days in enumerate([["1582-10-15", "2020-02-29"], EARLY]):
        lake.sql("INSERT INTO db.t VALUES " + ", ".join(f"(DATE'{day}', {number}{day[:4]})" for day in days))
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)  # nothing is read in the driver
    found = lake.sql("SELECT CAST(d AS STRING) FROM db.t ORDER BY d").collect()
    assert [row[0] for row in found] == [*EARLY, "1582-10-15", "2020-02-29"]
    for day in EARLY:
        assert lake.sql(f"SELECT 1 FROM db.t WHERE d = DATE'{day}'").count() == 1
    assert lake.sql("SELECT 1 FROM db.t WHERE d < DATE'1582-10-15'").count() == 3
