"""Columns behind their table's database, where more than one thing has the table's last name."""

from __future__ import annotations

import pytest

from bucketlake.errors import InvalidError
from bucketlake.spark.raised import StatementError
from bucketlake.spark.session import Lake

EVERY = [(1, "a"), (2, "b"), (3, "c")]
OTHER = [(2, "B"), (9, "Z")]
FEW = "(SELECT 2 AS k, 'cte' AS v)"


def rows(lake: Lake, statement: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql(statement).collect())


@pytest.fixture
def twins(lake: Lake) -> Lake:
    """`db.t` and `other.t`."""
    lake.sql("CREATE DATABASE other")
    for name, held in (("db.t", EVERY), ("other.t", OTHER)):
        lake.sql(f"CREATE TABLE {name} (k INT, v STRING)")
        lake.sql(f"INSERT INTO {name} VALUES {', '.join(map(repr, held))}")
    lake.sql("ALTER TABLE db.t ADD COLUMN s STRUCT<m: STRUCT<n: INT>>")
    lake.sql("ALTER TABLE other.t ADD COLUMN only INT")
    return lake


QUERIES = [
    ("SELECT db.t.k FROM db.t WHERE EXISTS (SELECT 1 FROM other.t WHERE other.t.k = db.t.k)", [(2,)]),
    ("SELECT t.k FROM db.t WHERE EXISTS (SELECT 1 FROM other.t AS t WHERE t.k = db.t.k)", [(2,)]),
    ("SELECT t.k FROM db.t WHERE NOT EXISTS (SELECT 1 FROM other.t WHERE t.k = db.t.k)", [(1,), (3,)]),
    ("SELECT k FROM db.t WHERE EXISTS (SELECT 1 FROM other.t WHERE t.s IS NULL AND other.t.k = 9)", [(1,), (2,), (3,)]),
    (
        "SELECT k, (SELECT max(other.t.v) FROM other.t WHERE other.t.k = DB.T.k) FROM db.t WHERE k > 1",
        [(2, "B"), (3, None)],
    ),
    ("SELECT db.t.k, other.t.v FROM db.t JOIN other.t ON db.t.k = other.t.k", [(2, "B")]),
    ("SELECT other.t.* FROM db.t JOIN other.t USING (k)", [(2, "B", None)]),
    ("SELECT x.k FROM (SELECT db.t.k FROM db.t) x JOIN other.t ON x.k = other.t.k AND t.only IS NULL", [(2,)]),
    (f"WITH t AS {FEW} SELECT db.t.v, t.v FROM db.t JOIN t ON db.t.k = t.k", [("b", "cte")]),
    ("SELECT db.t.v, l.v FROM db.t, LATERAL (SELECT other.t.v FROM other.t WHERE other.t.k = db.t.k) l", [("b", "B")]),
    ("SELECT other.t.k FROM other.t WHERE other.t.k IN (SELECT t.k FROM db.t WHERE db.t.v <> other.t.v)", [(2,)]),
    ("SELECT db.t.s.m.n, db.t.s.m FROM db.t WHERE db.t.k = 1", [(None, None)]),
    ("SELECT paimon.db.t.k, paimon.other.t.k FROM db.t, other.t WHERE paimon.db.t.k = other.t.k", [(2, 2)]),
    ("FROM db.t |> WHERE db.t.k = 1 |> SELECT db.t.v", [("a",)]),
]


@pytest.mark.parametrize(("statement", "expected"), QUERIES)
def test_each_name_means_its_own_table(twins: Lake, statement: str, expected: list[tuple[object, ...]]) -> None:
    """Each of two tables of one name was the nearer one's: `other.t.k = db.t.k` was true of every row."""
    assert rows(twins, statement) == expected


