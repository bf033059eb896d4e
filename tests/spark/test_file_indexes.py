"""Tables that declare file indexes, written and read through Spark."""

from __future__ import annotations

import pytest
from tests.profile import later

from bucketlake.spark.session import Lake

KINDS = {"append": "'bucket' = '-1'", "keyed": "'bucket' = '2', 'primary-key' = 'id'"}


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("threshold", later(["1 mb", "0 b"], 1))
def test_spark_writes_and_reads_by_indexes(lake: Lake, kind: str, threshold: str) -> None:
    """Every file has one; reads leave out what cannot match, and give the rows that match."""
    lake.sql(
        f"CREATE TABLE db.t (id BIGINT NOT NULL, s STRING) TBLPROPERTIES ({KINDS[kind]}, 'metadata.stats-mode' = 'none',"
        f" 'file-index.bitmap.columns' = 's', 'file-index.in-manifest-threshold' = '{threshold}')"
    )
    for start in (0, 1000):
        frame = lake.spark.range(start, start + 40).selectExpr("id", f"concat('{start}-', id % 5) AS s")
        lake.table("db.t").write(frame)
    files = lake.table("db.t").files()
    assert all((found.file.embedded_index is None) == (threshold == "0 b") for found in files)
    assert all(found.file.embedded_index or found.file.extra_files for found in files)
    assert len(lake.table("db.t").files("s = '1000-3'")) < len(files)
    found = lake.sql("SELECT id FROM db.t WHERE s = '1000-3' ORDER BY id").collect()
    assert [row.id for row in found] == list(range(1003, 1040, 5))
    assert lake.sql("SELECT id FROM db.t WHERE s = 'nowhere'").collect() == []
