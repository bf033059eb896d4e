"""MERGE INTO, as Paimon's connector has it: what becomes of which rows, on tables of every kind."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from tests.profile import SOAK, first

from bucketlake.errors import BucketlakeError, ConflictError, InvalidError, UnsupportedError
from bucketlake.ops.commit.commit import Commit
from bucketlake.spark.merge import held
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake
from bucketlake.spark.write import tasks

pytestmark = pytest.mark.spark

Row = tuple[object, ...]
KINDS = {
    "keyed": "'primary-key' = 'a', 'bucket' = '2'",
    "append": "'bucket' = '-1'",
    "dynamic": "'primary-key' = 'a', 'bucket' = '-1'",
    "marked": "'deletion-vectors.enabled' = 'true'",
    "postpone": "'primary-key' = 'a', 'bucket' = '-2'",
    "bucketed": "'bucket' = '2', 'bucket-key' = 'a'",
    "keyed marked": "'primary-key' = 'a', 'bucket' = '1', 'deletion-vectors.enabled' = 'true'",
}
TWO = [(1, 10, "c1"), (2, 20, "c2")]
FIVE = [(1, 10, "c1"), (2, 20, "c2"), (3, 30, "c3"), (4, 40, "c4"), (5, 50, "c5")]
CHANGES = [(1, 100, "c11"), (3, 300, "c33")]
NINE = [(1, 100, "c11"), (3, 300, "c33"), (5, 500, "c55"), (7, 700, "c77"), (9, 900, "c99")]


def content(lake: Lake, table: str = "db.t") -> list[Row]:
    return sorted((tuple(row) for row in lake.sql(f"SELECT * FROM {table}").collect()), key=repr)


def made(
    lake: Lake, kind: str, rows: list[Row] | None = None, columns: str = "a INT, b INT, c STRING", name: str = "db.t"
) -> None:
    lake.sql(f"CREATE TABLE {name} ({columns}) TBLPROPERTIES ({KINDS[kind]})")
    if rows:
        lake.table(name).write(lake.spark.createDataFrame(rows, lake.table(name).read().schema))


def view(lake: Lake, rows: list[Row], columns: str = "a int, b int, c string", name: str = "source") -> None:
    lake.spark.createDataFrame(rows, columns).createOrReplaceTempView(name)


CASES: list[tuple[str, list[Row], list[Row], str, list[Row]]] = [
    (
        "all clauses in order",
        FIVE,
        NINE,
        """
        WHEN MATCHED AND t.a = 5 THEN UPDATE SET b = source.b + t.b
        WHEN MATCHED AND source.c > 'c2' THEN UPDATE SET *
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND c > 'c9' THEN INSERT (a, b, c) VALUES (a, b * 1.1, c)
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND a = 2 THEN UPDATE SET b = b * 10
        WHEN NOT MATCHED BY SOURCE THEN DELETE
        """,
        [(2, 200, "c2"), (3, 300, "c33"), (5, 550, "c5"), (7, 700, "c77"), (9, 990, "c99")],
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


@pytest.mark.parametrize(
    ("case", "kind"),
    [(case, kind) for case, kind in zip(CASES, cycle(KINDS_IN_TURN), strict=False)]
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
    for place, using in enumerate(SOURCES):
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


def test_an_upsert_reads_nothing_of_the_table(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made(classic, "keyed", TWO)
    view(classic, CHANGES)

    def refuse(*_: object) -> None:
        raise AssertionError("the table was read")

    monkeypatch.setattr(reader, "pruned", refuse)
    upsert = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    classic.sql(f"MERGE INTO db.t USING (SELECT * FROM source) s ON s.a = t.a {upsert}")
    others = [
        "MERGE INTO db.t USING source s ON s.a = t.a AND s.b > t.b " + upsert,
        "MERGE INTO db.t USING (SELECT a + 0L AS a, b, c FROM source) s ON s.a = t.a " + upsert,
        "MERGE INTO db.t USING (SELECT * FROM source UNION ALL SELECT 1, 2, 'x') s ON s.a = t.a " + upsert,
        "MERGE INTO db.t USING (SELECT nullif(a, 3) a, b, c FROM source) s ON s.a = t.a " + upsert,
        "MERGE INTO db.t USING source s ON s.a = t.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND b > 0 THEN INSERT *",
        "MERGE INTO db.t USING source s ON s.a = t.a WHEN MATCHED THEN UPDATE SET *",
        "MERGE INTO db.t USING source s ON s.b = t.b WHEN NOT MATCHED THEN INSERT *",
    ]
    for statement in others:
        with pytest.raises(AssertionError, match="was read"):
            classic.sql(statement)
    monkeypatch.undo()
    assert content(classic) == [(1, 100, "c11"), (2, 20, "c2"), (3, 300, "c33")]


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


def test_files_that_cannot_match_are_not_opened(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("keyed", "append"):
        columns = "CREATE TABLE db.p (a INT, b INT, pt STRING) PARTITIONED BY (pt) TBLPROPERTIES "
        more = "('primary-key' = 'a,pt', 'bucket' = '1')" if kind == "keyed" else "('bucket' = '-1')"
        classic.sql(columns + more)
        classic.sql("INSERT INTO db.p VALUES (1, 10, 'p1'), (2, 20, 'p2'), (3, 30, 'p3')")
        table = classic.table("db.p").table
        for file in table.files("pt = 'p2'"):
            (table.store.env.storage).delete(file.path)
        view(classic, [(1, 100, "p1"), (3, 300, "p3")], "a int, b int, pt string")
        on = "t.a = s.a AND t.pt = s.pt" if kind == "keyed" else "t.a = s.a AND t.pt IN ('p1', 'p3')"
        classic.sql(f"MERGE INTO db.p t USING source s ON {on} WHEN MATCHED THEN UPDATE SET b = s.b")
        rows = classic.sql("SELECT a, b FROM db.p WHERE pt <> 'p2'").collect()
        assert sorted(tuple(row) for row in rows) == [(1, 100), (3, 300)]
        classic.sql("DROP TABLE db.p")


def test_a_source_made_by_chance_is_evaluated_once(classic: Lake) -> None:
    for kind in ("keyed", "append"):
        made(classic, kind, [(number, 0, "old") for number in range(50)])
        classic.sql(
            """MERGE INTO db.t USING (SELECT id AS a, rand() AS r FROM range(100) WHERE rand() < 0.5) s ON t.a = s.a
            WHEN MATCHED AND r >= 0 THEN UPDATE SET c = 'seen' WHEN NOT MATCHED THEN INSERT (a, c) VALUES (s.a, 'new')
            WHEN NOT MATCHED BY SOURCE THEN UPDATE SET c = 'unseen'"""
        )
        rows = classic.sql("SELECT c, count(*), count(DISTINCT a), min(a), max(a) FROM db.t GROUP BY c").collect()
        counts = {row[0]: row[1] for row in rows}
        assert "old" not in counts and counts["seen"] + counts["unseen"] == 50 and all(row[1] == row[2] for row in rows)
        classic.sql("DROP TABLE db.t")


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is small enough for the driver."""
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    monkeypatch.setattr(reader, "SMALL_BYTES", 0)
    monkeypatch.setattr(held, "FEW_ROWS", 0)
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    yield


