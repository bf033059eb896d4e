"""Functions of `sys`, metadata columns where rows change, and reads that may not open every file."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from tests.profile import later

from bucketlake.errors import InvalidError
from bucketlake.spark.session import Lake


def rows(lake: Lake, statement: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql(statement).collect())


def test_bucket_functions_give_the_tables_buckets(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE db.t (id INT, v STRING, d DECIMAL(30,3), ts TIMESTAMP, dt DATE) "
        "TBLPROPERTIES ('bucket' = '7', 'bucket-key' = 'id,v,d,ts,dt')"
    )
    lake.sql("INSERT INTO db.t SELECT id, 'v' || id, id * 1.5, TIMESTAMP'2020-01-01', NULL FROM range(40)")
    same = "__paimon_bucket = {}(7, id, v, d, ts, dt)"
    for name in ("sys.bucket", "paimon.sys.bucket", "`sys`.`bucket`"):
        assert rows(lake, f"SELECT count_if({same.format(name)}), count(*) FROM db.t") == [(40, 40)]
    lake.sql(
        "CREATE TABLE db.m (id BIGINT) TBLPROPERTIES ('bucket'='3','bucket-key'='id','bucket-function.type'='mod')"
    )
    lake.sql("INSERT INTO db.m SELECT id - 5 FROM range(10)")
    assert rows(lake, "SELECT count_if(__paimon_bucket = sys.mod_bucket(3, id)) FROM db.m") == [(10,)]
    lake.sql("DELETE FROM db.m WHERE sys.mod_bucket(3, id) <> 0")
    assert rows(lake, "SELECT * FROM db.m") == [(-3,), (0,), (3,)]
    assert rows(lake, "SHOW USER FUNCTIONS IN sys LIKE 'm*'") == [("paimon.sys.max_pt",), ("paimon.sys.mod_bucket",)]
    with pytest.raises(PySparkException, match="bucket number field must be integer type"):
        lake.sql("SELECT sys.bucket('a', 5)").collect()


@pytest.mark.parametrize(
    "kind",
    later(["'bucket' = '-1'", "'primary-key' = 'a,p', 'bucket' = '1'", "'deletion-vectors.enabled' = 'true'"], 2),
)
def test_changes_look_at_metadata_columns(classic: Lake, kind: str) -> None:
    keyed = "primary-key" in kind
    classic.sql(f"CREATE TABLE db.t (a INT, b STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ({kind})")
    classic.sql("INSERT INTO db.t VALUES (1, 'x', 1), (2, 'y', 1), (3, 'z', 2)")
    path = classic.sql("SELECT __paimon_file_path FROM db.t WHERE a = 3").collect()[0][0]
    where = "__paimon_partition.p = 2" if keyed else f"__paimon_file_path = '{path}' AND __paimon_row_index = 0"
    classic.sql(f"UPDATE db.t SET b = b || __paimon_bucket WHERE {where}")
    assert rows(classic, "SELECT a, b FROM db.t") == [(1, "x"), (2, "y"), (3, "z0")]
    classic.sql("MERGE INTO db.t USING (SELECT 2 AS k) s ON a = k AND __paimon_bucket = 0 WHEN MATCHED THEN DELETE")
    assert rows(classic, "SELECT a, b FROM db.t") == [(1, "x"), (3, "z0")]
    classic.sql("DELETE FROM db.t AS t WHERE t.__paimon_bucket = 0 AND a = 1")
    assert rows(classic, "SELECT * FROM db.t") == [(3, "z0", 2)]
    with pytest.raises(PySparkException, match="__paimon_buckets"):
        classic.sql("DELETE FROM db.t WHERE __paimon_buckets = 0")


def test_a_full_scan_may_be_forbidden(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (a INT, p INT) PARTITIONED BY (p)")
    classic.sql("INSERT INTO db.t VALUES (1, 1), (2, 2)")
    classic.sql("CREATE TABLE db.plain (a INT)")
    classic.sql("INSERT INTO db.plain VALUES (1)")
    classic.sql("SET spark.paimon.read.allow.fullScan=false")
    try:
        assert rows(classic, "SELECT * FROM db.plain") == [(1,)]
        for statement in (
            "SELECT * FROM db.t",
            "SELECT * FROM db.t WHERE p > 0",
            "SELECT sys.max_pt('db.t') FROM db.t",
        ):
            with pytest.raises(InvalidError, match=r"Full scan is not supported\."):
                classic.sql(statement)
        assert rows(classic, "SELECT * FROM db.t WHERE p > 1") == [(2, 2)]
        assert rows(classic, "SELECT sys.max_pt('db.t')") == [("2",)]
        assert rows(classic, "SELECT count(*) FROM db.t") == [(2,)]  # of metadata: no file is opened
    finally:
        classic.sql("RESET spark.paimon.read.allow.fullScan")
    with pytest.raises(InvalidError, match="Full scan is not supported"):
        classic.catalog.table("db.t").to_arrow(**{"read.allow.fullScan": "false"})
