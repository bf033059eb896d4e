"""Tables that read partitions from another branch, in statements."""

from __future__ import annotations

import pytest

from bucketlake.errors import InvalidError
from bucketlake.spark.session import Lake


def rows(lake: Lake, statement: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql(statement).collect())


def test_statements_read_both_branches_and_change_one(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (dt STRING NOT NULL, name STRING NOT NULL, amount BIGINT) PARTITIONED BY (dt)")
    lake.sql("CALL sys.create_branch('db.t', 'test')")
    lake.sql(
        "ALTER TABLE db.`t$branch_test` SET ("
        "'primary-key' = 'dt,name', 'bucket' = '2', 'changelog-producer' = 'lookup')"
    )
    lake.sql("ALTER TABLE db.t SET TBLPROPERTIES ('scan.fallback-branch' = 'test')")
    lake.sql(
        "INSERT INTO db.`t$branch_test` VALUES ('20240725', 'apple', 4), ('20240725', 'peach', 10), "
        "('20240726', 'cherry', 3), ('20240726', 'pear', 6)"
    )
    lake.sql("INSERT INTO db.t VALUES ('20240725', 'apple', 5), ('20240725', 'banana', 7)")
    own = [("20240725", "apple", 5), ("20240725", "banana", 7)]
    other = [("20240726", "cherry", 3), ("20240726", "pear", 6)]
    assert rows(lake, "SELECT * FROM db.t") == own + other
    assert rows(lake, "SELECT count(*), max(amount), min(dt) FROM db.t") == [(4, 7, "20240725")]
    assert rows(lake, "SELECT name, __paimon_bucket >= 0 FROM db.t WHERE dt = '20240726'") == [
        ("cherry", True),
        ("pear", True),
    ]
    assert rows(lake, "SHOW PARTITIONS db.t") == [("dt=20240725",), ("dt=20240726",)]
    assert rows(lake, "SELECT sys.max_pt('db.t')") == [("20240726",)]
    lake.sql("DELETE FROM db.t WHERE amount > 5")
    lake.sql("UPDATE db.t SET amount = amount + 1 WHERE amount < 6")
    lake.sql(
        "MERGE INTO db.t USING (SELECT '20240726' AS d, 'pear' AS n) s ON dt = d AND name = n "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (dt, name, amount) VALUES ('20240727', n, 1)"
    )
    assert rows(lake, "SELECT * FROM db.t") == [("20240725", "apple", 6), *other, ("20240727", "pear", 1)]
    source = lake.spark.read.format("bucketlake").load(lake.table("db.t").path)
    assert sorted(tuple(row) for row in source.collect()) == rows(lake, "SELECT * FROM db.t")
    with pytest.raises(InvalidError, match="Cannot set 'scan.fallback-branch' = 'no' because the branch 'no'"):
        lake.sql("ALTER TABLE db.t SET TBLPROPERTIES ('scan.fallback-branch' = 'no')")
    lake.sql("ALTER TABLE db.t UNSET TBLPROPERTIES ('scan.fallback-branch')")
    assert rows(lake, "SELECT * FROM db.t") == [("20240725", "apple", 6), ("20240727", "pear", 1)]
