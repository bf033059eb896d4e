"""Dates that Spark has and Python lacks: before the year 1 and after 9999."""

from __future__ import annotations

import pytest

from bucketlake.errors import UnsupportedError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
LATE, EARLY = "DATE'+12000-01-01'", "make_date(-500, 1, 1)"


@pytest.mark.parametrize("options", ["", "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"])
def test_merge_by_such_dates(options: str, classic: Lake) -> None:
    classic.sql(f"CREATE TABLE db.far (id INT, d DATE) {options}")
    classic.sql(f"INSERT INTO db.far SELECT 1, {LATE} UNION ALL SELECT 2, {EARLY} UNION ALL SELECT 3, DATE'2020-01-01'")
    classic.sql(
        f"MERGE INTO db.far t USING (SELECT {LATE} AS d, {LATE} AS n UNION ALL SELECT {EARLY}, DATE'+13000-02-03') s "
        "ON t.d = s.d WHEN MATCHED THEN UPDATE SET d = s.n"
    )
    rows = classic.sql("SELECT id, CAST(d AS STRING) FROM db.far ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "+12000-01-01"), (2, "+13000-02-03"), (3, "2020-01-01")]


def test_partitions_of_such_dates(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.by_day (id INT, d DATE) PARTITIONED BY (d)")
    classic.sql(
        f"INSERT INTO db.by_day SELECT 1, {LATE} UNION ALL SELECT 2, {EARLY} UNION ALL SELECT 3, DATE'2020-01-01'"
    )
    classic.sql("DELETE FROM db.by_day WHERE d > DATE'+11000-01-01'")
    classic.sql("DELETE FROM db.by_day WHERE d IN (SELECT make_date(-500, 1, 1))")
    assert [row[0] for row in classic.sql("SELECT id FROM db.by_day").collect()] == [3]
    with pytest.raises(UnsupportedError, match="outside of the years 1 to 9999"):
        classic.sql("INSERT OVERWRITE db.by_day PARTITION (d = '+12000-01-01') SELECT 5")
