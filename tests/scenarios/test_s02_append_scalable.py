"""S2: append tables without buckets (`'bucket'='-1'`, no primary key), the batch part."""

from __future__ import annotations

import pytest

import bucketlake

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_all_files_land_in_bucket_0(lake: bucketlake.Lake, spelling: str) -> None:
    lake.sql(create(spelling, "my_table", "product_id BIGINT, price DOUBLE, sales BIGINT", bucket="-1"))
    lake.sql("INSERT INTO my_table VALUES (1, 1.5, 10), (2, 2.5, 20)")
    lake.sql("INSERT INTO my_table SELECT id, cast(id AS DOUBLE), id FROM range(100)")
    table = lake.table("my_table")
    assert {file.bucket for file in table.files()} == {0}
    assert lake.sql("SELECT count(*), sum(sales) FROM my_table").collect()[0][:] == (102, 30 + sum(range(100)))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_partitions_have_bucket_0_each(lake: bucketlake.Lake, spelling: str) -> None:
    lake.sql(create(spelling, "p", "id BIGINT, dt STRING", partition="dt"))
    lake.sql("INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    folders = {"/".join(file.path.split("/")[-3:-1]) for file in lake.table("p").files()}
    assert folders == {"dt=a/bucket-0", "dt=b/bucket-0", "dt=__DEFAULT_PARTITION__/bucket-0"}
    assert {tuple(r) for r in lake.sql("SELECT * FROM p").collect()} == {(1, "a"), (2, "b"), (3, None)}