def test_changes_look_at_the_other_table(twins: Lake) -> None:
    twins.sql("UPDATE db.t SET v = (SELECT max(other.t.v) FROM other.t WHERE other.t.k = db.t.k) WHERE db.t.k > 1")
    assert rows(twins, "SELECT k, v FROM db.t") == [(1, "a"), (2, "B"), (3, None)]
    twins.sql("DELETE FROM db.t WHERE NOT EXISTS (SELECT 1 FROM other.t WHERE other.t.k = db.t.k)")
    assert rows(twins, "SELECT k, v FROM db.t") == [(2, "B")]


MERGES = [
    ("ON db.t.k = other.t.k WHEN MATCHED THEN DELETE", [(1, "a"), (3, "c")]),
    (
        "ON `db`.`t`.k = `other`.`t`.k WHEN MATCHED THEN UPDATE SET t.v = db.t.v || other.t.v "
        "WHEN NOT MATCHED AND other.t.only IS NULL THEN INSERT (k, v) VALUES (other.t.k, other . t.v) "
        "WHEN NOT MATCHED BY SOURCE AND db.t.k = 1 THEN DELETE",
        [(2, "bB"), (3, "c"), (9, "Z")],
    ),
    (
        "ON db.t.k = other\n.\nt.k WHEN MATCHED THEN UPDATE SET v = other.t.v",
        [(1, "a"), (2, "B"), (3, "c")],
    ),
    (
        "ON db.t.k = other.t.k - 1 WHEN MATCHED AND db.t.s.m.n IS NULL THEN UPDATE SET db.t.v = 'x'",
        [(1, "x"), *EVERY[1:]],
    ),
]


@pytest.mark.parametrize(("clauses", "expected"), MERGES)
@pytest.mark.parametrize(
    "into", ["MERGE INTO db.t USING other.t", "MERGE INTO paimon.db.t USING t", "MERGE INTO db.t USING paimon.other.t"]
)
def test_a_table_merges_with_its_namesake(
    twins: Lake, into: str, clauses: str, expected: list[tuple[object, ...]]
) -> None:
    twins.sql("USE other")
    twins.sql(f"{into} {clauses}")
    assert rows(twins, "SELECT k, v FROM db.t") == expected
    assert rows(twins, "SELECT k, v FROM other.t") == OTHER


def test_a_name_that_means_either_table_is_refused(twins: Lake) -> None:
    for clauses in (
        "ON t.k = other.t.k WHEN MATCHED THEN DELETE",
        "ON db.t.k = other.t.k WHEN MATCHED AND t.v = 'b' THEN DELETE",
        "ON db.t.k = other.t.k WHEN MATCHED THEN UPDATE SET v = upper(t.v)",
    ):
        with pytest.raises(InvalidError, match="target and source have one name"):
            twins.sql(f"MERGE INTO db.t USING other.t {clauses}")
    with pytest.raises(StatementError, match=r"`other_t`.`w` cannot be resolved(.|\n)*line 2, column 13:"):
        twins.sql("MERGE INTO db.t USING other.t\nON db.t.k = other.t.w WHEN MATCHED THEN DELETE")
    assert rows(twins, "SELECT k, v FROM db.t") == EVERY


def test_bare_names_have_their_database(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k')")
    lake.sql("CREATE TABLE db.s (k INT, w STRING)")
    lake.sql("INSERT INTO db.t VALUES (1, 'a')")
    lake.sql("INSERT INTO db.s VALUES (1, 'b'), (2, 'c')")
    lake.sql("USE db")
    lake.sql(
        "MERGE INTO t USING s ON t.k = db.s.k AND db.t.k > 0 WHEN MATCHED THEN UPDATE SET db.t.v = db.t.v || db.s.w "
        "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (db.s.k, s.w)"
    )
    assert rows(lake, "SELECT * FROM t") == [(1, "ab"), (2, "c")]
    lake.sql("UPDATE t SET db.t.v = (SELECT max(w) FROM s WHERE db.s.k = db.t.k) WHERE db.t.k = 1")
    assert rows(lake, "FROM t VERSION AS OF 1 |> SELECT db.t.v |> WHERE v = 'a'") == [("a",)]
    assert rows(lake, "SELECT v FROM t") == [("b",), ("c",)]
