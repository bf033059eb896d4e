"""What Flink says by procedures: merge_into, data_evolution_merge_into, alter_column_default_value; deleted rows that go."""

from __future__ import annotations

from typing import Any

import pytest

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.session import Lake
from bucketlake.sql.procedures.merging import expressions, settings

pytestmark = pytest.mark.spark
EVOLVING = "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', 'deletion-vectors.enabled' = 'true'"


def rows(lake: Lake, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(statement).collect()]


def test_texts() -> None:
    assert settings("a = s.x, T.`b c` = concat(s.y, ',', '=')", "t") == {
        "`a`": "s.x",
        "`b c`": "concat(s.y, ',', '=')",
    }
    assert settings("r.m = 1", "t") == {"`r`.`m`": "1"}
    assert expressions("s.x, CASE WHEN a = 1, THEN 2 END") == ["s.x", "CASE WHEN a = 1, THEN 2 END"]
    for wrong in ("a", "a = 1, a = 2", "a = 1; DROP TABLE t", "a = (1", "", "a = 1,"):
        with pytest.raises(InvalidError):
            settings(wrong, "t")


def test_merge_into(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (k INT, v STRING, n INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    lake.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)")
    source = "SELECT * FROM VALUES (1, 'A', 10), (2, 'gone', 20), (9, 'new', 90) AS x(a, b, c)"
    result = rows(lake, f"""CALL sys.merge_into(
        target_table => 'db.t', target_alias => 'T', source_sqls => 'CREATE OR REPLACE TEMPORARY VIEW s AS {source.replace("'", "''")};',
        source_table => 's', merge_condition => 'T.k = s.a',
        matched_upsert_condition => 's.b <> ''gone''', matched_upsert_setting => 'v = s.b, n = T.n + s.c',
        matched_delete_condition => 's.b = ''gone''', not_matched_insert_values => 's.a, s.b, s.c',
        not_matched_by_source_upsert_condition => 'T.k = 3', not_matched_by_source_upsert_setting => 'n = 0',
        not_matched_by_source_delete_condition => 'T.k > 3')""")  # fmt: skip
    assert result == [("Success",)]
    assert rows(lake, "SELECT * FROM t ORDER BY k") == [(1, "A", 11), (3, "c", 0), (9, "new", 90)]
    lake.sql("CALL sys.merge_into('t', '', '', 's', 't.k = s.a', '', '*', '', '*', '')")
    assert rows(lake, "SELECT * FROM t ORDER BY k") == [(1, "A", 10), (2, "gone", 20), (3, "c", 0), (9, "new", 90)]
    lake.sql("CREATE TABLE a (k INT)")
    for call, error, says in [
        ("'t', '', '', '', 't.k = s.a', '', '*'", InvalidError, "Must specify source table"),
        ("'t', '', '', 's', 't.k = s.a'", InvalidError, "at least one merge action"),
        ("'t', '', '', 's', 't.k = s.a', 's.b = 1', ''", InvalidError, "must set the 'matched_upsert_setting'"),
        ("'t', '', '', 's', 't.k = s.a', '', '*', '', '', 'TRUE'", InvalidError, "must both be present"),
        ("'t', '', '', 's', 't.k = s.a) OR (1 = 1', '', '*'", InvalidError, "bracket"),
        ("'t', '', '', 's', 't.k = s.a', '', '', '', 's.a, s.b'", InvalidError, "schema of result"),
        ("'a', '', '', 's', 'a.k = s.a', '', '*'", UnsupportedError, "no primary keys"),
    ]:
        with pytest.raises(error, match=says):
            lake.sql(f"CALL sys.merge_into({call})")
    lake.sql("CALL sys.alter_column_default_value('db.t', 'v', 'none')")
    lake.sql("INSERT INTO t (k) VALUES (5)")
    assert rows(lake, "SELECT v FROM t WHERE k = 5") == [("none",)]
    lake.sql("DROP VIEW s")
    frame = lake.read_table("t", read_changelog=True)
    assert frame.columns == ["rowkind", "k", "v", "n"]
    assert frame.where("k = 5").collect()[0]["rowkind"] == "+I"
    with pytest.raises(InvalidError, match="not with a system table"):
        lake.table("t$snapshots").read(read_changelog=True)
    with pytest.raises(UnsupportedError, match="audit_log"):
        lake.sql("SELECT * FROM t /*+ OPTIONS('read.changelog' = 'true') */")


def test_columns_and_deleted_rows(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    lake.sql(f"CREATE TABLE t (k INT, v STRING, n INT) TBLPROPERTIES ({EVOLVING})")
    lake.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    lake.sql("CREATE TABLE s (k INT, v STRING)")
    lake.sql("INSERT INTO s VALUES (1, 'A'), (9, 'Z')")
    one = "CALL sys.data_evolution_merge_into('t', 'X', '', 's', 'X.k = s.k', 'X.v = s.v', 1)"
    assert rows(lake, one) == [("Success",)]
    assert rows(lake, "SELECT v FROM t ORDER BY k") == [("A",), ("b",), ("c",)]
    lake.sql(
        "CALL sys.data_evolution_merge_into(target_table => 't', source_table => 's', merge_condition => 't.k = s.k',"
        " source_sqls => 'INSERT OVERWRITE s VALUES (2, ''B'')', matched_update_set => '*', sink_parallelism => 2)"
    )
    assert rows(lake, "SELECT k, v, n, _ROW_ID FROM t ORDER BY k") == [(1, "A", 1, 0), (2, "B", 2, 1), (3, "c", 3, 2)]
    with pytest.raises(UnsupportedError, match="Only DataEvolutionTable"):
        lake.sql("CALL sys.data_evolution_merge_into('s', '', '', 't', 't.k = s.k', 'v = t.v', 1)")
    lake.sql("DELETE FROM t WHERE k = 1")
    with pytest.raises(InvalidError, match="partitions and where"):
        lake.sql("CALL sys.materialize_deletion_vectors(table => 't', partitions => 'k=1', where => 'k = 1')")
    assert rows(lake, "CALL sys.materialize_deletion_vectors(table => 'db.t')") == [(True,)]
    assert rows(lake, "SELECT k, v, n, _ROW_ID FROM t ORDER BY k") == [(2, "B", 2, 3), (3, "c", 3, 4)]
    assert rows(lake, "SELECT record_count, write_cols FROM `t$files`") == [(2, None)]
    lake.sql(f"CREATE TABLE r (id INT, pt STRING) PARTITIONED BY (pt) TBLPROPERTIES ({EVOLVING})")
    for number in range(3):
        lake.sql(f"INSERT INTO r VALUES ({number}, '{'ab'[number % 2]}')")
    skipped = "Skipped. Row IDs for table 'db.r' were not reassigned because no partition requires"
    assert rows(lake, "CALL sys.reassign_row_id(table => 'r', partitions => 'pt=b')")[0][0].startswith(skipped)
    assert rows(lake, "CALL sys.reassign_row_id('r')") == [
        (
            "Success. Reassigned row IDs for table 'db.r': snapshot 3 -> 4, nextRowId 3 -> 5, files=2, rows=2, "
            "indexFiles=0.",
        )
    ]
    assert rows(lake, "SELECT id, _ROW_ID FROM r ORDER BY id") == [(0, 3), (1, 1), (2, 4)]
    with pytest.raises(InvalidError, match="only supports unaware-bucket data evolution"):
        lake.sql("CALL sys.materialize_deletion_vectors('s')")
