"""Statements over tables whose columns lie in several files: what they write, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F
from tests.profile import later

from bucketlake.errors import BucketlakeError, InvalidError, UnsupportedError
from bucketlake.ops.change import column_updates
from bucketlake.spark.read import hidden, reader
from bucketlake.spark.session import Lake
from bucketlake.spark.write import column_updates as stages

pytestmark = pytest.mark.spark

WITH = (
    "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', 'compaction.min.file-num' = '2'"
)
ALL = "SELECT *, _ROW_ID, _SEQUENCE_NUMBER FROM t ORDER BY id"
Rows = list[tuple[Any, ...]]


def rows(lake: Lake, statement: str = ALL) -> Rows:
    return [tuple(row) for row in lake.sql(statement).collect()]


def files(lake: Lake) -> Rows:
    """(first row id, rows, columns) of each file."""
    return rows(lake, "SELECT first_row_id, record_count, write_cols FROM `t$files` ORDER BY first_row_id, write_cols")


@pytest.mark.parametrize("where", later(["driver", "tasks"], 1))
def test_statements(classic: Lake, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = classic
    if where == "tasks":
        for module in (reader, hidden, stages):
            monkeypatch.setattr(module, "SMALL_ROWS", -1)
        monkeypatch.setattr("bucketlake.spark.merge.held.FEW_ROWS", -1)
    lake.sql(f"CREATE TABLE t (id INT, b INT, c STRING) {WITH}, 'deletion-vectors.enabled' = 'true')")
    lake.sql("INSERT INTO t SELECT /*+ REPARTITION(1) */ id, id, 'a' FROM range(1, 4)")
    lake.sql("INSERT INTO t VALUES (4, 4, 'a')")
    lake.sql("UPDATE t SET b = b * 10 + _ROW_ID WHERE id > 2")
    expected = [(1, 1, "a", 0, 3), (2, 2, "a", 1, 3), (3, 32, "a", 2, 3), (4, 43, "a", 3, 3)]
    assert rows(lake) == expected
    assert files(lake) == [(0, 3, None), (0, 3, ["b"]), (3, 1, None), (3, 1, ["b"])]
    lake.sql("ALTER TABLE t ADD COLUMN d STRUCT<x: INT, y: STRING>")
    lake.sql("MERGE INTO t USING (SELECT * FROM VALUES (2, 'm'), (4, 'gone'), (7, 'new') AS s(id, c)) s ON t.id = s.id "
             "WHEN MATCHED AND s.c = 'gone' THEN DELETE "
             "WHEN MATCHED THEN UPDATE SET c = s.c, d = named_struct('x', t.b, 'y', s.c) "
             "WHEN NOT MATCHED THEN INSERT (id, c) VALUES (s.id, s.c) "
             "WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET c = 'alone'")  # fmt: skip
    assert rows(lake, "SELECT id, b, c, d.x, d.y, _ROW_ID FROM t ORDER BY id") == [
        (1, 1, "a", None, None, 0),
        (2, 2, "m", 2, "m", 1),
        (3, 32, "alone", None, None, 2),
        (7, None, "new", None, None, 4),
    ]
    assert (0, 3, ["c", "d"]) in files(lake)
    lake.sql("UPDATE t SET d.y = 'w', b = NULL WHERE id = 2 AND b IN (SELECT max(b) FROM t WHERE id < 3)")
    lake.sql(
        "MERGE INTO t USING t AS s ON t._ROW_ID = s._ROW_ID WHEN MATCHED AND s.id = 1 THEN UPDATE SET c = s.c || '+'"
    )
    lake.sql("DELETE FROM t WHERE length(c) > 3 AND id = 3")
    expected = [(1, 1, "a+", None, None, 0), (2, None, "m", 2, "w", 1), (7, None, "new", None, None, 4)]
    shown = "SELECT id, b, c, d.x, d.y, _ROW_ID FROM t ORDER BY id"
    assert rows(lake, shown) == expected
    assert rows(lake, "SELECT count(*), sum(id), max(c) FROM t") == [(3, 10, "new")]
    assert rows(lake, "SELECT id FROM t WHERE b = 1") == [(1,)]
    assert rows(lake, "SELECT id FROM t WHERE b = 32") == []
    assert len(lake.sql("SELECT * FROM t LIMIT 2").collect()) == 2
    assert rows(lake, "SELECT id, b FROM t VERSION AS OF 2 ORDER BY id") == [(1, 1), (2, 2), (3, 3), (4, 4)]
    lake.sql("CALL sys.compact(table => 't')")
    assert rows(lake, shown) == expected
    assert files(lake) == [(0, 5, None)]
    table = lake.table("t")
    table.update({"b": F.col("id") + 1}, "id = 7")
    table.delete("id = 1")
    assert rows(lake, "SELECT id, b FROM t ORDER BY id") == [(2, None), (7, 8)]
    source = lake.spark.sql("SELECT 2 AS id, 5 AS b")
    table.merge(source, "t.id = source.id").whenMatched().update({"b": F.col("source.b")}).merge()
    assert rows(lake, "SELECT id, b FROM t ORDER BY id") == [(2, 5), (7, 8)]
    lake.sql("INSERT OVERWRITE t SELECT 9, 9, 'z', NULL")
    assert rows(lake, shown) == [(9, 9, "z", None, None, 5)]
    assert not table.fsck(level="rows").findings


def test_a_compaction_that_may_give_out_ids_removes_deleted_rows(classic: Lake) -> None:
    classic.sql(f"CREATE TABLE t (id INT, b INT) {WITH}, 'deletion-vectors.enabled' = 'true')")
    classic.sql("INSERT INTO t SELECT /*+ REPARTITION(1) */ id, id FROM range(0, 3)")
    classic.sql("DELETE FROM t WHERE id = 1")
    classic.sql("CALL sys.compact(table => 't', options => 'data-evolution.compaction.rewrite-row-ids=true')")
    assert rows(classic, "SELECT id, b, _ROW_ID FROM t ORDER BY id") == [(0, 0, 3), (2, 2, 4)]
    assert files(classic) == [(3, 2, None)]


def test_what_is_refused(classic: Lake) -> None:
    lake = classic
    lake.sql(f"CREATE TABLE t (id INT, b INT, p STRING) PARTITIONED BY (p) {WITH})")
    lake.sql("INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')")
    newest = lake.table("t").latest_snapshot()
    for statement, kind, words in (
        ("DELETE FROM t WHERE id = 1", UnsupportedError, "DeletionVector enabled"),
        ("UPDATE t SET p = 'z' WHERE id = 1", UnsupportedError, "Update to partition columns is not supported"),
        ("MERGE INTO t USING (SELECT 1 AS k) s ON t.id = s.k WHEN MATCHED THEN DELETE", UnsupportedError, "MERGE INTO DELETE"),
        ("MERGE INTO t USING (SELECT 1 AS k) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET p = 'z', b = 1", BucketlakeError, "partition columns"),
        ("MERGE INTO t USING (SELECT 1 AS k UNION ALL SELECT 1) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET b = 5", InvalidError, "CARDINALITY"),
        ("CALL sys.compact(table => 't', order_strategy => 'order', order_by => 'id')", UnsupportedError, "cannot be sorted"),
        ("CALL sys.rewrite_file_index(table => 't')", UnsupportedError, "file indexes"),
    ):  # fmt: skip
        with pytest.raises(Exception, match=words) as raised:
            lake.sql(statement)
        assert isinstance(raised.value, kind) or kind is BucketlakeError, statement
    assert lake.table("t").latest_snapshot() == newest
    lake.sql("MERGE INTO t USING (SELECT 1 AS id, 7 AS b, 'x' AS p) s ON t.id = s.id AND t.p = s.p "
             "WHEN MATCHED THEN UPDATE SET *")  # fmt: skip
    lake.sql("DELETE FROM t WHERE p = 'y'")
    assert rows(lake) == [(1, 7, "x", 0, 2)]


@pytest.mark.slow
def test_merges_at_once(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another MERGE comes between: of other columns both stand, else the one that lost is evaluated anew."""
    lake = classic
    real = column_updates.Commit.commit
    merge = "MERGE INTO t USING (SELECT 1 AS k, {v} AS v) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET {set}"
    for place, (others, mine, expected, again) in enumerate((
        ("c = s.v", "b = t.b + s.v", (1, 11, 100), False),
        ("b = s.v", "b = t.b + s.v", (1, 110, 1), True),
        ("b = s.v", "c = t.b + s.v", (1, 100, 110), True),
        ("id = s.v", "b = s.v", (100, 1, 1), True),
    )):  # fmt: skip
        lake.sql(f"CREATE OR REPLACE TABLE t (id INT, b INT, c INT) {WITH})")
        lake.sql("INSERT INTO t VALUES (1, 1, 1)")
        waiting = [merge.format(v=100, set=others)]
        tries = []

        def commit(self: Any, *args: Any, **more: Any) -> Any:
            tries.append(1)
            if waiting:
                lake.sql(waiting.pop())
            return real(self, *args, **more)

        monkeypatch.setattr(column_updates.Commit, "commit", commit)
        lake.sql(merge.format(v=10, set=mine))
        monkeypatch.setattr(column_updates.Commit, "commit", real)
        assert rows(lake, "SELECT * FROM t") == [expected], place
        assert (len(tries) == 3) is again, place


