"""S11: the bucket number of a fixed-bucket table: metadata first, then partition by partition."""

from __future__ import annotations

import pytest

import bucketlake
from bucketlake.errors import BucketlakeError

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark


@pytest.fixture(params=SPELLINGS)
def altered(request: pytest.FixtureRequest, lake: bucketlake.Lake) -> bucketlake.Lake:
    lake.sql(create(request.param, "t", "k INT, v INT, pt STRING", key="k, pt", partition="pt", bucket="2"))
    lake.sql("INSERT INTO t SELECT cast(id AS INT), 1, 'a' FROM range(40)")
    lake.sql("INSERT INTO t SELECT cast(id AS INT), 1, 'b' FROM range(40)")
    lake.sql("ALTER TABLE t SET ('bucket'='8')")
    return lake


def test_reads_go_on(altered: bucketlake.Lake) -> None:
    assert altered.sql("SELECT count(*), sum(v) FROM t").collect()[0][:] == (80, 80)


def test_insert_into_an_old_partition_fails(altered: bucketlake.Lake) -> None:
    before = altered.table("t").snapshots()
    with pytest.raises(BucketlakeError, match=r"(?is)bucket.*(overwrite|rescale)"):
        altered.sql("INSERT INTO t VALUES (1000, 2, 'a')")
    assert altered.table("t").snapshots() == before


def test_insert_into_a_new_partition_takes_the_new_number(altered: bucketlake.Lake) -> None:
    altered.sql("INSERT INTO t SELECT cast(id AS INT), 1, 'c' FROM range(200)")
    assert {f.bucket for f in altered.table("t").files() if f.partition == {"pt": "c"}} == set(range(8))


def test_overwrite_rehashes_the_partition(altered: bucketlake.Lake) -> None:
    altered.sql("INSERT OVERWRITE t PARTITION (pt = 'a') SELECT k, v FROM t WHERE pt = 'a'")
    files = altered.table("t").files()
    assert {f.total_buckets for f in files if f.partition == {"pt": "a"}} == {8}
    assert {f.total_buckets for f in files if f.partition == {"pt": "b"}} == {2}
    altered.sql("INSERT INTO t VALUES (1000, 2, 'a'), (1, 3, 'a')")
    assert altered.sql("SELECT count(*), sum(v) FROM t").collect()[0][:] == (81, 84)


def test_rescale_does_it_in_one_step(altered: bucketlake.Lake) -> None:
    untouched = {f.path for f in altered.table("t").files() if f.partition == {"pt": "b"}}
    altered.sql("CALL sys.rescale(`table` => 't', partitions => 'pt=a')")  # to the option's number
    files = altered.table("t").files()
    assert {f.total_buckets for f in files if f.partition == {"pt": "a"}} == {8}
    assert {f.path for f in files if f.partition == {"pt": "b"}} == untouched
    altered.sql("INSERT INTO t VALUES (1000, 2, 'a'), (1, 3, 'a')")
    assert altered.sql("SELECT count(*), sum(v) FROM t").collect()[0][:] == (81, 84)
    with pytest.raises(BucketlakeError, match=r"(?is)bucket.*rescale"):
        altered.sql("INSERT INTO t VALUES (1000, 2, 'b')")
    altered.sql("CALL sys.rescale('t')")
    assert {f.total_buckets for f in altered.table("t").files()} == {8}
    altered.sql("INSERT INTO t VALUES (1000, 2, 'b')")
    assert altered.sql("SELECT count(*), sum(v) FROM t").collect()[0][:] == (82, 86)
