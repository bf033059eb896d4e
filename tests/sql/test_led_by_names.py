"""DELETE and UPDATE behind common table expressions: Spark's grammar has them, and its tables take them."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, ParseException

from bucketlake.errors import InvalidError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

KINDS = {
    "appended": "",
    "keyed": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')",
    "evolving": "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', "
    "'deletion-vectors.enabled' = 'true')",
}


def _rows(lake: Lake) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql("SELECT k, v FROM db.t").collect())


@pytest.mark.parametrize("kind", KINDS)
def test_every_subquery_knows_the_names(classic: Lake, kind: str) -> None:
    """They were an internal error of Spark's, or `Table unknown does not support UPDATE TABLE`."""
    classic.sql(f"CREATE TABLE db.t (k INT, v INT) {KINDS[kind]}")
    classic.sql("INSERT INTO db.t VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (6, 60)")
    classic.sql(
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 2), "
        "low AS (SELECT min(v) AS m FROM db.t) "
        "DELETE FROM db.t WHERE k IN (SELECT n FROM r) AND (v = (SELECT m FROM low) OR 1 = (SELECT 2))"
    )
    assert [row[0] for row in _rows(classic)] == [2, 3, 4, 5, 6]
    before = classic.table("db.t").latest_snapshot().id
    classic.sql(
        "WITH q AS (SELECT 3 AS k, 7 AS w), top AS (SELECT max(v) AS m FROM db.t) /* of all */ "
        "UPDATE db.t AS a SET v = (SELECT m FROM top) + (SELECT w FROM q) WHERE EXISTS (SELECT 1 FROM q WHERE q.k = a.k)"
    )
    assert classic.table("db.t").latest_snapshot().id == before + 1
    assert _rows(classic) == [(2, 20), (3, 67), (4, 40), (5, 50), (6, 60)]
    # Names of a subquery's own hide those before it, and the table is the table, whatever is called like it.
    classic.sql(
        "WITH q AS (SELECT 2 AS k), t AS (SELECT 9 AS k) DELETE FROM db.t "
        "WHERE k IN (WITH q AS (SELECT 4 AS k) SELECT k FROM q WHERE k NOT IN (SELECT k FROM t)) OR k = (FROM q)"
    )
    assert [row[0] for row in _rows(classic)] == [3, 5, 6]
    classic.sql("WITH q AS (SELECT :low AS k) DELETE FROM db.t WHERE k < (SELECT max(k) FROM q)", {"low": 5})
    assert [row[0] for row in _rows(classic)] == [5, 6]
    classic.sql("WITH q AS (SELECT 1) UPDATE db.t SET v = abs(-1) WHERE (k = 5)")
    assert _rows(classic) == [(5, 1), (6, 60)]


def test_partitions_are_dropped_by_names_too(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (k INT, v INT) PARTITIONED BY (v)")
    classic.sql("INSERT INTO db.t VALUES (1, 10), (2, 20), (3, 30)")
    classic.sql("WITH q AS (SELECT v FROM db.t WHERE k = 2) DELETE FROM db.t WHERE v <= (SELECT v FROM q)")
    assert _rows(classic) == [(3, 30)]


def test_errors_point_at_what_was_written(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (k INT, v INT)")
    classic.sql("INSERT INTO db.t VALUES (1, 10)")
    with pytest.raises(AnalysisException, match=r"(?s)`nn`.*line 2, column 39"):
        classic.sql(
            "WITH q AS (SELECT 1 AS n)\nDELETE FROM db.t WHERE k IN (SELECT q.nn FROM q)".replace("q.nn", "  nn")
        )
    with pytest.raises(InvalidError, match="column=49"):
        classic.sql("WITH q AS (SELECT 1 AS n) DELETE FROM db.t WHERE")
    with pytest.raises((ParseException, AnalysisException, InvalidError)):
        classic.sql("WITH q AS (SELECT 1 AS n) DELETE FROM db.nowhere WHERE k IN (SELECT n FROM q)")
    with pytest.raises(AnalysisException):  # a query, whatever its columns are called
        classic.sql("WITH q AS (SELECT 1 AS n) SELECT max(n) UPDATE FROM db.nowhere")
    assert _rows(classic) == [(1, 10)]
