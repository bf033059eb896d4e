"""S1: an append table with a bucket key."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

import bucketlake
from bucketlake.errors import InvalidError

from .spelling import SPELLINGS, options

pytestmark = pytest.mark.spark

ROWS = {
    (1, Decimal("100.00"), datetime(2025, 4, 5, 11, 45, 0)),
    (2, Decimal("200.00"), datetime(2025, 4, 5, 11, 45, 1)),
    (3, Decimal("300.00"), datetime(2025, 4, 5, 11, 45, 2)),
}


@pytest.fixture(params=SPELLINGS)
def table(request: pytest.FixtureRequest, lake: bucketlake.Lake) -> bucketlake.Lake:
    lake.sql(
        "CREATE TABLE wo_pk_table (order_id BIGINT, price DECIMAL(32,2), ts TIMESTAMP(3)) "
        + options(request.param, {"bucket": "2", "bucket-key": "order_id"})
    )
    lake.sql("insert into wo_pk_table values (1, 100.0, CAST('2025-04-05 11:45:00' AS TIMESTAMP(3)))")
    lake.sql(
        "insert into wo_pk_table values (2, 200.0, CAST('2025-04-05 11:45:01' AS TIMESTAMP(3))), "
        "(3, 300.0, CAST('2025-04-05 11:45:02' AS TIMESTAMP(3)))"
    )
    return lake


def test_rows(table: bucketlake.Lake) -> None:
    assert {tuple(row) for row in table.sql("SELECT * FROM wo_pk_table").collect()} == ROWS


def test_a_key_stays_in_its_bucket(table: bucketlake.Lake) -> None:
    table.sql("insert into wo_pk_table values (1, 1.0, CAST('2025-04-05 11:45:00' AS TIMESTAMP(3)))")
    buckets = {
        key: {split.bucket for split in table.table("wo_pk_table").plan(where=f"order_id = {key}").splits}
        for key in (1, 2, 3)
    }
    assert all(len(found) == 1 for found in buckets.values())
    assert {tuple(row)[0] for row in table.sql("SELECT * FROM wo_pk_table WHERE order_id = 2").collect()} == {2}


def test_filter_plans_one_bucket(table: bucketlake.Lake) -> None:
    lake_table = table.table("wo_pk_table")
    planned = {file.file_name for split in lake_table.plan(where="order_id = 2").splits for file in split.files}
    (bucket,) = {split.bucket for split in lake_table.plan(where="order_id = 2").splits}
    assert planned <= {file.file.file_name for file in lake_table.files() if file.bucket == bucket}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_bucket_key_needs_a_bucket_number(lake: bucketlake.Lake, spelling: str) -> None:
    with pytest.raises(
        InvalidError,
        match=r"Cannot define 'bucket-key' with bucket = -1, please remove the 'bucket-key' setting or specify a bucket number",
    ):
        lake.sql("CREATE TABLE t (order_id BIGINT) " + options(spelling, {"bucket": "-1", "bucket-key": "order_id"}))
    assert lake.sql("SHOW TABLES").count() == 0


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_bucket_number_needs_a_key(lake: bucketlake.Lake, spelling: str) -> None:
    with pytest.raises(InvalidError, match="bucket-key"):
        lake.sql("CREATE TABLE t (order_id BIGINT) " + options(spelling, {"bucket": "2"}))
    assert lake.sql("SHOW TABLES").count() == 0
