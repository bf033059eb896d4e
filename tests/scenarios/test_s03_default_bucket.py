"""S3: a primary-key table without the option `bucket`: dynamic buckets."""

from __future__ import annotations

import pytest

import bucketlake

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_rows_before_and_after_the_compaction(lake: bucketlake.Lake, spelling: str) -> None:
    lake.sql("CREATE DATABASE ods")
    lake.sql(create(spelling, "ods.with_pk_table", "order_id BIGINT, price DECIMAL(32,2)", key="order_id"))
    lake.sql("SET 'execution.runtime-mode' = 'batch'")
    for values in ("(1, 1.0)", "(2, 2.0), (3, 3.0)", "(4, 4.0), (5, 5.0), (6, 6.0), (7, 7.0)"):
        lake.sql(f"INSERT INTO ods.with_pk_table VALUES {values}")
    lake.sql("DELETE FROM ods.with_pk_table WHERE order_id IN (2, 3)")

    def ids() -> list[int]:
        return sorted(row[0] for row in lake.sql("SELECT order_id FROM ods.with_pk_table").collect())

    assert ids() == [1, 4, 5, 6, 7]
    lake.sql("CALL sys.compact('ods.with_pk_table', '', '', '', '')")
    assert ids() == [1, 4, 5, 6, 7]
    runs: dict[int, set[tuple[int, str]]] = {}
    for found in lake.table("ods.with_pk_table").files():
        name = found.file.file_name if found.file.level == 0 else ""
        runs.setdefault(found.bucket, set()).add((found.file.level, name))
    assert all(len(levels) == 1 for levels in runs.values())
