"""What tables with other engines and orders give through Spark: rows that are merged in Python, and bitmaps where they do."""

from __future__ import annotations

import pytest

from bucketlake.errors import InvalidError
from bucketlake.spark.read import filtered as live
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake


@pytest.mark.parametrize("native", [False, True])
def test_engines_and_orders(native: bool, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    if native:
        monkeypatch.setattr(reader, "LARGE_MERGE_ROWS", 0)
        monkeypatch.setattr(reader, "SMALL_ROWS", 0)
        live.forget()
    lake.sql("CREATE DATABASE IF NOT EXISTS db")
    cases = {
        "ordered": ("'sequence.field'='s'", [(1, 10, 5), (2, 20, 1)]),
        "summed": ("'merge-engine'='aggregation','fields.v.aggregate-function'='sum'", [(1, 18, 4), (2, 20, 1)]),
        "partial": ("'merge-engine'='partial-update','fields.s.sequence-group'='v'", [(1, 10, 5), (2, 20, 1)]),
    }
    for name, (options, expected) in cases.items():
        lake.sql(
            f"CREATE TABLE db.{name} (k INT, v BIGINT, s INT) TBLPROPERTIES "
            f"('primary-key'='k', 'bucket'='1', 'write-only'='true', {options})"
        )
        lake.sql(f"INSERT INTO db.{name} VALUES (1, 10, 5), (2, 20, 1)")
        lake.sql(f"INSERT INTO db.{name} VALUES (1, 8, 4)")
        found = lake.sql(f"SELECT * FROM db.{name} ORDER BY k").collect()
        assert [tuple(row) for row in found] == expected
        assert lake.sql(f"SELECT sum(v) FROM db.{name}").collect()[0][0] == sum(row[1] for row in expected)


def test_row_kinds_come_in_a_column(lake: Lake) -> None:
    """A further column `_VALUE_KIND` says what a row is, as it does without Spark."""
    lake.sql("CREATE TABLE db.kinds (k INT, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    lake.sql("INSERT INTO db.kinds VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    rows = [(1, "a", "-D"), (2, "B", "+U"), (4, "d", "+I")]
    lake.table("db.kinds").write(lake.spark.createDataFrame(rows, "k INT, v STRING, _VALUE_KIND STRING").repartition(2))
    found = lake.sql("SELECT * FROM db.kinds ORDER BY k").collect()
    assert [tuple(row) for row in found] == [(2, "B"), (3, "c"), (4, "d")]
    lake.sql("CREATE TABLE db.plain (k INT)")
    with pytest.raises(InvalidError, match="_VALUE_KIND"):
        lake.table("db.plain").write(lake.spark.createDataFrame([(1, "+I")], "k INT, _VALUE_KIND STRING"))
