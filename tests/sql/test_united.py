"""Tables whose rows Spark reads by several scans, under subqueries that name a row outside."""

from __future__ import annotations

import pytest

from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

SCALAR = "(SELECT max(y.v) FROM db.t y WHERE y.k = x.k + 1)"


def rows(lake: Lake, statement: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql(statement).collect())


def evolved(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (k INT, v SMALLINT)")
    lake.sql("INSERT INTO db.t VALUES (1, 10), (2, 20)")
    lake.sql("ALTER TABLE db.t ALTER COLUMN v TYPE INT")
    lake.sql("INSERT INTO db.t VALUES (3, 30)")


def fallen_back(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (k INT, v INT) PARTITIONED BY (k)")
    lake.sql("CALL sys.create_branch('db.t', 'b')")
    lake.sql("ALTER TABLE db.t SET TBLPROPERTIES ('scan.fallback-branch' = 'b')")
    lake.sql("INSERT INTO db.t VALUES (1, 10), (2, 20)")
    lake.sql("INSERT INTO db.`t$branch_b` VALUES (3, 30)")


@pytest.mark.parametrize("made", [evolved, fallen_back])
def test_a_subquery_in_the_list_names_the_row_outside(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, made: object
) -> None:
    """Spark's own union under such a list fails: NoSuchElementException."""
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    assert callable(made)
    made(classic)
    after = [(1, 20), (2, 30), (3, None)]
    assert rows(classic, f"SELECT k, {SCALAR} FROM db.t x") == after
    hidden = rows(classic, f"SELECT k, {SCALAR}, x.__paimon_bucket >= 0 FROM db.t x")
    assert hidden == [(k, v, True) for k, v in after]
    counted = "SELECT k, (SELECT count(*) FROM db.t y WHERE y.k > x.k) FROM db.t x WHERE v > 5"
    assert rows(classic, counted) == [(1, 2), (2, 1), (3, 0)]
    if made is evolved:
        classic.sql(f"UPDATE db.t x SET v = {SCALAR}")
        assert rows(classic, "SELECT * FROM db.t") == after


PREDICATES = {
    "EXISTS (SELECT 1 FROM db.u y WHERE y.k = x.k + 1 AND y.v > 5)": [(1, True), (2, True), (3, False)],
    "x.v IN (SELECT y.v FROM db.u y WHERE y.k < x.k + 1)": [(1, True), (2, True), (3, True)],
    "CASE WHEN NOT EXISTS (SELECT 1 FROM db.u y WHERE y.k = x.k + 1) THEN 1 END": [(1, None), (2, None), (3, 1)],
}


@pytest.mark.parametrize("made", [evolved, fallen_back])
@pytest.mark.parametrize("predicate", PREDICATES)
def test_a_predicate_in_the_list_names_the_row_outside(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, made: object, predicate: str
) -> None:
    """These are joins in Spark's last rules only."""
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    assert callable(made)
    made(classic)
    classic.sql("CREATE TABLE db.u AS SELECT k, v FROM db.t")
    listed = PREDICATES[predicate]
    assert rows(classic, f"SELECT k, {predicate} FROM db.t x") == listed
    assert rows(classic, f"FROM db.t AS x |> EXTEND {predicate} AS e |> SELECT k, e") == listed
    assert rows(classic, f"SELECT k, count({predicate}) FROM db.t x GROUP BY k") == [
        (k, 0 if found is None else 1) for k, found in listed
    ]
    if made is evolved:
        classic.sql(f"UPDATE db.t x SET v = CAST({predicate} AS INT)")
        assert rows(classic, "SELECT k, v FROM db.t") == [
            (k, None if found is None else int(found)) for k, found in listed
        ]
