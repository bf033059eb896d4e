"""MERGE by its shorter ways: what is not read, what the driver does by itself, what tasks do."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException as SparkException
from tests.profile import first, later
from tests.sql.merges import AFTER_ALL, ALL_CLAUSES, CHANGES, FIVE, NINE, TWO, content, made, view

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.merge import held, pruning
from bucketlake.spark.merge.keyed import KeyedMerge
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake
from bucketlake.spark.write import tasks

pytestmark = pytest.mark.spark


def test_an_upsert_reads_nothing_of_the_table(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made(classic, "keyed", TWO)
    view(classic, CHANGES)

    def refuse(*_: object) -> None:
        raise AssertionError("the table was read")

    monkeypatch.setattr(KeyedMerge, "_target", refuse)
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
        for on in ("t.a = s.a AND t.pt = s.pt", "t.a = s.a AND t.pt IN ('p1', 'p3')"):
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


def all_in_tasks(patch: pytest.MonkeyPatch) -> None:
    """Nothing is small enough for the driver."""
    patch.setattr(reader, "SMALL_ROWS", 0)
    patch.setattr(reader, "SMALL_BYTES", 0)
    patch.setattr(held, "FEW_ROWS", 0)
    patch.setattr(tasks, "SMALL_ROWS", 0)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    all_in_tasks(monkeypatch)


@pytest.mark.parametrize("kind", first(["keyed", "append", "marked", "bucketed"], 1))
def test_large_changes_are_made_by_tasks(classic: Lake, large: None, kind: str) -> None:
    made(classic, kind, FIVE)
    view(classic, NINE)
    classic.sql(f"MERGE INTO db.t USING source ON t.a = source.a {ALL_CLAUSES}")
    assert content(classic) == AFTER_ALL
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


@pytest.mark.parametrize("kind", first(["keyed", "append"], 1))
@pytest.mark.parametrize("room", later([200, 0, 1000], 1), ids=["keys", "no column", "whole rows"])
def test_sources_too_wide_for_every_task(classic: Lake, large: None, kind: str, room: int) -> None:
    """Of nine rows: what is sent to the target's rows is the source, the values that ON compares, or nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held, "BROADCAST_BYTES", room)
        made(classic, kind, FIVE)
        view(classic, NINE)
        classic.sql(f"MERGE INTO db.t USING source ON t.a = source.a {ALL_CLAUSES}")
        assert content(classic) == AFTER_ALL
        classic.sql("MERGE INTO db.t USING source AS `s t` ON t.a = `s t`.a AND t.b < 0 WHEN MATCHED THEN UPDATE SET *")
        assert content(classic) == AFTER_ALL
        itself = "(SELECT a, b + 1 AS b, c FROM db.t WHERE a > 4) AS s ON t.a = s.a"
        classic.sql(f"MERGE INTO db.t USING {itself} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
        assert content(classic) == [(a, b + 1 if a > 4 else b, c) for a, b, c in AFTER_ALL]
        classic.sql("DROP TABLE db.t")


PLAIN = {
    "o BOOLEAN": "true",
    "i SMALLINT": "7S",
    "f FLOAT": "float('-0.0')",
    "d DOUBLE": "double('NaN')",
    "n DECIMAL(20, 3)": "12345678901234567.125",
    "s STRING": "'text'",
    "x BINARY": "X'00ff'",
    "t DATE": "DATE'2020-02-29'",
    "z TIMESTAMP": "TIMESTAMP'2020-02-29 12:00:00.123456'",
    "w INT DEFAULT 5": "6",
}
OTHERS = {
    "c CHAR(4)": "'ab'",
    "v VARCHAR(3)": "'xy '",
    "l ARRAY<INT>": "array(1, null)",
    "r STRUCT<m: INT>": "named_struct('m', 3)",
}


@pytest.mark.slow
@pytest.mark.parametrize("columns", [PLAIN, OTHERS], ids=["plain", "others"])
def test_the_driver_writes_what_tasks_write(classic: Lake, columns: dict[str, str]) -> None:
    names = [column.split()[0] for column in columns]
    values = ", ".join(f"{value} AS {name}" for name, value in zip(names, columns.values(), strict=True))
    nulls = ", ".join(f"NULL AS {name}" for name in names)
    shown = ", ".join(["a", *(f"hex({name})" if name == "x" else f"string({name}) AS {name}" for name in names)])
    found = []
    for kind, tasked in (("keyed", False), ("append", False), ("append", True)):
        with pytest.MonkeyPatch.context() as patch:
            if tasked:
                all_in_tasks(patch)
            made(classic, kind, columns=f"a INT, {', '.join(columns)}")
            classic.sql(f"INSERT INTO db.t SELECT id, {nulls} FROM range(4)")
            last = names[-1]
            classic.sql(
                f"""MERGE INTO db.t USING (SELECT int(id) a, {values} FROM range(1, 6)) s ON t.a = s.a
                WHEN MATCHED AND t.a = 1 THEN DELETE WHEN MATCHED AND t.a = 2 THEN UPDATE SET {last} = s.{last}
                WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.a = 4 THEN INSERT (a) VALUES (a)
                WHEN NOT MATCHED THEN INSERT *"""
            )
            found.append([tuple(row) for row in classic.sql(f"SELECT {shown} FROM db.t ORDER BY a").collect()])
            classic.sql("DROP TABLE db.t")
    assert found[0] == found[1] == found[2]
    assert [row[0] for row in found[0]] == [0, 2, 3, 4, 5]
    assert found[0][2][1:] == found[0][4][1:]
    assert None not in found[0][2]


def test_keys_with_nulls_match_nothing(classic: Lake) -> None:
    for kind in ("append", "marked"):
        made(classic, kind, [(1, 10, "c1"), (None, 20, "c2")])
        view(classic, [(1, 11, "n1"), (None, 21, "n2"), (None, 22, "n3")])
        classic.sql(
            """MERGE INTO db.t USING source s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b
            WHEN NOT MATCHED THEN INSERT *"""
        )
        assert content(classic) == sorted(
            [(1, 11, "c1"), (None, 20, "c2"), (None, 21, "n2"), (None, 22, "n3")], key=repr
        )
        classic.sql("DROP TABLE db.t")


def test_a_row_is_deleted_once_and_another_may_come_in_its_place(classic: Lake) -> None:
    for tasked in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if tasked:
                all_in_tasks(patch)
            made(classic, "keyed", FIVE)
            classic.sql(
                "MERGE INTO db.t USING (SELECT 2 + id % 2 AS a FROM range(7)) s ON t.a = s.a WHEN MATCHED THEN DELETE"
            )
            snapshot = classic.table("db.t").table.latest_snapshot()
            assert snapshot is not None
            assert snapshot.delta_record_count == 2
            view(classic, CHANGES)
            classic.sql(
                """MERGE INTO db.t USING source s ON t.a = s.a AND t.b < 0
                WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"""
            )
            assert content(classic) == sorted(CHANGES, key=repr)
            classic.sql("DROP TABLE db.t")


@pytest.mark.parametrize("kind", later(["ARRAY<INT>", "INT"], 1))
def test_an_engine_that_merges_gets_no_row_in_the_place_of_another(classic: Lake, kind: str) -> None:
    """Written together, the deleted row's values would be in the new one, or the new row be gone."""
    classic.sql(
        f"CREATE TABLE db.t (a INT, b INT, c {kind}) TBLPROPERTIES ('primary-key' = 'a', 'merge-engine' = "
        "'partial-update', 'partial-update.remove-record-on-delete' = 'true')"
    )
    classic.sql("INSERT INTO db.t (a, b) VALUES (1, 1), (2, 2)")
    merge = """MERGE INTO db.t USING (SELECT {} AS a, 9 AS b) s ON t.a = s.a AND t.b = s.b
        WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, s.b) WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    with pytest.raises(UnsupportedError, match="inserts a row under the key of one that it deletes"):
        classic.sql(merge.format(1))
    assert content(classic) == [(1, 1, None), (2, 2, None)]
    classic.sql(merge.format(3))
    assert content(classic) == [(3, 9, None)]


@pytest.mark.parametrize("on", later(["t.a = s.a AND t.b = s.b", "t.a = s.a AND t.b < 0"], 1))
def test_a_new_row_under_the_key_of_one_that_goes_stays(classic: Lake, on: str) -> None:
    """What matches no row may have the key of one, where the condition compares more than the key."""
    for tasked in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if tasked:
                all_in_tasks(patch)
            made(classic, "keyed", columns="a INT, b INT, r ARRAY<INT>")
            classic.sql("INSERT INTO db.t SELECT id, id, array() FROM range(9)")
            classic.sql(
                f"""MERGE INTO db.t USING (SELECT int(id) AS a, int(id) + 1 AS b FROM range(9)) s ON {on}
                WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, s.b) WHEN NOT MATCHED BY SOURCE THEN DELETE"""
            )
            assert content(classic) == [(key, key + 1, None) for key in range(9)]
            classic.sql("DROP TABLE db.t")


@pytest.mark.parametrize(("sequence", "rows"), later([(5, []), (15, [(1, 9, 15)]), (10, [(1, 9, 10)])], 2))
def test_a_delete_and_a_row_in_its_place_fall_by_their_sequence(
    classic: Lake, sequence: int, rows: list[tuple[int, ...]]
) -> None:
    """As written by the driver, so by tasks: a row that was deleted is never back."""
    for tasked in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if tasked:
                all_in_tasks(patch)
            made(classic, "keyed", columns="a INT, b INT, q INT")
            classic.sql("ALTER TABLE db.t SET TBLPROPERTIES ('sequence.field' = 'q')")
            classic.sql("INSERT INTO db.t VALUES (1, 1, 10), (2, 2, 10)")
            classic.sql(
                f"""MERGE INTO db.t USING (SELECT 1 AS a, 9 AS b, {sequence} AS q) s ON t.a = s.a AND t.b = s.b
                WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"""
            )
            assert content(classic) == rows
            classic.sql("DROP TABLE db.t")


def test_a_key_of_several_partitions_is_a_row_in_each(classic: Lake) -> None:
    """A source row may match them all, and several may delete them."""
    for tasked in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if tasked:
                all_in_tasks(patch)
            classic.sql(
                "CREATE TABLE db.t (a INT, b INT, p INT) PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1')"
            )
            classic.sql("INSERT INTO db.t VALUES (1, 10, 1), (1, 20, 2), (2, 30, 1), (2, 40, 2), (3, 50, 1)")
            one = "(SELECT 1 AS a, 5 AS b) s ON t.a = s.a"
            classic.sql(f"MERGE INTO db.t USING {one} WHEN MATCHED THEN UPDATE SET b = t.b + s.b")
            classic.sql("MERGE INTO db.t USING (SELECT 2 AS a FROM range(3)) s ON t.a = s.a WHEN MATCHED THEN DELETE")
            assert content(classic) == [(1, 15, 1), (1, 25, 2), (3, 50, 1)]
            classic.sql("DROP TABLE db.t")


def test_few_rows_of_a_source_that_match_many(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "FEW_ROWS", 3)
    for kind in ("keyed", "append"):
        made(classic, kind, [(number, number % 2, "old") for number in range(20)])
        view(classic, [(100, 1, "new"), (101, 7, "other")])
        classic.sql(
            """MERGE INTO db.t USING source s ON t.b = s.b WHEN MATCHED THEN UPDATE SET c = s.c
            WHEN NOT MATCHED THEN INSERT *"""
        )
        rows = [(number, number % 2, "new" if number % 2 else "old") for number in range(20)]
        assert content(classic) == sorted([*rows, (101, 7, "other")], key=repr)
        classic.sql("DROP TABLE db.t")


@pytest.mark.parametrize("kind", later(["keyed", "append"], 1))
def test_few_rows_that_the_driver_cannot_take(classic: Lake, kind: str) -> None:
    """Rows may be few and wide: what `spark.driver.maxResultSize` refuses stays with the executors."""

    made(classic, kind, TWO)
    settings = classic.spark.sparkContext._jsc.sc().conf()
    settings.set("spark.driver.maxResultSize", "10m")
    try:
        classic.sql(
            """MERGE INTO db.t USING (SELECT CAST(id AS INT) AS a, 7 AS b, repeat(uuid(), 500) AS c FROM range(2, 1000)) s
            ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b, c = s.c WHEN NOT MATCHED THEN INSERT *"""
        )
    finally:
        settings.remove("spark.driver.maxResultSize")
    counted = classic.sql("SELECT count(*), count(DISTINCT c), sum(b), min(length(c)) FROM db.t WHERE a > 1").collect()
    assert [tuple(row) for row in counted] == [(998, 998, 998 * 7, 18000)]


def test_a_star_in_a_value_has_all_columns(classic: Lake) -> None:
    made(classic, "keyed", TWO)
    classic.sql(
        """MERGE INTO db.t USING (SELECT 1 AS a, 5 AS n) s ON t.a = s.a
        WHEN MATCHED THEN UPDATE SET a = s.a, b = s.n * 2, c = to_json(struct(t.*))"""
    )
    assert content(classic) == [(1, 10, '{"a":1,"b":10,"c":"c1"}'), (2, 20, "c2")]


@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.parametrize(
    ("few", "values", "far"), [(True, True, 500), (False, True, 500), (False, False, 5000)], ids=["few", "many", "ends"]
)
def test_of_many_values_the_ranges_leave_files_out(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str, few: bool, values: bool, far: int
) -> None:
    """Rows in the driver, rows that executors keep, and rows too many to look at each: a file in between, or behind
    the last, is not opened."""
    monkeypatch.setattr(pruning, "MOST_VALUES", 1)
    if not few:
        monkeypatch.setattr(held, "FEW_ROWS", 1)
    if not values:
        monkeypatch.setattr(held, "MOST_VALUES", 1)
    made(classic, kind, [(number, 0, "old") for number in (1, 2, 3, 1000)])
    classic.table("db.t").write(classic.spark.createDataFrame([(far, 0, "far")], "a int, b int, c string"))
    (lost,) = (file for file in classic.table("db.t").table.files(f"a = {far}") if file.file.row_count == 1)
    classic.table("db.t").table.store.env.storage.delete(lost.path)
    view(classic, [(1, 10, "x"), (3, 30, "y"), (None, 0, "z"), (1000, 40, "w")])
    classic.sql("MERGE INTO db.t USING source s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b, c = s.c")
    found = classic.sql("SELECT a, b FROM db.t WHERE a < 4 OR a = 1000").collect()
    assert sorted(tuple(row) for row in found) == [(1, 10), (2, 0), (3, 30), (1000, 40)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=60))
def test_ranges_hold_every_value(values: list[int]) -> None:
    found = [(a.as_py(), b.as_py()) for a, b in pruning._ranges(pa.array(values, pa.int64()).unique())]
    assert all(any(a <= value <= b for a, b in found) for value in values)
    assert len(found) <= pruning.RANGES
    assert (found[0][0], found[-1][1]) == (min(values), max(values))
    assert all(one[1] < two[0] for one, two in pairwise(found))


@pytest.mark.parametrize("kind", ["'primary-key' = 'k'", "'bucket' = '-1'"], ids=["keyed", "append"])
def test_columns_that_differ_by_case(classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    classic.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        classic.sql(f"CREATE TABLE db.t (k INT, a INT, A INT, K INT) TBLPROPERTIES ({kind})")
        classic.sql("INSERT INTO db.t VALUES (1, 10, 20, 5), (2, 30, 40, 6)")
        merge = "MERGE INTO db.t USING (SELECT 1 AS k, 7 AS b) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET "
        classic.sql(merge + "K = t.a")
        assert content(classic) == [(1, 10, 20, 10), (2, 30, 40, 6)]
        classic.sql(merge + "a = t.A, A = t.a")
        assert content(classic) == [(1, 20, 10, 10), (2, 30, 40, 6)]
        if "primary" in kind:
            with pytest.raises((InvalidError, SparkException), match="Can't update the primary key"):
                classic.sql(merge + "k = t.K")
    finally:
        classic.spark.conf.unset("spark.sql.caseSensitive")