@pytest.mark.parametrize("kind", first(["keyed", "append", "marked", "bucketed"], 1))
def test_large_changes_are_made_by_tasks(classic: Lake, large: None, kind: str) -> None:
    made(classic, kind, FIVE)
    view(classic, NINE)
    classic.sql(f"MERGE INTO db.t USING source ON t.a = source.a {CASES[0][3]}")
    assert content(classic) == CASES[0][4]
    with pytest.raises(InvalidError, match="MERGE_CARDINALITY_VIOLATION"):
        classic.sql(
            "MERGE INTO db.t USING (SELECT 2 AS a FROM range(2)) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = 1"
        )
    classic.sql("UPDATE db.t SET b = b + 1 WHERE a > 4")
    classic.sql("DELETE FROM db.t WHERE abs(a) = 2")
    rows = [(3, 300, "c33"), (5, 551, "c5"), (7, 701, "c77"), (9, 991, "c99")]
    assert content(classic) == rows
    classic.sql("MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED AND t.a = 9 THEN DELETE")
    assert content(classic) == rows[:-1]


@pytest.mark.parametrize("kind", first(["keyed", "append", "marked"], 2))
def test_others_change_the_rows_meanwhile(classic: Lake, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made(classic, kind, TWO)
    view(classic, CHANGES)
    publish, done = Commit.commit, []

    def late(self: Commit, *args: object, **more: object) -> object:
        if not done:
            done.append(True)
            classic.sql("MERGE INTO db.t USING source s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (a, 1)")
            classic.sql("UPDATE db.t SET b = 11 WHERE a = 1")
        return publish(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Commit, "commit", late)
    classic.sql(
        """MERGE INTO db.t USING source s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = t.b + s.b
        WHEN NOT MATCHED THEN INSERT *"""
    )
    assert content(classic) == [(1, 111, "c1"), (2, 20, "c2"), (3, 301, None)]


@pytest.mark.parametrize("kind", ["keyed", "append"])
def test_a_table_that_was_empty_is_merged_into_twice(classic: Lake, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made(classic, kind)
    view(classic, CHANGES)
    publish, done = Commit.commit, []
    statement = """MERGE INTO db.t USING source s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = t.b + 1
        WHEN NOT MATCHED THEN INSERT *"""

    def late(self: Commit, *args: object, **more: object) -> object:
        if not done:
            done.append(True)
            classic.sql(statement)
        return publish(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Commit, "commit", late)
    classic.sql(statement)
    assert content(classic) == [(1, 101, "c11"), (3, 301, "c33")]


def test_a_failed_merge_leaves_no_file(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made(classic, "append", FIVE)
    view(classic, NINE)
    store = classic.table("db.t").table.store

    def files() -> set[str]:
        return {str(path) for path in Path(store.paths.root).rglob("*") if "bucket-" in str(path)}

    before = files()

    def fail(self: Commit, *args: object, **more: object) -> None:
        raise ConflictError("lost")

    monkeypatch.setattr(Commit, "commit", fail)
    monkeypatch.setattr("bucketlake.ops.change.append_rows.ATTEMPTS", 2)
    with pytest.raises(ConflictError):
        classic.sql(f"MERGE INTO db.t USING source ON t.a = source.a {CASES[0][3]}")
    assert files() == before


def test_merges_in_sequence_equal_a_model(classic: Lake) -> None:
    chance = random.Random(11)
    for kind in ("keyed", "marked"):
        made(classic, kind, FIVE)
        model = {row[0]: row for row in FIVE}
        for _ in range(8 if SOAK else 3):
            keys = chance.sample(range(1, 9), 4)
            rows = [(key, chance.randrange(100), f"s{key}") for key in keys]
            view(classic, rows)
            limit = chance.randrange(100)
            classic.sql(
                f"""MERGE INTO db.t USING source s ON t.a = s.a
                WHEN MATCHED AND s.b < {limit} THEN DELETE WHEN MATCHED THEN UPDATE SET b = s.b + t.b
                WHEN NOT MATCHED AND s.b >= {limit} THEN INSERT *
                WHEN NOT MATCHED BY SOURCE AND t.b % 2 = 0 THEN UPDATE SET c = concat(c, '-')"""
            )
            given, before = {row[0]: row for row in rows}, set(model)
            for key, old in list(model.items()):
                if key in given and given[key][1] < limit:
                    del model[key]
                elif key in given:
                    model[key] = (key, given[key][1] + old[1], old[2])
                elif old[1] % 2 == 0:
                    model[key] = (key, old[1], f"{old[2]}-")
            model.update({key: row for key, row in given.items() if key not in before and row[1] >= limit})
        assert content(classic) == sorted(model.values(), key=repr)
        classic.sql("DROP TABLE db.t")


def test_errors_are_known(classic: Lake) -> None:
    with pytest.raises(BucketlakeError):
        classic.sql("MERGE INTO db.nowhere USING source ON true WHEN MATCHED THEN DELETE")


@pytest.fixture
def evolving(classic: Lake) -> Iterator[Lake]:
    """Sessions in which writes bring columns."""
    classic.spark.conf.set("spark.paimon.write.merge-schema", "true")
    yield classic
    classic.spark.conf.unset("spark.paimon.write.merge-schema")


BROUGHT = [
    (
        "WHEN MATCHED THEN UPDATE SET b = source.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (source.a, source.b)",
        [(1, "u1"), (2, "v2"), (3, "u3")],
    ),
    (
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT (a, b) VALUES (source.a, source.b)",
        [(1, "u1", 10), (2, "v2", None), (3, "u3", None)],
    ),
    (
        "WHEN MATCHED THEN UPDATE SET b = source.b WHEN NOT MATCHED THEN INSERT *",
        [(1, "u1", None), (2, "v2", None), (3, "u3", 30)],
    ),
    (
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [(1, "u1", 10), (2, "v2", None), (3, "u3", 30)],
    ),
    (
        "WHEN MATCHED THEN UPDATE SET t.C = source.c + 1 WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = 'kept'",
        [(1, "v1", 11), (2, "kept", None)],
    ),
    ("WHEN NOT MATCHED THEN INSERT (a, c) VALUES (a, c)", [(1, "v1", None), (2, "v2", None), (3, None, 30)]),
]


def test_columns_that_the_source_brings(evolving: Lake) -> None:
    view(evolving, [(1, "u1", 10), (3, "u3", 30)], "a int, b string, c int")
    for (clauses, expected), kind in zip(BROUGHT, cycle(("keyed", "append", "marked")), strict=False):
        made(evolving, kind, [(1, "v1"), (2, "v2")], "a INT, b STRING")
        evolving.sql(f"MERGE INTO db.t USING source ON t.a = source.a {clauses}")
        assert content(evolving) == expected, clauses
        evolving.sql("DROP TABLE db.t")
    made(evolving, "keyed", [(1, "v1")], "a INT, b STRING")
    with pytest.raises(InvalidError, match="nope"):
        evolving.sql("MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET nope = 1")
    evolving.spark.conf.set("spark.paimon.write.merge-schema", "false")
    evolving.sql("MERGE INTO db.t USING source ON t.a = source.a WHEN NOT MATCHED THEN INSERT *")
    assert content(evolving) == [(1, "v1"), (3, "u3")]
    evolving.sql("MERGE WITH SCHEMA EVOLUTION INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET *")
    assert content(evolving) == [(1, "u1", 10), (3, "u3", 30)]


def test_columns_that_the_source_lacks(evolving: Lake) -> None:
    for kind in ("keyed", "append"):
        made(evolving, kind, TWO)
        view(evolving, [(1, "c11"), (3, "c33")], "A int, c string")
        evolving.sql(
            "MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        assert content(evolving) == [(1, 10, "c11"), (2, 20, "c2"), (3, None, "c33")]
        evolving.sql("DROP TABLE db.t")


def test_members_that_the_source_brings_and_lacks(evolving: Lake) -> None:
    for kind in ("keyed", "append"):
        made(
            evolving,
            kind,
            [(1, ("a", ("c", "d"))), (2, ("x", None)), (4, None)],
            "a INT, i STRUCT<p: STRING, q: STRUCT<c: STRING, d: STRING>>",
        )
        view(
            evolving,
            [(1, (("C", "N"), "A"), 7), (2, None, 8), (3, (("n", "m"), "P"), 9), (4, None, 9)],
            "a int, i struct<q: struct<c: string, n: string>, P: string>, more int",
        )
        evolving.sql(
            "MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        assert content(evolving) == [
            (1, ("A", ("C", "d", "N")), 7),
            (2, (None, None), 8),
            (3, ("P", ("n", None, "m")), 9),
            (4, None, 9),
        ]
        evolving.sql("DROP TABLE db.t")
    made(evolving, "keyed", [(1, ("a", "b"))], "a INT, i STRUCT<p: STRING, q: STRING>")
    view(evolving, [(1, None)], "a int, i struct<p: string, q: string>")
    evolving.sql("MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET *")
    assert content(evolving) == [(1, None)]