def test_both_sessions(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE t (id INT, b DECIMAL(9, 2), c TIMESTAMP) {WITH})")
    lake.sql("INSERT INTO t VALUES (1, 1.5, TIMESTAMP '2024-01-01 00:00:00'), (2, 2.5, NULL)")
    lake.sql("UPDATE t SET b = 3.25, c = TIMESTAMP '2024-06-01 12:00:00' WHERE id = 2")
    lake.sql("MERGE INTO t USING (SELECT 1 AS k) s ON t._ROW_ID = s.k - 1 WHEN MATCHED THEN UPDATE SET b = b + 1")
    found = rows(lake, "SELECT id, CAST(b AS STRING), CAST(c AS STRING), _ROW_ID FROM t ORDER BY id")
    assert found == [(1, "2.50", "2024-01-01 00:00:00", 0), (2, "3.25", "2024-06-01 12:00:00", 1)]


def test_char_that_a_merge_sets_is_padded(classic: Lake) -> None:
    """As UPDATE and INSERT do: another engine compares what is stored."""
    classic.sql(f"CREATE TABLE t (id INT, c CHAR(3), v VARCHAR(2) DEFAULT 'dd') {WITH})")
    classic.sql("INSERT INTO t VALUES (1, 'a', 'a'), (2, 'b', 'b')")
    source = "(SELECT * FROM VALUES (1, 'x', 'y   '), (3, 'z', 'z ') AS s(id, c, v)) s ON t.id = s.id"
    star = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    classic.sql(f"MERGE INTO t USING {source} {star} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET c = 'q', v = NULL")
    found = [tuple(row.values()) for row in classic.table("t").table.to_arrow().to_pylist()]
    assert sorted(found) == [(1, "x  ", "y "), (2, "q  ", None), (3, "z  ", "z ")]
    with pytest.raises(InvalidError, match="longer than its column"):
        classic.sql("MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET c = 'four'")
