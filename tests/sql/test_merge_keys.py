"""MERGE where keys are equal to Spark and yet differ in their bytes."""

from __future__ import annotations

import pytest

from bucketlake import Lake

UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
ONE_COLUMN = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("clauses", [UPSERT, ONE_COLUMN])
def test_a_negative_zero_meets_the_row_of_zero(classic: Lake, kind: str, clauses: str) -> None:
    classic.sql("CREATE DATABASE IF NOT EXISTS db")
    classic.sql(f"CREATE TABLE db.t (k {kind}, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    classic.sql("INSERT INTO db.t VALUES (0.0, 'a'), (1.0, 'b')")
    source = f"SELECT CAST('-0.0' AS {kind}) AS k, 'z' AS v UNION ALL SELECT CAST('NaN' AS {kind}), 'n'"
    for _ in range(2):
        classic.sql(f"MERGE INTO db.t t USING ({source}) s ON t.k = s.k {clauses}")
    rows = {str(row.k): row.v for row in classic.sql("SELECT * FROM db.t").collect()}
    assert rows == {"0.0": "z", "1.0": "b", "nan": "n"}


def test_padded_keys_of_a_source_are_one_row(classic: Lake) -> None:
    classic.sql("CREATE DATABASE IF NOT EXISTS db")
    classic.sql("CREATE TABLE db.t (k CHAR(4), v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    classic.sql("INSERT INTO db.t VALUES ('ab', 1)")
    classic.sql(f"MERGE INTO db.t t USING (SELECT 'ab' AS k, 2 AS v) s ON t.k = s.k {UPSERT}")
    assert [(row.k, row.v) for row in classic.sql("SELECT * FROM db.t").collect()] == [("ab  ", 2)]
