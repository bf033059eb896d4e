"""MERGE where keys are equal to Spark and yet differ in their bytes."""

from __future__ import annotations

import pytest
from tests.profile import later

from bucketlake import Lake
from bucketlake.spark.merge import held, pruning
from bucketlake.spark.read import reader

UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
ONE_COLUMN = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"


@pytest.mark.parametrize("kind", later(["DOUBLE", "FLOAT"], 1))
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


@pytest.mark.parametrize("few", later([True, False], 1), ids=["driver", "tasks"])
def test_both_zeros_are_keys_of_their_own(classic: Lake, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes them for equal, in conditions, groups and joins; rows lie under one of them each."""
    if not few:
        monkeypatch.setattr(held, "FEW_ROWS", 0)
        monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    classic.sql("CREATE DATABASE IF NOT EXISTS db")
    zeros = "VALUES (CAST('0.0' AS DOUBLE), 'a'), (CAST('-0.0' AS DOUBLE), 'b'), (1.0D, 'c')"

    def left(name: str, merge: str) -> list[tuple[str, str]]:
        classic.sql(f"CREATE TABLE db.{name} (k DOUBLE, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
        classic.sql(f"INSERT INTO db.{name} {zeros}")
        classic.sql(f"MERGE INTO db.{name} t USING {merge}")
        return sorted((str(row.k), row.v) for row in classic.sql(f"SELECT * FROM db.{name}").collect())

    twice = "(SELECT 0.0D k UNION ALL SELECT 0.0D) s ON t.k = s.k WHEN MATCHED THEN DELETE"
    assert left("gone", twice) == [("1.0", "c")]
    once = "(SELECT 0.0D k, 'z' v) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v"
    assert left("changed", once) == [("-0.0", "z"), ("0.0", "z"), ("1.0", "c")]
    other = """(SELECT CAST('-0.0' AS DOUBLE) k, 'z' v, 'a' w) s ON t.v = s.w
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"""
    assert left("replaced", other) == [("-0.0", "b"), ("1.0", "c")]
    new = """(VALUES (CAST('-0.0' AS DOUBLE), 'z', 'none'), (9.0D, 'y', 'a')) s(k, v, w) ON t.v = s.w
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"""
    assert left("beside", new) == [("-0.0", "z"), ("1.0", "c")]


@pytest.mark.parametrize("most", [200, 1], ids=["list", "range"])
def test_a_source_may_have_wider_integers(classic: Lake, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "MOST_VALUES", most)
    classic.sql("CREATE TABLE db.t (k SMALLINT, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    classic.sql("INSERT INTO db.t VALUES (1, 1), (32767, 2)")
    source = "VALUES (1L, 10), (2147483648L, 20), (-40000L, 30)"
    changed = "WHEN MATCHED THEN UPDATE SET v = s.v"
    classic.sql(f"MERGE INTO db.t t USING ({source}) s(k, v) ON t.k = s.k {changed}")
    classic.sql(f"MERGE INTO db.t t USING (SELECT 40000 k, 9 v) s ON t.k = s.k {changed}")
    assert sorted(tuple(row) for row in classic.sql("SELECT * FROM db.t").collect()) == [(1, 10), (32767, 2)]
