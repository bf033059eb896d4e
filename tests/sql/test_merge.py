"""MERGE INTO, as Paimon's connector has it: what becomes of which rows, on tables of every kind."""

from __future__ import annotations

from itertools import cycle

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import functions as F
from tests.profile import SOAK, first, later
from tests.sql.merges import AFTER_ALL, ALL_CLAUSES, CHANGES, FIVE, NINE, TWO, Row, content, made, view

from bucketlake.errors import BucketlakeError, InvalidError, UnsupportedError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

CASES: list[tuple[str, list[Row], list[Row], str, list[Row]]] = [
    (
        "all clauses in order",
        FIVE,
        NINE,
        ALL_CLAUSES,
        AFTER_ALL,
    ),
    (
        "update",
        TWO,
        CHANGES,
        "WHEN MATCHED THEN UPDATE SET a = source.a, b = source.b, c = source.c",
        [(1, 100, "c11"), (2, 20, "c2")],
    ),
    ("delete", TWO, CHANGES, "WHEN MATCHED THEN DELETE", [(2, 20, "c2")]),
    ("insert", TWO, CHANGES, "WHEN NOT MATCHED THEN INSERT (a, b, c) values (a, b, c)", [*TWO, (3, 300, "c33")]),
    (
        "upsert",
        TWO,
        CHANGES,
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [*CHANGES, (2, 20, "c2")],
    ),
    ("some columns", TWO, CHANGES, "WHEN NOT MATCHED BY TARGET THEN INSERT (a) values (a)", [*TWO, (3, None, None)]),
    (
        "delete and insert",
        TWO,
        CHANGES,
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (c, b, a) values (c, b, a)",
        [(2, 20, "c2"), (3, 300, "c33")],
    ),
    (
        "by condition",
        [*TWO, (3, 30, "c3")],
        CHANGES,
        """WHEN MATCHED AND source.b > 200 THEN UPDATE SET c = source.c, b = source.b WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED THEN INSERT (a, b, c) values (a, b, c)""",
        [(2, 20, "c2"), (3, 300, "c33")],
    ),
    (
        "a case in a condition",
        TWO,
        CHANGES,
        "WHEN MATCHED AND CASE WHEN source.b > 1 THEN t.c ELSE 'x' END = 'c1' THEN UPDATE SET c = 'hit'",
        [(1, 10, "hit"), (2, 20, "c2")],
    ),
    (
        "no row for any clause",
        TWO,
        CHANGES,
        "WHEN MATCHED AND t.c < 'c1' THEN DELETE WHEN NOT MATCHED AND b < 300 THEN INSERT *",
        TWO,
    ),
    (
        "rows of both sides in a value",
        TWO,
        CHANGES,
        """WHEN MATCHED THEN UPDATE SET b = t.b * 11, c = source.c
        WHEN NOT MATCHED THEN INSERT (a, b, c) values (source.a, source.b * 2, source.c)""",
        [(1, 110, "c11"), (2, 20, "c2"), (3, 600, "c33")],
    ),
    ("nothing in the source", TWO, [], "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *", TWO),
    ("nothing in the target", [], CHANGES, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", CHANGES),
    ("nothing at all", [], [], "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", []),
    (
        "rows that only the target has",
        [(1, 10, "c1"), (2, 20, "c2"), (5, 50, "c5")],
        CHANGES,
        """WHEN NOT MATCHED BY SOURCE AND a % 2 = 0 THEN UPDATE SET b = b * 10, t.c = DEFAULT
        WHEN NOT MATCHED BY SOURCE THEN DELETE""",
        [(1, 10, "c1"), (2, 200, None)],
    ),
    (
        "source rows of one key that match nothing to be updated",
        TWO,
        [(7, 1, "x"), (2, 5, "y"), (2, 6, "z")],
        "WHEN MATCHED THEN DELETE",
        [(1, 10, "c1")],
    ),
]


# In `make test` a case meets one kind, in `make soak` half of them a kind of append table too.
KINDS_IN_TURN = ("keyed", "append", "dynamic", "marked", "postpone", "bucketed", "keyed marked")
APPEND_IN_TURN = ("append", "marked", "bucketed")
COVERED = ("update", "delete", "insert", "some columns", "delete and insert")  # by all clauses in order
IN_TURN = sorted(zip(CASES, cycle(KINDS_IN_TURN), strict=False), key=lambda pair: pair[0][0] in COVERED)


@pytest.mark.parametrize(
    ("case", "kind"),
    later(IN_TURN, len(CASES) - len(COVERED))
    + [(case, kind) for case, kind in zip(CASES[1::2], cycle(APPEND_IN_TURN), strict=False) if SOAK],
    ids=lambda item: item if isinstance(item, str) else item[0],
)
def test_what_becomes_of_rows(classic: Lake, case: tuple[str, list[Row], list[Row], str, list[Row]], kind: str) -> None:
    _, target, source, clauses, expected = case
    made(classic, kind, target)
    view(classic, source)
    before = classic.table("db.t").latest_snapshot()
    shown = classic.sql(f"MERGE INTO db.t USING source ON t.a = source.a {clauses}")
    assert shown.collect() == []
    assert content(classic) == sorted(expected, key=repr)
    newest = classic.table("db.t").latest_snapshot()
    if sorted(target, key=repr) == sorted(expected, key=repr):
        assert newest == before
    else:
        assert newest is not None
        made_by = [s for s in classic.table("db.t").snapshots() if before is None or s.id > before.id]
        assert [s.operation for s in made_by if s.commit_kind.value != "COMPACT"] == ["MERGE"]


def test_on_both_kinds_of_session(lake: Lake) -> None:
    made(lake, "append", FIVE)
    view(lake, NINE)
    lake.sql(f"MERGE INTO db.t USING source ON t.a = source.a {CASES[0][3]}")
    assert content(lake) == CASES[0][4]
    made(lake, "keyed", FIVE, name="db.k")
    lake.sql(f"MERGE INTO db.k AS t USING source ON t.a = source.a {CASES[0][3]}")
    assert content(lake, "db.k") == CASES[0][4]


SOURCES = [
    "USING source ON db.t.a = source.a",
    "USING db.s AS source ON source.a = t.a",
    "USING (SELECT a, b, c FROM db.s WHERE a % 2 = 1) AS source ON t.a = source.a",
    "USING (SELECT * FROM source WHERE a < 9) ON t.a = source.a",
    "USING (SELECT * FROM VALUES (1, 100, 'c11'), (3, 300, 'c33') AS x) source (a, b, c) ON (t.a = source.a)",
    "USING (WITH w AS (SELECT * FROM source) SELECT x.a, x.b, w.c FROM db.s x JOIN w ON x.a = w.a) source ON t.a = source.a",
    "USING db.s VERSION AS OF 1 source ON t.a = source.a AND t.b IS NOT NULL",
    "USING db.s /*+ OPTIONS('scan.snapshot-id' = '1') */ source ON t.a = source.a",
]


def test_sources_of_all_kinds(classic: Lake) -> None:
    view(classic, CHANGES)
    made(classic, "append", list(CHANGES), name="db.s")
    expected = [(1, 100, "c11"), (2, 20, "c2"), (3, 300, "c33")]
    for place, using in enumerate(first(SOURCES, 4)):
        made(classic, "keyed" if place % 2 else "marked", TWO)
        clauses = "WHEN MATCHED THEN UPDATE SET b = source.b, c = source.c WHEN NOT MATCHED THEN INSERT *"
        classic.sql(f"MERGE INTO db.t {using} {clauses};")
        assert content(classic) == expected, using
        classic.sql("DROP TABLE db.t")
    made(classic, "append", TWO)
    classic.sql(
        """WITH big AS (SELECT * FROM source), small AS (SELECT * FROM big WHERE a = 1)
        MERGE INTO db.t x USING small s ON x.a = s.a WHEN MATCHED THEN UPDATE SET x.c = upper(s.c)"""
    )
    assert content(classic) == [(1, 10, "C11"), (2, 20, "c2")]


def test_a_table_is_merged_into_itself(classic: Lake) -> None:
    for kind in ("keyed", "append"):
        made(classic, kind, FIVE)
        classic.sql(
            """MERGE INTO db.t USING (SELECT a + 3 AS a, b FROM db.t) AS s ON t.a = s.a
            WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, s.b)
            WHEN NOT MATCHED BY SOURCE AND c = 'c1' THEN DELETE"""
        )
        rows = [(2, 20, "c2"), (3, 30, "c3"), (4, 10, "c4"), (5, 20, "c5"), (6, 30, None), (7, 40, None), (8, 50, None)]
        assert content(classic) == rows
        classic.sql("DROP TABLE db.t")


def test_members_of_rows_are_assigned(classic: Lake) -> None:
    for kind in ("keyed", "append"):
        columns = "a INT, b INT, c STRUCT<c1: STRING, c2: STRUCT<x: INT, y: STRING>>"
        made(classic, kind, [(1, 10, ("x", (1, "y"))), (2, 20, ("x", (2, "y"))), (3, 30, None)], columns)
        view(classic, [(1, 100, "x1", "y1"), (3, 300, "x3", "y3")], "a int, b int, c1 string, c2 string")
        classic.sql(
            """MERGE INTO db.t USING source ON t.a = source.a
            WHEN MATCHED THEN UPDATE SET c.c1 = source.c1, t.c.c2.x = '7'
            WHEN NOT MATCHED BY SOURCE THEN UPDATE SET c.c2.y = "y2" """
        )
        assert content(classic) == [
            (1, 10, ("x1", (7, "y"))),
            (2, 20, ("x", (2, "y2"))),
            (3, 30, ("x3", (7, None))),
        ]
        classic.sql("DROP TABLE db.t")


def test_values_are_cast_and_members_matched_by_name(classic: Lake) -> None:
    made(classic, "append", [(1, 1, None)], "a INT, b INT, c MAP<STRING, STRUCT<x: INT, y: STRING>>")
    view(
        classic,
        [(1, "111", {"k": ("u", 10)}), (2, "222", None)],
        "a long, b string, c map<string, struct<Y: string, X: int>>",
    )
    classic.sql(
        "MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert [(row[0], row[1], row[2] and dict(row[2])) for row in content(classic)] == [
        (1, 111, {"k": (10, "u")}),
        (2, 222, None),
    ]
    view(classic, [(1, "one")], "a int, b string")
    with pytest.raises(SparkRuntimeException, match="does not fit"):
        classic.sql(
            "MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET b = source.b"
        ).collect()


def test_defaults_of_columns_that_are_left_out(classic: Lake) -> None:
    made(classic, "keyed", TWO, "a INT, b INT DEFAULT 6, c STRING DEFAULT 'test'")
    view(classic, CHANGES)
    classic.sql(
        """MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET b = DEFAULT
        WHEN NOT MATCHED THEN INSERT (a, c) values (a, DEFAULT)"""
    )
    assert content(classic) == [(1, 6, "c1"), (2, 20, "c2"), (3, 6, "test")]


@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_a_row_that_several_source_rows_match(classic: Lake, kind: str) -> None:
    made(classic, kind, TWO)
    view(classic, [(1, 100, "c11"), (1, 1000, "c111"), (3, 300, "c33"), (3, 301, "c34")])
    before = classic.table("db.t").latest_snapshot()
    for clauses in (
        "WHEN MATCHED THEN UPDATE SET b = source.b WHEN NOT MATCHED THEN INSERT *",
        "WHEN MATCHED AND source.b > 100 THEN DELETE",
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    ):
        with pytest.raises(InvalidError, match="MERGE_CARDINALITY_VIOLATION"):
            classic.sql(f"MERGE INTO db.t USING source ON t.a = source.a {clauses}")
    assert classic.table("db.t").latest_snapshot() == before
    classic.sql("MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN DELETE")
    assert content(classic) == [(2, 20, "c2")]


ERRORS: list[tuple[str, type[Exception], str]] = [
    (
        "WHEN MATCHED THEN UPDATE SET a = source.a, b = source.b, b = source.c",
        InvalidError,
        "Multiple assignments for 'b'",
    ),
    ("WHEN NOT MATCHED THEN INSERT (a, a, c) VALUES (a, b, c)", InvalidError, "Multiple assignments for 'a'"),
    ("WHEN NOT MATCHED THEN INSERT (a, b) VALUES (a)", InvalidError, "2 columns and gives 1"),
    ("WHEN NOT MATCHED THEN INSERT (a, nope) VALUES (a, b)", InvalidError, "nope"),
    ("WHEN NOT MATCHED THEN INSERT (a) VALUES (t.a)", AnalysisException, "t.`?\\.?`?a"),
    ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = source.b", AnalysisException, "source"),
    ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", InvalidError, "needs a source row"),
    ("WHEN MATCHED AND t.nope <=> source.b THEN DELETE", AnalysisException, "nope"),
    ("WHEN MATCHED AND b > 1 THEN DELETE", AnalysisException, "AMBIGUOUS"),
    ("WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *", InvalidError, "only the last WHEN MATCHED"),
    ("WHEN MATCHED THEN UPDATE SET b = (SELECT max(b) FROM source)", UnsupportedError, "subquery"),
    ("AND t.a IN (SELECT a FROM source) WHEN MATCHED THEN DELETE", UnsupportedError, "subquery"),
    ("AND t.a IN (TABLE source) WHEN MATCHED THEN DELETE", UnsupportedError, "subquery"),
    ("WHEN MATCHED THEN INSERT *", InvalidError, "expected UPDATE"),
    ("WHEN MATCHED THEN DELETE nonsense", InvalidError, "expected WHEN"),
    ("", InvalidError, "WHEN"),
]


def test_what_is_refused(classic: Lake) -> None:
    view(classic, CHANGES)
    for name in ("keyed", "append"):
        made(classic, name, TWO, name=f"db.{name}")
        before = classic.table(f"db.{name}").latest_snapshot()
        for clauses, error, message in ERRORS:
            with pytest.raises(error, match=message):
                classic.sql(f"MERGE INTO db.{name} t USING source ON t.a = source.a {clauses}")
        view(classic, [(1, "c11")], "a int, c string", "narrow")
        for clause in ("WHEN MATCHED THEN UPDATE SET *", "WHEN NOT MATCHED THEN INSERT *"):
            with pytest.raises(InvalidError, match="target column 'b': source is missing"):
                classic.sql(f"MERGE INTO db.{name} t USING narrow s ON t.a = s.a {clause}")
        with pytest.raises(InvalidError, match="one name"):
            classic.sql(f"MERGE INTO db.{name} USING db.{name} ON true WHEN MATCHED THEN DELETE")
        assert classic.table(f"db.{name}").latest_snapshot() == before
    classic.sql("CREATE TABLE db.f (a INT, b INT) TBLPROPERTIES ('primary-key' = 'a', 'merge-engine' = 'first-row')")
    with pytest.raises(UnsupportedError, match="first-row can not support MergeInto"):
        classic.sql("MERGE INTO db.f USING source ON f.a = source.a WHEN MATCHED THEN UPDATE SET b = 1")


def test_the_primary_key_stays(classic: Lake) -> None:
    made(classic, "keyed", TWO)
    view(classic, [(101, 10, "c111"), (103, 30, "c333")])
    with pytest.raises(InvalidError, match="Can't update the primary key column"):
        classic.sql("MERGE INTO db.t USING source ON t.b = source.b WHEN MATCHED THEN UPDATE SET a = source.a")
    with pytest.raises(InvalidError, match="Can't update the primary key column"):
        classic.sql("MERGE INTO db.t USING source ON t.a = source.a WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = 7")
    view(classic, [(1, 10, "c111"), (103, 30, "c333")])
    with pytest.raises(SparkRuntimeException, match="Can't update the primary key column"):
        classic.sql("MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET a = source.b")
    classic.sql(
        """MERGE INTO db.t USING source ON t.b = source.b
        WHEN MATCHED THEN UPDATE SET c = source.c, a = t.a WHEN NOT MATCHED THEN INSERT *"""
    )
    assert content(classic) == [(1, 10, "c111"), (103, 30, "c333"), (2, 20, "c2")]


@pytest.mark.parametrize(
    "on",
    [
        "t.a = s.a AND t.b BETWEEN 5 AND 15",
        "(t.b = 10 OR t.b = s.b) AND s.a = t.a",
        "(t.a = s.a AND (t.b NOT BETWEEN 15 AND 25 AND (s.b > 0 OR s.b IS NULL)))",
    ],
)
def test_a_key_is_compared_beside_ranges_and_alternatives(classic: Lake, on: str) -> None:
    made(classic, "keyed", TWO)
    view(classic, [(1, 11, "n1"), (2, 21, "n2")])
    classic.sql(f"MERGE INTO db.t USING source s ON {on} WHEN MATCHED THEN UPDATE SET *")
    assert content(classic) == [(1, 11, "n1"), (2, 20, "c2")]


def test_rows_move_to_other_partitions(classic: Lake) -> None:
    for more, partitions in (("'bucket' = '-1', 'primary-key' = 'a'", "dt"), ("'bucket' = '-1'", "dt")):
        classic.sql(f"CREATE TABLE db.p (a INT, b INT, dt STRING) PARTITIONED BY ({partitions}) TBLPROPERTIES ({more})")
        classic.sql("INSERT INTO db.p VALUES (1, 10, 'x'), (2, 20, 'x'), (3, 30, 'y')")
        view(classic, [(1, "y"), (3, "z"), (4, "x")], "a int, dt string")
        classic.sql(
            """MERGE INTO db.p t USING source s ON t.a = s.a WHEN MATCHED THEN UPDATE SET dt = s.dt
            WHEN NOT MATCHED THEN INSERT (a, dt) VALUES (s.a, s.dt)"""
        )
        assert content(classic, "db.p") == [(1, 10, "y"), (2, 20, "x"), (3, 30, "z"), (4, None, "x")]
        classic.sql("DROP TABLE db.p")


def test_rows_that_no_source_row_can_match_are_still_not_matched_by_it(classic: Lake) -> None:
    classic.sql(
        "CREATE TABLE db.p (a INT, b INT, c STRING, pt STRING) PARTITIONED BY (pt) "
        "TBLPROPERTIES ('primary-key' = 'a,pt', 'bucket' = '1')"
    )
    classic.sql(
        "INSERT INTO db.p VALUES (1, 10, 'c1', 'p1'), (2, 20, 'c2', 'p1'), (3, 30, 'c3', 'p2'), (4, 40, 'c4', 'p2')"
    )
    view(classic, [(1, 100)], "a int, b int")
    classic.sql(
        """MERGE INTO db.p t USING source s ON t.a = s.a AND t.pt = 'p1' WHEN MATCHED THEN UPDATE SET t.b = s.b
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.c = 'stale'"""
    )
    stale = [(2, 20, "stale", "p1"), (3, 30, "stale", "p2"), (4, 40, "stale", "p2")]
    assert content(classic, "db.p") == [(1, 100, "c1", "p1"), *stale]


def test_errors_are_known(classic: Lake) -> None:
    with pytest.raises(BucketlakeError):
        classic.sql("MERGE INTO db.nowhere USING source ON true WHEN MATCHED THEN DELETE")


def test_values_know_no_other_values(classic: Lake) -> None:
    """`v0` was what the statement gives a column of that name: its place in our own list."""
    classic.sql("CREATE TABLE db.t (k INT, v0 INT, v1 INT)")
    source = "(SELECT 1 AS k, 5 AS x)"
    for value in ("v0 + 1", "v1 + 1"):
        with pytest.raises(InvalidError, match="UNRESOLVED_COLUMN"):
            classic.sql(
                f"MERGE INTO db.t USING {source} s ON t.k = s.k "
                f"WHEN NOT MATCHED THEN INSERT (k, v0, v1) VALUES (s.k, s.x, {value})"
            )
    with pytest.raises(AnalysisException, match='expression "x" of type "INT" is not a boolean'):
        classic.sql(f"MERGE INTO db.t USING {source} s ON t.k = s.k WHEN MATCHED AND s.x THEN DELETE")
    assert classic.table("db.t").latest_snapshot() is None


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_merge_sees_one_time(kind: str, lake: Lake) -> None:
    """Each clause took its own, and the source, since Spark plans several queries."""
    options = {"append": "", "keyed": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')"}[kind]
    lake.sql(f"CREATE TABLE db.t (k INT, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, now STRING) {options}")
    lake.sql("INSERT INTO db.t (k, now) VALUES (1, 'column')")
    lake.sql("""
        MERGE INTO db.t USING (SELECT explode(array(1, 2)) AS k, 'now()' AS now, now(), current_timestamp AS at) s
        ON t.k = s.k AND s.at = now()
        WHEN MATCHED AND current_timestamp = s.`now()` THEN
          UPDATE SET at = s.at, local = localtimestamp(), day = current_date(), now = concat(t.now, s.now)
        WHEN NOT MATCHED THEN INSERT (k, at, local, day, now) VALUES (s.k, now(), localtimestamp, CURDATE(), s.now)""")
    one = "count(DISTINCT at) = 1 AND count(DISTINCT local) = 1 AND count(DISTINCT day) = 1"
    late = "abs(unix_micros(max(at)) - unix_micros(current_timestamp())) < 600000000"
    near = f"{late} AND max(local) = CAST(max(at) AS TIMESTAMP_NTZ)"
    found = lake.sql(f"SELECT {one}, {near} AND max(day) = CAST(max(at) AS DATE), collect_set(now) FROM db.t").collect()
    assert [(one, near, sorted(names)) for one, near, names in found] == [(True, True, ["columnnow()", "now()"])]


def test_what_is_called_like_a_word_is_that(lake: Lake) -> None:
    """DEFAULT was the column's default beside a column of that name, which Spark takes."""
    lake.sql("CREATE TABLE db.t (k INT, v INT DEFAULT 7, `default` INT, w STRING)")
    lake.sql("INSERT INTO db.t VALUES (1, 10, 100, ''), (2, 20, 200, ''), (3, 30, 300, '')")
    lake.sql("UPDATE db.t SET v = default WHERE k < 3")
    lake.sql("UPDATE db.t SET v = DEFAULT + 1 WHERE k = 2")
    lake.sql("""
        MERGE INTO db.t USING (SELECT explode(array(2, 4)) AS k, 'day' AS current_date, 'now' AS now) s ON t.k = s.k
        WHEN MATCHED THEN UPDATE SET w = current_date || now
        WHEN NOT MATCHED THEN INSERT (k, v, w) VALUES (k, DEFAULT, s.now)
        WHEN NOT MATCHED BY SOURCE AND k = 3 THEN UPDATE SET v = default""")
    lake.sql("""
        MERGE INTO db.t USING (SELECT k, current_date AS day FROM (SELECT 1 AS k, 'day' AS current_date)) s ON t.k = s.k
        WHEN MATCHED THEN UPDATE SET w = s.day""")
    lake.sql("""
        MERGE INTO db.t USING (SELECT 5 AS k, 50 AS default) ON t.k = 5
        WHEN NOT MATCHED THEN INSERT (k, v) VALUES (k, default)""")
    assert sorted(map(tuple, lake.sql("SELECT * FROM db.t").collect())) == [
        (1, 100, 100, "day"),
        (2, 201, 200, "daynow"),
        (3, 300, 300, ""),
        (4, 7, None, "now"),
        (5, 50, None, None),
    ]


def test_a_merge_of_columns_sees_one_time(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (k INT, at TIMESTAMP, seconds BIGINT)")
    lake.sql("INSERT INTO db.t (k) VALUES (1)")
    values = {"k": "s.k", "at": F.current_timestamp(), "seconds": "unix_timestamp()"}
    merge = lake.table("db.t").merge(lake.sql("SELECT explode(array(1, 2)) AS k"), "t.k = s.k", source_alias="s")
    merge.whenMatched().update(values).whenNotMatched().insert(values).merge()
    found = lake.sql("SELECT count(*), count(DISTINCT at), every(seconds = unix_seconds(at)) FROM db.t").collect()
    assert found == [(2, 1, True)]
